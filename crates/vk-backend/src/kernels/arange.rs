//! Ranges of numbers.

use mlx_vulkan_core::{Result, backend::Output, primitives::Arange};

use super::{Ctx, elementwise::Class, layouts};
use layouts::arange::{Constants, LongPush, Push};

/// Encodes `out[i] = start + i * step`.
pub(super) fn eval(ctx: &mut Ctx<'_>, range: Arange, output: &mut Output) -> Result<()> {
    let (start, step) = (range.start.0, range.step.0);
    let destination = ctx.output(output)?;
    let count = output.size() as u64;
    let group = ctx.capabilities().elementwise_workgroup();
    let constants = Constants { workgroup: group, dtype: output.dtype as u32 };
    let (address, writes) = (destination.address, [destination.region]);
    let kernel = match Class::from(output.dtype) {
        Class::Float => layouts::arange::ARANGE_FLOAT,
        Class::Complex => layouts::arange::ARANGE_COMPLEX,
        Class::Int | Class::Uint | Class::Long | Class::Ulong => {
            let (start, step) = (start as i64, step as i64);
            let push = LongPush { destination: address, count, start, step };
            let pipeline = ctx.pipeline(layouts::arange::ARANGE_LONG, &constants);
            return ctx.run(&pipeline, &push, count, group.into(), &[], &writes);
        }
    };
    let (start, step) = (pair(start), pair(step));
    let pipeline = ctx.pipeline(kernel, &constants);
    let push = Push { destination: address, count, start, step };
    ctx.run(&pipeline, &push, count, group.into(), &[], &writes)
}

/// A float64 as two float32 whose sum it is to 48 bits, high part first.
fn pair(value: f64) -> [f32; 2] {
    let high = value as f32;
    [high, (value - f64::from(high)) as f32]
}
