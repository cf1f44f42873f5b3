//! Functions of one array, element by element.

use mlx::ops;

use super::{Table, one};

macro_rules! table {
    ($($name:ident $(= $alias:literal)*),* $(,)?) => {
        &[
            $(
                (stringify!($name), |x| one(ops::$name(&x.array(0)?))),
                $(($alias, |x| one(ops::$name(&x.array(0)?))),)*
            )*
            ("round", |x| one(ops::round(&x.array(0)?, x.at(1).int() as i32))),
            ("nan_to_num", |x| {
                let limit = |name| x.at(name).given().map(|limit| limit.single());
                let nan = x.at("nan").single();
                one(ops::nan_to_num(&x.array(0)?, nan, limit("posinf"), limit("neginf")))
            }),
        ]
    };
}

pub(super) const TABLE: Table = table! {
    arccos = "acos", arccosh = "acosh", arcsin = "asin", arcsinh = "asinh", arctan = "atan",
    arctanh = "atanh", cos, cosh, erf, erfinv, exp, expm1, log, log10, log1p, log2, rsqrt,
    sigmoid, sin, sinh, sqrt, tan, tanh,
    abs, ceil, floor, trunc, negative, positive, sign, square, logical_not, bitwise_invert,
    conjugate = "conj", real, imag, isnan, isinf, isfinite, isposinf, isneginf,
    radians, degrees, reciprocal,
};
