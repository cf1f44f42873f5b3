//! Two models that name digits.

use mlx::{Array, Dtype, Result, Tree, ops, random};

use super::data::SIDE;

/// Digits there are.
const CLASSES: usize = 10;

/// A model that tells digits apart: a struct of arrays.
pub trait Classifier: Tree {
    /// What people call it.
    const NAME: &'static str;

    /// With random weights.
    ///
    /// # Errors
    /// When an array operation fails.
    fn new(key: &Array) -> Result<Self>;

    /// Scores (pictures, 10) of images (pictures, height, width, 1).
    ///
    /// # Errors
    /// When an array operation fails.
    fn logits(&self, images: &Array) -> Result<Array>;
}

/// A weight, and what is added behind it: of a matrix (in, out), or of a convolution (out, height, width,
/// in).
#[derive(Tree)]
struct Layer {
    weight: Array,
    bias: Array,
}

impl Layer {
    /// Each output is about as large as the `inputs` that it is a sum of.
    fn new(shape: &[usize], inputs: usize, outputs: usize, key: &Array) -> Result<Self> {
        let scale = (2.0 / inputs as f32).sqrt();
        let weight = random::normal(shape, Dtype::Float32, 0.0, scale, Some(key))?;
        Ok(Self { weight, bias: ops::zeros(&[outputs], Dtype::Float32)? })
    }

    fn dense(inputs: usize, outputs: usize, key: &Array) -> Result<Self> {
        Self::new(&[inputs, outputs], inputs, outputs, key)
    }

    fn convolution(inputs: usize, outputs: usize, key: &Array) -> Result<Self> {
        Self::new(&[outputs, 3, 3, inputs], 9 * inputs, outputs, key)
    }

    fn product(&self, x: &Array) -> Result<Array> {
        ops::addmm(&self.bias, x, &self.weight, 1.0, 1.0)
    }

    fn convolve(&self, x: &Array) -> Result<Array> {
        ops::add(&ops::conv2d(x, &self.weight, [1, 1], [1, 1], [1, 1], 1)?, &self.bias)
    }
}

/// A multilayer perceptron: one hidden layer.
#[derive(Tree)]
pub struct Mlp {
    hidden: Layer,
    output: Layer,
}

impl Classifier for Mlp {
    const NAME: &'static str = "MLP";

    fn new(key: &Array) -> Result<Self> {
        let (first, second) = random::split(key)?;
        let hidden = Layer::dense(SIDE * SIDE, 128, &first)?;
        Ok(Self { hidden, output: Layer::dense(128, CLASSES, &second)? })
    }

    fn logits(&self, images: &Array) -> Result<Array> {
        let hidden = relu(&self.hidden.product(&ops::flatten(images, 1, -1)?)?)?;
        self.output.product(&hidden)
    }
}

/// A small convolutional net: twice a convolution and the largest of four neighbours, then a matrix.
#[derive(Tree)]
pub struct ConvNet {
    convolutions: [Layer; 2],
    output: Layer,
}

impl Classifier for ConvNet {
    const NAME: &'static str = "convolutional net";

    fn new(key: &Array) -> Result<Self> {
        let (key, first) = random::split(key)?;
        let (second, third) = random::split(&key)?;
        let convolutions =
            [Layer::convolution(1, 16, &first)?, Layer::convolution(16, 32, &second)?];
        let left = SIDE / 4;
        Ok(Self { convolutions, output: Layer::dense(left * left * 32, CLASSES, &third)? })
    }

    fn logits(&self, images: &Array) -> Result<Array> {
        let mut x = images.clone();
        for convolution in &self.convolutions {
            x = pooled(&relu(&convolution.convolve(&x)?)?)?;
        }
        self.output.product(&ops::flatten(&x, 1, -1)?)
    }
}

fn relu(x: &Array) -> Result<Array> {
    ops::maximum(x, 0.0f32)
}

/// The largest of four neighbours in place of each two by two.
fn pooled(x: &Array) -> Result<Array> {
    let [pictures, height, width, channels] = [0, 1, 2, 3].map(|axis| x.dim(axis) as isize);
    let squares = ops::reshape(x, &[pictures, height / 2, 2, width / 2, 2, channels])?;
    ops::max(&squares, &[2, 4], false)
}
