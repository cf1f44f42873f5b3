//! Conversions between dtypes.

use mlx::{Array, Complex, Dtype, bf16, f16, ops};
use mlx_tests::{
    Layout, array, dtypes_of, filled, integers, on_each_device, rounded, scattered, values,
};

/// A value that every dtype holds, or one between two integers for those that hold it.
fn value(dtype: Dtype) -> impl Fn(usize) -> f64 {
    move |i| (i % 50) as f64 * if dtype.is_inexact() { 1.25 } else { 1.0 }
}

#[test]
fn astype_converts_every_pair() {
    on_each_device(|device| {
        let all: Vec<Dtype> = dtypes_of(device).collect();
        for &from in &all {
            for &to in &all {
                let check = |what: &str, a: &Array| {
                    let want: Vec<f64> = values(a).into_iter().map(|x| rounded(x, to)).collect();
                    let got = ops::astype(a, to).unwrap();
                    assert_eq!(got.dtype(), to);
                    assert_eq!(values(&got), want, "{from} to {to} {what} on {device}");
                };
                for layout in Layout::ALL {
                    check(&format!("{layout:?}"), &layout.array(from, value(from)));
                }
                // More than a workgroup, off the grid of words at the end, dense and turned.
                let long = filled(&[65, 65], from, value(from));
                check("long", &long);
                check("long, turned", &ops::transpose(&long, &[]).unwrap());
            }
        }
    });
}

/// As a C cast: towards zero, and modulo the range of an integer.
#[test]
fn conversions_truncate_and_wrap() {
    on_each_device(|device| {
        let a = array(&[-1.9, 300.5, -129.0, 0.99], &[4], Dtype::Float32);
        let to = |dtype| integers(&ops::astype(&a, dtype).unwrap());
        assert_eq!(to(Dtype::Int32), [-1, 300, -129, 0], "{device}");
        assert_eq!(to(Dtype::Uint8), [255, 44, 127, 0], "{device}");
        assert_eq!(to(Dtype::Int8), [-1, 44, 127, 0], "{device}");
        assert_eq!(to(Dtype::Bool), [1; 4], "{device}");
        let nan = array(&[f64::NAN], &[1], Dtype::Float32);
        assert_eq!(values(&ops::astype(&nan, Dtype::Int32).unwrap()), [0.0], "{device}");
        let z = [Complex::new(2.5, 9.0), Complex::new(0.0, 1.0)];
        let z = Array::from_slice(&z, &[2]).unwrap();
        assert_eq!(values(&ops::astype(&z, Dtype::Float32).unwrap()), [2.5, 0.0], "{device}");
        assert_eq!(integers(&ops::astype(&z, Dtype::Bool).unwrap()), [1, 1], "{device}");
    });
}

/// Random bits, numbers around float16's range, its subnormals and ties.
#[test]
fn halves_are_rounded_to_nearest_even() {
    let float = |i: usize| {
        let bits = scattered(i, 1) as u32;
        match i % 4 {
            0 => f32::from_bits(bits),
            1 => f32::from_bits((bits & 0x007f_ffff) | ((100 + bits % 46) << 23)),
            2 => f16::from_bits((bits >> 16) as u16).to_f32() * (1.0 + 1.0 / 2048.0),
            _ => bf16::from_bits((bits >> 16) as u16).to_f32(),
        }
    };
    // Subnormals of float32 may be flushed.
    let x: Vec<f32> = (0..20_000)
        .map(float)
        .map(|x| if x.is_subnormal() { 0.0 } else { x })
        .chain([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 65504.0, 65519.99, 65520.0, 1e-8])
        .collect();
    on_each_device(|device| {
        let a = Array::from_slice(&x, &[x.len()]).unwrap();
        let half = ops::astype(&a, Dtype::Float16).unwrap().to_vec::<f16>().unwrap();
        let brain = ops::astype(&a, Dtype::Bfloat16).unwrap().to_vec::<bf16>().unwrap();
        for ((x, half), brain) in x.iter().zip(half).zip(brain) {
            let (h, b) = (f16::from_f32(*x), bf16::from_f32(*x));
            assert!(half == h || (half.is_nan() && h.is_nan()), "{x:e}: {half:?} on {device}");
            assert!(brain == b || (brain.is_nan() && b.is_nan()), "{x:e}: {brain:?} on {device}");
        }
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let wide = ops::astype(&Array::from_slice(&all, &[1 << 16]).unwrap(), Dtype::Float32);
        for (half, wide) in all.iter().zip(wide.unwrap().to_vec::<f32>().unwrap()) {
            let same = half.to_f32().to_bits() == wide.to_bits();
            assert!(same || half.is_nan() && wide.is_nan(), "{half:?}: {wide:e} on {device}");
        }
    });
}

#[test]
fn large_integers_are_rounded_once() {
    let x: Vec<i64> = (0..63)
        .flat_map(|s| {
            let power = 1i64 << s;
            [power, power + 1, power - 1, -power - 1, power + power / 2 + 5]
        })
        .chain([i64::MAX, i64::MIN, 16_777_217, 16_777_219, -16_777_219])
        .collect();
    on_each_device(|device| {
        let single = |a: Array| ops::astype(&a, Dtype::Float32).unwrap().to_vec::<f32>().unwrap();
        let got = single(Array::from_slice(&x, &[x.len()]).unwrap());
        assert_eq!(got, x.iter().map(|&x| x as f32).collect::<Vec<_>>(), "{device}");
        let x: Vec<u64> = x.iter().map(|&x| x as u64).collect();
        let got = single(Array::from_slice(&x, &[x.len()]).unwrap());
        assert_eq!(got, x.iter().map(|&x| x as f32).collect::<Vec<_>>(), "{device}");
    });
}
