//! Reading and writing elements at indices: functions, `a[...]`, `a[...] = v` and
//! `a.at[...].add(v)`.

use mlx::{Array, ops};

use super::{Table, flat, one};

macro_rules! updates {
    ($($name:literal $method:ident),*) => {
        &[$((concat!("at.", $name), |x| {
            let (a, index) = (x.array(0)?, x.at(1).index()?);
            one(a.at(&index).$method(&*x.at(2).operand()?))
        }),)*]
    };
}

pub(super) const UPDATES: Table = updates! {
    "add" add, "subtract" subtract, "multiply" multiply, "divide" divide, "maximum" maximum,
    "minimum" minimum
};

pub(super) const TABLE: Table = &[
    ("take", |x| {
        let ((a, axis), picks) = (flat(x)?, x.at(1));
        match picks.is_array() {
            true => one(ops::take(&a, &picks.array()?, axis)),
            false => one(ops::take(&a, &Array::scalar(picks.int() as i32)?, axis)),
        }
    }),
    ("take_along_axis", |x| {
        let (a, axis) = flat(x)?;
        one(ops::take_along_axis(&a, &x.array(1)?, axis))
    }),
    ("put_along_axis", |x| {
        let (a, axis) = flat(x)?;
        one(ops::put_along_axis(&a, &x.array(1)?, &x.array(2)?, axis))
    }),
    ("slice", |x| {
        let (axes, sizes) = (x.at(2).ints(), x.at(3).sizes()?);
        one(ops::dynamic_slice(&x.array(0)?, &x.array(1)?, &axes, &sizes))
    }),
    ("slice_update", |x| {
        let (a, update, start) = (x.array(0)?, x.array(1)?, x.array(2)?);
        one(ops::dynamic_slice_update(&a, &update, &start, &x.at(3).ints()))
    }),
    ("getitem", |x| one(x.array(0)?.get_item(&x.at(1).index()?))),
    ("setitem", |x| {
        let mut a = x.array(0)?;
        a.set_item(&x.at(1).index()?, &*x.at(2).operand()?)?;
        Ok(vec![a])
    }),
];
