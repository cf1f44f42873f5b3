//! Copies and conversions on a Vulkan device, against conversions in Rust.
//!
//! Needs a device: set `MLX_VK_ALLOW_SOFTWARE=1` where there is no GPU. Without one the tests say so
//! and pass.

mod common;

use common::with_gpu;
use mlx_vulkan_core::{
    Array, Dtype, array::FromF64, bf16, dispatch_dtype, dtype::Element, f16, ops,
};

/// Values whose conversions are defined for every pair of dtypes.
const VALUES: [f64; 11] = [0.0, 1.0, 2.0, 3.0, 7.0, 100.0, 127.0, 5.0, 9.0, 64.0, 33.0];

fn sample(dtype: Dtype, n: usize) -> Array {
    let values: Vec<f32> = (0..n).map(|i| VALUES[i % VALUES.len()] as f32).collect();
    dispatch_dtype!(dtype, T => {
        let v: Vec<T> = values.iter().map(|&x| T::from_f64(f64::from(x))).collect();
        Array::from_slice(&v, &[n]).unwrap()
    })
}

fn all_dtypes() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(|&d| d != Dtype::Float64)
}

#[test]
fn converts_between_all_dtypes_in_every_layout() {
    with_gpu(|| {
        for from in all_dtypes() {
            for to in all_dtypes() {
                for n in [1usize, 6, 60, 66 * 64] {
                    let want: Vec<f64> = (0..n)
                        .map(|i| VALUES[i % VALUES.len()])
                        .map(|x| {
                            if to == Dtype::Bool || from == Dtype::Bool {
                                f64::from(x != 0.0)
                            } else {
                                x
                            }
                        })
                        .collect();
                    let a = sample(from, n);
                    let got = ops::astype(&a, to).unwrap();
                    assert_eq!(numbers(&got), want, "{from} to {to}, {n} elements, dense");
                    if n % 6 == 0 {
                        let t =
                            ops::transpose(&ops::reshape(&a, &[6, -1]).unwrap(), &[1, 0]).unwrap();
                        let got = ops::contiguous(&ops::astype(&t, to).unwrap(), false).unwrap();
                        let want: Vec<f64> =
                            (0..n).map(|i| want[(i % 6) * (n / 6) + i / 6]).collect();
                        assert_eq!(numbers(&got), want, "{from} to {to}, {n} elements, transposed");
                        let s =
                            ops::slice(&a, &[n as isize - 1], &[-(n as isize) - 1], &[-2]).unwrap();
                        let got = ops::astype(&s, to).unwrap();
                        assert_eq!(got.size(), n / 2);
                        let last = *numbers(&got).first().unwrap();
                        let x = VALUES[(n - 1) % VALUES.len()];
                        let x = if to == Dtype::Bool || from == Dtype::Bool {
                            f64::from(x != 0.0)
                        } else {
                            x
                        };
                        assert_eq!(last, x, "{from} to {to}, {n} elements, reversed");
                    }
                }
            }
        }
    });
}

/// The elements as numbers, whatever the dtype (real parts).
fn numbers(a: &Array) -> Vec<f64> {
    fn get<T: Element>(a: &Array) -> Vec<T> {
        a.to_vec::<T>().unwrap()
    }
    match a.dtype() {
        Dtype::Bool => {
            get::<mlx_vulkan_core::dtype::Bool8>(a).iter().map(|x| f64::from(x.0)).collect()
        }
        Dtype::Uint8 => get::<u8>(a).iter().map(|&x| x.into()).collect(),
        Dtype::Uint16 => get::<u16>(a).iter().map(|&x| x.into()).collect(),
        Dtype::Uint32 => get::<u32>(a).iter().map(|&x| x.into()).collect(),
        Dtype::Uint64 => get::<u64>(a).iter().map(|&x| x as f64).collect(),
        Dtype::Int8 => get::<i8>(a).iter().map(|&x| x.into()).collect(),
        Dtype::Int16 => get::<i16>(a).iter().map(|&x| x.into()).collect(),
        Dtype::Int32 => get::<i32>(a).iter().map(|&x| x.into()).collect(),
        Dtype::Int64 => get::<i64>(a).iter().map(|&x| x as f64).collect(),
        Dtype::Float16 => get::<f16>(a).iter().map(|x| x.to_f64()).collect(),
        Dtype::Bfloat16 => get::<bf16>(a).iter().map(|x| x.to_f64()).collect(),
        Dtype::Float32 => get::<f32>(a).iter().map(|&x| x.into()).collect(),
        Dtype::Float64 => get::<f64>(a),
        Dtype::Complex64 => {
            get::<mlx_vulkan_core::Complex>(a).iter().map(|x| x.re.into()).collect()
        }
    }
}

#[test]
fn half_precision_rounds_as_rust_does() {
    with_gpu(|| {
        let mut bits = 1u32;
        let values: Vec<f32> = (0..20_000)
            .map(|i| {
                bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                match i % 4 {
                    0 => f32::from_bits(bits),
                    // Around float16's range, its subnormals and ties.
                    1 => f32::from_bits((bits & 0x007f_ffff) | ((100 + bits % 46) << 23)),
                    2 => f16::from_bits((bits >> 16) as u16).to_f32() * (1.0 + 1.0 / 2048.0),
                    _ => bf16::from_bits((bits >> 16) as u16).to_f32(),
                }
            })
            // float32 subnormals may be flushed.
            .map(|x| if x.is_subnormal() { 0.0 } else { x })
            .chain([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 65504.0, 65519.99, 65520.0, 1e-8])
            .collect();
        let a = Array::from_slice(&values, &[values.len()]).unwrap();
        let half = ops::astype(&a, Dtype::Float16).unwrap().to_vec::<f16>().unwrap();
        let brain = ops::astype(&a, Dtype::Bfloat16).unwrap().to_vec::<bf16>().unwrap();
        for (i, &x) in values.iter().enumerate() {
            let (h, b) = (f16::from_f32(x), bf16::from_f32(x));
            assert!(
                half[i] == h || (h.is_nan() && half[i].is_nan()),
                "{x:e}: {:?} not {h:?}",
                half[i]
            );
            assert!(
                brain[i] == b || (b.is_nan() && brain[i].is_nan()),
                "{x:e}: {:?} not {b:?}",
                brain[i]
            );
        }
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let wide =
            ops::astype(&Array::from_slice(&all, &[1 << 16]).unwrap(), Dtype::Float32).unwrap();
        for (h, w) in all.iter().zip(wide.to_vec::<f32>().unwrap()) {
            assert!(h.to_f32().to_bits() == w.to_bits() || h.is_nan() && w.is_nan(), "{h:?}");
        }
    });
}

#[test]
fn large_integers_round_once() {
    with_gpu(|| {
        let values: Vec<i64> = (0..63)
            .flat_map(|s| {
                [1i64 << s, (1i64 << s) + 1, (1i64 << s) - 1, -(1i64 << s) - 1, (3i64 << s) / 2 + 5]
            })
            .chain([i64::MAX, i64::MIN, 16_777_217, 16_777_219, -16_777_219])
            .collect();
        let got =
            ops::astype(&Array::from_slice(&values, &[values.len()]).unwrap(), Dtype::Float32)
                .unwrap();
        let want: Vec<f32> = values.iter().map(|&x| x as f32).collect();
        assert_eq!(got.to_vec::<f32>().unwrap(), want);
        let unsigned: Vec<u64> = values.iter().map(|&x| x as u64).collect();
        let got =
            ops::astype(&Array::from_slice(&unsigned, &[unsigned.len()]).unwrap(), Dtype::Float32)
                .unwrap();
        let want: Vec<f32> = unsigned.iter().map(|&x| x as f32).collect();
        assert_eq!(got.to_vec::<f32>().unwrap(), want);
    });
}

#[test]
fn full_concatenate_and_slice_update() {
    with_gpu(|| {
        let a = ops::full(&[3, 5], 2.5f32, Dtype::Float32).unwrap();
        assert_eq!(a.to_vec::<f32>().unwrap(), vec![2.5; 15]);
        let empty = ops::zeros(&[0, 4], Dtype::Int32).unwrap();
        assert_eq!(empty.to_vec::<i32>().unwrap(), Vec::<i32>::new());

        let x = Array::from_slice(&(0..12i32).collect::<Vec<_>>(), &[3, 4]).unwrap();
        let y = Array::from_slice(&(100..106i32).collect::<Vec<_>>(), &[3, 2]).unwrap();
        let z = ops::concatenate(&[&x, &y], 1).unwrap();
        let want = vec![0, 1, 2, 3, 100, 101, 4, 5, 6, 7, 102, 103, 8, 9, 10, 11, 104, 105];
        assert_eq!(z.to_vec::<i32>().unwrap(), want);

        let u = Array::from_slice(&[-1i32, -2, -3, -4], &[2, 2]).unwrap();
        let w = ops::slice_update(&x, &u, &[2, 0], &[-4, 4], &[-2, 2]).unwrap();
        assert_eq!(w.to_vec::<i32>().unwrap(), vec![-3, 1, -4, 3, 4, 5, 6, 7, -1, 9, -2, 11]);
        assert_eq!(
            x.to_vec::<i32>().unwrap(),
            (0..12).collect::<Vec<_>>(),
            "the source is untouched"
        );
    });
}
