//! How far a result may be from its oracle, and why.

use mlx::{Array, Dtype};

use crate::{rounded, values};

/// The distance of neighbouring numbers of `dtype` around `value`; float32's for what is no
/// float.
pub fn unit(value: f64, dtype: Dtype) -> f64 {
    let (digits, least): (i32, i32) = match dtype {
        Dtype::Float16 => (10, -24),
        Dtype::Bfloat16 => (7, -133),
        Dtype::Float64 => (52, -1074),
        _ => (23, -149),
    };
    let exponent = value.abs().max(f64::MIN_POSITIVE).log2().floor() as i32;
    2f64.powi((exponent - digits).max(least))
}

/// Equal, or both NaN.
fn same(got: f64, want: f64) -> bool {
    got == want || (got.is_nan() && want.is_nan())
}

/// A float64 in units in the last place of `dtype` around `want`.
pub fn ulps(got: f64, want: f64, dtype: Dtype) -> f64 {
    if same(got, want) { 0.0 } else { (got - want).abs() / unit(want, dtype) }
}

/// Checks elements against an oracle's, within `tolerance` units in the last place.
///
/// # Panics
/// When an element is farther off.
pub fn assert_ulps(context: &str, got: &Array, want: &[f64], tolerance: f64) {
    let (dtype, got) = (got.dtype(), values(got));
    assert_eq!(got.len(), want.len(), "{context}: number of elements");
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let error = ulps(g, w, dtype);
        assert!(error <= tolerance, "{context}: element {i} is {g:e}, not {w:e}: {error} ulp");
    }
}

/// A value with the error that computing it in the precision of its dtype may make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Approx {
    /// What float64 gives.
    pub value: f64,
    /// How far off a correct computation may be, before it is rounded to the dtype.
    pub error: f64,
}

impl Approx {
    /// A value that only rounding to the dtype may change.
    pub fn exact(value: f64) -> Self {
        Approx { value, error: 0.0 }
    }
}

/// Checks elements against an oracle's: each is within its error, and then rounded to nearest.
/// NaN and infinities must be equal.
///
/// # Panics
/// When an element is farther off.
pub fn assert_approx(context: &str, got: &Array, want: &[Approx]) {
    if let Some(off) = first_off(context, got, want) {
        panic!("{off}");
    }
}

/// The same where a computation may be done in one of two ways, the same one for all elements.
///
/// # Panics
/// When it agrees with neither; the message is about the first.
pub fn assert_approx_either(context: &str, got: &Array, want: [&[Approx]; 2]) {
    if let [Some(off), Some(_)] = want.map(|want| first_off(context, got, want)) {
        panic!("{off}");
    }
}

/// The first element that is farther off than it may be.
fn first_off(context: &str, got: &Array, want: &[Approx]) -> Option<String> {
    let (dtype, got) = (got.dtype(), values(got));
    assert_eq!(got.len(), want.len(), "{context}: number of elements");
    got.iter().zip(want).enumerate().find_map(|(i, (&got, &Approx { value, error }))| {
        let half = 0.5 * unit(value.abs() + error, dtype);
        let near =
            same(got, value) || (got - value).abs() <= error + half || got == rounded(value, dtype);
        let bound = error + half;
        (!near).then(|| format!("{context}: element {i} is {got:e}, not {value:e} ± {bound:e}"))
    })
}

/// Relative precision of a dtype: half a unit in the last place of one.
pub fn epsilon(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => 2f64.powi(-11),
        Dtype::Bfloat16 => 2f64.powi(-8),
        Dtype::Float64 => 2f64.powi(-53),
        _ => 2f64.powi(-24),
    }
}

/// Relative precision of what a dtype's sums run in: float32, also for halves, whose results are
/// rounded once. Float64 is given twice its precision, because the oracle rounds as often.
pub fn sum_epsilon(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float64 => 2.0 * epsilon(dtype),
        _ => epsilon(Dtype::Float32),
    }
}

/// What rounding the factors of products to eleven bits may add to their sum, as TF32 does: devices may
/// multiply float32 so. `magnitude` is the sum of the absolute products.
pub fn tf32_error(magnitude: f64) -> f64 {
    ((1.0 + epsilon(Dtype::Float16)).powi(2) - 1.0) * magnitude
}

/// What rounding may add to a sum of `terms` numbers, in whatever order: each addition rounds
/// once (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). `magnitude` is the sum of
/// the absolute terms.
pub fn sum_error(terms: usize, magnitude: f64, dtype: Dtype) -> f64 {
    terms as f64 * sum_epsilon(dtype) * magnitude
}
