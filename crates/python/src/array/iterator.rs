//! Iteration over the first axis.

use mlx::{Array, ops};
use parking_lot::Mutex;
use pyo3::{exceptions::PyTypeError, prelude::*};

use super::PyArray;
use crate::error::OrRaise;

/// Up to this many rows are split off by one operation, which has a gradient that is one operation, too.
const SPLIT: usize = 10;

/// Goes through the first axis of an array.
#[pyclass(module = "mlx.core", frozen)]
pub(crate) struct ArrayIterator {
    state: Mutex<State>,
}

struct State {
    array: Array,
    pieces: Vec<Array>,
    next: usize,
}

impl ArrayIterator {
    pub(super) fn new(array: Array) -> PyResult<Self> {
        let Some(&rows) = array.shape().first() else {
            return Err(PyTypeError::new_err("iteration over a 0-d array"));
        };
        let pieces = match rows {
            1..SPLIT => ops::split(&array, rows, 0).or_raise()?,
            _ => Vec::new(),
        };
        Ok(ArrayIterator { state: Mutex::new(State { array, pieces, next: 0 }) })
    }
}

#[pymethods]
impl ArrayIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> PyResult<Option<PyArray>> {
        let mut state = self.state.lock();
        let at = state.next;
        if at >= state.array.shape()[0] {
            return Ok(None);
        }
        state.next += 1;
        let row = match state.pieces.get(at) {
            Some(piece) => ops::squeeze(piece, &[0]),
            None => state.array.get_item(&[mlx::Index::Int(at as isize)]),
        };
        row.map(|row| Some(row.into())).or_raise()
    }
}
