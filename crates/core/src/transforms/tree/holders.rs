//! The trees of the standard library's types.

use std::collections::BTreeMap;

use super::{Path, Rebuilder, Tree, Visitor};
use crate::{Array, Result};

impl Tree for Array {
    fn visit<'a>(&'a self, path: &Path<'_>, visit: &mut Visitor<'_, 'a>) {
        visit(path, self);
    }

    fn rebuild(&self, path: &Path<'_>, rebuild: &mut Rebuilder<'_>) -> Result<Self> {
        rebuild(path, self)
    }
}

impl<T: Tree> Tree for Box<T> {
    fn visit<'a>(&'a self, path: &Path<'_>, visit: &mut Visitor<'_, 'a>) {
        (**self).visit(path, visit);
    }

    fn rebuild(&self, path: &Path<'_>, rebuild: &mut Rebuilder<'_>) -> Result<Self> {
        (**self).rebuild(path, rebuild).map(Box::new)
    }
}

impl<T: Tree> Tree for Option<T> {
    fn visit<'a>(&'a self, path: &Path<'_>, visit: &mut Visitor<'_, 'a>) {
        if let Some(tree) = self {
            tree.visit(path, visit);
        }
    }

    fn rebuild(&self, path: &Path<'_>, rebuild: &mut Rebuilder<'_>) -> Result<Self> {
        self.as_ref().map(|tree| tree.rebuild(path, rebuild)).transpose()
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn visit<'a>(&'a self, path: &Path<'_>, visit: &mut Visitor<'_, 'a>) {
        let each = self.iter().enumerate();
        each.for_each(|(i, tree)| tree.visit(&path.element(i), visit));
    }

    fn rebuild(&self, path: &Path<'_>, rebuild: &mut Rebuilder<'_>) -> Result<Self> {
        let each = self.iter().enumerate();
        each.map(|(i, tree)| tree.rebuild(&path.element(i), rebuild)).collect()
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit<'a>(&'a self, path: &Path<'_>, visit: &mut Visitor<'_, 'a>) {
        let each = self.iter().enumerate();
        each.for_each(|(i, tree)| tree.visit(&path.element(i), visit));
    }

    fn rebuild(&self, path: &Path<'_>, rebuild: &mut Rebuilder<'_>) -> Result<Self> {
        let each = self.iter().enumerate();
        let rebuilt = each.map(|(i, tree)| tree.rebuild(&path.element(i), rebuild));
        let rebuilt: Vec<T> = rebuilt.collect::<Result<_>>()?;
        Ok(rebuilt.try_into().unwrap_or_else(|_| unreachable!("there is one for each")))
    }
}

impl<T: Tree> Tree for BTreeMap<String, T> {
    fn visit<'a>(&'a self, path: &Path<'_>, visit: &mut Visitor<'_, 'a>) {
        let each = self.iter().enumerate();
        each.for_each(|(i, (name, tree))| tree.visit(&path.field(i, name), visit));
    }

    fn rebuild(&self, path: &Path<'_>, rebuild: &mut Rebuilder<'_>) -> Result<Self> {
        let rebuilt = |(i, (name, tree)): (usize, (&String, &T))| {
            Ok((name.clone(), tree.rebuild(&path.field(i, name), rebuild)?))
        };
        self.iter().enumerate().map(rebuilt).collect()
    }
}

macro_rules! tuples {
    ($(($($part:ident $index:tt),*))*) => {$(
        impl<$($part: Tree),*> Tree for ($($part,)*) {
            fn visit<'a>(&'a self, _path: &Path<'_>, _visit: &mut Visitor<'_, 'a>) {
                $(self.$index.visit(&_path.element($index), _visit);)*
            }

            fn rebuild(&self, _path: &Path<'_>, _rebuild: &mut Rebuilder<'_>) -> Result<Self> {
                Ok(($(self.$index.rebuild(&_path.element($index), _rebuild)?,)*))
            }
        }
    )*};
}

tuples! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
