//! Selection between two arrays.

use mlx_vulkan_core::{Array, Dtype, Element, Result, backend::Output, primitives::TernaryOp};

use crate::{
    elementwise::{BLOCK, Loop, dispatch_size, for_chunks},
    encoder::{Encoder, In, Out},
    strided::Source,
};

/// Encodes `out = op(condition, a, b)`; all have the output's shape.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: TernaryOp,
    inputs: &[Array; 3],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let inputs = inputs.each_ref().map(In::from);
    let kernel = kernel(op, out.dtype);
    dispatch_size!(out.dtype, T => enc.push(move || run::<T>(&inputs, &out, &kernel)))
}

/// The loop of `op` on a condition and two operands of a dtype.
pub(crate) fn kernel(op: TernaryOp, dtype: Dtype) -> Loop {
    match op {
        TernaryOp::Select => dispatch_size!(dtype, T => Box::new(select::<T>)),
    }
}

/// `out = condition ? a : b`.
fn select<T: Element>(operands: &[&[u8]], out: &mut [u8]) {
    let [a, b] = [1, 2].map(|i| bytemuck::cast_slice::<u8, T>(operands[i]));
    let choices = operands[0].iter().zip(a.iter().zip(b));
    let out: &mut [T] = bytemuck::cast_slice_mut(out);
    out.iter_mut().zip(choices).for_each(|(x, (&c, (&a, &b)))| *x = if c != 0 { a } else { b });
}

fn run<T: Element>([condition, a, b]: &[In; 3], out: &Out, kernel: &Loop) {
    let (conditions, left, right) = (condition.read::<u8>(), a.read::<T>(), b.read::<T>());
    let conditions = Source::row_major(&conditions, condition);
    let (left, right) = (Source::row_major(&left, a), Source::row_major(&right, b));
    for_chunks(&mut out.write::<T>(), |first, chunk| {
        let mut flags = [0; BLOCK];
        let mut buffers = [[T::zeroed(); BLOCK]; 2];
        let [left_buffer, right_buffer] = &mut buffers;
        for (i, block) in chunk.chunks_mut(BLOCK).enumerate() {
            let (at, len) = (first + i * BLOCK, block.len());
            let flags = conditions.block(at, len, &mut flags);
            let (a, b) = (left.block(at, len, left_buffer), right.block(at, len, right_buffer));
            let operands = [flags, bytemuck::cast_slice(a), bytemuck::cast_slice(b)];
            kernel(&operands, bytemuck::cast_slice_mut(block));
        }
    });
}
