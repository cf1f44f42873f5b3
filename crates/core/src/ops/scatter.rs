//! Writing elements at indices. Every function gives a new array; the work happens in place where
//! nobody else needs the old one.

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{
        self, SliceBounds, astype, broadcast_to, check_indices, indexed_axes, joint_indices,
        normalize_axis, normalize_slice, squeeze,
    },
    primitives::{Axes, IndexingOp, ScatterOp, ShapeOp},
};

/// Scatters of slices, by how an update joins the element that it goes to.
macro_rules! scatters {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// `updates` has the axes of the joint `indices` and then one for each axis of `a`: the
        /// slice whose first element lies at the indices into `axes`. Negative indices count from
        /// the end; slices that reach outside are left out.
        ///
        /// # Errors
        /// When there are not as many indices as axes, an axis is out of bounds or given twice,
        /// the indices are no integers, or the updates do not have that shape.
        pub fn $name(
            a: &Array,
            indices: &[&Array],
            updates: &Array,
            axes: &[isize],
        ) -> Result<Array> {
            scatter_by(ScatterOp::$op, a, indices, updates, axes)
        }
    )*};
}

scatters! {
    /// `a` with slices replaced; of several updates of one place, one is left.
    scatter => Assign;
    /// `a` with updates added to slices.
    scatter_add => Sum;
    /// `a` with slices multiplied by updates.
    scatter_prod => Prod;
    /// `a` with the larger of its elements and the updates.
    scatter_max => Max;
    /// `a` with the smaller of its elements and the updates.
    scatter_min => Min;
}

pub(crate) fn scatter_by(
    op: ScatterOp,
    a: &Array,
    indices: &[&Array],
    updates: &Array,
    axes: &[isize],
) -> Result<Array> {
    let axes = indexed_axes("scatter", a, indices, axes)?;
    let indices = joint_indices("scatter", indices)?;
    check_updates(a, indices.first().map_or(&[], Array::shape), updates)?;
    let updates = astype(updates, a.dtype())?;
    let inputs = std::iter::once(a.clone()).chain(indices).chain([updates]);
    ops::node(IndexingOp::Scatter { op, axes }, inputs)
}

fn check_updates(a: &Array, index_shape: &[usize], updates: &Array) -> Result<()> {
    let refuse = |message: String| Err(Error::invalid("scatter", message));
    let shape = updates.shape();
    if updates.ndim() != a.ndim() + index_shape.len() {
        return refuse(format!(
            "Updates with {} dimensions does not match the sum of the array ({}) and indices ({}) \
             dimensions.",
            updates.ndim(),
            a.ndim(),
            index_shape.len()
        ));
    }
    let (batch, slice) = shape.split_at(index_shape.len());
    if batch != index_shape {
        return refuse(format!(
            "Update shape {shape:?} is not valid for broadcasted index shape {index_shape:?}."
        ));
    }
    if slice.iter().zip(a.shape()).any(|(update, dim)| update > dim) {
        return refuse(format!(
            "Updates with shape {shape:?} are too large for array with shape {:?}.",
            a.shape()
        ));
    }
    Ok(())
}

/// `a` with `values` at `indices` along `axis`; the other axes broadcast, values to the indices.
/// Of several values for one location, one is left; indices that lie outside are left out.
///
/// # Errors
/// When the ranks differ, the axis is out of bounds, the indices are no integers, or the shapes
/// do not broadcast.
pub fn put_along_axis(a: &Array, indices: &Array, values: &Array, axis: isize) -> Result<Array> {
    if indices.size() == 0 {
        return Ok(a.clone());
    }
    scatter_axis("put_along_axis", ScatterOp::Assign, a, indices, values, axis)
}

/// `a` with `values` added at `indices` along `axis`, as [`put_along_axis`] puts them.
///
/// # Errors
/// As [`put_along_axis`].
pub fn scatter_add_axis(a: &Array, indices: &Array, values: &Array, axis: isize) -> Result<Array> {
    scatter_axis("scatter_add_axis", ScatterOp::Sum, a, indices, values, axis)
}

fn scatter_axis(
    name: &'static str,
    op: ScatterOp,
    a: &Array,
    indices: &Array,
    values: &Array,
    axis: isize,
) -> Result<Array> {
    let axis = normalize_axis(name, axis, a.ndim())?;
    check_indices(name, indices)?;
    if indices.ndim() != a.ndim() {
        let message = format!(
            "Indices of dimension {} does not match array of dimension {}.",
            indices.ndim(),
            a.ndim()
        );
        return Err(Error::invalid(name, message));
    }
    if a.size() == 0 {
        return Ok(a.clone());
    }
    let extra = values.ndim().saturating_sub(indices.ndim());
    let leading: Vec<isize> = (0..extra as isize).collect();
    let values = if extra == 0 { values.clone() } else { squeeze(values, &leading)? };
    let pair = ops::broadcast_arrays(&[indices, &astype(&values, a.dtype())?])?;
    let joint = ops::broadcast_except(name, [a, &pair[0], &pair[1]], axis)?;
    ops::node(IndexingOp::ScatterAxis { op, axis }, joint)
}

/// `a` with its elements where `mask` is true replaced by the elements of `value`, one after the
/// other. The mask has the first axes of `a`; a value that lacks the axis that counts the true
/// elements broadcasts. Elements for which there is no value stay.
///
/// # Errors
/// When the mask is no bool array, does not have the first axes of `a`, or the value has more
/// axes than the masked elements or does not broadcast to them.
pub fn masked_scatter(a: &Array, mask: &Array, value: &Array) -> Result<Array> {
    check_mask(a, mask)?;
    let rest = &a.shape()[mask.ndim()..];
    if value.ndim() > rest.len() + 1 {
        let message = format!(
            "Value array shape must be broadcastable with the last {} dimensions of the input.",
            rest.len()
        );
        return Err(Error::invalid("masked_scatter", message));
    }
    let rows = if value.ndim() == rest.len() + 1 { value.shape()[0] } else { mask.size() };
    let shape: Shape = std::iter::once(rows).chain(rest.iter().copied()).collect();
    let value = broadcast_to(&astype(value, a.dtype())?, &shape)?;
    if value.size() == 0 {
        return Ok(a.clone());
    }
    let flat = ops::flatten(mask, 0, -1)?;
    let counted = if mask.size() > i32::MAX as usize { Dtype::Int64 } else { Dtype::Int32 };
    let ranks = ops::cumsum(&astype(&flat, counted)?, Some(0), false, false, None)?;
    let kept = match rows < mask.size() {
        true => {
            ops::logical_and(&flat, &ops::less(&ranks, &Array::scalar_of(rows as f64, counted)?)?)?
        }
        false => flat,
    };
    let wide = |x: &Array| {
        let ones = std::iter::repeat_n(1, rest.len());
        let shape: Vec<isize> = mask.shape().iter().map(|&d| d as isize).chain(ones).collect();
        ops::reshape(x, &shape)
    };
    let picked = ops::take(&value, &ranks, 0)?;
    let picked = ops::reshape(&picked, &a.shape().iter().map(|&d| d as isize).collect::<Vec<_>>())?;
    ops::where_(&wide(&kept)?, &picked, a)
}

fn check_mask(a: &Array, mask: &Array) -> Result<()> {
    let refuse = |message: String| Err(Error::invalid("masked_scatter", message));
    if mask.dtype() != Dtype::Bool {
        return refuse("The mask has to be boolean.".into());
    }
    if mask.ndim() > a.ndim() {
        return refuse("The mask cannot have more dimensions than the target.".into());
    }
    if mask.shape() != &a.shape()[..mask.ndim()] {
        return refuse(format!(
            "The boolean mask should have the same shape as the beginning of the indexed array but the \
             mask has shape {:?} and the array has shape {:?}",
            mask.shape(),
            a.shape()
        ));
    }
    Ok(())
}

/// Slice updates, by how an update joins the elements that it goes to.
macro_rules! slice_updates {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// The update broadcasts to the slice and takes the dtype of `a`. The copy happens in place where
        /// nobody else needs `a`.
        ///
        /// # Errors
        /// As [`ops::slice()`], or when `update` does not broadcast to the slice.
        pub fn $name(
            a: &Array,
            update: &Array,
            start: &[isize],
            stop: &[isize],
            strides: &[isize],
        ) -> Result<Array> {
            let bounds = normalize_slice(stringify!($name), a.shape(), start, stop, strides)?;
            update_slice(ScatterOp::$op, a, update, bounds)
        }
    )*};
}

slice_updates! {
    /// A copy of `a` with a slice replaced by an update.
    slice_update => Assign;
    /// A copy of `a` with an update added to a slice.
    slice_update_add => Sum;
    /// A copy of `a` with a slice multiplied by an update.
    slice_update_prod => Prod;
    /// A copy of `a` with the larger of a slice and an update.
    slice_update_max => Max;
    /// A copy of `a` with the smaller of a slice and an update.
    slice_update_min => Min;
}

/// Updates a slice that is known to lie in `a`; the update broadcasts to it and takes the dtype of `a`.
pub(crate) fn update_slice(
    op: ScatterOp,
    a: &Array,
    update: &Array,
    bounds: SliceBounds,
) -> Result<Array> {
    let update = broadcast_to(&astype(update, a.dtype())?, &bounds.sizes)?;
    if bounds.sizes.contains(&0) {
        return Ok(a.clone());
    }
    let old = || ops::bounded_slice(a, bounds.clone());
    let joined = match op {
        ScatterOp::Assign => update,
        ScatterOp::Sum => ops::add(&old()?, &update)?,
        ScatterOp::Prod => ops::multiply(&old()?, &update)?,
        ScatterOp::Max => ops::maximum(&old()?, &update)?,
        ScatterOp::Min => ops::minimum(&old()?, &update)?,
    };
    if bounds.is_whole(a) {
        return Ok(joined);
    }
    let SliceBounds { start, strides, .. } = bounds;
    let primitive = ShapeOp::SliceUpdate { start, strides };
    ops::checked_node(primitive, [a.clone(), joined], Shape::from_slice(a.shape()), a.dtype())
}

/// The slice of `slice_size` (one for each axis) whose first element lies at the integers `start`,
/// one for each of `axes`, and at 0 of the others: MLX's `slice` with an array of starts.
///
/// # Errors
/// When there are not as many starts as axes, they are no integers, an axis is out of bounds or
/// given twice, or a size is too large.
pub fn dynamic_slice(
    a: &Array,
    start: &Array,
    axes: &[isize],
    slice_size: &[usize],
) -> Result<Array> {
    let (starts, axes) = dynamic_starts("slice", a, start, axes)?;
    if slice_size.len() != a.ndim() {
        let message = format!("Invalid slice size for array with {} dimensions.", a.ndim());
        return Err(Error::invalid("slice", message));
    }
    if slice_size.iter().zip(a.shape()).any(|(size, dim)| size > dim) {
        let message =
            format!("Invalid slice size {slice_size:?} for array with shape {:?}.", a.shape());
        return Err(Error::invalid("slice", message));
    }
    ops::gather(a, &starts.iter().collect::<Vec<_>>(), &axes, slice_size)
}

/// A copy of `a` with the slice whose first element lies at the integers `start` into `axes`
/// replaced by `update`: MLX's `slice_update` with an array of starts. Axes that the update lacks
/// are whole, or of size 1 if they are among `axes`.
///
/// # Errors
/// As [`dynamic_slice`], or when the update is too large.
pub fn dynamic_slice_update(
    a: &Array,
    update: &Array,
    start: &Array,
    axes: &[isize],
) -> Result<Array> {
    let (starts, axes) = dynamic_starts("slice_update", a, start, axes)?;
    let missing = a.ndim().saturating_sub(update.ndim());
    let own = update.shape().iter().zip(&a.shape()[missing..]).map(|(&u, &d)| u.min(d));
    let mut shape: Shape = a.shape()[..missing].iter().copied().chain(own).collect();
    axes.iter().filter(|&&x| (x as usize) < missing).for_each(|&x| shape[x as usize] = 1);
    let update = broadcast_to(&astype(update, a.dtype())?, &shape)?;
    scatter(a, &starts.iter().collect::<Vec<_>>(), &update, &axes)
}

/// The starts as scalars, and their axes.
fn dynamic_starts(
    op: &'static str,
    a: &Array,
    start: &Array,
    axes: &[isize],
) -> Result<(Vec<Array>, Vec<isize>)> {
    let refuse = |message: String| Err(Error::invalid(op, message));
    if start.size() > a.ndim() {
        return refuse(format!(
            "Invalid number of starting positions for array with dimension {}.",
            a.ndim()
        ));
    }
    if start.ndim() > 1 {
        return refuse(format!(
            "array of starting indices must be zero or one dimensional but has dimension {}.",
            start.ndim()
        ));
    }
    if start.size() != axes.len() {
        return refuse(format!(
            "Number of starting indices {} does not match number of axes {}.",
            start.size(),
            axes.len()
        ));
    }
    if !start.dtype().is_integer() {
        return refuse(format!("Start indices must be integers, got type {}.", start.dtype()));
    }
    let axes: Axes = axes
        .iter()
        .map(|&x| {
            normalize_axis(op, x, a.ndim()).map_err(|_| {
                let message = format!("Invalid axis {x} for array with dimension {}.", a.ndim());
                Error::invalid(op, message)
            })
        })
        .collect::<Result<_>>()?;
    if (1..axes.len()).any(|i| axes[..i].contains(&axes[i])) {
        return refuse("Repeat axes not allowed.".into());
    }
    let flat = ops::reshape(start, &[-1])?;
    let scalar = |i: isize| squeeze(&ops::slice_axis(&flat, 0, i, i + 1)?, &[0]);
    let starts = (0..axes.len() as isize).map(scalar).collect::<Result<_>>()?;
    Ok((starts, axes.iter().map(|&x| x as isize).collect()))
}
