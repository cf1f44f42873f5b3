//! Arrays as the kernels of groups read them: in place, where 16 bytes can be read at once.

use mlx_vulkan_core::{
    Array, Result, array::Data, graph::Node, primitives::Primitive, shape::is_row_contiguous,
};

use crate::kernels::{Ctx, Operand, Region, matvec::Weights};

/// An array in place, if it is dense and begins where 16 bytes can be read at once.
pub(super) fn dense(ctx: &mut Ctx<'_>, array: &Array) -> Result<Option<Operand>> {
    if !array.evaluated().layout.flags.row_contiguous {
        return Ok(None);
    }
    let at = ctx.input(array)?;
    Ok(at.is_aligned(16).then_some(at))
}

/// The matrix of a product, if it lies in one piece with dense rows.
pub(super) fn matrix(
    ctx: &mut Ctx<'_>,
    node: &Node,
    outputs: u32,
    reads: &mut impl Extend<Region>,
) -> Result<Option<Weights>> {
    let plain = matches!(node.primitive, Primitive::Matmul(_));
    let mut parts = [0; 3];
    let count = if plain { 1 } else { parts.len() };
    for (part, array) in parts.iter_mut().zip(&node.inputs[1..]).take(count) {
        let Data { layout, .. } = array.evaluated();
        let in_place = match plain {
            true => transposed(array.shape(), &layout.strides),
            false => layout.flags.row_contiguous,
        };
        if !in_place {
            return Ok(None);
        }
        let at = ctx.input(array)?;
        reads.extend([at.region]);
        *part = at.address;
    }
    let [words, scales, biases] = parts;
    let matrix = Weights { words, scales, biases, outputs, ..Weights::default() };
    Ok(words.is_multiple_of(16).then_some(matrix))
}

/// Whether an array is one matrix, repeated or not, whose columns are dense rows.
fn transposed(shape: &[usize], strides: &[isize]) -> bool {
    let batch = shape.len() - 2;
    let one = (0..batch).all(|axis| shape[axis] == 1 || strides[axis] == 0);
    let (inner, outputs) = (shape[batch], shape[batch + 1]);
    one && is_row_contiguous(&[outputs, inner], &[strides[batch + 1], strides[batch]])
}
