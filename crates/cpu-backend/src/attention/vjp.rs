//! The derivatives of attention, by tiles of rows and blocks of keys: no matrix of all scores.
//!
//! First come the tiles of rows: maxima and sums of their softmax, then the derivatives by the queries.
//! With these sums the blocks of keys compute the weights once more, for the derivatives by keys and values.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::AttentionVjp};
use rayon::prelude::*;

use super::{Heads, Operands, PARALLEL, Rows, TILE, Tile, softmax::Running};
use crate::{
    encoder::{Encoder, In, Out},
    float::{Real, Wide, dispatch_real},
    simd::gemm::{MatMut, MatRef, gemm},
};

/// Keys of a block.
const BLOCK: usize = 128;

/// Encodes the derivatives of attention by queries, keys and values. Inputs are the attention's, its output
/// and the cotangent of that.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    AttentionVjp { scale, mask }: AttentionVjp,
    inputs: &[Array],
    by_q: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    let [primals @ .., output, cotangent] = inputs else { unreachable!("core checks the number") };
    let [by_k, by_v] = others else { unreachable!("there are three outputs") };
    let dtype = by_q.dtype;
    let task = VjpTask {
        operands: Operands::new(scale.0, mask, primals),
        output: output.into(),
        cotangent: cotangent.into(),
        by_q: enc.allocate(by_q)?,
        by_k: enc.allocate(by_k)?,
        by_v: enc.allocate(by_v)?,
    };
    dispatch_real!(dtype, T => enc.push(move || task.run::<T>()))
}

struct VjpTask {
    operands: Operands,
    output: In,
    cotangent: In,
    by_q: Out,
    by_k: Out,
    by_v: Out,
}

/// What the softmax of a row needs once its scores are known again.
#[derive(Clone, Copy)]
struct Row<W> {
    max: W,
    /// One over the sum of the exponentials.
    inverse: W,
    /// The mean of what the weights change by.
    mean: W,
}

/// A tile's rows as wide elements, without holes.
struct Wides<W> {
    tile: Tile,
    /// Times the scale.
    queries: Vec<W>,
    cotangents: Vec<W>,
}

/// A block of keys and their values as wide elements, without holes.
struct Block<W> {
    from: usize,
    count: usize,
    keys: Vec<W>,
    values: Vec<W>,
}

/// Weights of a tile's rows on the keys of a block, and what their scores change by.
struct Changes<W> {
    weights: Vec<W>,
    scores: Vec<W>,
}

impl VjpTask {
    fn run<T: Real>(&self) {
        let task = &self.operands;
        let (q, k, v) = (task.q.read::<T>(), task.k.read::<T>(), task.v.read::<T>());
        let (output, cotangent) = (self.output.read::<T>(), self.cotangent.read::<T>());
        let mask = task.mask();
        let vjp = Vjp {
            task: self,
            heads: Heads {
                task,
                q: q.buffer(),
                k: k.buffer(),
                v: v.buffer(),
                mask: &mask,
                sinks: Vec::new(),
            },
            output: output.buffer(),
            cotangent: cotangent.buffer(),
        };
        let rows = vjp.by_rows(&mut self.by_q.write::<T>());
        vjp.by_keys(&rows, &mut self.by_k.write::<T>(), &mut self.by_v.write::<T>());
    }
}

/// The locked inputs.
struct Vjp<'a, T: Real> {
    task: &'a VjpTask,
    heads: Heads<'a, T>,
    output: &'a [T],
    cotangent: &'a [T],
}

impl<T: Real> Vjp<'_, T> {
    /// Features of queries and of values.
    fn widths(&self) -> [usize; 2] {
        [self.heads.task.q.shape[3], self.heads.task.v.shape[3]]
    }

    /// Batches times heads of keys, and the rows that share one.
    fn sizes(&self) -> [usize; 2] {
        let (q, k) = (&self.heads.task.q.shape, &self.heads.task.k.shape);
        [k[0] * k[1], q[1] / k[1] * q[2]]
    }

    fn is_parallel(&self) -> bool {
        let [heads, rows] = self.sizes();
        heads * rows * self.heads.task.k.shape[2] * self.widths()[0].max(1) >= PARALLEL
    }

    /// The tiles of all rows, one head of keys after the other.
    fn tiles(&self) -> Vec<Tile> {
        let ([heads, rows], k) = (self.sizes(), &self.heads.task.k.shape);
        let of = |head: usize| {
            (0..rows).step_by(TILE).map(move |row| Tile {
                batch: head / k[1],
                kv_head: head % k[1],
                row,
                rows: TILE.min(rows - row),
                from: 0,
                to: k[2],
            })
        };
        (0..heads).flat_map(of).collect()
    }

    /// The derivatives by the queries; returns the rows of every tile.
    fn by_rows(&self, out: &mut [T]) -> Vec<Vec<Row<T::Wide>>> {
        let width = self.widths()[0];
        let mut out = out;
        let mut parts = Vec::new();
        for tile in self.tiles() {
            let (part, rest) = out.split_at_mut(tile.rows * width);
            parts.push((tile, part));
            out = rest;
        }
        let one = |(tile, out): (Tile, &mut [T])| {
            let wides = self.wides(tile);
            let rows = self.rows(&wides);
            self.by_queries(&wides, &rows, out);
            rows
        };
        match self.is_parallel() {
            true => parts.into_par_iter().with_max_len(1).map(one).collect(),
            false => parts.into_iter().map(one).collect(),
        }
    }

    fn wides(&self, tile: Tile) -> Wides<T::Wide> {
        let queries = self.heads.queries(tile);
        let cotangents = self.heads.rows_of(&self.task.cotangent, self.cotangent, tile);
        Wides { tile, queries, cotangents }
    }

    /// The blocks of keys from `from` to `to`.
    fn block(&self, tile: Tile, from: usize, to: usize) -> Block<T::Wide> {
        let (task, count) = (self.heads.task, BLOCK.min(to - from));
        let widened = |input: &In, data: &[T]| {
            let mut out = Vec::new();
            Rows::new(input, data, tile.batch, tile.kv_head).widen(from, count, &mut out);
            out
        };
        let (keys, values) = (widened(&task.k, self.heads.k), widened(&task.v, self.heads.v));
        Block { from, count, keys, values }
    }

    /// The masked scores of a tile and a block.
    fn scores(&self, wides: &Wides<T::Wide>, block: &Block<T::Wide>) -> Vec<T::Wide> {
        let mut scores = vec![T::Wide::default(); wides.tile.rows * block.count];
        let queries = MatRef::dense(&wides.queries, wides.tile.rows, self.widths()[0]);
        let keys = MatRef::dense(&block.keys, block.count, self.widths()[0]);
        set(&mut scores, queries, keys.t());
        self.heads.mask(wides.tile, block.from, block.count, &mut scores);
        scores
    }

    /// Maxima and sums over all keys, and what the weights of each row change by on average: that is the
    /// product of output and cotangent.
    fn rows(&self, wides: &Wides<T::Wide>) -> Vec<Row<T::Wide>> {
        let tile = wides.tile;
        let mut running = Running::new(tile.rows, 0);
        let end = self.heads.visible_end(tile);
        for from in (0..end).step_by(BLOCK) {
            let block = self.block(tile, from, end);
            running.weigh(&mut self.scores(wides, &block), block.count);
        }
        let outputs = self.heads.rows_of(&self.task.output, self.output, tile);
        let width = self.widths()[1];
        let mean = |i: usize| {
            let mut sum = [T::Wide::from_f64(0.0)];
            let part = i * width..(i + 1) * width;
            T::Wide::dots(&wides.cotangents[part.clone()], &outputs[part], 0, &mut sum);
            sum[0]
        };
        let one = T::Wide::from_f64(1.0);
        let rows = running.maxima_and_sums().enumerate();
        rows.map(|(i, (max, sum))| Row { max, inverse: one / sum, mean: mean(i) }).collect()
    }

    /// The weights once more, and what scores change by, which is nothing where a key is hidden.
    fn changes(
        &self,
        wides: &Wides<T::Wide>,
        rows: &[Row<T::Wide>],
        block: &Block<T::Wide>,
    ) -> Changes<T::Wide> {
        let (tile, width) = (wides.tile, self.widths()[1]);
        let mut weights = self.scores(wides, block);
        for (weights, row) in weights.chunks_exact_mut(block.count).zip(rows) {
            T::Wide::exp_sum(weights, row.max);
            weights.iter_mut().for_each(|w| *w = *w * row.inverse);
        }
        let mut scores = vec![T::Wide::default(); weights.len()];
        let cotangents = MatRef::dense(&wides.cotangents, tile.rows, width);
        set(&mut scores, cotangents, MatRef::dense(&block.values, block.count, width).t());
        let parts = scores.chunks_exact_mut(block.count).zip(weights.chunks_exact(block.count));
        for ((scores, weights), row) in parts.zip(rows) {
            scores.iter_mut().zip(weights).for_each(|(s, &w)| *s = w * (*s - row.mean));
        }
        self.heads.hide(tile, block.from, block.count, &mut scores, T::Wide::from_f64(0.0));
        Changes { weights, scores }
    }

    /// The derivatives of a tile's queries.
    fn by_queries(&self, wides: &Wides<T::Wide>, rows: &[Row<T::Wide>], out: &mut [T]) {
        let (tile, width) = (wides.tile, self.widths()[0]);
        let mut sums = vec![T::Wide::default(); tile.rows * width];
        let end = self.heads.visible_end(tile);
        for from in (0..end).step_by(BLOCK) {
            let block = self.block(tile, from, end);
            let changes = self.changes(wides, rows, &block).scores;
            let keys = MatRef::dense(&block.keys, block.count, width);
            add(&mut sums, MatRef::dense(&changes, tile.rows, block.count), keys);
        }
        let scale = T::Wide::from_f64(f64::from(self.heads.task.scale));
        sums.iter_mut().for_each(|x| *x = *x * scale);
        T::narrow_slice(&sums, out);
    }

    /// The derivatives by keys and values, with the rows of every tile.
    fn by_keys(&self, rows: &[Vec<Row<T::Wide>>], by_k: &mut [T], by_v: &mut [T]) {
        let ([width, value_width], keys) = (self.widths(), self.heads.task.k.shape[2]);
        let tiles = self.tiles();
        let each = tiles.len() / self.sizes()[0].max(1);
        let (mut by_k, mut by_v) = (by_k, by_v);
        let mut parts = Vec::new();
        for head in 0..self.sizes()[0] {
            for from in (0..keys).step_by(BLOCK) {
                let count = BLOCK.min(keys - from);
                let (k, k_rest) = by_k.split_at_mut(count * width);
                let (v, v_rest) = by_v.split_at_mut(count * value_width);
                parts.push((head * each..(head + 1) * each, from, k, v));
                (by_k, by_v) = (k_rest, v_rest);
            }
        }
        type Part<'a, T> = (std::ops::Range<usize>, usize, &'a mut [T], &'a mut [T]);
        let one = |(range, from, by_k, by_v): Part<'_, T>| {
            let tiles = tiles[range.clone()].iter().copied().zip(&rows[range]);
            self.by_block(tiles, from, by_k, by_v);
        };
        match self.is_parallel() {
            true => parts.into_par_iter().with_max_len(1).for_each(one),
            false => parts.into_iter().for_each(one),
        }
    }

    /// The same for the block of keys from `from` on, over the tiles of its head.
    fn by_block<'r>(
        &self,
        tiles: impl Iterator<Item = (Tile, &'r Vec<Row<T::Wide>>)>,
        from: usize,
        by_k: &mut [T],
        by_v: &mut [T],
    ) {
        let ([width, value_width], keys) = (self.widths(), self.heads.task.k.shape[2]);
        let mut sums = [by_k.len(), by_v.len()].map(|len| vec![T::Wide::default(); len]);
        let mut block = None;
        for (tile, rows) in tiles {
            if self.heads.visible_end(tile) <= from {
                continue;
            }
            let block = block.get_or_insert_with(|| self.block(tile, from, keys));
            let wides = self.wides(tile);
            let changes = self.changes(&wides, rows, block);
            let turned = |of| MatRef::dense(of, tile.rows, block.count).t();
            let [of_k, of_v] = &mut sums;
            // The queries have the scale already.
            add(of_k, turned(&changes.scores), MatRef::dense(&wides.queries, tile.rows, width));
            let cotangents = MatRef::dense(&wides.cotangents, tile.rows, value_width);
            add(of_v, turned(&changes.weights), cotangents);
        }
        T::narrow_slice(&sums[0], by_k);
        T::narrow_slice(&sums[1], by_v);
    }
}

/// `out = a b`, on this thread.
fn set<W: Wide>(out: &mut [W], a: MatRef<'_, W>, b: MatRef<'_, W>) {
    let (zero, one) = (W::from_f64(0.0), W::from_f64(1.0));
    gemm(MatMut::dense(out, a.rows, b.cols), zero, a, b, one, false);
}

/// `out += a b`, on this thread.
fn add<W: Wide>(out: &mut [W], a: MatRef<'_, W>, b: MatRef<'_, W>) {
    let one = W::from_f64(1.0);
    gemm(MatMut::dense(out, a.rows, b.cols), one, a, b, one, false);
}
