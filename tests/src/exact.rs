//! Exact checks: integers of any width, and elements that are only moved.

use mlx::{Array, Dtype, dispatch_dtype};

use crate::{Real, indices, ravel, scattered};

/// An array of random bits. Floats among them are of any kind: NaN, infinite, denormal.
///
/// # Panics
/// When memory is out.
pub fn random_bits(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    dispatch_dtype!(dtype, T => {
        let n = shape.iter().product();
        let data: Vec<T> = (0..n).map(|i| T::of_bits(scattered(i, seed))).collect();
        Array::from_slice(&data, shape).expect("values fill the shape")
    })
}

/// The elements of an integer or bool array, in row-major order.
///
/// # Panics
/// When evaluation fails or the dtype is another one.
pub fn integers(a: &Array) -> Vec<i128> {
    assert!(!a.dtype().is_inexact(), "{} is no integer", a.dtype());
    let bytes = a.to_bytes().expect("evaluation succeeds");
    let elements = bytes.chunks_exact(a.dtype().size());
    let bits = |e: &[u8]| e.iter().rev().fold(0, |bits, &byte| bits << 8 | byte as i128);
    elements.map(|e| wrapped(bits(e), a.dtype())).collect()
}

/// An integer as `dtype` holds it: two's complement, high bits cut off.
pub fn wrapped(value: i128, dtype: Dtype) -> i128 {
    let bits = 8 * dtype.size() as u32;
    let low = value & ((1i128 << bits) - 1);
    if dtype.is_signed_integer() && low >> (bits - 1) != 0 { low - (1i128 << bits) } else { low }
}

/// Checks that the element of `got` at each index has the bits of the element of `source` at
/// `from(index)`.
///
/// # Panics
/// When shape, dtype or an element differ, or `from` leaves the source.
pub fn assert_moved(
    context: &str,
    got: &Array,
    (source, shape): (&Array, &[usize]),
    from: impl Fn(&[usize]) -> Vec<usize>,
) {
    assert_eq!(got.shape(), shape, "{context}: shape");
    let place = |index: &[usize]| {
        let index = from(index);
        assert!(index.iter().zip(source.shape()).all(|(i, d)| i < d), "{context}: {index:?}");
        (0, ravel(&index, source.shape()))
    };
    assert_gathered(context, got, &[source], place);
}

/// Checks that the element of `got` at each index has the bits of one of the sources' elements:
/// `from(index)` gives the source and the row-major place in it.
///
/// # Panics
/// When a dtype or an element differs.
pub fn assert_gathered(
    context: &str,
    got: &Array,
    sources: &[&Array],
    from: impl Fn(&[usize]) -> (usize, usize),
) {
    let size = got.dtype().size();
    let dtypes = sources.iter().all(|s| s.dtype() == got.dtype());
    assert!(dtypes, "{context}: {} is not the dtype of the sources", got.dtype());
    let read = |a: &Array| a.to_bytes().expect(context);
    let sources: Vec<Vec<u8>> = sources.iter().map(|s| read(s)).collect();
    let bytes = read(got);
    for (index, element) in indices(got.shape()).zip(bytes.chunks_exact(size)) {
        let (source, place) = from(&index);
        let want = &sources[source][place * size..][..size];
        assert_eq!(element, want, "{context}: element {index:?}");
    }
}

/// Runs `run` and checks that it leaves its inputs as they were.
///
/// # Panics
/// When an input has other bytes afterwards.
pub fn keeping<R>(context: &str, inputs: &[&Array], run: impl FnOnce() -> R) -> R {
    let bytes = |a: &&Array| a.to_bytes().expect(context);
    let before: Vec<Vec<u8>> = inputs.iter().map(bytes).collect();
    let result = run();
    for (i, (input, before)) in inputs.iter().zip(&before).enumerate() {
        assert!(bytes(input) == *before, "{context}: input {i} was written to");
    }
    result
}
