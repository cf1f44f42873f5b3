//! Kernels on vectors: conversions, products with the rows of a matrix, exponentials, norms.

use super::{Isa, Kernel, LANES, Lanes};

/// `dst = src` as float32.
pub(crate) struct Widen<'a, T> {
    pub(crate) src: &'a [T],
    pub(crate) dst: &'a mut [f32],
}

impl<T: Lanes> Kernel for Widen<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let src = &self.src[..self.dst.len()];
        let (src, src_rest) = src.as_chunks::<LANES>();
        let (dst, dst_rest) = self.dst.as_chunks_mut::<LANES>();
        for (s, d) in src.iter().zip(dst) {
            isa.store(T::load(isa, s), d);
        }
        if !dst_rest.is_empty() {
            let mut last = [0.0; LANES];
            isa.store(T::load_upto(isa, src_rest), &mut last);
            dst_rest.copy_from_slice(&last[..dst_rest.len()]);
        }
    }
}

/// `dst = src` rounded.
pub(crate) struct Narrow<'a, T> {
    pub(crate) src: &'a [f32],
    pub(crate) dst: &'a mut [T],
}

impl<T: Lanes> Kernel for Narrow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let src = &self.src[..self.dst.len()];
        let (src, src_rest) = src.as_chunks::<LANES>();
        let (dst, dst_rest) = self.dst.as_chunks_mut::<LANES>();
        for (s, d) in src.iter().zip(dst) {
            T::store(isa, isa.load(s), d);
        }
        if !dst_rest.is_empty() {
            let mut last = [T::default(); LANES];
            T::store(isa, f32::load_upto(isa, src_rest), &mut last);
            dst_rest.copy_from_slice(&last[..dst_rest.len()]);
        }
    }
}

/// `out[j] = Σ_i x[i] * rows[j * stride + i]`.
pub(crate) struct Dots<'a, T> {
    pub(crate) x: &'a [f32],
    pub(crate) rows: &'a [T],
    pub(crate) stride: usize,
    pub(crate) out: &'a mut [f32],
}

impl<T: Lanes> Kernel for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for (j, out) in self.out.iter_mut().enumerate() {
            *out = dot(isa, self.x, &self.rows[j * self.stride..][..self.x.len()]);
        }
    }
}

/// Four sums run beside each other, so that one addition need not wait for the last.
#[inline(always)]
fn dot<I: Isa, T: Lanes>(isa: I, x: &[f32], y: &[T]) -> f32 {
    const WIDE: usize = 4 * LANES;
    let mut sums = [isa.splat(0.0); 4];
    let (x4, x) = x.as_chunks::<WIDE>();
    let (y4, y) = y.as_chunks::<WIDE>();
    for (x, y) in x4.iter().zip(y4) {
        let (x, y) = (x.as_chunks::<LANES>().0, y.as_chunks::<LANES>().0);
        for i in 0..4 {
            sums[i] = isa.fma(isa.load(&x[i]), T::load(isa, &y[i]), sums[i]);
        }
    }
    let (x1, x) = x.as_chunks::<LANES>();
    let (y1, y) = y.as_chunks::<LANES>();
    for (x, y) in x1.iter().zip(y1) {
        sums[0] = isa.fma(isa.load(x), T::load(isa, y), sums[0]);
    }
    if !x.is_empty() {
        let (x, y) = (f32::load_upto(isa, x), T::load_upto(isa, y));
        sums[1] = isa.fma(x, y, sums[1]);
    }
    isa.sum(isa.add(isa.add(sums[0], sums[1]), isa.add(sums[2], sums[3])))
}

/// `acc[i] += Σ_j x[j] * rows[j * stride + i]`.
pub(crate) struct Combine<'a, T> {
    pub(crate) x: &'a [f32],
    pub(crate) rows: &'a [T],
    pub(crate) stride: usize,
    pub(crate) acc: &'a mut [f32],
}

impl<T: Lanes> Kernel for Combine<'_, T> {
    type Output = ();

    /// Four rows at a time, so that the sums are loaded and stored once for four products.
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let n = self.acc.len();
        let row = |j: usize| &self.rows[j * self.stride..][..n];
        let (quads, rest) = self.x.as_chunks::<4>();
        for (q, x) in quads.iter().enumerate() {
            let j = 4 * q;
            add_rows(isa, self.acc, *x, [row(j), row(j + 1), row(j + 2), row(j + 3)]);
        }
        for (j, &x) in rest.iter().enumerate() {
            add_rows(isa, self.acc, [x], [row(4 * quads.len() + j)]);
        }
    }
}

/// `acc += Σ x[j] * rows[j]`.
#[inline(always)]
fn add_rows<I: Isa, T: Lanes, const N: usize>(
    isa: I,
    acc: &mut [f32],
    x: [f32; N],
    rows: [&[T]; N],
) {
    let (acc, acc_rest) = acc.as_chunks_mut::<LANES>();
    let full = acc.len();
    let mut factors = [isa.splat(0.0); N];
    let mut chunks: [&[[T; LANES]]; N] = [&[]; N];
    for j in 0..N {
        factors[j] = isa.splat(x[j]);
        chunks[j] = &rows[j].as_chunks::<LANES>().0[..full];
    }
    for (i, acc) in acc.iter_mut().enumerate() {
        let mut sum = isa.load(acc);
        for j in 0..N {
            sum = isa.fma(factors[j], T::load(isa, &chunks[j][i]), sum);
        }
        isa.store(sum, acc);
    }
    if !acc_rest.is_empty() {
        let mut sum = f32::load_upto(isa, acc_rest);
        for j in 0..N {
            let rest = T::load_upto(isa, &rows[j][full * LANES..]);
            sum = isa.fma(factors[j], rest, sum);
        }
        let mut last = [0.0; LANES];
        isa.store(sum, &mut last);
        acc_rest.copy_from_slice(&last[..acc_rest.len()]);
    }
}

/// `x = exp(x - shift)`, where `x - shift` is at most zero; returns the sum.
pub(crate) struct ExpSum<'a> {
    pub(crate) x: &'a mut [f32],
    pub(crate) shift: f32,
}

impl Kernel for ExpSum<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> f32 {
        let shift = isa.splat(self.shift);
        let mut sum = isa.splat(0.0);
        let (chunks, rest) = self.x.as_chunks_mut::<LANES>();
        for x in chunks {
            let e = exp(isa, isa.sub(isa.load(x), shift));
            sum = isa.add(sum, e);
            isa.store(e, x);
        }
        let mut total = isa.sum(sum);
        if !rest.is_empty() {
            let mut last = [0.0; LANES];
            isa.store(exp(isa, isa.sub(f32::load_upto(isa, rest), shift)), &mut last);
            rest.copy_from_slice(&last[..rest.len()]);
            total += rest.iter().sum::<f32>();
        }
        total
    }
}

/// `e^x` for `x` up to 88 within 2 ULP: `2^n * e^r` with the polynomial of Cephes' `expf`. Under
/// -87.7 the result is zero.
#[inline(always)]
fn exp<I: Isa>(isa: I, x: I::F) -> I::F {
    const COEFFICIENTS: [f32; 6] =
        [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1];
    // In this order NaN stays.
    let x = isa.max(isa.splat(-88.0), x);
    let n = isa.round(isa.mul(x, isa.splat(std::f32::consts::LOG2_E)));
    // ln 2 in two parts, the first of which `n` multiplies exactly.
    let r = isa.fma(n, isa.splat(-0.693_359_4), x);
    let r = isa.fma(n, isa.splat(2.121_944_4e-4), r);
    let mut p = isa.splat(COEFFICIENTS[0]);
    for c in &COEFFICIENTS[1..] {
        p = isa.fma(p, r, isa.splat(*c));
    }
    let e = isa.add(isa.fma(isa.mul(p, r), r, r), isa.splat(1.0));
    isa.mul(e, isa.pow2(n))
}

/// `Σ (x - shift)²`.
pub(crate) struct SumOfSquares<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) shift: f32,
}

impl Kernel for SumOfSquares<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> f32 {
        let shift = isa.splat(self.shift);
        let mut sums = [isa.splat(0.0); 2];
        let (chunks, rest) = self.x.as_chunks::<LANES>();
        for (i, x) in chunks.iter().enumerate() {
            let x = isa.sub(isa.load(x), shift);
            sums[i % 2] = isa.fma(x, x, sums[i % 2]);
        }
        let rest: f32 = rest.iter().map(|x| (x - self.shift) * (x - self.shift)).sum();
        isa.sum(isa.add(sums[0], sums[1])) + rest
    }
}

/// `Σ x`.
pub(crate) struct Sum<'a>(pub(crate) &'a [f32]);

impl Kernel for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> f32 {
        let (chunks, rest) = self.0.as_chunks::<LANES>();
        let mut sum = isa.splat(0.0);
        for x in chunks {
            sum = isa.add(sum, isa.load(x));
        }
        isa.sum(sum) + rest.iter().sum::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::simd::{dispatch_at, levels};

    #[test]
    fn exp_is_precise_and_keeps_specials() {
        for level in levels() {
            let input: Vec<f32> = (0..20_000).map(|i| -(i as f32) * 0.005).collect();
            let mut x = input.clone();
            dispatch_at(level, ExpSum { x: &mut x, shift: 0.0 });
            for (x, y) in input.iter().zip(&x) {
                let want = (*x as f64).exp();
                let near = (*y as f64 - want).abs() <= want * 2.4e-7 || want < 1.3e-38;
                assert!(near, "{level:?}: exp({x}) = {y}, not {want}");
            }
            let mut x = [0.0, f32::NEG_INFINITY, f32::NAN];
            dispatch_at(level, ExpSum { x: &mut x, shift: 0.0 });
            assert!(x[0] == 1.0 && x[1] == 0.0 && x[2].is_nan(), "{level:?} {x:?}");
            // Scores that are all hidden count alike.
            let mut x = [f32::MIN; 3];
            let sum = dispatch_at(level, ExpSum { x: &mut x, shift: f32::MIN });
            assert_eq!((x, sum), ([1.0; 3], 3.0), "{level:?}");
        }
    }

    #[test]
    fn conversions_round_to_nearest_even() {
        let mut values: Vec<f32> = (0..70_000u32).map(|i| f32::from_bits(i * 61_357)).collect();
        values.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 65_504.0, 65_520.0, 1e-8]);
        for level in levels() {
            let mut half = vec![f16::ZERO; values.len()];
            dispatch_at(level, Narrow { src: &values, dst: &mut half });
            let mut brain = vec![bf16::ZERO; values.len()];
            dispatch_at(level, Narrow { src: &values, dst: &mut brain });
            for (i, &x) in values.iter().enumerate() {
                let same =
                    |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
                assert!(same(half[i].to_f32(), f16::from_f32(x).to_f32()), "{level:?} f16 {x}");
                assert!(same(brain[i].to_f32(), bf16::from_f32(x).to_f32()), "{level:?} bf16 {x}");
            }
            let mut wide = vec![0.0; half.len()];
            dispatch_at(level, Widen { src: &half, dst: &mut wide });
            assert!(wide.iter().zip(&half).all(|(w, h)| *w == h.to_f32() || h.is_nan()));
        }
    }

    #[test]
    fn products_with_rows_of_any_length() {
        for n in [1, 15, 16, 17, 64, 100, 131] {
            let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
            let rows: Vec<f16> =
                (0..5 * (n + 3)).map(|i| f16::from_f32((i % 7) as f32 - 3.0)).collect();
            for level in levels() {
                let mut out = [0.0; 5];
                dispatch_at(level, Dots { x: &x, rows: &rows, stride: n + 3, out: &mut out });
                let mut acc = vec![1.0; n];
                let p = [0.5, -1.0, 2.0, 0.25, 3.0];
                dispatch_at(level, Combine { x: &p, rows: &rows, stride: n + 3, acc: &mut acc });
                for j in 0..5 {
                    let want: f32 = (0..n).map(|i| x[i] * rows[j * (n + 3) + i].to_f32()).sum();
                    assert!((out[j] - want).abs() < 1e-4, "{level:?} {n}");
                }
                for i in 0..n {
                    let want: f32 =
                        1.0 + (0..5).map(|j| p[j] * rows[j * (n + 3) + i].to_f32()).sum::<f32>();
                    assert!((acc[i] - want).abs() < 1e-4, "{level:?} {n}");
                }
            }
        }
    }
}
