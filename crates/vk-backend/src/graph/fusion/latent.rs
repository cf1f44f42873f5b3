//! Latent attention of one token (DeepSeek-V2 and models after it), as mlx-lm writes it: an attention over
//! latent features that are keys and values, with a mask that is the product of rotated queries and keys; and
//! before these the norm, the rotations and the new rows of both caches (`attention/latent.comp`).

use mlx_vulkan_core::{
    Array, Result,
    backend::Output,
    fusion::Group,
    primitives::{AttentionMask, BinaryOp, MatmulOp, NormOp, Primitive, ShapeOp},
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{
    Grouped,
    bias::repeats,
    gate::{constant_beside, does},
    heads::{Cursor, Heads, Update, Walk, angle, caches_in_place, head_stride, input, is_rope},
    inner, norms,
    operands::dense,
};
use crate::{
    kernels::{
        Ctx, Region,
        attention::{self, latent},
    },
    runtime::device::DeviceState,
};

/// The attention with what comes before it, by places on the tape.
struct Found {
    attention: usize,
    /// The norm of the new key's latent part, and the rotations of queries and of the other part.
    norm: usize,
    query: Heads,
    key: Heads,
    /// The updates of the caches of latent features and of those with positions.
    updates: [usize; 2],
    scales: [f32; 2],
}

/// The group that ends with the attention at `place`.
pub(super) fn find(tape: &Tape, place: usize, device: &DeviceState) -> Option<Group> {
    let node = tape.node(place);
    let Primitive::Attention(attention) = node.primitive else { return None };
    let [queries, keys, values, scores] = &node.inputs[..] else { return None };
    let (dtype, caps) = (queries.dtype(), device.capabilities());
    let &[1, heads, 1, latent] = queries.shape() else { return None };
    let count = keys.dim(2);
    let is_latent = device.config.enable_fused_attention
        && attention.mask == AttentionMask::Array
        && !attention.sinks
        && keys.is_same(values)
        && keys.shape() == [1, 1, count, latent]
        && scores.shape() == [1, heads, 1, count]
        && [keys, scores].iter().all(|array| array.dtype() == dtype);
    is_latent.then_some(())?;
    let mut walk = Walk::new(tape, node.stream, dtype);
    walk.members.push(place);
    let latents = walk.update((place, 1), [1, count], dtype, 2)?;
    let at = walk.stripped((latents.place, 1));
    let norm = walk.pass(at, |node| {
        matches!(node.primitive, Primitive::Norm(NormOp::RmsNorm { .. }))
            && node.inputs.iter().all(|input| input.dtype() == dtype)
            && (node.inputs[0].dim(-1), node.inputs[1].ndim()) == (latent, 1)
    })?;
    let Positions { query, key, update, scale } = walk.positions((place, 3), [heads, count])?;
    let rotated = tape.array(update.place).dim(3);
    let sizes = [(norm, latent), (key.rope, rotated), (query.rope, heads * rotated)];
    let fits = latent::serves([latent, rotated], dtype, caps)
        && sizes.iter().all(|&(place, size)| tape.array(place).size() == size)
        && latents.place != update.place
        && [latents.first, update.first] == [0, 0]
        && tape.node(query.rope).inputs[1].size() == 1
        && walk.agree(&query, &key);
    fits.then_some(())?;
    let members = walk.members;
    let updates = [latents.place, update.place];
    let scales = [attention.scale.0, scale];
    let found = Found { attention: place, norm, query, key, updates, scales };
    let kept = smallvec![place, updates[0], updates[1]];
    Some(Group { members, kept, fusion: Box::new(Grouped(found)) })
}

/// What of scores comes from features with positions.
struct Positions {
    query: Heads,
    key: Heads,
    update: Update,
    scale: f32,
}

impl Walk<'_> {
    /// The product of rotated queries, which are scaled, and of the rows of a cache of rotated keys.
    fn positions(&mut self, at: Cursor, [heads, count]: [usize; 2]) -> Option<Positions> {
        let product = self.pass(at, |node| {
            let [queries, keys] = &node.inputs[..] else { return false };
            node.primitive == Primitive::Matmul(MatmulOp::Matmul)
                && queries.shape()[..3] == [1, heads, 1]
                && keys.dim(-1) == count
        })?;
        let scaled = self.pass((product, 0), does(BinaryOp::Multiply))?;
        let (scale, other) = constant_beside(self.tape, scaled)?;
        let query = self.unnormalized((scaled, other))?;
        let mut keys = (product, 1);
        let mut turned = false;
        while let Some(view) = inner(self.tape, keys, 1, self.stream) {
            let turns = turns(self.tape, view);
            if turns && turned || !turns && !repeats(self.tape, view) {
                break;
            }
            turned |= turns;
            self.members.push(view);
            keys = (view, 0);
        }
        let rows = [1, 1, count, self.array((scaled, other)).dim(-1)];
        (turned && self.array(keys).shape() == rows).then_some(())?;
        let update = self.update(keys, [1, count], self.dtype, 1)?;
        let key = self.unnormalized((update.place, 1))?;
        Some(Positions { query, key, update, scale })
    }

    /// Heads that are rotated whole, without a norm before that.
    fn unnormalized(&mut self, at: Cursor) -> Option<Heads> {
        let at = self.stripped(at);
        let rope = self.pass(at, is_rope)?;
        let Primitive::Rope(primitive) = &self.tape.node(rope).primitive else { return None };
        let from = self.stripped((rope, 0));
        // One position for all heads.
        let x = self.array((rope, 0));
        let whole = (x.dim(0), x.dim(-2), x.dim(-1)) == (1, 1, primitive.dims);
        let (norm, dtype) = (None, self.array(from).dtype());
        (whole && dtype == self.dtype).then_some(Heads { rope, norm, from })
    }
}

/// Whether a node exchanges the last two of four axes.
fn turns(tape: &Tape, view: usize) -> bool {
    matches!(&tape.node(view).primitive,
        Primitive::Shape(ShapeOp::Transpose { axes }) if axes[..] == [0, 1, 3, 2])
}

/// The address of an array that is one row of neighbours, with what is read.
fn row(ctx: &mut Ctx<'_>, array: &Array, reads: &mut impl Extend<Region>) -> Result<Option<u64>> {
    let layout = &array.evaluated().layout;
    let mut axes = array.shape().iter().zip(&layout.strides);
    let is_row = axes.all(|(&size, &stride)| size == 1 || (size, stride) == (array.size(), 1));
    if !is_row {
        return Ok(None);
    }
    let at = ctx.input(array)?;
    reads.extend([at.region]);
    Ok(Some(at.address))
}

impl super::GroupKernel for Found {
    fn name(&self) -> usize {
        self.attention
    }

    fn counted(&self) -> &[usize] {
        std::slice::from_ref(&self.attention)
    }

    fn replaces(&self) -> u64 {
        // The attention, the norm, two rotations, two rows, the product and its scale.
        8
    }

    fn describe(&self, tape: &Tape) -> String {
        let (queries, rotated) = (tape.array(self.attention), tape.array(self.key.rope).dim(-1));
        format!("latent attention {}x{}+{rotated}", queries.dim(1), queries.dim(3))
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let node = tape.node(self.attention);
        let mut reads: SmallVec<[Region; 12]> = SmallVec::new();
        let Some(queries) = dense(ctx, &node.inputs[0])? else { return Ok(false) };
        reads.push(queries.region);
        let rotated = tape.array(self.key.rope).dim(-1);
        let source = input(tape, self.query.from);
        let Some(query_head) = head_stride(source, rotated) else { return Ok(false) };
        let rotated_queries = ctx.input(source)?;
        reads.push(rotated_queries.region);
        let latent = row(ctx, input(tape, (self.norm, 0)), &mut reads)?;
        let other = row(ctx, input(tape, self.key.from), &mut reads)?;
        let (Some(latent), Some(other)) = (latent, other) else { return Ok(false) };
        let Some(norm) = norms::operand(ctx, tape.node(self.norm), &mut reads)? else {
            return Ok(false);
        };
        let Some(angle) = angle(ctx, tape.node(self.query.rope), &mut reads)? else {
            return Ok(false);
        };
        let [result, updated @ ..] = kept else { return Ok(false) };
        let Some(caches) = caches_in_place(ctx, tape, self.updates, updated)? else {
            return Ok(false);
        };
        let to = attention::output(ctx, result)?;
        reads.extend(caches.map(|cache| cache.region));
        let (heads, width) = (node.inputs[0].dim(1), node.inputs[0].dim(3));
        let attention = latent::Latent {
            queries: [queries.address, rotated_queries.address],
            query_head,
            key: [latent, other],
            weight: norm.weight,
            eps: norm.eps,
            angle,
            caches: caches.map(|cache| cache.address),
            result: to.address,
            heads: heads as u32,
            count: node.inputs[1].dim(2) as u32,
            widths: [width, rotated].map(|width| width as u32),
            scales: self.scales,
            dtype: node.inputs[0].dtype(),
        };
        let writes = [to.region, caches[0].region, caches[1].region];
        latent::encode(ctx, &attention, &reads, &writes)?;
        Ok(true)
    }
}
