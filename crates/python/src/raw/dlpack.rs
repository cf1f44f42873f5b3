//! DLPack: arrays as capsules (`dlpack.h`, version 1.0 and before).

use std::ffi::{CStr, c_void};

use mlx::{Array, Dtype, host_view::HostView, ops};
use pyo3::{
    exceptions::{PyBufferError, PyValueError},
    ffi,
    prelude::*,
};

use super::{Foreign, Source, gather};
use crate::{
    arguments::fits_32_bits,
    error::{OrRaise, released},
};

/// `kDLCPU`.
pub(crate) const CPU: i32 = 1;
/// Kinds of devices whose memory the host can read: `kDLCPU`, `kDLCUDAHost`, `kDLROCMHost`.
const READABLE: [i32; 3] = [CPU, 3, 11];

const NAME: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const VERSION: Version = Version { major: 1, minor: 0 };

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// `DLDataTypeCode` and bits of a dtype.
fn code(dtype: Dtype) -> (u8, u8) {
    let code = match dtype {
        Dtype::Bool => 6,
        Dtype::Bfloat16 => 4,
        Dtype::Complex64 => 5,
        dtype if dtype.is_floating() => 2,
        dtype if dtype.is_unsigned_integer() => 1,
        _ => 0,
    };
    (code, 8 * dtype.size() as u8)
}

fn source(code: u8, bits: u8, lanes: u16) -> Option<Source> {
    match (code, bits, lanes) {
        (2, 64, 1) => Some(Source::Double),
        (5, 128, 1) => Some(Source::DoubleComplex),
        (.., 1) => {
            let dtype = Dtype::ALL.into_iter().find(|&dtype| self::code(dtype) == (code, bits));
            dtype.map(Source::Same)
        }
        _ => None,
    }
}

/// What an exported tensor points to.
struct Owner<T> {
    _view: HostView,
    shape: Vec<i64>,
    strides: Vec<i64>,
    managed: Option<T>,
}

/// A capsule with the elements of `array`, as `__dlpack__` returns it.
pub(crate) fn export<'py>(
    py: Python<'py>,
    array: &Array,
    max_version: Option<(u32, u32)>,
    device: Option<(i32, i32)>,
    copy: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if device.is_some_and(|(kind, _)| kind != CPU) {
        let message = "Cannot export mlx array to requested DLPack device.";
        return Err(PyBufferError::new_err(message));
    }
    let array = match copy {
        true => {
            let bytes = released(py, || array.to_bytes())?;
            Array::from_bytes(&bytes, array.shape(), array.dtype()).or_raise()?
        }
        false => array.clone(),
    };
    struct Shown(HostView);
    // SAFETY: the closure runs on the thread that takes the view.
    unsafe impl Send for Shown {}
    let view = released(py, || HostView::new(&array).map(Shown))?.0;
    match max_version.is_some_and(|(major, _)| major >= 1) {
        true => versioned(py, view),
        false => unversioned(py, view),
    }
}

fn owner<T>(view: HostView) -> Box<Owner<T>> {
    let shape = view.shape().iter().map(|&n| n as i64).collect();
    let strides = view.strides().iter().map(|&stride| stride as i64).collect();
    Box::new(Owner { _view: view, shape, strides, managed: None })
}

impl<T> Owner<T> {
    fn tensor(&mut self) -> Tensor {
        let (code, bits) = code(self._view.dtype());
        Tensor {
            data: self._view.as_ptr().cast(),
            device_type: CPU,
            device_id: 0,
            ndim: self.shape.len() as i32,
            code,
            bits,
            lanes: 1,
            shape: self.shape.as_mut_ptr(),
            strides: self.strides.as_mut_ptr(),
            byte_offset: 0,
        }
    }
}

macro_rules! exporter {
    (
        $name:ident, $managed:ident, $deleter:ident, $destructor:ident, $capsule:ident,
        $($field:ident: $value:expr),*
    ) => {
        fn $name(py: Python<'_>, view: HostView) -> PyResult<Bound<'_, PyAny>> {
            let mut owner = owner::<$managed>(view);
            let tensor = owner.tensor();
            let context = (&raw mut *owner).cast::<c_void>();
            owner.managed = Some($managed { $($field: $value,)* tensor, context, deleter: Some($deleter) });
            let owner = Box::leak(owner);
            let managed = owner.managed.as_mut().map_or(std::ptr::null_mut(), |m| &raw mut *m);
            // SAFETY: the capsule's destructor, or who takes the tensor out of it, calls the deleter.
            unsafe {
                let capsule = ffi::PyCapsule_New(managed.cast(), $capsule.as_ptr(), Some($destructor));
                Bound::from_owned_ptr_or_err(py, capsule)
            }
        }

        // SAFETY: called once by whoever owns the tensor.
        unsafe extern "C" fn $deleter(managed: *mut $managed) {
            // SAFETY: `context` is the box that was leaked for this tensor.
            drop(unsafe { Box::from_raw((*managed).context.cast::<Owner<$managed>>()) });
        }

        // SAFETY: Python calls it when the capsule goes.
        unsafe extern "C" fn $destructor(capsule: *mut ffi::PyObject) {
            // SAFETY: a capsule that was used has another name.
            unsafe {
                if ffi::PyCapsule_IsValid(capsule, $capsule.as_ptr()) == 1 {
                    let managed = ffi::PyCapsule_GetPointer(capsule, $capsule.as_ptr());
                    $deleter(managed.cast());
                }
            }
        }
    };
}

exporter!(unversioned, Managed, delete, destroy, NAME,);
exporter!(
    versioned, ManagedVersioned, delete_versioned, destroy_versioned, VERSIONED,
    version: VERSION, flags: 0
);

/// A copy of what an object shows by `__dlpack__`; `None` if it has no such method.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Foreign>> {
    let py = object.py();
    let Some(method) = object.getattr_opt(pyo3::intern!(py, "__dlpack__"))? else {
        return Ok(None);
    };
    let options = pyo3::types::PyDict::new(py);
    options.set_item("max_version", (VERSION.major, VERSION.minor))?;
    // Producers before version 1.0 do not know the argument.
    let capsule = match method.call((), Some(&options)) {
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            method.call0()?
        }
        result => result?,
    };
    // SAFETY: the capsule is asked for its name before it is used.
    unsafe { take(&capsule) }.map(Some)
}

/// # Safety
/// A capsule named as DLPack names it holds what DLPack says.
unsafe fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Foreign> {
    let raw = capsule.as_ptr();
    // SAFETY: names are checked before pointers are used; a used capsule is renamed, so that nobody deletes
    // its tensor a second time.
    unsafe {
        if ffi::PyCapsule_IsValid(raw, VERSIONED.as_ptr()) == 1 {
            let managed =
                ffi::PyCapsule_GetPointer(raw, VERSIONED.as_ptr()).cast::<ManagedVersioned>();
            ffi::PyCapsule_SetName(raw, USED_VERSIONED.as_ptr());
            let made = match (*managed).version.major {
                1 => copy(&(*managed).tensor),
                major => Err(PyBufferError::new_err(format!("DLPack {major} is not known"))),
            };
            if let Some(deleter) = (*managed).deleter {
                deleter(managed);
            }
            return made;
        }
        if ffi::PyCapsule_IsValid(raw, NAME.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(raw, NAME.as_ptr()).cast::<Managed>();
            ffi::PyCapsule_SetName(raw, USED.as_ptr());
            let made = copy(&(*managed).tensor);
            if let Some(deleter) = (*managed).deleter {
                deleter(managed);
            }
            return made;
        }
    }
    Err(PyBufferError::new_err("__dlpack__ returned no DLPack capsule"))
}

/// A copy of the memory that the elements lie in, with their strides.
///
/// # Safety
/// The tensor is alive and describes its memory.
unsafe fn copy(tensor: &Tensor) -> PyResult<Foreign> {
    if !READABLE.contains(&tensor.device_type) {
        return Err(PyValueError::new_err("[convert] Unsupported device."));
    }
    let Some(source) = source(tensor.code, tensor.bits, tensor.lanes) else {
        return Err(PyValueError::new_err("[convert] Cannot convert array to mlx."));
    };
    let axes = tensor.ndim as usize;
    let list = |list: *const i64| match axes {
        0 => &[],
        // SAFETY: lists have `ndim` elements.
        _ => unsafe { std::slice::from_raw_parts(list, axes) },
    };
    list(tensor.shape).iter().try_for_each(|&n| fits_32_bits(n))?;
    let shape: Vec<usize> = list(tensor.shape).iter().map(|&n| n as usize).collect();
    let dense = mlx::shape::Layout::row_major(&shape).strides;
    let strides: Vec<isize> = match tensor.strides.is_null() {
        true => dense.to_vec(),
        false => list(tensor.strides).iter().map(|&stride| stride as isize).collect(),
    };
    if strides.iter().any(|&stride| stride < 0) {
        let message = "Cannot convert DLPack arrays with negative strides to mlx array.";
        return Err(PyValueError::new_err(message));
    }
    let last = |(&n, &stride): (&usize, &isize)| (n - 1) * stride as usize;
    let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    let Source::Same(dtype) = source else {
        let strides: Vec<isize> =
            strides.iter().map(|&stride| stride * source.itemsize() as isize).collect();
        // SAFETY: the tensor says that its elements lie there.
        let bytes = unsafe { gather(first, &shape, &strides, source.itemsize()) };
        return source.copied(bytes, &shape).or_raise();
    };
    let span = match shape.contains(&0) {
        true => 0,
        false => 1 + shape.iter().zip(&strides).map(last).sum::<usize>(),
    };
    let bytes = match span {
        0 => &[],
        // SAFETY: the tensor says that its elements lie there, the last one at the end of this range.
        _ => unsafe { std::slice::from_raw_parts(first, span * dtype.size()) },
    };
    let flat = Array::from_bytes(bytes, &[span], dtype).or_raise()?;
    ops::as_strided(&flat, &shape, &strides, 0).or_raise().map(Foreign::Array)
}
