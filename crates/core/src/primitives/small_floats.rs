//! Formats of small floats: groups of four- or eight-bit floats with an eight-bit scale (OCP Microscaling
//! Formats, and NVIDIA's fp4).

use super::SpecRef;
use crate::{Dtype, Error, Result};

/// Formats of quantized matrices with floating point elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FpMode {
    /// Groups of 32 e2m1 floats with a power of two.
    Mxfp4,
    /// Groups of 16 e2m1 floats with an e4m3 scale, and perhaps a global one.
    Nvfp4,
    /// Groups of 32 e4m3 floats with a power of two.
    Mxfp8,
}

impl FpMode {
    /// All there are.
    pub(crate) const ALL: [FpMode; 3] = [FpMode::Mxfp4, FpMode::Nvfp4, FpMode::Mxfp8];

    /// MLX's name.
    pub const fn name(self) -> &'static str {
        match self {
            FpMode::Mxfp4 => "mxfp4",
            FpMode::Nvfp4 => "nvfp4",
            FpMode::Mxfp8 => "mxfp8",
        }
    }

    /// Elements that share a scale.
    pub const fn group_size(self) -> usize {
        if matches!(self, FpMode::Nvfp4) { 16 } else { 32 }
    }

    /// Bits of an element.
    pub const fn bits(self) -> usize {
        if matches!(self, FpMode::Mxfp8) { 8 } else { 4 }
    }

    /// The largest element.
    pub(crate) const fn largest(self) -> f64 {
        if matches!(self, FpMode::Mxfp8) { 448.0 } else { 6.0 }
    }

    /// The value of an element with this code: e4m3 of eight bits, e2m1 of four.
    pub const fn element(self, code: u8) -> f32 {
        match self {
            FpMode::Mxfp8 => e4m3(code),
            FpMode::Mxfp4 | FpMode::Nvfp4 => FP4[(code & 15) as usize],
        }
    }

    /// The value of a scale with this code: e4m3, or a power of two biased by 127, the least of which is
    /// 2^-127 and not zero.
    pub const fn scale(self, code: u8) -> f32 {
        match (self, code) {
            (FpMode::Nvfp4, _) => e4m3(code),
            (_, 0) => f32::from_bits(1 << 22),
            _ => f32::from_bits((code as u32) << 23),
        }
    }

    /// Elements of a row of matrices that are packed as `words` with `scales`, if these belong together.
    pub(crate) fn columns(self, words: SpecRef<'_>, scales: SpecRef<'_>) -> Option<usize> {
        let ([rows @ .., packed], [groups_of @ .., groups]) = (words.shape, scales.shape) else {
            return None;
        };
        let fits = !rows.is_empty()
            && rows == groups_of
            && words.dtype == Dtype::Uint32
            && scales.dtype == Dtype::Uint8;
        let columns = groups.checked_mul(self.group_size()).filter(|_| fits)?;
        (Some(columns) == packed.checked_mul(32 / self.bits())).then_some(columns)
    }
}

impl std::str::FromStr for FpMode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        FpMode::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            Error::invalid("quantize", format!("Invalid quantization mode '{name}'."))
        })
    }
}

/// Values of the e2m1 codes.
pub(crate) const FP4: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The value of an e4m3 number: four bits of exponent biased by 7, three of mantissa, no infinity.
const fn e4m3(code: u8) -> f32 {
    let (exponent, mantissa) = ((code >> 3 & 15) as u32, (code & 7) as u32);
    let size = match (exponent, mantissa) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa as f32 / 512.0,
        _ => f32::from_bits(((exponent + 120) << 23) | (mantissa << 20)),
    };
    if code & 0x80 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_values() {
        let mode = FpMode::Mxfp8;
        let of = |codes: [u8; 6]| codes.map(|code| mode.element(code));
        let want = [0.0, 2f32.powi(-9), 2f32.powi(-6), 1.0, 448.0, -1.5];
        assert_eq!(of([0, 1, 8, 0x38, 0x7e, 0xbc]), want);
        assert!(mode.element(0x7f).is_nan() && mode.element(0xff).is_nan());
        assert_eq!(FpMode::Mxfp4.scale(0), 2f32.powi(-127));
        assert_eq!(
            [1, 127, 254].map(|code| mode.scale(code)),
            [-126, 0, 127].map(|n| 2f32.powi(n))
        );
        assert_eq!(FpMode::Nvfp4.scale(0x38), 1.0);
    }
}
