//! Chains of elementwise operations, against what they must read and write at least.

use std::cell::RefCell;

use mlx::{Array, Dtype, Result, ops};

use crate::measure::{Bench, Bound, Work};

/// `x (1 + erf(x / √2)) / 2`.
fn gelu(x: &Array) -> Result<Array> {
    let erf = ops::erf(&ops::multiply(x, std::f32::consts::FRAC_1_SQRT_2)?)?;
    ops::multiply(x, &ops::multiply(&ops::add(&erf, 1.0f32)?, 0.5f32)?)
}

fn swiglu(gate: &Array, up: &Array) -> Result<Array> {
    ops::multiply(&ops::multiply(gate, &ops::sigmoid(gate)?)?, up)
}

fn softcap(x: &Array) -> Result<Array> {
    ops::multiply(&ops::tanh(&ops::divide(x, 30.0f32)?)?, 30.0f32)
}

/// A parameter and its two moments after a step of Adam.
fn adam(x: &Array, gradient: &Array, m: &Array, v: &Array) -> Result<[Array; 3]> {
    let m = ops::add(&ops::multiply(m, 0.9f32)?, &ops::multiply(gradient, 0.1f32)?)?;
    let square = ops::multiply(&ops::square(gradient)?, 0.001f32)?;
    let v = ops::add(&ops::multiply(v, 0.999f32)?, &square)?;
    let root = ops::add(&ops::sqrt(&v)?, 1e-8f32)?;
    let x = ops::subtract(x, &ops::divide(&ops::multiply(&m, 1e-3f32)?, &root)?)?;
    Ok([x, m, v])
}

/// What activations and optimizers are made of, in arrays of `mib` MiB.
pub(crate) fn chains(bench: &mut Bench, mib: usize) -> Result<()> {
    for dtype in [Dtype::Float32, Dtype::Bfloat16] {
        let (rows, columns) = ((mib << 20) / dtype.size() / 4096, 4096);
        let wave = ops::sin(&ops::arange(0.0, (rows * columns) as f64, 1.0, Dtype::Float32)?)?;
        let full = |shift: f32| -> Result<Array> {
            let moved = ops::reshape(&ops::add(&wave, shift)?, &[rows as isize, columns as isize])?;
            ops::astype(&moved, dtype)
        };
        let (a, b, c, d) = (full(0.0)?, full(0.5)?, full(1.0)?, full(2.0)?);
        let bias = ops::astype(&ops::ones(&[columns], Dtype::Float32)?, dtype)?;
        mlx::eval(&[&a, &b, &c, &d, &bias])?;
        drop(wave);
        let bytes = (mib << 20) as f64;
        let mut time = |name: &str, times: f64, make: &dyn Fn() -> Result<Array>| {
            let work = Work { bytes: times * bytes, flops: times * bytes };
            bench.time(&format!("{name} {dtype}"), work, Bound::Copy, make)
        };
        time("gelu", 2.0, &|| gelu(&a))?;
        time("swiglu", 3.0, &|| swiglu(&a, &b))?;
        time("softcap", 2.0, &|| softcap(&a))?;
        time("bias and relu", 2.0, &|| ops::maximum(&ops::add(&a, &bias)?, 0.0f32))?;
        let moments = RefCell::new(None);
        time("adam", 7.0, &|| {
            let [x, m, v] = adam(&a, &b, &c, &d)?;
            // Needed by the next step, as in training.
            moments.replace(Some((m, v)));
            Ok(x)
        })?;
    }
    Ok(())
}
