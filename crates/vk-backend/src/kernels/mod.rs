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
//!    outputs: the family's own `eval` matches over its members, and has an arm in [`eval`]. The pattern
//!    is `copy.rs`:
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
pub(crate) mod attention;
pub(crate) mod binary;
mod concatenate;
pub(crate) mod convolution;
pub(crate) mod copy;
mod ctx;
pub(crate) mod delta;
pub(crate) mod elementwise;
pub(crate) mod fft;
pub(crate) mod fragment;
mod hadamard;
mod indexing;
mod kernel;
mod locations;
pub(crate) mod matmul;
pub(crate) mod matvec;
pub(crate) mod mixture;
pub(crate) mod norm;
mod operands;
pub(crate) mod program;
#[cfg(test)]
mod properties;
pub(crate) mod quantized;
mod random;
pub(crate) mod reduce;
pub(crate) mod rope;
mod scaled;
mod scan;
mod scatter;
pub(crate) mod siblings;
mod softmax;
mod sort;
pub(crate) mod steps;
pub(crate) mod strided;
pub(crate) mod team;
mod ternary;
mod transpose;
mod unary;

pub(crate) use crate::runtime::{capabilities::Capabilities, encoder::Region};
pub(crate) use crate::{runtime::encoder::Dispatch, shaders::layouts};
pub(crate) use ctx::encode_operation;
pub(crate) use ctx::{Ctx, Operand};

use mlx_vulkan_core::{
    Array, Dtype, Result,
    backend::{Output, Support},
    primitives::{Primitive, RandomBits, ShapeOp},
};

/// Encodes a primitive.
///
/// # Errors
/// When the backend refuses it, or memory or the device fails.
pub(crate) fn eval(
    ctx: &mut Ctx<'_>,
    primitive: &Primitive,
    inputs: &[Array],
    outputs: &mut [Output],
) -> Result<()> {
    use Primitive as P;
    if let Some((input, reason)) =
        inputs.iter().find_map(|a| Some((a, refusal(primitive, a.dtype())?)))
    {
        return Err(ctx.unsupported(input, reason));
    }
    if let Some((output, reason)) =
        outputs.iter().find_map(|o| Some((o, refusal(primitive, o.dtype)?)))
    {
        return Err(ctx.unsupported_output(output, reason));
    }
    if let P::Kernel(user) = primitive {
        return kernel::eval(ctx, user, inputs, outputs);
    }
    let [output, others @ ..] = outputs else { return Ok(()) };
    match primitive {
        P::Pass(_) => unreachable!("core passes arrays on"),
        P::Load(_) => unreachable!("core makes arrays of files"),
        P::Kernel(_) => unreachable!("it is encoded above"),
        P::Compiled(_) => unreachable!("core expands programs"),
        P::Unary(op) => unary::eval(ctx, *op, &inputs[0], output),
        P::Binary(op) => binary::eval(ctx, *op, &inputs[0], &inputs[1], output),
        P::Ternary(op) => ternary::eval(ctx, *op, args(inputs), output),
        P::Copy(op) => copy::eval(ctx, *op, &inputs[0], output),
        P::Shape(ShapeOp::Concatenate { axis }) => concatenate::eval(ctx, inputs, *axis, output),
        P::Shape(op) => copy::shape(ctx, op, inputs, output),
        P::Reduce(reduce) => reduce::reduce(ctx, reduce.op, &reduce.axes, &inputs[0], output),
        P::ArgReduce(reduce) => reduce::arg_reduce(ctx, reduce.op, reduce.axis, &inputs[0], output),
        P::Scan(scan) => scan::eval(ctx, *scan, &inputs[0], output),
        P::Sort(op) => sort::eval(ctx, *op, inputs, output),
        P::Softmax(op) => softmax::eval(ctx, *op, &inputs[0], output),
        P::Indexing(op) => indexing::eval(ctx, op, inputs, output),
        P::Arange(range) => arange::eval(ctx, *range, output),
        P::Random(RandomBits { .. }) => random::bits(ctx, &inputs[0], output),
        P::Matmul(op) => matmul::eval(ctx, *op, inputs, output),
        P::Quantized(op) => quantized::eval(ctx, *op, inputs, output, others),
        P::Convolution(convolution) => convolution::eval(ctx, convolution, args(inputs), output),
        P::Norm(op) => norm::eval(ctx, *op, inputs, output, others),
        P::Rope(rope) => rope::eval(ctx, rope, inputs, output),
        P::Attention(attention) => attention::eval(ctx, *attention, inputs, output),
        P::AttentionVjp(op) => attention::vjp::eval(ctx, *op, inputs, output, others),
        P::Delta(op) => delta::eval(ctx, *op, inputs, output, others),
        P::Fft(transform) => fft::eval(ctx, transform, &inputs[0], output),
        P::Hadamard(transform) => hadamard::eval(ctx, *transform, &inputs[0], output),
        P::Linalg(_) => unreachable!("it is refused for every dtype"),
    }
}

/// The inputs of a node, whose number its operation fixed.
fn args<const N: usize>(inputs: &[Array]) -> &[Array; N] {
    inputs.try_into().expect("operations build nodes with this number of inputs")
}

/// Why [`eval`] refuses a primitive for arrays of `dtype`, if it does.
fn refusal(primitive: &Primitive, dtype: Dtype) -> Option<&'static str> {
    match primitive {
        Primitive::Linalg(_) => Some("it runs on the CPU only, as in MLX"),
        Primitive::Softmax(_) if !dtype.is_floating() => {
            Some("only defined for floating point types, as on the CPU")
        }
        _ if dtype == Dtype::Float64 => Some("float64 runs on the CPU only, as in MLX"),
        _ => None,
    }
}

/// Whether [`eval`] has a kernel for a primitive on arrays of `dtype`.
pub(crate) fn support(primitive: &Primitive, dtype: Dtype) -> Support {
    refusal(primitive, dtype).map_or(Support::Native, Support::Refused)
}
