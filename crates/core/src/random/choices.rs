//! Random integers, bools, permutations and choices.

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, Operand, astype, broadcast_shape},
    random::{bits, gumbel, uniform},
};

/// Integers (or bools) in `low..high`; the bounds broadcast to `shape`. They are drawn as float32, and
/// so not evenly beyond 2²⁴.
///
/// # Errors
/// When the dtype is not an integer or bool, or a bound does not broadcast.
pub fn randint(
    low: impl Operand,
    high: impl Operand,
    shape: &[usize],
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    if dtype.is_inexact() {
        let message = "randint only accepts integer dtypes and bool.";
        return Err(Error::invalid("randint", message));
    }
    let (low, high) = (low.to_array(None)?, high.to_array(None)?);
    let drawn = uniform(&low, &high, shape, Dtype::Float32, key)?;
    let drawn = astype(&ops::floor(&drawn)?, dtype)?;
    // Bounds that float32 does not have were rounded.
    let last = ops::subtract(&high, &Array::scalar_of(1.0, high.dtype())?)?;
    ops::maximum(&ops::minimum(&drawn, &astype(&last, dtype)?)?, &astype(&low, dtype)?)
}

/// Bools that are true with probability `p`, which broadcasts to `shape`.
///
/// # Errors
/// When `p` is not floating or does not broadcast.
pub fn bernoulli(p: impl Operand, shape: &[usize], key: Option<&Array>) -> Result<Array> {
    let p = p.to_array(Some(Dtype::Float32))?;
    let refuse = |message: &str| Err(Error::invalid("bernoulli", message));
    if !p.dtype().is_floating() {
        return refuse("bernoulli probability `p` must be a float type.");
    }
    // The number above 2³² makes every word smaller where p is 1.
    let scale = Array::scalar((u32::MAX as f32).next_up())?;
    let drawn = ops::less(&bits(shape, 4, key)?, &ops::multiply(&p, &scale)?)?;
    if drawn.shape() != shape {
        return refuse("shape of `p` is incompatible with argument `shape`.");
    }
    Ok(drawn)
}

/// A random order (uint32) of `0..n`.
///
/// # Errors
/// When the key's shape or dtype is wrong.
pub fn permutation_of(n: usize, key: Option<&Array>) -> Result<Array> {
    ops::argsort(&bits(&[n], 4, key)?, 0)
}

/// The slices along `axis` in a random order.
///
/// # Errors
/// When the axis is out of bounds.
pub fn permutation(a: &Array, axis: isize, key: Option<&Array>) -> Result<Array> {
    let axis = ops::normalize_axis("permutation", axis, a.ndim())?;
    ops::take(a, &permutation_of(a.shape()[axis], key)?, axis as isize)
}

/// Indices (uint32) drawn with the probabilities `softmax(logits)` along `axis`, one for each of
/// the other axes' elements.
///
/// # Errors
/// When the axis is out of bounds.
pub fn categorical(logits: &Array, axis: isize, key: Option<&Array>) -> Result<Array> {
    let axis = valid_axis(axis, logits)?;
    draw(logits, axis, &reduced(logits, axis), key)
}

/// [`categorical`] as an array of `shape`, to which the other axes broadcast.
///
/// # Errors
/// When the axis is out of bounds, or the other axes do not broadcast to the shape.
pub fn categorical_with_shape(
    logits: &Array,
    axis: isize,
    shape: &[usize],
    key: Option<&Array>,
) -> Result<Array> {
    let axis = valid_axis(axis, logits)?;
    let own = reduced(logits, axis);
    if broadcast_shape("categorical", shape, &own).ok().as_deref() != Some(shape) {
        let message = format!(
            "Requested shape {shape:?} is not broadcast compatible with reduced logits shape {own:?}."
        );
        return Err(Error::invalid("categorical", message));
    }
    draw(logits, axis, shape, key)
}

/// [`categorical`] with `num_samples` indices for each of the other axes' elements, along a new last
/// axis.
///
/// # Errors
/// When the axis is out of bounds.
pub fn categorical_with_samples(
    logits: &Array,
    axis: isize,
    num_samples: usize,
    key: Option<&Array>,
) -> Result<Array> {
    let axis = valid_axis(axis, logits)?;
    let mut shape = reduced(logits, axis);
    shape.push(num_samples);
    draw(&ops::expand_dims(logits, &[-1])?, axis, &shape, key)
}

fn valid_axis(axis: isize, logits: &Array) -> Result<usize> {
    ops::normalize_axis("categorical", axis, logits.ndim()).map_err(|_| {
        let message = format!("Invalid axis {axis} for logits with {} dimensions.", logits.ndim());
        Error::out_of_range("categorical", message)
    })
}

/// The shape without an axis.
fn reduced(a: &Array, axis: usize) -> Shape {
    let mut shape = Shape::from(a.shape());
    shape.remove(axis);
    shape
}

/// The largest of logits plus Gumbel noise; for a single distribution, the index of a uniform number
/// among the running sums, which needs no noise for each pair of logit and draw.
fn draw(logits: &Array, axis: usize, shape: &[usize], key: Option<&Array>) -> Result<Array> {
    let n = logits.shape()[axis];
    if n > 0 && logits.size() == n && !shape.is_empty() {
        return draw_from_sums(&ops::reshape(logits, &[n as isize])?, shape, key);
    }
    let at = axis + shape.len() + 1 - logits.ndim();
    let mut noise_shape = shape.to_vec();
    noise_shape.insert(at, n);
    let noise = gumbel(&noise_shape, Dtype::Float32, key)?;
    ops::argmax(&ops::add(&noise, logits)?, Some(at as isize), false)
}

fn draw_from_sums(logits: &Array, shape: &[usize], key: Option<&Array>) -> Result<Array> {
    let dtype = logits.dtype().promote(Dtype::Float32);
    let x = astype(logits, dtype)?;
    let largest = ops::max(&x, &[], false)?;
    // Where the largest is infinite, those that equal it share the chance.
    let weights = ops::where_(
        &ops::isinf(&largest)?,
        &astype(&ops::equal(&x, &largest)?, dtype)?,
        &ops::exp(&ops::subtract(&x, &largest)?)?,
    )?;
    let sums = ops::cumsum(&weights, Some(0), false, false, None)?;
    let unit = uniform(0.0f32, 1.0f32, shape, Dtype::Float32, key)?;
    let drawn = ops::multiply(&unit, &ops::sum(&weights, &[], false)?)?;
    ops::subtract(&ops::searchsorted(&sums, &drawn, "right")?, &Array::scalar(1u32)?)
}
