//! Functions of arrays with one more axis.

use crate::{
    Array, Error, Result, Shape, graph, ops,
    stream::with_stream,
    transforms::{
        derivative::stream_of,
        rules::Mapped,
        trace::Tracing,
        walk::{Graph, Step},
    },
};

/// Runs `fun` as if for every index of an axis of its arguments alone. `in_axes` says which axis of each
/// argument that is, or none: then it is the same for every index. `out_axes` says which axis of each result
/// the indices become; it is asked once the number of results is known. No axis is the last one of a result
/// that is the same for every index.
///
/// # Errors
/// Those of `fun`; when axes do not fit the arguments or results, or have different sizes; when a primitive
/// cannot be applied so.
pub fn vmap(
    fun: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    inputs: &[Array],
    in_axes: &[Option<isize>],
    out_axes: impl FnOnce(usize) -> Result<Vec<Option<isize>>>,
) -> Result<Vec<Array>> {
    let tracing = Tracing::new();
    let axes = mapped_axes(inputs, in_axes)?;
    let size = mapped_size(inputs, &axes)?;
    let stand_in = |(input, axis): (&Array, &Option<usize>)| match *axis {
        Some(axis) => {
            let mut shape = Shape::from(input.shape());
            shape.remove(axis);
            Array::placeholder(shape, input.dtype(), tracing.mark())
        }
        None => input.clone(),
    };
    let stand_ins: Vec<Array> = inputs.iter().zip(&axes).map(stand_in).collect();
    let outputs = fun(&stand_ins)?;
    let out_axes = out_axes(outputs.len())?;
    if out_axes.len() != outputs.len() {
        let message = format!(
            "The number of out axes ({}) must match the number of outputs ({}).",
            out_axes.len(),
            outputs.len()
        );
        return Err(Error::invalid("vmap", message));
    }
    let graph = Graph::between(&stand_ins, &outputs);
    let values = map(&graph, inputs, &axes)?;
    let place = |(&number, &axis): (&usize, &_)| placed(&values[number], axis, size);
    graph.outputs.iter().zip(&out_axes).map(place).collect()
}

/// The axes as indices.
fn mapped_axes(inputs: &[Array], axes: &[Option<isize>]) -> Result<Vec<Option<usize>>> {
    if inputs.len() != axes.len() {
        let message = format!(
            "The number of in axes ({}) must match the number of inputs ({}).",
            axes.len(),
            inputs.len()
        );
        return Err(Error::invalid("vmap", message));
    }
    let index = |(input, axis): (&Array, &Option<isize>)| {
        let Some(axis) = *axis else { return Ok(None) };
        if input.ndim() == 0 {
            return Err(Error::invalid("vmap", "Cannot vmap an input with zero dimensions."));
        }
        let message = || format!("Axis {axis} invalid for input with {} dimensions.", input.ndim());
        ops::normalize_axis("vmap", axis, input.ndim())
            .map(Some)
            .map_err(|_| Error::invalid("vmap", message()))
    };
    inputs.iter().zip(axes).map(index).collect()
}

/// The size that all mapped axes have.
fn mapped_size(inputs: &[Array], axes: &[Option<usize>]) -> Result<usize> {
    let sizes = inputs.iter().zip(axes).filter_map(|(input, axis)| Some(input.shape()[(*axis)?]));
    let sizes: Vec<usize> = sizes.collect();
    let Some(&size) = sizes.last() else {
        return Err(Error::invalid("vmap", "At least one of in_axes must be non-None."));
    };
    match sizes.iter().find(|&&other| other != size) {
        Some(other) => {
            let message = format!("Inconsistent axis sizes: {other} and {size}.");
            Err(Error::invalid("vmap", message))
        }
        None => Ok(size),
    }
}

/// What a value became, and its mapped axis, if it depends on what is mapped.
#[derive(Clone)]
struct Value {
    array: Array,
    axis: Option<usize>,
}

/// What each value of the graph becomes.
fn map(graph: &Graph, inputs: &[Array], axes: &[Option<usize>]) -> Result<Vec<Value>> {
    let unmapped = |array: &Array| Value { array: array.clone(), axis: None };
    let mut values: Vec<Value> = graph.values.iter().map(unmapped).collect();
    // A node that gives what it does not map anew belongs to the new graph all the same.
    let mut is_new = vec![false; values.len()];
    for (number, (input, &axis)) in inputs.iter().zip(axes).enumerate() {
        values[number] = Value { array: input.clone(), axis };
        is_new[number] = axis.is_some();
    }
    for Step { node, inputs, outputs } in &graph.steps {
        if !inputs.iter().any(|&input| is_new[input]) {
            continue;
        }
        let of_value = |&input: &usize| (values[input].array.clone(), values[input].axis);
        let (arrays, axes): (Vec<Array>, Vec<Option<usize>>) = inputs.iter().map(of_value).unzip();
        let mapped = with_stream(node.stream, || match axes.iter().any(Option::is_some) {
            true => node.primitive.vmap(&arrays, &axes),
            false => Mapped::none(graph::apply(node.primitive.clone(), arrays.into())?),
        })?;
        let results = mapped.outputs.into_iter().zip(mapped.axes);
        for (&output, (array, axis)) in outputs.iter().zip(results) {
            values[output] = Value { array, axis };
            is_new[output] = true;
        }
    }
    Ok(values)
}

/// A result with the mapped axis where it is asked for.
fn placed(value: &Value, axis: Option<isize>, size: usize) -> Result<Array> {
    let Value { array, axis: from } = value;
    let ndim = array.ndim() + usize::from(from.is_none());
    let invalid = |axis| {
        let message = format!("Axis {axis} invalid for output with {ndim} dimensions.");
        Error::invalid("vmap", message)
    };
    let to = match (axis, from) {
        (Some(axis), _) => ops::normalize_axis("vmap", axis, ndim).map_err(|_| invalid(axis))?,
        (None, None) => ndim - 1,
        (None, Some(_)) => return Err(invalid(-1)),
    };
    with_stream(stream_of(array)?, || match from {
        Some(from) => ops::moveaxis(array, *from as isize, to as isize),
        None => {
            let mut shape = Shape::from(array.shape());
            shape.insert(to, size);
            ops::broadcast_to(&ops::expand_dims(array, &[to as isize])?, &shape)
        }
    })
}
