//! A step of the gated delta rule becomes one primitive.
//!
//! Models write the rule as products and sums of a token, compiled, and call that for each token. As
//! operations it would read and write the state five times. Sums are added in another order than by
//! [`ReduceOp::Sum`], so results differ in their last bits.

use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

use super::{
    simplify::without_unused,
    template::{Step, Template},
};
use crate::{
    Dtype, Shape, Stream,
    primitives::{
        BinaryOp, CopyOp, GatedDelta, Primitive, Reduce, ReduceOp, ShapeOp, Spec, SpecRef, Specs,
    },
};

/// A template in which steps of the rule are one primitive each. Its inputs are like `inputs`.
pub(super) fn recognized(template: Template, inputs: &[Spec]) -> Template {
    let search = Search::new(&template, inputs);
    let steps = 0..template.steps.len();
    let mut found: Vec<Found> = steps.filter_map(|step| search.ending(step)).collect();
    if found.is_empty() {
        return template;
    }
    found.sort_by_key(|found| found.before);
    without_unused(put_into(template, &found))
}

/// A template whose results come from the primitive.
fn put_into(template: Template, found: &[Found]) -> Template {
    let mut numbers: Vec<usize> = (0..template.values()).collect();
    let Template { inputs, constants, steps: old, outputs } = template;
    let replaced: FxHashSet<usize> = found.iter().flat_map(|found| found.outputs).collect();
    let mut steps = Vec::with_capacity(old.len() + 7 * found.len());
    let (mut next, mut found) = (inputs + constants.len(), found.iter().peekable());
    for (i, step) in old.into_iter().enumerate() {
        while let Some(found) = found.next_if(|found| found.before == i) {
            let made = found.put(&numbers, &mut next, &mut steps);
            found.outputs.iter().zip(made).for_each(|(&old, new)| numbers[old] = new);
        }
        for (value, new) in step.values().zip(next..) {
            if !replaced.contains(&value) {
                numbers[value] = new;
            }
        }
        next += step.outputs.len();
        let first = next - step.outputs.len();
        let inputs = step.inputs.iter().map(|&input| numbers[input]).collect();
        steps.push(Step { inputs, first, ..step });
    }
    let outputs = outputs.into_iter().map(|output| numbers[output]).collect();
    Template { inputs, constants, steps, outputs }
}

/// A step of the rule: values of a template.
struct Found {
    /// Query, key, value, decay, rate and state, without an axis of tokens.
    inputs: [usize; 6],
    /// What is read from the new state, and that.
    outputs: [usize; 2],
    /// The step before which all inputs are there, and no output is read.
    before: usize,
    stream: Stream,
    /// Shapes and dtypes of inputs and outputs.
    specs: [Spec; 8],
}

/// What is known of a template's values.
struct Search<'a> {
    template: &'a Template,
    specs: Vec<SpecRef<'a>>,
    maker: Vec<Option<usize>>,
    /// The steps that read each value.
    readers: Vec<SmallVec<[usize; 2]>>,
    returned: Vec<bool>,
}

/// Steps and values that a step of the rule consists of.
#[derive(Default)]
struct Passed {
    steps: Vec<usize>,
    values: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(template: &'a Template, inputs: &'a [Spec]) -> Self {
        let mut maker = vec![None; template.values()];
        let mut readers = vec![SmallVec::new(); template.values()];
        for (i, step) in template.steps.iter().enumerate() {
            step.inputs.iter().for_each(|&input| readers[input].push(i));
            step.values().for_each(|value| maker[value] = Some(i));
        }
        let given = inputs.iter().map(Spec::as_ref);
        let constants = template.constants.iter().map(|constant| constant.spec());
        let made = template.steps.iter().flat_map(|s| s.outputs.iter().map(Spec::as_ref));
        let specs = given.chain(constants).chain(made).collect();
        Search { template, specs, maker, readers, returned: template.returned() }
    }

    /// The step of the rule whose new state `sum` makes: `state * decay + key * change`.
    fn ending(&self, sum: usize) -> Option<Found> {
        self.does(sum, BinaryOp::Add).then_some(())?;
        let Step { inputs, first, .. } = &self.template.steps[sum];
        let (new, orders) = (*first, [[0, 1], [1, 0]]);
        orders.iter().find_map(|&[a, b]| self.with_terms(new, inputs[a], inputs[b]))
    }

    fn with_terms(&self, new: usize, decayed: usize, change: usize) -> Option<Found> {
        let &[batch, heads, values, width] = self.specs[new].shape else { return None };
        (self.specs[new].dtype == Dtype::Float32).then_some(())?;
        let mut passed = Passed::default();
        passed.steps.push(self.maker[new]?);
        let row = [batch, heads, 1, width];
        let of_keys = [batch, heads, width];
        let of_heads = [batch, heads];
        let of_values = [batch, heads, values];
        let (state, decay) = self.factors(decayed, &mut passed, |search, value, passed| {
            let one = search.base(value, &[batch, heads, 1, 1], &of_heads, passed);
            one.or_else(|| search.base(value, &row, &of_keys, passed))
        })?;
        let key_of =
            |search: &Self, value, passed: &mut Passed| search.base(value, &row, &of_keys, passed);
        let (change, key) = self.factors(change, &mut passed, key_of)?;
        let change = self.base(change, &[batch, heads, values, 1], &of_values, &mut passed)?;
        let (new_value, rate) = self.factors(change, &mut passed, |search, value, passed| {
            search.base(value, &[batch, heads, 1], &of_heads, passed)
        })?;
        let [value, held] = self.inputs_of(new_value, BinaryOp::Subtract, &mut passed)?;
        let value = self.base(value, &of_values, &of_values, &mut passed)?;
        let held = self.summed(held, &mut passed)?;
        let (read, same_key) = self.factors(held, &mut passed, key_of)?;
        (read == decayed && same_key == key).then_some(())?;
        let (query, y) = self.reading(new, &row, &of_keys, &mut passed)?;
        (self.specs[y].shape == of_values).then_some(())?;
        let inputs = [query, key, value, decay, rate, state];
        let outputs = [y, new];
        let is_inside = |&value: &usize| {
            outputs.contains(&value)
                || (!self.returned[value]
                    && self.readers[value].iter().all(|reader| passed.steps.contains(reader)))
        };
        passed.values.iter().all(is_inside).then_some(())?;
        let before = inputs.iter().filter_map(|&input| self.maker[input]).max();
        let before = before.map_or(0, |maker| maker + 1);
        let mut others = self.readers[new].iter().filter(|reader| !passed.steps.contains(reader));
        let specs = |value: usize| self.specs[value].to_spec();
        let [a, b, c, d, e, f] = inputs.map(specs);
        let [g, h] = outputs.map(specs);
        let stream = self.template.steps[passed.steps[0]].stream;
        let is_ours = |&step: &usize| self.template.steps[step].stream == stream;
        let found = Found { inputs, outputs, before, stream, specs: [a, b, c, d, e, f, g, h] };
        let fits = passed.steps.iter().all(is_ours) && others.all(|&reader| reader >= before);
        (fits && found.fits()).then_some(found)
    }

    fn does(&self, step: usize, op: BinaryOp) -> bool {
        self.template.steps[step].primitive == Primitive::Binary(op)
    }

    /// The inputs of an operation that makes `value` and is a part of the rule.
    fn inputs_of(&self, value: usize, op: BinaryOp, passed: &mut Passed) -> Option<[usize; 2]> {
        let step = self.maker[value].filter(|&step| self.does(step, op))?;
        passed.steps.push(step);
        passed.values.push(value);
        self.template.steps[step].inputs[..].try_into().ok()
    }

    /// The factors of a product, of which `find` finds one.
    fn factors(
        &self,
        product: usize,
        passed: &mut Passed,
        find: impl Fn(&Self, usize, &mut Passed) -> Option<usize>,
    ) -> Option<(usize, usize)> {
        let [a, b] = self.inputs_of(product, BinaryOp::Multiply, passed)?;
        let found = find(self, b, passed).map(|found| (a, found));
        found.or_else(|| find(self, a, passed).map(|found| (b, found)))
    }

    /// What is behind steps of these kinds, which read one array.
    fn behind(
        &self,
        mut value: usize,
        passed: &mut Passed,
        is: impl Fn(&Primitive) -> bool,
    ) -> usize {
        while let Some(step) = self.maker[value] {
            let Step { primitive, inputs, .. } = &self.template.steps[step];
            let widens = matches!(primitive, Primitive::Copy(CopyOp::AsType { .. }))
                && self.specs[value].dtype == Dtype::Float32
                && self.specs[inputs[0]].dtype.is_floating();
            if !(widens || is(primitive)) {
                break;
            }
            passed.steps.push(step);
            value = inputs[0];
        }
        value
    }

    /// The array of shape `base` that is given as one of shape `aligned` and repeated from there on.
    fn base(
        &self,
        value: usize,
        aligned: &[usize],
        base: &[usize],
        passed: &mut Passed,
    ) -> Option<usize> {
        let repeats = |p: &Primitive| matches!(p, Primitive::Shape(ShapeOp::Broadcast(_)));
        let value = self.behind(value, passed, repeats);
        (self.specs[value].shape == aligned).then_some(())?;
        let expands = |p: &Primitive| matches!(p, Primitive::Shape(ShapeOp::ExpandDims { .. }));
        let value = self.behind(value, passed, expands);
        (self.specs[value].shape == base).then_some(value)
    }

    /// What was summed over the last of four axes.
    fn summed(&self, value: usize, passed: &mut Passed) -> Option<usize> {
        let squeeze = self.maker[value]?;
        let Step { primitive, inputs, .. } = &self.template.steps[squeeze];
        matches!(primitive, Primitive::Shape(ShapeOp::Squeeze { .. })).then_some(())?;
        let sum = self.maker[inputs[0]].filter(|&sum| self.sums_rows(sum))?;
        passed.steps.extend([squeeze, sum]);
        passed.values.extend([value, inputs[0]]);
        Some(self.template.steps[sum].inputs[0])
    }

    fn sums_rows(&self, step: usize) -> bool {
        let of_rows = Reduce { op: ReduceOp::Sum, axes: smallvec![3] };
        self.template.steps[step].primitive == Primitive::Reduce(of_rows)
    }

    /// The query that reads the state `new`, and what it reads.
    fn reading(
        &self,
        new: usize,
        row: &[usize],
        of_keys: &[usize],
        passed: &mut Passed,
    ) -> Option<(usize, usize)> {
        self.readers[new].iter().find_map(|&step| {
            let product = self.template.steps[step].first;
            let find = |search: &Self, value, passed: &mut Passed| {
                if value == new { None } else { search.base(value, row, of_keys, passed) }
            };
            let (read, query) = self.factors(product, passed, find)?;
            let next = |value: usize| match self.readers[value][..] {
                [step] if !self.returned[value] => Some(step),
                _ => None,
            };
            let sum = next(product).filter(|&sum| self.sums_rows(sum) && read == new)?;
            let squeeze = next(self.template.steps[sum].first)?;
            let y = self.template.steps[squeeze].first;
            (self.summed(y, passed)? == product).then_some(())?;
            // It is stored as what it was computed from.
            let narrowed = next(y).filter(|&step| {
                let to = Primitive::Copy(CopyOp::AsType { dtype: self.specs[query].dtype });
                self.template.steps[step].primitive == to
            });
            passed.steps.extend(narrowed);
            Some((query, narrowed.map_or(y, |step| self.template.steps[step].first)))
        })
    }
}

impl Found {
    /// Whether dtypes are those that the primitive takes and gives.
    fn fits(&self) -> bool {
        let [inputs @ .., y, state] = &self.specs;
        let tokens = inputs.each_ref().map(of_token);
        let inputs: Vec<_> = tokens[..5].iter().chain([&inputs[5]]).map(Spec::as_ref).collect();
        let outputs = Primitive::from(GatedDelta).output_specs(&inputs);
        outputs.is_ok_and(|outputs| outputs[..] == [of_token(y), state.clone()])
    }

    /// Adds the primitive and views of its inputs and output; returns what it makes.
    fn put(&self, numbers: &[usize], next: &mut usize, steps: &mut Vec<Step>) -> [usize; 2] {
        let stream = self.stream;
        let mut add = |primitive: Primitive, inputs: &[usize], outputs: Specs| {
            let (first, inputs) = (*next, SmallVec::from_slice(inputs));
            *next += outputs.len();
            steps.push(Step { primitive, stream, inputs, outputs, first, fixed: None });
            first
        };
        let axes = || smallvec![1];
        let mut inputs = self.inputs.map(|input| numbers[input]);
        for (input, spec) in inputs[..5].iter_mut().zip(&self.specs) {
            let expand = ShapeOp::ExpandDims { axes: axes() }.into();
            *input = add(expand, &[*input], smallvec![of_token(spec)]);
        }
        let [.., y, state] = &self.specs;
        let outputs = smallvec![of_token(y), state.clone()];
        let rule = add(GatedDelta.into(), &inputs, outputs);
        let squeeze = ShapeOp::Squeeze { axes: axes() }.into();
        [add(squeeze, &[rule], smallvec![y.clone()]), rule + 1]
    }
}

/// The same with an axis of one token behind that of batches.
fn of_token(spec: &Spec) -> Spec {
    let mut shape: Shape = spec.shape.clone();
    shape.insert(1, 1);
    Spec { shape, dtype: spec.dtype }
}
