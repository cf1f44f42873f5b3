//! Matrix products.

use mlx::{Array, Device, Dtype, ops};
use mlx_tests::{
    Approx, Host, Layout, array, assert_approx, complex_noise, complex_parts, dtypes_of, filled,
    in_child, indices, keeping, noise, on_each_device, sum_error, tf32_error, values,
};

/// `alpha * a @ b + beta * c`: what is added, and the factors.
struct Addend {
    c: Host,
    alpha: f64,
    beta: f64,
}

/// The product of arrays with at least two axes, of any batch axes that broadcast.
///
/// Each of the `k` products and sums may round; with an addend, so may the two factors and the
/// last sum.
fn product(
    a: &Host,
    b: &Host,
    addend: Option<&Addend>,
    shape: &[usize],
    dtype: Dtype,
) -> Vec<Approx> {
    let k = *a.shape.last().expect("two axes");
    let ndim = shape.len();
    let one = |mut index: Vec<usize>| {
        let (row, column) = (index[ndim - 2], index[ndim - 1]);
        let (mut sum, mut size) = (0.0, 0.0);
        for i in 0..k {
            (index[ndim - 2], index[ndim - 1]) = (row, i);
            let left = a.at(&index);
            (index[ndim - 2], index[ndim - 1]) = (i, column);
            let term = left * b.at(&index);
            (sum, size) = (sum + term, size + term.abs());
        }
        let Some(Addend { c, alpha, beta }) = addend else {
            return Approx { value: sum, error: sum_error(k, size, dtype) };
        };
        (index[ndim - 2], index[ndim - 1]) = (row, column);
        let extra = beta * c.at(&index);
        let size = alpha.abs() * size + extra.abs();
        Approx { value: alpha * sum + extra, error: sum_error(k + 4, size, dtype) }
    };
    indices(shape).map(one).collect()
}

/// Checks a product of arrays that may be vectors.
fn check(context: &str, a: &Array, b: &Array) {
    let got = keeping(context, &[a, b], || {
        let got = ops::matmul(a, b).expect(context);
        got.eval().expect(context);
        got
    });
    let (mut left, mut right) = (Host::of(a), Host::of(b));
    if a.ndim() == 1 {
        left.shape.insert(0, 1);
    }
    if b.ndim() == 1 {
        right.shape.push(1);
    }
    let (la, lb) = (left.shape.len(), right.shape.len());
    let long = if la > lb { &left.shape } else { &right.shape };
    let short = if la > lb { &right.shape } else { &left.shape };
    let mut shape = long.clone();
    let skipped = long.len() - short.len();
    shape[skipped..].iter_mut().zip(short).for_each(|(x, &y)| *x = if *x == 1 { y } else { *x });
    let ndim = shape.len();
    (shape[ndim - 2], shape[ndim - 1]) = (left.shape[la - 2], right.shape[lb - 1]);
    let want = product(&left, &right, None, &shape, got.dtype());
    if b.ndim() == 1 {
        shape.pop();
    }
    if a.ndim() == 1 {
        shape.remove(ndim - 2);
    }
    assert_eq!(got.shape(), shape, "{context}: shape");
    assert_approx(context, &got, &want);
}

fn floats(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|d| d.is_floating())
}

/// Sizes on both sides of vectors, tiles and unrolled loops.
const SIZES: [usize; 5] = [1, 7, 33, 65, 129];

#[test]
fn every_size_matches_float64() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (i, m) in SIZES.into_iter().enumerate() {
                for (j, k) in SIZES.into_iter().enumerate() {
                    for (l, n) in SIZES.into_iter().enumerate() {
                        // All in float32; in the others each pair of sizes once.
                        if dtype != Dtype::Float32 && (i + j + l) % 5 != 0 {
                            continue;
                        }
                        let a = filled(&[m, k], dtype, noise(1, -1.0, 1.0));
                        let b = filled(&[k, n], dtype, noise(2, -1.0, 1.0));
                        check(&format!("{m}x{k}x{n} {dtype} on {device}"), &a, &b);
                    }
                }
            }
        }
    });
}

#[test]
fn every_layout_of_both_sides() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (m, k, n) in [(1, 40, 33), (9, 33, 1), (5, 12, 7), (35, 20, 66)] {
                for left in Layout::VIEWS {
                    for right in Layout::VIEWS {
                        let view = |layout: Layout, shape: &[usize], seed| {
                            layout.view(shape, |s| filled(s, dtype, noise(seed, -1.0, 1.0)))
                        };
                        let what = format!("{m}x{k}x{n} {dtype} {left:?} {right:?} on {device}");
                        check(&what, &view(left, &[m, k], 1), &view(right, &[k, n], 2));
                        check(
                            &format!("batches of {what}"),
                            &view(left, &[2, m, k], 3),
                            &view(right, &[2, k, n], 4),
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn batches_broadcast_and_vectors_are_rows_and_columns() {
    let cases: [(&[usize], &[usize]); 13] = [
        (&[7], &[7]),
        (&[33], &[33, 5]),
        (&[5, 33], &[33]),
        (&[7], &[2, 3, 7, 4]),
        (&[2, 3, 4, 7], &[7]),
        (&[2, 3, 4, 7], &[7, 5]),
        (&[4, 7], &[2, 3, 7, 5]),
        (&[2, 1, 4, 7], &[3, 7, 5]),
        (&[3, 1, 7], &[2, 3, 7, 33]),
        (&[1, 3, 9, 16], &[2, 1, 16, 9]),
        (&[6, 33, 20], &[1, 20, 34]),
        (&[2, 3, 1, 65], &[2, 3, 65, 1]),
        (&[2, 3, 40, 48], &[3, 48, 36]),
    ];
    on_each_device(|device| {
        for dtype in floats(device) {
            for (left, right) in cases {
                let a = filled(left, dtype, noise(5, -1.0, 1.0));
                let b = filled(right, dtype, noise(6, -1.0, 1.0));
                check(&format!("{left:?} @ {right:?} {dtype} on {device}"), &a, &b);
            }
            // Heads in the middle, as attention makes them, and repeated batches.
            let a =
                ops::transpose(&filled(&[2, 9, 3, 16], dtype, noise(7, -1.0, 1.0)), &[0, 2, 1, 3]);
            let b =
                ops::transpose(&filled(&[2, 3, 5, 16], dtype, noise(8, -1.0, 1.0)), &[0, 1, 3, 2]);
            check(&format!("heads {dtype} on {device}"), &a.unwrap(), &b.unwrap());
            let a = filled(&[1, 4, 16], dtype, noise(7, -1.0, 1.0));
            let a = ops::broadcast_to(&a, &[3, 4, 16]).unwrap();
            let b = filled(&[3, 16, 4], dtype, noise(8, -1.0, 1.0));
            check(&format!("repeated {dtype} on {device}"), &a, &b);
        }
    });
}

/// Long inner axes, which are split between workgroups.
#[test]
fn long_inner_axes() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (m, k, n) in
                [(1, 5000, 3), (3, 4097, 1), (2, 4099, 5), (17, 2050, 18), (1, 700, 300)]
            {
                let a = filled(&[m, k], dtype, noise(1, -1.0, 1.0));
                let b = filled(&[k, n], dtype, noise(2, -1.0, 1.0));
                check(&format!("{m}x{k}x{n} {dtype} on {device}"), &a, &b);
                let turned = filled(&[n, k], dtype, noise(3, -1.0, 1.0));
                let b = ops::transpose(&turned, &[]).unwrap();
                check(&format!("{m}x{k}x{n} turned {dtype} on {device}"), &a, &b);
            }
        }
    });
}

/// A half stops growing where its spacing exceeds the addend.
#[test]
fn halves_are_summed_in_float32() {
    on_each_device(|device| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            for m in [1, 3, 40] {
                let ones = |shape: &[usize]| filled(shape, dtype, |_| 1.0);
                let got = ops::matmul(&ones(&[m, 5000]), &ones(&[5000, 2])).unwrap();
                let want = vec![Approx::exact(5000.0); 2 * m];
                assert_approx(&format!("{m} rows {dtype} on {device}"), &got, &want);
            }
        }
    });
}

/// Sizes for cooperative matrices, where a device has them: whole tiles, tails on every side, rows
/// that cannot be loaded by vectors, few rows, and sums over a deep inner axis in parts.
#[test]
fn many_rows_of_halves() {
    let sizes = [
        (128, 128, 256),
        (136, 72, 264),
        (131, 61, 141),
        (17, 96, 40),
        (30, 1032, 72),
        (64, 2050, 66),
    ];
    on_each_device(|device| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            for (m, k, n) in sizes {
                for (left, right) in [
                    (Layout::Contiguous, Layout::Contiguous),
                    (Layout::Transposed, Layout::Contiguous),
                    (Layout::Contiguous, Layout::Transposed),
                    (Layout::Transposed, Layout::Transposed),
                ] {
                    let a = left.view(&[m, k], |s| filled(s, dtype, noise(1, -1.0, 1.0)));
                    let b = right.view(&[k, n], |s| filled(s, dtype, noise(2, -1.0, 1.0)));
                    let what = format!("{m}x{k}x{n} {dtype} {left:?} {right:?} on {device}");
                    check(&what, &a, &b);
                }
            }
        }
    });
}

/// A large matrix times a few columns, as low-rank adaptation has it.
#[test]
fn a_large_matrix_times_few_columns() {
    mlx_tests::init();
    mlx::with_device(Device::GPU, || {
        for (dtype, layout) in
            [(Dtype::Bfloat16, Layout::Contiguous), (Dtype::Float16, Layout::Transposed)]
        {
            let view = |shape: &[usize], seed| {
                layout.view(shape, |s| filled(s, dtype, noise(seed, -1.0, 1.0)))
            };
            check(&format!("{dtype} {layout:?}"), &view(&[2050, 2056], 1), &view(&[2056, 8], 2));
        }
    })
    .unwrap();
}

/// Checks a product whose factors may be rounded.
fn check_rounded(context: &str, a: &Array, b: &Array) {
    let got = ops::matmul(a, b).expect(context);
    let [left, right] = [a, b].map(Host::of);
    let terms = a.dim(-1);
    assert_approx(
        context,
        &got,
        &widened(terms, product(&left, &right, None, got.shape(), got.dtype())),
    );
}

/// With errors of so many products whose factors are rounded, too.
fn widened(terms: usize, mut want: Vec<Approx>) -> Vec<Approx> {
    let magnitude = |error| error / sum_error(terms, 1.0, Dtype::Float32);
    want.iter_mut().for_each(|approx| approx.error += tf32_error(magnitude(approx.error)));
    want
}

/// Sizes from which a device may make products of float32 on cooperative matrices of float16: tails on every
/// side, views, batches of which one side repeats, and addends.
#[test]
fn large_products_of_float32() {
    let view = |layout: Layout, shape: &[usize], seed| {
        layout.view(shape, |s| filled(s, Dtype::Float32, noise(seed, -1.0, 1.0)))
    };
    on_each_device(|device| {
        let (m, k, n) = (65, 1031, 1009);
        for left in [Layout::Contiguous, Layout::Transposed] {
            for right in [Layout::Contiguous, Layout::Transposed] {
                let (a, b) = (view(left, &[m, k], 1), view(right, &[k, n], 2));
                check_rounded(&format!("{left:?} {right:?} on {device}"), &a, &b);
            }
        }
        let a = view(Layout::Transposed, &[2, 3, 130, 301], 3);
        let b = view(Layout::Contiguous, &[3, 301, 300], 4);
        check_rounded(&format!("repeated batches on {device}"), &a, &b);
        let (a, b) = (view(Layout::Contiguous, &[k, k], 5), view(Layout::Contiguous, &[k, 72], 6));
        let c = view(Layout::Transposed, &[k, 72], 7);
        let got = ops::addmm(&c, &a, &b, 0.5, 2.0).unwrap();
        let addend = Addend { c: Host::of(&c), alpha: 0.5, beta: 2.0 };
        let want = product(&Host::of(&a), &Host::of(&b), Some(&addend), &[k, 72], Dtype::Float32);
        assert_approx(&format!("added on {device}"), &got, &widened(k + 4, want));
    });
}

/// The same with numbers at the end of what float32 has: these stay what they are, and no zero beside an
/// infinity makes a NaN but where it is multiplied by it.
#[test]
fn large_products_of_extreme_float32() {
    on_each_device(|device| {
        let (m, k, n) = (128, 1024, 520);
        let extremes = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::from(f32::MAX), 1e-30];
        let places = |i: usize| (i % k == 7).then_some(i / k).filter(|row| *row < extremes.len());
        let small = |i: usize| (i % 5) as f64 - 2.0;
        let a =
            filled(&[m, k], Dtype::Float32, |i| places(i).map_or(small(i), |row| extremes[row]));
        let b = filled(&[k, n], Dtype::Float32, |i| 0.25 + (i % 3) as f64 / 8.0);
        check_rounded(&format!("on the left on {device}"), &a, &b);
        let turned = ops::transpose(&b, &[]).unwrap();
        check_rounded(
            &format!("on the right on {device}"),
            &turned,
            &ops::transpose(&a, &[]).unwrap(),
        );
    });
}

/// Products whose rows and columns have magnitudes of their own are off by no more than TF32's, row by row
/// and column by column.
#[test]
fn large_products_of_float32_are_as_exact_as_tf32() {
    let (m, k, n) = (72, 1100, 1000);
    // The first rows are the largest, by factors of up to 2^60 in all.
    let line = |i: usize, of: usize| 2f64.powi(30 - (60 * i / of) as i32);
    let of_a = |i: usize| noise(1, -1.0, 1.0)(i) * line(i / k, m);
    let of_b = |i: usize| noise(2, -1.0, 1.0)(i) * line(i % n, n);
    on_each_device(|device| {
        let of = [filled(&[m, k], Dtype::Float32, of_a), filled(&[k, n], Dtype::Float32, of_b)];
        let turned = |a: &Array| {
            let columns = ops::contiguous(&ops::transpose(a, &[]).unwrap(), false).unwrap();
            ops::transpose(&columns, &[]).unwrap()
        };
        for (what, [a, b]) in [("by rows", of.clone()), ("by columns", of.each_ref().map(turned))] {
            let (left, right) = (Host::of(&a), Host::of(&b));
            let exact = product(&left, &right, None, &[m, n], Dtype::Float32);
            let rounded = |host: &Host| Host { values: eleven_bits(&host.values), ..host.clone() };
            let tf32 = product(&rounded(&left), &rounded(&right), None, &[m, n], Dtype::Float32);
            let got = values(&ops::matmul(&a, &b).unwrap());
            let scale: Vec<f64> = exact.iter().map(|approx| approx.error).collect();
            let off = |values: &mut dyn Iterator<Item = f64>| {
                let square = |((x, approx), scale): ((f64, &Approx), &f64)| {
                    ((x - approx.value) / scale).powi(2)
                };
                values.zip(&exact).zip(&scale).map(square).sum::<f64>().sqrt()
            };
            let (ours, of_tf32) =
                (off(&mut got.into_iter()), off(&mut tf32.iter().map(|approx| approx.value)));
            assert!(ours <= 1.01 * of_tf32, "{what} on {device}: {ours}, TF32 {of_tf32}");
        }
    });
}

/// Numbers as TF32 has them, rounded to nearest.
fn eleven_bits(values: &[f64]) -> Vec<f64> {
    let round = |x: f64| {
        let unit = 2f64.powi(x.abs().log2().floor() as i32 - 10);
        if x == 0.0 { x } else { (x / unit).round_ties_even() * unit }
    };
    values.iter().copied().map(round).collect()
}

/// With `MLX_ENABLE_TF32=0` products of float32 are exact.
#[test]
fn large_products_of_exact_float32() {
    let test = "matmul::large_products_of_exact_float32";
    in_child(test, &[("MLX_ENABLE_TF32", "0")], || {
        on_each_device(|device| {
            let random =
                |shape: &[usize], seed| filled(shape, Dtype::Float32, noise(seed, -1.0, 1.0));
            let (a, b) = (random(&[65, 1031], 1), random(&[1031, 1009], 2));
            check(&format!("on {device}"), &a, &b);
        });
    });
}

/// Rows of a wider matrix, from an odd column on; what lies behind the end of the inner axis is NaN.
#[test]
fn nothing_outside_of_a_slice_reaches_the_sums() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for m in [1, 5, 40] {
                let part = filled(&[m, 60], dtype, noise(1, -1.0, 1.0));
                let nan = filled(&[m, 7], dtype, |_| f64::NAN);
                let wide = ops::concatenate(&[&nan, &part, &nan], 1).unwrap();
                let a = ops::slice_axis(&wide, 1, 7, 67).unwrap();
                let b = filled(&[60, 48], dtype, noise(2, -1.0, 1.0));
                check(&format!("{m} rows {dtype} on {device}"), &a, &b);
                let c = filled(&[48], dtype, noise(3, -1.0, 1.0));
                let got = ops::addmm(&c, &a, &b, 0.5, 2.0).unwrap();
                let addend = Addend { c: Host::of(&c), alpha: 0.5, beta: 2.0 };
                let want = product(&Host::of(&a), &Host::of(&b), Some(&addend), &[m, 48], dtype);
                assert_approx(&format!("added, {m} rows {dtype} on {device}"), &got, &want);
            }
        }
    });
}

#[test]
fn products_are_scaled_and_added_to() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (m, k, n) in [(1, 33, 40), (40, 33, 1), (7, 65, 9), (66, 34, 70), (3, 0, 5)] {
                for (alpha, beta) in [(1.0, 1.0), (0.5, -2.0), (2.0, 0.0)] {
                    for (layout, shape) in [
                        (Layout::Contiguous, vec![2, m, n]),
                        (Layout::Transposed, vec![m, n]),
                        (Layout::Sliced, vec![n]),
                        (Layout::Scalar, vec![]),
                    ] {
                        let view = |layout: Layout, shape: &[usize], seed| {
                            layout.view(shape, |s| filled(s, dtype, noise(seed, -1.0, 1.0)))
                        };
                        let a = view(Layout::Contiguous, &[2, m, k], 1);
                        let b = view(Layout::Contiguous, &[k, n], 2);
                        let c = view(layout, &shape, 3);
                        let what =
                            format!("{alpha}·{m}x{k}x{n} + {beta}·{shape:?} {dtype} on {device}");
                        let got = keeping(&what, &[&a, &b, &c], || {
                            let got = ops::addmm(&c, &a, &b, alpha, beta).unwrap();
                            got.eval().expect(&what);
                            got
                        });
                        let addend =
                            Addend { c: Host::of(&c), alpha: alpha.into(), beta: beta.into() };
                        let shape = [2, m, n];
                        assert_eq!(got.shape(), shape, "{what}");
                        let (a, b) = (Host::of(&a), Host::of(&b));
                        assert_approx(&what, &got, &product(&a, &b, Some(&addend), &shape, dtype));
                    }
                }
            }
        }
    });
}

#[test]
fn complex_products_match_float64() {
    on_each_device(|device| {
        for (m, k, n) in [(1, 7, 1), (7, 33, 5), (33, 1, 34), (1, 65, 33), (17, 20, 1)] {
            for left in Layout::VIEWS {
                for right in Layout::VIEWS {
                    let a = left.view(&[2, m, k], |s| complex_noise(s, 1));
                    let b = right.view(&[2, k, n], |s| complex_noise(s, 5));
                    let what = format!("{m}x{k}x{n} {left:?} {right:?} on {device}");
                    let got = complex_parts(&ops::matmul(&a, &b).unwrap());
                    let (x, y) = (complex_parts(&a), complex_parts(&b));
                    for (place, i) in indices(&[2, m, n]).enumerate() {
                        let (mut re, mut im, mut size) = (0.0, 0.0, 0.0);
                        for l in 0..k {
                            let ([p, q], [r, s]) =
                                (x[(i[0] * m + i[1]) * k + l], y[(i[0] * k + l) * n + i[2]]);
                            (re, im) = (re + p * r - q * s, im + p * s + q * r);
                            size += (p.abs() + q.abs()) * (r.abs() + s.abs());
                        }
                        // Two products and sums per element, and the rounding of the result.
                        let error = sum_error(2 * k + 1, size, Dtype::Float32);
                        let near = (got[place][0] - re).abs() <= error
                            && (got[place][1] - im).abs() <= error;
                        assert!(near, "{what} {i:?}: {:?}, not {re} + {im}i", got[place]);
                    }
                }
            }
        }
    });
}

#[test]
fn empty_and_wrong_products() {
    on_each_device(|device| {
        let zeros = |shape: &[usize]| filled(shape, Dtype::Float32, |_| 0.0);
        let got = ops::matmul(&zeros(&[3, 0]), &zeros(&[0, 4])).unwrap();
        assert_eq!(values(&got), [0.0; 12], "{device}");
        assert_eq!(ops::matmul(&zeros(&[0, 4]), &zeros(&[4, 2])).unwrap().shape(), [0, 2]);
        assert!(values(&ops::matmul(&zeros(&[2, 0, 4]), &zeros(&[4, 2])).unwrap()).is_empty());
        assert!(ops::matmul(&zeros(&[2, 3]), &zeros(&[4, 2])).is_err());
        assert!(ops::matmul(&zeros(&[]), &zeros(&[4, 2])).is_err());
        let whole = array(&[1.0; 4], &[2, 2], Dtype::Int32);
        assert!(ops::matmul(&whole, &whole).is_err());
        // Integers beside floats become floats.
        let half = array(&[0.5; 4], &[2, 2], Dtype::Bfloat16);
        let mixed = ops::matmul(&whole, &half).unwrap();
        assert_eq!((mixed.dtype(), values(&mixed)), (Dtype::Bfloat16, vec![1.0; 4]), "{device}");
    });
}
