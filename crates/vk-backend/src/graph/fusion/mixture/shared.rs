//! An expert that all tokens have besides those that they pick: of the same size and format as these, weighed
//! by the sigmoid of a number of its own or not at all.

use mlx_vulkan_core::{
    Result,
    primitives::{BinaryOp, MatmulOp, Packing, Primitive, UnaryOp},
    tape::Tape,
};
use smallvec::SmallVec;

use super::{Members, column_of, parts};
use crate::{
    graph::fusion::{
        gate,
        heads::Cursor,
        inner,
        operands::matrix,
        products::{few_rows, packed},
    },
    kernels::{
        Ctx,
        matvec::{Format, Gate},
        mixture::{SharedShare, token::Shared},
    },
};

/// The expert, by places on the tape.
pub(super) struct SharedExpert {
    /// Gate, up and down.
    pub(super) products: [usize; 3],
    /// The product whose sigmoid is its share; else that is 1.
    logit: Option<usize>,
    pub(super) members: Members,
}

impl SharedExpert {
    /// The expert that is read at a cursor and that nobody else sees.
    pub(super) fn find(tape: &Tape, at: Cursor) -> Option<Self> {
        let stream = tape.node(at.0).stream;
        let end = inner(tape, at, 1, stream)?;
        let is_weighed = tape.node(end).primitive == Primitive::Binary(BinaryOp::Multiply);
        let weighed = |(share, down): (usize, usize)| {
            let mut members: Members = SmallVec::from_slice(&[end]);
            let column = column_of(tape, (end, share), &mut members)?;
            let sigmoid = inner(tape, column, 1, stream)?;
            let is_sigmoid = tape.node(sigmoid).primitive == Primitive::Unary(UnaryOp::Sigmoid);
            let logit = is_sigmoid.then(|| inner(tape, (sigmoid, 0), 1, stream))??;
            members.extend([sigmoid, logit]);
            Some((inner(tape, (end, down), 1, stream)?, Some(logit), members))
        };
        let (down, logit, mut members) = match is_weighed {
            true => [(0, 1), (1, 0)].into_iter().find_map(weighed)?,
            false => (end, None, SmallVec::new()),
        };
        let result = inner(tape, (down, 0), 1, stream)?;
        let (gate, up, gated) = gate::find(tape, result).filter(|it| it.2.gate == Gate::Silu)?;
        members.extend([gate, up, down]);
        members.extend(gated.members());
        Some(SharedExpert { products: [gate, up, down], logit, members })
    }

    /// How many of its products read the rows.
    pub(super) fn readers(&self) -> usize {
        2 + usize::from(self.logit.is_some())
    }

    /// Whether it reads the rows that are made at `norm`, and is like experts of `width` that are packed so,
    /// and its logit like those of a router.
    pub(super) fn is_like(
        &self,
        tape: &Tape,
        norm: usize,
        (width, packing): (usize, Packing),
        router: Format,
    ) -> bool {
        let rows = tape.array(norm);
        let [gate, up, down] = self.products;
        let sizes = [(gate, width), (up, width), (down, rows.dim(-1))];
        let format = Some(Format::packed(rows.dtype(), packing));
        let reads = |&product: &usize| tape.input(product, 0) == Some(norm);
        let is_row = |logit| {
            let plain = tape.node(logit).primitive == Primitive::Matmul(MatmulOp::Matmul);
            let dense = || plain.then(|| few_rows(tape, logit)).flatten();
            let format = packed(tape, logit).or_else(dense);
            tape.array(logit).dim(-1) == 1 && format == Some(router)
        };
        sizes.iter().all(|&(product, outputs)| {
            let result = tape.array(product);
            packed(tape, product) == format
                && (result.dim(-1), result.dtype()) == (outputs, rows.dtype())
        }) && [gate, up].iter().chain(&self.logit).all(reads)
            && self.logit.is_none_or(is_row)
    }

    /// The expert as kernels take it, if it lies so.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(super) fn operand(&self, ctx: &mut Ctx<'_>, tape: &Tape) -> Result<Option<Shared>> {
        let mut matrices = [None; 3];
        for (at, &product) in matrices.iter_mut().zip(&self.products) {
            *at = parts(ctx, &tape.node(product).inputs[1..])?;
        }
        let [Some(gate), Some(up), Some(down)] = matrices else { return Ok(None) };
        let (mut share, mut reads) = (SharedShare::One, SmallVec::new());
        if let Some(logit) = self.logit {
            let Some(row) = matrix(ctx, tape.node(logit), 1, &mut reads)? else { return Ok(None) };
            share = SharedShare::Sigmoid(row);
        }
        Ok(Some(Shared { gate, up, down, share, reads }))
    }
}
