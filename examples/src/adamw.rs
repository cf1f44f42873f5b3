//! The optimizer.

use mlx::{Array, Result, Tree, ops};

/// AdamW (Loshchilov and Hutter, 2019): steps of the size of the learning rate, along gradients averaged over
/// time, with weights that decay.
pub struct AdamW<P> {
    /// How much of each weight one step with a learning rate of 1 takes away.
    decay: f32,
    steps: i32,
    /// Averages of the gradients and of their squares.
    mean: P,
    square: P,
}

/// How much of the averages stays in a step.
const BETAS: [f32; 2] = [0.9, 0.999];

/// Keeps quotients finite where gradients are zero.
const EPSILON: f32 = 1e-8;

impl<P: Tree> AdamW<P> {
    /// For parameters like these.
    ///
    /// # Errors
    /// When an array operation fails.
    pub fn new(parameters: &P, decay: f32) -> Result<Self> {
        let zeros = || parameters.map_arrays(|_, a| ops::zeros(a.shape(), a.dtype()));
        Ok(Self { decay, steps: 0, mean: zeros()?, square: zeros()? })
    }

    /// The parameters after one step against the gradient.
    ///
    /// # Errors
    /// When an array operation fails.
    pub fn step(&mut self, parameters: &P, gradient: &P, rate: f32) -> Result<P> {
        self.steps += 1;
        let [a, b] = BETAS;
        self.mean = zipped(&self.mean, gradient, |mean, g| Ok(mean * a + g * (1.0 - a)))?;
        self.square =
            zipped(&self.square, gradient, |s, g| Ok(s * b + ops::square(g)? * (1.0 - b)))?;
        // Averages that began with zeros are too small by these factors.
        let [a, b] = BETAS.map(|beta| 1.0 - beta.powi(self.steps));
        let direction = zipped(&self.mean, &self.square, |mean, square| {
            Ok(mean * (1.0 / a) / (ops::sqrt(&(square * (1.0 / b)))? + EPSILON))
        })?;
        let kept = 1.0 - rate * self.decay;
        zipped(parameters, &direction, |p, direction| Ok(p * kept - direction * rate))
    }

    /// Everything that steps to come depend on, to be evaluated with the parameters.
    pub fn state(&self) -> Vec<&Array> {
        [self.mean.arrays(), self.square.arrays()].concat()
    }
}

/// The tree of what `f` makes of the arrays at the same places of two trees.
fn zipped<P: Tree>(a: &P, b: &P, f: impl Fn(&Array, &Array) -> Result<Array>) -> Result<P> {
    let pairs = a.arrays().into_iter().zip(b.arrays());
    a.with_arrays(pairs.map(|(a, b)| f(a, b)).collect::<Result<Vec<_>>>()?)
}
