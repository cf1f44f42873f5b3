//! Padding.

use mlx::ops;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyModule,
};
use smallvec::SmallVec;

use crate::{
    arguments::{ArrayArg, Operand, dimension, integers, one},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// Elements before and behind each axis: `n`, `(n,)` and `(low, high)` are for all of them, a list of pairs
/// has one for each.
struct Widths(SmallVec<[(usize, usize); 4]>);

/// One pair.
fn pair(widths: &[isize]) -> PyResult<(usize, usize)> {
    let (low, high) = match *widths {
        [both] => (both, both),
        [low, high] => (low, high),
        _ => {
            let message = format!("a padding is one or two integers, not {}", widths.len());
            return Err(PyTypeError::new_err(message));
        }
    };
    match (usize::try_from(low), usize::try_from(high)) {
        (Ok(low), Ok(high)) => Ok((low, high)),
        _ => {
            let message =
                format!("[pad] Padding sizes must not be negative but got ({low}, {high}).");
            Err(PyValueError::new_err(message))
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Widths {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let for_all = |widths: &[isize]| Ok(Widths(SmallVec::from_slice(&[pair(widths)?])));
        if one(&object)?.is_some() {
            return for_all(&[dimension(&object)?]);
        }
        let mut pairs = SmallVec::new();
        for item in object.try_iter()? {
            let item = item?;
            if one(&item)?.is_some() {
                return for_all(&integers::<isize>(&object)?);
            }
            let widths = integers::<isize>(&item)?;
            if widths.len() != 2 {
                let message = "the padding of an axis is a pair of integers";
                return Err(PyTypeError::new_err(message));
            }
            pairs.push(pair(&widths)?);
        }
        Ok(Widths(pairs))
    }
}

/// Puts elements before and behind each axis.
///
/// Args:
///     a (array): Input array.
///     pad_width (int, tuple(int) or list(tuple(int, int))): How many: one number, or a pair of numbers
///       before and behind, for all axes, or a pair for each.
///     mode (str): ``"constant"``: all the same. ``"edge"``: the outermost element. ``"reflect"``: back from
///       it, without repeating it. ``"symmetric"``: with repeating it. Default: ``"constant"``.
///     constant_values (scalar or array): What ``"constant"`` puts there. Default: ``0``.
///
/// Returns:
///     array: The padded array.
#[pyfunction]
#[pyo3(
    signature = (a, pad_width, mode="constant", constant_values=Operand::Int(0), *, stream=None),
    text_signature = "(a, pad_width, mode='constant', constant_values=0, *, stream=None)"
)]
fn pad(
    a: ArrayArg,
    pad_width: Widths,
    mode: &str,
    constant_values: Operand,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::pad(&a, &pad_width.0, mode, constant_values))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: pad);
    Ok(())
}
