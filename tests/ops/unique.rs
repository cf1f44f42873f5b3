//! Unique elements, and places in sorted lists.

use std::collections::BTreeMap;

use mlx::{Array, Complex, Dtype, ops};
use mlx_tests::{
    Layout, array, complex_parts, dtypes_of, filled, integers, on_each_device, scattered, values,
};

/// What unique elements are, by their values.
fn check_unique(what: &str, a: &Array, size: usize, fill: Option<f64>) {
    let elements = values(a);
    let mut found: BTreeMap<i64, (usize, i128)> = BTreeMap::new();
    for (i, x) in elements.iter().enumerate() {
        found.entry(*x as i64).or_insert((i, 0)).1 += 1;
    }
    let fill_array = fill.map(|x| Array::scalar_of(x, a.dtype()).unwrap());
    let got = ops::unique(a, size, fill_array.as_ref()).expect(what);
    let first = found.iter().next().map(|(&x, &(i, _))| (x, i)).unwrap_or_default();
    let rest = size.saturating_sub(found.len());
    let kept = found.iter().take(size);
    let numbers = kept.clone().map(|(&x, _)| x as f64);
    let filler = std::iter::repeat_n(fill.unwrap_or(first.0 as f64), rest);
    assert_eq!(values(&got.values), numbers.chain(filler).collect::<Vec<_>>(), "{what}");
    let places = kept.clone().map(|(_, &(i, _))| i as i128);
    let filler = std::iter::repeat_n(first.1 as i128, rest);
    assert_eq!(integers(&got.index), places.chain(filler).collect::<Vec<_>>(), "{what}");
    let counts = kept.map(|(_, &(_, n))| n).chain(std::iter::repeat_n(0, rest));
    assert_eq!(integers(&got.counts), counts.collect::<Vec<_>>(), "{what}");
    if size > 0 {
        let rank = |x: &f64| found.keys().position(|&k| k == *x as i64).unwrap().min(size - 1);
        let want: Vec<i128> = elements.iter().map(|x| rank(x) as i128).collect();
        assert_eq!((got.inverse.shape(), integers(&got.inverse)), (a.shape(), want), "{what}");
    }
    let dtypes = [&got.values, &got.index, &got.inverse, &got.counts].map(Array::dtype);
    assert_eq!(dtypes, [a.dtype(), Dtype::Uint32, Dtype::Uint32, Dtype::Int32], "{what}");
}

#[test]
fn unique_elements_of_every_dtype_and_layout() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| *d != Dtype::Complex64) {
            for layout in Layout::VIEWS {
                let a = layout.array(dtype, |i| (scattered(i, 3) % 9) as f64);
                let what = format!("{dtype} {layout:?} on {device}");
                check_unique(&what, &a, 12, None);
                check_unique(&what, &a, 4, None);
                check_unique(&what, &a, 11, Some(1.0));
            }
            check_unique("one", &filled(&[], dtype, |_| 1.0), 2, None);
        }
        let many = filled(&[7000], Dtype::Int32, |i| (scattered(i, 1) % 3000) as f64);
        check_unique(&format!("many on {device}"), &many, 3000, None);
        let nan = array(&[f64::NAN, 1.0, f64::NAN], &[3], Dtype::Float32);
        let got = ops::unique(&nan, 4, None).unwrap();
        assert_eq!(integers(&got.counts), [1, 1, 1, 0], "{device}");
        assert_eq!(integers(&got.index), [1, 0, 2, 1], "{device}");
        assert_eq!(integers(&got.inverse), [1, 0, 2], "{device}");
        let z: Vec<Complex> =
            [(1.0, 2.0), (1.0, 1.0), (1.0, 2.0)].map(|(re, im)| Complex::new(re, im)).to_vec();
        let z = Array::from_slice(&z, &[3]).unwrap();
        let got = ops::unique(&z, 2, None).unwrap();
        assert_eq!(complex_parts(&got.values), [[1.0, 1.0], [1.0, 2.0]], "{device}");
    });
}

#[test]
fn nothing_is_unique_and_wrong_fills_are_refused() {
    on_each_device(|device| {
        let empty = array(&[], &[0, 2], Dtype::Int32);
        let error = |r: mlx::Result<ops::Unique>| r.map(drop).unwrap_err().to_string();
        assert_eq!(
            error(ops::unique(&empty, 2, None)),
            "[unique] A fill value is required for an empty input with a non-zero size."
        );
        let seven = Array::scalar(7i32).unwrap();
        let got = ops::unique(&empty, 2, Some(&seven)).unwrap();
        assert_eq!(integers(&got.values), [7, 7], "{device}");
        assert_eq!((integers(&got.counts), got.inverse.shape()), (vec![0, 0], &[0, 2][..]));
        let a = array(&[1.0, 2.0], &[2], Dtype::Int32);
        assert!(error(ops::unique(&a, 2, Some(&a))).contains("must have one element"));
        check_unique("none wanted", &a, 0, None);
    });
}

#[test]
fn places_in_sorted_lists() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| *d != Dtype::Complex64) {
            for layout in [Layout::Contiguous, Layout::Sliced, Layout::Reversed] {
                let list = array(&[0.0, 1.0, 1.0, 1.0, 3.0, 100.0, 101.0], &[7], dtype);
                let list = match layout {
                    Layout::Contiguous => list,
                    // Not dense in memory, and in order.
                    _ => ops::flip(
                        &ops::contiguous(&ops::flip(&list, &[]).unwrap(), false).unwrap(),
                        &[],
                    )
                    .unwrap(),
                };
                let wanted = layout.array(dtype, |i| (scattered(i, 2) % 104) as f64);
                let (sorted, looked) = (values(&list), values(&wanted));
                for side in ["left", "right"] {
                    let got = ops::searchsorted(&list, &wanted, side).unwrap();
                    let before = |x: &f64| {
                        let less = |y: &&f64| if side == "left" { *y < x } else { *y <= x };
                        sorted.iter().filter(less).count() as i128
                    };
                    let want: Vec<i128> = looked.iter().map(before).collect();
                    let what = format!("{side} {dtype} {layout:?} on {device}");
                    assert_eq!((got.dtype(), integers(&got)), (Dtype::Uint32, want), "{what}");
                }
            }
        }
        let float = |x: &[f64]| array(x, &[x.len()], Dtype::Float32);
        let list = float(&[-0.0, 1.0, f64::NAN, f64::NAN]);
        let wanted = float(&[f64::NAN, 0.0, -0.0, f64::INFINITY]);
        let at = |side| integers(&ops::searchsorted(&list, &wanted, side).unwrap());
        assert_eq!((at("left"), at("right")), (vec![2, 0, 0, 2], vec![4, 1, 1, 2]), "{device}");
        let z: Vec<Complex> =
            [(1.0, 1.0), (1.0, 2.0), (2.0, 0.0)].map(|(a, b)| Complex::new(a, b)).to_vec();
        let z = Array::from_slice(&z, &[3]).unwrap();
        let got = ops::searchsorted(&z, &z, "right").unwrap();
        assert_eq!(integers(&got), [1, 2, 3], "{device}");
        let empty = float(&[]);
        assert_eq!(integers(&ops::searchsorted(&empty, &wanted, "left").unwrap()), [0; 4]);
        assert_eq!(ops::searchsorted(&list, &empty, "left").unwrap().size(), 0);
        let mixed = array(&[1.0, 2.0], &[2], Dtype::Int32);
        assert_eq!(integers(&ops::searchsorted(&mixed, float(&[1.5]), "left").unwrap()), [1]);
        assert!(ops::searchsorted(&list, &wanted, "middle").is_err());
        assert!(
            ops::searchsorted(&ops::expand_dims(&list, &[0]).unwrap(), &wanted, "left").is_err()
        );
    });
}
