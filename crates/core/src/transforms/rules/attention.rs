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
        if self.sinks {
            return composed::vjp(node, cotangents, wanted, |inputs| one(self.keyed(inputs)?));
        }
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
        if self.split(axes).1.is_some_and(Option::is_some) {
            return composed::vmap(inputs, axes, |inputs| one(self.keyed(inputs)?));
        }
        let shares_keys = axes[1..3].iter().all(Option::is_none);
        match self.mask {
            AttentionMask::None | AttentionMask::Array if shares_keys => self.of_rows(inputs, axes),
            AttentionMask::None | AttentionMask::Causal | AttentionMask::Array => {
                let (of_batch, sinks) = self.split(inputs);
                of_batches(*self, of_batch, &axes[..of_batch.len()], sinks)
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
        of_batches(*self, inputs, axes, None)
    }
}

/// A primitive on batches of heads for every index of the mapped axes: these are more batches. The last input
/// is one that all of them `share`, if there is such.
pub(super) fn of_batches(
    op: impl Into<Primitive>,
    inputs: &[Array],
    axes: &[Option<usize>],
    shared: Option<&Array>,
) -> Result<Mapped> {
    let aligned = mapping::all_to_front(inputs, axes)?;
    let sizes = [aligned[0].dim(0) as isize, aligned[0].dim(1) as isize];
    let batches = aligned.iter().map(|a| ops::flatten(a, 0, 1));
    let batches = batches.chain(shared.cloned().map(Ok));
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
        for i in (0..self.split(inputs).0.len()).filter(|i| !(1..3).contains(i)) {
            all[i] = rows((&inputs[i], &axes[i]))?;
        }
        let sizes = [count as isize, (all[0].dim(2) / count.max(1)) as isize];
        let output = ops::node(*self, all)?;
        Mapped::one(ops::unflatten(&output, 2, &sizes)?, 2)
    }

    /// The same without sinks: a sink is a key of zeros with a value of zeros, whose score is its element of
    /// a mask that is added.
    fn without_sinks(&self, inputs: &[Array]) -> Result<(Attention, Inputs)> {
        let (attended, Some(sinks)) = self.split(inputs) else {
            return Ok((*self, inputs.into()));
        };
        let with_zero = |a: &Array| {
            let zero = ops::zeros(&[a.dim(0), a.dim(1), 1, a.dim(3)], a.dtype())?;
            ops::concatenate(&[a, &zero], 2)
        };
        let (q, k, v) = (&attended[0], with_zero(&attended[1])?, with_zero(&attended[2])?);
        let [batches, heads, rows] = [0, 1, 2].map(|axis| q.dim(axis));
        let seen = self.mask.additive([batches, heads, rows, attended[1].dim(2)], attended)?;
        let sinks = ops::reshape(sinks, &[1, -1, 1, 1])?;
        let sinks = ops::broadcast_to(&sinks, &[batches, heads, rows, 1])?;
        let mask = ops::concatenate(&[&seen, &sinks], 3)?;
        let attention = Attention { mask: AttentionMask::Array, sinks: false, ..*self };
        Ok((attention, [q.clone(), k, v, mask].into()))
    }

    /// Attention whose sinks are keys.
    fn keyed(&self, inputs: &[Array]) -> Result<Array> {
        let (attention, inputs) = self.without_sinks(inputs)?;
        ops::node(attention, inputs)
    }

    /// Attention as a composition, at least in float32.
    pub(crate) fn composed(&self, inputs: &[Array]) -> Result<Array> {
        if self.sinks {
            let (attention, inputs) = self.without_sinks(inputs)?;
            return attention.composed(&inputs);
        }
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

    /// The mask as numbers that are added to scores of this shape. What is hidden has no share then, also
    /// where nothing is seen.
    fn additive(self, scores: [usize; 4], inputs: &[Array]) -> Result<Array> {
        let dtype = inputs[0].dtype();
        let seen = match self {
            AttentionMask::None => return ops::zeros(&scores, dtype),
            AttentionMask::Array if inputs[3].dtype() != Dtype::Bool => {
                return Ok(inputs[3].clone());
            }
            AttentionMask::Array => inputs[3].clone(),
            AttentionMask::Causal => causal(scores[2], scores[3])?,
        };
        let hidden = Array::scalar_of(f64::NEG_INFINITY, dtype)?;
        let added = ops::where_(&seen, &Array::scalar_of(0.0, dtype)?, &hidden)?;
        ops::broadcast_to(&added, &scores)
    }

    /// Which of the scores count, if the mask says that.
    fn visible(self, scores: &Array, inputs: &[Array]) -> Result<Option<Array>> {
        match self {
            AttentionMask::Causal => causal(scores.dim(2), scores.dim(3)).map(Some),
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

/// Which keys the last `rows` tokens see: those up to their own.
fn causal(rows: usize, keys: usize) -> Result<Array> {
    ops::tri(rows, keys, keys as isize - rows as isize, Dtype::Bool)
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
