//! Quantized weights as tasks see them: locked, with their strides, and tiles of them.

use std::borrow::Cow;

use mlx_vulkan_core::primitives::Affine;

use super::few;
use crate::{
    encoder::{Elements, In},
    float::Real,
    rows::RowStarts,
    simd::{self, Lanes},
};

/// Locked words, scales and biases.
pub(super) struct Weights<'a, T> {
    affine: Affine,
    words: &'a In,
    word_data: Elements<'a, u32>,
    /// The words in row-major order, where they do not lie in rows.
    dense_words: Option<Vec<u32>>,
    scales: &'a In,
    scale_data: Elements<'a, T>,
    biases: &'a In,
    bias_data: Elements<'a, T>,
}

impl<'a, T: Real> Weights<'a, T> {
    pub(super) fn lock(affine: Affine, words: &'a In, scales: &'a In, biases: &'a In) -> Self {
        let word_data = words.read::<u32>();
        let axes = words.shape.len();
        let strides = &words.layout.strides;
        let in_rows = strides[axes - 1] == 1 && strides[axes - 2] >= 0;
        let dense_words = (!in_rows).then(|| row_major(words, &word_data));
        Weights {
            affine,
            words,
            word_data,
            dense_words,
            scales,
            scale_data: scales.read(),
            biases,
            bias_data: biases.read(),
        }
    }

    /// The matrices of all batches.
    pub(super) fn view(&self) -> Matrices<'_, T> {
        let axes = self.words.shape.len();
        let (rows, word_count) = (self.words.shape[axes - 2], self.words.shape[axes - 1]);
        let (words, word_stride, word_starts) = match &self.dense_words {
            Some(dense) => {
                let batch = &self.words.shape[..axes - 2];
                let mut strides = mlx_vulkan_core::shape::row_major_strides(&self.words.shape);
                strides.truncate(axes - 2);
                (dense.as_slice(), word_count, RowStarts::of(batch, &strides, 0))
            }
            None => {
                let stride = self.words.layout.strides[axes - 2] as usize;
                (self.word_data.buffer(), stride, RowStarts::new(self.words, 2))
            }
        };
        Matrices {
            affine: self.affine,
            rows,
            columns: word_count * 32 / self.affine.bits,
            words,
            word_stride,
            starts: [word_starts, RowStarts::new(self.scales, 2), RowStarts::new(self.biases, 2)],
            scales: Parameters::new(self.scales, self.scale_data.buffer()),
            biases: Parameters::new(self.biases, self.bias_data.buffer()),
        }
    }
}

fn row_major(words: &In, data: &Elements<'_, u32>) -> Vec<u32> {
    let starts = RowStarts::new(words, 0);
    (0..starts.count).map(|i| data.buffer()[starts.at(i)]).collect()
}

/// Scales or biases of one matrix.
#[derive(Clone, Copy)]
struct Parameters<'a, T> {
    data: &'a [T],
    first: usize,
    row_stride: isize,
    stride: isize,
}

impl<'a, T: Real> Parameters<'a, T> {
    fn new(input: &In, data: &'a [T]) -> Self {
        let axes = input.shape.len();
        let strides = &input.layout.strides;
        Parameters { data, first: 0, row_stride: strides[axes - 2], stride: strides[axes - 1] }
    }

    /// A part of them as rows of neighbours: where they lie if they are, else copied.
    fn rows(&self, row: usize, rows: usize, group: usize, groups: usize) -> GroupRows<'a, T> {
        let at = |row: usize, group: usize| {
            let skip = row as isize * self.row_stride + group as isize * self.stride;
            self.first.wrapping_add_signed(skip)
        };
        if self.stride == 1 && self.row_stride >= 0 {
            let data = Cow::Borrowed(&self.data[at(row, group)..]);
            return GroupRows { data, stride: self.row_stride as usize };
        }
        let starts = (row..row + rows).flat_map(|r| (group..group + groups).map(move |g| at(r, g)));
        GroupRows { data: starts.map(|at| self.data[at]).collect(), stride: groups }
    }
}

/// Rows of scales or biases, `stride` elements apart.
struct GroupRows<'a, T: Real> {
    data: Cow<'a, [T]>,
    stride: usize,
}

impl<T: Lanes + Real> GroupRows<'_, T> {
    fn parameters(&self) -> simd::affine::Parameters<'_, T> {
        simd::affine::Parameters { data: &self.data, stride: self.stride }
    }
}

/// Quantized matrices, one per batch.
pub(super) struct Matrices<'a, T> {
    affine: Affine,
    pub(super) rows: usize,
    pub(super) columns: usize,
    words: &'a [u32],
    word_stride: usize,
    /// Starts of words, scales and biases.
    starts: [RowStarts; 3],
    scales: Parameters<'a, T>,
    biases: Parameters<'a, T>,
}

impl<'a, T: Real> Matrices<'a, T> {
    pub(super) fn batches(&self) -> usize {
        self.starts[0].count
    }

    pub(super) fn at(&self, batch: usize) -> Matrix<'a, T> {
        let [words, scales, biases] = self.starts.each_ref().map(|s| s.at(batch));
        Matrix {
            affine: self.affine,
            rows: self.rows,
            columns: self.columns,
            words: &self.words[words..],
            word_stride: self.word_stride,
            scales: Parameters { first: scales, ..self.scales },
            biases: Parameters { first: biases, ..self.biases },
        }
    }
}

/// One quantized matrix.
pub(super) struct Matrix<'a, T> {
    pub(super) affine: Affine,
    pub(super) rows: usize,
    pub(super) columns: usize,
    words: &'a [u32],
    word_stride: usize,
    scales: Parameters<'a, T>,
    biases: Parameters<'a, T>,
}

impl<'a, T: Real> Matrix<'a, T> {
    /// Rows `row` to `row + rows` and columns `column` to `column + columns`, which are multiples
    /// of the group size.
    pub(super) fn tile(
        &self,
        row: usize,
        rows: usize,
        column: usize,
        columns: usize,
    ) -> Tile<'a, T> {
        let (group, groups) = (column / self.affine.group_size, columns / self.affine.group_size);
        Tile {
            affine: self.affine,
            words: &self.words[row * self.word_stride + self.affine.packed_words(column)..],
            stride: self.word_stride,
            columns,
            scales: self.scales.rows(row, rows, group, groups),
            biases: self.biases.rows(row, rows, group, groups),
        }
    }
}

/// Part of a matrix.
pub(super) struct Tile<'a, T: Real> {
    affine: Affine,
    words: &'a [u32],
    stride: usize,
    columns: usize,
    scales: GroupRows<'a, T>,
    biases: GroupRows<'a, T>,
}

impl<T: Lanes + Real> Tile<'_, T> {
    pub(super) fn quantized(&self) -> simd::affine::Quantized<'_, T> {
        simd::affine::Quantized {
            affine: self.affine,
            words: self.words,
            stride: self.stride,
            columns: self.columns,
            scales: self.scales.parameters(),
            biases: self.biases.parameters(),
        }
    }
}

/// A type of scales, biases and activations to compute with quantized weights in.
pub(crate) trait Compute: Real {
    /// The weights of a tile, row-major.
    fn dequantize(tile: &Tile<'_, Self>, out: &mut [Self::Wide]);

    /// `out = x @ wᵀ` for few rows; false if there is no kernel for that.
    fn few(x: &[Self::Wide], w: &Matrix<'_, Self>, out: &mut [Self]) -> bool;
}

impl<T: Lanes + Real<Wide = f32>> Compute for T {
    fn dequantize(tile: &Tile<'_, T>, out: &mut [f32]) {
        simd::dispatch(simd::affine::Dequantize { w: tile.quantized(), out });
    }

    fn few(x: &[f32], w: &Matrix<'_, T>, out: &mut [T]) -> bool {
        few::transposed(x, w, out);
        true
    }
}

impl Compute for f64 {
    fn dequantize(tile: &Tile<'_, f64>, out: &mut [f64]) {
        let Affine { group_size, bits } = tile.affine;
        for (row, out) in out.chunks_exact_mut(tile.columns).enumerate() {
            let words = &tile.words[row * tile.stride..];
            let scales = &tile.scales.data[row * tile.scales.stride..];
            let biases = &tile.biases.data[row * tile.biases.stride..];
            for (c, out) in out.iter_mut().enumerate() {
                let group = c / group_size;
                *out = scales[group] * field(words, bits, c) as f64 + biases[group];
            }
        }
    }

    fn few(_: &[f64], _: &Matrix<'_, f64>, _: &mut [f64]) -> bool {
        false
    }
}

/// Field `i` of `bits` bits in words packed from the lowest bit up.
fn field(words: &[u32], bits: usize, i: usize) -> u32 {
    let (word, shift) = (i * bits / 32, i * bits % 32);
    let high = if shift + bits > 32 { words[word + 1] as u64 } else { 0 };
    ((high << 32 | words[word] as u64) >> shift) as u32 & ((1 << bits) - 1)
}
