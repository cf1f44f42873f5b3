//! Several elementwise operations as one node.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{BinaryOp, CopyOp, Family, Input, Primitive, Rule, ShapeOp, SpecRef, Specs, UnaryOp};
use crate::{Array, Dtype, Result};

/// Elementwise operations that a compiled function does together, as indices: its values are the inputs, then
/// the result of each step. All outputs have one shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    /// How many inputs it has.
    pub inputs: usize,
    /// The operations, each behind those that it reads.
    pub steps: Vec<ProgramStep>,
    /// Steps whose results others need; the last step is one of them.
    pub outputs: Vec<usize>,
}

/// An operation of a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProgramStep {
    /// What it computes: a primitive that [`Program::takes`].
    pub primitive: Primitive,
    /// The values that it reads.
    pub inputs: SmallVec<[usize; 3]>,
}

impl Program {
    /// Whether a primitive can be a step of a program.
    pub fn takes(primitive: &Primitive) -> bool {
        Self::is_broadcast(primitive)
            || matches!(
                primitive,
                Primitive::Unary(_)
                    | Primitive::Binary(_)
                    | Primitive::Ternary(_)
                    | Primitive::Copy(CopyOp::AsType { .. })
            )
    }

    /// Whether a primitive repeats its first input.
    pub(crate) fn is_broadcast(primitive: &Primitive) -> bool {
        matches!(primitive, Primitive::Shape(ShapeOp::Broadcast(_)))
    }

    /// The name with those of its steps, as upstream writes it.
    pub fn label(&self) -> String {
        let names = self.steps.iter().map(|step| step.primitive.name());
        std::iter::once("Compiled").chain(names).collect()
    }

    /// Calls `make` for each step with its primitive and inputs, and with which output of the program it is,
    /// if it is one.
    pub(crate) fn expand(
        &self,
        inputs: &[Array],
        mut make: impl FnMut(&Primitive, SmallVec<[Array; 4]>, Option<usize>) -> Result<Array>,
    ) -> Result<()> {
        let mut values: Vec<Array> = Vec::with_capacity(inputs.len() + self.steps.len());
        values.extend_from_slice(inputs);
        for (i, step) in self.steps.iter().enumerate() {
            let read = step.inputs.iter().map(|&value| values[value].clone()).collect();
            let output = self.outputs.iter().position(|&output| output == i);
            values.push(make(&step.primitive, read, output)?);
        }
        Ok(())
    }
}

impl Family for Arc<Program> {
    fn name(&self) -> &'static str {
        "Compiled"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, _dtype: Dtype) -> bool {
        true
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let mut values: Vec<super::Spec> = inputs.iter().map(|spec| spec.to_spec()).collect();
        (values.len() == self.inputs).then_some(())?;
        for step in &self.steps {
            let read: Option<SmallVec<[SpecRef<'_>; 4]>> =
                step.inputs.iter().map(|&value| Some(values.get(value)?.as_ref())).collect();
            let fits = Program::takes(&step.primitive);
            let mut specs = step.primitive.output_specs(&read.filter(|_| fits)?).ok()?;
            values.push(specs.pop()?);
        }
        let outputs = self.outputs.iter().map(|&step| values.get(self.inputs + step).cloned());
        outputs.collect::<Option<Specs>>().filter(|outputs| !outputs.is_empty())
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let step = |primitive: Primitive, inputs: &[usize]| ProgramStep {
            primitive,
            inputs: inputs.into(),
        };
        let rows = ShapeOp::Broadcast(Rule::Exact(SmallVec::from_slice(&[4, 6])));
        let steps = vec![
            step(rows.into(), &[0]),
            step(BinaryOp::Multiply.into(), &[2, 1]),
            step(UnaryOp::Square.into(), &[3]),
        ];
        let program = Program { inputs: 2, steps, outputs: vec![1, 2] };
        vec![(Arc::new(program), vec![Input::new(&[6], dtype), Input::new(&[4, 6], dtype)])]
    }
}
