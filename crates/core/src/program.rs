//! Programs on their way to an evaluation.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::{
    Array, Result, Shape,
    graph::{Inputs, Node, Turn},
    primitives::{Primitive, Rule, ShapeOp, Spec},
};

/// Makes a node for each operation of the program that computes `array`. Its outputs stay the arrays that
/// they are, each with a node of its own, so whoever plans the evaluation sees what it would see without
/// compiling.
pub(crate) fn expand(array: &Array, turn: &mut Turn) -> Result<()> {
    let Some(node) = array.node_in(turn).cloned() else { return Ok(()) };
    let Primitive::Compiled(program) = &node.primitive else { return Ok(()) };
    let outputs = node.living_outputs(array);
    program.expand(&node.inputs, |primitive, inputs, output| {
        match output.and_then(|output| outputs[output].clone()) {
            Some(array) => {
                let own = Node::new(primitive.clone(), node.stream, inputs);
                array.replace_node(Arc::new(own), turn);
                Ok(array)
            }
            None => {
                let spec = output_spec(primitive, &inputs)?;
                if primitive.repeats_nothing(&inputs, std::slice::from_ref(&spec)) {
                    return Ok(inputs[0].clone());
                }
                let (primitive, inputs) = settled(primitive, inputs, &spec.shape);
                Ok(Array::lazy(spec.shape, spec.dtype, primitive, node.stream, inputs))
            }
        }
    })
}

/// An operation whose output has this shape, without inputs that only said so: one more would read them.
fn settled(primitive: &Primitive, inputs: Inputs, shape: &Shape) -> (Primitive, Inputs) {
    match (primitive, &inputs[..]) {
        (Primitive::Shape(ShapeOp::Broadcast(_)), [repeated, _, ..]) => {
            let exact = ShapeOp::Broadcast(Rule::Exact(shape.clone()));
            (exact.into(), smallvec![repeated.clone()])
        }
        _ => (primitive.clone(), inputs),
    }
}

/// Shape and dtype of what an operation with one output gives.
fn output_spec(primitive: &Primitive, inputs: &[Array]) -> Result<Spec> {
    let specs: SmallVec<[_; 4]> = inputs.iter().map(Array::spec).collect();
    Ok(primitive.output_specs(&specs)?.remove(0))
}
