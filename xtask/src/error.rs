//! The one error type: a line for the person who typed the command.

use std::fmt;

/// A failure that a person can act on, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error(String);

/// What every fallible function of xtask returns.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that reads `message`.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// A failure that the program which was run has described already: nothing is left to say.
    pub(crate) fn reported() -> Self {
        Self(String::new())
    }

    /// Whether nothing is left to say.
    pub(crate) fn is_reported(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Error {
    /// One line; all lines of a tool's answer as they came with `{:#}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.write_str(self.0.trim_end());
        }
        // Tools answer in several lines; an error here is always one.
        let lines = self.0.lines().map(str::trim).filter(|line| !line.is_empty());
        f.write_str(&lines.collect::<Vec<_>>().join("; "))
    }
}

/// Says what was being done when a foreign error came up.
pub(crate) trait Context<T> {
    /// Turns the error into `what: error`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error(format!("{}: {error}", what())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line() {
        let error = Error::new("first\n  second\n\nthird\n");
        assert_eq!(error.to_string(), "first; second; third");
    }

    #[test]
    fn context_names_what_was_done() {
        let failed: std::result::Result<(), &str> = Err("disk full");
        let error = failed.context(|| "cannot write a".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "cannot write a: disk full");
    }
}
