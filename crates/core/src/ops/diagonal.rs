//! Diagonals and triangles.

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, expand_dims, normalize_axis, squeeze},
};

/// One triangle of the last two axes, zeros in the other.
fn triangle(op: &'static str, a: &Array, k: isize, lower: bool) -> Result<Array> {
    if a.ndim() < 2 {
        return Err(Error::invalid(op, "array must be at least 2-D"));
    }
    let (n, m) = (a.dim(-2), a.dim(-1));
    let zero = Array::scalar_of(0.0, a.dtype())?;
    match lower {
        true => ops::where_(&tri(n, m, k, Dtype::Bool)?, a, &zero),
        false => ops::where_(&tri(n, m, k.saturating_sub(1), Dtype::Bool)?, &zero, a),
    }
}

/// The elements of the last two axes on and below diagonal `k`; zeros above.
///
/// # Errors
/// When there are fewer than two axes.
pub fn tril(a: &Array, k: isize) -> Result<Array> {
    triangle("tril", a, k, true)
}

/// The elements of the last two axes on and above diagonal `k`; zeros below.
///
/// # Errors
/// When there are fewer than two axes.
pub fn triu(a: &Array, k: isize) -> Result<Array> {
    triangle("triu", a, k, false)
}

/// Ones on and below diagonal `k` of an (n, m) array, zeros above.
///
/// # Errors
/// When there is no stream to run on.
pub fn tri(n: usize, m: usize, k: isize, dtype: Dtype) -> Result<Array> {
    let (rows, columns) = grid(n, m, k)?;
    ops::astype(&ops::greater_equal(&rows, &columns)?, dtype)
}

/// Ones on diagonal `k` of an (n, m) array, zeros elsewhere.
///
/// # Errors
/// When there is no stream to run on.
pub fn eye(n: usize, m: usize, k: isize, dtype: Dtype) -> Result<Array> {
    let (rows, columns) = grid(n, m, k)?;
    ops::astype(&ops::equal(&rows, &columns)?, dtype)
}

/// The identity of `n` rows.
///
/// # Errors
/// When there is no stream to run on.
pub fn identity(n: usize, dtype: Dtype) -> Result<Array> {
    eye(n, n, 0, dtype)
}

/// Numbers of rows (n, 1) and of columns (1, m), those of columns less `k`.
fn grid(n: usize, m: usize, k: isize) -> Result<(Array, Array)> {
    // All diagonals beyond the corners are the same.
    let k = k.clamp(-isize::try_from(n).unwrap_or(isize::MAX), m.try_into().unwrap_or(isize::MAX));
    let rows = ops::arange(0.0, n as f64, 1.0, Dtype::Int32)?;
    let columns = ops::arange(-k as f64, (m as isize - k) as f64, 1.0, Dtype::Int32)?;
    Ok((expand_dims(&rows, &[1])?, expand_dims(&columns, &[0])?))
}

/// The diagonal of two axes, which go away for a last one: elements whose index into `axis2` is
/// `offset` larger than that into `axis1`.
///
/// # Errors
/// When there are fewer than two axes, or the axes are the same or out of bounds.
pub fn diagonal(a: &Array, offset: isize, axis1: isize, axis2: isize) -> Result<Array> {
    let refuse = |message: String| Err(Error::invalid("diagonal", message));
    if a.ndim() < 2 {
        return refuse(format!(
            "Array must have at least two dimensions, but got {} dimensions.",
            a.ndim()
        ));
    }
    let first = normalize_axis("diagonal", axis1, a.ndim())?;
    let second = normalize_axis("diagonal", axis2, a.ndim())?;
    if first == second {
        return refuse("axis1 and axis2 cannot be the same axis".into());
    }
    let (skip1, skip2) = (offset.saturating_neg().max(0), offset.max(0));
    let left = |axis: usize, skip: isize| a.shape()[axis] as isize - skip;
    let size = left(first, skip1).min(left(second, skip2)).max(0);
    let indices = |skip: isize| ops::arange(skip as f64, (skip + size) as f64, 1.0, Dtype::Int32);
    let mut sizes = a.shape().to_vec();
    sizes[first] = sizes[first].min(1);
    sizes[second] = sizes[second].min(1);
    if size == 0 {
        let rest = (0..a.ndim()).filter(|x| ![first, second].contains(x));
        let shape: Shape = rest.map(|x| a.shape()[x]).chain([0]).collect();
        return ops::zeros(&shape, a.dtype());
    }
    let axes = [first as isize, second as isize];
    let picked = ops::gather(a, &[&indices(skip1)?, &indices(skip2)?], &axes, &sizes)?;
    ops::moveaxis(&squeeze(&picked, &axes.map(|x| x + 1))?, 0, -1)
}

/// An array with the elements of `a`, which has one axis, on diagonal `k`; or the diagonal `k` of
/// one with two.
///
/// # Errors
/// For any other number of axes.
pub fn diag(a: &Array, k: isize) -> Result<Array> {
    match a.ndim() {
        1 => {
            let n = a.size() + k.unsigned_abs();
            let column = |skip: isize| expand_dims(&pad_ends(a, skip, n)?, &[1]);
            let on = eye(n, n, k, Dtype::Bool)?;
            ops::where_(
                &on,
                &column(k.saturating_neg().max(0))?,
                &Array::scalar_of(0.0, a.dtype())?,
            )
        }
        2 => diagonal(a, k, 0, 1),
        n => {
            let message = format!("array must be 1-D or 2-D, got array with {n} dimensions.");
            Err(Error::invalid("diag", message))
        }
    }
}

/// `n` elements with those of `a` from `skip` on.
fn pad_ends(a: &Array, skip: isize, n: usize) -> Result<Array> {
    let behind = n - a.size() - skip as usize;
    ops::pad(a, &[(skip as usize, behind)], "constant", 0)
}

/// The sum of the [`diagonal`], in `dtype` if one is given.
///
/// # Errors
/// As [`diagonal`].
pub fn trace(
    a: &Array,
    offset: isize,
    axis1: isize,
    axis2: isize,
    dtype: Option<Dtype>,
) -> Result<Array> {
    let line = diagonal(a, offset, axis1, axis2).map_err(|e| match e {
        Error::Invalid { message, .. } => Error::invalid("trace", message),
        Error::OutOfRange { message, .. } => Error::out_of_range("trace", message),
        other => other,
    })?;
    ops::sum(&ops::astype(&line, dtype.unwrap_or(a.dtype()))?, &[-1], false)
}
