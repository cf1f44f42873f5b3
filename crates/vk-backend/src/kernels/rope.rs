//! Rotary position embedding.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::Rope, shape};
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::{
    Ctx, Dispatch, Operand, copy,
    layouts::rope::{Constants, DIVISORS_FLAG, Push, ROPE, TRADITIONAL_FLAG},
};
use crate::runtime::stats;

/// `base^(-2i/dims)` as pairs of float32, highest part first.
fn frequency_pairs(base: f32, dims: usize) -> Vec<f32> {
    let pair = |i| {
        let exact = f64::from(base).powf(-2.0 * i as f64 / dims as f64);
        [exact as f32, (exact - f64::from(exact as f32)) as f32]
    };
    (0..dims / 2).flat_map(pair).collect()
}

/// The same as an array, made once per base and width, so that it stays on the device.
fn table(base: f32, dims: usize) -> Result<Array> {
    static TABLES: Lazy<Mutex<FxHashMap<(u32, usize), Array>>> = Lazy::new(Mutex::default);
    let mut tables = TABLES.lock();
    if let Some(table) = tables.get(&(base.to_bits(), dims)) {
        return Ok(table.clone());
    }
    let pairs = frequency_pairs(base, dims);
    let table = Array::from_slice(&pairs, &[pairs.len()])?;
    tables.insert((base.to_bits(), dims), table.clone());
    Ok(table)
}

/// The frequencies, pairs made from the base or divisors that are `given`, and their stride.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn frequencies(
    ctx: &mut Ctx<'_>,
    rope: &Rope,
    given: Option<&Array>,
) -> Result<(Operand, i64)> {
    match (rope.base, given) {
        (None, Some(given)) => Ok((ctx.input(given)?, given.evaluated().layout.strides[0] as i64)),
        (base, _) => Ok((ctx.input(&table(base.map_or(1e4, |base| base.0), rope.dims)?)?, 1)),
    }
}

/// The input as (batches, heads, rows, features) with a stride each.
struct View {
    at: Operand,
    strides: [i64; 4],
    sizes: [usize; 4],
}

/// The input in place if its middle axes are walked with one stride, else a dense copy.
fn view(ctx: &mut Ctx<'_>, x: &Array) -> Result<View> {
    let (shape, last) = (x.shape(), x.ndim() - 1);
    let heads: usize = shape[1..last - 1].iter().product();
    let sizes = [shape[0], heads, shape[last - 1], shape[last]];
    let strides = &x.evaluated().layout.strides;
    let (merged, [middle]) =
        shape::collapse_contiguous(&shape[1..last - 1], [&strides[1..last - 1]]);
    let dense = x.evaluated().layout.flags.row_contiguous;
    if merged.len() == 1 && (dense || ctx.config().enable_rope_hs_transposed) {
        let strides = [strides[0], middle[0], strides[last - 1], strides[last]].map(|s| s as i64);
        return Ok(View { at: ctx.input(x)?, strides, sizes });
    }
    if merged.len() == 1 {
        stats::reject(ctx.config(), "rope", || {
            "MLX_VK_ENABLE_ROPE_HS_TRANSPOSED=0: its input is copied".into()
        });
    }
    let at = copy::dense(ctx, x)?;
    let row = sizes[2] * sizes[3];
    let strides = [heads * row, row, sizes[3], 1].map(|s| s as i64);
    Ok(View { at, strides, sizes })
}

/// Encodes the embedding.
///
/// # Errors
/// When memory or the device fails, or an axis is over 2^31.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    rope: &Rope,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let (x, offset) = (&inputs[0], &inputs[1]);
    let View { at, strides, sizes } = view(ctx, x)?;
    if sizes.iter().any(|&s| s >= 1 << 31) {
        return Err(ctx.unsupported(x, "an axis has 2^31 elements or more"));
    }
    let at_offset = copy::dense(ctx, offset)?;
    let mut reads = vec![at.region, at_offset.region];
    let (frequencies, frequency_stride) = frequencies(ctx, rope, inputs.get(2))?;
    reads.push(frequencies.region);
    // A thread reads the pair that it writes, so a donated dense input is rotated in place.
    let result = ctx.output_or_donate(&[x], output)?;
    let push = Push {
        x: at.address,
        offset: at_offset.address,
        frequencies: frequencies.address,
        result: result.address,
        batch_stride: strides[0],
        head_stride: strides[1],
        row_stride: strides[2],
        feature_stride: strides[3],
        frequency_stride,
        batches: sizes[0] as u32,
        heads: sizes[1] as u32,
        rows: sizes[2] as u32,
        features: sizes[3] as u32,
        dims: rope.dims as u32,
        offset_stride: u32::from(offset.size() > 1),
        scale: rope.scale.0,
    };
    dispatch(ctx, rope, &push, &reads, result, output)
}

fn dispatch(
    ctx: &mut Ctx<'_>,
    rope: &Rope,
    push: &Push,
    reads: &[super::Region],
    result: Operand,
    output: &Output,
) -> Result<()> {
    let caps = ctx.capabilities();
    // Heads share sines where that leaves enough threads.
    let threads = output.size() as u64 / 2;
    let heads = if caps.is_software() {
        push.heads.clamp(1, 64).next_power_of_two()
    } else if threads > u64::from(caps.compute_units) * 4096 {
        4
    } else {
        1
    };
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = bit(rope.traditional, TRADITIONAL_FLAG) | bit(rope.base.is_none(), DIVISORS_FLAG);
    let group = caps.elementwise_workgroup().min(128);
    let constants = Constants { workgroup: group, dtype: output.dtype as u32, flags, heads };
    let pipeline = ctx.pipeline(ROPE, &constants);
    let slots = u64::from(push.dims / 2 + push.features - push.dims);
    let items = u64::from(push.batches)
        * u64::from(push.heads.div_ceil(heads))
        * u64::from(push.rows)
        * slots;
    let items = if output.size() == 0 { 0 } else { items };
    let groups = [caps.groups_1d(items, u64::from(group)), 1, 1];
    let writes = &[result.region];
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push, groups, reads, writes })
}

#[cfg(test)]
mod tests {
    use super::frequency_pairs;

    #[test]
    fn frequency_pairs_are_the_float64_values() {
        let pairs = frequency_pairs(1e6, 128);
        for (i, pair) in pairs.chunks(2).enumerate() {
            let exact = 1e6f64.powf(-(i as f64) / 64.0);
            assert!((f64::from(pair[0]) + f64::from(pair[1]) - exact).abs() <= exact * 1e-13);
        }
    }
}
