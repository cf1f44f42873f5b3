//! The Hadamard transform.

use mlx::{Dtype, ops};
use mlx_tests::{
    Approx, Layout, array, assert_approx, dtypes_of, filled, keeping, noise, on_each_device,
    sum_error, values,
};

/// Each result is a sum of all elements with signs. The signs are those of the transform of the
/// identity, which is exact; that they are a Hadamard matrix is checked for themselves.
fn check(n: usize, dtype: Dtype, layout: Layout, what: &str) {
    let identity = filled(&[n, n], Dtype::Float32, |i| f64::from(i / n == i % n));
    let signs = values(&ops::hadamard_transform(&identity, Some(1.0)).unwrap());
    assert!(signs.iter().all(|s| s.abs() == 1.0), "{what}: signs");
    for i in [0, n / 3, n - 1] {
        for j in 0..n {
            let dot: f64 = (0..n).map(|k| signs[i * n + k] * signs[j * n + k]).sum();
            assert_eq!(dot, if i == j { n as f64 } else { 0.0 }, "{what}: rows {i} and {j}");
        }
    }
    let a = layout.view(&[3, n], |s| filled(s, dtype, noise(n as u64, -1.0, 1.0)));
    let got = keeping(what, &[&a], || {
        let got = ops::hadamard_transform(&a, None).expect(what);
        got.eval().expect(what);
        got
    });
    assert_eq!((got.shape(), got.dtype()), (&[3, n][..], dtype), "{what}");
    let scale = f64::from(1.0 / (n as f32).sqrt());
    let x = values(&a);
    let want: Vec<Approx> = x
        .chunks(n)
        .flat_map(|row| (0..n).map(move |k| (row, k)))
        .map(|(row, k)| {
            let value: f64 = row.iter().enumerate().map(|(j, x)| x * signs[j * n + k]).sum();
            let magnitude: f64 = row.iter().map(|x| x.abs()).sum();
            Approx { value: value * scale, error: sum_error(n + 1, magnitude * scale, dtype) }
        })
        .collect();
    assert_approx(what, &got, &want);
}

#[test]
fn every_order_matches_its_matrix() {
    on_each_device(|device| {
        for n in [2, 8, 12, 20, 28, 24, 64, 80, 112, 96] {
            check(n, Dtype::Float32, Layout::Contiguous, &format!("{n} on {device}"));
        }
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for layout in Layout::VIEWS {
                for n in [16, 24] {
                    check(n, dtype, layout, &format!("{n} {dtype} {layout:?} on {device}"));
                }
            }
        }
    });
}

/// Orders over one pass: the transform of one element is a row of signs, and twice the transform is
/// the element again.
#[test]
fn long_rows() {
    on_each_device(|device| {
        for n in [1 << 13, 12 << 9, 28 << 11] {
            let what = format!("{n} on {device}");
            let a = filled(&[2, n], Dtype::Float32, |i| f64::from(i == 5 || i == n + 77));
            let once = ops::hadamard_transform(&a, Some(1.0)).unwrap();
            assert!(values(&once).iter().all(|x| x.abs() == 1.0), "{what}");
            // Sylvester's matrices are symmetric, those of order 12, 20 and 28 are not.
            if n.is_power_of_two() {
                let twice = ops::hadamard_transform(&once, Some(1.0 / n as f32)).unwrap();
                assert_eq!(values(&twice), values(&a), "{what}");
            }
        }
        let half = filled(&[1 << 12], Dtype::Float16, |i| f64::from(i == 0));
        let got = ops::hadamard_transform(&half, None).unwrap();
        assert_eq!(values(&got), vec![1.0 / 64.0; 1 << 12], "{device}");
    });
}

#[test]
fn scalars_integers_and_errors() {
    on_each_device(|device| {
        let scalar = array(&[3.0], &[], Dtype::Float32);
        assert_eq!(values(&ops::hadamard_transform(&scalar, None).unwrap()), [3.0], "{device}");
        let got = ops::hadamard_transform(&scalar, Some(2.0)).unwrap();
        assert_eq!(values(&got), [6.0], "{device}");
        let whole = array(&[1.0, 2.0], &[2], Dtype::Int32);
        let got = ops::hadamard_transform(&whole, Some(1.0)).unwrap();
        assert_eq!((got.dtype(), values(&got)), (Dtype::Float32, vec![3.0, -1.0]), "{device}");
        let ones = |n: usize| filled(&[n], Dtype::Float32, |_| 1.0);
        for n in [3, 18, 36, 44] {
            assert!(ops::hadamard_transform(&ones(n), None).is_err(), "{n}");
        }
        assert!(ops::hadamard_transform(&ones(0), None).is_err(), "nothing");
    });
}

/// The matrices of order 12, 20 and 28 are upstream's: sums of their rows weighted by place.
#[test]
fn signs_are_upstreams() {
    on_each_device(|device| {
        for (n, want) in UPSTREAM {
            let x = ops::arange(0.0, n as f64, 1.0, Dtype::Float32).unwrap();
            let got = values(&ops::hadamard_transform(&x, Some(1.0)).unwrap());
            assert_eq!(got[..6], want, "{n} on {device}");
        }
    });
}

/// Order, and the first results for 0, 1, 2, … of MLX 0.32.4 on the CPU.
const UPSTREAM: [(usize, [f64; 6]); 4] = [
    (12, [64.0, -6.0, 0.0, -6.0, -20.0, -10.0]),
    (20, [-10.0, -4.0, 2.0, 8.0, 14.0, -10.0]),
    (28, [-84.0, -78.0, -72.0, -66.0, -60.0, -54.0]),
    (24, [266.0, -10.0, -26.0, 2.0, 2.0, -2.0]),
];
