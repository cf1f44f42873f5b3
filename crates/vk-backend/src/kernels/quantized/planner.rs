//! Quantized products: mat-vec for few rows, tiles for many.

use mlx_vulkan_core::{
    Dtype,
    primitives::{Affine, FpMode, Packing},
};

use crate::{
    kernels::{
        matmul::{
            matrix::{self, Right},
            planner::{Gemm, gemm},
        },
        matvec,
        team::Team,
    },
    runtime::{
        capabilities::{Capabilities, Fragment},
        config::Config,
    },
};

/// Sizes of a quantized product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuantizedProduct {
    /// Rows of `x` per batch.
    pub rows: usize,
    /// Columns of the result.
    pub outputs: usize,
    /// Inner size.
    pub inner: usize,
    /// Batches.
    pub batches: usize,
    /// The matrix is (outputs, inner).
    pub transpose: bool,
    /// How the matrix is packed.
    pub packing: Packing,
    /// What cooperative matrices multiply of this dtype, if they may.
    pub fragment: Option<Fragment>,
    /// The matrix, as tiles see it.
    pub right: Right,
}

/// The variant of a quantized product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuantizedPlan {
    /// `qmv.comp`.
    MatVec {
        /// How a team reduces.
        team: Team,
        /// Threads.
        workgroup: u32,
        /// Rows of `x` at once.
        rows: u32,
        /// Outputs of a team at once.
        outputs: u32,
    },
    /// `vecmat.comp` on a quantized matrix.
    VecMat {
        /// Rows of `x` at once.
        rows: u32,
    },
    /// Tiles.
    Gemm(Gemm),
    /// Tiles of a dense product with the matrix dequantized into scratch memory.
    Dense(Gemm),
}

/// Whether cooperative matrices of a dtype take what a matrix of this packing is made of: float16 has too few
/// exponents for small floats.
pub(crate) fn holds(packing: Packing, dtype: Dtype) -> bool {
    packing.affine().is_some() || dtype == Dtype::Bfloat16
}

/// How tiles see a matrix of this packing: of 4 bits (affine, or mxfp4 with bfloat16, to which `fragment` is
/// limited then) they can multiply fields as they are, where it lies along whole slices.
pub(crate) fn right_of(
    packing: Packing,
    transpose: bool,
    inner: usize,
    fragment: Option<Fragment>,
    caps: &Capabilities,
) -> Right {
    let four_bits =
        matches!(packing, Packing::Affine(Affine { bits: 4, .. }) | Packing::Floats(FpMode::Mxfp4));
    let square = fragment.is_some_and(|f| (f.m, f.n, f.k) == (16, 16, 16));
    let group = packing.group_size() as u32;
    let whole = inner.is_multiple_of(matrix::slice_of_fields(group) as usize);
    let serves = four_bits && transpose && square && whole && caps.subgroup_size == 32;
    if serves { Right::Fields(group) } else { Right::Packed }
}

/// Chooses the kernel.
pub(crate) fn plan(p: &QuantizedProduct, caps: &Capabilities, config: &Config) -> QuantizedPlan {
    if p.rows > most_rows(p, caps) || closed(p, caps, config).is_some() {
        let gemm = |right| gemm(p.rows, p.outputs, p.inner, p.batches, p.fragment, right, caps);
        let whole = p.transpose && p.batches == 1;
        if whole
            && matrix::dequantizes(p.rows, p.outputs, p.inner)
            && let dense @ Gemm::Matrix(..) = gemm(Right::Dense)
        {
            return QuantizedPlan::Dense(dense);
        }
        return QuantizedPlan::Gemm(gemm(p.right));
    }
    let rows = (p.rows as u32).min(8).next_power_of_two();
    if p.transpose {
        mat_vec(p, rows, caps, config)
    } else {
        QuantizedPlan::VecMat { rows: rows.min(4) }
    }
}

/// Rows up to which a product has a kernel for few of them. Tiles of fragments take as long for five rows as
/// for 32, and mat-vecs of more than four rows as long as for eight. Measured on an H200, 4B, ms a step of
/// four, of eight and of 16 rows by mat-vecs, and of 32 by tiles: 2 bits 4.6, 10.7, 20.1 and 7.5, 3 bits 4.7,
/// 10.6, 19.6 and 8.3, 5 bits 4.9, 10.6, 20.0 and 9.2, 6 bits 5.0, 10.7, 19.7 and 9.5, 8 bits 4.9, 10.8, 20.5
/// and 8.9; mxfp4 5.1, 10.9, 19.8 and 6.2, nvfp4 5.6, 7.3, 12.7 and 16.4, mxfp8 6.0, 11.3, 20.4 and 17.4.
/// Several matrices were not measured.
fn most_rows(p: &QuantizedProduct, caps: &Capabilities) -> usize {
    if !p.transpose || caps.is_software() {
        return 8;
    }
    match p.packing {
        _ if p.fragment.is_none() || p.batches > 1 => 16,
        Packing::Affine(_) | Packing::Floats(FpMode::Mxfp4) => 4,
        Packing::Floats(FpMode::Mxfp8) => 8,
        Packing::Floats(FpMode::Nvfp4) => 16,
    }
}

/// The gate that keeps a product of few rows from its kernel, if one does.
pub(crate) fn closed(
    p: &QuantizedProduct,
    caps: &Capabilities,
    config: &Config,
) -> Option<&'static str> {
    if p.rows > most_rows(p, caps) { None } else { matvec::planner::closed(p.rows, config) }
}

fn mat_vec(p: &QuantizedProduct, rows: u32, caps: &Capabilities, config: &Config) -> QuantizedPlan {
    let subgroups = rows > 1
        || (config.enable_qmm_native_m1_reduce && config.enable_qmm_native_m1_reduce_subgroup);
    let team = Team::of(caps, subgroups);
    let workgroup = match team.subgroups {
        true => team.workgroup(caps, if p.outputs >= 4096 { 128 } else { 64 }),
        false => team.workgroup(caps, 32),
    };
    QuantizedPlan::MatVec { team, workgroup, rows, outputs: outputs_at_once(p, rows, caps, config) }
}

/// Outputs of a team: software devices reuse what they loaded of `x`, GPUs need many teams.
fn outputs_at_once(p: &QuantizedProduct, rows: u32, caps: &Capabilities, config: &Config) -> u32 {
    if caps.is_software() {
        return match rows {
            1 => 8,
            2 => 4,
            _ => 2,
        };
    }
    let asked = config.enable_qmm_native_m1_reduce_subgroup_x2
        || config.enable_qmm_native_m1_reduce_subgroup_g8_x2;
    let teams = p.outputs as u64 * p.batches as u64;
    let fills = |times: u64| teams >= u64::from(caps.compute_units) * times;
    // Measured on an H200: 4 outputs are 20 % faster than 1 where there are enough of them.
    match rows {
        1..=4 if fills(64) => 4,
        1..=4 if fills(16) => 2,
        1 if asked => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::DeviceKind;

    fn product(rows: usize) -> QuantizedProduct {
        QuantizedProduct {
            rows,
            outputs: 1024,
            inner: 1024,
            batches: 1,
            transpose: true,
            packing: Affine { group_size: 64, bits: 8 }.into(),
            fragment: None,
            right: Right::Packed,
        }
    }

    #[test]
    fn tiles_of_fragments_begin_where_mat_vecs_take_longer() {
        let fragment = Some(Fragment { m: 16, n: 16, k: 16 });
        let caps = Capabilities { subgroup_size: 32, compute_units: 132, ..Default::default() };
        let few = |packing: Packing, rows| {
            let p = QuantizedProduct { fragment, packing, ..product(rows) };
            !matches!(plan(&p, &caps, &Config::default()), QuantizedPlan::Gemm(_))
        };
        let affine = || Affine { group_size: 64, bits: 6 }.into();
        assert!(few(affine(), 4) && !few(affine(), 5));
        assert!(few(FpMode::Mxfp8.into(), 8) && !few(FpMode::Mxfp8.into(), 9));
        assert!(few(FpMode::Nvfp4.into(), 16) && !few(FpMode::Nvfp4.into(), 17));
    }

    #[test]
    fn few_rows_are_mat_vecs_and_gates_turn_them_into_tiles() {
        let (caps, config) = (Capabilities::default(), Config::default());
        for (rows, at_once) in [(1, 1), (2, 2), (3, 4), (8, 8), (16, 8)] {
            let plan = plan(&product(rows), &caps, &config);
            assert!(
                matches!(plan, QuantizedPlan::MatVec { rows, .. } if rows == at_once),
                "{rows}: {plan:?}"
            );
        }
        assert!(matches!(plan(&product(17), &caps, &config), QuantizedPlan::Gemm(_)));
        let gated = Config { enable_qmm_native_m1: false, ..Config::default() };
        assert!(matches!(plan(&product(1), &caps, &gated), QuantizedPlan::Gemm(_)));
        let off = Config { enable_qmm_native: false, ..Config::default() };
        assert!(matches!(plan(&product(4), &caps, &off), QuantizedPlan::Gemm(_)));
        let straight = QuantizedProduct { transpose: false, ..product(8) };
        assert_eq!(plan(&straight, &caps, &config), QuantizedPlan::VecMat { rows: 4 });
    }

    #[test]
    fn software_devices_make_many_outputs_a_team() {
        let mut caps = Capabilities {
            kind: DeviceKind::Software,
            subgroup_size: 8,
            ..Capabilities::default()
        };
        let found = plan(&product(1), &caps, &Config::default());
        assert!(
            matches!(found, QuantizedPlan::MatVec { workgroup: 8, outputs: 8, .. }),
            "{found:?}"
        );
        caps.subgroup_ops.arithmetic = false;
        let found = plan(&product(1), &caps, &Config::default());
        assert!(
            matches!(
                found,
                QuantizedPlan::MatVec { workgroup: 1, team: Team { subgroups: false, .. }, .. }
            ),
            "{found:?}"
        );
    }
}
