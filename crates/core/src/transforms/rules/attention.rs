//! Softmax attention, by what it could be composed of.

use super::{Applied, Mapped, Outputs, Rules, composed, mapping, one};
use crate::{
    Array, Dtype, Result,
    dtype::finfo,
    graph::{self, Inputs},
    ops,
    primitives::{Attention, AttentionMask, AttentionVjp, Primitive},
};

/// Scores up to which derivatives of halves are computed in float32.
const FEW_SCORES: usize = 1 << 20;

impl Rules for Attention {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let derivatives = AttentionVjp { scale: self.scale, mask: self.mask };
        let inputs = self.along(node, &cotangents[0])?;
        let is_bool = |i: usize| node.inputs[i].dtype() == Dtype::Bool;
        // Changes of an additive mask are as many as scores.
        let outputs = match wanted.iter().any(|&i| i == 3 && !is_bool(i)) {
            true => derivatives.composed(&inputs, &[0, 1, 2, 3])?.into_vec(),
            false => graph::apply(derivatives.into(), inputs)?.into_vec(),
        };
        let derivative = |&i: &usize| match outputs.get(i) {
            Some(output) => ops::astype(output, node.inputs[i].dtype()),
            None => ops::zeros_like(&node.inputs[i]),
        };
        wanted.iter().map(derivative).collect()
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        composed::jvp(node, tangents, |inputs| one(self.composed(inputs)?))
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let shares_keys = axes[1..3].iter().all(Option::is_none);
        match self.mask {
            AttentionMask::None | AttentionMask::Array if shares_keys => self.of_rows(inputs, axes),
            AttentionMask::None | AttentionMask::Causal | AttentionMask::Array => {
                of_batches(*self, inputs, axes)
            }
        }
    }
}

impl Rules for AttentionVjp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        composed::vjp(node, cotangents, wanted, |inputs| self.derivatives(inputs))
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        composed::jvp(node, tangents, |inputs| self.derivatives(inputs))
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        of_batches(*self, inputs, axes)
    }
}

/// A primitive on batches of heads for every index of the mapped axes: these are more batches.
fn of_batches(
    op: impl Into<Primitive>,
    inputs: &[Array],
    axes: &[Option<usize>],
) -> Result<Mapped> {
    let aligned = mapping::all_to_front(inputs, axes)?;
    let sizes = [aligned[0].dim(0) as isize, aligned[0].dim(1) as isize];
    let batches = aligned.iter().map(|a| ops::flatten(a, 0, 1));
    let outputs = graph::apply(op.into(), batches.collect::<Result<Inputs>>()?)?;
    let outputs = outputs.iter().map(|output| ops::unflatten(output, 0, &sizes));
    Mapped::all(outputs.collect::<Result<_>>()?, 0)
}

impl Attention {
    /// Inputs of the derivatives along a cotangent. Of few scores these are computed in float32, with an
    /// output that was not rounded: from what comes from above its product with the output is taken off.
    fn along(&self, node: &Applied<'_>, cotangent: &Array) -> Result<Inputs> {
        let dtype = node.inputs[0].dtype();
        let wide = dtype.promote(Dtype::Float32);
        let is_few = Rows::new(&node.inputs[0], &node.inputs[1]).scores() <= FEW_SCORES;
        if wide == dtype || !is_few {
            let all = node.inputs.iter().chain([&node.outputs[0], cotangent]);
            return Ok(all.cloned().collect());
        }
        let widened = |a: &Array| match a.dtype() {
            Dtype::Bool => Ok(a.clone()),
            _ => ops::astype(a, wide),
        };
        let mut all = node.inputs.iter().map(widened).collect::<Result<Inputs>>()?;
        all.push(ops::node(*self, all.clone())?);
        all.push(widened(cotangent)?);
        Ok(all)
    }

    /// Attention on the same keys and values for every index, whose queries become rows of one.
    fn of_rows(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let count = mapping::size(inputs, axes);
        let rows = |(a, axis): (&Array, &Option<usize>)| {
            let aligned = match *axis {
                Some(axis) => ops::moveaxis(a, axis as isize, 2),
                None => mapping::repeated(a, 2, count),
            };
            ops::flatten(&aligned?, 2, 3)
        };
        let mut all: Inputs = inputs.into();
        for i in (0..inputs.len()).filter(|i| !(1..3).contains(i)) {
            all[i] = rows((&inputs[i], &axes[i]))?;
        }
        let sizes = [count as isize, (all[0].dim(2) / count.max(1)) as isize];
        let output = ops::node(*self, all)?;
        Mapped::one(ops::unflatten(&output, 2, &sizes)?, 2)
    }

    /// Attention as a composition, at least in float32.
    pub(crate) fn composed(&self, inputs: &[Array]) -> Result<Array> {
        let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
        let dtype = q.dtype();
        let wide = if dtype == Dtype::Float64 { dtype } else { Dtype::Float32 };
        let widened = |a: &Array| ops::astype(a, wide);
        let rows = Rows::new(q, k);
        let queries = rows.join(&ops::multiply(&widened(q)?, f64::from(self.scale.0))?)?;
        let scores = ops::matmul(&queries, &ops::swapaxes(&widened(k)?, -1, -2)?)?;
        let scores = self.mask.applied(&rows.part(&scores)?, inputs)?;
        let weights = rows.join(&ops::softmax(&scores, &[-1], true)?)?;
        let output = rows.part(&ops::matmul(&weights, &widened(v)?)?)?;
        ops::astype(&output, dtype)
    }
}

/// The derivatives.
impl AttentionVjp {
    /// What they are composed of; inputs and outputs are the primitive's.
    pub(crate) fn derivatives(&self, inputs: &[Array]) -> Result<Outputs> {
        Ok(self.composed(inputs, &[0, 1, 2])?.into_iter().collect())
    }

    /// Those by the `wanted` of the attention's inputs, which may be a mask that is no bool.
    ///
    /// Scores of halves are kept in float32 where they are few. Where they are many, memory bounds all of
    /// this; they are halves then, as upstream's are.
    fn composed(&self, inputs: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let [primals @ .., output, cotangent] = inputs else { unreachable!("both are there") };
        let rows = Rows::new(&primals[0], &primals[1]);
        let dtype = primals[0].dtype();
        let wide = dtype.promote(Dtype::Float32);
        let kept = if rows.scores() <= FEW_SCORES { wide } else { dtype };
        let scale = f64::from(self.scale.0);
        let as_kept = |a: &Array| ops::astype(a, kept);
        let widened = |a: &Array| ops::astype(a, wide);
        let (k, v) = (as_kept(&primals[1])?, as_kept(&primals[2])?);
        let queries = rows.join(&ops::multiply(&as_kept(&primals[0])?, scale)?)?;
        let scores = ops::matmul(&queries, &ops::swapaxes(&k, -1, -2)?)?;
        let scores = self.mask.applied(&rows.part(&scores)?, primals)?;
        let weights = rows.join(&ops::softmax(&scores, &[-1], true)?)?;
        let upward = rows.join(&as_kept(cotangent)?)?;
        let changes = widened(&ops::matmul(&upward, &ops::swapaxes(&v, -1, -2)?)?)?;
        let along = ops::multiply(&widened(cotangent)?, &widened(output)?)?;
        let mean = ops::sum(&rows.join(&along)?, &[-1], true)?;
        let changes = ops::multiply(&widened(&weights)?, &ops::subtract(&changes, &mean)?)?;
        let changes = rows.part(&ops::astype(&changes, kept)?)?;
        let changes = rows.join(&self.mask.visible_alone(&changes, primals)?)?;
        let derivative = |&i: &usize| {
            let derivative = match i {
                0 => rows.part(&ops::multiply(&ops::matmul(&changes, &k)?, scale)?)?,
                1 => ops::matmul(&ops::swapaxes(&changes, -1, -2)?, &queries)?,
                2 => ops::matmul(&ops::swapaxes(&weights, -1, -2)?, &upward)?,
                _ => rows.part(&changes)?,
            };
            ops::astype(&derivative, dtype)
        };
        wanted.iter().map(derivative).collect()
    }
}

impl AttentionMask {
    /// The scores with the mask: what it hides has the lowest score of the result's dtype. `inputs` are the
    /// attention's.
    fn applied(self, scores: &Array, inputs: &[Array]) -> Result<Array> {
        match self.visible(scores, inputs)? {
            Some(visible) => ops::where_(&visible, scores, finfo(inputs[0].dtype())?.min),
            None if self == AttentionMask::Array => {
                ops::add(scores, &ops::astype(&inputs[3], scores.dtype())?)
            }
            None => Ok(scores.clone()),
        }
    }

    /// Which of the scores count, if the mask says that.
    fn visible(self, scores: &Array, inputs: &[Array]) -> Result<Option<Array>> {
        match self {
            AttentionMask::Causal => {
                let (rows, keys) = (scores.dim(2), scores.dim(3));
                ops::tri(rows, keys, keys as isize - rows as isize, Dtype::Bool).map(Some)
            }
            AttentionMask::Array if inputs[3].dtype() == Dtype::Bool => Ok(Some(inputs[3].clone())),
            AttentionMask::None | AttentionMask::Array => Ok(None),
        }
    }

    /// What scores change by, where they count. Only rows that see no key have weights elsewhere.
    fn visible_alone(self, changes: &Array, inputs: &[Array]) -> Result<Array> {
        let (rows, keys) = (changes.dim(2), changes.dim(3));
        match self {
            AttentionMask::Causal if rows <= keys => Ok(changes.clone()),
            AttentionMask::None => Ok(changes.clone()),
            AttentionMask::Array if inputs[3].dtype() != Dtype::Bool => Ok(changes.clone()),
            AttentionMask::Causal | AttentionMask::Array => {
                let visible = self.visible(changes, inputs)?.expect("there is such a mask");
                ops::where_(&visible, changes, 0.0)
            }
        }
    }
}

/// Rows of query heads that share keys, which are rows of one product.
struct Rows {
    batch: isize,
    heads: isize,
    kv_heads: isize,
    /// Rows of one head.
    count: isize,
    keys: isize,
}

impl Rows {
    fn new(queries: &Array, keys: &Array) -> Self {
        let [batch, heads, count] = [0, 1, 2].map(|axis| queries.dim(axis) as isize);
        let [kv_heads, keys] = [1, 2].map(|axis| keys.dim(axis) as isize);
        Rows { batch, heads, kv_heads, count, keys }
    }

    /// How many scores there are.
    fn scores(&self) -> usize {
        [self.heads, self.count, self.keys]
            .into_iter()
            .fold(self.batch as usize, |all, size| all.saturating_mul(size as usize))
    }

    /// From (batch, heads, count, width) to (batch, kv heads, rows, width).
    fn join(&self, a: &Array) -> Result<Array> {
        let rows = self.heads / self.kv_heads * self.count;
        ops::reshape(a, &[self.batch, self.kv_heads, rows, a.dim(-1) as isize])
    }

    /// Undoes [`Rows::join`].
    fn part(&self, a: &Array) -> Result<Array> {
        ops::reshape(a, &[self.batch, self.heads, self.count, a.dim(-1) as isize])
    }
}
