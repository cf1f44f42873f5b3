//! What stands before products of few rows: a norm, and the sum of a residual and of another norm; or a norm
//! that others read as well.

use mlx_vulkan_core::{
    Array, Device, Result,
    graph::Node,
    primitives::{BinaryOp, NormOp, Primitive},
    tape::Tape,
};
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::{inner, operands::dense};
use crate::kernels::{
    Ctx, Region,
    matvec::{Norm, RowSum},
};

/// What the norm at a place is of, if it has a weight, and both are of this dtype.
pub(super) fn input_of(tape: &Tape, norm: usize, dtype: u32) -> Option<&Array> {
    let node = tape.node(norm);
    let Primitive::Norm(NormOp::RmsNorm { .. }) = node.primitive else { return None };
    let [x, weight] = &node.inputs[..] else { return None };
    let same = |a: &Array| a.dtype() as u32 == dtype;
    (weight.ndim() == 1 && same(x) && same(weight)).then_some(x)
}

/// The norm at a node, if its weight lies as kernels read it.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn operand(
    ctx: &mut Ctx<'_>,
    node: &Node,
    reads: &mut impl Extend<Region>,
) -> Result<Option<Norm>> {
    let Primitive::Norm(NormOp::RmsNorm { eps }) = node.primitive else { return Ok(None) };
    let Some(weight) = dense(ctx, &node.inputs[1])? else { return Ok(None) };
    reads.extend([weight.region]);
    Ok(Some(Norm { weight: weight.address, eps: eps.0 }))
}

/// Rows that are a residual's sum with what a norm makes, or that alone, by places on the tape.
#[derive(Debug, Clone, Copy)]
pub(super) struct Summed {
    /// The sum, or the norm if there is none.
    pub(super) sum: usize,
    pub(super) norm: usize,
    /// Which input of the sum is the residual; none where nothing is added.
    residual: Option<usize>,
    /// Others read it, too.
    pub(super) is_kept: bool,
}

/// A row of zeros in a device's memory, made once for each size.
fn zeros(device: Device, bytes: usize) -> Result<Array> {
    static ROWS: Lazy<Mutex<FxHashMap<(Device, usize), Array>>> = Lazy::new(Mutex::default);
    let mut rows = ROWS.lock();
    if let Some(row) = rows.get(&(device, bytes)) {
        return Ok(row.clone());
    }
    let row = Array::from_slice(&vec![0u8; bytes], &[bytes])?;
    rows.insert((device, bytes), row.clone());
    Ok(row)
}

impl Summed {
    /// The sum that the node at `from` has as its first input, which the group reads `uses` times: rows of so
    /// many elements, of this dtype.
    pub(super) fn before(
        tape: &Tape,
        from: usize,
        uses: usize,
        [rows, width]: [usize; 2],
        dtype: u32,
    ) -> Option<Summed> {
        let (sum, stream) = (tape.input(from, 0)?, tape.node(from).stream);
        let node = tape.node(sum);
        let is_sum = node.primitive == Primitive::Binary(BinaryOp::Add) && node.stream == stream;
        let fits = |a: &Array| (a.dtype() as u32, a.size()) == (dtype, rows * width);
        (is_sum && fits(tape.array(sum))).then_some(())?;
        let is_kept = tape.uses(sum) > uses || !tape.is_private(sum);
        [(0, 1), (1, 0)].into_iter().find_map(|(normed, residual)| {
            let norm = inner(tape, (sum, normed), 1, stream)?;
            let x = input_of(tape, norm, dtype)?;
            let serves = fits(x) && x.dim(-1) == width && fits(&node.inputs[residual]);
            serves.then_some(Summed { sum, norm, residual: Some(residual), is_kept })
        })
    }

    /// The norm that the node at `from` has as its first input, and that others read, too: a row of `width`
    /// elements of this dtype.
    pub(super) fn shared(tape: &Tape, from: usize, width: usize, dtype: u32) -> Option<Summed> {
        let norm = tape.input(from, 0)?;
        let x = input_of(tape, norm, dtype)?;
        let ours = tape.node(norm).stream == tape.node(from).stream;
        (ours && x.size() == width && x.dim(-1) == width).then_some(Summed {
            sum: norm,
            norm,
            residual: None,
            is_kept: true,
        })
    }

    /// Its nodes.
    pub(super) fn members(&self) -> impl Iterator<Item = usize> {
        [self.norm].into_iter().chain(self.residual.map(|_| self.sum))
    }

    /// The sum as kernels take it, which they do not store yet, if its operands lie so.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(super) fn operand(
        &self,
        ctx: &mut Ctx<'_>,
        tape: &Tape,
        reads: &mut impl Extend<Region>,
    ) -> Result<Option<RowSum>> {
        let Some(norm) = operand(ctx, tape.node(self.norm), reads)? else { return Ok(None) };
        let residual = match self.residual {
            Some(residual) => dense(ctx, &tape.node(self.sum).inputs[residual])?,
            // Of one row, as long as that.
            None => dense(ctx, &zeros(ctx.stream().device, tape.array(self.norm).nbytes())?)?,
        };
        let Some(residual) = residual else { return Ok(None) };
        reads.extend([residual.region]);
        Ok(Some(RowSum { norm, residual: residual.address, result: 0 }))
    }
}
