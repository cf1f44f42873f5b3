//! The radix sort of long rows, 8 bits a pass: count the digits of each part of a row, sum up the
//! counts, move the elements (with their indices where those are asked for).

use mlx_vulkan_core::{
    Dtype, Result, Shape, Strides,
    backend::Output,
    primitives::ReduceOp,
    shape::{self, Layout},
};

use super::Rows;
use crate::kernels::{
    Capabilities, Ctx, Operand, Region, copy,
    layouts::{sort_count, sort_scatter, sort_scatter_shared as shared},
    reduce::{Fold, View, planner as plan},
    scan::{Along, scan_view},
};

/// How a workgroup moves a tile of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mover {
    group: u32,
    /// Elements per thread.
    items: u32,
    /// Threads of a subgroup whose votes rank elements (`scatter.comp`); 0 for shared memory alone
    /// (`scatter_shared.comp`).
    subgroup: u32,
}

impl Mover {
    /// The best one for elements of 64 bits if `wide`, with indices if `indexed`; `votes` is a gate.
    fn of(caps: &Capabilities, wide: bool, indexed: bool, votes: bool) -> Mover {
        let ops = caps.subgroup_ops;
        let group = plan::group(caps);
        let fits = (8..=128).contains(&caps.subgroup_size) && group >= caps.subgroup_size;
        let mut mover = match votes && ops.ballot && ops.arithmetic && fits {
            true => Mover { group, items: if wide { 8 } else { 16 }, subgroup: caps.subgroup_size },
            false => Mover { group, items: 8, subgroup: 0 },
        };
        // The code is as long: drivers that compile for the CPU take seconds for more.
        if caps.quirks.few_workgroups {
            mover.items = 2;
        }
        while mover.shared_bytes(wide, indexed) > caps.shared_memory
            && mover.group > mover.subgroup.max(16)
        {
            mover.group /= 2;
        }
        mover
    }

    fn tile(&self) -> u32 {
        self.group * self.items
    }

    fn shared_bytes(&self, wide: bool, indexed: bool) -> u32 {
        let element = if wide { 8 } else { 4 };
        if let Some(subgroups) = self.group.checked_div(self.subgroup) {
            return (self.tile() * element).max(subgroups * 256 * 4) + 3 * 256 * 4;
        }
        let padded = |n: u32| n + n / 32;
        let tile = padded(self.tile()) * (element + if indexed { 4 } else { 0 });
        tile + padded(8 * self.group) * 4 + self.group * 4 + 3 * 256 * 4 + 64
    }
}

/// How the rows of a radix sort are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RadixPlan {
    mover: Mover,
    splits: u64,
    chunk: u64,
}

fn plan_radix(caps: &Capabilities, rows: u64, length: u64, mover: Mover) -> RadixPlan {
    let tile = u64::from(mover.tile());
    let splits = (plan::wanted_groups(caps) / rows).clamp(1, length.div_ceil(tile));
    let chunk = length.div_ceil(splits).next_multiple_of(tile);
    RadixPlan { mover, splits: length.div_ceil(chunk), chunk }
}

/// Where a pass of the radix sort reads or writes.
#[derive(Debug, Clone, Copy)]
struct Buffers {
    elements: Region,
    indices: Region,
}

/// Sorts long rows; the output has the axis innermost in memory.
pub(super) fn sort(ctx: &mut Ctx<'_>, input: &Rows<'_>, output: &mut Output) -> Result<()> {
    let layout = moved_layout(&output.shape, input.axis);
    let to = ctx.output_like(output, layout)?;
    let source = input.source;
    let bytes = source.dtype.size() as u64;
    let total = shape::num_elements(&source.shape) as u64;
    let rows = total / input.length();
    let votes = ctx.config().enable_sort_votes;
    let mover = Mover::of(ctx.capabilities(), input.wide, input.indices, votes);
    let plan = plan_radix(ctx.capabilities(), rows, input.length(), mover);
    let passes = bytes as u32;
    let first = dense_rows(ctx, input)?;
    let none = Region::default();
    // The passes take turns between two pairs of buffers, so that the last one writes the output.
    let turns = match input.indices {
        true => {
            let mut scratch =
                |n: u64, wanted: bool| if wanted { ctx.scratch(n * total) } else { Ok(none) };
            let last = Buffers { elements: scratch(bytes, passes > 2)?, indices: to.region };
            [
                last,
                Buffers { elements: scratch(bytes, passes > 1)?, indices: scratch(4, passes > 1)? },
            ]
        }
        false => {
            let other = if passes > 1 { ctx.scratch(bytes * total)? } else { none };
            [
                Buffers { elements: to.region, indices: none },
                Buffers { elements: other, indices: none },
            ]
        }
    };
    let counts = View::scratch(ctx, Dtype::Uint32, shape_of(rows, 256 * plan.splits))?;
    let offsets = View::scratch(ctx, Dtype::Uint32, counts.shape.clone())?;
    let mut from = Buffers { elements: first, indices: none };
    for pass in 0..passes {
        let into = turns[((passes - 1 - pass) % 2) as usize];
        let pass = Pass { input, plan, pass, last: pass + 1 == passes, from, into, rows };
        pass.count(ctx, &counts)?;
        let exclusive = Along { axis: 1, reverse: false, inclusive: false };
        scan_view(ctx, Fold::Op(ReduceOp::Sum), exclusive, &counts, offsets.at, Dtype::Uint32)?;
        pass.scatter(ctx, &offsets)?;
        from = into;
    }
    Ok(())
}

/// One digit of the radix sort.
struct Pass<'a> {
    input: &'a Rows<'a>,
    plan: RadixPlan,
    pass: u32,
    last: bool,
    from: Buffers,
    into: Buffers,
    rows: u64,
}

fn shape_of(rows: u64, columns: u64) -> Shape {
    Shape::from_slice(&[rows as usize, columns as usize])
}

/// A dense layout in which `axis` is innermost.
fn moved_layout(shape: &[usize], axis: usize) -> Layout {
    let mut strides = Strides::from_elem(1, shape.len());
    let mut stride = shape[axis] as isize;
    for other in (0..shape.len()).rev().filter(|&x| x != axis) {
        strides[other] = stride;
        stride *= shape[other] as isize;
    }
    Layout::view(shape, strides, 0, shape::num_elements(shape), true)
}

/// The rows one after the other: the input itself where they lie so, else a copy.
fn dense_rows(ctx: &mut Ctx<'_>, input: &Rows<'_>) -> Result<Region> {
    let source = input.source;
    let (shape, strides) = (input.moved(&source.shape), input.moved(&source.strides));
    let bytes = shape::num_elements(&shape) as u64 * source.dtype.size() as u64;
    if shape::is_row_contiguous(&shape, &strides) {
        return Ok(Region { address: source.at.address, bytes });
    }
    let region = ctx.scratch(bytes)?;
    let to = Operand { address: region.address, region };
    let row_major = shape::row_major_strides(&shape);
    let from = copy::StridedOperand { at: source.at, dtype: source.dtype, strides: &strides };
    copy::copy(
        ctx,
        &shape,
        from,
        copy::StridedOperand { at: to, dtype: source.dtype, strides: &row_major },
    )?;
    Ok(region)
}

impl Pass<'_> {
    /// Counts the digits of each part of a row.
    fn count(&self, ctx: &mut Ctx<'_>, counts: &View) -> Result<()> {
        let (input, plan) = (self.input, &self.plan);
        let push = sort_count::Push {
            source: self.from.elements.address,
            counts: counts.at.address,
            rows: self.rows,
            length: input.length(),
            splits: plan.splits,
            chunk: plan.chunk,
            shift: 8 * self.pass,
        };
        use sort_count::{Constants, SORT_COUNT_NARROW, SORT_COUNT_WIDE};
        let kernel = if input.wide { SORT_COUNT_WIDE } else { SORT_COUNT_NARROW };
        let constants = Constants { workgroup: plan.mover.group, from: input.source.dtype as u32 };
        let pipeline = ctx.pipeline(kernel, &constants);
        let (reads, writes) = ([self.from.elements], [counts.at.region]);
        ctx.run(&pipeline, &push, self.rows * plan.splits, 1, &reads, &writes)
    }

    /// Moves the elements to where the counts before theirs say.
    fn scatter(&self, ctx: &mut Ctx<'_>, offsets: &View) -> Result<()> {
        let (input, plan) = (self.input, &self.plan);
        let writes_elements = !(input.indices && self.last);
        let elements = if writes_elements { self.into.elements } else { Region::default() };
        let reads_indices = input.indices && self.pass > 0;
        let indices = if reads_indices { self.from.indices } else { self.from.elements };
        let push = sort_scatter::Push {
            source: self.from.elements.address,
            destination: if writes_elements { elements.address } else { self.into.indices.address },
            indices: indices.address,
            out_indices: self.into.indices.address,
            offsets: offsets.at.address,
            rows: self.rows,
            length: input.length(),
            splits: plan.splits,
            chunk: plan.chunk,
            shift: 8 * self.pass,
            reads_indices: u32::from(reads_indices),
            writes_elements: u32::from(writes_elements),
        };
        let Mover { group: workgroup, items, subgroup } = plan.mover;
        let (from, indexed) = (input.source.dtype as u32, u32::from(input.indices));
        let pipeline = if subgroup == 0 {
            use shared::{SORT_SCATTER_SHARED_NARROW as NARROW, SORT_SCATTER_SHARED_WIDE as WIDE};
            let constants = shared::Constants { workgroup, from, items, indexed };
            ctx.pipeline(if input.wide { WIDE } else { NARROW }, &constants)
        } else {
            use sort_scatter::{SORT_SCATTER_NARROW as NARROW, SORT_SCATTER_WIDE as WIDE};
            let constants = sort_scatter::Constants { workgroup, from, items, indexed, subgroup };
            let kernel = if input.wide { WIDE } else { NARROW };
            ctx.pipeline_with_subgroup(kernel, &constants, subgroup)
        };
        let reads = [self.from.elements, indices, offsets.at.region];
        let writes = [elements, self.into.indices];
        ctx.run(&pipeline, &push, self.rows * plan.splits, 1, &reads, &writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_into_shared_memory() {
        let gpu = Capabilities { shared_memory: 48 << 10, ..Capabilities::default() };
        let of = |caps: &Capabilities, wide, votes| {
            let Mover { group, items, subgroup } = Mover::of(caps, wide, true, votes);
            [group, items, subgroup]
        };
        assert_eq!(of(&gpu, false, true), [256, 16, 32]);
        assert_eq!(of(&gpu, true, true), [256, 8, 32]);
        assert_eq!(of(&gpu, false, false), [256, 8, 0]);
        let small = Capabilities { shared_memory: 16 << 10, ..gpu };
        assert_eq!(of(&small, false, true), [128, 16, 32]);
        assert_eq!(of(&small, true, false), [64, 8, 0]);
    }

    #[test]
    fn without_votes_shared_memory_ranks() {
        let mut caps = Capabilities::default();
        caps.subgroup_ops.ballot = false;
        assert_eq!(Mover::of(&caps, false, false, true).subgroup, 0);
        let wide = Capabilities { subgroup_size: 64, ..Capabilities::default() };
        assert_eq!(Mover::of(&wide, false, false, true).subgroup, 64);
    }

    #[test]
    fn long_rows_are_split_into_whole_tiles() {
        let gpu = Capabilities { compute_units: 132, ..Capabilities::default() };
        let mover = Mover::of(&gpu, false, false, true);
        let plan = plan_radix(&gpu, 1, 16 << 20, mover);
        assert_eq!(plan.chunk % u64::from(mover.tile()), 0);
        assert!(plan.splits > 1000 && plan.splits * plan.chunk >= 16 << 20);
        assert_eq!(plan_radix(&gpu, 10_000, 3000, mover).splits, 1);
    }
}
