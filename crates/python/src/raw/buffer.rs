//! Python's buffer protocol.

use std::{
    ffi::{CStr, c_int, c_void},
    mem::MaybeUninit,
};

use mlx::{
    Dtype,
    host_view::HostView,
    shape::{is_col_contiguous, is_row_contiguous},
};
use pyo3::{exceptions::PyBufferError, ffi, prelude::*};
use smallvec::SmallVec;

use super::{Foreign, Source, gather};
use crate::{
    arguments::fits_32_bits,
    array::PyArray,
    error::{OrRaise, released},
};

/// What a buffer that was handed out keeps alive.
struct Exported {
    /// The memory.
    view: HostView,
    /// In bytes; numpy asks for a buffer at each conversion, so most need no allocation.
    strides: SmallVec<[isize; 4]>,
}

/// The format of elements, in the struct module's characters and PEP 3118's.
fn format(dtype: Dtype) -> &'static CStr {
    match dtype {
        Dtype::Bool => c"?",
        Dtype::Uint8 => c"B",
        Dtype::Uint16 => c"H",
        Dtype::Uint32 => c"I",
        Dtype::Uint64 => c"Q",
        Dtype::Int8 => c"b",
        Dtype::Int16 => c"h",
        Dtype::Int32 => c"i",
        Dtype::Int64 => c"q",
        Dtype::Float16 => c"e",
        Dtype::Bfloat16 => c"bfloat16",
        Dtype::Float32 => c"f",
        Dtype::Float64 => c"d",
        Dtype::Complex64 => c"Zf",
    }
}

/// The elements behind a format, native and of 64-bit platforms.
fn source(format: &CStr, itemsize: usize) -> Option<Source> {
    let format = format.to_bytes();
    let format = format.strip_prefix(b"@").or(format.strip_prefix(b"=")).unwrap_or(format);
    let format = match cfg!(target_endian = "little") {
        true => format.strip_prefix(b"<").unwrap_or(format),
        false => format.strip_prefix(b">").unwrap_or(format),
    };
    let dtype = match (format, itemsize) {
        (b"?", 1) => Dtype::Bool,
        (b"B", 1) => Dtype::Uint8,
        (b"b", 1) => Dtype::Int8,
        (b"H", 2) => Dtype::Uint16,
        (b"h", 2) => Dtype::Int16,
        (b"I" | b"L", 4) => Dtype::Uint32,
        (b"i" | b"l", 4) => Dtype::Int32,
        (b"L" | b"Q" | b"N", 8) => Dtype::Uint64,
        (b"l" | b"q" | b"n", 8) => Dtype::Int64,
        (b"e", 2) => Dtype::Float16,
        (b"f", 4) => Dtype::Float32,
        (b"Zf", 8) => Dtype::Complex64,
        (b"d", 8) => return Some(Source::Double),
        (b"Zd", 16) => return Some(Source::DoubleComplex),
        (b"bfloat16", 2) => Dtype::Bfloat16,
        _ => return None,
    };
    Some(Source::Same(dtype))
}

#[pymethods]
impl PyArray {
    // SAFETY: what it fills in is released by `__releasebuffer__` alone.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: Python passes a buffer to fill in.
        unsafe { get(&slf, view, flags) }
    }

    // SAFETY: Python calls it once for each buffer that was filled in.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: the buffer is one that `__getbuffer__` filled in.
        unsafe { release(view) }
    }
}

/// Shows the elements of `object` to whoever asked for `view`.
///
/// # Safety
/// `view` is a buffer to fill in.
unsafe fn get(
    object: &Bound<'_, PyArray>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    // SAFETY: Python's protocol asks for no object in a buffer that is not given.
    unsafe { (*view).obj = std::ptr::null_mut() };
    let shared = match object.get().with(HostView::ready) {
        Some(shared) => shared,
        None => {
            let array = object.get().array();
            released(object.py(), || HostView::new(&array).map(Shown))?.0
        }
    };
    if !lies_as_asked(&shared, flags) {
        return Err(PyBufferError::new_err("The array's elements do not lie side by side."));
    }
    let itemsize = shared.dtype().size() as isize;
    let strides = shared.strides().iter().map(|&stride| stride * itemsize).collect();
    let exported = Box::new(Exported { view: shared, strides });
    let shape = exported.view.shape();
    // SAFETY: the buffer is the caller's to fill in; what it points to lives until `release`.
    unsafe {
        (*view).buf = exported.view.as_ptr().cast();
        (*view).len = shape.iter().product::<usize>() as isize * itemsize;
        (*view).itemsize = itemsize;
        (*view).readonly = 0;
        (*view).ndim = shape.len() as c_int;
        (*view).format = match flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
            true => format(exported.view.dtype()).as_ptr().cast_mut(),
            false => std::ptr::null_mut(),
        };
        let list = |list: *const isize, asked: c_int| match flags & asked == asked {
            true => list.cast_mut(),
            false => std::ptr::null_mut(),
        };
        // Sizes are the same bits with a sign.
        (*view).shape = list(shape.as_ptr().cast(), ffi::PyBUF_ND);
        (*view).strides = list(exported.strides.as_ptr(), ffi::PyBUF_STRIDES);
        (*view).suboffsets = std::ptr::null_mut();
        (*view).internal = Box::into_raw(exported).cast::<c_void>();
        (*view).obj = object.clone().into_any().into_ptr();
    }
    Ok(())
}

/// Whether the elements lie as is asked for: who asks for no strides takes them for dense rows.
fn lies_as_asked(view: &HostView, flags: c_int) -> bool {
    if view.shape().contains(&0) {
        return true;
    }
    let asks = |flag: c_int| flags & flag == flag;
    let rows = || is_row_contiguous(view.shape(), view.strides());
    let columns = || is_col_contiguous(view.shape(), view.strides());
    match asks(ffi::PyBUF_STRIDES) {
        false => rows(),
        true if asks(ffi::PyBUF_C_CONTIGUOUS) => rows(),
        true if asks(ffi::PyBUF_F_CONTIGUOUS) => columns(),
        true if asks(ffi::PyBUF_ANY_CONTIGUOUS) => rows() || columns(),
        true => true,
    }
}

/// A view on its way out of a closure that runs without the interpreter's lock.
struct Shown(HostView);

// SAFETY: the closure runs on the thread that takes the view.
unsafe impl Send for Shown {}

/// Ends what [`get`] began.
///
/// # Safety
/// `view` was filled in by [`get`], and this is the first time.
unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: `internal` is the box that `get` let go.
    drop(unsafe { Box::from_raw((*view).internal.cast::<Exported>()) });
}

/// A copy of what an object shows by the buffer protocol; `None` if it does not, or not as elements that
/// arrays can have.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Foreign>> {
    // SAFETY: any object can be asked.
    if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
        return Ok(None);
    }
    let mut view = MaybeUninit::<ffi::Py_buffer>::zeroed();
    let flags = ffi::PyBUF_FORMAT | ffi::PyBUF_STRIDES;
    // SAFETY: the buffer is there to be filled in.
    if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), flags) } != 0 {
        // It shows nothing of this kind; another way may be left.
        drop(PyErr::take(object.py()));
        return Ok(None);
    }
    // SAFETY: the call has filled it in; it is released below.
    let made = unsafe { copy(view.assume_init_ref()) };
    // SAFETY: it was filled in, and nobody uses it any more.
    unsafe { ffi::PyBuffer_Release(view.as_mut_ptr()) };
    made
}

/// # Safety
/// `view` is a buffer that is not released yet.
unsafe fn copy(view: &ffi::Py_buffer) -> PyResult<Option<Foreign>> {
    // numpy's dates show bytes without strides, although strides were asked for.
    if view.ndim > 0 && (view.shape.is_null() || view.strides.is_null()) {
        return Ok(None);
    }
    // SAFETY: Python's protocol: a missing format means bytes; lists have `ndim` elements.
    let (format, shape, strides) = unsafe {
        let format = if view.format.is_null() { c"B" } else { CStr::from_ptr(view.format) };
        let axes = view.ndim as usize;
        let list = |list: *const isize| match axes {
            0 => &[],
            _ => std::slice::from_raw_parts(list, axes),
        };
        (format, list(view.shape), list(view.strides))
    };
    let Some(source) = source(format, view.itemsize as usize) else { return Ok(None) };
    shape.iter().try_for_each(|&n| fits_32_bits(n as i64))?;
    let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
    // SAFETY: the buffer's owner keeps the elements while it is not released.
    let bytes = unsafe { gather(view.buf.cast(), &shape, strides, source.itemsize()) };
    source.copied(bytes, &shape).or_raise().map(Some)
}
