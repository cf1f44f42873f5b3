//! Products of picked matrices, of masked blocks and of segments.

use mlx::ops;

use super::{Table, one};

pub(super) const TABLE: Table = &[
    ("gather_mm", |x| {
        let (lhs, rhs) = (x.at(2).maybe_array()?, x.at(3).maybe_array()?);
        let sorted = x.at("sorted_indices").flag();
        one(ops::gather_mm(&x.array(0)?, &x.array(1)?, lhs.as_ref(), rhs.as_ref(), sorted))
    }),
    ("block_masked_mm", |x| {
        let (a, b, block_size) = (x.array(0)?, x.array(1)?, x.at(2).count()?);
        let (out, lhs) = (x.at(3).maybe_array()?, x.at(4).maybe_array()?);
        let rhs = x.at(5).maybe_array()?;
        one(ops::block_masked_mm(&a, &b, block_size, out.as_ref(), lhs.as_ref(), rhs.as_ref()))
    }),
    ("segmented_mm", |x| one(ops::segmented_mm(&x.array(0)?, &x.array(1)?, &x.array(2)?))),
];
