//! Products and dequantization at every level of instructions.

use half::{bf16, f16};

use super::{activations::cut, *};
use crate::simd::{Level, dispatch_at, levels};

/// Weights of some columns, with the values that they stand for.
struct Example<T> {
    words: Vec<u32>,
    scales: Vec<T>,
    biases: Vec<T>,
    values: Vec<f64>,
}

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
            let e = example(affine, 3, columns, narrow);
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
        affine,
        words: &e.words,
        stride: affine.packed_words(columns),
        columns,
        scales: Parameters { data: &e.scales, stride },
        biases: Parameters { data: &e.biases, stride },
    };
    let activations = Activations::new::<T>(x, columns, affine, level);
    let rows = activations.rows();
    let mut out = vec![f32::NAN; 3 * rows];
    dispatch_at(level, Products { x: &activations, w, out: &mut out });
    for n in 0..3 {
        for m in 0..rows {
            let pairs = x[m * columns..].iter().zip(&e.values[n * columns..(n + 1) * columns]);
            let terms = pairs.map(|(x, w)| *x as f64 * w);
            let (want, size) = terms.fold((0.0, 0.0), |(s, a), t| (s + t, a + t.abs()));
            let got = out[n * rows + m] as f64;
            // Exact products: only sums round, to float32.
            let near = (got - want).abs() <= 1e-6 * size + 1e-6;
            assert!(near, "{level:?} {affine:?} {columns}: {got} {want}");
        }
    }
    let mut out = vec![f32::NAN; 3 * columns];
    dispatch_at(level, Dequantize { w, out: &mut out });
    for (got, want) in out.iter().zip(&e.values) {
        assert!((*got as f64 - want).abs() < 1e-6, "{level:?} {affine:?}");
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
    let w = Quantized { affine, words: &words, stride: 4, columns: 32, scales: one, biases: one };
    let mut x = [0.5; 32];
    x[5] = f32::INFINITY;
    for level in levels() {
        let activations = Activations::new::<f16>(&x, 32, affine, level);
        let mut out = [0.0];
        dispatch_at(level, Products { x: &activations, w, out: &mut out });
        assert_eq!(out, [f32::INFINITY], "{level:?}");
    }
}
