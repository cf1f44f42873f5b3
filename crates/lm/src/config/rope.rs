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
    /// Divisors for each frequency, as some GGUF files carry them (`rope_freqs.weight`).
    Factors(Vec<f32>),
}

impl RopeConfig {
    /// Factor on the positions.
    pub fn scale(&self) -> f32 {
        match self.scaling {
            RopeScaling::Linear(factor) => 1.0 / factor,
            _ => 1.0,
        }
    }

    /// Inverse frequencies for a head of `dims` features, if they do not follow from the base.
    pub fn inverse_frequencies(&self, dims: usize) -> Option<Vec<f32>> {
        let stretch: &dyn Fn(usize, f64) -> f64 = match &self.scaling {
            RopeScaling::None | RopeScaling::Linear(_) => return None,
            RopeScaling::Factors(factors) => &|i, wave| wave * f64::from(factors[i]),
            RopeScaling::Llama3 { factor, low, high, original_context } => {
                &|_, wave| llama3(wave, [*factor, *low, *high, *original_context].map(f64::from))
            }
        };
        let base = f64::from(self.base);
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

    #[test]
    fn linear_divides_positions_and_factors_multiply() {
        assert_eq!(rope(RopeScaling::Linear(4.0)).scale(), 0.25);
        assert_eq!(rope(RopeScaling::None).inverse_frequencies(8), None);
        let inverse = rope(RopeScaling::Factors(vec![1.0, 2.0])).inverse_frequencies(4).unwrap();
        assert!((inverse[1] / (2.0 * 500_000f32.sqrt()) - 1.0).abs() < 1e-6);
    }
}
