//! Reductions at the end of the chains that make what they reduce: that gets no memory
//! (`REDUCING` of `program/program.comp`).
//!
//! Several values of a chain may be reduced at once, by one operation over the same axes: the sums that the
//! derivative of a normalization takes are of one pass over its arrays.

use std::ops::Range;

use mlx_vulkan_core::{
    Dtype, Result,
    backend::Output,
    chains::Chain,
    fusion::Group,
    primitives::{Primitive, Reduce, ReduceOp},
    tape::Tape,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Bound, GroupKernel, Grouped, Run};
use crate::{
    graph::fusion::device,
    kernels::{
        Capabilities, Ctx, Region,
        layouts::program::{Constants, Push, REDUCING, Reduction},
        program::Form,
        reduce::planner::ReducePlan,
    },
    runtime::pipelines::PipelineOf,
};

/// Values of a chain that are reduced at once, at most: each has a result for every lane.
const MOST: usize = 4;

/// The reductions of a tape that chains may end with.
pub(super) struct Reductions {
    /// By the places of what they read, ascending.
    of: FxHashMap<usize, SmallVec<[usize; 2]>>,
}

/// The reductions among those of `places` that `may` be in a group.
pub(super) fn find(tape: &Tape, places: Range<usize>, may: impl Fn(usize) -> bool) -> Reductions {
    let mut of: FxHashMap<usize, SmallVec<[usize; 2]>> = FxHashMap::default();
    for place in places {
        let node = tape.node(place);
        let Primitive::Reduce(Reduce { op, .. }) = &node.primitive else { continue };
        let Some(read) = tape.input(place, 0) else { continue };
        let dtype = tape.array(read).dtype();
        let fits = matches!(op, ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min)
            && matches!(dtype, Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16)
            && tape.node(read).stream == node.stream
            && device(node).is_some_and(|device| device.config.enable_program_reductions)
            && Extents::new(tape, place, read).is_some();
        if fits && may(place) {
            of.entry(read).or_default().push(place);
        }
    }
    Reductions { of }
}

impl Reductions {
    /// Whether one of them reads what is at a place.
    pub(super) fn read(&self, place: usize) -> bool {
        self.of.contains_key(&place)
    }

    /// The groups of the chains that end with reductions, and all other chains.
    pub(super) fn split(&self, tape: &Tape, chains: Vec<Chain>) -> (Vec<Group>, Vec<Chain>) {
        if self.of.is_empty() {
            return (Vec::new(), chains);
        }
        let (mut groups, mut others) = (Vec::new(), Vec::new());
        for chain in chains {
            match self.end(tape, &chain) {
                Some(reduced) => groups.push(reduced.group()),
                // One of a single operation was found for a reduction alone.
                None if chain.members.len() > 1 => others.push(chain),
                None => {}
            }
        }
        (groups, others)
    }

    /// A chain with the reductions that it ends with.
    fn end(&self, tape: &Tape, chain: &Chain) -> Option<Reduced> {
        let reductions = |place: &usize| self.of.get(place).into_iter().flatten().copied();
        let first = chain.kept.iter().flat_map(reductions).next()?;
        let alike = |&place: &usize| {
            tape.node(place).primitive == tape.node(first).primitive
                && tape.array(place).dtype() == tape.array(first).dtype()
        };
        let Chain { program, .. } = chain;
        let (mut stored, mut reduced) = (Values::default(), Values::default());
        for (&step, &place) in program.outputs.iter().zip(&chain.kept) {
            let reduction = reductions(&place).find(alike).filter(|_| reduced.steps.len() < MOST);
            if let Some(reduction) = reduction {
                reduced.add(step, reduction);
            }
            let uses = chain.reads(tape, place) + usize::from(reduction.is_some());
            if !(tape.is_private(place) && tape.uses(place) == uses) {
                stored.add(step, place);
            }
        }
        let mut chain = chain.clone();
        chain.program.outputs = [&stored.steps[..], &reduced.steps].concat();
        chain.kept = stored.places;
        let read = tape.input(first, 0)?;
        let Primitive::Reduce(Reduce { op, .. }) = tape.node(first).primitive else { return None };
        let extents = Extents::new(tape, first, read)?;
        Some(Reduced { chain, reductions: reduced.places, op, extents })
    }
}

/// Steps of a program, and places on the tape that belong to them.
#[derive(Default)]
struct Values {
    steps: SmallVec<[usize; 4]>,
    places: SmallVec<[usize; 3]>,
}

impl Values {
    fn add(&mut self, step: usize, place: usize) {
        self.steps.push(step);
        self.places.push(place);
    }
}

/// The sizes of an array before, of, and behind the axes that are reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extents {
    outer: usize,
    length: usize,
    inner: usize,
}

impl Extents {
    /// Those of a reduction of what is at the place `read`, if its axes are neighbours and of some length.
    fn new(tape: &Tape, place: usize, read: usize) -> Option<Extents> {
        let Primitive::Reduce(Reduce { axes, .. }) = &tape.node(place).primitive else {
            return None;
        };
        Extents::of(tape.array(read).shape(), axes)
    }

    fn of(shape: &[usize], axes: &[usize]) -> Option<Extents> {
        let mut extents = Extents { outer: 1, length: 1, inner: 1 };
        let Extents { outer, length, inner } = &mut extents;
        for (axis, &size) in shape.iter().enumerate() {
            match axes.contains(&axis) {
                true if *inner > 1 && size > 1 => return None,
                true => *length *= size,
                false if *length > 1 => *inner *= size,
                false => *outer *= size,
            }
        }
        (extents.length > 1).then_some(extents)
    }

    /// Neighbours in memory that are reduced, or that are not.
    fn run(self) -> Run {
        if self.inner == 1 { Run::Row(self.length) } else { Run::Columns(self.inner) }
    }

    /// How threads share blocks of `lanes` elements.
    fn plan(self, caps: &Capabilities, lanes: usize) -> ReducePlan {
        let Extents { outer, length, inner } = self;
        match inner {
            1 => ReducePlan::new(caps, outer as u64, length as u64, lanes as u64, false),
            _ => ReducePlan::of_words(caps, (outer * inner / lanes) as u64, length as u64, lanes),
        }
    }

    /// What the kernel has to know for a plan.
    fn reduction(self, plan: &ReducePlan, lanes: usize) -> Reduction {
        let Extents { outer, length, inner } = self;
        let ReducePlan { splits, chunk, .. } = *plan;
        let lanes = lanes as u64;
        let (rows, columns, block) = match inner {
            1 => (outer as u64, 1, lanes),
            _ => ((outer * inner) as u64 / lanes, inner as u64 / lanes, 1),
        };
        let (steps, chunk) = (length as u64 / block, chunk / block);
        let (further, parts, counters) = (0, 0, 0);
        Reduction { rows, columns, steps, splits, chunk, further, parts, counters }
    }
}

/// A chain of which some values, its program's last outputs, are reduced.
struct Reduced {
    chain: Chain,
    /// Places of the reductions, one for each of these values.
    reductions: SmallVec<[usize; 3]>,
    op: ReduceOp,
    extents: Extents,
}

impl Reduced {
    fn group(self) -> Group {
        let Reduced { chain, reductions, .. } = &self;
        let with = |places: &[usize]| places.iter().chain(reductions).copied().collect::<Vec<_>>();
        Group {
            members: with(&chain.members).into(),
            kept: with(&chain.kept).into(),
            fusion: Box::new(Grouped(self)),
        }
    }

    /// What its kernel is specialized for, with results of a dtype.
    fn constants(&self, plan: &ReducePlan, lanes: usize, to: Dtype) -> Constants {
        Constants {
            workgroup: plan.group,
            lanes: lanes as u32,
            mode: REDUCING,
            op: self.op as u32,
            team: plan.team,
            across: u32::from(plan.across),
            reduced: self.reductions.len() as u32,
            to: to as u32,
        }
    }

    /// Encodes its kernel, whose destinations are the last operands.
    fn dispatch(
        &self,
        ctx: &mut Ctx<'_>,
        pipeline: &PipelineOf<Push>,
        bound: &Bound<'_>,
        plan: &ReducePlan,
    ) -> Result<()> {
        let push = bound.push(ctx)?;
        let reduction = self.extents.reduction(plan, bound.plan.block.lanes);
        // Teams of a workgroup that are behind the last row have nothing to do.
        let numbers = reduction.rows.div_ceil(plan.teams());
        let joined = if plan.across { bound.plan.block.lanes as u64 } else { 1 };
        let mut scratch: SmallVec<[Region; 2]> = SmallVec::new();
        if plan.splits > 1 {
            let results = self.reductions.len() as u64 * plan.splits * reduction.rows * joined;
            scratch.push(ctx.scratch(results * Dtype::Float32.size() as u64)?);
            scratch.push(ctx.counters(numbers)?);
        }
        let address = |of: usize| scratch.get(of).map_or(0, |region| region.address);
        let (parts, counters) = (address(0), address(1));
        let reduction = Reduction { further: push.further, parts, counters, ..reduction };
        let count = bound.at.len() as u64;
        let push = Push { count, further: ctx.args(bytemuck::bytes_of(&reduction))?, ..push };
        let workgroups = ctx.capabilities().groups_1d(numbers * plan.splits, 1);
        bound.dispatch(ctx, pipeline, &push, workgroups, &scratch)
    }
}

impl GroupKernel for Reduced {
    fn name(&self) -> usize {
        self.reductions[0]
    }

    fn counted(&self) -> &[usize] {
        &[]
    }

    fn replaces(&self) -> u64 {
        self.chain.replaces() + self.reductions.len() as u64
    }

    fn describe(&self, tape: &Tape) -> String {
        let Reduced { chain, reductions, op, .. } = self;
        format!("{} {} of {}", reductions.len(), op.name(), chain.describe(tape))
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let mut bound = Bound::new(ctx, &self.chain, tape, Some(self.extents.run()))?;
        let lanes = bound.plan.block.lanes;
        let plan = self.extents.plan(ctx.capabilities(), lanes);
        let to = tape.array(self.name()).dtype();
        let form = Form { reduced: self.reductions.len(), ..bound.form() };
        let constants = self.constants(&plan, lanes, to);
        let Some(pipeline) = ctx.program(&form, bound.elements, &constants) else {
            return Ok(false);
        };
        let (stored, reduced) = kept.split_at_mut(self.chain.kept.len());
        bound.make(ctx, stored)?;
        for output in reduced {
            bound.at.push(ctx.output(output)?);
        }
        self.dispatch(ctx, &pipeline, &bound, &plan)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_are_reduced_lie_side_by_side() {
        let extents = |shape: &[usize], axes: &[usize]| {
            let Extents { outer, length, inner } = Extents::of(shape, axes)?;
            Some((outer, length, inner))
        };
        assert_eq!(extents(&[2, 3, 4], &[0, 1, 2]), Some((1, 24, 1)));
        assert_eq!(extents(&[2, 3, 4], &[1]), Some((2, 3, 4)));
        assert_eq!(extents(&[2, 3, 4], &[0, 2]), None);
        assert_eq!(extents(&[2, 3, 1, 4], &[1, 3]), Some((2, 12, 1)));
        assert_eq!(extents(&[2, 1, 4], &[0, 2]), Some((1, 8, 1)));
        assert_eq!(extents(&[2, 1, 4], &[1]), None);
    }

    #[test]
    fn parts_of_rows_are_whole_blocks() {
        let caps = Capabilities { compute_units: 132, ..Capabilities::default() };
        for (extents, lanes) in [
            (Extents { outer: 1, length: 1 << 24, inner: 1 }, 8),
            (Extents { outer: 1, length: 1 << 18, inner: 64 }, 8),
            (Extents { outer: 3, length: 4096, inner: 5 }, 1),
            (Extents { outer: 1 << 16, length: 12, inner: 1 }, 4),
        ] {
            let plan = extents.plan(&caps, lanes);
            let Reduction { rows, columns, steps, splits, chunk, .. } =
                extents.reduction(&plan, lanes);
            let elements = extents.outer * extents.length * extents.inner;
            assert_eq!((rows * steps) as usize * lanes, elements, "{extents:?}");
            assert!(rows.is_multiple_of(columns) && (splits - 1) * chunk < steps, "{extents:?}");
            assert!(splits * chunk >= steps, "{extents:?}");
        }
    }
}
