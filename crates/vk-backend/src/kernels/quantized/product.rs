//! `x @ w` with quantized `w`.

use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, primitives::Packing, shape};
use smallvec::SmallVec;

use crate::{
    kernels::{
        Ctx, Dispatch, Operand, Region, copy,
        fragment::fragment,
        layouts::{
            matvec_vecmat, quantized_qmm_lanes, quantized_qmm_matrix, quantized_qmm_tile,
            quantized_qmv as qmv,
        },
        matmul::{
            self, A_ALONG_K, A_VECTOR, B_ALONG_K, B_VECTOR, GROUPED, GemmPush, groups,
            lanes_constants, matrix_constants,
            planner::{self as gemm_planner, Gemm, listed},
            tile_constants,
        },
        matvec::{self, Format, Fused, Weights, planner as few},
        operands::{Lists, Picks},
        quantized::{
            format_of,
            planner::{self, QuantizedPlan, QuantizedProduct},
        },
        strided::Walk,
        team::Team,
    },
    runtime::{capabilities::Fragment, stats},
    shaders::KernelOf,
};

/// Dense operands of a quantized product.
struct Operands {
    x: Operand,
    words: Operand,
    scales: Operand,
    /// Nothing where there are none.
    biases: Operand,
    result: Operand,
    packing: Packing,
    dtype: Dtype,
    product: QuantizedProduct,
    /// From batch to batch, in rows of the matrices; 0 where one is for all.
    stride: usize,
    /// Indices of the matrices of both sides.
    picks: Option<Picks>,
}

impl Operands {
    /// Words, scales and biases.
    fn parts(&self) -> [Operand; 3] {
        [self.words, self.scales, self.biases]
    }

    fn reads(&self) -> SmallVec<[Region; 6]> {
        let lists = self.picks.iter().flat_map(Picks::reads);
        std::iter::once(self.x.region)
            .chain(self.parts().map(|part| part.region))
            .chain(lists)
            .collect()
    }
}

/// Encodes the product.
///
/// # Errors
/// When memory or the device fails, or an axis is over 2^31.
pub(in crate::kernels) fn eval(
    ctx: &mut Ctx<'_>,
    packing: Packing,
    transpose: bool,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let result = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let o = operands(ctx, packing, transpose, inputs, output, result)?;
    run(ctx, &o, output)
}

/// Encodes the products of matrices that indices pick; where those on the right are sorted, rows that pick
/// the same one are neighbours.
///
/// # Errors
/// As [`eval`].
pub(in crate::kernels) fn gather(
    ctx: &mut Ctx<'_>,
    packing: Packing,
    transpose: bool,
    sorted: bool,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let [x, parts @ .., lhs, rhs] = inputs else {
        unreachable!("a gathered product has five inputs at least")
    };
    let result = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let picks = Picks::new(ctx, [lhs, rhs], [x, &parts[0]])?;
    let product = QuantizedProduct {
        rows: x.dim(-2),
        outputs: output.shape[output.shape.len() - 1],
        inner: x.dim(-1),
        batches: picks.batches,
        transpose,
        fragment: None,
    };
    let [words, scales, biases] = super::operands(parts, |part| copy::dense(ctx, part))?;
    let o = Operands {
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
    };
    match sorted.then(|| plan_groups(ctx, &o)).flatten() {
        Some(plan) => grouped(ctx, o, plan),
        None => run(ctx, &o, output),
    }
}

/// What cooperative matrices multiply of this format and dtype: they take 32 packed elements at a time, and
/// float16 has too few exponents for what small floats stand for.
fn fragment_of(
    ctx: &Ctx<'_>,
    packing: Packing,
    dtype: Dtype,
    p: &QuantizedProduct,
) -> Option<Fragment> {
    let packed = if p.transpose { p.inner } else { p.outputs };
    let holds = packing.affine().is_some() || dtype == Dtype::Bfloat16;
    let leading = [p.inner as i64, p.inner.max(p.outputs) as i64];
    let fragment = fragment(dtype, leading, ctx.capabilities(), ctx.config());
    fragment.filter(|_| holds && packed.is_multiple_of(32))
}

/// How rows that pick a matrix each are multiplied by groups, if that serves them.
fn plan_groups(ctx: &Ctx<'_>, o: &Operands) -> Option<Grouped> {
    let (p, picks) = (&o.product, o.picks.as_ref()?);
    if p.rows != 1 || [p.outputs, p.inner].iter().any(|&s| s >= 1 << 31) {
        return None;
    }
    let fragment = fragment_of(ctx, o.packing, o.dtype, p)
        .filter(|_| groups::is_near(picks, p.inner * o.dtype.size()));
    let plan =
        |packed| gemm_planner::grouped(picks, p.outputs, fragment, packed, ctx.capabilities());
    let dense = dequantizes_stack(ctx, o, picks).then(|| plan(false)).flatten();
    let dense = dense.filter(|dense| matches!(dense, Gemm::Matrix(..)));
    let packed = dense.is_none();
    let gemm = dense.or_else(|| plan(true))?;
    stats::hit(ctx.config(), "qmm", || {
        let way = if packed { "packed" } else { "dequantized" };
        format!("grouped {way} {gemm:?} {}x{}x{}", picks.batches, p.outputs, p.inner)
    });
    Some(Grouped { gemm, packed })
}

/// How rows that pick a matrix each are multiplied by groups.
struct Grouped {
    gemm: Gemm,
    /// Tiles unpack weights for themselves.
    packed: bool,
}

/// Rows of a matrix on average from which a stack of small floats is dequantized into memory before its
/// product, and the share of the device's memory that this may take.
const STACK_ROWS: usize = 32;
const STACK_SHARE: u64 = 32;

/// Whether all matrices are dequantized once instead of by every tile of rows.
fn dequantizes_stack(ctx: &Ctx<'_>, o: &Operands, picks: &Picks) -> bool {
    let (p, matrices) = (&o.product, picks.counts[1]);
    let bytes = [matrices, p.outputs, p.inner, o.dtype.size()]
        .iter()
        .fold(1u64, |bytes, &size| bytes.saturating_mul(size as u64));
    o.packing.affine().is_none()
        && p.transpose
        && p.inner.is_multiple_of(8)
        && o.x.is_aligned(16)
        && picks.batches >= STACK_ROWS * matrices
        && bytes <= ctx.capabilities().device_memory / STACK_SHARE
}

/// Encodes the product of rows that pick a matrix each by tiles of rows that pick the same one.
fn grouped(ctx: &mut Ctx<'_>, mut o: Operands, Grouped { gemm, packed }: Grouped) -> Result<()> {
    let Some(picks) = &mut o.picks else { unreachable!("groups are made of picks") };
    picks.tiles = Some(groups::tiles(ctx, picks, gemm)?);
    (o.product.rows, o.product.batches) = (picks.batches, 1);
    if packed { tiles(ctx, &o, gemm) } else { dense(ctx, &o, gemm) }
}

fn run(ctx: &mut Ctx<'_>, o: &Operands, output: &Output) -> Result<()> {
    let (p, bits) = (o.product, o.packing.bits());
    if [p.rows, p.outputs, p.inner].iter().any(|&s| s >= 1 << 31) {
        return Err(ctx.unsupported_output(output, "an axis has 2^31 elements or more"));
    }
    let plan = planner::plan(&p, ctx.capabilities(), ctx.config());
    stats::hit(ctx.config(), "qmm", || {
        format!("{plan:?} {}x{}x{} b{bits} g{}", p.rows, p.outputs, p.inner, o.packing.group_size())
    });
    if let Some(gate) = planner::closed(&p, ctx.capabilities(), ctx.config()) {
        let rows = stats::row_bucket(p.rows);
        stats::reject(ctx.config(), "qmm", || {
            format!("{gate} for rows {rows}, {}x{} b{bits}", p.outputs, p.inner)
        });
    }
    let several = is_describable(o).then(|| fused(o));
    if let Some(several) = several.filter(|fused| matvec::on_rows(ctx, fused).is_some()) {
        return matvec::encode(ctx, &several, &o.reads(), &[o.result.region]);
    }
    match plan {
        QuantizedPlan::MatVec { team, .. } if team.subgroups && is_fusable(ctx, o) => {
            matvec::encode(ctx, &fused(o), &o.reads(), &[o.result.region])
        }
        QuantizedPlan::MatVec { team, workgroup, rows, outputs } => {
            mat_vec(ctx, o, team, workgroup, rows, outputs)
        }
        QuantizedPlan::VecMat { rows } if o.picks.is_none() => vec_mat(ctx, o, rows),
        QuantizedPlan::VecMat { .. } => {
            tiles(ctx, o, listed(p.rows, p.outputs, p.batches, false, ctx.capabilities()))
        }
        QuantizedPlan::Gemm(_) if o.picks.is_some() => {
            tiles(ctx, o, listed(p.rows, p.outputs, p.batches, false, ctx.capabilities()))
        }
        QuantizedPlan::Gemm(gemm) => tiles(ctx, o, gemm),
        QuantizedPlan::Dense(gemm) if o.x.is_aligned(16) => dense(ctx, o, gemm),
        QuantizedPlan::Dense(gemm) => tiles(ctx, o, gemm),
    }
}

fn operands(
    ctx: &mut Ctx<'_>,
    packing: Packing,
    transpose: bool,
    inputs: &[Array],
    output: &Output,
    result: Operand,
) -> Result<Operands> {
    let (x, parts) = (&inputs[0], &inputs[1..]);
    let last = output.shape.len() - 1;
    let batches = output.shape[..last - 1].iter().product::<usize>();
    let mut product = QuantizedProduct {
        rows: x.dim(-2),
        outputs: output.shape[last],
        inner: x.dim(-1),
        batches,
        transpose,
        fragment: None,
    };
    product.fragment = fragment_of(ctx, packing, output.dtype, &product);
    // Batches that share a matrix see their rows as one: heads of queries over the heads of a quantized
    // cache, say. Copied are whole arrays, whose first matrix is all that there is if all batches share it.
    let (axes, in_place) = (stacked_axes(parts), stride_in_place(parts));
    let first = if axes == 0 || in_place.is_some() { axes } else { last - 1 };
    let shared = output.shape[first..last - 1].iter().product::<usize>();
    (product.rows, product.batches) = (product.rows * shared, batches / shared.max(1));
    let stride = if product.batches > 1 { in_place.unwrap_or(rows_of(&product)) } else { 0 };
    let matrix = |array: &Array| match in_place {
        Some(_) => ctx.input(array),
        None => copy::dense(ctx, array),
    };
    let [words, scales, biases] = super::operands(parts, matrix)?;
    let (x, dtype) = (copy::dense(ctx, x)?, output.dtype);
    Ok(Operands { x, words, scales, biases, result, packing, dtype, product, stride, picks: None })
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

/// Whether it is a product that fusions know: with one matrix, aligned.
fn is_describable(o: &Operands) -> bool {
    o.product.transpose
        && o.product.batches == 1
        && o.picks.is_none()
        && o.stride == 0
        && o.x.is_aligned(16)
        && o.words.is_aligned(16)
}

/// Whether the kernel that fusions are made of serves: whole chunks.
fn is_fusable(ctx: &Ctx<'_>, o: &Operands) -> bool {
    let p = &o.product;
    is_describable(o)
        && few::serves(
            p.rows,
            p.inner,
            o.packing.bits(),
            o.dtype.size(),
            ctx.capabilities(),
            ctx.config(),
        )
}

fn fused(o: &Operands) -> Fused {
    let format = Format::packed(o.dtype, o.packing);
    let matrix = Weights {
        words: o.words.address,
        scales: o.scales.address,
        biases: o.biases.address,
        result: o.result.address,
        outputs: o.product.outputs as u32,
        bias: None,
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
    let push = qmv::Push {
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
        stride: o.stride as u32,
    };
    let aligned = u32::from(o.x.is_aligned(16)) | (u32::from(o.words.is_aligned(16)) << 1);
    let kernel = match (team.subgroups, picks.is_some()) {
        (true, false) => qmv::QMV_SUBGROUP,
        (false, false) => qmv::QMV_SHARED,
        (true, true) => qmv::QMV_GATHER_SUBGROUP,
        (false, true) => qmv::QMV_GATHER_SHARED,
    };
    let (bits, group) = (o.packing.bits() as u32, o.packing.group_size() as u32);
    let (dtype, subgroup) = (o.dtype as u32, team.subgroup);
    let format = format_of(o.packing);
    let constants =
        qmv::Constants { workgroup, dtype, bits, group, subgroup, rows, outputs, aligned, format };
    let pipeline = ctx.team_pipeline(kernel, &constants, team);
    let caps = ctx.capabilities();
    let blocks = p.outputs.div_ceil(outputs as usize) as u64;
    let groups = [
        caps.groups_1d(blocks, u64::from(team.teams(workgroup))),
        push.rows.div_ceil(rows).min(caps.max_groups[1]),
        push.batches.min(caps.max_groups[2]),
    ];
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups,
        reads: &o.reads(),
        writes: &[o.result.region],
    })
}

/// The lists of picked matrices, if there are any; `strides` are from matrix to matrix.
fn picks(ctx: &mut Ctx<'_>, o: &Operands, strides: [usize; 2]) -> Result<Option<u64>> {
    let Some(picks) = &o.picks else { return Ok(None) };
    let picks = Picks { strides: strides.map(|s| s as i64), ..picks.clone() };
    picks.pack(ctx, [0, 1]).map(Some)
}

/// Whether the product is made by groups of rows, whose picks count rows of `x`.
fn is_grouped(o: &Operands) -> bool {
    o.picks.as_ref().is_some_and(|picks| picks.tiles.is_some())
}

/// Batch strides of `x` in elements and of the matrix in its rows.
fn walk(ctx: &mut Ctx<'_>, o: &Operands, order_matrix_first: bool) -> Result<(u32, u64)> {
    let p = &o.product;
    let x = if is_grouped(o) { 1 } else { p.rows * p.inner };
    if let Some(address) = picks(ctx, o, [x, o.stride])? {
        return Ok((0, address));
    }
    if p.batches == 1 {
        return Ok((0, 0));
    }
    let x = (p.rows * p.inner) as isize;
    let matrix = o.stride as isize;
    let (first, second) = if order_matrix_first { (matrix, x) } else { (x, matrix) };
    let walk = Walk::new(&[p.batches], [&[first], &[second], &[0]]);
    Ok((walk.ndim(), ctx.args(&walk.pack())?))
}

fn vec_mat(ctx: &mut Ctx<'_>, o: &Operands, rows: u32) -> Result<()> {
    let p = &o.product;
    let (ndim, walk) = walk(ctx, o, true)?;
    let push = matvec_vecmat::Push {
        matrix: o.words.address,
        x: o.x.address,
        c: o.scales.address,
        extra: o.biases.address,
        result: o.result.address,
        walk,
        x_row: p.inner as i64,
        x_stride: 1,
        columns: p.outputs as u32,
        vectors: p.rows as u32,
        k: p.inner as u32,
        batches: p.batches as u32,
        ndim,
        ..matvec_vecmat::Push::default()
    };
    let caps = ctx.capabilities();
    let (workgroup, across) = matvec::strided::vec_mat_threads(caps, p.outputs);
    let (bits, group) = (o.packing.bits() as u32, o.packing.group_size() as u32);
    let (dtype, vectors) = (o.dtype as u32, rows);
    let (flags, format) = (0, format_of(o.packing));
    let constants =
        matvec_vecmat::Constants { workgroup, dtype, flags, vectors, across, bits, group, format };
    let pipeline = ctx.pipeline(matvec_vecmat::QUANTIZED_VECMAT, &constants);
    let blocks = p.outputs.div_ceil(8 * across as usize) as u64;
    let groups = [
        caps.groups_1d(blocks, 1),
        push.vectors.div_ceil(rows).min(caps.max_groups[1]),
        push.batches.min(caps.max_groups[2]),
    ];
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
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
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = A_ALONG_K
        | bit(is_grouped(o), GROUPED)
        | bit(p.transpose, B_ALONG_K)
        | bit(a_vector, A_VECTOR)
        | bit(words_vector, B_VECTOR);
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
pub(in crate::kernels) const MATRIX: [KernelOf<quantized_qmm_matrix::Constants, GemmPush>; 2] =
    [quantized_qmm_matrix::QMM_MATRIX_FLOAT16, quantized_qmm_matrix::QMM_MATRIX_BFLOAT16];

/// The matrix, or all that rows pick, dequantized into scratch memory, then a dense product.
fn dense(ctx: &mut Ctx<'_>, o: &Operands, plan: Gemm) -> Result<()> {
    let p = &o.product;
    let matrices = o.picks.as_ref().map_or(1, |picks| picks.counts[1]);
    let count = (matrices * p.outputs * p.inner) as u64;
    let matrix = ctx.scratch(count * o.dtype.size() as u64)?;
    super::dequantize_into(ctx, o.packing, o.dtype, o.parts(), count, matrix)?;
    let push = GemmPush {
        a: o.x.address,
        b: matrix.address,
        result: o.result.address,
        walk: picks(ctx, o, [1, p.outputs * p.inner])?.unwrap_or(0),
        lda: p.inner as i64,
        ldb: p.inner as i64,
        m: p.rows as u32,
        n: p.outputs as u32,
        k: p.inner as u32,
        batches: 1,
        splits: 1,
        ..GemmPush::default()
    };
    let mut reads: SmallVec<[Region; 5]> = SmallVec::from_slice(&[o.x.region, matrix]);
    reads.extend(o.picks.iter().flat_map(Picks::reads));
    let lists = o.picks.clone().map(Lists::Picks);
    matmul::dense_matrix(ctx, plan, o.dtype.into(), push, lists.as_ref(), &reads, o.result)
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
    let (dtype, gathers) = (o.dtype, usize::from(o.picks.is_some()));
    let row_groups = o.picks.as_ref().map_or(0, Picks::groups);
    let format = format_of(o.packing);
    let (bits, group) = (o.packing.bits() as u32, o.packing.group_size() as u32);
    let (pipeline, groups) = match plan {
        Gemm::Tile(tile, _) => {
            use quantized_qmm_tile::{QMM_TILE, QMM_TILE_GATHER};
            let constants = tile_constants!(
                quantized_qmm_tile, tile, dtype, out, flags, bits: bits, group: group, format: format
            );
            let pipeline = ctx.pipeline([QMM_TILE, QMM_TILE_GATHER][gathers], &constants);
            (pipeline, matmul::tile_grid(&tile, push, row_groups, caps))
        }
        Gemm::Matrix(tile, _) => {
            let constants = matrix_constants!(
                quantized_qmm_matrix, tile, dtype, out, flags, bits: bits, group: group,
                format: format
            );
            let floats = [quantized_qmm_matrix::QMM_MATRIX_FLOATS; 2];
            let kernels = if o.packing.affine().is_some() { MATRIX } else { floats };
            let pipeline = matmul::matrix_pipeline(ctx, kernels, dtype, &constants);
            (pipeline, matmul::matrix_grid(&tile, push, row_groups, caps))
        }
        Gemm::Lanes { tm, tn } => {
            use quantized_qmm_lanes::{QMM_LANES, QMM_LANES_GATHER};
            let size = caps.subgroup_size;
            let constants = lanes_constants!(
                quantized_qmm_lanes, size, [tm, tn], dtype, out, flags, bits: bits, group: group,
                format: format
            );
            let pipeline = ctx.pipeline([QMM_LANES, QMM_LANES_GATHER][gathers], &constants);
            (pipeline, matmul::lanes_grid(tm, tn, push, caps))
        }
    };
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push,
        groups,
        reads: &o.reads(),
        writes: &[writes],
    })
}
