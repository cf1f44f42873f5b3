//! Operands of dense products, with a scale for each row of the left one and each column of the right one
//! (`scaled.comp`).

use mlx_vulkan_core::{Dtype, Result, Strides};

use super::{
    matrix::Right,
    planner::{self, Gemm},
};
use crate::kernels::{
    Ctx, Dispatch, Operand, Region,
    layouts::matmul_scaled as kernel,
    operands::{Operands, StridedMatrix},
    scaled::{DTYPES, MOST, OCTET, Source, fragment_of},
};

/// Rows, columns and elements of a sum from which a product gains: fewer take no longer than to convert what
/// they are made of.
const LEAST: usize = 64;

/// Workgroups across k that a matrix is parted for: some for each multiprocessor of the largest devices.
const PARTS: usize = 264;

/// Rows of a chunk, at least: every workgroup that converts reads what those of all chunks found.
const SHORTEST: usize = 64;

/// The inner size of the new matrices.
pub(crate) fn inner(k: usize) -> usize {
    k.next_multiple_of(OCTET)
}

/// From row to row of a new matrix: along k there is an octet for the factor behind each.
pub(crate) fn leading(along_k: bool, width: usize) -> usize {
    if along_k { inner(width) + OCTET } else { inner(width) }
}

/// How a product runs, if it is made this way.
pub(crate) fn plan(ctx: &Ctx<'_>, o: &Operands, dtype: Dtype) -> Option<Gemm> {
    let elements = [o.m.max(o.n), o.k, o.batches()].into_iter().fold(1, usize::saturating_mul);
    if o.lists.is_some() || elements > MOST || o.m.min(o.n).min(o.k) < LEAST {
        return None;
    }
    let apart = [(&o.a, o.m), (&o.b, o.n)].map(|(matrix, outer)| {
        leading(matrix.along_k, if matrix.along_k { o.k } else { outer }) as i64
    });
    let multiplications = [o.m, o.n, o.k, o.batches()].into_iter().fold(1, usize::saturating_mul);
    let caps = ctx.capabilities();
    let fragment = fragment_of(dtype, multiplications, apart, caps, ctx.config())?;
    let plan = planner::gemm(o.m, o.n, inner(o.k), o.batches(), Some(fragment), Right::Dense, caps);
    matches!(plan, Gemm::Matrix(..)).then_some(plan)
}

/// Encodes the new operands of a product.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn operands(ctx: &mut Ctx<'_>, o: &Operands) -> Result<Operands> {
    let source = |matrix: &StridedMatrix, outer: usize, i: usize| {
        let (rows, width) = if matrix.along_k { (outer, o.k) } else { (o.k, outer) };
        let (shape, strides) = (o.batch.shape.as_slice(), o.batch.strides[i].clone());
        Source { at: matrix.at, leading: matrix.leading(), rows, width, shape, strides }
    };
    let a = Conversion::new(ctx, &source(&o.a, o.m, 0), o.a.along_k)?;
    let b = Conversion::new(ctx, &source(&o.b, o.n, 1), o.b.along_k)?;
    encode(ctx, &[&a, &b])?;
    let mut batch = o.batch.clone();
    (batch.strides[0], batch.strides[1]) = (a.strides.clone(), b.strides.clone());
    Ok(Operands { k: inner(o.k), a: a.matrix(), b: b.matrix(), batch, ..o.clone() })
}

/// Memory for a matrix whose rows are dense along k.
///
/// # Errors
/// When memory is out.
pub(crate) fn rows_memory(ctx: &mut Ctx<'_>, rows: usize, k: usize) -> Result<Region> {
    ctx.scratch((rows * leading(true, k) * DTYPES.operands.size()) as u64)
}

/// Encodes such a matrix from a dense one; `to` is of [`rows_memory`].
///
/// # Errors
/// When the device fails.
pub(crate) fn rows(
    ctx: &mut Ctx<'_>,
    at: Operand,
    [rows, k]: [usize; 2],
    to: Region,
) -> Result<Operand> {
    let conversion = Conversion::into(ctx, &Source::dense(at, rows, k), true, to)?;
    conversion.convert(ctx)?;
    Ok(conversion.matrix().at)
}

/// Encodes conversions, of which none waits for another.
fn encode(ctx: &mut Ctx<'_>, conversions: &[&Conversion]) -> Result<()> {
    conversions.iter().try_for_each(|conversion| conversion.measure(ctx))?;
    conversions.iter().try_for_each(|conversion| conversion.convert(ctx))
}

/// A kernel that makes a new operand.
struct Conversion {
    push: kernel::Push,
    flags: u32,
    source: Region,
    destination: Region,
    /// Across k what was measured.
    peaks: Region,
    /// Of the batch axes in the new operand.
    strides: Strides,
}

impl Conversion {
    /// Takes the memory for it.
    fn new(ctx: &mut Ctx<'_>, source: &Source<'_>, along_k: bool) -> Result<Self> {
        let elements = elements(source, along_k);
        let count = source.without_repeats(elements).0.count() as usize;
        let destination = ctx.scratch((count * elements * DTYPES.operands.size()) as u64)?;
        Conversion::into(ctx, source, along_k, destination)
    }

    /// The same with memory that there is.
    fn into(
        ctx: &mut Ctx<'_>,
        source: &Source<'_>,
        along_k: bool,
        destination: Region,
    ) -> Result<Self> {
        let octets = source.octets();
        let all_rows = source.rows.next_multiple_of(kernel::ROWS as usize);
        let (walk, strides) = source.without_repeats(elements(source, along_k));
        let count = walk.count() as usize;
        let (chunks, chunk) = chunks(count * octets.div_ceil(kernel::COLUMNS as usize), all_rows);
        let peaks = match along_k {
            true => Region::default(),
            false => ctx.scratch((count * chunks * octets * OCTET * 4) as u64)?,
        };
        let (ndim, at) = Source::axes(ctx, &walk)?;
        let push = kernel::Push {
            source: source.at.address,
            destination: destination.address,
            peaks: peaks.address,
            walk: at,
            leading: source.leading,
            rows: source.rows as u32,
            width: source.width as u32,
            octets: octets as u32,
            count: count as u32,
            ndim,
            chunks: chunks as u32,
            chunk: chunk as u32,
        };
        let bit = |on: bool, flag: u32| if on { flag } else { 0 };
        let flags =
            bit(along_k, kernel::ALONG_K_FLAG) | bit(source.is_vector(&walk), kernel::VECTOR_FLAG);
        let source = source.at.region;
        Ok(Conversion { push, flags, source, destination, peaks, strides })
    }

    fn along_k(&self) -> bool {
        self.flags & kernel::ALONG_K_FLAG != 0
    }

    /// The new matrix of a product.
    fn matrix(&self) -> StridedMatrix {
        let (along_k, region) = (self.along_k(), self.destination);
        let apart = leading(along_k, self.push.width as usize) as i64;
        let (outer, inner) = if along_k { (apart, 1) } else { (1, apart) };
        let at = Operand { address: region.address, region };
        StridedMatrix { at, outer, inner, along_k, across: !along_k }
    }

    /// Looks for the largest element of each column; rows are measured as they are converted.
    fn measure(&self, ctx: &mut Ctx<'_>) -> Result<()> {
        match self.along_k() {
            true => Ok(()),
            false => self.run(ctx, kernel::MEASURE_FLAG, &[self.source], &[self.peaks]),
        }
    }

    /// Writes the new operand.
    fn convert(&self, ctx: &mut Ctx<'_>) -> Result<()> {
        self.run(ctx, 0, &[self.source, self.peaks], &[self.destination])
    }

    fn run(&self, ctx: &mut Ctx<'_>, flag: u32, reads: &[Region], writes: &[Region]) -> Result<()> {
        let (p, caps) = (&self.push, ctx.capabilities());
        let most = caps.elementwise_workgroup();
        let (workgroup, groups) = match self.along_k() {
            // A thread has two octets of a row, or more.
            true => {
                ((p.octets / 2).next_power_of_two().clamp(32.min(most), most), p.count * p.rows)
            }
            false => (most, p.count * p.chunks * p.octets.div_ceil(kernel::COLUMNS)),
        };
        let groups = [caps.groups_1d(groups.into(), 1), 1, 1];
        let constants = kernel::Constants { workgroup, flags: self.flags | flag };
        let pipeline = ctx.pipeline(kernel::MATMUL_SCALED, &constants);
        ctx.dispatch(&Dispatch { pipeline: &pipeline, push: p, groups, reads, writes })
    }
}

/// Elements of a new matrix.
fn elements(source: &Source<'_>, along_k: bool) -> usize {
    match along_k {
        true => source.rows * leading(true, source.width),
        // Two rows of halves have the float32 factors of all columns.
        false => {
            (source.rows.next_multiple_of(kernel::ROWS as usize) + 2) * leading(false, source.width)
        }
    }
}

/// Chunks that so many rows are parted in across k, and rows of one, where there are so many columns of
/// workgroups.
fn chunks(columns: usize, rows: usize) -> (usize, usize) {
    let wanted = PARTS.div_ceil(columns.max(1)).clamp(1, rows.div_ceil(SHORTEST).max(1));
    let chunk = rows.div_ceil(wanted).next_multiple_of(kernel::ROWS as usize).max(1);
    (rows.div_ceil(chunk).max(1), chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_rows() {
        for (columns, rows) in [(1, 8), (9, 8192), (9, 8200), (600, 576), (3, 24)] {
            let (chunks, chunk) = chunks(columns, rows);
            assert!(chunks * chunk >= rows && (chunks - 1) * chunk < rows, "{columns} {rows}");
            assert!(chunk.is_multiple_of(kernel::ROWS as usize));
        }
        assert_eq!(chunks(9, 8192), (30, 280));
        assert_eq!(chunks(600, 576), (1, 576));
    }
}
