//! Evaluation: from the outputs' graph to a tape, and from the tape to the backends (`eval/evaluation.rs`).
//!
//! One evaluation encodes at a time in the process: it has the turn (`eval/turn.rs`). Encoding never waits,
//! so the turn is held for bounded work of the CPU only, and passed on every few nodes if others want it.
//! What has to be waited for (too much in flight, memory, a full ring) a backend returns as a
//! [`Pause`](backend::Pause): the evaluation gives the turn back, waits, takes it again and goes on. What
//! holds whenever nobody has the turn:
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
mod evaluation;
mod touched;
mod turn;

use ahead::{Attempt, Look, Part};
pub use ahead::{EarlyParts, begin_while_building, early_parts};
pub use early::Early;
use evaluation::{Evaluation, PLANNED_FIRST};
use touched::Touched;
pub(crate) use turn::{TurnGuard, turn};

use crate::{
    Array, Result, Stream, backend, outcome,
    stream::{self, DeviceType},
    tape::Graph,
    transforms::trace,
};

/// Nodes of a graph from which on encoding takes longer than having another thread do it.
const LONG: usize = 128;

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
