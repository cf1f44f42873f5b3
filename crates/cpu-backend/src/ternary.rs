//! Selection between two arrays.

use mlx_vulkan_core::{Array, Element, Result, backend::Output, primitives::TernaryOp};

use crate::{
    elementwise::{BLOCK, dispatch_size, for_chunks},
    encoder::{Encoder, In, Out},
    strided::Source,
};

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: TernaryOp,
    inputs: &[Array; 3],
    output: &mut Output,
) -> Result<()> {
    match op {
        TernaryOp::Select => select(enc, inputs, output),
    }
}

/// Encodes `out = condition ? a : b`; all have the output's shape.
fn select(enc: &mut Encoder<'_>, inputs: &[Array; 3], output: &mut Output) -> Result<()> {
    let out = enc.allocate(output)?;
    let inputs = inputs.each_ref().map(In::from);
    dispatch_size!(out.dtype, T => enc.push(move || run::<T>(&inputs, &out)))
}

fn run<T: Element>([condition, a, b]: &[In; 3], out: &Out) {
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
            let choices = flags.iter().zip(a.iter().zip(b));
            block.iter_mut().zip(choices).for_each(|(x, (&c, (&a, &b)))| {
                *x = if c != 0 { a } else { b };
            });
        }
    });
}
