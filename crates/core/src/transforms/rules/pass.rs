//! Nodes that pass arrays on.

use smallvec::SmallVec;

use super::{Applied, Mapped, Outputs, Rules, no_tangents};
use crate::{
    Array, Error, Result,
    graph::Inputs,
    ops,
    primitives::{Custom, PassOp},
};

impl Rules for PassOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        match self {
            Self::Copy => Ok(cotangents.into()),
            Self::StopGradient => super::no_derivatives(node, wanted),
            Self::Depends { .. } => {
                let derivative = |&i: &usize| match cotangents.get(i) {
                    Some(cotangent) => Ok(cotangent.clone()),
                    None => ops::zeros_like(&node.inputs[i]),
                };
                wanted.iter().map(derivative).collect()
            }
            Self::Custom(custom) => custom_vjp(custom, node, cotangents, wanted),
        }
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        match self {
            Self::Copy => Ok(tangents.iter().flatten().cloned().collect()),
            Self::StopGradient => no_tangents(node),
            Self::Depends { outputs } => {
                let zeros_or = |i| super::tangent_or_zeros(node, tangents, i);
                (0..*outputs).map(zeros_or).collect()
            }
            Self::Custom(custom) => {
                let primals = self.passed(node.inputs.len()).start;
                let tangents = custom.rules().jvp(&node.inputs[..primals], &tangents[..primals])?;
                expect("jvp", "tangents", tangents.len(), custom.outputs())?;
                Ok(tangents.into())
            }
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        match self {
            Self::Copy | Self::StopGradient | Self::Depends { .. } => {
                let outputs = crate::graph::apply(self.clone().into(), inputs.into())?;
                let axes = axes[..outputs.len()].into();
                Ok(Mapped { outputs, axes })
            }
            Self::Custom(custom) => {
                let primals = self.passed(inputs.len()).start;
                let (outputs, axes) = custom.rules().vmap(&inputs[..primals], &axes[..primals])?;
                expect("vmap", "outputs", outputs.len(), custom.outputs())?;
                expect("vmap", "axes", axes.len(), custom.outputs())?;
                Ok(Mapped { outputs: outputs.into(), axes: SmallVec::from_vec(axes) })
            }
        }
    }
}

/// Derivatives by the arguments are the user's; the outputs, which are inputs as well, get their cotangents.
fn custom_vjp(
    custom: &Custom,
    node: &Applied<'_>,
    cotangents: &[Array],
    wanted: &[usize],
) -> Result<Inputs> {
    let (primals, _) = node.inputs.split_at(node.inputs.len() - custom.outputs());
    let derivatives = custom.rules().vjp(primals, cotangents, node.outputs)?;
    // Those too many are nobody's.
    let given = derivatives.len().min(primals.len());
    expect("vjp", "derivatives", given, primals.len())?;
    let all = || derivatives[..given].iter().chain(cotangents);
    Ok(wanted.iter().filter_map(|&i| all().nth(i).cloned()).collect())
}

/// A user's rule gave as many arrays as it should.
fn expect(rule: &str, what: &str, got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    let message = format!("The {rule} must return {expected} {what} but returned {got}.");
    Err(Error::invalid("custom_function", message))
}
