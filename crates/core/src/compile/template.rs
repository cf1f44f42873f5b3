//! A traced function as primitives and indices.

use std::ops::Range;

use smallvec::SmallVec;

use crate::{
    Array, Error, Result, Shape, Stream,
    eval::ahead,
    graph::Inputs,
    primitives::{Primitive, Spec, SpecRef, Specs},
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
        let made = graph.made();
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

    /// The arrays that the function returns for `inputs`; of these sizes, if they are not those of the trace.
    pub(super) fn instantiate(&self, inputs: &[Array], sizes: Option<&Sizes>) -> Vec<Array> {
        let mut values: SmallVec<[Array; 8]> = SmallVec::with_capacity(self.values());
        values.extend(inputs.iter().chain(&self.constants).cloned());
        for (i, step) in self.steps.iter().enumerate() {
            let inputs: Inputs = step.inputs.iter().map(|&value| values[value].clone()).collect();
            let specs = sizes.map_or(&step.outputs, |sizes| &sizes.outputs[i]);
            if sizes.is_some() && step.primitive.repeats_nothing(&inputs, specs) {
                values.extend(inputs.into_iter().next());
                continue;
            }
            ahead::compiled(&step.primitive);
            let (primitive, stream) = (step.primitive.clone(), step.stream);
            match specs.as_slice() {
                [Spec { shape, dtype }] => {
                    let shape = Shape::from_slice(shape);
                    values.push(Array::lazy(shape, *dtype, primitive, stream, inputs));
                }
                several => {
                    let specs = several.iter().map(|spec| (spec.shape.clone(), spec.dtype));
                    values.extend(Array::lazy_many(specs.collect(), primitive, stream, inputs));
                }
            }
        }
        self.outputs.iter().map(|&output| values[output].clone()).collect()
    }

    /// The sizes of everything that is computed from inputs of other sizes than the trace's.
    ///
    /// # Errors
    /// When a primitive cannot be applied to them, or has the shape that it had for `traced` inputs.
    pub(super) fn sizes(&self, inputs: &[Array], traced: &[Spec]) -> Result<Sizes> {
        let others =
            inputs.iter().zip(traced).any(|(input, traced)| input.spec() != traced.as_ref());
        let mut primitives = self.steps.iter().map(|step| &step.primitive);
        if others && let Some(own) = primitives.find(|primitive| primitive.has_own_shape()) {
            return Err(cannot_infer(own.name()));
        }
        let known = inputs.iter().chain(&self.constants);
        let mut values: Vec<Spec> = known.map(|array| array.spec().to_spec()).collect();
        let mut outputs = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let specs = inferred(step, &values)?;
            values.extend_from_slice(&specs);
            outputs.push(specs);
        }
        values.truncate(inputs.len());
        Ok(Sizes { inputs: values, outputs })
    }
}

/// Shapes and dtypes of a template's values for inputs of some sizes.
pub(super) struct Sizes {
    inputs: Vec<Spec>,
    /// Of each step.
    outputs: Vec<Specs>,
}

impl Sizes {
    /// Whether they are for these inputs.
    pub(super) fn are_of(&self, inputs: &[Array]) -> bool {
        self.inputs.iter().zip(inputs).all(|(spec, input)| spec.as_ref() == input.spec())
    }
}

/// Shapes and dtypes of a step's outputs, given those of the values before it.
fn inferred(step: &Step, values: &[Spec]) -> Result<Specs> {
    let inputs: SmallVec<[SpecRef<'_>; 4]> =
        step.inputs.iter().map(|&value| values[value].as_ref()).collect();
    if step.fixed.as_ref().is_some_and(|shape| shape.as_slice() != inputs[0].shape) {
        return Err(cannot_infer(step.primitive.name()));
    }
    step.primitive.output_specs(&inputs)
}

/// A primitive that holds sizes was applied to an array of others.
pub(crate) fn cannot_infer(name: &str) -> Error {
    Error::invalid("Primitive::output_shapes", format!("{name} cannot infer output shapes."))
}
