//! Functions that move elements: flips, rolls, repeats, padding, triangles and diagonals.

use mlx::{Array, Result, ops};

use super::{Table, one};
use crate::argument::Argument;

pub(super) const TABLE: Table = &[
    ("flip", |x| one(ops::flip(&x.array(0)?, &x.at("axis").ints()))),
    ("roll", |x| one(ops::roll(&x.array(0)?, &x.at(1).ints(), &x.at(2).ints()))),
    ("repeat", |x| one(ops::repeat(&x.array(0)?, x.at(1).count()?, x.at("axis").maybe_int()))),
    ("tile", |x| one(ops::tile(&x.array(0)?, &x.at(1).sizes()?))),
    ("pad", |x| {
        let a = x.array(0)?;
        let value = x.at("constant_values").operand()?;
        one(ops::pad(&a, &widths(x.at(1), &a)?, x.at("mode").text(), &*value))
    }),
    ("tril", |x| one(ops::tril(&x.array(0)?, x.at("k").int()))),
    ("triu", |x| one(ops::triu(&x.array(0)?, x.at("k").int()))),
    ("diag", |x| one(ops::diag(&x.array(0)?, x.at("k").int()))),
    ("diagonal", |x| {
        let (axis1, axis2) = (x.at("axis1").int(), x.at("axis2").int());
        one(ops::diagonal(&x.array(0)?, x.at("offset").int(), axis1, axis2))
    }),
    ("trace", |x| {
        let (axis1, axis2) = (x.at("axis1").int(), x.at("axis2").int());
        let dtype = x.at("dtype").maybe_dtype();
        one(ops::trace(&x.array(0)?, x.at("offset").int(), axis1, axis2, dtype))
    }),
];

/// A width for all sides, a pair for all axes, or a pair for each.
fn widths(widths: Argument<'_>, a: &Array) -> Result<Vec<(usize, usize)>> {
    let pair = |pair: Argument<'_>| -> Result<(usize, usize)> {
        let sides = pair.sizes()?;
        Ok((sides[0], sides[sides.len() - 1]))
    };
    match widths.is_list() && widths.items().iter().all(|item| item.is_list()) {
        true => widths.items().into_iter().map(pair).collect(),
        false => Ok(vec![pair(widths)?; a.ndim()]),
    }
}
