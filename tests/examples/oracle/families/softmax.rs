//! Softmax and its logarithm.

use mlx::ops;

use super::{Table, one};

pub(super) const TABLE: Table = &[
    ("softmax", |x| one(ops::softmax(&x.array(0)?, &x.at("axis").ints(), x.at("precise").flag()))),
    ("logsumexp", |x| {
        one(ops::logsumexp(&x.array(0)?, &x.at("axis").ints(), x.at("keepdims").flag()))
    }),
];
