//! Reductions over axes, and the places of extremes.

use mlx::ops;

use super::{Table, one, two};

macro_rules! over_axes {
    ($($how:ident $name:ident),*; $($spread:ident),*; $($place:ident),*) => {
        &[
            $((stringify!($name), |x| {
                $how(ops::$name(&x.array(0)?, &x.at("axis").ints(), x.at("keepdims").flag()))
            }),)*
            $((stringify!($spread), |x| {
                let (axes, keepdims) = (x.at("axis").ints(), x.at("keepdims").flag());
                one(ops::$spread(&x.array(0)?, &axes, keepdims, x.at("ddof").count()? as isize))
            }),)*
            $((stringify!($place), |x| {
                one(ops::$place(&x.array(0)?, x.at("axis").maybe_int(), x.at("keepdims").flag()))
            }),)*
        ]
    };
}

pub(super) const TABLE: Table = over_axes! {
    one sum, one prod, one max, one min, one all, one any, one mean, two minmax, one count_nonzero,
    one median;
    var, std;
    argmax, argmin
};
