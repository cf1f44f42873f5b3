//! Transforms of functions of trees.

use std::cell::Cell;

use super::{Axes, Tree, flat};
use crate::{Array, Result, transforms};

/// Runs `fun` on `primals`; its results, and for each array of the primals the sum of the derivatives of all
/// results by it, each times its cotangent. There is a cotangent for each array of the results, but for those
/// that come out of [`ops::stop_gradient`](crate::ops::stop_gradient).
///
/// ```no_run
/// use mlx_vulkan_core::{Array, ops, transforms::tree};
/// # fn main() -> mlx_vulkan_core::Result<()> {
/// let primals = (Array::scalar(4.0f32)?, Array::scalar(2.0f32)?);
/// let cotangent = Array::scalar(3.0f32)?;
/// let (product, by) = tree::vjp(|(x, y)| ops::multiply(x, y), &primals, &cotangent)?;
/// assert_eq!(product.item::<f32>()?, 8.0);
/// assert_eq!((by.0.item::<f32>()?, by.1.item::<f32>()?), (6.0, 12.0));
/// # Ok(()) }
/// ```
///
/// # Errors
/// As of [`transforms::vjp`].
pub fn vjp<P: Tree, O: Tree>(
    fun: impl FnOnce(&P) -> Result<O>,
    primals: &P,
    cotangents: &impl Tree,
) -> Result<(O, P)> {
    let mut structure = None;
    let fun = flattened(fun, primals, &mut structure);
    let (outputs, derivatives) = transforms::vjp(fun, &flat(primals), &flat(cotangents))?;
    Ok((filled(structure, outputs)?, primals.with_arrays(derivatives)?))
}

/// Runs `fun` on `primals`; its results, and for each array of them its derivative along the tangents of all
/// primals.
///
/// ```no_run
/// use mlx_vulkan_core::{Array, ops, transforms::tree};
/// # fn main() -> mlx_vulkan_core::Result<()> {
/// let primals = [Array::scalar(4.0f32)?, Array::scalar(2.0f32)?];
/// let tangents = [Array::scalar(3.0f32)?, Array::scalar(2.0f32)?];
/// let (_, along) = tree::jvp(|[x, y]| ops::multiply(x, y), &primals, &tangents)?;
/// assert_eq!(along.item::<f32>()?, 4.0 * 2.0 + 3.0 * 2.0);
/// # Ok(()) }
/// ```
///
/// # Errors
/// As of [`transforms::jvp`].
pub fn jvp<P: Tree, O: Tree>(
    fun: impl FnOnce(&P) -> Result<O>,
    primals: &P,
    tangents: &P,
) -> Result<(O, O)> {
    let mut structure = None;
    let fun = flattened(fun, primals, &mut structure);
    let (outputs, along) = transforms::jvp(fun, &flat(primals), &flat(tangents))?;
    let outputs: O = filled(structure, outputs)?;
    let along = outputs.with_arrays(along)?;
    Ok((outputs, along))
}

/// Runs `fun` as if for every index of an axis of its arguments alone. `in_axes` says which axis that is of
/// each argument, or none: then it is the same for every index. `out_axes` says which axis of each result the
/// indices become; none is the last one of a result that is the same for every index.
///
/// ```no_run
/// use mlx_vulkan_core::{Array, Dtype, ops, transforms::tree};
/// # fn main() -> mlx_vulkan_core::Result<()> {
/// let rows = ops::ones(&[3, 4], Dtype::Float32)?;
/// let matrix = ops::ones(&[4, 2], Dtype::Float32)?;
/// let product = |(row, matrix): &(Array, Array)| ops::matmul(row, matrix);
/// let products = tree::vmap(product, &(rows, matrix), [Some(0), None], 0)?;
/// assert_eq!(products.shape(), [3, 2]);
/// # Ok(()) }
/// ```
///
/// # Errors
/// As of [`transforms::vmap`], and when the axes do not fit the trees.
pub fn vmap<P: Tree, O: Tree>(
    fun: impl FnOnce(&P) -> Result<O>,
    inputs: &P,
    in_axes: impl Into<Axes>,
    out_axes: impl Into<Axes>,
) -> Result<O> {
    let mut structure = None;
    let axes = Cell::new(Vec::new());
    let fun = |inputs: &P| {
        let outputs = fun(inputs)?;
        axes.set(out_axes.into().of(&outputs)?);
        Ok(outputs)
    };
    let fun = flattened(fun, inputs, &mut structure);
    let in_axes = in_axes.into().of(inputs)?;
    let outputs = transforms::vmap(fun, &flat(inputs), &in_axes, |_| Ok(axes.take()))?;
    filled(structure, outputs)
}

/// A function of trees as one of their arrays. The tree that it returns stays in `structure`.
pub(in crate::transforms) fn flattened<'f, P: Tree, O: Tree>(
    fun: impl FnOnce(&P) -> Result<O> + 'f,
    like: &'f P,
    structure: &'f mut Option<O>,
) -> impl FnOnce(&[Array]) -> Result<Vec<Array>> + 'f {
    move |arrays| {
        let outputs = fun(&like.with_arrays(arrays.iter().cloned())?)?;
        Ok(flat(structure.insert(outputs)))
    }
}

/// The tree that a function returned, with these arrays.
pub(in crate::transforms) fn filled<O: Tree>(
    structure: Option<O>,
    arrays: Vec<Array>,
) -> Result<O> {
    structure.expect("the function has run").with_arrays(arrays)
}
