//! Conversions, copies and arrays of one value.

use mlx_vulkan_core::{
    Array, Dtype, Element, Result, backend::Output, bf16, dispatch_dtype, f16, primitives::CopyOp,
};

use crate::{
    cast::Cast,
    elementwise::{Kernel1, Typed, dispatch_size, map1, zip1},
    encoder::{Encoder, In, Out},
    halves::Half,
    strided::Source,
};

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: CopyOp,
    inputs: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    match op {
        CopyOp::AsType { .. } => astype(enc, inputs, output),
        CopyOp::View { .. } | CopyOp::Full | CopyOp::Contiguous { .. } => {
            contiguous(enc, inputs, output)
        }
    }
}

/// Encodes the conversion of `a` to the output's dtype, or a copy into the output's shape when
/// the dtypes agree.
fn astype(enc: &mut Encoder<'_>, inputs: &[Array; 1], out: &mut Output) -> Result<()> {
    let [a] = inputs;
    match (a.dtype(), out.dtype) {
        (from, to) if from == to => contiguous(enc, inputs, out),
        (Dtype::Float16, Dtype::Float32) => map1::<f16, f32>(enc, a, out, Half::widen),
        (Dtype::Bfloat16, Dtype::Float32) => map1::<bf16, f32>(enc, a, out, Half::widen),
        (Dtype::Float32, Dtype::Float16) => map1::<f32, f16>(enc, a, out, Half::narrow),
        (Dtype::Float32, Dtype::Bfloat16) => map1::<f32, bf16>(enc, a, out, Half::narrow),
        (from, to) => dispatch_dtype!(from, T => dispatch_dtype!(to, U => {
            map1(enc, a, out, conversion::<T, U>())
        })),
    }
}

fn conversion<T: Typed + Cast<U>, U: Typed>() -> Kernel1<T, U> {
    |a, out| zip1(a, out, |x: T| x.cast())
}

/// Encodes a dense row-major copy; the output may have another shape, or another dtype over the
/// same bytes.
pub(crate) fn contiguous(
    enc: &mut Encoder<'_>,
    [a]: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let input = In::from(a);
    dispatch_size!(input.dtype, T => {
        dispatch_size!(out.dtype, U => enc.push(move || copy::<T, U>(&input, &out)))
    })
}

fn copy<T: Element, U: Element>(input: &In, out: &Out) {
    let elements = input.read::<T>();
    let source = Source::row_major(&elements, input);
    let target = &mut *out.write::<U>();
    // A fresh output starts at the start of its buffer, which is aligned for any element.
    source.read_all(bytemuck::cast_slice_mut::<U, T>(target));
}
