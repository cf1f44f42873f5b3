//! Running sums and their like, and differences.

use mlx::ops;

use super::{Table, one};

macro_rules! scan {
    ($name:ident $(, $dtype:literal)?) => {
        |x| {
            let axis = x.at("axis").maybe_int();
            let (reverse, inclusive) = (x.at("reverse").flag(), x.at("inclusive").flag());
            one(ops::$name(
                &x.array(0)?,
                axis,
                reverse,
                inclusive,
                $(x.at($dtype).maybe_dtype(),)?
            ))
        }
    };
}

pub(super) const TABLE: Table = &[
    ("cumsum", scan!(cumsum, "dtype")),
    ("cumulative_sum", scan!(cumsum, "dtype")),
    ("cumprod", scan!(cumprod, "dtype")),
    ("cumulative_prod", scan!(cumprod, "dtype")),
    ("cummax", scan!(cummax)),
    ("cummin", scan!(cummin)),
    ("logcumsumexp", scan!(logcumsumexp)),
    ("diff", |x| one(ops::diff(&x.array(0)?, x.at("n").count()?, x.at("axis").int()))),
];
