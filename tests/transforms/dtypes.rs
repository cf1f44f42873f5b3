//! The derivatives of every primitive in each dtype on each device, against those of float64 on the CPU.

use mlx::{
    Array, Device, Dtype, Result, ops,
    primitives::{Example, Primitive},
    support::Support,
    transforms::{jvp, vjp},
};
use mlx_tests::{Layout, epsilon, on_each_device};

use crate::derivatives::{Function, LAYOUTS, function, largest, numbers, refuses, takes};

/// What comes out along tangents and along cotangents.
struct Derivatives {
    jvp: Vec<f64>,
    vjp: Vec<f64>,
}

/// Inputs of a function and directions, all in one dtype.
struct Point {
    inputs: Vec<Array>,
    tangents: Vec<Array>,
    cotangents: Vec<Array>,
}

impl Point {
    fn new(function: &Function<'_>) -> Result<Point> {
        let inputs = function.inputs.clone();
        let tangents = function.directions(&inputs, 10);
        let cotangents = function.directions(&(function.apply)(&inputs)?, 15);
        Ok(Point { inputs, tangents, cotangents })
    }

    /// The same numbers with float64 instead of `dtype`.
    fn widened(&self, dtype: Dtype) -> Result<Point> {
        let widen = |a: &Array| match a.dtype() == dtype && dtype != Dtype::Complex64 {
            true => ops::astype(a, Dtype::Float64),
            false => Ok(a.clone()),
        };
        let all = |arrays: &[Array]| arrays.iter().map(widen).collect::<Result<Vec<_>>>();
        Ok(Point {
            inputs: all(&self.inputs)?,
            tangents: all(&self.tangents)?,
            cotangents: all(&self.cotangents)?,
        })
    }

    fn derivatives(&self, function: &Function<'_>) -> Result<Derivatives> {
        let (_, along_tangents) = jvp(&function.apply, &self.inputs, &self.tangents)?;
        let (_, along_cotangents) = vjp(&function.apply, &self.inputs, &self.cotangents)?;
        Ok(Derivatives { jvp: numbers(&along_tangents), vjp: numbers(&along_cotangents) })
    }
}

fn supports(device: Device, primitive: &Primitive, dtype: Dtype) -> bool {
    let backend = mlx::backend::backend_for(device).unwrap();
    backend.support(primitive, dtype) == Support::Native
}

/// What differs by more than roundings, if something does.
fn difference(what: &str, got: &[f64], want: &[f64], dtype: Dtype) -> Option<String> {
    assert_eq!(got.len(), want.len());
    let bound = 32.0 * epsilon(dtype) * largest(want);
    let near = |(got, want): (&f64, &f64)| (got - want).abs() <= bound;
    let (got, want) = got.iter().zip(want).find(|&pair| !near(pair))?;
    Some(format!("{what}: {got} instead of {want}"))
}

/// What is wrong with the derivatives of an example whose inputs lie so, if something is.
fn fault(example: &Example, layout: Layout, dtype: Dtype) -> Result<Option<String>> {
    let Some(function) = function(example, layout) else { return Ok(None) };
    let point = Point::new(&function)?;
    let got = point.derivatives(&function)?;
    let on_cpu = || {
        let wide = point.widened(dtype)?;
        // Some take float32 alone: frequencies of rotations, real Fourier transforms.
        let takes_double = (function.apply)(&wide.inputs).is_ok();
        if takes_double { wide.derivatives(&function) } else { point.derivatives(&function) }
    };
    let want = mlx::with_device(Device::CPU, on_cpu)??;
    let difference = difference("jvp", &got.jvp, &want.jvp, dtype)
        .or_else(|| difference("vjp", &got.vjp, &want.vjp, dtype));
    Ok(difference)
}

fn check(device: Device, dtype: Dtype) {
    let mut examples = Primitive::examples();
    examples.retain(|e| e.dtype == dtype && supports(device, &e.primitive, dtype) && !refuses(e));
    let mut faults = Vec::new();
    for example in &examples {
        for layout in LAYOUTS.into_iter().filter(|&layout| takes(example, layout)) {
            let fault = fault(example, layout, dtype).unwrap_or_else(|e| Some(e.to_string()));
            faults.extend(fault.map(|text| format!("{:?} {layout:?} {text}", example.primitive)));
        }
    }
    assert!(faults.is_empty(), "{device} {dtype}\n{}", faults.join("\n"));
}

macro_rules! derived {
    ($($name:ident: $dtype:ident;)*) => {$(
        #[test]
        fn $name() {
            on_each_device(|device| check(device, Dtype::$dtype));
        }
    )*};
}

derived! {
    float16: Float16;
    bfloat16: Bfloat16;
    float32: Float32;
    complex64: Complex64;
}
