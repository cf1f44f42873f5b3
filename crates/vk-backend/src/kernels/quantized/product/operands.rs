//! What a quantized product reads and writes.

use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, primitives::Packing, shape};
use smallvec::SmallVec;

use crate::{
    kernels::{
        Ctx, Operand, Region, copy,
        fragment::fragment,
        matmul::matrix::{self, Right},
        operands::Picks,
        quantized::{
            self,
            planner::{self, QuantizedProduct},
        },
        strided::Walk,
    },
    runtime::capabilities::Fragment,
};

/// Dense operands of a quantized product.
pub(super) struct Operands {
    pub(super) x: Operand,
    pub(super) words: Operand,
    pub(super) scales: Operand,
    /// Nothing where there are none.
    pub(super) biases: Operand,
    pub(super) result: Operand,
    pub(super) packing: Packing,
    pub(super) dtype: Dtype,
    pub(super) product: QuantizedProduct,
    /// From batch to batch, in rows of the matrices; 0 where one is for all.
    pub(super) stride: usize,
    /// Indices of the matrices of both sides.
    pub(super) picks: Option<Picks>,
}

impl Operands {
    /// Operands of the product of arrays.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(super) fn new(
        ctx: &mut Ctx<'_>,
        packing: Packing,
        transpose: bool,
        inputs: &[Array],
        output: &Output,
        result: Operand,
    ) -> Result<Self> {
        let (x, parts) = (&inputs[0], &inputs[1..]);
        let last = output.shape.len() - 1;
        let batches = output.shape[..last - 1].iter().product::<usize>();
        let mut product = sizes(x, output, batches, packing, transpose);
        product.fragment = fragment_of(ctx, packing, output.dtype, &product);
        // Batches that share a matrix see their rows as one: heads of queries over the heads of a quantized
        // cache, say. Copied are whole arrays, whose first matrix is all that there is if all batches share
        // it.
        let (axes, in_place) = (stacked_axes(parts), stride_in_place(parts));
        let first = if axes == 0 || in_place.is_some() { axes } else { last - 1 };
        let shared = output.shape[first..last - 1].iter().product::<usize>();
        (product.rows, product.batches) = (product.rows * shared, batches / shared.max(1));
        let stride = if product.batches > 1 { in_place.unwrap_or(rows_of(&product)) } else { 0 };
        let matrix = |array: &Array| match in_place {
            Some(_) => ctx.input(array),
            None => copy::dense(ctx, array),
        };
        let [words, scales, biases] = quantized::operands(parts, matrix)?;
        let (x, dtype) = (copy::dense(ctx, x)?, output.dtype);
        let picks = None;
        let mut o =
            Operands { x, words, scales, biases, result, packing, dtype, product, stride, picks };
        let pays = matrix::takes_fields([product.rows, product.outputs, product.inner]);
        o.product.right = o.right(ctx, product.fragment, pays);
        Ok(o)
    }

    /// Operands of the products of matrices that indices, the last two inputs, pick.
    ///
    /// # Errors
    /// As [`Operands::new`].
    pub(super) fn gathered(
        ctx: &mut Ctx<'_>,
        packing: Packing,
        transpose: bool,
        inputs: &[Array],
        output: &Output,
        result: Operand,
    ) -> Result<Self> {
        let [x, parts @ .., lhs, rhs] = inputs else {
            unreachable!("a gathered product has five inputs at least")
        };
        let picks = Picks::new(ctx, [lhs, rhs], [x, &parts[0]])?;
        let product = sizes(x, output, picks.batches, packing, transpose);
        let [words, scales, biases] = quantized::operands(parts, |part| copy::dense(ctx, part))?;
        Ok(Operands {
            x: copy::dense(ctx, x)?,
            words,
            scales,
            biases,
            result,
            packing,
            dtype: output.dtype,
            stride: rows_of(&product),
            product,
            picks: Some(picks),
        })
    }

    /// How tiles see the matrices, if multiplying fields as they are `pays`.
    pub(super) fn right(&self, ctx: &Ctx<'_>, fragment: Option<Fragment>, pays: bool) -> Right {
        let (p, caps) = (&self.product, ctx.capabilities());
        let aligned = self.x.is_aligned(16) && self.words.is_aligned(16);
        planner::right_of(self.packing, p.transpose, p.inner, fragment, caps)
            .fields_if(pays && aligned)
    }

    /// Words, scales and biases.
    pub(super) fn parts(&self) -> [Operand; 3] {
        [self.words, self.scales, self.biases]
    }

    pub(super) fn reads(&self) -> SmallVec<[Region; 6]> {
        let lists = self.picks.iter().flat_map(Picks::reads);
        std::iter::once(self.x.region)
            .chain(self.parts().map(|part| part.region))
            .chain(lists)
            .collect()
    }

    /// The lists of picked matrices, if there are any; `strides` are from matrix to matrix.
    pub(super) fn packed_picks(
        &self,
        ctx: &mut Ctx<'_>,
        strides: [usize; 2],
    ) -> Result<Option<u64>> {
        let Some(picks) = &self.picks else { return Ok(None) };
        let picks = Picks { strides: strides.map(|s| s as i64), ..picks.clone() };
        picks.pack(ctx, [0, 1]).map(Some)
    }

    /// Whether the product is made by groups of rows, whose picks count rows of `x`.
    pub(super) fn is_grouped(&self) -> bool {
        self.picks.as_ref().is_some_and(|picks| picks.tiles.is_some())
    }

    /// Batch strides of `x` in elements and of the matrix in its rows.
    pub(super) fn walk(&self, ctx: &mut Ctx<'_>, order_matrix_first: bool) -> Result<(u32, u64)> {
        let p = &self.product;
        let x = if self.is_grouped() { 1 } else { p.rows * p.inner };
        if let Some(address) = self.packed_picks(ctx, [x, self.stride])? {
            return Ok((0, address));
        }
        if p.batches == 1 {
            return Ok((0, 0));
        }
        let x = (p.rows * p.inner) as isize;
        let matrix = self.stride as isize;
        let (first, second) = if order_matrix_first { (matrix, x) } else { (x, matrix) };
        let walk = Walk::new(&[p.batches], [&[first], &[second], &[0]]);
        Ok((walk.ndim(), ctx.args(&walk.pack())?))
    }
}

/// Sizes of a product with `x`, so far without cooperative matrices.
fn sizes(
    x: &Array,
    output: &Output,
    batches: usize,
    packing: Packing,
    transpose: bool,
) -> QuantizedProduct {
    QuantizedProduct {
        rows: x.dim(-2),
        outputs: output.shape[output.shape.len() - 1],
        inner: x.dim(-1),
        batches,
        transpose,
        packing,
        fragment: None,
        right: Right::Packed,
    }
}

/// What cooperative matrices multiply of this format and dtype: they take 32 packed elements at a time.
pub(super) fn fragment_of(
    ctx: &Ctx<'_>,
    packing: Packing,
    dtype: Dtype,
    p: &QuantizedProduct,
) -> Option<Fragment> {
    let packed = if p.transpose { p.inner } else { p.outputs };
    let holds = planner::holds(packing, dtype);
    let leading = [p.inner as i64, p.inner.max(p.outputs) as i64];
    let fragment = fragment(dtype, leading, ctx.capabilities(), ctx.config());
    fragment.filter(|_| holds && packed.is_multiple_of(32))
}

/// Rows of one matrix.
fn rows_of(p: &QuantizedProduct) -> usize {
    if p.transpose { p.outputs } else { p.inner }
}

/// Batch axes before those along which a matrix is only repeated.
fn stacked_axes(parts: &[Array]) -> usize {
    let batch = parts[0].ndim() - 2;
    let repeats =
        |a: &Array, axis: usize| a.shape()[axis] == 1 || a.evaluated().layout.strides[axis] == 0;
    let axis = (0..batch).rev().find(|&axis| !parts.iter().all(|a| repeats(a, axis)));
    axis.map_or(0, |axis| axis + 1)
}

/// From one matrix to the next, in rows of them, if each is dense and the next ones are as many rows away in
/// words, scales and biases, such as filled parts of caches.
fn stride_in_place(parts: &[Array]) -> Option<usize> {
    let (batch, axes) = (parts[0].ndim() - 2, stacked_axes(parts));
    let mut strides = parts.iter().map(|a| {
        let (shape, strides) = (a.shape(), &a.evaluated().layout.strides);
        let dense = shape::is_row_contiguous(&shape[batch..], &strides[batch..]);
        let (merged, [between]) = shape::collapse_contiguous(&shape[..axes], [&strides[..axes]]);
        let one = merged.iter().product::<usize>() == 1;
        let stride = if one { 0 } else { between[0] };
        let along = one || (merged.len() == 1 && stride > 0);
        let (stride, width) = (stride.unsigned_abs(), a.dim(-1).max(1));
        let in_place = dense && along && stride.is_multiple_of(width) && stride / width < 1 << 31;
        in_place.then_some(stride / width)
    });
    let stride = strides.next()??;
    strides.all(|other| other == Some(stride)).then_some(stride)
}
