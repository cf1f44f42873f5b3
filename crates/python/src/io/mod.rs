//! Loading and saving arrays.

mod objects;

use std::{collections::BTreeMap, path::PathBuf};

use mlx::{
    Array,
    io::{self, Arrays, GgufValue, Loaded, gguf::Metadata},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyModule, PyString, PyTuple},
};

use crate::{
    arguments::ArrayArg,
    array::{PyArray, Wrap},
    error::{OrRaise, released},
    functions,
    stream::Target,
    trees,
};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: load save savez savez_compressed save_safetensors save_gguf);
    Ok(())
}

/// What an object is for loading and saving.
enum File<'a, 'py> {
    Path(PathBuf),
    /// A file of Python's, or something that acts like one.
    Object(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> File<'a, 'py> {
    /// A path, or an object that has these methods.
    fn of(object: &'a Bound<'py, PyAny>, methods: &[&str]) -> PyResult<Option<Self>> {
        if let Ok(path) = object.extract::<PathBuf>() {
            return Ok(Some(File::Path(path)));
        }
        for method in methods.iter().chain(&["seek", "tell", "closed"]) {
            if !object.hasattr(*method)? {
                return Ok(None);
            }
        }
        Ok(Some(File::Object(object)))
    }

    /// A file to read from.
    fn readable(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        let message = "[load] Input must be a file-like object opened in binary mode, or string";
        Self::of(object, &["readinto", "read"])?.ok_or_else(|| PyValueError::new_err(message))
    }

    /// A file to write to.
    fn writable(object: &'a Bound<'py, PyAny>, op: &str) -> PyResult<Self> {
        let message = || format!("[{op}] Input must be a file-like object, or string");
        Self::of(object, &["write"])?.ok_or_else(|| PyValueError::new_err(message()))
    }
}

/// Loads arrays from a file.
///
/// Args:
///     file (file, str, pathlib.Path): The file, or a binary file object.
///     format (str, optional): ``"npy"``, ``"npz"``, ``"safetensors"`` or ``"gguf"``. Default: what the name
///       ends with.
///     return_metadata (bool, optional): Return the metadata as well, for formats that have some. Default:
///       ``False``.
///
/// Returns:
///     array or dict: The array of a ``npy`` file, or arrays by name; with metadata a tuple of both.
///
/// Example:
///     >>> weights = mx.load("model.safetensors")
#[pyfunction]
#[pyo3(signature = (file, /, format=None, return_metadata=false, *, stream=None))]
fn load<'py>(
    py: Python<'py>,
    file: &Bound<'py, PyAny>,
    format: Option<String>,
    return_metadata: bool,
    stream: Option<Target>,
) -> PyResult<Bound<'py, PyAny>> {
    // What a file holds is there, on no stream.
    let _ = stream;
    let file = File::readable(file)?;
    let format = match format {
        Some(format) => format,
        None => format_of(&file)?,
    };
    if return_metadata && matches!(format.as_str(), "npy" | "npz") {
        let message = format!("[load] metadata not supported for format {format}");
        return Err(PyValueError::new_err(message));
    }
    if !matches!(format.as_str(), "npy" | "npz" | "safetensors" | "gguf") {
        return Err(PyValueError::new_err(format!("[load] Unknown file format {format}")));
    }
    let loaded = match file {
        File::Path(path) => released(py, || io::load_as(path, &format))?,
        File::Object(object) => objects::load(object, &format)?,
    };
    object_of(py, loaded, return_metadata)
}

/// The format that a file's name ends with.
fn format_of(file: &File<'_, '_>) -> PyResult<String> {
    let name = match file {
        File::Path(path) => path.to_string_lossy().into_owned(),
        File::Object(object) => object.getattr("name")?.str()?.to_string(),
    };
    let message = "[load] Could not infer file format from extension";
    match name.rsplit_once('.') {
        Some((_, format)) => Ok(format.into()),
        None => Err(PyValueError::new_err(message)),
    }
}

/// What was loaded, as Python's objects.
fn object_of(py: Python<'_>, loaded: Loaded, return_metadata: bool) -> PyResult<Bound<'_, PyAny>> {
    let (arrays, metadata) = match loaded {
        Loaded::Npy(array) => return trees::leaf(py, array),
        Loaded::Npz(arrays) => (arrays, PyDict::new(py)),
        Loaded::Safetensors(file) => {
            let metadata = PyDict::new(py);
            file.metadata.iter().try_for_each(|(key, text)| metadata.set_item(key, text))?;
            (file.arrays, metadata)
        }
        Loaded::Gguf(file) => {
            let metadata = PyDict::new(py);
            for (key, value) in &file.metadata {
                metadata.set_item(key, metadata_object(py, value)?)?;
            }
            (file.tensors, metadata)
        }
    };
    let named = PyDict::new(py);
    for (name, array) in arrays {
        named.set_item(name, array.wrap())?;
    }
    match return_metadata {
        true => Ok((named, metadata).into_pyobject(py)?.into_any()),
        false => Ok(named.into_any()),
    }
}

/// GGUF metadata: text, a list of texts, or an array. Arrays of arrays are left out, as upstream does.
fn metadata_object<'py>(py: Python<'py>, value: &GgufValue) -> PyResult<Bound<'py, PyAny>> {
    if let Some(text) = value.as_str() {
        return Ok(PyString::new(py, text).into_any());
    }
    if let Some(texts) = value.as_strings() {
        return texts.into_pyobject(py);
    }
    match value.to_array() {
        Some(array) => trees::leaf(py, array.or_raise()?),
        None => Ok(py.None().into_bound(py)),
    }
}

/// Arrays by name.
fn named(dict: &Bound<'_, PyDict>) -> PyResult<Arrays> {
    dict.iter().map(|(name, array)| Ok((name.extract()?, array.extract::<ArrayArg>()?.0))).collect()
}

/// Saves an array in numpy's format.
///
/// Args:
///     file (file, str, pathlib.Path): The file, or a binary file object. A name gets ``.npy`` at its end.
///     arr (array): The array.
#[pyfunction]
fn save(py: Python<'_>, file: &Bound<'_, PyAny>, arr: ArrayArg) -> PyResult<()> {
    let array: Array = arr.0;
    match File::writable(file, "save")? {
        File::Path(path) => released(py, || io::save(path, &array)),
        File::Object(object) => {
            objects::write(object, |out, name| io::npy::write(out, name, &array))
        }
    }
}

/// Saves several arrays in numpy's format, uncompressed.
///
/// Args:
///     file (file, str, pathlib.Path): The file, or a binary file object. A name gets ``.npz`` at its end.
///     *args (array): Arrays, which are called ``arr_0``, ``arr_1`` and so on.
///     **kwargs (array): Arrays by name.
#[pyfunction]
#[pyo3(signature = (file, *args, **kwargs))]
fn savez(
    file: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    save_archive(file, args, kwargs, false)
}

/// Saves several arrays in numpy's format, compressed.
///
/// Args:
///     file (file, str, pathlib.Path): The file, or a binary file object. A name gets ``.npz`` at its end.
///     *args (array): Arrays, which are called ``arr_0``, ``arr_1`` and so on.
///     **kwargs (array): Arrays by name.
#[pyfunction]
#[pyo3(signature = (file, *args, **kwargs))]
fn savez_compressed(
    file: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    save_archive(file, args, kwargs, true)
}

fn save_archive(
    file: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
    compressed: bool,
) -> PyResult<()> {
    let mut arrays = kwargs.map_or_else(|| Ok(Arrays::new()), named)?;
    for (i, array) in args.iter().enumerate() {
        let name = format!("arr_{i}");
        let array = array.extract::<ArrayArg>()?.0;
        if arrays.insert(name.clone(), array).is_some() {
            let message = format!("[savez] Cannot use un-named variables and keyword {name}");
            return Err(PyValueError::new_err(message));
        }
    }
    match File::writable(file, "savez")? {
        File::Path(path) => {
            let save = || match compressed {
                true => io::savez_compressed(path, &arrays),
                false => io::savez(path, &arrays),
            };
            released(file.py(), save)
        }
        File::Object(object) => {
            objects::write_whole(object, |out, name| io::npz::write(out, name, &arrays, compressed))
        }
    }
}

/// Saves arrays in the format ``safetensors``.
///
/// Args:
///     file (file, str, pathlib.Path): The file, or a binary file object. A name gets ``.safetensors`` at its
///       end.
///     arrays (dict(str, array)): Arrays by name.
///     metadata (dict(str, str), optional): Texts that the file has besides.
#[pyfunction]
#[pyo3(signature = (file, arrays, metadata=None))]
fn save_safetensors(
    py: Python<'_>,
    file: &Bound<'_, PyAny>,
    arrays: &Bound<'_, PyDict>,
    metadata: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let arrays = named(arrays)?;
    let mut texts = BTreeMap::new();
    for (key, text) in metadata.into_iter().flatten() {
        let (Ok(key), Ok(text)) = (key.extract::<String>(), text.extract::<String>()) else {
            let message =
                "[save_safetensors] Metadata must be a dictionary with string keys and values";
            return Err(PyValueError::new_err(message));
        };
        texts.insert(key, text);
    }
    match File::writable(file, "save_safetensors")? {
        File::Path(path) => released(py, || io::save_safetensors(path, &arrays, &texts)),
        File::Object(object) => {
            objects::write(object, |out, name| io::safetensors::write(out, name, &arrays, &texts))
        }
    }
}

/// Saves arrays in the format GGUF.
///
/// Args:
///     file (str, pathlib.Path): The file. A name gets ``.gguf`` at its end.
///     arrays (dict(str, array)): Arrays by name.
///     metadata (dict(str, array or str or list(str))): Metadata: texts, lists of them, and arrays of at most
///       one axis.
#[pyfunction]
#[pyo3(signature = (file, arrays, metadata=None), text_signature = "(file, arrays, metadata)")]
fn save_gguf(
    py: Python<'_>,
    file: &Bound<'_, PyAny>,
    arrays: &Bound<'_, PyDict>,
    metadata: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let arrays = named(arrays)?;
    let mut values = Metadata::new();
    for (key, value) in metadata.into_iter().flatten() {
        values.insert(key.extract()?, metadata_value(py, &value)?);
    }
    match File::writable(file, "save_gguf")? {
        File::Path(path) => released(py, || io::save_gguf(path, &arrays, &values)),
        File::Object(_) => Err(PyValueError::new_err("[save_gguf] Input must be a string")),
    }
}

/// A text, a list of texts or an array as GGUF metadata.
fn metadata_value(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<GgufValue> {
    if let Ok(array) = value.cast::<PyArray>() {
        let array = array.get().array();
        return released(py, || GgufValue::from_array(&array));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(GgufValue::from(text.to_str()?));
    }
    let message = "[save_gguf] Metadata must be strings, lists of strings, or arrays";
    let texts: Vec<String> = value.extract().map_err(|_| PyTypeError::new_err(message))?;
    Ok(texts.into())
}
