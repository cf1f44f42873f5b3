//! Choosing between arrays.

use mlx::{Array, Result, ops};

use super::{Table, one};
use crate::argument::Argument;

pub(super) const TABLE: Table = &[
    ("where", |x| {
        let (a, b) = (x.at(1).operand()?, x.at(2).operand()?);
        one(ops::where_(&x.array(0)?, &*a, &*b))
    }),
    ("clip", |x| {
        let a = x.array(0)?;
        let limit = |limit: Argument<'_>| -> Result<Option<Array>> {
            limit.given().map(|limit| limit.operand()?.to_array(Some(a.dtype()))).transpose()
        };
        one(ops::clip(&a, limit(x.at(1))?.as_ref(), limit(x.at(2))?.as_ref()))
    }),
];
