//! Derivatives of functions of arrays: along cotangents of the results, and along tangents of the arguments.

use crate::{
    Array, Error, Result, Stream, ops,
    primitives::{PassOp, Primitive},
    stream::{self, with_stream},
    transforms::{
        pieces::{self, Piece},
        rules::Applied,
        trace::{Mark, Tracing},
        walk::{Graph, Step},
    },
};

/// Results of a function, and derivatives of or along them.
pub type Derived = (Vec<Array>, Vec<Array>);

/// Runs `fun` on `primals`; its results, and for each primal the sum of the derivatives of all results by it,
/// each times its cotangent. Results that come out of [`ops::stop_gradient`] have no cotangent.
///
/// # Errors
/// Those of `fun`; when number or shapes of the cotangents are not those of the results; when a primitive
/// has no derivative.
pub fn vjp(
    fun: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    cotangents: &[Array],
) -> Result<Derived> {
    let all: Vec<usize> = (0..primals.len()).collect();
    vjp_of(fun, primals, cotangents, &all)
}

/// The same for some of the primals: the derivatives by those that are `wanted`, in that order.
///
/// # Errors
/// As of [`vjp`].
pub fn vjp_of(
    fun: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    cotangents: &[Array],
    wanted: &[usize],
) -> Result<Derived> {
    let tracing = Tracing::new();
    let primals = tracers(primals, tracing.mark())?;
    let outputs = fun(&primals)?;
    let given = assign(&outputs, cotangents)?;
    let derivatives = Backward::new(&primals, &outputs, wanted).run(&given, wanted)?;
    Ok((outputs, derivatives))
}

/// Runs `fun` on `primals`; its results, and for each of them its derivative along the tangents of all
/// primals.
///
/// # Errors
/// Those of `fun`; when number or shapes of the tangents are not those of the primals; when a primitive has
/// no derivative.
pub fn jvp(
    fun: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    tangents: &[Array],
) -> Result<Derived> {
    let tracing = Tracing::new();
    if primals.len() != tangents.len() {
        let message = "Number of inputs does not match number of tangents.";
        return Err(Error::invalid("jvp", message));
    }
    if primals.iter().zip(tangents).any(|(primal, tangent)| primal.shape() != tangent.shape()) {
        let message = "Input shape does not match shape of tangent.";
        return Err(Error::invalid("jvp", message));
    }
    let primals = tracers(primals, tracing.mark())?;
    let outputs = fun(&primals)?;
    let derivatives = forward(&primals, &outputs, tangents)?;
    Ok((outputs, derivatives))
}

/// Derivatives of what `fun` computes from `primals`, by all of them; there is a cotangent for each result,
/// also for those that have no derivative.
pub(super) fn pullback(
    fun: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    cotangents: &[Array],
) -> Result<Vec<Array>> {
    let tracing = Tracing::new();
    let primals = tracers(primals, tracing.mark())?;
    let outputs = fun(&primals)?;
    let pairs = outputs.iter().zip(cotangents).enumerate();
    let given: Vec<(usize, Array)> = pairs
        .filter(|(_, (output, _))| !is_stopped(output))
        .map(|(i, (_, cotangent))| (i, cotangent.clone()))
        .collect();
    let all: Vec<usize> = (0..primals.len()).collect();
    Backward::new(&primals, &outputs, &all).run(&given, &all)
}

/// Derivatives of what `fun` computes from `primals` along the tangents that there are.
pub(super) fn pushforward(
    fun: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    tangents: &[Option<Array>],
) -> Result<Vec<Array>> {
    let along = |i: &usize| tangents[*i].is_some();
    let moved: Vec<usize> = (0..primals.len()).filter(along).collect();
    let given: Vec<Array> = moved.iter().map(|&i| primals[i].clone()).collect();
    let of_moved = |given: &[Array]| {
        let mut all = primals.to_vec();
        moved.iter().zip(given).for_each(|(&i, primal)| all[i] = primal.clone());
        fun(&all)
    };
    let tangents: Vec<Array> = tangents.iter().flatten().cloned().collect();
    jvp(of_moved, &given, &tangents).map(|(_, along)| along)
}

/// What stands for the arguments in a trace.
fn tracers(primals: &[Array], mark: Mark) -> Result<Vec<Array>> {
    let tracer = |primal: &Array| {
        let stream = stream_of(primal)?;
        Ok(Array::tracer(source(primal), stream, mark))
    };
    primals.iter().map(tracer).collect()
}

/// A tracer of a trace that is over is only a copy: it stands aside, or copies of copies would gather in
/// containers that hold what traces left behind.
fn source(primal: &Array) -> Array {
    match primal.node() {
        Some(node) if !primal.is_tracer() && node.primitive == PassOp::Copy.into() => {
            node.inputs[0].clone()
        }
        _ => primal.clone(),
    }
}

/// The stream that computes an array, or else the one that operations run on now.
pub(super) fn stream_of(array: &Array) -> Result<Stream> {
    match array.node() {
        Some(node) => Ok(node.stream),
        None => stream::current_stream(),
    }
}

/// Zeros like `array`, on its stream.
fn zeros_like(array: &Array) -> Result<Array> {
    with_stream(stream_of(array)?, || ops::zeros_like(array))
}

/// Which result has which cotangent.
fn assign(outputs: &[Array], cotangents: &[Array]) -> Result<Vec<(usize, Array)>> {
    let mut left = cotangents.iter();
    let mut given = Vec::with_capacity(cotangents.len());
    for (i, output) in outputs.iter().enumerate() {
        if is_stopped(output) {
            continue;
        }
        let Some(cotangent) = left.next() else {
            let message = format!(
                "Number of outputs to compute gradients for ({}) does not match number of cotangents ({}).",
                outputs.len(),
                cotangents.len()
            );
            return Err(Error::invalid("vjp", message));
        };
        if output.shape() != cotangent.shape() {
            return Err(misfit(outputs, output, cotangent));
        }
        let stream = stream_of(output)?;
        given.push((i, with_stream(stream, || ops::astype(cotangent, output.dtype()))?));
    }
    Ok(given)
}

fn misfit(outputs: &[Array], output: &Array, cotangent: &Array) -> Error {
    let mut message = format!(
        "Output shape {:?} does not match cotangent shape {:?}.",
        output.shape(),
        cotangent.shape()
    );
    if outputs.len() == 1 && output.size() == 1 {
        message += " If you are using grad your function must return a scalar.";
    }
    Error::invalid("vjp", message)
}

/// Whether an array comes out of a node that no derivative goes through.
fn is_stopped(array: &Array) -> bool {
    array.node().is_some_and(|node| stops(&node.primitive))
}

fn stops(primitive: &Primitive) -> bool {
    *primitive == Primitive::Pass(PassOp::StopGradient)
}

/// The steps through which derivatives by some values go, in order; and for each value whether it depends on
/// them.
fn depending(graph: &Graph, on: impl IntoIterator<Item = usize>) -> (Vec<usize>, Vec<bool>) {
    let mut depends = vec![false; graph.values.len()];
    on.into_iter().for_each(|value| depends[value] = true);
    let mut steps = Vec::new();
    for (i, step) in graph.steps.iter().enumerate() {
        if !stops(&step.node.primitive) && step.inputs.iter().any(|&input| depends[input]) {
            step.outputs.iter().for_each(|&output| depends[output] = true);
            steps.push(i);
        }
    }
    (steps, depends)
}

/// The way back from results to primals.
struct Backward {
    graph: Graph,
    steps: Vec<usize>,
    depends: Vec<bool>,
    /// Which values depend on wanted ones that are no floating point numbers, if there are such.
    discrete: Option<Vec<bool>>,
    /// What reached each value so far.
    reached: Vec<Reached>,
}

/// Derivatives that reached a value.
#[derive(Default)]
struct Reached {
    sum: Option<Array>,
    /// Those that came through slices of it.
    pieces: Vec<Piece>,
}

impl Backward {
    fn new(primals: &[Array], outputs: &[Array], wanted: &[usize]) -> Self {
        let graph = Graph::between(primals, outputs);
        let (steps, depends) = depending(&graph, wanted.iter().copied());
        let is_discrete = |&value: &usize| !graph.values[value].dtype().is_inexact();
        let mut discrete = wanted.iter().copied().filter(is_discrete).peekable();
        let discrete = discrete.peek().is_some().then(|| depending(&graph, discrete).1);
        let reached = graph.values.iter().map(|_| Reached::default()).collect();
        Backward { graph, steps, depends, discrete, reached }
    }

    fn run(mut self, given: &[(usize, Array)], wanted: &[usize]) -> Result<Vec<Array>> {
        for (output, cotangent) in given {
            let value = self.graph.outputs[*output];
            self.add(value, cotangent.clone())?;
        }
        for step in std::mem::take(&mut self.steps).into_iter().rev() {
            self.step(step)?;
        }
        let derivative = |&primal: &usize| {
            let sum = self.sum(primal)?;
            self.reached[primal].sum = sum.clone();
            sum.map_or_else(|| zeros_like(&self.graph.values[primal]), Ok)
        };
        wanted.iter().map(derivative).collect()
    }

    /// The sum of what reached a value.
    fn sum(&mut self, value: usize) -> Result<Option<Array>> {
        let Reached { sum, pieces } = std::mem::take(&mut self.reached[value]);
        pieces::gathered(&self.graph.values[value], sum, pieces)
    }

    /// Passes the cotangents of a node's outputs on to its inputs.
    fn step(&mut self, number: usize) -> Result<()> {
        let Step { node, inputs, outputs } = self.graph.steps[number].clone();
        let cotangents = outputs.iter().map(|&output| self.sum(output));
        let cotangents: Vec<Option<Array>> = cotangents.collect::<Result<_>>()?;
        if cotangents.iter().all(Option::is_none) {
            return Ok(());
        }
        if let (Primitive::Indexing(op), Some(discrete)) = (&node.primitive, &self.discrete) {
            op.refuse_by_indices(inputs.len(), |i| discrete[inputs[i]])?;
        }
        if let [Some(cotangent)] = &cotangents[..]
            && let Some(piece) = Piece::new(&node, cotangent)
        {
            self.reached[inputs[0]].pieces.push(piece);
            return Ok(());
        }
        let wanted: Vec<usize> = (0..inputs.len()).filter(|&i| self.depends[inputs[i]]).collect();
        let outputs: Vec<Array> = outputs.iter().map(|&o| self.graph.values[o].clone()).collect();
        with_stream(node.stream, || {
            let cotangents = cotangents.into_iter().zip(&outputs);
            let full = cotangents.map(|(c, output)| c.map_or_else(|| ops::zeros_like(output), Ok));
            let cotangents = full.collect::<Result<Vec<Array>>>()?;
            let applied = Applied { inputs: &node.inputs, outputs: &outputs };
            let derivatives = node.primitive.vjp(&applied, &cotangents, &wanted)?;
            let mut reached = wanted.iter().zip(derivatives);
            reached.try_for_each(|(&i, derivative)| self.add(inputs[i], derivative))
        })
    }

    /// Adds a derivative that reaches a value.
    fn add(&mut self, value: usize, derivative: Array) -> Result<()> {
        let sum = &mut self.reached[value].sum;
        *sum = Some(match sum.take() {
            Some(sum) => ops::add(&sum, &derivative)?,
            None => derivative,
        });
        Ok(())
    }
}

/// Derivatives of `outputs` along `tangents` of `primals`.
fn forward(primals: &[Array], outputs: &[Array], tangents: &[Array]) -> Result<Vec<Array>> {
    let graph = Graph::between(primals, outputs);
    let (steps, _) = depending(&graph, 0..primals.len());
    let mut known: Vec<Option<Array>> = vec![None; graph.values.len()];
    for (known, tangent) in known.iter_mut().zip(tangents) {
        *known = Some(tangent.clone());
    }
    for step in steps {
        let Step { node, inputs, outputs } = &graph.steps[step];
        let tangents: Vec<Option<Array>> = inputs.iter().map(|&i| known[i].clone()).collect();
        let values: Vec<Array> = outputs.iter().map(|&o| graph.values[o].clone()).collect();
        let applied = Applied { inputs: &node.inputs, outputs: &values };
        let derivatives = with_stream(node.stream, || node.primitive.jvp(&applied, &tangents))?;
        for (&output, derivative) in outputs.iter().zip(derivatives) {
            known[output] = Some(derivative);
        }
    }
    let derivative = |&output: &usize| match known[output].clone() {
        Some(tangent) => Ok(tangent),
        None => zeros_like(&graph.values[output]),
    };
    graph.outputs.iter().map(derivative).collect()
}
