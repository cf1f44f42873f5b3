//! Random numbers: Threefry-2x32 counters, bit-equal to MLX for the same key.

use std::cell::RefCell;

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, astype, broadcast_to},
    primitives::Primitive,
};

thread_local! {
    /// Keys of this thread's calls without a key.
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

/// The given key, or the next one of this thread's generator, which starts at the time.
fn key_or_next(given: Option<&Array>) -> Result<Array> {
    if let Some(key) = given {
        return Ok(key.clone());
    }
    if STATE.with_borrow(|s| s.is_none()) {
        let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos() as u64);
        seed(now)?;
    }
    let state = STATE.with_borrow(|s| s.clone()).expect("seeded above");
    let (next, key) = split(&state)?;
    STATE.set(Some(next));
    Ok(key)
}

/// Random bits of `width` bytes (1, 2 or 4) as uint8, uint16 or uint32. A key may have leading
/// axes: each key then fills its own part.
///
/// # Errors
/// When the width or the key's shape or dtype is wrong.
pub fn bits(shape: &[usize], width: usize, key: Option<&Array>) -> Result<Array> {
    let key = key_or_next(key)?;
    let dtype = match width {
        1 => Dtype::Uint8,
        2 => Dtype::Uint16,
        4 => Dtype::Uint32,
        _ => {
            return Err(Error::invalid(
                "bits",
                format!("Bit width must be in {{1, 2, 4}} but got {width}."),
            ));
        }
    };
    if key.dtype() != Dtype::Uint32 {
        return Err(Error::invalid(
            "bits",
            format!("Expected key type uint32 but received {}.", key.dtype()),
        ));
    }
    if key.shape() != [2] {
        return Err(Error::invalid(
            "bits",
            format!("Expected key shape (2) but received {:?}.", key.shape()),
        ));
    }
    ops::node(shape, dtype, Primitive::RandomBits { width }, [key])
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
                "Can only generate uniform numbers with real floating point type float32, float16 or bfloat16, not {dtype}."
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
/// When the dtype is not floating.
pub fn normal(
    shape: &[usize],
    dtype: Dtype,
    loc: f32,
    scale: f32,
    key: Option<&Array>,
) -> Result<Array> {
    let above_minus_one = Array::scalar((-1.0f32).next_up())?;
    let low = match dtype {
        Dtype::Float16 => Array::scalar(crate::f16::from_bits(0xBBFF))?,
        Dtype::Bfloat16 => Array::scalar(crate::bf16::from_bits(0xBF7F))?,
        _ => above_minus_one,
    };
    let samples = uniform(&low, 1.0f32, shape, dtype, key)?;
    let factor = Array::scalar_of(std::f64::consts::SQRT_2, dtype)?;
    let factor = if scale == 1.0 { factor } else { ops::multiply(&factor, scale)? };
    let samples = ops::multiply(&factor, &ops::erfinv(&samples)?)?;
    if loc == 0.0 { Ok(samples) } else { ops::add(&samples, loc) }
}

/// Gumbel numbers: `-log(-log(uniform))`.
///
/// # Errors
/// When the dtype is not floating.
pub fn gumbel(shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    let u = uniform(0.0f32, 1.0f32, shape, dtype, key)?;
    ops::negative(&ops::log(&ops::negative(&ops::log(&u)?)?)?)
}

/// Indices (uint32) drawn with the probabilities `softmax(logits)` along `axis`, one for each of
/// the other axes' elements: the largest of logits plus Gumbel noise.
///
/// # Errors
/// When the axis is out of bounds.
pub fn categorical(logits: &Array, axis: isize, key: Option<&Array>) -> Result<Array> {
    let axis = ops::normalize_axis("categorical", axis, logits.ndim())?;
    let shape = Shape::from(logits.shape());
    let noise = gumbel(&shape, Dtype::Float32, key)?;
    ops::argmax(&ops::add(logits, &noise)?, Some(axis as isize), false)
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
