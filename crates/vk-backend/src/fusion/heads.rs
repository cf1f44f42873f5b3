//! Heads on their way from projections to an attention, with norms and rotations: found by following inputs up the
//! tape.

use mlx_core::{
    Array, Dtype, Result, Stream,
    graph::Node,
    primitives::{Primitive, Rope},
    tape::Tape,
};
use smallvec::SmallVec;

use super::inner;
use crate::kernels::{Ctx, Region, decode::Angle, rope};

/// An input of a node: the node's place and the input's number.
pub(super) type Cursor = (usize, usize);

/// Heads before an attention: rotated, normalized before that or not.
pub(super) struct Heads {
    pub(super) rope: usize,
    pub(super) norm: Option<usize>,
    pub(super) from: Cursor,
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

    pub(super) fn array(&self, (place, input): Cursor) -> &'a Array {
        &self.tape.node(place).inputs[input]
    }

    /// Goes on to the first input of the node that makes `at`, if it is of the right kind and nobody else sees its
    /// result.
    pub(super) fn pass(&mut self, at: Cursor, is: impl Fn(&Node) -> bool) -> Option<usize> {
        let place = inner(self.tape, self.array(at), 1, self.stream)?;
        is(self.tape.node(place)).then(|| self.members.push(place))?;
        Some(place)
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
            matches!(node.primitive, Primitive::RmsNorm { .. })
                && (node.inputs[0].dim(-1), node.inputs[0].dtype()) == (width, dtype)
                && (node.inputs[1].ndim(), node.inputs[1].dtype()) == (1, dtype)
        });
        let from = norm.map_or(from, |norm| self.stripped((norm, 0)));
        Heads { rope, norm, from }
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

/// Whether a node rotates heads of `width` features, all of them.
pub(super) fn rotates(node: &Node, width: usize) -> bool {
    matches!(&node.primitive, Primitive::Rope(rope) if rope.dims == width)
}

/// Whether a node is a view of the first rows, heads or features.
pub(super) fn is_head_of_rows(node: &Node) -> bool {
    match &node.primitive {
        Primitive::Slice { start, strides } => {
            start.iter().all(|&s| s == 0) && strides.iter().all(|&s| s == 1)
        }
        _ => false,
    }
}

/// Whether a node is a view with the elements in the same order.
fn keeps_order(node: &Node) -> bool {
    match &node.primitive {
        Primitive::Reshape | Primitive::ExpandDims { .. } | Primitive::Squeeze { .. } => true,
        Primitive::Transpose { axes } => {
            let shape = node.inputs[0].shape();
            axes.iter().filter(|&&axis| shape[axis] != 1).is_sorted()
        }
        _ => false,
    }
}

/// The angles of a rotation with one position for all batches, if its frequencies lie as kernels read them.
pub(super) fn angle(
    ctx: &mut Ctx<'_>,
    node: &Node,
    reads: &mut SmallVec<[Region; 12]>,
) -> Result<Option<Angle>> {
    let Primitive::Rope(rope @ Rope { traditional, scale, .. }) = &node.primitive else {
        return Ok(None);
    };
    let offset = ctx.input(&node.inputs[1])?;
    let (frequencies, step) = rope::frequencies(ctx, rope, node.inputs.get(2))?;
    reads.extend([offset.region, frequencies.region]);
    Ok((step == 1).then_some(Angle {
        offset: offset.address,
        frequencies: frequencies.address,
        divisors: rope.base.is_none(),
        traditional: *traditional,
        scale: *scale,
    }))
}
