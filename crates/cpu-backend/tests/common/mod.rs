//! What the tests of operations share: arrays in every layout, and comparison with float64.
#![allow(dead_code, unreachable_pub, reason = "every test crate uses a part")]

use mlx_vulkan_core::{
    Array, Complex, Device, Dtype, Element, array::FromF64, dispatch_dtype, dtype::Bool8, ops,
    with_device,
};

/// Runs `f` on the CPU backend.
pub fn on_cpu<T>(f: impl FnOnce() -> T) -> T {
    mlx_vulkan_cpu::install();
    with_device(Device::CPU, f).expect("there is a CPU")
}

pub const FLOATS: [Dtype; 4] = [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32, Dtype::Float64];
pub const INTS: [Dtype; 8] = [
    Dtype::Uint8,
    Dtype::Uint16,
    Dtype::Uint32,
    Dtype::Uint64,
    Dtype::Int8,
    Dtype::Int16,
    Dtype::Int32,
    Dtype::Int64,
];

/// An element read as float64 (the real part of a complex number).
pub trait ToF64: Element {
    fn to_f64(self) -> f64;
}

macro_rules! to_f64 {
    ($($t:ty: $x:ident => $e:expr;)*) => {$(
        impl ToF64 for $t {
            fn to_f64(self) -> f64 {
                let $x = self;
                $e
            }
        }
    )*};
}

to_f64! {
    Bool8: x => x.0 as f64;
    u8: x => x as f64;
    u16: x => x as f64;
    u32: x => x as f64;
    u64: x => x as f64;
    i8: x => x as f64;
    i16: x => x as f64;
    i32: x => x as f64;
    i64: x => x as f64;
    mlx_vulkan_core::f16: x => x.to_f64();
    mlx_vulkan_core::bf16: x => x.to_f64();
    f32: x => x as f64;
    f64: x => x;
    Complex: x => x.re as f64;
}

/// A dense array of the values, converted as a C cast does it.
pub fn array(values: &[f64], shape: &[usize], dtype: Dtype) -> Array {
    dispatch_dtype!(dtype, T => {
        let data: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
        Array::from_slice(&data, shape).expect("shapes match")
    })
}

/// The elements as float64.
pub fn read(a: &Array) -> Vec<f64> {
    dispatch_dtype!(a.dtype(), T => {
        a.to_vec::<T>().expect("evaluates").into_iter().map(ToF64::to_f64).collect()
    })
}

/// The values as the dtype stores them.
pub fn stored(values: &[f64], dtype: Dtype) -> Vec<f64> {
    read(&array(values, &[values.len()], dtype))
}

fn signed(shape: &[usize]) -> Vec<isize> {
    shape.iter().map(|&d| d as isize).collect()
}

/// Row-major `values` of `shape` with the axes reversed.
fn reversed_axes(values: &[f64], shape: &[usize]) -> Vec<f64> {
    let mut out = vec![0.0; values.len()];
    for (i, &v) in values.iter().enumerate() {
        let (mut left, mut at, mut stride) = (i, 0, values.len());
        for &d in shape.iter().rev() {
            stride /= d;
            at += left % d * stride;
            left /= d;
        }
        out[at] = v;
    }
    out
}

/// Arrays with these elements, in the layouts that operations have to serve.
pub fn layouts(values: &[f64], shape: &[usize], dtype: Dtype) -> Vec<(&'static str, Array)> {
    let dense = array(values, shape, dtype);
    if values.is_empty() || shape.is_empty() {
        return vec![("dense", dense)];
    }
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let transposed = array(&reversed_axes(values, shape), &reversed, dtype);
    let transposed = ops::transpose(&transposed, &[]).expect("transposes");

    // Two more rows in front, every element of the last axis twice.
    let row: usize = shape[1..].iter().product();
    let mut padded = vec![77.0; 4 * row];
    padded.extend(values.iter().flat_map(|&v| [v, 99.0]));
    let mut wide = shape.to_vec();
    *wide.last_mut().expect("has axes") *= 2;
    let sliced = if shape.len() == 1 {
        let mut data = vec![77.0; 2];
        data.extend(values.iter().flat_map(|&v| [v, 99.0]));
        let data = array(&data, &[data.len()], dtype);
        ops::slice(&data, &[2], &[isize::MAX / 2], &[2]).expect("slices")
    } else {
        wide[0] += 2;
        let data = array(&padded, &wide, dtype);
        let mut start = vec![0; wide.len()];
        let mut step = vec![1; wide.len()];
        start[0] = 2;
        *step.last_mut().expect("has axes") = 2;
        ops::slice(&data, &start, &signed(&wide), &step).expect("slices")
    };

    let backwards: Vec<f64> = values.iter().rev().copied().collect();
    let backwards = array(&backwards, shape, dtype);
    let start = vec![-1; shape.len()];
    let stop: Vec<isize> = shape.iter().map(|&d| -(d as isize) - 1).collect();
    let negative = ops::slice(&backwards, &start, &stop, &vec![-1; shape.len()]).expect("slices");
    vec![("dense", dense), ("transposed", transposed), ("sliced", sliced), ("negative", negative)]
}

/// Relative distance of neighbouring numbers.
pub fn epsilon(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => 2f64.powi(-10),
        Dtype::Bfloat16 => 2f64.powi(-7),
        Dtype::Float64 => f64::EPSILON,
        _ => 2f64.powi(-23),
    }
}

/// Smallest positive number.
fn tiny(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => 2f64.powi(-24),
        Dtype::Bfloat16 => 2f64.powi(-133),
        Dtype::Float64 => f64::from_bits(1),
        _ => 2f64.powi(-149),
    }
}

/// Checks that `got` is within `ulps` of `want` in the array's dtype.
#[track_caller]
pub fn assert_close(got: &Array, want: &[f64], ulps: f64, what: &str) {
    let dtype = got.dtype();
    let got = read(got);
    assert_eq!(got.len(), want.len(), "{what}: sizes");
    let rounded = stored(want, dtype);
    for (i, (&g, (&w, &r))) in got.iter().zip(want.iter().zip(&rounded)).enumerate() {
        let same = g == r || g.is_nan() && r.is_nan();
        let error = (g - w).abs();
        let bound = ulps * (w.abs() * epsilon(dtype)).max(tiny(dtype));
        assert!(same || (dtype.is_inexact() && error <= bound), "{what} [{i}]: {g}, not {w}");
    }
}

/// Checks that `got` is within `ulps` of a sum or the like that the oracle took in another order,
/// which shows in float64.
#[track_caller]
pub fn assert_near(got: &Array, want: &[f64], ulps: f64, what: &str) {
    let slack = if got.dtype() == Dtype::Float64 { 200.0 } else { 1.0 };
    assert_close(got, want, ulps * slack, what);
}

/// Checks for equal elements.
#[track_caller]
pub fn assert_same(got: &Array, want: &[f64], what: &str) {
    assert_close(got, want, 0.0, what);
}

/// A deterministic sequence in `low..high`.
pub fn sequence(n: usize, low: f64, high: f64) -> Vec<f64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            low + (high - low) * (state >> 11) as f64 / (1u64 << 53) as f64
        })
        .collect()
}

/// Row-major multi-index of element `i`.
pub fn index_of(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        index[axis] = i % shape[axis];
        i /= shape[axis];
    }
    index
}

/// Row-major number of a multi-index.
pub fn number_of(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |n, (&i, &d)| n * d + i)
}
