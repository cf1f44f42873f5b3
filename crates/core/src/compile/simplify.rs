//! What is equal is computed once, and what nobody needs is not computed.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::template::Template;
use crate::{
    Dtype, Stream,
    primitives::{PassOp, Primitive},
};

impl Template {
    /// A template that returns the same.
    pub(crate) fn simplified(self) -> Template {
        without_unused(numbered(self))
    }
}

/// Gives equal values one number, in one pass: the steps come after what they read. What the function returns
/// is never merged into something else, so that each result stays an array of its own.
fn numbered(mut template: Template) -> Template {
    let returned = template.returned();
    let mut numbers: Vec<usize> = (0..template.values()).collect();
    merge_scalars(&template, &mut numbers);
    let mut known: FxHashMap<(Primitive, Stream, SmallVec<[usize; 4]>), usize> =
        FxHashMap::default();
    for step in &mut template.steps {
        step.inputs.iter_mut().for_each(|input| *input = numbers[*input]);
        let own = step.values();
        if passes_on(&step.primitive) {
            numbers[own.start] = step.inputs[0];
            continue;
        }
        // A user's kernel need not do the same each time.
        if matches!(step.primitive, Primitive::Kernel(_)) {
            continue;
        }
        let key = (step.primitive.clone(), step.stream, step.inputs.clone());
        let first = *known.entry(key).or_insert(own.start);
        if !returned[own.clone()].contains(&true) {
            own.clone().for_each(|value| numbers[value] = value - own.start + first);
        }
    }
    template.outputs.iter_mut().for_each(|output| *output = numbers[*output]);
    template
}

/// Whether the output is the input, once nobody differentiates any more.
fn passes_on(primitive: &Primitive) -> bool {
    matches!(primitive, Primitive::Pass(PassOp::Copy | PassOp::StopGradient))
}

/// Constants of the same bits are one.
fn merge_scalars(template: &Template, numbers: &mut [usize]) {
    let mut known: FxHashMap<(u64, Dtype), usize> = FxHashMap::default();
    let constants = template.constants.iter().zip(template.inputs..);
    for (constant, number) in constants.filter(|(constant, _)| constant.ndim() == 0) {
        if let Some(bits) = constant.bits_at_hand() {
            numbers[number] = *known.entry((bits, constant.dtype())).or_insert(number);
        }
    }
}

/// Without steps and constants that no result needs.
pub(super) fn without_unused(template: Template) -> Template {
    let mut needed = template.returned();
    for step in template.steps.iter().rev() {
        let outputs = step.values();
        if needed[outputs.clone()].contains(&true) {
            needed[outputs.start] = true;
            step.inputs.iter().for_each(|&input| needed[input] = true);
        }
    }
    template.keeping(|value| needed[value])
}
