//! Conversions, copies, ranges and selection.

mod common;

use common::*;
use mlx_vulkan_core::{Array, Complex, Dtype, dtype::Bool8, ops};

#[test]
fn every_conversion() {
    on_cpu(|| {
        for from in Dtype::ALL {
            let values = stored(&[0.0, 1.0, 2.75, 100.0, 0.5, 0.0, 77.0, 3.0], from);
            for to in Dtype::ALL {
                let want = match to {
                    Dtype::Bool => values.iter().map(|&v| (v != 0.0) as u8 as f64).collect(),
                    _ => stored(&values, to),
                };
                for (layout, a) in layouts(&values, &[2, 4], from) {
                    let got = ops::astype(&a, to).unwrap();
                    assert_eq!(got.dtype(), to);
                    assert_same(&got, &want, &format!("{from} to {to} {layout}"));
                }
            }
        }
    });
}

#[test]
fn conversions_truncate_and_wrap() {
    on_cpu(|| {
        let a = Array::from_slice(&[-1.9f32, 300.5, f32::NAN, -129.0], &[4]).unwrap();
        let to = |dtype| ops::astype(&a, dtype).unwrap();
        assert_eq!(to(Dtype::Int32).to_vec::<i32>().unwrap(), [-1, 300, 0, -129]);
        assert_eq!(to(Dtype::Uint8).to_vec::<u8>().unwrap(), [255, 44, 0, 127]);
        assert_eq!(to(Dtype::Int8).to_vec::<i8>().unwrap(), [-1, 44, 0, 127]);
        assert_eq!(to(Dtype::Bool).to_vec::<Bool8>().unwrap(), [Bool8(1); 4]);
        let z = Array::from_slice(&[Complex::new(2.5, 9.0), Complex::new(0.0, 1.0)], &[2]).unwrap();
        assert_eq!(ops::astype(&z, Dtype::Float32).unwrap().to_vec::<f32>().unwrap(), [2.5, 0.0]);
        assert_eq!(ops::astype(&z, Dtype::Bool).unwrap().to_vec::<Bool8>().unwrap(), [Bool8(1); 2]);
    });
}

#[test]
fn dense_copies() {
    on_cpu(|| {
        for dtype in Dtype::ALL {
            let values = stored(&sequence(120, 0.0, 100.0), dtype);
            for (layout, a) in layouts(&values, &[4, 5, 6], dtype) {
                let what = format!("{dtype} {layout}");
                let copy = ops::contiguous(&a, false).unwrap();
                assert_same(&copy, &values, &what);
                assert!(copy.data().unwrap().layout.flags.row_contiguous, "{what}");
                assert_same(&ops::reshape(&a, &[8, -1]).unwrap(), &values, &what);
            }
        }
        let big = sequence(300 * 500, 0.0, 1.0);
        let a = array(&big, &[500, 300], Dtype::Float64);
        let twice = ops::transpose(&a, &[]).unwrap();
        let twice = ops::transpose(&ops::contiguous(&twice, false).unwrap(), &[]).unwrap();
        assert_same(&ops::contiguous(&twice, false).unwrap(), &big, "transposed twice");
    });
}

#[test]
fn views_of_other_sizes() {
    on_cpu(|| {
        let a = Array::from_slice(&[1u32, 0x0002_0003, 4, 5], &[2, 2]).unwrap();
        let turned = ops::transpose(&a, &[]).unwrap();
        let words = ops::view(&turned, Dtype::Uint16).unwrap();
        assert_eq!(words.shape(), [2, 4]);
        assert_eq!(words.to_vec::<u16>().unwrap(), [1, 0, 4, 0, 3, 2, 5, 0]);
        let part = ops::slice(&ops::flatten(&a, 0, -1).unwrap(), &[1], &[3], &[1]).unwrap();
        let long = ops::view(&part, Dtype::Uint64).unwrap();
        assert_eq!(long.to_vec::<u64>().unwrap(), [0x0000_0004_0002_0003]);
    });
}

#[test]
fn filled_arrays_and_ranges() {
    on_cpu(|| {
        for dtype in Dtype::ALL {
            assert_same(&ops::ones(&[3, 2], dtype).unwrap(), &[1.0; 6], dtype.name());
            assert_same(&ops::zeros(&[0, 2], dtype).unwrap(), &[], dtype.name());
            assert_same(
                &ops::full(&[], 3.0f32, dtype).unwrap(),
                &stored(&[3.0], dtype),
                dtype.name(),
            );
        }
        for dtype in Dtype::ALL.into_iter().filter(|&d| d != Dtype::Bool) {
            let want = [2.0, 5.0, 8.0, 11.0];
            assert_same(&ops::arange(2.0, 12.0, 3.0, dtype).unwrap(), &want, dtype.name());
        }
        let down = ops::arange(5.0, 0.0, -2.0, Dtype::Int32).unwrap();
        assert_same(&down, &[5.0, 3.0, 1.0], "down");
        let fine = ops::arange(0.0, 1.0, 0.25, Dtype::Float32).unwrap();
        assert_same(&fine, &[0.0, 0.25, 0.5, 0.75], "fractions");
    });
}

#[test]
fn selection() {
    on_cpu(|| {
        for dtype in Dtype::ALL {
            let a = stored(&sequence(60, 0.0, 100.0), dtype);
            let b = stored(&sequence(60, -100.0, 0.0), dtype);
            let flags: Vec<f64> = (0..60).map(|i| (i % 3 == 0) as u8 as f64).collect();
            let want: Vec<f64> = (0..60).map(|i| if i % 3 == 0 { a[i] } else { b[i] }).collect();
            for (lc, c) in layouts(&flags, &[3, 4, 5], Dtype::Bool) {
                for (la, a) in layouts(&a, &[3, 4, 5], dtype) {
                    let b = array(&b, &[3, 4, 5], dtype);
                    let got = ops::where_(&c, &a, &b).unwrap();
                    assert_same(&got, &want, &format!("{dtype} {lc} {la}"));
                }
            }
        }
        let c = array(&[1.0, 0.0], &[2, 1], Dtype::Bool);
        let got = ops::where_(&c, 1.0f32, array(&[2.0, 3.0], &[2], Dtype::Float32)).unwrap();
        assert_same(&got, &[1.0, 1.0, 2.0, 3.0], "broadcast");
    });
}
