//! Handwritten digits: the pictures, and training of what tells them apart.

mod data;
mod models;

pub use data::{Digits, Pictures};
pub use models::{Classifier, ConvNet, Mlp};

use mlx::{Array, Result, fast, ops, random, transforms::value_and_grad};

use crate::AdamW;

/// Pictures that a step sees.
const BATCH: usize = 64;

/// What training begins with; it falls to nothing along a cosine.
const RATE: f32 = 0.01;

/// How much of each weight a step with a learning rate of 1 takes away.
const DECAY: f32 = 0.05;

/// A model in training.
pub struct Training<M> {
    model: M,
    optimizer: AdamW<M>,
    /// Decides about the order of the pictures.
    key: Array,
    steps: usize,
    /// Steps of the whole training.
    total: usize,
}

impl<M: Classifier> Training<M> {
    /// A new model, to be trained for some epochs.
    ///
    /// # Errors
    /// When an array operation fails.
    pub fn new(pictures: &Pictures, epochs: usize, seed: u64) -> Result<Self> {
        let (weights, key) = random::split(&random::key(seed)?)?;
        let model = M::new(&weights)?;
        let optimizer = AdamW::new(&model, DECAY)?;
        let total = epochs * (pictures.len() / BATCH);
        Ok(Self { model, optimizer, key, steps: 0, total })
    }

    /// Shows all pictures once, in a random order and in full batches: the loss before each step.
    ///
    /// # Errors
    /// When an array operation fails.
    pub fn epoch(&mut self, pictures: &Pictures) -> Result<Vec<f32>> {
        let (order, key) = random::split(&self.key)?;
        self.key = key;
        let order = random::permutation_of(pictures.len(), Some(&order))?;
        let batches = (0..pictures.len() / BATCH).map(|i| (i * BATCH) as isize);
        let losses = batches.map(|at| {
            let batch = ops::slice_axis(&order, 0, at, at + BATCH as isize)?;
            self.step(&pictures.some(&batch)?)
        });
        let losses: Vec<Array> = losses.collect::<Result<_>>()?;
        losses.iter().map(Array::item).collect()
    }

    /// One step against the gradient; the loss before it.
    fn step(&mut self, batch: &Pictures) -> Result<Array> {
        let (loss, gradient) = value_and_grad(|model| loss(model, batch), &self.model)?;
        let progress = self.steps as f32 / self.total as f32;
        let rate = RATE * 0.5 * (1.0 + (std::f32::consts::PI * progress).cos());
        self.model = self.optimizer.step(&self.model, &gradient, rate)?;
        self.steps += 1;
        // The device works on this step while the next one is described.
        let mut all = self.model.arrays();
        all.extend(self.optimizer.state());
        all.push(&loss);
        mlx::async_eval(&all)?;
        Ok(loss)
    }

    /// How many of the pictures the model names rightly.
    ///
    /// # Errors
    /// When an array operation fails.
    pub fn right(&self, pictures: &Pictures) -> Result<usize> {
        let guess = ops::argmax(&self.model.logits(&pictures.images)?, Some(-1), false)?;
        let right = ops::equal(&guess, &pictures.labels)?;
        Ok(ops::sum(&right, &[], false)?.item::<i32>()? as usize)
    }
}

/// The mean cross entropy over a batch.
fn loss(model: &impl Classifier, batch: &Pictures) -> Result<Array> {
    let losses = fast::cross_entropy(&model.logits(&batch.images)?, &batch.labels)?;
    ops::mean(&losses, &[], false)
}
