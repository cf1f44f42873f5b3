//! Products of arrays that are made of other operations: tensor contractions, outer and Kronecker
//! products.

use crate::{
    Array, Error, Result,
    ops::{self, normalize_axis},
    shape::num_elements,
};

/// Sum of products over the last `axes` axes of `a` and the first `axes` axes of `b`.
///
/// # Errors
/// As [`tensordot_axes`], or when there are fewer axes.
pub fn tensordot(a: &Array, b: &Array, axes: usize) -> Result<Array> {
    if axes > a.ndim().min(b.ndim()) {
        return Err(Error::invalid(
            "tensordot",
            "axis must be less than the number of dimensions of a and b.",
        ));
    }
    let from_end: Vec<isize> = (0..axes as isize).map(|i| i - axes as isize).collect();
    let from_start: Vec<isize> = (0..axes as isize).collect();
    tensordot_axes(a, b, &from_end, &from_start)
}

/// Sum of products over `axes_a` of `a` and `axes_b` of `b`, pair by pair. The result has the
/// other axes of `a`, then those of `b`.
///
/// # Errors
/// When the lists differ in length, an axis is out of bounds, the sizes of a pair differ, or the
/// promoted dtype is not inexact.
pub fn tensordot_axes(a: &Array, b: &Array, axes_a: &[isize], axes_b: &[isize]) -> Result<Array> {
    if axes_a.len() != axes_b.len() {
        return Err(Error::invalid("tensordot", "axes must have the same size."));
    }
    let normalized = |axes: &[isize], ndim| {
        axes.iter().map(|&x| normalize_axis("tensordot", x, ndim)).collect::<Result<Vec<_>>>()
    };
    let (axes_a, axes_b) = (normalized(axes_a, a.ndim())?, normalized(axes_b, b.ndim())?);
    if axes_a.iter().zip(&axes_b).any(|(&x, &y)| a.shape()[x] != b.shape()[y]) {
        return Err(Error::invalid(
            "tensordot",
            "a and b must have the same shape on the contracted axes.",
        ));
    }
    let others = |ndim: usize, axes: &[usize]| -> Vec<usize> {
        (0..ndim).filter(|x| !axes.contains(x)).collect()
    };
    let (rows, columns) = (others(a.ndim(), &axes_a), others(b.ndim(), &axes_b));
    let left = matrix(a, &rows, &axes_a)?;
    let right = matrix(b, &axes_b, &columns)?;
    let sizes = rows.iter().map(|&x| a.shape()[x]).chain(columns.iter().map(|&x| b.shape()[x]));
    let shape: Vec<isize> = sizes.map(|d| d as isize).collect();
    ops::reshape(&ops::matmul(&left, &right)?, &shape)
}

/// The array as a matrix whose rows walk the axes `rows` and whose columns walk `columns`.
fn matrix(a: &Array, rows: &[usize], columns: &[usize]) -> Result<Array> {
    let size = |axes: &[usize]| {
        num_elements(&axes.iter().map(|&x| a.shape()[x]).collect::<Vec<_>>()) as isize
    };
    let order: Vec<isize> = rows.iter().chain(columns).map(|&x| x as isize).collect();
    ops::reshape(&ops::transpose(a, &order)?, &[size(rows), size(columns)])
}

/// `a[i] * b[j]` for all elements of the flattened arrays.
///
/// # Errors
/// When there is no stream to run on.
pub fn outer(a: &Array, b: &Array) -> Result<Array> {
    let column = ops::reshape(a, &[a.size() as isize, 1])?;
    ops::multiply(&column, &ops::flatten(b, 0, -1)?)
}

/// Sum of products over the last axes; the product where one is a scalar.
///
/// # Errors
/// When the last axes differ in size, or the promoted dtype is not inexact.
pub fn inner(a: &Array, b: &Array) -> Result<Array> {
    if a.ndim() == 0 || b.ndim() == 0 {
        return ops::multiply(a, b);
    }
    if a.dim(-1) != b.dim(-1) {
        return Err(Error::invalid("inner", "a and b must have the same last dimension."));
    }
    tensordot_axes(a, b, &[-1], &[-1])
}

/// Sum of `conj(a) * b` along an axis; the other axes broadcast.
///
/// # Errors
/// When an array is a scalar, the axis is out of bounds or differs in size, or the other axes do
/// not broadcast.
pub fn vecdot(a: &Array, b: &Array, axis: isize) -> Result<Array> {
    let invalid = |message: &str| Error::invalid("vecdot", message);
    if a.ndim() == 0 || b.ndim() == 0 {
        return Err(invalid("inputs must be at least 1D."));
    }
    let normalized = |array: &Array| {
        normalize_axis("vecdot", axis, array.ndim()).map_err(|_| invalid("axis is out of bounds."))
    };
    let (from, other) = (normalized(a)?, normalized(b)?);
    if from != other {
        return Err(invalid("axis is out of bounds."));
    }
    if a.shape()[from] != b.shape()[from] {
        return Err(invalid("a and b must have the same size along axis."));
    }
    ops::sum(&ops::multiply(&ops::conjugate(a)?, b)?, &[from as isize], false)
}

/// Kronecker product: blocks of `b`, each times an element of `a`. Missing leading axes count as
/// axes of size 1.
///
/// # Errors
/// When an array is empty.
pub fn kron(a: &Array, b: &Array) -> Result<Array> {
    if a.size() == 0 || b.size() == 0 {
        return Err(Error::invalid("kron", "Input arrays cannot be empty."));
    }
    let ndim = a.ndim().max(b.ndim());
    // Every axis becomes a pair: the axis of `a`, then the axis of `b`.
    let spread = |array: &Array, second: usize| {
        let mut shape = vec![1; 2 * ndim];
        let skipped = ndim - array.ndim();
        for (axis, &size) in array.shape().iter().enumerate() {
            shape[2 * (skipped + axis) + second] = size as isize;
        }
        shape
    };
    let (left, right) = (spread(a, 0), spread(b, 1));
    let shape: Vec<isize> = left.iter().zip(&right).map(|(x, y)| x * y).collect();
    let shape: Vec<isize> = shape.chunks(2).map(|pair| pair[0] * pair[1]).collect();
    let product = ops::multiply(&ops::reshape(a, &left)?, &ops::reshape(b, &right)?)?;
    ops::reshape(&product, &shape)
}
