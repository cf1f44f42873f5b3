//! Sorting and selection along an axis.

use std::cmp::Ordering;

use mlx::{Array, Complex, Dtype, ops};
use mlx_tests::{
    Layout, array, dtypes_of, filled, groups, integers, keeping, noise, on_each_device,
    random_bits, values,
};

/// An element as sorting sees it: numbers, NaN last, complex numbers by real part first.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Key {
    /// Whether each part is NaN: then it is zero here.
    nan: [bool; 2],
    real: f64,
    imaginary: f64,
    integer: i128,
}

impl Key {
    fn order(&self, other: &Key) -> Ordering {
        let parts = |k: &Key| (k.nan[0], k.real, k.nan[1], k.imaginary, k.integer);
        parts(self).partial_cmp(&parts(other)).expect("no part is NaN")
    }

    /// Behind a real part that is NaN the other does not count.
    fn of(real: f64, imaginary: f64) -> Key {
        let nan = [real.is_nan(), !real.is_nan() && imaginary.is_nan()];
        let or_zero = |x: f64, counts: bool| if counts { x } else { 0.0 };
        let real = or_zero(real, !nan[0]);
        Key { nan, real, imaginary: or_zero(imaginary, nan == [false; 2]), integer: 0 }
    }
}

fn keys(a: &Array) -> Vec<Key> {
    match a.dtype() {
        Dtype::Complex64 => {
            let z = a.to_vec::<Complex>().unwrap();
            z.into_iter().map(|z| Key::of(z.re.into(), z.im.into())).collect()
        }
        d if d.is_floating() => values(a).into_iter().map(|x| Key::of(x, 0.0)).collect(),
        _ => integers(a).into_iter().map(|integer| Key { integer, ..Key::default() }).collect(),
    }
}

/// Numbers of which many are equal.
fn ties(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    let x = filled(shape, dtype, |i| noise(seed, 0.0, 9.0)(i).floor());
    match dtype {
        Dtype::Complex64 => {
            let z: Vec<Complex> = x
                .to_vec::<Complex>()
                .unwrap()
                .iter()
                .map(|z| Complex::new(z.re % 3.0, z.re))
                .collect();
            Array::from_slice(&z, shape).unwrap()
        }
        _ => x,
    }
}

/// The rows of an array along an axis as keys.
fn rows(a: &Array, axis: usize) -> Vec<Vec<Key>> {
    let keys = keys(a);
    let (_, rows) = groups(a.shape(), &[axis]);
    rows.iter().map(|row| row.iter().map(|&i| keys[i]).collect()).collect()
}

/// The indices of a row in stable ascending order.
fn stable_order(row: &[Key]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&i, &j| row[i].order(&row[j]));
    order
}

/// The bytes of an array's elements along an axis, row by row: NaN have a payload, and zeros a sign.
fn row_bytes(a: &Array, axis: usize) -> Vec<Vec<Vec<u8>>> {
    let bytes = a.to_bytes().unwrap();
    let size = a.dtype().size();
    let (_, rows) = groups(a.shape(), &[axis]);
    rows.iter()
        .map(|row| row.iter().map(|&i| bytes[i * size..][..size].to_vec()).collect())
        .collect()
}

/// The rows of an array of indices.
fn picks(a: &Array, axis: usize) -> Vec<Vec<usize>> {
    assert_eq!(a.dtype(), Dtype::Uint32);
    rows(a, axis).iter().map(|row| row.iter().map(|k| k.integer as usize).collect()).collect()
}

/// Checks sort and argsort of an array along an axis.
fn check_order(context: &str, a: &Array, axis: usize) {
    let along = axis as isize;
    let (sorted, order) = keeping(context, &[a], || {
        let both = (ops::sort(a, along).unwrap(), ops::argsort(a, along).unwrap());
        mlx::eval(&[&both.0, &both.1]).expect(context);
        both
    });
    assert_eq!((sorted.shape(), sorted.dtype()), (a.shape(), a.dtype()), "{context}");
    assert_eq!(order.shape(), a.shape(), "{context}");
    let sorted = row_bytes(&sorted, axis);
    let elements = row_bytes(a, axis);
    let results = picks(&order, axis).into_iter().zip(sorted);
    for ((row, elements), (order, sorted)) in rows(a, axis).iter().zip(elements).zip(results) {
        let want = stable_order(row);
        assert_eq!(order, want, "argsort {context}");
        let want: Vec<&[u8]> = want.iter().map(|&i| elements[i].as_slice()).collect();
        assert!(sorted == want, "sort {context}");
    }
}

/// Checks partition and argpartition: the element in its place, no larger one before it, no
/// smaller one behind it, and nothing lost.
fn check_partition(context: &str, a: &Array, kth: isize, axis: usize) {
    let along = axis as isize;
    let (parted, picked) = keeping(context, &[a], || {
        let both =
            (ops::partition(a, kth, along).unwrap(), ops::argpartition(a, kth, along).unwrap());
        mlx::eval(&[&both.0, &both.1]).expect(context);
        both
    });
    let place = if kth < 0 { kth + a.shape()[axis] as isize } else { kth } as usize;
    let (parted, picked) = (rows(&parted, axis), picks(&picked, axis));
    for ((row, parted), picked) in rows(a, axis).iter().zip(parted).zip(picked) {
        let sorted: Vec<Key> = stable_order(row).iter().map(|&i| row[i]).collect();
        let mut seen = picked.clone();
        seen.sort_unstable();
        assert_eq!(seen, (0..row.len()).collect::<Vec<_>>(), "argpartition {context}: no order");
        for got in [parted, picked.iter().map(|&i| row[i]).collect()] {
            assert_eq!(got[place], sorted[place], "{context}");
            assert!(got[..place].iter().all(|x| x.order(&got[place]).is_le()), "{context}: before");
            assert!(got[place..].iter().all(|x| x.order(&got[place]).is_ge()), "{context}: behind");
            let order = stable_order(&got);
            let again: Vec<Key> = order.iter().map(|&i| got[i]).collect();
            assert_eq!(again, sorted, "{context}: elements");
        }
    }
}

fn layouts() -> impl Iterator<Item = Layout> {
    Layout::ALL.into_iter().filter(|&l| l != Layout::Scalar)
}

#[test]
fn every_dtype_layout_and_axis_is_sorted_stably() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in layouts() {
                let a = layout.view(layout.shape(), |shape| ties(shape, dtype, 1));
                for axis in 0..3 {
                    check_order(&format!("{dtype} {layout:?} axis {axis} on {device}"), &a, axis);
                }
            }
        }
    });
}

/// Random bits: all of an integer's range, and floats of every kind.
#[test]
fn all_bits_are_sorted() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for shape in [[3, 129], [2, 1500]] {
                let a = random_bits(&shape, dtype, 3);
                check_order(&format!("{dtype} {shape:?} on {device}"), &a, 1);
            }
        }
    });
}

#[test]
fn lengths_around_blocks() {
    on_each_device(|device| {
        for n in [1, 2, 3, 31, 33, 255, 257, 1023, 1025, 2049, 5000] {
            for (shape, axis) in [(vec![n], 0), (vec![n, 2], 0), (vec![2, n], 1)] {
                for dtype in [Dtype::Float32, Dtype::Int8, Dtype::Uint64] {
                    let what = format!("{dtype} {shape:?} on {device}");
                    check_order(&what, &random_bits(&shape, dtype, n as u64), axis);
                    check_order(&what, &ties(&shape, dtype, n as u64), axis);
                }
            }
        }
    });
}

/// Rows of several passes, one dtype of each size, signedness and kind, and every layout.
#[test]
fn long_rows() {
    on_each_device(|device| {
        let a = random_bits(&[100_000], Dtype::Float32, 3);
        check_order(&format!("long on {device}"), &a, 0);
        for dtype in [Dtype::Int8, Dtype::Bfloat16, Dtype::Int32, Dtype::Uint64, Dtype::Complex64] {
            let a = random_bits(&[3000], dtype, 3);
            check_order(&format!("{dtype} on {device}"), &a, 0);
        }
        for layout in Layout::VIEWS {
            for (dtype, shape, axis) in
                [(Dtype::Float32, [3, 2500], 1), (Dtype::Int16, [2500, 3], 0)]
            {
                let a = layout.view(&shape, |s| ties(s, dtype, 1));
                check_order(&format!("{dtype} {shape:?} {layout:?} on {device}"), &a, axis);
            }
        }
    });
}

#[test]
fn nan_and_zeros_in_rows_of_every_length() {
    let part = [1.0f32, f32::NAN, -1.0];
    let numbers = [0.0, f32::NAN, -0.0, f32::NEG_INFINITY, -f32::NAN, 1e-45, -1e-45, f32::INFINITY];
    on_each_device(|device| {
        for repeats in [1, 300] {
            let z: Vec<Complex> =
                (0..9 * repeats).map(|i| Complex::new(part[i % 9 / 3], part[i % 3])).collect();
            let a = Array::from_slice(&z, &[z.len()]).unwrap();
            check_order(&format!("complex, {repeats} times on {device}"), &a, 0);
            let x = numbers.repeat(repeats);
            let a = Array::from_slice(&x, &[x.len()]).unwrap();
            for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
                let a = ops::astype(&a, dtype).unwrap();
                check_order(&format!("{dtype}, {repeats} times on {device}"), &a, 0);
            }
        }
    });
}

#[test]
fn nan_sorts_last_and_zeros_are_equal() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = [nan, 0.0, -inf, -nan, -0.0, inf, 2.0, 0.0, nan, -0.0, -1.0, inf, -inf];
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            let a = array(&x, &[x.len()], dtype);
            check_order(&format!("special {dtype} on {device}"), &a, 0);
            for kth in 0..x.len() as isize {
                check_partition(&format!("special {dtype} {kth} on {device}"), &a, kth, 0);
            }
        }
    });
}

#[test]
fn partitions_put_one_element_in_its_place() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in layouts().filter(|&l| l != Layout::Empty) {
                let a = layout.view(layout.shape(), |shape| ties(shape, dtype, 2));
                for (kth, axis) in [(0, 0), (2, 1), (-1, 2), (-3, 2)] {
                    let what = format!("{dtype} {layout:?} {kth} axis {axis} on {device}");
                    check_partition(&what, &a, kth, axis);
                }
            }
        }
        for n in [1, 33, 1025, 3000] {
            let a = filled(&[2, n], Dtype::Float32, noise(5, -1.0, 1.0));
            for kth in [0, n / 2, n - 1] {
                check_partition(&format!("{kth} of {n} on {device}"), &a, kth as isize, 1);
            }
        }
    });
}

#[test]
fn topk_gives_the_largest() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            let a = Layout::Transposed.view(&[4, 37], |shape| ties(shape, dtype, 3));
            for (k, axis) in [(0, 1), (1, 1), (5, 1), (37, 1), (3, 0)] {
                let what = format!("{k} of {dtype} axis {axis} on {device}");
                let top = ops::topk(&a, k, axis as isize).unwrap();
                let mut shape = vec![4, 37];
                shape[axis] = k;
                assert_eq!(top.shape(), shape, "{what}");
                if k == 0 {
                    continue;
                }
                for (row, mut got) in rows(&a, axis).into_iter().zip(rows(&top, axis)) {
                    let sorted: Vec<Key> = stable_order(&row).iter().map(|&i| row[i]).collect();
                    got.sort_by(Key::order);
                    assert_eq!(got, sorted[row.len() - k..], "{what}");
                }
            }
        }
        let a = array(&[1.0; 6], &[2, 3], Dtype::Float32);
        assert!(ops::topk(&a, 4, 1).is_err() && ops::partition(&a, 3, 1).is_err());
        assert!(ops::sort(&a, 2).is_err() && ops::argpartition(&a, -4, 1).is_err());
    });
}
