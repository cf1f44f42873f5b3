//! Fourier transforms: all are linear.

use super::{Applied, Mapped, Outputs, Rules, mapping, one, only};
use crate::{Array, Result, graph::Inputs, ops, primitives::Fft};

impl Rules for Fft {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], _wanted: &[usize]) -> Result<Inputs> {
        let (a, cotangent) = (&node.inputs[0], &cotangents[0]);
        let whole = if self.inverse { cotangent } else { a };
        let count: f64 = self.axes.iter().map(|&axis| whole.shape()[axis] as f64).product();
        let opposite = Fft { inverse: !self.inverse, ..self.clone() };
        let back = |cotangent: Array| ops::node(opposite, [cotangent]);
        // The conjugate transpose of a transform is its opposite but for the factor.
        let derivative = match (self.real, self.inverse) {
            (None, false) => ops::multiply(&back(cotangent.clone())?, count)?,
            (None, true) => ops::divide(&back(cotangent.clone())?, count)?,
            // The opposite transform counts coefficients twice that stand for two.
            (Some(n), false) => {
                let once = ops::multiply(cotangent, &self.weights(cotangent, n, 0.5)?)?;
                ops::multiply(&back(once)?, count)?
            }
            (Some(n), true) => {
                let derivative = back(cotangent.clone())?;
                let twice = ops::multiply(&derivative, &self.weights(&derivative, n, 2.0)?)?;
                ops::divide(&twice, count)?
            }
        };
        Ok([derivative].into_iter().collect())
    }

    fn jvp(&self, _node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let tangent = only(tangents);
        one(ops::node(self.clone(), [tangent.clone()])?)
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (input, axis) = mapping::only(inputs, axes);
        let mut fft = self.clone();
        fft.axes.iter_mut().for_each(|x| *x = mapping::behind(*x, axis));
        Mapped::one(ops::node(fft, [input.clone()])?, axis)
    }
}

impl Fft {
    /// Factors of the coefficients of `n` real numbers along the last of the axes: `factor` where a
    /// coefficient stands for its conjugate as well, else 1.
    fn weights(&self, coefficients: &Array, n: usize, factor: f32) -> Result<Array> {
        let last = *self.axes.last().expect("there is an axis");
        let weight = |k: usize| if k == 0 || 2 * k == n { 1.0 } else { factor };
        let weights: Vec<f32> = (0..n / 2 + 1).map(weight).collect();
        let mut shape = vec![1; coefficients.ndim()];
        shape[last] = weights.len();
        Array::from_slice(&weights, &shape)
    }
}
