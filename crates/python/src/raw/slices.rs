//! Slices as Python reads them.

use pyo3::{ffi, prelude::*, types::PySlice};

/// Start, stop and step of a slice. A part that is not there is where a slice without it begins or ends: 0
/// and `isize::MAX`, and for negative steps `isize::MAX` and `isize::MIN`. Python reads all three in one
/// call, where attributes take one each.
///
/// # Errors
/// When a part is no integer, or the step is zero.
pub(crate) fn unpack(slice: &Bound<'_, PySlice>) -> PyResult<[isize; 3]> {
    let [mut start, mut stop, mut step] = [0; 3];
    // SAFETY: it is a slice.
    let read = unsafe { ffi::PySlice_Unpack(slice.as_ptr(), &mut start, &mut stop, &mut step) };
    match read {
        0 => Ok([start, stop, step]),
        _ => Err(PyErr::fetch(slice.py())),
    }
}
