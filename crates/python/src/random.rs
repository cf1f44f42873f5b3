//! `mlx.core.random`.

use mlx::{Dtype, ops, random};
use pyo3::{
    exceptions::{PyAttributeError, PyIndexError, PyTypeError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyInt, PyModule, PyType},
};

use crate::{
    arguments::{ArrayArg, Operand, Sizes, given},
    array::{PyArray, apply},
    dtype::PyDtype,
    error::OrRaise,
    functions,
    stream::Target,
};

pub(crate) fn register(core: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &PyModule::new(core.py(), "mlx.core.random")?;
    module.add_class::<RandomState>()?;
    functions!(module: seed key split uniform normal multivariate_normal randint bernoulli
        truncated_normal gumbel categorical laplace permutation);
    module.add_function(wrap_pyfunction!(attribute, module)?)?;
    core.add("random", module)
}

// One for all threads, so that a function which captures it is compiled for each of them.
/// Stands for the calling thread's state: a list of one key. Trees have the key in its place.
#[pyclass(name = "_RandomState", module = "mlx.core.random", frozen)]
struct RandomState;

#[pymethods]
impl RandomState {
    fn __len__(&self) -> usize {
        1
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Py<StateKey>> {
        match index {
            0 | -1 => Py::new(py, (StateKey, random::state().or_raise()?.into())),
            _ => Err(PyIndexError::new_err("random state index out of range")),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let keys = [self.__getitem__(py, 0)?];
        Ok(pyo3::types::PyList::new(py, keys)?.try_iter()?.into_any())
    }
}

/// The key of the calling thread's generator, which goes on from there when elements are assigned.
#[pyclass(name = "_StateKey", module = "mlx.core.random", frozen, extends = PyArray)]
struct StateKey;

#[pymethods]
impl StateKey {
    // A copy is an array like any other, which has no generator.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyAny>,))> {
        Ok((slf.py().get_type::<PyArray>(), (slf.call_method0("__array__")?,)))
    }

    fn __setitem__(slf: &Bound<'_, Self>, arg0: &Bound<'_, PyAny>, arg1: Operand) -> PyResult<()> {
        let key = slf.as_super().get();
        key.__setitem__(arg0, arg1)?;
        random::set_state(key.array()).or_raise()
    }
}

/// Whether an object is `mlx.core.random.state`.
pub(crate) fn is_state(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<RandomState>()
}

/// Attributes that are made when they are asked for: `state`.
#[pyfunction]
#[pyo3(name = "__getattr__", signature = (arg, /))]
fn attribute(py: Python<'_>, arg: &str) -> PyResult<Py<PyAny>> {
    static STATE: PyOnceLock<Py<RandomState>> = PyOnceLock::new();
    match arg {
        "state" => {
            let state = STATE.get_or_try_init(py, || Py::new(py, RandomState))?;
            Ok(state.clone_ref(py).into_any())
        }
        _ => {
            let message = format!("Module 'random' has no attribute '{arg}'");
            Err(PyAttributeError::new_err(message))
        }
    }
}

/// A dtype, or the one that there is by default.
fn or_default(dtype: Option<PyDtype>, default: Dtype) -> Dtype {
    dtype.map_or(default, |dtype| dtype.0)
}

/// A shape; none is that of a scalar.
fn or_scalar(shape: &Option<Sizes>) -> &[usize] {
    shape.as_ref().map_or(&[], |shape| &shape.0)
}

/// Seeds the calling thread's generator.
///
/// Args:
///     seed (int): The seed.
#[pyfunction]
fn seed(#[pyo3(from_py_with = seed_of)] seed: u64) -> PyResult<()> {
    random::seed(seed).or_raise()
}

/// An integer of 64 bits without a sign.
fn seed_of(seed: &Bound<'_, PyAny>) -> PyResult<u64> {
    seed.extract().map_err(|_| {
        PyTypeError::new_err(format!("a seed is an integer from 0 to 2^64 - 1, not {seed:?}"))
    })
}

/// A key from a seed.
///
/// Args:
///     seed (int): The seed.
///
/// Returns:
///     array: The key: uint32 of shape (2,).
#[pyfunction]
fn key(#[pyo3(from_py_with = seed_of)] seed: u64) -> PyResult<PyArray> {
    random::key(seed).map(PyArray::from).or_raise()
}

/// New keys from a key.
///
/// Args:
///     key (array): The key.
///     num (int, optional): How many. Default: 2.
///
/// Returns:
///     array: The keys, of shape (num, 2).
#[pyfunction]
#[pyo3(signature = (key, num=2, stream=None))]
fn split(key: ArrayArg, num: usize, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || random::split_n(&key, num))
}

/// Uniform numbers in ``[low, high)``.
///
/// Args:
///     low (scalar or array, optional): Lower bound. Default: 0.
///     high (scalar or array, optional): Upper bound. Default: 1.
///     shape (list(int), optional): Shape of the result, to which the bounds broadcast. Default: ``[]``.
///     dtype (Dtype, optional): Type of the result. Default: ``float32``.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The numbers.
#[pyfunction]
#[pyo3(
    signature = (low=None, high=None, shape=None, dtype=None, key=None, stream=None),
    text_signature = "(low=0, high=1, shape=[], dtype=None, key=None, stream=None)"
)]
fn uniform(
    low: Option<Operand>,
    high: Option<Operand>,
    shape: Option<Sizes>,
    dtype: Option<PyDtype>,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let (low, high) = (low.unwrap_or(Operand::Int(0)), high.unwrap_or(Operand::Int(1)));
    let dtype = or_default(dtype, Dtype::Float32);
    apply(stream, || random::uniform(low, high, or_scalar(&shape), dtype, given(&key)))
}

/// Normal numbers.
///
/// Args:
///     shape (list(int), optional): Shape of the result. Default: ``[]``.
///     dtype (Dtype, optional): Type of the result: floating or complex. Default: ``float32``.
///     loc (scalar or array, optional): Mean, which broadcasts to the shape. Default: 0.
///     scale (scalar or array, optional): Standard deviation, which broadcasts to the shape. Default: 1.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The numbers.
#[pyfunction]
#[pyo3(
    signature = (shape=None, dtype=None, loc=None, scale=None, key=None, stream=None),
    text_signature = "(shape=[], dtype=None, loc=None, scale=None, key=None, stream=None)"
)]
fn normal(
    shape: Option<Sizes>,
    dtype: Option<PyDtype>,
    loc: Option<Operand>,
    scale: Option<Operand>,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let dtype = or_default(dtype, Dtype::Float32);
    apply(stream, || {
        let array = |given: Option<Operand>| {
            given.map(|x| ops::Operand::to_array(&x, Some(dtype))).transpose()
        };
        let (loc, scale) = (array(loc)?, array(scale)?);
        random::normal_with(or_scalar(&shape), dtype, loc.as_ref(), scale.as_ref(), given(&key))
    })
}

/// Normal numbers of several variables.
///
/// Args:
///     mean (array): Means, of shape (..., n).
///     cov (array): Covariances, of shape (..., n, n).
///     shape (list(int), optional): Shape of the result without its last axis, which the leading axes of
///       means and covariances broadcast to. Default: ``[]``.
///     dtype (Dtype, optional): Type of the result: ``float32``.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The numbers.
#[pyfunction]
#[pyo3(
    signature = (mean, cov, shape=None, dtype=None, key=None, stream=None),
    text_signature = "(mean, cov, shape=[], dtype=None, key=None, stream=None)"
)]
fn multivariate_normal(
    mean: ArrayArg,
    cov: ArrayArg,
    shape: Option<Sizes>,
    dtype: Option<PyDtype>,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let dtype = or_default(dtype, Dtype::Float32);
    apply(stream, || {
        random::multivariate_normal(&mean, &cov, or_scalar(&shape), dtype, given(&key))
    })
}

/// Integers in ``[low, high)``.
///
/// Args:
///     low (scalar or array): Lower bound.
///     high (scalar or array): Upper bound.
///     shape (list(int), optional): Shape of the result, to which the bounds broadcast. Default: ``[]``.
///     dtype (Dtype, optional): Type of the result. Default: ``int32``.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The integers.
#[pyfunction]
#[pyo3(
    signature = (low, high, shape=None, dtype=None, key=None, stream=None),
    text_signature = "(low, high, shape=[], dtype=None, key=None, stream=None)"
)]
fn randint(
    low: Operand,
    high: Operand,
    shape: Option<Sizes>,
    dtype: Option<PyDtype>,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let dtype = or_default(dtype, Dtype::Int32);
    apply(stream, || random::randint(low, high, or_scalar(&shape), dtype, given(&key)))
}

/// Booleans that are true with a probability.
///
/// Args:
///     p (scalar or array, optional): The probability. Default: 0.5.
///     shape (list(int), optional): Shape of the result, to which ``p`` broadcasts. Default: that of ``p``.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The booleans.
#[pyfunction]
#[pyo3(
    signature = (p=None, shape=None, key=None, stream=None),
    text_signature = "(p=0.5, shape=None, key=None, stream=None)"
)]
fn bernoulli(
    p: Option<Operand>,
    shape: Option<Sizes>,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let p = p.unwrap_or(Operand::Float(0.5)).into_array()?;
    let shape = shape.map_or_else(|| p.shape().to_vec(), |shape| shape.0.to_vec());
    apply(stream, || random::bernoulli(&p, &shape, given(&key)))
}

/// Normal numbers between bounds.
///
/// Args:
///     lower (scalar or array): Lower bound.
///     upper (scalar or array): Upper bound.
///     shape (list(int), optional): Shape of the result, to which the bounds broadcast. Default: what they
///       broadcast to together.
///     dtype (Dtype, optional): Type of the result. Default: ``float32``.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The numbers.
#[pyfunction]
#[pyo3(signature = (lower, upper, shape=None, dtype=None, key=None, stream=None))]
fn truncated_normal(
    lower: Operand,
    upper: Operand,
    shape: Option<Sizes>,
    dtype: Option<PyDtype>,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let (lower, upper) = (lower.into_array()?, upper.into_array()?);
    let dtype = or_default(dtype, Dtype::Float32);
    apply(stream, || {
        let shape = match shape {
            Some(shape) => shape.0.to_vec(),
            None => ops::broadcast_shapes(&[lower.shape(), upper.shape()])?.to_vec(),
        };
        random::truncated_normal(&lower, &upper, &shape, dtype, given(&key))
    })
}

/// Numbers of the standard Gumbel distribution.
///
/// Args:
///     shape (list(int), optional): Shape of the result. Default: ``[]``.
///     dtype (Dtype, optional): Type of the result. Default: ``float32``.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The numbers.
#[pyfunction]
#[pyo3(
    signature = (shape=None, dtype=None, key=None, stream=None),
    text_signature = "(shape=[], dtype=None, key=None, stream=None)"
)]
fn gumbel(
    shape: Option<Sizes>,
    dtype: Option<PyDtype>,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let dtype = or_default(dtype, Dtype::Float32);
    apply(stream, || random::gumbel(or_scalar(&shape), dtype, given(&key)))
}

/// Indices drawn with the probabilities that logits stand for.
///
/// Args:
///     logits (array): Logarithms of probabilities, up to a constant.
///     axis (int, optional): The axis of the categories. Default: the last one.
///     shape (list(int), optional): Shape of the result, to which the other axes broadcast. Default: theirs.
///     num_samples (int, optional): Instead of a shape: how many indices for each of the other axes'
///       elements, along a new last axis.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The indices, uint32.
#[pyfunction]
#[pyo3(
    signature = (logits, axis=-1, shape=None, num_samples=None, key=None, stream=None),
    text_signature = "(logits, axis=-1, shape=None, num_samples=None, key=None, stream=None)"
)]
fn categorical(
    logits: ArrayArg,
    axis: isize,
    shape: Option<Sizes>,
    num_samples: Option<usize>,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let key = given(&key);
    apply(stream, || match (shape, num_samples) {
        (None, None) => random::categorical(&logits, axis, key),
        (Some(shape), None) => random::categorical_with_shape(&logits, axis, &shape.0, key),
        (None, Some(count)) => random::categorical_with_samples(&logits, axis, count, key),
        (Some(_), Some(_)) => {
            let message = "At most one of shape or num_samples can be specified.";
            Err(mlx::Error::invalid("categorical", message))
        }
    })
}

/// Numbers of the Laplace distribution.
///
/// Args:
///     shape (list(int), optional): Shape of the result. Default: ``[]``.
///     dtype (Dtype, optional): Type of the result. Default: ``float32``.
///     loc (float, optional): Mean. Default: 0.
///     scale (float, optional): Scale. Default: 1.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The numbers.
#[pyfunction]
#[pyo3(
    signature = (shape=None, dtype=None, loc=0.0, scale=1.0, key=None, stream=None),
    text_signature = "(shape=[], dtype=None, loc=0.0, scale=1.0, key=None, stream=None)"
)]
fn laplace(
    shape: Option<Sizes>,
    dtype: Option<PyDtype>,
    loc: f32,
    scale: f32,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let dtype = or_default(dtype, Dtype::Float32);
    apply(stream, || random::laplace(or_scalar(&shape), dtype, loc, scale, given(&key)))
}

/// A random order.
///
/// Args:
///     x (int or array): An array, or the number of integers from 0 on.
///     axis (int, optional): The axis whose slices are put in order. Default: 0.
///     key (array, optional): A key. Default: the next one of the calling thread.
///
/// Returns:
///     array: The slices, or integers, in a random order.
#[pyfunction]
#[pyo3(signature = (x, axis=0, key=None, stream=None))]
fn permutation(
    x: &Bound<'_, PyAny>,
    axis: isize,
    key: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    if x.is_instance_of::<PyInt>() {
        let message = "[permutation] The number of integers is not negative.";
        let n: usize = x.extract().map_err(|_| PyValueError::new_err(message))?;
        return apply(stream, || random::permutation_of(n, given(&key)));
    }
    let x: ArrayArg = x.extract()?;
    apply(stream, || random::permutation(&x, axis, given(&key)))
}
