//! Elementwise functions of one array.

use bytemuck::{Pod, Zeroable};
use mlx_vulkan_core::{Array, Result, backend::Output, primitives::UnaryOp};

use super::{
    Ctx, Dispatch, Kernel,
    elementwise::{Class, Mode, is_dense, layout_like},
    strided,
};

/// Push constants of `unary.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    source: u64,
    destination: u64,
    count: u64,
    walk: u64,
    ndim: u32,
    zero: u32,
}

/// The module that has a function, as the `VARIANT` define splits them.
fn kernel(class: Class, op: UnaryOp) -> Kernel {
    use Kernel::*;
    use UnaryOp as U;
    let variants = match class {
        Class::Int => return unary_int,
        Class::Uint => return unary_uint,
        Class::Long => return unary_long,
        Class::Ulong => return unary_ulong,
        Class::Float => [
            unary_float_algebraic,
            unary_float_exponential,
            unary_float_logarithmic,
            unary_float_circular,
            unary_float_inverse,
        ],
        Class::Complex => [
            unary_complex_algebraic,
            unary_complex_exponential,
            unary_complex_logarithmic,
            unary_complex_circular,
            unary_complex_inverse,
        ],
    };
    let variant = match op {
        U::Abs | U::BitwiseInvert | U::Ceil | U::Conjugate | U::Floor | U::Imag | U::LogicalNot => {
            0
        }
        U::Negative | U::Real | U::Round | U::Rsqrt | U::Sign | U::Sqrt | U::Square => 0,
        U::Cosh | U::Exp | U::Expm1 | U::Sigmoid | U::Sinh | U::Tanh => 1,
        U::Arccosh | U::Arcsinh | U::Arctanh | U::Log | U::Log10 | U::Log1p | U::Log2 => 2,
        U::Cos | U::Sin | U::Tan => 3,
        U::Arccos | U::Arcsin | U::Arctan | U::Erf | U::Erfinv => 4,
    };
    variants[variant]
}

/// Encodes `out = op(a)`.
pub(super) fn eval(ctx: &mut Ctx<'_>, op: UnaryOp, a: &Array, output: &mut Output) -> Result<()> {
    let source = ctx.input(a)?;
    let dense = is_dense(a);
    let destination = match ctx.donate(a, output)? {
        Some(taken) => taken,
        None if dense => ctx.output_like(output, layout_like(a, output))?,
        None => ctx.output(output)?,
    };
    let mode = match dense {
        true if a.dtype() == output.dtype => {
            Mode::dense(&[(source, a.dtype()), (destination, output.dtype)])
        }
        true => Mode::Dense,
        false => Mode::Strided,
    };
    let count = a.size() as u64;
    let (walk, ndim) = match mode {
        Mode::Strided => {
            let walk = strided::walk([a]);
            (ctx.args(&walk.pack())?, walk.ndim())
        }
        Mode::Dense | Mode::Dense4 => (0, 0),
    };
    let push = Push {
        source: source.address,
        destination: destination.address,
        count,
        walk,
        ndim,
        zero: 0,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let constants = [group, a.dtype() as u32, op as u32, mode as u32];
    let pipeline = ctx.pipeline(kernel(a.dtype().into(), op), &constants)?;
    let push = bytemuck::bytes_of(&push);
    let groups = [ctx.capabilities().groups_1d(mode.items(count), group.into()), 1, 1];
    let (reads, writes) = (&[source.region], &[destination.region]);
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push, groups, reads, writes })
}
