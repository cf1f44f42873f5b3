//! Running sums and their like, and differences.

use mlx::ops;

use super::{Table, flat, one};

macro_rules! table {
    ($($name:ident $(= $alias:literal)*),*) => {
        &[
            $(
                (stringify!($name), |x| {
                    let (a, axis) = flat(x)?;
                    let (reverse, inclusive) = (x.at("reverse").flag(), x.at("inclusive").flag());
                    one(ops::$name(&a, axis, reverse, inclusive))
                }),
                $(($alias, |x| {
                    let (a, axis) = flat(x)?;
                    let (reverse, inclusive) = (x.at("reverse").flag(), x.at("inclusive").flag());
                    one(ops::$name(&a, axis, reverse, inclusive))
                }),)*
            )*
            ("diff", |x| one(ops::diff(&x.array(0)?, x.at("n").count()?, x.at("axis").int()))),
        ]
    };
}

pub(super) const TABLE: Table = table! {
    cumsum = "cumulative_sum", cumprod = "cumulative_prod", cummax, cummin, logcumsumexp
};
