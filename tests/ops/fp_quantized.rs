//! Eight-bit floats, and matrices quantized to small floats.

use mlx::{Array, Device, Dtype, ops};
use mlx_tests::{
    Approx, array, assert_approx, dtypes_of, filled, hashed, indices, noise, on_each_device,
    sum_error, values,
};
use ops::{FpMode, Packed, Picks};

pub(crate) const MODES: [FpMode; 3] = [FpMode::Mxfp4, FpMode::Nvfp4, FpMode::Mxfp8];

/// The value of an e4m3 number, from its definition.
fn e4m3(bits: u32) -> f64 {
    let (sign, exponent, mantissa) = (bits >> 7, bits >> 3 & 15, bits & 7);
    let size = match (exponent, mantissa) {
        (15, 7) => f64::NAN,
        (0, _) => f64::from(mantissa) * 2f64.powi(-9),
        _ => (1.0 + f64::from(mantissa) / 8.0) * 2f64.powi(exponent as i32 - 7),
    };
    if sign == 1 { -size } else { size }
}

/// The value of an e2m1 number.
fn e2m1(bits: u32) -> f64 {
    let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][bits as usize & 7];
    if bits & 8 == 8 { -size } else { size }
}

#[test]
fn eight_bit_floats_round_to_nearest_even() {
    on_each_device(|device| {
        let all = array(&(0..256).map(f64::from).collect::<Vec<_>>(), &[256], Dtype::Uint8);
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            let got = values(&ops::from_fp8(&all, dtype).unwrap());
            for (i, got) in got.iter().enumerate() {
                let want = e4m3(i as u32);
                assert!(*got == want || (got.is_nan() && want.is_nan()), "{i}: {got}, not {want}");
            }
            let back = ops::to_fp8(&ops::from_fp8(&all, dtype).unwrap()).unwrap();
            for (i, got) in values(&back).into_iter().enumerate() {
                assert!(
                    got == i as f64 || i & 127 == 127,
                    "{i} became {got} by {dtype} on {device}"
                );
            }
        }
        // Between neighbours the nearer one; in the middle the one whose last bit is zero.
        for bits in 0..126u32 {
            let (low, high) = (e4m3(bits), e4m3(bits + 1));
            let middle = (low + high) / 2.0;
            let step = (high - low) / 8.0;
            let x = array(&[middle - step, middle, middle + step, -middle], &[4], Dtype::Float32);
            let even = f64::from(bits + bits % 2);
            let want = [f64::from(bits), even, f64::from(bits + 1), even + 128.0];
            assert_eq!(values(&ops::to_fp8(&x).unwrap()), want, "above {low} on {device}");
        }
        let large = array(&[1e9, -449.0, f64::INFINITY], &[3], Dtype::Float32);
        assert_eq!(values(&ops::to_fp8(&large).unwrap()), [126.0, 254.0, 126.0], "{device}");
        assert!(ops::to_fp8(&all).is_err() && ops::from_fp8(&large, Dtype::Float32).is_err());
        assert!(ops::from_fp8(&all, Dtype::Int8).is_err());
    });
}

/// What MLX 0.32.4 packs: the words of 64 hashed numbers, and their scales. Bit for bit, but for a few
/// small negative numbers, which its CPU backend makes zeros without a sign; its GPU kernels keep
/// it, as here.
#[test]
fn packing_is_upstreams() {
    let cases: [(FpMode, &[f64], &[f64]); 3] = [
        (
            FpMode::Mxfp4,
            &[
                2782055005.0,
                3545918780.0,
                1495086486.0,
                742757076.0,
                2785200728.0,
                3553193276.0,
                1508723606.0,
                3695546052.0,
            ],
            &[126.0, 126.0],
        ),
        (
            FpMode::Nvfp4,
            &[
                3086281855.0,
                3832184397.0,
                1764644519.0,
                1045926885.0,
                3070552952.0,
                3856301645.0,
                1778277799.0,
                4267155429.0,
            ],
            &[42.0, 42.0, 42.0, 42.0],
        ),
        (
            FpMode::Mxfp8,
            &[
                4058609142.0,
                3883332969.0,
                1995729904.0,
                4100748260.0,
                1836311159.0,
                1960731635.0,
                3630625391.0,
                1760653429.0,
                4058543562.0,
                3866512490.0,
                2012507120.0,
                4084068323.0,
                1861083255.0,
                1960572915.0,
                3572953711.0,
                4143018101.0,
            ],
            &[120.0, 120.0],
        ),
    ];
    on_each_device(|device| {
        let w = array(&hashed(64, 5), &[1, 64], Dtype::Float32);
        for (mode, words, scales) in cases {
            let (got, got_scales) = ops::fp_quantize(&w, mode, None).unwrap();
            assert_eq!(values(&got), words, "{mode:?} on {device}: words");
            assert_eq!(values(&got_scales), scales, "{mode:?} on {device}: scales");
        }
        let two = Array::scalar(2.0f32).unwrap();
        let (words, scales) = ops::fp_quantize(&w, FpMode::Nvfp4, Some(&two)).unwrap();
        assert_eq!(values(&scales), [125.0, 125.0, 125.0, 126.0], "{device}");
        assert_eq!(values(&words)[1], 3832249933.0, "{device}");
    });
}

/// A quantized matrix and what it stands for.
pub(crate) struct Quantized {
    pub(crate) words: Array,
    pub(crate) scales: Array,
    pub(crate) elements: Vec<f64>,
}

impl Quantized {
    pub(crate) fn new(w: &Array, mode: FpMode, global: Option<f32>) -> Self {
        let scale = global.map(|g| Array::scalar(g).unwrap());
        let (words, scales) = ops::fp_quantize(w, mode, scale.as_ref()).expect("a valid shape");
        let packed = words.to_vec::<u32>().unwrap();
        let bits = mode.bits();
        let code = |i: usize| packed[i * bits / 32] >> (i * bits % 32) & ((1 << bits) - 1);
        let kept = values(&scales);
        let factor = |i: usize| match mode {
            FpMode::Nvfp4 => {
                e4m3(kept[i / 16] as u32) * global.map_or(1.0, |g| f64::from(g) / 2688.0)
            }
            _ => 2f64.powi(kept[i / 32] as i32 - 127),
        };
        let value = |c: u32| if bits == 8 { e4m3(c) } else { e2m1(c) };
        let elements = (0..w.size()).map(|i| value(code(i)) * factor(i)).collect();
        Quantized { words, scales, elements }
    }
}

#[test]
fn elements_are_the_nearest_that_the_scale_allows() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for (mode, global) in [
                (FpMode::Mxfp4, None),
                (FpMode::Nvfp4, None),
                (FpMode::Nvfp4, Some(1.5f32)),
                (FpMode::Mxfp8, None),
            ] {
                let w = filled(&[3, 64], dtype, noise(3, -1.0, 1.5));
                let what = format!("{mode:?} {global:?} {dtype} on {device}");
                let q = Quantized::new(&w, mode, global);
                let scale = global.map(|g| Array::scalar(g).unwrap());
                for (i, (x, y)) in values(&w).iter().zip(&q.elements).enumerate() {
                    // A scale rounded down by up to √2 leaves 29 % of the largest element out.
                    let largest = values(&w)[i / mode.group_size() * mode.group_size()..]
                        [..mode.group_size()]
                        .iter()
                        .fold(0f64, |m, x| m.max(x.abs()));
                    let reach = 0.3 * largest;
                    assert!((x - y).abs() <= reach, "{what}: {x} became {y}");
                }
                let back =
                    ops::fp_dequantize(&q.words, &q.scales, mode, scale.as_ref(), dtype).unwrap();
                assert_eq!((back.shape(), back.dtype()), (&[3, 64][..], dtype), "{what}");
                let want: Vec<Approx> = q
                    .elements
                    .iter()
                    .map(|&value| Approx {
                        value,
                        error: sum_error(4, value.abs(), Dtype::Float32),
                    })
                    .collect();
                assert_approx(&what, &back, &want);
            }
        }
        let zeros = filled(&[1, 32], Dtype::Float32, |_| 0.0);
        for mode in MODES {
            let (words, scales) = ops::fp_quantize(&zeros, mode, None).unwrap();
            let back = ops::fp_dequantize(&words, &scales, mode, None, Dtype::Bfloat16).unwrap();
            assert_eq!(values(&back), [0.0; 32], "{mode:?} on {device}");
        }
    });
}

/// Rows of `x` times the matrix, or its transpose, that `q` stands for.
pub(crate) fn product(
    x: &[f64],
    q: &[f64],
    inner: usize,
    outer: usize,
    transpose: bool,
    dtype: Dtype,
) -> Vec<Approx> {
    indices(&[x.len() / inner, outer])
        .map(|i| {
            let (mut value, mut size) = (0.0, 0.0);
            for k in 0..inner {
                let w = q[if transpose { i[1] * inner + k } else { k * outer + i[1] }];
                let term = x[i[0] * inner + k] * w;
                (value, size) = (value + term, size + term.abs());
            }
            Approx { value, error: sum_error(inner + 4, size, dtype) }
        })
        .collect()
}

/// Every code of an element and of a scale, in all dtypes: what the format says, rounded.
#[test]
fn every_code_is_what_the_format_says() {
    on_each_device(|device| {
        for (dtype, mode) in floats(device).flat_map(|d| MODES.map(|m| (d, m))) {
            let (group, bytes) = (mode.group_size(), mode.group_size() * mode.bits() / 8);
            let width = 256 / bytes * group;
            // A row of all elements, whose scales are one, for each two elements of four bits.
            let all: Vec<f64> = (0..256).map(f64::from).collect();
            let words = ops::view(&array(&all, &[1, 256], Dtype::Uint8), Dtype::Uint32).unwrap();
            let one = if mode == FpMode::Nvfp4 { 56.0 } else { 127.0 };
            let ones = array(&vec![one; width / group], &[1, width / group], Dtype::Uint8);
            let back = ops::fp_dequantize(&words, &ones, mode, None, dtype).unwrap();
            let element = |i: usize| match mode {
                FpMode::Mxfp8 => e4m3(i as u32),
                _ => e2m1((i as u32 / 2) >> (i % 2 * 4)),
            };
            let what = format!("{mode:?} {dtype} on {device}");
            check_same(&format!("elements {what}"), &back, element);
            // A group of ones for each scale that bfloat16 has as a normal number.
            let code = if mode == FpMode::Mxfp8 { 0x38 } else { 0x22 };
            let words = array(&vec![f64::from(code); 256 * bytes], &[256, bytes], Dtype::Uint8);
            let scales = array(&all, &[256, 1], Dtype::Uint8);
            let words = ops::view(&words, Dtype::Uint32).unwrap();
            let back = ops::fp_dequantize(&words, &scales, mode, None, dtype).unwrap();
            let scale = |i: usize| match (mode, i / group) {
                (FpMode::Nvfp4, code) => e4m3(code as u32),
                // What a device may take for zero, and what is infinite.
                (_, 0..=1 | 255) => f64::NAN,
                (_, code) => mlx_tests::rounded(2f64.powi(code as i32 - 127), dtype),
            };
            check_same(&format!("scales {what}"), &back, scale);
        }
    });
}

/// Equal numbers; where none is wanted anything will do.
fn check_same(what: &str, got: &Array, want: impl Fn(usize) -> f64) {
    for (i, got) in values(got).into_iter().enumerate() {
        assert!(got == want(i) || want(i).is_nan(), "{what}: {i} is {got}, not {}", want(i));
    }
}

fn floats(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|d| d.is_floating())
}

#[test]
fn picked_products_and_products_of_two_quantized_operands() {
    on_each_device(|device| {
        for mode in MODES {
            let w = filled(&[3, 8, 32], Dtype::Float32, noise(1, -1.0, 1.0));
            let q = Quantized::new(&w, mode, None);
            let x = filled(&[2, 1, 32], Dtype::Float32, noise(2, -1.0, 1.0));
            let rhs = array(&[2.0, 0.0], &[2], Dtype::Uint32);
            let picks = Picks { rhs: Some(&rhs), ..Picks::default() };
            let what = format!("{mode:?} on {device}");
            let got = ops::fp_gather_qmm(&x, &q.words, &q.scales, picks, true, mode, None).unwrap();
            let rows = values(&x);
            let one = |row: &[f64], matrix: usize| {
                let part = &q.elements[matrix * 256..][..256];
                product(row, part, 32, 8, true, Dtype::Float32)
            };
            let want = [one(&rows[..32], 2), one(&rows[32..], 0)].concat();
            assert_approx(&what, &got, &want);

            let coarse = Quantized::new(&x, mode, None).elements;
            let packed = Packed { w: &q.words, scales: Some(&q.scales) };
            let got = ops::gather_qqmm(&x, packed, picks, mode, None).unwrap();
            let want = [one(&coarse[..32], 2), one(&coarse[32..], 0)].concat();
            assert_approx(&format!("both {what}"), &got, &want);
            let matrix = ops::reshape(&w, &[24, 32]).unwrap();
            let got = ops::qqmm(&x, Packed { w: &matrix, scales: None }, mode, None).unwrap();
            let want = product(&coarse, &q.elements, 32, 24, true, Dtype::Float32);
            assert_eq!(got.shape(), [2, 1, 24], "{what}");
            assert_approx(&format!("matrix {what}"), &got, &want);
            let half = filled(&[32], Dtype::Bfloat16, noise(3, -1.0, 1.0));
            let got = ops::qqmm(&half, Packed { w: &matrix, scales: None }, mode, None).unwrap();
            assert_eq!((got.shape(), got.dtype()), (&[24][..], Dtype::Bfloat16), "{what}");
        }
    });
}

#[test]
fn wrong_formats_are_refused() {
    on_each_device(|device| {
        let w = filled(&[2, 48], Dtype::Float32, |_| 1.0);
        let one = Array::scalar(1.0f32).unwrap();
        assert!(ops::fp_quantize(&w, FpMode::Mxfp4, None).is_err(), "no whole groups");
        let w = filled(&[2, 32], Dtype::Float32, |_| 1.0);
        assert!(ops::fp_quantize(&w, FpMode::Mxfp8, Some(&one)).is_err(), "a global scale");
        let half = Array::scalar_of(1.0, Dtype::Float16).unwrap();
        assert!(ops::fp_quantize(&w, FpMode::Nvfp4, Some(&half)).is_err(), "its dtype");
        let whole = array(&[1.0; 64], &[2, 32], Dtype::Int32);
        assert!(ops::fp_quantize(&whole, FpMode::Nvfp4, None).is_err(), "integers");
        let (words, scales) = ops::fp_quantize(&w, FpMode::Mxfp4, None).unwrap();
        let back = |mode| ops::fp_dequantize(&words, &scales, mode, None, Dtype::Float32);
        assert!(back(FpMode::Nvfp4).is_err() && back(FpMode::Mxfp8).is_err(), "{device}");
        assert!("mxfp4".parse::<FpMode>().is_ok() && "fp4".parse::<FpMode>().is_err());
        let packed = Packed { w: &words, scales: None };
        assert!(ops::qqmm(&w, packed, FpMode::Mxfp4, None).is_err(), "no scales");
    });
}
