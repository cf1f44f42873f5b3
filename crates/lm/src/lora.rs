//! Low-rank adaptation (Hu et al., 2021): small matrices beside a model's own change what it says, and are
//! cheap to train and to keep.

use std::{collections::BTreeMap, path::Path};

use mlx::{Array, Dtype, Tree, io, ops, random};

use crate::{Error, Result, config::ModelConfig, models::Transformer};

/// Key of a file's metadata that says the factor.
const SCALE: &str = "scale";

/// Small matrices beside the products that make queries and values, of all layers; a tree of what is trained.
#[derive(Clone, Tree)]
pub struct Adapter {
    layers: Vec<Layer>,
}

/// Those of one layer.
#[derive(Clone, Tree)]
struct Layer {
    q_proj: LowRank,
    v_proj: LowRank,
}

/// What is added to a product with `x`: `scale * (x @ a) @ b`.
#[derive(Clone, Tree)]
pub(crate) struct LowRank {
    /// Float32 (in, rank).
    lora_a: Array,
    /// Float32 (rank, out).
    lora_b: Array,
    #[tree(skip)]
    scale: f32,
}

impl Adapter {
    /// One that changes nothing yet: `a` is random, `b` is zero.
    ///
    /// # Errors
    /// When an array operation fails.
    pub fn new(config: &ModelConfig, rank: usize, scale: f32, key: &Array) -> Result<Self> {
        let bound = (config.hidden_size as f32).sqrt().recip();
        let random = |a: &Array, key: &Array| {
            random::uniform(-bound, bound, a.shape(), Dtype::Float32, Some(key))
        };
        let mut adapter = Self::zeros(config, rank, scale)?;
        let mut key = key.clone();
        for layer in &mut adapter.layers {
            for product in [&mut layer.q_proj, &mut layer.v_proj] {
                let (this, next) = random::split(&key)?;
                product.lora_a = random(&product.lora_a, &this)?;
                key = next;
            }
        }
        Ok(adapter)
    }

    fn zeros(config: &ModelConfig, rank: usize, scale: f32) -> Result<Self> {
        let low_rank = |outputs: usize| -> Result<LowRank> {
            Ok(LowRank {
                lora_a: ops::zeros(&[config.hidden_size, rank], Dtype::Float32)?,
                lora_b: ops::zeros(&[rank, outputs], Dtype::Float32)?,
                scale,
            })
        };
        let layer = |_| -> Result<Layer> {
            Ok(Layer {
                q_proj: low_rank(config.num_heads * config.head_dim)?,
                v_proj: low_rank(config.num_kv_heads * config.head_dim)?,
            })
        };
        Ok(Self { layers: (0..config.num_layers).map(layer).collect::<Result<_>>()? })
    }

    /// Writes a safetensors file.
    ///
    /// # Errors
    /// When an array cannot be evaluated or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let arrays = self.named_arrays().into_iter().map(|(name, a)| (name, a.clone())).collect();
        let scale = self.layers.first().map_or(0.0, |layer| layer.q_proj.scale);
        let metadata = BTreeMap::from([(SCALE.to_owned(), scale.to_string())]);
        Ok(io::save_safetensors(path, &arrays, &metadata)?)
    }

    /// Reads what [`save`](Self::save) wrote, for a model of the same shape.
    ///
    /// # Errors
    /// When the file cannot be read, or holds no adapter for such a model.
    pub fn load(path: &Path, config: &ModelConfig) -> Result<Self> {
        let mut file = io::load_safetensors(path)?;
        let scale = file.metadata.get(SCALE).and_then(|scale| scale.parse().ok());
        let scale = scale.ok_or_else(|| Error::file(path, SCALE, "missing, or no number"))?;
        // All ranks are equal, so any of these matrices tells it.
        let first = file.arrays.iter().find(|(name, _)| name.ends_with("lora_a"));
        let rank = first.and_then(|(_, a)| a.shape().last()).copied();
        let like = Self::zeros(config, rank.unwrap_or(0), scale)?;
        let mut arrays = Vec::new();
        for (name, a) in like.named_arrays() {
            let found = file.arrays.remove(&name);
            let found = found.ok_or_else(|| Error::file(path, &name, "missing"))?;
            if found.spec() != a.spec() {
                let message = format!(
                    "is {} {:?}, not {} {:?} as the model needs it",
                    found.dtype(),
                    found.shape(),
                    a.dtype(),
                    a.shape()
                );
                return Err(Error::file(path, name, message));
            }
            arrays.push(found);
        }
        match file.arrays.keys().next() {
            Some(name) => Err(Error::file(path, name, "is nothing of the model's")),
            None => Ok(like.with_arrays(arrays)?),
        }
    }
}

impl LowRank {
    /// `y`, the product with `x`, changed; in its dtype.
    pub(crate) fn change(&self, y: &Array, x: &Array) -> mlx::Result<Array> {
        let change = ops::matmul(&ops::matmul(x, &self.lora_a)?, &self.lora_b)?;
        ops::add(y, &ops::astype(&ops::multiply(&change, self.scale)?, y.dtype())?)
    }
}

impl Transformer {
    /// The same model, sharing its weights, with an adapter beside them.
    ///
    /// # Errors
    /// When the adapter has another number of layers.
    pub fn adapted(&self, adapter: &Adapter) -> Result<Self> {
        let mut model = self.clone();
        if adapter.layers.len() != model.blocks.len() {
            let (has, needs) = (adapter.layers.len(), model.blocks.len());
            return Err(Error::argument("adapter", format!("has {has} layers of {needs}")));
        }
        for (block, layer) in model.blocks.iter_mut().zip(&adapter.layers) {
            block.attention.q.adapt(layer.q_proj.clone());
            block.attention.v.adapt(layer.v_proj.clone());
        }
        Ok(model)
    }
}
