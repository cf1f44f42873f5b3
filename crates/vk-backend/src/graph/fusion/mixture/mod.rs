//! Mixtures of experts, but for those of long prompts: what picks experts of a token, and the products of
//! those that it picks, up to the gate and with the weighted sum behind them (`shaders/mixture`). Of one
//! token all of that is a group, with the norm and the router before it (`token.rs`), and of a few these two
//! and what picks (`choice.rs`). An expert that all tokens have (`shared.rs`) is one more pick of one token.

mod builder;
mod choice;
mod scored;
mod shared;
mod token;

pub(super) use builder::Builder;

use mlx_vulkan_core::{
    Array, Dtype, Result,
    array::Data,
    backend::Output,
    buffer::Current,
    fusion::Group,
    graph::Node,
    primitives::{
        BinaryOp, IndexingOp, Packing, Primitive, QuantizedOp, Reduce, ReduceOp, ShapeOp,
        SoftmaxOp, SortOp, UnaryOp,
    },
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{
    GroupKernel, Grouped, gate,
    heads::{Cursor, input},
    inner,
    operands::dense,
    widens,
};
use crate::{
    kernels::{
        Ctx, Operand,
        matvec::Gate,
        mixture::{self, Experts, Route},
        quantized::gather_rows,
        team::Team,
    },
    runtime::device::DeviceState,
};

/// The nodes of a group.
type Members = SmallVec<[usize; 16]>;

/// What picks experts, by places on the tape.
struct Routing {
    /// The indices of the picked ones.
    picks: usize,
    /// Their shares.
    shares: usize,
    /// The node that reads the logits, and how many do.
    from: Cursor,
    readers: usize,
    replaces: u64,
}

/// What ends with the shares of the picked experts at `shares`: softmax of all experts divided by
/// what the picked ones have of it, or softmax of the picked ones, which are the same.
fn routing(tape: &Tape, shares: usize, device: &DeviceState) -> Option<(Members, Routing)> {
    let node = tape.node(shares);
    let mut members: Members = smallvec![shares];
    let of_all = node.primitive == Primitive::Binary(BinaryOp::Divide);
    if !of_all && !is_softmax(node) {
        return None;
    }
    let values = match of_all {
        // Nothing is added to the sum.
        true => divided(tape, shares, &mut members).filter(|found| found.1.is_none())?.0,
        false => inner(tape, (shares, 0), 1, node.stream)?,
    };
    let taken = tape.node(values);
    let last = tape.array(values).ndim().checked_sub(1)?;
    let along = Primitive::Indexing(IndexingOp::TakeAlongAxis { axis: last });
    let picks = tape.input(values, 1)?;
    let (sorted, all) = (ordered(tape, picks, &mut members)?, &taken.inputs[0]);
    let fits = taken.primitive == along
        && tape.node(picks).stream == node.stream
        && input(tape, sorted).is_same(all)
        && tape.array(shares).size() == tape.array(picks).size()
        && routes(tape, picks, all.dim(-1), device)
        && is_float(all.dtype());
    members.push(values);
    // The values are taken from all, of which the order is, too.
    let (mut from, mut readers) = ((values, 0), 2);
    if of_all {
        let softmax = inner(tape, from, 2, node.stream)?;
        is_softmax(tape.node(softmax)).then(|| members.push(softmax))?;
        (from, readers) = ((softmax, 0), 1);
    }
    let replaces = members.len() as u64;
    fits.then_some((members, Routing { picks, shares, from, readers, replaces }))
}

/// Where what is sorted is read, if at `picks` are the indices of its largest elements along the last axis;
/// collects the nodes up to there.
fn ordered(tape: &Tape, picks: usize, members: &mut Members) -> Option<Cursor> {
    let stream = tape.node(picks).stream;
    let order = inner(tape, (picks, 0), 1, stream)?;
    let (all, count) = (tape.array(order), tape.array(picks).dim(-1));
    let (last, largest) = (all.ndim().checked_sub(1)?, all.dim(-1).checked_sub(count)?);
    members.extend([picks, order]);
    // The last ones in the order of all, or the first ones in that of their negatives.
    let negated = inner(tape, (order, 0), 1, stream)
        .filter(|&at| tape.node(at).primitive == Primitive::Unary(UnaryOp::Negative));
    members.extend(negated);
    let (sorted, from, kth) = match negated {
        Some(negative) => ((negative, 0), 0, count.checked_sub(1)?),
        None => ((order, 0), largest, largest),
    };
    let fits = is_part(tape.node(picks), last, from)
        && tape.node(order).primitive == Primitive::Sort(SortOp::ArgPartition { kth, axis: last });
    fits.then_some(sorted)
}

/// Whether kernels pick so many of the experts.
fn routes(tape: &Tape, picks: usize, experts: usize, device: &DeviceState) -> bool {
    let picks = tape.array(picks);
    device.config.enable_fused_mixtures
        && mixture::routes(experts, picks.dim(-1), device.capabilities())
        && picks.size() < 1 << 20
}

/// What the division at `place` divides by its sum, and the constant that is added to that, if one is.
fn divided(tape: &Tape, place: usize, members: &mut Members) -> Option<(usize, Option<f32>)> {
    let stream = tape.node(place).stream;
    // The sum divides what it is made of.
    let values = inner(tape, (place, 0), 2, stream)?;
    // Broadcast to the rows that it was summed from, not along others of the same number.
    let mut below = inner(tape, column_of(tape, (place, 1), members)?, 1, stream)?;
    let mut added = None;
    if tape.node(below).primitive == Primitive::Binary(BinaryOp::Add) {
        members.push(below);
        let (number, other) = gate::constant_beside(tape, below)?;
        (below, added) = (inner(tape, (below, other), 1, stream)?, Some(number));
    }
    let sum = tape.node(below);
    let ours = sum.inputs.first()?.is_same(tape.array(values));
    (ours && sums_axis(sum, 1)).then(|| members.push(below))?;
    Some((values, added))
}

fn is_softmax(node: &Node) -> bool {
    matches!(node.primitive, Primitive::Softmax(SoftmaxOp::Softmax { .. }))
}

/// Whether a node is a slice of the last axis alone, from `from` on.
fn is_part(node: &Node, last: usize, from: usize) -> bool {
    let Primitive::Shape(ShapeOp::Slice { start, strides, .. }) = &node.primitive else {
        return false;
    };
    let begins = start
        .iter()
        .enumerate()
        .all(|(axis, &at)| at == if axis == last { from as isize } else { 0 });
    begins && strides.iter().all(|&step| step == 1)
}

/// Whether a node sums along one axis, counted from 1 at the end.
fn sums_axis(node: &Node, from_end: usize) -> bool {
    let Primitive::Reduce(Reduce { op: ReduceOp::Sum, axes }) = &node.primitive else {
        return false;
    };
    axes.len() == 1 && axes[0] + from_end == node.inputs[0].ndim()
}

/// Goes up through other shapes of the same elements that nobody else sees and collects them; where it ends.
fn views(tape: &Tape, mut at: Cursor, members: &mut Members) -> Cursor {
    let stream = tape.node(at.0).stream;
    while let Some(place) = inner(tape, at, 1, stream).filter(|&at| is_view(tape.node(at))) {
        members.push(place);
        at = (place, 0);
    }
    at
}

/// Whether a node gives the same elements another shape.
fn is_view(node: &Node) -> bool {
    let Primitive::Shape(op) = &node.primitive else { return false };
    matches!(op, ShapeOp::Reshape(_) | ShapeOp::ExpandDims { .. } | ShapeOp::Squeeze { .. })
}

fn is_float(dtype: Dtype) -> bool {
    dtype.is_floating() && dtype.size() <= 4
}

impl GroupKernel for Routing {
    fn name(&self) -> usize {
        self.shares
    }

    fn counted(&self) -> &[usize] {
        &[]
    }

    fn replaces(&self) -> u64 {
        self.replaces
    }

    fn describe(&self, tape: &Tape) -> String {
        let logits = input(tape, self.from);
        format!("route {:?} to {}", logits.shape(), tape.array(self.picks).dim(-1))
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let logits = input(tape, self.from);
        let (experts, count) = (logits.dim(-1), tape.array(self.picks).dim(-1));
        let Some(at) = dense(ctx, logits)? else { return Ok(false) };
        let [picks, shares] = kept else { return Ok(false) };
        let route = Route {
            logits: at,
            picks: ctx.output(picks)?,
            shares: ctx.output(shares)?,
            dtype: logits.dtype(),
            tokens: logits.size() / experts,
            experts,
            count,
        };
        mixture::route(ctx, &route)?;
        Ok(true)
    }
}

/// Products with the matrices of picked experts, by places on the tape.
struct Mixed {
    /// Gate and up, or the only one.
    products: SmallVec<[usize; 2]>,
    /// Where the experts' biases are read, (experts, outputs).
    biases: SmallVec<[Option<Cursor>; 2]>,
    after: After,
    packing: Packing,
    per_token: usize,
    width: Width,
    replaces: u64,
}

/// In what a weighted sum is made.
#[derive(Clone, Copy, PartialEq)]
enum Width {
    /// In the dtype of the rows.
    Same,
    /// In float32, because the shares are; no kernel stores that.
    Wide,
    /// In float32, and then converted to that of the rows.
    Narrowed,
}

/// What happens to the results.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// Those of gate and up are stored.
    Store,
    /// `silu(gate) * up`.
    Gate,
    /// They are weighed by the shares that are read at the first cursor, and summed with what is read at the
    /// second.
    Sum(Cursor, Option<Cursor>),
}

impl Mixed {
    fn group(self, members: Members, kept: SmallVec<[usize; 3]>) -> Group {
        Group { members, kept, fusion: Box::new(Grouped(self)) }
    }
}

/// A product with the experts' biases added, if they have any.
struct Said {
    product: usize,
    bias: Option<Cursor>,
    packing: Packing,
}

/// What picked experts say at `end`, and collects its members but what numbers rows.
fn said(tape: &Tape, end: usize, device: &DeviceState, members: &mut Members) -> Option<Said> {
    members.push(end);
    if let Some(packing) = gathered(tape, end, device) {
        return Some(Said { product: end, bias: None, packing });
    }
    let node = tape.node(end);
    if node.primitive != Primitive::Binary(BinaryOp::Add) {
        return None;
    }
    let product = |input| inner(tape, (end, input), 1, node.stream);
    let (product, packing, other) = [(0, 1), (1, 0)].into_iter().find_map(|(input, other)| {
        let product = product(input)?;
        Some((product, gathered(tape, product, device)?, other))
    })?;
    members.push(product);
    let bias = bias(tape, (end, other), product, members)?;
    let alike = tape.array(end).shape() == tape.array(product).shape();
    alike.then_some(Said { product, bias: Some(bias), packing })
}

/// Where the experts' biases are read that are picked as a product's matrices are, and added at `at`.
fn bias(tape: &Tape, at: Cursor, product: usize, members: &mut Members) -> Option<Cursor> {
    let (at, node) = (views(tape, at, members), tape.node(product));
    let taken = inner(tape, at, 1, node.stream)?;
    let [table, picks] = &tape.node(taken).inputs[..] else { return None };
    let fits = tape.node(taken).primitive == Primitive::Indexing(IndexingOp::Take { axis: 0 })
        && picks.is_same(node.inputs.last()?)
        && table.shape() == [node.inputs[1].dim(0), tape.array(product).dim(-1)]
        && table.dtype() == tape.array(product).dtype();
    members.push(taken);
    fits.then_some((taken, 0))
}

/// The products that end at `gate` and `up`, if these are of the same rows and picks.
fn pair(
    tape: &Tape,
    [gate, up]: [usize; 2],
    after: After,
    device: &DeviceState,
) -> Option<(Members, Mixed)> {
    let mut members = SmallVec::new();
    let (gate, up) =
        (said(tape, gate, device, &mut members)?, said(tape, up, device, &mut members)?);
    let (a, b) = (&tape.node(gate.product).inputs, &tape.node(up.product).inputs);
    let (x, picks) = (&a[0], a.last()?);
    let alike = gate.packing == up.packing
        && x.is_same(&b[0])
        && picks.is_same(b.last()?)
        && tape.array(gate.product).shape() == tape.array(up.product).shape();
    let tokens = x.size() / x.dim(-1);
    let per_token = picks.size() / tokens;
    if !alike || per_token * tokens != picks.size() {
        return None;
    }
    for said in [&gate, &up] {
        numbered(tape, said.product, tokens, per_token, &mut members)?;
    }
    let replaces = members.len() as u64;
    let (products, biases) = (smallvec![gate.product, up.product], smallvec![gate.bias, up.bias]);
    let packing = gate.packing;
    let width = Width::Same;
    Some((members, Mixed { products, biases, after, packing, per_token, width, replaces }))
}

/// `silu(gate) * up` of picked experts, which ends at `result`.
fn gated(tape: &Tape, result: usize, device: &DeviceState) -> Option<(Members, Mixed)> {
    let (gate, up, gated) = gate::find(tape, result).filter(|found| found.2.gate == Gate::Silu)?;
    let (mut members, mut mixed) = pair(tape, [gate, up], After::Gate, device)?;
    members.extend(gated.members());
    mixed.replaces = members.len() as u64;
    Some((members, mixed))
}

/// The weighted sum at `result` of what picked experts say.
fn summed(tape: &Tape, result: usize, device: &DeviceState) -> Option<(Members, Mixed)> {
    let node = tape.node(result);
    let weighed = sums_axis(node, 2).then(|| inner(tape, (result, 0), 1, node.stream))??;
    if tape.node(weighed).primitive != Primitive::Binary(BinaryOp::Multiply) {
        return None;
    }
    [(0, 1), (1, 0)].into_iter().find_map(|(values, shares)| {
        let mut members: Members = smallvec![result, weighed];
        let mut values = views(tape, (weighed, values), &mut members);
        let wide = inner(tape, values, 1, node.stream).filter(|&at| widens(tape.node(at)));
        if let Some(wide) = wide {
            members.push(wide);
            values = views(tape, (wide, 0), &mut members);
        }
        let end = inner(tape, values, 1, node.stream)?;
        let Said { product, bias, packing } = said(tape, end, device, &mut members)?;
        let shares = column_of(tape, (weighed, shares), &mut members)?;
        let inputs = &tape.node(product).inputs;
        let (x, picks) = (&inputs[0], inputs.last()?);
        let weights = input(tape, shares);
        let [.., per_token, outputs] = tape.array(weighed).shape()[..] else { return None };
        let said = picks.size() * outputs;
        let fits = x.size() == picks.size() * x.dim(-1)
            && weights.size() == picks.size()
            && [product, weighed].iter().all(|&place| tape.array(place).size() == said)
            && weights.dtype() == if wide.is_some() { Dtype::Float32 } else { x.dtype() };
        fits.then_some(())?;
        let width = if wide.is_some() { Width::Wide } else { Width::Same };
        numbered(tape, product, picks.size(), 1, &mut members)?;
        let (replaces, products) = (members.len() as u64, smallvec![product]);
        let (after, biases) = (After::Sum(shares, None), smallvec![bias]);
        Some((members, Mixed { products, biases, after, packing, per_token, width, replaces }))
    })
}

/// Where numbers are read that are repeated along the last axis: (…) as (…, 1).
fn column_of(tape: &Tape, at: Cursor, members: &mut Members) -> Option<Cursor> {
    let stream = tape.node(at.0).stream;
    let wide = inner(tape, at, 1, stream)?;
    let Primitive::Shape(ShapeOp::Broadcast(_)) = tape.node(wide).primitive else { return None };
    let (narrow, whole) = (tape.node(wide).inputs[0].shape(), tape.array(wide).shape());
    let last = whole.len() - 1;
    let column =
        narrow.len() == whole.len() && narrow[last] == 1 && narrow[..last] == whole[..last];
    members.push(wide);
    column.then(|| views(tape, (wide, 0), members))
}

/// The packing of a product at `place` of single rows with matrices that they pick, if the kernel serves it.
fn gathered(tape: &Tape, place: usize, device: &DeviceState) -> Option<Packing> {
    let node = tape.node(place);
    let Primitive::Quantized(QuantizedOp::GatherQmm { packing, transpose: true, .. }) =
        node.primitive
    else {
        return None;
    };
    let (x, matrices, picks) = (&node.inputs[0], &node.inputs[1], node.inputs.last()?);
    if matrices.ndim() != 3 {
        return None;
    }
    let sizes = |paired| gather_rows::Sizes {
        dtype: x.dtype(),
        packing,
        picks: picks.size(),
        experts: matrices.dim(0),
        outputs: tape.array(place).dim(-1),
        inner: x.dim(-1),
        paired,
    };
    // A product may become one of two matrices, or stay alone.
    let together = || {
        let plan = |paired| {
            gather_rows::plan(&sizes(paired), device.capabilities(), device.config).is_some()
        };
        plan(true) && plan(false)
    };
    let few = (1..=gather_rows::MOST_SINGLE).contains(&picks.size());
    let serves = device.config.enable_fused_mixtures
        && Team::of(device.capabilities(), true).subgroups
        && (few || together())
        && x.dim(-2) == 1
        && x.size() > 0
        && tape.array(place).size() > 0
        && is_float(tape.array(place).dtype())
        && [x.dim(-1), tape.array(place).dim(-1)].iter().all(|&size| size < 1 << 28);
    serves.then_some(packing)
}

/// Collects what numbers the rows of the product at `place`, which nobody else sees: nothing if these are not
/// the rows of `tokens` one after another, each `per_token` times.
fn numbered(
    tape: &Tape,
    place: usize,
    tokens: usize,
    per_token: usize,
    members: &mut Members,
) -> Option<()> {
    let lists = tape.node(place).inputs.len() - 2;
    let (mut at, mut private, mut repeated) = ((place, lists), true, 1);
    loop {
        let Some(here) = tape.input(at.0, at.1) else {
            // Evaluated before: of a single row there is but one number.
            let each = [1, per_token].contains(&repeated).then(|| per_token / repeated);
            let counts = |each| counts(input(tape, at), each);
            return (tokens == 1 || each.is_some_and(counts)).then_some(());
        };
        let node = tape.node(here);
        private &= inner(tape, at, 1, tape.node(place).stream) == Some(here);
        match &node.primitive {
            Primitive::Shape(ShapeOp::Broadcast(_)) => {
                let (narrow, wide) = (node.inputs[0].shape(), tape.array(here).shape());
                let last = wide.len().checked_sub(1)?;
                let along = narrow.len() == wide.len() && narrow[..last] == wide[..last];
                (along && repeated == 1).then_some(())?;
                repeated = wide[last] / narrow[last].max(1);
                (repeated == 1 || narrow[last] == 1).then_some(())?;
            }
            Primitive::Shape(ShapeOp::Reshape(_)) => {}
            Primitive::Arange(range) => {
                let counts = range.start.0 == 0.0 && range.step.0 == 1.0 && range.size == tokens;
                if private {
                    members.push(here);
                }
                return (counts && repeated == per_token).then_some(());
            }
            _ => return None,
        }
        if private {
            members.push(here);
        }
        at = (here, 0);
    }
}

/// Whether an array that the host has counts rows from 0 on, each so often.
fn counts(numbers: &Array, per_row: usize) -> bool {
    let Some(Data { buffer, layout }) = numbers.data() else { return false };
    let there = layout.flags.row_contiguous
        && layout.offset == 0
        && numbers.dtype() == Dtype::Uint32
        && buffer.current() != Current::Device
        && buffer.written().reached();
    there && {
        let bytes = buffer.read();
        let numbers = bytes.chunks_exact(4).take(numbers.size()).enumerate();
        numbers.into_iter().all(|(i, number)| number == ((i / per_row) as u32).to_ne_bytes())
    }
}

impl GroupKernel for Mixed {
    fn name(&self) -> usize {
        self.products[0]
    }

    fn counted(&self) -> &[usize] {
        &self.products
    }

    fn replaces(&self) -> u64 {
        self.replaces
    }

    fn describe(&self, tape: &Tape) -> String {
        let [inner, outputs] =
            [&tape.node(self.products[0]).inputs[0], tape.array(self.products[0])]
                .map(|a| a.dim(-1));
        let after = match self.after {
            After::Store => "stored",
            After::Gate => "gated",
            After::Sum(..) => "summed",
        };
        let biased = if self.biases[0].is_some() { "biased " } else { "" };
        format!("experts {inner}x{outputs} b{} {biased}{after}", self.packing.bits())
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let first = &tape.node(self.products[0]).inputs;
        let (x, words, picks) = (&first[0], &first[1], &first[first.len() - 1]);
        let (Some(at), Some(picked)) = (dense(ctx, x)?, dense(ctx, picks)?) else {
            return Ok(false);
        };
        let (shares, addend) = match self.after {
            After::Sum(shares, addend) => (Some(shares), addend),
            After::Store | After::Gate => (None, None),
        };
        let last = self.biases[self.biases.len() - 1];
        let mut others = [None; 4];
        for (at, cursor) in others.iter_mut().zip([shares, addend, self.biases[0], last]) {
            let Some(cursor) = cursor else { continue };
            *at = dense(ctx, input(tape, cursor))?;
            if at.is_none() {
                return Ok(false);
            }
        }
        let [shares, addend, biases @ ..] = others;
        let mut matrices = [[Operand::default(); 3]; 2];
        for (i, matrix) in matrices.iter_mut().enumerate() {
            let place = self.products[i.min(self.products.len() - 1)];
            let inputs = &tape.node(place).inputs;
            // Small floats have no biases.
            let Some(parts) = parts(ctx, &inputs[1..inputs.len() - 2])? else { return Ok(false) };
            *matrix = parts;
        }
        let result = ctx.output(&mut kept[0])?;
        let after = match (self.after, shares) {
            (After::Sum(at, _), Some(shares)) => {
                let dtype = input(tape, at).dtype();
                mixture::After::Sum { shares, dtype, addend }
            }
            (After::Store, _) => mixture::After::Store { second: ctx.output(&mut kept[1])? },
            _ => mixture::After::Gate,
        };
        let experts = Experts {
            x: at,
            picks: picked,
            after,
            matrices,
            biases,
            shared: None,
            result,
            packing: self.packing,
            dtype: x.dtype(),
            tokens: picks.size() / self.per_token,
            per_token: self.per_token,
            outputs: tape.array(self.products[0]).dim(-1),
            inner: x.dim(-1),
            experts: words.dim(0),
        };
        mixture::experts(ctx, &experts)?;
        Ok(true)
    }
}

/// What a group's optional part is to kernels: none where there is no such part, nothing where it does not
/// lie as they need it.
fn optional<P, T>(
    part: Option<P>,
    operand: impl FnOnce(P) -> Result<Option<T>>,
) -> Result<Option<Option<T>>> {
    part.map_or(Ok(Some(None)), |part| Ok(operand(part)?.map(Some)))
}

/// The parts of a stack of matrices in place.
fn parts(ctx: &mut Ctx<'_>, arrays: &[Array]) -> Result<Option<[Operand; 3]>> {
    let mut parts = [Operand::default(); 3];
    for (part, array) in parts.iter_mut().zip(arrays) {
        let Some(at) = dense(ctx, array)? else { return Ok(None) };
        *part = at;
    }
    Ok(Some(parts))
}
