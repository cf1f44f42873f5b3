//! Products of many rows on cooperative matrices: which tile, how many parts of k.

use crate::{
    kernels::{fragment::NUMBERS, layouts::quantized_qmm_fields::PAGE},
    runtime::capabilities::{Capabilities, Fragment},
};

/// Rows and columns from which a product goes to cooperative matrices; below, a tile is mostly air.
pub(crate) const LEAST: usize = 17;
/// Rows from which products with quantized matrices are, which mat-vecs need as long for as tiles for 32
/// (`quantized/planner.rs`).
const LEAST_QUANTIZED: usize = 5;

/// Rows from which a quantized matrix is dequantized once into memory instead of by every tile of
/// rows. Measured on an H200 at 512 rows of 4096 x 4096 only: 111 µs in all (before dequantizing got
/// faster), against 116.
const DEQUANTIZE: usize = 384;

/// Elements of the largest matrix that is dequantized into scratch memory.
const DEQUANTIZE_MOST: usize = 1 << 27;

/// The right operand of a product, as tiles see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// Elements.
    Dense,
    /// Packed ones, which every tile dequantizes.
    Packed,
    /// Fields of 4 bits along k, in groups of so many, which are multiplied as they are (`qmm_fields.comp`).
    Fields(u32),
}

impl Right {
    /// Fields only on this condition.
    pub(crate) fn fields_if(self, pays: bool) -> Self {
        match self {
            Right::Fields(_) if !pays => Right::Packed,
            other => other,
        }
    }
}

/// A tile of `matrix_tile.glsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixTile {
    /// Rows of a workgroup.
    pub bm: u32,
    /// Columns of a workgroup.
    pub bn: u32,
    /// Depth of a slice.
    pub bk: u32,
    /// Rows of a subgroup.
    pub wm: u32,
    /// Columns of a subgroup.
    pub wn: u32,
    /// What the device multiplies.
    pub fragment: Fragment,
    /// Threads of a subgroup.
    pub subgroup: u32,
    /// Whether fields are multiplied as they are.
    pub fields: bool,
}

/// Sizes of a tile, and what it takes: one of the [`TileCosts`], and so much of it in percent.
pub(crate) struct Shape([u32; 5], usize, u64);

/// What a tile takes before its first slice and after its last, in slices of 64.
const AROUND: u64 = 4;

/// Shared memory that an H200's driver gives a multiprocessor.
const TOGETHER: u32 = 62 << 10;

/// What adding up parts takes, in the unit of [`TileCosts`], which was some 5.6 ns on an H200: a dispatch,
/// and so many bytes that are written or read.
const SUM: u64 = 500;
const SUM_BYTES: u64 = 14_000;

/// Rows of a product, and rows of a matrix on average where rows pick one each, up to which fields are
/// multiplied as they are. Measured on an H200 at 8B: 256 rows 10,107 to 10,346 tokens/s, 10,712 to 10,908 in
/// tiles that dequantize.
const FIELDS_MOST: usize = 192;

/// Outputs and inner size from which on they are with more than 32 rows: the smallest of the models that
/// were measured, keys of 30B-A3B (in one product with queries and values) and rows of 0.6B.
const FIELDS_SIDES: [usize; 2] = [512, 1024];

/// Subgroups of a multiprocessor as registers allow, in products of fields.
const RESIDENT: u32 = 12;

/// Parts of k up to which a dispatch of several products does without: more than a
/// third of the device has work then.
pub(crate) const MOST_UNSPLIT: u32 = 2;

// Measured on an H200, whose driver gives a multiprocessor about 64 KiB of shared memory: one slice in it at
// a time and several workgroups or subgroups to hide its loads beat two slices; so do deep ones. What a
// subgroup has of the result decides how often shared memory is read, which bounds the large ones.
pub(crate) const WIDE: Shape = Shape([128, 192, 64, 64, 48], 0, 100);
pub(crate) const LARGE: Shape = Shape([128, 128, 64, 64, 32], 1, 100);
pub(crate) const SMALL: Shape = Shape([64, 64, 64, 32, 32], 2, 100);
const DEEP: Shape = Shape([64, 64, 128, 32, 32], 2, 100);
const SHORT: Shape = Shape([32, 64, 128, 16, 32], 3, 100);
// Of convolutions, on an H100: for few columns, for few rows, and with more subgroups, which have the time to
// find windows while others multiply.
pub(crate) const TALL: Shape = Shape([256, 64, 64, 64, 32], 1, 110);
pub(crate) const FLAT: Shape = Shape([64, 128, 64, 32, 64], 1, 60);
pub(crate) const BUSY: Shape = Shape([128, 128, 64, 32, 32], 1, 110);
// Of fields, one for all: three lie on a multiprocessor. One of 64 x 256 has fewer instructions for each
// product, but two kinds of tiles in a model lose more than the better one of them gains
// (docs/experiments/batches.md, "One kind of tile").
const FIELDS: Shape = Shape([32, 128, 64, 32, 32], 2, 70);

impl Shape {
    /// What a slice of the tile takes.
    fn cost(&self, caps: &Capabilities) -> u64 {
        u64::from(caps.tiles.numbers()[self.1]) * self.2 / 100
    }
}

impl MatrixTile {
    fn new(shape: &Shape, fragment: Fragment, subgroup: u32) -> Self {
        let [bm, bn, bk, wm, wn] = shape.0;
        MatrixTile { bm, bn, bk, wm, wn, fragment, subgroup, fields: false }
    }

    /// The same for fields in groups of so many.
    fn of_fields(shape: &Shape, group: u32, fragment: Fragment, subgroup: u32) -> Self {
        let bk = slice_of_fields(group);
        MatrixTile { fields: true, bk, ..MatrixTile::new(shape, fragment, subgroup) }
    }

    /// Threads of a workgroup.
    pub(crate) const fn threads(&self) -> u32 {
        (self.bm / self.wm) * (self.bn / self.wn) * self.subgroup
    }

    /// Bytes of shared memory, however the operands lie.
    pub(crate) const fn shared(&self) -> u32 {
        let out = self.fragment.m * (self.wn / 4 + 1) * (self.threads() / self.subgroup);
        let (slices, more) = if self.fields {
            // Sums of groups of at least 32, pages of scales, and what finds out where elements lie.
            let (sums, pages) = (2 * self.bm * (self.bk / 32), PAGE * self.bn);
            (2 * self.bm * (self.bk / 8 + 1), 4 * (sums + pages) + NUMBERS)
        } else {
            (self.slice(self.bm) + self.slice(self.bn), 0)
        };
        16 * if slices > out { slices } else { out } + more
    }

    /// Vectors of a slice with `size` rows or columns, along k or across.
    const fn slice(&self, size: u32) -> u32 {
        let (along, across) = (size * (self.bk / 8 + 1), self.bk * (size / 8 + 1));
        if along > across { along } else { across }
    }

    /// Workgroups of a multiprocessor that splits of k are for.
    fn resident(&self) -> u64 {
        let subgroups = self.threads() / self.subgroup;
        let most = (RESIDENT / subgroups).min(TOGETHER / self.shared());
        if self.fields { u64::from(most.max(1)) } else { 1 }
    }

    /// Bytes that so many splits of tiles take: a float for each result.
    pub(crate) fn parts(&self, splits: u64) -> u64 {
        splits * u64::from(self.bm * self.bn) * 4
    }

    /// Tiles that cover a result.
    pub(crate) fn count(&self, m: usize, n: usize, batches: usize) -> u64 {
        (m.div_ceil(self.bm as usize) * n.div_ceil(self.bn as usize) * batches) as u64
    }

    /// Whether the device can run it; the shader wants threads to divide the vectors of slices, and the
    /// rows of a slice of a.
    fn runs(&self, caps: &Capabilities) -> bool {
        let (f, threads) = (self.fragment, self.threads());
        let even = |size: u32| (size * self.bk / 8).is_multiple_of(threads);
        // A subgroup of fields brings scales of as many rows as it has lanes, for itself alone.
        let own_lines = (self.wm, self.wn) == (self.bm, self.subgroup);
        threads <= caps.max_workgroup
            && self.shared() <= caps.shared_memory
            && (!self.fields || own_lines)
            && threads.is_multiple_of(self.bm / 8)
            && threads.is_multiple_of(self.bk / 8)
            && even(self.bm)
            && even(self.bn)
            && self.wm.is_multiple_of(f.m)
            && self.wn.is_multiple_of(f.n)
            && self.bk.is_multiple_of(f.k)
    }
}

/// The tile and the parts of k of a product on cooperative matrices, where that pays.
pub(crate) fn plan(
    m: usize,
    n: usize,
    k: usize,
    batches: usize,
    fragment: Fragment,
    right: Right,
    caps: &Capabilities,
) -> Option<(MatrixTile, u32)> {
    let least = if right == Right::Dense { LEAST } else { LEAST_QUANTIZED };
    if m < least || n < LEAST {
        return None;
    }
    let make = |shape: &Shape| made(shape, right, fragment, caps);
    let multiprocessors = u64::from(caps.compute_units.max(1));
    let count = |tile: &MatrixTile| tile.count(m, n, batches).max(1);
    let slices = (k as u64).div_ceil(64).max(1);
    // As many as fill a round, if they stay deep.
    let parts = |tile: &MatrixTile| {
        let deepest = k as u64 / (u64::from(tile.bk) * 4);
        let resident = tile.resident();
        (multiprocessors * resident / count(tile)).min(deepest).clamp(1, 8)
    };
    let elements = m * n * batches;
    let time = |(tile, cost): &(MatrixTile, u64)| {
        let parts = parts(tile);
        time((count(tile) * parts).div_ceil(multiprocessors), slices, parts, *cost, elements)
    };
    let shapes: &[&Shape] = match (m, right) {
        (_, Right::Fields(_)) => &[&FIELDS],
        (..=32, _) => &[&SHORT, &SMALL],
        // Runs of packed fields do not divide the widest evenly.
        (_, Right::Packed) => &[&LARGE, &SMALL],
        (_, Right::Dense) => &[&WIDE, &LARGE, &SMALL],
    };
    let known = shapes.iter().filter_map(|shape| Some((make(shape)?, shape.cost(caps))));
    let (mut tile, _) = known.min_by_key(time)?;
    // Few tiles wait for memory: deeper slices have more of it in flight.
    if [tile.bm, tile.bk] == [64, 64] && !tile.fields && count(&tile) <= multiprocessors {
        tile = make(&DEEP).unwrap_or(tile);
    }
    Some((tile, parts(&tile) as u32))
}

/// Whether a product of [rows, outputs, inner] multiplies fields as they are.
pub(crate) fn takes_fields([rows, outputs, inner]: [usize; 3]) -> bool {
    let is_large = outputs >= FIELDS_SIDES[0] && inner >= FIELDS_SIDES[1];
    rows <= 32 || (rows <= FIELDS_MOST && is_large)
}

/// Whether one of so many rows that pick one of `matrices` each does.
pub(crate) fn groups_take_fields(rows: usize, matrices: usize) -> bool {
    rows <= FIELDS_MOST * matrices
}

/// Depth of a slice of matrices of 4 bits in groups of so many elements: whole groups.
pub(crate) fn slice_of_fields(group: u32) -> u32 {
    group.max(64)
}

/// The tile of a shape for a right operand, if the device runs it.
fn made(
    shape: &Shape,
    right: Right,
    fragment: Fragment,
    caps: &Capabilities,
) -> Option<MatrixTile> {
    let tile = match right {
        Right::Fields(group) => MatrixTile::of_fields(shape, group, fragment, caps.subgroup_size),
        Right::Dense | Right::Packed => MatrixTile::new(shape, fragment, caps.subgroup_size),
    };
    tile.runs(caps).then_some(tile)
}

/// What rounds of tiles take whose slices are in so many parts of k, and the sum of parts of a result of so
/// many elements, in the unit of [`TileCosts`]; `cost` is a slice's.
fn time(rounds: u64, slices: u64, parts: u64, cost: u64, elements: usize) -> u64 {
    let sum = if parts > 1 { SUM + elements as u64 * 8 * parts / SUM_BYTES } else { 0 };
    rounds * (slices.div_ceil(parts) + AROUND) * cost + sum
}

/// The tile of `shapes` and the parts of k, at most so many, by which a product of [m, n, k] is made soonest:
/// in rounds of tiles on all multiprocessors, and a sum of the parts.
pub(crate) fn best(
    shapes: &[&Shape],
    [m, n, k]: [usize; 3],
    most: u32,
    fragment: Fragment,
    caps: &Capabilities,
) -> Option<(MatrixTile, u32)> {
    if m < LEAST || n < LEAST {
        return None;
    }
    let slices = (k as u64).div_ceil(64).max(1);
    let multiprocessors = u64::from(caps.compute_units.max(1));
    let time = |(tile, cost, parts): &(MatrixTile, u64, u32)| {
        let parts = u64::from(*parts);
        // Workgroups that are on a multiprocessor together take as long as one after the other.
        let together = u64::from((TOGETHER / tile.shared()).max(1));
        let rounds = (tile.count(m, n, 1) * parts).div_ceil(multiprocessors * together) * together;
        time(rounds, slices, parts, *cost, m * n)
    };
    let tiles = shapes.iter().filter_map(|shape| {
        let tile = MatrixTile::new(shape, fragment, caps.subgroup_size);
        tile.runs(caps).then(|| (tile, shape.cost(caps)))
    });
    let deepest = (slices / 4).clamp(1, u64::from(most)) as u32;
    let plans = tiles.flat_map(|(tile, cost)| (1..=deepest).map(move |parts| (tile, cost, parts)));
    plans.min_by_key(time).map(|(tile, _, parts)| (tile, parts))
}

/// The tile of rows that pick one of `matrices` each and lie sorted by it, where cooperative matrices pay.
pub(crate) fn grouped(
    rows: usize,
    matrices: usize,
    n: usize,
    fragment: Fragment,
    right: Right,
    caps: &Capabilities,
) -> Option<MatrixTile> {
    if n < LEAST {
        return None;
    }
    let shapes: &[&Shape] = match right {
        // gpt-oss with 64 rows of an expert: 16,542 tokens/s, and 15,273 with twice as many rows (H100).
        Right::Fields(_) => &[&FIELDS],
        Right::Packed => &[&LARGE, &SMALL, &SHORT],
        Right::Dense => &[&WIDE, &LARGE, &SMALL, &SHORT],
    };
    let cost = |(tile, cost): &(MatrixTile, u64)| {
        // The last tile of a matrix is full by half, if it is not the only one.
        let (height, columns) = (tile.bm as usize, n.div_ceil(tile.bn as usize));
        let tiles = matrices.max(rows.div_ceil(height) + matrices / 2);
        (tiles * columns) as u64 * cost
    };
    let known = shapes.iter().filter_map(|s| Some((made(s, right, fragment, caps)?, s.cost(caps))));
    known.min_by_key(cost).map(|(tile, _)| tile)
}

/// The tile that each of the [`TileCosts`] is measured with, if the device runs it.
pub(crate) fn measured(fragment: Fragment, caps: &Capabilities) -> [Option<MatrixTile>; 4] {
    [&WIDE, &LARGE, &SMALL, &SHORT].map(|shape| {
        let tile = MatrixTile::new(shape, fragment, caps.subgroup_size);
        tile.runs(caps).then_some(tile)
    })
}

/// Whether a quantized (outputs, inner) matrix is dequantized for a product of so many rows.
pub(crate) fn dequantizes(rows: usize, outputs: usize, inner: usize) -> bool {
    rows >= DEQUANTIZE && outputs.saturating_mul(inner) <= DEQUANTIZE_MOST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::Fragments;
    use crate::runtime::tile_costs::TileCosts;

    const SQUARE: Fragment = Fragment { m: 16, n: 16, k: 16 };

    fn caps() -> Capabilities {
        Capabilities {
            fragments: Fragments { float16: Some(SQUARE), bfloat16: None },
            shared_memory: 48 << 10,
            compute_units: 132,
            ..Capabilities::default()
        }
    }

    #[test]
    fn tiles_grow_with_the_result_and_small_grids_split_k() {
        let caps = caps();
        let plan = |m, n, k| {
            plan(m, n, k, 1, SQUARE, Right::Dense, &caps).map(|(t, s)| ([t.bm, t.bn, t.bk], s))
        };
        assert_eq!(plan(4096, 4096, 4096), Some(([128, 192, 64], 1)));
        assert_eq!(plan(512, 6144, 4096), Some(([128, 192, 64], 1)));
        assert_eq!(plan(512, 4096, 4096), Some(([128, 128, 64], 1)));
        assert_eq!(plan(512, 1024, 1024), Some(([64, 64, 128], 1)));
        assert_eq!(plan(64, 4096, 4096), Some(([64, 64, 128], 2)));
        assert_eq!(plan(32, 1024, 4096), Some(([32, 64, 128], 8)));
        assert_eq!(plan(16, 4096, 4096), None);
        assert_eq!(plan(4096, 8, 4096), None);
    }

    #[test]
    fn derivatives_by_weights_have_large_tiles_in_parts() {
        let caps = caps();
        let plan = |m, n| {
            plan(m, n, 8192, 1, SQUARE, Right::Dense, &caps).map(|(t, s)| ([t.bm, t.bn, t.bk], s))
        };
        assert_eq!(plan(576, 1536), Some(([128, 192, 64], 3)));
        assert_eq!(plan(576, 576), Some(([128, 192, 64], 8)));
        assert_eq!(plan(576, 192), Some(([64, 64, 128], 4)));
    }

    #[test]
    fn deep_products_of_few_tiles_have_many_parts() {
        let caps = caps();
        let best = |size: [usize; 3], most| {
            let shapes = [&WIDE, &BUSY, &FLAT];
            let (tile, parts) = best(&shapes, size, most, SQUARE, &caps).unwrap();
            ([tile.bm, tile.bn], parts)
        };
        assert_eq!(best([64, 640, 262_144], 256), ([64, 128], 52));
        // Five smaller ones would leave half of their multiprocessors idle.
        assert_eq!(best([64, 640, 262_144], 1), ([128, 128], 1));
        assert_eq!(best([4096, 4096, 4096], 256), ([128, 192], 1));
    }

    #[test]
    fn parts_of_k_fill_the_device_with_tiles_of_fields() {
        let caps = caps();
        let plan = |size: [usize; 3]| {
            assert!(takes_fields(size));
            let [m, n, k] = size;
            let (tile, parts) = plan(m, n, k, 1, SQUARE, Right::Fields(64), &caps).unwrap();
            assert_eq!([tile.bm, tile.bn, tile.bk], [32, 128, 64]);
            parts
        };
        // Qwen3-8B: gate and up, output.
        assert_eq!(plan([64, 24_576, 4096]), 1);
        assert_eq!(plan([64, 4096, 4096]), 6);
        assert_eq!(plan([128, 4096, 4096]), 3);
        // Qwen3-4B: gate and up, output; Qwen3-30B-A3B: queries, keys and values.
        assert_eq!(plan([192, 19_456, 2560]), 1);
        assert_eq!(plan([64, 2560, 4096]), 8);
        assert_eq!(plan([64, 5120, 2048]), 4);
        // Qwen3-0.6B: gate and up.
        assert_eq!(plan([128, 6144, 1024]), 2);
        assert!(!takes_fields([64, 256, 4096]) && takes_fields([32, 256, 256]));
        // Groups of 128 within little shared memory.
        let small = Capabilities { shared_memory: 32 << 10, ..caps };
        let (tile, _) =
            super::plan(128, 24_576, 4096, 1, SQUARE, Right::Fields(128), &small).unwrap();
        assert_eq!([tile.bm, tile.bk], [32, 128]);
    }

    #[test]
    fn measured_costs_decide() {
        let plan = |tiles: TileCosts| {
            let caps = Capabilities { tiles, ..caps() };
            let (tile, _) = plan(4096, 4096, 4096, 1, SQUARE, Right::Dense, &caps).unwrap();
            [tile.bm, tile.bn]
        };
        assert_eq!(plan(TileCosts::new([300, 181, 73, 60]).unwrap()), [128, 128]);
        assert_eq!(plan(TileCosts::new([300, 181, 20, 60]).unwrap()), [64, 64]);
        assert_eq!(TileCosts::new([0, 1, 1, 1]), None);
        assert_eq!(TileCosts::new([1, 1, u32::MAX, 1]), None);
        assert!(measured(SQUARE, &caps()).iter().all(Option::is_some));
    }

    #[test]
    fn tiles_keep_to_the_device() {
        let small = Capabilities { shared_memory: 32 << 10, ..caps() };
        let (tile, _) = plan(4096, 4096, 512, 1, SQUARE, Right::Dense, &small).unwrap();
        assert!(tile.bm == 64 && tile.shared() <= small.shared_memory);
        let wide = Capabilities { subgroup_size: 64, max_workgroup: 256, ..caps() };
        let (tile, _) = plan(4096, 4096, 512, 1, SQUARE, Right::Dense, &wide).unwrap();
        assert_eq!((tile.bm, tile.threads()), (64, 256));
        let none = Capabilities { shared_memory: 8 << 10, ..caps() };
        assert_eq!(plan(4096, 4096, 512, 1, SQUARE, Right::Dense, &none), None);
        for shape in [&WIDE, &LARGE, &SMALL, &DEEP, &SHORT, &TALL, &FLAT, &BUSY] {
            assert!(MatrixTile::new(shape, SQUARE, 32).runs(&caps()));
        }
        for group in [32, 64, 128] {
            assert!(MatrixTile::of_fields(&FIELDS, group, SQUARE, 32).runs(&caps()));
        }
    }
}
