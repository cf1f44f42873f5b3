//! A tape that is being evaluated: which of it is planned, in which order its places and groups are encoded,
//! and what is waited for in between.

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::{ahead::Look, touched::Touched, turn::TurnGuard};
use crate::{
    Array, Result, Shape, Stream,
    array::Data,
    backend::{self, Backend, Encoded, Output},
    buffer,
    fusion::Groups,
    graph::Node,
    memory,
    outcome::Doubts,
    shape::Layout,
    stream::{self, DeviceType},
    tape::{Entry, Tape},
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
pub(super) const PLANNED: usize = 2560;

/// The first places of such a tape. Nobody waits there because much is in flight: devices work on that while
/// the others are planned, which takes milliseconds.
pub(super) const PLANNED_FIRST: usize = 512;

/// What is to be evaluated before something else can be.
#[derive(Clone, Copy)]
enum Step {
    /// A place on the tape.
    Place(usize),
    /// A group, by its number.
    Group(usize),
}

/// A tape that is being evaluated.
pub(super) struct Evaluation {
    turn: TurnGuard,
    pub(super) tape: Tape,
    pub(super) groups: Groups,
    /// Places before this one are planned.
    planned: usize,
    /// The most places that are planned together.
    pub(super) at_once: usize,
    /// More work comes soon: nobody waits because much is in flight, while there is room for it.
    pub(super) runs_ahead: bool,
    /// Somebody will have nothing to do until it has run: devices begin before all is encoded.
    is_awaited: bool,
    /// Where something was last handed over for that.
    offered: usize,
    touched: Touched,
    /// Looks at the tape once it is planned.
    pub(super) look: Option<Look>,
    /// The way from a place of the tape to what it needs, instead of recursion.
    steps: Vec<Step>,
}

impl Evaluation {
    pub(super) fn new(turn: TurnGuard, tape: Tape, touched: Touched, is_awaited: bool) -> Self {
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
    pub(super) fn plan(&mut self) {
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
    pub(super) fn encode_all(&mut self, arrays: &[&Array]) -> Result<()> {
        let result = self.run();
        let result = result.and_then(|()| arrays.iter().try_for_each(|a| bring_small_to_host(a)));
        // What was encoded must run, also after an error.
        result.and(self.touched.finalize())
    }

    /// Gives the turn back for good; calls `then` before what was put off runs.
    pub(super) fn end(self, then: impl FnOnce()) -> Touched {
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

/// Encodes the copy of a small result to the host, if the device has memory of its own.
fn bring_small_to_host(array: &Array) -> Result<()> {
    let buffer = &array.evaluated().buffer;
    if buffer.nbytes() <= SMALL { buffer.to_host().map(drop) } else { Ok(()) }
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
