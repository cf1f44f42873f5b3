//! A token's step of the gated delta rule, with the norms of its query and key, its gates, and the norm and
//! gate of what it gives (`delta/delta.comp`).

use mlx_vulkan_core::{
    Dtype, Result,
    backend::Output,
    fusion::Group,
    graph::Node,
    primitives::{BinaryOp, NormOp, Primitive, Rule, ShapeOp, UnaryOp},
    tape::Tape,
};
use smallvec::smallvec;

use super::{
    Grouped,
    bias::repeats,
    gate::{constant, constant_beside, does},
    heads::{Cursor, Walk, input},
    widens,
};
use crate::{
    kernels::{
        Ctx,
        delta::{self, Gated},
    },
    runtime::device::DeviceState,
};

/// A step with what comes before and behind it, by places on the tape and inputs of nodes there.
struct Found {
    rule: usize,
    q: Scaled,
    k: Scaled,
    gates: Gates,
    z: Cursor,
    weight: Cursor,
    end_eps: f32,
    operations: u64,
}

/// Normalized rows times a number.
struct Scaled {
    from: Cursor,
    eps: f32,
    scale: f32,
}

/// `exp(decay softplus(a + shift))` and `sigmoid(b)`.
struct Gates {
    a: Cursor,
    b: Cursor,
    decay: Cursor,
    shift: Cursor,
}

/// The group that ends with the conversion at `place`, which rounds the product of outputs and their gate.
pub(super) fn find(tape: &Tape, place: usize, device: &DeviceState) -> Option<Group> {
    let node = tape.node(place);
    let dtype = tape.array(place).dtype();
    let is_end =
        device.config.enable_fused_tokens && dtype.size() == 2 && node.inputs[0].ndim() == 4;
    is_end.then_some(())?;
    let mut walk = Walk::new(tape, node.stream, dtype);
    let product = walk.pass((place, 0), does(BinaryOp::Multiply))?;
    let (gate, normed) = [(0, 1), (1, 0)].into_iter().find_map(|(gate, normed)| {
        let gate = walk.attempt(|walk| walk.silu((product, gate)))?;
        Some((gate, (product, normed)))
    })?;
    // Both are widened first.
    widens_from(dtype)(tape.node(gate)).then(|| walk.members.push(gate))?;
    let normed = walk.widened(normed)?;
    let (norm, end_eps) = walk.norm(normed)?;
    let y = walk.stripped((norm, 0));
    let rule = tape.input(y.0, y.1)?;
    let node = tape.node(rule);
    let [q, k, v, _, _, _] = &node.inputs[..] else { return None };
    let [_, 1, _, values] = v.shape()[..] else { return None };
    let is_step = matches!(node.primitive, Primitive::Delta(_))
        && tape.output(y.0, y.1) == Some(0)
        && (node.stream, q.dtype(), k.dtype()) == (walk.stream, dtype, dtype)
        && input(tape, (norm, 1)).shape() == [values]
        && input(tape, (gate, 0)).shape() == input(tape, (norm, 0)).shape()
        && delta::has_gated(values, device.capabilities());
    is_step.then_some(())?;
    let found = Found {
        rule,
        q: walk.scaled_norm((rule, 0))?,
        k: walk.scaled_norm((rule, 1))?,
        gates: walk.gates(rule)?,
        z: (gate, 0),
        weight: (norm, 1),
        end_eps,
        operations: 0,
    };
    let operations = walk.members.iter().filter(|&&member| !tape.node(member).primitive.is_view());
    let found = Found { operations: operations.count() as u64 + 2, ..found };
    (found.q.eps == found.k.eps && found.heads_fit(tape)).then_some(())?;
    let mut members = walk.members;
    members.extend([rule, place]);
    Some(Group { members, kept: smallvec![place, rule], fusion: Box::new(Grouped(found)) })
}

impl Walk<'_> {
    /// What is converted to float32 at a cursor.
    fn widened(&mut self, at: Cursor) -> Option<Cursor> {
        Some((self.pass(at, widens_from(self.dtype))?, 0))
    }

    /// The RMS norm at a cursor, behind views, and its eps.
    fn norm(&mut self, at: Cursor) -> Option<(usize, f32)> {
        let (at, dtype) = (self.stripped(at), self.dtype);
        let norm = self.pass(at, |node| {
            matches!(node.primitive, Primitive::Norm(NormOp::RmsNorm { .. }))
                && node.inputs.iter().all(|input| input.dtype() == dtype)
        })?;
        let Primitive::Norm(NormOp::RmsNorm { eps }) = self.tape.node(norm).primitive else {
            return None;
        };
        Some((norm, eps.0))
    }

    /// Rows that are normalized without a weight, multiplied with a number, and repeated for the value heads
    /// that share them.
    fn scaled_norm(&mut self, at: Cursor) -> Option<Scaled> {
        let mut at = self.stripped(at);
        let repeated = self.pass(at, repeats_heads);
        if let Some(view) = repeated {
            at = self.stripped((view, 0));
        }
        let product = self.pass(at, does(BinaryOp::Multiply))?;
        let (scale, other) = constant_beside(self.tape, product)?;
        let (norm, eps) = self.norm((product, other))?;
        let weighs_nothing = constant(self.tape, (norm, 1)) == Some(1.0);
        let &[batch, time, heads, width] = input(self.tape, (norm, 0)).shape() else { return None };
        let one_by_one = repeated.is_none_or(|view| {
            let each = self.tape.node(view).inputs[0].shape();
            each == [batch, time, heads, 1, width]
        });
        (weighs_nothing && one_by_one).then_some(Scaled { from: (norm, 0), eps, scale })
    }

    /// What decay and rate of a step are computed from.
    fn gates(&mut self, rule: usize) -> Option<Gates> {
        let at = self.stripped((rule, 4));
        let b = (self.pass(at, does(UnaryOp::Sigmoid))?, 0);
        let at = self.stripped((rule, 3));
        let exponential = self.pass(at, does(UnaryOp::Exp))?;
        let product = self.pass((exponential, 0), does(BinaryOp::Multiply))?;
        let (decay, softplus) = [(0, 1), (1, 0)].into_iter().find_map(|(decay, other)| {
            let softplus = self.widened((product, other))?;
            Some(((product, decay), softplus))
        })?;
        let softplus = self.pass(softplus, does(BinaryOp::LogAddExp))?;
        let sum = [(0, 1), (1, 0)].into_iter().find_map(|(zero, sum)| {
            (constant(self.tape, (softplus, zero)) == Some(0.0)).then_some((softplus, sum))
        })?;
        let sum = self.pass(sum, does(BinaryOp::Add))?;
        let decay = self.of_heads(decay);
        let orders = [(0, 1), (1, 0)];
        let (a, shift) = orders.into_iter().find_map(|(a, shift)| {
            let view = self.place((sum, shift)).filter(|&view| repeats(self.tape, view));
            // Of one sequence a view says what is repeated, or only the number of axes does.
            let differs = input(self.tape, (sum, shift)).ndim() == 1;
            (view.is_some() || differs).then_some(((sum, a), (sum, shift)))
        })?;
        let shift = self.of_heads(shift);
        Some(Gates { a, b, decay, shift })
    }

    /// What is behind views of one number for each head.
    fn of_heads(&mut self, mut at: Cursor) -> Cursor {
        let tape = self.tape;
        while let Some(view) = self.place(at).filter(|&view| repeats(tape, view)) {
            if self.pass(at, |_| true).is_none() {
                break;
            }
            at = (view, 0);
        }
        at
    }
}

/// Whether a node converts elements of this dtype, of 16 bits, to float32.
fn widens_from(dtype: Dtype) -> impl Fn(&Node) -> bool {
    move |node| widens(node) && node.inputs[0].dtype() == dtype
}

/// Whether a node repeats the fourth of five axes, and that alone.
fn repeats_heads(node: &Node) -> bool {
    let Primitive::Shape(ShapeOp::Broadcast(Rule::Exact(to))) = &node.primitive else {
        return false;
    };
    let from = node.inputs[0].shape();
    node.inputs.len() == 1
        && (from.len(), to.len()) == (5, 5)
        && (0..5).all(|axis| from[axis] == if axis == 3 { 1 } else { to[axis] })
}

impl Found {
    /// Whether the arrays have as many elements as the kernel reads of them.
    fn heads_fit(&self, tape: &Tape) -> bool {
        let node = tape.node(self.rule);
        let [batch, heads, _, keys] = node.inputs[5].shape()[..] else { return false };
        let dtype = node.inputs[2].dtype();
        let (q, k) = (input(tape, self.q.from), input(tape, self.k.from));
        let Gates { a, b, decay, shift } = self.gates;
        let is = |at: Cursor, dtype: Dtype, size: usize| {
            (input(tape, at).dtype(), input(tape, at).size()) == (dtype, size)
        };
        q.shape() == k.shape()
            && [q.dim(0), q.dim(1), q.dim(3)] == [batch, 1, keys]
            && heads.is_multiple_of(q.dim(2).max(1))
            && node.inputs[3].ndim() == 3
            && is(a, dtype, batch * heads)
            && is(b, dtype, batch * heads)
            && [decay, shift].iter().all(|&at| input(tape, at).shape().last() == Some(&heads))
            && is(decay, Dtype::Float32, heads)
            && is(shift, dtype, heads)
    }
}

impl super::GroupKernel for Found {
    fn name(&self) -> usize {
        self.rule
    }

    fn counted(&self) -> &[usize] {
        std::slice::from_ref(&self.rule)
    }

    fn replaces(&self) -> u64 {
        self.operations
    }

    fn describe(&self, tape: &Tape) -> String {
        let state = &tape.node(self.rule).inputs[5];
        format!("norm gate delta {:?}", state.shape())
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let [result, y, next] = kept else { return Ok(false) };
        let inputs = &tape.node(self.rule).inputs;
        let array = |at: Cursor| input(tape, at);
        let token = Gated {
            q: array(self.q.from),
            k: array(self.k.from),
            v: &inputs[2],
            a: array(self.gates.a),
            b: array(self.gates.b),
            state: &inputs[5],
            decay: array(self.gates.decay),
            shift: array(self.gates.shift),
            z: array(self.z),
            weight: array(self.weight),
            scales: [self.q.scale, self.k.scale],
            eps: [self.q.eps, self.end_eps],
        };
        delta::gated(ctx, &token, [result, y, next])?;
        Ok(true)
    }
}
