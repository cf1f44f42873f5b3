//! Softmax attention, with the running softmax of flash attention: no matrix of all scores.
//!
//! The query heads that share a key/value head are the rows of one small matrix, tiled. Each tile
//! walks the keys block by block. Few rows (decoding) use the keys and values as they lie in the
//! cache; many rows (prompts) multiply matrices.
//!
//! A key that a boolean or causal mask hides has the most negative finite score of the result's
//! dtype, as in MLX: a row that sees nothing averages all values. A row whose additive mask is
//! -∞ throughout is NaN.

mod softmax;
mod vjp;

pub(crate) use vjp::encode as encode_vjp;

use mlx_vulkan_core::{
    Array, Dtype, Result,
    backend::Output,
    dtype::Bool8,
    primitives::{Attention, AttentionMask},
};
use rayon::prelude::*;

use crate::{
    encoder::{Elements, Encoder, In, Out},
    float::{Real, Wide, dispatch_real},
    rows::widen_row,
    simd::gemm::{MatMut, MatRef, gemm},
};
use softmax::Running;

/// Query rows of a tile that is multiplied as a matrix.
const TILE: usize = 64;
/// Query rows up to which keys and values are read where they lie.
const FEW: usize = 8;
/// Keys of a block.
const BLOCK: usize = 256;
/// Keys from which a decoding step splits one head's keys over cores.
const SPLIT: usize = 2048;
/// Multiplications from which the tiles are split over cores.
const PARALLEL: usize = 1 << 15;

/// Encodes attention of queries (batch, heads, n, d) on keys and values (batch, kv heads, m, …).
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    attention: Attention,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let (attended, sinks) = attention.split(inputs);
    let operands = Operands::new(attention.scale.0, attention.mask, attended);
    let sinks = sinks.map(In::from);
    let task = AttentionTask { operands, sinks, out: enc.allocate(output)? };
    dispatch_real!(output.dtype, T => enc.push(move || task.run::<T>()))
}

/// What attends to what.
struct Operands {
    scale: f32,
    causal: bool,
    q: In,
    k: In,
    v: In,
    mask: Option<In>,
}

impl Operands {
    fn new(scale: f32, mask: AttentionMask, inputs: &[Array]) -> Self {
        Operands {
            scale,
            causal: mask == AttentionMask::Causal,
            q: In::from(&inputs[0]),
            k: In::from(&inputs[1]),
            v: In::from(&inputs[2]),
            mask: (mask == AttentionMask::Array).then(|| In::from(&inputs[3])),
        }
    }

    /// Locks the mask.
    fn mask<T: Real>(&self) -> Mask<'_, T> {
        match &self.mask {
            None if self.causal => Mask::Causal,
            None => Mask::None,
            Some(mask) if mask.dtype == Dtype::Bool => Mask::Bool(mask.read()),
            Some(mask) => Mask::Additive(mask.read()),
        }
    }
}

struct AttentionTask {
    operands: Operands,
    sinks: Option<In>,
    out: Out,
}

/// The locked mask.
enum Mask<'a, T> {
    None,
    Causal,
    Bool(Elements<'a, Bool8>),
    Additive(Elements<'a, T>),
}

/// Keys or values of one head: rows of a matrix in a buffer.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    data: &'a [T],
    first: usize,
    row_stride: isize,
    stride: isize,
    width: usize,
}

impl<'a, T: Real> Rows<'a, T> {
    fn new(input: &In, data: &'a [T], batch: usize, head: usize) -> Self {
        let strides = &input.layout.strides;
        let first = input.layout.offset / size_of::<T>();
        let skip = batch as isize * strides[0] + head as isize * strides[1];
        Rows {
            data,
            first: first.wrapping_add_signed(skip),
            row_stride: strides[2],
            stride: strides[3],
            width: input.shape[3],
        }
    }

    /// The rows from `row` on and their distance, if kernels can read them where they lie.
    fn in_place(&self, row: usize) -> Option<(&'a [T], usize)> {
        let usable = self.stride == 1 && self.row_stride >= 0;
        usable.then(|| (&self.data[self.start(row)..], self.row_stride as usize))
    }

    fn start(&self, row: usize) -> usize {
        self.first.wrapping_add_signed(row as isize * self.row_stride)
    }

    /// Rows `from` to `from + count` as wide elements without holes.
    fn widen(&self, from: usize, count: usize, out: &mut Vec<T::Wide>) {
        out.resize(count * self.width, T::Wide::default());
        for (i, out) in out.chunks_exact_mut(self.width.max(1)).enumerate() {
            widen_row(self.data, self.start(from + i), self.stride, out);
        }
    }
}

/// Rows of queries that share keys and values, and the keys that they look at.
#[derive(Clone, Copy)]
struct Tile {
    batch: usize,
    kv_head: usize,
    /// First row: `group * n + position`.
    row: usize,
    rows: usize,
    from: usize,
    to: usize,
}

impl AttentionTask {
    fn run<T: Real>(&self) {
        let mut out = self.out.write::<T>();
        if out.is_empty() {
            return;
        }
        let task = &self.operands;
        let (q, k, v) = (task.q.read::<T>(), task.k.read::<T>(), task.v.read::<T>());
        let mask = task.mask();
        let (q, k, v) = (q.buffer(), k.buffer(), v.buffer());
        let heads = Heads { task, q, k, v, mask: &mask, sinks: self.sinks::<T>() };
        let (heads_of, keys) = (task.k.shape[0] * task.k.shape[1], task.k.shape[2]);
        if keys == 0 {
            return out.fill(T::default());
        }
        let rows = out.len() / heads_of / task.v.shape[3];
        let cores = rayon::current_num_threads();
        if rows <= FEW && keys >= SPLIT && heads_of < 4 * cores {
            let parts = (4 * cores).div_ceil(heads_of).min(keys / (SPLIT / 4));
            heads.split_keys(&mut out, rows, parts);
        } else {
            heads.split_rows(&mut out, rows);
        }
    }
}

impl AttentionTask {
    /// The sinks of all heads, if there are any.
    fn sinks<T: Real>(&self) -> Vec<T::Wide> {
        let Some(sinks) = &self.sinks else { return Vec::new() };
        let mut out = vec![T::Wide::default(); sinks.size()];
        let elements = sinks.read::<T>();
        widen_row(elements.buffer(), elements.first(), sinks.layout.strides[0], &mut out);
        out
    }
}

/// The locked inputs.
struct Heads<'a, T: Real> {
    task: &'a Operands,
    q: &'a [T],
    k: &'a [T],
    v: &'a [T],
    mask: &'a Mask<'a, T>,
    /// Of every head, or of none.
    sinks: Vec<T::Wide>,
}

impl<T: Real> Heads<'_, T> {
    /// Tiles of rows, each over all keys. Rows of one key/value head lie together in the output,
    /// heads one after the other.
    fn split_rows(&self, out: &mut [T], rows: usize) {
        let (width, keys) = (self.task.v.shape[3], self.task.k.shape[2]);
        let kv_heads = self.task.k.shape[1];
        let work = out.len() * keys;
        let height = if rows <= FEW { rows } else { TILE };
        let mut tiles: Vec<(Tile, &mut [T])> = Vec::new();
        for (head, out) in out.chunks_mut(rows * width).enumerate() {
            let (batch, kv_head) = (head / kv_heads, head % kv_heads);
            for (i, out) in out.chunks_mut(height * width).enumerate() {
                let rows = out.len() / width;
                let tile = Tile { batch, kv_head, row: i * height, rows, from: 0, to: keys };
                tiles.push((tile, out));
            }
        }
        let one = |(tile, out): (Tile, &mut [T])| self.attend(tile).finish::<T>(out);
        match work >= PARALLEL {
            true => tiles.into_par_iter().with_max_len(1).for_each(one),
            false => tiles.into_iter().for_each(one),
        }
    }

    /// Parts of the keys, each for all rows of a head, merged at the end.
    fn split_keys(&self, out: &mut [T], rows: usize, parts: usize) {
        let (width, keys) = (self.task.v.shape[3], self.task.k.shape[2]);
        let kv_heads = self.task.k.shape[1];
        let heads = out.len() / (rows * width);
        let tile = |i: usize| {
            let (head, part) = (i / parts, i % parts);
            let (from, to) = (part * keys / parts, (part + 1) * keys / parts);
            Tile { batch: head / kv_heads, kv_head: head % kv_heads, row: 0, rows, from, to }
        };
        let partial: Vec<Running<T::Wide>> =
            (0..heads * parts).into_par_iter().map(|i| self.attend(tile(i))).collect();
        let mut partial = partial.into_iter();
        for out in out.chunks_mut(rows * width) {
            let mut merged = partial.next().expect("one per part");
            partial.by_ref().take(parts - 1).for_each(|other| merged.merge(&other));
            merged.finish(out);
        }
    }

    /// Scores, masks and accumulates the values of a tile's keys.
    fn attend(&self, tile: Tile) -> Running<T::Wide> {
        let task = self.task;
        let keys = Rows::new(&task.k, self.k, tile.batch, tile.kv_head);
        let values = Rows::new(&task.v, self.v, tile.batch, tile.kv_head);
        let queries = self.queries(tile);
        let mut running = Running::new(tile.rows, values.width);
        self.add_sinks(tile, &mut running);
        let mut scratch = Vec::new();
        let mut scores = Vec::new();
        let end = self.visible_end(tile);
        for from in (tile.from..end).step_by(BLOCK) {
            let count = BLOCK.min(end - from);
            scores.resize(tile.rows * count, T::Wide::default());
            score(&queries, keys, from, count, &mut scores, &mut scratch);
            self.mask(tile, from, count, &mut scores);
            running.weigh(&mut scores, count);
            accumulate(&mut running, &scores, values, from, count, &mut scratch);
        }
        running
    }

    /// The sinks of a tile's rows, for the tile that has the first keys.
    fn add_sinks(&self, tile: Tile, running: &mut Running<T::Wide>) {
        if tile.from > 0 || self.sinks.is_empty() {
            return;
        }
        for row in 0..tile.rows {
            running.add_sink(row, self.sinks[self.query_of(tile, row).0]);
        }
    }

    /// The scaled queries of a tile as wide elements.
    fn queries(&self, tile: Tile) -> Vec<T::Wide> {
        let scale = T::Wide::from_f64(self.task.scale as f64);
        let mut out = self.rows_of(&self.task.q, self.q, tile);
        out.iter_mut().for_each(|x| *x = *x * scale);
        out
    }

    /// A tile's rows of an array (batch, heads, n, …) as wide elements.
    fn rows_of(&self, input: &In, data: &[T], tile: Tile) -> Vec<T::Wide> {
        let width = input.shape[3];
        let mut out = vec![T::Wide::default(); tile.rows * width];
        for i in 0..tile.rows {
            let (head, position) = self.query_of(tile, i);
            let rows = Rows::new(input, data, tile.batch, head);
            let row = &mut out[i * width..(i + 1) * width];
            widen_row(rows.data, rows.start(position), rows.stride, row);
        }
        out
    }

    /// Query head and position of row `i` of a tile.
    fn query_of(&self, tile: Tile, i: usize) -> (usize, usize) {
        let (task, row) = (self.task, tile.row + i);
        let group = task.q.shape[1] / task.k.shape[1];
        let positions = task.q.shape[2];
        (tile.kv_head * group + row / positions, row % positions)
    }

    /// Keys after the last one that a row of the tile may see under the causal mask. A row that
    /// sees none needs all of them.
    fn visible_end(&self, tile: Tile) -> usize {
        if !matches!(self.mask, Mask::Causal) {
            return tile.to;
        }
        let visible = (0..tile.rows).map(|i| self.causal_end(tile, i));
        if visible.clone().any(|v| v == 0) {
            return tile.to;
        }
        visible.max().map_or(tile.to, |end| end.clamp(tile.from, tile.to))
    }

    /// Number of keys that row `i` sees under the causal mask.
    fn causal_end(&self, tile: Tile, i: usize) -> usize {
        let position = self.query_of(tile, i).1;
        (position + 1 + self.task.k.shape[2]).saturating_sub(self.task.q.shape[2])
    }

    /// Applies the mask to scores of keys `from` to `from + count`.
    fn mask(&self, tile: Tile, from: usize, count: usize, scores: &mut [T::Wide]) {
        let Mask::Additive(mask) = self.mask else {
            return self.hide(tile, from, count, scores, T::lowest());
        };
        for (i, row) in scores.chunks_exact_mut(count).enumerate() {
            self.each_masked(tile, i, from, row, mask, |score, m| *score = *score + m.widen());
        }
    }

    /// Puts `value` in the places of the keys `from` to `from + count` that the mask hides.
    fn hide(&self, tile: Tile, from: usize, count: usize, of: &mut [T::Wide], value: T::Wide) {
        let rows = of.chunks_exact_mut(count).enumerate();
        match self.mask {
            Mask::None | Mask::Additive(_) => {}
            Mask::Causal => {
                for (i, row) in rows {
                    let visible = self.causal_end(tile, i).saturating_sub(from).min(count);
                    row[visible..].fill(value);
                }
            }
            Mask::Bool(mask) => {
                for (i, row) in rows {
                    self.each_masked(tile, i, from, row, mask, |x, keep| {
                        if keep.0 == 0 {
                            *x = value;
                        }
                    });
                }
            }
        }
    }

    /// Calls `f` with each score of row `i` and its element of the mask, which has the shape
    /// (batch, heads, n, m).
    fn each_masked<M: mlx_vulkan_core::Element>(
        &self,
        tile: Tile,
        i: usize,
        from: usize,
        scores: &mut [T::Wide],
        mask: &Elements<'_, M>,
        f: impl Fn(&mut T::Wide, M),
    ) {
        let (head, position) = self.query_of(tile, i);
        let layout = &self.task.mask.as_ref().expect("the mask is an array").layout;
        let at = [tile.batch, head, position, from];
        let skip: isize = at.iter().zip(&layout.strides).map(|(&i, &s)| i as isize * s).sum();
        let (first, stride) = (mask.first().wrapping_add_signed(skip), layout.strides[3]);
        for (j, score) in scores.iter_mut().enumerate() {
            f(score, mask.buffer()[first.wrapping_add_signed(j as isize * stride)]);
        }
    }
}

/// `scores[i, j] = queries[i] · keys[from + j]`.
fn score<T: Real>(
    queries: &[T::Wide],
    keys: Rows<'_, T>,
    from: usize,
    count: usize,
    scores: &mut [T::Wide],
    scratch: &mut Vec<T::Wide>,
) {
    let rows = scores.len() / count;
    if keys.width == 0 {
        return scores.fill(T::Wide::default());
    }
    if rows <= FEW
        && let Some((data, stride)) = keys.in_place(from)
    {
        for (query, scores) in queries.chunks_exact(keys.width).zip(scores.chunks_exact_mut(count))
        {
            T::dots(query, data, stride, scores);
        }
        return;
    }
    keys.widen(from, count, scratch);
    let (zero, one) = (T::Wide::from_f64(0.0), T::Wide::from_f64(1.0));
    let queries = MatRef::dense(queries, rows, keys.width);
    let keys = MatRef::dense(scratch, count, keys.width).t();
    gemm(MatMut::dense(scores, rows, count), zero, queries, keys, one, false);
}

/// Adds the weighted values `from` to `from + count` to the running sums.
fn accumulate<T: Real>(
    running: &mut Running<T::Wide>,
    weights: &[T::Wide],
    values: Rows<'_, T>,
    from: usize,
    count: usize,
    scratch: &mut Vec<T::Wide>,
) {
    let rows = weights.len() / count;
    if values.width == 0 {
        return;
    }
    if rows <= FEW
        && let Some((data, stride)) = values.in_place(from)
    {
        for (weights, acc) in weights.chunks_exact(count).zip(running.rows_mut()) {
            T::combine(weights, data, stride, acc);
        }
        return;
    }
    values.widen(from, count, scratch);
    let one = T::Wide::from_f64(1.0);
    let weights = MatRef::dense(weights, rows, count);
    let values = MatRef::dense(scratch, count, values.width);
    gemm(MatMut::dense(&mut running.acc, rows, values.cols), one, weights, values, one, false);
}
