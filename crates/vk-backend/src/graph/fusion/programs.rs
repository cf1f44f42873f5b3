//! Chains of elementwise operations as one kernel (`kernels/program`), in code that was compiled and in code
//! that was not. Until a chain's kernel is made its members are encoded one by one.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use mlx_vulkan_core::{
    Array, Dtype, Result, Shape, Strides,
    backend::Output,
    chains::{self, Chain},
    fusion::Group,
    graph::Node,
    primitives::{CopyOp, Primitive, UnaryOp},
    shape::{self, Layout},
    tape::Tape,
};
use smallvec::SmallVec;

mod lists;
mod reductions;

use super::{GroupKernel, Grouped, device};
use crate::{
    kernels::{
        Ctx, Dispatch, Operand, Region,
        binary::is_transcendental,
        elementwise::{Order, is_one_element, layout_like},
        layouts::program::{Constants, INLINE, ONE, Push},
        program::{Form, Kind},
        strided,
    },
    runtime::{pipelines::PipelineOf, stats},
};

/// Whether chains are looked for.
static ENABLED: AtomicBool = AtomicBool::new(true);

/// Turns chains on or off: what they do depends on when a builder has made a kernel, and counts of dispatches
/// with it.
pub fn enable_chains(on: bool) {
    ENABLED.store(on, Relaxed);
}

/// The groups of the chains of `places`, but for those that are claimed.
pub(super) fn find(
    tape: &Tape,
    places: Range<usize>,
    is_claimed: impl Fn(usize) -> bool,
) -> Vec<Group> {
    if !ENABLED.load(Relaxed) {
        return Vec::new();
    }
    let may = |place: usize| {
        let node = tape.node(place);
        !is_claimed(place)
            && device(node).is_some_and(|device| device.config.enable_programs)
            && tape.array(place).size() > 0
            // The single operation says so.
            && node.inputs.iter().all(|input| input.dtype() != Dtype::Float64)
            && tape.array(place).dtype() != Dtype::Float64
    };
    let reductions = reductions::find(tape, places.clone(), may);
    let chains = chains::find(tape, places, may, |place| reductions.read(place));
    let (reduced, others) = reductions.split(tape, chains);
    let mut groups = lists::groups(tape, others);
    groups.extend(reduced);
    groups
}

/// Elements from which on arrays are rather computed again than stored.
const MANY: usize = 1 << 16;

/// Whether the result of an operation is worth to be computed again by each chain that reads it.
pub(crate) fn recomputes(node: &Node, result: &Array) -> bool {
    let is_cheap = match &node.primitive {
        Primitive::Unary(op) => is_cheap_unary(*op, result.dtype()),
        Primitive::Binary(op) => !is_transcendental(*op),
        Primitive::Ternary(_) | Primitive::Copy(CopyOp::AsType { .. }) => true,
        _ => false,
    };
    is_cheap
        && result.size() >= MANY
        && ENABLED.load(Relaxed)
        && device(node)
            .is_some_and(|device| device.config.enable_programs && device.config.enable_recomputing)
}

/// Whether a function takes less time than to store and load its result: with 16 bits more of them do.
fn is_cheap_unary(op: UnaryOp, dtype: Dtype) -> bool {
    use UnaryOp as U;
    match op {
        U::Erf | U::Exp | U::Rsqrt | U::Sigmoid | U::Sqrt | U::Tanh => dtype.size() == 2,
        U::Abs | U::Ceil | U::Floor | U::Negative | U::Round | U::Sign | U::Square => true,
        U::BitwiseInvert | U::LogicalNot => true,
        _ => false,
    }
}

fn group(chain: Chain) -> Group {
    Group {
        members: chain.members.clone(),
        kept: chain.kept.clone(),
        fusion: Box::new(Grouped(chain)),
    }
}

/// How a chain's operands lie.
struct Plan {
    block: Block,
    /// As in a [`Form`].
    walks: SmallVec<[usize; 8]>,
    /// Sizes and strides of the operands that are walked, packed.
    walk: Option<(SmallVec<[u8; 256]>, u32)>,
    /// The input whose order the outputs take, if not row-major.
    leader: Option<usize>,
}

/// Neighbours of which each thread's are a part, where a chain is reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// So many of one row.
    Row(usize),
    /// One of each of so many rows: threads stay in their column.
    Columns(usize),
}

impl Run {
    fn length(self) -> usize {
        match self {
            Run::Row(length) | Run::Columns(length) => length,
        }
    }
}

impl Plan {
    /// For elements in any order, or in row-major order and in runs.
    fn new(
        chain: &Chain,
        inputs: &[&Array],
        at: &[Operand],
        shape: &[usize],
        run: Option<Run>,
    ) -> Plan {
        let order = match run {
            None => Order::of(inputs),
            Some(_) if inputs.iter().all(is_flat) => Order::Common(None),
            Some(_) => Order::None,
        };
        let kept = chain.program.outputs.iter().map(|step| chain.dtypes[inputs.len() + step]);
        let outputs: SmallVec<[Dtype; 8]> = kept.collect();
        let read = inputs.iter().map(|input| input.dtype());
        let most = Form::lanes(read.chain(outputs.iter().copied()));
        let fits = |lanes: &usize| run.is_none_or(|run| run.length().is_multiple_of(*lanes));
        let lanes = [most, 4].into_iter().find(fits).unwrap_or(1);
        let (block, walked, leader) = match order {
            Order::Common(leader) => (flat_kinds(inputs, at, lanes), Walked::default(), leader),
            Order::None => {
                let (block, walked) = walked_kinds(inputs, at, shape, lanes, run);
                (block, walked, None)
            }
        };
        let Walked { walk, walks } = walked;
        Plan { block, walks, walk, leader }
    }
}

/// Whether an input is row-major or one element.
fn is_flat(input: &&Array) -> bool {
    is_one_element(input) || input.evaluated().layout.flags.row_contiguous
}

type Kinds = SmallVec<[Kind; 8]>;

/// What threads take at a time, and how, as in a [`Form`].
#[derive(PartialEq, Eq, Hash)]
struct Block {
    kinds: Kinds,
    lanes: usize,
    fold: usize,
}

/// Sizes and different strides, packed, and which of them each operand has that is walked.
#[derive(Default)]
struct Walked {
    walk: Option<(SmallVec<[u8; 256]>, u32)>,
    walks: SmallVec<[usize; 8]>,
}

/// Kinds of operands that are all dense in one order, or one element.
fn flat_kinds(inputs: &[&Array], at: &[Operand], lanes: usize) -> Block {
    let kind = |input: &&Array| if is_one_element(input) { Kind::Scalar } else { Kind::Dense };
    let kinds: Kinds = inputs.iter().map(kind).collect();
    let fits = |lanes| {
        let mut operands = kinds.iter().zip(at).zip(inputs);
        operands.all(|((&kind, at), input)| {
            kind == Kind::Scalar || at.is_aligned(Form::alignment(input.dtype(), lanes))
        })
    };
    let lanes = if fits(lanes) { lanes } else { 1 };
    Block { kinds, lanes, fold: lanes }
}

/// Kinds of operands of any strides, and the walk over those that are not row-major.
fn walked_kinds(
    inputs: &[&Array],
    at: &[Operand],
    shape: &[usize],
    lanes: usize,
    run: Option<Run>,
) -> (Block, Walked) {
    let is_row_major = |input: &&&Array| input.evaluated().layout.flags.row_contiguous;
    let is_walked = |input: &&&Array| !is_one_element(input) && !is_row_major(input);
    let strides = |input: &&&Array| input.evaluated().layout.strides.clone();
    let walked: Vec<Strides> = inputs.iter().filter(is_walked).map(|i| strides(&i)).collect();
    let borrowed: Vec<&[isize]> = walked.iter().map(Strides::as_slice).collect();
    let mut merged: Vec<Strides> = vec![Strides::new(); walked.len()];
    let sizes: Shape = shape::collapse_into(shape, &borrowed, &mut merged);
    let last = sizes.last().copied().unwrap_or(1);
    let before = sizes.len().checked_sub(2).map_or(1, |axis| sizes[axis]);
    // Elements of the last axis of which a thread takes a part, or several rows.
    let fold = |lanes: usize| match last {
        _ if last.is_multiple_of(lanes) => Some(lanes),
        _ if run.is_some() || !lanes.is_multiple_of(last) => None,
        _ => before.is_multiple_of(lanes / last).then_some(last),
    };
    let kinds_of = |lanes: usize, fold: usize| -> Option<Kinds> {
        let mut strides = merged.iter();
        let kinds = inputs.iter().zip(at).map(|(input, at)| {
            let aligned = at.is_aligned(Form::alignment(input.dtype(), lanes));
            if is_one_element(input) {
                return Some(Kind::Scalar);
            }
            if is_row_major(&input) {
                return aligned.then_some(Kind::Dense);
            }
            let (&inner, outer) = strides.next()?.split_last()?;
            let whole = outer.iter().all(|stride| stride.unsigned_abs().is_multiple_of(lanes));
            let is_column = outer.iter().all(|&stride| stride == 0);
            Some(match inner {
                0 => Kind::Repeat,
                1 if aligned && is_column && run == Some(Run::Columns(last)) => Kind::Column,
                1 if aligned && whole && fold == lanes => Kind::Row,
                _ => Kind::Strided,
            })
        });
        kinds.collect()
    };
    let wide = [lanes, 4].into_iter().filter(|&less| less <= lanes).find_map(|lanes| {
        let fold = fold(lanes)?;
        Some(Block { kinds: kinds_of(lanes, fold)?, lanes, fold })
    });
    let block = wide.unwrap_or_else(|| {
        let kinds = kinds_of(1, 1).expect("every operand is aligned to its elements");
        Block { kinds, lanes: 1, fold: 1 }
    });
    let mut different: Vec<Strides> = Vec::new();
    let mut which = |strides: &Strides| {
        different.iter().position(|known| known == strides).unwrap_or_else(|| {
            different.push(strides.clone());
            different.len() - 1
        })
    };
    let others = block.kinds.iter().filter(|kind| !matches!(kind, Kind::Scalar | Kind::Dense));
    let walked = merged.iter().zip(others).filter(|(_, kind)| kind.is_walked());
    let walks = walked.map(|(strides, _)| which(strides)).collect();
    let walk =
        (!different.is_empty()).then(|| (strided::pack(&sizes, &different), sizes.len() as u32));
    (block, Walked { walk, walks })
}

impl GroupKernel for Chain {
    fn name(&self) -> usize {
        Chain::name(self)
    }

    fn counted(&self) -> &[usize] {
        &[]
    }

    fn replaces(&self) -> u64 {
        self.members.len() as u64
    }

    fn describe(&self, tape: &Tape) -> String {
        let names = self.program.steps.iter().map(|step| step.primitive.name());
        let shape = tape.array(self.name()).shape();
        format!("chain {} of {shape:?}", names.collect::<Vec<_>>().join(" "))
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let mut bound = Bound::new(ctx, self, tape, None)?;
        let Some(pipeline) = bound.pipeline(ctx, bound.elements, ONE) else { return Ok(false) };
        bound.make(ctx, kept)?;
        one(ctx, &pipeline, &bound)?;
        Ok(true)
    }
}

/// A chain with where its operands are.
struct Bound<'a> {
    chain: &'a Chain,
    inputs: SmallVec<[&'a Array; 8]>,
    /// Inputs, then outputs once they have memory.
    at: SmallVec<[Operand; 16]>,
    plan: Plan,
    /// Of each output.
    elements: u64,
}

impl<'a> Bound<'a> {
    /// Of elements in the order of [`Plan::new`].
    fn new(
        ctx: &mut Ctx<'_>,
        chain: &'a Chain,
        tape: &'a Tape,
        run: Option<Run>,
    ) -> Result<Bound<'a>> {
        let inputs: SmallVec<[&Array; 8]> =
            chain.inputs.iter().map(|&(place, nth, _)| &tape.node(place).inputs[nth]).collect();
        let at: SmallVec<[Operand; 16]> =
            inputs.iter().map(|input| ctx.input(input)).collect::<Result<_>>()?;
        let result = tape.array(chain.name());
        let plan = Plan::new(chain, &inputs, &at, result.shape(), run);
        Ok(Bound { chain, inputs, at, plan, elements: result.size() as u64 })
    }

    /// What its kernel is.
    fn form(&self) -> Form {
        let Chain { program, dtypes, .. } = self.chain;
        let Plan { block: Block { kinds, lanes, fold }, walks, .. } = &self.plan;
        let (kinds, walks) = (kinds.clone(), walks.clone());
        let (program, dtypes) = (program.clone(), dtypes.clone());
        Form { program, dtypes, kinds, walks, lanes: *lanes, fold: *fold, reduced: 0 }
    }

    /// Its kernel for so many elements, if it is made, without reductions.
    fn pipeline(&self, ctx: &Ctx<'_>, elements: u64, mode: u32) -> Option<PipelineOf<Push>> {
        let workgroup = ctx.capabilities().elementwise_workgroup();
        let lanes = self.plan.block.lanes as u32;
        let constants = Constants { workgroup, lanes, mode, ..Constants::default() };
        ctx.program(&self.form(), elements, &constants)
    }

    /// Where its operands are and how they lie. Operands that the words have no room for are `further`.
    fn push(&self, ctx: &mut Ctx<'_>) -> Result<Push> {
        let (walk, ndim) = match &self.plan.walk {
            Some((packed, ndim)) => (ctx.args(packed)?, *ndim),
            None => (0, 0),
        };
        let operands: SmallVec<[u64; 16]> = self.addresses().collect();
        let (inline, further) = operands.split_at(operands.len().min(INLINE as usize));
        let mut addresses = [0; INLINE as usize];
        addresses[..inline.len()].copy_from_slice(inline);
        let further = match further {
            [] => 0,
            _ => ctx.args(bytemuck::cast_slice(further))?,
        };
        Ok(Push { count: self.elements, walk, further, operands: addresses, ndim })
    }

    /// Encodes a dispatch of its kernel, which also writes to `scratch`.
    fn dispatch(
        &self,
        ctx: &mut Ctx<'_>,
        pipeline: &PipelineOf<Push>,
        push: &Push,
        workgroups: u32,
        scratch: &[Region],
    ) -> Result<()> {
        let (reads, writes) = self.regions();
        let (reads, writes): (SmallVec<[_; 16]>, SmallVec<[_; 8]>) =
            (reads.collect(), writes.chain(scratch.iter().copied()).collect());
        let groups = [workgroups, 1, 1];
        stats::CHAINED.add(1);
        ctx.dispatch(&Dispatch { pipeline, push, groups, reads: &reads, writes: &writes })
    }

    /// Gives the outputs memory.
    fn make(&mut self, ctx: &mut Ctx<'_>, kept: &mut [Output]) -> Result<()> {
        let made = outputs(ctx, self.chain, &self.inputs, &self.at, &self.plan, kept)?;
        self.at.extend(made);
        Ok(())
    }

    fn addresses(&self) -> impl Iterator<Item = u64> {
        self.at.iter().map(|operand| operand.address)
    }

    /// What it reads, and what it writes.
    fn regions(&self) -> (impl Iterator<Item = Region>, impl Iterator<Item = Region>) {
        let (reads, writes) = self.at.split_at(self.inputs.len());
        (reads.iter().map(|o| o.region), writes.iter().map(|o| o.region))
    }

    /// Workgroups of threads that take elements so many times, where the device may have that many.
    fn workgroups(&self, ctx: &Ctx<'_>, times: u64) -> u32 {
        let group = u64::from(ctx.capabilities().elementwise_workgroup());
        let items = self.elements.div_ceil(self.plan.block.lanes as u64);
        ctx.capabilities().groups_1d(items, group * times)
    }
}

/// Encodes the kernel of one chain.
fn one(ctx: &mut Ctx<'_>, pipeline: &PipelineOf<Push>, bound: &Bound<'_>) -> Result<()> {
    let push = bound.push(ctx)?;
    bound.dispatch(ctx, pipeline, &push, bound.workgroups(ctx, 1), &[])
}

/// Memory of the outputs: of inputs that nobody needs any more, or new.
fn outputs(
    ctx: &mut Ctx<'_>,
    chain: &Chain,
    inputs: &[&Array],
    at: &[Operand],
    plan: &Plan,
    kept: &mut [Output],
) -> Result<SmallVec<[Operand; 8]>> {
    let mut taken: SmallVec<[bool; 8]> = SmallVec::from_elem(false, inputs.len());
    kept.iter_mut()
        .map(|output| {
            // A thread has loaded an element of a dense operand before it stores that element.
            for (i, input) in inputs.iter().enumerate() {
                let alignment = Form::alignment(output.dtype, plan.block.lanes);
                if taken[i] || plan.block.kinds[i] != Kind::Dense || !at[i].is_aligned(alignment) {
                    continue;
                }
                if let Some(operand) = ctx.donate_among(input, chain.inputs[i].2, output)? {
                    taken[i] = true;
                    return Ok(operand);
                }
            }
            let layout = match plan.leader {
                Some(leader) => layout_like(inputs[leader], output),
                None => Layout::row_major(&output.shape),
            };
            ctx.output_like(output, layout)
        })
        .collect()
}
