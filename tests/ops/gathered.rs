//! Products of picked matrices, of segments, and with masked blocks.

use mlx::{Array, Device, Dtype, ops};
use mlx_tests::{
    Approx, Host, Layout, array, assert_approx, dtypes_of, filled, indices, keeping, noise,
    on_each_device, sum_error, unravel, values,
};

fn floats(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|d| d.is_floating())
}

/// Element (row, column) of the product of two matrices over `range` of the inner axis.
fn element(
    a: impl Fn(usize) -> f64,
    b: impl Fn(usize) -> f64,
    range: std::ops::Range<usize>,
    dtype: Dtype,
) -> Approx {
    let terms = range.len();
    let (mut value, mut magnitude) = (0.0, 0.0);
    for k in range {
        let term = a(k) * b(k);
        (value, magnitude) = (value + term, magnitude + term.abs());
    }
    Approx { value, error: sum_error(terms, magnitude, dtype) }
}

/// Checks `gather_mm` for batch axes (2, 3) on the left and 5 matrices on the right.
fn check_gather(
    what: &str,
    (a, b): (&Array, &Array),
    (lhs, rhs): (Option<&Array>, Option<&Array>),
    sorted: bool,
    picks: &[(usize, usize)],
    shape: &[usize],
) {
    let got = keeping(what, &[a, b], || {
        let got = ops::gather_mm(a, b, lhs, rhs, sorted).expect(what);
        got.eval().expect(what);
        got
    });
    let (x, y) = (Host::of(a), Host::of(b));
    let (m, n, k) = (a.dim(-2), b.dim(-1), a.dim(-1));
    assert_eq!(got.shape(), [shape, &[m, n]].concat(), "{what}");
    let batch = |host: &Host| host.shape[..host.shape.len() - 2].to_vec();
    let at = |host: &Host, matrix: usize, i: usize, j: usize| {
        let mut index = unravel(matrix, &batch(host));
        index.extend([i, j]);
        host.at(&index)
    };
    let mut want = Vec::new();
    for &(left, right) in picks {
        for i in indices(&[m, n]) {
            let row = |l| at(&x, left, i[0], l);
            want.push(element(row, |l| at(&y, right, l, i[1]), 0..k, got.dtype()));
        }
    }
    assert_approx(what, &got, &want);
}

/// Indices that ascend, with a matrix that nobody picks, one that a single row picks, and some that several
/// tiles of rows pick; and the same ones in no order.
pub(crate) fn sorted_and_not() -> [Vec<f64>; 2] {
    let counts = [70, 0, 1, 33, 140];
    let sorted: Vec<f64> =
        (0..).zip(counts).flat_map(|(matrix, count)| vec![f64::from(matrix); count]).collect();
    let shuffled = (0..sorted.len()).map(|i| sorted[i * 101 % sorted.len()]).collect();
    [sorted, shuffled]
}

/// Rows that pick a matrix each. Nobody checks whether indices ascend that are said to.
#[test]
fn rows_pick_matrices_in_groups() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (k, n) in [(40, 33), (33, 130), (64, 16)] {
                for layout in [Layout::Contiguous, Layout::Sliced, Layout::Reversed] {
                    let make = |shape: &[usize], seed| {
                        layout.view(shape, |s| filled(s, dtype, noise(seed, -1.0, 1.0)))
                    };
                    let a = make(&[244, 1, k], 1);
                    let turned = ops::swapaxes(&make(&[5, n, k], 3), -1, -2).unwrap();
                    for (b, rhs) in [make(&[5, k, n], 2), turned].iter().zip(sorted_and_not()) {
                        let what = format!("{k}x{n} {dtype} {layout:?} on {device}");
                        let picks: Vec<_> = (0..).zip(rhs.iter().map(|&i| i as usize)).collect();
                        let rhs = array(&rhs, &[244], Dtype::Uint32);
                        let picked = (None, Some(&rhs));
                        check_gather(&what, (&a, b), picked, true, &picks, &[244]);
                    }
                }
            }
        }
    });
}

/// More rows than threads look for groups.
#[test]
fn many_rows_pick_matrices_in_groups() {
    on_each_device(|device| {
        let (a, b) = (noise(1, -1.0, 1.0), noise(2, -1.0, 1.0));
        let (a, b) =
            (filled(&[5000, 1, 4], Dtype::Float32, a), filled(&[90, 4, 6], Dtype::Float32, b));
        let picks: Vec<_> = (0..5000).map(|i| (i, i * i / 300_000)).collect();
        let rhs: Vec<f64> = picks.iter().map(|p| p.1 as f64).collect();
        let rhs = array(&rhs, &[5000], Dtype::Uint32);
        check_gather(&format!("on {device}"), (&a, &b), (None, Some(&rhs)), true, &picks, &[5000]);
    });
}

/// Few rows and many, both orders of the right matrices, and strided batches.
#[test]
fn picked_matrices_are_multiplied() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (m, k, n) in [(1, 40, 33), (3, 33, 9), (17, 20, 35), (1, 5, 1)] {
                for layout in [Layout::Contiguous, Layout::Sliced, Layout::Reversed] {
                    let make = |shape: &[usize], seed| {
                        layout.view(shape, |s| filled(s, dtype, noise(seed, -1.0, 1.0)))
                    };
                    let a = make(&[2, 3, m, k], 1);
                    let straight = make(&[5, k, n], 2);
                    let turned = ops::swapaxes(&make(&[5, n, k], 3), -1, -2).unwrap();
                    let lhs = array(&[5.0, 0.0, 3.0, 3.0], &[2, 2], Dtype::Int32);
                    let rhs = array(&[4.0, 1.0], &[2], Dtype::Uint8);
                    for b in [&straight, &turned] {
                        let what = format!("{m}x{k}x{n} {dtype} {layout:?} on {device}");
                        let picks = [(5, 4), (0, 1), (3, 4), (3, 1)];
                        check_gather(
                            &what,
                            (&a, b),
                            (Some(&lhs), Some(&rhs)),
                            false,
                            &picks,
                            &[2, 2],
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn missing_indices_take_each_matrix() {
    on_each_device(|device| {
        let make = |shape: &[usize], seed| filled(shape, Dtype::Float32, noise(seed, -1.0, 1.0));
        let (a, b) = (make(&[3, 4, 8], 1), make(&[5, 8, 6], 2));
        let what = format!("on {device}");
        let some = array(&[4.0, 0.0, 2.0], &[3], Dtype::Uint32);
        let picks = [(0, 4), (1, 0), (2, 2)];
        check_gather(&what, (&a, &b), (None, Some(&some)), false, &picks, &[3]);
        let some = array(&[1.0; 5], &[5], Dtype::Int64);
        let picks: Vec<_> = (0..5).map(|i| (1, i)).collect();
        check_gather(&what, (&a, &b), (Some(&some), None), false, &picks, &[5]);
        // A single matrix on the left, sorted experts on the right, and broadcast rows.
        let one = make(&[2, 8], 3);
        let sorted = array(&[0.0, 0.0, 3.0, 4.0], &[4], Dtype::Uint32);
        let got = ops::gather_mm(&one, &b, None, Some(&sorted), true).unwrap();
        let again = ops::gather_mm(&one, &b, None, Some(&sorted), false).unwrap();
        assert_eq!(values(&got), values(&again), "{what}");
        let rows = ops::broadcast_to(&make(&[1, 8], 4), &[3, 1, 8]).unwrap();
        let some = array(&[2.0, 2.0, 1.0], &[3], Dtype::Uint32);
        let picks = [(0, 2), (1, 2), (2, 1)];
        check_gather(&what, (&rows, &b), (None, Some(&some)), false, &picks, &[3]);
        let vector = ops::gather_mm(&make(&[8], 5), &b, None, Some(&some), false).unwrap();
        assert_eq!(vector.shape(), [3, 6]);
    });
}

#[test]
fn wrong_and_empty_picks() {
    on_each_device(|device| {
        let ones = |shape: &[usize]| filled(shape, Dtype::Float32, |_| 1.0);
        let index = array(&[0.0], &[1], Dtype::Uint32);
        let gather = |a: &Array, b: &Array, i: &Array| ops::gather_mm(a, b, None, Some(i), false);
        assert!(gather(&ones(&[2, 3]), &ones(&[4, 4, 2]), &index).is_err());
        assert!(gather(&ones(&[2, 3]), &ones(&[4, 3, 2]), &ones(&[1])).is_err());
        assert!(gather(&ones(&[2, 3]), &ones(&[0, 3, 2]), &index).is_err());
        let none = array(&[], &[0], Dtype::Uint32);
        assert_eq!(gather(&ones(&[2, 3]), &ones(&[4, 3, 2]), &none).unwrap().shape(), [0, 2, 2]);
        let flat = gather(&ones(&[2, 0]), &ones(&[4, 0, 2]), &index).unwrap();
        assert_eq!(values(&flat), [0.0; 4], "{device}");
        // Out of range: some matrix, but no foreign memory.
        let far = array(&[1e9], &[1], Dtype::Uint32);
        assert_eq!(values(&gather(&ones(&[1, 3]), &ones(&[4, 3, 2]), &far).unwrap()), [3.0; 2]);
    });
}

#[test]
fn segments_of_the_inner_axis() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (m, k, n) in [(1, 40, 33), (7, 75, 5), (34, 50, 36)] {
                for turned in [false, true] {
                    let make = |shape: &[usize], seed| {
                        let shape =
                            if turned { [shape[1], shape[0]] } else { [shape[0], shape[1]] };
                        let made = filled(&shape, dtype, noise(seed, -1.0, 1.0));
                        if turned { ops::transpose(&made, &[]).unwrap() } else { made }
                    };
                    let (a, b) = (make(&[m, k], 1), make(&[k, n], 2));
                    let k = k as f64;
                    let ends = [0.0, 7.0, 7.0, 30.0, 9.0, 9.0, 20.0, 3.0, 1.0, k, 30.0, k + 9.0];
                    let segments = array(&ends, &[2, 3, 2], Dtype::Int32);
                    let got = ops::segmented_mm(&a, &b, &segments).unwrap();
                    assert_eq!(got.shape(), [2, 3, m, n]);
                    let (x, y) = (Host::of(&a), Host::of(&b));
                    let want: Vec<Approx> = indices(&[6, m, n])
                        .map(|i| {
                            let end = |which| f64::min(ends[2 * i[0] + which], k) as usize;
                            let range = end(0)..end(1).max(end(0));
                            let row = |l| x.at(&[i[1], l]);
                            element(row, |l| y.at(&[l, i[2]]), range, dtype)
                        })
                        .collect();
                    let what = format!("{m}x{k}x{n} {dtype} {turned} on {device}");
                    assert_approx(&what, &got, &want);
                }
            }
        }
        let ones = |shape: &[usize]| filled(shape, Dtype::Float32, |_| 1.0);
        let pairs = array(&[0.0, 1.0], &[2], Dtype::Uint32);
        assert_eq!(ops::segmented_mm(&ones(&[2, 3]), &ones(&[3, 4]), &pairs).unwrap().ndim(), 2);
        assert!(ops::segmented_mm(&ones(&[1, 2, 3]), &ones(&[3, 4]), &pairs).is_err());
        assert!(ops::segmented_mm(&ones(&[2, 3]), &ones(&[3, 4]), &ones(&[2])).is_err());
    });
}

#[test]
fn masks_clear_or_scale_blocks() {
    on_each_device(|device| {
        for dtype in floats(device) {
            let make = |shape: &[usize], seed| filled(shape, dtype, noise(seed, -1.0, 1.0));
            let (m, k, n, block) = (40, 70, 33, 32);
            let (a, b) = (make(&[2, m, k], 1), make(&[k, n], 2));
            let bits = |i: usize| f64::from(i % 3 != 1);
            let out = filled(&[2, 2, 2], Dtype::Bool, bits);
            let lhs = filled(&[2, 3], Dtype::Bool, |i| bits(i + 1));
            let rhs = filled(&[2, 3, 2], dtype, |i| [1.0, 0.0, 0.5][i % 3]);
            for (has_out, has_lhs, has_rhs) in [
                (true, true, true),
                (true, false, false),
                (false, true, false),
                (false, false, true),
            ] {
                let masks =
                    [has_out.then_some(&out), has_lhs.then_some(&lhs), has_rhs.then_some(&rhs)];
                let got =
                    ops::block_masked_mm(&a, &b, block, masks[0], masks[1], masks[2]).unwrap();
                let hosts = masks.map(|m| m.map(Host::of));
                let mask = |which: usize, index: [usize; 3]| {
                    let [batch, i, j] = index;
                    let at = [batch, i / block, j / block];
                    hosts[which].as_ref().map_or(1.0, |mask| mask.at(&at))
                };
                let (x, y) = (Host::of(&a), Host::of(&b));
                let want: Vec<Approx> = indices(&[2, m, n])
                    .map(|i| {
                        let left = |l| x.at(&[i[0], i[1], l]) * mask(1, [i[0], i[1], l]);
                        let right = |l| y.at(&[l, i[2]]) * mask(2, [i[0], l, i[2]]);
                        let Approx { value, error } = element(left, right, 0..k, dtype);
                        let factor = mask(0, [i[0], i[1], i[2]]);
                        Approx { value: value * factor, error: error * factor }
                    })
                    .collect();
                assert_approx(
                    &format!("{has_out} {has_lhs} {has_rhs} {dtype} on {device}"),
                    &got,
                    &want,
                );
            }
        }
        let ones = filled(&[32, 32], Dtype::Float32, |_| 1.0);
        let mask = filled(&[1, 1], Dtype::Bool, |_| 1.0);
        assert!(ops::block_masked_mm(&ones, &ones, 16, Some(&mask), None, None).is_err());
    });
}
