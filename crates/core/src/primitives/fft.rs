//! Fourier transforms.

use super::{
    Axes, Family, Input, SpecRef, Specs,
    spec::{one, with_size},
};
use crate::Dtype;

/// A discrete Fourier transform of some axes; the output is complex64, or float32 where the inverse
/// is real.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fft {
    /// The axes; where one side is real, it is halved along the last of them.
    pub axes: Axes,
    /// With positive exponents, divided by the number of elements.
    pub inverse: bool,
    /// The input (of the inverse: the output) is real, with this many elements along the last of
    /// the axes; the other side has the first half of the conjugate-symmetric coefficients.
    pub real: Option<usize>,
}

impl Family for Fft {
    fn name(&self) -> &'static str {
        "FFT"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        match (self.real, self.inverse) {
            (Some(_), false) => dtype == Dtype::Float32,
            (Some(_), true) | (None, _) => dtype == Dtype::Complex64,
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [a] = inputs else { return None };
        let last = *self.axes.last()?;
        let distinct = (1..self.axes.len()).all(|i| !self.axes[..i].contains(&self.axes[i]));
        let full = self.axes.iter().all(|&x| a.shape.get(x).is_some_and(|&n| n > 0));
        if !distinct || !full || !self.takes(a.dtype) {
            return None;
        }
        match (self.real, self.inverse) {
            (None, _) => one(a.shape, Dtype::Complex64),
            (Some(n), false) if n == a.shape[last] => {
                one(with_size(a.shape, last, n / 2 + 1)?, Dtype::Complex64)
            }
            (Some(n), true) if n > 0 && n / 2 + 1 == a.shape[last] => {
                one(with_size(a.shape, last, n)?, Dtype::Float32)
            }
            (Some(_), _) => None,
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let fft = |inverse, real| Fft { axes: Axes::from_slice(&[1]), inverse, real };
        let input = |columns| vec![Input::new(&[4, columns], dtype)];
        vec![
            (fft(false, None), input(6)),
            (fft(true, None), input(6)),
            (fft(false, Some(6)), input(6)),
            (fft(true, Some(7)), input(4)),
        ]
    }
}
