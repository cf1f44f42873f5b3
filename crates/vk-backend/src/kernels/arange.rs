//! Ranges of numbers.

use mlx_vulkan_core::{Result, backend::Output};

use super::{Ctx, Kernel, elementwise::Class};

/// Encodes `out[i] = start + i * step`.
pub(super) fn eval(ctx: &mut Ctx<'_>, start: f64, step: f64, output: &mut Output) -> Result<()> {
    let destination = ctx.output(output)?;
    let count = output.size() as u64;
    let (kernel, start, step) = match Class::from(output.dtype) {
        Class::Float => (Kernel::arange_float, pair(start), pair(step)),
        Class::Complex => (Kernel::arange_complex, pair(start), pair(step)),
        Class::Int | Class::Uint | Class::Long | Class::Ulong => {
            (Kernel::arange_long, integer(start), integer(step))
        }
    };
    let push = [destination.address, count, start, step];
    let group = ctx.capabilities().elementwise_workgroup();
    let pipeline = ctx.pipeline(kernel, &[group, output.dtype as u32])?;
    ctx.run(
        &pipeline,
        bytemuck::bytes_of(&push),
        count,
        u64::from(group),
        &[],
        &[destination.region],
    )
}

/// A float64 as the bits of two float32 whose sum it is to 48 bits, high part first.
fn pair(value: f64) -> u64 {
    let high = value as f32;
    let low = (value - f64::from(high)) as f32;
    u64::from(high.to_bits()) | u64::from(low.to_bits()) << 32
}

/// A float64 as the bits of an int64.
fn integer(value: f64) -> u64 {
    (value as i64).cast_unsigned()
}
