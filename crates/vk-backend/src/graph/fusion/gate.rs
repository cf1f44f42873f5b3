//! Gates of feed-forward blocks, `silu(gate) * up` and `gelu(gate) * up`, as programs write them.

use mlx_vulkan_core::{
    Array, Dtype, bf16, f16,
    graph::Node,
    primitives::{BinaryOp, Primitive, ShapeOp, UnaryOp},
    tape::Tape,
};
use smallvec::SmallVec;

use super::{
    bias::repeats,
    heads::{Cursor, Walk, input},
    inner,
};
use crate::kernels::matvec::Gate;

/// How one array gates another, by places on the tape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gated {
    /// The last multiplication.
    pub(super) result: usize,
    pub(super) gate: Gate,
    /// What lies between the gate and that; of constants also the views that repeat them.
    between: SmallVec<[usize; 16]>,
    operations: u64,
}

impl Gated {
    /// Nodes that a group with both arrays has besides what makes them.
    pub(super) fn members(&self) -> impl Iterator<Item = usize> {
        self.between.iter().copied().chain([self.result])
    }

    /// Operations that are not needed any more.
    pub(super) fn replaces(&self) -> u64 {
        self.operations + 1
    }
}

/// The gate and the other factor of the node at `result`, if that is a multiplication that ends a gated pair.
pub(super) fn find(tape: &Tape, result: usize) -> Option<(usize, usize, Gated)> {
    does(BinaryOp::Multiply)(tape.node(result)).then_some(())?;
    let (stream, dtype) = (tape.node(result).stream, tape.array(result).dtype());
    [(0, 1), (1, 0)].into_iter().find_map(|(a, b)| {
        let up = inner(tape, (result, b), 1, stream)?;
        let mut walk = Walk::new(tape, stream, dtype);
        let silu = walk.attempt(|walk| Some((walk.silu((result, a))?, Gate::Silu)));
        let gelu = || Some((walk.attempt(|walk| walk.gelu((result, a)))?, Gate::Gelu));
        let (gate, kind) = silu.or_else(gelu)?;
        let between = walk.members;
        let operations = between.iter().filter(|&&member| !repeats(tape, member)).count() as u64;
        Some((gate, up, Gated { result, gate: kind, between, operations }))
    })
}

/// The node that the multiplication at `place` is `silu` of, and what there is behind it, if it is one.
pub(super) fn silu_of(tape: &Tape, place: usize) -> Option<(usize, SmallVec<[usize; 16]>)> {
    let mut walk = Walk::new(tape, tape.node(place).stream, tape.array(place).dtype());
    let of = walk.silu_at(place)?;
    walk.members.push(place);
    Some((of, walk.members))
}

impl Gated {
    /// The node of which gate and other factor are the halves of each row, if they are; the group has the
    /// views then, too.
    pub(super) fn take_halves(&mut self, tape: &Tape, gate: usize, up: usize) -> Option<usize> {
        let stream = tape.node(up).stream;
        let is_slice = |place: usize| {
            matches!(tape.node(place).primitive, Primitive::Shape(ShapeOp::Slice { .. }))
        };
        (is_slice(gate) && is_slice(up)).then_some(())?;
        let product = inner(tape, (gate, 0), 2, stream)?;
        let whole = tape.array(product);
        let n = whole.shape().last()? / 2;
        let is_half = |view: usize, first: usize| {
            let node = tape.node(view);
            let Primitive::Shape(ShapeOp::Slice { start, strides, .. }) = &node.primitive else {
                return false;
            };
            let [others @ .., last] = &start[..] else { return false };
            let rows = tape.array(view).size() / n.max(1);
            node.stream == stream
                && node.inputs[0].is_same(whole)
                && *last == first as isize
                && others.iter().all(|&s| s == 0)
                && strides.iter().all(|&s| s == 1)
                && (tape.array(view).dim(-1), 2 * rows * n) == (n, whole.size())
        };
        (is_half(gate, 0) && is_half(up, n)).then(|| self.between.extend([gate, up]))?;
        Some(product)
    }
}

/// Whether a node does this.
pub(super) fn does(op: impl Into<Primitive>) -> impl Fn(&Node) -> bool {
    let primitive = op.into();
    move |node| node.primitive == primitive
}

impl Walk<'_> {
    /// Passes an operation with a constant, about `value`, and goes on to the other input.
    fn with_constant(&mut self, at: Cursor, op: BinaryOp, value: f32) -> Option<Cursor> {
        let place = self.pass(at, does(op))?;
        let order = if op == BinaryOp::Power { &[1][..] } else { &[0, 1] };
        let constant = order.iter().copied().find(|&i| is_about(self.tape, (place, i), value))?;
        let mut at = (place, constant);
        while let Some(view) = self.pass(at, |_| true) {
            at = (view, 0);
        }
        Some((place, 1 - constant))
    }

    /// Whether what is at a cursor is this very array.
    fn is(&self, at: Cursor, gate: &Array) -> bool {
        self.array(at).is_same(gate)
    }

    /// The gate of `gate * sigmoid(gate)`.
    pub(super) fn silu(&mut self, at: Cursor) -> Option<usize> {
        let silu = self.pass(at, does(BinaryOp::Multiply))?;
        self.silu_at(silu)
    }

    /// The same of the multiplication at a place.
    pub(super) fn silu_at(&mut self, silu: usize) -> Option<usize> {
        [(0, 1), (1, 0)].into_iter().find_map(|(s, g)| {
            self.attempt(|walk| {
                let sigmoid = walk.pass((silu, s), does(UnaryOp::Sigmoid))?;
                // The gate itself is read twice.
                let gate = inner(walk.tape, (silu, g), 2, walk.stream)?;
                walk.is((sigmoid, 0), walk.array((silu, g))).then_some(gate)
            })
        })
    }

    /// The gate of `0.5 * gate * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 * gate ** 3)))`, as `gelu_approx`
    /// has it.
    fn gelu(&mut self, at: Cursor) -> Option<usize> {
        let gelu = self.pass(at, does(BinaryOp::Multiply))?;
        [(0, 1), (1, 0)].into_iter().find_map(|(h, t)| {
            self.attempt(|walk| {
                let half = walk.with_constant((gelu, h), BinaryOp::Multiply, 0.5)?;
                let tanh = walk.with_constant((gelu, t), BinaryOp::Add, 1.0)?;
                let tanh = walk.pass(tanh, does(UnaryOp::Tanh))?;
                let scaled = walk.with_constant((tanh, 0), BinaryOp::Multiply, 0.797_884_6)?;
                let sum = walk.pass(scaled, does(BinaryOp::Add))?;
                // The gate is read three times.
                let gate = inner(walk.tape, half, 3, walk.stream)?;
                let array = walk.array(half);
                let other = (0..2).find(|&i| walk.is((sum, 1 - i), array))?;
                let cube = walk.with_constant((sum, other), BinaryOp::Multiply, 0.044_715)?;
                let base = walk.with_constant(cube, BinaryOp::Power, 3.0)?;
                walk.is(base, array).then_some(gate)
            })
        })
    }
}

/// Whether there is a constant at a cursor, repeated or not, that is `value` to within what its dtype takes.
fn is_about(tape: &Tape, at: Cursor, value: f32) -> bool {
    let rounding = match input(tape, at).dtype() {
        Dtype::Bfloat16 => 1.0 / 256.0,
        Dtype::Float16 => 1.0 / 1024.0,
        _ => 1e-6,
    };
    constant(tape, at).is_some_and(|found| (found - value).abs() <= value.abs() * rounding)
}

/// The constant at a cursor, repeated or not, if it is in the host's memory.
pub(super) fn constant(tape: &Tape, mut at: Cursor) -> Option<f32> {
    while let Some(view) = tape.input(at.0, at.1) {
        repeats(tape, view).then_some(())?;
        at = (view, 0);
    }
    scalar(input(tape, at))
}

/// The constant that is one of a node's two inputs, and the number of the other one.
pub(super) fn constant_beside(tape: &Tape, place: usize) -> Option<(f32, usize)> {
    (0..2).find_map(|i| Some((constant(tape, (place, i))?, 1 - i)))
}

/// The value of an array of one floating element that is in the host's memory.
fn scalar(array: &Array) -> Option<f32> {
    if array.size() != 1 || !array.is_on_host() {
        return None;
    }
    match array.dtype() {
        Dtype::Float32 => array.item::<f32>().ok(),
        Dtype::Float16 => array.item::<f16>().ok().map(f32::from),
        Dtype::Bfloat16 => array.item::<bf16>().ok().map(f32::from),
        _ => None,
    }
}
