//! The table that the interpreter kernel walks: a row per step, with where its
//! operands are and where its results go. Those of mixtures are in `table/mixture.rs`.

mod mixture;

use std::mem::offset_of;

use bytemuck::NoUninit;
use smallvec::SmallVec;

use crate::{
    graph::interpreter::{
        planner::{self, Shape},
        variant::Variant,
    },
    kernels::{
        attention::decode::{Attention, Token},
        convolution::token as convolution,
        delta::{Heads, TokenDelta},
        layouts::{
            interpreter_rows::{
                AttentionRow, ConvolutionRow, DeltaRow, PickedRow, ProductRow, RouterRow, RowMatrix,
            },
            run_rows::*,
        },
        matvec::{After, Fused, Gate, MOST_MATRICES, RowSum},
        steps::{Kind, Step},
    },
    runtime::{config::Config, hazards::Region},
};

/// Bytes of a row.
const ROW: usize = 4 * ROW_WORDS as usize;
/// Bytes of a value with its tag.
pub(super) const MARKED: u64 = 4;

/// The kernel takes rows as words of 16 bytes: their numbers are those of the fields.
const _: () = {
    const fn quad(number: u32) -> usize {
        16 * number as usize
    }
    assert!(size_of::<ProductRow>() == ROW && size_of::<AttentionRow>() == ROW);
    assert!(offset_of!(ProductRow, kind) == quad(HEAD));
    assert!(offset_of!(ProductRow, x) == quad(SOURCE));
    assert!(offset_of!(ProductRow, residual) == quad(TARGET));
    assert!(offset_of!(ProductRow, matrices) == quad(MATRIX));
    assert!(offset_of!(ProductRow, ends) == quad(ENDS_AND_STRIDES));
    assert!(offset_of!(ProductRow, strides) == quad(ENDS_AND_STRIDES) + 8);
    assert!(offset_of!(ProductRow, second) == quad(SECOND));
    assert!(offset_of!(ProductRow, chunks) == quad(COUNTS) + 8);
    assert!(offset_of!(ProductRow, added) == quad(ADDED));
    assert!(offset_of!(ProductRow, sum_weight) == quad(SUM_WEIGHT) + 8);
    assert!(offset_of!(ProductRow, sum_residual) == quad(SUM_RESIDUAL));
    assert!(offset_of!(ProductRow, sum_result) == quad(SUM_RESULT));
    assert!(offset_of!(AttentionRow, kind) == quad(COUNT_AND_SCALE));
    assert!(offset_of!(AttentionRow, scale) == quad(COUNT_AND_SCALE) + 12);
    assert!(offset_of!(AttentionRow, eps) == quad(EPS_AND_HEADS));
    assert!(size_of::<RouterRow>() == ROW && size_of::<PickedRow>() == ROW);
    assert!(offset_of!(RouterRow, kind) == quad(HEAD) && offset_of!(PickedRow, kind) == quad(HEAD));
    assert!(offset_of!(RouterRow, x) == quad(SOURCE) && offset_of!(PickedRow, x) == quad(SOURCE));
    assert!(offset_of!(RouterRow, words) == quad(ROUTER_MATRIX));
    assert!(offset_of!(RouterRow, biases) == quad(ROUTER_BIASES));
    assert!(offset_of!(RouterRow, bits) == quad(ROUTER_FORMAT));
    assert!(offset_of!(RouterRow, shared_words) == quad(ROUTER_SHARED));
    assert!(offset_of!(PickedRow, residual) == quad(TARGET));
    assert!(offset_of!(PickedRow, matrix) == quad(MATRIX));
    assert!(offset_of!(PickedRow, expert_words) == quad(EXPERT_STRIDES));
    assert!(offset_of!(PickedRow, logits) == quad(PICKS));
    assert!(offset_of!(PickedRow, each) == quad(PARTS));
    assert!(offset_of!(PickedRow, shared_kind) == quad(SHARED_AND_SCORING));
    assert!(offset_of!(PickedRow, shared_matrix) == quad(SHARED_MATRIX));
    assert!(offset_of!(PickedRow, shared_second) == quad(SHARED_SECOND));
    assert!(offset_of!(PickedRow, ends) == quad(ENDS_AND_STRIDES));
    assert!(offset_of!(PickedRow, second) == quad(SECOND));
    assert!(offset_of!(PickedRow, chunks) == quad(COUNTS) + 8);
    assert!(size_of::<ConvolutionRow>() == ROW && size_of::<DeltaRow>() == ROW);
    assert!(offset_of!(ConvolutionRow, x) == quad(X_AND_BEFORE));
    assert!(offset_of!(ConvolutionRow, weight) == quad(WEIGHT_AND_BIAS));
    assert!(offset_of!(ConvolutionRow, result) == quad(CONVOLVED));
    assert!(offset_of!(ConvolutionRow, window) == quad(WINDOW));
    assert!(offset_of!(DeltaRow, q) == quad(QUERY_AND_KEY));
    assert!(offset_of!(DeltaRow, v) == quad(VALUE_AND_A));
    assert!(offset_of!(DeltaRow, b) == quad(B_AND_Z));
    assert!(offset_of!(DeltaRow, decay) == quad(DECAY_AND_SHIFT));
    assert!(offset_of!(DeltaRow, state) == quad(STATES));
    assert!(offset_of!(DeltaRow, weight) == quad(END_WEIGHT_AND_Y));
    assert!(offset_of!(DeltaRow, result) == quad(GATED_RESULT));
    assert!(offset_of!(DeltaRow, parts) == quad(OUTPUTS_AND_SCALES));
    assert!(offset_of!(DeltaRow, eps) == quad(DELTA_EPS));
    assert!(offset_of!(AttentionRow, heads) == quad(EPS_AND_HEADS) + 8);
    assert!(offset_of!(AttentionRow, q) == quad(Q_AND_KEY));
    assert!(offset_of!(AttentionRow, new_value) == quad(VALUE_AND_Q_WEIGHT));
    assert!(offset_of!(AttentionRow, k_weight) == quad(K_WEIGHT_AND_FREQUENCIES));
    assert!(offset_of!(AttentionRow, keys) == quad(CACHES));
    assert!(offset_of!(AttentionRow, mask) == quad(MASK_AND_FACTOR));
    assert!(offset_of!(AttentionRow, key_scales) == quad(KEY_AFFINE));
    assert!(offset_of!(AttentionRow, value_scales) == quad(VALUE_AFFINE));
    assert!(offset_of!(AttentionRow, result) == quad(RESULT_AND_MARKED));
    assert!(offset_of!(AttentionRow, parts) == quad(PARTS_AND_OFFSET));
    assert!(offset_of!(AttentionRow, key_head) == quad(STRIDES));
};

/// Where the rows of a product are that a team takes at a time, a block: neighbours of one matrix, or half of
/// them of the gate and half of what it gates.
struct BlockLayout {
    blocks: u32,
    /// Results of a block.
    results: u32,
    matrices: [RowMatrix; MOST_MATRICES],
    ends: [u32; 2],
    strides: [u32; 2],
    second: [u64; 3],
}

impl BlockLayout {
    fn of(fused: &Fused) -> Self {
        let row = fused.format.row_bytes(fused.inner);
        let gated = fused.after.is_gate();
        let half = planner::RESULTS / 2;
        let results = if gated { half } else { planner::RESULTS };
        let strides = row.map(|bytes| bytes * results);
        // Of words, scales, biases and results.
        let bytes = [strides[0], strides[1], strides[1], 2 * results].map(u64::from);
        let (mut blocks, mut ends) = (0, [0; MOST_MATRICES]);
        let mut matrices = [RowMatrix::default(); MOST_MATRICES];
        let count = if gated { 1 } else { MOST_MATRICES };
        for (i, m) in fused.matrices[..count].iter().enumerate() {
            let at = [m.words, m.scales, m.biases, m.result];
            let before = |k: usize| at[k].wrapping_sub(u64::from(blocks) * bytes[k]);
            matrices[i] = RowMatrix {
                words: before(0),
                scales: before(1),
                biases: before(2),
                result: before(3),
            };
            blocks += m.outputs / results;
            ends[i] = blocks;
        }
        let [gate, other, _] = fused.matrices;
        let second = match gated {
            true => [
                (other.words, gate.words),
                (other.scales, gate.scales),
                (other.biases, gate.biases),
            ]
            .map(|(other, gate)| other.wrapping_sub(gate)),
            false => [row[0], row[1], row[1]].map(|bytes| u64::from(half * bytes)),
        };
        let ends = if gated { [blocks; 2] } else { [ends[0], ends[1]] };
        BlockLayout { blocks, results, matrices, ends, strides, second }
    }

    /// The biases of the matrices, as if block 0 were the first of each, and the bits of a row that say which
    /// there are.
    fn added(&self, fused: &Fused) -> ([u64; MOST_MATRICES], u32) {
        let (mut added, mut kind) = ([0; MOST_MATRICES], 0);
        for (i, matrix) in fused.matrices.iter().enumerate() {
            let Some(bias) = matrix.bias else { continue };
            // Where one gates the other, a block has results of both.
            let before = if i == 0 || fused.after.is_gate() { 0 } else { self.ends[i - 1] };
            added[i] = bias.at.wrapping_sub(u64::from(before) * u64::from(2 * self.results));
            kind |= BIASED << i | if bias.at_once { AT_ONCE << i } else { 0 };
        }
        (added, kind)
    }
}

/// Results of a step: their array, and where they are with their tags.
#[derive(Debug, Clone, Copy)]
struct Made {
    region: Region,
    marked: u64,
}

/// Steps that a table has room for at first: those of a decode step of a large model,
/// which need not move it as it grows.
const STEPS: usize = 192;
/// Steps back that results are looked for.
const RECENT: usize = 24;

/// The rows of a run.
pub(super) struct Table {
    variant: Variant,
    shape: Shape,
    groups: u32,
    rows: Vec<u8>,
    /// Steps that the rows are of.
    pub(super) steps: usize,
    made: Vec<Made>,
    /// Where a dispatch before the run leaves results with tags.
    led: Option<u64>,
    /// What steps so far write.
    pub(super) writes: SmallVec<[Region; 3]>,
    /// Where the next results with tags go, and where there is no more room.
    next: u64,
    end: u64,
}

impl Table {
    /// A table without rows, for a kernel variant on `groups` workgroups; results with tags go to `room`.
    pub(super) fn new(variant: Variant, shape: Shape, groups: u32, room: Region) -> Self {
        Table {
            variant,
            shape,
            groups,
            rows: Vec::with_capacity(STEPS * ROW),
            steps: 0,
            made: Vec::with_capacity(2 * STEPS),
            led: None,
            writes: SmallVec::with_capacity(2 * STEPS),
            next: room.address,
            end: room.end(),
        }
    }

    /// Takes the first of `writes`, 16-bit values that a dispatch before the run makes, for a result of the
    /// run's own. The dispatch leaves it with tags in the region that is returned; none where there is no
    /// room any more.
    pub(super) fn follow(&mut self, writes: &[Region]) -> Option<Region> {
        let values = writes[0].bytes / 2;
        let marked = self.room(values)?;
        self.made.push(Made { region: writes[0], marked });
        self.led = Some(marked);
        self.writes.extend_from_slice(writes);
        Some(Region { address: marked, bytes: values * MARKED })
    }

    /// The rows' bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.rows
    }

    /// The kernel that walks them, and on how many workgroups.
    pub(super) fn variant(&self) -> Variant {
        self.variant
    }

    pub(super) fn groups(&self) -> u32 {
        self.groups
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len() / ROW
    }

    /// Adds a step, if it belongs to the same run: there are rows for it, and it touches what steps before it
    /// made only where they leave it with tags.
    pub(super) fn push(&mut self, step: &Step, config: &Config) -> bool {
        let added = match &step.kind {
            Kind::Product(fused) => self.product(fused, step),
            Kind::Attention(token) => self.attention(token, step, config),
            Kind::Mixture(mixture) => self.mixture(mixture, step),
            Kind::Convolution(token) => self.convolution(token, step),
            Kind::Delta(token) => self.delta(token, step),
        };
        if added.is_some() {
            self.steps += 1;
            self.writes.extend_from_slice(&step.writes);
        }
        added.is_some()
    }

    /// Whether `step` reads what earlier steps wrote, but for the operands at `known`, which come with tags.
    /// What was not written in the open batch at all needs no closer look.
    fn collides(&self, step: &Step, known: &[u64]) -> bool {
        let read = |r: &Region| {
            !known.contains(&r.address) && self.writes.iter().any(|written| written.overlaps(*r))
        };
        step.recent.written > known.len() && step.reads.iter().any(read)
    }

    /// Where the value at `address` of an array is with its tag.
    fn find(&self, address: u64) -> Option<u64> {
        let made = self.made.iter().rev().take(RECENT).find(|made| {
            made.marked != 0 && (made.region.address..made.region.end()).contains(&address)
        })?;
        // Two bytes a value.
        Some(made.marked + (address - made.region.address) / 2 * MARKED)
    }

    /// Room for `values` with their tags.
    fn room(&mut self, values: u64) -> Option<u64> {
        let at = self.next;
        let next = (at + values * MARKED).next_multiple_of(16);
        (next <= self.end).then(|| self.next = next)?;
        Some(at)
    }

    /// An operand's address, of its values with tags if an earlier step left them: then it is known, and
    /// `kind` has the flag.
    fn operand(
        &self,
        address: u64,
        flag: u32,
        (kind, known): (&mut u32, &mut SmallVec<[u64; 2]>),
    ) -> u64 {
        let Some(marked) = self.find(address) else { return address };
        *kind |= flag;
        known.push(address);
        marked
    }

    fn product(&mut self, fused: &Fused, step: &Step) -> Option<()> {
        let Variant { format, biased, summed, .. } = self.variant;
        let knows = (biased || !fused.is_biased()) && (summed || fused.sum.is_none());
        if fused.format != format || !knows {
            return None;
        }
        let (mut kind, mut known) = (0, SmallVec::new());
        let x = self.operand(fused.x, FLAGGED, (&mut kind, &mut known));
        kind |= if self.led == Some(x) { LED } else { 0 };
        let residual = match fused.after {
            After::Residual(address) => {
                kind |= RESIDUAL;
                self.operand(address, FLAGGED_RESIDUAL, (&mut kind, &mut known))
            }
            _ => 0,
        };
        let sum = fused.sum.map(|sum| {
            kind |= SUMMED;
            RowSum {
                residual: self.operand(sum.residual, FLAGGED_ADDEND, (&mut kind, &mut known)),
                ..sum
            }
        });
        // What a dispatch leaves keeps its tag where a run is repeated, which only x reckons with.
        if sum.is_some_and(|sum| self.led == Some(sum.residual)) {
            return None;
        }
        // Rows are read 16 bytes at a time.
        let at = sum.map_or(0, |sum| sum.residual | sum.norm.weight | sum.result);
        let aligned = (x | at).is_multiple_of(16) && residual.is_multiple_of(4);
        if !aligned || self.collides(step, &known) {
            return None;
        }
        let layout = BlockLayout::of(fused);
        // Offsets within a matrix are 32 bits.
        if u64::from(layout.blocks) * u64::from(layout.strides[0]) > u64::from(u32::MAX) {
            return None;
        }
        let blocks = layout.blocks;
        kind |= match fused.after {
            After::Gate(Gate::Silu) => GATED,
            After::Gate(Gate::Gelu) => GATED | GELU,
            _ => 0,
        };
        let norm = fused.norm.inspect(|_| kind |= NORMALIZED);
        let chunks = fused.inner / self.variant.chunk();
        let splits = planner::splits_log(blocks, chunks, self.groups, &self.shape);
        let (added, biased) = layout.added(fused);
        kind |= splits << SPLITS_SHIFT | biased;
        let values = blocks * layout.results;
        let marked = match values <= planner::MOST_MARKED {
            true => self.room(values.into())?,
            false => 0,
        };
        let sum_marked = match sum.is_some_and(|sum| sum.result != 0) {
            true => self.room(fused.inner.into())?,
            false => 0,
        };
        let row = ProductRow {
            kind,
            inner: fused.inner,
            eps: norm.map_or(0.0, |norm| norm.eps),
            blocks,
            x,
            weight: norm.map_or(0, |norm| norm.weight),
            residual,
            marked,
            matrices: layout.matrices,
            ends: layout.ends,
            strides: layout.strides,
            second: layout.second,
            chunks,
            rounds: chunks.div_ceil(self.shape.subgroup << splits),
            added,
            sum_weight: sum.map_or(0, |sum| sum.norm.weight),
            sum_residual: sum.map_or(0, |sum| sum.residual),
            sum_marked,
            sum_result: sum.map_or(0, |sum| sum.result),
            sum_eps: sum.map_or(0.0, |sum| sum.norm.eps),
            unused: 0,
        };
        self.add(row);
        let (results, sum) = step.writes.split_at(step.writes.len() - usize::from(sum_marked != 0));
        let mut first = marked;
        for &region in results {
            self.made.push(Made { region, marked: first });
            first += if marked == 0 { 0 } else { region.bytes / 2 * MARKED };
        }
        self.made.extend(sum.iter().map(|&region| Made { region, marked: sum_marked }));
        Some(())
    }

    fn add(&mut self, row: impl NoUninit) {
        self.rows.extend_from_slice(bytemuck::bytes_of(&row));
    }

    fn convolution(&mut self, token: &convolution::Token, step: &Step) -> Option<()> {
        let x = self.find(token.x.address)?;
        let knows = self.variant.delta != [0; 2] && token.dtype == self.variant.format.dtype;
        if !knows || self.collides(step, &[token.x.address]) {
            return None;
        }
        let marked = self.room(token.channels.into())?;
        self.add(ConvolutionRow {
            kind: CONVOLUTION,
            channels: token.channels,
            taps: token.taps,
            silu: token.silu.into(),
            x,
            before: token.before.address,
            weight: token.weight.address,
            bias: token.bias.map_or(0, |bias| bias.address),
            result: token.result.address,
            marked,
            window: token.window.address,
            rest: [0; 23],
        });
        self.made.push(Made { region: token.result.region, marked });
        Some(())
    }

    fn delta(&mut self, token: &TokenDelta, step: &Step) -> Option<()> {
        let Heads { heads, group, values, keys } = token.heads;
        let knows =
            self.variant.delta == [keys, values] && token.dtype as u32 == self.variant.format.dtype;
        let [q, k, v] = token.rows().map(|at| at.address);
        let sources = [q, k, v, token.a.address, token.b.address, token.z.address];
        let [q, k, v, a, b, z] = sources.map(|at| self.find(at));
        if !knows || self.collides(step, &sources) {
            return None;
        }
        let (q, k, v, a, b, z) = (q?, k?, v?, a?, b?, z?);
        let all = u64::from(heads * values);
        let (parts, marked) = (self.room(all)?, self.room(all)?);
        let [query_scale, key_scale] = token.scales;
        let [eps, end_eps] = token.eps;
        self.add(DeltaRow {
            kind: DELTA,
            heads,
            group,
            parts_of_head: values / planner::state_rows(&self.shape),
            q,
            k,
            v,
            a,
            b,
            z,
            decay: token.decay.address,
            shift: token.shift.address,
            state: token.state.address,
            next: token.next.address,
            weight: token.weight.address,
            y: token.y.address,
            result: token.result.address,
            marked,
            parts,
            query_scale,
            key_scale,
            eps,
            end_eps,
            rest: [0; 26],
        });
        self.made.push(Made { region: token.result.region, marked });
        Some(())
    }

    fn attention(&mut self, token: &Token, step: &Step, config: &Config) -> Option<()> {
        let Token { attention, projections, sizes, .. } = token;
        if self.variant.with(token) != self.variant {
            return None;
        }
        let splits = planner::shares(sizes, self.groups, &self.shape, config)?;
        let sources = [projections.q, projections.key, projections.value];
        let [q, new_key, new_value] = sources.map(|at| self.find(at));
        // An earlier step may read a cache that is written here.
        if self.collides(step, &sources) || step.recent.overwritten && self.steps > 0 {
            return None;
        }
        let Attention { heads, width, .. } = *attention;
        let parts = if splits > 1 { u64::from(heads * splits * (width + 4)) * 2 } else { 0 };
        let (q, new_key, new_value) = (q?, new_key?, new_value?);
        let (marked, parts) = (self.room(u64::from(heads * width))?, self.room(parts)?);
        let norms = projections.norms;
        let [key_head, key_row, value_head, value_row] = attention.strides;
        let quantized = attention.quantized.map_or(([0; 4], 0), |q| (q.parts, q.factor));
        let ([key_scales, key_biases, value_scales, value_biases], factor) = quantized;
        let row = AttentionRow {
            kind: ATTENTION,
            count: attention.count,
            splits,
            scale: attention.scale,
            eps: norms.map_or(0.0, |n| n.1),
            position_scale: projections.angle.scale,
            heads,
            query_head: projections.query_head,
            q,
            new_key,
            new_value,
            q_weight: norms.map_or(0, |n| n.0[0]),
            k_weight: norms.map_or(0, |n| n.0[1]),
            frequencies: projections.angle.frequencies,
            keys: attention.keys,
            values: attention.values,
            result: attention.result,
            marked,
            parts,
            offset: projections.angle.offset,
            key_head,
            key_row,
            value_head,
            value_row,
            mask: attention.mask.map_or(0, |mask| mask.at),
            factor,
            key_scales,
            key_biases,
            value_scales,
            value_biases,
            rest: [0; 16],
        };
        self.add(row);
        self.made.push(Made { region: step.writes[0], marked });
        Some(())
    }
}
