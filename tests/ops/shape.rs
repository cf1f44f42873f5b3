//! Views, slices and joining. Elements are compared by their bits.

use mlx::{Array, Dtype, Result, ops};
use mlx_tests::{
    Layout, array, assert_gathered, assert_moved, dtypes_of, indices, integers, keeping,
    on_each_device, random_bits, ravel, unravel, values,
};

/// A dtype of each size: what only moves elements does not look at more.
const SIZES: [Dtype; 4] = [Dtype::Int8, Dtype::Bfloat16, Dtype::Float32, Dtype::Complex64];

/// An array of random bits in a layout.
fn bits(layout: Layout, dtype: Dtype, seed: u64) -> Array {
    layout.view(layout.shape(), |shape| random_bits(shape, dtype, seed))
}

/// Reads a view twice, through the host and through a copy on the device.
fn check_view(
    context: &str,
    a: &Array,
    view: Result<Array>,
    shape: &[usize],
    from: impl Fn(&[usize]) -> Vec<usize>,
) {
    let view = view.expect(context);
    let copy = keeping(context, &[a, &view], || {
        let copy = ops::contiguous(&view, false).expect(context);
        copy.eval().expect(context);
        copy
    });
    assert_moved(context, &view, (a, shape), &from);
    assert_moved(&format!("copy of {context}"), &copy, (a, shape), &from);
}

/// Permutations and reshapes of every layout, also of views of views.
#[test]
fn axes_are_permuted_joined_and_split() {
    on_each_device(|device| {
        for (layout, dtype) in Layout::VIEWS.into_iter().flat_map(|l| SIZES.map(|d| (l, d))) {
            let a = &bits(layout, dtype, 1);
            let what = format!("{dtype} {layout:?} on {device}");
            for [x, y, z] in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let shape = [x, y, z].map(|axis: usize| a.shape()[axis]);
                let turned = ops::transpose(a, &[x as isize, y as isize - 3, z as isize]);
                let from = |i: &[usize]| {
                    let mut from = vec![0; 3];
                    (from[x], from[y], from[z]) = (i[0], i[1], i[2]);
                    from
                };
                check_view(&format!("transpose {what}"), a, turned.clone(), &shape, from);
                // Where strides do not allow a view, a reshape copies.
                for other in [&[60][..], &[4, 15], &[2, 6, 5], &[3, 1, 20], &[5, 2, 2, 3]] {
                    let sizes: Vec<isize> = other.iter().map(|&d| d as isize).collect();
                    let shaped = ops::reshape(turned.as_ref().unwrap(), &sizes);
                    check_view(&format!("reshape {what}"), a, shaped, other, |i| {
                        from(&unravel(ravel(i, other), &shape))
                    });
                }
            }
            check_view(&format!("reverse {what}"), a, ops::transpose(a, &[]), &[5, 4, 3], |i| {
                vec![i[2], i[1], i[0]]
            });
            check_view(&format!("swap {what}"), a, ops::swapaxes(a, 0, -1), &[5, 4, 3], |i| {
                vec![i[2], i[1], i[0]]
            });
            check_view(&format!("move {what}"), a, ops::moveaxis(a, 0, 2), &[4, 5, 3], |i| {
                vec![i[2], i[0], i[1]]
            });
            check_view(&format!("flatten {what}"), a, ops::flatten(a, 1, -1), &[3, 20], |i| {
                vec![i[0], i[1] / 5, i[1] % 5]
            });
            let split = ops::unflatten(a, 1, &[2, -1]);
            check_view(&format!("unflatten {what}"), a, split, &[3, 2, 2, 5], |i| {
                vec![i[0], 2 * i[1] + i[2], i[3]]
            });
        }
    });
}

#[test]
fn axes_of_size_one_come_go_and_repeat() {
    on_each_device(|device| {
        for (layout, dtype) in Layout::VIEWS.into_iter().flat_map(|l| SIZES.map(|d| (l, d))) {
            let a = &bits(layout, dtype, 2);
            let what = format!("{dtype} {layout:?} on {device}");
            let wide = ops::expand_dims(a, &[0, -2]);
            check_view(&format!("expand {what}"), a, wide.clone(), &[1, 3, 4, 1, 5], |i| {
                vec![i[1], i[2], i[4]]
            });
            let wide = wide.unwrap();
            let back = ops::squeeze(&wide, &[]);
            check_view(&format!("squeeze {what}"), a, back, &[3, 4, 5], <[usize]>::to_vec);
            let one = ops::squeeze(&wide, &[-2]);
            check_view(&format!("squeeze one {what}"), a, one, &[1, 3, 4, 5], |i| i[1..].to_vec());
            let repeated = ops::broadcast_to(&wide, &[2, 3, 4, 6, 5]);
            check_view(&format!("broadcast {what}"), a, repeated, &[2, 3, 4, 6, 5], |i| {
                vec![i[1], i[2], i[4]]
            });
            let stacked = ops::broadcast_to(a, &[2, 3, 4, 5]);
            check_view(&format!("new axis {what}"), a, stacked, &[2, 3, 4, 5], |i| i[1..].to_vec());
            assert!(ops::squeeze(a, &[0]).is_err() && ops::broadcast_to(a, &[3, 4, 6]).is_err());
        }
    });
}

/// Python's slices of one axis of `n` elements: the indices that they select.
fn selected(n: usize, start: isize, stop: isize, step: isize) -> Vec<usize> {
    let n = n as isize;
    let wrapped = |i: isize| if i < 0 { i + n } else { i };
    // A stop below -n stays below every index.
    let stop = if stop < -n { -1 } else { wrapped(stop) };
    let mut at =
        wrapped(start).clamp(if step > 0 { 0 } else { -1 }, if step > 0 { n } else { n - 1 });
    let mut out = Vec::new();
    while (0..n).contains(&at) && if step > 0 { at < stop } else { at > stop } {
        out.push(at as usize);
        at += step;
    }
    out
}

/// Starts, stops and steps of slices of a (3, 4, 5) array.
const SLICES: [[[isize; 3]; 3]; 7] = [
    [[0, 1, 2], [3, 3, 5], [1, 1, 1]],
    [[0, 0, 1], [3, 4, 5], [2, 3, 2]],
    [[-2, -1, -3], [3, 4, -1], [1, 1, 1]],
    [[-1, 3, 4], [-9, 0, -9], [-1, -1, -2]],
    [[2, -1, -2], [0, -3, 0], [-1, -1, -1]],
    [[1, 0, 9], [1, 4, -9], [1, 2, -3]],
    [[-9, 1, 0], [9, 2, 99], [1, 5, 4]],
];

#[test]
fn slices_follow_python() {
    on_each_device(|device| {
        for (layout, dtype) in Layout::VIEWS.into_iter().flat_map(|l| SIZES.map(|d| (l, d))) {
            let a = &bits(layout, dtype, 3);
            for [start, stop, steps] in SLICES {
                let axis = |x: usize| selected(a.shape()[x], start[x], stop[x], steps[x]);
                let [x, y, z] = [axis(0), axis(1), axis(2)];
                let shape = [x.len(), y.len(), z.len()];
                let what = format!("{dtype} {layout:?} {start:?} {stop:?} {steps:?} on {device}");
                let cut = ops::slice(a, &start, &stop, &steps);
                check_view(&what, a, cut, &shape, |i| vec![x[i[0]], y[i[1]], z[i[2]]]);
            }
            let what = format!("parts of {dtype} {layout:?} on {device}");
            let (halves, pieces) =
                (ops::split(a, 2, 1).unwrap(), ops::split_at(a, &[1, 4], -1).unwrap());
            for (part, half) in halves.into_iter().enumerate() {
                check_view(&what, a, Ok(half), &[3, 2, 5], |i| vec![i[0], i[1] + 2 * part, i[2]]);
            }
            for ((first, n), piece) in [(0, 1), (1, 3), (4, 1)].into_iter().zip(pieces) {
                check_view(&what, a, Ok(piece), &[3, 4, n], |i| vec![i[0], i[1], i[2] + first]);
            }
            assert!(ops::split(a, 3, 1).is_err());
        }
    });
}

/// A slice that is written leaves its neighbours, its update and its source as they are, also
/// where it could be written in place.
#[test]
fn slices_are_replaced_and_neighbours_stay() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::VIEWS {
                let a = bits(layout, dtype, 4);
                for [start, stop, steps] in SLICES {
                    let axis = |x: usize| selected(a.shape()[x], start[x], stop[x], steps[x]);
                    let lists = [axis(0), axis(1), axis(2)];
                    let shape = lists.each_ref().map(Vec::len);
                    let update =
                        layout.view(&shape.map(|d| d.max(1)), |s| random_bits(s, dtype, 5));
                    let cut = shape.map(|d| d as isize);
                    let update = ops::slice(&update, &[0; 3], &cut, &[1; 3]).unwrap();
                    let what =
                        format!("{dtype} {layout:?} {start:?} {stop:?} {steps:?} on {device}");
                    let from = |i: &[usize]| {
                        let at = |x: usize| lists[x].iter().position(|&s| s == i[x]);
                        match (at(0), at(1), at(2)) {
                            (Some(x), Some(y), Some(z)) => (1, ravel(&[x, y, z], &shape)),
                            _ => (0, ravel(i, a.shape())),
                        }
                    };
                    let got = keeping(&what, &[&a, &update], || {
                        let got = ops::slice_update(&a, &update, &start, &stop, &steps).unwrap();
                        got.eval().expect(&what);
                        got
                    });
                    assert_gathered(&what, &got, &[&a, &update], from);
                    // Nobody else has this copy.
                    let copy = ops::where_(&array(&[1.0], &[], Dtype::Bool), &a, &a).unwrap();
                    let got = ops::slice_update(&copy, &update, &start, &stop, &steps).unwrap();
                    drop(copy);
                    assert_gathered(&format!("in place {what}"), &got, &[&a, &update], from);
                }
            }
        }
    });
}

/// What a KV cache does: one row of many, from an update of another dtype that repeats.
#[test]
fn updates_are_converted_and_repeat() {
    on_each_device(|device| {
        let cache = array(&[7.0; 2 * 300 * 8], &[2, 300, 8], Dtype::Float16);
        let update = array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[8], Dtype::Int32);
        for row in [0isize, 150, 299] {
            let got =
                ops::slice_update(&cache, &update, &[0, row, 0], &[2, row + 1, 8], &[1, 1, 1])
                    .unwrap();
            let want: Vec<f64> = indices(cache.shape())
                .map(|i| if i[1] == row as usize { (i[2] + 1) as f64 } else { 7.0 })
                .collect();
            assert_eq!((got.dtype(), values(&got)), (Dtype::Float16, want), "{row} on {device}");
        }
    });
}

#[test]
fn arrays_are_joined() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::VIEWS {
                let what = format!("{dtype} {layout:?} on {device}");
                let a = bits(layout, dtype, 6);
                let b = random_bits(&[3, 4, 5], dtype, 7);
                for axis in 0..3 {
                    let cut = |n| ops::slice_axis(&b, axis as isize, 0, n).unwrap();
                    let (short, none) = (cut(2), cut(0));
                    let parts = [&a, &short, &none, &b];
                    let got = keeping(&what, &parts, || {
                        let got = ops::concatenate(&parts, axis as isize - 3).unwrap();
                        got.eval().expect(&what);
                        got
                    });
                    let n = a.shape()[axis];
                    let mut shape = vec![3, 4, 5];
                    shape[axis] = 2 * n + 2;
                    assert_eq!(got.shape(), shape, "{what}");
                    assert_gathered(&format!("axis {axis} {what}"), &got, &parts, |i| {
                        let mut i = i.to_vec();
                        let (part, first) = match i[axis] {
                            x if x < n => (0, 0),
                            x if x < n + 2 => (1, n),
                            _ => (3, n + 2),
                        };
                        i[axis] -= first;
                        (part, ravel(&i, parts[part].shape()))
                    });
                }
                for axis in 0..4 {
                    let got = ops::stack(&[&a, &b], axis as isize).unwrap();
                    assert_gathered(&format!("stack {axis} {what}"), &got, &[&a, &b], |i| {
                        let mut i = i.to_vec();
                        let part = i.remove(axis);
                        (part, ravel(&i, a.shape()))
                    });
                }
            }
        }
        let (a, b) = (array(&[1.0], &[1], Dtype::Int8), array(&[300.0], &[1], Dtype::Uint16));
        let joined = ops::concatenate(&[&a, &b], 0).unwrap();
        assert_eq!((joined.dtype(), integers(&joined)), (Dtype::Int32, vec![1, 300]), "{device}");
        let long = random_bits(&[100_000], Dtype::Float32, 9);
        let twice = ops::concatenate(&[&long, &long], 0).unwrap();
        assert_gathered("the same twice", &twice, &[&long], |i| (0, i[0] % 100_000));
        assert!(ops::concatenate(&[], 0).is_err() && ops::stack(&[&a, &joined], 0).is_err());
    });
}

/// Views that overlap themselves, of any strides.
#[test]
fn strides_are_taken_as_they_are() {
    on_each_device(|device| {
        for dtype in SIZES {
            let a = &bits(Layout::Transposed, dtype, 8);
            let flat = |place: isize| unravel(place as usize, a.shape());
            for (shape, strides, offset) in [
                ([4, 9], [5, 1], 3),
                ([6, 5], [-7, 2], 40),
                ([3, 4], [0, 10], 1),
                ([2, 2], [-1, -1], 59),
            ] {
                let what = format!("{dtype} {strides:?} on {device}");
                let view = ops::as_strided(a, &shape, &strides, offset);
                check_view(&what, a, view, &shape, |i| {
                    flat(offset as isize + i[0] as isize * strides[0] + i[1] as isize * strides[1])
                });
            }
            assert!(ops::as_strided(a, &[2], &[60], 0).is_err());
        }
    });
}

/// Arrays with more bytes than memory has addresses are refused before anything is evaluated, also those of
/// operations that check their inputs themselves.
#[test]
fn arrays_are_no_larger_than_memory_can_be() {
    mlx_tests::init();
    let one = Array::from_slice(&[1f32], &[1]).unwrap();
    let refused = |result: Result<Array>| {
        let error = result.expect_err("so many bytes").to_string();
        assert!(error.contains("more bytes than memory has addresses"), "{error}");
    };
    refused(ops::broadcast_to(&one, &[1 << 21, 1 << 21, 1 << 20]));
    refused(ops::broadcast_to(&one, &[1 << 22, 1 << 21, 1 << 21]));
    let column = ops::broadcast_to(&one, &[1 << 31, 1]).unwrap();
    let row = ops::broadcast_to(&one, &[1, 1 << 31]).unwrap();
    refused(ops::matmul(&column, &row));
    refused(ops::add(&column, &row));
    let empty = ops::broadcast_to(&one, &[0, 1 << 31, 1 << 31, 1 << 31]).unwrap();
    assert_eq!((empty.size(), values(&empty).len()), (0, 0));
}
