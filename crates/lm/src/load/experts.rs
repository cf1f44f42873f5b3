//! Experts' weights, stacked as they run or as the models' makers publish them.

use mlx::{Array, Dtype, ops, ops::FpMode};

use super::weights::{Parts, Weights};
use crate::{
    Result,
    config::{ExpertsConfig, Family, ModelConfig},
    models::{Activation, Experts, Mixture, Weight},
};

/// Limit of gpt-oss's activation (`SwigluOAI` of mlx_lm).
pub(super) const CLAMPED: Activation = Activation::Clamped { limit: 7.0 };

/// The mixture of the layer part `module`, such as `model.layers.0.mlp`.
pub(super) fn mixture(
    config: &ModelConfig,
    experts: &ExpertsConfig,
    w: &mut Weights,
    module: &str,
) -> Result<Mixture> {
    let (count, hidden, width) = (experts.count, config.hidden_size, experts.width);
    let gpt_oss = config.family == Family::GptOss;
    let router = if gpt_oss { "router" } else { "gate" };
    let router = w.linear(&format!("{module}.{router}"), count, hidden)?;
    let stacks = if gpt_oss {
        let module = format!("{module}.experts");
        match w.has_tensor(&format!("{module}.gate_up_proj_blocks")) {
            true => interleaved(w, &module, count, hidden, width)?,
            false => stacked(w, &module, count, hidden, width)?,
        }
    } else {
        match w.has(&format!("{module}.experts.0.up_proj")) {
            true => one_by_one(w, &format!("{module}.experts"), count, hidden, width)?,
            false => stacked(w, &format!("{module}.switch_mlp"), count, hidden, width)?,
        }
    };
    let activation = if gpt_oss { CLAMPED } else { Activation::Silu };
    Ok(Mixture::new(router, stacks, experts.per_token, experts.scores, activation))
}

/// Gate, up and down as mlx_lm saves them: (experts, out, in).
fn stacked(
    w: &mut Weights,
    module: &str,
    count: usize,
    hidden: usize,
    width: usize,
) -> Result<[Experts; 3]> {
    let mut part =
        |part: &str, out, inner| w.experts(&format!("{module}.{part}"), count, out, inner);
    Ok([
        part("gate_proj", width, hidden)?,
        part("up_proj", width, hidden)?,
        part("down_proj", hidden, width)?,
    ])
}

/// Gate, up and down where every expert has matrices of its own. Evaluated at once, so that no more than one
/// stack exists twice.
fn one_by_one(
    w: &mut Weights,
    module: &str,
    count: usize,
    hidden: usize,
    width: usize,
) -> Result<[Experts; 3]> {
    let mut part = |part: &str, out, inner| -> Result<Experts> {
        let matrices = (0..count)
            .map(|expert| w.need(&format!("{module}.{expert}.{part}"), "weight", &[out, inner]))
            .collect::<Result<Vec<Array>>>()?;
        let stack = ops::stack(&matrices.iter().collect::<Vec<_>>(), 0)?;
        mlx::eval(&[&stack])?;
        Ok(Experts::new(Weight::dense(stack)?, None))
    };
    Ok([
        part("gate_proj", width, hidden)?,
        part("up_proj", width, hidden)?,
        part("down_proj", hidden, width)?,
    ])
}

/// gpt-oss as it is published: mxfp4 in blocks of 16 bytes, and rows of gate and up taking turns.
fn interleaved(
    w: &mut Weights,
    module: &str,
    count: usize,
    hidden: usize,
    width: usize,
) -> Result<[Experts; 3]> {
    let joined = blocks(w, &format!("{module}.gate_up_proj"), [count, 2 * width, hidden])?;
    let half = |part: &str, first| -> Result<Experts> {
        let rows = |array: &Array| every_second(array, first);
        let (words, scales) = (rows(&joined.words)?, rows(&joined.scales)?);
        let bias = rows(&joined.bias)?;
        mlx::eval(&[&words, &scales, &bias])?;
        let blocks = Blocks { words, scales, bias };
        blocks.experts(w, &format!("{module}.{part}"), [count, width, hidden])
    };
    let (gate, up) = (half("gate_proj", 0)?, half("up_proj", 1)?);
    let (name, shape) = (format!("{module}.down_proj"), [count, hidden, width]);
    let down = blocks(w, &name, shape)?.experts(w, &name, shape)?;
    Ok([gate, up, down])
}

/// A product's tensors as words (experts, out, words), scales (experts, out, groups), biases (experts, out).
struct Blocks {
    words: Array,
    scales: Array,
    bias: Array,
}

impl Blocks {
    fn experts(self, w: &Weights, module: &str, shape: [usize; 3]) -> Result<Experts> {
        let Self { words, scales, bias } = self;
        let parts = Parts { words, scales, biases: None };
        Ok(Experts::new(w.quantized(module, w.file(), parts, &shape)?, Some(bias)))
    }
}

/// Those of the product `name`, a stack of matrices (experts, out, in).
fn blocks(w: &mut Weights, name: &str, [count, out, inner]: [usize; 3]) -> Result<Blocks> {
    let groups = inner / FpMode::Mxfp4.group_size();
    let bytes = w.need_bytes(&format!("{name}_blocks"), &[count, out, groups, 16])?;
    let words = ops::view(&bytes, Dtype::Uint32)?;
    let words = ops::reshape(&words, &[count, out, 4 * groups].map(|d| d as isize))?;
    let scales = w.need_bytes(&format!("{name}_scales"), &[count, out, groups])?;
    let bias = w.need_floats(&format!("{name}_bias"), &[count, out])?;
    Ok(Blocks { words, scales, bias })
}

/// Rows `first`, `first + 2`, … of the second axis, in memory of their own.
fn every_second(array: &Array, first: isize) -> mlx::Result<Array> {
    let mut shape: Vec<isize> = array.shape().iter().map(|d| *d as isize).collect();
    let pairs = shape[1] / 2;
    shape.splice(1..2, [pairs, 2]);
    let rows = ops::slice_axis(&ops::reshape(array, &shape)?, 2, first, first + 1)?;
    ops::contiguous(&ops::squeeze(&rows, &[2])?, false)
}
