//! Operands with one scale each (`matmul/scaled_whole.comp`).

use std::{array, mem};

use mlx_vulkan_core::{Result, Strides};
use smallvec::SmallVec;

use super::{DTYPES, OCTET, Source};
use crate::kernels::{Ctx, Dispatch, Operand, Region, layouts::matmul_scaled_whole as kernel};

/// Workgroups that look for an operand's largest element, at most: every one that converts reads what all of
/// them found.
const MOST_PEAKS: u32 = 512;

/// Octets that a thread converts: each workgroup reads all peaks before.
const OCTETS: u64 = 4;

/// New operands.
pub(crate) struct Scaled<const N: usize> {
    pub at: [Operand; N],
    /// Of the axes of matrices.
    pub strides: [Strides; N],
    /// What products have to be multiplied by, one float32 for each operand.
    pub factors: Region,
}

/// A kernel that measures an operand and then converts it.
struct Conversion {
    push: kernel::Push,
    flags: u32,
    source: Region,
    destination: Region,
    peaks: Region,
    factor: Region,
    /// Of the axes of matrices in the new operand.
    strides: Strides,
}

/// Encodes the new operands, whose rows are whole octets without gaps.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn convert<const N: usize>(
    ctx: &mut Ctx<'_>,
    sources: [Source<'_>; N],
) -> Result<Scaled<N>> {
    let factors = ctx.scratch(4 * N as u64)?;
    let mut all: SmallVec<[Conversion; 4]> = SmallVec::new();
    for (i, source) in sources.iter().enumerate() {
        let factor = Region { address: factors.address + 4 * i as u64, bytes: 4 };
        all.push(Conversion::new(ctx, source, factor)?);
    }
    // One operand after the other would wait for the one before.
    all.iter().try_for_each(|conversion| conversion.measure(ctx))?;
    all.iter().try_for_each(|conversion| conversion.convert(ctx))?;
    let at = array::from_fn(|i| {
        let region = all[i].destination;
        Operand { address: region.address, region }
    });
    let strides = array::from_fn(|i| mem::take(&mut all[i].strides));
    Ok(Scaled { at, strides, factors })
}

impl Conversion {
    /// Takes the memory for it.
    fn new(ctx: &mut Ctx<'_>, source: &Source<'_>, factor: Region) -> Result<Self> {
        let octets = source.octets();
        let (walk, strides) = source.without_repeats(source.rows * octets * OCTET);
        let count = walk.count() as usize * source.rows * octets;
        let destination = ctx.scratch((count * OCTET * DTYPES.operands.size()) as u64)?;
        let workgroup = ctx.capabilities().elementwise_workgroup();
        let groups = (count as u32).div_ceil(workgroup).clamp(1, MOST_PEAKS);
        let peaks = ctx.scratch(u64::from(groups) * 4)?;
        let (ndim, at) = Source::axes(ctx, &walk)?;
        let push = kernel::Push {
            source: source.at.address,
            destination: destination.address,
            peaks: peaks.address,
            factor: factor.address,
            walk: at,
            leading: source.leading,
            rows: source.rows as u32,
            width: source.width as u32,
            octets: octets as u32,
            count: count as u32,
            ndim,
            groups,
        };
        let flags = if source.is_vector(&walk) { kernel::VECTOR_FLAG } else { 0 };
        let source = source.at.region;
        Ok(Conversion { push, flags, source, destination, peaks, factor, strides })
    }

    /// Looks for the largest element.
    fn measure(&self, ctx: &mut Ctx<'_>) -> Result<()> {
        let flags = self.flags | kernel::MEASURE_FLAG;
        self.run(ctx, flags, self.push.groups, &[self.source], &[self.peaks])
    }

    /// Writes the new operand and its factor.
    fn convert(&self, ctx: &mut Ctx<'_>) -> Result<()> {
        let caps = ctx.capabilities();
        let each = u64::from(caps.elementwise_workgroup()) * OCTETS;
        let groups = caps.groups_1d(self.push.count.into(), each);
        let (reads, writes) = ([self.source, self.peaks], [self.destination, self.factor]);
        self.run(ctx, self.flags, groups, &reads, &writes)
    }

    fn run(
        &self,
        ctx: &mut Ctx<'_>,
        flags: u32,
        groups: u32,
        reads: &[Region],
        writes: &[Region],
    ) -> Result<()> {
        let workgroup = ctx.capabilities().elementwise_workgroup();
        let constants = kernel::Constants { workgroup, flags };
        let pipeline = ctx.pipeline(kernel::MATMUL_SCALED_WHOLE, &constants);
        let (push, groups) = (&self.push, [groups, 1, 1]);
        ctx.dispatch(&Dispatch { pipeline: &pipeline, push, groups, reads, writes })
    }
}
