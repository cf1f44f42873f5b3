//! A traced function as primitives and indices.

use std::ops::Range;

use smallvec::SmallVec;

use crate::{
    Array, Error, Result, Shape, Stream,
    primitives::{Primitive, Specs},
    transforms::walk,
};

/// What a function computes. Its values are the inputs, then the constants, then the outputs of each step.
pub(crate) struct Template {
    pub(crate) inputs: usize,
    /// Arrays that were there when the function was traced.
    pub(crate) constants: Vec<Array>,
    /// What is computed, in order.
    pub(crate) steps: Vec<Step>,
    /// The values that the function returns.
    pub(crate) outputs: Vec<usize>,
}

/// A node that every call makes.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) primitive: Primitive,
    pub(crate) stream: Stream,
    /// The values that it reads.
    pub(crate) inputs: SmallVec<[usize; 4]>,
    /// Shapes and dtypes of its outputs, as traced.
    pub(crate) outputs: Specs,
    /// The value that its first output is.
    pub(crate) first: usize,
    /// The shape that its first input must have, if the primitive holds sizes that mean something else for
    /// others.
    pub(crate) fixed: Option<Shape>,
}

impl Step {
    /// The values that its outputs are.
    pub(super) fn values(&self) -> Range<usize> {
        self.first..self.first + self.outputs.len()
    }
}

impl Template {
    /// The template of a graph whose first values are the inputs.
    pub(super) fn new(graph: &walk::Graph, inputs: usize) -> Template {
        const UNKNOWN: usize = usize::MAX;
        let mut numbers = vec![UNKNOWN; graph.values.len()];
        (0..inputs).for_each(|input| numbers[input] = input);
        let mut made = vec![false; graph.values.len()];
        graph.steps.iter().flat_map(|step| &step.outputs).for_each(|&output| made[output] = true);
        let mut constants = Vec::new();
        for value in inputs..graph.values.len() {
            if !made[value] {
                numbers[value] = inputs + constants.len();
                constants.push(graph.values[value].clone());
            }
        }
        let mut next = inputs + constants.len();
        let mut steps = Vec::with_capacity(graph.steps.len());
        for walk::Step { node, inputs, outputs } in &graph.steps {
            let specs = outputs.iter().map(|&output| graph.values[output].spec().to_spec());
            steps.push(Step {
                primitive: node.primitive.clone(),
                stream: node.stream,
                inputs: inputs.iter().map(|&input| numbers[input]).collect(),
                outputs: specs.collect(),
                first: next,
                fixed: node.primitive.has_sizes().then(|| node.inputs[0].shape().into()),
            });
            for &output in outputs {
                numbers[output] = next;
                next += 1;
            }
        }
        let outputs = graph.outputs.iter().map(|&output| numbers[output]).collect();
        Template { inputs, constants, steps, outputs }
    }

    /// Where the outputs of the first step begin.
    pub(super) fn first_made(&self) -> usize {
        self.inputs + self.constants.len()
    }

    /// How many values there are.
    pub(super) fn values(&self) -> usize {
        self.steps.last().map_or(self.first_made(), |step| step.values().end)
    }

    /// For each value whether the function returns it.
    pub(super) fn returned(&self) -> Vec<bool> {
        let mut returned = vec![false; self.values()];
        self.outputs.iter().for_each(|&output| returned[output] = true);
        returned
    }

    /// The template with those constants and steps that are `kept`, by their first values, counted anew.
    pub(super) fn keeping(self, kept: impl Fn(usize) -> bool) -> Template {
        let mut numbers: Vec<usize> = (0..self.values()).collect();
        let Template { inputs, constants, steps, outputs } = self;
        let constants = constants.into_iter().zip(inputs..).filter(|(_, value)| kept(*value));
        let mut next = inputs;
        let mut count = |old: Range<usize>| {
            let first = next;
            for value in old {
                numbers[value] = next;
                next += 1;
            }
            first
        };
        let constants: Vec<Array> = constants
            .map(|(constant, value)| {
                count(value..value + 1);
                constant
            })
            .collect();
        let mut steps: Vec<Step> = steps.into_iter().filter(|step| kept(step.first)).collect();
        steps.iter_mut().for_each(|step| step.first = count(step.values()));
        for step in &mut steps {
            step.inputs.iter_mut().for_each(|input| *input = numbers[*input]);
        }
        let outputs = outputs.into_iter().map(|output| numbers[output]).collect();
        Template { inputs, constants, steps, outputs }
    }

    /// The arrays that the function returns for `inputs`. The sizes of a shapeless one's arrays follow from
    /// them.
    pub(super) fn instantiate(&self, inputs: &[Array], shapeless: bool) -> Result<Vec<Array>> {
        let mut values: Vec<Array> = Vec::with_capacity(self.first_made() + self.steps.len());
        values.extend_from_slice(inputs);
        values.extend_from_slice(&self.constants);
        for step in &self.steps {
            let inputs: SmallVec<[Array; 4]> =
                step.inputs.iter().map(|&value| values[value].clone()).collect();
            let specs = if shapeless { inferred(step, &inputs)? } else { step.outputs.clone() };
            if shapeless && step.primitive.repeats_nothing(&inputs, &specs) {
                values.extend(inputs.into_iter().next());
                continue;
            }
            let (primitive, stream) = (step.primitive.clone(), step.stream);
            match specs.into_inner() {
                Ok([spec]) => {
                    values.push(Array::lazy(spec.shape, spec.dtype, primitive, stream, inputs));
                }
                Err(several) => {
                    let specs = several.into_iter().map(|spec| (spec.shape, spec.dtype)).collect();
                    values.extend(Array::lazy_many(specs, primitive, stream, inputs));
                }
            }
        }
        Ok(self.outputs.iter().map(|&output| values[output].clone()).collect())
    }
}

/// Shapes and dtypes of a step's outputs for inputs of other sizes.
fn inferred(step: &Step, inputs: &[Array]) -> Result<Specs> {
    let specs: SmallVec<[_; 4]> = inputs.iter().map(Array::spec).collect();
    if step.fixed.as_ref().is_some_and(|shape| shape.as_slice() != inputs[0].shape()) {
        return Err(cannot_infer(step.primitive.name()));
    }
    step.primitive.output_specs(&specs)
}

/// A primitive that holds sizes was applied to an array of others.
pub(crate) fn cannot_infer(name: &str) -> Error {
    Error::invalid("Primitive::output_shapes", format!("{name} cannot infer output shapes."))
}
