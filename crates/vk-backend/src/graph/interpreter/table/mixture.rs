//! The rows of a token's mixture of experts.

use smallvec::SmallVec;

use super::{Made, Table};
use crate::{
    graph::interpreter::{planner, variant::Variant},
    kernels::{
        Operand,
        layouts::{
            interpreter_rows::{PickedRow, RouterRow, RowMatrix},
            run_rows::*,
        },
        mixture::{
            Scoring, SharedShare,
            token::{Shared, TokenMixture},
        },
        steps::Step,
    },
};

impl Table {
    /// Adds the rows of a token's mixture: the router's, that of gate and up, and that of their weighted sum.
    pub(super) fn mixture(&mut self, m: &TokenMixture, step: &Step) -> Option<()> {
        let (format, chunk) = (self.variant.format, self.variant.chunk() as usize);
        let whole = m.inner.is_multiple_of(chunk) && m.width.is_multiple_of(chunk);
        let Variant { mixed, shared, scored, .. } = self.variant;
        // All mixtures of a run pick their experts in the same way.
        let knows = mixed && (shared || m.shared.is_none()) && scored == m.scores.is_some();
        if m.format() != format || !whole || !knows {
            return None;
        }
        let (mut kind, mut known) = (NORMALIZED, SmallVec::new());
        let x = self.operand(m.x.address, FLAGGED, (&mut kind, &mut known));
        let mut sum = WEIGHED | FLAGGED;
        let residual = m.residual.map_or(0, |at| {
            sum |= RESIDUAL;
            self.operand(at.address, FLAGGED_RESIDUAL, (&mut sum, &mut known))
        });
        if !x.is_multiple_of(16) || self.collides(step, &known) {
            return None;
        }
        let [logits, gated, marked] =
            [m.experts + 1, m.each() * m.width, m.inner].map(|values| self.room(values as u64));
        let (logits, gated, marked) = (logits?, gated?, marked?);
        let weight = m.norm.address;
        self.add(router_row(m, kind | ROUTER, x, logits));
        let pair = Picked { m, logits, x, weight, residual: 0, marked: gated, result: 0 };
        self.add(self.picked_row(&pair, kind | PICKED | GATED));
        let result = m.result.address;
        let of_picks = Picked { m, logits, x: gated, weight: 0, residual, marked, result };
        self.add(self.picked_row(&of_picks, sum));
        self.made.push(Made { region: m.result.region, marked });
        Some(())
    }

    /// The row of a product with the matrices of picked experts: gate and up, or down.
    fn picked_row(&self, p: &Picked<'_>, kind: u32) -> PickedRow {
        let (m, gated, chunk) = (p.m, kind & GATED != 0, self.variant.chunk());
        let (picks, width, hidden) = (m.each() as u32, m.width as u32, m.inner as u32);
        // Elements of a matrix's row, and rows of one; how many of a row are beside one another in the step.
        let (inner, outputs, beside) =
            if gated { (hidden, width, 1) } else { (width, hidden, picks) };
        let row = self.variant.format.row_bytes(inner);
        let results = if gated { planner::RESULTS / 2 } else { planner::RESULTS };
        let blocks = outputs / results * if gated { picks } else { 1 };
        let chunks = inner * beside / chunk;
        let each = if gated { outputs / results } else { inner / chunk };
        let quads = width / 4;
        // Where a block's first rows are, and from there to its second half.
        let halves = |gate: &[Operand; 3], up: &[Operand; 3], down: &[Operand; 3]| {
            let first = if gated { gate } else { down };
            let second = match gated {
                true => [0, 1, 2].map(|i| up[i].address.wrapping_sub(gate[i].address)),
                false => [row[0], row[1], row[1]].map(|bytes| u64::from(results / 2 * bytes)),
            };
            (first.map(|part| part.address), second)
        };
        let ([words, scales, biases], second) = halves(&m.gate, &m.up, &m.down);
        let (shared_kind, shared_matrix, shared_second) = match &m.shared {
            Some(Shared { gate, up, down, share, .. }) => {
                let (first, second) = halves(gate, up, down);
                let kind = match share {
                    SharedShare::One => SHARE_ONE,
                    SharedShare::Sigmoid(_) => SHARE_SIGMOID,
                };
                (kind, first, second)
            }
            None => (0, [0; 3], [0; 3]),
        };
        let splits = planner::splits_log(blocks, chunks, self.groups, &self.shape);
        let scores = Scoring::from(m.scores);
        let [expert_words, expert_scales] = row.map(|bytes| u64::from(outputs) * u64::from(bytes));
        PickedRow {
            kind: kind | splits << SPLITS_SHIFT,
            inner: inner * beside,
            eps: m.eps,
            blocks,
            x: p.x,
            weight: p.weight,
            residual: p.residual,
            marked: p.marked,
            matrix: RowMatrix { words, scales, biases, result: p.result },
            expert_words,
            expert_scales,
            logits: p.logits,
            experts: m.experts as u32,
            count: m.count as u32,
            each,
            per_each: 1.0 / each as f32,
            quads,
            per_quads: 1.0 / quads as f32,
            shared_kind,
            scoring: scores.bits,
            share_eps: scores.eps,
            share_factor: scores.factor,
            ends: [blocks; 2],
            strides: row.map(|bytes| bytes * results),
            second,
            chunks,
            rounds: chunks.div_ceil(self.shape.subgroup << splits),
            shared_matrix,
            score_bias: scores.bias,
            shared_second: [shared_second[0], shared_second[1], shared_second[2], 0],
        }
    }
}

/// A product with the matrices of picked experts: where its x, the norm's weight, what is added, and its
/// results are.
struct Picked<'a> {
    m: &'a TokenMixture,
    logits: u64,
    x: u64,
    weight: u64,
    residual: u64,
    marked: u64,
    result: u64,
}

/// The row of a mixture's router, whose logits go to `marked`.
fn router_row(m: &TokenMixture, kind: u32, x: u64, marked: u64) -> RouterRow {
    let format = m.router.format;
    let [scales, biases] = format.affine(&m.router.matrix);
    // Something that can be read where there is none.
    let shared = match m.shared.as_ref().map(|shared| shared.share) {
        Some(SharedShare::Sigmoid(row)) => Some(row),
        Some(SharedShare::One) | None => None,
    };
    let row = shared.unwrap_or(m.router.matrix);
    let [shared_scales, shared_biases] = format.affine(&row);
    RouterRow {
        kind,
        inner: m.inner as u32,
        eps: m.eps,
        experts: m.experts as u32,
        x,
        weight: m.norm.address,
        words: m.router.matrix.words,
        scales,
        biases,
        marked,
        bits: format.bits,
        group_log: format.group.ilog2(),
        logits: m.experts as u32 + u32::from(shared.is_some()),
        unused: 0,
        shared_words: row.words,
        shared_scales,
        shared_biases,
        rest: [0; 19],
    }
}
