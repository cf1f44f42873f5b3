//! The attention of one token over a growing cache, with the norms and rotations of the new query and key, and the
//! cache's new rows.

use mlx_core::{
    Result,
    backend::Output,
    fusion::Group,
    primitives::{AttentionMask, Primitive},
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{
    Kernel,
    heads::{Cursor, Heads, Walk, angle, is_head_of_rows, rotates},
    products::dense,
};
use crate::{
    device::DeviceState,
    kernels::{
        Ctx, Operand, Region, attention,
        decode::{self, Attention, Projections, Token},
    },
    planners::attention::{self as planner, Decode, Sizes},
};

/// An attention with what comes before it, by places on the tape.
struct Found {
    attention: usize,
    /// The updates of the caches of keys and values.
    updates: [usize; 2],
    query: Heads,
    key: Heads,
    value: Cursor,
    scale: f32,
    sizes: Sizes,
    plan: Decode,
}

/// The group that ends with the attention at `place`.
pub(super) fn find(tape: &Tape, place: usize, device: &DeviceState) -> Option<Group> {
    let node = tape.node(place);
    let Primitive::ScaledDotProductAttention { scale, mask } = node.primitive else { return None };
    let config = device.config;
    if mask == AttentionMask::Array || !config.enable_fused_attention {
        return None;
    }
    let sizes = attention::sizes(&node.inputs);
    let plan = planner::decode(&sizes, device.capabilities(), config)?;
    let mut walk = Walk::new(tape, node.stream, node.inputs[0].dtype());
    walk.members.push(place);
    let query = walk.rotated((place, 0), sizes.heads, sizes.key_width)?;
    let keys = walk.update((place, 1), sizes.keys)?;
    let values = walk.update((place, 2), sizes.keys)?;
    // The new rows of a cache are the second input of its update.
    let key = walk.rotated((keys, 1), sizes.kv_heads, sizes.key_width)?;
    let value = walk.stripped((values, 1));
    let one = tape.node(query.rope).inputs[1].size() == 1;
    (keys != values && one && walk.agree(&query, &key)).then_some(())?;
    let members = walk.members;
    let updates = [keys, values];
    let found = Found { attention: place, updates, query, key, value, scale, sizes, plan };
    let kept = smallvec![place, keys, values];
    Some(Group { members, kept, fusion: Box::new(Kernel(found)) })
}

impl Walk<'_> {
    /// The rotated rows of `heads` heads of one token.
    fn rotated(&mut self, at: Cursor, heads: usize, width: usize) -> Option<Heads> {
        let at = self.stripped(at);
        let rope = self.pass(at, |node| {
            let x = &node.inputs[0];
            rotates(node, width)
                && (x.dim(0), x.dim(-2), x.dim(-1)) == (1, 1, width)
                && x.size() == heads * width
        })?;
        Some(self.normalized(rope, width))
    }

    /// The update of a cache at its `count`-th and last filled row, behind the view of what is filled unless all is.
    fn update(&mut self, at: Cursor, count: usize) -> Option<usize> {
        let view = self.pass(at, is_head_of_rows);
        let updated = view.map_or(at, |view| (view, 0));
        let (filled, place) = (self.array(at), self.tape.place(self.array(updated))?);
        let node = self.tape.node(place);
        let Primitive::SliceUpdate { start, strides } = &node.primitive else { return None };
        let (cache, rows) = (&node.inputs[0], &node.inputs[1]);
        let (heads, width) = (filled.dim(1), filled.dim(3));
        let whole = cache.shape() == [1, heads, cache.dim(2), width]
            && rows.shape() == [1, heads, 1, width]
            && start[..] == [0, 0, count as isize - 1, 0]
            && strides.iter().all(|&s| s == 1)
            && [cache, rows].iter().all(|a| a.dtype() == self.dtype)
            && node.stream == self.stream;
        whole.then(|| self.members.push(place))?;
        Some(place)
    }
}

impl super::Fused for Found {
    fn name(&self) -> usize {
        self.attention
    }

    fn counted(&self) -> &[usize] {
        std::slice::from_ref(&self.attention)
    }

    fn replaces(&self) -> u64 {
        let heads = |h: &Heads| 1 + u64::from(h.norm.is_some());
        1 + self.updates.len() as u64 + heads(&self.query) + heads(&self.key)
    }

    fn describe(&self, _: &Tape) -> String {
        let norm = if self.query.norm.is_some() { "norm " } else { "" };
        let Sizes { heads, kv_heads, key_width, .. } = self.sizes;
        format!("{norm}rope cache attention {heads}:{kv_heads}x{key_width}")
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let Some((projections, mut reads)) = self.projections(ctx, tape)? else { return Ok(false) };
        let caches = self.updates.map(|place| &tape.node(place).inputs[0]);
        let (stream, [result, outputs @ ..]) = (ctx.stream(), kept) else { return Ok(false) };
        if !caches.iter().all(|c| c.is_donatable(c.nbytes(), stream)) {
            return Ok(false);
        }
        let mut rows = [Operand::default(); 2];
        for ((row, cache), output) in rows.iter_mut().zip(caches).zip(outputs) {
            let Some(at) = ctx.donate(cache, output)?.filter(|at| at.is_aligned(16)) else {
                return Ok(false);
            };
            *row = at;
        }
        let to = attention::output(ctx, result)?;
        let (s, capacities) = (&self.sizes, caches.map(|c| c.dim(2)));
        let width = s.key_width as u32;
        let [keys, values] = capacities.map(|c| c as u32 * width);
        let attention = Attention {
            q: 0,
            keys: rows[0].address,
            values: rows[1].address,
            result: to.address,
            heads: s.heads as u32,
            kv_heads: s.kv_heads as u32,
            count: s.keys as u32,
            width,
            steps: [keys, width, values, width],
            scale: self.scale,
            dtype: tape.array(self.attention).dtype() as u32,
        };
        reads.extend(rows.map(|row| row.region));
        let writes = [to.region, rows[0].region, rows[1].region];
        let token = Token { plan: self.plan, sizes: self.sizes, attention, projections };
        decode::encode_token(ctx, &token, &reads, &writes)?;
        Ok(true)
    }
}

impl Found {
    /// Where the new token's heads are, if all of them lie as the kernel needs them.
    fn projections(
        &self,
        ctx: &mut Ctx<'_>,
        tape: &Tape,
    ) -> Result<Option<(Projections, SmallVec<[Region; 12]>)>> {
        let input = |(place, input): Cursor| &tape.node(place).inputs[input];
        let sources = [self.query.from, self.key.from, self.value].map(input);
        let mut reads: SmallVec<[Region; 12]> = SmallVec::new();
        let mut at = [0; 3];
        for (address, source) in at.iter_mut().zip(sources) {
            let Some(operand) = dense(ctx, source)? else { return Ok(None) };
            reads.push(operand.region);
            *address = operand.address;
        }
        let norms = match (self.query.norm, self.key.norm) {
            (Some(q), Some(k)) => {
                let mut weights = [0; 2];
                for (weight, place) in weights.iter_mut().zip([q, k]) {
                    let Some(operand) = dense(ctx, input((place, 1)))? else { return Ok(None) };
                    reads.push(operand.region);
                    *weight = operand.address;
                }
                let Primitive::RmsNorm { eps } = tape.node(q).primitive else { return Ok(None) };
                Some((weights, eps))
            }
            _ => None,
        };
        let Some(angle) = angle(ctx, tape.node(self.query.rope), &mut reads)? else {
            return Ok(None);
        };
        let [q, key, value] = at;
        Ok(Some((Projections { q, key, value, norms, angle }, reads)))
    }
}
