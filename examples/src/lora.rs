//! Fine-tuning of a language model with low-rank adaptation.

use anyhow::{Result, ensure};
use mlx::{Array, Tree, fast, ops, random, transforms::value_and_grad};
use mlx_vulkan_lm::{lora::Adapter, models::Transformer};

use crate::AdamW;

/// Columns of the adapter's matrices.
const RANK: usize = 8;

/// What the adapter's products are multiplied with.
const SCALE: f32 = 2.0;

/// How far a step goes.
const RATE: f32 = 2e-3;

/// A model and the adapter that is trained beside it.
pub struct Tuning {
    model: Transformer,
    adapter: Adapter,
    optimizer: AdamW<Adapter>,
}

impl Tuning {
    /// With an adapter that changes nothing yet.
    ///
    /// # Errors
    /// When an array operation fails.
    pub fn new(model: Transformer, seed: u64) -> Result<Self> {
        let adapter = Adapter::new(model.config(), RANK, SCALE, &random::key(seed)?)?;
        let optimizer = AdamW::new(&adapter, 0.0)?;
        Ok(Self { model, adapter, optimizer })
    }

    /// What has been trained.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// One step towards saying these tokens; the loss before it.
    ///
    /// # Errors
    /// When there are fewer than two tokens, or an array operation fails.
    pub fn step(&mut self, ids: &[u32]) -> Result<f32> {
        ensure!(ids.len() > 1, "a text of one token has no next one to learn");
        let loss = |adapter: &Adapter| loss(&self.model, adapter, ids).map_err(mlx::Error::raised);
        let (loss, gradient) = value_and_grad(loss, &self.adapter)?;
        self.adapter = self.optimizer.step(&self.adapter, &gradient, RATE)?;
        let mut all = self.adapter.arrays();
        all.extend(self.optimizer.state());
        all.push(&loss);
        mlx::eval(&all)?;
        Ok(loss.item()?)
    }
}

/// The mean cross entropy of each token after the first, given those before it.
fn loss(model: &Transformer, adapter: &Adapter, ids: &[u32]) -> mlx_vulkan_lm::Result<Array> {
    let (given, wanted) = (&ids[..ids.len() - 1], &ids[1..]);
    let given = Array::from_slice(given, &[1, given.len()])?;
    let wanted = Array::from_slice(wanted, &[1, wanted.len()])?;
    let logits = model.adapted(adapter)?.forward(&given, &mut model.new_cache())?;
    Ok(ops::mean(&fast::cross_entropy(&logits, &wanted)?, &[], false)?)
}
