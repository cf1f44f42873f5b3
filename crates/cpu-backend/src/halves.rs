//! Half precision: blocks of it as float32 and back.

use half::slice::HalfFloatSliceExt;
use mlx_vulkan_core::{Element, bf16, f16};

use crate::elementwise::wide1;

/// A 16-bit floating point type. Values are computed in float32 and rounded once.
pub(crate) trait Half: Element {
    /// Converts to float32.
    fn widen(source: &[Self], out: &mut [f32]);
    /// Rounds from float32, halves to even.
    fn narrow(source: &[f32], out: &mut [Self]);

    /// `source` as float32, in the beginning of `buffer`.
    fn widened<'a>(source: &[Self], buffer: &'a mut [f32]) -> &'a [f32] {
        let out = &mut buffer[..source.len()];
        Self::widen(source, out);
        out
    }
}

impl Half for f16 {
    fn widen(source: &[Self], out: &mut [f32]) {
        source.convert_to_f32_slice(out);
    }

    fn narrow(source: &[f32], out: &mut [Self]) {
        out.convert_from_f32_slice(source);
    }
}

impl Half for bf16 {
    fn widen(source: &[Self], out: &mut [f32]) {
        wide1(source, out, widen_bf16);
    }

    fn narrow(source: &[f32], out: &mut [Self]) {
        wide1(source, out, round_bf16);
    }
}

/// bfloat16 as float32.
#[inline(always)]
pub(crate) fn widen_bf16(h: bf16) -> f32 {
    f32::from_bits((h.to_bits() as u32) << 16)
}

/// float16 as float32 without a branch or a call, so that loops over it vectorize: the bits moved
/// into place have an exponent that is 112 too small.
#[inline(always)]
pub(crate) fn widen_f16(h: f16) -> f32 {
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let bits = h.to_bits() as u32;
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * SCALE;
    let special = if magnitude >= 65536.0 { 0xff << 23 } else { 0 };
    f32::from_bits(magnitude.to_bits() | special | (bits & 0x8000) << 16)
}

/// Rounds to bfloat16 without a branch, so that loops over it vectorize.
#[inline(always)]
fn round_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet_nan = (bits >> 16) | 0x40;
    bf16::from_bits(if value.is_nan() { quiet_nan } else { rounded } as u16)
}

/// Rounds float64 to float32 so that a second rounding to half precision comes out as one: an
/// inexact result is cut off and its last bit set ("round to odd").
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if nearest as f64 == value || value.is_nan() {
        return nearest;
    }
    let away = (nearest as f64).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - away as u32) | 1)
}

/// Rounds float64 to float16 once; `f16::from_f64` does not look at all bits.
pub(crate) fn f16_from_f64(value: f64) -> f16 {
    f16::from_f32(round_to_odd(value))
}

/// Rounds float64 to bfloat16 once; `bf16::from_f64` does not look at all bits.
pub(crate) fn bf16_from_f64(value: f64) -> bf16 {
    round_bf16(round_to_odd(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float64_rounds_once() {
        let above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f16_from_f64(above_tie).to_f64(), 1.0 + 2f64.powi(-10));
        assert_eq!(f16_from_f64(1.0 + 2f64.powi(-11)).to_f64(), 1.0);
        assert_eq!(
            bf16_from_f64(-1.0 - 2f64.powi(-8) - 2f64.powi(-45)).to_f64(),
            -1.0 - 2f64.powi(-7)
        );
        assert_eq!(f16_from_f64(1e300), f16::INFINITY);
        assert_eq!(bf16_from_f64(f64::NEG_INFINITY), bf16::NEG_INFINITY);
        assert_eq!(f16_from_f64(1e-300).to_f64(), 0.0);
        assert!(bf16_from_f64(f64::NAN).is_nan());
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(f16_from_f64(h.to_f64()) == h || h.is_nan());
            assert!(bf16_from_f64(b.to_f64()) == b || b.is_nan());
        }
    }

    #[test]
    fn bf16_rounds_as_half_does() {
        for bits in (0..=u32::MAX).step_by(9973) {
            let value = f32::from_bits(bits);
            let (ours, theirs) = (round_bf16(value), bf16::from_f32(value));
            assert!(ours.to_bits() == theirs.to_bits() || value.is_nan() && ours.is_nan());
        }
    }

    #[test]
    fn halves_widen_as_half_does() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(
                widen_f16(h).to_bits() == h.to_f32().to_bits()
                    || h.is_nan() && widen_f16(h).is_nan()
            );
            assert!(widen_bf16(b) == b.to_f32() || b.is_nan());
        }
    }
}
