//! Cotangents of slices of one value become one concatenation where they do not overlap.

use std::collections::BTreeMap;

use mlx::{Array, Dtype, Result, ops, transforms::vjp};
use mlx_tests::{filled, noise, on_each_device, values};

/// How often primitives stand in the graph of an array, by their names.
fn counts(a: &Array) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let mut met: Vec<Array> = vec![a.clone()];
    let mut next = 0;
    while let Some(array) = met.get(next).cloned() {
        next += 1;
        let Some(node) = array.node() else { continue };
        *counts.entry(node.primitive.name()).or_insert(0) += 1;
        for input in &node.inputs {
            if !met.iter().any(|other| other.is_same(input)) {
                met.push(input.clone());
            }
        }
    }
    counts
}

/// The derivative of some results of one array, with random cotangents, and the sum of those derivatives
/// by each result alone.
fn derivatives(fun: impl Fn(&Array) -> Result<Vec<Array>>) -> (Array, Vec<f64>) {
    let x = filled(&[6, 4], Dtype::Float32, noise(1, -1.0, 1.0));
    let of = |seed, a: &Array| filled(a.shape(), Dtype::Float32, noise(seed, -1.0, 1.0));
    let outputs = fun(&x).unwrap();
    let cotangents: Vec<Array> = outputs.iter().zip(2..).map(|(a, seed)| of(seed, a)).collect();
    let by = |pick: Option<usize>| {
        let picked = |all: Vec<Array>| match pick {
            Some(i) => vec![all[i].clone()],
            None => all,
        };
        let fun = |x: &[Array]| Ok(picked(fun(&x[0])?));
        vjp(fun, std::slice::from_ref(&x), &picked(cotangents.clone())).unwrap().1.remove(0)
    };
    let mut sum = vec![0.0; 24];
    for i in 0..outputs.len() {
        sum.iter_mut().zip(values(&by(Some(i)))).for_each(|(sum, by)| *sum += by);
    }
    (by(None), sum)
}

#[track_caller]
fn check(fun: impl Fn(&Array) -> Result<Vec<Array>>, want: &[(&str, usize)]) {
    let (by, sum) = derivatives(fun);
    let counts = counts(&by);
    for name in ["Concatenate", "SliceUpdate", "Add"] {
        let want = want.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count);
        assert_eq!(counts.get(name).copied().unwrap_or(0), want, "{name} in {counts:?}");
    }
    let far = values(&by).iter().zip(&sum).any(|(a, b)| (a - b).abs() > 1e-6);
    assert!(!far, "{:?} instead of {sum:?}", values(&by));
}

fn rows(x: &Array, from: isize, to: isize) -> Result<Array> {
    ops::slice_axis(x, 0, from, to)
}

#[test]
fn the_derivative_of_a_split_is_a_concatenation() {
    on_each_device(|_| {
        check(|x| ops::split(x, 6, 0), &[("Concatenate", 1)]);
        check(|x| ops::split(x, 2, 1), &[("Concatenate", 1)]);
        // Parts that nothing depends on are zero.
        check(|x| Ok(vec![rows(x, 1, 2)?, rows(x, 4, 6)?]), &[("Concatenate", 1)]);
    });
}

#[test]
fn slices_of_the_same_indices_are_added_first() {
    on_each_device(|_| {
        let fun = |x: &Array| Ok(vec![rows(x, 0, 3)?, rows(x, 0, 3)?, rows(x, 3, 6)?]);
        check(fun, &[("Concatenate", 1), ("Add", 1)]);
    });
}

#[test]
fn splits_along_several_axes_and_other_uses_are_added() {
    on_each_device(|_| {
        let fun = |x: &Array| {
            let mut all = ops::split(x, 3, 0)?;
            all.extend(ops::split(x, 2, 1)?);
            all.push(ops::negative(x)?);
            Ok(all)
        };
        check(fun, &[("Concatenate", 2), ("Add", 2)]);
    });
}

#[test]
fn slices_that_overlap_or_skip_are_updates() {
    on_each_device(|_| {
        let overlap = |x: &Array| Ok(vec![rows(x, 0, 4)?, rows(x, 2, 6)?]);
        check(overlap, &[("SliceUpdate", 2), ("Add", 1)]);
        check(|x| Ok(vec![rows(x, 1, 4)?]), &[("SliceUpdate", 1)]);
        let every = |x: &Array, first| ops::slice(x, &[first, 0], &[6, 4], &[2, 1]);
        check(|x| Ok(vec![every(x, 0)?, every(x, 1)?]), &[("SliceUpdate", 2), ("Add", 1)]);
        let corner = |x: &Array| ops::slice(x, &[0, 0], &[3, 2], &[1, 1]);
        check(|x| Ok(vec![corner(x)?, rows(x, 3, 6)?]), &[("SliceUpdate", 2), ("Add", 1)]);
    });
}
