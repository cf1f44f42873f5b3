//! Ranges of numbers, and windows.

use mlx::{Dtype, ops};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyModule, PyTuple},
};

use super::create::or_float32;
use crate::{
    arguments::Size,
    array::{PyArray, apply},
    dtype::PyDtype,
    functions,
    stream::Target,
};

/// A Python number, and the dtype that it has by itself. Numbers of other libraries are none.
#[derive(Clone, Copy)]
struct Number {
    value: f64,
    dtype: Dtype,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Number {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(value) = object.cast::<PyBool>() {
            Ok(Number { value: value.is_true().into(), dtype: Dtype::Bool })
        } else if object.is_instance_of::<PyInt>() {
            let message = |_| PyTypeError::new_err(format!("{object:?} has more than 64 bits"));
            let value: i64 = object.extract().map_err(message)?;
            Ok(Number { value: value as f64, dtype: ops::dtype_of_int(value) })
        } else if let Ok(value) = object.cast::<PyFloat>() {
            Ok(Number { value: value.value(), dtype: Dtype::Float32 })
        } else {
            Err(PyTypeError::new_err(format!("{} is no number", object.get_type().name()?)))
        }
    }
}

/// An argument of Python, if it was given.
type Given<'py> = Option<Bound<'py, PyAny>>;

/// Arguments by their names; `None` if there are others, or too many.
fn bound<'py, const N: usize>(
    names: [&str; N],
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<[Given<'py>; N]>> {
    if args.len() > N {
        return Ok(None);
    }
    let mut values: [Given<'py>; N] = std::array::from_fn(|_| None);
    for (value, arg) in values.iter_mut().zip(args.iter()) {
        *value = Some(arg);
    }
    let Some(kwargs) = kwargs else { return Ok(Some(values)) };
    let mut known = kwargs.contains("stream")? as usize;
    for (at, name) in names.into_iter().enumerate() {
        let Some(arg) = kwargs.get_item(name)? else { continue };
        if at < args.len() {
            return Ok(None);
        }
        values[at] = Some(arg);
        known += 1;
    }
    Ok((kwargs.len() == known).then_some(values))
}

fn optional_number(value: &Given<'_>) -> PyResult<Option<Number>> {
    match value {
        Some(value) if !value.is_none() => Ok(Some(value.extract()?)),
        _ => Ok(None),
    }
}

fn optional_dtype(value: &Given<'_>) -> PyResult<Option<PyDtype>> {
    match value {
        Some(value) if !value.is_none() => Ok(Some(*value.cast::<PyDtype>()?.get())),
        _ => Ok(None),
    }
}

/// What a range is made of.
struct Range {
    start: Number,
    stop: Number,
    step: Option<Number>,
    dtype: Option<PyDtype>,
}

/// Where a range starts that has no start, which has no say in the dtype.
const ZERO: Number = Number { value: 0.0, dtype: Dtype::Bool };

impl Range {
    /// `arange(start, stop, step, dtype)`; a stop of `None` makes `start` the stop.
    fn from_start([start, stop, step, dtype]: &[Given<'_>; 4]) -> PyResult<Option<Range>> {
        let (Some(start), true) = (optional_number(start)?, stop.is_some()) else {
            return Ok(None);
        };
        let (start, stop) = optional_number(stop)?.map_or((ZERO, start), |stop| (start, stop));
        let (step, dtype) = (optional_number(step)?, optional_dtype(dtype)?);
        Ok(Some(Range { start, stop, step, dtype }))
    }

    /// `arange(stop, step, dtype)`.
    fn to_stop([stop, step, dtype]: &[Given<'_>; 3]) -> PyResult<Option<Range>> {
        let Some(stop) = optional_number(stop)? else { return Ok(None) };
        let (step, dtype) = (optional_number(step)?, optional_dtype(dtype)?);
        Ok(Some(Range { start: ZERO, stop, step, dtype }))
    }

    /// The range of a call. Arguments of other types than the first form takes may fit the second one.
    fn of(
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Range>> {
        if let Some(args) = bound(["start", "stop", "step", "dtype"], args, kwargs)?
            && let Ok(Some(range)) = Range::from_start(&args)
        {
            return Ok(Some(range));
        }
        match bound(["stop", "step", "dtype"], args, kwargs)? {
            Some(args) => Range::to_stop(&args),
            None => Ok(None),
        }
    }

    fn dtype(&self) -> Dtype {
        let step = self.step.map_or(Dtype::Bool, |step| step.dtype);
        let inferred = self.start.dtype.promote(self.stop.dtype).promote(step);
        self.dtype.map_or(inferred, |dtype| dtype.0)
    }
}

/// Numbers from a start, 0 if there is none, to before a stop: ``arange(stop, step, dtype)`` or
/// ``arange(start, stop, step, dtype)``.
///
/// Args:
///     start (float or int, optional): The first number. Default: ``0``.
///     stop (float or int): Where to end; it is no part of the range.
///     step (float or int, optional): The distance of two numbers. Default: ``1``.
///     dtype (Dtype, optional): Type of the elements. Default: ``int32``, or ``int64`` for wide ones, if all
///       arguments are integers, else ``float32``.
///
/// Returns:
///     array: The numbers.
///
/// Example:
///     >>> mx.arange(1, 7, 2)
///     array([1, 3, 5], dtype=None)
#[pyfunction]
#[pyo3(
    signature = (*args, **kwargs),
    text_signature = "(start, stop=None, step=None, dtype=None, *, stream=None)"
)]
fn arange(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<PyArray> {
    let stream: Given<'_> = match kwargs {
        Some(kwargs) => kwargs.get_item("stream")?,
        None => None,
    };
    let stream: Option<Target> = match stream {
        Some(stream) => stream.extract()?,
        None => None,
    };
    let range = Range::of(args, kwargs)?.ok_or_else(|| {
        let message = "arange takes (stop, step, dtype) or (start, stop, step, dtype)";
        PyTypeError::new_err(message)
    })?;
    let step = range.step.map_or(1.0, |step| step.value);
    apply(stream, || ops::arange(range.start.value, range.stop.value, step, range.dtype()))
}

/// Evenly spaced numbers.
///
/// Args:
///     start (scalar): The first one.
///     stop (scalar): The last one.
///     num (int, optional): How many. Default: ``50``.
///     endpoint (bool): ``stop`` is the last one, not the next one behind it. Default: ``True``.
///     dtype (Dtype, optional): Type of the elements. Default: ``float32``.
///
/// Returns:
///     array: The numbers.
#[pyfunction]
#[pyo3(
    signature = (start, stop, num=Size(50), endpoint=true, dtype=None, stream=None),
    text_signature = "(start, stop, num=50, endpoint=True, dtype=None, stream=None)"
)]
fn linspace(
    start: f64,
    stop: f64,
    num: Size,
    endpoint: bool,
    dtype: Option<PyDtype>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::linspace(start, stop, num.0, endpoint, or_float32(dtype)))
}

macro_rules! windows {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     M (int): Number of samples.
        ///
        /// Returns:
        ///     array: The window, ``float32``; empty if there are no samples.
        #[pyfunction]
        #[pyo3(signature = (M, *, stream=None))]
        #[allow(non_snake_case, reason = "the name in Python")]
        fn $name(M: isize, stream: Option<Target>) -> PyResult<PyArray> {
            apply(stream, || ops::$name(M.max(0) as usize))
        }
    )*};
}

windows! {
    /// The Bartlett window: a triangle with zeros at its ends.
    bartlett;
    /// The Blackman window: a sum of cosines with small side lobes.
    blackman;
    /// The Hamming window: a raised cosine that does not end at zero.
    hamming;
    /// The Hanning window: a raised cosine with zeros at its ends.
    hanning;
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: arange linspace bartlett blackman hamming hanning);
    Ok(())
}
