//! Evaluation: from the outputs' graph to a tape, and from the tape to the backends.
//!
//! One evaluation encodes at a time in the process; encoding never waits for a device, so other
//! threads wait only as long as encoding takes.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use once_cell::sync::Lazy;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{
    Array, Error, Result, Stream,
    array::Data,
    backend::{self, Backend, Output},
    buffer,
    clock::{self, Tick},
    graph::Node,
    memory,
    shape::Layout,
    stream, views,
};

/// Nodes that may be open at once before the order turns from breadth first to depth first.
static MAX_WIDTH: Lazy<usize> = Lazy::new(|| {
    std::env::var("MLX_BFS_MAX_WIDTH").ok().and_then(|v| v.parse().ok()).unwrap_or(20)
});

/// Results up to this size are copied to the host when they are evaluated: whoever reads one later (a sampled
/// token, a loss) does not wait for what was encoded in between.
const SMALL: usize = 4096;

static ENCODING: Mutex<()> = Mutex::new(());
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
    let _encoding = ENCODING.lock();
    let tape = build_tape(arrays)?;
    let mut touched = Touched::default();
    let result = tape.into_iter().rev().try_for_each(|array| evaluate(array, &mut touched));
    let result = result.and_then(|()| arrays.iter().try_for_each(|a| bring_small_to_host(a)));
    let finalized = touched.finalize();
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
        let _encoding = ENCODING.lock();
        backend.finalize(stream)?;
        backend.tick(stream)
    };
    tick.wait()
}

/// The arrays to evaluate, last one first: MLX's breadth-first order with a width limit.
fn build_tape(outputs: &[&Array]) -> Result<Vec<Array>> {
    let epoch = next_epoch();
    count_parents(outputs, epoch)?;
    let mut tape: Vec<Array> = Vec::new();
    let mut next = 0;
    let mut deferred: Vec<(Arc<Node>, usize)> = Vec::new();
    for output in outputs {
        place(output, epoch, &mut tape);
    }
    loop {
        let (node, first) = if next < tape.len() {
            next += 1;
            let node = tape[next - 1].node().expect("the tape holds lazy arrays");
            (node, 0)
        } else if let Some(deferred) = deferred.pop() {
            deferred
        } else {
            return Ok(tape);
        };
        for (i, input) in node.inputs.iter().enumerate().skip(first) {
            if input.data().is_some() {
                continue;
            }
            if tape.len() - next >= *MAX_WIDTH {
                deferred.push((node.clone(), i));
                break;
            }
            place(input, epoch, &mut tape);
        }
    }
}

/// Counts one parent of `array` as placed and appends it to the tape with the last one.
fn place(array: &Array, epoch: u32, tape: &mut Vec<Array>) {
    let Some(node) = array.node() else { return };
    let degree = node.degree(epoch).unwrap_or(0);
    match degree {
        0 => {}
        1 => {
            node.set_degree(epoch, 0);
            tape.push(array.clone());
        }
        more => node.set_degree(epoch, more - 1),
    }
}

/// Depth-first over the lazy arrays: sets every node's number of parents. Outputs of one node
/// share its count.
fn count_parents(outputs: &[&Array], epoch: u32) -> Result<()> {
    let mut stack: Vec<(Arc<Node>, usize)> = Vec::new();
    for output in outputs {
        count(output, epoch, &mut stack)?;
        while let Some((node, at)) = stack.last_mut() {
            if *at == node.inputs.len() {
                stack.pop();
                continue;
            }
            let node = node.clone();
            *at += 1;
            count(&node.inputs[*at - 1], epoch, &mut stack)?;
        }
    }
    Ok(())
}

fn count(array: &Array, epoch: u32, stack: &mut Vec<(Arc<Node>, usize)>) -> Result<()> {
    if array.data().is_some() {
        return Ok(());
    }
    let node = array.node().ok_or_else(|| {
        Error::invalid("eval", "Attempting to eval an array without a primitive.")
    })?;
    match node.degree(epoch) {
        Some(degree) => node.set_degree(epoch, degree + 1),
        None => {
            node.set_degree(epoch, 1);
            stack.push((node, 0));
        }
    }
    Ok(())
}

/// Epochs start at 1: a new node's zero is of no epoch.
fn next_epoch() -> u32 {
    let epoch = EPOCH.fetch_add(1, Relaxed).wrapping_add(1);
    if epoch == 0 { next_epoch() } else { epoch }
}

/// Encodes one node.
fn evaluate(array: Array, touched: &mut Touched) -> Result<()> {
    let Some(node) = array.take_node() else { return Ok(()) };
    let arrays = output_arrays(array, &node);
    let mut outputs: SmallVec<[Output; 1]> = arrays
        .iter()
        .map(|a| Output { shape: a.shape().into(), dtype: a.dtype(), data: None })
        .collect();
    let run = encode(&node, &mut outputs, touched);
    if let Err(error) = run {
        // The arrays stay lazy, so that a later evaluation tells the same error.
        arrays.iter().for_each(|a| a.restore_node(node.clone()));
        return Err(error);
    }
    for (array, output) in arrays.iter().zip(outputs) {
        array.set_data(output.data.expect("a backend sets every output"));
    }
    Ok(())
}

/// All outputs of the array's node; those that are gone are made anew to receive their data.
fn output_arrays(array: Array, node: &Arc<Node>) -> SmallVec<[Array; 1]> {
    let Some(siblings) = node.siblings.get() else { return SmallVec::from_buf([array]) };
    siblings
        .iter()
        .map(|sibling| match sibling.array.upgrade() {
            Some(inner) => {
                let array = Array(inner);
                array.take_node();
                array
            }
            None => Array::of_node(sibling.shape.clone(), sibling.dtype, node.clone()),
        })
        .collect()
}

fn encode(node: &Node, outputs: &mut [Output], touched: &mut Touched) -> Result<()> {
    if let [output] = &mut *outputs
        && let Some(data) = views::view(&node.primitive, &node.inputs, output)
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
