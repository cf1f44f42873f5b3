//! Which axes of a tree's arrays are mapped.

use super::{Path, Tree};
use crate::{Error, Result};

/// Which axis of each array of a tree is mapped; negative ones count from the end, `None` is none.
///
/// It is a tree itself, which may end before the arrays do: what it says of a part holds for every array in
/// it. `0` maps the first axis of all, `[Some(0), None]` that of the arrays in the first of two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Axes {
    /// The same axis of every array.
    All(Option<isize>),
    /// What holds for each part: elements, or fields in order.
    Each(Vec<Axes>),
}

impl From<isize> for Axes {
    fn from(axis: isize) -> Self {
        Axes::All(Some(axis))
    }
}

impl From<Option<isize>> for Axes {
    fn from(axis: Option<isize>) -> Self {
        Axes::All(axis)
    }
}

impl<A: Into<Axes>> From<Vec<A>> for Axes {
    fn from(each: Vec<A>) -> Self {
        Axes::Each(each.into_iter().map(Into::into).collect())
    }
}

impl<A: Into<Axes>, const N: usize> From<[A; N]> for Axes {
    fn from(each: [A; N]) -> Self {
        Axes::Each(each.into_iter().map(Into::into).collect())
    }
}

macro_rules! tuples {
    ($($(($part:ident $index:tt))*;)*) => {$(
        impl<$($part: Into<Axes>),*> From<($($part,)*)> for Axes {
            fn from(each: ($($part,)*)) -> Self {
                Axes::Each(vec![$(each.$index.into()),*])
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0)(B 1);
    (A 0)(B 1)(C 2);
    (A 0)(B 1)(C 2)(D 3);
    (A 0)(B 1)(C 2)(D 3)(E 4);
    (A 0)(B 1)(C 2)(D 3)(E 4)(F 5);
}

impl Axes {
    /// The axis of each array of `tree`, in order.
    pub(super) fn of(&self, tree: &impl Tree) -> Result<Vec<Option<isize>>> {
        let mut axes = Vec::new();
        let mut ends = Vec::new();
        let mut fault = None;
        tree.visit(&Path::Root, &mut |path, _| match self.at(path) {
            Ok((axis, end)) => {
                axes.push(axis);
                ends.push(std::ptr::from_ref(end));
            }
            Err(error) => fault = fault.take().or(Some(error)),
        });
        match fault {
            Some(error) => Err(error),
            None if self.ends().iter().all(|end| ends.contains(end)) => Ok(axes),
            None => Err(Error::invalid("vmap", "There are axes for what is no part of the tree.")),
        }
    }

    /// The axis of the array at `path`, and the part of these axes that says so.
    fn at(&self, path: &Path<'_>) -> Result<(Option<isize>, &Axes)> {
        let mut axes = self;
        let mut indices = path.indices().into_iter();
        loop {
            let each = match axes {
                Axes::All(axis) => return Ok((*axis, axes)),
                Axes::Each(each) => each,
            };
            let message = |what: &str| {
                format!("axis must be int or None but there {what} {}.", path.described())
            };
            let Some(index) = indices.next() else {
                return Err(Error::invalid("vmap", message("are several for")));
            };
            let Some(part) = each.get(index) else {
                return Err(Error::invalid("vmap", message("is none for")));
            };
            axes = part;
        }
    }

    /// The parts that name an axis.
    fn ends(&self) -> Vec<*const Axes> {
        match self {
            Axes::All(Some(_)) => vec![std::ptr::from_ref(self)],
            Axes::All(None) => Vec::new(),
            Axes::Each(each) => each.iter().flat_map(Axes::ends).collect(),
        }
    }
}
