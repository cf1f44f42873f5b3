//! Functions in files: what a function computes is traced, written in upstream's format (`.mlxfn`), and
//! called again from there, here or by upstream.
//!
//! A trace is a list of upstream's primitives (`table` says which of ours is which), constants, and ids of
//! arrays. A file may have several, one for each signature of arguments:
//!
//! | field | bytes |
//! | --- | --- |
//! | version | a text: its length in 64 bits, then UTF-8 |
//! | functions | 32 bits |
//! | shapeless | a truth value in one byte |
//! | metadata | a text |
//!
//! and then for each function: names of keyword arguments, ids of the arguments, their shapes and dtypes, ids
//! of the outputs, and the tape. An entry of the tape is an id and a truth value: with a primitive there
//! follow ids of inputs, the stream, the name, its state, and ids, shapes and dtypes of the outputs; without
//! one another truth value, and shape, dtype and elements of a constant where its id comes up first. Lists
//! have their length in 64 bits before them; everything is little endian.

mod argument;
mod bytes;
mod callback;
mod imported;
mod lower;
mod read;
mod signature;
mod table;
mod write;

pub use argument::Argument;
pub use callback::{Event, Value};
pub use imported::ImportedFunction;
pub use lower::is_exporting;

use std::path::{Path, PathBuf};

use callback::Told;
use lower::{Names, Trace};
use signature::Signature;
use write::Header;

use crate::{
    Array, Error, Result,
    io::{Arrays, FileBytes},
    notice,
};

const EXPORT: &str = "export_function";
const IMPORT: &str = "import_function";

/// The version of upstream whose files are written.
const VERSION: &str = "0.32.4";

/// A function of positional arguments and of arguments by name.
type Fun<'a> = dyn Fn(&[Array], &Arrays) -> Result<Vec<Array>> + Send + 'a;

/// Writes what `fun` computes for such arguments into a file. A `shapeless` function takes arguments of any
/// sizes afterwards.
///
/// # Errors
/// Those of [`Exporter::export`] and [`Exporter::close`].
pub fn export_function(
    path: impl Into<PathBuf>,
    fun: impl Fn(&[Array], &Arrays) -> Result<Vec<Array>> + Send,
    args: &[Array],
    kwargs: &Arrays,
    shapeless: bool,
) -> Result<()> {
    let mut exporter = Exporter::new(path, fun, shapeless);
    exporter.export(args, kwargs)?;
    exporter.close()
}

/// Loads the functions of a file. Their constants view it where they lie aligned.
///
/// # Errors
/// When the file cannot be read, is not what it says, or has a primitive that there is nothing for here.
pub fn import_function(path: impl AsRef<Path>) -> Result<ImportedFunction> {
    parse(&FileBytes::open(IMPORT, path.as_ref())?)
}

/// [`import_function`] of bytes that are already here.
///
/// # Errors
/// When the bytes are no such file.
pub fn parse(file: &FileBytes) -> Result<ImportedFunction> {
    read::parse(file)
}

/// Traces a function for several kinds of arguments, all of which go into one file, or to a callback.
pub struct Exporter<'a> {
    fun: Box<Fun<'a>>,
    shapeless: bool,
    names: Names,
    signatures: Vec<Signature>,
    target: Target<'a>,
    closed: bool,
}

/// Where traces go.
enum Target<'a> {
    /// A file, which is written when the exporter is closed.
    File { path: PathBuf, metadata: String, traces: Vec<Trace> },
    /// A function that is told of them at once.
    Callback(Told<'a>),
}

impl<'a> Exporter<'a> {
    /// An exporter to a file, which is there when the exporter is closed.
    pub fn new(
        path: impl Into<PathBuf>,
        fun: impl Fn(&[Array], &Arrays) -> Result<Vec<Array>> + Send + 'a,
        shapeless: bool,
    ) -> Self {
        let (path, metadata, traces) = (path.into(), String::new(), Vec::new());
        Self::with_target(Box::new(fun), shapeless, Target::File { path, metadata, traces })
    }

    /// An exporter that writes no file, but calls a function with what it would write.
    pub fn to_callback(
        callback: impl FnMut(Event<'_>) -> Result<()> + Send + 'a,
        fun: impl Fn(&[Array], &Arrays) -> Result<Vec<Array>> + Send + 'a,
        shapeless: bool,
    ) -> Self {
        let target = Target::Callback(Told::new(Box::new(callback)));
        Self::with_target(Box::new(fun), shapeless, target)
    }

    fn with_target(fun: Box<Fun<'a>>, shapeless: bool, target: Target<'a>) -> Self {
        let (names, signatures) = (Names::default(), Vec::new());
        Exporter { fun, shapeless, names, signatures, target, closed: false }
    }

    /// The same with a text that the file has beside the functions; a callback is not told of it.
    pub fn with_metadata(mut self, text: impl Into<String>) -> Self {
        if let Target::File { metadata, .. } = &mut self.target {
            *metadata = text.into();
        }
        self
    }

    /// Traces the function for such arguments.
    ///
    /// # Errors
    /// Those of the function and of the callback; when it was traced for such arguments before, uses one that
    /// it was not given, or computes something that upstream's files cannot say; after [`Exporter::close`].
    pub fn export(&mut self, args: &[Array], kwargs: &Arrays) -> Result<()> {
        if self.closed {
            let message = "Attempting to write after exporting is closed.";
            return Err(Error::runtime(EXPORT, message));
        }
        let signature = Signature::of(args, kwargs);
        if self.signatures.iter().any(|known| known.takes(&signature, self.shapeless)) {
            let message =
                "Attempting to export a function twice with the same signature is not allowed.";
            return Err(Error::runtime(EXPORT, message));
        }
        let inputs: Vec<Array> = args.iter().chain(kwargs.values()).cloned().collect();
        let fun = |inputs: &[Array]| {
            let (positional, named) = inputs.split_at(args.len());
            let names = kwargs.keys().cloned();
            (self.fun)(positional, &names.zip(named.iter().cloned()).collect())
        };
        let trace = lower::lower(&mut self.names, signature.clone(), &inputs, self.shapeless, fun)?;
        self.signatures.push(signature);
        match &mut self.target {
            Target::File { traces, .. } => {
                traces.push(trace);
                Ok(())
            }
            Target::Callback(told) => told.tell(&trace, &self.names),
        }
    }

    /// Writes the file. Nothing can be exported afterwards; closing again does nothing.
    ///
    /// # Errors
    /// When the file cannot be written, or a constant not be evaluated; nothing is left behind then.
    pub fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        match &mut self.target {
            Target::File { path, metadata, traces } => {
                let header =
                    Header { shapeless: self.shapeless, metadata: std::mem::take(metadata) };
                let written = write::file(path, &header, traces, &self.names);
                self.names = Names::default();
                traces.clear();
                written
            }
            Target::Callback(_) => Ok(()),
        }
    }
}

impl Drop for Exporter<'_> {
    /// Closes it if anything was traced. Who wants to know whether the file could be written closes it
    /// before.
    fn drop(&mut self) {
        if !std::thread::panicking()
            && !self.signatures.is_empty()
            && let Err(error) = self.close()
        {
            notice::warn(error);
        }
    }
}
