//! `x @ w` with quantized `w`.

use bytemuck::{Pod, Zeroable};
use mlx_core::{Array, Dtype, Result, backend::Output, primitives::Affine};
use smallvec::SmallVec;

use crate::{
    kernels::{
        Ctx, Dispatch, Kernel, Operand, Region, copy,
        matmul::{self, GemmPush, Picks},
        matvec::{self, Format, Fused, Matrix},
        strided::Walk,
    },
    planners::{
        matmul::{Gemm, listed},
        matrix::fragment,
        matvec as few,
        quantized::{self as planner, Plan, Product},
        team::Team,
    },
    stats,
};

/// Push constants of `qmv.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct MatVecPush {
    x: u64,
    words: u64,
    scales: u64,
    biases: u64,
    result: u64,
    picks: u64,
    rows: u32,
    outputs: u32,
    inner: u32,
    batches: u32,
    matrices: u32,
    zero: u32,
}

/// Dense operands of a quantized product.
struct Operands {
    x: Operand,
    words: Operand,
    scales: Operand,
    biases: Operand,
    result: Operand,
    affine: Affine,
    dtype: Dtype,
    product: Product,
    /// One matrix per batch; else one for all.
    matrices: bool,
    /// Indices of the matrices of both sides.
    picks: Option<Picks>,
}

impl Operands {
    fn reads(&self) -> SmallVec<[Region; 6]> {
        let w = [self.words.region, self.scales.region, self.biases.region];
        let lists = self.picks.iter().flat_map(|p| p.lists.map(|list| list.region));
        std::iter::once(self.x.region).chain(w).chain(lists).collect()
    }
}

/// Encodes the product.
///
/// # Errors
/// When memory or the device fails, or an axis is over 2^31.
pub(in crate::kernels) fn eval(
    ctx: &mut Ctx<'_>,
    affine: Affine,
    transpose: bool,
    inputs: &[Array; 4],
    output: &mut Output,
) -> Result<()> {
    let result = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let o = operands(ctx, affine, transpose, inputs, output, result)?;
    run(ctx, &o, output)
}

/// Encodes the products of matrices that indices pick.
///
/// # Errors
/// As [`eval`].
pub(in crate::kernels) fn gather(
    ctx: &mut Ctx<'_>,
    affine: Affine,
    transpose: bool,
    [x, words, scales, biases, lhs, rhs]: &[Array; 6],
    output: &mut Output,
) -> Result<()> {
    let result = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let picks = Picks::new(ctx, [lhs, rhs], [x, words])?;
    let product = Product {
        rows: x.dim(-2),
        outputs: output.shape[output.shape.len() - 1],
        inner: x.dim(-1),
        batches: picks.batches,
        transpose,
        fragment: None,
    };
    let o = Operands {
        x: copy::dense(ctx, x)?,
        words: matrix(ctx, words, true)?,
        scales: matrix(ctx, scales, true)?,
        biases: matrix(ctx, biases, true)?,
        result,
        affine,
        dtype: output.dtype,
        product,
        matrices: true,
        picks: Some(picks),
    };
    run(ctx, &o, output)
}

fn run(ctx: &mut Ctx<'_>, o: &Operands, output: &Output) -> Result<()> {
    let (p, affine) = (o.product, o.affine);
    if [p.rows, p.outputs, p.inner].iter().any(|&s| s >= 1 << 31) {
        return Err(ctx.unsupported_output(output, "an axis has 2^31 elements or more"));
    }
    let plan = planner::plan(&p, ctx.capabilities(), ctx.config());
    stats::hit("qmm", || {
        format!(
            "{plan:?} {}x{}x{} b{} g{}",
            p.rows, p.outputs, p.inner, affine.bits, affine.group_size
        )
    });
    match plan {
        Plan::MatVec { .. } if is_fusable(ctx, o) => {
            matvec::encode(ctx, &fused(o), &o.reads(), &[o.result.region])
        }
        Plan::MatVec { team, workgroup, rows, outputs } => {
            mat_vec(ctx, o, team, workgroup, rows, outputs)
        }
        Plan::VecMat { rows } if o.picks.is_none() => vec_mat(ctx, o, rows),
        Plan::VecMat { .. } => {
            tiles(ctx, o, listed(p.rows, p.outputs, p.batches, false, ctx.capabilities()))
        }
        Plan::Gemm(_) if o.picks.is_some() => {
            tiles(ctx, o, listed(p.rows, p.outputs, p.batches, false, ctx.capabilities()))
        }
        Plan::Gemm(gemm) => tiles(ctx, o, gemm),
        Plan::Dense(gemm) if o.x.is_aligned(16) => dense(ctx, o, gemm),
        Plan::Dense(gemm) => tiles(ctx, o, gemm),
    }
}

fn operands(
    ctx: &mut Ctx<'_>,
    affine: Affine,
    transpose: bool,
    inputs: &[Array; 4],
    output: &Output,
    result: Operand,
) -> Result<Operands> {
    let [x, words, scales, biases] = inputs;
    let last = output.shape.len() - 1;
    let batches = output.shape[..last - 1].iter().product::<usize>();
    let mut product = Product {
        rows: x.dim(-2),
        outputs: output.shape[last],
        inner: x.dim(-1),
        batches,
        transpose,
        fragment: None,
    };
    let leading = [product.inner as i64, product.inner.max(product.outputs) as i64];
    product.fragment = fragment(output.dtype, leading, ctx.capabilities(), ctx.config());
    // A matrix that all batches share sees their rows as one.
    let matrices = [words, scales, biases].iter().any(|a| !repeats_one_matrix(a));
    if !matrices {
        (product.rows, product.batches) = (product.rows * batches, 1);
    }
    Ok(Operands {
        x: copy::dense(ctx, x)?,
        words: matrix(ctx, words, matrices)?,
        scales: matrix(ctx, scales, matrices)?,
        biases: matrix(ctx, biases, matrices)?,
        result,
        affine,
        dtype: output.dtype,
        product,
        matrices,
        picks: None,
    })
}

/// Whether the batch axes only repeat one matrix.
fn repeats_one_matrix(array: &Array) -> bool {
    let batch = array.ndim() - 2;
    let strides = &array.evaluated().layout.strides;
    (0..batch).all(|i| array.shape()[i] == 1 || strides[i] == 0)
}

/// Dense matrices; the first one in place where all batches share it.
fn matrix(ctx: &mut Ctx<'_>, array: &Array, each: bool) -> Result<Operand> {
    let batch = array.ndim() - 2;
    let strides = &array.evaluated().layout.strides[batch..];
    let dense = mlx_core::shape::is_row_contiguous(&array.shape()[batch..], strides);
    if dense && !each { ctx.input(array) } else { copy::dense(ctx, array) }
}

/// Whether the kernel that fusions are made of serves: one matrix, whole aligned chunks.
fn is_fusable(ctx: &Ctx<'_>, o: &Operands) -> bool {
    let p = &o.product;
    p.batches == 1
        && o.picks.is_none()
        && !o.matrices
        && o.x.is_aligned(16)
        && o.words.is_aligned(16)
        && few::serves(
            p.rows,
            p.inner,
            o.affine.bits,
            o.dtype.size(),
            ctx.capabilities(),
            ctx.config(),
        )
}

fn fused(o: &Operands) -> Fused {
    let format = Format {
        dtype: o.dtype as u32,
        bits: o.affine.bits as u32,
        group: o.affine.group_size as u32,
    };
    let matrix = Matrix {
        words: o.words.address,
        scales: o.scales.address,
        biases: o.biases.address,
        result: o.result.address,
        outputs: o.product.outputs as u32,
    };
    Fused::of(o.x.address, o.product.rows, o.product.inner, format, matrix)
}

fn mat_vec(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    team: Team,
    workgroup: u32,
    rows: u32,
    outputs: u32,
) -> Result<()> {
    let p = &o.product;
    let picks = picks(ctx, o, [p.rows, p.outputs])?;
    let push = MatVecPush {
        x: o.x.address,
        words: o.words.address,
        scales: o.scales.address,
        biases: o.biases.address,
        result: o.result.address,
        picks: picks.unwrap_or(0),
        rows: p.rows as u32,
        outputs: p.outputs as u32,
        inner: p.inner as u32,
        batches: p.batches as u32,
        matrices: u32::from(o.matrices),
        zero: 0,
    };
    let aligned = u32::from(o.x.is_aligned(16)) | (u32::from(o.words.is_aligned(16)) << 1);
    let kernel = match (team.subgroups, picks.is_some()) {
        (true, false) => Kernel::qmv_subgroup,
        (false, false) => Kernel::qmv_shared,
        (true, true) => Kernel::qmv_gather_subgroup,
        (false, true) => Kernel::qmv_gather_shared,
    };
    let (bits, group) = (o.affine.bits as u32, o.affine.group_size as u32);
    let constants = [workgroup, o.dtype as u32, bits, group, team.subgroup, rows, outputs, aligned];
    let pipeline = matmul::team_pipeline(ctx, kernel, &constants, team)?;
    let caps = ctx.capabilities();
    let blocks = p.outputs.div_ceil(outputs as usize) as u64;
    let groups = [
        caps.groups_1d(blocks, u64::from(team.teams(workgroup))),
        push.rows.div_ceil(rows).min(caps.max_groups[1]),
        push.batches.min(caps.max_groups[2]),
    ];
    let push = bytemuck::bytes_of(&push);
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push,
        groups,
        reads: &o.reads(),
        writes: &[o.result.region],
    })
}

/// The lists of picked matrices, if there are any; `steps` are the distances of neighbouring ones.
fn picks(ctx: &mut Ctx<'_>, o: &Operands, steps: [usize; 2]) -> Result<Option<u64>> {
    let Some(picks) = &o.picks else { return Ok(None) };
    let picks = Picks { steps: steps.map(|s| s as i64), ..picks.clone() };
    picks.pack(ctx, [0, 1]).map(Some)
}

/// Batch strides of `x` in elements and of the matrix in its rows.
fn walk(ctx: &mut Ctx<'_>, o: &Operands, order_matrix_first: bool) -> Result<(u32, u64)> {
    let p = &o.product;
    let rows = if p.transpose { p.outputs } else { p.inner };
    if let Some(address) = picks(ctx, o, [p.rows * p.inner, rows])? {
        return Ok((0, address));
    }
    if p.batches == 1 {
        return Ok((0, 0));
    }
    let x = (p.rows * p.inner) as isize;
    let matrix = if o.matrices { rows as isize } else { 0 };
    let (first, second) = if order_matrix_first { (matrix, x) } else { (x, matrix) };
    let walk = Walk::new(&[p.batches], [&[first], &[second], &[0]]);
    Ok((walk.ndim(), ctx.args(&walk.pack())?))
}

fn vec_mat(ctx: &mut Ctx<'_>, o: &Operands, rows: u32) -> Result<()> {
    let p = &o.product;
    let (ndim, walk) = walk(ctx, o, true)?;
    let push = matmul::VecMatPush {
        matrix: o.words.address,
        x: o.x.address,
        c: o.scales.address,
        extra: o.biases.address,
        result: o.result.address,
        walk,
        x_row: p.inner as i64,
        x_step: 1,
        columns: p.outputs as u32,
        vectors: p.rows as u32,
        k: p.inner as u32,
        batches: p.batches as u32,
        ndim,
        ..matmul::VecMatPush::default()
    };
    let caps = ctx.capabilities();
    let (workgroup, across) = matmul::vec_mat_threads(caps, p.outputs);
    let (bits, group) = (o.affine.bits as u32, o.affine.group_size as u32);
    let constants = [workgroup, o.dtype as u32, 0, rows, across, bits, group];
    let pipeline = ctx.pipeline(Kernel::quantized_vecmat, &constants)?;
    let blocks = p.outputs.div_ceil(8 * across as usize) as u64;
    let groups = [
        caps.groups_1d(blocks, 1),
        push.vectors.div_ceil(rows).min(caps.max_groups[1]),
        push.batches.min(caps.max_groups[2]),
    ];
    let push = bytemuck::bytes_of(&push);
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push,
        groups,
        reads: &o.reads(),
        writes: &[o.result.region],
    })
}

fn tiles(ctx: &mut Ctx<'_>, o: &Operands, plan: Gemm) -> Result<()> {
    // Splits of k must be whole runs of 32 for the packed words; slices of 32 make them so.
    let plan = match plan {
        Gemm::Tile(tile, splits) if splits > 1 => {
            Gemm::Tile(matmul::Tile { bk: 32, ..tile }, splits)
        }
        other => other,
    };
    let (ndim, walk) = walk(ctx, o, false)?;
    let p = &o.product;
    let mut push = GemmPush {
        a: o.x.address,
        b: o.words.address,
        c: o.scales.address,
        result: o.result.address,
        walk,
        extra: o.biases.address,
        lda: p.inner as i64,
        m: p.rows as u32,
        n: p.outputs as u32,
        k: p.inner as u32,
        batches: p.batches as u32,
        ndim,
        splits: 1,
        ..GemmPush::default()
    };
    let matrices = matches!(plan, Gemm::Matrix(..));
    let vector = if matrices { 16 } else { 4 * o.dtype.size() as u64 };
    // Packed rows are multiples of 32 elements; those of x are as long as k, which is the other axis of
    // a matrix that is not transposed.
    let row = (p.inner * o.dtype.size()) as u64;
    let a_vector = o.x.is_aligned(vector) && row.is_multiple_of(vector);
    let words_vector = matrices && o.words.is_aligned(16);
    let flags = 1
        | (u32::from(p.transpose) << 1)
        | (u32::from(a_vector) << 2)
        | (u32::from(words_vector) << 3);
    let splits = match plan {
        Gemm::Tile(_, splits) | Gemm::Matrix(_, splits) => splits,
        Gemm::Lanes { .. } => 1,
    };
    if splits == 1 {
        return dispatch(ctx, o, plan, o.dtype, flags, &push, o.result.region);
    }
    let count = (p.batches * p.rows * p.outputs) as u64;
    let parts = ctx.scratch(count * u64::from(splits) * 4)?;
    (push.result, push.splits) = (parts.address, splits);
    dispatch(ctx, o, plan, Dtype::Float32, flags, &push, parts)?;
    matmul::sum_parts(ctx, parts, splits, count, o.dtype, o.result)
}

/// Products with a packed matrix on cooperative matrices, by dtype: float16 first.
pub(in crate::kernels) const MATRIX: [Kernel; 2] =
    [Kernel::qmm_matrix_float16, Kernel::qmm_matrix_bfloat16];

/// The matrix dequantized into scratch memory, then a dense product.
fn dense(ctx: &mut Ctx<'_>, o: &Operands, plan: Gemm) -> Result<()> {
    let p = &o.product;
    let count = (p.outputs * p.inner) as u64;
    let matrix = ctx.scratch(count * o.dtype.size() as u64)?;
    super::dequantize_into(ctx, o.affine, o.dtype, [o.words, o.scales, o.biases], count, matrix)?;
    let push = GemmPush {
        a: o.x.address,
        b: matrix.address,
        result: o.result.address,
        lda: p.inner as i64,
        ldb: p.inner as i64,
        m: p.rows as u32,
        n: p.outputs as u32,
        k: p.inner as u32,
        batches: 1,
        splits: 1,
        ..GemmPush::default()
    };
    matmul::dense_matrix(ctx, plan, o.dtype, push, &[o.x.region, matrix], o.result)
}

fn dispatch(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    plan: Gemm,
    out: Dtype,
    flags: u32,
    push: &GemmPush,
    writes: Region,
) -> Result<()> {
    let caps = ctx.capabilities();
    let mut constants = matmul::gemm_constants(plan, o.dtype, out, flags, caps);
    constants.extend([o.affine.bits as u32, o.affine.group_size as u32]);
    let gathers = usize::from(o.picks.is_some());
    let (pipeline, groups) = match plan {
        Gemm::Tile(tile, _) => {
            let kernel = [Kernel::qmm_tile, Kernel::qmm_tile_gather][gathers];
            (ctx.pipeline(kernel, &constants)?, matmul::tile_grid(&tile, push, caps))
        }
        Gemm::Matrix(tile, _) => {
            let pipeline = matmul::matrix_pipeline(ctx, MATRIX, o.dtype, &constants)?;
            (pipeline, matmul::matrix_grid(&tile, push, caps))
        }
        Gemm::Lanes { tm, tn } => {
            let kernel = [Kernel::qmm_lanes, Kernel::qmm_lanes_gather][gathers];
            (ctx.pipeline(kernel, &constants)?, matmul::lanes_grid(tm, tn, push, caps))
        }
    };
    let push = bytemuck::bytes_of(push);
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push,
        groups,
        reads: &o.reads(),
        writes: &[writes],
    })
}
