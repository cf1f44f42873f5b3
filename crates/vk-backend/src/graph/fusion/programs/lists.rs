//! One program for many arrays: chains that are alike, such as an optimizer's updates of all parameters, as
//! one dispatch (`LISTED` of `program/program.comp`).
//!
//! Chains of a list wait for the last one. So they are chains whose results nothing on the tape needs, and
//! which lie side by side on it: what they read would not be given up much earlier without the list.

use mlx_vulkan_core::{
    Dtype, Result, backend::Output, chains::Chain, fusion::Group, primitives::Program, tape::Tape,
};
use rustc_hash::FxHashMap;

use super::{Block, Bound, GroupKernel, Grouped, ONE, Plan, Region, group, one};
use crate::{
    kernels::{
        Ctx, Dispatch,
        layouts::program::{LISTED, Push},
    },
    runtime::{pipelines::PipelineOf, stats},
};

/// Places of a tape between neighbours of a list, at most.
const APART: usize = 16;
/// Chains of a list, at most: their rows fit into the memory of arguments.
const MOST: usize = 1024;
/// Times that a thread of a dispatch for many arrays takes elements: a workgroup first looks for its array.
const TIMES: u64 = 4;

/// Chains that do the same to different arrays.
struct List(Vec<Chain>);

/// The groups of chains, of which those that can be lists are.
pub(super) fn groups(tape: &Tape, chains: Vec<Chain>) -> Vec<Group> {
    let numbers = numbers(tape, &chains);
    let count = numbers.iter().flatten().max().map_or(0, |most| most + 1);
    let mut lists: Vec<Vec<Chain>> = (0..count).map(|_| Vec::new()).collect();
    let mut groups = Vec::with_capacity(chains.len());
    for (chain, number) in chains.into_iter().zip(numbers) {
        match number {
            Some(number) => lists[number].push(chain),
            None => groups.push(group(chain)),
        }
    }
    groups.extend(lists.into_iter().map(list));
    groups
}

/// The group of chains of one list, which may be a single one.
fn list(mut chains: Vec<Chain>) -> Group {
    if let [_] = chains[..] {
        return group(chains.remove(0));
    }
    Group {
        members: chains.iter().flat_map(|chain| chain.members.iter().copied()).collect(),
        kept: chains.iter().flat_map(|chain| chain.kept.iter().copied()).collect(),
        fusion: Box::new(Grouped(List(chains))),
    }
}

/// A list that may grow.
struct Open {
    number: usize,
    /// Its last chain's name.
    last: usize,
    count: usize,
}

/// The number of the list of each chain that can wait.
fn numbers(tape: &Tape, chains: &[Chain]) -> Vec<Option<usize>> {
    let mut open: FxHashMap<(u16, &Program, &[Dtype]), Open> = FxHashMap::default();
    let mut next = 0..;
    let number = |chain| {
        can_wait(tape, chain).then(|| {
            let Chain { program, dtypes, .. } = chain;
            let key = (tape.node(chain.name()).stream.index, program, &dtypes[..]);
            let mut new =
                || Open { number: next.next().unwrap_or_default(), last: chain.name(), count: 0 };
            let list = open.entry(key).or_insert_with(&mut new);
            if list.last.abs_diff(chain.name()) > APART || list.count == MOST {
                *list = new();
            }
            (list.last, list.count) = (chain.name(), list.count + 1);
            list.number
        })
    };
    chains.iter().map(number).collect()
}

/// Whether nothing on the tape but the chain itself reads what is kept of it.
fn can_wait(tape: &Tape, chain: &Chain) -> bool {
    chain.kept.iter().all(|&place| chain.reads(tape, place) == tape.uses(place))
}

impl GroupKernel for List {
    fn name(&self) -> usize {
        self.0.iter().map(Chain::name).max().expect("a list has chains")
    }

    fn counted(&self) -> &[usize] {
        &[]
    }

    fn replaces(&self) -> u64 {
        self.0.iter().map(Chain::replaces).sum()
    }

    fn describe(&self, tape: &Tape) -> String {
        let List(chains) = self;
        format!("{} times {}", chains.len(), chains[0].describe(tape))
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, mut kept: &mut [Output]) -> Result<bool> {
        let List(chains) = self;
        let bound = chains.iter().map(|chain| Bound::new(ctx, chain, tape, None));
        let mut bound: Vec<Bound<'_>> = bound.collect::<Result<_>>()?;
        let parts = parts(&bound);
        let pipelines: Vec<Option<PipelineOf<Push>>> =
            parts.iter().map(|part| part.pipeline(ctx, &bound)).collect();
        let Some(pipelines) = pipelines.into_iter().collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        for bound in &mut bound {
            let (own, others) = std::mem::take(&mut kept).split_at_mut(bound.chain.kept.len());
            bound.make(ctx, own)?;
            kept = others;
        }
        for (part, pipeline) in parts.iter().zip(&pipelines) {
            part.encode(ctx, pipeline, &bound)?;
        }
        Ok(true)
    }
}

/// Chains of a list whose operands lie alike, by their numbers.
struct Part(Vec<usize>);

/// The parts of a list.
fn parts(bound: &[Bound<'_>]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut of: FxHashMap<(&Block, &[usize]), usize> = FxHashMap::default();
    for (number, bound) in bound.iter().enumerate() {
        let Plan { block, walks, .. } = &bound.plan;
        let part = *of.entry((block, walks)).or_insert(parts.len());
        if part == parts.len() {
            parts.push(Part(Vec::new()));
        }
        parts[part].0.push(number);
    }
    parts
}

impl Part {
    /// Whether one dispatch does all of them: walks have sizes of their own.
    fn is_listed(&self, bound: &[Bound<'_>]) -> bool {
        self.0.len() > 1 && bound[self.0[0]].plan.walk.is_none()
    }

    fn pipeline(&self, ctx: &Ctx<'_>, bound: &[Bound<'_>]) -> Option<PipelineOf<Push>> {
        let elements = self.0.iter().map(|&number| bound[number].elements).sum();
        let mode = if self.is_listed(bound) { LISTED } else { ONE };
        bound[self.0[0]].pipeline(ctx, elements, mode)
    }

    fn encode(
        &self,
        ctx: &mut Ctx<'_>,
        pipeline: &PipelineOf<Push>,
        bound: &[Bound<'_>],
    ) -> Result<()> {
        let mut chains = self.0.iter().map(|&number| &bound[number]);
        if !self.is_listed(bound) {
            return chains.try_for_each(|bound| one(ctx, pipeline, bound));
        }
        let (most, mut rows) = (ctx.capabilities().max_groups[0], Rows::default());
        for bound in chains {
            let workgroups = bound.workgroups(ctx, TIMES);
            if rows.groups > most - workgroups {
                std::mem::take(&mut rows).encode(ctx, pipeline)?;
            }
            rows.add(bound, workgroups);
        }
        rows.encode(ctx, pipeline)
    }
}

/// The rows of a dispatch for many arrays.
#[derive(Default)]
struct Rows {
    /// Of each row the number of elements, then addresses of operands.
    words: Vec<u64>,
    /// The first workgroup of each row.
    firsts: Vec<u32>,
    groups: u32,
    reads: Vec<Region>,
    writes: Vec<Region>,
}

impl Rows {
    fn add(&mut self, bound: &Bound<'_>, workgroups: u32) {
        self.words.push(bound.elements);
        self.words.extend(bound.addresses());
        self.firsts.push(self.groups);
        self.groups += workgroups;
        let (reads, writes) = bound.regions();
        self.reads.extend(reads);
        self.writes.extend(writes);
    }

    fn encode(mut self, ctx: &mut Ctx<'_>, pipeline: &PipelineOf<Push>) -> Result<()> {
        let rows = self.firsts.len();
        self.firsts.push(self.groups);
        let push = Push {
            count: (self.words.len() / rows) as u64,
            walk: ctx.args(bytemuck::cast_slice(&self.firsts))?,
            further: ctx.args(bytemuck::cast_slice(&self.words))?,
            ndim: rows as u32,
            ..Push::default()
        };
        stats::CHAINED.add(rows as u64);
        let groups = [self.groups, 1, 1];
        ctx.dispatch(&Dispatch {
            pipeline,
            push: &push,
            groups,
            reads: &self.reads,
            writes: &self.writes,
        })
    }
}
