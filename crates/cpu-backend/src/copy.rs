//! Conversions, copies and arrays of one value.

use mlx_vulkan_core::{
    Array, Dtype, Element, Result, backend::Output, bf16, dispatch_dtype, f16, primitives::CopyOp,
};

use crate::{
    cast::Cast,
    elementwise::{self, Kernel1, Loop, dispatch_size, loop1, zip1},
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
    match a.dtype() == out.dtype {
        true => contiguous(enc, inputs, out),
        false => elementwise::encode(enc, [a], out, kernel(a.dtype(), out.dtype)),
    }
}

/// The loop that converts a dtype to another, or to itself.
pub(crate) fn kernel(from: Dtype, to: Dtype) -> Loop {
    match (from, to) {
        (Dtype::Float16, Dtype::Float32) => loop1::<f16, f32>(Half::widen),
        (Dtype::Bfloat16, Dtype::Float32) => loop1::<bf16, f32>(Half::widen),
        (Dtype::Float32, Dtype::Float16) => loop1::<f32, f16>(Half::narrow),
        (Dtype::Float32, Dtype::Bfloat16) => loop1::<f32, bf16>(Half::narrow),
        (from, to) => dispatch_dtype!(from, T => dispatch_dtype!(to, U => {
            loop1(conversion::<T, U>())
        })),
    }
}

fn conversion<T: Element + Cast<U>, U: Element>() -> Kernel1<T, U> {
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
