//! Dense copies, reinterpreted bytes and arrays of one value.

use mlx::{Array, Dtype, ops};
use mlx_tests::{
    Layout, array, assert_moved, dtypes_of, epsilon, keeping, on_each_device, random_bits, rounded,
    values,
};

#[test]
fn copies_are_dense_and_keep_every_bit() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::ALL {
                let a = layout.view(layout.shape(), |shape| random_bits(shape, dtype, 1));
                for columns_count in [false, true] {
                    let what = format!("{dtype} {layout:?} {columns_count} on {device}");
                    let copy = keeping(&what, &[&a], || {
                        let copy = ops::contiguous(&a, columns_count).unwrap();
                        copy.eval().expect(&what);
                        copy
                    });
                    let flags = copy.evaluated().layout.flags;
                    let dense = flags.row_contiguous || (columns_count && flags.col_contiguous);
                    assert!(dense, "{what}");
                    assert_moved(&what, &copy, (&a, a.shape()), <[usize]>::to_vec);
                }
            }
        }
    });
}

/// Copies of long rows, with neighbours off the grid of words.
#[test]
fn long_copies_of_any_alignment() {
    on_each_device(|device| {
        for dtype in [Dtype::Uint8, Dtype::Bfloat16, Dtype::Float32, Dtype::Int64] {
            let a = random_bits(&[7, 1500], dtype, 2);
            for (first, step) in [(0, 1), (1, 1), (3, 1), (2, 3), (-1, -1)] {
                let stop = if step < 0 { -9999 } else { 1490 };
                let cut = ops::slice(&a, &[1, first], &[7, stop], &[2, step]).unwrap();
                for turned in [false, true] {
                    let view =
                        if turned { ops::transpose(&cut, &[]).unwrap() } else { cut.clone() };
                    let copy = ops::contiguous(&view, false).unwrap();
                    let what = format!("{dtype} {first} {step} turned {turned} on {device}");
                    assert_moved(&what, &copy, (&a, view.shape()), |i| {
                        let (row, column) = if turned { (i[1], i[0]) } else { (i[0], i[1]) };
                        let first = if first < 0 { 1499 } else { first };
                        vec![1 + 2 * row, (first + step * column as isize) as usize]
                    });
                }
            }
        }
    });
}

/// Copies between different dense axes, of sizes around whole squares.
#[test]
fn transposed_copies() {
    on_each_device(|device| {
        let large = random_bits(&[500, 300], Dtype::Int64, 6);
        let copy = ops::contiguous(&ops::transpose(&large, &[]).unwrap(), false).unwrap();
        assert_moved(&format!("large on {device}"), &copy, (&large, &[300, 500]), |i| {
            vec![i[1], i[0]]
        });
        for dtype in [Dtype::Bool, Dtype::Bfloat16, Dtype::Float32, Dtype::Complex64] {
            for shape in
                [[1, 8, 9], [2, 64, 33], [3, 17, 130], [66, 3, 8], [2, 64, 144], [48, 3, 112]]
            {
                let a = random_bits(&shape, dtype, 3);
                for order in [[0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2]] {
                    let axes: Vec<isize> = order.iter().map(|&x| x as isize).collect();
                    let turned = ops::transpose(&a, &axes).unwrap();
                    let what = format!("{dtype} {shape:?} {order:?} on {device}");
                    let copy = keeping(&what, &[&a], || ops::contiguous(&turned, false).unwrap());
                    assert_moved(&what, &copy, (&a, turned.shape()), |i| {
                        let mut from = vec![0; 3];
                        order.iter().zip(i).for_each(|(&axis, &i)| from[axis] = i);
                        from
                    });
                }
            }
        }
    });
}

#[test]
fn bytes_are_seen_as_other_dtypes() {
    on_each_device(|device| {
        let all: Vec<Dtype> = dtypes_of(device).filter(|&d| d != Dtype::Bool).collect();
        for &from in &all {
            for layout in Layout::VIEWS {
                // Eight elements are a whole number of any others.
                let a = layout.view(&[3, 8], |shape| random_bits(shape, from, 3));
                for &to in &all {
                    let what = format!("{from} as {to} {layout:?} on {device}");
                    let view = ops::view(&a, to).unwrap();
                    let shape = [3, 8 * from.size() / to.size()];
                    assert_eq!((view.shape(), view.dtype()), (&shape[..], to), "{what}");
                    assert_eq!(view.to_bytes().unwrap(), a.to_bytes().unwrap(), "{what}");
                    // What a kernel reads is the same as what the host reads.
                    let copy =
                        ops::contiguous(&ops::transpose(&view, &[]).unwrap(), false).unwrap();
                    assert_moved(&what, &copy, (&view, &[shape[1], 3]), |i| vec![i[1], i[0]]);
                }
            }
        }
        let odd = random_bits(&[3, 3], Dtype::Uint8, 4);
        assert!(ops::view(&odd, Dtype::Uint16).is_err(), "three bytes are no halves");
        let scalar = array(&[1.0], &[], Dtype::Float32);
        assert!(
            ops::view(&scalar, Dtype::Uint8).is_err() && ops::view(&scalar, Dtype::Int32).is_ok()
        );
    });
}

#[test]
fn one_value_fills_an_array() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for shape in [&[][..], &[1], &[3, 0], &[2, 3, 5], &[1025], &[3, 4097]] {
                let n: usize = shape.iter().product();
                let read = |a: mlx::Result<Array>| {
                    let a = a.unwrap();
                    assert_eq!((a.shape(), a.dtype()), (shape, dtype));
                    values(&a)
                };
                let what = format!("{dtype} {shape:?} on {device}");
                assert_eq!(read(ops::zeros(shape, dtype)), vec![0.0; n], "zeros {what}");
                assert_eq!(read(ops::ones(shape, dtype)), vec![1.0; n], "ones {what}");
                let want = rounded(2.75, dtype);
                assert_eq!(read(ops::full(shape, 2.75f32, dtype)), vec![want; n], "full {what}");
                let like = ops::zeros(shape, dtype).unwrap();
                assert_eq!(read(ops::ones_like(&like)), vec![1.0; n], "ones like {what}");
                assert_eq!(read(ops::zeros_like(&like)), vec![0.0; n], "zeros like {what}");
            }
            for layout in Layout::VIEWS {
                let row = layout.view(&[4, 5], |shape| random_bits(shape, dtype, 5));
                let got = ops::full(&[3, 4, 5], &row, dtype).unwrap();
                let what = format!("rows of {dtype} {layout:?} on {device}");
                assert_moved(&what, &got, (&row, &[3, 4, 5]), |i| i[1..].to_vec());
            }
        }
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            // Just above the middle of two neighbours.
            let value = 1.0 + epsilon(dtype) + 2f64.powi(-22);
            let got = values(&ops::full(&[2], value, dtype).unwrap());
            assert_eq!(got, [rounded(value, dtype); 2], "{dtype} on {device}");
        }
        let row = array(&[1.0, 2.0], &[2], Dtype::Float32);
        assert!(ops::full(&[3], &row, Dtype::Float32).is_err(), "two into three");
    });
}
