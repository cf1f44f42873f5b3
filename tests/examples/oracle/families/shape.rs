//! Functions that give the elements another shape, and joins and splits.

use mlx::{Array, Result, ops};

use super::{Table, one};

/// References to arrays, as functions of several take them.
fn refs(arrays: &[Array]) -> Vec<&Array> {
    arrays.iter().collect()
}

pub(super) const TABLE: Table = &[
    ("reshape", |x| one(ops::reshape(&x.array(0)?, &x.at(1).ints()))),
    ("squeeze", |x| one(ops::squeeze(&x.array(0)?, &x.at("axis").ints()))),
    ("flatten", |x| one(ops::flatten(&x.array(0)?, x.at(1).int(), x.at(2).int()))),
    ("unflatten", |x| one(ops::unflatten(&x.array(0)?, x.at(1).int(), &x.at(2).ints()))),
    ("expand_dims", |x| one(ops::expand_dims(&x.array(0)?, &x.at(1).ints()))),
    ("atleast_1d", |x| one(ops::atleast_1d(&x.array(0)?))),
    ("atleast_2d", |x| one(ops::atleast_2d(&x.array(0)?))),
    ("atleast_3d", |x| one(ops::atleast_3d(&x.array(0)?))),
    ("transpose", |x| one(ops::transpose(&x.array(0)?, &x.at("axes").ints()))),
    ("permute_dims", |x| one(ops::permute_dims(&x.array(0)?, &x.at("axes").ints()))),
    ("swapaxes", |x| one(ops::swapaxes(&x.array(0)?, x.at(1).int(), x.at(2).int()))),
    ("moveaxis", |x| one(ops::moveaxis(&x.array(0)?, x.at(1).int(), x.at(2).int()))),
    ("matrix_transpose", |x| one(ops::matrix_transpose(&x.array(0)?))),
    ("contiguous", |x| one(ops::contiguous(&x.array(0)?, x.at("allow_col_major").flag()))),
    ("as_strided", |x| {
        let (shape, strides) = (x.at("shape").sizes()?, x.at("strides").ints());
        one(ops::as_strided(&x.array(0)?, &shape, &strides, x.at("offset").count()?))
    }),
    ("broadcast_to", |x| one(ops::broadcast_to(&x.array(0)?, &x.at(1).sizes()?))),
    ("broadcast_arrays", |x| ops::broadcast_arrays(&refs(&x.all_arrays()?))),
    ("broadcast_shapes", |x| {
        let shapes = x.all().into_iter().map(|shape| shape.sizes()).collect::<Result<Vec<_>>>()?;
        let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let joint: Vec<i32> = ops::broadcast_shapes(&shapes)?.iter().map(|&d| d as i32).collect();
        one(Array::from_slice(&joint, &[joint.len()]))
    }),
    ("concatenate", |x| one(ops::concatenate(&refs(&x.at(0).arrays()?), x.at("axis").int()))),
    ("concat", |x| one(ops::concatenate(&refs(&x.at(0).arrays()?), x.at("axis").int()))),
    ("stack", |x| one(ops::stack(&refs(&x.at(0).arrays()?), x.at("axis").int()))),
    ("meshgrid", |x| {
        let (sparse, indexing) = (x.at("sparse").flag(), x.at("indexing").text());
        ops::meshgrid(&refs(&x.all_arrays()?), sparse, indexing)
    }),
    ("split", |x| {
        let (a, parts, axis) = (x.array(0)?, x.at(1), x.at("axis").int());
        match parts.is_list() {
            true => ops::split_at(&a, &parts.ints(), axis),
            false => ops::split(&a, parts.count()?, axis),
        }
    }),
    ("unstack", |x| ops::unstack(&x.array(0)?, x.at("axis").int())),
    ("astype", |x| one(ops::astype(&x.array(0)?, x.at(1).dtype()))),
    ("view", |x| one(ops::view(&x.array(0)?, x.at(1).dtype()))),
];
