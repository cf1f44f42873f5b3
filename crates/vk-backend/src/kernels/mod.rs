//! The kernels: one module per family of primitives, and what they share.
//!
//! # How to write a kernel family
//!
//! 1. **Shader**: `shaders/<family>/<name>.comp`, beginning with `#version 460`,
//!    `#include "common.glsl"` and `layout(local_size_x_id = 0) in;`. Specialization constant 0 is
//!    the workgroup size; further ones (dtypes as `Dtype as u32`, operation, flags) count from 1,
//!    all 32 bits wide. Arguments are push constants: addresses (`uint64_t`) and scalars, at most
//!    128 bytes; declare the block `layout(push_constant, scalar)`. There are no descriptors.
//!    Numbers that the host uses too (modes, stages, operations) are `const uint` below a comment
//!    with `[host]`. Walk elements with `GRID_LOOP(i, n)`: any number of workgroups covers any `n`.
//!    Array indices in GLSL are 32 bits: use `AT_F32(base, i)` and its kin for 64-bit indices.
//! 2. **Registry**: one line per kernel in `src/shaders/registry.rs`; register class or dtype group
//!    by define, the rest by specialization. A new define name needs an arm in
//!    `src/shaders/declare.rs`. `cargo xtask shaders` compiles it and writes what it takes to
//!    `src/shaders/layouts.rs`: for `softmax/rows.comp` the module `layouts::softmax_rows` with
//!    `Constants`, `Push`, a constant per kernel (`SOFTMAX_ROWS_SHARED`), and the numbers of `[host]`.
//! 3. **Host**: `src/kernels/<family>.rs` with `eval`-like functions that take [`Ctx`], inputs and
//!    outputs, and a line in the match of [`eval`]. The pattern is `copy.rs`:
//!    - [`Ctx::input`] gives an input's first element's address and the [`Region`] it spans; it
//!      uploads and waits as needed.
//!    - [`Ctx::output`] allocates a row-major output, [`Ctx::output_like`] one with a given layout;
//!      [`Ctx::donate`] takes over an input's memory where MLX would.
//!    - [`strided::Walk`] collapses shapes and packs sizes and strides for `strided_offset` in GLSL;
//!      [`Ctx::args`] puts such bytes where the kernel can read them.
//!    - [`Ctx::pipeline`] finds the pipeline of a kernel and its `Constants`; [`Ctx::run`] dispatches
//!      a 1-D grid sized for the device with its `Push`, [`Ctx::dispatch`] any grid. Those of another
//!      kernel do not compile. Name every region read and written: barriers come from
//!      nothing else. Scratch memory is [`Ctx::scratch`].
//!    - A dense copy of an input that a kernel cannot walk is [`copy::dense`].
//!    - A struct that a shader reads from memory (`buffer_reference`) is in `layouts` as well.
//! 4. **Planner**: choose variants in a pure function of shapes, dtypes, [`Capabilities`] and
//!    [`Config`], with unit tests that need no GPU.
//!
//! What a family cannot run returns [`Ctx::unsupported`], never a wrong result.

mod arange;
pub mod attention;
mod binary;
pub mod convolution;
pub mod copy;
mod ctx;
pub(crate) mod elementwise;
pub mod fft;
mod hadamard;
mod indexing;
pub mod matmul;
pub mod matvec;
mod norm;
mod places;
#[cfg(test)]
mod properties;
pub mod quantized;
mod random;
pub(crate) mod reduce;
pub(crate) mod rope;
mod scan;
mod scatter;
mod softmax;
mod sort;
pub(crate) mod steps;
pub mod strided;
pub mod team;
mod ternary;
mod transpose;
mod unary;

pub use crate::runtime::{capabilities::Capabilities, config::Config, encoder::Region};
pub(crate) use crate::{runtime::encoder::Dispatch, shaders::layouts};
pub(crate) use ctx::encode_operation;
pub use ctx::{Ctx, Operand};

use mlx_vulkan_core::{
    Array, Dtype, Result,
    backend::{Output, Support},
    primitives::Primitive,
};

/// Encodes a primitive.
///
/// # Errors
/// When the backend refuses it, or memory or the device fails.
pub fn eval(
    ctx: &mut Ctx<'_>,
    primitive: &Primitive,
    inputs: &[Array],
    outputs: &mut [Output],
) -> Result<()> {
    use Primitive as P;
    if let Some(refused) = inputs.iter().find(|a| a.dtype() == Dtype::Float64) {
        return Err(ctx.unsupported(refused, "float64 runs on the CPU only, as in MLX"));
    }
    if outputs.iter().any(|o| o.dtype == Dtype::Float64) {
        return Err(ctx.unsupported_output(&outputs[0], "float64 runs on the CPU only, as in MLX"));
    }
    match primitive {
        P::AsType
        | P::Contiguous { .. }
        | P::Full
        | P::Reshape
        | P::View
        | P::Transpose { .. }
        | P::Broadcast
        | P::ExpandDims { .. }
        | P::Squeeze { .. }
        | P::AsStrided { .. }
        | P::Slice { .. }
        | P::SliceUpdate { .. }
        | P::Concatenate { .. } => copy::eval(ctx, primitive, inputs, outputs),
        P::Unary(op) => unary::eval(ctx, *op, &inputs[0], &mut outputs[0]),
        P::Binary(op) => binary::eval(ctx, *op, &inputs[0], &inputs[1], &mut outputs[0]),
        P::Select => ternary::select(ctx, args(inputs), &mut outputs[0]),
        P::Arange { start, step } => arange::eval(ctx, *start, *step, &mut outputs[0]),
        P::RandomBits { .. } => random::bits(ctx, &inputs[0], &mut outputs[0]),
        P::Matmul => matmul::eval(ctx, &inputs[0], &inputs[1], None, &mut outputs[0]),
        P::AddMm { alpha, beta } => {
            let addend = matmul::Addend { c: &inputs[2], alpha: *alpha, beta: *beta };
            matmul::eval(ctx, &inputs[0], &inputs[1], Some(addend), &mut outputs[0])
        }
        P::GatherMm { .. } => matmul::gather(ctx, args(inputs), &mut outputs[0]),
        P::SegmentedMm => matmul::segmented(ctx, args(inputs), &mut outputs[0]),
        P::GatherQmm { affine, transpose, .. } => {
            quantized::gather(ctx, *affine, *transpose, args(inputs), &mut outputs[0])
        }
        P::Convolution(c) => convolution::eval(ctx, c, args(inputs), &mut outputs[0]),
        P::Fft(transform) => fft::eval(ctx, transform, &inputs[0], &mut outputs[0]),
        P::Hadamard(transform) => hadamard::eval(ctx, *transform, &inputs[0], &mut outputs[0]),
        P::Linalg(_) => Err(ctx.unsupported(&inputs[0], "it runs on the CPU only, as in MLX")),
        P::Quantize(affine) => quantized::quantize(ctx, *affine, &inputs[0], outputs),
        P::Dequantize(affine) => quantized::dequantize(ctx, *affine, args(inputs), &mut outputs[0]),
        P::QuantizedMatmul { affine, transpose } => {
            quantized::matmul(ctx, *affine, *transpose, args(inputs), &mut outputs[0])
        }
        P::RmsNorm { eps } => norm::rms_norm(ctx, *eps, args(inputs), &mut outputs[0]),
        P::LayerNorm { eps } => norm::layer_norm(ctx, *eps, args(inputs), &mut outputs[0]),
        P::Rope(rope) => rope::eval(ctx, rope, inputs, &mut outputs[0]),
        P::ScaledDotProductAttention { scale, mask } => {
            attention::eval(ctx, *scale, *mask, inputs, &mut outputs[0])
        }
        P::Reduce { op, axes } => reduce::reduce(ctx, *op, axes, &inputs[0], &mut outputs[0]),
        P::ArgReduce { op, axis } => {
            reduce::arg_reduce(ctx, *op, *axis, &inputs[0], &mut outputs[0])
        }
        P::Scan { op, axis, reverse, inclusive } => {
            let how = scan::Scan { axis: *axis, reverse: *reverse, inclusive: *inclusive };
            scan::scan(ctx, *op, how, &inputs[0], &mut outputs[0])
        }
        P::Sort { axis } | P::Partition { axis, .. } => {
            sort::sort(ctx, *axis, false, &inputs[0], &mut outputs[0])
        }
        P::ArgSort { axis } | P::ArgPartition { axis, .. } => {
            sort::sort(ctx, *axis, true, &inputs[0], &mut outputs[0])
        }
        P::Softmax { .. } => softmax::softmax(ctx, &inputs[0], &mut outputs[0]),
        P::LogSumExp => softmax::logsumexp(ctx, &inputs[0], &mut outputs[0]),
        P::Take { axis } => indexing::take(ctx, *axis, args(inputs), &mut outputs[0]),
        P::TakeAlongAxis { axis } => {
            indexing::take_along_axis(ctx, *axis, args(inputs), &mut outputs[0])
        }
        P::Gather { axes, slice_sizes } => {
            indexing::gather(ctx, axes, slice_sizes, inputs, &mut outputs[0])
        }
        P::Scatter { op, axes } => scatter::scatter(ctx, *op, axes, inputs, &mut outputs[0]),
        P::ScatterAxis { op, axis } => {
            scatter::scatter_axis(ctx, *op, *axis, args(inputs), &mut outputs[0])
        }
        P::SearchSorted { right } => sort::search(ctx, *right, args(inputs), &mut outputs[0]),
    }
}

/// The inputs of a node, whose number its operation fixed.
fn args<const N: usize>(inputs: &[Array]) -> &[Array; N] {
    inputs.try_into().expect("operations build nodes with this number of inputs")
}

/// Whether [`eval`] has a kernel for a primitive on inputs of `dtype`.
pub fn support(primitive: &Primitive, dtype: Dtype) -> Support {
    use Primitive as P;
    // Views need no kernel: core answers them, whatever their dtype.
    let is_view = matches!(
        primitive,
        P::Transpose { .. }
            | P::Broadcast
            | P::ExpandDims { .. }
            | P::Squeeze { .. }
            | P::Slice { .. }
    );
    if dtype == Dtype::Float64 && !is_view {
        return Support::Refused("float64 runs on the CPU only, as in MLX");
    }
    match primitive {
        P::AsType
        | P::Contiguous { .. }
        | P::Full
        | P::Reshape
        | P::View
        | P::Transpose { .. }
        | P::Broadcast
        | P::ExpandDims { .. }
        | P::Squeeze { .. }
        | P::AsStrided { .. }
        | P::Slice { .. }
        | P::SliceUpdate { .. }
        | P::Concatenate { .. }
        | P::Unary(_)
        | P::Binary(_)
        | P::Select
        | P::Arange { .. }
        | P::RandomBits { .. }
        | P::Matmul
        | P::AddMm { .. }
        | P::GatherMm { .. }
        | P::SegmentedMm
        | P::GatherQmm { .. }
        | P::Convolution(_)
        | P::Fft(_)
        | P::Hadamard(_)
        | P::Quantize(_)
        | P::Dequantize(_)
        | P::QuantizedMatmul { .. }
        | P::RmsNorm { .. }
        | P::LayerNorm { .. }
        | P::Rope(_)
        | P::ScaledDotProductAttention { .. }
        | P::Reduce { .. }
        | P::ArgReduce { .. }
        | P::Sort { .. }
        | P::ArgSort { .. }
        | P::Partition { .. }
        | P::ArgPartition { .. }
        | P::Take { .. }
        | P::TakeAlongAxis { .. }
        | P::Gather { .. }
        | P::Scatter { .. }
        | P::ScatterAxis { .. }
        | P::Scan { .. }
        | P::SearchSorted { .. } => Support::Native,
        P::Linalg(_) => Support::Refused("it runs on the CPU only, as in MLX"),
        P::Softmax { .. } | P::LogSumExp => softmax::support(dtype),
    }
}
