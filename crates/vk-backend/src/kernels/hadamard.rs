//! Hadamard transforms of rows: powers of two in shared memory, in several passes if they are long,
//! then the matrix of order 12, 20 or 28 over the parts of a row.

use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, primitives::Hadamard};

use super::{
    Ctx, Dispatch, Region, copy,
    layouts::{hadamard_factor, hadamard_power},
};

/// Most elements of a pass, all in shared memory.
const MOST: usize = 2048;

/// A pass: of a power of two, whose later factors multiply to `rest`, or of the other factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Power { size: usize, rest: usize },
    Factor,
}

/// The passes of a transform, each of at most [`MOST`] elements.
fn plan(transform: Hadamard) -> Vec<Pass> {
    let bits = transform.power.trailing_zeros() as usize;
    let count = bits.div_ceil(MOST.trailing_zeros() as usize);
    let mut left = bits;
    let mut passes: Vec<Pass> = (0..count)
        .map(|i| {
            let each = left.div_ceil(count - i);
            left -= each;
            Pass::Power { size: 1 << each, rest: 1 << left }
        })
        .collect();
    if transform.m > 1 {
        passes.push(Pass::Factor);
    }
    passes
}

/// Values before or after a pass.
#[derive(Clone, Copy)]
struct Values {
    region: Region,
    dtype: Dtype,
}

/// Encodes the transform of the last axis; between passes the values are float32.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    transform: Hadamard,
    input: &Array,
    output: &mut Output,
) -> Result<()> {
    let from = copy::dense(ctx, input)?;
    let result = ctx.output(output)?;
    let passes = plan(transform);
    let target = Values { region: result.region, dtype: output.dtype };
    let between = match passes.len() > 1 && output.dtype != Dtype::Float32 {
        true => Values { region: ctx.scratch(output.size() as u64 * 4)?, dtype: Dtype::Float32 },
        false => target,
    };
    let mut source = Values { region: Region { address: from.address, ..from.region }, ..target };
    for (i, &pass) in passes.iter().enumerate() {
        let last = i + 1 == passes.len();
        let to = if last { target } else { between };
        let scale = if last { transform.scale.0 } else { 1.0 };
        match pass {
            Pass::Power { size, rest } => {
                let lines = output.size() / size;
                power(ctx, size, rest, lines, scale, [source, to])?;
            }
            Pass::Factor => factor(ctx, transform, output.size(), scale, [source, to])?,
        }
        source = to;
    }
    Ok(())
}

fn power(
    ctx: &mut Ctx<'_>,
    size: usize,
    rest: usize,
    count: usize,
    scale: f32,
    [from, to]: [Values; 2],
) -> Result<()> {
    let lines = (MOST / size).min(64).min(count.next_power_of_two());
    let push = hadamard_power::Push {
        source: from.region.address,
        destination: to.region.address,
        count: count as u64,
        rest: rest as u64,
        scale,
    };
    let caps = ctx.capabilities();
    let wanted = if caps.is_software() { 32 } else { 256 };
    let group = ((size * lines / 4) as u32).clamp(32, wanted).min(caps.max_workgroup);
    let constants = hadamard_power::Constants {
        workgroup: group,
        from_dtype: from.dtype as u32,
        to_dtype: to.dtype as u32,
        size: size as u32,
        lines: lines as u32,
    };
    let pipeline = ctx.pipeline(hadamard_power::HADAMARD_POWER, &constants);
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups: [caps.groups_1d(push.count, lines as u64), 1, 1],
        reads: &[from.region],
        writes: &[to.region],
    })
}

fn factor(
    ctx: &mut Ctx<'_>,
    transform: Hadamard,
    size: usize,
    scale: f32,
    [from, to]: [Values; 2],
) -> Result<()> {
    let push = hadamard_factor::Push {
        source: from.region.address,
        destination: to.region.address,
        signs: ctx.args(bytemuck::cast_slice(transform.signs()))?,
        count: (size / transform.m) as u64,
        part: transform.power as u64,
        scale,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let constants = hadamard_factor::Constants {
        workgroup: group,
        from_dtype: from.dtype as u32,
        to_dtype: to.dtype as u32,
        order: transform.m as u32,
    };
    let pipeline = ctx.pipeline(hadamard_factor::HADAMARD_FACTOR, &constants);
    ctx.run(&pipeline, &push, push.count, u64::from(group), &[from.region], &[to.region])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_take_several_passes() {
        let of = |n| plan(Hadamard::of(n, 1.0).expect("an order that there is"));
        assert_eq!(of(64), [Pass::Power { size: 64, rest: 1 }]);
        assert_eq!(of(12), [Pass::Factor]);
        let two = [Pass::Power { size: 128, rest: 64 }, Pass::Power { size: 64, rest: 1 }];
        assert_eq!(of(1 << 13), two);
        assert_eq!(of(20 << 3), [Pass::Power { size: 8, rest: 1 }, Pass::Factor]);
    }
}
