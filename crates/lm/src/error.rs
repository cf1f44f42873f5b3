//! The error type of this crate: every message is one line.

use std::path::Path;

/// Result of a language-model operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. A file is always named together with the field that is wrong.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A model file that is missing, damaged, or contradicts another one.
    #[error("{path}: {field}: {message}")]
    File {
        /// The file.
        path: String,
        /// Field, tensor or metadata key; `file` when the whole file is meant.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// A failed array operation.
    #[error(transparent)]
    Array(#[from] mlx::Error),
    /// A prompt that cannot be run.
    #[error("prompt: {0}")]
    Prompt(String),
    /// An argument outside of its range.
    #[error("{name}: {message}")]
    Argument {
        /// The argument as the user knows it.
        name: &'static str,
        /// What it must be.
        message: String,
    },
    /// A chat template that does not compile or refuses the conversation.
    #[error("chat template: {0}")]
    Template(String),
    /// Text or ids that the tokenizer cannot handle.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A model that is not in the cache and cannot be fetched.
    #[error("{name}: {message}")]
    Hub {
        /// `ORG/NAME`.
        name: String,
        /// Why, and what to do.
        message: String,
    },
    /// Reading or writing a stream failed.
    #[error("{0}")]
    Io(String),
}

impl Error {
    /// A wrong field of a file.
    pub fn file(path: &Path, field: impl Into<String>, message: impl std::fmt::Display) -> Self {
        Self::File {
            path: path.display().to_string(),
            field: field.into(),
            message: one_line(&message.to_string()),
        }
    }

    /// An argument outside of its range.
    pub fn argument(name: &'static str, message: impl Into<String>) -> Self {
        Self::Argument { name, message: message.into() }
    }

    /// A failure of the chat template.
    pub(crate) fn template(error: &minijinja::Error) -> Self {
        // minijinja puts the cause of a failed call behind `source`.
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::Template(one_line(&text))
    }
}

/// Joins the lines of a message, so that one error stays one line.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_with_file_and_field() {
        let e = Error::file(Path::new("m/config.json"), "rope_theta", "must be\n  a number\n");
        assert_eq!(e.to_string(), "m/config.json: rope_theta: must be; a number");
    }
}
