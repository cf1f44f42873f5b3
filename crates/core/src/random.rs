//! Random numbers: Threefry-2x32 counters, bit-equal to MLX for the same key.

mod choices;

pub use choices::*;

use std::cell::RefCell;

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype, broadcast_to},
    primitives::RandomBits,
};

thread_local! {
    /// What this thread's next call without a key splits.
    static STATE: RefCell<Option<Array>> = const { RefCell::new(None) };
}

/// A key from a seed: its upper and lower 32 bits.
///
/// # Errors
/// When memory is out.
pub fn key(seed: u64) -> Result<Array> {
    Array::from_slice(&[(seed >> 32) as u32, seed as u32], &[2])
}

/// Seeds this thread's generator.
///
/// # Errors
/// When memory is out.
pub fn seed(seed: u64) -> Result<()> {
    let key = key(seed)?;
    STATE.set(Some(key));
    Ok(())
}

/// The state of this thread's generator: the key that its next draw splits. A function to be compiled takes
/// it as an input, puts it back with [`set_state`], draws, and returns the state that is left.
///
/// # Errors
/// When memory is out.
pub fn state() -> Result<Array> {
    if let Some(state) = STATE.with_borrow(Option::clone) {
        return Ok(state);
    }
    // Nobody has seeded this thread: it starts at the time.
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos() as u64);
    let state = key(now)?;
    STATE.set(Some(state.clone()));
    Ok(state)
}

/// Puts a [`state`] back; draws of this thread go on from there. It may be lazy, or an argument of a function
/// that is traced.
///
/// # Errors
/// When it is not a key: uint32 of shape (2).
pub fn set_state(state: Array) -> Result<()> {
    expect_key("set_state", &state)?;
    STATE.set(Some(state));
    Ok(())
}

/// The given key, or the next one of this thread's generator.
fn key_or_next(given: Option<&Array>) -> Result<Array> {
    if let Some(key) = given {
        return Ok(key.clone());
    }
    let (next, key) = split(&state()?)?;
    STATE.set(Some(next));
    Ok(key)
}

fn expect_key(op: &'static str, key: &Array) -> Result<()> {
    if key.dtype() != Dtype::Uint32 {
        let message = format!("Expected key type uint32 but received {}.", key.dtype());
        return Err(Error::invalid(op, message));
    }
    if key.shape() != [2] {
        let message = format!("Expected key shape (2) but received {:?}.", key.shape());
        return Err(Error::invalid(op, message));
    }
    Ok(())
}

/// Random bits of `width` bytes (1, 2 or 4) as uint8, uint16 or uint32. A key may have leading
/// axes: each key then fills its own part.
///
/// # Errors
/// When the width or the key's shape or dtype is wrong.
pub fn bits(shape: &[usize], width: usize, key: Option<&Array>) -> Result<Array> {
    let key = key_or_next(key)?;
    if !matches!(width, 1 | 2 | 4) {
        return Err(Error::invalid(
            "bits",
            format!("Bit width must be in {{1, 2, 4}} but got {width}."),
        ));
    }
    expect_key("bits", &key)?;
    ops::node(RandomBits { shape: shape.into(), width }, [key])
}

/// Two new keys.
///
/// # Errors
/// When the key's shape or dtype is wrong.
pub fn split(key: &Array) -> Result<(Array, Array)> {
    let keys = split_n(key, 2)?;
    let row = |i: isize| ops::squeeze(&ops::slice_axis(&keys, 0, i, i + 1)?, &[0]);
    Ok((row(0)?, row(1)?))
}

/// `num` new keys, as (num, 2).
///
/// # Errors
/// When the key's shape or dtype is wrong.
pub fn split_n(key: &Array, num: usize) -> Result<Array> {
    bits(&[num, 2], 4, Some(key))
}

/// The largest value below one: where rounding would give one.
fn below_one(dtype: Dtype) -> Result<Array> {
    match dtype {
        Dtype::Float32 => Array::scalar(1.0f32.next_down()),
        Dtype::Float16 => Array::scalar(crate::f16::from_bits(0x3BFF)),
        Dtype::Bfloat16 => Array::scalar(crate::bf16::from_bits(0x3F7F)),
        _ => {
            let message = format!(
                "Can only generate uniform numbers with real floating point type float32, float16 or \
                 bfloat16, not {dtype}."
            );
            Err(Error::invalid("uniform", message))
        }
    }
}

/// Uniform numbers in `[low, high)`; the bounds broadcast to `shape`.
///
/// # Errors
/// When the dtype is not floating or a bound does not broadcast.
pub fn uniform(
    low: impl ops::Operand,
    high: impl ops::Operand,
    shape: &[usize],
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    let upper = below_one(dtype)?;
    let bound = |b: Array| broadcast_to(&astype(&b, dtype)?, shape);
    let low = bound(low.to_array(Some(dtype))?)?;
    let range = ops::subtract(&bound(high.to_array(Some(dtype))?)?, &low)?;
    let largest = Array::scalar(u32::MAX as f32)?;
    let unit = ops::divide(&bits(shape, 4, key)?, &largest)?;
    let unit = ops::minimum(&astype(&unit, dtype)?, &upper)?;
    ops::add(&ops::multiply(&range, &unit)?, &low)
}

/// Normal numbers: `√2 · erfinv(uniform(-1, 1)) · scale + loc`.
///
/// # Errors
/// When the dtype is neither floating nor complex64.
pub fn normal(
    shape: &[usize],
    dtype: Dtype,
    loc: f32,
    scale: f32,
    key: Option<&Array>,
) -> Result<Array> {
    let given = |x: f32, default: f32| {
        let known = if dtype == Dtype::Complex64 { Dtype::Float32 } else { dtype };
        (x != default).then(|| Array::scalar_of(x.into(), known)).transpose()
    };
    normal_with(shape, dtype, given(loc, 0.0)?.as_ref(), given(scale, 1.0)?.as_ref(), key)
}

/// [`normal`] with arrays of means and deviations, which broadcast to the shape. Halves are drawn in
/// float32; complex numbers have parts of variance 1/2.
///
/// # Errors
/// As [`normal`], or when the arrays do not broadcast.
pub fn normal_with(
    shape: &[usize],
    dtype: Dtype,
    loc: Option<&Array>,
    scale: Option<&Array>,
    key: Option<&Array>,
) -> Result<Array> {
    let samples = match dtype {
        Dtype::Complex64 => {
            let parts: Vec<usize> = shape.iter().copied().chain([2]).collect();
            let pairs = ops::view(&ops::erfinv(&signed_units(&parts, key)?)?, dtype)?;
            let samples = ops::squeeze(&pairs, &[-1])?;
            scale.map_or(Ok(samples.clone()), |scale| ops::multiply(scale, &samples))?
        }
        dtype if dtype.is_floating() => {
            let factor = Array::scalar_of(std::f64::consts::SQRT_2, dtype)?;
            let factor = match scale {
                Some(scale) => ops::multiply(&factor, &astype(scale, dtype)?)?,
                None => factor,
            };
            let samples = astype(&ops::erfinv(&signed_units(shape, key)?)?, dtype)?;
            ops::multiply(&factor, &samples)?
        }
        _ => {
            let message = "Only floating point and complex64 types are supported.";
            return Err(Error::invalid("normal", message));
        }
    };
    let loc = loc.map(|loc| if dtype.is_floating() { astype(loc, dtype) } else { Ok(loc.clone()) });
    loc.map_or(Ok(samples.clone()), |loc| ops::add(&loc?, &samples))
}

/// Uniform float32 numbers between -1 and 1, both left out.
fn signed_units(shape: &[usize], key: Option<&Array>) -> Result<Array> {
    uniform((-1.0f32).next_up(), 1.0f32, shape, Dtype::Float32, key)
}

/// Normal numbers between `lower` and `upper`, which broadcast to `shape`.
///
/// # Errors
/// When the dtype is not floating or a bound does not broadcast.
pub fn truncated_normal(
    lower: impl ops::Operand,
    upper: impl ops::Operand,
    shape: &[usize],
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    if !dtype.is_floating() {
        let message = "trunc_normal only accepts floating point dtypes.";
        return Err(Error::invalid("trunc_normal", message));
    }
    let root = Array::scalar_of(std::f64::consts::SQRT_2, dtype)?;
    let lower = astype(&lower.to_array(Some(dtype))?, dtype)?;
    let upper = astype(&upper.to_array(Some(dtype))?, dtype)?;
    let bound = |x: &Array| ops::erf(&ops::divide(x, &root)?);
    let u = uniform(&bound(&lower)?, &bound(&upper)?, shape, dtype, key)?;
    let out = ops::multiply(&root, &ops::erfinv(&u)?)?;
    // Rounding may leave the bounds.
    ops::maximum(&ops::minimum(&upper, &out)?, &lower)
}

/// Numbers of the Laplace distribution: `-sign(u) · log(1 - |u|) · scale + loc` of uniform ones
/// between -1 and 1.
///
/// # Errors
/// When the dtype is not floating.
pub fn laplace(
    shape: &[usize],
    dtype: Dtype,
    loc: f32,
    scale: f32,
    key: Option<&Array>,
) -> Result<Array> {
    if !dtype.is_floating() {
        let message = "Only real floating point types are supported.";
        return Err(Error::invalid("laplace", message));
    }
    let constant = |x: f32| Array::scalar_of(x.into(), dtype);
    let u = signed_units(shape, key)?;
    let far = ops::log1p(&ops::multiply(&constant(-1.0)?, &ops::abs(&u)?)?)?;
    let mut samples = astype(&ops::multiply(&ops::sign(&u)?, &far)?, dtype)?;
    if scale != 1.0 {
        samples = ops::multiply(&constant(scale)?, &samples)?;
    }
    if loc != 0.0 {
        samples = ops::add(&constant(loc)?, &samples)?;
    }
    Ok(samples)
}

/// Gumbel numbers: `-log(-log(uniform))`.
///
/// # Errors
/// When the dtype is not floating.
pub fn gumbel(shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    let u = uniform(0.0f32, 1.0f32, shape, dtype, key)?;
    ops::negative(&ops::log(&ops::negative(&ops::log(&u)?)?)?)
}

/// Normal numbers with a mean (…, n) and a covariance (…, n, n), float32 of the joint shape of
/// `shape` and the leading axes. The square root of the covariance is its singular value
/// decomposition's, which runs on CPU streams only.
///
/// # Errors
/// When the dtype is not float32, shapes do not fit, or on a GPU stream.
pub fn multivariate_normal(
    mean: &Array,
    cov: &Array,
    shape: &[usize],
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    let op = "multivariate_normal";
    let invalid = |message: &str| Err(Error::invalid(op, message));
    if dtype != Dtype::Float32 {
        return invalid("dtype must be float32.");
    }
    if mean.ndim() < 1 {
        return invalid("mean must have at least one dimension.");
    }
    if cov.ndim() < 2 {
        return invalid("cov must have at least two dimensions.");
    }
    let n = mean.dim(-1);
    if cov.dim(-1) != cov.dim(-2) {
        return invalid("last two dimensions of cov must be equal.");
    }
    if n != cov.dim(-1) {
        return invalid("mean and cov must have compatible shapes.");
    }
    let (leading, matrices) = (&mean.shape()[..mean.ndim() - 1], &cov.shape()[..cov.ndim() - 2]);
    let joint = ops::broadcast_shape(op, matrices, leading)?;
    let mut shape = ops::broadcast_shape(op, &joint, shape)?;
    shape.push(n);
    let (u, s, vt) = crate::linalg::svd(&astype(cov, Dtype::Float32)?)?;
    let scaled = ops::multiply(&u, &ops::expand_dims(&ops::sqrt(&s)?, &[-2])?)?;
    let root = ops::matmul(&scaled, &vt)?;
    let samples = ops::expand_dims(&normal(&shape, dtype, 0.0, 1.0, key)?, &[-2])?;
    ops::add(mean, &ops::squeeze(&ops::matmul(&samples, &root)?, &[-2])?)
}
