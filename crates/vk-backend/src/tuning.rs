//! What tiles of products take on this device, measured once and stored beside the pipeline cache.
//!
//! The planner's table was measured on one GPU. Where another one differs, [`tune`] replaces it:
//! `mlx-vulkan devices --tune` does so, so that it is never in the way of anything else, and
//! every later process finds the file.

use std::time::{Duration, Instant};

use mlx_vulkan_core::{
    Array, Device, DeviceType, Dtype, Result, Stream, eval, new_stream, ops, synchronize,
    with_stream,
};

use crate::{
    kernels::{
        encode_operation,
        matmul::{
            GemmPush, dense_matrix,
            matrix::{MatrixTile, measured},
            planner::Gemm,
        },
    },
    runtime::{
        capabilities::{Capabilities, Fragment},
        machine,
        tile_costs::TileCosts,
    },
};

/// A GPU that was idle takes a third of a second to reach its clock.
const WARM_UP: Duration = Duration::from_millis(400);
/// Depth of the products, in steps of 64.
const STEPS: usize = 16;
/// Tiles of each unit, one after the other.
const ROUNDS: usize = 4;
/// Products of a measurement, and measurements of which the fastest counts.
const PRODUCTS: usize = 20;
const TIMES: usize = 5;

/// Measures what tiles take on GPU `index` and stores it for later processes; `None` if it has no
/// cooperative matrices that products use. Takes about a second, and as long as the driver needs for
/// four pipelines.
///
/// # Errors
/// When there is no such device, memory is out, or the device fails.
pub fn tune(index: u32) -> Result<Option<TileCosts>> {
    let opened = machine::open(index)?;
    let caps = opened.capabilities();
    let Some((fragment, dtype)) = units(caps) else { return Ok(None) };
    let stream = new_stream(Device { kind: DeviceType::Gpu, index })?;
    let numbers = with_stream(stream, || measure(stream, fragment, dtype, caps))?;
    let found = TileCosts::new(numbers);
    if let Some(costs) = &found {
        costs.save(&opened.raw.device, opened.config);
    }
    Ok(found)
}

/// The numbers of [`TileCosts`]; those of tiles that the device does not run are the table's.
fn measure(
    stream: Stream,
    fragment: Fragment,
    dtype: Dtype,
    caps: &Capabilities,
) -> Result<[u32; 4]> {
    let mut costs = caps.tiles.numbers();
    let tiles = measured(fragment, caps);
    if let Some(tile) = tiles.iter().flatten().next() {
        let product = TunedProduct::new(*tile, dtype, caps)?;
        // The first one may compile its pipeline while the device idles.
        product.run(stream)?;
        let begin = Instant::now();
        while begin.elapsed() < WARM_UP {
            product.run(stream)?;
        }
    }
    for (cost, tile) in costs.iter_mut().zip(&tiles) {
        let Some(tile) = tile else { continue };
        let product = TunedProduct::new(*tile, dtype, caps)?;
        product.run(stream)?;
        let times = (0..TIMES).map(|_| product.run(stream)).collect::<Result<Vec<_>>>()?;
        let best = times.into_iter().min().unwrap_or_default();
        // In units of 5 ns; only what they are to each other matters.
        *cost = (best.as_nanos() / (5 * PRODUCTS * ROUNDS * STEPS) as u128) as u32;
    }
    Ok(costs)
}

/// What products of the device's halves use.
fn units(caps: &Capabilities) -> Option<(Fragment, Dtype)> {
    let [brain, half] = [caps.fragments.bfloat16, caps.fragments.float16];
    brain.map(|f| (f, Dtype::Bfloat16)).or(half.map(|f| (f, Dtype::Float16)))
}

/// A product of so many tiles that each unit has some.
struct TunedProduct {
    tile: MatrixTile,
    dtype: Dtype,
    a: Array,
    b: Array,
    result: Array,
}

impl TunedProduct {
    fn new(tile: MatrixTile, dtype: Dtype, caps: &Capabilities) -> Result<TunedProduct> {
        let (m, k) = (tile.bm as usize, 64 * STEPS);
        let n = tile.bn as usize * caps.compute_units.max(1) as usize * ROUNDS;
        let make = |shape: [usize; 2]| ops::full(&shape, 0.5f32, dtype);
        let (a, b, result) = (make([m, k])?, make([n, k])?, make([m, n])?);
        eval(&[&a, &b, &result])?;
        Ok(TunedProduct { tile, dtype, a, b, result })
    }

    /// The time of [`PRODUCTS`] of them.
    fn run(&self, stream: Stream) -> Result<Duration> {
        synchronize(stream)?;
        let begin = Instant::now();
        for _ in 0..PRODUCTS {
            let (_, encoded) = encode_operation(stream, "Matmul", 1, |ctx| {
                let (a, b, result) =
                    (ctx.input(&self.a)?, ctx.input(&self.b)?, ctx.input(&self.result)?);
                let k = self.a.dim(1) as i64;
                let push = GemmPush {
                    a: a.address,
                    b: b.address,
                    result: result.address,
                    lda: k,
                    ldb: k,
                    m: self.a.dim(0) as u32,
                    n: self.b.dim(0) as u32,
                    k: k as u32,
                    batches: 1,
                    splits: 1,
                    ..GemmPush::default()
                };
                let plan = Gemm::Matrix(self.tile, 1);
                dense_matrix(
                    ctx,
                    plan,
                    self.dtype.into(),
                    push,
                    None,
                    &[a.region, b.region],
                    result,
                )
            })?;
            encoded.finish()?;
        }
        synchronize(stream)?;
        Ok(begin.elapsed())
    }
}
