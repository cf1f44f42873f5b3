//! Evaluation: from the outputs' graph to a tape, and from the tape to the backends.
//!
//! One evaluation encodes at a time in the process: it has the turn. Encoding never waits, so the turn is
//! held for bounded work of the CPU only, and passed on every few nodes if others want it. What has to be
//! waited for (too much in flight, memory, a full ring) a backend returns as a [`Pause`](backend::Pause):
//! the evaluation gives the turn back, waits, takes it again and goes on. What holds whenever nobody has
//! the turn:
//!
//! - An array is lazy and has its node, or is evaluated and has its data. Nobody claims nodes: the turn is
//!   kept from before a node is encoded until its outputs have their data, and what could not be encoded
//!   left no trace.
//! - So another evaluation may have evaluated any node of a tape meanwhile. Whoever gets to a place looks
//!   whether it is done. A group is encoded if none of its members is done; otherwise what is kept of it is
//!   evaluated one by one, with those members that this still takes.
//! - A group leaves out arrays that only its members read. They stay lazy and keep their node, so that
//!   whoever got hold of one meanwhile can evaluate it: a group overwrites nothing but caches, and their
//!   updates write the same rows again.
//! - What an evaluation encoded on other streams than the one it waits for is handed over first, because
//!   others may wait for it. Streams of a device hand over by themselves what somebody waits for, and a
//!   stream that has little under way is offered what is encoded so far.
//!
//! There is one turn, not a claim per node, because encoding a node takes less than half a microsecond:
//! claims of a node and its inputs would be a good part of that, and would themselves have to be waited
//! for.
//!
//! A long evaluation that nobody waits for can be detached (`eval/detached.rs`): another thread goes on with
//! it. Gradients may be, before somebody asks for them (`eval/early.rs`), and parts of a graph that was built
//! before, while the rest of it is built again (`eval/ahead.rs`).

pub(crate) mod ahead;
pub(crate) mod detached;
mod early;
mod touched;

use std::ops;

use ahead::{Attempt, Look, Part};
pub use ahead::{EarlyParts, begin_while_building, early_parts};
pub use early::Early;
use once_cell::sync::Lazy;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use touched::Touched;

use crate::{
    Array, Result, Shape, Stream,
    array::Data,
    backend::{self, Backend, Encoded, Output},
    buffer,
    foreign::Holding,
    fusion::Groups,
    graph::{Node, Turn},
    memory,
    outcome::{self, Doubts},
    shape::Layout,
    stream::{self, DeviceType},
    tape::{Entry, Graph, Tape},
    transforms::trace,
    views,
};

/// Results up to this size are copied to the host when they are evaluated: whoever reads one later (a sampled
/// token, a loss) does not wait for what was encoded in between.
const SMALL: usize = 4096;

/// Nodes that are evaluated before others get the turn, if they want it.
const SHARE: usize = 64;

/// Places between those at which streams that have little under way get what is encoded of an evaluation
/// that somebody waits for, and from the last such place to the end. A decode step is some 800, and each
/// submission costs the host and the device time.
const OFFERED: usize = 192;

/// Places of a tape that are planned at once. Of a longer one, as of a training step, the first are, and the
/// others while devices do what these ask for; groups that would lie across are lost. Gradients that are
/// begun early are many from twice the first places on.
const PLANNED: usize = 2560;

/// The first places of such a tape. Nobody waits there because much is in flight: devices work on that while
/// the others are planned, which takes milliseconds.
const PLANNED_FIRST: usize = 512;

/// Nodes of a graph from which on encoding takes longer than having another thread do it.
const LONG: usize = 128;

static TURN: Lazy<Mutex<Turn>> = Lazy::new(|| Mutex::new(Turn::new()));

/// Computes arrays and waits until their contents can be read.
///
/// # Errors
/// What went wrong while computing them.
pub fn eval<'a>(arrays: impl IntoIterator<Item = &'a &'a Array>) -> Result<()> {
    let arrays: Vec<&Array> = arrays.into_iter().copied().collect();
    start(&arrays, Caller::Waits)?;
    arrays.iter().try_for_each(|a| a.evaluated().buffer.wait())
}

/// Starts computing arrays and returns without waiting for the devices.
///
/// # Errors
/// What went wrong while encoding.
pub fn async_eval(arrays: &[&Array]) -> Result<()> {
    start(arrays, Caller::Encodes)
}

/// The same, but large graphs are encoded by another thread while the caller goes on. That is worth it for
/// who takes as long to build a graph as it takes to encode one, as Python does: the threads share what both
/// touch, so each takes longer than it would alone.
///
/// # Errors
/// When arrays are traced, or belong on streams of other threads; of graphs that are not large, also what
/// went wrong while encoding. What goes wrong later is told to who reads the arrays.
pub fn async_eval_detached(arrays: &[&Array]) -> Result<()> {
    start(arrays, Caller::GoesOn)
}

/// The same for gradients, by who builds something of them before evaluating it.
fn begin(gradients: &[&Array]) -> Result<()> {
    start(gradients, Caller::Begins)
}

/// What the caller of an evaluation does meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// It encodes, and waits for the results.
    Waits,
    /// It encodes.
    Encodes,
    /// It goes on, while another thread encodes what is large.
    GoesOn,
    /// It builds more of the results, and waits for that then. Small graphs are left as they are.
    Begins,
}

/// Encodes what arrays need.
fn start(arrays: &[&Array], caller: Caller) -> Result<()> {
    if arrays.iter().all(|a| a.data().is_some()) {
        return Ok(());
    }
    detached::settle_own()?;
    let look =
        if caller == Caller::Begins { None } else { ahead::evaluates(caller == Caller::Waits) };
    let mut turn = turn();
    let mut graph = Graph::new(arrays, caller == Caller::Waits, &mut turn)?;
    let may_detach = matches!(caller, Caller::GoesOn | Caller::Begins) && !trace::is_tracing();
    if may_detach && !graph.find(LONG, &mut turn)? {
        early::note(caller == Caller::Begins);
        return detach(turn, graph, arrays, caller, look);
    }
    if caller == Caller::Begins {
        // Encoding it here would take as long as the caller would gain.
        return Ok(());
    }
    early::watching(|| encode_here(turn, graph, arrays, caller, look))
}

/// Encodes the rest of a graph on this thread.
fn encode_here(
    mut turn: TurnGuard,
    graph: Graph,
    arrays: &[&Array],
    caller: Caller,
    look: Option<Look>,
) -> Result<()> {
    let tape = graph.into_tape(arrays, backend::recomputes, &mut turn)?;
    let is_awaited = caller == Caller::Waits;
    // Devices have gradients to do: what follows these is encoded meanwhile.
    let runs_ahead = tape.len() >= LONG && early::note(false);
    let mut evaluation = Evaluation::new(turn, tape, Touched::default(), is_awaited);
    evaluation.runs_ahead = runs_ahead;
    evaluation.look = look;
    let encoded = evaluation.encode_all(arrays);
    let touched = evaluation.end(|| ());
    encoded.and_then(|()| touched.wait_for_memory())
}

/// Lets another thread find the rest of a graph and encode it.
fn detach(
    turn: TurnGuard,
    graph: Graph,
    arrays: &[&Array],
    caller: Caller,
    look: Option<Look>,
) -> Result<()> {
    // Streams that the caller may not use are refused as far as they are known.
    Touched::of(graph.streams())?;
    let arrays: Vec<Array> = arrays.iter().map(|&array| array.clone()).collect();
    detached::go_on(turn, move |mut turn, end| {
        let outputs: Vec<&Array> = arrays.iter().collect();
        // What could not be evaluated stays lazy: whoever reads it tries again, and is told.
        let Ok(tape) = graph.into_tape(&outputs, backend::recomputes, &mut turn) else { return };
        let Ok(touched) = Touched::of((0..tape.len()).map(|place| tape.node(place).stream)) else {
            return;
        };
        end.encodes_on(touched.streams());
        // Who goes on mostly comes back for the results before all of it has run.
        let mut evaluation = Evaluation::new(turn, tape, touched, true);
        if caller == Caller::Begins {
            evaluation.at_once = 2 * PLANNED_FIRST;
            evaluation.runs_ahead = true;
        }
        evaluation.look = look;
        let encoded = evaluation.encode_all(&outputs);
        // Whoever has the turn next may take over memory that nobody else refers to.
        drop(arrays);
        let touched = evaluation.end(|| drop(end));
        let _ = encoded.and_then(|()| touched.wait_for_memory());
    });
    Ok(())
}

/// Lets another thread evaluate a part of a graph that is still being built, with this output, if it is
/// planned as the whole was. Whether there is something to evaluate.
fn begin_part(mut turn: TurnGuard, output: &Array, part: Part) -> bool {
    let Ok(graph) = Graph::new(&[output], false, &mut turn) else { return false };
    if graph.is_empty() {
        return false;
    }
    let output = output.clone();
    detached::go_on(turn, move |mut turn, end| {
        let (output, attempt) = (output, Attempt::new(part));
        // What could not be evaluated stays lazy, as does what is planned otherwise.
        let Ok(tape) = graph.into_tape(&[&output], backend::recomputes, &mut turn) else { return };
        let Ok(touched) = Touched::of((0..tape.len()).map(|place| tape.node(place).stream)) else {
            return;
        };
        end.encodes_on(touched.streams());
        let mut evaluation = Evaluation::new(turn, tape, touched, true);
        evaluation.plan();
        let fits = attempt.part().fits(&evaluation.groups, &evaluation.tape);
        // The output is no result that somebody reads: it is not brought to the host.
        let is_done = fits && evaluation.encode_all(&[]).is_ok();
        attempt.end(is_done);
        drop(output);
        let touched = evaluation.end(|| drop(end));
        let _ = touched.wait_for_memory();
    });
    true
}

/// Encodes the copy of a small result to the host, if the device has memory of its own.
fn bring_small_to_host(array: &Array) -> Result<()> {
    let buffer = &array.evaluated().buffer;
    if buffer.nbytes() <= SMALL { buffer.to_host().map(drop) } else { Ok(()) }
}

/// Waits until everything handed to `stream` has run.
///
/// # Errors
/// What went wrong on the stream and nobody was told of yet. When this thread may not use it, a stream of a
/// GPU.
pub fn synchronize(stream: Stream) -> Result<()> {
    // As MLX has it: who waits for a thread of the CPU needs nothing of it.
    let stream = match stream.device.kind {
        DeviceType::Gpu => stream::usable(stream)?,
        DeviceType::Cpu => stream,
    };
    let backend = backend::backend_for(stream.device)?;
    detached::settle(|touched| touched == stream)?;
    backend.finalize(stream)?;
    backend.tick(stream).wait()?;
    outcome::untold(stream)
}

/// Waits until all that [`async_eval_detached`] was given is encoded: for who ends the process or looks at
/// its memory.
///
/// # Errors
/// When this thread shall not wait any more.
pub fn settle() -> Result<()> {
    detached::settle(|_| true)
}

/// The turn to evaluate.
pub(crate) struct TurnGuard {
    guard: MutexGuard<'static, Turn>,
    /// Dropped after the lock is released.
    holding: Holding,
}

/// Waits until nobody evaluates.
pub(crate) fn turn() -> TurnGuard {
    let holding = Holding::new();
    TurnGuard { guard: TURN.lock(), holding }
}

/// The turn to evaluate, if nobody has it.
fn turn_at_once() -> Option<TurnGuard> {
    let holding = Holding::new();
    TURN.try_lock().map(|guard| TurnGuard { guard, holding })
}

impl TurnGuard {
    /// Gives the turn back while `f` runs.
    fn without<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let TurnGuard { guard, holding } = self;
        MutexGuard::unlocked(guard, || holding.without(f))
    }
}

impl ops::Deref for TurnGuard {
    type Target = Turn;

    fn deref(&self) -> &Turn {
        &self.guard
    }
}

impl ops::DerefMut for TurnGuard {
    fn deref_mut(&mut self) -> &mut Turn {
        &mut self.guard
    }
}

/// What is to be evaluated before something else can be.
#[derive(Clone, Copy)]
enum Step {
    /// A place on the tape.
    Place(usize),
    /// A group, by its number.
    Group(usize),
}

/// A tape that is being evaluated.
struct Evaluation {
    turn: TurnGuard,
    tape: Tape,
    groups: Groups,
    /// Places before this one are planned.
    planned: usize,
    /// The most places that are planned together.
    at_once: usize,
    /// More work comes soon: nobody waits because much is in flight, while there is room for it.
    runs_ahead: bool,
    /// Somebody will have nothing to do until it has run: devices begin before all is encoded.
    is_awaited: bool,
    /// Where something was last handed over for that.
    offered: usize,
    touched: Touched,
    /// Looks at the tape once it is planned.
    look: Option<Look>,
    /// The way from a place of the tape to what it needs, instead of recursion.
    steps: Vec<Step>,
}

impl Evaluation {
    fn new(turn: TurnGuard, tape: Tape, touched: Touched, is_awaited: bool) -> Self {
        let (groups, steps) = (Groups::new(tape.len()), Vec::new());
        let (planned, at_once, offered) = (0, PLANNED, 0);
        let (runs_ahead, look) = (false, None);
        Evaluation {
            turn,
            tape,
            groups,
            planned,
            at_once,
            runs_ahead,
            is_awaited,
            offered,
            touched,
            look,
            steps,
        }
    }

    /// Plans the places behind those that are planned.
    fn plan(&mut self) {
        let (from, places) = (self.planned, self.tape.len());
        self.planned = if places <= self.at_once || from > 0 { places } else { PLANNED_FIRST };
        // What a group leaves out has no data, which a transform may ask for.
        if !trace::is_tracing() {
            self.groups.add(backend::plan(&self.tape, from..self.planned));
        }
        if self.planned == places
            && from == 0
            && let Some(look) = self.look.take()
        {
            look.find(&self.tape, &self.groups);
        }
    }

    /// Encodes the tape, of which `arrays` are the outputs.
    fn encode_all(&mut self, arrays: &[&Array]) -> Result<()> {
        let result = self.run();
        let result = result.and_then(|()| arrays.iter().try_for_each(|a| bring_small_to_host(a)));
        // What was encoded must run, also after an error.
        result.and(self.touched.finalize())
    }

    /// Gives the turn back for good; calls `then` before what was put off runs.
    fn end(self, then: impl FnOnce()) -> Touched {
        let Evaluation { turn: TurnGuard { guard, holding }, touched, tape, groups, .. } = self;
        // Whoever has the turn next asks who else refers to arrays.
        drop((tape, groups));
        drop(guard);
        then();
        drop(holding);
        touched
    }

    fn run(&mut self) -> Result<()> {
        for place in 0..self.tape.len() {
            if place % SHARE == SHARE - 1 {
                MutexGuard::bump(&mut self.turn.guard);
            }
            if place == self.planned {
                self.plan();
            }
            if !self.groups.sees_to(place) {
                self.demand(place)?;
            }
        }
        Ok(())
    }

    /// Makes sure that the array at `place` is evaluated: with its group, or alone.
    fn demand(&mut self, place: usize) -> Result<()> {
        self.steps.push(Step::Place(place));
        while let Some(&step) = self.steps.last() {
            match step {
                Step::Place(place) => self.go_on_with(place)?,
                Step::Group(group) => self.go_on_with_group(group)?,
            }
        }
        Ok(())
    }

    /// The last step is a place: what it needs comes first, then it.
    fn go_on_with(&mut self, place: usize) -> Result<()> {
        if self.tape.is_done(place) {
            self.steps.pop();
            drop(self.tape.take(place));
        } else if let Some(group) = self.groups.begin(place) {
            self.steps.push(Step::Group(group));
        } else if let Some(input) = self.tape.missing(place, |_| false) {
            // It waits for a group; the others come before this one on the tape.
            self.steps.push(Step::Place(input));
        } else {
            self.steps.pop();
            self.evaluate(place)?;
        }
        Ok(())
    }

    /// The last step is a group: what its members need comes first, then all of them at once if that is
    /// possible.
    fn go_on_with_group(&mut self, number: usize) -> Result<()> {
        let members = &self.groups.get(number).members;
        let to_do = members.iter().filter(|&&member| !self.tape.is_done(member));
        let is_member = |place: usize| self.groups.has(number, place);
        let missing = to_do.filter_map(|&member| self.tape.missing(member, is_member)).next();
        if let Some(input) = missing {
            self.steps.push(Step::Place(input));
            return Ok(());
        }
        self.steps.pop();
        if !self.fuse(number)? {
            let kept = &self.groups.get(number).kept;
            self.steps.extend(kept.iter().rev().map(|&place| Step::Place(place)));
        }
        Ok(())
    }

    /// Encodes one node; another evaluation may do it first.
    fn evaluate(&mut self, place: usize) -> Result<()> {
        let mut last_try = false;
        while !self.tape.is_done(place) {
            let stream = self.tape.node(place).stream;
            let encoded = self.encode(place)?;
            if encoded.is_encoded() {
                drop(self.tape.take(place));
            }
            self.go_on_after(encoded, stream, &mut last_try)?;
        }
        drop(self.tape.take(place));
        Ok(())
    }

    /// Encodes a node and gives its outputs their data.
    fn encode(&mut self, place: usize) -> Result<Encoded> {
        let Entry { array, node, .. } = self.tape.entry(place);
        // A transform still needs the inputs of what it traces: nobody may take over their memory.
        let _needed = array.is_tracer().then(|| node.inputs.clone());
        if node.siblings.get().is_none() {
            let mut outputs = [output_of(array)];
            let encoded = encode(node, &mut outputs, &mut self.touched)?;
            if encoded.is_encoded() {
                let [output] = outputs;
                array.fill(output, &mut self.turn);
            }
            return Ok(encoded);
        }
        let arrays = self.tape.entry(place).outputs();
        let mut outputs: SmallVec<[Output; 3]> = arrays.iter().map(output_of).collect();
        let encoded = encode(node, &mut outputs, &mut self.touched)?;
        if encoded.is_encoded() {
            arrays.iter().zip(outputs).for_each(|(a, output)| a.fill(output, &mut self.turn));
        }
        Ok(encoded)
    }

    /// Encodes a group whose outer inputs are evaluated, if none of its members is and they lie as its
    /// kernel needs them.
    fn fuse(&mut self, number: usize) -> Result<bool> {
        let mut last_try = false;
        loop {
            let members = &self.groups.get(number).members;
            if members.iter().any(|&member| self.tape.is_done(member)) {
                // An input needed what the group makes, or another evaluation did.
                return Ok(false);
            }
            let stream = self.tape.node(members[0]).stream;
            let Some(encoded) = self.encode_group(number)? else { return Ok(false) };
            let done = encoded.is_encoded();
            self.go_on_after(encoded, stream, &mut last_try)?;
            if done {
                self.offer(number)?;
                return Ok(true);
            }
        }
    }

    /// Hands over what is encoded up to a group, if that is due and its stream has little under way.
    fn offer(&mut self, number: usize) -> Result<()> {
        let place = self.groups.get(number).kept[0];
        let is_due = self.is_awaited
            && place >= self.offered + OFFERED
            && place + OFFERED <= self.tape.len();
        // Where something was taken before, devices are ahead of the host: they get more while they do that.
        if is_due && self.touched.offer(usize::from(self.offered > 0))? {
            self.offered = place;
        }
        Ok(())
    }

    /// Encodes a group and gives what is kept of it its data.
    fn encode_group(&mut self, number: usize) -> Result<Option<Encoded>> {
        let (tape, group) = (&self.tape, self.groups.get(number));
        let (stream, backend) = self.touched.find(tape.node(group.kept[0]).stream)?;
        let inputs = || group.members.iter().flat_map(|&member| &tape.node(member).inputs);
        let outer = || inputs().filter_map(Array::data);
        let doubts = await_inputs(&**backend, stream, outer())?;
        let results: SmallVec<[Array; 4]> =
            group.kept.iter().flat_map(|&place| tape.entry(place).outputs()).collect();
        let mut kept: SmallVec<[Output; 4]> = results.iter().map(output_of).collect();
        let encoded = match group.fusion.eval(stream, tape, &mut kept)? {
            Some(encoded) if encoded.is_encoded() => encoded,
            other => return Ok(other),
        };
        let tick = backend.tick(stream);
        outer().for_each(|input| input.buffer.note_read(tick));
        for (result, output) in results.iter().zip(kept) {
            if let Some(data) = &output.data {
                doubts.pass_on(&data.buffer);
                data.buffer.note_write(tick);
            }
            result.fill(output, &mut self.turn);
        }
        for &member in &group.members {
            drop(self.tape.take(member));
        }
        Ok(Some(encoded))
    }

    /// Waits for what the encoding of an operation on `stream` asks for, without the turn.
    fn go_on_after(&mut self, encoded: Encoded, stream: Stream, last_try: &mut bool) -> Result<()> {
        let pause = match encoded {
            Encoded::Done => return Ok(()),
            // Planning the other places takes a while.
            Encoded::Full(_) if self.planned < self.tape.len() => return Ok(()),
            Encoded::Full(_) if self.runs_ahead && has_room() => return Ok(()),
            Encoded::Full(pause) | Encoded::Later(pause) => pause,
            Encoded::NoMemory(_, error) if *last_try => return Err(*error),
            Encoded::NoMemory(pause, _) => {
                *last_try = true;
                pause
            }
        };
        self.touched.hand_over_but(stream)?;
        self.turn.without(pause)
    }
}

/// Whether so little memory is active that what is encoded ahead of devices, which keeps its own until it is
/// recorded, does not make more of it than there was.
fn has_room() -> bool {
    memory::active_memory() < memory::peak_memory() / 8 * 7
}

/// What a backend is asked to fill.
fn output_of(array: &Array) -> Output {
    Output { shape: Shape::from_slice(array.shape()), dtype: array.dtype(), data: None }
}

fn encode(node: &Node, outputs: &mut [Output], touched: &mut Touched) -> Result<Encoded> {
    if views::fill(&node.primitive, &node.inputs, outputs)? {
        return Ok(Encoded::Done);
    }
    if outputs.iter().all(|o| o.size() == 0) {
        outputs.iter_mut().try_for_each(allocate_empty)?;
        return Ok(Encoded::Done);
    }
    let (stream, backend) = touched.find(node.stream)?;
    let inputs = node.inputs.iter().map(Array::evaluated);
    let doubts = await_inputs(&**backend, stream, inputs)?;
    let encoded = backend.eval(stream, &node.primitive, &node.inputs, outputs)?;
    if !encoded.is_encoded() {
        return Ok(encoded);
    }
    let tick = backend.tick(stream);
    for input in &node.inputs {
        input.evaluated().buffer.note_read(tick);
    }
    for output in outputs.iter().filter_map(|o| o.data.as_ref()) {
        doubts.pass_on(&output.buffer);
        output.buffer.note_write(tick);
    }
    Ok(encoded)
}

/// An output without elements needs no work: backends only see outputs that have some.
fn allocate_empty(output: &mut Output) -> Result<()> {
    let layout = Layout::row_major(&output.shape);
    output.data = Some(Data { buffer: buffer::host_buffer(0)?, layout });
    Ok(())
}

/// Lets `stream` wait for other streams' work, which is handed over first: a queue that waits for work nobody
/// has submitted would wait forever. What the outputs fail with: tasks of the CPU look at their inputs
/// themselves when they run, work of a device cannot.
fn await_inputs<'a>(
    backend: &dyn Backend,
    stream: Stream,
    inputs: impl Iterator<Item = &'a Data>,
) -> Result<Doubts> {
    let looks_itself = stream.device.kind == DeviceType::Cpu;
    let mut doubts = Doubts::default();
    for Data { buffer, .. } in inputs {
        let written = buffer.written();
        if written.stream != stream.index {
            if !written.reached() {
                let producer = stream::by_index(written.stream);
                backend::backend_for(producer.device)?.finalize(producer)?;
                backend.wait(stream, written)?;
                if !looks_itself {
                    doubts.note_under_way(buffer, written, producer);
                }
            } else if !looks_itself && let Some(error) = written.failure() {
                // A batch that failed reads as reached once a later one has run.
                doubts.note_failed(error);
            }
        }
        // After it is asked whether the input is there: then all is known.
        if !looks_itself {
            doubts.note(buffer);
        }
    }
    Ok(doubts)
}
