//! Orders. What comes in no particular order is sorted before it is compared, as the generator does.

use mlx::{Array, Result, ops};

use super::{Table, flat, one};

pub(super) const TABLE: Table = &[
    ("sort", |x| flat(x).and_then(|(a, axis)| one(ops::sort(&a, axis)))),
    ("argsort", |x| flat(x).and_then(|(a, axis)| one(ops::argsort(&a, axis)))),
    ("partition", |x| {
        let ((a, axis), kth) = (flat(x)?, x.at(1).int());
        one(sides(&ops::partition(&a, kth, axis)?, kth, axis))
    }),
    ("argpartition", |x| {
        let ((a, axis), kth) = (flat(x)?, x.at(1).int());
        let places = ops::argpartition(&a, kth, axis)?;
        one(sides(&ops::take_along_axis(&a, &places, axis)?, kth, axis))
    }),
    ("topk", |x| {
        let (a, axis) = flat(x)?;
        one(ops::sort(&ops::topk(&a, x.at(1).count()?, axis)?, axis))
    }),
    ("searchsorted", |x| one(ops::searchsorted(&x.array(0)?, &x.array(1)?, x.at("side").text()))),
    ("unique", |x| {
        let fill = x.at("fill_value").maybe_array()?;
        let found = ops::unique(&x.array(0)?, x.at(1).count()?, fill.as_ref())?;
        Ok(vec![found.values, found.index, found.inverse, found.counts])
    }),
];

/// The elements before and behind a place, sorted.
fn sides(a: &Array, kth: isize, axis: isize) -> Result<Array> {
    let kth = if kth < 0 { kth + a.dim(axis) as isize } else { kth };
    let parts = ops::split_at(a, &[kth, kth + 1], axis)?;
    let (low, high) = (ops::sort(&parts[0], axis)?, ops::sort(&parts[2], axis)?);
    ops::concatenate(&[&low, &parts[1], &high], axis)
}
