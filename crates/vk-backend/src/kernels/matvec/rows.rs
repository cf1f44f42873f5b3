//! Products of several rows on cooperative matrices (`matvec/rows.comp`): whether, by which kernel, and with
//! how many workgroups.

use mlx_vulkan_core::Dtype;

use super::{
    Format,
    planner::{CHUNK_BITS, MATRIX_BLOCK, MATRIX_SUBGROUP, MatvecSizes},
};
use crate::{
    kernels::{
        fragment::NUMBERS,
        layouts::{
            matvec_fused::Push,
            matvec_rows::{self as kernel, Constants},
        },
    },
    runtime::capabilities::{Capabilities, Fragment},
    shaders::KernelOf,
};

/// Rows up to which the kernel serves: columns of a fragment. More are tiles.
pub(crate) const MOST_ROWS: u32 = 16;
/// Threads of a workgroup, and workgroups of a multiprocessor. Measured on an H100 before the kernel asked
/// for the next chunk first, 8B of 4 bits, µs a product of 4 and of 16 rows on average: 22.6 and 26.3; twice
/// as many results a subgroup 29.0 and 38.1, two chunks prefetched instead of one 23.9 and 33.9, four 32.3
/// and 42.8, one workgroup of 512 23.4 and 36.5 (the latter three with two chunks): registers are short.
const WORKGROUP: u32 = 256;
const RESIDENT: u32 = 2;

/// The kernels for matrices of a format, in products of float16 and of bfloat16.
pub(super) fn kernels(format: Format) -> [KernelOf<Constants, Push>; 2] {
    match format.bits {
        4 if format.floats => [kernel::MATVEC_ROWS_MXFP4; 2],
        4 => [kernel::MATVEC_ROWS_FLOAT16, kernel::MATVEC_ROWS_BFLOAT16],
        8 => [kernel::MATVEC_ROWS_BYTES_FLOAT16, kernel::MATVEC_ROWS_BYTES_BFLOAT16],
        _ => [kernel::MATVEC_ROWS_DENSE_FLOAT16, kernel::MATVEC_ROWS_DENSE_BFLOAT16],
    }
}

/// Elements of a matrix that share a scale, as the kernel counts them: those of 16-bit floats do as well.
pub(crate) fn group(format: Format) -> u32 {
    if format.bits == 16 { CHUNK_BITS / 16 } else { format.group }
}

/// Whether there is a kernel for a format.
fn knows(format: Format) -> bool {
    match (format.bits, format.floats) {
        (4 | 8, false) => matches!(format.group, 32 | 64 | 128),
        // mxfp4, whose elements bfloat16 has the exponents for.
        (4, true) => format.group == 32 && format.dtype == Dtype::Bfloat16 as u32,
        (bits, _) => bits == 16,
    }
}

/// How `matvec/rows.comp` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowsPlan {
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Subgroups that split the inner axis of a block.
    pub splits: u32,
    /// Workgroups that the device is filled with.
    pub most_groups: u32,
}

impl RowsPlan {
    /// Blocks that a workgroup works on at once.
    pub(crate) fn teams(&self) -> u32 {
        self.workgroup / MATRIX_SUBGROUP / self.splits
    }

    /// Bytes of shared memory of a workgroup: sums of every subgroup, and what finds out where elements lie.
    pub(crate) fn shared(&self, p: &MatvecSizes) -> u32 {
        self.workgroup / MATRIX_SUBGROUP * p.sets * p.rows * MATRIX_BLOCK * 4 + NUMBERS
    }
}

/// Whether products with matrices of a format can run on fragments, here or in `matvec/slices.comp`.
pub(crate) fn serves(
    p: &MatvecSizes,
    inner: u32,
    format: Format,
    fragment: Fragment,
    caps: &Capabilities,
) -> bool {
    caps.subgroup_size == MATRIX_SUBGROUP
        && (fragment.m, fragment.n, fragment.k) == (16, MOST_ROWS, 16)
        && knows(format)
        && (2..=MOST_ROWS).contains(&p.rows)
        && inner > 0
        && inner.is_multiple_of(group(format))
        // The kernel counts bytes of its rows with 32 bits.
        && inner < 1 << 24
        && p.outputs.iter().all(|o| o.is_multiple_of(MATRIX_BLOCK))
        && caps.max_workgroup >= WORKGROUP
}

/// Chooses how a product that fragments serve runs, where there is room for its sums.
pub(crate) fn plan(
    p: &MatvecSizes,
    inner: u32,
    format: Format,
    caps: &Capabilities,
) -> Option<RowsPlan> {
    let (subgroups, most_groups) = (WORKGROUP / MATRIX_SUBGROUP, caps.compute_units * RESIDENT);
    let blocks = p.outputs.iter().sum::<u32>() / p.sets / MATRIX_BLOCK;
    let (chunks, places) = ((inner * format.bits).div_ceil(CHUNK_BITS), most_groups * subgroups);
    // Those with which the last subgroup is done first; the fewest of them, which are joined soonest.
    let rounds = |s: &u32| (blocks * s).div_ceil(places.max(1)) * chunks.div_ceil(*s);
    let possible = |s: &u32| *s <= subgroups.min(chunks);
    let splits = [1, 2, 4, 8].into_iter().filter(possible).min_by_key(rounds)?;
    let plan = RowsPlan { workgroup: WORKGROUP, splits, most_groups };
    (plan.shared(p) <= caps.shared_memory).then_some(plan)
}

#[cfg(test)]
mod tests {
    use mlx_vulkan_core::primitives::{Affine, FpMode, Packing};

    use super::*;

    const SQUARE: Fragment = Fragment { m: 16, n: 16, k: 16 };

    fn gpu() -> Capabilities {
        let shared_memory = 48 << 10;
        let known = Capabilities { shared_memory, max_workgroup: 1024, ..Capabilities::default() };
        Capabilities { compute_units: 132, subgroup_size: 32, ..known }
    }

    fn planned(
        p: &MatvecSizes,
        inner: u32,
        format: Format,
        fragment: Fragment,
    ) -> Option<RowsPlan> {
        serves(p, inner, format, fragment, &gpu()).then(|| plan(p, inner, format, &gpu()))?
    }

    fn of(rows: u32, outputs: [u32; 3], sets: u32, inner: u32) -> Option<RowsPlan> {
        planned(&MatvecSizes { rows, outputs, sets }, inner, affine(64, 4), SQUARE)
    }

    fn packed(packing: impl Into<Packing>) -> Format {
        Format::packed(Dtype::Bfloat16, packing.into())
    }

    fn affine(group_size: usize, bits: usize) -> Format {
        packed(Affine { group_size, bits })
    }

    #[test]
    fn formats_that_lie_in_halves_of_words_are_served() {
        let p = MatvecSizes { rows: 4, outputs: [4096, 0, 0], sets: 1 };
        let splits = |format| planned(&p, 1024, format, SQUARE).map(|plan| plan.splits);
        assert_eq!(splits(affine(64, 8)), Some(8));
        assert_eq!(splits(Format::dense(Dtype::Float16)), Some(8));
        assert_eq!(splits(packed(FpMode::Mxfp4)), Some(8));
        let others = [affine(64, 3), affine(64, 6), Format::dense(Dtype::Float32)];
        let floats = [packed(FpMode::Nvfp4), packed(FpMode::Mxfp8)];
        assert!(others.into_iter().chain(floats).all(|format| splits(format).is_none()));
        let float16 = Format::packed(Dtype::Float16, FpMode::Mxfp4.into());
        assert_eq!(splits(float16), None);
    }

    #[test]
    fn columns_of_a_fragment_are_served() {
        let served = |rows| of(rows, [4096, 0, 0], 1, 4096).is_some();
        assert_eq!([1, 2, 16, 17].map(served), [false, true, true, false]);
    }

    #[test]
    fn subgroups_share_rows_so_that_all_have_work() {
        let splits = |outputs, sets, inner| of(4, outputs, sets, inner).unwrap().splits;
        assert_eq!(splits([4096, 0, 0], 1, 4096), 8);
        assert_eq!(splits([4096, 1024, 1024], 1, 4096), 4);
        assert_eq!(splits([12_288, 12_288, 0], 2, 4096), 8, "three rounds of an eighth");
        assert_eq!(splits([151_936, 0, 0], 1, 4096), 2);
        assert_eq!(splits([4096, 0, 0], 1, 128), 1, "no more than there are chunks");
        assert_eq!(
            of(4, [4096, 0, 0], 1, 4096).map(|p| (p.teams(), p.most_groups)),
            Some((1, 264))
        );
    }

    #[test]
    fn sizes_that_are_no_whole_blocks_are_left_to_others() {
        assert_eq!(of(4, [4100, 0, 0], 1, 4096), None);
        assert_eq!(of(4, [4096, 0, 0], 1, 4128), None);
        assert!(of(4, [4096, 0, 0], 1, 4160).is_some(), "whole groups");
        let narrow = Fragment { n: 8, ..SQUARE };
        let p = MatvecSizes { rows: 4, outputs: [64, 0, 0], sets: 1 };
        assert_eq!(planned(&p, 128, affine(64, 4), narrow), None);
        assert!(planned(&p, 128, affine(32, 4), SQUARE).is_some());
    }
}
