//! Reading elements at indices. Elements are compared by their bits.

use mlx::{Array, Dtype, ops};
use mlx_tests::{
    Layout, array, assert_moved, dtypes_of, filled, integers, keeping, on_each_device, random_bits,
    ravel, scattered, values,
};

/// Indices into an axis of `n` elements, half of them negative where the dtype is signed.
fn random_indices(shape: &[usize], dtype: Dtype, n: usize, seed: u64) -> Array {
    filled(shape, dtype, |i| {
        let hash = scattered(i, seed);
        let index = (hash % n as u64) as f64;
        if dtype.is_signed_integer() && hash >> 40 & 1 == 1 { index - n as f64 } else { index }
    })
}

/// The element that an index stands for.
fn resolved(index: i128, n: usize) -> usize {
    (if index < 0 { index + n as i128 } else { index }) as usize
}

fn check_take(context: &str, a: &Array, picks: &Array, axis: usize) {
    let got = keeping(context, &[a, picks], || {
        let got = ops::take(a, picks, axis as isize).expect(context);
        got.eval().expect(context);
        got
    });
    let indices = integers(picks);
    let (n, inner) = (a.shape()[axis], picks.ndim());
    let shape = [&a.shape()[..axis], picks.shape(), &a.shape()[axis + 1..]].concat();
    assert_moved(context, &got, (a, &shape), |at| {
        let pick = indices[ravel(&at[axis..axis + inner], picks.shape())];
        [&at[..axis], &[resolved(pick, n)], &at[axis + inner..]].concat()
    });
}

/// `shape` is the one that all axes but `axis` of both broadcast to, with the indices' along it.
fn check_along(context: &str, a: &Array, picks: &Array, axis: usize, shape: &[usize]) {
    let got = keeping(context, &[a, picks], || {
        let got = ops::take_along_axis(a, picks, axis as isize).expect(context);
        got.eval().expect(context);
        got
    });
    let indices = integers(picks);
    let n = a.shape()[axis];
    // Axes of size 1 repeat.
    let within = |at: &[usize], shape: &[usize]| -> Vec<usize> {
        at.iter().zip(shape).map(|(&i, &d)| if d == 1 { 0 } else { i }).collect()
    };
    assert_moved(context, &got, (a, shape), |at| {
        let pick = indices[ravel(&within(at, picks.shape()), picks.shape())];
        let mut from = within(at, a.shape());
        from[axis] = resolved(pick, n);
        from
    });
}

#[test]
fn take_reads_every_dtype_and_layout() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::VIEWS {
                let a = layout.view(layout.shape(), |shape| random_bits(shape, dtype, 1));
                for axis in 0..3 {
                    let what = format!("{dtype} {layout:?} axis {axis} on {device}");
                    let picks = random_indices(&[2, 3], Dtype::Int32, a.shape()[axis], 2);
                    check_take(&what, &a, &picks, axis);
                    let one = random_indices(&[], Dtype::Int32, a.shape()[axis], 3);
                    check_take(&format!("one of {what}"), &a, &one, axis);
                }
            }
        }
    });
}

#[test]
fn take_takes_indices_of_every_dtype_and_layout() {
    on_each_device(|device| {
        for index in dtypes_of(device).filter(|d| d.is_integer()) {
            for dtype in [Dtype::Float32, Dtype::Uint8, Dtype::Complex64] {
                for layout in Layout::VIEWS {
                    let a = random_bits(&[3, 70, 2], dtype, 4);
                    let picks = layout.view(&[4, 5], |shape| random_indices(shape, index, 70, 5));
                    let what = format!("{dtype} at {index} {layout:?} on {device}");
                    check_take(&what, &a, &picks, 1);
                }
            }
        }
    });
}

/// What embeddings do: few long rows out of many.
#[test]
fn take_copies_long_slices() {
    on_each_device(|device| {
        for (dtype, width) in [(Dtype::Uint8, 1025), (Dtype::Bfloat16, 1023), (Dtype::Float32, 512)]
        {
            let a = random_bits(&[60, width], dtype, 6);
            let picks = random_indices(&[1, 33], Dtype::Uint32, 60, 7);
            check_take(&format!("rows of {width} {dtype} on {device}"), &a, &picks, 0);
            let shifted = ops::slice(&a, &[1, 3], &[60, width as isize], &[2, 1]).unwrap();
            let picks = random_indices(&[9], Dtype::Int64, 30, 8);
            check_take(&format!("slices of {width} {dtype} on {device}"), &shifted, &picks, 0);
            let columns = random_indices(&[2000], Dtype::Int32, width, 9);
            check_take(&format!("columns of {width} {dtype} on {device}"), &a, &columns, 1);
        }
        let table = random_bits(&[500, 96], Dtype::Bfloat16, 1);
        let tokens = random_indices(&[2, 500], Dtype::Int32, 500, 2);
        check_take(&format!("an embedding on {device}"), &table, &tokens, 0);
    });
}

/// Slices of whole words of 16 bytes, of smaller words, and of single elements.
#[test]
fn take_copies_words_of_every_size() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for width in [64, 12, 6, 3] {
                let a = random_bits(&[9, width], dtype, 3);
                let picks = random_indices(&[2, 3], Dtype::Int32, 9, 4);
                check_take(&format!("{width} of {dtype} on {device}"), &a, &picks, 0);
            }
        }
    });
}

/// Upstream reads memory of others there; here it is the nearest element.
#[test]
fn indices_outside_read_the_nearest_element() {
    on_each_device(|device| {
        let a = array(&[10.0, 11.0, 12.0], &[3], Dtype::Float32);
        let check = |picks: &Array, want: &[f64]| {
            let what = format!("{} on {device}", picks.dtype());
            assert_eq!(values(&ops::take(&a, picks, 0).unwrap()), want, "take {what}");
            let along = ops::take_along_axis(&a, picks, 0).unwrap();
            assert_eq!(values(&along), want, "take_along_axis {what}");
        };
        for dtype in dtypes_of(device).filter(|d| d.is_integer()) {
            check(&array(&[0.0, 2.0, 3.0, 100.0], &[4], dtype), &[10.0, 12.0, 12.0, 12.0]);
            if dtype.is_signed_integer() {
                check(&array(&[-1.0, -3.0, -4.0, -100.0], &[4], dtype), &[12.0, 10.0, 10.0, 10.0]);
            }
        }
        check(&Array::from_slice(&[u64::MAX, 1 << 40], &[2]).unwrap(), &[12.0; 2]);
        check(&Array::from_slice(&[i64::MIN, i64::MAX], &[2]).unwrap(), &[10.0, 12.0]);
    });
}

#[test]
fn take_along_axis_reads_every_dtype_and_layout() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::VIEWS {
                let a = layout.view(layout.shape(), |shape| random_bits(shape, dtype, 1));
                for axis in 0..3 {
                    let what = format!("{dtype} {layout:?} axis {axis} on {device}");
                    let mut shape = a.shape().to_vec();
                    shape[axis] = 7;
                    let n = a.shape()[axis];
                    let picks = layout.view(&shape, |s| random_indices(s, Dtype::Int32, n, 2));
                    check_along(&what, &a, &picks, axis, &shape);
                }
            }
        }
    });
}

#[test]
fn take_along_axis_takes_indices_of_every_dtype_and_broadcasts() {
    on_each_device(|device| {
        for index in dtypes_of(device).filter(|d| d.is_integer()) {
            for dtype in [Dtype::Float32, Dtype::Bool, Dtype::Int64] {
                let a = random_bits(&[3, 70, 4], dtype, 4);
                let what = format!("{dtype} at {index} on {device}");
                let picks = random_indices(&[3, 9, 4], index, 70, 5);
                check_along(&what, &a, &picks, 1, &[3, 9, 4]);
                let picks = random_indices(&[1, 9, 1], index, 70, 6);
                check_along(&format!("indices repeated {what}"), &a, &picks, 1, &[3, 9, 4]);
                let one = random_bits(&[1, 70, 4], dtype, 7);
                let picks = random_indices(&[5, 2, 1], index, 70, 8);
                check_along(&format!("both repeated {what}"), &one, &picks, 1, &[5, 2, 4]);
            }
        }
    });
}

#[test]
fn rows_longer_than_a_workgroup() {
    on_each_device(|device| {
        for n in [1, 255, 257, 5000] {
            for (shape, axis) in [([n, 3], 0), ([3, n], 1)] {
                let a = random_bits(&shape, Dtype::Float16, 2);
                let picks = random_indices(&shape, Dtype::Uint32, n, 3);
                let what = format!("{shape:?} axis {axis} on {device}");
                check_along(&what, &a, &picks, axis, &shape);
                let picks = random_indices(&[n], Dtype::Uint32, n, 4);
                check_take(&what, &a, &picks, axis);
            }
        }
    });
}

#[test]
fn nothing_is_taken_and_wrong_indices_are_refused() {
    on_each_device(|device| {
        let a = random_bits(&[3, 4], Dtype::Float32, 1);
        let none = array(&[], &[2, 0], Dtype::Int32);
        check_take(&format!("no index on {device}"), &a, &none, 0);
        check_along(
            &format!("no index on {device}"),
            &a,
            &array(&[], &[3, 0], Dtype::Int8),
            1,
            &[3, 0],
        );
        let empty = array(&[], &[3, 0], Dtype::Float32);
        let row = array(&[2.0, -3.0], &[2], Dtype::Int32);
        check_take(&format!("empty rows on {device}"), &empty, &row, 0);
        assert!(ops::take(&empty, &row, 1).is_err(), "an element of none");
        let float = array(&[0.0], &[1], Dtype::Float32);
        assert!(ops::take(&a, &float, 0).is_err() && ops::take(&a, &row, 2).is_err());
        assert!(ops::take_along_axis(&a, &row, 0).is_err(), "other rank");
    });
}

/// The element of a gather: the slices' starts, moved inside, and the place in the slice.
fn check_gather(context: &str, a: &Array, lists: &[&Array], axes: &[isize], sizes: &[usize]) {
    let got = keeping(context, &[&[a][..], lists].concat(), || {
        let got = ops::gather(a, lists, axes, sizes).expect(context);
        got.eval().expect(context);
        got
    });
    let joint = ops::broadcast_arrays(lists).expect(context);
    let shape = joint.first().map_or(vec![], |x| x.shape().to_vec());
    let places: Vec<Vec<i128>> = joint.iter().map(integers).collect();
    let whole = [&shape[..], sizes].concat();
    assert_moved(context, &got, (a, &whole), |at| {
        let (batch, within) = at.split_at(shape.len());
        let mut from = within.to_vec();
        for (list, &axis) in places.iter().zip(axes) {
            let (axis, n) = (axis as usize, a.shape()[axis as usize]);
            let pick = list[ravel(batch, &shape)];
            let pick = if pick < 0 { pick + n as i128 } else { pick };
            from[axis] += pick.clamp(0, (n - sizes[axis]) as i128) as usize;
        }
        from
    });
}

#[test]
fn gather_reads_every_dtype_and_layout() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::VIEWS {
                let a = layout.view(layout.shape(), |shape| random_bits(shape, dtype, 1));
                let what = format!("{dtype} {layout:?} on {device}");
                let x = layout.view(&[2, 3], |s| random_indices(s, Dtype::Int32, 3, 2));
                let z = random_indices(&[3], Dtype::Int32, 5, 3);
                check_gather(&what, &a, &[&x], &[0], &[1, 4, 5]);
                check_gather(&what, &a, &[&z, &x], &[2, 0], &[1, 4, 1]);
                check_gather(&what, &a, &[&z], &[2], &[2, 3, 2]);
            }
        }
    });
}

#[test]
fn gather_takes_indices_of_every_dtype_and_rows_of_every_width() {
    on_each_device(|device| {
        for index in dtypes_of(device).filter(|d| d.is_integer()) {
            let a = random_bits(&[60, 9], Dtype::Float32, 1);
            let (x, y) = (random_indices(&[40], index, 60, 2), random_indices(&[1], index, 9, 3));
            check_gather(&format!("at {index} on {device}"), &a, &[&x, &y], &[0, 1], &[1, 1]);
        }
        for (dtype, width) in [(Dtype::Uint8, 1025), (Dtype::Float16, 264), (Dtype::Complex64, 6)] {
            let what = format!("rows of {width} {dtype} on {device}");
            let a = random_bits(&[60, width], dtype, 4);
            let x = random_indices(&[33], Dtype::Uint32, 60, 5);
            check_gather(&what, &a, &[&x], &[0], &[1, width]);
            check_gather(&what, &a, &[&x], &[0], &[2, width / 2]);
            check_gather(&what, &a, &[], &[], &[3, width]);
        }
        let empty = array(&[], &[0, 3], Dtype::Float32);
        let none = array(&[], &[0], Dtype::Int32);
        assert_eq!(ops::gather(&empty, &[&none], &[0], &[1, 3]).unwrap().shape(), [0, 1, 3]);
        let one = array(&[0.0], &[1], Dtype::Int32);
        assert!(ops::gather(&empty, &[&one], &[0], &[1, 3]).is_err());
    });
}
