//! `a.at[…].add(v)` and its kin.

use mlx::{Array, ops};
use pyo3::{exceptions::PyValueError, prelude::*};

use super::PyArray;
use crate::{
    arguments::Operand,
    error::OrRaise,
    index::{Indices, Whole, indices},
};

/// Applies updates at an index; each counts, however often the index names an element.
#[pyclass(name = "ArrayAt", module = "mlx.core", frozen)]
pub(crate) struct PyArrayAt {
    array: Array,
    indices: Option<Indices>,
    /// Whether the index names the array itself, with which values are joined as by an operator.
    whole: Option<Whole>,
}

#[pymethods]
impl PyArrayAt {
    fn __getitem__(&self, indices: &Bound<'_, PyAny>) -> PyResult<PyArrayAt> {
        Ok(PyArrayAt {
            array: self.array.clone(),
            indices: Some(self::indices(indices)?),
            whole: Whole::of(indices, self.array.ndim()),
        })
    }
}

macro_rules! updates {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyArrayAt {$(
            $(#[$doc])*
            fn $name(&self, value: Operand) -> PyResult<PyArray> {
                let given = self.given()?;
                match self.whole {
                    Some(whole) => {
                        let value = whole.value(&self.array, &value).or_raise()?;
                        ops::$name(&self.array, value)
                    }
                    None => self.array.at(given).$name(value),
                }
                .map(PyArray::from)
                .or_raise()
            }
        )*}
    };
}

updates! {
    /// The array with ``value`` added.
    add;
    /// The array with ``value`` taken off.
    subtract;
    /// The array multiplied by ``value``.
    multiply;
    /// The array divided by ``value``.
    divide;
    /// The array with the larger of its elements and ``value``.
    maximum;
    /// The array with the smaller of its elements and ``value``.
    minimum;
}

impl PyArrayAt {
    fn given(&self) -> PyResult<&[mlx::Index]> {
        self.indices.as_deref().ok_or_else(|| {
            let message = "Must give indices to array.at (e.g. `x.at[0].add(4)`).";
            PyValueError::new_err(message)
        })
    }
}

#[pymethods]
impl PyArray {
    /// Updates at an index, each of which counts: ``x.at[idx].add(y)`` instead of ``x[idx] += y``.
    ///
    /// Example:
    ///     >>> a = mx.array([0, 0])
    ///     >>> a.at[mx.array([0, 1, 0, 1])].add(1)
    ///     array([2, 2], dtype=None)
    #[getter]
    fn at(&self) -> PyArrayAt {
        PyArrayAt { array: self.array(), indices: None, whole: None }
    }
}
