//! Rows that pick matrices of 4 bits, affine or mxfp4, such as those of experts, on cooperative matrices
//! (`quantized/gather_rows.comp`): a matrix is read once for a tile of the rows that pick it, in whatever
//! order these are.

use mlx_vulkan_core::{
    Dtype, Result,
    primitives::{Affine, FpMode, Packing},
};
use smallvec::SmallVec;

use crate::{
    kernels::{
        Ctx, Dispatch, Operand, Region,
        fragment::{NUMBERS, fragment},
        layouts::{
            quantized_gather_rows::{self as kernel, Constants, Push},
            quantized_scale_rows as scale,
        },
        matvec::{
            planner::{CHUNK, MATRIX_BITS, MATRIX_BLOCK, MATRIX_SUBGROUP},
            slices::{PITCH, SLICE, SUBGROUPS},
        },
    },
    runtime::{
        capabilities::{Capabilities, Fragment},
        config::Config,
    },
};

/// What the kernel's 16-bit numbers of picks hold, and its lists in shared memory.
pub(crate) const MOST_PICKS: usize = 1024;
/// Picks that it takes at least, with however few experts; not measured.
const LEAST_PICKS: usize = 16;
/// Picks up to which each may be multiplied on its own, where this kernel does not serve.
pub(crate) const MOST_SINGLE: usize = 128;
/// Experts whose picks a workgroup counts in shared memory.
const MOST_EXPERTS: usize = 1024;
/// Picks of an expert on average up to which tiles of blocks are [`NARROW`]: few experts have more than a
/// tile then. Where subgroups keep slices, all are: with 8 picks (H200, 128 sequences of 30B-A3B) these take
/// 145 and 83 µs, blocks with wide tiles 173 and 104, and slices with wide ones 165 and 116.
const FEW_EACH: usize = 4;
/// Picks of an expert on average up to which the kernel serves. With 8 (H200, 128 sequences of 30B-A3B)
/// blocks gave 5,381 tokens/s, and products of many rows 4,646; more were not measured.
pub(crate) const MOST_EACH: usize = 8;
/// Columns of a tile: rows that pick the same expert.
const NARROW: u32 = 8;
const WIDE: u32 = 16;
/// Threads of blocks that a multiprocessor is filled with: registers are short, as in `matvec/rows.comp`.
const RESIDENT_THREADS: u32 = 512;

/// Products whose rows pick matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub dtype: Dtype,
    pub packing: Packing,
    pub picks: usize,
    pub experts: usize,
    pub outputs: usize,
    pub inner: usize,
    /// Whether gate and up are multiplied together.
    pub paired: bool,
}

/// How `quantized/gather_rows.comp` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GatherPlan {
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Rows of a tile.
    pub columns: u32,
    /// Subgroups that split the inner axis of a block.
    pub splits: u32,
    /// Workgroups.
    pub groups: u32,
    /// Picks that its lists have room for.
    pub most_picks: u32,
    /// Where subgroups keep slices of rows, how many units' sums are kept.
    pub slices: Option<u32>,
}

impl GatherPlan {
    /// Bytes of shared memory of a workgroup: sums of every subgroup, what finds out where elements lie, and
    /// lists of picks (16 bits), of tiles and of experts.
    pub(crate) fn shared(&self, sizes: &Sizes) -> u32 {
        let (sets, subgroups) = (1 + u32::from(sizes.paired), self.workgroup / MATRIX_SUBGROUP);
        let floats = match self.slices {
            Some(buffers) => buffers * 2 * PITCH,
            None => sets * MATRIX_BLOCK,
        };
        let sums = subgroups * self.columns * floats * 4;
        sums + NUMBERS + self.most_picks * 6 + sizes.experts as u32 * 8 + 128
    }
}

/// Whether a device runs the kernel for a dtype.
pub(crate) fn runs_on(dtype: Dtype, caps: &Capabilities, config: &Config) -> bool {
    const SQUARE: Fragment = Fragment { m: 16, n: 16, k: 16 };
    config.enable_coopmat_matvec
        && fragment(dtype, [0; 2], caps, config) == Some(SQUARE)
        && caps.subgroup_size == MATRIX_SUBGROUP
        && caps.subgroup_ops.arithmetic
}

/// Whether the kernel knows a format, with rows of a dtype.
fn knows(packing: Packing, dtype: Dtype) -> bool {
    match packing {
        Packing::Affine(Affine { group_size, bits }) => {
            bits == MATRIX_BITS as usize && matches!(group_size, 32 | 64 | 128)
        }
        Packing::Floats(mode) => mode == FpMode::Mxfp4 && dtype == Dtype::Bfloat16,
    }
}

/// The picks from which reading an expert's weights once pays, instead of for each pick. Measured on an H200,
/// tokens/s one by one and together: 30B-A3B (128 experts of affine 4 bits) 32 picks 830 and 797, 64 1,185
/// and 1,222, 128 1,461 and 1,793; gpt-oss (32 of mxfp4) 16 picks 901 and 758, 32 950 and 967, 64 1,066 and
/// 1,378.
fn least(packing: Packing, experts: usize) -> usize {
    let eighths = if packing.affine().is_some() { 3 } else { 8 };
    (experts * eighths).div_ceil(8).clamp(LEAST_PICKS, MOST_SINGLE + 1)
}

/// Chooses how products run, if the kernel serves them.
pub(crate) fn plan(sizes: &Sizes, caps: &Capabilities, config: &Config) -> Option<GatherPlan> {
    let Sizes { picks, experts, outputs, inner, .. } = *sizes;
    let fits = runs_on(sizes.dtype, caps, config)
        && knows(sizes.packing, sizes.dtype)
        && (1..=MOST_EXPERTS).contains(&experts)
        && (least(sizes.packing, experts)..=MOST_PICKS.min(experts * MOST_EACH)).contains(&picks)
        && inner > 0
        && inner.is_multiple_of(sizes.packing.group_size())
        && outputs > 0
        && outputs.is_multiple_of(MATRIX_BLOCK as usize)
        && [inner, outputs].iter().all(|&size| size < 1 << 24);
    if !fits {
        return None;
    }
    // Few sizes, so that growing batches make few pipelines. Builds whose lists were for 1,024 picks from 129
    // on gave 2,457 to 2,470 tokens/s of 32 sequences of 30B-A3B, others 2,510 and 2,518 (H200).
    let most_picks = picks.next_power_of_two().max(128) as u32;
    let fits = |plan: &GatherPlan| {
        plan.shared(sizes) <= caps.shared_memory && plan.workgroup <= caps.max_workgroup
    };
    if let Some(plan) = in_slices(sizes, most_picks, caps).into_iter().flatten().find(fits) {
        return Some(plan);
    }
    let columns = if picks > experts * FEW_EACH { WIDE } else { NARROW };
    // Sums of two matrices and many columns leave shared memory for half as many subgroups.
    let workgroup = if columns == WIDE && sizes.paired { 128 } else { 256 };
    let (subgroups, most_groups) =
        (workgroup / MATRIX_SUBGROUP, caps.compute_units * (RESIDENT_THREADS / workgroup));
    let chunks = (inner as u32).div_ceil(CHUNK);
    let blocks = used(picks, experts) * (outputs as u64 / u64::from(MATRIX_BLOCK));
    let places = u64::from(most_groups * subgroups).max(1);
    // The end of a block takes about as long as a chunk.
    let cost =
        |s: &u32| (blocks * u64::from(*s)).div_ceil(places) * u64::from(chunks.div_ceil(*s) + 1);
    let possible = |s: &u32| *s <= subgroups.min(chunks);
    let splits = [1, 2, 4, 8].into_iter().filter(possible).min_by_key(cost)?;
    let groups = blocks.div_ceil(u64::from(subgroups / splits)).min(u64::from(most_groups)) as u32;
    let groups = groups.max(1);
    Some(GatherPlan { workgroup, columns, splits, groups, most_picks, slices: None }).filter(fits)
}

/// How subgroups keep slices of rows, if these are whole ones: with sums of two units, or of one.
fn in_slices(sizes: &Sizes, most_picks: u32, caps: &Capabilities) -> Option<[GatherPlan; 2]> {
    let unit = MATRIX_BLOCK as usize * if sizes.paired { 1 } else { 2 };
    let inner = sizes.inner as u32;
    let whole = inner.is_multiple_of(SLICE) && sizes.outputs.is_multiple_of(unit);
    let splits = inner / SLICE;
    if sizes.packing.affine().is_none() || !whole || splits > SUBGROUPS {
        return None;
    }
    let teams = SUBGROUPS / splits;
    let tiles = used(sizes.picks, sizes.experts).max((sizes.picks / NARROW as usize) as u64);
    let units = tiles * (sizes.outputs / unit) as u64;
    let groups = units.div_ceil(u64::from(teams)).clamp(1, u64::from(caps.compute_units.max(1)));
    let (workgroup, groups) = (teams * splits * MATRIX_SUBGROUP, groups as u32);
    Some([2, 1].map(|buffers| {
        let slices = Some(buffers);
        GatherPlan { workgroup, columns: NARROW, splits, groups, most_picks, slices }
    }))
}

/// Experts that somebody picks, if all are as likely.
fn used(picks: usize, experts: usize) -> u64 {
    let none = (1.0 - 1.0 / experts as f64).powi(picks as i32);
    (experts as f64 * (1.0 - none)).ceil() as u64
}

/// Which row of x a pick is of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OfX {
    /// Each row is for so many picks.
    Each(usize),
    /// A list says it, uint32, dense; there are so many rows.
    Listed(Operand, usize),
}

/// Products of rows that pick matrices.
pub(crate) struct Rows {
    pub sizes: Sizes,
    /// Rows of `inner` elements.
    pub x: Operand,
    pub of_x: OfX,
    /// The picks, uint32, dense.
    pub picks: Operand,
    /// Words, scales and biases: of gate and up, or of one matrix twice.
    pub matrices: [[Operand; 3]; 2],
    /// What is added to their products, (experts, outputs).
    pub biases: [Option<Operand>; 2],
    /// A row of `outputs` elements for each pick.
    pub result: Operand,
    /// The like of the second matrix, if both are stored.
    pub second: Option<Operand>,
    /// What happens to the products, of `quantized/gather_rows.comp`.
    pub after: u32,
}

impl Rows {
    /// Whether operands lie as the kernel loads them.
    pub(crate) fn is_aligned(&self) -> bool {
        self.matrices.iter().flatten().chain([&self.x]).all(|at| at.is_aligned(16))
    }
}

/// Encodes the multiplication of all rows with what products with mxfp4 want; where they are then.
fn scaled(ctx: &mut Ctx<'_>, r: &Rows) -> Result<Operand> {
    let rows = match r.of_x {
        OfX::Each(picks) => r.sizes.picks / picks,
        OfX::Listed(_, rows) => rows,
    };
    let octets = (rows * r.sizes.inner / 8) as u32;
    let region = ctx.scratch(u64::from(octets) * 16)?;
    let push = scale::Push { x: r.x.address, result: region.address, octets };
    let workgroup = 128;
    let pipeline = ctx.pipeline(scale::SCALE_ROWS, &scale::Constants { workgroup });
    ctx.run(&pipeline, &push, u64::from(octets), u64::from(workgroup), &[r.x.region], &[region])?;
    Ok(Operand { address: region.address, region })
}

/// Encodes the products.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn encode(ctx: &mut Ctx<'_>, r: &Rows, plan: &GatherPlan) -> Result<()> {
    let sizes = &r.sizes;
    // Tiles of many rows take as long for that as for their products, and all outputs do it again.
    let scales = plan.columns == WIDE && sizes.packing.affine().is_none();
    let x = if scales { scaled(ctx, r)? } else { r.x };
    let constants = Constants {
        workgroup: plan.workgroup,
        group: sizes.packing.group_size() as u32,
        columns: plan.columns,
        splits: plan.splits,
        after: r.after,
        inner: sizes.inner as u32,
        fragments: u32::from(ctx.config().enable_known_fragments),
        experts: sizes.experts as u32,
        most_picks: plan.most_picks,
        rows_scaled: u32::from(scales),
        buffers: plan.slices.unwrap_or(1),
    };
    let part = |i: usize| r.matrices.map(|matrix| matrix[i].address);
    let (rows, per_row, row_count) = match r.of_x {
        OfX::Each(picks) => (None, picks, 0),
        OfX::Listed(list, rows) => (Some(list), 0, rows),
    };
    let push = Push {
        x: x.address,
        result: r.result.address,
        picks: r.picks.address,
        rows: rows.map_or(0, |list| list.address),
        words: part(0),
        scales: part(1),
        biases: part(2),
        added: r.biases.map(|bias| bias.map_or(0, |at| at.address)),
        other: r.second.map_or(0, |at| at.address),
        count: sizes.picks as u32,
        per_row: per_row as u32,
        row_count: row_count as u32,
        outputs: sizes.outputs as u32,
    };
    let half = usize::from(sizes.dtype == Dtype::Bfloat16);
    let of_format = match sizes.packing {
        Packing::Floats(_) => kernel::QMM_GATHER_ROWS_MXFP4,
        Packing::Affine(_) if plan.slices.is_some() => {
            [kernel::QMM_GATHER_SLICES_FLOAT16, kernel::QMM_GATHER_SLICES_BFLOAT16][half]
        }
        Packing::Affine(_) => {
            [kernel::QMM_GATHER_ROWS_FLOAT16, kernel::QMM_GATHER_ROWS_BFLOAT16][half]
        }
    };
    let pipeline = ctx.pipeline_with_subgroup(of_format, &constants, MATRIX_SUBGROUP);
    let mut reads: SmallVec<[Region; 12]> =
        r.matrices.iter().flatten().map(|at| at.region).collect();
    reads.extend([x.region, r.picks.region]);
    let others = r.biases.iter().flatten().chain(rows.as_ref());
    reads.extend(others.map(|at| at.region));
    let writes: SmallVec<[Region; 2]> =
        [r.result].into_iter().chain(r.second).map(|at| at.region).collect();
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups: [plan.groups, 1, 1],
        reads: &reads,
        writes: &writes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::{Fragments, SubgroupOps};

    fn gpu() -> Capabilities {
        let square = Some(Fragment { m: 16, n: 16, k: 16 });
        let fragments = Fragments { float16: square, bfloat16: square };
        let known =
            Capabilities { shared_memory: 48 << 10, max_workgroup: 1024, ..Default::default() };
        let subgroup_ops = SubgroupOps { arithmetic: true, ..Default::default() };
        Capabilities { fragments, subgroup_ops, compute_units: 132, subgroup_size: 32, ..known }
    }

    /// Gate and up of Qwen3-30B-A3B.
    fn sizes(picks: usize) -> Sizes {
        let packing = Affine { group_size: 64, bits: 4 }.into();
        let (experts, outputs, inner) = (128, 768, 2048);
        Sizes { dtype: Dtype::Bfloat16, packing, picks, experts, outputs, inner, paired: true }
    }

    fn of(sizes: &Sizes) -> Option<GatherPlan> {
        plan(sizes, &gpu(), &Config::default())
    }

    #[test]
    fn subgroups_keep_whole_slices() {
        let plan = of(&sizes(512)).unwrap();
        assert_eq!((plan.workgroup, plan.splits, plan.groups), (512, 8, 132));
        assert_eq!((plan.columns, plan.slices), (8, Some(2)));
        let down = Sizes { inner: 768, outputs: 2048, paired: false, ..sizes(512) };
        let plan = of(&down).unwrap();
        assert_eq!((plan.workgroup, plan.splits, plan.slices), (480, 3, Some(2)));
        let buffers = |sizes: &Sizes| of(sizes).and_then(|plan| plan.slices);
        assert_eq!(buffers(&sizes(1024)), Some(1), "lists take what the second one had");
        let half = Sizes { outputs: 2048 + 16, ..down };
        let others = [Sizes { inner: 2048 + 128, ..down }, Sizes { inner: 8192, ..down }, half];
        assert_eq!(others.map(|sizes| buffers(&sizes)), [None; 3]);
        assert!(others.iter().all(|sizes| of(sizes).is_some()), "blocks serve them");
    }

    #[test]
    fn tiles_are_as_wide_as_many_rows_pick_a_matrix() {
        let sizes = |picks| Sizes { inner: 2048 + 128, ..sizes(picks) };
        let columns = |picks| of(&sizes(picks)).map(|plan| plan.columns);
        let got = [32, 48, 512, 513, 1024, 1025].map(columns);
        assert_eq!(got, [None, Some(8), Some(8), Some(16), Some(16), None]);
    }

    #[test]
    fn small_floats_may_end_within_a_chunk() {
        let (packing, inner, outputs) = (FpMode::Mxfp4.into(), 2880, 2880);
        let gpt_oss = Sizes { packing, inner, outputs, experts: 32, ..sizes(64) };
        assert!(of(&gpt_oss).is_some());
        assert_eq!(of(&Sizes { dtype: Dtype::Float16, ..gpt_oss }), None);
    }

    #[test]
    fn other_formats_sizes_and_devices_are_left_to_others() {
        let good = sizes(128);
        let small = Sizes { packing: FpMode::Nvfp4.into(), ..good };
        let wide = Sizes { packing: Affine { group_size: 64, bits: 8 }.into(), ..good };
        let odd = Sizes { inner: 2048 + 32, ..good };
        let single = Sizes { dtype: Dtype::Float32, ..good };
        assert_eq!([small, wide, odd, single].map(|sizes| of(&sizes)), [None; 4]);
        let plain = Capabilities { fragments: Fragments::default(), ..gpu() };
        assert_eq!(plan(&good, &plain, &Config::default()), None);
        assert!(!runs_on(Dtype::Bfloat16, &plain, &Config::default()));
    }
}
