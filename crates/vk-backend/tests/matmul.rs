//! Matrix products against float64: dtypes, layouts, batches, odd sizes.

mod common;
mod oracle;

use mlx_vulkan_core::{Array, Complex, Dtype, ops};
use oracle::{FLOATS, assert_close, exact, product, random};

/// `rows` x `columns`, perhaps stored transposed.
fn matrix(rows: usize, columns: usize, transposed: bool, dtype: Dtype, seed: u64) -> Array {
    if !transposed {
        return random(&[rows, columns], dtype, seed);
    }
    ops::transpose(&random(&[columns, rows], dtype, seed), &[]).unwrap()
}

#[test]
fn every_size_and_layout_agrees_with_float64() {
    common::with_gpu(|| {
        let sizes = [
            (1, 64, 96),
            (1, 33, 7),
            (3, 40, 130),
            (8, 96, 33),
            (130, 24, 1),
            (65, 31, 3),
            (33, 17, 41),
            (70, 64, 132),
            (128, 200, 130),
        ];
        for (i, &(m, k, n)) in sizes.iter().enumerate() {
            for dtype in FLOATS {
                for layout in 0..4 {
                    let a = matrix(m, k, layout & 1 != 0, dtype, i as u64 + 1);
                    let b = matrix(k, n, layout & 2 != 0, dtype, i as u64 + 50);
                    let want = product(&exact(&a), &exact(&b), m, k, n);
                    let got = ops::matmul(&a, &b).unwrap();
                    assert_close(&got, &want, &format!("{m}x{k}x{n} {dtype} layout {layout}"));
                }
            }
        }
    });
}

#[test]
fn batches_broadcast_and_slices_are_read_in_place() {
    common::with_gpu(|| {
        let a = random(&[2, 3, 20, 24], Dtype::Float32, 3);
        let shared = random(&[24, 36], Dtype::Float32, 4);
        let each = random(&[3, 24, 36], Dtype::Float32, 5);
        let (av, sv, ev) = (exact(&a), exact(&shared), exact(&each));
        let of = |i: usize, b: &[f64]| product(&av[i * 480..(i + 1) * 480], b, 20, 24, 36);
        let want: Vec<f64> = (0..6).flat_map(|i| of(i, &sv)).collect();
        assert_close(&ops::matmul(&a, &shared).unwrap(), &want, "one matrix for all batches");
        let want: Vec<f64> =
            (0..6).flat_map(|i| of(i, &ev[i % 3 * 864..(i % 3 + 1) * 864])).collect();
        assert_close(&ops::matmul(&a, &each).unwrap(), &want, "a matrix per inner batch");

        let swapped = ops::transpose(&a, &[0, 2, 1, 3]).unwrap();
        let x = exact(&swapped);
        let want: Vec<f64> =
            (0..40).flat_map(|i| product(&x[i * 72..(i + 1) * 72], &sv, 3, 24, 36)).collect();
        assert_close(&ops::matmul(&swapped, &shared).unwrap(), &want, "batch and rows exchanged");

        let sliced = ops::slice(&a, &[0, 0, 1, 2], &[2, 3, 20, 24], &[1, 1, 2, 2]).unwrap();
        let b = random(&[11, 5], Dtype::Float32, 6);
        let (x, y) = (exact(&sliced), exact(&b));
        let want: Vec<f64> =
            (0..6).flat_map(|i| product(&x[i * 110..(i + 1) * 110], &y, 10, 11, 5)).collect();
        assert_close(&ops::matmul(&sliced, &b).unwrap(), &want, "no dense axis");
    });
}

#[test]
fn addmm_scales_and_empty_sums_are_zero() {
    common::with_gpu(|| {
        for (m, n) in [(1, 40), (40, 2), (35, 41)] {
            for transposed in [false, true] {
                let a = matrix(m, 64, transposed, Dtype::Float32, 7);
                let b = matrix(64, n, transposed, Dtype::Float32, 8);
                let c = random(&[n], Dtype::Float32, 9);
                let row = exact(&c);
                let mut want = product(&exact(&a), &exact(&b), m, 64, n);
                want.iter_mut().enumerate().for_each(|(i, w)| *w = 0.5 * *w + 2.0 * row[i % n]);
                let got = ops::addmm(&c, &a, &b, 0.5, 2.0).unwrap();
                assert_close(&got, &want, &format!("addmm {m}x{n} transposed {transposed}"));
            }
        }
        let (a, b) = (random(&[3, 0], Dtype::Float32, 1), random(&[0, 20], Dtype::Float32, 1));
        assert_close(&ops::matmul(&a, &b).unwrap(), &[0.0; 60], "k = 0");
        let c = random(&[3, 20], Dtype::Float32, 2);
        let want: Vec<f64> = exact(&c).iter().map(|c| 3.0 * c).collect();
        assert_close(&ops::addmm(&c, &a, &b, 1.0, 3.0).unwrap(), &want, "addmm with k = 0");
        let none =
            ops::matmul(&random(&[0, 4], Dtype::Float32, 1), &random(&[4, 2], Dtype::Float32, 1))
                .unwrap();
        assert!(none.to_vec::<f32>().unwrap().is_empty());
    });
}

#[test]
fn complex_products() {
    common::with_gpu(|| {
        let (re, im) = (oracle::noise(2 * 5 * 7, 1), oracle::noise(2 * 5 * 7, 2));
        let data: Vec<Complex> = re.iter().zip(&im).map(|(&r, &i)| Complex::new(r, i)).collect();
        let a = Array::from_slice(&data, &[2, 5, 7]).unwrap();
        let b = ops::transpose(&a, &[0, 2, 1]).unwrap();
        let got: Vec<Complex> = ops::matmul(&a, &b).unwrap().to_vec().unwrap();
        for (at, g) in got.iter().enumerate() {
            let (batch, i, j) = (at / 25, at / 5 % 5, at % 5);
            let (mut x, mut y) = (0f64, 0f64);
            for k in 0..7 {
                let (p, q) = (batch * 35 + i * 7 + k, batch * 35 + j * 7 + k);
                let (pr, pi, qr, qi) = (re[p] as f64, im[p] as f64, re[q] as f64, im[q] as f64);
                x += pr * qr - pi * qi;
                y += pr * qi + pi * qr;
            }
            assert!(
                (f64::from(g.re) - x).abs() < 1e-5 && (f64::from(g.im) - y).abs() < 1e-5,
                "{at}: {g:?} {x} {y}"
            );
        }
    });
}

/// Where the device has cooperative matrices these run on them, elsewhere on tiles: whole tiles, tails on
/// every side, rows that cannot be loaded by vectors, few rows, sums over a deep k in parts.
#[test]
fn many_rows_of_halves() {
    common::with_gpu(|| {
        let sizes = [
            (128, 128, 256),
            (136, 72, 264),
            (131, 61, 141),
            (17, 96, 40),
            (30, 1032, 72),
            (64, 2050, 66),
        ];
        for (i, &(m, k, n)) in sizes.iter().enumerate() {
            for dtype in [Dtype::Float16, Dtype::Bfloat16] {
                for layout in 0..4 {
                    let a = matrix(m, k, layout & 1 != 0, dtype, i as u64 + 100);
                    let b = matrix(k, n, layout & 2 != 0, dtype, i as u64 + 150);
                    let want = product(&exact(&a), &exact(&b), m, k, n);
                    let got = ops::matmul(&a, &b).unwrap();
                    assert_close(&got, &want, &format!("{m}x{k}x{n} {dtype} layout {layout}"));
                }
            }
        }
    });
}

#[test]
fn batches_slices_and_addends_of_halves() {
    common::with_gpu(|| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            let a = random(&[2, 3, 40, 48], dtype, 3);
            let each = random(&[3, 48, 36], dtype, 5);
            let (av, ev) = (exact(&a), exact(&each));
            let of = |i: usize, b: &[f64]| product(&av[i * 1920..(i + 1) * 1920], b, 40, 48, 36);
            let want: Vec<f64> =
                (0..6).flat_map(|i| of(i, &ev[i % 3 * 1728..(i % 3 + 1) * 1728])).collect();
            assert_close(&ops::matmul(&a, &each).unwrap(), &want, &format!("batches {dtype}"));

            // Rows of a wider matrix, from an odd column on.
            let wide = random(&[50, 100], dtype, 6);
            let a = ops::slice(&wide, &[2, 3], &[50, 67], &[1, 1]).unwrap();
            let b = random(&[64, 40], dtype, 7);
            let c = random(&[40], dtype, 8);
            let row = exact(&c);
            let mut want = product(&exact(&a), &exact(&b), 48, 64, 40);
            want.iter_mut().enumerate().for_each(|(i, w)| *w = 0.5 * *w + 2.0 * row[i % 40]);
            let got = ops::addmm(&c, &a, &b, 0.5, 2.0).unwrap();
            assert_close(&got, &want, &format!("addmm of a slice {dtype}"));

            // What lies behind the end of k must not reach the sums, whatever it is.
            let bad = ops::full(&[40, 8], f32::NAN, dtype).unwrap();
            let both = ops::concatenate(&[&random(&[40, 60], dtype, 9), &bad], 1).unwrap();
            let a = ops::slice(&both, &[0, 0], &[40, 60], &[1, 1]).unwrap();
            let b = random(&[60, 48], dtype, 10);
            let want = product(&exact(&a), &exact(&b), 40, 60, 48);
            assert_close(&ops::matmul(&a, &b).unwrap(), &want, &format!("NaN outside {dtype}"));
            let none = (random(&[40, 0], dtype, 1), random(&[0, 32], dtype, 1));
            assert_close(&ops::matmul(&none.0, &none.1).unwrap(), &[0.0; 1280], "k = 0");
        }
    });
}
