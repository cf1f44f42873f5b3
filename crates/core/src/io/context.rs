//! What every loader and writer needs: errors that name file and field, and checked shapes.

use std::{fmt::Display, path::Path};

use crate::{Error, Result, Shape};

/// The most axes a file may give an array.
pub(super) const MAX_RANK: usize = 64;

/// Longest message made from a file's contents, in characters.
const MAX_MESSAGE: usize = 400;

/// Which operation works on which file.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    op: &'static str,
    path: &'a Path,
}

impl<'a> Context<'a> {
    pub(crate) fn new(op: &'static str, path: &'a Path) -> Self {
        Context { op, path }
    }

    /// An error of one line: `[op] path: field: what`. Control characters and overlong names, which
    /// a file may contain, do not reach the terminal.
    pub(crate) fn error(&self, field: impl Display, what: impl Display) -> Error {
        let text = format!("{field}: {what}");
        let mut line: String =
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE).collect();
        if line.len() < text.len() {
            line.push('…');
        }
        Error::file(self.op, self.path, line)
    }

    /// Turns a failed write of `field` into an error.
    pub(crate) fn on_write(&self, field: impl Display) -> impl FnOnce(std::io::Error) -> Error {
        let field = field.to_string();
        move |error| self.error(field, format_args!("cannot be written: {error}"))
    }

    /// The shape with axes `dims`, and its size in bytes when an element takes `item` bytes.
    ///
    /// Refuses more than [`MAX_RANK`] axes and everything whose strides or bytes would not fit an
    /// `isize`, even where a zero among the sizes makes the product small.
    pub(crate) fn shape(&self, field: &str, dims: &[u64], item: usize) -> Result<(Shape, usize)> {
        if dims.len() > MAX_RANK {
            let what = format!("{} axes are more than {MAX_RANK}", dims.len());
            return Err(self.error(field, what));
        }
        let too_large = || self.error(field, format_args!("shape {dims:?} is too large"));
        let mut extent = item;
        let mut shape = Shape::new();
        for &dim in dims {
            let dim = usize::try_from(dim).map_err(|_| too_large())?;
            extent = extent.checked_mul(dim.max(1)).ok_or_else(too_large)?;
            shape.push(dim);
        }
        isize::try_from(extent).map_err(|_| too_large())?;
        let empty = shape.contains(&0);
        Ok((shape, if empty { 0 } else { extent }))
    }
}

/// A name from a file, as messages show it.
pub(super) fn tensor(name: &str) -> String {
    const SHOWN: usize = 100;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("tensor {:?}…", &name[..end]),
        None => format!("tensor {name:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let context = Context::new("load", Path::new("x"));
        assert_eq!(context.shape("t", &[2, 3], 4).unwrap().1, 24);
        assert_eq!(context.shape("t", &[], 8).unwrap().1, 8);
        assert_eq!(context.shape("t", &[0, 3], 4).unwrap().1, 0);
        assert!(context.shape("t", &[1 << 63], 1).is_err());
        assert!(context.shape("t", &[1 << 62], 2).is_err());
        assert!(context.shape("t", &[0, 1 << 40, 1 << 40], 1).is_err());
        assert!(context.shape("t", &[1; 65], 1).is_err());
    }

    #[test]
    fn messages_are_one_short_line() {
        let context = Context::new("load", Path::new("x"));
        let message = context.error(tensor(&"a\n".repeat(10_000)), "bad\u{1b}[0m").to_string();
        assert!(!message.contains(char::is_control) && message.len() < 500, "{message}");
    }
}
