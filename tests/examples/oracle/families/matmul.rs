//! Products of matrices.

use mlx::ops;

use super::{Table, one};

pub(super) const TABLE: Table = &[
    ("matmul", |x| one(ops::matmul(&x.array(0)?, &x.array(1)?))),
    ("addmm", |x| {
        let (alpha, beta) = (x.at("alpha").single(), x.at("beta").single());
        one(ops::addmm(&x.array(0)?, &x.array(1)?, &x.array(2)?, alpha, beta))
    }),
];
