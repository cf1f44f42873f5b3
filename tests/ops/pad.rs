//! Padding in every mode.

use mlx::{Dtype, ops};
use mlx_tests::{
    Layout, array, assert_moved, dtypes_of, indices, integers, keeping, on_each_device,
    random_bits, ravel, values,
};

/// Widths for a (3, 4, 5) array: also wider than an axis, and none.
const WIDTHS: [(usize, usize); 3] = [(2, 1), (0, 9), (11, 0)];
const PADDED: [usize; 3] = [6, 13, 16];

/// The element that stands `i` places from the first one of `n`.
fn source(mode: &str, i: isize, n: isize) -> usize {
    // Walks from the nearest end back and forth, a step at a time.
    let (mut at, mut step) = if i < 0 { (0, 1) } else { (n - 1, -1) };
    let outside = if i < 0 { -i } else { (i - n + 1).max(0) };
    if i >= 0 && i < n {
        return i as usize;
    }
    for round in 0..outside {
        let next = at + step;
        match mode {
            "edge" => {}
            "symmetric" if round == 0 => {}
            "reflect" if n == 1 => {}
            _ if (0..n).contains(&next) => at = next,
            // The symmetric walk stays at an end for one step.
            "symmetric" => step = -step,
            _ => {
                step = -step;
                at += step;
            }
        }
    }
    at as usize
}

#[test]
fn reflections_and_edges_in_every_size_and_layout() {
    on_each_device(|device| {
        for mode in ["edge", "reflect", "symmetric"] {
            for dtype in [Dtype::Bool, Dtype::Float16, Dtype::Float32, Dtype::Complex64] {
                for layout in Layout::VIEWS {
                    let a = layout.view(layout.shape(), |s| random_bits(s, dtype, 1));
                    let what = format!("{mode} {dtype} {layout:?} on {device}");
                    let got = ops::pad(&a, &WIDTHS, mode, 0).expect(&what);
                    assert_moved(&what, &got, (&a, &PADDED), |i| {
                        let at = |x: usize| i[x] as isize - WIDTHS[x].0 as isize;
                        (0..3).map(|x| source(mode, at(x), a.shape()[x] as isize)).collect()
                    });
                }
            }
        }
    });
}

#[test]
fn constants_in_every_dtype_and_layout() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::VIEWS {
                let a = layout.array(dtype, |i| (i % 2) as f64);
                let what = format!("{dtype} {layout:?} on {device}");
                let got = keeping(&what, &[&a], || {
                    let got = ops::pad(&a, &WIDTHS, "constant", 1).expect(&what);
                    got.eval().expect(&what);
                    got
                });
                assert_eq!((got.shape(), got.dtype()), (&PADDED[..], dtype), "{what}");
                let inner = values(&a);
                let want = indices(&PADDED).map(|i| {
                    let at: Option<Vec<usize>> = (0..3)
                        .map(|x| i[x].checked_sub(WIDTHS[x].0).filter(|&j| j < a.shape()[x]))
                        .collect();
                    at.map_or(1.0, |at| inner[ravel(&at, a.shape())])
                });
                assert_eq!(values(&got), want.collect::<Vec<_>>(), "{what}");
            }
        }
    });
}

/// What MLX answers.
#[test]
fn small_cases_and_refusals() {
    on_each_device(|device| {
        let a = array(&[0.0, 1.0, 2.0], &[3], Dtype::Int32);
        let padded = |mode: &str| integers(&ops::pad(&a, &[(1, 2)], mode, 7).unwrap());
        assert_eq!(padded("reflect"), [1, 0, 1, 2, 1, 0], "{device}");
        assert_eq!(padded("symmetric"), [0, 0, 1, 2, 2, 1], "{device}");
        assert_eq!(padded("edge"), [0, 0, 1, 2, 2, 2], "{device}");
        assert_eq!(padded("constant"), [7, 0, 1, 2, 7, 7], "{device}");
        let one = array(&[5.0], &[1], Dtype::Int32);
        assert_eq!(integers(&ops::pad(&one, &[(2, 3)], "reflect", 0).unwrap()), [5; 6]);
        // One pair for every axis; the value takes the array's dtype.
        let value = mlx::Array::scalar(2.7f32).unwrap();
        let square = ops::pad(&ops::reshape(&a, &[1, 3]).unwrap(), &[(0, 1)], "constant", &value);
        assert_eq!(integers(&square.unwrap()), [0, 1, 2, 2, 2, 2, 2, 2], "{device}");
        let several = ops::pad(&a, &[(1, 0)], "constant", ops::add(&a, 4).unwrap()).unwrap();
        assert_eq!(integers(&several), [4, 0, 1, 2], "{device}");
        let empty = array(&[], &[0], Dtype::Float32);
        assert_eq!(values(&ops::pad(&empty, &[(1, 2)], "constant", 3).unwrap()), [3.0; 3]);
        assert!(ops::pad(&a, &[(1, 0)], "constant", &empty).is_err());
        assert_eq!(values(&ops::pad(&empty, &[(1, 1)], "edge", 0).unwrap()), [0.0, 0.0]);
        let error = ops::pad(&empty, &[(1, 1)], "reflect", 0).unwrap_err().to_string();
        assert_eq!(error, "[pad] Cannot pad empty axis 0 using mode 'reflect'.");
        assert!(ops::pad(&a, &[(1, 1)], "wrap", 0).is_err());
        // Nothing is listed before it is needed, and no axis is longer than numbers go.
        for mode in ["edge", "reflect", "symmetric"] {
            let wide = ops::pad(&a, &[(1 << 40, 1 << 40)], mode, 0).unwrap();
            assert_eq!(wide.shape(), [(1 << 41) + 3], "{mode} on {device}");
            let error = ops::pad(&a, &[(usize::MAX, 1)], mode, 0).unwrap_err().to_string();
            assert!(error.starts_with("[pad] Cannot pad axis 0 of size 3 by"), "{error}");
        }
        assert!(ops::pad(&a, &[(1, 1), (1, 1)], "edge", 0).is_err());
    });
}
