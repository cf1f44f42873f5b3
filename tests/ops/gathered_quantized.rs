//! Products of picked matrices with picked quantized matrices.

use mlx::{Array, Device, Dtype, ops};
use mlx_tests::{
    Approx, Host, Layout, array, assert_approx, assert_approx_either, dtypes_of, filled, indices,
    keeping, noise, on_each_device, rounded, sum_error, values,
};
use ops::Picks;

use crate::{gathered::sorted_and_not, quantized::Quantized};

/// Matrices of the quantized operand.
const MATRICES: usize = 5;

/// Products of matrices of `x` (4, rows, inner) with those of `q`, which stand for (5, sides).
fn want(
    x: &Host,
    q: &Quantized,
    sides: [usize; 2],
    picks: &[(usize, usize)],
    transpose: bool,
    dtype: Dtype,
) -> Vec<Approx> {
    want_of(x, |i| q.element(i), sides, picks, transpose, dtype)
}

/// The same of elements, each with the sum of the terms that it is made of.
fn want_of(
    x: &Host,
    element: impl Fn(usize) -> (f64, f64),
    sides: [usize; 2],
    picks: &[(usize, usize)],
    transpose: bool,
    dtype: Dtype,
) -> Vec<Approx> {
    let rows = x.shape[1];
    let (inner, outer) = if transpose { (sides[1], sides[0]) } else { (sides[0], sides[1]) };
    let mut out = Vec::new();
    for &(left, right) in picks {
        for i in indices(&[rows, outer]) {
            let (mut value, mut size) = (0.0, 0.0);
            for k in 0..inner {
                let place = if transpose { i[1] * inner + k } else { k * outer + i[1] };
                let (w, terms) = element(right * inner * outer + place);
                let x = x.at(&[left, i[0], k]);
                (value, size) = (value + x * w, size + x.abs() * terms);
            }
            out.push(Approx { value, error: sum_error(inner + 3, size, dtype) });
        }
    }
    out
}

fn check(
    device: Device,
    dtype: Dtype,
    layout: Layout,
    (group, bits): (usize, usize),
    rows: usize,
    transpose: bool,
) {
    let sides = [37, 2 * group];
    let w = filled(&[MATRICES, sides[0], sides[1]], dtype, noise(bits as u64, -1.0, 0.9));
    let q = Quantized::new(&w, group, bits);
    let (inner, outer) = if transpose { (sides[1], sides[0]) } else { (sides[0], sides[1]) };
    let x = layout.view(&[4, rows, inner], |s| filled(s, dtype, noise(8, -1.0, 1.0)));
    let (lhs, rhs) = (
        array(&[3.0, 0.0, 1.0, 1.0], &[2, 2], Dtype::Int32),
        array(&[4.0, 2.0], &[2], Dtype::Uint32),
    );
    let what = format!("{rows} rows, {bits} bits /{group} {dtype} {layout:?} {transpose}");
    let picks = Picks { lhs: Some(&lhs), rhs: Some(&rhs), sorted: false };
    let got = keeping(&what, &[&x, &q.words], || {
        let [w, s, b] = [&q.words, &q.scales, &q.biases];
        let got = ops::gather_qmm(&x, w, s, b, picks, transpose, group, bits).expect(&what);
        got.eval().expect(&what);
        got
    });
    assert_eq!((got.shape(), got.dtype()), (&[2, 2, rows, outer][..], dtype), "{what}");
    let pairs = [(3, 4), (0, 2), (1, 4), (1, 2)];
    let whole = want_of(&Host::of(&x), |i| whole(&q, i, dtype), sides, &pairs, transpose, dtype);
    let exact = want(&Host::of(&x), &q, sides, &pairs, transpose, dtype);
    // On GPUs all but few rows of a transposed matrix's product take weights as `dequantize` gives them.
    let rounds = device == Device::GPU && (!transpose || rows > 16);
    assert_approx_either(&what, &got, [&whole, if rounds { &whole } else { &exact }]);
}

/// An element as `dequantize` gives it.
fn whole(q: &Quantized, i: usize, dtype: Dtype) -> (f64, f64) {
    let (w, terms) = q.element(i);
    (rounded(w, dtype), terms)
}

#[test]
fn picked_products_of_every_kind() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for (group, bits) in [(32, 2), (64, 4), (128, 3), (32, 8), (64, 6), (32, 5)] {
                for rows in [1, 3, 9, 33] {
                    for transpose in [true, false] {
                        check(device, dtype, Layout::Contiguous, (group, bits), rows, transpose);
                    }
                }
            }
            check(device, dtype, Layout::Sliced, (64, 4), 1, true);
            check(device, dtype, Layout::Reversed, (64, 4), 2, true);
        }
    });
}

/// As of batches with experts: many rows, in any order, of a list that names some twice, pick a few matrices
/// or many, of sides that kernels take in whole blocks.
#[test]
fn many_rows_pick_matrices_in_any_order() {
    on_each_device(|device| {
        for (dtype, group, matrices, count, sides) in [
            (Dtype::Bfloat16, 64, 300, 600, [32, 256]),
            (Dtype::Float16, 32, 140, 1000, [32, 256]),
            (Dtype::Bfloat16, 128, 6, 40, [32, 256]),
            (Dtype::Bfloat16, 64, 12, 70, [96, 768]),
            (Dtype::Float16, 32, 6, 48, [64, 1024]),
            (Dtype::Bfloat16, 64, 140, 500, [16, 384]),
            (Dtype::Float16, 32, 140, 1000, [32, 384]),
            (Dtype::Bfloat16, 128, 6, 40, [32, 384]),
            // So many that each workgroup of a large device has several units of several tiles.
            (Dtype::Bfloat16, 64, 140, 320, [96, 2304]),
        ] {
            let rows = count / 2 + 3;
            let w = filled(&[matrices, sides[0], sides[1]], dtype, noise(3, -1.0, 0.9));
            let q = Quantized::new(&w, group, 4);
            let x = filled(&[rows, 1, sides[1]], dtype, noise(8, -1.0, 1.0));
            // A third of all pick the last matrix.
            let pick =
                |i: usize| if i.is_multiple_of(3) { matrices - 1 } else { i * 37 % matrices };
            let pairs: Vec<_> = (0..count).map(|i| (i * 7 % rows, pick(i))).collect();
            let list = |side: fn(&(usize, usize)) -> usize| {
                let numbers: Vec<_> = pairs.iter().map(|pair| side(pair) as f64).collect();
                array(&numbers, &[count], Dtype::Uint32)
            };
            let (lhs, rhs) = (list(|pair| pair.0), list(|pair| pair.1));
            let picks = Picks { lhs: Some(&lhs), rhs: Some(&rhs), sorted: false };
            let [w, s, b] = [&q.words, &q.scales, &q.biases];
            let got = ops::gather_qmm(&x, w, s, b, picks, true, group, 4).unwrap();
            let exact = want(&Host::of(&x), &q, sides, &pairs, true, dtype);
            let what =
                format!("{count} picks of {matrices} {sides:?}, groups of {group}, on {device}");
            assert_approx(&what, &got, &exact);
        }
    });
}

/// As in prompts with experts: rows that pick a matrix each, by indices that ascend, or are said to.
#[test]
fn rows_pick_matrices_in_groups() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for (group, bits) in [(32, 2), (64, 4), (128, 3), (32, 8), (64, 6), (32, 5)] {
                let sides = [37, 3 * group];
                let w = filled(&[MATRICES, sides[0], sides[1]], dtype, noise(3, -1.0, 0.9));
                let q = Quantized::new(&w, group, bits);
                for (transpose, rhs) in [true, false].into_iter().zip(sorted_and_not()) {
                    let inner = sides[usize::from(transpose)];
                    let x = filled(&[rhs.len(), 1, inner], dtype, noise(8, -1.0, 1.0));
                    let pairs: Vec<_> = (0..).zip(rhs.iter().map(|&i| i as usize)).collect();
                    let rhs = array(&rhs, &[rhs.len()], Dtype::Uint32);
                    let picks = Picks { lhs: None, rhs: Some(&rhs), sorted: true };
                    let [w, s, b] = [&q.words, &q.scales, &q.biases];
                    let got = ops::gather_qmm(&x, w, s, b, picks, transpose, group, bits).unwrap();
                    // Matrix units take weights as `dequantize` gives them.
                    let (x, whole) = (Host::of(&x), |i: usize| whole(&q, i, dtype));
                    let exact = want(&x, &q, sides, &pairs, transpose, dtype);
                    let whole = want_of(&x, whole, sides, &pairs, transpose, dtype);
                    let what = format!("{bits} bits /{group} {dtype} {transpose} on {device}");
                    let rounds = device == Device::GPU && !transpose;
                    assert_approx_either(
                        &what,
                        &got,
                        [&whole, if rounds { &whole } else { &exact }],
                    );
                }
            }
        }
    });
}

/// As in decoding with experts: one row each, and a matrix of every batch.
#[test]
fn missing_indices_take_each_matrix() {
    on_each_device(|device| {
        let w = filled(&[MATRICES, 24, 64], Dtype::Float32, noise(1, -1.0, 1.0));
        let q = Quantized::new(&w, 64, 4);
        let gather = |x: &Array, picks: Picks<'_>| {
            let [w, s, b] = [&q.words, &q.scales, &q.biases];
            ops::gather_qmm(x, w, s, b, picks, true, 64, 4)
        };
        let x = filled(&[4, 1, 64], Dtype::Float32, noise(2, -1.0, 1.0));
        let rhs = array(&[0.0, 0.0, 3.0, 4.0], &[4], Dtype::Uint32);
        let picks = Picks { rhs: Some(&rhs), sorted: true, lhs: None };
        let got = gather(&x, picks).unwrap();
        let pairs = [(0, 0), (1, 0), (2, 3), (3, 4)];
        let want = want(&Host::of(&x), &q, [24, 64], &pairs, true, Dtype::Float32);
        assert_approx(&format!("on {device}"), &got, &want);
        let all = filled(&[MATRICES, 2, 64], Dtype::Float32, noise(3, -1.0, 1.0));
        let batched = gather(&all, Picks::default()).unwrap();
        assert_eq!(batched.shape(), [MATRICES, 2, 24]);
        let lhs = array(&[0.0, 1.0, 2.0, 3.0, 4.0], &[5], Dtype::Uint32);
        let picked = gather(&all, Picks { lhs: Some(&lhs), ..Picks::default() }).unwrap();
        assert_eq!(values(&batched).len(), values(&picked).len(), "{device}");
        let halves = filled(&[1], Dtype::Float32, |_| 0.0);
        assert!(gather(&x, Picks { rhs: Some(&halves), ..picks }).is_err(), "no integers");
        let short = filled(&[4, 1, 32], Dtype::Float32, |_| 1.0);
        assert!(gather(&short, picks).is_err(), "another inner size");
    });
}
