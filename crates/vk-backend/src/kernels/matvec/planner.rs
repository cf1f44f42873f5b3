//! Products of few rows with matrices that share them: how many results a team makes.

use mlx_vulkan_core::Dtype;

use super::Format;
use crate::{
    kernels::{fragment::NUMBERS, team::Team},
    runtime::{
        capabilities::{Capabilities, Fragment},
        config::Config,
    },
};

/// Rows up to which `matvec/fused.comp` serves.
pub(crate) const MOST_ROWS: usize = 8;

/// How `matvec/fused.comp` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatvecPlan {
    /// Threads of a subgroup.
    pub subgroup: u32,
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Results of a team, of each matrix that it works on.
    pub outputs: u32,
    /// Subgroups of a team.
    pub splits: u32,
}

impl MatvecPlan {
    /// Teams of a workgroup.
    pub(crate) fn teams(&self) -> u32 {
        self.workgroup / self.subgroup / self.splits
    }
}

/// Sizes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatvecSizes {
    /// Rows of `x`.
    pub rows: u32,
    /// Results of every matrix.
    pub outputs: [u32; 3],
    /// Matrices that a team works on at once: 2 when one gates the other.
    pub sets: u32,
}

/// Bytes of shared memory that a workgroup may hold its rows in; more would leave no room for a second
/// workgroup.
const SHARED: u64 = 32 << 10;
/// What kernels have there besides: up to 1 KiB of sums of splits, squares of rows and a few words.
const BESIDE: u64 = 2 << 10;

/// Elements that a lane takes at a time, and how many of an int8 row have the same unit.
pub(crate) fn chunk(bits: usize, wide: bool) -> usize {
    match bits {
        16.. => 8,
        _ if wide => 64,
        _ => 32,
    }
}

/// Elements of a row from which lanes take [`chunk`]s twice as long, of int8 rows: half of the loads of
/// scales and of what ends a chunk. Measured on an H200, 8B of 4 bits in runs, 36 layers and the head 1,754
/// to 1,682 µs; 1,024 elements leave half of the lanes without work (466 to 532). 3 bits gain 8 %, 5 bits 3
/// to 5, 6 bits up to 1; 8 bits lose 22.
const WIDE_ROW: u32 = 2048;

/// Whether lanes take such chunks of int8 rows of `inner` elements, with `group` elements to a scale. A
/// chunk's unit is found by a subgroup whose threads bring four elements each.
pub(crate) fn is_wide(bits: u32, group: u32, inner: u32, subgroup: u32) -> bool {
    bits < 8 && group >= 64 && inner >= WIDE_ROW && subgroup >= 16
}

/// Whether rows become int8 rows for matrices of a format, so that fields are multiplied four at a time.
pub(crate) fn takes_int8_rows(format: Format, caps: &Capabilities, config: &Config) -> bool {
    let wanted = config.enable_integer_dots.unwrap_or(caps.integer_dot_product_accelerated);
    let fields = format.bits < 16 && !format.floats && format.dtype != Dtype::Float32 as u32;
    wanted && caps.integer_dot_product && fields
}

/// Whether rows become half rows in runs for matrices of a format: small floats are multiplied two at a time.
pub(crate) fn takes_half_rows(format: Format, caps: &Capabilities, config: &Config) -> bool {
    config.enable_half_rows && caps.float16_denormals && format.floats
}

/// The gate that keeps a quantized product of so many rows from kernels for few of them, if one does.
pub(crate) fn closed(rows: usize, config: &Config) -> Option<&'static str> {
    let (open, gate) = match rows {
        0..=1 => (config.enable_qmm_native_m1, "MLX_VK_ENABLE_QMM_NATIVE_M1=0"),
        2 => (config.enable_qmm_native_m2, "MLX_VK_ENABLE_QMM_NATIVE_M2=0"),
        3..=4 => (config.enable_qmm_native_m4, "MLX_VK_ENABLE_QMM_NATIVE_M4=0"),
        5..=8 => (config.enable_qmm_native_m8, "MLX_VK_ENABLE_QMM_NATIVE_M8=0"),
        _ => (config.enable_qmm_native_m16, "MLX_VK_ENABLE_QMM_NATIVE_M16=0"),
    };
    let gate = if config.enable_qmm_native { gate } else { "MLX_VK_ENABLE_QMM_NATIVE=0" };
    (!(open && config.enable_qmm_native)).then_some(gate)
}

/// Whether the kernel serves such a product of elements of `size` bytes on this device.
pub(crate) fn serves(
    rows: usize,
    inner: usize,
    bits: usize,
    size: usize,
    caps: &Capabilities,
    config: &Config,
) -> bool {
    let chunk = chunk(bits, false);
    // The rows, and the sums of their chunks.
    let row = (inner * size + if bits >= 16 { 0 } else { inner / 32 * 8 }) as u64;
    config.enable_matvec
        && Team::of(caps, true).subgroups
        && caps.subgroup_ops.shuffle
        && (1..=MOST_ROWS).contains(&rows)
        && inner >= chunk
        && inner.is_multiple_of(chunk)
        && row * rows as u64 <= SHARED.min(u64::from(caps.shared_memory).saturating_sub(BESIDE))
}

/// Elements of a row in shared memory from which few workgroups fit beside each other: they are large then.
const LONG_ROW: u32 = 8192;

/// Chooses the variant for an inner axis of `inner` elements of `bits`; `asked` are the subgroups of a
/// team, if they are not to be chosen.
pub(crate) fn plan(
    p: &MatvecSizes,
    inner: u32,
    bits: u32,
    asked: Option<u64>,
    caps: &Capabilities,
) -> MatvecPlan {
    let team = Team::of(caps, true);
    let total: u32 = p.outputs.iter().sum::<u32>() / p.sets;
    let divides = |n: u32| p.outputs.iter().all(|o| o.is_multiple_of(n));
    let at_once = |n: u32| n * p.rows * p.sets;
    let most = if caps.is_software() {
        // Software devices reuse what they loaded of the rows.
        [8, 4, 2].into_iter().find(|&n| at_once(n) <= 8)
    } else {
        // Measured on an H200: four results a team read faster, as long as there are teams enough to
        // fill the device, and few results are best made one by one.
        let fills = |n: u32| total / n >= caps.compute_units * 8;
        [4, 2].into_iter().find(|&n| fills(n) && at_once(n) <= 16 && n * p.sets <= 4)
    };
    let most = most.unwrap_or(1);
    let outputs = [8, 4, 2].into_iter().find(|&n| n <= most && divides(n)).unwrap_or(1);
    let workgroup = team.workgroup(caps, if p.rows * inner >= LONG_ROW { 512 } else { 256 });
    // Measured on an H200: as long as a device has room for more subgroups, several share a row, if there is
    // something to do for each (16 bits, 3072 -> 1024: 8.7 to 5.6 µs with four).
    let rounds = inner / chunk(bits as usize, false) as u32 / team.subgroup;
    let fits = |s: &u32| *s <= rounds && s * (total / outputs) <= caps.compute_units * 32;
    // As many subgroups as a workgroup of the device has, a power of two.
    let most = 1 << (caps.max_workgroup / team.subgroup).ilog2();
    let splits = match asked {
        Some(asked) => (asked.clamp(1, 8).next_power_of_two() as u32).min(most),
        None if caps.is_software() => 1,
        None => [4, 2].into_iter().find(fits).unwrap_or(1).min(workgroup / team.subgroup),
    };
    let workgroup = workgroup.max(splits * team.subgroup);
    MatvecPlan { subgroup: team.subgroup, workgroup, outputs, splits }
}

/// Bits of the matrices that `matvec/matrix.comp` reads.
pub(crate) const MATRIX_BITS: u32 = 4;
/// Results of a block there: rows of a fragment.
pub(crate) const MATRIX_BLOCK: u32 = 16;
/// Threads of a subgroup there.
pub(crate) const MATRIX_SUBGROUP: u32 = 32;
/// Bits of a matrix row that a subgroup takes at a time, on cooperative matrices.
pub(crate) const CHUNK_BITS: u32 = 512;
/// Elements of [`MATRIX_BITS`] that these are.
pub(crate) const CHUNK: u32 = CHUNK_BITS / MATRIX_BITS;

/// How `matvec/matrix.comp` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixPlan {
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Subgroups that split the inner axis of a block.
    pub splits: u32,
    /// Chunks that a subgroup prefetches at a time.
    pub depth: u32,
    /// Columns of a fragment.
    pub columns: u32,
    /// Workgroups that the device is filled with.
    pub most_groups: u32,
}

impl MatrixPlan {
    /// Blocks that a workgroup works on at once.
    pub(crate) fn teams(&self) -> u32 {
        self.workgroup / MATRIX_SUBGROUP / self.splits
    }

    /// Bytes of shared memory of a workgroup: the rows and the sums of their groups, sums of every subgroup,
    /// and what finds out where elements lie.
    fn shared(&self, p: &MatvecSizes, inner: u32, group: u32) -> u32 {
        let (rows, subgroups) = (p.rows, self.workgroup / MATRIX_SUBGROUP);
        let sums = rows * inner / group + 2 * subgroups * p.sets * rows * MATRIX_BLOCK;
        2 * rows * inner + 4 * sums + NUMBERS
    }
}

/// Inner size from which fragments are faster for one row. Several long rows are [`rows`](super::rows)'.
const LONG: u32 = 8192;
/// Number of results from which fragments are faster, and from which they are for gated pairs of one row.
const MANY: u32 = 1 << 16;
const MANY_GATED: u32 = 3072;

/// Subgroups for each multiprocessor that share long rows, at least.
const FEWEST_SUBGROUPS: u32 = 8;

/// Chooses how a product with `group` elements to a scale runs on cooperative matrices, where it can
/// and where that is faster. Measured on an H200 in the steps of models, one row of 4 bits in groups of
/// 64, beside `fused.comp`: 12288 -> 4096 15.9 µs (28.9), 4096 -> 2 x 12288 gated 23.5 (29.0),
/// 1024 -> 2 x 3072 gated 7.2 (7.7), 1024 -> 151936 39 (56.5), 4096 -> 151936 108 (133); slower:
/// 4096 -> 6144 14.9 (12.9), -> 4096 12.8 (10.2). In chains of themselves those two are faster (9.9 and
/// 7.9, beside 11.0 and 8.2): a model's kernels take turns. A long axis whose chunks no team can share leaves
/// the device without work: 13,696 -> 4096, of 107 chunks, took some 65 µs.
pub(crate) fn plan_matrix(
    p: &MatvecSizes,
    inner: u32,
    group: u32,
    fragment: Fragment,
    caps: &Capabilities,
) -> Option<MatrixPlan> {
    let columns_fit = matches!(group, 32 | 64 | 128) && p.rows * (CHUNK / group) <= 8;
    let fits = caps.subgroup_size == MATRIX_SUBGROUP
        && (fragment.m, fragment.k) == (16, 16)
        && inner.is_multiple_of(CHUNK)
        && p.outputs.iter().all(|o| o.is_multiple_of(MATRIX_BLOCK))
        && caps.max_workgroup >= 512;
    let total = p.outputs.iter().sum::<u32>() / p.sets;
    let many = total >= MANY;
    let gated = p.rows == 1 && p.sets > 1 && total >= MANY_GATED;
    let long = p.rows == 1 && inner >= LONG;
    let pays = many || gated || long;
    if !(fits && columns_fit && pays) {
        return None;
    }
    // Results fill the device with small workgroups, each of which prefetches much if there are many; a long
    // axis is split among the subgroups of large ones.
    let (workgroup, deep, wanted, groups) = match (many, long) {
        (true, _) => (128, 4, 8, 4),
        (false, true) => (512, 2, 16, 1),
        (false, false) => (128, 2, 7, 4),
    };
    let (chunks, blocks) = (inner / CHUNK, total / MATRIX_BLOCK);
    let divides = |s: &u32| chunks.is_multiple_of(*s) && *s <= workgroup / MATRIX_SUBGROUP;
    let possible = [16, 8, 4, 2, 1].into_iter().filter(divides);
    let most = possible.clone().next()?;
    // As much of a row as possible for each subgroup, as long as there are enough of them.
    let enough = |s: &u32| s * blocks >= wanted * caps.compute_units;
    let splits = possible.take_while(enough).last().unwrap_or(most);
    if long && splits * blocks < FEWEST_SUBGROUPS * caps.compute_units {
        return None;
    }
    let depth = [deep, 2, 1].into_iter().find(|&d| (chunks / splits).is_multiple_of(d))?;
    let most_groups = groups * caps.compute_units;
    let plan = MatrixPlan { workgroup, splits, depth, columns: fragment.n, most_groups };
    (plan.shared(p, inner, group) <= caps.shared_memory).then_some(plan)
}

#[cfg(test)]
mod tests {
    use mlx_vulkan_core::primitives::{Affine, FpMode};

    use super::*;
    use crate::runtime::capabilities::DeviceKind;

    fn gpu() -> Capabilities {
        Capabilities { compute_units: 132, subgroup_size: 32, ..Capabilities::default() }
    }

    fn product(outputs: [u32; 3], sets: u32) -> MatvecSizes {
        MatvecSizes { rows: 1, outputs, sets }
    }

    #[test]
    fn many_results_are_shared_by_a_team_and_few_fill_the_device() {
        let of = |outputs, sets| plan(&product(outputs, sets), 1024, 4, None, &gpu()).outputs;
        assert_eq!(of([151_936, 0, 0], 1), 4);
        assert_eq!(of([2048, 1024, 1024], 1), 2);
        assert_eq!(of([3072, 3072, 0], 2), 2);
        assert_eq!(of([1024, 0, 0], 1), 1);
        assert_eq!(of([15_001, 0, 0], 1), 1, "a team's results are of one matrix");
    }

    #[test]
    fn software_devices_make_many_results_at_once() {
        let cpu = Capabilities { kind: DeviceKind::Software, subgroup_size: 8, ..gpu() };
        let p = product([1024, 0, 0], 1);
        let alone = MatvecPlan { subgroup: 8, workgroup: 8, outputs: 8, splits: 1 };
        assert_eq!(plan(&p, 4096, 16, None, &cpu), alone);
        assert_eq!(plan(&MatvecSizes { rows: 8, ..p }, 1024, 4, None, &cpu).outputs, 1);
        let asked = plan(&p, 4096, 16, Some(4), &cpu);
        assert_eq!((asked.workgroup, asked.splits, asked.teams()), (32, 4, 1));
    }

    #[test]
    fn subgroups_share_rows_while_there_is_room() {
        let gpu = Capabilities { max_workgroup: 1024, ..gpu() };
        let of = |outputs, sets, inner, bits| {
            let plan = plan(&product(outputs, sets), inner, bits, None, &gpu);
            (plan.workgroup, plan.splits, plan.teams())
        };
        assert_eq!(of([1024, 0, 0], 1, 3072, 16), (256, 4, 2));
        assert_eq!(of([2048, 1024, 1024], 1, 1024, 16), (256, 2, 4));
        assert_eq!(of([1024, 0, 0], 1, 2048, 4), (256, 2, 4));
        assert_eq!(of([2048, 1024, 1024], 1, 1024, 4), (256, 1, 8), "one round");
        assert_eq!(of([151_936, 0, 0], 1, 1024, 16), (256, 1, 8), "the device is full");
        assert_eq!(of([4096, 0, 0], 1, 12_288, 16).0, 512);
    }

    #[test]
    fn fragments_serve_long_rows_and_many_results() {
        let gpu = Capabilities { max_workgroup: 1024, shared_memory: 48 << 10, ..gpu() };
        let fragment = Fragment { m: 16, n: 16, k: 16 };
        let of = |p: MatvecSizes, inner| plan_matrix(&p, inner, 64, fragment, &gpu);
        let down = of(product([4096, 0, 0], 1), 12_288).unwrap();
        assert_eq!((down.workgroup, down.splits, down.depth, down.teams()), (512, 16, 2, 1));
        let head = of(product([151_936, 0, 0], 1), 1024).unwrap();
        assert_eq!((head.workgroup, head.splits, head.depth, head.teams()), (128, 1, 4, 4));
        let gated = of(product([12_288, 12_288, 0], 2), 4096).unwrap();
        assert_eq!((gated.workgroup, gated.splits, gated.depth), (128, 2, 2));
        let small = of(product([3072, 3072, 0], 2), 1024).unwrap();
        assert_eq!((small.workgroup, small.splits, small.depth), (128, 4, 2));
        assert_eq!(of(product([4096, 1024, 1024], 1), 4096), None);
        let rows = |rows| MatvecSizes { rows, ..product([4096, 0, 0], 1) };
        assert_eq!(of(rows(2), 12_288), None);
        let many = |rows| MatvecSizes { rows, ..product([151_936, 0, 0], 1) };
        assert!(of(many(2), 1024).is_some());
        assert_eq!(of(many(5), 1024), None, "ten columns");
        assert_eq!(of(product([4100, 0, 0], 1), 12_288), None);
        assert_eq!(of(product([4096, 0, 0], 1), 12_320), None);
        assert!(of(product([4096, 0, 0], 1), 14_336).is_some());
        let little = Capabilities { shared_memory: 32 << 10, ..gpu.clone() };
        assert_eq!(plan_matrix(&product([4096, 0, 0], 1), 14_336, 64, fragment, &little), None);
        assert_eq!(of(product([4096, 0, 0], 1), 13_696), None, "107 chunks");
        assert_eq!(of(product([4096, 0, 0], 1), 11_008), None, "twice 43 chunks");
    }

    #[test]
    fn chunks_are_long_where_there_are_enough_of_them() {
        assert!(is_wide(4, 64, 4096, 32) && is_wide(4, 128, 2048, 16) && is_wide(3, 64, 4096, 32));
        assert!(!is_wide(4, 64, 1024, 32) && !is_wide(4, 32, 4096, 32));
        assert!(!is_wide(8, 64, 4096, 32) && !is_wide(4, 64, 4096, 8));
        assert_eq!((chunk(4, true), chunk(8, false), chunk(16, false)), (64, 32, 8));
    }

    #[test]
    fn small_floats_are_halves_where_these_may_be_subnormal() {
        let able = Capabilities { float16_denormals: true, ..gpu() };
        let config = Config::default();
        let floats = Format::packed(Dtype::Bfloat16, FpMode::Nvfp4.into());
        let fields = Format::packed(Dtype::Bfloat16, Affine { group_size: 64, bits: 4 }.into());
        assert!(
            takes_half_rows(floats, &able, &config) && !takes_half_rows(fields, &able, &config)
        );
        assert!(!takes_half_rows(floats, &gpu(), &config));
        let closed = Config { enable_half_rows: false, ..config };
        assert!(!takes_half_rows(floats, &able, &closed));
    }

    #[test]
    fn bytes_are_multiplied_where_the_device_does_it_at_once() {
        let able = Capabilities { integer_dot_product: true, ..gpu() };
        let fast = Capabilities { integer_dot_product_accelerated: true, ..able.clone() };
        let config = Config::default();
        let of = |bits, dtype| Format::packed(dtype, Affine { group_size: 64, bits }.into());
        let half = of(4, Dtype::Float16);
        for bits in [2, 3, 4, 5, 6, 8] {
            assert!(takes_int8_rows(of(bits, Dtype::Bfloat16), &fast, &config));
        }
        assert!(!takes_int8_rows(Format::dense(Dtype::Float16), &fast, &config));
        let floats = Format::packed(Dtype::Float16, FpMode::Mxfp4.into());
        assert!(!takes_int8_rows(floats, &fast, &config));
        assert!(!takes_int8_rows(of(4, Dtype::Float32), &fast, &config));
        assert!(!takes_int8_rows(half, &able, &config));
        let asked = Config { enable_integer_dots: Some(true), ..config };
        assert!(takes_int8_rows(half, &able, &asked) && !takes_int8_rows(half, &gpu(), &asked));
    }

    #[test]
    fn long_rows_and_odd_sizes_are_left_to_others() {
        let config = Config::default();
        assert!(serves(1, 1024, 4, 2, &gpu(), &config) && serves(8, 40, 16, 2, &gpu(), &config));
        assert!(!serves(9, 1024, 4, 2, &gpu(), &config) && !serves(1, 44, 16, 2, &gpu(), &config));
        assert!(
            serves(1, 12288, 4, 2, &gpu(), &config) && !serves(2, 12288, 4, 2, &gpu(), &config)
        );
        let mut caps = gpu();
        caps.subgroup_ops.arithmetic = false;
        assert!(!serves(1, 1024, 4, 2, &caps, &config));
    }
}
