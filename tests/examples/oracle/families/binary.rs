//! Functions of two arrays, element by element; comparisons, logic and bits.

use mlx::ops;

use super::{Table, one, two};

macro_rules! table {
    ($($how:ident $name:ident $(= $alias:literal)*),*; $($close:ident),*) => {
        &[
            $(
                (stringify!($name), |x| {
                    $how(ops::$name(&*x.at(0).operand()?, &*x.at(1).operand()?))
                }),
                $(($alias, |x| $how(ops::$name(&*x.at(0).operand()?, &*x.at(1).operand()?))),)*
            )*
            $((stringify!($close), |x| {
                let (rtol, atol) = (x.at("rtol").real(), x.at("atol").real());
                let equal_nan = x.at("equal_nan").flag();
                one(ops::$close(&x.array(0)?, &x.array(1)?, rtol, atol, equal_nan))
            }),)*
            ("array_equal", |x| {
                one(ops::array_equal(&x.array(0)?, &x.array(1)?, x.at("equal_nan").flag()))
            }),
        ]
    };
}

pub(super) const TABLE: Table = table! {
    one add, one subtract, one multiply, one maximum, one minimum,
    one equal, one not_equal, one greater, one greater_equal, one less, one less_equal,
    one logical_and, one logical_or, one logical_xor,
    one bitwise_and, one bitwise_or, one bitwise_xor,
    one left_shift = "bitwise_left_shift", one right_shift = "bitwise_right_shift",
    one divide, one arctan2 = "atan2", one logaddexp, one remainder, one floor_divide, two divmod,
    one power = "pow";
    isclose, allclose
};
