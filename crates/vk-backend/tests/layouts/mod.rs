//! Arrays in every layout with the elements that they show, for tests against oracles in Rust.

// Each test file uses a part of this.
#![allow(dead_code)]

use mlx_vulkan_core::{
    Array, Complex, Dtype,
    array::FromF64,
    bf16,
    dtype::{Bool8, Element},
    f16, ops,
};

/// How an array lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Row-major.
    Contiguous,
    /// The axes in reverse order in memory.
    Transposed,
    /// Every second element of the last axis, from the second on.
    Sliced,
    /// Backwards along every axis.
    Reversed,
    /// The first axis repeats one slice.
    Broadcast,
}

/// Every layout.
pub(crate) const LAYOUTS: [Layout; 5] =
    [Layout::Contiguous, Layout::Transposed, Layout::Sliced, Layout::Reversed, Layout::Broadcast];

/// Every dtype that runs on a GPU.
pub(crate) fn dtypes() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(|&d| d != Dtype::Float64)
}

/// An element type with a value as a number.
pub(crate) trait Value: Element + FromF64 {
    /// The value; the real part of a complex number.
    fn number(self) -> f64;
}

macro_rules! values {
    ($($t:ty: $x:ident => $e:expr),* $(,)?) => {$(
        impl Value for $t {
            fn number(self) -> f64 { let $x = self; $e }
        }
    )*};
}

values! {
    Bool8: x => f64::from(x.0), u8: x => f64::from(x), u16: x => f64::from(x), u32: x => f64::from(x),
    u64: x => x as f64, i8: x => f64::from(x), i16: x => f64::from(x), i32: x => f64::from(x),
    i64: x => x as f64, f16: x => x.to_f64(), bf16: x => x.to_f64(), f32: x => f64::from(x),
    f64: x => x, Complex: x => f64::from(x.re),
}

/// A row-major index as one per axis.
pub(crate) fn unravel(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        index[axis] = i % shape[axis];
        i /= shape[axis];
    }
    index
}

/// The row-major index of one per axis.
pub(crate) fn ravel(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |i, (&x, &d)| i * d + x)
}

/// An array that shows `values` (row-major, of `shape`) in the given layout, and what it shows:
/// the same, but for broadcast ones. A scalar or empty array is always contiguous.
pub(crate) fn arrange<T: Element>(
    values: &[T],
    shape: &[usize],
    layout: Layout,
) -> (Array, Vec<T>) {
    let array = |values: &[T], shape: &[usize]| Array::from_slice(values, shape).unwrap();
    if shape.is_empty() || values.is_empty() {
        return (array(values, shape), values.to_vec());
    }
    let back: Vec<isize> = (0..shape.len() as isize).rev().collect();
    match layout {
        Layout::Contiguous => (array(values, shape), values.to_vec()),
        Layout::Transposed => {
            let turned: Vec<usize> = shape.iter().rev().copied().collect();
            let stored: Vec<T> = (0..values.len())
                .map(|i| {
                    let mut index = unravel(i, &turned);
                    index.reverse();
                    values[ravel(&index, shape)]
                })
                .collect();
            (ops::transpose(&array(&stored, &turned), &back).unwrap(), values.to_vec())
        }
        Layout::Sliced => {
            let last = shape[shape.len() - 1];
            let mut wide = shape.to_vec();
            *wide.last_mut().unwrap() = 2 * last + 1;
            let mut stored = vec![values[0]; values.len() / last * (2 * last + 1)];
            for (i, &v) in values.iter().enumerate() {
                stored[i / last * (2 * last + 1) + 2 * (i % last) + 1] = v;
            }
            let mut start = vec![0; shape.len()];
            let mut stop: Vec<isize> = wide.iter().map(|&d| d as isize).collect();
            let mut step = vec![1; shape.len()];
            (start[shape.len() - 1], step[shape.len() - 1]) = (1, 2);
            stop[shape.len() - 1] = 2 * last as isize + 1;
            (ops::slice(&array(&stored, &wide), &start, &stop, &step).unwrap(), values.to_vec())
        }
        Layout::Reversed => {
            let stored: Vec<T> = values.iter().rev().copied().collect();
            let start: Vec<isize> = shape.iter().map(|&d| d as isize - 1).collect();
            let stop: Vec<isize> = shape.iter().map(|&d| -(d as isize) - 1).collect();
            let step = vec![-1; shape.len()];
            (ops::slice(&array(&stored, shape), &start, &stop, &step).unwrap(), values.to_vec())
        }
        Layout::Broadcast => {
            let slice = values.len() / shape[0];
            let mut one = shape.to_vec();
            one[0] = 1;
            let shown = values[..slice].repeat(shape[0]);
            (ops::broadcast_to(&array(&values[..slice], &one), shape).unwrap(), shown)
        }
    }
}

/// Pseudo-random numbers from a seed: the same everywhere.
pub(crate) fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }
}

/// Small integers that every dtype has (0 and 1 for bool, none negative for unsigned ones).
pub(crate) fn small<T: Value>(n: usize, seed: u64) -> Vec<T> {
    let mut next = random(seed);
    let low = if T::DTYPE.is_unsigned_integer() || T::DTYPE == Dtype::Bool { 0.0 } else { -3.0 };
    (0..n).map(|_| T::from_f64(low + (next() % 6) as f64)).collect()
}

/// Calls `f` with each row along `axis`: the indices of its elements in row-major order.
pub(crate) fn each_row(shape: &[usize], axis: usize, mut f: impl FnMut(&[usize])) {
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    for o in 0..outer {
        for i in 0..inner {
            let row: Vec<usize> =
                (0..shape[axis]).map(|k| (o * shape[axis] + k) * inner + i).collect();
            f(&row);
        }
    }
}
