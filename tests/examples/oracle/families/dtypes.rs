//! Questions about dtypes. The answers become arrays, as the generator records them: a dtype an
//! empty array of it.

use mlx::{Array, Category, Dtype, dtype::Bool8, dtype::Kind, ops};

use super::{Table, one};

pub(super) const TABLE: Table = &[
    ("result_type", |x| {
        let dtypes: Vec<Dtype> = x.all().into_iter().map(|dtype| dtype.dtype()).collect();
        one(ops::zeros(&[0], mlx::result_type(&dtypes)?))
    }),
    ("can_cast", |x| one(flag(mlx::can_cast(x.at(0).dtype(), x.at(1).dtype())))),
    ("isdtype", |x| {
        let kind = match x.at(1).is_dtype() {
            true => Kind::from(x.at(1).dtype()),
            false => x.at(1).text().parse()?,
        };
        one(flag(mlx::isdtype(x.at(0).dtype(), &[kind])))
    }),
    ("issubdtype", |x| one(flag(mlx::issubdtype(x.at(0).dtype(), category(x.at(1).text()))))),
    ("finfo", |x| {
        let info = mlx::finfo(x.at(0).dtype())?;
        let limits = [info.min, info.max, info.eps, info.smallest_normal];
        Ok(vec![Array::from_slice(&limits, &[4])?, Array::scalar(info.bits as i32)?])
    }),
    ("iinfo", |x| {
        let info = mlx::iinfo(x.at(0).dtype())?;
        Ok(vec![Array::scalar(info.min)?, Array::scalar(info.max)?])
    }),
];

fn flag(flag: bool) -> mlx::Result<Array> {
    Array::scalar(Bool8::from(flag))
}

fn category(name: &str) -> Category {
    match name {
        "complexfloating" => Category::ComplexFloating,
        "floating" => Category::Floating,
        "inexact" => Category::Inexact,
        "signedinteger" => Category::SignedInteger,
        "unsignedinteger" => Category::UnsignedInteger,
        "integer" => Category::Integer,
        "number" => Category::Number,
        _ => Category::Generic,
    }
}
