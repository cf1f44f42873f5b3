//! Products and dequantization at every level of instructions.

use std::marker::PhantomData;

use half::{bf16, f16};
use mlx_vulkan_core::primitives::Affine;

use super::{activations::cut, *};
use crate::simd::{Level, dispatch_at, levels};

/// Weights of some columns, with the values that they stand for.
struct Example<T> {
    words: Vec<u32>,
    scales: Vec<T>,
    biases: Vec<T>,
    /// What is multiplied by the scales, times these.
    scaled: Vec<f64>,
    values: Vec<f64>,
}

/// Rows of weights.
const ROWS: usize = 3;
/// Elements between rows of scales, beside the row itself.
const GAP: usize = 3;

fn example<T: Lanes + Into<f64>>(
    affine: Affine,
    rows: usize,
    columns: usize,
    narrow: fn(f32) -> T,
) -> Example<T> {
    let Affine { group_size, bits } = affine;
    let words_per_row = affine.packed_words(columns);
    let stride = columns / group_size + GAP;
    let mut e = Example {
        words: vec![0; rows * words_per_row],
        scales: vec![narrow(f32::NAN); rows * stride],
        biases: vec![narrow(f32::NAN); rows * stride],
        scaled: Vec::new(),
        values: Vec::new(),
    };
    for row in 0..rows {
        for c in 0..columns {
            let q = (row * 31 + c * 7 + c / 5) as u64 % (1 << bits);
            let (word, shift) = (c * bits / 32, c * bits % 32);
            let wide = q << shift;
            e.words[row * words_per_row + word] |= wide as u32;
            if wide >> 32 != 0 {
                e.words[row * words_per_row + word + 1] |= (wide >> 32) as u32;
            }
            let group = row * stride + c / group_size;
            e.scales[group] = narrow(0.01 + 0.001 * (c / group_size) as f32);
            e.biases[group] = narrow(-0.1 + 0.01 * row as f32);
            let (scale, bias): (f64, f64) = (e.scales[group].into(), e.biases[group].into());
            e.scaled.push(q as f64 * scale);
            e.values.push(q as f64 * scale + bias);
        }
    }
    e
}

fn all() -> impl Iterator<Item = Affine> {
    [32, 64, 128]
        .into_iter()
        .flat_map(|group_size| [2, 3, 4, 5, 6, 8].map(|bits| Affine { group_size, bits }))
}

fn at_every_level<T: Lanes + Into<f64>>(narrow: fn(f32) -> T) {
    for affine in all() {
        for groups in [1, 3, 4, 9, 16, 17, 35] {
            let columns = groups * affine.group_size;
            let e = example(affine, ROWS, columns, narrow);
            let sines = (0..7 * columns).map(|i| (i as f32 * 0.71).sin());
            let x: Vec<f32> = sines.map(|x| narrow(x).into() as f32).collect();
            for level in levels() {
                check(affine, columns, &e, &x, level);
            }
        }
    }
}

#[test]
fn products_and_dequantization_in_float32() {
    at_every_level(|x| x);
}

#[test]
fn products_and_dequantization_in_float16() {
    at_every_level(f16::from_f32);
}

#[test]
fn products_and_dequantization_in_bfloat16() {
    at_every_level(bf16::from_f32);
}

fn check<T: Lanes>(affine: Affine, columns: usize, e: &Example<T>, x: &[f32], level: Level) {
    let stride = columns / affine.group_size + GAP;
    let w = Quantized {
        packing: affine.into(),
        words: &e.words,
        stride: affine.packed_words(columns),
        columns,
        groups: AffineGroups {
            scales: Parameters { data: &e.scales, stride },
            biases: Parameters { data: &e.biases, stride },
        },
    };
    let out = products::<T>(w.packing, columns, x, level, |x, out| {
        dispatch_at(level, Products { x, w, out, elements: PhantomData::<T> });
    });
    let what = format!("{level:?} {affine:?} {columns}");
    check_products(&what, columns, &e.values, x, &out, |x, n| {
        let w = &e.scaled[n * columns..(n + 1) * columns];
        int8_error::<T>(affine, level, x, w)
    });
    let mut out = vec![f32::NAN; ROWS * columns];
    dispatch_at(level, Dequantize { w, out: &mut out });
    for (got, want) in out.iter().zip(&e.values) {
        assert!((*got as f64 - want).abs() < 1e-6, "{level:?} {affine:?}");
    }
}

/// What a kernel makes of activations for all rows of weights.
fn products<T: Lanes>(
    packing: Packing,
    columns: usize,
    x: &[f32],
    level: Level,
    kernel: impl FnOnce(&Activations, &mut [f32]),
) -> Vec<f32> {
    let activations = Activations::new::<T>(x, columns, packing, level);
    let mut out = vec![f32::NAN; ROWS * activations.rows()];
    kernel(&activations, &mut out);
    out
}

/// What products of `x` with `w` lose where activations are split into bytes: half a unit of each.
fn int8_error<T: Lanes>(affine: Affine, level: Level, x: &[f32], w: &[f64]) -> f64 {
    if !in_bytes::<T>(level) || affine.bits != 4 {
        return 0.0;
    }
    let units = (127usize << (8 * (T::BYTES - 1))) as f64;
    let groups = x.chunks(affine.group_size).zip(w.chunks(affine.group_size));
    let errors = groups.map(|(x, w)| {
        let largest = x.iter().fold(0.0f32, |a, x| a.max(x.abs()));
        f64::from(largest) / units / 2.0 * w.iter().map(|w| w.abs()).sum::<f64>()
    });
    errors.sum()
}

/// Exact products but for the `error` of some activations with a row of weights: only sums round, to float32.
fn check_products(
    what: &str,
    columns: usize,
    values: &[f64],
    x: &[f32],
    out: &[f32],
    error: impl Fn(&[f32], usize) -> f64,
) {
    let rows = out.len() / ROWS;
    for (i, &got) in out.iter().enumerate() {
        let (n, m) = (i / rows, i % rows);
        let pairs = x[m * columns..].iter().zip(&values[n * columns..(n + 1) * columns]);
        let terms = pairs.map(|(x, w)| *x as f64 * w);
        let (want, size) = terms.fold((0.0, 0.0), |(s, a), t| (s + t, a + t.abs()));
        let lost = error(&x[m * columns..(m + 1) * columns], n);
        let near = (f64::from(got) - want).abs() <= 1e-6 * size + 1e-6 + lost;
        assert!(near, "{what}: {got} {want}");
    }
}

/// Every code of elements and of scales, but those that are no number.
fn check_floats<T: Lanes + Into<f64>>(narrow: fn(f32) -> T) {
    for mode in [FpMode::Mxfp4, FpMode::Nvfp4, FpMode::Mxfp8] {
        let packing = Packing::Floats(mode);
        for groups in [1, 3, 16, 17, 35] {
            let columns = groups * packing.group_size();
            let per_row = packing.packed_words(columns);
            let byte = |i: usize| {
                ((i * 37 + i / 5) & 0xff) as u8 & if mode.bits() == 8 { 0xbf } else { 0xff }
            };
            let bytes: Vec<u8> = (0..ROWS * per_row * 4).map(byte).collect();
            let words: Vec<u32> = bytemuck::pod_collect_to_vec(&bytes);
            let first = if mode == FpMode::Nvfp4 { 0 } else { 110 };
            let stride = groups + GAP;
            let codes: Vec<u8> = (0..ROWS * stride).map(|i| first + (i * 7 % 15) as u8).collect();
            let value = |i: usize| {
                let code =
                    if mode.bits() == 8 { bytes[i] } else { bytes[i / 2] >> (i % 2 * 4) & 15 };
                let scale = codes[i / columns * stride + i % columns / packing.group_size()];
                f64::from(mode.element(code)) * f64::from(mode.scale(scale))
            };
            let values: Vec<f64> = (0..ROWS * columns).map(value).collect();
            let codes = Parameters { data: &codes[..], stride };
            let groups = FloatScales { mode, codes };
            let w = Quantized { packing, words: &words, stride: per_row, columns, groups };
            let sines = (0..7 * columns).map(|i| (i as f32 * 0.71).sin());
            let x: Vec<f32> = sines.map(|x| narrow(x).into() as f32).collect();
            for level in levels() {
                let what = format!("{level:?} {mode:?} {columns}");
                let out = products::<T>(packing, columns, &x, level, |x, out| {
                    dispatch_at(level, Products { x, w, out, elements: PhantomData::<T> });
                });
                check_products(&what, columns, &values, &x, &out, |_, _| 0.0);
                let mut out = vec![f32::NAN; ROWS * columns];
                dispatch_at(level, Dequantize { w, out: &mut out });
                let got: Vec<f64> = out.into_iter().map(f64::from).collect();
                assert_eq!(got, values, "{what}");
            }
        }
    }
}

#[test]
fn small_floats_times_every_dtype() {
    check_floats(|x| x);
    check_floats(f16::from_f32);
    check_floats(bf16::from_f32);
}

#[test]
fn every_code_is_what_the_format_says() {
    for level in levels() {
        for mode in [FpMode::Mxfp8, FpMode::Nvfp4, FpMode::Mxfp4] {
            let (all, one): (Vec<u8>, u8) =
                ((0..=255).collect(), if mode == FpMode::Nvfp4 { 0x38 } else { 127 });
            let packing = Packing::Floats(mode);
            // As elements of a row, whose scales are one; and as scales of elements that are one.
            let columns = 256 * 8 / mode.bits();
            let ones = vec![one; columns / mode.group_size()];
            let groups =
                |codes| FloatScales { mode, codes: Parameters { data: codes, stride: 256 } };
            let words: Vec<u32> = bytemuck::pod_collect_to_vec(&all);
            let mut out = vec![0.0; columns];
            let w = Quantized { packing, words: &words, stride: 0, columns, groups: groups(&ones) };
            dispatch_at(level, Dequantize { w, out: &mut out });
            let shift =
                |i: usize| if mode.bits() == 8 { i as u8 } else { all[i / 2] >> (i % 2 * 4) };
            check_same(&out, |i| mode.element(shift(i)));
            let columns = 256 * mode.group_size();
            let word = if mode.bits() == 8 { 0x3838_3838 } else { 0x2222_2222 };
            let words = vec![word; packing.packed_words(columns)];
            let mut out = vec![0.0; columns];
            let w = Quantized { packing, words: &words, stride: 0, columns, groups: groups(&all) };
            dispatch_at(level, Dequantize { w, out: &mut out });
            check_same(&out, |i| mode.scale((i / mode.group_size()) as u8));
        }
    }
}

fn check_same(got: &[f32], want: impl Fn(usize) -> f32) {
    for (i, &got) in got.iter().enumerate() {
        let want = want(i);
        assert!(
            got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
            "{i}: {got}, not {want}"
        );
    }
}

#[test]
fn rows_without_a_unit_are_not_split() {
    for level in levels().filter(|level| *level >= Level::Avx2) {
        let is_split = |x: f32| {
            let mut row = [0.25f32; 64];
            row[32..].fill(0.0);
            row[33] = x;
            int8_rows::Int8Rows::new::<f16>(&row, 64, 32, level).is_some()
        };
        assert_eq!([0.0, -0.0, 1.0, -65504.0, 6e-8].map(is_split), [true; 5]);
        let others = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40];
        assert_eq!(others.map(is_split), [false; 4]);
    }
}

#[test]
fn parts_add_up_and_infinities_stay() {
    for bits in 0..=u16::MAX {
        let x = f16::from_bits(bits).to_f32();
        let mut rest = x;
        let parts = [cut(&mut rest), cut(&mut rest)].map(f32::from_bits);
        let sum = parts[0] + parts[1];
        assert!(sum == x && rest == 0.0 || x.is_nan() && sum.is_nan(), "{x}: {parts:?}");
    }
}

#[test]
fn an_infinite_activation_gives_an_infinite_product() {
    let affine = Affine { group_size: 32, bits: 4 };
    let words = [u32::MAX; 4];
    let one = Parameters { data: &[f16::ONE][..], stride: 1 };
    let groups = AffineGroups { scales: one, biases: one };
    let w = Quantized { packing: affine.into(), words: &words, stride: 4, columns: 32, groups };
    let mut x = [0.5; 32];
    x[5] = f32::INFINITY;
    for level in levels() {
        let activations = Activations::new::<f16>(&x, 32, affine.into(), level);
        let mut out = [0.0];
        dispatch_at(
            level,
            Products { x: &activations, w, out: &mut out, elements: PhantomData::<f16> },
        );
        assert_eq!(out, [f32::INFINITY], "{level:?}");
    }
}
