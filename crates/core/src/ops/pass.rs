//! Arrays that are passed on for the graph's sake.

use crate::{Array, Error, Result, graph, ops, primitives::PassOp};

/// The array, through which no derivative goes.
///
/// # Errors
/// When there is no stream to run on.
pub fn stop_gradient(a: &Array) -> Result<Array> {
    // Nothing is derived from what no transform traces: it is its own value.
    if a.is_tracer() { ops::node(PassOp::StopGradient, [a.clone()]) } else { Ok(a.clone()) }
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
