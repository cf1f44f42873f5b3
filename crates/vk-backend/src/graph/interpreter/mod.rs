//! Runs: many steps of a decode loop in one dispatch.
//!
//! A decode step is a chain of dependent kernels, and each link costs microseconds before it does
//! anything. Two kinds of steps are therefore not encoded at once but wait: products of one row of
//! 16-bit floats, and attentions of one token over dense caches, each with what is fused with it.
//! When something else is encoded, or the work is handed over, the waiting steps become rows of a
//! table (`table.rs`), and one dispatch of a persistent kernel walks it (`shaders/interpreter`). As
//! many workgroups as run at the same time stay for the whole run, and each takes part in every
//! step.
//!
//! # Passing values on
//!
//! No barrier parts the steps. What a step makes for a later one is also stored as words of 16 bits
//! of value and 16 bits of tag, the run's number. Whoever needs it reads until all words carry the
//! tag, while the weights of its own part are being loaded. So one trip through the L2 cache is
//! barrier, flag and read in one.
//!
//! A step joins a run only if what it reads of the run's own results is there in that form.
//! Anything else begins the next run, behind a barrier.
//!
//! # Memory
//!
//! All memory of a run is held until the run is recorded, so it overwrites nothing that it reads,
//! but for a cache's last row, which comes out the same. That is why a run can be repeated.
//!
//! # When workgroups do not run at the same time
//!
//! Vulkan does not promise that they do. How many do is tried once per pipeline (`residency.rs`),
//! and every wait is bounded: a workgroup that gives up leaves a word. Behind each run stands a
//! dispatch of a single workgroup, which waits for nobody. If it finds that word, it does all steps
//! again; otherwise it does nothing. The host finds the verdict later, says so once, and goes on
//! with ordinary dispatches.
//!
//! Only one stream of a device has runs in flight at a time, because two runs could take each
//! other's multiprocessors.
//!
//! Gate: `MLX_VK_ENABLE_INTERPRETER`. `MLX_VK_DEBUG_RESIDENT_GROUPS` forces the failure, and so
//! does a test.

pub(crate) mod planner;
mod residency;
mod table;

use std::{mem::take, sync::Arc};

use mlx_vulkan_core::{Result, Stream, buffer::BufferRef};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    kernels::{
        Ctx,
        attention::decode::{self, Token},
        layouts,
        matvec::{self, Fused},
    },
    runtime::{
        commit::{Call, Work, written},
        encoder::{Encoder, Region},
        memory::allocation::Allocation,
        raw::block::{Block, Usage},
        stats,
    },
};

use layouts::interpreter::{Push, REPEAT, RUN};
use planner::Shape;
use table::{Table, Variant};

/// Times that a word is read before its maker is given up: some milliseconds.
const PATIENCE: u32 = 4096;
/// Bytes of the words that workgroups share, and of results with tags behind them.
const CONTROL: u64 = 256;
const ROOM: u64 = 16 << 20;
/// Tags are 16 bits, and each run takes two of them.
const LAST_TAG: u32 = (1 << 16) - 2;
/// The first tags are near the last, so that every process sees what comes after it.
const FIRST_TAG: u32 = LAST_TAG - 8;

/// What a step does.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Product(Fused),
    Attention(Token),
}

/// A step that is not encoded yet, with the memory that it touches.
pub(crate) struct Step {
    kind: Kind,
    reads: SmallVec<[Region; 12]>,
    writes: SmallVec<[Region; 3]>,
    held: SmallVec<[BufferRef; 6]>,
    recent: Recent,
    stream: Stream,
    op: &'static str,
}

/// What an operation's operands have to do with others of the open batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recent {
    /// Inputs that were written in it.
    pub(crate) written: usize,
    /// Whether something that it writes in place was read in it.
    pub(crate) overwritten: bool,
}

/// What a stream needs for runs.
pub(crate) struct Interpreter {
    shape: Shape,
    /// The words that workgroups share, then room for results with tags.
    arena: Arc<Allocation>,
    /// Where runs that had to be repeated leave a word.
    verdict: Block,
    /// The last tag.
    tag: u32,
    /// Workgroups that run at once.
    groups: FxHashMap<Variant, u32>,
}

/// The steps of an encoder.
#[derive(Default)]
pub(crate) struct Steps {
    waiting: Vec<Step>,
    interpreter: Option<Interpreter>,
    /// Runs failed: there are none any more.
    closed: bool,
}

impl Step {
    /// A step with the memory that it touches, of an operation on a stream.
    pub(crate) fn new(
        kind: Kind,
        reads: &[Region],
        writes: &[Region],
        (stream, op): (Stream, &'static str),
    ) -> Self {
        let (reads, writes) = (reads.into(), writes.into());
        let (held, recent) = (SmallVec::new(), Recent::default());
        Step { kind, reads, writes, held, recent, stream, op }
    }
}

impl Encoder {
    /// The shape of the interpreter's workgroups, if the device has one.
    pub(crate) fn interpreter(&self) -> Option<Shape> {
        self.device().run_shape.filter(|_| !self.steps.closed)
    }

    /// Whether no other stream has runs in flight; then none gets one before this one's are done.
    fn takes_turn(&self) -> bool {
        let mut last = self.device().interpreter.lock();
        let free = match &*last {
            Some(timer) if timer.stream == self.stream() => return true,
            Some(timer) => timer.has_reached(timer.tick().value),
            None => true,
        };
        if free {
            *last = Some(self.timer().clone());
        }
        free
    }

    /// Encodes a step together with those that follow, later.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn defer(&mut self, mut step: Step) -> Result<()> {
        self.open()?;
        step.held = take(&mut self.held);
        step.recent = self.recent;
        self.note_used(layouts::interpreter::INTERPRETER.kernel().name());
        self.steps.waiting.push(step);
        Ok(())
    }

    /// Encodes the steps that wait.
    ///
    /// # Errors
    /// When memory is out or the device fails.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.steps.waiting.is_empty() {
            return Ok(());
        }
        let mut steps = take(&mut self.steps.waiting);
        // Somebody else's operation may be half encoded.
        let (held, scratch, op) = (take(&mut self.held), take(&mut self.scratch), self.op);
        let result = self.encode_steps(&mut steps);
        (self.held, self.scratch, self.op) = (held, scratch, op);
        // The next steps find the room of these.
        steps.clear();
        self.steps.waiting = steps;
        result
    }

    fn encode_steps(&mut self, steps: &mut Vec<Step>) -> Result<()> {
        let fewest = self.device().config.interpreter_min_steps.max(1) as usize;
        while !steps.is_empty() {
            let table = self.table(steps, fewest)?;
            let count = table.as_ref().map_or(0, Table::len);
            match table {
                Some(table) if count >= fewest => self.interpret(steps.drain(..count), &table)?,
                // The step behind them did not fit: it begins the next run.
                _ => steps.drain(..count.max(1)).try_for_each(|step| self.dispatch_step(step))?,
            }
        }
        Ok(())
    }

    /// Rows for as many of the first steps as make one run; none where there are fewer than `fewest`.
    fn table(&mut self, steps: &[Step], fewest: usize) -> Result<Option<Table>> {
        let Some(shape) = self.interpreter() else { return Ok(None) };
        let Some(variant) = Variant::of(steps, &shape, self.device()) else { return Ok(None) };
        if steps.len() < fewest || !self.takes_turn() {
            return Ok(None);
        }
        let Some(groups) = self.groups_of(variant)? else { return Ok(None) };
        let Some(interpreter) = &self.steps.interpreter else { return Ok(None) };
        let address = interpreter.arena.span().address() + CONTROL;
        let room = Region { address, bytes: ROOM };
        let mut table = Table::new(variant, interpreter.shape, groups, room);
        let config = self.device().config;
        let _ = steps.iter().take_while(|step| table.push(step, config)).count();
        Ok(Some(table))
    }

    /// Workgroups that run at once; none when runs have failed.
    fn groups_of(&mut self, variant: Variant) -> Result<Option<u32>> {
        let device = self.device().clone();
        let Some(shape) = device.run_shape else { return Ok(None) };
        if self.steps.interpreter.is_none() {
            let Ok(arena) = self.allocate(CONTROL + ROOM) else {
                // Dispatches need no room.
                self.steps.closed = true;
                return Ok(None);
            };
            let span = arena.span();
            let all = Region { address: span.address(), bytes: CONTROL + ROOM };
            self.fill(span.place(0), all, 0)?;
            let verdict = Block::new(&device.raw.device, Usage::ReadBack, 256)
                .map_err(|e| device.raw.fail("interpreter", &e))?;
            verdict.write(0, &[0; 4]);
            let groups = FxHashMap::default();
            self.steps.interpreter =
                Some(Interpreter { shape, arena, verdict, tag: FIRST_TAG, groups });
        }
        let Some(interpreter) = &mut self.steps.interpreter else { return Ok(None) };
        if interpreter.verdict.load(0) != 0 {
            tracing::warn!(
                "[interpreter] workgroups did not run at the same time; going on without it"
            );
            stats::REPEATED.add(1);
            self.steps.closed = true;
            return Ok(None);
        }
        if let Some(&groups) = interpreter.groups.get(&variant) {
            return Ok(Some(groups));
        }
        let constants = variant.constants(&shape);
        let pipeline = device.pipelines.get(variant.kernel(), &constants, shape.subgroup)?;
        let groups = match device.config.debug_resident_groups {
            Some(groups) => groups as u32,
            None if device.capabilities().is_software() => 1,
            None => residency::groups(&device, &pipeline, device.capabilities().compute_units)?,
        };
        tracing::debug!("[interpreter] {groups} workgroups of {variant:?} run at the same time");
        interpreter.groups.insert(variant, groups);
        Ok(Some(groups))
    }

    /// Encodes a run.
    fn interpret(&mut self, steps: impl Iterator<Item = Step>, table: &Table) -> Result<()> {
        let device = self.device().clone();
        let tag = self.next_tag()?;
        let Some(interpreter) = &self.steps.interpreter else { return Ok(()) };
        let (shape, groups) = (interpreter.shape, table.groups());
        let variant = table.variant();
        let constants = variant.constants(&shape);
        let pipeline = device.pipelines.get(variant.kernel(), &constants, shape.subgroup)?;
        let mut push = Push {
            table: 0,
            control: interpreter.arena.span().address(),
            verdict: interpreter.verdict.address(),
            steps: table.len() as u32,
            tag,
            mode: RUN,
            patience: PATIENCE,
            one: 1f32.to_bits(),
        };
        push.table = self.args(table.bytes())?;
        stats::INTERPRETED.add(table.len() as u64);
        self.held.reserve(6 * table.len());
        for step in steps {
            self.bytes += written(&step.reads, &step.writes);
            self.held.extend(step.held);
        }
        let mut encode = |push: &Push, groups| {
            let call = Call::new(pipeline.clone(), push, [groups, 1, 1]);
            self.encode_work(Work::alone(call, &table.writes))
        };
        encode(&push, groups)?;
        if groups > 1 {
            (push.mode, push.tag) = (REPEAT, tag + 1);
            encode(&push, 1)?;
        }
        Ok(())
    }

    /// A tag that no word in the arena carries, like the one after it.
    fn next_tag(&mut self) -> Result<u32> {
        let Some(interpreter) = &mut self.steps.interpreter else { return Ok(0) };
        let first = interpreter.tag == LAST_TAG;
        interpreter.tag = if first { 2 } else { interpreter.tag + 2 };
        let (tag, arena) = (interpreter.tag, interpreter.arena.clone());
        if first {
            let span = arena.span();
            let all = Region { address: span.address(), bytes: CONTROL + ROOM };
            self.fill(span.place(0), all, 0)?;
        }
        Ok(tag)
    }

    /// Encodes a step by itself.
    fn dispatch_step(&mut self, step: Step) -> Result<()> {
        let device = self.device().clone();
        let Step { kind, reads, writes, held, stream, op, .. } = step;
        (self.held, self.op) = (held, op);
        let mut ctx = Ctx::new(&device, self, stream, op);
        match &kind {
            Kind::Product(fused) => matvec::dispatch(&mut ctx, fused, &reads, &writes),
            Kind::Attention(token) => decode::dispatch_token(&mut ctx, token, &reads, &writes),
        }?;
        self.keep_scratch();
        Ok(())
    }
}
