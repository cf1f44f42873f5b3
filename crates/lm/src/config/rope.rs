//! Rotary position embedding: which frequencies a configuration asks for.

/// Parameters of the rotary position embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    /// Base of the frequencies.
    pub base: f32,
    /// Whether neighbouring features form a pair (GGUF's Llama layout) rather than the two halves.
    pub traditional: bool,
    /// How the frequencies were stretched for long contexts.
    pub scaling: RopeScaling,
}

/// How frequencies are stretched.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Positions divided by this factor.
    Linear(f32),
    /// Llama 3's: low frequencies divided, high ones kept, those between blended.
    Llama3 {
        /// What low frequencies are divided by.
        factor: f32,
        /// Wavelengths over `original_context / low` are low frequencies.
        low: f32,
        /// Wavelengths under `original_context / high` are high frequencies.
        high: f32,
        /// Context of the model before it was stretched.
        original_context: f32,
    },
    /// YaRN: low frequencies divided, high ones kept, those between blended, and scores sharpened.
    Yarn(Yarn),
    /// Divisors for each frequency, as some GGUF files carry them (`rope_freqs.weight`).
    Factors(Vec<f32>),
}

/// Parameters of YaRN (Peng and others, YaRN: Efficient Context Window Extension of Large Language Models,
/// 2023), with the names that configurations have for them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yarn {
    /// What low frequencies are divided by.
    pub factor: f32,
    /// Context of the model before it was stretched.
    pub original_context: f32,
    /// Rotations within that context above which a frequency is kept.
    pub beta_fast: f32,
    /// Rotations below which it is divided.
    pub beta_slow: f32,
    /// Weight of the factor that queries and keys are multiplied with.
    pub mscale: f32,
    /// Weight of what that factor is divided by.
    pub mscale_all_dim: f32,
}

impl Yarn {
    /// What configurations leave out (`YarnRoPE` of mlx_lm).
    pub const DEFAULT: Self = Self {
        factor: 1.0,
        original_context: 4096.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        mscale: 1.0,
        mscale_all_dim: 0.0,
    };

    /// What queries and keys are multiplied with.
    fn magnitude(&self) -> f64 {
        let factor = f64::from(self.factor);
        let scaled = |weight: f32| match factor > 1.0 {
            true => 0.1 * f64::from(weight) * factor.ln() + 1.0,
            false => 1.0,
        };
        scaled(self.mscale) / scaled(self.mscale_all_dim)
    }

    /// The stretched inverse frequency `i` of a head of `dims` features (`YarnRoPE` of mlx_lm).
    fn stretched(&self, i: usize, inverse: f64, base: f64, dims: usize) -> f64 {
        let rotates_at = |rotations: f32| {
            let turns = f64::from(self.original_context) / f64::from(rotations);
            dims as f64 * (turns / std::f64::consts::TAU).ln() / (2.0 * base.ln())
        };
        let low = rotates_at(self.beta_fast).floor().max(0.0);
        let high = rotates_at(self.beta_slow).ceil().min(dims as f64 - 1.0);
        let high = if low == high { high + 0.001 } else { high };
        let divided = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
        let long = f64::from(self.factor) * inverse;
        long * inverse / (long * (1.0 - divided) + inverse * divided)
    }
}

impl RopeConfig {
    /// Factor on the scores of rotated queries and keys.
    pub fn sharpening(&self) -> f32 {
        match &self.scaling {
            RopeScaling::Yarn(yarn) => yarn.magnitude().powi(2) as f32,
            _ => 1.0,
        }
    }

    /// Factor on the positions.
    pub fn scale(&self) -> f32 {
        match self.scaling {
            RopeScaling::Linear(factor) => 1.0 / factor,
            _ => 1.0,
        }
    }

    /// Inverse frequencies for a head of `dims` features, if they do not follow from the base.
    pub fn inverse_frequencies(&self, dims: usize) -> Option<Vec<f32>> {
        let base = f64::from(self.base);
        let stretch: &dyn Fn(usize, f64) -> f64 = match &self.scaling {
            RopeScaling::None | RopeScaling::Linear(_) => return None,
            RopeScaling::Factors(factors) => &|i, wave| wave * f64::from(factors[i]),
            RopeScaling::Yarn(yarn) => &|i, wave| yarn.stretched(i, wave, base, dims),
            RopeScaling::Llama3 { factor, low, high, original_context } => {
                &|_, wave| llama3(wave, [*factor, *low, *high, *original_context].map(f64::from))
            }
        };
        let inverse = |i: usize| base.powf(2.0 * i as f64 / dims as f64);
        Some((0..dims / 2).map(|i| stretch(i, inverse(i)) as f32).collect())
    }
}

/// Llama 3's stretched inverse frequency (`Llama3RoPE` of mlx_lm).
fn llama3(inverse: f64, [factor, low, high, context]: [f64; 4]) -> f64 {
    let wavelength = std::f64::consts::TAU * inverse;
    if wavelength > context / low {
        inverse * factor
    } else if wavelength < context / high {
        inverse
    } else {
        let smooth = (context / wavelength - low) / (high - low);
        inverse / ((1.0 - smooth) / factor + smooth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope(scaling: RopeScaling) -> RopeConfig {
        RopeConfig { base: 500_000.0, traditional: false, scaling }
    }

    #[test]
    fn llama3_keeps_high_and_divides_low_frequencies() {
        let scaling =
            RopeScaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original_context: 8192.0 };
        let inverse = rope(scaling).inverse_frequencies(64).unwrap();
        assert_eq!(inverse.len(), 32);
        assert_eq!(inverse[0], 1.0);
        let last = 500_000f64.powf(62.0 / 64.0);
        assert!((f64::from(inverse[31]) / (32.0 * last) - 1.0).abs() < 1e-6);
        // Between the two: monotonous.
        assert!(inverse.windows(2).all(|w| w[0] < w[1]));
    }

    const YARN_OF_GPT_OSS: [(usize, f32); 8] = [
        (0, 1.0),
        (5, 6.438_197),
        (8, 19.679_897),
        (9, 31.624_8),
        (12, 142.537_16),
        (17, 4_386.968_8),
        (18, 26_103.654),
        (31, 3_307_412.5),
    ];

    /// gpt-oss: the numbers of upstream's `YarnRoPE(64, base=150000, scaling_factor=32)`.
    #[test]
    fn yarn_blends_and_sharpens() {
        let yarn = Yarn { factor: 32.0, ..Yarn::DEFAULT };
        let config = RopeConfig { base: 150_000.0, ..rope(RopeScaling::Yarn(yarn)) };
        let inverse = config.inverse_frequencies(64).unwrap();
        for (i, want) in YARN_OF_GPT_OSS {
            assert!((inverse[i] / want - 1.0).abs() < 1e-5, "{i}: {} {want}", inverse[i]);
        }
        assert!((config.sharpening() - 1.346_573_6f32.powi(2)).abs() < 1e-6);
        let plain = Yarn { factor: 1.0, ..yarn };
        assert_eq!(RopeConfig { scaling: RopeScaling::Yarn(plain), ..config }.sharpening(), 1.0);
    }

    #[test]
    fn linear_divides_positions_and_factors_multiply() {
        assert_eq!(rope(RopeScaling::Linear(4.0)).scale(), 0.25);
        assert_eq!(rope(RopeScaling::None).inverse_frequencies(8), None);
        let inverse = rope(RopeScaling::Factors(vec![1.0, 2.0])).inverse_frequencies(4).unwrap();
        assert!((inverse[1] / (2.0 * 500_000f32.sqrt()) - 1.0).abs() < 1e-6);
    }
}
