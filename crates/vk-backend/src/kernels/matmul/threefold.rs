//! Float32 products as products of bfloat16 on cooperative matrices, of three times the inner size
//! (`threefold.comp`): with less error than TF32, which upstream's CUDA backend multiplies in by default.

use mlx_vulkan_core::{Dtype, Result, Strides, shape};

use super::{
    gemm::Dtypes,
    matrix::Right,
    planner::{self, Gemm},
};
use crate::{
    kernels::{
        Ctx, Operand,
        fragment::fragment,
        layouts::matmul_threefold as kernel,
        operands::{MatrixSide, Operands, StridedMatrix},
        strided::Walk,
    },
    runtime::capabilities::Fragment,
};

/// What the kernels read and write.
pub(crate) const DTYPES: Dtypes = Dtypes { operands: Dtype::Bfloat16, result: Dtype::Float32 };

/// Multiplications from which a product gains. By what was measured on an H200: a float32 tile makes 20 to 30
/// TFLOP/s, three products of bfloat16 60 to 100; two more dispatches take some 6 µs.
const LEAST: usize = 1 << 26;

/// Elements of the largest operand: three times two bytes of each lie in scratch memory.
const MOST: usize = 1 << 30;

/// Elements of an octet, which rows of the new matrices are made of.
const OCTET: usize = 8;

/// What cooperative matrices multiply for products in `dtype`, if these are float32 and may be made this way.
pub(crate) fn fragment_of(
    ctx: &Ctx<'_>,
    dtype: Dtype,
    multiplications: usize,
    leading: [i64; 2],
) -> Option<Fragment> {
    let gains = dtype == Dtype::Float32 && multiplications >= LEAST;
    if !gains || !ctx.config().enable_tf32 {
        return None;
    }
    fragment(DTYPES.operands, leading, ctx.capabilities(), ctx.config())
}

/// The inner size of the new matrices.
pub(crate) fn inner(k: usize) -> usize {
    3 * k.next_multiple_of(OCTET)
}

/// How a product runs, if it is made this way.
pub(super) fn plan(ctx: &Ctx<'_>, o: &Operands, dtype: Dtype) -> Option<Gemm> {
    let elements = [o.m.max(o.n), o.k, o.batches()].into_iter().fold(1, usize::saturating_mul);
    if o.lists.is_some() || elements > MOST {
        return None;
    }
    let leading = [(&o.a, o.m), (&o.b, o.n)].map(|(matrix, outer)| {
        if matrix.along_k { inner(o.k) } else { outer.next_multiple_of(OCTET) }
    });
    let multiplications = [o.m, o.n, o.k, o.batches()].into_iter().fold(1, usize::saturating_mul);
    let fragment = fragment_of(ctx, dtype, multiplications, leading.map(|l| l as i64))?;
    let plan = planner::gemm(
        o.m,
        o.n,
        inner(o.k),
        o.batches(),
        Some(fragment),
        Right::Dense,
        ctx.capabilities(),
    );
    matches!(plan, Gemm::Matrix(..)).then_some(plan)
}

/// Encodes the new operands of a product.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn operands(ctx: &mut Ctx<'_>, o: &Operands) -> Result<Operands> {
    let mut batch = o.batch.clone();
    let mut folded = |ctx: &mut Ctx<'_>, matrix: &StridedMatrix, outer: usize, side: MatrixSide| {
        let i = usize::from(side == MatrixSide::Right);
        let source = Source {
            at: matrix.at,
            leading: matrix.leading(),
            outer,
            k: o.k,
            along_k: matrix.along_k,
            shape: &o.batch.shape,
            strides: &o.batch.strides[i],
        };
        let (at, strides) = fold(ctx, &source, side)?;
        batch.strides[i] = strides;
        let (along, across) = (inner(o.k) as i64, outer.next_multiple_of(OCTET) as i64);
        let (outer, inner) = if matrix.along_k { (along, 1) } else { (1, across) };
        Ok(StridedMatrix { at, outer, inner, along_k: matrix.along_k, across: !matrix.along_k })
    };
    let a = folded(ctx, &o.a, o.m, MatrixSide::Left)?;
    let b = folded(ctx, &o.b, o.n, MatrixSide::Right)?;
    Ok(Operands { k: inner(o.k), a, b, batch, ..o.clone() })
}

/// A float32 operand.
pub(crate) struct Source<'a> {
    pub at: Operand,
    /// Distance of the rows that are dense.
    pub leading: i64,
    /// Size of the axis that is not k.
    pub outer: usize,
    pub k: usize,
    /// Rows are dense along k.
    pub along_k: bool,
    /// Batch axes.
    pub shape: &'a [usize],
    /// Their strides.
    pub strides: &'a [isize],
}

/// Encodes the new operand; returns where it is, and the strides of its batch axes.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn fold(
    ctx: &mut Ctx<'_>,
    source: &Source<'_>,
    side: MatrixSide,
) -> Result<(Operand, Strides)> {
    let (rows, width) =
        if source.along_k { (source.outer, source.k) } else { (source.k, source.outer) };
    let octets = width.div_ceil(OCTET);
    let all_rows = if source.along_k { rows } else { rows.next_multiple_of(OCTET) };
    let matrix = all_rows * octets;
    let (own, strides) = without_repeats(source, 3 * matrix * OCTET);
    let batches = own.count() as usize;
    let region = ctx.scratch((batches * 3 * matrix * OCTET * DTYPES.operands.size()) as u64)?;
    let vector = source.at.is_aligned(16)
        && source.leading % 4 == 0
        && own.strides[0].iter().all(|stride| stride % 4 == 0);
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = bit(source.along_k, kernel::ALONG_K_FLAG)
        | bit(vector, kernel::VECTOR_FLAG)
        | bit(side == MatrixSide::Right, kernel::RIGHT_FLAG);
    let count = batches * matrix;
    let (ndim, walk) = if batches == 1 { (0, 0) } else { (own.ndim(), ctx.args(&own.pack())?) };
    let push = kernel::Push {
        source: source.at.address,
        destination: region.address,
        walk,
        leading: source.leading,
        rows: rows as u32,
        width: width as u32,
        all_rows: all_rows as u32,
        octets: octets as u32,
        count: count as u32,
        ndim,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let pipeline =
        ctx.pipeline(kernel::MATMUL_THREEFOLD, &kernel::Constants { workgroup: group, flags });
    ctx.run(&pipeline, &push, count as u64, u64::from(group), &[source.at.region], &[region])?;
    Ok((Operand { address: region.address, region }, strides))
}

/// The batch axes along which matrices differ, and the strides of all axes if those are dense matrices of so
/// many elements.
fn without_repeats(source: &Source<'_>, elements: usize) -> (Walk<1>, Strides) {
    let differs = |&(_, &stride): &(usize, &isize)| stride != 0;
    let axes = || source.shape.iter().copied().zip(source.strides);
    let (shape, own): (Vec<usize>, Vec<isize>) = axes().filter(differs).unzip();
    let mut dense = shape::row_major_strides(&shape).into_iter();
    let strides = axes()
        .map(|axis| if differs(&axis) { dense.next().unwrap_or(0) * elements as isize } else { 0 });
    (Walk::new(&shape, [&own]), strides.collect())
}
