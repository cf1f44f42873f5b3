//! Norms, rotations and cache writes of many tokens before their attention, in one
//! kernel (`attention/heads.comp`).

use mlx_vulkan_core::{
    Result,
    backend::Output,
    fusion::Group,
    graph::Node,
    primitives::{NormOp, Primitive, ShapeOp},
    tape::Tape,
};
use smallvec::SmallVec;

use super::{
    Grouped,
    heads::{Cursor, Heads, Walk, angle, input, is_head_of_rows, rotates},
    operands::dense,
};
use crate::{
    kernels::{
        Ctx, Operand, Region,
        attention::heads::{self, Section, Sections},
        copy,
    },
    runtime::device::DeviceState,
};

/// Where heads go.
#[derive(Clone, Copy)]
enum Target {
    /// Results of their own: (batches, heads, tokens, features).
    Own,
    /// Rows of a cache, from this one on.
    Cache(usize),
}

/// Heads of queries, keys or values, by places on the tape.
struct Part {
    /// The projection, (batches, tokens, heads, features) in this order.
    from: Cursor,
    /// The node whose result they are.
    result: usize,
    target: Target,
    rotated: Option<Heads>,
}

/// The heads of an attention, queries first.
struct Found {
    parts: SmallVec<[Part; 3]>,
    width: usize,
    tokens: usize,
    batches: usize,
}

/// The group before the attention at `place`.
pub(super) fn find(tape: &Tape, place: usize, device: &DeviceState) -> Option<Group> {
    let node = tape.node(place);
    let query = &node.inputs[0];
    let (caps, dtype) = (device.capabilities(), query.dtype());
    let [batches, _, tokens, width] = [0, 1, 2, 3].map(|axis| query.dim(axis));
    let serves = device.config.enable_fused_heads && heads::serves(width, dtype, caps);
    if !serves || tokens < 2 || query.size() >= 1 << 31 {
        return None;
    }
    let mut walk = Walk::new(tape, node.stream, dtype);
    let query = walk.own((place, 0), tokens, width)?;
    let key = walk
        .attempt(|walk| walk.cached((place, 1), tokens, width))
        .or_else(|| walk.own((place, 1), tokens, width))?;
    let value = walk.attempt(|walk| walk.cached((place, 2), tokens, width));
    let (Some(q), Some(k)) = (&query.rotated, &key.rotated) else { return None };
    let plain = value.as_ref().is_none_or(|v| v.rotated.is_none() && v.result != key.result);
    let same = walk.agree(q, k) && tape.node(q.rope).inputs[1].size() == 1;
    (plain && same && q.rope != k.rope).then_some(())?;
    let parts: SmallVec<[Part; 3]> =
        [Some(query), Some(key), value].into_iter().flatten().collect();
    let kept = parts.iter().map(|part| part.result).collect();
    let members = walk.members;
    let found = Found { parts, width, tokens, batches };
    Some(Group { members, kept, fusion: Box::new(Grouped(found)) })
}

impl Walk<'_> {
    /// The node that makes `at`, which the group makes instead.
    fn result(&mut self, at: Cursor, is: impl Fn(&Node) -> bool) -> Option<usize> {
        let place = self.place(at)?;
        let node = self.tape.node(place);
        (node.stream == self.stream && is(node)).then(|| self.members.push(place))?;
        Some(place)
    }

    /// Rotated heads, (batches, heads, tokens, features).
    fn own(&mut self, at: Cursor, tokens: usize, width: usize) -> Option<Part> {
        let dtype = self.dtype;
        let rope = self.result(at, |node| {
            let x = &node.inputs[0];
            rotates(node, width) && x.ndim() == 4 && (x.dim(2), x.dtype()) == (tokens, dtype)
        })?;
        let heads = self.turned(rope, width)?;
        let (from, result, target) = (heads.from, rope, Target::Own);
        Some(Part { from, result, target, rotated: Some(heads) })
    }

    /// The heads that `rope` rotates, behind the exchange of heads and tokens.
    fn turned(&mut self, rope: usize, width: usize) -> Option<Heads> {
        let exchanged = self.exchanged((rope, 0))?;
        Some(Heads { rope, ..self.normalized(exchanged, width) })
    }

    /// The node that makes (batches, heads, tokens, features) of (batches, tokens, heads, features).
    fn exchanged(&mut self, at: Cursor) -> Option<usize> {
        self.pass(at, |node| match &node.primitive {
            Primitive::Shape(ShapeOp::Transpose { axes }) => axes[..] == [0, 2, 1, 3],
            _ => false,
        })
    }

    /// The update of a cache by all tokens, with what comes before its rows.
    fn cached(&mut self, at: Cursor, tokens: usize, width: usize) -> Option<Part> {
        // The view of what is filled is nobody's work.
        let view = self.place(at).filter(|&v| is_head_of_rows(self.tape.node(v)));
        let dtype = self.dtype;
        let place = self.result(view.map_or(at, |view| (view, 0)), |node| {
            let [cache, rows, ..] = &node.inputs[..] else { return false };
            let Primitive::Shape(ShapeOp::SliceUpdate { start, strides }) = &node.primitive else {
                return false;
            };
            let [a, b] =
                [cache, rows].map(|x| (x.ndim() == 4).then(|| (x.dim(0), x.dim(1), x.dim(3))));
            a.is_some()
                && a == b
                && (rows.dim(2), rows.dim(3)) == (tokens, width)
                && (start[0], start[1], start[3]) == (0, 0, 0)
                && strides.iter().all(|&s| s == 1)
                && [cache, rows].iter().all(|x| x.dtype() == dtype)
        })?;
        let Primitive::Shape(ShapeOp::SliceUpdate { start, .. }) = &self.tape.node(place).primitive
        else {
            return None;
        };
        let (to, rows) = (Target::Cache(start[2] as usize), (place, 1));
        let rope = self.pass(rows, |node| rotates(node, width));
        if let Some(rope) = rope {
            let heads = self.turned(rope, width)?;
            return Some(Part {
                from: heads.from,
                result: place,
                target: to,
                rotated: Some(heads),
            });
        }
        let exchanged = self.exchanged(rows)?;
        let from = self.stripped((exchanged, 0));
        Some(Part { from, result: place, target: to, rotated: None })
    }
}

impl super::GroupKernel for Found {
    fn name(&self) -> usize {
        self.parts[0].result
    }

    fn counted(&self) -> &[usize] {
        &[]
    }

    fn replaces(&self) -> u64 {
        let operations = |part: &Part| {
            let heads = part.rotated.as_ref().map_or(0, Heads::operations);
            heads + u64::from(matches!(part.target, Target::Cache(_)))
        };
        self.parts.iter().map(operations).sum()
    }

    fn describe(&self, tape: &Tape) -> String {
        let heads: SmallVec<[usize; 3]> =
            self.parts.iter().map(|part| tape.array(part.result).dim(1)).collect();
        format!("rope cache {}x{heads:?}x{}", self.tokens, self.width)
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let mut reads: SmallVec<[Region; 12]> = SmallVec::new();
        let Some(rotated) = self.parts.iter().find_map(|part| part.rotated.as_ref()) else {
            return Ok(false);
        };
        let Some(angle) = angle(ctx, tape.node(rotated.rope), &mut reads)? else {
            return Ok(false);
        };
        let mut sections: SmallVec<[Section; 3]> = SmallVec::new();
        for part in &self.parts {
            let Some(section) = part.source(ctx, tape, &mut reads)? else { return Ok(false) };
            sections.push(section);
        }
        let mut writes: SmallVec<[Region; 3]> = SmallVec::new();
        for ((part, section), output) in self.parts.iter().zip(&mut sections).zip(kept) {
            let at = part.destination(ctx, tape, output)?;
            section.goes_to(at.address, [output.shape[1], output.shape[2], self.width]);
            writes.push(at.region);
        }
        let eps = rotated.norm.map(|norm| match tape.node(norm).primitive {
            Primitive::Norm(NormOp::RmsNorm { eps }) => eps.0,
            _ => 0.0,
        });
        let dtype = tape.array(self.parts[0].result).dtype();
        let sizes = [self.tokens, self.batches, self.width];
        heads::encode(ctx, &Sections { sections, angle, eps, dtype, sizes }, &reads, &writes)?;
        Ok(true)
    }
}

impl Part {
    /// Where the heads come from, if they lie as the kernel needs them.
    fn source(
        &self,
        ctx: &mut Ctx<'_>,
        tape: &Tape,
        reads: &mut SmallVec<[Region; 12]>,
    ) -> Result<Option<Section>> {
        let Some(from) = dense(ctx, input(tape, self.from))? else { return Ok(None) };
        reads.push(from.region);
        let weight = match self.rotated.as_ref().and_then(|heads| heads.norm) {
            Some(norm) => {
                let Some(weight) = dense(ctx, input(tape, (norm, 1)))? else { return Ok(None) };
                reads.push(weight.region);
                weight.address
            }
            None => 0,
        };
        let heads = tape.array(self.result).dim(1);
        Ok(Some(Section::new(from.address, weight, heads, self.rotated.is_some())))
    }

    /// Where the first token's first head goes, and all that may be written.
    fn destination(&self, ctx: &mut Ctx<'_>, tape: &Tape, output: &mut Output) -> Result<Operand> {
        let Target::Cache(row) = self.target else { return ctx.output(output) };
        let cache = &tape.node(self.result).inputs[0];
        let to = copy::updated(ctx, cache, output)?;
        let bytes = (row * cache.dim(3) * cache.dtype().size()) as u64;
        Ok(Operand { address: to.address + bytes, ..to })
    }
}
