//! Gradients of scalar functions.

use std::collections::BTreeSet;

use super::{
    derivative::{Derived, stream_of, vjp_of},
    tree::{Tree, filled, flat, flattened},
};
use crate::{Array, Error, Result, ops, stream::with_stream};

/// What a function whose gradient is taken returns: a scalar, alone or with a tree of other results.
#[diagnostic::on_unimplemented(
    message = "the return value of the function whose gradient is taken is `{Self}`",
    note = "it should be a scalar `Array`, or a tuple of one and a tree of other results"
)]
pub trait Scalar: Tree {}

impl Scalar for Array {}

impl<A: Tree> Scalar for (Array, A) {}

/// The gradient of `fun`, which returns a scalar, at `at`: for each array of the tree its derivative by it.
///
/// ```no_run
/// use mlx_vulkan_core::{Array, ops, transforms::grad};
/// # fn main() -> mlx_vulkan_core::Result<()> {
/// let x = Array::scalar(3.0f32)?;
/// let by_x = grad(ops::square, &x)?;
/// assert_eq!(by_x.item::<f32>()?, 6.0);
/// let twice = grad(|x| grad(ops::square, x), &x)?;
/// assert_eq!(twice.item::<f32>()?, 2.0);
/// # Ok(()) }
/// ```
///
/// # Errors
/// Those of `fun`; when what it returns is no scalar; when the tree holds no array; when a primitive has no
/// derivative.
pub fn grad<P: Tree>(fun: impl FnOnce(&P) -> Result<Array>, at: &P) -> Result<P> {
    value_and_grad(fun, at).map(|(_, gradient)| gradient)
}

/// What `fun` returns at `at`, and the gradient of the scalar that it is or begins with. No derivative goes
/// through what it returns besides.
///
/// ```no_run
/// use mlx_vulkan_core::{Array, Result, Tree, ops, transforms::value_and_grad};
///
/// #[derive(Tree)]
/// #[tree(crate = mlx_vulkan_core)]
/// struct Line {
///     slope: Array,
///     offset: Array,
/// }
///
/// fn step(line: &Line, x: &Array, y: &Array) -> Result<Line> {
///     let loss = |line: &Line| {
///         let fit = ops::add(&ops::multiply(&line.slope, x)?, &line.offset)?;
///         let loss = ops::mean(&ops::square(&ops::subtract(&fit, y)?)?, &[], false)?;
///         Ok((loss, fit))
///     };
///     let ((loss, _fit), gradient) = value_and_grad(loss, line)?;
///     println!("{loss}");
///     let mut by = gradient.arrays().into_iter();
///     line.map_arrays(|_, a| ops::subtract(a, &ops::multiply(by.next().unwrap(), 0.1f32)?))
/// }
/// ```
///
/// # Errors
/// As of [`grad`].
pub fn value_and_grad<P: Tree, V: Scalar>(
    fun: impl FnOnce(&P) -> Result<V>,
    at: &P,
) -> Result<(V, P)> {
    let mut structure = None;
    let inputs = flat(at);
    let all: Vec<isize> = (0..inputs.len() as isize).collect();
    let fun = flattened(fun, at, &mut structure);
    let (values, gradient) = value_and_grad_of(fun, &inputs, &all)?;
    Ok((filled(structure, values)?, at.with_arrays(gradient)?))
}

/// What `fun` returns for `inputs`, and the derivatives of the first result, a scalar, by the inputs
/// `arguments`, in that order; negative ones count from the end.
///
/// # Errors
/// As of [`grad`], and when the arguments are none, repeated or not there.
pub fn value_and_grad_of(
    fun: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    inputs: &[Array],
    arguments: &[isize],
) -> Result<Derived> {
    let wanted = wanted(inputs.len(), arguments)?;
    let fun = |inputs: &[Array]| {
        let mut outputs = fun(inputs)?;
        for other in outputs.iter_mut().skip(1) {
            *other = with_stream(stream_of(other)?, || ops::stop_gradient(other))?;
        }
        Ok(outputs)
    };
    vjp_of(fun, inputs, &[Array::scalar(1.0f32)?], &wanted)
}

/// The arguments as indices.
fn wanted(inputs: usize, arguments: &[isize]) -> Result<Vec<usize>> {
    if arguments.is_empty() {
        return Err(Error::invalid("grad", "Must specify at least one argument."));
    }
    let index = |&argument: &isize| {
        let index = if argument < 0 { argument + inputs as isize } else { argument };
        let index = usize::try_from(index).ok().filter(|&index| index < inputs);
        let message = || format!("Invalid argument number for function with {inputs} inputs.");
        index.ok_or_else(|| Error::invalid("grad", message()))
    };
    let wanted: Vec<usize> = arguments.iter().map(index).collect::<Result<_>>()?;
    if wanted.iter().collect::<BTreeSet<_>>().len() != wanted.len() {
        return Err(Error::invalid("grad", "Repeat argument number not allowed in grad."));
    }
    Ok(wanted)
}
