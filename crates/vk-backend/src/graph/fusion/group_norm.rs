//! Group norm as mlx.nn makes it where it agrees with PyTorch: images are turned so that the channels of a
//! group lie together with all positions, normalized as rows, and turned back (`norm/group.comp`). A weight
//! and a bias of the channels, and silu, may follow.

use mlx_vulkan_core::{
    Result,
    backend::Output,
    fusion::Group,
    graph::Node,
    primitives::{BinaryOp, NormOp, Primitive, ShapeOp},
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{
    Grouped,
    bias::{Biased, repeats, row},
    gate::{self, constant, does},
    heads::{Cursor, Walk, input},
    inner,
    operands::dense,
};
use crate::{
    kernels::{
        Ctx,
        norm::group::{self, GroupNorm, Sizes},
    },
    runtime::device::DeviceState,
};

/// A norm by places on the tape.
struct Found {
    norm: usize,
    x: Cursor,
    /// The channels' weight, once a multiplication with it was found, and their bias.
    weight: Option<Cursor>,
    bias: Option<Biased>,
    silu: bool,
    /// What has the result.
    result: usize,
    sizes: Sizes,
    eps: f32,
    members: SmallVec<[usize; 16]>,
    operations: u64,
}

/// The norms that were found so far, each by the node that has its result.
#[derive(Default)]
pub(super) struct Builder(Vec<Found>);

impl Builder {
    /// The norm that ends with the reshape at `place`, if it is one.
    pub(super) fn reshape(&mut self, tape: &Tape, place: usize, device: &DeviceState) {
        if device.config.enable_fused_norm {
            let found = Found::new(tape, place);
            self.0.extend(found.filter(|found| found.sizes.fit(device.capabilities())));
        }
    }

    /// The addition at `sum` adds a bias to a norm with a weight.
    pub(super) fn add(&mut self, tape: &Tape, sum: usize) {
        if self.0.is_empty() {
            return;
        }
        let stream = tape.node(sum).stream;
        for (of, bias) in [(0, 1), (1, 0)] {
            let Some(product) = inner(tape, (sum, of), 1, stream) else { continue };
            let Some((found, weight, views)) = self.weighed(tape, product) else { continue };
            if let Some(biased) = Biased::of_sum(tape, sum, bias).filter(|b| !b.is_lazy(tape)) {
                found.members.extend(views);
                found.members.push(product);
                found.members.extend(biased.members());
                (found.weight, found.bias, found.result) = (Some(weight), Some(biased), sum);
                return;
            }
        }
    }

    /// The norm that the node at `product` multiplies with a weight of the channels, that weight, and the
    /// views that repeat it.
    fn weighed(
        &mut self,
        tape: &Tape,
        product: usize,
    ) -> Option<(&mut Found, Cursor, SmallVec<[usize; 2]>)> {
        does(BinaryOp::Multiply)(tape.node(product)).then_some(())?;
        let stream = tape.node(product).stream;
        let (place, (weight, views)) = [(0, 1), (1, 0)].into_iter().find_map(|(of, weight)| {
            let place = inner(tape, (product, of), 1, stream)?;
            let (from, views) = row(tape, (product, weight))?;
            let is_row = views.iter().any(|&view| repeats(tape, view));
            (is_row && tape.input(from.0, from.1).is_none()).then_some((place, (from, views)))
        })?;
        let found = self.0.iter_mut().rev().find(|found| found.result == place)?;
        (found.weight.is_none() && !found.silu).then_some((found, weight, views))
    }

    /// The multiplication at `place` is `silu` of a norm that was found.
    pub(super) fn silu(&mut self, tape: &Tape, place: usize) {
        if self.0.is_empty() {
            return;
        }
        let Some((normed, members)) = gate::silu_of(tape, place) else { return };
        let found = self.0.iter_mut().rev().find(|found| found.result == normed);
        if let Some(found) = found.filter(|found| !found.silu) {
            found.members.extend(members);
            (found.silu, found.result) = (true, place);
        }
    }

    pub(super) fn finish(self, tape: &Tape) -> impl Iterator<Item = Group> {
        let is_operation = |&&member: &&usize| {
            let node = tape.node(member);
            !node.primitive.is_view() && !is_reshape(node)
        };
        self.0.into_iter().map(move |mut found| {
            // Two of its reshapes would be copies.
            found.operations = 2 + found.members.iter().filter(is_operation).count() as u64;
            let (kept, members) = (smallvec![found.result], std::mem::take(&mut found.members));
            Group { members, kept, fusion: Box::new(Grouped(found)) }
        })
    }
}

impl Found {
    fn new(tape: &Tape, place: usize) -> Option<Found> {
        let (node, whole) = (tape.node(place), tape.array(place));
        let dtype = whole.dtype();
        let is_end =
            is_reshape(node) && whole.ndim() > 2 && dtype.is_floating() && dtype.size() <= 4;
        is_end.then_some(())?;
        let mut walk = Walk::new(tape, node.stream, dtype);
        walk.members.push(place);
        let back = walk.pass((place, 0), turns)?;
        let split = walk.pass((back, 0), is_reshape)?;
        let norm = walk.pass((split, 0), |node| {
            matches!(node.primitive, Primitive::Norm(NormOp::LayerNorm { .. }))
        })?;
        let joined = walk.pass((norm, 0), is_reshape)?;
        let turned = walk.pass((joined, 0), turns)?;
        let first = walk.pass((turned, 0), is_reshape)?;
        let &[batches, positions, groups, each] = tape.array(first).shape() else { return None };
        let sizes = Sizes { batches, positions, channels: groups * each, groups };
        let shapes = walk.array((first, 0)).shape() == whole.shape()
            && whole.dim(0) == batches
            && whole.dim(-1) == sizes.channels
            && tape.array(norm).shape() == [batches, groups, positions * each]
            && tape.array(split).shape() == [batches, groups, positions, each];
        let plain = [(1, 1.0), (2, 0.0)]
            .into_iter()
            .all(|(side, value)| constant(tape, (norm, side)) == Some(value));
        let Primitive::Norm(NormOp::LayerNorm { eps }) = tape.node(norm).primitive else {
            return None;
        };
        (shapes && plain).then_some(Found {
            norm,
            x: (first, 0),
            weight: None,
            bias: None,
            silu: false,
            result: place,
            sizes,
            eps: eps.0,
            members: walk.members,
            operations: 0,
        })
    }
}

fn is_reshape(node: &Node) -> bool {
    matches!(node.primitive, Primitive::Shape(ShapeOp::Reshape(_)))
}

/// Whether the inner two of four axes change places.
fn turns(node: &Node) -> bool {
    matches!(&node.primitive, Primitive::Shape(ShapeOp::Transpose { axes }) if axes[..] == [0, 2, 1, 3])
}

impl super::GroupKernel for Found {
    fn name(&self) -> usize {
        self.norm
    }

    fn counted(&self) -> &[usize] {
        &[]
    }

    fn replaces(&self) -> u64 {
        self.operations
    }

    fn describe(&self, _: &Tape) -> String {
        let Sizes { positions, channels, groups, .. } = self.sizes;
        let silu = if self.silu { " silu" } else { "" };
        format!("group norm {positions}x{channels} of {groups}{silu}")
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let [result] = kept else { return Ok(false) };
        let Some(x) = dense(ctx, input(tape, self.x))? else { return Ok(false) };
        let affine = match (self.weight, &self.bias) {
            (Some(weight), Some(bias)) => {
                let mut reads: SmallVec<[_; 1]> = SmallVec::new();
                let weight = dense(ctx, input(tape, weight))?;
                let bias = bias.operand(ctx, tape, &mut reads)?;
                let (Some(weight), Some(bias)) = (weight, bias) else { return Ok(false) };
                let bias = crate::kernels::Operand { address: bias.at, region: reads[0] };
                if !bias.is_aligned(16) {
                    return Ok(false);
                }
                Some([weight, bias])
            }
            _ => None,
        };
        let (sizes, silu, eps, dtype) = (self.sizes, self.silu, self.eps, result.dtype);
        let result = ctx.output(result)?;
        group::encode(ctx, &GroupNorm { sizes, x, affine, silu, eps, dtype, result })?;
        Ok(true)
    }
}
