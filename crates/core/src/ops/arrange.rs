//! Repeating, turning round and lining up.

use crate::{
    Array, Error, Result, Shape,
    ops::{
        self, broadcast_to, concatenate, expand_dims, flatten, normalize_axis, reshape, slice,
        slice_axis, squeeze, transpose,
    },
};

/// MLX's `permute_dims`: [`transpose`].
///
/// # Errors
/// When `axes` is not a permutation.
pub fn permute_dims(a: &Array, axes: &[isize]) -> Result<Array> {
    transpose(a, axes)
}

/// Exchanges the last two axes.
///
/// # Errors
/// When there are fewer than two.
pub fn matrix_transpose(a: &Array) -> Result<Array> {
    if a.ndim() < 2 {
        let message = "Input array must have at least 2 dimensions.";
        return Err(Error::invalid("matrix_transpose", message));
    }
    ops::swapaxes(a, -1, -2)
}

/// The shape to which all shapes broadcast.
///
/// # Errors
/// When there is none, or they do not broadcast.
pub fn broadcast_shapes(shapes: &[&[usize]]) -> Result<Shape> {
    if shapes.is_empty() {
        return Err(Error::invalid("broadcast_shapes", "Must provide at least one shape."));
    }
    shapes.iter().try_fold(Shape::new(), |joint, shape| {
        ops::broadcast_shape("broadcast_shapes", &joint, shape)
    })
}

/// Elements along axes in reverse order; an empty list means all axes. A view.
///
/// # Errors
/// When an axis is out of bounds.
pub fn flip(a: &Array, axes: &[isize]) -> Result<Array> {
    let mut start = vec![0; a.ndim()];
    let mut stop: Vec<isize> = a.shape().iter().map(|&d| d as isize).collect();
    let mut strides = vec![1; a.ndim()];
    let every: Vec<isize> = (0..a.ndim() as isize).collect();
    for &axis in if axes.is_empty() { &every } else { axes } {
        let axis = normalize_axis("flip", axis, a.ndim())?;
        (start[axis], stop[axis], strides[axis]) = (-1, -(a.shape()[axis] as isize) - 1, -1);
    }
    slice(a, &start, &stop, &strides)
}

/// Elements shifted along axes, those that leave at one end coming back at the other: a shift for
/// each axis, or one for all. Without axes the flattened array is shifted by the sum.
///
/// # Errors
/// When an axis is out of bounds, or there are fewer shifts than axes.
pub fn roll(a: &Array, shift: &[isize], axes: &[isize]) -> Result<Array> {
    if axes.is_empty() {
        let total = shift.iter().sum();
        let shape: Vec<isize> = a.shape().iter().map(|&d| d as isize).collect();
        return reshape(&roll_axis(&flatten(a, 0, -1)?, total, 0)?, &shape);
    }
    if shift.len() < axes.len() && shift.len() != 1 {
        let message = format!(
            "At least one shift value per axis is required, {} provided for {} axes.",
            shift.len(),
            axes.len()
        );
        return Err(Error::invalid("roll", message));
    }
    axes.iter().enumerate().try_fold(a.clone(), |a, (i, &axis)| {
        let axis = normalize_axis("roll", axis, a.ndim())?;
        roll_axis(&a, if shift.len() == 1 { shift[0] } else { shift[i] }, axis as isize)
    })
}

fn roll_axis(a: &Array, shift: isize, axis: isize) -> Result<Array> {
    let n = a.dim(axis) as isize;
    if n == 0 || shift.rem_euclid(n) == 0 {
        return Ok(a.clone());
    }
    let first = n - shift.rem_euclid(n);
    concatenate(&[&slice_axis(a, axis, first, n)?, &slice_axis(a, axis, 0, first)?], axis)
}

/// Each element `repeats` times, along an axis or in the flattened array.
///
/// # Errors
/// When the axis is out of bounds.
pub fn repeat(a: &Array, repeats: usize, axis: Option<isize>) -> Result<Array> {
    let Some(axis) = axis else {
        return repeat(&flatten(a, 0, -1)?, repeats, Some(0));
    };
    let axis = normalize_axis("repeat", axis, a.ndim())?;
    if repeats == 1 {
        return Ok(a.clone());
    }
    let mut shape = Shape::from(a.shape());
    shape.insert(axis + 1, repeats);
    let wide = broadcast_to(&expand_dims(a, &[axis as isize + 1])?, &shape)?;
    flatten(&wide, axis as isize, axis as isize + 1)
}

/// The array laid side by side with itself `reps` times along each axis; the shorter of the lists
/// of repetitions and axes is filled with ones in front.
///
/// # Errors
/// When there is no stream to run on.
pub fn tile(a: &Array, reps: &[usize]) -> Result<Array> {
    let ndim = a.ndim().max(reps.len());
    let padded = |list: &[usize]| -> Vec<usize> {
        std::iter::repeat_n(1, ndim - list.len()).chain(list.iter().copied()).collect()
    };
    let (shape, reps) = (padded(a.shape()), padded(reps));
    let pairs = |first: &[usize]| -> Vec<usize> {
        first.iter().zip(&shape).flat_map(|(&r, &d)| [r, d]).collect()
    };
    let signed = |shape: &[usize]| shape.iter().map(|&d| d as isize).collect::<Vec<_>>();
    let wide = broadcast_to(&reshape(a, &signed(&pairs(&vec![1; ndim])))?, &pairs(&reps))?;
    let product: Vec<usize> = reps.iter().zip(&shape).map(|(r, d)| r * d).collect();
    reshape(&wide, &signed(&product))
}

/// Grids of coordinates from their values along each axis: `indexing` is `"xy"`, which exchanges
/// the first two axes, or `"ij"`. `sparse` leaves axes of size 1 instead of repeating.
///
/// # Errors
/// For any other indexing.
pub fn meshgrid(arrays: &[&Array], sparse: bool, indexing: &str) -> Result<Vec<Array>> {
    if !["xy", "ij"].contains(&indexing) {
        let message = "Invalid indexing value. Valid values are 'xy' and 'ij'.";
        return Err(Error::invalid("meshgrid", message));
    }
    let axis = |i: usize| if indexing == "xy" && i < 2 && arrays.len() > 1 { 1 - i } else { i };
    let along = |(i, a): (usize, &&Array)| {
        let mut shape = vec![1; arrays.len()];
        shape[axis(i)] = -1;
        reshape(a, &shape)
    };
    let grids: Vec<Array> = arrays.iter().enumerate().map(along).collect::<Result<_>>()?;
    match sparse {
        true => Ok(grids),
        false => ops::broadcast_arrays(&grids.iter().collect::<Vec<_>>()),
    }
}

/// The parts of an axis, without it.
///
/// # Errors
/// When the axis is out of bounds.
pub fn unstack(a: &Array, axis: isize) -> Result<Vec<Array>> {
    let axis = normalize_axis("unstack", axis, a.ndim())? as isize;
    let part = |i: isize| squeeze(&slice_axis(a, axis, i, i + 1)?, &[axis]);
    (0..a.dim(axis) as isize).map(part).collect()
}

/// The array with at least one axis.
///
/// # Errors
/// When there is no stream to run on.
pub fn atleast_1d(a: &Array) -> Result<Array> {
    if a.ndim() == 0 { reshape(a, &[1]) } else { Ok(a.clone()) }
}

/// The array with at least two axes: new ones come in front.
///
/// # Errors
/// When there is no stream to run on.
pub fn atleast_2d(a: &Array) -> Result<Array> {
    match a.ndim() {
        0 => reshape(a, &[1, 1]),
        1 => expand_dims(a, &[0]),
        _ => Ok(a.clone()),
    }
}

/// The array with at least three axes: the last new one comes behind, another in front.
///
/// # Errors
/// When there is no stream to run on.
pub fn atleast_3d(a: &Array) -> Result<Array> {
    match a.ndim() {
        0 => reshape(a, &[1, 1, 1]),
        1 => expand_dims(a, &[0, 2]),
        2 => expand_dims(a, &[2]),
        _ => Ok(a.clone()),
    }
}
