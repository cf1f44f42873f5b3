//! Where arrays lie in trees.

use std::fmt;

/// Where something lies in a [`Tree`](super::Tree): names and indices from the outermost on, with points
/// between them where it is printed.
#[derive(Debug, Clone, Copy)]
pub enum Path<'a> {
    /// The tree itself.
    Root,
    /// A part of what lies at `parent`.
    Part {
        /// Where the whole lies.
        parent: &'a Path<'a>,
        /// Which part of it, counted from 0.
        index: usize,
        /// What the part is called, where it has a name.
        name: Option<&'a str>,
    },
}

impl<'a> Path<'a> {
    /// The element `index` of what lies here.
    pub fn element(&'a self, index: usize) -> Path<'a> {
        Path::Part { parent: self, index, name: None }
    }

    /// The field `name` of what lies here; counted from 0 it is the field `index`.
    pub fn field(&'a self, index: usize, name: &'a str) -> Path<'a> {
        Path::Part { parent: self, index, name: Some(name) }
    }

    /// What errors call it.
    pub(super) fn described(&self) -> String {
        match self {
            Path::Root => "the array".into(),
            Path::Part { .. } => self.to_string(),
        }
    }

    /// The indices from the outermost part on.
    pub fn indices(&self) -> Vec<usize> {
        let mut indices = Vec::new();
        let mut path = self;
        while let Path::Part { parent, index, .. } = path {
            indices.push(*index);
            path = parent;
        }
        indices.reverse();
        indices
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Path::Part { parent, index, name } = self else { return Ok(()) };
        if let Path::Part { .. } = parent {
            write!(f, "{parent}.")?;
        }
        match name {
            Some(name) => f.write_str(name),
            None => write!(f, "{index}"),
        }
    }
}
