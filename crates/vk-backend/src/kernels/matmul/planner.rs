//! Dense matrix products: which kernel, which tile, how many parts of k.

use super::matrix::{self, MatrixTile, Right};
use crate::{
    kernels::operands::{MatrixSide, Picks},
    runtime::capabilities::{Capabilities, Fragment},
};

/// Rows (or columns) up to which a product is a mat-vec.
pub(crate) const FEW: usize = 8;

/// Elements, and inner size, from which on a matrix times a few columns goes to tiles.
const NARROW_ELEMENTS: usize = 1 << 22;
const NARROW_INNER: usize = 64;

/// Sizes of a product and how its operands lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatmulSizes {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Inner size.
    pub k: usize,
    /// Products of this size.
    pub batches: usize,
    /// `a` is dense along k.
    pub a_along_k: bool,
    /// `a` is dense along m.
    pub a_along_m: bool,
    /// `b` is dense along k.
    pub b_along_k: bool,
    /// `b` is dense along n.
    pub b_along_n: bool,
    /// What cooperative matrices multiply of this dtype, if they may.
    pub fragment: Option<Fragment>,
}

/// A tile of the shared-memory kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Rows of a workgroup.
    pub bm: u32,
    /// Columns of a workgroup.
    pub bn: u32,
    /// Depth of a slice.
    pub bk: u32,
    /// Rows of a thread.
    pub tm: u32,
    /// Columns of a thread.
    pub tn: u32,
}

impl Tile {
    const SMALL: Tile = Tile { bm: 32, bn: 64, bk: 16, tm: 4, tn: 4 };
    const MEDIUM: Tile = Tile { bm: 64, bn: 64, bk: 16, tm: 8, tn: 4 };
    const LARGE: Tile = Tile { bm: 128, bn: 128, bk: 16, tm: 8, tn: 8 };

    /// Threads of a workgroup.
    pub(crate) const fn threads(&self) -> u32 {
        (self.bm / self.tm) * (self.bn / self.tn)
    }

    /// Bytes of shared memory.
    pub(crate) const fn shared(&self) -> u32 {
        (self.bm / 4 + 1 + self.bn / 4 + 1) * self.bk * 16
    }

    /// Tiles that cover a result.
    pub(crate) fn count(&self, m: usize, n: usize, batches: usize) -> u64 {
        (m.div_ceil(self.bm as usize) * n.div_ceil(self.bn as usize) * batches) as u64
    }
}

/// How a product of many rows runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gemm {
    /// Shared-memory tiles, with k in this many parts.
    Tile(Tile, u32),
    /// Tiles on cooperative matrices, with k in this many parts.
    Matrix(MatrixTile, u32),
    /// Register tiles of this many rows and columns a lane, for software devices.
    Lanes {
        /// Rows.
        tm: u32,
        /// Columns of a lane.
        tn: u32,
    },
}

impl Gemm {
    /// Rows of a tile.
    pub(crate) const fn rows(&self) -> u32 {
        match self {
            Gemm::Tile(tile, _) => tile.bm,
            Gemm::Matrix(tile, _) => tile.bm,
            Gemm::Lanes { tm, .. } => *tm,
        }
    }
}

/// The variant of a dense product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatmulPlan {
    /// Dot products with rows that are dense along k.
    MatVec(MatrixSide),
    /// Sums of rows that are dense across the result.
    VecMat(MatrixSide),
    /// Many rows and columns.
    Gemm(Gemm),
}

/// Chooses the kernel of a dense product.
pub(crate) fn plan(p: &MatmulSizes, caps: &Capabilities) -> MatmulPlan {
    let right = is_few(p.m, p.n);
    if right && p.b_along_k {
        return MatmulPlan::MatVec(MatrixSide::Right);
    }
    if right && p.b_along_n {
        return MatmulPlan::VecMat(MatrixSide::Right);
    }
    if let Some(narrow) = narrow(p, caps) {
        return MatmulPlan::Gemm(narrow);
    }
    if p.n <= FEW && p.a_along_k {
        return MatmulPlan::MatVec(MatrixSide::Left);
    }
    if p.n <= FEW && p.a_along_m {
        return MatmulPlan::VecMat(MatrixSide::Left);
    }
    MatmulPlan::Gemm(gemm(p.m, p.n, p.k, p.batches, p.fragment, Right::Dense, caps))
}

/// The tiles of a large matrix times so few columns that tiles are mostly air: they read the matrix once, in
/// wide words. As mat-vecs the products of low-rank adaptation take 147 µs where the matrix is read in 5 (8B,
/// 2048 x 4096 x 8, H200).
fn narrow(p: &MatmulSizes, caps: &Capabilities) -> Option<Gemm> {
    let elements = p.m.saturating_mul(p.k);
    let is_large = p.n == FEW && p.k >= NARROW_INNER && elements >= NARROW_ELEMENTS;
    let fragment = p.fragment.filter(|_| is_large)?;
    let plan = matrix::plan(p.m, matrix::LEAST, p.k, p.batches, fragment, Right::Dense, caps);
    plan.map(|(tile, splits)| Gemm::Matrix(tile, splits))
}

/// Whether the rows of a product with a transposed matrix are so few that they are vectors.
pub(crate) fn is_few(rows: usize, columns: usize) -> bool {
    rows <= FEW && columns >= rows
}

/// Chooses the tiles of products whose matrices, or segments of k, a list picks: of whole k, by the
/// kernels that read lists.
pub(crate) fn listed(
    m: usize,
    n: usize,
    batches: usize,
    segments: bool,
    caps: &Capabilities,
) -> Gemm {
    match gemm(m, n, 1, batches, None, Right::Dense, caps) {
        Gemm::Lanes { .. } if segments => Gemm::Tile(Tile::SMALL, 1),
        // With so short an axis none is split.
        other => other,
    }
}

/// Chooses the tiles of rows that pick a matrix each and lie sorted by it, if enough of them share one.
pub(crate) fn grouped(
    picks: &Picks,
    n: usize,
    fragment: Option<Fragment>,
    right: Right,
    caps: &Capabilities,
) -> Option<Gemm> {
    let (rows, matrices) = (picks.batches, picks.counts[1]);
    if rows < matrices.max(FEW) || rows >= 1 << 31 {
        return None;
    }
    let matrix = fragment.and_then(|f| matrix::grouped(rows, matrices, n, f, right, caps));
    let tile = if rows > 32 * matrices { Tile::MEDIUM } else { Tile::SMALL };
    Some(matrix.map_or(Gemm::Tile(tile, 1), |tile| Gemm::Matrix(tile, 1)))
}

/// Chooses the kernel of a product of many rows and columns.
pub(crate) fn gemm(
    m: usize,
    n: usize,
    k: usize,
    batches: usize,
    fragment: Option<Fragment>,
    right: Right,
    caps: &Capabilities,
) -> Gemm {
    let plan = fragment.and_then(|f| matrix::plan(m, n, k, batches, f, right, caps));
    if let Some((tile, splits)) = plan {
        return Gemm::Matrix(tile, splits);
    }
    if caps.is_software() && caps.subgroup_ops.ballot && caps.subgroup_size >= 8 {
        return Gemm::Lanes { tm: if m <= 4 { 4 } else { 8 }, tn: 8 };
    }
    let tile = tile(m, n, batches, caps);
    Gemm::Tile(tile, splits(&tile, m, n, k, batches, caps))
}

/// The largest tile that the device can run and that still fills it.
fn tile(m: usize, n: usize, batches: usize, caps: &Capabilities) -> Tile {
    let runs = |t: &Tile| t.threads() <= caps.max_workgroup && t.shared() <= caps.shared_memory;
    let fills = |t: &Tile| t.count(m, n, batches) >= u64::from(caps.compute_units);
    let large = m > 64 && n > 64 && runs(&Tile::LARGE) && fills(&Tile::LARGE);
    if large {
        return Tile::LARGE;
    }
    if m > 32 && runs(&Tile::MEDIUM) { Tile::MEDIUM } else { Tile::SMALL }
}

/// Parts of k for results with too few tiles to fill the device: each at least 8 slices deep.
fn splits(tile: &Tile, m: usize, n: usize, k: usize, batches: usize, caps: &Capabilities) -> u32 {
    let tiles = tile.count(m, n, batches).max(1);
    let wanted = u64::from(caps.compute_units) * 2 / tiles;
    let deepest = k as u64 / (u64::from(tile.bk) * 8);
    wanted.min(deepest).clamp(1, 8) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::DeviceKind;

    fn product(m: usize, n: usize) -> MatmulSizes {
        MatmulSizes {
            m,
            n,
            k: 512,
            batches: 1,
            a_along_k: true,
            a_along_m: false,
            b_along_k: false,
            b_along_n: true,
            fragment: None,
        }
    }

    #[test]
    fn vectors_go_to_the_side_of_the_matrix() {
        let caps = Capabilities::default();
        assert_eq!(plan(&product(1, 4096), &caps), MatmulPlan::VecMat(MatrixSide::Right));
        let transposed = MatmulSizes { b_along_k: true, b_along_n: false, ..product(1, 4096) };
        assert_eq!(plan(&transposed, &caps), MatmulPlan::MatVec(MatrixSide::Right));
        assert_eq!(plan(&product(4096, 1), &caps), MatmulPlan::MatVec(MatrixSide::Left));
        let column = MatmulSizes { a_along_k: false, a_along_m: true, ..product(4096, 2) };
        assert_eq!(plan(&column, &caps), MatmulPlan::VecMat(MatrixSide::Left));
        assert!(matches!(plan(&product(64, 64), &caps), MatmulPlan::Gemm(_)));
    }

    #[test]
    fn large_matrices_times_few_columns_are_tiles_of_fragments() {
        let caps = Capabilities { compute_units: 132, ..Capabilities::default() };
        let fragment = Some(Fragment { m: 16, n: 16, k: 16 });
        let adapted = MatmulSizes { fragment, k: 4096, ..product(2048, 8) };
        let chosen = plan(&adapted, &caps);
        assert!(matches!(chosen, MatmulPlan::Gemm(Gemm::Matrix(_, 2..))), "{chosen:?}");
        for other in [
            MatmulSizes { fragment: None, ..adapted },
            MatmulSizes { n: 7, ..adapted },
            MatmulSizes { m: 512, ..adapted },
        ] {
            assert_eq!(plan(&other, &caps), MatmulPlan::MatVec(MatrixSide::Left), "{other:?}");
        }
    }

    #[test]
    fn small_grids_split_k_and_large_ones_do_not() {
        let caps = Capabilities::default();
        assert_eq!(
            gemm(4096, 4096, 4096, 1, None, Right::Dense, &caps),
            Gemm::Tile(Tile::LARGE, 1)
        );
        assert_eq!(gemm(64, 256, 4096, 1, None, Right::Dense, &caps), Gemm::Tile(Tile::MEDIUM, 8));
        assert_eq!(gemm(16, 64, 64, 1, None, Right::Dense, &caps), Gemm::Tile(Tile::SMALL, 1));
        let cpu = Capabilities { kind: DeviceKind::Software, subgroup_size: 8, ..caps };
        assert_eq!(gemm(64, 64, 64, 1, None, Right::Dense, &cpu), Gemm::Lanes { tm: 8, tn: 8 });
        let narrow = Capabilities { subgroup_size: 4, ..cpu };
        assert!(matches!(gemm(64, 64, 64, 1, None, Right::Dense, &narrow), Gemm::Tile(..)));
    }
}
