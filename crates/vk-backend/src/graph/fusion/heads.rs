//! Heads on their way from projections to an attention, with norms and rotations: found
//! by following inputs up the tape.

use mlx_vulkan_core::{
    Array, Dtype, Result, Stream,
    backend::Output,
    graph::Node,
    primitives::{NormOp, Primitive, Rope, ShapeOp},
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{inner, operands::dense};
use crate::kernels::{
    Ctx, Operand, Region,
    attention::decode::{Angle, Projections},
    rope,
};

/// An input of a node: the node's place and the input's number.
pub(super) type Cursor = (usize, usize);

/// The input at a cursor.
pub(super) fn input(tape: &Tape, (place, input): Cursor) -> &Array {
    &tape.node(place).inputs[input]
}

/// Heads before an attention: rotated, normalized before that or not.
pub(super) struct Heads {
    pub(super) rope: usize,
    pub(super) norm: Option<usize>,
    pub(super) from: Cursor,
}

/// One token's query, its key and its value.
pub(super) struct TokenHeads {
    query: Heads,
    key: Heads,
    value: Cursor,
}

/// A cache with a new last row.
pub(super) struct Update {
    pub(super) place: usize,
    /// The first row that is seen: of a layer with a window, later ones than the cache's first.
    pub(super) first: usize,
}

/// Follows inputs up the tape and collects what it passes.
pub(super) struct Walk<'a> {
    pub(super) tape: &'a Tape,
    pub(super) stream: Stream,
    pub(super) members: SmallVec<[usize; 16]>,
    pub(super) dtype: Dtype,
}

impl<'a> Walk<'a> {
    pub(super) fn new(tape: &'a Tape, stream: Stream, dtype: Dtype) -> Self {
        Walk { tape, stream, members: SmallVec::new(), dtype }
    }

    pub(super) fn array(&self, at: Cursor) -> &'a Array {
        input(self.tape, at)
    }

    /// The place of what makes the input at a cursor, if it is on the tape.
    pub(super) fn place(&self, (place, input): Cursor) -> Option<usize> {
        self.tape.input(place, input)
    }

    /// Goes on to the first input of the node that makes `at`, if it is of the right kind
    /// and nobody else sees its result.
    pub(super) fn pass(&mut self, at: Cursor, is: impl Fn(&Node) -> bool) -> Option<usize> {
        let place = inner(self.tape, at, 1, self.stream)?;
        is(self.tape.node(place)).then(|| self.members.push(place))?;
        Some(place)
    }

    /// What `find` finds; if that is nothing, what it passed on the way is not collected.
    pub(super) fn attempt<T>(&mut self, find: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = self.members.len();
        let found = find(self);
        if found.is_none() {
            self.members.truncate(before);
        }
        found
    }

    /// What is behind views that leave the elements in their order.
    pub(super) fn stripped(&mut self, mut at: Cursor) -> Cursor {
        while let Some(view) = self.pass(at, keeps_order) {
            at = (view, 0);
        }
        at
    }

    /// The heads that `rope` rotates, with the norm before it if there is one.
    pub(super) fn normalized(&mut self, rope: usize, width: usize) -> Heads {
        let from = self.stripped((rope, 0));
        let dtype = self.dtype;
        let norm = self.pass(from, |node| {
            matches!(node.primitive, Primitive::Norm(NormOp::RmsNorm { .. }))
                && (node.inputs[0].dim(-1), node.inputs[0].dtype()) == (width, dtype)
                && (node.inputs[1].ndim(), node.inputs[1].dtype()) == (1, dtype)
        });
        let from = norm.map_or(from, |norm| self.stripped((norm, 0)));
        Heads { rope, norm, from }
    }

    /// The rotated rows of the heads of one token of every batch.
    pub(super) fn rotated(
        &mut self,
        at: Cursor,
        [batches, heads, width]: [usize; 3],
    ) -> Option<Heads> {
        let at = self.stripped(at);
        let rope = self.pass(at, |node| {
            let x = &node.inputs[0];
            is_rope(node)
                && (x.dim(0), x.dim(-2), x.dim(-1)) == (batches, 1, width)
                && x.size() == batches * heads * width
        })?;
        Some(self.normalized(rope, width))
    }

    /// The update of a cache (batches, heads, rows, features) of `dtype` at its last filled row, which is the
    /// `count`-th of those that are seen, behind the view of these unless all are, which has so many readers.
    pub(super) fn update(
        &mut self,
        at: Cursor,
        [batches, count]: [usize; 2],
        dtype: Dtype,
        readers: usize,
    ) -> Option<Update> {
        let view = inner(self.tape, at, readers, self.stream);
        let view = view.filter(|&view| first_row(self.tape.node(view)).is_some());
        self.members.extend(view);
        let first = view.map_or(Some(0), |view| first_row(self.tape.node(view)))?;
        let updated = view.map_or(at, |view| (view, 0));
        let (filled, place) = (self.array(at), self.place(updated)?);
        let node = self.tape.node(place);
        let Primitive::Shape(ShapeOp::SliceUpdate { start, strides }) = &node.primitive else {
            return None;
        };
        let (cache, rows) = (&node.inputs[0], &node.inputs[1]);
        (filled.ndim() == 4 && cache.ndim() == 4).then_some(())?;
        let (heads, width) = (filled.dim(1), filled.dim(3));
        let whole = cache.shape() == [batches, heads, cache.dim(2), width]
            && rows.shape() == [batches, heads, 1, width]
            && start[..] == [0, 0, (first + count) as isize - 1, 0]
            && strides.iter().all(|&s| s == 1)
            && [cache, rows].iter().all(|a| a.dtype() == dtype)
            && node.stream == self.stream;
        whole.then(|| self.members.push(place))?;
        Some(Update { place, first })
    }

    /// Query, key and value of one token, if one rotation and one kind of norm serve both of the former.
    pub(super) fn together(&self, query: Heads, key: Heads, value: Cursor) -> Option<TokenHeads> {
        let node = self.tape.node(query.rope);
        let positions = [1, node.inputs[0].dim(0)].contains(&node.inputs[1].size());
        (positions && self.agree(&query, &key)).then_some(TokenHeads { query, key, value })
    }

    /// Whether queries and keys are rotated by the same angles and normalized in the same way.
    pub(super) fn agree(&self, query: &Heads, key: &Heads) -> bool {
        let (a, b) = (self.tape.node(query.rope), self.tape.node(key.rope));
        let angles = a.primitive == b.primitive
            && a.inputs.len() == b.inputs.len()
            && a.inputs[1..].iter().zip(&b.inputs[1..]).all(|(a, b)| a.is_same(b));
        let norms = match (query.norm, key.norm) {
            (Some(a), Some(b)) => self.tape.node(a).primitive == self.tape.node(b).primitive,
            (None, None) => true,
            _ => false,
        };
        angles && norms
    }
}

impl Heads {
    /// Number of norms and rotations.
    pub(super) fn operations(&self) -> u64 {
        1 + u64::from(self.norm.is_some())
    }
}

impl TokenHeads {
    /// Number of norms and rotations.
    pub(super) fn operations(&self) -> u64 {
        self.query.operations() + self.key.operations()
    }

    /// What statistics put before the name of the attention.
    pub(super) fn name(&self) -> &'static str {
        if self.query.norm.is_some() { "norm rope cache " } else { "rope cache " }
    }

    /// Where the new token's heads are, if all of them lie as the kernel needs them.
    pub(super) fn projections(
        &self,
        ctx: &mut Ctx<'_>,
        tape: &Tape,
    ) -> Result<Option<(Projections, SmallVec<[Region; 12]>)>> {
        let input = |at| input(tape, at);
        let query = input(self.query.from);
        let Some(query_head) = head_stride(query, tape.array(self.query.rope).dim(-1)) else {
            return Ok(None);
        };
        let q = ctx.input(query)?;
        let mut reads: SmallVec<[Region; 12]> = smallvec![q.region];
        let mut at = [0; 2];
        for (address, source) in at.iter_mut().zip([self.key.from, self.value].map(input)) {
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
                let Primitive::Norm(NormOp::RmsNorm { eps }) = tape.node(q).primitive else {
                    return Ok(None);
                };
                Some((weights, eps.0))
            }
            _ => None,
        };
        let Some(angle) = angle(ctx, tape.node(self.query.rope), &mut reads)? else {
            return Ok(None);
        };
        let [key, value] = at;
        let q = q.address;
        Ok(Some((Projections { q, query_head, key, value, norms, angle }, reads)))
    }
}

/// Elements from a head of `width` features to the next one, if all of them are equally far apart: those of a
/// dense array, or of one that is a part of each head of such.
pub(super) fn head_stride(array: &Array, width: usize) -> Option<u32> {
    let layout = &array.evaluated().layout;
    if layout.flags.row_contiguous {
        return u32::try_from(width).ok();
    }
    let axes = array.shape().iter().zip(&layout.strides).filter(|(size, _)| **size != 1);
    let mut axes = axes.map(|(&size, &stride)| (size, stride)).rev();
    (axes.next()? == (width, 1)).then_some(())?;
    let (mut count, stride) = axes.next()?;
    for (size, apart) in axes {
        (apart == stride * count as isize).then_some(())?;
        count *= size;
    }
    u32::try_from(stride).ok()
}

/// Caches that become their own updates, at these places, if nobody else has them and
/// they lie as kernels read them.
pub(super) fn caches_in_place<const N: usize>(
    ctx: &mut Ctx<'_>,
    tape: &Tape,
    updates: [usize; N],
    outputs: &mut [Output],
) -> Result<Option<[Operand; N]>> {
    let (stream, caches) = (ctx.stream(), updates.map(|place| input(tape, (place, 0))));
    if !caches.iter().all(|c| c.is_donatable(c.nbytes(), stream)) {
        return Ok(None);
    }
    let mut found = [Operand::default(); N];
    for ((found, cache), output) in found.iter_mut().zip(caches).zip(outputs) {
        let Some(at) = ctx.donate(cache, output)?.filter(|at| at.is_aligned(16)) else {
            return Ok(None);
        };
        *found = at;
    }
    Ok(Some(found))
}

/// Strides of heads and rows of `width` features, of the caches of keys and of values
/// that are updated at these places.
pub(super) fn cache_strides(tape: &Tape, updates: [usize; 2], width: usize) -> [u32; 4] {
    let [keys, values] = updates.map(|place| tape.array(place).dim(2) * width);
    [keys, width, values, width].map(|stride| stride as u32)
}

/// Whether a node rotates features of heads, all of them or the first ones.
pub(super) fn is_rope(node: &Node) -> bool {
    matches!(node.primitive, Primitive::Rope(_))
}

/// Whether a node rotates heads of `width` features, all of them.
pub(super) fn rotates(node: &Node, width: usize) -> bool {
    matches!(&node.primitive, Primitive::Rope(rope) if rope.dims == width)
}

/// Whether a node is a view of the first rows, heads or features.
pub(super) fn is_head_of_rows(node: &Node) -> bool {
    match &node.primitive {
        Primitive::Shape(ShapeOp::Slice { start, strides, .. }) => {
            start.iter().all(|&s| s == 0) && strides.iter().all(|&s| s == 1)
        }
        _ => false,
    }
}

/// The first row of heads of which a node is a view, without others between them.
fn first_row(node: &Node) -> Option<usize> {
    let Primitive::Shape(ShapeOp::Slice { start, strides, .. }) = &node.primitive else {
        return None;
    };
    let &[0, 0, first, 0] = &start[..] else { return None };
    strides.iter().all(|&s| s == 1).then_some(usize::try_from(first).ok()?)
}

/// Whether a node is a view with the elements in the same order.
fn keeps_order(node: &Node) -> bool {
    match &node.primitive {
        Primitive::Shape(
            ShapeOp::Reshape(_) | ShapeOp::ExpandDims { .. } | ShapeOp::Squeeze { .. },
        ) => true,
        Primitive::Shape(ShapeOp::Transpose { axes }) => {
            let shape = node.inputs[0].shape();
            axes.iter().filter(|&&axis| shape[axis] != 1).is_sorted()
        }
        _ => false,
    }
}

/// The angles of a rotation, if its positions and frequencies lie as kernels read them.
pub(super) fn angle(
    ctx: &mut Ctx<'_>,
    node: &Node,
    reads: &mut SmallVec<[Region; 12]>,
) -> Result<Option<Angle>> {
    let Primitive::Rope(rope @ Rope { traditional, scale, .. }) = &node.primitive else {
        return Ok(None);
    };
    let of_sequences = node.inputs[1].size() > 1;
    let offset = match of_sequences {
        true => dense(ctx, &node.inputs[1])?,
        false => Some(ctx.input(&node.inputs[1])?),
    };
    let Some(offset) = offset else { return Ok(None) };
    let (frequencies, stride) = rope::frequencies(ctx, rope, node.inputs.get(2))?;
    reads.extend([offset.region, frequencies.region]);
    Ok((stride == 1).then_some(Angle {
        offset: offset.address,
        of_sequences,
        frequencies: frequencies.address,
        divisors: rope.base.is_none(),
        traditional: *traditional,
        features: rope.dims as u32,
        scale: scale.0,
    }))
}
