//! Runs: many steps of a decode loop in one dispatch.
//!
//! A decode step is a chain of dependent kernels, and each link costs microseconds before it does
//! anything. Some steps are therefore not encoded at once but wait: products of one row of 16-bit
//! floats, and attentions, mixtures of experts, convolutions and delta rules of one token, each with
//! what is fused with it.
//! When something else is encoded, or the work is handed over, the waiting steps become rows of a
//! table (`table.rs`), and one dispatch of a persistent kernel, specialized for what they agree in
//! (`variant.rs`), walks it (`shaders/interpreter`). As many workgroups as run at the same time stay
//! for the whole run, and each takes part in every step.
//!
//! # Passing values on
//!
//! No barrier parts the steps. What a step makes for a later one is also stored as words of 16 bits
//! of value and 16 bits of tag, the run's number. Whoever needs it reads until all words carry the
//! tag, while the weights of its own part are being loaded. So one trip through the L2 cache is
//! barrier, flag and read in one.
//!
//! A mixture is three rows of the table: the router's logits; the picked experts' gate and up, for
//! which every workgroup finds the picks on its own; and their weighted sum.
//!
//! Of a delta rule workgroups take rows of a head's state, and pass on what these give for the norm behind
//! it.
//!
//! A step joins a run only if what it reads of the run's own results is there in that form.
//! Anything else begins the next run, behind a barrier. An attention of many keys is a dispatch, but
//! leaves its results in that form, too: the run behind it begins while it ends.
//!
//! # Memory
//!
//! All memory of a run is held until the run is recorded, so it overwrites nothing that it reads,
//! but for a cache's last row, which comes out the same. That is why a run can be repeated. The state of a
//! delta rule is therefore not overwritten, as it is by a dispatch.
//!
//! # When workgroups do not run at the same time
//!
//! Vulkan does not promise that they do. How many do is tried once per pipeline (`residency.rs`),
//! and every wait is bounded: a workgroup that gives up leaves a word. Behind each run that waits
//! stands a dispatch of a single workgroup, which waits for nobody. If it finds that word, it does all steps
//! again; otherwise it does nothing. The host finds the verdict later, says so once, and goes on
//! with ordinary dispatches. Where memory for runs is out, or a trial takes long, steps are dispatches for
//! a while.
//!
//! Only one stream of a device has runs in flight at a time, because two runs could take each
//! other's multiprocessors.
//!
//! Gate: `MLX_VK_ENABLE_INTERPRETER`. `MLX_VK_DEBUG_RESIDENT_GROUPS` forces the failure, and so
//! does a test.

pub(crate) mod planner;
mod residency;
mod table;
mod variant;

use std::{collections::hash_map::Entry, sync::Arc};

use mlx_vulkan_core::{Dtype, Result};
use rustc_hash::FxHashMap;

use crate::{
    kernels::{
        Ctx,
        attention::decode::{self, Marked, Mask, Token},
        convolution::token as convolution,
        delta::{self, TokenDelta},
        layouts,
        matvec::{self, Format, Fused},
        mixture::token::{self, TokenMixture},
        steps::{Kind, Runs, Step, Steps},
    },
    runtime::{
        builders::Pipeline,
        commit::{Call, Work, written},
        device::DeviceState,
        encoder::{Deferred, Encoder, Region},
        memory::allocation::Allocation,
        pipelines::PipelineOf,
        raw::{
            block::{Block, Usage},
            error,
        },
        stats,
    },
};

use layouts::interpreter::{Push, REPEAT, RUN};
use planner::Shape;
use residency::Trials;
use table::Table;
use variant::Variant;

/// Times that a word is read before its maker is given up: some milliseconds.
const PATIENCE: u32 = 4096;
/// Bytes of the words that workgroups share, and of results with tags behind them.
const CONTROL: u64 = 256;
const ROOM: u64 = 16 << 20;
/// Tags are 16 bits, and each run takes two of them.
const LAST_TAG: u32 = (1 << 16) - 2;
/// Times that steps are dispatches because memory for runs was out, or a trial ran, before that is looked at
/// again: to ask for memory frees the cache first.
const LULL: u32 = 64;
/// The first tags are near the last, so that every process sees what comes after it.
const FIRST_TAG: u32 = LAST_TAG - 8;

/// What a stream needs for runs.
struct Interpreter {
    device: Arc<DeviceState>,
    shape: Shape,
    /// Made by the first run.
    memory: Option<Memory>,
    /// Workgroups that run at once.
    groups: FxHashMap<Variant, u32>,
    /// Of variants of which that is not known yet.
    trials: FxHashMap<Variant, Trials>,
    /// Times that steps will be dispatches before runs are tried again.
    lull: u32,
    /// The pipeline of the first run was ordered.
    is_expected: bool,
    /// Runs failed: there are none any more.
    closed: bool,
}

/// What runs of a stream share.
struct Memory {
    /// The words that workgroups share, then room for results with tags.
    arena: Arc<Allocation>,
    /// Where runs that had to be repeated leave a word.
    verdict: Block,
    /// The last tag.
    tag: u32,
}

/// What a stream of the device puts off to make runs of; none where there are no runs.
pub(crate) fn deferred(device: &Arc<DeviceState>) -> Option<Box<dyn Deferred>> {
    let shape = planner::shape(device.capabilities(), device.config)?;
    let runs = Interpreter {
        device: device.clone(),
        shape,
        memory: None,
        groups: FxHashMap::default(),
        trials: FxHashMap::default(),
        lull: 0,
        is_expected: false,
        closed: false,
    };
    Some(Box::new(Steps::new(Box::new(runs))))
}

impl Runs for Interpreter {
    fn serves_product(&self, product: &Fused) -> bool {
        let Format { dtype, bits, .. } = product.format;
        !self.closed
            && dtype != Dtype::Float32 as u32
            && planner::serves_product(&product.product(), product.inner, bits, &self.shape)
    }

    fn serves_attention(&self, token: &Token) -> bool {
        let Token { sizes, attention, .. } = token;
        let is_row = |mask: Mask| !mask.additive && mask.strides[1..] == [0, 1];
        let plain =
            sizes.batches == 1 && attention.sinks.is_none() && attention.mask.is_none_or(is_row);
        !self.closed && plain && attention.dtype != Dtype::Float32 as u32
    }

    fn serves_mixture(&self, mixture: &TokenMixture) -> bool {
        !self.closed && planner::serves_mixture(mixture, &self.shape)
    }

    fn serves_convolution(&self, token: &convolution::Token) -> bool {
        let is_half = token.dtype != Dtype::Float32 as u32;
        !self.closed && is_half && token.sequences == 1
    }

    fn serves_delta(&self, token: &TokenDelta) -> bool {
        !self.closed && planner::serves_delta(token, &self.shape)
    }

    fn expect(&mut self, steps: &[Step]) {
        if self.is_expected || self.closed {
            return;
        }
        // With a whole layer among them it is known for what the kernel is specialized.
        let is_attention = |step: &&Step| matches!(step.kind, Kind::Attention(_));
        let begins = steps.last().filter(is_attention).is_some();
        if !begins || steps.iter().filter(is_attention).count() < 2 {
            return;
        }
        if let Some(variant) = Variant::of(steps, &self.shape, &self.device) {
            let constants = variant.constants(&self.shape);
            self.device.pipelines.expect(variant.kernel(), &constants, self.shape.subgroup);
            self.is_expected = true;
        }
    }

    fn missing(&self, steps: &[Step]) -> Option<Arc<Pipeline>> {
        if self.has_none() || steps.len() < self.fewest() {
            return None;
        }
        let variant = Variant::of(steps, &self.shape, &self.device)?;
        if self.groups.contains_key(&variant) {
            return None;
        }
        Some(self.pipeline(variant).into_any()).filter(|pipeline| !pipeline.is_made())
    }

    fn may_end(&self, steps: &[Step]) -> bool {
        // An attention has to be in the run that makes its queries, keys and values, and runs without one
        // are another pipeline.
        let attention = steps.last().is_some_and(|step| matches!(step.kind, Kind::Attention(_)));
        attention && steps.len() >= self.fewest() && self.missing(steps).is_none()
    }

    fn encode(&mut self, steps: &mut Vec<Step>, encoder: &mut Encoder) -> Result<()> {
        let fewest = self.fewest();
        self.lull = self.lull.saturating_sub(1);
        while !steps.is_empty() {
            if self.lead(encoder, steps, fewest)? {
                continue;
            }
            let table = self.table(encoder, steps, fewest)?;
            let count = table.as_ref().map_or(0, |table| table.steps);
            match table {
                Some(table) if count >= fewest => {
                    self.interpret(encoder, steps, &table, None)?;
                }
                // The step behind them did not fit: it begins the next run.
                _ => dispatch(encoder, steps, count.max(1))?,
            }
        }
        Ok(())
    }

    fn rest(&mut self) {
        self.memory = None;
    }
}

impl Interpreter {
    /// Whether there are no runs, now or for good.
    fn has_none(&self) -> bool {
        self.closed || self.lull > 0
    }

    /// Steps that make a run.
    fn fewest(&self) -> usize {
        self.device.config.interpreter_min_steps.max(1) as usize
    }

    fn pipeline(&self, variant: Variant) -> PipelineOf<Push> {
        let (constants, subgroup) = (variant.constants(&self.shape), self.shape.subgroup);
        self.device.pipelines.get(variant.kernel(), &constants, subgroup)
    }

    /// Rows for as many of the first steps as make one run; none where there are fewer than `fewest`.
    fn table(
        &mut self,
        encoder: &mut Encoder,
        steps: &[Step],
        fewest: usize,
    ) -> Result<Option<Table>> {
        let Some(mut table) = self.empty_table(encoder, steps, fewest)? else { return Ok(None) };
        let config = self.device.config;
        let _ = steps.iter().take_while(|step| table.push(step, config)).count();
        Ok(Some(table))
    }

    /// A table for a run of `steps`, without rows; none where there are fewer than `fewest`.
    fn empty_table(
        &mut self,
        encoder: &mut Encoder,
        steps: &[Step],
        fewest: usize,
    ) -> Result<Option<Table>> {
        if self.has_none() || steps.len() < fewest {
            return Ok(None);
        }
        let device = encoder.device();
        let Some(variant) = Variant::of(steps, &self.shape, device) else { return Ok(None) };
        if !device.occupy(encoder.timer()) {
            return Ok(None);
        }
        let Some(groups) = self.groups_of(encoder, variant)? else { return Ok(None) };
        let Some(memory) = &self.memory else { return Ok(None) };
        let address = memory.arena.span().address() + CONTROL;
        let room = Region { address, bytes: ROOM };
        Ok(Some(Table::new(variant, self.shape, groups, room)))
    }

    /// Encodes a first step that no run takes, an attention of many keys, and the run of those behind it,
    /// which begins beside it; whether they were encoded.
    fn lead(
        &mut self,
        encoder: &mut Encoder,
        steps: &mut Vec<Step>,
        fewest: usize,
    ) -> Result<bool> {
        let Some((Step { kind: Kind::Attention(first), writes, .. }, rest)) = steps.split_first()
        else {
            return Ok(false);
        };
        let result = writes[0].address;
        let reads = |step: &Step| matches!(&step.kind, Kind::Product(p) if p.x == result);
        if first.plan.splits < 2 || !rest.first().is_some_and(reads) {
            return Ok(false);
        }
        let Some(mut table) = self.empty_table(encoder, rest, fewest)? else { return Ok(false) };
        let Some(region) = table.follow(writes) else { return Ok(false) };
        let config = self.device.config;
        let count = rest.iter().take_while(|step| table.push(step, config)).count();
        let Some(memory) = self.memory.as_mut().filter(|_| count >= fewest) else {
            return Ok(false);
        };
        let tag = memory.next_tag(encoder)?;
        let mut first = *first;
        first.attention.marked = Some(Marked { region, tag });
        steps[0].kind = first.into();
        dispatch(encoder, steps, 1)?;
        self.interpret(encoder, steps, &table, Some(tag))?;
        Ok(true)
    }

    /// Workgroups that run at once; none when runs have failed, or have to wait for something.
    fn groups_of(&mut self, encoder: &mut Encoder, variant: Variant) -> Result<Option<u32>> {
        let device = encoder.device().clone();
        if self.memory.is_none() {
            self.memory = Memory::new(encoder)?;
        }
        let Some(memory) = &self.memory else {
            // Dispatches need no room.
            self.lull = LULL;
            return Ok(None);
        };
        if memory.verdict.load(0) != 0 {
            tracing::warn!(
                "[interpreter] workgroups did not run at the same time; going on without it"
            );
            stats::REPEATED.add(1);
            self.closed = true;
            return Ok(None);
        }
        if let Some(&groups) = self.groups.get(&variant) {
            return Ok(Some(groups));
        }
        let pipeline = self.pipeline(variant);
        if let Err(error) = pipeline.any().made() {
            tracing::warn!("[interpreter] {error}; going on without it");
            self.closed = true;
            return Ok(None);
        }
        let groups = match device.config.debug_resident_groups {
            Some(groups) => Some(groups as u32),
            None if device.capabilities().is_software() => Some(1),
            None => self.tried(&device, variant, &pipeline)?,
        };
        let Some(groups) = groups else {
            self.lull = LULL;
            return Ok(None);
        };
        tracing::debug!("[interpreter] {groups} workgroups of {variant:?} run at the same time");
        self.groups.insert(variant, groups);
        Ok(Some(groups))
    }

    /// Workgroups that run at once, found by trying; none as long as that takes, or memory for it is out.
    fn tried(
        &mut self,
        device: &DeviceState,
        variant: Variant,
        pipeline: &PipelineOf<Push>,
    ) -> Result<Option<u32>> {
        // What is not known stays: the device may be using it, whatever went wrong.
        let trials = match self.trials.entry(variant) {
            Entry::Occupied(begun) => begun.into_mut(),
            Entry::Vacant(free) => {
                let made = Trials::new(device, device.capabilities().compute_units)?;
                let Some(made) = made else { return Ok(None) };
                free.insert(made)
            }
        };
        let groups = trials.groups(device, pipeline)?;
        if groups.is_some() {
            self.trials.remove(&variant);
        }
        Ok(groups)
    }

    /// Encodes a run of the first steps, which stay where memory for it is out; with a tag, beside the
    /// dispatch before, which leaves results with that.
    fn interpret(
        &mut self,
        encoder: &mut Encoder,
        steps: &mut Vec<Step>,
        table: &Table,
        beside: Option<u32>,
    ) -> Result<()> {
        let (pipeline, groups) = (self.pipeline(table.variant()), table.groups());
        let Some(memory) = &mut self.memory else { return Ok(()) };
        let tag = match beside {
            Some(tag) => tag,
            None => memory.next_tag(encoder)?,
        };
        let mut push = Push {
            table: encoder.args(table.bytes())?,
            control: memory.arena.span().address(),
            verdict: memory.verdict.address(),
            steps: table.len() as u32,
            tag,
            mode: RUN,
            patience: PATIENCE,
            one: 1f32.to_bits(),
        };
        stats::INTERPRETED.add(table.len() as u64);
        encoder.held.reserve(6 * table.steps);
        for step in steps.drain(..table.steps) {
            encoder.bytes += written(&step.reads, &step.writes);
            encoder.held.extend(step.held);
        }
        let work = |push: &Push, groups| {
            let call = Call::new(pipeline.clone(), push, [groups, 1, 1]);
            Work::alone(call, &table.writes)
        };
        let run = work(&push, groups);
        encoder.encode_work(if beside.is_some() { run.beside() } else { run })?;
        if groups > 1 || beside.is_some() {
            (push.mode, push.tag) = (REPEAT, tag + 1);
            encoder.encode_work(work(&push, 1))?;
        }
        Ok(())
    }
}

impl Memory {
    /// Memory with words that carry no tag; none when there is not enough.
    fn new(encoder: &mut Encoder) -> Result<Option<Memory>> {
        let Some(arena) = encoder.allocate_if_any(CONTROL + ROOM)? else { return Ok(None) };
        let raw = &encoder.device().raw;
        let verdict = match Block::new(raw, Usage::ReadBack, 256) {
            Err(error) if error::is_lack(&error) => return Ok(None),
            made => made.map_err(|error| raw.fail("interpreter", &error))?,
        };
        verdict.write(0, &[0; 4]);
        let memory = Memory { arena, verdict, tag: FIRST_TAG };
        memory.clear(encoder)?;
        Ok(Some(memory))
    }

    /// Overwrites all tags.
    fn clear(&self, encoder: &mut Encoder) -> Result<()> {
        let span = self.arena.span();
        let all = Region { address: span.address(), bytes: CONTROL + ROOM };
        encoder.fill(span.buffer_offset(0), all, 0)
    }

    /// A tag that no word in the arena carries, like the one after it.
    fn next_tag(&mut self, encoder: &mut Encoder) -> Result<u32> {
        let first = self.tag == LAST_TAG;
        self.tag = if first { 2 } else { self.tag + 2 };
        if first {
            self.clear(encoder)?;
        }
        Ok(self.tag)
    }
}

/// Encodes the first `count` steps by themselves; those from the first failure on stay.
fn dispatch(encoder: &mut Encoder, steps: &mut Vec<Step>, count: usize) -> Result<()> {
    let (mut encoded, mut result) = (0, Ok(()));
    while encoded < count && result.is_ok() {
        result = dispatch_one(encoder, &steps[encoded]);
        encoded += usize::from(result.is_ok());
    }
    steps.drain(..encoded);
    result
}

/// Encodes a step by itself.
fn dispatch_one(encoder: &mut Encoder, step: &Step) -> Result<()> {
    let device = encoder.device().clone();
    let Step { kind, reads, writes, held, stream, op, .. } = step;
    (encoder.held, encoder.op) = (held.clone(), *op);
    let mut ctx = Ctx::new(&device, encoder, *stream, op);
    match kind {
        Kind::Product(fused) => matvec::dispatch(&mut ctx, fused, reads, writes),
        Kind::Attention(token) => decode::dispatch_token(&mut ctx, token, reads, writes),
        Kind::Mixture(mixture) => token::dispatch(&mut ctx, mixture),
        Kind::Convolution(token) => convolution::dispatch(&mut ctx, token),
        Kind::Delta(token) => delta::dispatch_gated(&mut ctx, token),
    }?;
    encoder.keep_scratch();
    Ok(())
}
