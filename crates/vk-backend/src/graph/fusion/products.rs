//! Products of the same rows with different matrices, with a gate or a residual after them and, where the
//! rows are few, their biases, the norm of the rows before them, and the sum of a residual and a norm before
//! that.

use mlx_vulkan_core::{
    Array, Dtype, Result,
    array::Data,
    backend::Output,
    fusion::Group,
    graph::Node,
    primitives::{MatmulOp, Primitive, QuantizedOp},
    shape::is_row_contiguous,
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{
    Grouped,
    bias::Biased,
    device,
    gate::{self, Gated},
    inner,
    norms::{self, Summed},
};
use crate::{
    kernels::{
        Ctx, Operand, Region,
        fragment::fragment,
        matmul::{
            matrix::{Right, takes_fields},
            planner as matmul,
        },
        matvec::{
            self, After, Format, Fused, MOST_MATRICES, Weights,
            planner::{self, MatvecSizes},
        },
        quantized::planner as quantized,
        siblings,
    },
    runtime::{capabilities::Fragment, config::Config, device::DeviceState},
};

/// What happens to the results, by places on the tape.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Then {
    Store,
    /// The sum with its `other`-th input.
    Add {
        sum: usize,
        other: usize,
    },
    /// One gates the other.
    Gate(Gated),
}

/// The kernels of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Mat-vecs.
    Few,
    /// Several rows, with fragments.
    Several,
    /// Tiles of cooperative matrices, of halves of this dtype.
    Many(Fragment, Dtype),
}

/// Products of the same rows.
#[derive(Debug, Clone)]
struct Products {
    places: SmallVec<[usize; 3]>,
    /// Of each of them, if it has one.
    biases: SmallVec<[Option<Biased>; 3]>,
    way: Way,
    rows: usize,
    inner: usize,
    format: Format,
    sum: Option<Summed>,
    norm: Option<usize>,
    then: Then,
    config: &'static Config,
}

/// Products that may still find others of their rows: those of the last few.
const OPEN: usize = 8;

/// Products of one group; those of a few rows are as many dispatches as their matrices need.
const MOST_PRODUCTS: usize = 2 * MOST_MATRICES;

/// Collects products in the order of the tape.
pub(super) struct Builder {
    found: Vec<Products>,
}

impl Builder {
    /// Without products yet, of a tape of so many places: of a language model's, each seventh is one.
    pub(super) fn new(places: usize) -> Self {
        Builder { found: Vec::with_capacity(places / 4) }
    }

    /// Adds the product at `place`, if the fused kernel serves it: to others of the same rows if there are
    /// any.
    pub(super) fn product(&mut self, tape: &Tape, place: usize, device: &DeviceState) {
        let Some(new) = describe(tape, place, device) else { return };
        let node = tape.node(place);
        let sibling = self.recent().find(|p| {
            let first = tape.node(p.places[0]);
            device.config.enable_fused_siblings
                && p.then == Then::Store
                && p.places.len() < p.most()
                && (p.way, p.rows, p.inner, p.format) == (new.way, new.rows, new.inner, new.format)
                && first.stream == node.stream
                && first.inputs[0].is_same(&node.inputs[0])
        });
        match sibling {
            Some(products) => {
                products.places.extend(new.places);
                products.biases.extend(new.biases);
            }
            None => self.found.push(new),
        }
    }

    /// The products with the one of which the result is at `end` that have nothing after them yet.
    fn of(&mut self, end: usize) -> Option<&mut Products> {
        self.recent().find(|p| p.then == Then::Store && p.with(end).is_some())
    }

    /// The last products, newest first.
    fn recent(&mut self) -> impl Iterator<Item = &mut Products> {
        self.found.iter_mut().rev().take(OPEN)
    }

    /// `silu(gate) * up`, or with gelu, that ends at `result`.
    pub(super) fn gate(&mut self, tape: &Tape, result: usize) {
        if self.found.is_empty() {
            return;
        }
        let Some((gate, up, mut gated)) = gate::find(tape, result) else { return };
        let has_halves = |p: &&mut Products| {
            p.config.enable_fused_gate && p.places.len() == 1 && p.biases[0].is_none()
        };
        if let Some(product) = gated.take_halves(tape, gate, up) {
            if let Some(products) = self.of(product).filter(has_halves) {
                products.then = Then::Gate(gated);
            }
            return;
        }
        let fits = |p: &&mut Products| {
            p.config.enable_fused_gate && p.places.len() == 2 && p.with(up).is_some()
        };
        if tape.array(gate).shape() == tape.array(up).shape()
            && let Some(products) = self.of(gate).filter(fits)
        {
            if products.with(gate) == Some(1) {
                products.places.swap(0, 1);
                products.biases.swap(0, 1);
            }
            products.then = Then::Gate(gated);
        }
    }

    /// The sum of a product and a bias. Whether it is one, though products of many rows do not take it.
    pub(super) fn bias(&mut self, tape: &Tape, sum: usize) -> bool {
        if self.found.is_empty() {
            return false;
        }
        for (input, other) in [(0, 1), (1, 0)] {
            let Some(product) = inner(tape, (sum, input), 1, tape.node(sum).stream) else {
                continue;
            };
            let Some(products) = self.of(product) else { continue };
            let Some(bias) = Biased::of_sum(tape, sum, other) else { continue };
            products.take(product, bias);
            return true;
        }
        false
    }

    /// The sum of a product, if it is the only one of its rows, and something else.
    pub(super) fn residual(&mut self, tape: &Tape, sum: usize) {
        if self.found.is_empty() {
            return;
        }
        let node = tape.node(sum);
        for (input, other) in [(0, 1), (1, 0)] {
            let Some(product) = inner(tape, (sum, input), 1, node.stream) else { continue };
            let alike = node.inputs[other].shape() == tape.array(product).shape();
            let alone = |p: &&mut Products| p.config.enable_fused_residual && p.places.len() == 1;
            if alike && let Some(products) = self.of(product).filter(alone) {
                products.then = Then::Add { sum, other };
                return;
            }
        }
    }

    /// The groups, with the norms and sums before them, if no other group claims these.
    pub(super) fn finish(
        self,
        tape: &Tape,
        is_claimed: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = Group> {
        let residual = |products: &Products| match products.then {
            Then::Add { sum, .. } => Some(sum),
            _ => None,
        };
        let mut sums: SmallVec<[usize; 64]> = self.found.iter().filter_map(residual).collect();
        self.found.into_iter().filter_map(move |mut products| {
            products.leave(&is_claimed);
            // What is left of products of which another group has some is stored.
            products.part_with(&is_claimed).then_some(())?;
            products.norm = products.norm_before(tape);
            // Several groups may read the same sum, but one makes it.
            let is_free = |found: &Summed| !sums.contains(&found.sum) && !is_claimed(found.sum);
            products.sum = products.sum_before(tape).filter(is_free);
            sums.extend(products.sum.iter().map(|found| found.sum));
            products.group()
        })
    }
}

/// The product at `place`, if a fused kernel serves it.
fn describe(tape: &Tape, place: usize, device: &DeviceState) -> Option<Products> {
    let (node, out) = (tape.node(place), tape.array(place));
    let (x, caps, config) = (&node.inputs[0], device.capabilities(), device.config);
    let (inner, outputs) = (x.dim(-1), out.dim(-1));
    if inner == 0 || out.size() == 0 {
        return None;
    }
    let (rows, dtype) = (x.size() / inner, out.dtype());
    let leading = [inner as i64, inner.max(outputs) as i64];
    let fragment = fragment(dtype, leading, caps, config);
    let many = |gemm: matmul::Gemm| match (gemm, fragment) {
        (matmul::Gemm::Matrix(..), Some(fragment)) => Some(Way::Many(fragment, dtype)),
        _ => None,
    };
    let several = |format: Format| {
        let outputs = [outputs as u32, 0, 0];
        let p = MatvecSizes { rows: u32::try_from(rows).ok()?, outputs, sets: 1 };
        matvec::plan_rows(&p, inner as u32, format, caps, config).map(|_| Way::Several)
    };
    let mut bias = None;
    let (format, way) = match &node.primitive {
        Primitive::Quantized(QuantizedOp::QuantizedMatmul { packing, transpose: true })
            if node.inputs[1].ndim() == 2 =>
        {
            let format = Format::packed(dtype, *packing);
            let fragment = fragment.filter(|_| quantized::holds(*packing, dtype));
            let product = quantized::QuantizedProduct {
                rows,
                outputs,
                inner,
                batches: 1,
                transpose: true,
                packing: *packing,
                fragment,
                right: quantized::right_of(*packing, true, inner, fragment, caps)
                    .fields_if(takes_fields([rows, outputs, inner])),
            };
            let way = match quantized::plan(&product, caps, config) {
                quantized::QuantizedPlan::MatVec { team, .. } => team.subgroups.then_some(Way::Few),
                quantized::QuantizedPlan::Gemm(gemm) | quantized::QuantizedPlan::Dense(gemm) => {
                    // Tiles of siblings are of affine matrices alone.
                    many(gemm).filter(|_| !format.floats)
                }
                quantized::QuantizedPlan::VecMat { .. } => None,
            };
            (format, several(format).or(way))
        }
        Primitive::Matmul(op) => {
            let format = Format::dense(dtype);
            let few = matmul::is_few(rows, outputs).then_some(Way::Few);
            let few = several(format).or(few);
            let way = match op {
                MatmulOp::Matmul => few.or_else(|| {
                    many(matmul::gemm(rows, outputs, inner, 1, fragment, Right::Dense, caps))
                }),
                MatmulOp::AddMm { .. } if few.is_some() => {
                    bias =
                        Some(Biased::of_addmm(tape, place).filter(|_| config.enable_fused_bias)?);
                    few
                }
                _ => return None,
            };
            (format, way)
        }
        _ => return None,
    };
    let way = way?;
    let serves = rows * outputs == out.size()
        && dtype.is_floating()
        && dtype.size() <= 4
        && rows.max(outputs).max(inner) < 1 << 28
        && match way {
            Way::Few => {
                planner::serves(rows, inner, format.bits as usize, dtype.size(), caps, config)
            }
            Way::Several => true,
            Way::Many(..) => config.enable_fused_tiles && inner.is_multiple_of(8),
        };
    let (places, biases) = (smallvec![place], smallvec![bias]);
    let (sum, norm, then) = (None, None, Then::Store);
    serves.then_some(Products { places, biases, way, rows, inner, format, sum, norm, then, config })
}

/// How the packed matrix of the product at `place` is stored, if rows of it are outputs.
pub(super) fn packed(tape: &Tape, place: usize) -> Option<Format> {
    let node = tape.node(place);
    let Primitive::Quantized(QuantizedOp::QuantizedMatmul { packing, transpose: true }) =
        node.primitive
    else {
        return None;
    };
    let single = node.inputs[1].ndim() == 2;
    single.then(|| Format::packed(tape.array(place).dtype(), packing))
}

/// How the matrix of the product at `place` is stored, if kernels of few rows serve it.
pub(super) fn few_rows(tape: &Tape, place: usize) -> Option<Format> {
    let product = describe(tape, place, device(tape.node(place))?)?;
    matches!(product.way, Way::Few | Way::Several).then_some(product.format)
}

impl Products {
    /// How many there may be.
    fn most(&self) -> usize {
        if self.way == Way::Few { MOST_PRODUCTS } else { MOST_MATRICES }
    }

    /// The results, of which each is a product's or its sum with a bias.
    fn ends(&self) -> impl Iterator<Item = usize> {
        let both = self.places.iter().zip(&self.biases);
        both.map(|(&place, bias)| bias.as_ref().map_or(place, |bias| bias.sum))
    }

    /// The number of the product of which the result is at `end`.
    fn with(&self, end: usize) -> Option<usize> {
        self.ends().position(|other| other == end)
    }

    /// Adds a bias to the product of which the result is at `end`, if its kernel takes one more.
    fn take(&mut self, end: usize, bias: Biased) {
        let takes = self.config.enable_fused_bias && !matches!(self.way, Way::Many(..));
        let free = self.with(end).filter(|&i| takes && self.biases[i].is_none());
        if let Some(i) = free {
            self.biases[i] = Some(bias);
        }
    }

    /// Leaves biases to other groups that claim their sums, with all that follows the products.
    fn leave(&mut self, is_claimed: impl Fn(usize) -> bool) {
        for (bias, &product) in self.biases.iter_mut().zip(&self.places) {
            // An `addmm` is its own sum.
            let leaves = |bias: &mut Biased| bias.sum != product && bias.members().any(&is_claimed);
            if bias.take_if(leaves).is_some() {
                self.then = Then::Store;
            }
        }
    }

    /// Takes out products that other groups claim, with what follows them all. Whether there are any left.
    fn part_with(&mut self, is_claimed: impl Fn(usize) -> bool) -> bool {
        if self.places.iter().any(|&place| is_claimed(place)) {
            self.then = Then::Store;
            let both = self.places.iter().copied().zip(std::mem::take(&mut self.biases));
            let left = both.filter(|&(place, _)| !is_claimed(place));
            (self.places, self.biases) = left.unzip();
        }
        !self.places.is_empty()
    }

    /// The biases that there are.
    fn added(&self) -> impl Iterator<Item = &Biased> {
        self.biases.iter().flatten()
    }

    /// The norm of the rows, if nobody else wants it.
    fn norm_before(&self, tape: &Tape) -> Option<usize> {
        if self.way != Way::Few || !self.config.enable_fused_norm {
            return None;
        }
        let stream = tape.node(self.places[0]).stream;
        let norm = inner(tape, (self.places[0], 0), self.places.len(), stream)?;
        norms::input_of(tape, norm, self.format.dtype).map(|_| norm)
    }

    /// The sum that the rows are, if it is one of a residual and of what a norm makes of an array alike, or
    /// the norm that it shares with others.
    fn sum_before(&self, tape: &Tape) -> Option<Summed> {
        // Norms of both take shared memory for each row.
        let serves = self.way == Way::Few && 2 * self.rows <= planner::MOST_ROWS;
        if !serves || !self.config.enable_fused_norm {
            return None;
        }
        let (from, uses) = match self.norm {
            Some(norm) => (norm, 1),
            None => (self.places[0], self.places.len()),
        };
        let dtype = self.format.dtype;
        let found = Summed::before(tape, from, uses, [self.rows, self.inner], dtype);
        // One product with a norm that is made anyway gains little, and has no cooperative matrices then.
        let is_shared = self.rows == 1 && self.norm.is_none() && self.places.len() > 1;
        let shared = || Summed::shared(tape, self.places[0], self.inner, dtype);
        let found = found.or_else(|| shared().filter(|_| is_shared))?;
        // What is added behind the product may be made of the sum, which is not there before it.
        let adds = matches!(self.then, Then::Add { .. });
        let adds = adds || self.added().any(|bias| bias.is_lazy(tape));
        (!found.is_kept || !adds).then_some(found)
    }

    fn group(self) -> Option<Group> {
        let mut members: SmallVec<[usize; 16]> = self.places.iter().copied().collect();
        members.extend(self.added().flat_map(Biased::members));
        members.extend(self.norm);
        members.extend(self.sum.iter().flat_map(|found| found.members()));
        let mut kept: SmallVec<[usize; 3]> = match &self.then {
            Then::Store => self.ends().collect(),
            &Then::Add { sum, .. } => {
                members.push(sum);
                smallvec![sum]
            }
            Then::Gate(gated) => {
                members.extend(gated.members());
                smallvec![gated.result]
            }
        };
        kept.extend(self.sum.filter(|found| found.is_kept).map(|found| found.sum));
        (members.len() > 1).then(|| Group { members, kept, fusion: Box::new(Grouped(self)) })
    }
}

impl super::GroupKernel for Products {
    fn name(&self) -> usize {
        self.places[0]
    }

    fn counted(&self) -> &[usize] {
        &self.places
    }

    fn replaces(&self) -> u64 {
        let after = match &self.then {
            Then::Store => 0,
            Then::Add { .. } => 1,
            Then::Gate(gated) => gated.replaces(),
        };
        let added: u64 = self.added().map(Biased::replaces).sum();
        let summed = self.sum.map_or(0, |found| found.members().count() as u64);
        let before = u64::from(self.norm.is_some()) + summed;
        self.places.len() as u64 + before + added + after
    }

    fn describe(&self, tape: &Tape) -> String {
        let outputs = self.places.iter().map(|&place| tape.array(place).dim(-1));
        let outputs: SmallVec<[usize; 3]> = outputs.collect();
        let norm = if self.norm.is_some() { "norm " } else { "" };
        let sum = match self.sum.map(|found| found.members().count()) {
            Some(2) => "norm + residual ",
            Some(_) => "shared norm ",
            None => "",
        };
        let biased = if self.added().next().is_some() { " + bias" } else { "" };
        let after = match &self.then {
            Then::Store => "",
            Then::Add { .. } => " + residual",
            Then::Gate(_) => " gated",
        };
        format!(
            "{sum}{norm}{}x{}x{outputs:?} b{}{biased}{after}",
            self.rows, self.inner, self.format.bits
        )
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let mut parts: SmallVec<[Part; 2]> = SmallVec::new();
        for first in (0..self.places.len()).step_by(MOST_MATRICES) {
            let last = self.places.len().min(first + MOST_MATRICES);
            let Some(part) = self.part(ctx, tape, first..last)? else { return Ok(false) };
            parts.push(part);
        }
        let tiles = match self.way {
            Way::Few => None,
            Way::Several if matvec::on_rows(ctx, &parts[0].fused).is_none() => return Ok(false),
            Way::Several => None,
            Way::Many(fragment, dtype) => {
                let plan = siblings::plan(ctx, &parts[0].fused, fragment);
                let Some(plan) = plan else { return Ok(false) };
                Some((plan, dtype))
            }
        };
        let sums = self.sum.filter(|found| found.is_kept).map_or(0, |_| 1);
        let (results, sums) = kept.split_at_mut(kept.len() - sums);
        for (i, (part, results)) in
            parts.iter_mut().zip(results.chunks_mut(MOST_MATRICES)).enumerate()
        {
            let mut writes: SmallVec<[Region; 4]> = SmallVec::new();
            for (i, output) in results.iter_mut().enumerate() {
                let result = ctx.output(output)?;
                part.fused.stored_at(i, result.address);
                writes.push(result.region);
            }
            // The first one stores the sum.
            if let ([output], Some(sum), 0) = (&mut *sums, &mut part.fused.sum, i) {
                let result = ctx.output(output)?;
                sum.result = result.address;
                writes.push(result.region);
            }
            match &tiles {
                Some((plan, dtype)) => {
                    siblings::encode(ctx, &part.fused, plan.clone(), *dtype, &part.reads, &writes)?;
                }
                None => matvec::encode(ctx, &part.fused, &part.reads, &writes)?,
            }
        }
        Ok(true)
    }
}

/// Products of one dispatch, and what it reads.
struct Part {
    fused: Fused,
    reads: SmallVec<[Region; 12]>,
}

impl Products {
    /// Some of the products, with what comes before and after them, if operands lie as kernels read them.
    ///
    /// # Errors
    /// When memory or the device fails.
    fn part(
        &self,
        ctx: &mut Ctx<'_>,
        tape: &Tape,
        of: std::ops::Range<usize>,
    ) -> Result<Option<Part>> {
        let first = tape.node(self.places[0]);
        let norm = self.norm.map(|place| tape.node(place));
        let normed = self.sum.map(|found| tape.node(found.norm));
        let rows = &normed.or(norm).unwrap_or(first).inputs[0];
        let Some(x) = dense(ctx, rows)? else { return Ok(None) };
        let mut reads: SmallVec<[Region; 12]> = smallvec![x.region];
        let mut fused = Fused::new(x.address, self.rows as u32, self.inner as u32, self.format);
        if let Some(node) = norm {
            let Some(norm) = norms::operand(ctx, node, &mut reads)? else { return Ok(None) };
            fused.norm = Some(norm);
        }
        if let Some(found) = self.sum {
            let Some(sum) = found.operand(ctx, tape, &mut reads)? else { return Ok(None) };
            fused.sum = Some(sum);
        }
        for (&place, bias) in self.places[of.clone()].iter().zip(&self.biases[of]) {
            let outputs = tape.array(place).dim(-1) as u32;
            let Some(mut matrix) = matrix(ctx, tape.node(place), outputs, &mut reads)? else {
                return Ok(None);
            };
            if let Some(biased) = bias {
                matrix.bias = biased.operand(ctx, tape, &mut reads)?;
                if matrix.bias.is_none() {
                    return Ok(None);
                }
            }
            match &self.then {
                Then::Gate(_) if self.places.len() == 1 => {
                    halves(matrix, tape.node(place)).into_iter().for_each(|half| fused.push(half));
                }
                _ => fused.push(matrix),
            }
        }
        match &self.then {
            Then::Store => {}
            &Then::Add { sum, other } => {
                let Some(residual) = dense(ctx, &tape.node(sum).inputs[other])? else {
                    return Ok(None);
                };
                reads.push(residual.region);
                fused.after = After::Residual(residual.address);
            }
            Then::Gate(gated) => fused.after = After::Gate(gated.gate),
        }
        Ok(Some(Part { fused, reads }))
    }
}

/// An array in place, if it is dense and begins where 16 bytes can be read at once.
pub(super) fn dense(ctx: &mut Ctx<'_>, array: &Array) -> Result<Option<Operand>> {
    if !array.evaluated().layout.flags.row_contiguous {
        return Ok(None);
    }
    let at = ctx.input(array)?;
    Ok(at.is_aligned(16).then_some(at))
}

/// The matrix of a product, if it lies in one piece with dense rows, where 16 bytes can be read at once.
pub(super) fn matrix(
    ctx: &mut Ctx<'_>,
    node: &Node,
    outputs: u32,
    reads: &mut impl Extend<Region>,
) -> Result<Option<Weights>> {
    let plain = matches!(node.primitive, Primitive::Matmul(_));
    let mut parts = [0; 3];
    let count = if plain { 1 } else { parts.len() };
    for (part, array) in parts.iter_mut().zip(&node.inputs[1..]).take(count) {
        let Data { layout, .. } = array.evaluated();
        let in_place = match plain {
            true => transposed(array.shape(), &layout.strides),
            false => layout.flags.row_contiguous,
        };
        if !in_place {
            return Ok(None);
        }
        let at = ctx.input(array)?;
        reads.extend([at.region]);
        *part = at.address;
    }
    let [words, scales, biases] = parts;
    let matrix = Weights { words, scales, biases, outputs, ..Weights::default() };
    Ok((words | scales | biases).is_multiple_of(16).then_some(matrix))
}

/// The matrices of the first and of the second half of a product's outputs.
fn halves(whole: Weights, node: &Node) -> [Weights; 2] {
    let outputs = whole.outputs / 2;
    let bytes = |part: usize| match node.primitive {
        Primitive::Matmul(_) => node.inputs[0].dim(-1) * node.inputs[0].dtype().size(),
        _ => node.inputs.get(part).map_or(0, |part| part.nbytes() / part.dim(-2)),
    };
    let [words, scales, biases] = [1, 2, 3].map(|part| u64::from(outputs) * bytes(part) as u64);
    let first = Weights { outputs, ..whole };
    let second = Weights {
        words: first.words + words,
        scales: first.scales + scales,
        biases: first.biases + biases,
        ..first
    };
    [first, second]
}

/// Whether an array is one matrix, repeated or not, whose columns are dense rows.
fn transposed(shape: &[usize], strides: &[isize]) -> bool {
    let batch = shape.len() - 2;
    let one = (0..batch).all(|axis| shape[axis] == 1 || strides[axis] == 0);
    let (inner, outputs) = (shape[batch], shape[batch + 1]);
    one && is_row_contiguous(&[outputs, inner], &[strides[batch + 1], strides[batch]])
}
