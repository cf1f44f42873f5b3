//! Products of few rows or few columns with matrices of floats, of any strides: `matvec/strided.comp` and
//! `matvec/vecmat.comp`.

use bytemuck::Pod;
use mlx_vulkan_core::{Dtype, Result};

use super::{
    fused::{self, Format, Fused},
    planner as few,
};
use crate::{
    kernels::{
        Capabilities, Ctx, Dispatch, Operand,
        layouts::{matvec_strided as mat_vecs, matvec_vecmat as vec_mats},
        operands::{MatrixSide, Operands, StridedMatrix},
        team::Team,
    },
    runtime::pipelines::PipelineOf,
};

use mat_vecs::{ADD_FLAG as ADD, M_VECTOR_FLAG as M_VECTOR, X_VECTOR_FLAG as X_VECTOR};

/// Both kernels have the same flags, but for vectors that only one loads whole.
const _: () = assert!(M_VECTOR == vec_mats::M_VECTOR_FLAG && ADD == vec_mats::ADD_FLAG);

/// Matrix, vectors, and the sizes as seen from the matrix's side.
struct Sides<'a> {
    matrix: &'a StridedMatrix,
    vectors: &'a StridedMatrix,
    /// Rows of the matrix and number of vectors.
    sizes: (usize, usize),
    /// Operand numbers of matrix and vectors in the batch walk.
    order: [usize; 3],
    /// Strides of `c` along the rows and along the vectors.
    c_strides: (i64, i64),
    /// Whether the result is (rows, vectors).
    transposed: u32,
}

fn sides(o: &Operands, side: MatrixSide) -> Sides<'_> {
    let (row, column) = o.c.as_ref().map_or((0, 0), |c| (c.row, c.column));
    match side {
        MatrixSide::Right => Sides {
            matrix: &o.b,
            vectors: &o.a,
            sizes: (o.n, o.m),
            order: [1, 0, 2],
            c_strides: (column, row),
            transposed: 0,
        },
        MatrixSide::Left => Sides {
            matrix: &o.a,
            vectors: &o.b,
            sizes: (o.m, o.n),
            order: [0, 1, 2],
            c_strides: (row, column),
            transposed: 1,
        },
    }
}

fn flags(o: &Operands, s: &Sides<'_>, dtype: Dtype, quad: i64) -> u32 {
    let bytes = quad as u64 * dtype.size() as u64;
    let aligned = |m: &StridedMatrix, stride: i64, i: usize| {
        m.at.is_aligned(bytes.min(16))
            && stride % quad == 0
            && o.batches_aligned(s.order[i], quad as isize)
    };
    let whole = o.k as i64 % quad == 0;
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let dense_x = s.vectors.inner == 1 && whole && aligned(s.vectors, s.vectors.outer, 1);
    let matrix_stride = if quad == 8 { s.matrix.outer } else { s.matrix.inner };
    let dense_matrix = (quad == 4 || whole) && aligned(s.matrix, matrix_stride, 0);
    bit(dense_matrix, M_VECTOR) | bit(dense_x, X_VECTOR) | bit(o.c.is_some(), ADD)
}

/// Grid of (teams, blocks of vectors, batches).
fn grid(caps: &Capabilities, blocks: u64, per_group: u64, vectors: u32, batches: u32) -> [u32; 3] {
    let [_, y, z] = caps.max_groups;
    [caps.groups_1d(blocks, per_group), vectors.min(y), batches.min(z)]
}

/// The product as one that can be fused, if a kernel of such serves it: one matrix of dense rows times
/// dense vectors, which may be so few that each is a vector of its own.
pub(in crate::kernels) fn fused(
    ctx: &Ctx<'_>,
    o: &Operands,
    dtype: Dtype,
    result: Operand,
    is_few: bool,
) -> Option<Fused> {
    let bits = 8 * dtype.size();
    let dense = |m: &StridedMatrix, rows: usize| {
        m.inner == 1 && (rows == 1 || m.outer == o.k as i64) && m.at.is_aligned(16)
    };
    let fits = o.c.is_none()
        && o.lists.is_none()
        && o.batches() == 1
        && dense(&o.a, o.m)
        && dense(&o.b, o.n)
        && [o.m, o.n, o.k].iter().all(|&size| size < 1 << 28);
    if !fits {
        return None;
    }
    let matrix = fused::Weights {
        words: o.b.at.address,
        result: result.address,
        outputs: o.n as u32,
        ..fused::Weights::default()
    };
    let fused = Fused::of(o.a.at.address, o.m, o.k, Format::dense(dtype), matrix);
    let serves = super::on_rows(ctx, &fused).is_some()
        || is_few && few::serves(o.m, o.k, bits, dtype.size(), ctx.capabilities(), ctx.config());
    serves.then_some(fused)
}

/// The push block of one of the kernels: what both have in the same words, and the rest.
macro_rules! push {
    ($layout:ident, $ctx:expr, $o:expr, $sides:expr, $result:expr, {$($field:ident: $value:expr,)*}) => {{
        let (o, s): (&Operands, &Sides<'_>) = ($o, $sides);
        let (ndim, walk) = o.walk($ctx, s.order)?;
        $layout::Push {
            matrix: s.matrix.at.address,
            x: s.vectors.at.address,
            c: o.c.as_ref().map_or(0, |c| c.at.address),
            result: $result.address,
            walk,
            x_row: s.vectors.outer,
            x_stride: s.vectors.inner,
            c_vector: s.c_strides.1,
            vectors: s.sizes.1 as u32,
            k: o.k as u32,
            batches: o.batches() as u32,
            alpha: o.c.as_ref().map_or(1.0, |c| c.alpha),
            beta: o.c.as_ref().map_or(0.0, |c| c.beta),
            ndim,
            transposed: s.transposed,
            $($field: $value,)*
        }
    }};
}

/// Rows of the matrix are dense along k.
pub(in crate::kernels) fn mat_vec(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    side: MatrixSide,
    dtype: Dtype,
    result: Operand,
) -> Result<()> {
    let s = sides(o, side);
    let (rows, vectors) = s.sizes;
    let push = push!(mat_vecs, ctx, o, &s, result, {
        row_stride: s.matrix.outer,
        c_row: s.c_strides.0,
        rows: rows as u32,
    });
    let caps = ctx.capabilities();
    let team = Team::of(caps, true);
    let workgroup = team.workgroup(caps, if team.subgroups { 128 } else { 32 });
    let at_once = (vectors as u32).next_power_of_two().min(8);
    let outputs = if caps.is_software() { (8 / at_once).max(2) } else { 1 };
    let kernel = match (team.subgroups, o.lists.is_some()) {
        (true, false) => mat_vecs::MATVEC_SUBGROUP,
        (false, false) => mat_vecs::MATVEC_SHARED,
        (true, true) => mat_vecs::MATVEC_GATHER_SUBGROUP,
        (false, true) => mat_vecs::MATVEC_GATHER_SHARED,
    };
    let constants = mat_vecs::Constants {
        workgroup,
        dtype: dtype as u32,
        flags: flags(o, &s, dtype, 8),
        vectors: at_once,
        subgroup: team.subgroup,
        outputs,
    };
    let pipeline = ctx.team_pipeline(kernel, &constants, team);
    let blocks = rows.div_ceil(outputs as usize) as u64;
    let per_group = u64::from(team.teams(workgroup));
    let groups = grid(caps, blocks, per_group, push.vectors.div_ceil(at_once), push.batches);
    dispatch(ctx, o, &pipeline, &push, groups, result)
}

/// The matrix is dense across the result.
pub(in crate::kernels) fn vec_mat(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    side: MatrixSide,
    dtype: Dtype,
    result: Operand,
) -> Result<()> {
    let s = sides(o, side);
    let (columns, vectors) = s.sizes;
    let push = push!(vec_mats, ctx, o, &s, result, {
        extra: 0,
        row_stride: s.matrix.inner,
        c_column: s.c_strides.0,
        columns: columns as u32,
    });
    let flags = flags(o, &s, dtype, 4);
    let (workgroup, across) = vec_mat_threads(ctx.capabilities(), columns);
    let at_once = (vectors as u32).next_power_of_two().min(8);
    let (dtype, vectors) = (dtype as u32, at_once);
    let constants = vec_mats::Constants {
        workgroup,
        dtype,
        flags,
        vectors,
        across,
        bits: 0,
        group: 0,
        format: 0,
    };
    let pipeline = ctx.pipeline(vec_mats::VECMAT, &constants);
    let caps = ctx.capabilities();
    let blocks = columns.div_ceil(4 * across as usize) as u64;
    let groups = grid(caps, blocks, 1, push.vectors.div_ceil(at_once), push.batches);
    dispatch(ctx, o, &pipeline, &push, groups, result)
}

/// Threads of a workgroup of `vecmat.comp`, and how many of them stand side by side; the others
/// split k.
pub(crate) fn vec_mat_threads(caps: &Capabilities, columns: usize) -> (u32, u32) {
    if caps.is_software() {
        return (caps.subgroup_size, caps.subgroup_size);
    }
    // Few columns a workgroup, as long as there are too few workgroups for the device otherwise.
    let across = match columns {
        0..=16_384 => 4,
        16_385..=65_536 => 8,
        _ => 32,
    };
    (256.min(caps.max_workgroup), across)
}

fn dispatch<P: Pod>(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    pipeline: &PipelineOf<P>,
    push: &P,
    groups: [u32; 3],
    result: Operand,
) -> Result<()> {
    let reads = o.reads();
    ctx.dispatch(&Dispatch { pipeline, push, groups, reads: &reads, writes: &[result.region] })
}
