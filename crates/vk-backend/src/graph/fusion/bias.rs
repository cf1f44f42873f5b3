//! Biases of products: a number for each column, which is added to every row, by an addition behind the
//! product or by the product itself (`addmm`).

use mlx_vulkan_core::{
    Result,
    primitives::{BinaryOp, MatmulOp, Primitive, ShapeOp},
    tape::Tape,
};
use smallvec::SmallVec;

use super::{
    heads::{Cursor, input},
    inner,
};
use crate::kernels::{Ctx, Region, matvec::Bias};

/// A product's bias, by places on the tape.
#[derive(Debug, Clone)]
pub(super) struct Biased {
    /// What has the sum: the addition, or the product.
    pub(super) sum: usize,
    at_once: bool,
    /// Where the bias is read, and the views of it that only the sum reads.
    from: Cursor,
    views: SmallVec<[usize; 2]>,
}

impl Biased {
    /// What an `addmm` at `place` adds to each row, if it is one and multiplies neither that nor the product.
    pub(super) fn of_addmm(tape: &Tape, place: usize) -> Option<Biased> {
        let Primitive::Matmul(MatmulOp::AddMm { alpha, beta }) = tape.node(place).primitive else {
            return None;
        };
        let (from, views) = row(tape, (place, 2))?;
        let plain = (alpha.0, beta.0) == (1.0, 1.0);
        plain.then_some(Biased { sum: place, at_once: true, from, views })
    }

    /// What the addition at `sum` adds to each row of its other input. Of a single row nothing but how often
    /// it is repeated tells it from a residual, so a view has to say that it is.
    pub(super) fn of_sum(tape: &Tape, sum: usize, bias: usize) -> Option<Biased> {
        debug_assert_eq!(tape.node(sum).primitive, Primitive::Binary(BinaryOp::Add));
        let (from, views) = row(tape, (sum, bias))?;
        views.iter().any(|&view| repeats(tape, view)).then_some(Biased {
            sum,
            at_once: false,
            from,
            views,
        })
    }

    /// Nodes that a group with the product has besides it.
    pub(super) fn members(&self) -> impl Iterator<Item = usize> {
        let sum = (!self.at_once).then_some(self.sum);
        self.views.iter().copied().chain(sum)
    }

    /// Whether the evaluation makes it.
    pub(super) fn is_lazy(&self, tape: &Tape) -> bool {
        tape.input(self.from.0, self.from.1).is_some()
    }

    /// Operations that are not needed any more.
    pub(super) fn replaces(&self) -> u64 {
        u64::from(!self.at_once)
    }

    /// The bias as a kernel takes it, if its numbers lie side by side.
    pub(super) fn operand(
        &self,
        ctx: &mut Ctx<'_>,
        tape: &Tape,
        reads: &mut impl Extend<Region>,
    ) -> Result<Option<Bias>> {
        let array = input(tape, self.from);
        if !array.evaluated().layout.flags.row_contiguous {
            return Ok(None);
        }
        let at = ctx.input(array)?;
        reads.extend([at.region]);
        Ok(Some(Bias { at: at.address, at_once: self.at_once }))
    }
}

/// Whether a node is a view with axes repeated.
pub(super) fn repeats(tape: &Tape, view: usize) -> bool {
    matches!(tape.node(view).primitive, Primitive::Shape(ShapeOp::Broadcast(_)))
}

/// The one row of which the input at a cursor has nothing but repetitions, and the views up to it that nobody
/// else sees.
pub(super) fn row(tape: &Tape, mut at: Cursor) -> Option<(Cursor, SmallVec<[usize; 2]>)> {
    let (stream, columns) = (tape.node(at.0).stream, *input(tape, at).shape().last()?);
    let mut views = SmallVec::new();
    while let Some(view) = inner(tape, at, 1, stream) {
        let Primitive::Shape(
            ShapeOp::Broadcast(_)
            | ShapeOp::Reshape(_)
            | ShapeOp::ExpandDims { .. }
            | ShapeOp::Squeeze { .. },
        ) = tape.node(view).primitive
        else {
            break;
        };
        at = (view, 0);
        // Whole rows stay whole.
        (input(tape, at).shape().last() == Some(&columns)).then_some(())?;
        views.push(view);
    }
    (input(tape, at).size() == columns).then_some((at, views))
}
