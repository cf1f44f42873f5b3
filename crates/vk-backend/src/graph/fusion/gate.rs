//! Gates of feed-forward blocks, `silu(gate) * up` and `gelu(gate) * up`, as programs write them.

use mlx_vulkan_core::{
    Array, Dtype, bf16, f16,
    primitives::{BinaryOp, Primitive, ShapeOp, UnaryOp},
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{
    heads::{Cursor, input},
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
    between: SmallVec<[usize; 8]>,
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

/// The gate and the other factor of the multiplication at `result`, if it ends a gated pair.
pub(super) fn find(tape: &Tape, result: usize) -> Option<(usize, usize, Gated)> {
    let walk = Walk { tape, members: SmallVec::new(), operations: 0 };
    [(0, 1), (1, 0)].into_iter().find_map(|(a, b)| {
        let up = walk.inner((result, b), 1)?;
        let (gate, kind, walk) = None
            .or_else(|| walk.clone().silu((result, a)))
            .or_else(|| walk.clone().gelu((result, a)))?;
        let Walk { members: between, operations, .. } = walk;
        Some((gate, up, Gated { result, gate: kind, between, operations }))
    })
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

/// Follows inputs up the tape and collects what it passes.
#[derive(Clone)]
struct Walk<'a> {
    tape: &'a Tape,
    members: SmallVec<[usize; 8]>,
    operations: u64,
}

impl<'a> Walk<'a> {
    fn inner(&self, at: Cursor, uses: usize) -> Option<usize> {
        inner(self.tape, at, uses, self.tape.node(at.0).stream)
    }

    /// Passes the operation at a cursor, if it is this one and nobody else reads it.
    fn pass(&mut self, at: Cursor, primitive: Primitive) -> Option<usize> {
        let place = self.inner(at, 1).filter(|&p| self.tape.node(p).primitive == primitive)?;
        self.members.push(place);
        self.operations += 1;
        Some(place)
    }

    /// Passes an operation with a constant, about `value`, and goes on to the other input.
    fn with_constant(&mut self, at: Cursor, op: BinaryOp, value: f32) -> Option<Cursor> {
        let place = self.pass(at, op.into())?;
        let constant = |&(constant, _): &(usize, usize)| {
            let views = constant_at(self.tape, (place, constant), value)?;
            Some((constant, views))
        };
        let order = if op == BinaryOp::Power { &[(1, 0)][..] } else { &[(0, 1), (1, 0)] };
        let (constant, views) = order.iter().find_map(constant)?;
        let (tape, stream) = (self.tape, self.tape.node(place).stream);
        let private = |&view: &usize| {
            tape.uses(view) == 1 && tape.is_private(view) && tape.node(view).stream == stream
        };
        self.members.extend(views.into_iter().take_while(private));
        Some((place, 1 - constant))
    }

    /// Whether what is at a cursor is this very array.
    fn is(&self, at: Cursor, gate: &Array) -> bool {
        input(self.tape, at).is_same(gate)
    }

    /// `gate * sigmoid(gate)`.
    fn silu(mut self, at: Cursor) -> Option<(usize, Gate, Self)> {
        let silu = self.pass(at, BinaryOp::Multiply.into())?;
        [(0, 1), (1, 0)].into_iter().find_map(|(s, g)| {
            let mut walk = self.clone();
            let sigmoid = walk.pass((silu, s), UnaryOp::Sigmoid.into())?;
            // The gate itself is read twice.
            let gate = walk.inner((silu, g), 2)?;
            let same = walk.is((sigmoid, 0), input(walk.tape, (silu, g)));
            same.then_some((gate, Gate::Silu, walk))
        })
    }

    /// `0.5 * gate * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 * gate ** 3)))`, as `gelu_approx` has it.
    fn gelu(mut self, at: Cursor) -> Option<(usize, Gate, Self)> {
        let gelu = self.pass(at, BinaryOp::Multiply.into())?;
        [(0, 1), (1, 0)].into_iter().find_map(|(h, t)| {
            let mut walk = self.clone();
            let half = walk.with_constant((gelu, h), BinaryOp::Multiply, 0.5)?;
            let tanh = walk.with_constant((gelu, t), BinaryOp::Add, 1.0)?;
            let tanh = walk.pass(tanh, UnaryOp::Tanh.into())?;
            let scaled = walk.with_constant((tanh, 0), BinaryOp::Multiply, 0.797_884_6)?;
            let sum = walk.pass(scaled, BinaryOp::Add.into())?;
            // The gate is read three times.
            let gate = walk.inner(half, 3)?;
            let array = input(walk.tape, half);
            let other = (0..2).find(|&i| walk.is((sum, 1 - i), array))?;
            let cube = walk.with_constant((sum, other), BinaryOp::Multiply, 0.044_715)?;
            let base = walk.with_constant(cube, BinaryOp::Power, 3.0)?;
            walk.is(base, array).then_some((gate, Gate::Gelu, walk))
        })
    }
}

/// The views that repeat a constant at a cursor, if there is one that is `value` to within what its dtype
/// takes.
fn constant_at(tape: &Tape, mut at: Cursor, value: f32) -> Option<SmallVec<[usize; 1]>> {
    let mut views: SmallVec<[usize; 1]> = smallvec![];
    while let Some(view) = tape.input(at.0, at.1) {
        let Primitive::Shape(ShapeOp::Broadcast(_)) = tape.node(view).primitive else {
            return None;
        };
        views.push(view);
        at = (view, 0);
    }
    let array = input(tape, at);
    let rounding = match array.dtype() {
        Dtype::Bfloat16 => 1.0 / 256.0,
        Dtype::Float16 => 1.0 / 1024.0,
        _ => 1e-6,
    };
    ((scalar(array)? - value).abs() <= value.abs() * rounding).then_some(views)
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
