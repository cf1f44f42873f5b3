//! Attention as programs write it out: a product with the keys, softmax, and a product with the values, with
//! factors of queries, keys or scores, and a mask that is added to the scores.

use mlx_vulkan_core::{
    Dtype, Result,
    backend::Output,
    fusion::Group,
    primitives::{BinaryOp, CopyOp, MatmulOp, Primitive, SoftmaxOp},
    tape::Tape,
};
use smallvec::smallvec;

use super::{
    Grouped,
    gate::{constant_beside, does},
    heads::{Cursor, Walk, input},
};
use crate::{
    kernels::{
        Ctx,
        attention::{Written, has_kernel, planner::Sizes},
    },
    runtime::{device::DeviceState, stats},
};

/// Such an attention, by places on the tape.
struct Found {
    /// With the keys, with the values.
    products: [usize; 2],
    query: Cursor,
    /// (batches, heads, features, keys)
    keys: Cursor,
    mask: Option<Cursor>,
    scale: f32,
    operations: u64,
}

/// The group that ends with the product at `place`.
pub(super) fn find(tape: &Tape, place: usize, device: &DeviceState) -> Option<Group> {
    let (node, config) = (tape.node(place), device.config);
    let dtype = tape.array(place).dtype();
    let is_end = config.enable_fused_attention
        && is_product(&node.primitive)
        && tape.array(place).ndim() == 4
        && dtype.is_floating()
        && dtype.size() <= 4;
    is_end.then_some(())?;
    let mut walk = Walk::new(tape, node.stream, dtype);
    walk.members.push(place);
    let weights = walk.converted((place, 0), [Dtype::Float32, dtype]);
    let softmax = walk.pass(weights, |node| {
        matches!(node.primitive, Primitive::Softmax(SoftmaxOp::Softmax { .. }))
    })?;
    let scores = walk.converted((softmax, 0), [dtype, Dtype::Float32]);
    let (scores, mask) = walk.masked(scores);
    let (scores, of_scores) = walk.multiplied(scores);
    let product = walk.pass(scores, |node| is_product(&node.primitive))?;
    let (query, of_query) = walk.multiplied((product, 0));
    let (keys, of_keys) = walk.multiplied((product, 1));
    let (products, scale) = ([product, place], of_scores * of_query * of_keys);
    let operations = walk.members.len() as u64;
    let found = Found { products, query, keys, mask, scale, operations };
    let caps = device.capabilities();
    let runs =
        found.is_of(tape, dtype) && has_kernel(&found.written(tape).sizes(), dtype, caps, config);
    runs.then(|| Group {
        members: walk.members,
        kept: smallvec![place],
        fusion: Box::new(Grouped(found)),
    })
}

fn is_product(primitive: &Primitive) -> bool {
    *primitive == Primitive::Matmul(MatmulOp::Matmul)
}

impl Walk<'_> {
    /// What is behind a conversion from one dtype to another, if there is one.
    fn converted(&mut self, at: Cursor, [from, to]: [Dtype; 2]) -> Cursor {
        let conversion = self.pass(at, |node| {
            let is = node.primitive == Primitive::Copy(CopyOp::AsType { dtype: to });
            is && node.inputs[0].dtype() == from
        });
        conversion.map_or(at, |place| (place, 0))
    }

    /// What a mask is added to, and the mask, if there is one.
    fn masked(&mut self, at: Cursor) -> (Cursor, Option<Cursor>) {
        let sum = self.attempt(|walk| {
            let sum = walk.pass(at, does(BinaryOp::Add))?;
            // Scores are a product, or its multiple.
            let is_scores = |&side: &usize| {
                let place = walk.tape.input(sum, side);
                let scaled = place.filter(|&place| walk.factor(place).is_some());
                let product =
                    scaled.map_or(place, |place| walk.tape.input(place, walk.factor(place)?.1));
                product.is_some_and(|place| is_product(&walk.tape.node(place).primitive))
            };
            let side = (0..2).find(is_scores)?;
            Some(((sum, side), (sum, 1 - side)))
        });
        sum.map_or((at, None), |(scores, mask)| (scores, Some(mask)))
    }

    /// The number that the node at a place multiplies one of its inputs with, and which input.
    fn factor(&self, place: usize) -> Option<(f32, usize)> {
        let (value, other) = constant_beside(self.tape, place)?;
        match self.tape.node(place).primitive {
            Primitive::Binary(BinaryOp::Multiply) => Some((value, other)),
            Primitive::Binary(BinaryOp::Divide) if other == 0 => Some((1.0 / value, other)),
            _ => None,
        }
    }

    /// What is behind a multiplication with a number, and that number; one if there is none.
    fn multiplied(&mut self, at: Cursor) -> (Cursor, f32) {
        let found = self.attempt(|walk| {
            let multiply = does(BinaryOp::Multiply);
            let place = walk.pass(at, |node| multiply(node) || does(BinaryOp::Divide)(node))?;
            let (value, other) = walk.factor(place)?;
            Some(((place, other), value))
        });
        found.unwrap_or((at, 1.0))
    }
}

impl Found {
    /// Whether all of it is of one dtype, with heads and rows that kernels take.
    fn is_of(&self, tape: &Tape, dtype: Dtype) -> bool {
        let scores = tape.array(self.products[0]);
        let Written { q, keys, v, mask, .. } = self.written(tape);
        [q, keys, v, scores].iter().all(|a| a.ndim() == 4 && a.dtype() == dtype && a.size() > 0)
            && [q, keys, v].iter().all(|a| a.shape()[..2] == scores.shape()[..2])
            && mask.is_none_or(|a| a.dtype() == dtype && a.shape() == scores.shape())
            && self.scale.is_finite()
    }

    fn written<'a>(&self, tape: &'a Tape) -> Written<'a> {
        Written {
            q: input(tape, self.query),
            keys: input(tape, self.keys),
            v: input(tape, (self.products[1], 1)),
            mask: self.mask.map(|at| input(tape, at)),
            scale: self.scale,
        }
    }
}

impl super::GroupKernel for Found {
    fn name(&self) -> usize {
        self.products[1]
    }

    fn counted(&self) -> &[usize] {
        &self.products
    }

    fn replaces(&self) -> u64 {
        self.operations
    }

    fn describe(&self, tape: &Tape) -> String {
        let Sizes { heads, queries, key_width, .. } = self.written(tape).sizes();
        let mask = if self.mask.is_some() { "masked " } else { "" };
        let rows = stats::row_bucket(queries);
        format!("written {mask}attention {heads}x{key_width} rows {rows}")
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let [result] = kept else { return Ok(false) };
        self.written(tape).encode(ctx, result)
    }
}
