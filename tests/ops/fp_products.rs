//! Products with matrices of small floats, picked and not.

use mlx::{Array, Device, Dtype, ops};
use mlx_tests::{
    Approx, Layout, array, assert_approx, dtypes_of, filled, keeping, noise, on_each_device, values,
};
use ops::{FpMode, Picks};

use crate::{
    fp_quantized::{MODES, Quantized, product},
    gathered::sorted_and_not,
};

fn floats(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|d| d.is_floating())
}

/// Matrices of random numbers.
fn matrix(shape: &[usize], mode: FpMode, seed: u64) -> Quantized {
    Quantized::new(&filled(shape, Dtype::Float32, noise(seed, -1.0, 0.9)), mode, None)
}

/// Checks a product with a quantized matrix of these sides, or with its transpose.
fn check(
    device: Device,
    q: &Quantized,
    sides: [usize; 2],
    mode: FpMode,
    dtype: Dtype,
    (rows, transpose, layout): (usize, bool, Layout),
) {
    let (inner, outer) = if transpose { (sides[1], sides[0]) } else { (sides[0], sides[1]) };
    let x = layout.view(&[rows, inner], |s| filled(s, dtype, noise(8, -1.0, 1.0)));
    let what = format!("{rows} rows {sides:?} {mode:?} {dtype} {layout:?} {transpose} on {device}");
    let got = keeping(&what, &[&x, &q.words, &q.scales], || {
        let got = ops::fp_quantized_matmul(&x, &q.words, &q.scales, transpose, mode).unwrap();
        got.eval().expect(&what);
        got
    });
    assert_eq!((got.shape(), got.dtype()), (&[rows, outer][..], dtype), "{what}");
    let want = product(&values(&x), &q.elements, inner, outer, transpose, dtype);
    assert_approx(&what, &got, &want);
}

/// Numbers of rows around those at which kernels change, odd numbers of groups and of rows of the matrix.
#[test]
fn products_of_every_kind() {
    on_each_device(|device| {
        for (dtype, mode) in floats(device).flat_map(|d| MODES.map(|m| (d, m))) {
            for groups in [1, 3] {
                let sides = [37, groups * mode.group_size()];
                let q = matrix(&sides, mode, 3);
                for (rows, transpose) in
                    [1, 2, 4, 5, 9, 17, 33].into_iter().flat_map(|r| [(r, true), (r, false)])
                {
                    check(device, &q, sides, mode, dtype, (rows, transpose, Layout::Contiguous));
                }
            }
        }
    });
}

/// Longer inner axes than one pass takes, more outputs than one workgroup, and rows that are not dense.
#[test]
fn large_products_and_strided_rows() {
    on_each_device(|device| {
        for (dtype, mode) in floats(device).flat_map(|d| MODES.map(|m| (d, m))) {
            for sides in [[130, 1024], [600, 96]] {
                let q = matrix(&sides, mode, 9);
                for (rows, transpose) in
                    [(1, true), (4, true), (3, false), (20, true), (35, false), (130, true)]
                {
                    check(device, &q, sides, mode, dtype, (rows, transpose, Layout::Contiguous));
                }
                for layout in [Layout::Sliced, Layout::Reversed] {
                    check(device, &q, sides, mode, dtype, (3, true, layout));
                }
            }
        }
    });
}

/// Matrices per batch, a matrix for all batches, gaps between rows, a vector, and nothing.
#[test]
fn batches_share_or_have_their_matrices() {
    on_each_device(|device| {
        for (dtype, mode) in floats(device).flat_map(|d| MODES.map(|m| (d, m))) {
            for (rows, transpose) in [(1, true), (3, true), (2, false), (17, true)] {
                let q = matrix(&[3, 32, 32], mode, 3);
                let x = filled(&[2, 3, rows, 32], dtype, noise(4, -1.0, 1.0));
                let xv = values(&x);
                let of = |i: usize, m: usize| {
                    let (x, q) =
                        (&xv[i * rows * 32..][..rows * 32], &q.elements[m * 1024..][..1024]);
                    product(x, q, 32, 32, transpose, dtype)
                };
                let all =
                    |m: fn(usize) -> usize| (0..6).flat_map(|i| of(i, m(i))).collect::<Vec<_>>();
                let what = format!("{rows} rows {mode:?} {dtype} {transpose} on {device}");
                let times = |x: &Array, parts: [&Array; 2]| {
                    ops::fp_quantized_matmul(x, parts[0], parts[1], transpose, mode).unwrap()
                };
                let got = times(&x, [&q.words, &q.scales]);
                assert_approx(&format!("each {what}"), &got, &all(|i| i % 3));
                let first =
                    |a: &Array| ops::squeeze(&ops::slice_axis(a, 0, 0, 1).unwrap(), &[0]).unwrap();
                let [w, s] = [first(&q.words), first(&q.scales)];
                assert_approx(&format!("shared {what}"), &times(&x, [&w, &s]), &all(|_| 0));
                let [w, s] = [&w, &s].map(|a| {
                    let twice = ops::repeat(a, 2, Some(0)).unwrap();
                    let shape: Vec<isize> = twice.shape().iter().map(|&d| d as isize).collect();
                    ops::slice(&twice, &[0, 0], &shape, &[2, 1]).unwrap()
                });
                assert_approx(&format!("gaps {what}"), &times(&x, [&w, &s]), &all(|_| 0));
                let row = ops::slice(&x, &[0; 4], &[1, 1, 1, 32], &[1; 4]).unwrap();
                let got = times(&ops::reshape(&row, &[32]).unwrap(), [&w, &s]);
                assert_eq!(got.shape(), [32], "{what}");
                assert_approx(&format!("vector {what}"), &got, &of(0, 0)[..32]);
                let none = filled(&[0, 32], dtype, |_| 0.0);
                assert_eq!(times(&none, [&w, &s]).shape(), [0, 32], "{what}");
            }
        }
    });
}

/// A code of e4m3 that is no number makes the results of its own row none, wherever in a word it stands.
#[test]
fn what_is_no_number_stays_in_its_row() {
    on_each_device(|device| {
        let mode = FpMode::Mxfp8;
        let q = matrix(&[12, 64], mode, 6);
        let mut words = q.words.to_vec::<u32>().unwrap();
        for (row, byte) in [(1, 0), (4, 21), (9, 62), (10, 63)] {
            words[row * 16 + byte / 4] |= 0x7f << (byte % 4 * 8);
        }
        let words = Array::from_slice(&words, &[12, 16]).unwrap();
        for rows in [1, 9, 33] {
            let x = filled(&[rows, 64], Dtype::Float32, noise(7, -1.0, 1.0));
            let got = ops::fp_quantized_matmul(&x, &words, &q.scales, true, mode).unwrap();
            for (i, y) in values(&got).into_iter().enumerate() {
                let none = [1, 4, 9, 10].contains(&(i % 12));
                assert_eq!(y.is_nan(), none, "{rows} rows: {i} is {y} on {device}");
            }
        }
    });
}

/// Parts that lie otherwise than `fp_quantize` left them.
#[test]
fn words_and_scales_by_columns() {
    on_each_device(|device| {
        for (dtype, mode) in floats(device).flat_map(|d| MODES.map(|m| (d, m))) {
            let q = matrix(&[6, 64], mode, 4);
            let turned = |a: &Array| ops::transpose(a, &[]).unwrap();
            let columns =
                [&q.words, &q.scales].map(|a| turned(&ops::contiguous(&turned(a), false).unwrap()));
            let [words, scales] = &columns;
            let what = format!("{mode:?} {dtype} on {device}");
            let back = ops::fp_dequantize(words, scales, mode, None, dtype).unwrap();
            let want: Vec<Approx> =
                q.elements.iter().map(|&value| Approx { value, error: 0.0 }).collect();
            assert_approx(&what, &back, &want);
            for rows in [1, 3, 20] {
                let x = filled(&[rows, 64], dtype, noise(5, -1.0, 1.0));
                let got = ops::fp_quantized_matmul(&x, words, scales, true, mode).unwrap();
                let want = product(&values(&x), &q.elements, 64, 6, true, dtype);
                assert_approx(&format!("{rows} rows {what}"), &got, &want);
            }
        }
    });
}

/// Matrices picked from both sides, by indices of which one is given for each axis.
#[test]
fn picked_products_of_every_kind() {
    on_each_device(|device| {
        for (dtype, mode) in floats(device).flat_map(|d| MODES.map(|m| (d, m))) {
            let sides = [21, 3 * mode.group_size()];
            let q = matrix(&[5, sides[0], sides[1]], mode, 6);
            let part = |m: usize| &q.elements[m * sides[0] * sides[1]..][..sides[0] * sides[1]];
            let lhs = array(&[3.0, 0.0, 1.0, 1.0], &[2, 2], Dtype::Int32);
            let rhs = array(&[4.0, 2.0], &[2], Dtype::Uint32);
            for (rows, transpose) in [1, 3, 9, 33].into_iter().flat_map(|r| [(r, true), (r, false)])
            {
                let (inner, outer) =
                    if transpose { (sides[1], sides[0]) } else { (sides[0], sides[1]) };
                let x = filled(&[4, rows, inner], dtype, noise(8, -1.0, 1.0));
                let xv = values(&x);
                let what = format!("{rows} rows {mode:?} {dtype} {transpose} on {device}");
                let gather = |picks, global| {
                    ops::fp_gather_qmm(&x, &q.words, &q.scales, picks, transpose, mode, global)
                };
                let picks = Picks { lhs: Some(&lhs), rhs: Some(&rhs), sorted: false };
                let got = gather(picks, None).unwrap();
                assert_eq!((got.shape(), got.dtype()), (&[2, 2, rows, outer][..], dtype), "{what}");
                let one = |l: usize, r: usize| {
                    let x = &xv[l * rows * inner..][..rows * inner];
                    product(x, part(r), inner, outer, transpose, dtype)
                };
                let want: Vec<Approx> =
                    [(3, 4), (0, 2), (1, 4), (1, 2)].iter().flat_map(|&(l, r)| one(l, r)).collect();
                assert_approx(&what, &got, &want);
                if mode == FpMode::Nvfp4 {
                    // A global scale of 5376 stands for two.
                    let global = Array::scalar(5376.0f32).unwrap();
                    let got = gather(picks, Some(&global)).unwrap();
                    let twice = |a: &Approx| Approx { value: 2.0 * a.value, error: 2.0 * a.error };
                    let want: Vec<Approx> = want.iter().map(twice).collect();
                    assert_approx(&format!("twice {what}"), &got, &want);
                }
            }
        }
    });
}

/// Rows that pick a matrix each, by indices that ascend, or are said to.
#[test]
fn rows_pick_matrices_in_groups() {
    on_each_device(|device| {
        for (dtype, mode) in floats(device).flat_map(|d| MODES.map(|m| (d, m))) {
            for groups in [2, 3] {
                let sides = [37, groups * mode.group_size()];
                let q = matrix(&[5, sides[0], sides[1]], mode, 6);
                let size = sides[0] * sides[1];
                for (transpose, rhs) in [true, false].into_iter().zip(sorted_and_not()) {
                    let [outer, inner] = if transpose { sides } else { [sides[1], sides[0]] };
                    let x = filled(&[rhs.len(), 1, inner], dtype, noise(8, -1.0, 1.0));
                    let xv = values(&x);
                    let row = |(i, &matrix): (usize, &f64)| {
                        let part = &q.elements[matrix as usize * size..][..size];
                        product(&xv[i * inner..][..inner], part, inner, outer, transpose, dtype)
                    };
                    let want: Vec<Approx> = rhs.iter().enumerate().flat_map(row).collect();
                    let rhs = array(&rhs, &[rhs.len()], Dtype::Uint32);
                    let picks = Picks { lhs: None, rhs: Some(&rhs), sorted: true };
                    let (words, scales) = (&q.words, &q.scales);
                    let got = ops::fp_gather_qmm(&x, words, scales, picks, transpose, mode, None)
                        .unwrap();
                    assert_approx(
                        &format!("{mode:?} {dtype} {transpose} on {device}"),
                        &got,
                        &want,
                    );
                }
            }
        }
    });
}

#[test]
fn wrong_arguments_are_refused() {
    on_each_device(|device| {
        let said = |result: mlx::Result<Array>| result.unwrap_err().to_string();
        for mode in MODES {
            let q = matrix(&[4, 32], mode, 1);
            let x = filled(&[2, 32], Dtype::Float32, |_| 1.0);
            let times = |x: &Array, w: &Array, s: &Array| {
                said(ops::fp_quantized_matmul(x, w, s, true, mode))
            };
            let short = filled(&[2, 16], Dtype::Float32, |_| 1.0);
            let text = times(&short, &q.words, &q.scales);
            assert!(text.starts_with("[quantized_matmul] Last dimension of first input"), "{text}");
            let scalar = Array::scalar(1.0f32).unwrap();
            assert!(times(&scalar, &q.words, &q.scales).contains("Last dimension"), "{device}");
            let whole = ops::astype(&x, Dtype::Int32).unwrap();
            assert!(times(&whole, &q.words, &q.scales).contains("Only real floating types"));
            let halves = ops::astype(&q.scales, Dtype::Float16).unwrap();
            assert!(times(&x, &q.words, &halves).contains("Scale type must be uint8"));
            let signed = ops::view(&q.words, Dtype::Int32).unwrap();
            assert!(times(&x, &signed, &q.scales).contains("should be given as a uint32"));
            let more = ops::concatenate(&[&q.scales, &q.scales], 0).unwrap();
            assert!(times(&x, &q.words, &more).contains("Shape of scales does not match"));
            let wide = ops::concatenate(&[&q.scales, &q.scales], 1).unwrap();
            assert!(times(&x, &q.words, &wide).contains("Shape of scales does not match"));
            let flat = ops::flatten(&q.words, 0, 1).unwrap();
            assert!(times(&x, &flat, &q.scales).contains("at least 2 dimension"));
            let rhs = array(&[0.5], &[1], Dtype::Float32);
            let picks = Picks { rhs: Some(&rhs), ..Picks::default() };
            let [w, s] = [&q.words, &q.scales].map(|a| ops::expand_dims(a, &[0]).unwrap());
            let text = said(ops::fp_gather_qmm(&x, &w, &s, picks, true, mode, None));
            assert!(text.contains("Indices must be integral"), "{text}");
            let of = |dtype| said(ops::fp_dequantize(&q.words, &q.scales, mode, None, dtype));
            assert!(of(Dtype::Int8).contains("Only real floating types"), "{device}");
        }
    });
}
