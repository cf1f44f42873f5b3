//! Which transforms there are of which primitive.

use crate::{
    Array, Device, Result, graph,
    primitives::{Example, Spec, SpecRef},
    stream,
    transforms::{rules::Applied, trace::Mark},
};

/// A transform of a primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Derivatives along cotangents.
    Vjp,
    /// Derivatives along tangents.
    Jvp,
    /// Another axis.
    Vmap,
}

impl Transform {
    /// All of them.
    pub const ALL: [Transform; 3] = [Transform::Vjp, Transform::Jvp, Transform::Vmap];

    /// The name: that of the function that users call.
    pub const fn name(self) -> &'static str {
        match self {
            Transform::Vjp => "vjp",
            Transform::Jvp => "jvp",
            Transform::Vmap => "vmap",
        }
    }

    /// Why an example's primitive has no such rule, by asking the rule itself for a graph that nobody
    /// evaluates; `None` if it has one, or if there is nothing to differentiate.
    ///
    /// # Errors
    /// When the example does not fit its primitive, or there is no CPU backend.
    pub fn refusal(self, example: &Example) -> Result<Option<String>> {
        let refusal = stream::with_device(Device::CPU, || self.ask(example))??;
        Ok(refusal.err().map(|error| error.to_string()))
    }

    fn ask(self, example: &Example) -> Result<Result<()>> {
        let stand_in =
            |spec: SpecRef<'_>| Array::placeholder(spec.shape.into(), spec.dtype, Mark::NONE);
        let primitive = &example.primitive;
        let inputs: Vec<Array> =
            example.inputs.iter().map(|input| stand_in(input.spec())).collect();
        let outputs = graph::apply(primitive.clone(), inputs.as_slice().into())?;
        let smooth = |a: &Array| a.dtype().is_inexact();
        let wanted: Vec<usize> = (0..inputs.len()).filter(|&i| smooth(&inputs[i])).collect();
        let node = Applied { inputs: &inputs, outputs: &outputs };
        let is_smooth = !wanted.is_empty() && outputs.iter().any(smooth);
        Ok(match self {
            Transform::Vjp if is_smooth => {
                let cotangents: Vec<Array> = outputs.iter().map(|a| stand_in(a.spec())).collect();
                primitive.vjp(&node, &cotangents, &wanted).map(drop)
            }
            Transform::Jvp if is_smooth => {
                let tangent = |a: &Array| smooth(a).then(|| stand_in(a.spec()));
                let tangents: Vec<Option<Array>> = inputs.iter().map(tangent).collect();
                primitive.jvp(&node, &tangents).map(drop)
            }
            Transform::Vmap if !inputs.is_empty() => {
                let mut mapped = inputs.clone();
                let mut spec: Spec = inputs[0].spec().to_spec();
                spec.shape.insert(0, 2);
                mapped[0] = stand_in(spec.as_ref());
                let mut axes = vec![None; inputs.len()];
                axes[0] = Some(0);
                primitive.vmap(&mapped, &axes).map(drop)
            }
            Transform::Vjp | Transform::Jvp | Transform::Vmap => Ok(()),
        })
    }
}
