//! How a group of products is counted, described and encoded.

use mlx_vulkan_core::{Result, backend::Output, graph::Node, primitives::Primitive, tape::Tape};
use smallvec::{SmallVec, smallvec};

use super::{Biased, Products, Then, Way};
use crate::{
    graph::fusion::{
        GroupKernel, norms,
        operands::{dense, matrix},
    },
    kernels::{
        Ctx, Region,
        matvec::{self, After, Fused, MOST_MATRICES, Weights},
        siblings,
    },
};

impl GroupKernel for Products {
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
