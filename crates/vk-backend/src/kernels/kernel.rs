//! Kernels that users write in Metal's language.

use bytemuck::{Pod, Zeroable};
use mlx_vulkan_core::{
    Array, Error, Result, array::Data, backend::Output, primitives::CustomKernel, shape,
};

use super::{Ctx, Dispatch, Operand, Region, copy, copy::StridedOperand};
use crate::runtime::written::Written;

const OP: &str = "metal_kernel";

/// What every such kernel is given.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    /// Where the addresses of its buffers are.
    table: u64,
    /// Threads along three axes.
    grid: [u32; 3],
    /// Groups before the first along three axes.
    first: [u32; 3],
}

/// Encodes a user's kernel.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    kernel: &CustomKernel,
    inputs: &[Array],
    outputs: &mut [Output],
) -> Result<()> {
    if kernel.is_precompiled || !kernel.scalars.is_empty() {
        let message = format!("kernel \"{}\" is written for another back-end", kernel.name);
        return Err(Error::runtime(OP, message));
    }
    let (grid, threadgroup) = sizes(ctx, kernel)?;
    let (mut table, mut reads, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for (input, asks) in inputs.iter().zip(&kernel.shape_infos) {
        reads.push(buffers(ctx, input, kernel.ensure_row_contiguous, asks, &mut table)?);
    }
    for output in outputs.iter_mut() {
        let operand = ctx.output(output)?;
        if let Some(value) = &kernel.init_value {
            fill(ctx, output, operand, value.0)?;
        }
        table.push(operand.address);
        writes.push(operand.region);
    }
    if grid.contains(&0) {
        return Ok(());
    }
    reads.extend(&writes);
    let table = ctx.args(bytemuck::cast_slice(&table))?;
    for part in parts(grid, threadgroup) {
        let written = Written {
            source: kernel.source.clone(),
            name: kernel.name.clone(),
            threadgroup: part.threadgroup,
            dispatched: threadgroup,
        };
        let push = Push { table, grid, first: part.first };
        let pipeline = ctx.written(written)?;
        let (groups, reads, writes) = (part.groups, &reads[..], &writes[..]);
        ctx.dispatch(&Dispatch { pipeline: &pipeline, push: &push, groups, reads, writes })?;
    }
    Ok(())
}

/// Groups of a grid that have the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// Groups before these along three axes.
    first: [u32; 3],
    groups: [u32; 3],
    threadgroup: [u32; 3],
}

/// The parts of a grid: at its end along an axis groups have as many threads as are left.
fn parts(grid: [u32; 3], threadgroup: [u32; 3]) -> Vec<Part> {
    let mut parts = vec![Part { first: [0; 3], groups: [1; 3], threadgroup }];
    for axis in 0..3 {
        let (whole, left) = (grid[axis] / threadgroup[axis], grid[axis] % threadgroup[axis]);
        let along = |part: &Part, first, groups, size| {
            let mut part = *part;
            (part.first[axis], part.groups[axis], part.threadgroup[axis]) = (first, groups, size);
            part
        };
        parts = parts
            .iter()
            .flat_map(|part| {
                [along(part, 0, whole, threadgroup[axis]), along(part, whole, 1, left)]
            })
            .filter(|part| part.groups[axis] > 0 && part.threadgroup[axis] > 0)
            .collect();
    }
    parts
}

/// Threads of the grid and of a group, which is no larger than the grid.
fn sizes(ctx: &Ctx<'_>, kernel: &CustomKernel) -> Result<([u32; 3], [u32; 3])> {
    let refused = |what: String| Err(Error::invalid(OP, what));
    let sizes = |sizes: [i32; 3]| sizes.map(|n| u32::try_from(n).ok());
    let [Some(x), Some(y), Some(z)] = sizes(kernel.grid) else {
        return refused(format!("grid {:?} has a negative size", kernel.grid));
    };
    let [Some(a @ 1..), Some(b @ 1..), Some(c @ 1..)] = sizes(kernel.threadgroup) else {
        return refused(format!("threadgroup {:?} has a size below 1", kernel.threadgroup));
    };
    let threads = u64::from(a).saturating_mul(b.into()).saturating_mul(c.into());
    let most = ctx.capabilities().max_workgroup;
    if threads > most.into() {
        return refused(format!(
            "Thread group size ({threads}) is greater than the maximum allowed threads per threadgroup \
             ({most})."
        ));
    }
    let group = [a.min(x.max(1)), b.min(y.max(1)), c.min(z.max(1))];
    let along = ctx.capabilities().max_workgroup_size;
    if (0..3).any(|axis| group[axis] > along[axis]) {
        return refused(format!(
            "Thread groups of {group:?} are larger than the device's {along:?}."
        ));
    }
    Ok(([x, y, z], group))
}

/// Adds the addresses of an input, and of what the kernel asks of its shape, to the table.
fn buffers(
    ctx: &mut Ctx<'_>,
    input: &Array,
    in_rows: bool,
    asks: &[bool; 3],
    table: &mut Vec<u64>,
) -> Result<Region> {
    let operand = if in_rows { copy::dense(ctx, input)? } else { ctx.input(input)? };
    table.push(operand.address);
    let [shape, strides, ndim] = asks.map(|asks| asks && input.ndim() > 0);
    if shape {
        let sizes: Vec<i32> = input.shape().iter().map(|&n| n as i32).collect();
        table.push(ctx.args(bytemuck::cast_slice(&sizes))?);
    }
    if strides {
        let Data { layout, .. } = input.evaluated();
        let steps = match in_rows {
            true => shape::row_major_strides(input.shape()),
            false => layout.strides.clone(),
        };
        let steps: Vec<i64> = steps.iter().map(|&n| n as i64).collect();
        table.push(ctx.args(bytemuck::cast_slice(&steps))?);
    }
    if ndim {
        table.push(ctx.args(&(input.ndim() as i32).to_le_bytes())?);
    }
    Ok(operand.region)
}

/// Encodes that every element of an output is a number.
fn fill(ctx: &mut Ctx<'_>, output: &Output, to: Operand, value: f32) -> Result<()> {
    let address = ctx.args(&value.to_le_bytes())?;
    let at = Operand { address, region: Region { address, bytes: 0 } };
    let zeros = vec![0; output.shape.len()];
    let rows = shape::row_major_strides(&output.shape);
    let from = StridedOperand { at, dtype: mlx_vulkan_core::Dtype::Float32, strides: &zeros };
    copy::copy(
        ctx,
        &output.shape,
        from,
        StridedOperand { at: to, dtype: output.dtype, strides: &rows },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_at_the_end_have_what_is_left() {
        let part = |first, groups, threadgroup| Part { first, groups, threadgroup };
        assert_eq!(parts([64, 2, 1], [32, 1, 1]), [part([0; 3], [2, 2, 1], [32, 1, 1])]);
        let all = [
            part([0, 0, 0], [1, 2, 1], [32, 4, 1]),
            part([0, 2, 0], [1, 1, 1], [32, 1, 1]),
            part([1, 0, 0], [1, 2, 1], [18, 4, 1]),
            part([1, 2, 0], [1, 1, 1], [18, 1, 1]),
        ];
        assert_eq!(parts([50, 9, 1], [32, 4, 1]), all);
    }
}
