//! What is wrong with a program.

/// Why a program has no kernel here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Error {
    /// The line, counted from one.
    pub line: u32,
    /// What was wrong there.
    pub message: String,
}

impl Error {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> Error {
        Error { line, message: message.into() }
    }
}

/// What compiling gives.
pub type Result<T> = std::result::Result<T, Error>;
