//! Diagonals and triangles.

use mlx::{Array, Dtype, ops};
use mlx_tests::{
    Layout, array, assert_moved, dtypes_of, filled, indices, on_each_device, random_bits, rounded,
    values,
};

/// Where `(row, column)` of an (n, m) array satisfies `inside`, its value, else 0.
fn check_where(what: &str, a: &Array, got: &Array, inside: impl Fn(isize) -> bool) {
    assert_eq!((got.shape(), got.dtype()), (a.shape(), a.dtype()), "{what}");
    let last = a.ndim() - 2;
    let pairs = indices(a.shape()).zip(values(a));
    let want =
        pairs.map(|(i, x)| if inside(i[last + 1] as isize - i[last] as isize) { x } else { 0.0 });
    assert_eq!(values(got), want.collect::<Vec<_>>(), "{what}");
}

#[test]
fn triangles_keep_one_side() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::VIEWS {
                let a = layout.array(dtype, |i| (i % 7 + 1) as f64);
                for k in [isize::MIN, -6, -1, 0, 2, 6, isize::MAX] {
                    let what = format!("{dtype} {layout:?} {k} on {device}");
                    check_where(&what, &a, &ops::tril(&a, k).unwrap(), |d| d <= k);
                    check_where(&what, &a, &ops::triu(&a, k).unwrap(), |d| d >= k);
                }
            }
            for (n, m) in [(3, 4), (4, 2), (0, 3), (3, 0)] {
                let ones = ops::ones(&[n, m], dtype).unwrap();
                for k in [isize::MIN, -3, -1, 0, 1, 4, isize::MAX] {
                    let what = format!("{n} x {m} {dtype} {k} on {device}");
                    check_where(&what, &ones, &ops::tri(n, m, k, dtype).unwrap(), |d| d <= k);
                    check_where(&what, &ones, &ops::eye(n, m, k, dtype).unwrap(), |d| d == k);
                }
            }
            let ones = ops::ones(&[5, 5], dtype).unwrap();
            check_where("identity", &ones, &ops::identity(5, dtype).unwrap(), |d| d == 0);
        }
        assert!(ops::tril(&array(&[1.0], &[1], Dtype::Float32), 0).is_err());
    });
}

#[test]
fn diagonals_of_every_layout() {
    on_each_device(|device| {
        for dtype in [Dtype::Bool, Dtype::Int16, Dtype::Float32, Dtype::Complex64] {
            for layout in Layout::VIEWS {
                let a = layout.view(layout.shape(), |s| random_bits(s, dtype, 1));
                let what = format!("{dtype} {layout:?} on {device}");
                let got = ops::diagonal(&a, 1, 0, 2).unwrap();
                assert_moved(&what, &got, (&a, &[4, 3]), |i| vec![i[1], i[0], i[1] + 1]);
                let got = ops::diagonal(&a, -1, -1, 1).unwrap();
                assert_moved(&what, &got, (&a, &[3, 4]), |i| vec![i[0], i[1], i[1] + 1]);
                let got = ops::diagonal(&a, -2, 0, 1).unwrap();
                assert_moved(&what, &got, (&a, &[5, 1]), |i| vec![2, 0, i[0]]);
                for offset in [9, isize::MAX, isize::MIN] {
                    assert_eq!(ops::diagonal(&a, offset, 0, 1).unwrap().shape(), [5, 0]);
                }
            }
        }
        let a = ops::zeros(&[2, 3], Dtype::Float32).unwrap();
        assert!(ops::diagonal(&a, 0, 0, 0).is_err() && ops::diagonal(&a, 0, 0, 2).is_err());
        assert!(ops::diagonal(&ops::zeros(&[3], Dtype::Float32).unwrap(), 0, 0, 1).is_err());
    });
}

#[test]
fn lists_become_diagonals_and_back() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            let list = filled(&[4], dtype, |i| (i + 1) as f64);
            for k in [-3, 0, 2] {
                let what = format!("{dtype} {k} on {device}");
                let square = ops::diag(&list, k).unwrap();
                let n = 4 + k.unsigned_abs();
                assert_eq!((square.shape(), square.dtype()), (&[n, n][..], dtype), "{what}");
                let on = |i: &[usize]| i[1] as isize - i[0] as isize == k;
                let shape = [n, n];
                let want = indices(&shape).map(|i| {
                    if on(&i) { rounded((i[0].min(i[1]) + 1) as f64, dtype) } else { 0.0 }
                });
                assert_eq!(values(&square), want.collect::<Vec<_>>(), "{what}");
                assert_eq!(values(&ops::diag(&square, k).unwrap()), values(&list), "{what}");
            }
        }
        assert_eq!(ops::diag(&array(&[], &[0], Dtype::Int8), 0).unwrap().shape(), [0, 0]);
        assert!(ops::diag(&ops::zeros(&[2, 2, 2], Dtype::Float32).unwrap(), 0).is_err());
    });
}

#[test]
fn traces_sum_diagonals() {
    on_each_device(|device| {
        let a = filled(&[3, 4, 2], Dtype::Int8, |i| i as f64);
        let got = ops::trace(&a, 1, 0, 1, None).unwrap();
        assert_eq!((got.dtype(), values(&got)), (Dtype::Int32, vec![36.0, 39.0]), "{device}");
        let got = ops::trace(&a, 0, 0, 1, Some(Dtype::Float16)).unwrap();
        assert_eq!((got.dtype(), values(&got)), (Dtype::Float16, vec![30.0, 33.0]), "{device}");
        let error = ops::trace(&a, 0, 0, 0, None).unwrap_err().to_string();
        assert_eq!(error, "[trace] axis1 and axis2 cannot be the same axis");
    });
}
