//! Half precision: blocks of it as float32 and back.

use half::slice::HalfFloatSliceExt;
use mlx_core::{bf16, f16};

use crate::elementwise::Typed;

/// A 16-bit floating point type. Values are computed in float32 and rounded once.
pub(crate) trait Half: Typed<Word = u16> {
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
        out.iter_mut().zip(source).for_each(|(x, &h)| *x = widen_bf16(h));
    }

    fn narrow(source: &[f32], out: &mut [Self]) {
        out.iter_mut().zip(source).for_each(|(x, &v)| *x = round_bf16(v));
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(widen_f16(h).to_bits() == h.to_f32().to_bits() || h.is_nan() && widen_f16(h).is_nan());
            assert!(widen_bf16(b) == b.to_f32() || b.is_nan());
        }
    }
}
