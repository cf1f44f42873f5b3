//! Matrix products against float64.

mod common;
mod near;

use common::*;
use mlx_vulkan_core::{Array, Complex, Dtype, ops};
use near::*;

/// `a @ b` of row-major (batch, m, k) and (batch, k, n), and the same of absolute values.
fn product(a: &[f64], b: &[f64], [batch, m, k, n]: [usize; 4]) -> (Vec<f64>, f64) {
    let mut out = Vec::new();
    let mut largest: f64 = 0.0;
    for i in 0..batch * m {
        let b = &b[i / m * k * n..];
        for j in 0..n {
            let terms = (0..k).map(|l| a[i * k + l] * b[l * n + j]);
            largest = largest.max(terms.clone().map(f64::abs).sum());
            out.push(terms.sum());
        }
    }
    (out, largest)
}

#[track_caller]
fn check(dtype: Dtype, [batch, m, k, n]: [usize; 4]) {
    let a = stored(&sequence(batch * m * k, -1.0, 1.0), dtype);
    let b = stored(&sequence(batch * k * n, -1.0, 1.5), dtype);
    let (want, size) = product(&a, &b, [batch, m, k, n]);
    let bound = size * k as f64 * sum_epsilon(dtype);
    for (left, x) in layouts(&a, &[batch, m, k], dtype) {
        for (right, y) in layouts(&b, &[batch, k, n], dtype) {
            let what = format!("{dtype} {left} {right} {batch} {m} {k} {n}");
            assert_within(&ops::matmul(&x, &y).unwrap(), &want, bound, &what);
        }
    }
}

#[test]
fn every_layout_and_shape() {
    on_cpu(|| {
        for dtype in FLOATS {
            for shape in [
                [2, 5, 7, 6],
                [1, 1, 70, 33],
                [3, 1, 5, 4],
                [2, 9, 40, 1],
                [1, 1, 1, 1],
                [5, 33, 17, 65],
            ] {
                check(dtype, shape);
            }
        }
    });
}

#[test]
fn large_enough_for_all_cores() {
    on_cpu(|| {
        for dtype in FLOATS {
            check(dtype, [1, 130, 90, 150]);
            check(dtype, [1, 1, 700, 300]);
            check(dtype, [4, 40, 60, 50]);
        }
    });
}

#[test]
fn transposed_weights_in_their_place() {
    on_cpu(|| {
        for dtype in FLOATS {
            for m in [1, 2, 40] {
                let (k, n) = (96, 130);
                let x = stored(&sequence(m * k, -1.0, 1.0), dtype);
                let w = stored(&sequence(n * k, -1.0, 1.0), dtype);
                let transposed: Vec<f64> = (0..k * n).map(|i| w[i % n * k + i / n]).collect();
                let (want, size) = product(&x, &transposed, [1, m, k, n]);
                let wt = ops::transpose(&array(&w, &[n, k], dtype), &[]).unwrap();
                let got = ops::matmul(&array(&x, &[m, k], dtype), &wt).unwrap();
                assert_within(
                    &got,
                    &want,
                    size * k as f64 * sum_epsilon(dtype),
                    &format!("{dtype} {m}"),
                );
            }
        }
    });
}

#[test]
fn broadcast_batches_and_vectors() {
    on_cpu(|| {
        let a = sequence(2 * 3 * 4 * 5, -1.0, 1.0);
        let b = sequence(3 * 5 * 6, -1.0, 1.0);
        let x = array(&a, &[2, 3, 4, 5], Dtype::Float32);
        let y = array(&b, &[3, 5, 6], Dtype::Float32);
        let twice: Vec<f64> = b.iter().chain(&b).copied().collect();
        let (want, _) = product(&a, &twice, [6, 4, 5, 6]);
        assert_within(&ops::matmul(&x, &y).unwrap(), &want, 1e-5, "broadcast");

        // One matrix for all batches, also where the batch axes are transposed.
        let one = array(&b[..30], &[5, 6], Dtype::Float32);
        let moved = ops::transpose(&x, &[1, 0, 2, 3]).unwrap();
        let repeated: Vec<f64> = (0..6).flat_map(|_| b[..30].to_vec()).collect();
        let (want, _) = product(&a, &repeated, [6, 4, 5, 6]);
        assert_within(&ops::matmul(&x, &one).unwrap(), &want, 1e-5, "shared");
        let back = ops::transpose(&ops::matmul(&moved, &one).unwrap(), &[1, 0, 2, 3]).unwrap();
        assert_within(&back, &want, 1e-5, "shared and moved");

        let v = array(&a[..5], &[5], Dtype::Float32);
        let (want, _) = product(&a[..5], &b[..30], [1, 1, 5, 6]);
        let got = ops::matmul(&v, &one).unwrap();
        assert_eq!(got.shape(), [6]);
        assert_within(&got, &want, 1e-5, "vector");
        let dot = ops::matmul(&v, &v).unwrap();
        assert_within(&dot, &[a[..5].iter().map(|x| x * x).sum()], 1e-5, "dot");
    });
}

#[test]
fn empty_products() {
    on_cpu(|| {
        for dtype in FLOATS {
            let nothing = |shape: &[usize]| array(&[], shape, dtype);
            let zeros = ops::matmul(&nothing(&[3, 0]), &nothing(&[0, 2])).unwrap();
            assert_same(&zeros, &[0.0; 6], "no inner axis");
            let zeros = ops::matmul(&nothing(&[1, 0]), &nothing(&[0, 2])).unwrap();
            assert_same(&zeros, &[0.0; 2], "no inner axis of a vector");
            let none = ops::matmul(&nothing(&[0, 4]), &array(&[1.0; 8], &[4, 2], dtype)).unwrap();
            assert_same(&none, &[], "no rows");
            let c = array(&[1.0, 2.0], &[2], dtype);
            let kept = ops::addmm(&c, &nothing(&[3, 0]), &nothing(&[0, 2]), 1.0, 2.0).unwrap();
            assert_same(&kept, &[2.0, 4.0, 2.0, 4.0, 2.0, 4.0], "addmm");
        }
    });
}

#[test]
fn addmm_with_factors() {
    on_cpu(|| {
        for dtype in FLOATS {
            for [m, k, n] in [[6, 9, 5], [1, 9, 5], [6, 9, 1], [70, 50, 80]] {
                let a = stored(&sequence(m * k, -1.0, 1.0), dtype);
                let b = stored(&sequence(k * n, -1.0, 1.0), dtype);
                let c = stored(&sequence(n, -2.0, 2.0), dtype);
                let (product, size) = product(&a, &b, [1, m, k, n]);
                let want: Vec<f64> =
                    product.iter().enumerate().map(|(i, p)| 0.5 * p - 2.0 * c[i % n]).collect();
                let got = ops::addmm(
                    &array(&c, &[n], dtype),
                    &array(&a, &[m, k], dtype),
                    &array(&b, &[k, n], dtype),
                    0.5,
                    -2.0,
                );
                let bound = (size + 4.0) * k as f64 * sum_epsilon(dtype);
                assert_within(&got.unwrap(), &want, bound, &format!("{dtype} {m} {k} {n}"));
            }
        }
    });
}

/// Sums of many halves do not stop growing where the half's spacing exceeds the addend.
#[test]
fn halves_are_summed_in_float32() {
    on_cpu(|| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            for m in [1, 3] {
                let ones = array(&vec![1.0; m * 5000], &[m, 5000], dtype);
                let column = array(&vec![1.0; 5000 * 2], &[5000, 2], dtype);
                let got = ops::matmul(&ones, &column).unwrap();
                assert_same(&got, &stored(&vec![5000.0; 2 * m], dtype), &format!("{dtype} {m}"));
            }
        }
    });
}

#[test]
fn complex_numbers() {
    on_cpu(|| {
        let a = [Complex::new(1.0, 2.0), Complex::new(0.0, -1.0)];
        let b = [Complex::new(3.0, -1.0), Complex::new(2.0, 2.0)];
        let x = Array::from_slice(&a, &[1, 2]).unwrap();
        let y = Array::from_slice(&b, &[2, 1]).unwrap();
        let got = ops::matmul(&x, &y).unwrap().to_vec::<Complex>().unwrap();
        assert_eq!(got, [a[0] * b[0] + a[1] * b[1]]);
        let outer = ops::matmul(&y, &x).unwrap().to_vec::<Complex>().unwrap();
        assert_eq!(outer, [b[0] * a[0], b[0] * a[1], b[1] * a[0], b[1] * a[1]]);
    });
}
