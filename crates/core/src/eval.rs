//! Evaluation: from the outputs' graph to a tape, and from the tape to the backends.
//!
//! One evaluation encodes at a time in the process; encoding never waits for a device, so other
//! threads wait only as long as encoding takes.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use once_cell::sync::Lazy;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::{
    Array, Result, Stream,
    array::Data,
    backend::{self, Backend, Output},
    buffer,
    clock::{self, Tick},
    fusion::{Group, Groups},
    graph::{Node, Turn},
    memory,
    shape::Layout,
    stream,
    tape::{Entry, Tape},
    views,
};

/// Results up to this size are copied to the host when they are evaluated: whoever reads one later (a sampled
/// token, a loss) does not wait for what was encoded in between.
const SMALL: usize = 4096;

static TURN: Lazy<Mutex<Turn>> = Lazy::new(|| Mutex::new(Turn::new()));
static EPOCH: AtomicU32 = AtomicU32::new(0);

/// Computes arrays and waits until their contents can be read.
///
/// # Errors
/// What went wrong while computing them.
pub fn eval<'a>(arrays: impl IntoIterator<Item = &'a &'a Array>) -> Result<()> {
    let arrays: Vec<&Array> = arrays.into_iter().copied().collect();
    async_eval(&arrays)?;
    arrays.iter().try_for_each(|a| a.evaluated().buffer.written().wait())
}

/// Starts computing arrays and returns without waiting for the devices.
///
/// # Errors
/// What went wrong while encoding.
pub fn async_eval(arrays: &[&Array]) -> Result<()> {
    if arrays.iter().all(|a| a.data().is_some()) {
        return Ok(());
    }
    let mut turn = turn();
    let tape = Tape::new(arrays, next_epoch(), &turn)?;
    let groups = Groups::new(backend::plan(&tape), tape.len());
    let mut evaluation = Evaluation { tape, groups, touched: Touched::default(), turn: &mut turn };
    let result = evaluation.run();
    let result = result.and_then(|()| arrays.iter().try_for_each(|a| bring_small_to_host(a)));
    let finalized = evaluation.touched.finalize();
    result.and(finalized)
}

/// Encodes the copy of a small result to the host, if the device has memory of its own.
fn bring_small_to_host(array: &Array) -> Result<()> {
    let buffer = &array.evaluated().buffer;
    if buffer.nbytes() <= SMALL { buffer.to_host().map(drop) } else { Ok(()) }
}

/// Waits until everything handed to `stream` has run.
///
/// # Errors
/// What went wrong on the stream.
pub fn synchronize(stream: Stream) -> Result<()> {
    let backend = backend::backend_for(stream.device)?;
    let tick = {
        let _turn = turn();
        backend.finalize(stream)?;
        backend.tick(stream)
    };
    tick.wait()
}

/// Waits until nobody evaluates.
pub(crate) fn turn() -> MutexGuard<'static, Turn> {
    TURN.lock()
}

/// Epochs start at 1: a new node's zero is of no epoch.
fn next_epoch() -> u32 {
    let epoch = EPOCH.fetch_add(1, Relaxed).wrapping_add(1);
    if epoch == 0 { next_epoch() } else { epoch }
}

/// A tape that is being evaluated.
struct Evaluation<'a> {
    tape: Tape,
    groups: Groups,
    touched: Touched,
    turn: &'a mut Turn,
}

impl Evaluation<'_> {
    fn run(&mut self) -> Result<()> {
        for place in 0..self.tape.len() {
            if !self.groups.waits(place) {
                self.demand(place)?;
            }
        }
        Ok(())
    }

    /// Makes sure that the array at `place` is evaluated: with its group, or alone.
    fn demand(&mut self, place: usize) -> Result<()> {
        if let Some(group) = self.groups.take(place) {
            self.evaluate_group(&group)?;
        }
        if self.tape.is_done(place) {
            return Ok(());
        }
        self.demand_inputs(place, &[])?;
        match self.tape.take(place) {
            Some(entry) => evaluate(entry, &mut self.touched, self.turn),
            None => Ok(()),
        }
    }

    /// Evaluates the inputs of a node that wait for a group; the others come before it on the tape.
    fn demand_inputs(&mut self, place: usize, except: &[usize]) -> Result<()> {
        if self.tape.is_done(place) {
            return Ok(());
        }
        for i in 0..self.tape.node(place).inputs.len() {
            let input = self.tape.place(&self.tape.node(place).inputs[i]);
            if let Some(input) = input.filter(|input| !except.contains(input)) {
                self.demand(input)?;
            }
        }
        Ok(())
    }

    /// Evaluates a group, at once if that is possible.
    fn evaluate_group(&mut self, group: &Group) -> Result<()> {
        for &member in &group.members {
            self.demand_inputs(member, &group.members)?;
        }
        // An input may have needed what the group makes: then some members are evaluated already.
        let whole = !group.members.iter().any(|&member| self.tape.is_done(member));
        if whole && self.fuse(group)? {
            return Ok(());
        }
        group.members.iter().try_for_each(|&member| self.demand(member))
    }

    /// Encodes a group whose outer inputs are evaluated, if they lie as its kernel needs them.
    fn fuse(&mut self, group: &Group) -> Result<bool> {
        let tape = &self.tape;
        let stream = tape.node(group.kept[0]).stream;
        let backend = self.touched.backend(stream)?;
        let inputs = || group.members.iter().flat_map(|&member| &tape.node(member).inputs);
        let outer = || inputs().filter_map(Array::data);
        for input in outer() {
            await_other_streams(&**backend, stream, input.buffer.written())?;
        }
        let mut kept: SmallVec<[Output; 3]> =
            group.kept.iter().map(|&place| output_of(tape.array(place))).collect();
        if !group.fusion.eval(stream, tape, &mut kept)? {
            return Ok(false);
        }
        let tick = backend.tick(stream);
        outer().for_each(|input| input.buffer.note_read(tick));
        for (&place, output) in group.kept.iter().zip(kept) {
            let data = output.data.expect("a fusion sets what it keeps");
            data.buffer.note_write(tick);
            let array = tape.array(place);
            array.take_node(self.turn);
            array.set_data(data);
        }
        for &member in &group.members {
            drop(self.tape.take(member));
        }
        Ok(true)
    }
}

/// What a backend is asked to fill.
fn output_of(array: &Array) -> Output {
    Output { shape: array.shape().into(), dtype: array.dtype(), data: None }
}

/// Encodes one node.
fn evaluate(Entry { array, node }: Entry, touched: &mut Touched, turn: &mut Turn) -> Result<()> {
    if array.take_node(turn).is_none() {
        return Ok(());
    }
    let arrays = output_arrays(array, &node, turn);
    let mut outputs: SmallVec<[Output; 1]> = arrays.iter().map(output_of).collect();
    let run = encode(&node, &mut outputs, touched);
    if let Err(error) = run {
        // The arrays stay lazy, so that a later evaluation tells the same error.
        arrays.iter().for_each(|a| a.restore_node(node.clone(), turn));
        return Err(error);
    }
    for (array, output) in arrays.iter().zip(outputs) {
        array.set_data(output.data.expect("a backend sets every output"));
    }
    Ok(())
}

/// All outputs of the array's node; those that are gone are made anew to receive their data.
fn output_arrays(array: Array, node: &Arc<Node>, turn: &mut Turn) -> SmallVec<[Array; 1]> {
    let Some(siblings) = node.siblings.get() else { return SmallVec::from_buf([array]) };
    siblings
        .iter()
        .map(|sibling| match sibling.array.upgrade() {
            Some(inner) => {
                let array = Array(inner);
                array.take_node(turn);
                array
            }
            None => Array::of_node(sibling.shape.clone(), sibling.dtype, node.clone()),
        })
        .collect()
}

fn encode(node: &Node, outputs: &mut [Output], touched: &mut Touched) -> Result<()> {
    if let [output] = &mut *outputs
        && let Some(data) = views::view(&node.primitive, &node.inputs, output)?
    {
        output.data = Some(data);
        return Ok(());
    }
    if outputs.iter().all(|o| o.size() == 0) {
        return outputs.iter_mut().try_for_each(allocate_empty);
    }
    let backend = touched.backend(node.stream)?;
    for input in &node.inputs {
        await_other_streams(&**backend, node.stream, input.evaluated().buffer.written())?;
    }
    backend.eval(node.stream, &node.primitive, &node.inputs, outputs)?;
    let tick = backend.tick(node.stream);
    for input in &node.inputs {
        input.evaluated().buffer.note_read(tick);
    }
    for output in outputs.iter().filter_map(|o| o.data.as_ref()) {
        output.buffer.note_write(tick);
    }
    Ok(())
}

/// An output without elements needs no work: backends only see outputs that have some.
fn allocate_empty(output: &mut Output) -> Result<()> {
    let layout = Layout::row_major(&output.shape);
    output.data = Some(Data { buffer: buffer::host_buffer(0)?, layout });
    Ok(())
}

/// Lets `stream` wait for another stream's work, which is handed over first: a queue that waits
/// for work nobody has submitted would wait forever.
fn await_other_streams(backend: &dyn Backend, stream: Stream, written: Tick) -> Result<()> {
    if written.stream == stream.index || written.reached() {
        return Ok(());
    }
    let producer = stream::by_index(written.stream);
    backend::backend_for(producer.device)?.finalize(producer)?;
    backend.wait(stream, written)
}

/// The streams that an evaluation has encoded on.
#[derive(Default)]
struct Touched {
    streams: SmallVec<[(Stream, &'static Arc<dyn Backend>); 2]>,
}

impl Touched {
    fn backend(&mut self, stream: Stream) -> Result<&'static Arc<dyn Backend>> {
        if let Some((_, backend)) = self.streams.iter().find(|(s, _)| *s == stream) {
            return Ok(backend);
        }
        let backend = backend::backend_for(stream.device)?;
        self.streams.push((stream, backend));
        Ok(backend)
    }

    /// Hands all encoded work over, also after an error: what was encoded must run.
    fn finalize(&self) -> Result<()> {
        let mut result = Ok(());
        for (stream, backend) in &self.streams {
            result = result.and(backend.finalize(*stream));
            if memory::active_memory() > memory::memory_limit() {
                result = result
                    .and_then(|()| clock::clock(stream.index).wait(backend.tick(*stream).value));
            }
        }
        result
    }
}
