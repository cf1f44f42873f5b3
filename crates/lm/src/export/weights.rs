//! The weights by Hugging Face's names.

use std::{collections::BTreeMap, path::Path};

use mlx::{Array, Dtype, io::Arrays, ops};
use serde_json::json;

use crate::{
    Result, json,
    models::{Experts, FeedForward, Linear, Transformer},
};

/// Writes `model.safetensors`, or several files of at most `limit` bytes with an index.
pub(super) fn write(model: &Transformer, dtype: Dtype, folder: &Path, limit: usize) -> Result<()> {
    let tensors = Tensors::of(model, dtype)?.list;
    let size: usize = tensors.iter().map(|(_, array)| array.nbytes()).sum();
    let shards = shards(tensors, limit);
    let count = shards.len();
    let mut map = BTreeMap::new();
    for (index, shard) in (1..).zip(shards) {
        let file = match count {
            1 => "model.safetensors".to_owned(),
            _ => format!("model-{index:05}-of-{count:05}.safetensors"),
        };
        map.extend(shard.keys().map(|name| (name.clone(), file.clone())));
        // The arrays are lazy and evaluated by this: no more than a shard is in memory.
        let format = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
        mlx::io::save_safetensors(folder.join(file), &shard, &format)?;
    }
    if count == 1 {
        return Ok(());
    }
    let index = json!({"metadata": {"total_size": size}, "weight_map": map});
    json::write(&folder.join("model.safetensors.index.json"), &index)
}

/// The tensors in parts of at most `limit` bytes, or of one tensor.
fn shards(tensors: Vec<(String, Array)>, limit: usize) -> Vec<Arrays> {
    let mut shards = vec![Arrays::new()];
    let mut filled = 0;
    for (name, array) in tensors {
        if filled > 0 && filled + array.nbytes() > limit {
            shards.push(Arrays::new());
            filled = 0;
        }
        filled += array.nbytes();
        shards.last_mut().expect("there is one").insert(name, array);
    }
    shards
}

/// Named tensors in the order of the network, none of them evaluated.
struct Tensors {
    list: Vec<(String, Array)>,
    dtype: Dtype,
    /// Whether neighbouring rows of queries and keys are a pair, and not the two halves of a head.
    interleaved: bool,
}

impl Tensors {
    fn of(model: &Transformer, dtype: Dtype) -> Result<Self> {
        let config = model.config();
        let mut all = Self { list: Vec::new(), dtype, interleaved: config.rope.traditional };
        all.linear("model.embed_tokens", &model.embedding.tokens)?;
        for (i, block) in model.blocks.iter().enumerate() {
            let name = |module: &str| format!("model.layers.{i}.{module}");
            all.vector(&name("input_layernorm"), &block.attention_norm)?;
            let attention = &block.attention;
            all.rotated(&name("self_attn.q_proj"), &attention.q, config.num_heads)?;
            all.rotated(&name("self_attn.k_proj"), &attention.k, config.num_kv_heads)?;
            all.linear(&name("self_attn.v_proj"), &attention.v)?;
            all.linear(&name("self_attn.o_proj"), &attention.o)?;
            for (part, norm) in [("q_norm", &attention.q_norm), ("k_norm", &attention.k_norm)] {
                if let Some(norm) = norm {
                    all.vector(&name(&format!("self_attn.{part}")), norm)?;
                }
            }
            all.vector(&name("post_attention_layernorm"), &block.mlp_norm)?;
            all.feed_forward(&name("mlp"), &block.mlp)?;
        }
        all.vector("model.norm", &model.norm)?;
        if let Some(head) = &model.embedding.head {
            all.linear("lm_head", head)?;
        }
        Ok(all)
    }

    fn feed_forward(&mut self, module: &str, block: &FeedForward) -> Result<()> {
        let name = |part: &str| format!("{module}.{part}");
        match block {
            FeedForward::Dense(mlp) => {
                self.linear(&name("gate_proj"), &mlp.gate)?;
                self.linear(&name("up_proj"), &mlp.up)?;
                self.linear(&name("down_proj"), &mlp.down)
            }
            FeedForward::Mixture(mixture) => {
                self.linear(&name("gate"), &mixture.router)?;
                self.experts(&name("experts"), "gate_proj", &mixture.gate)?;
                self.experts(&name("experts"), "up_proj", &mixture.up)?;
                self.experts(&name("experts"), "down_proj", &mixture.down)
            }
        }
    }

    /// A matrix of each expert.
    fn experts(&mut self, module: &str, part: &str, experts: &Experts) -> Result<()> {
        let stack = experts.weight().matrices(self.dtype)?;
        for expert in 0..stack.dim(0) {
            let at = expert as isize;
            let matrix = ops::squeeze(&ops::slice_axis(&stack, 0, at, at + 1)?, &[0])?;
            self.add(format!("{module}.{expert}.{part}.weight"), &matrix)?;
        }
        Ok(())
    }

    fn add(&mut self, name: String, array: &Array) -> Result<()> {
        self.list.push((name, ops::astype(array, self.dtype)?));
        Ok(())
    }

    fn vector(&mut self, module: &str, weight: &Array) -> Result<()> {
        self.add(format!("{module}.weight"), weight)
    }

    fn linear(&mut self, module: &str, linear: &Linear) -> Result<()> {
        self.add(format!("{module}.weight"), &linear.matrix(self.dtype)?)?;
        linear.bias().map_or(Ok(()), |bias| self.add(format!("{module}.bias"), bias))
    }

    /// A matrix whose products are rotated, `heads` at a time.
    fn rotated(&mut self, module: &str, linear: &Linear, heads: usize) -> Result<()> {
        if !self.interleaved {
            return self.linear(module, linear);
        }
        let weight = in_halves(&linear.matrix(self.dtype)?, heads)?;
        self.add(format!("{module}.weight"), &weight)?;
        match linear.bias() {
            Some(bias) => self.add(format!("{module}.bias"), &in_halves(bias, heads)?),
            None => Ok(()),
        }
    }
}

/// The rows of each head from pairs of neighbours to two halves: converters to GGUF do the reverse
/// (`LlamaModel.permute` of llama.cpp).
fn in_halves(array: &Array, heads: usize) -> Result<Array> {
    let shape: Vec<isize> = array.shape().iter().map(|n| *n as isize).collect();
    let pairs = shape[0] / heads as isize / 2;
    let split = [&[heads as isize, pairs, 2], &shape[1..]].concat();
    let swapped = ops::swapaxes(&ops::reshape(array, &split)?, 1, 2)?;
    Ok(ops::reshape(&swapped, &shape)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_head_become_two_halves() {
        mlx::init();
        mlx::with_device(mlx::Device::CPU, || {
            let bias =
                Array::from_slice(&[0f32, 3., 1., 4., 2., 5., 6., 9., 7., 10., 8., 11.], &[12]);
            let rows = in_halves(&bias.unwrap(), 2).unwrap();
            let want: Vec<f32> = (0..12u8).map(f32::from).collect();
            assert_eq!(rows.to_vec::<f32>().unwrap(), want);
        })
        .unwrap();
    }

    #[test]
    fn shards_keep_to_the_limit() {
        mlx::init();
        let tensor =
            |name: &str, len: usize| (name.to_owned(), ops::zeros(&[len], Dtype::Float16).unwrap());
        let names = |limit| -> Vec<Vec<String>> {
            let tensors = vec![tensor("a", 4), tensor("b", 2), tensor("c", 2), tensor("d", 9)];
            shards(tensors, limit).iter().map(|shard| shard.keys().cloned().collect()).collect()
        };
        assert_eq!(names(100), [vec!["a", "b", "c", "d"]]);
        assert_eq!(names(12), [vec!["a", "b"], vec!["c"], vec!["d"]]);
    }
}
