//! Arrays that are passed on for the graph's sake.

use crate::{Array, Error, Result, graph, ops, primitives::PassOp, transforms::trace};

/// The array, through which no derivative goes.
///
/// # Errors
/// When there is no stream to run on.
pub fn stop_gradient(a: &Array) -> Result<Array> {
    // Where nothing is traced it is its own value. A function that is traced may return it, untraced or not:
    // then the node says that no cotangent belongs to it.
    match a.is_tracer() || trace::is_tracing() {
        true => ops::node(PassOp::StopGradient, [a.clone()]),
        false => Ok(a.clone()),
    }
}

/// The `inputs`, which are computed only once all `dependencies` are as well.
///
/// # Errors
/// When there is no input.
pub fn depends(inputs: &[&Array], dependencies: &[&Array]) -> Result<Vec<Array>> {
    if inputs.is_empty() {
        return Err(Error::invalid("depends", "At least one input is needed."));
    }
    let all = inputs.iter().chain(dependencies).map(|&a| a.clone()).collect();
    let outputs = graph::apply(PassOp::Depends { outputs: inputs.len() }.into(), all)?;
    Ok(outputs.into_vec())
}
