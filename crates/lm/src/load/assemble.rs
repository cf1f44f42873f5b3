//! Puts weights where the architecture wants them.

use mlx::{Array, Tree};

use super::{experts::mixture, weights::Weights};
use crate::{
    Result,
    config::ModelConfig,
    models::{Attention, Block, Embedding, FeedForward, Mlp, Rope, Transformer},
};

/// The model of `config` with the tensors of `weights`.
pub(super) fn transformer(config: ModelConfig, mut weights: Weights) -> Result<Transformer> {
    let w = &mut weights;
    let (vocab, hidden) = (config.vocab_size, config.hidden_size);
    let tokens = w.linear("model.embed_tokens", vocab, hidden)?;
    // Some files repeat the tied matrix as a head: the configuration decides where it says.
    let tied = config.tied_embeddings.unwrap_or(!w.has("lm_head"));
    let head = if tied { None } else { Some(w.linear("lm_head", vocab, hidden)?) };
    let norm = w.need("model.norm", "weight", &[hidden])?;
    let blocks = (0..config.num_layers).map(|i| block(&config, w, i)).collect::<Result<_>>()?;
    let rope = Rope::new(&config.rope, config.head_dim)?;
    weights.finish(&config.path, config.layers_field(), config.num_layers)?;

    let embedding = Embedding { tokens, head };
    let config = ModelConfig { tied_embeddings: Some(tied), ..config };
    let model = Transformer { config, embedding, blocks, norm, rope };
    mlx::eval(&model.arrays())?;
    Ok(model)
}

fn block(config: &ModelConfig, w: &mut Weights, index: usize) -> Result<Block> {
    let hidden = config.hidden_size;
    let name = |module: &str| format!("model.layers.{index}.{module}");
    Ok(Block {
        attention_norm: w.need(&name("input_layernorm"), "weight", &[hidden])?,
        attention: attention(config, w, &name("self_attn"))?,
        mlp_norm: w.need(&name("post_attention_layernorm"), "weight", &[hidden])?,
        mlp: feed_forward(config, w, index)?,
    })
}

fn feed_forward(config: &ModelConfig, w: &mut Weights, index: usize) -> Result<FeedForward> {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let module = format!("model.layers.{index}.mlp");
    if let Some(experts) = config.experts_of(index) {
        return mixture(config, experts, w, &module).map(FeedForward::Mixture);
    }
    let mut linear = |part: &str, out, inner| w.linear(&format!("{module}.{part}"), out, inner);
    Ok(FeedForward::Dense(Mlp {
        gate: linear("gate_proj", inner, hidden)?,
        up: linear("up_proj", inner, hidden)?,
        down: linear("down_proj", hidden, inner)?,
    }))
}

fn attention(config: &ModelConfig, w: &mut Weights, module: &str) -> Result<Attention> {
    let (hidden, dim) = (config.hidden_size, config.head_dim);
    let (queries, values) = (config.num_heads * dim, config.num_kv_heads * dim);
    let norm = |w: &mut Weights, part: &str| match config.family.has_qk_norm() {
        true => w.need(&format!("{module}.{part}"), "weight", &[dim]).map(Some),
        false => Ok(None),
    };
    Ok(Attention {
        q: w.linear(&format!("{module}.q_proj"), queries, hidden)?,
        k: w.linear(&format!("{module}.k_proj"), values, hidden)?,
        v: w.linear(&format!("{module}.v_proj"), values, hidden)?,
        o: w.linear(&format!("{module}.o_proj"), hidden, queries)?,
        q_norm: norm(w, "q_norm")?,
        k_norm: norm(w, "k_norm")?,
        sinks: sinks(config, w, module)?,
        heads: config.num_heads,
        kv_heads: config.num_kv_heads,
        head_dim: dim,
        eps: config.rms_norm_eps,
        scale: config.attention_scale(),
    })
}

/// A sink for each head, in the families that have them.
fn sinks(config: &ModelConfig, w: &mut Weights, module: &str) -> Result<Option<Array>> {
    let shape = [config.num_heads];
    if !config.family.has_sinks() {
        return Ok(None);
    }
    // GGUF has them as the weight of a module.
    match w.optional(&format!("{module}.sinks"), "weight", &shape)? {
        Some(sinks) => Ok(Some(sinks)),
        None => w.need(module, "sinks", &shape).map(Some),
    }
}
