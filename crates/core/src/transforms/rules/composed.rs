//! Rules of primitives by those of what they could be composed of.

use super::{Applied, Mapped, Outputs};
use crate::{Array, Result, graph::Inputs, transforms};

/// The derivatives by the `wanted` inputs of a primitive that computes `fun`.
pub(super) fn vjp(
    node: &Applied<'_>,
    cotangents: &[Array],
    wanted: &[usize],
    fun: impl Fn(&[Array]) -> Result<Outputs>,
) -> Result<Inputs> {
    let fun = |inputs: &[Array]| Ok(fun(inputs)?.into_vec());
    let (_, derivatives) = transforms::vjp_of(fun, node.inputs, cotangents, wanted)?;
    Ok(derivatives.into())
}

/// The derivative of a primitive that computes `fun` along `tangents` of its inputs.
pub(super) fn jvp(
    node: &Applied<'_>,
    tangents: &[Option<Array>],
    fun: impl Fn(&[Array]) -> Result<Outputs>,
) -> Result<Outputs> {
    let moving = tangents.iter().zip(node.inputs);
    let moving = moving.filter_map(|(t, input)| Some((input.clone(), t.clone()?)));
    let (primals, along): (Vec<Array>, Vec<Array>) = moving.unzip();
    let fun = |moved: &[Array]| {
        let mut moved = moved.iter();
        let inputs = tangents.iter().zip(node.inputs).map(|(tangent, input)| match tangent {
            Some(_) => moved.next().expect("there is one for each tangent").clone(),
            None => input.clone(),
        });
        Ok(fun(&inputs.collect::<Inputs>())?.into_vec())
    };
    let (_, derivatives) = transforms::jvp(fun, &primals, &along)?;
    Ok(derivatives.into())
}

/// A primitive that computes `fun` for every index of the mapped axes.
pub(super) fn vmap(
    inputs: &[Array],
    axes: &[Option<usize>],
    fun: impl Fn(&[Array]) -> Result<Outputs>,
) -> Result<Mapped> {
    let fun = |inputs: &[Array]| Ok(fun(inputs)?.into_vec());
    let axes: Vec<_> = axes.iter().map(|axis| axis.map(|axis| axis as isize)).collect();
    let outputs = transforms::vmap(fun, inputs, &axes, |count| Ok(vec![Some(0); count]))?;
    Mapped::all(outputs.into(), 0)
}
