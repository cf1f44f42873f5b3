//! The derivatives of every primitive, by the examples of the support table: along random tangents against
//! differences of values, and along cotangents against those; then the same for the derivatives themselves.

use std::collections::BTreeSet;

use mlx::{
    Array, Device, Dtype, Error, Result, graph, ops,
    primitives::{Example, Linalg, PassOp, Primitive},
    transforms::{jvp, vjp},
};
use mlx_tests::{Layout, complex_noise, complex_parts, example_inputs, filled, noise, values};

use crate::common::laid_out;

/// What has no such derivative: nor has it upstream, or a reason stands beside it.
const REFUSED: &[(&str, &str)] = &[
    // Bits as another dtype are no smooth function.
    ("jvp", "View"),
    ("vjp", "View"),
    ("vjp of vjp", "View"),
    ("jvp of vjp", "View"),
    // It needs the inverse of complex matrices, which there is none of.
    ("jvp", "Eig"),
    ("vjp", "Eig"),
    ("vjp of vjp", "Eig"),
    ("jvp of vjp", "Eig"),
];

/// How inputs and directions lie.
pub(crate) const LAYOUTS: [Layout; 5] =
    [Layout::Contiguous, Layout::Transposed, Layout::Broadcast, Layout::Sliced, Layout::Reversed];

type Apply<'a> = dyn Fn(&[Array]) -> Result<Vec<Array>> + 'a;

/// A function of the inexact inputs of an example, and those.
pub(crate) struct Function<'a> {
    pub(crate) apply: Box<Apply<'a>>,
    pub(crate) inputs: Vec<Array>,
    /// How directions lie in memory.
    layout: Layout,
}

/// An example as a function whose outputs are inexact, if it has any. Its inputs lie as `layout` says.
pub(crate) fn function(example: &Example, layout: Layout) -> Option<Function<'_>> {
    // What derivatives make of these is not what they compute, and programs are compiled already.
    if let Primitive::Pass(PassOp::StopGradient | PassOp::Custom(_)) | Primitive::Compiled(_) =
        example.primitive
    {
        return None;
    }
    let mut all = example_inputs(example, 0).unwrap();
    for (array, input) in all.iter_mut().zip(&example.inputs) {
        // Other numbers than given ones are something else.
        if layout != Layout::Broadcast || input.values.is_none() {
            *array = laid_out(array, layout);
        }
    }
    let inexact = |a: &&Array| a.dtype().is_inexact();
    let inputs: Vec<Array> = all.iter().filter(inexact).cloned().collect();
    let apply = move |inputs: &[Array]| {
        let mut given = inputs.iter();
        let replaced = all.iter().map(|a| match inexact(&a) {
            true => given.next().expect("there is one for each").clone(),
            false => a.clone(),
        });
        let outputs = graph::apply(example.primitive.clone(), replaced.collect())?;
        // Vectors of a decomposition have any sign or phase, which follows no argument.
        let has_vectors = matches!(
            example.primitive,
            Primitive::Linalg(Linalg::Svd { .. } | Linalg::Eigh { .. })
        );
        let smooth = |a: &Array| a.dtype().is_inexact() && !(has_vectors && a.ndim() > 1);
        Ok(outputs.into_iter().filter(smooth).collect::<Vec<_>>())
    };
    let is_smooth = !inputs.is_empty() && !apply(&inputs).unwrap().is_empty();
    is_smooth.then(|| Function { apply: Box::new(apply), inputs, layout })
}

/// A direction: random numbers like an array.
fn direction(a: &Array, seed: u64) -> Array {
    match a.dtype() {
        Dtype::Complex64 => complex_noise(a.shape(), seed),
        dtype => filled(a.shape(), dtype, noise(seed, -1.0, 1.0)),
    }
}

impl Function<'_> {
    /// Random directions at arrays.
    pub(crate) fn directions(&self, arrays: &[Array], seed: u64) -> Vec<Array> {
        let seeded = arrays.iter().zip(0..);
        seeded.map(|(a, i)| laid_out(&direction(a, seed + 2 * i), self.layout)).collect()
    }
}

/// The numbers of arrays; complex ones are two.
pub(crate) fn numbers(arrays: &[Array]) -> Vec<f64> {
    let of = |a: &Array| match a.dtype() {
        Dtype::Complex64 => complex_parts(a).into_iter().flatten().collect(),
        _ => values(a),
    };
    arrays.iter().flat_map(of).collect()
}

fn products(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

/// The largest of some numbers, or 1.
pub(crate) fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(1.0, |most: f64, x| most.max(x.abs()))
}

/// How far the difference of values may be from the derivative, and the step that makes it so.
#[derive(Clone, Copy)]
struct Precision {
    step: f64,
    tolerance: f64,
}

impl Precision {
    fn of(function: &Function<'_>) -> Self {
        let outputs = (function.apply)(&function.inputs).unwrap();
        let double = function.inputs.iter().chain(&outputs).all(|a| a.dtype() == Dtype::Float64);
        // Some of what is float64 was computed in float32.
        let is_single = numbers(&outputs).iter().all(|&x| x == f64::from(x as f32));
        match (double, is_single) {
            (true, false) => Precision { step: 1e-5, tolerance: 1e-6 },
            (true, true) => Precision { step: 1e-4, tolerance: 1e-2 },
            (false, _) => Precision { step: 1e-3, tolerance: 1e-2 },
        }
    }
}

/// The derivative along tangents as a quotient of differences.
fn quotient(function: &Function<'_>, tangents: &[Array], step: f64) -> Vec<f64> {
    let at = |step: f64| {
        let moved = function.inputs.iter().zip(tangents);
        let moved = moved.map(|(a, t)| ops::add(a, &ops::multiply(t, step)?));
        numbers(&(function.apply)(&moved.collect::<Result<Vec<_>>>().unwrap()).unwrap())
    };
    at(step).iter().zip(at(-step)).map(|(high, low)| (high - low) / (2.0 * step)).collect()
}

/// What is wrong with the derivatives of a function.
enum Fault {
    Refused(String),
    Wrong(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match text.contains("Not implemented for") {
            true => Fault::Refused(text),
            false => Fault::Wrong(text),
        }
    }
}

fn compare(what: &str, got: &[f64], want: &[f64], tolerance: f64) -> Result<(), Fault> {
    assert_eq!(got.len(), want.len());
    let near = |(g, w): (&f64, &f64)| (g - w).abs() <= tolerance;
    match got.iter().zip(want).find(|&pair| !near(pair)) {
        Some((got, want)) => Err(Fault::Wrong(format!("{what}: {got} instead of {want}"))),
        None => Ok(()),
    }
}

fn check_jvp(function: &Function<'_>) -> Result<(), Fault> {
    let precision = Precision::of(function);
    for seed in [10, 20] {
        let tangents = function.directions(&function.inputs, seed);
        let (_, got) = jvp(&function.apply, &function.inputs, &tangents)?;
        let want = quotient(function, &tangents, precision.step);
        compare("jvp", &numbers(&got), &want, precision.tolerance * largest(&want))?;
    }
    Ok(())
}

fn check_vjp(function: &Function<'_>) -> Result<(), Fault> {
    let precision = Precision::of(function);
    let outputs = (function.apply)(&function.inputs)?;
    for seed in [10, 20] {
        let (tangents, cotangents) =
            (function.directions(&function.inputs, seed), function.directions(&outputs, seed + 5));
        let (_, got) = vjp(&function.apply, &function.inputs, &cotangents)?;
        for (derivative, input) in got.iter().zip(&function.inputs) {
            assert_eq!(derivative.spec(), input.spec());
        }
        let got: f64 = products(&numbers(&got), &numbers(&tangents)).iter().sum();
        // Terms may cancel, so they say how exact their sum is.
        let terms = products(&numbers(&cotangents), &quotient(function, &tangents, precision.step));
        let tolerance = precision.tolerance * largest(&terms);
        compare("vjp", &[got], &[terms.iter().sum()], tolerance)?;
    }
    Ok(())
}

/// The function that gives the derivatives of another one along fixed cotangents.
fn gradient<'a>(function: &'a Function<'a>) -> Function<'a> {
    let outputs = (function.apply)(&function.inputs).unwrap();
    let cotangents = function.directions(&outputs, 40);
    let apply = move |inputs: &[Array]| Ok(vjp(&function.apply, inputs, &cotangents)?.1);
    Function { apply: Box::new(apply), inputs: function.inputs.clone(), layout: function.layout }
}

/// Checks the derivatives of a function of float64 arrays, and those of its derivatives.
pub(crate) fn check_function(
    name: &str,
    inputs: &[Array],
    apply: impl Fn(&[Array]) -> Result<Vec<Array>>,
) {
    mlx_tests::init();
    let layout = Layout::Contiguous;
    let function = Function { apply: Box::new(apply), inputs: inputs.to_vec(), layout };
    let check = || {
        check_jvp(&function)?;
        check_vjp(&function)?;
        check_vjp(&gradient(&function))?;
        check_jvp(&gradient(&function))
    };
    match mlx::with_device(Device::CPU, check).unwrap() {
        Ok(()) => {}
        Err(Fault::Refused(text) | Fault::Wrong(text)) => panic!("{name}: {text}"),
    }
}

/// Checks a transform of every example of a dtype in every layout.
fn check_all(dtype: Dtype, transform: &str, check: impl Fn(&Function<'_>) -> Result<(), Fault>) {
    for layout in LAYOUTS {
        check_layout(layout, dtype, transform, &check);
    }
}

/// Checks it where inputs and directions lie as `layout` says; the primitives that refuse it must be known.
fn check_layout(
    layout: Layout,
    dtype: Dtype,
    transform: &str,
    check: impl Fn(&Function<'_>) -> Result<(), Fault>,
) {
    mlx_tests::init();
    let (mut refused, mut faults, mut checked) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    let mut examples = Primitive::examples();
    examples.retain(|example| example.dtype == dtype && takes(example, layout));
    for example in &examples {
        let name = example.primitive.name();
        let check = || {
            function(example, layout).map_or(Ok(()), |function| {
                checked.insert(name);
                check(&function)
            })
        };
        match mlx::with_device(Device::CPU, check).unwrap() {
            Ok(()) => {}
            Err(Fault::Refused(_)) => drop(refused.insert(name)),
            Err(Fault::Wrong(text)) => faults.push(format!("{:?}: {text}", example.primitive)),
        }
    }
    assert!(faults.is_empty(), "{transform} {dtype} {layout:?}\n{}", faults.join("\n"));
    let known = |name: &&str| REFUSED.contains(&(transform, name));
    let known: BTreeSet<&str> = checked.into_iter().filter(known).collect();
    assert_eq!(refused, known, "{transform} {dtype} {layout:?}");
}

/// Whether an example has no derivatives of some kind.
pub(crate) fn refuses(example: &Example) -> bool {
    REFUSED.iter().any(|(_, name)| *name == example.primitive.name())
}

/// Whether what it reads may lie as `layout` says. Elements of broadcast arrays are equal, but move together.
pub(crate) fn takes(example: &Example, layout: Layout) -> bool {
    layout == Layout::Contiguous || example.primitive.name() != "AsStrided"
}

fn check_derivatives_along_cotangents(function: &Function<'_>) -> Result<(), Fault> {
    check_vjp(function)?;
    check_vjp(&gradient(function))
}

fn check_derivatives_along_tangents(function: &Function<'_>) -> Result<(), Fault> {
    check_vjp(function)?;
    check_jvp(&gradient(function))
}

#[test]
fn along_tangents() {
    check_all(Dtype::Float64, "jvp", check_jvp);
}

#[test]
fn along_cotangents() {
    check_all(Dtype::Float64, "vjp", check_vjp);
}

#[test]
fn of_complex_functions_along_tangents() {
    check_all(Dtype::Complex64, "jvp", check_jvp);
}

#[test]
fn of_complex_functions_along_cotangents() {
    check_all(Dtype::Complex64, "vjp", check_vjp);
}

#[test]
fn of_derivatives_along_cotangents() {
    check_all(Dtype::Float64, "vjp of vjp", check_derivatives_along_cotangents);
}

#[test]
fn of_derivatives_along_tangents() {
    check_all(Dtype::Float64, "jvp of vjp", check_derivatives_along_tangents);
}

#[test]
fn of_complex_derivatives_along_cotangents() {
    check_all(Dtype::Complex64, "vjp of vjp", check_derivatives_along_cotangents);
}

#[test]
fn of_complex_derivatives_along_tangents() {
    check_all(Dtype::Complex64, "jvp of vjp", check_derivatives_along_tangents);
}
