//! Arrays from nothing.

use mlx::ops;

use super::{Table, one};

pub(super) const TABLE: Table = &[
    ("arange", |x| {
        let dtype = x.at("dtype").dtype();
        one(ops::arange(x.at(0).real(), x.at(1).real(), x.at(2).real(), dtype))
    }),
    ("linspace", |x| {
        let (start, stop, num) = (x.at(0).real(), x.at(1).real(), x.at(2).count()?);
        one(ops::linspace(start, stop, num, x.at("endpoint").flag(), x.at("dtype").dtype()))
    }),
    ("zeros", |x| one(ops::zeros(&x.at(0).sizes()?, x.at("dtype").dtype()))),
    ("empty", |x| one(ops::zeros(&x.at(0).sizes()?, x.at("dtype").dtype()))),
    ("ones", |x| one(ops::ones(&x.at(0).sizes()?, x.at("dtype").dtype()))),
    ("zeros_like", |x| one(ops::zeros_like(&x.array(0)?))),
    ("empty_like", |x| one(ops::zeros_like(&x.array(0)?))),
    ("ones_like", |x| one(ops::ones_like(&x.array(0)?))),
    ("full", |x| {
        let (shape, value) = (x.at(0).sizes()?, x.at(1).operand()?);
        one(ops::full(&shape, &*value, x.at("dtype").dtype()))
    }),
    ("full_like", |x| {
        let value = x.at(1).operand()?;
        one(ops::full_like(&x.array(0)?, &*value, x.at("dtype").maybe_dtype()))
    }),
    ("tri", |x| {
        let n = x.at(0).count()?;
        let m = x.at(1).given().map_or(Ok(n), |m| m.count())?;
        one(ops::tri(n, m, x.at(2).int(), x.at("dtype").dtype()))
    }),
    ("eye", |x| {
        let n = x.at(0).count()?;
        let m = x.at(1).given().map_or(Ok(n), |m| m.count())?;
        one(ops::eye(n, m, x.at(2).int(), x.at("dtype").dtype()))
    }),
    ("identity", |x| one(ops::identity(x.at(0).count()?, x.at("dtype").dtype()))),
    // A negative number of points is no error: there are none.
    ("bartlett", |x| one(ops::bartlett(x.at(0).int().max(0) as usize))),
    ("blackman", |x| one(ops::blackman(x.at(0).int().max(0) as usize))),
    ("hamming", |x| one(ops::hamming(x.at(0).int().max(0) as usize))),
    ("hanning", |x| one(ops::hanning(x.at(0).int().max(0) as usize))),
];
