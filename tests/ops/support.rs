//! The support table against reality: every example of a primitive is applied. What is native gives on Vulkan
//! what it gives on the CPU, and what is refused says so by name. Sizes are small; how exact the results are
//! is the business of the families' own tests.

use mlx::{
    Array, Device, Dtype, Result, graph, ops,
    primitives::{Example, Input, Primitive, SortOp},
    support::{Entry, Support, table},
};
use mlx_tests::{complex_parts, epsilon, example_inputs, values};

/// The outputs of an example on the current device, after their shapes and dtypes were compared.
fn apply(example: &Example) -> Result<Vec<Array>> {
    let inputs = example_inputs(example, 0)?.into();
    let specs: Vec<_> = example.inputs.iter().map(Input::spec).collect();
    let specs = example.primitive.output_specs(&specs)?;
    let outputs = graph::apply(example.primitive.clone(), inputs)?;
    mlx::eval(&outputs.iter().collect::<Vec<_>>())?;
    assert_eq!(outputs.len(), specs.len(), "{example:?}");
    for (output, spec) in outputs.iter().zip(&specs) {
        assert_eq!(output.spec(), spec.as_ref(), "{example:?}");
        assert_eq!(output.to_bytes()?.len(), output.nbytes(), "{example:?}");
    }
    Ok(outputs.into_vec())
}

/// What must be the same on all devices: not the order on either side of a partition.
fn determined(example: &Example, outputs: Vec<Array>) -> Result<Vec<Array>> {
    let at = |a: &Array, axis: usize, i: usize| {
        ops::slice_axis(a, axis as isize, i as isize, i as isize + 1)
    };
    Ok(match example.primitive {
        Primitive::Sort(SortOp::Partition { kth, axis }) => vec![at(&outputs[0], axis, kth)?],
        Primitive::Sort(SortOp::ArgPartition { kth, axis }) => {
            let a = &example_inputs(example, 0)?[0];
            vec![ops::take_along_axis(a, &at(&outputs[0], axis, kth)?, axis as isize)?]
        }
        _ => outputs,
    })
}

/// The numbers that an example makes on a device, or what it says.
fn run(device: Device, example: &Example) -> std::result::Result<Vec<Vec<[f64; 2]>>, String> {
    let numbers = |a: &Array| match a.dtype() {
        Dtype::Complex64 => complex_parts(a),
        _ => values(a).into_iter().map(|x| [x, 0.0]).collect(),
    };
    mlx::with_device(device, || {
        let results = determined(example, apply(example)?)?;
        mlx::eval(&results.iter().collect::<Vec<_>>())?;
        Ok(results.iter().map(numbers).collect())
    })
    .and_then(|result| result)
    .map_err(|error: mlx::Error| error.to_string())
}

/// Whether numbers are equal up to some roundings of the largest one.
fn agree(got: &[Vec<[f64; 2]>], want: &[Vec<[f64; 2]>], dtype: Dtype) -> bool {
    let close = |got: &Vec<[f64; 2]>, want: &Vec<[f64; 2]>| {
        let most = want.iter().flatten().fold(1.0, |m: f64, x| m.max(x.abs()));
        let bound = 16.0 * if dtype.is_inexact() { epsilon(dtype) } else { 1e-7 } * most;
        let near = |(g, w): (&f64, &f64)| g == w || (g - w).abs() <= bound;
        got.len() == want.len() && got.iter().flatten().zip(want.iter().flatten()).all(near)
    };
    got.len() == want.len() && got.iter().zip(want).all(|(g, w)| close(g, w))
}

/// What is wrong with an entry, if something is.
fn fault(entry: &Entry) -> Option<String> {
    let example = &entry.example;
    let device = if entry.backend == "cpu" { Device::CPU } else { Device::GPU };
    let wrong = match (entry.support, run(device, example)) {
        (Support::Native, Ok(_)) if device == Device::CPU => None,
        (Support::Native, Ok(got)) => {
            let want = run(Device::CPU, example).expect("the CPU runs everything that Vulkan does");
            (!agree(&got, &want, example.dtype)).then(|| format!("{got:?}, on the CPU {want:?}"))
        }
        (Support::Native, Err(error)) => Some(error),
        (Support::Refused(_), Err(_)) => None,
        (Support::Refused(reason), Ok(_)) => Some(format!("runs, but is refused: {reason}")),
    };
    wrong.map(|text| format!("{:?} {}: {text}", example.primitive, example.dtype))
}

fn check(backend: &str) {
    mlx_tests::init();
    let entries: Vec<Entry> =
        table().unwrap().into_iter().filter(|entry| entry.backend == backend).collect();
    let faults: Vec<String> = entries.iter().filter_map(fault).collect();
    let refused = entries.iter().filter(|e| matches!(e.support, Support::Refused(_))).count();
    println!(
        "support table: {} entries of {backend}, {} run, {refused} refused, {} faults",
        entries.len(),
        entries.len() - refused,
        faults.len()
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_entry_of_vulkan_is_true() {
    check("vulkan");
}

#[test]
fn every_entry_of_the_cpu_is_true() {
    check("cpu");
}
