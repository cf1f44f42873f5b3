//! Shapes, views, slices and joining.

use smallvec::{SmallVec, smallvec};

use crate::{
    Array, Dtype, Error, Result, Shape,
    graph::Inputs,
    ops::{self, astype, normalize_axes, normalize_axis},
    primitives::{Axes, Indices, Rule, ShapeOp, To, reaches_inside},
    shape::num_elements,
    transforms::trace,
    views,
};

/// The same elements in another shape; one size may be -1 and is inferred.
///
/// # Errors
/// When the number of elements differs.
pub fn reshape(a: &Array, shape: &[isize]) -> Result<Array> {
    reshape_to(a, infer_shape(a, shape)?, || To::Infer(shape.into()))
}

fn infer_shape(a: &Array, shape: &[isize]) -> Result<Shape> {
    let mismatch = || {
        let message = format!("Cannot reshape array of size {} into shape {shape:?}.", a.size());
        Error::invalid("reshape", message)
    };
    let known = shape
        .iter()
        .filter(|&&d| d != -1)
        .try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?));
    let known = known.ok_or_else(mismatch)?;
    let unknown = shape.iter().filter(|&&d| d == -1).count();
    if unknown > 1 {
        return Err(Error::invalid("reshape", "Reshape can only infer one dimension."));
    }
    let fits = match unknown {
        0 => known == a.size(),
        _ => known != 0 && a.size().is_multiple_of(known),
    };
    if !fits {
        return Err(mismatch());
    }
    Ok(shape.iter().map(|&d| if d == -1 { a.size() / known } else { d as usize }).collect())
}

/// Joins the axes `start..=end` into one; a start before the first axis and an end behind the last
/// mean these. A scalar becomes one axis of size 1.
///
/// # Errors
/// When no axis is left or the order is wrong.
pub fn flatten(a: &Array, start: isize, end: isize) -> Result<Array> {
    if a.ndim() == 0 {
        return reshape(a, &[1]);
    }
    let ndim = a.ndim() as isize;
    let first = (if start < 0 { start + ndim } else { start }).max(0);
    let last = (if end < 0 { end + ndim } else { end }).min(ndim - 1);
    if first > last {
        return Err(Error::invalid("flatten", "start_axis must be less than or equal to end_axis"));
    }
    let (first, last) = (first as usize, last as usize);
    let mut shape = Shape::from(&a.shape()[..first]);
    shape.push(num_elements(&a.shape()[first..=last]));
    shape.extend_from_slice(&a.shape()[last + 1..]);
    reshape_to(a, shape, || To::Flatten { start: first, end: last })
}

/// Splits an axis into `shape`; one size may be -1 and is inferred.
///
/// # Errors
/// When the sizes do not multiply to the axis' size.
pub fn unflatten(a: &Array, axis: isize, shape: &[isize]) -> Result<Array> {
    let axis = normalize_axis("unflatten", axis, a.ndim())?;
    let dims = a.shape().iter().map(|&d| d as isize);
    let mut target: Vec<isize> = dims.clone().take(axis).collect();
    target.extend_from_slice(shape);
    target.extend(dims.skip(axis + 1));
    reshape_to(a, infer_shape(a, &target)?, || To::Unflatten { axis, sizes: shape.into() })
}

/// Reshape to a shape that is known to have the same number of elements; `to` says how other shapes would
/// follow.
fn reshape_to(a: &Array, shape: Shape, to: impl FnOnce() -> To) -> Result<Array> {
    let to = match trace::is_shapeless() {
        true => to(),
        false if shape.as_slice() == a.shape() => return Ok(a.clone()),
        false => To::Exact(Shape::from_slice(&shape)),
    };
    ops::checked_node(ShapeOp::Reshape(to), [a.clone()], shape, a.dtype())
}

/// How many elements some axes have in all, or one over it: a number, but in a shapeless trace, which is for
/// other sizes as well.
pub(crate) fn number_of_elements(
    a: &Array,
    axes: &[isize],
    inverted: bool,
    dtype: Dtype,
) -> Result<Array> {
    let axes = normalize_axes("number_of_elements", axes, a.ndim())?;
    if trace::is_shapeless() {
        let count = ops::node(ShapeOp::NumberOfElements { axes, inverted, dtype }, [a.clone()])?;
        return ops::stop_gradient(&count);
    }
    views::number_of_elements(a, &axes, inverted, dtype)
}

/// Permutes the axes; an empty list reverses them.
///
/// # Errors
/// When `axes` is not a permutation.
pub fn transpose(a: &Array, axes: &[isize]) -> Result<Array> {
    let named = axes;
    let mut axes = Axes::with_capacity(a.ndim());
    if named.is_empty() {
        axes.extend((0..a.ndim()).rev());
    }
    for &axis in named {
        axes.push(normalize_axis("transpose", axis, a.ndim())?);
    }
    if axes.len() != a.ndim() {
        let message =
            format!("Received {} axes for array with {} dimensions.", axes.len(), a.ndim());
        return Err(Error::invalid("transpose", message));
    }
    if axes.iter().enumerate().any(|(i, axis)| axes[..i].contains(axis)) {
        return Err(Error::invalid("transpose", "Repeat axes not allowed."));
    }
    if axes.iter().enumerate().all(|(i, &x)| i == x) {
        return Ok(a.clone());
    }
    let mut shape = Shape::with_capacity(axes.len());
    for &axis in &axes {
        shape.push(a.shape()[axis]);
    }
    ops::checked_node(ShapeOp::Transpose { axes }, [a.clone()], shape, a.dtype())
}

/// Exchanges two axes.
///
/// # Errors
/// When an axis is out of bounds.
pub fn swapaxes(a: &Array, axis1: isize, axis2: isize) -> Result<Array> {
    let first = normalize_axis("swapaxes", axis1, a.ndim())?;
    let second = normalize_axis("swapaxes", axis2, a.ndim())?;
    let mut axes: Vec<isize> = (0..a.ndim() as isize).collect();
    axes.swap(first, second);
    transpose(a, &axes)
}

/// Moves an axis to another position.
///
/// # Errors
/// When an axis is out of bounds.
pub fn moveaxis(a: &Array, source: isize, destination: isize) -> Result<Array> {
    let source = normalize_axis("moveaxis", source, a.ndim())?;
    let destination = normalize_axis("moveaxis", destination, a.ndim())?;
    let mut axes: Vec<isize> = (0..a.ndim() as isize).collect();
    let axis = axes.remove(source);
    axes.insert(destination, axis);
    transpose(a, &axes)
}

/// A view with axes repeated to `shape`.
///
/// # Errors
/// When the array does not broadcast to `shape`.
pub fn broadcast_to(a: &Array, shape: &[usize]) -> Result<Array> {
    if a.shape() == shape {
        return Ok(a.clone());
    }
    let joint = ops::broadcast_shape("broadcast_to", a.shape(), shape)?;
    if joint.as_slice() != shape {
        let message = format!("Cannot broadcast {:?} to {shape:?}.", a.shape());
        return Err(Error::invalid("broadcast_to", message));
    }
    ops::node(ShapeOp::Broadcast(Rule::Exact(joint)), [a.clone()])
}

/// All arrays broadcast to their joint shape.
///
/// # Errors
/// When the shapes do not broadcast.
pub fn broadcast_arrays(arrays: &[&Array]) -> Result<Vec<Array>> {
    let joint = joint_shape("broadcast_arrays", arrays, &[])?;
    (0..arrays.len()).map(|i| broadcast_one(arrays, i, &joint, &[])).collect()
}

/// A view with axes repeated to the shape of another array, whatever that is.
pub(crate) fn broadcast_like(a: &Array, like: &Array) -> Result<Array> {
    match trace::is_shapeless() {
        true => broadcast_by_others(&[a, like], 0, &[]),
        false => broadcast_to(a, like.shape()),
    }
}

/// All arrays broadcast to their joint shape, but for axes that count from the end, of which each keeps its
/// sizes.
pub(crate) fn broadcast_together<const N: usize>(
    op: &'static str,
    arrays: [&Array; N],
    except: &[isize],
) -> Result<[Array; N]> {
    let joint = joint_shape(op, &arrays, except)?;
    let mut all = arrays.map(Array::clone);
    for (i, array) in all.iter_mut().enumerate() {
        *array = broadcast_one(&arrays, i, &joint, except)?;
    }
    Ok(all)
}

/// The shape that arrays broadcast to, with size 1 where axes are left out.
fn joint_shape(op: &'static str, arrays: &[&Array], except: &[isize]) -> Result<Shape> {
    let mut joint = Shape::new();
    for array in arrays {
        let mut shape = Shape::from_slice(array.shape());
        except.iter().for_each(|&axis| shape[from_end(array.ndim(), axis)] = 1);
        joint = ops::broadcast_shape(op, &joint, &shape)?;
    }
    Ok(joint)
}

/// One of several arrays, broadcast to their joint shape but for axes that it keeps.
fn broadcast_one(arrays: &[&Array], i: usize, joint: &Shape, except: &[isize]) -> Result<Array> {
    if trace::is_shapeless() {
        return broadcast_by_others(arrays, i, except);
    }
    let (array, mut shape) = (arrays[i], joint.clone());
    for &axis in except {
        shape[from_end(joint.len(), axis)] = array.shape()[from_end(array.ndim(), axis)];
    }
    broadcast_to(array, &shape)
}

/// The index of an axis that counts from the end.
fn from_end(ndim: usize, axis: isize) -> usize {
    ndim - axis.unsigned_abs()
}

/// One of several arrays with a shape that follows from all of them, whatever their sizes are.
fn broadcast_by_others(arrays: &[&Array], i: usize, except: &[isize]) -> Result<Array> {
    let rule = match except {
        [] => Rule::Joint,
        axes => Rule::JointExcept(axes.into()),
    };
    let mut inputs: Inputs = smallvec![arrays[i].clone()];
    for (_, other) in arrays.iter().enumerate().filter(|(j, _)| *j != i) {
        inputs.push(ops::stop_gradient(other)?);
    }
    ops::node(ShapeOp::Broadcast(rule), inputs)
}

/// New axes of size 1, which become these axes of the result.
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn expand_dims(a: &Array, axes: &[isize]) -> Result<Array> {
    if axes.is_empty() {
        return Ok(a.clone());
    }
    let axes = normalize_axes("expand_dims", axes, a.ndim() + axes.len())?;
    ops::node(ShapeOp::ExpandDims { axes }, [a.clone()])
}

/// Removes these axes of size 1; an empty list removes all of them.
///
/// # Errors
/// When an axis is out of bounds, given twice, or not of size 1.
pub fn squeeze(a: &Array, axes: &[isize]) -> Result<Array> {
    let axes = if axes.is_empty() {
        (0..a.ndim()).filter(|&x| a.shape()[x] == 1).collect()
    } else {
        normalize_axes("squeeze", axes, a.ndim())?
    };
    if let Some(&axis) = axes.iter().find(|&&x| a.shape()[x] != 1) {
        let message = format!(
            "Cannot squeeze axis {axis} with size {} which is not equal to 1.",
            a.shape()[axis]
        );
        return Err(Error::invalid("squeeze", message));
    }
    if axes.is_empty() {
        return Ok(a.clone());
    }
    ops::node(ShapeOp::Squeeze { axes }, [a.clone()])
}

/// A view of the flattened array with any strides (in elements) from element `offset` on.
///
/// # Errors
/// When an element of the view lies outside of the array.
pub fn as_strided(a: &Array, shape: &[usize], strides: &[isize], offset: usize) -> Result<Array> {
    check_strided(a, shape, strides, offset)?;
    let dense = ops::contiguous(a, false)?;
    let primitive = ShapeOp::AsStrided { shape: shape.into(), strides: strides.into(), offset };
    ops::node(primitive, [dense])
}

fn check_strided(a: &Array, shape: &[usize], strides: &[isize], offset: usize) -> Result<()> {
    let outside = || {
        let message = format!(
            "Shape {shape:?} with strides {strides:?} from {offset} reaches outside of {} elements.",
            a.size()
        );
        Error::invalid("as_strided", message)
    };
    if shape.len() != strides.len() {
        return Err(Error::invalid("as_strided", "Shape and strides must have the same length."));
    }
    match reaches_inside(a.shape(), shape, strides, offset) {
        true => Ok(()),
        false => Err(outside()),
    }
}

/// A slice that lies in an array: for each axis the first index, the step and the number of elements.
#[derive(Clone)]
pub(crate) struct SliceBounds {
    pub(crate) start: Indices,
    pub(crate) strides: Indices,
    pub(crate) sizes: Shape,
}

impl SliceBounds {
    /// Whether it is all of `a`, in order.
    pub(crate) fn is_whole(&self, a: &Array) -> bool {
        self.sizes.as_slice() == a.shape() && self.strides.iter().all(|&step| step > 0)
    }
}

/// The slice that `start`, `stop` and `strides` mean for each axis, as Python does it.
pub(crate) fn normalize_slice(
    op: &'static str,
    shape: &[usize],
    start: &[isize],
    stop: &[isize],
    strides: &[isize],
) -> Result<SliceBounds> {
    if [start.len(), stop.len(), strides.len()].iter().any(|&n| n != shape.len()) {
        let message = format!(
            "Invalid number of indices or strides for array with dimension {}.",
            shape.len()
        );
        return Err(Error::invalid(op, message));
    }
    if strides.contains(&0) {
        return Err(Error::invalid(op, "Slice strides must not be zero."));
    }
    let strides = Indices::from_slice(strides);
    let mut bounds = SliceBounds { start: Indices::new(), strides, sizes: Shape::new() };
    for axis in 0..shape.len() {
        let step = bounds.strides[axis];
        let (from, count) = slice_of_axis(shape[axis], start[axis], stop[axis], step);
        bounds.start.push(from);
        bounds.sizes.push(count);
    }
    Ok(bounds)
}

/// First index and number of elements of a slice of an axis of `n` elements, as Python does it; `step` is
/// not zero.
pub(crate) fn slice_of_axis(n: usize, start: isize, stop: isize, step: isize) -> (isize, usize) {
    let n = n as isize;
    let wrap = |i: isize| if i < 0 { i + n } else { i };
    let (from, to) = if step > 0 {
        (wrap(start).clamp(0, n), wrap(stop).clamp(0, n))
    } else {
        // With a negative step, a stop far below zero means "through element 0".
        let to = if stop < -n { -1 } else { wrap(stop).clamp(-1, n - 1) };
        (wrap(start).clamp(-1, n - 1), to)
    };
    let distance = if step > 0 { to - from } else { from - to };
    let count = if distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
    (from, count as usize)
}

/// Elements from `start` to before `stop` in steps, per axis, with Python's rules for negative
/// and out-of-range values. A view.
///
/// # Errors
/// When the lists do not have one entry per axis, or a step is zero.
pub fn slice(a: &Array, start: &[isize], stop: &[isize], strides: &[isize]) -> Result<Array> {
    bounded_slice(a, normalize_slice("slice", a.shape(), start, stop, strides)?)
}

/// The same for a slice that is known to lie in `a`.
pub(crate) fn bounded_slice(a: &Array, bounds: SliceBounds) -> Result<Array> {
    if bounds.is_whole(a) {
        return Ok(a.clone());
    }
    let SliceBounds { start, strides, sizes } = bounds;
    let shape = Shape::from_slice(&sizes);
    ops::checked_node(ShapeOp::Slice { start, strides, sizes }, [a.clone()], shape, a.dtype())
}

/// Elements `start..stop` of one axis; a view.
///
/// # Errors
/// When the axis is out of bounds.
pub fn slice_axis(a: &Array, axis: isize, start: isize, stop: isize) -> Result<Array> {
    let axis = normalize_axis("slice", axis, a.ndim())?;
    let mut from = Indices::from_elem(0, a.ndim());
    let mut to: Indices = a.shape().iter().map(|&d| d as isize).collect();
    (from[axis], to[axis]) = (start, stop);
    slice(a, &from, &to, &Indices::from_elem(1, a.ndim()))
}

/// The arrays one after the other along `axis`, in their promoted dtype. A single one is returned
/// as it is, whatever the axis.
///
/// # Errors
/// When there is none, or the other axes differ.
pub fn concatenate(arrays: &[&Array], axis: isize) -> Result<Array> {
    let first = arrays
        .first()
        .ok_or_else(|| Error::invalid("concatenate", "No arrays provided for concatenation."))?;
    if arrays.len() == 1 {
        return Ok((*first).clone());
    }
    let axis = normalize_axis("concatenate", axis, first.ndim())?;
    let mut dtype = first.dtype();
    for a in arrays {
        if a.ndim() != first.ndim() {
            let message = format!(
                "All the input arrays must have the same number of dimensions. However, got arrays with \
                 dimensions {} and {}.",
                first.ndim(),
                a.ndim()
            );
            return Err(Error::invalid("concatenate", message));
        }
        if (0..a.ndim()).any(|x| x != axis && a.shape()[x] != first.shape()[x]) {
            let message = format!(
                "All the input array dimensions must match exactly except for the concatenation axis. \
                 However, the provided shapes are {:?}, {:?}, and the concatenation axis is {axis}.",
                first.shape(),
                a.shape()
            );
            return Err(Error::invalid("concatenate", message));
        }
        dtype = dtype.promote(a.dtype());
    }
    let inputs: SmallVec<[Array; 3]> =
        arrays.iter().map(|a| astype(a, dtype)).collect::<Result<_>>()?;
    if let [only] = inputs.as_slice() {
        return Ok(only.clone());
    }
    ops::node(ShapeOp::Concatenate { axis }, inputs)
}

/// The arrays along a new axis.
///
/// # Errors
/// When there is none, or shapes differ.
pub fn stack(arrays: &[&Array], axis: isize) -> Result<Array> {
    let first = arrays
        .first()
        .ok_or_else(|| Error::invalid("stack", "No arrays provided for stacking."))?;
    if arrays.iter().any(|a| a.shape() != first.shape()) {
        return Err(Error::invalid("stack", "All arrays must have the same shape and dtype."));
    }
    let axis = normalize_axis("stack", axis, first.ndim() + 1)? as isize;
    let expanded = arrays.iter().map(|a| expand_dims(a, &[axis])).collect::<Result<Vec<_>>>()?;
    concatenate(&expanded.iter().collect::<Vec<_>>(), axis)
}

/// Parts of an axis that end before each of `indices`, and the rest; views.
///
/// # Errors
/// When the axis is out of bounds.
pub fn split_at(a: &Array, indices: &[isize], axis: isize) -> Result<Vec<Array>> {
    let end = a.dim(normalize_axis("split", axis, a.ndim())? as isize) as isize;
    let starts = std::iter::once(0).chain(indices.iter().copied());
    let stops = indices.iter().copied().chain([end]);
    starts.zip(stops).map(|(from, to)| slice_axis(a, axis, from, to)).collect()
}

/// `parts` equal parts of an axis; views.
///
/// # Errors
/// When the axis is out of bounds or does not divide.
pub fn split(a: &Array, parts: usize, axis: isize) -> Result<Vec<Array>> {
    let size = a.shape()[normalize_axis("split", axis, a.ndim())?];
    if parts == 0 || !size.is_multiple_of(parts) {
        let message = format!(
            "Array split does not result in sub arrays with equal size: attempting {parts} splits along \
             axis {axis} for shape {:?}.",
            a.shape()
        );
        return Err(Error::invalid("split", message));
    }
    let part = (size / parts) as isize;
    let indices: Vec<isize> = (1..parts as isize).map(|i| i * part).collect();
    split_at(a, &indices, axis)
}
