//! Linear algebra: decompositions on the CPU by what defines them, norms on both devices.

use mlx::{
    Array, Complex, Device, Dtype,
    linalg::{self, Order, Uplo},
    ops, random,
};
use mlx_tests::{
    Layout, array, complex_noise, complex_parts, epsilon, filled, noise, on_each_device, values,
};

fn on_cpu(test: impl FnOnce()) {
    mlx_tests::init();
    mlx::with_device(Device::CPU, test).expect("there is a CPU");
}

const REALS: [Dtype; 2] = [Dtype::Float32, Dtype::Float64];

/// Checks that two arrays are equal up to some roundings of numbers of `size`.
fn assert_close(what: &str, got: &Array, want: &Array, size: f64) {
    assert_eq!(got.shape(), want.shape(), "{what}: shape");
    let parts = |a: &Array| -> Vec<[f64; 2]> {
        match a.dtype() {
            Dtype::Complex64 => complex_parts(a),
            _ => values(a).into_iter().map(|x| [x, 0.0]).collect(),
        }
    };
    let error = 64.0 * size * epsilon(got.dtype());
    for (i, (g, w)) in parts(got).into_iter().zip(parts(want)).enumerate() {
        let off = (g[0] - w[0]).hypot(g[1] - w[1]);
        assert!(off <= error, "{what}: element {i} is {g:?}, not {w:?} ± {error:e}");
    }
}

fn turned(a: &Array) -> Array {
    ops::conjugate(&ops::swapaxes(a, -1, -2).unwrap()).unwrap()
}

fn product(factors: &[&Array]) -> Array {
    let mut product = factors[0].clone();
    for factor in &factors[1..] {
        product = ops::matmul(&product, factor).unwrap();
    }
    product
}

fn identity(like: &Array, n: usize) -> Array {
    let eye = filled(&[n, n], like.dtype(), |i| f64::from(i / n == i % n));
    let batch = &like.shape()[..like.ndim() - 2];
    ops::broadcast_to(&eye, &[batch, &[n, n]].concat()).unwrap()
}

/// Matrices of two batches, of a layout.
fn matrices(m: usize, n: usize, dtype: Dtype, layout: Layout) -> Array {
    layout.view(&[2, m, n], |s| match dtype {
        Dtype::Complex64 => complex_noise(s, 1),
        _ => filled(s, dtype, noise(1, -1.0, 1.0)),
    })
}

/// `a aᴴ + 1`: self-adjoint and positive definite.
fn definite(n: usize, dtype: Dtype) -> Array {
    let a = matrices(n, n, dtype, Layout::Contiguous);
    ops::add(product(&[&a, &turned(&a)]), identity(&a, n)).unwrap()
}

const SHAPES: [(usize, usize); 5] = [(1, 1), (5, 5), (7, 4), (3, 8), (20, 20)];
const LAYOUTS: [Layout; 3] = [Layout::Contiguous, Layout::Transposed, Layout::Reversed];

#[test]
fn factors_multiply_to_the_matrix() {
    on_cpu(|| {
        for dtype in REALS {
            for ((m, n), layout) in SHAPES.into_iter().flat_map(|s| LAYOUTS.map(|l| (s, l))) {
                let a = matrices(m, n, dtype, layout);
                let what = format!("{m}x{n} {dtype} {layout:?}");
                let size = (m + n) as f64;
                let (q, r) = linalg::qr(&a).unwrap();
                assert_close(&format!("qr {what}"), &product(&[&q, &r]), &a, size);
                let k = m.min(n);
                assert_close(&what, &product(&[&turned(&q), &q]), &identity(&a, k), size);
                let (p, l, u) = linalg::lu(&a).unwrap();
                let rows = ops::expand_dims(&p, &[-1]).unwrap();
                let permuted = ops::take_along_axis(&l, &rows, -2).unwrap();
                assert_close(&format!("lu {what}"), &product(&[&permuted, &u]), &a, size);
                assert!(values(&l).iter().all(|x| x.abs() <= 1.0), "{what}: rows are pivoted");
                for (i, x) in values(&r).iter().enumerate() {
                    assert!(i / n % k <= i % n || *x == 0.0, "{what}: r is triangular");
                }
            }
        }
    });
}

#[test]
fn singular_values_and_vectors() {
    on_cpu(|| {
        for dtype in [Dtype::Float32, Dtype::Float64, Dtype::Complex64] {
            for (m, n) in SHAPES {
                let a = matrices(m, n, dtype, Layout::Contiguous);
                let what = format!("{m}x{n} {dtype}");
                let size = (m + n) as f64;
                let (u, s, vt) = linalg::svd(&a).unwrap();
                assert_eq!((u.dim(-1), s.dim(-1), vt.dim(-2)), (m, m.min(n), n), "{what}");
                let k = m.min(n) as isize;
                let thin = ops::slice_axis(&u, -1, 0, k).unwrap();
                let scaled = ops::multiply(&thin, ops::expand_dims(&s, &[-2]).unwrap()).unwrap();
                let rest = ops::slice_axis(&vt, -2, 0, k).unwrap();
                assert_close(&what, &product(&[&scaled, &rest]), &a, size);
                assert_close(&what, &product(&[&turned(&u), &u]), &identity(&a, m), size);
                assert_close(&what, &product(&[&vt, &turned(&vt)]), &identity(&a, n), size);
                for row in values(&s).chunks(m.min(n)) {
                    assert!(row.windows(2).all(|w| w[0] >= w[1]) && row[0] >= 0.0, "{what}");
                }
                assert_close(&what, &linalg::singular_values(&a).unwrap(), &s, size);
                if dtype != Dtype::Complex64 {
                    let inverse = linalg::pinv(&a).unwrap();
                    assert_eq!(inverse.shape(), [2, n, m], "{what}");
                    assert_close(&what, &product(&[&a, &inverse, &a]), &a, 100.0 * size);
                }
            }
        }
    });
}

#[test]
fn eigenvalues_and_vectors() {
    on_cpu(|| {
        for dtype in [Dtype::Float32, Dtype::Float64, Dtype::Complex64] {
            for n in [1, 4, 9] {
                let what = format!("{n} {dtype}");
                let a = definite(n, dtype);
                for uplo in [Uplo::L, Uplo::U] {
                    // What stands in the other triangle does not matter.
                    let keep =
                        |i: usize| if uplo == Uplo::L { i / n >= i % n } else { i / n <= i % n };
                    let half = filled(&[n, n], dtype, |i| f64::from(keep(i % (n * n))));
                    let half = ops::multiply(&a, &half).unwrap();
                    let (w, v) = linalg::eigh(&half, uplo).unwrap();
                    assert_eq!(w.shape(), [2, n], "{what}");
                    let scaled = ops::multiply(&v, ops::expand_dims(&w, &[-2]).unwrap()).unwrap();
                    assert_close(&what, &product(&[&a, &v]), &scaled, 10.0 * n as f64);
                    assert_close(&what, &product(&[&turned(&v), &v]), &identity(&a, n), n as f64);
                    assert!(values(&w).chunks(n).all(|w| w.is_sorted()), "{what}");
                    let again = linalg::eigvalsh(&half, uplo).unwrap();
                    assert_close(&what, &again, &w, 10.0 * n as f64);
                }
                let a = matrices(n, n, dtype, Layout::Transposed);
                let (w, v) = linalg::eig(&a).unwrap();
                assert_eq!((w.dtype(), v.dtype()), (Dtype::Complex64, Dtype::Complex64));
                let scaled = ops::multiply(&v, ops::expand_dims(&w, &[-2]).unwrap()).unwrap();
                let a64 = ops::astype(&a, Dtype::Complex64).unwrap();
                assert_close(&what, &product(&[&a64, &v]), &scaled, 4.0 * n as f64);
                let norms = values(&linalg::norm(&v, None, Some(&[-2]), false).unwrap());
                assert!(norms.iter().all(|x| (x - 1.0).abs() < 1e-5), "{what}: {norms:?}");
                assert_eq!(linalg::eigvals(&a).unwrap().shape(), [2, n]);
            }
        }
    });
}

#[test]
fn a_self_adjoint_matrix_has_a_real_diagonal() {
    on_cpu(|| {
        let parts = [[1.0f32, 5.0], [2.0, 1.0], [0.0, 0.0], [3.0, -2.0]];
        let complex: Vec<Complex> = parts.iter().map(|z| Complex::new(z[0], z[1])).collect();
        let a = Array::from_slice(&complex, &[2, 2]).unwrap();
        // Of (1, 2 + i; 2 - i, 3): 2 ± √6.
        let want = array(&[2.0 - 6f64.sqrt(), 2.0 + 6f64.sqrt()], &[2], Dtype::Float32);
        assert_close("eigvalsh", &linalg::eigvalsh(&a, Uplo::U).unwrap(), &want, 10.0);
        assert_close("eigh", &linalg::eigh(&a, Uplo::U).unwrap().0, &want, 10.0);
    });
}

#[test]
fn inverses_and_systems() {
    on_cpu(|| {
        for dtype in REALS {
            for n in [1, 3, 8] {
                let a = definite(n, dtype);
                let what = format!("{n} {dtype}");
                let size = 100.0 * n as f64;
                let one = identity(&a, n);
                assert_close(&what, &product(&[&a, &linalg::inv(&a).unwrap()]), &one, size);
                for upper in [false, true] {
                    let factor = linalg::cholesky(&a, upper).unwrap();
                    let parts = [factor.clone(), turned(&factor)];
                    let parts = if upper { [&parts[1], &parts[0]] } else { [&parts[0], &parts[1]] };
                    assert_close(&format!("cholesky {what}"), &product(&parts), &a, size);
                    let inverse = linalg::cholesky_inv(&factor, upper).unwrap();
                    assert_close(&what, &product(&[&a, &inverse]), &one, size);
                    let inverse = linalg::tri_inv(&factor, upper).unwrap();
                    assert_close(&what, &product(&[&factor, &inverse]), &one, size);
                    let b = matrices(n, 2, dtype, Layout::Contiguous);
                    let x = linalg::solve_triangular(&factor, &b, upper).unwrap();
                    assert_close(&what, &product(&[&factor, &x]), &b, size);
                }
                let b = matrices(n, 3, dtype, Layout::Reversed);
                let x = linalg::solve(&a, &b).unwrap();
                assert_close(&what, &product(&[&a, &x]), &b, size);
                let square = ops::squeeze(&ops::slice_axis(&a, 0, 0, 1).unwrap(), &[0]).unwrap();
                let vector = filled(&[n], dtype, noise(3, -1.0, 1.0));
                let x = linalg::solve(&square, &vector).unwrap();
                assert_close(&what, &product(&[&square, &x]), &vector, size);
            }
        }
        let singular = filled(&[2, 2], Dtype::Float32, |_| 1.0);
        assert!(linalg::inv(&singular).unwrap().eval().is_err(), "no inverse");
    });
}

#[test]
fn determinants() {
    on_cpu(|| {
        // Of a triangular matrix it is the product of the diagonal; exchanged rows change the sign.
        for n in 1..=6usize {
            let upper = |i: usize| if i / n <= i % n { (i % 5) as f64 + 1.0 } else { 0.0 };
            let a = filled(&[n, n], Dtype::Float32, upper);
            let want: f64 = (0..n).map(|i| upper(i * n + i)).product();
            let got = values(&linalg::det(&a).unwrap())[0];
            assert!((got - want).abs() <= 1e-4 * want.abs(), "{n}: {got}, not {want}");
            let (sign, log) = linalg::slogdet(&a).unwrap();
            assert_eq!(values(&sign), [1.0], "{n}");
            assert!((values(&log)[0] - want.ln()).abs() < 1e-4, "{n}");
            if n > 1 {
                let step = vec![-1, 1];
                let (start, stop) = ([-1, 0], [-(n as isize) - 1, n as isize]);
                let flipped = ops::slice(&a, &start, &stop, &step).unwrap();
                let sign = values(&linalg::slogdet(&flipped).unwrap().0)[0];
                assert_eq!(sign, if n / 2 % 2 == 1 { -1.0 } else { 1.0 }, "{n} exchanged");
            }
        }
        let singular = filled(&[4, 4], Dtype::Float32, |i| (i / 4) as f64);
        let (sign, log) = linalg::slogdet(&singular).unwrap();
        assert_eq!((values(&sign), values(&log)), (vec![0.0], vec![f64::NEG_INFINITY]));
        assert_eq!(values(&linalg::det(&singular).unwrap()), [0.0]);
    });
}

#[test]
fn norms_of_vectors_and_matrices() {
    on_each_device(|device| {
        let a = array(&[3.0, -4.0, 0.0, 1.0, -2.0, 2.0], &[2, 3], Dtype::Float32);
        let norm = |ord, axis: Option<&[isize]>| {
            values(&linalg::norm(&a, ord, axis, false).expect("a norm"))
        };
        let near = |got: Vec<f64>, want: &[f64]| {
            let close = got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1e-5 * w.abs());
            assert!(got.len() == want.len() && close, "{got:?}, not {want:?} on {device}");
        };
        let p = |p| Some(Order::P(p));
        near(norm(None, None), &[34f64.sqrt()]);
        near(norm(None, Some(&[1])), &[5.0, 3.0]);
        near(norm(p(1.0), Some(&[1])), &[7.0, 5.0]);
        near(norm(p(0.0), Some(&[1])), &[2.0, 3.0]);
        near(norm(p(f64::INFINITY), Some(&[0])), &[3.0, 4.0, 2.0]);
        near(norm(p(f64::NEG_INFINITY), Some(&[-1])), &[0.0, 1.0]);
        near(norm(p(3.0), Some(&[1])), &[91f64.cbrt(), 17f64.cbrt()]);
        near(norm(Some(Order::Fro), None), &[34f64.sqrt()]);
        near(norm(p(1.0), None), &[6.0]);
        near(norm(p(-1.0), None), &[2.0]);
        near(norm(p(f64::INFINITY), None), &[7.0]);
        near(norm(p(f64::NEG_INFINITY), Some(&[0, 1])), &[5.0]);
        let kept = linalg::norm(&a, p(1.0), None, true).unwrap();
        assert_eq!(kept.shape(), [1, 1], "{device}");
        assert!(linalg::norm(&a, p(5.0), None, false).is_err());
        assert!(linalg::norm(&a, Some(Order::Nuc), Some(&[0]), false).is_err());
        let singular = linalg::norm(&a, p(2.0), None, false);
        assert_eq!(singular.is_ok(), device == Device::CPU, "singular values run on the CPU");
        let z = complex_noise(&[5], 1);
        let want: f64 = complex_parts(&z).iter().flatten().map(|x| x * x).sum();
        near(values(&linalg::norm(&z, None, None, false).unwrap()), &[want.sqrt()]);
    });
    on_cpu(|| {
        let a = matrices(4, 6, Dtype::Float64, Layout::Contiguous);
        let s = values(&linalg::singular_values(&a).unwrap());
        let check = |ord, want: [f64; 2]| {
            let got = values(&linalg::norm(&a, Some(ord), Some(&[1, 2]), false).unwrap());
            assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?} {want:?}");
        };
        check(Order::P(2.0), [s[0], s[4]]);
        check(Order::P(-2.0), [s[3], s[7]]);
        check(Order::Nuc, [s[..4].iter().sum(), s[4..].iter().sum()]);
        let z = complex_noise(&[3, 2], 1);
        let of = |ord| linalg::norm(&z, Some(ord), None, false).unwrap().dtype();
        let orders = [2.0, -2.0, 1.0].map(Order::P);
        assert!(orders.iter().all(|&ord| of(ord) == Dtype::Complex64), "as upstream's");
        assert_eq!(of(Order::Nuc), Dtype::Float32);
    });
}

#[test]
fn cross_products() {
    on_each_device(|device| {
        let vector = |x: &[f64]| array(x, &[x.len()], Dtype::Float32);
        let cross = |a: &[f64], b: &[f64]| {
            values(&linalg::cross(&vector(a), &vector(b), -1).expect("vectors"))
        };
        let what = format!("{device}");
        assert_eq!(cross(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), [-3.0, 6.0, -3.0], "{what}");
        assert_eq!(cross(&[1.0, 2.0], &[4.0, 5.0, 6.0]), [12.0, -6.0, -3.0], "{what}");
        assert_eq!(cross(&[1.0, 2.0], &[4.0, 5.0]), [0.0, 0.0, -3.0], "{what}");
        let a = filled(&[3, 1, 4], Dtype::Float32, |i| i as f64);
        let b = filled(&[3, 5, 4], Dtype::Float32, |i| i as f64);
        assert_eq!(linalg::cross(&a, &b, 0).unwrap().shape(), [3, 5, 4]);
        assert!(linalg::cross(&a, &b, 1).is_err());
    });
}

#[test]
fn refusals() {
    let a = || filled(&[2, 2], Dtype::Float32, |i| i as f64);
    mlx_tests::init();
    mlx::with_device(Device::GPU, || {
        let message = linalg::qr(&a()).expect_err("no GPU kernel").to_string();
        assert_eq!(
            message,
            "[linalg::qr] This op is not yet supported on the GPU. Explicitly pass a CPU stream to run it."
        );
        assert!(linalg::solve(&a(), &a()).is_err() && linalg::det(&a()).is_err());
    })
    .expect("there is a GPU");
    on_cpu(|| {
        let half = filled(&[2, 2], Dtype::Float16, |_| 1.0);
        assert!(linalg::inv(&half).is_err() && linalg::svd(&half).is_err());
        let wide = filled(&[2, 3], Dtype::Float32, |_| 1.0);
        assert!(linalg::inv(&wide).is_err() && linalg::eig(&wide).is_err());
        assert!(linalg::qr(&filled(&[3], Dtype::Float32, |_| 1.0)).is_err());
        let negative = filled(&[1, 1], Dtype::Float32, |_| -1.0);
        assert!(values(&linalg::cholesky(&negative, false).unwrap())[0].is_nan());
        let empty = filled(&[0, 3, 3], Dtype::Float32, |_| 1.0);
        assert_eq!(linalg::inv(&empty).unwrap().eval().map_err(|e| e.to_string()), Ok(()));
    });
}

/// Mean and covariance of many samples are those asked for.
#[test]
fn multivariate_normal_samples() {
    on_cpu(|| {
        let key = random::key(7).unwrap();
        let mean = array(&[1.0, -2.0], &[2], Dtype::Float32);
        let cov = array(&[2.0, 0.6, 0.6, 0.5], &[2, 2], Dtype::Float32);
        let n = 20_000;
        let draw = |shape: &[usize]| {
            random::multivariate_normal(&mean, &cov, shape, Dtype::Float32, Some(&key))
        };
        let x = values(&draw(&[n]).unwrap());
        let average = |f: &dyn Fn(&[f64]) -> f64| x.chunks(2).map(f).sum::<f64>() / n as f64;
        let (a, b) = (average(&|x| x[0]), average(&|x| x[1]));
        assert!((a - 1.0).abs() < 0.05 && (b + 2.0).abs() < 0.05, "{a} {b}");
        let shared = average(&|x| (x[0] - a) * (x[1] - b));
        let first = average(&|x| (x[0] - a) * (x[0] - a));
        assert!((shared - 0.6).abs() < 0.05 && (first - 2.0).abs() < 0.1, "{shared} {first}");
        assert_eq!(draw(&[3, 4]).unwrap().shape(), [3, 4, 2]);
        assert!(random::multivariate_normal(&cov, &mean, &[], Dtype::Float32, None).is_err());
        assert!(random::multivariate_normal(&mean, &cov, &[], Dtype::Float16, None).is_err());
    });
}
