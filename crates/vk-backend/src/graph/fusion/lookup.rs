//! Rows picked from a quantized matrix, as embeddings of tokens are: words, scales and biases at the same
//! indices and what they stand for, in one kernel (`quantized/dequantize.comp`).

use mlx_vulkan_core::{
    Array, Result,
    backend::Output,
    fusion::Group,
    graph::Node,
    primitives::{Affine, IndexingOp, Primitive},
    tape::Tape,
};
use smallvec::smallvec;

use super::{Grouped, inner, operands::dense};
use crate::{
    kernels::{Ctx, quantized},
    runtime::device::DeviceState,
};

/// Three nodes that pick rows and the one that dequantizes them, by places on the tape.
struct Found {
    takes: [usize; 3],
    result: usize,
    affine: Affine,
}

/// The group of the rows that are dequantized at `place`.
pub(super) fn find(
    tape: &Tape,
    place: usize,
    affine: Affine,
    device: &DeviceState,
) -> Option<Group> {
    let node = tape.node(place);
    // Indices of the kernel are 32 bits.
    let small = tape.array(place).size() < 1 << 31;
    if !device.config.enable_fused_lookups || !small {
        return None;
    }
    let mut takes = [0; 3];
    for (i, take) in takes.iter_mut().enumerate() {
        *take = inner(tape, (place, i), 1, node.stream).filter(|&at| picks_rows(tape.node(at)))?;
    }
    let indices = &tape.node(takes[0]).inputs[1];
    let same = takes.iter().all(|&take| tape.node(take).inputs[1].is_same(indices));
    same.then(|| Group {
        members: smallvec![takes[0], takes[1], takes[2], place],
        kept: smallvec![place],
        fusion: Box::new(Grouped(Found { takes, result: place, affine })),
    })
}

/// Whether a node takes rows of a matrix.
fn picks_rows(node: &Node) -> bool {
    matches!(node.primitive, Primitive::Indexing(IndexingOp::Take { axis: 0 }))
        && node.inputs[0].ndim() == 2
}

impl super::GroupKernel for Found {
    fn name(&self) -> usize {
        self.result
    }

    fn counted(&self) -> &[usize] {
        &[]
    }

    fn replaces(&self) -> u64 {
        4
    }

    fn describe(&self, tape: &Tape) -> String {
        let [words, _, _] = self.takes.map(|take| &tape.node(take).inputs[0]);
        let rows = tape.node(self.takes[0]).inputs[1].size();
        format!("lookup {rows} of {:?} {}-bit", words.shape(), self.affine.bits)
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let sources: [&Array; 3] = self.takes.map(|take| &tape.node(take).inputs[0]);
        let indices = &tape.node(self.takes[0]).inputs[1];
        if !indices.evaluated().layout.flags.row_contiguous {
            return Ok(false);
        }
        let (Some(words), Some(scales), Some(biases)) =
            (dense(ctx, sources[0])?, dense(ctx, sources[1])?, dense(ctx, sources[2])?)
        else {
            return Ok(false);
        };
        let output = &mut kept[0];
        let columns = output.shape.last().copied().unwrap_or(0);
        let matrix = quantized::QuantizedMatrix {
            at: [words, scales, biases],
            dtype: sources[1].dtype(),
            affine: self.affine,
            shape: [sources[0].dim(0), columns],
        };
        let result = ctx.output(output)?;
        let at = ctx.input(indices)?;
        if output.size() > 0 {
            let indices = (at, indices.dtype(), indices.size());
            quantized::dequantize_rows(ctx, &matrix, indices, result.region)?;
        }
        Ok(true)
    }
}
