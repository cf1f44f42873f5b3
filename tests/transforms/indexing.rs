//! Derivatives and mapping of reads and writes at indices, and of what is built on them.

use mlx::{Array, Dtype, Index, Result, Slice, ops, transforms::vjp};
use mlx_tests::{filled, noise};

use crate::{common::random, derivatives, mapping};

fn ints(values: &[i32], shape: &[usize]) -> Array {
    Array::from_slice(values, shape).unwrap()
}

/// Checks the derivatives of a function of float64 arrays of these shapes.
fn check<const N: usize>(
    name: &str,
    shapes: [&[usize]; N],
    apply: impl Fn([&Array; N]) -> Result<Array>,
) {
    let inputs: Vec<Array> = shapes.iter().zip(1..).map(|(shape, i)| random(shape, i)).collect();
    derivatives::check_function(name, &inputs, |inputs| {
        Ok(vec![apply(std::array::from_fn(|i| &inputs[i]))?])
    });
}

#[test]
fn derivatives_of_reading() {
    let picks = ints(&[2, -1, 2, 0], &[2, 2]);
    for axis in [0, 1, -1] {
        check("take", [&[3, 4, 3]], |[a]| ops::take(a, &picks, axis));
        check("a scalar index", [&[3, 4, 3]], |[a]| ops::take(a, &ints(&[-1], &[]), axis));
        check("no index", [&[3, 4, 3]], |[a]| ops::take(a, &ints(&[], &[0]), axis));
    }
    check("nothing to take", [&[0, 4]], |[a]| ops::take(a, &ints(&[], &[0]), 0));
    check("take of a scalar", [&[1]], |[a]| ops::take(a, &ints(&[0, 0], &[2]), 0));
    check("embedding", [&[5, 3], &[3, 2]], |[table, w]| {
        let rows = ops::take(table, &ints(&[4, 1, 1, 0, 4, 4], &[2, 3]), 0)?;
        ops::tanh(&ops::matmul(&rows, w)?)
    });
    check("take_along_axis", [&[3, 4]], |[a]| {
        ops::take_along_axis(a, &ints(&[2, -1, 2, 0, 1, 1], &[3, 2]), 1)
    });
    check("gather", [&[4, 5, 3]], |[a]| {
        let (rows, planes) = (ints(&[3, -1, 0], &[3, 1]), ints(&[0, 2], &[2]));
        ops::gather(a, &[&rows, &planes], &[0, 2], &[1, 4, 1])
    });
    check("slices that reach outside", [&[5, 4]], |[a]| {
        ops::gather(a, &[&ints(&[4, -2, 1], &[3])], &[0], &[3, 2])
    });
    check("dynamic_slice", [&[5, 4]], |[a]| {
        ops::dynamic_slice(a, &ints(&[3, 1], &[2]), &[0, 1], &[2, 2])
    });
    check("indices that depend on it", [&[5, 4]], |[a]| {
        let order = ops::astype(&ops::multiply(&ops::abs(a)?, 3.0)?, Dtype::Int32)?;
        ops::take_along_axis(a, &order, 1)
    });
}

/// How updates join.
type Join = fn(&Array, &[&Array], &Array, &[isize]) -> Result<Array>;

#[test]
fn derivatives_of_scatters() {
    let apart = ints(&[3, -4, 1], &[3]);
    let repeated = ints(&[2, 2, -2, 0], &[2, 2]);
    let joins: [(&str, Join); 5] = [
        ("scatter", ops::scatter),
        ("scatter_add", ops::scatter_add),
        ("scatter_prod", ops::scatter_prod),
        ("scatter_max", ops::scatter_max),
        ("scatter_min", ops::scatter_min),
    ];
    for (name, join) in joins {
        check(name, [&[4, 3], &[3, 1, 2]], |[a, updates]| join(a, &[&apart], updates, &[0]));
        let two = [&ints(&[1, 0], &[2, 1]), &ints(&[2, 0], &[2])];
        check(name, [&[3, 2, 3], &[2, 2, 1, 2, 1]], |[a, updates]| join(a, &two, updates, &[0, 2]));
        check(name, [&[4, 3], &[0, 1, 2]], |[a, updates]| {
            join(a, &[&ints(&[], &[0])], updates, &[0])
        });
        check(name, [&[5, 4], &[3, 3, 2]], |[a, updates]| {
            join(a, &[&ints(&[4, -2, 1], &[3])], updates, &[0])
        });
        if name != "scatter" {
            check(name, [&[4, 3], &[2, 2, 1, 3]], |[a, updates]| {
                join(a, &[&repeated], updates, &[0])
            });
        }
    }
}

#[test]
fn derivatives_of_products_with_zeros() {
    mlx_tests::init();
    let run = || {
        let (a, rows) = (random(&[3], 1), ints(&[0, 0, 1, 1, 2], &[5]));
        // One factor of element 0 is zero, and two of element 1.
        let factors = Array::from_slice(&[0.0, 3.0, 0.0, 0.0, 2.0], &[5, 1]).unwrap();
        let factors = ops::astype(&factors, Dtype::Float64).unwrap();
        let fun = |x: &[Array]| Ok(vec![ops::scatter_prod(&x[0], &[&rows], &x[1], &[0])?]);
        let ones = ops::ones(&[3], Dtype::Float64).unwrap();
        let got = vjp(fun, &[a.clone(), factors], &[ones]).unwrap().1;
        let a = mlx_tests::values(&a);
        assert_eq!(mlx_tests::values(&got[0]), [0.0, 0.0, 2.0]);
        assert_eq!(mlx_tests::values(&got[1]), [3.0 * a[0], 0.0, 0.0, 0.0, a[2]]);
    };
    mlx::with_device(mlx::Device::CPU, run).unwrap();
}

#[test]
fn derivatives_of_indexing() {
    let rows = ints(&[0, 2, 2, -1], &[4]);
    let index = [Index::from(&rows), Index::Ellipsis, Slice::new(None, None, -2).into()];
    check("a[rows, ..., ::-2]", [&[3, 2, 4]], |[a]| a.get_item(&index));
    check("a[1, None, 1:3]", [&[3, 4]], |[a]| {
        a.get_item(&[1.into(), Index::NewAxis, (1..3).into()])
    });
    check("add", [&[3, 2, 4], &[4, 2, 2]], |[a, v]| a.at(&index).add(v));
    check("subtract", [&[3, 2, 4], &[4, 1, 2]], |[a, v]| a.at(&index).subtract(v));
    check("multiply", [&[3, 2, 4], &[2, 2]], |[a, v]| a.at(&index).multiply(v));
    check("divide", [&[3, 2, 4], &[4, 2, 1]], |[a, v]| a.at(&index).divide(v));
    check("maximum", [&[3, 2, 4], &[4, 2, 2]], |[a, v]| a.at(&index).maximum(v));
    check("minimum", [&[3, 2, 4], &[4, 2, 2]], |[a, v]| a.at(&index).minimum(v));
    check("slices", [&[3, 4], &[2]], |[a, v]| a.at(&[(1..).into(), (0..2).into()]).multiply(v));
    check("set_item", [&[3, 4], &[4]], |[a, v]| {
        let mut b = ops::sin(a)?;
        b.set_item(&[1.into()], v)?;
        b.set_item(&[Index::from(ints(&[0, 2], &[2])), 3.into()], 2.0)?;
        ops::multiply(&b, a)
    });
    check("a mask", [&[2, 3], &[3]], |[a, v]| {
        let mask = ops::greater(ints(&[1, 0, 0, 1, 1, 0], &[2, 3]), 0)?;
        ops::masked_scatter(a, &mask, &ops::exp(v)?)
    });
    check("slice_update", [&[4, 5], &[2, 2]], |[a, v]| {
        ops::slice_update(a, v, &[0, 1], &[4, 5], &[2, 2])
    });
    check("dynamic_slice_update", [&[4, 5], &[2, 3]], |[a, v]| {
        ops::dynamic_slice_update(a, v, &ints(&[1, 2], &[2]), &[0, 1])
    });
    check("put_along_axis", [&[3, 4], &[3, 2]], |[a, v]| {
        ops::put_along_axis(a, &ints(&[0, -1, 2, 1, 3, 0], &[3, 2]), v, 1)
    });
    check("scatter_add_axis", [&[3, 4], &[1, 2]], |[a, v]| {
        ops::scatter_add_axis(a, &ints(&[0, -1, 2, 2, 3, 0], &[3, 2]), v, 1)
    });
    check("diagonal", [&[3, 4, 2]], |[a]| ops::diagonal(a, 1, 0, 1));
    check("diag", [&[3]], |[a]| ops::diag(a, -1));
}

/// Random float32 numbers, other ones for each index.
fn floats(shape: &[usize], seed: u64) -> Array {
    filled(shape, Dtype::Float32, noise(seed + 1, -1.0, 1.0))
}

/// Random integers from `low` to below `high`, other ones for each index.
fn random_ints(shape: &[usize], dtype: Dtype, seed: u64, low: f64, high: f64) -> Array {
    let random = noise(7 * seed + 3, low, high);
    filled(shape, dtype, move |i| random(i).floor())
}

#[test]
fn mapped_reading() {
    for axis in 0..3 {
        for shape in [&[][..], &[2], &[2, 3]] {
            let inputs =
                |i| vec![floats(&[3, 4, 3], i), random_ints(shape, Dtype::Int32, i, -3.0, 3.0)];
            let take = |x: &[Array]| Ok(vec![ops::take(&x[0], &x[1], axis)?]);
            mapping::check_function("take", inputs, take);
        }
    }
    let inputs = |i| {
        let rows = random_ints(&[2, 1], Dtype::Int8, i, -4.0, 3.0);
        vec![floats(&[4, 5, 3], i), rows, random_ints(&[3], Dtype::Int8, i + 9, 0.0, 2.0)]
    };
    let gather = |x: &[Array]| Ok(vec![ops::gather(&x[0], &[&x[1], &x[2]], &[0, 2], &[2, 3, 1])?]);
    mapping::check_function("gather", inputs, gather);
    let dynamic = |x: &[Array]| Ok(vec![ops::dynamic_slice(&x[0], &x[1], &[0, 2], &[2, 5, 1])?]);
    let inputs = |i| vec![floats(&[4, 5, 3], i), random_ints(&[2], Dtype::Int32, i, 0.0, 3.0)];
    mapping::check_function("dynamic_slice", inputs, dynamic);
    let inputs = |i| vec![floats(&[4, 3], i), random_ints(&[4, 2], Dtype::Int32, i, -3.0, 3.0)];
    let along = |x: &[Array]| Ok(vec![ops::take_along_axis(&x[0], &x[1], 1)?]);
    mapping::check_function("take_along_axis", inputs, along);
}

#[test]
fn mapped_writing() {
    let joins: [(&str, Join); 4] = [
        ("scatter_add", ops::scatter_add),
        ("scatter_prod", ops::scatter_prod),
        ("scatter_max", ops::scatter_max),
        ("scatter_min", ops::scatter_min),
    ];
    let inputs = |i| {
        let rows = random_ints(&[2], Dtype::Uint8, i, 0.0, 4.0);
        let planes = random_ints(&[2], Dtype::Uint8, i + 9, 0.0, 2.0);
        vec![floats(&[4, 2, 3], i), rows, planes, floats(&[2, 1, 2, 2], i + 3)]
    };
    for (name, join) in joins {
        let write = |x: &[Array]| Ok(vec![join(&x[0], &[&x[1], &x[2]], &x[3], &[0, 2])?]);
        mapping::check_function(name, inputs, write);
    }
    // Derivatives that are mapped: gathers and scatters of tracers.
    let gradient = |x: &[Array]| {
        let fun = |y: &[Array]| {
            let maxima = ops::scatter_max(&y[0], &[&x[1], &x[2]], &y[1], &[0, 2])?;
            Ok(vec![ops::square(&maxima)?])
        };
        let ones = ops::ones_like(&x[0])?;
        Ok(vjp(fun, &[x[0].clone(), x[3].clone()], &[ones])?.1)
    };
    mapping::check_function("the gradient of scatter_max", inputs, gradient);
    let inputs = |i| vec![floats(&[4, 3], i), floats(&[1, 2], i + 5)];
    let update = |x: &[Array]| {
        let mut a = x[0].clone();
        a.set_item(&[Index::from(ints(&[3, 1], &[2])), (1..).into()], &x[1])?;
        Ok(vec![ops::slice_update_add(&a, &x[1], &[0, 0], &[2, 2], &[1, 1])?])
    };
    mapping::check_function("set_item", inputs, update);
}
