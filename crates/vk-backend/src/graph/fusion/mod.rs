//! Groups of operations that one kernel does together, found on the tape before anything is
//! allocated for them. Any graph profits, however it was written.
//!
//! # Kinds
//!
//! - products of the same rows, with the gate (`gate.rs`) or residual after them and, where the rows
//!   are few, the norm before them, the sum of a residual and a norm before that (`norms.rs`), and
//!   their biases (`bias.rs`): `products.rs`;
//! - the attention of one token, with norms, rotations and cache writes (`attention.rs`); over keys
//!   and values that are quantized already it is a group without what comes before it;
//! - the same over latent features, with scores of others that have positions (`latent.rs`);
//! - the same over quantized caches, which mlx-lm writes as a product, a softmax and a product,
//!   with the quantization of the new rows and all six writes (`quantized_attention.rs`);
//! - the same where it is a product, a softmax and a product of arrays that are not quantized, of any
//!   queries (`written.rs`);
//! - norms, rotations and cache writes alone, for many tokens (`prompt.rs`);
//! - a token's convolution with those before it, and its step of the gated delta rule with norms and
//!   gates (`convolution.rs`, `delta.rs`);
//! - group norms with their weights and silu (`group_norm.rs`);
//! - rows picked from a quantized matrix and dequantized (`lookup.rs`);
//! - what routes a token to experts, and the products of the experts that it picks, which are a
//!   group up to the gate, or with their biases alone, and one with the weighted sum behind them;
//!   of one token all of that with the norm before it (`mixture`);
//! - elementwise operations that no other group claims (`programs.rs`).
//!
//! Products of many rows are one dispatch of the kernel of cooperative matrices with a list of
//! matrices (`kernels/siblings.rs`), if more than a third of the device has work then; a
//! single product may have its k split.
//!
//! # What a group may claim
//!
//! The tape knows how often its own nodes read an array, and whether anybody else refers to it.
//! What is private and needed only inside of a group gets no memory, no operation and no dispatch.
//! Of a node with several outputs, all are private or none is; what a group keeps gets memory.
//!
//! A group's results go to fresh memory, but for caches, which are written in place.
//!
//! # Refusal
//!
//! Whether operands lie as the kernel wants them is known only when the group's turn comes. Then
//! the group may refuse, and its members are evaluated one by one. The same happens when an input
//! of the group turns out to need what the group makes: evaluation goes by demand, and no array is
//! evaluated twice.
//!
//! Gates: `MLX_VK_ENABLE_FUSION` and `MLX_VK_ENABLE_FUSED_*`.

mod attention;
mod bias;
mod convolution;
mod delta;
mod gate;
mod group_norm;
mod heads;
mod latent;
mod lookup;
mod mixture;
mod norms;
mod operands;
mod products;
pub(crate) mod programs;
mod prompt;
mod quantized_attention;
mod written;

use std::ops::Range;

use mlx_vulkan_core::{
    Dtype, Result, Stream,
    backend::{Encoded, Output},
    fusion::{Fusion, Group},
    graph::Node,
    primitives::{
        BinaryOp, CopyOp, MatmulOp, Packing, Primitive, QuantizedOp, Reduce, ReduceOp, ShapeOp,
    },
    tape::Tape,
};

use crate::{
    kernels::{Ctx, encode_operation},
    runtime::{device::DeviceState, observe, stats, streams::stream_of},
};

use heads::Cursor;
use products::Builder;

/// The groups of some places of a tape.
pub(crate) fn plan(tape: &Tape, places: Range<usize>) -> Vec<Group> {
    if places.len() < 2 {
        return Vec::new();
    }
    let mut products = Builder::new(places.len());
    let mut groups = Vec::with_capacity(places.len() / 4);
    let mut mixtures = mixture::Builder::default();
    let mut convolutions = convolution::Builder::default();
    let mut group_norms = group_norm::Builder::default();
    for place in places.clone() {
        let node = tape.node(place);
        match &node.primitive {
            &Primitive::Quantized(QuantizedOp::QuantizedMatmul {
                packing: Packing::Affine(affine),
                transpose: false,
            }) => {
                let found =
                    device(node).and_then(|d| quantized_attention::find(tape, place, affine, d));
                groups.extend(found);
            }
            Primitive::Quantized(QuantizedOp::QuantizedMatmul { .. })
            | Primitive::Matmul(MatmulOp::Matmul | MatmulOp::AddMm { .. }) => {
                if let Some(device) = device(node) {
                    groups.extend(written::find(tape, place, device));
                    products.product(tape, place, device);
                }
            }
            Primitive::Binary(BinaryOp::Multiply) => {
                products.gate(tape, place);
                convolutions.silu(tape, place);
                group_norms.silu(tape, place);
                if let Some(device) = device(node) {
                    mixtures.gate(tape, place, device);
                }
            }
            Primitive::Binary(BinaryOp::Divide) | Primitive::Softmax(_) => {
                if let Some(device) = device(node) {
                    mixtures.route(tape, place, device);
                }
            }
            Primitive::Reduce(Reduce { op: ReduceOp::Sum, .. }) => {
                if let Some(device) = device(node) {
                    mixtures.sum(tape, place, device);
                }
            }
            Primitive::Binary(BinaryOp::Add) => {
                if !products.bias(tape, place) {
                    products.residual(tape, place);
                }
                convolutions.add(tape, place);
                group_norms.add(tape, place);
                if let Some(device) = device(node) {
                    mixtures.add(tape, place, device);
                }
            }
            Primitive::Attention(_) => {
                if let Some(device) = device(node) {
                    let token = attention::find(tape, place, device);
                    let token = token.or_else(|| latent::find(tape, place, device));
                    groups.extend(token.or_else(|| prompt::find(tape, place, device)));
                }
            }
            Primitive::Shape(ShapeOp::Reshape(_)) => {
                if let Some(device) = device(node) {
                    group_norms.reshape(tape, place, device);
                }
            }
            Primitive::Convolution(_) => {
                if let Some(device) = device(node) {
                    convolutions.convolution(tape, place, device);
                }
            }
            Primitive::Copy(CopyOp::AsType { .. }) => {
                groups.extend(device(node).and_then(|d| delta::find(tape, place, d)));
                mixtures.cast(tape, place);
            }
            &Primitive::Quantized(QuantizedOp::Dequantize(affine)) => {
                groups.extend(device(node).and_then(|d| lookup::find(tape, place, affine, d)));
            }
            _ => {}
        }
    }
    mixtures.finish(tape, &mut groups);
    groups.extend(convolutions.finish(tape));
    groups.extend(group_norms.finish(tape));
    let (first, mut claimed) = (places.start, vec![false; places.len()]);
    let claim = |claimed: &mut [bool], groups: &[Group]| {
        groups.iter().flat_map(|group| &group.members).for_each(|&at| claimed[at - first] = true);
    };
    claim(&mut claimed, &groups);
    let products: Vec<Group> = products.finish(tape, |place| claimed[place - first]).collect();
    claim(&mut claimed, &products);
    groups.extend(products);
    groups.extend(programs::find(tape, places, |place| claimed[place - first]));
    groups
}

/// The device of a node's stream, if it is ours and makes groups.
fn device(node: &Node) -> Option<&'static DeviceState> {
    let device: &DeviceState = stream_of(node.stream.index)?.device();
    device.config.enable_fusion.then_some(device)
}

/// The place of what makes the input at a cursor, if only `uses` nodes of the tape, all on `stream`, and
/// nobody else will see it.
fn inner(tape: &Tape, at: Cursor, uses: usize, stream: Stream) -> Option<usize> {
    let place = tape.input(at.0, at.1)?;
    let ours = tape.node(place).stream == stream && tape.uses(place) == uses;
    (ours && tape.is_private(place)).then_some(place)
}

/// Whether a node converts 16-bit floats to float32.
fn widens(node: &Node) -> bool {
    let from = node.inputs.first().map(|input| input.dtype());
    node.primitive == Primitive::Copy(CopyOp::AsType { dtype: Dtype::Float32 })
        && from.is_some_and(|from| from.is_floating() && from.size() == 2)
}

/// A group that one kernel does.
trait GroupKernel {
    /// The member that it is named after.
    fn name(&self) -> usize;

    /// Its products and attentions, which statistics count.
    fn counted(&self) -> &[usize];

    /// Number of operations that its kernel replaces.
    fn replaces(&self) -> u64;

    /// What it is, for statistics.
    fn describe(&self, tape: &Tape) -> String;

    /// Encodes the kernel; see [`Fusion::eval`].
    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool>;
}

/// A group as core evaluates it.
struct Grouped<T>(T);

impl<T: GroupKernel> Fusion for Grouped<T> {
    fn eval(&self, at: Stream, tape: &Tape, kept: &mut [Output]) -> Result<Option<Encoded>> {
        let Grouped(fused) = self;
        let name = tape.node(fused.name()).primitive.name();
        let (fused, encoded) = encode_operation(at, name, fused.replaces(), |ctx| {
            let done = fused.encode(ctx, tape, kept)?;
            if done {
                count(fused, ctx, tape);
            }
            Ok(done)
        })?;
        // Refused: the members are encoded next.
        Ok((fused != Some(false)).then_some(encoded))
    }
}

/// Counts a group that was just encoded.
fn count(fused: &impl GroupKernel, ctx: &Ctx<'_>, tape: &Tape) {
    stats::FUSED.add(fused.replaces() - 1);
    stats::hit(ctx.config(), "fused", || fused.describe(tape));
    if let Some(kernels) = ctx.used() {
        for node in fused.counted().iter().map(|&place| tape.node(place)) {
            observe::operation(ctx.config(), &node.primitive, &node.inputs, kernels, None);
        }
    }
}
