//! The one error type of the workspace's array layers.

use std::sync::Arc;

use crate::{Dtype, Shape};

/// Result of an array operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in MLX's words: `[op] what was wrong`, with shapes and dtypes.
///
/// Cloning is cheap: one failure can be seen by every array that waits for the same stream.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Arguments that an operation does not accept (MLX's `std::invalid_argument`).
    #[error("[{op}] {message}")]
    Invalid {
        /// Operation as the user wrote it.
        op: &'static str,
        /// What was wrong, with shapes and dtypes.
        message: String,
    },
    /// An axis or index outside of an array (MLX's `IndexError`).
    #[error("[{op}] {message}")]
    OutOfRange {
        /// Operation as the user wrote it.
        op: &'static str,
        /// What was wrong, with the axis and the shape.
        message: String,
    },
    /// A backend cannot run this operation on these dtypes.
    #[error("[{op}] {backend} does not support {dtype:?} for shape {shape:?}: {reason}")]
    Unsupported {
        /// Operation as the user wrote it.
        op: &'static str,
        /// Which backend refused.
        backend: &'static str,
        /// Dtype of the refused argument.
        dtype: Dtype,
        /// Shape of the refused argument.
        shape: Shape,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// A file that cannot be read or written, or whose contents are wrong.
    #[error("[{op}] {path}: {message}")]
    File {
        /// Operation, such as `load_gguf`.
        op: &'static str,
        /// The file.
        path: String,
        /// Field and what is wrong with it.
        message: String,
    },
    /// The device or its driver failed.
    #[error("[{op}] {message}")]
    Device {
        /// Runtime step that failed.
        op: &'static str,
        /// What happened and the remedy.
        message: String,
    },
    /// Something that cannot be done now, whatever the arguments are (MLX's `std::runtime_error`).
    #[error("[{op}] {message}")]
    Runtime {
        /// Operation as the user wrote it.
        op: &'static str,
        /// What cannot be done.
        message: String,
    },
    /// An error of a user's own function, which came up in what calls it: a gradient, a compilation.
    #[error("{0}")]
    Raised(Arc<dyn std::error::Error + Send + Sync>),
    /// No memory left within the limits, after the cache was freed.
    #[error("[malloc] Unable to allocate {requested} bytes on {device}: {hint}")]
    OutOfMemory {
        /// Bytes asked for.
        requested: usize,
        /// Where.
        device: String,
        /// The remedy.
        hint: String,
    },
}

impl Error {
    /// Arguments that `op` does not accept.
    pub fn invalid(op: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { op, message: message.into() }
    }

    /// An axis or index outside of the array.
    pub fn out_of_range(op: &'static str, message: impl Into<String>) -> Self {
        Self::OutOfRange { op, message: message.into() }
    }

    /// Something that cannot be done now.
    pub fn runtime(op: &'static str, message: impl Into<String>) -> Self {
        Self::Runtime { op, message: message.into() }
    }

    /// An error of a user's own function.
    pub fn raised(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Raised(Arc::new(error))
    }

    /// A failure of the device or of a stream.
    pub fn device(op: &'static str, message: impl Into<String>) -> Self {
        Self::Device { op, message: message.into() }
    }

    /// A file that is not what it should be.
    pub fn file(op: &'static str, path: &std::path::Path, message: impl std::fmt::Display) -> Self {
        Self::File { op, path: path.display().to_string(), message: message.to_string() }
    }
}
