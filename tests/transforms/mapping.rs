//! Every primitive mapped over an axis of its inputs, by the examples of the support table, against a loop.

use std::collections::BTreeSet;

use mlx::{
    Array, Device, Dtype, Error, Result, graph, ops,
    primitives::{Example, PassOp, Primitive},
    transforms::vmap,
};
use mlx_tests::{complex_parts, epsilon, example_inputs, filled, noise, on_each_device, values};

/// What cannot be mapped: nor can it upstream, or a reason stands beside it.
const REFUSED: &[&str] = &[
    // Over what is searched in: upstream's tests expect that.
    "SearchSorted",
    // Over the value around the array: upstream's tests expect that.
    "Pad",
];

/// How many indices are mapped.
const COUNT: u64 = 3;

/// Inputs for each index, of which some are the same for all.
fn inputs_of(inputs: &impl Fn(u64) -> Vec<Array>, mapped: &[bool]) -> Vec<Vec<Array>> {
    let same = inputs(0);
    let of = |seed| {
        let choice = inputs(seed).into_iter().zip(&same).zip(mapped);
        choice.map(|((own, same), mapped)| if *mapped { own } else { same.clone() }).collect()
    };
    (0..COUNT).map(of).collect()
}

fn stacked(arrays: impl Iterator<Item = Array>, axis: usize) -> Array {
    let arrays: Vec<Array> = arrays.collect();
    ops::stack(&arrays.iter().collect::<Vec<_>>(), axis as isize).unwrap()
}

/// Which inputs are mapped, and along which axis each.
fn choices(ndims: &[usize]) -> Vec<Vec<Option<usize>>> {
    let none = vec![None; ndims.len()];
    let mut choices = Vec::new();
    for (i, &ndim) in ndims.iter().enumerate() {
        for axis in 0..=ndim {
            let mut one = none.clone();
            one[i] = Some(axis);
            choices.push(one);
        }
    }
    if ndims.len() > 1 {
        choices.push(ndims.iter().map(|_| Some(0)).collect());
        choices.push(ndims.iter().map(|&ndim| Some(ndim)).collect());
        choices.push(ndims.iter().enumerate().map(|(i, &ndim)| Some(i % (ndim + 1))).collect());
    }
    choices
}

fn numbers(a: &Array) -> Vec<f64> {
    match a.dtype() {
        Dtype::Complex64 => complex_parts(a).into_iter().flatten().collect(),
        _ => values(a),
    }
}

/// What differs by more than roundings, which may come in another order, if something does.
fn difference(got: &Array, want: &Array) -> Option<String> {
    if got.spec() != want.spec() {
        return Some(format!("{} instead of {}", got.spec(), want.spec()));
    }
    let (got_numbers, want_numbers) = (numbers(got), numbers(want));
    let most = want_numbers.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
    let inexact = got.dtype().is_inexact();
    let bound = if inexact { 32.0 * epsilon(got.dtype()) * most } else { 0.0 };
    let near = |(got, want): (&f64, &f64)| got == want || (got - want).abs() <= bound;
    let (got, want) = got_numbers.iter().zip(&want_numbers).find(|&pair| !near(pair))?;
    Some(format!("{got} instead of {want}"))
}

/// What is wrong with a function of some inputs that is mapped so, if something is.
fn fault(
    apply: impl Fn(&[Array]) -> Result<Vec<Array>>,
    inputs: impl Fn(u64) -> Vec<Array>,
    axes: &[Option<usize>],
) -> Result<Option<String>> {
    let mapped: Vec<bool> = axes.iter().map(Option::is_some).collect();
    let each = inputs_of(&inputs, &mapped);
    let all: Vec<Array> = axes
        .iter()
        .enumerate()
        .map(|(i, axis)| match axis {
            Some(axis) => stacked(each.iter().map(|inputs| inputs[i].clone()), *axis),
            None => each[0][i].clone(),
        })
        .collect();
    let in_axes: Vec<Option<isize>> = axes.iter().map(|axis| axis.map(|x| x as isize)).collect();
    let got = vmap(&apply, &all, &in_axes, |n| Ok(vec![Some(0); n]))?;
    let loops: Vec<Vec<Array>> = each.iter().map(|inputs| apply(inputs)).collect::<Result<_>>()?;
    for (i, got) in got.iter().enumerate() {
        let want = stacked(loops.iter().map(|outputs| outputs[i].clone()), 0);
        if let Some(difference) = difference(got, &want) {
            return Ok(Some(format!("{axes:?}: {difference}")));
        }
    }
    Ok(None)
}

/// Checks a function mapped over each axis of its inputs, which are given for each index, on both devices.
pub(crate) fn check_function(
    name: &str,
    inputs: impl Fn(u64) -> Vec<Array>,
    apply: impl Fn(&[Array]) -> Result<Vec<Array>>,
) {
    let ndims: Vec<usize> = inputs(0).iter().map(Array::ndim).collect();
    on_each_device(|device| {
        for axes in choices(&ndims) {
            let fault =
                fault(&apply, &inputs, &axes).unwrap_or_else(|error| Some(error.to_string()));
            assert_eq!(fault, None, "{name} {axes:?} {device}");
        }
    });
}

/// Checks a function of one array of this shape, mapped over each axis.
pub(crate) fn check_unary(name: &str, shape: &[usize], apply: impl Fn(&Array) -> Result<Array>) {
    let inputs = |seed| vec![filled(shape, Dtype::Float32, noise(seed, 0.1, 0.9))];
    check_function(name, inputs, |x| Ok(vec![apply(&x[0])?]));
}

/// Whether a rule says that it cannot map so.
fn is_refusal(error: &Error) -> bool {
    let message = error.to_string();
    ["Not implemented", "is not supported"].iter().any(|words| message.contains(words))
}

fn check(device: Device, dtype: Dtype) {
    let (mut refused, mut faults, mut checked) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    let support = |example: &Example| {
        let backend = mlx::backend::backend_for(device).unwrap();
        backend.support(&example.primitive, dtype) == mlx::support::Support::Native
    };
    // What a user's rules make of a function is not what they compute, and programs are compiled already.
    let left_out = |e: &Example| {
        matches!(e.primitive, Primitive::Pass(PassOp::Custom(_)) | Primitive::Compiled(_))
    };
    let mut examples = Primitive::examples();
    examples.retain(|e| e.dtype == dtype && support(e) && !left_out(e));
    for example in &examples {
        let name = example.primitive.name();
        checked.insert(name);
        let apply = |inputs: &[Array]| {
            Ok(graph::apply(example.primitive.clone(), inputs.into())?.into_vec())
        };
        let inputs = |seed| example_inputs(example, seed).unwrap();
        let ndims: Vec<usize> = example.inputs.iter().map(|input| input.shape.len()).collect();
        for axes in choices(&ndims) {
            match fault(apply, inputs, &axes) {
                Ok(fault) => {
                    faults.extend(fault.map(|text| format!("{:?} {text}", example.primitive)));
                }
                Err(error) if is_refusal(&error) => {
                    refused.insert(name);
                }
                Err(error) => faults.push(format!("{:?} {axes:?}: {error}", example.primitive)),
            }
        }
    }
    assert!(faults.is_empty(), "{device} {dtype}\n{}", faults.join("\n"));
    let known: BTreeSet<&str> = checked.into_iter().filter(|name| REFUSED.contains(name)).collect();
    assert_eq!(refused, known, "{device} {dtype}");
}

macro_rules! mapped {
    ($($name:ident: $dtype:ident;)*) => {$(
        #[test]
        fn $name() {
            on_each_device(|device| check(device, Dtype::$dtype));
        }
    )*};
}

mapped! {
    bool: Bool;
    uint32: Uint32;
    int32: Int32;
    float16: Float16;
    float32: Float32;
    complex64: Complex64;
}
