//! File objects of Python as readers and writers.

use std::{
    io::{self, Cursor, Write},
    path::Path,
};

use mlx::io::{FileBytes, Loaded, npy, npz, safetensors};
use parking_lot::Mutex;
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
    types::PyBytes,
};

use crate::{
    error::{OrRaise, released},
    lock,
};

/// What errors call a file object.
const NAME: &str = "python file object";

/// Loads what a file object has from where it stands.
pub(super) fn load(file: &Bound<'_, PyAny>, format: &str) -> PyResult<Loaded> {
    if format == "gguf" {
        return Err(PyValueError::new_err("[load_gguf] Input must be a string"));
    }
    let start: u64 = file.call_method0("tell")?.extract()?;
    let read = file.call_method0("read")?;
    let message = "[load] Input must be a file-like object opened in binary mode, or string";
    let read = read.cast::<PyBytes>().map_err(|_| PyValueError::new_err(message))?;
    let bytes = read.as_bytes();
    let parse = || {
        let file = FileBytes::from_bytes(NAME, bytes)?;
        match format {
            "npy" => npy::parse(&file).map(Loaded::Npy),
            "npz" => npz::parse(&file).map(Loaded::Npz),
            _ => safetensors::parse(&file).map(Loaded::Safetensors),
        }
    };
    let loaded = released(file.py(), parse)?;
    if let Loaded::Npy(array) = &loaded {
        // Another array may follow.
        file.call_method1("seek", (start + header_size(bytes) + array.nbytes() as u64,))?;
    }
    Ok(loaded)
}

/// Bytes before the data of a `.npy` file that was read without an error.
fn header_size(bytes: &[u8]) -> u64 {
    let byte = |i: usize| u64::from(bytes.get(i).copied().unwrap_or_default());
    match byte(6) {
        1 => 10 + byte(8) + (byte(9) << 8),
        _ => 12 + byte(8) + (byte(9) << 8) + (byte(10) << 16) + (byte(11) << 24),
    }
}

/// Passes what is written on to a file object.
struct Writer<'a> {
    file: &'a Py<PyAny>,
    /// What the file raised.
    raised: &'a Mutex<Option<PyErr>>,
}

impl Writer<'_> {
    fn pass(&self, bytes: &[u8]) -> PyResult<()> {
        lock::with(|py| {
            let written = self.file.bind(py).call_method1("write", (PyBytes::new(py, bytes),))?;
            match written.extract::<usize>() {
                Ok(count) if count >= bytes.len() => Ok(()),
                _ => {
                    let message = "[save] Failed to write to python stream";
                    Err(PyRuntimeError::new_err(message))
                }
            }
        })
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.pass(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(raised) => {
                let message = raised.to_string();
                self.raised.lock().get_or_insert(raised);
                Err(io::Error::other(message))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes to a file object. An exception of its own comes out as it is.
pub(super) fn write(
    file: &Bound<'_, PyAny>,
    fill: impl FnOnce(&mut dyn Write, &Path) -> mlx::Result<()> + Send,
) -> PyResult<()> {
    let py = file.py();
    let raised = Mutex::new(None);
    let object = file.clone().unbind();
    let filled = lock::without(py, || {
        let mut out = Writer { file: &object, raised: &raised };
        fill(&mut out, Path::new(NAME))
    });
    match raised.into_inner() {
        Some(raised) => Err(raised),
        None => filled.or_raise(),
    }
}

/// The same for a format that is not written from the front to the back.
pub(super) fn write_whole(
    file: &Bound<'_, PyAny>,
    fill: impl FnOnce(&mut Cursor<Vec<u8>>, &Path) -> mlx::Result<()> + Send,
) -> PyResult<()> {
    let mut whole = Cursor::new(Vec::new());
    released(file.py(), || fill(&mut whole, Path::new(NAME)))?;
    write(file, |out, name| {
        let failed = |error| mlx::Error::file("savez", name, error);
        out.write_all(whole.get_ref()).map_err(failed)
    })
}
