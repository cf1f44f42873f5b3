//! Quantized weights as tasks see them: locked, with their strides, and tiles of them.

use std::{borrow::Cow, marker::PhantomData};

use mlx_vulkan_core::{
    Element,
    primitives::{FpMode, Packing},
};

use super::few;
use crate::{
    encoder::{Elements, In},
    float::Real,
    rows::RowStarts,
    simd::{
        self, Lanes,
        quantized::{Activations, AffineGroups, FloatScales, Products, Quantized},
    },
};

/// What groups have besides words: `A` for each parameter of the affine format, `F` for the scales
/// of small floats.
#[derive(Clone, Copy)]
enum Groups<A, F> {
    Affine([A; 2]),
    Floats(FpMode, F),
}

impl<A, F> Groups<A, F> {
    /// The same of something made of each.
    fn map<'s, B, G>(
        &'s self,
        affine: impl Fn(&'s A) -> B,
        floats: impl Fn(&'s F) -> G,
    ) -> Groups<B, G> {
        match self {
            Self::Affine(pair) => Groups::Affine(pair.each_ref().map(affine)),
            Self::Floats(mode, scales) => Groups::Floats(*mode, floats(scales)),
        }
    }
}

/// A locked parameter.
struct Locked<'a, T> {
    input: &'a In,
    data: Elements<'a, T>,
}

impl<'a, T: Element> Locked<'a, T> {
    fn new(input: &'a In) -> Self {
        Locked { input, data: input.read() }
    }

    fn stacked(&self) -> Stacked<'_, T> {
        let parameters = Parameters::new(self.input, self.data.buffer());
        Stacked { starts: RowStarts::new(self.input, 2), parameters }
    }
}

/// Locked words, scales and biases.
pub(super) struct Weights<'a, T> {
    packing: Packing,
    words: &'a In,
    word_data: Elements<'a, u32>,
    /// The words in row-major order, where they do not lie in rows.
    dense_words: Option<Vec<u32>>,
    groups: Groups<Locked<'a, T>, Locked<'a, u8>>,
}

impl<'a, T: Real> Weights<'a, T> {
    /// Locks the parts of a matrix: words and scales, and biases if it is affine.
    pub(super) fn lock(packing: Packing, parts: &'a [In]) -> Self {
        let words = &parts[0];
        let word_data = words.read::<u32>();
        let axes = words.shape.len();
        let strides = &words.layout.strides;
        let in_rows = strides[axes - 1] == 1 && strides[axes - 2] >= 0;
        let dense_words = (!in_rows).then(|| row_major(words, &word_data));
        let groups = match packing {
            Packing::Affine(_) => Groups::Affine([&parts[1], &parts[2]].map(Locked::new)),
            Packing::Floats(mode) => Groups::Floats(mode, Locked::new(&parts[1])),
        };
        Weights { packing, words, word_data, dense_words, groups }
    }

    /// The matrices of all batches.
    pub(super) fn view(&self) -> Matrices<'_, T> {
        let axes = self.words.shape.len();
        let (rows, word_count) = (self.words.shape[axes - 2], self.words.shape[axes - 1]);
        let (words, word_stride, starts) = match &self.dense_words {
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
            packing: self.packing,
            rows,
            columns: word_count * 32 / self.packing.bits(),
            words,
            word_stride,
            starts,
            groups: self.groups.map(Locked::stacked, Locked::stacked),
        }
    }
}

fn row_major(words: &In, data: &Elements<'_, u32>) -> Vec<u32> {
    let starts = RowStarts::new(words, 0);
    (0..starts.count).map(|i| data.buffer()[starts.at(i)]).collect()
}

/// Scales or biases of all batches.
struct Stacked<'a, T> {
    starts: RowStarts,
    parameters: Parameters<'a, T>,
}

impl<'a, T: Copy> Stacked<'a, T> {
    fn at(&self, batch: usize) -> Parameters<'a, T> {
        Parameters { first: self.starts.at(batch), ..self.parameters }
    }
}

/// Scales or biases of one matrix.
#[derive(Clone, Copy)]
struct Parameters<'a, T> {
    data: &'a [T],
    first: usize,
    row_stride: isize,
    stride: isize,
}

impl<'a, T: Copy> Parameters<'a, T> {
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
struct GroupRows<'a, T: Copy> {
    data: Cow<'a, [T]>,
    stride: usize,
}

impl<T: Copy> GroupRows<'_, T> {
    fn at(&self, row: usize, group: usize) -> T {
        self.data[row * self.stride + group]
    }

    fn parameters(&self) -> simd::quantized::Parameters<'_, T> {
        simd::quantized::Parameters { data: &self.data, stride: self.stride }
    }
}

/// Quantized matrices, one per batch.
pub(super) struct Matrices<'a, T> {
    packing: Packing,
    pub(super) rows: usize,
    pub(super) columns: usize,
    words: &'a [u32],
    word_stride: usize,
    /// Of words.
    starts: RowStarts,
    groups: Groups<Stacked<'a, T>, Stacked<'a, u8>>,
}

impl<'a, T: Real> Matrices<'a, T> {
    pub(super) fn batches(&self) -> usize {
        self.starts.count
    }

    pub(super) fn at(&self, batch: usize) -> Matrix<'a, T> {
        Matrix {
            packing: self.packing,
            rows: self.rows,
            columns: self.columns,
            words: &self.words[self.starts.at(batch)..],
            word_stride: self.word_stride,
            groups: self.groups.map(|g| g.at(batch), |g| g.at(batch)),
        }
    }
}

/// One quantized matrix.
pub(super) struct Matrix<'a, T> {
    pub(super) packing: Packing,
    pub(super) rows: usize,
    pub(super) columns: usize,
    words: &'a [u32],
    word_stride: usize,
    groups: Groups<Parameters<'a, T>, Parameters<'a, u8>>,
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
        let size = self.packing.group_size();
        let (group, groups) = (column / size, columns / size);
        Tile {
            packing: self.packing,
            words: &self.words[row * self.word_stride + self.packing.packed_words(column)..],
            stride: self.word_stride,
            columns,
            groups: self
                .groups
                .map(|p| p.rows(row, rows, group, groups), |p| p.rows(row, rows, group, groups)),
        }
    }
}

/// Part of a matrix.
pub(super) struct Tile<'a, T: Real> {
    packing: Packing,
    words: &'a [u32],
    stride: usize,
    columns: usize,
    groups: Groups<GroupRows<'a, T>, GroupRows<'a, u8>>,
}

impl<T: Lanes + Real> Tile<'_, T> {
    /// Products with activations, which a row of the tile has next to each other.
    pub(super) fn products(&self, x: &Activations, out: &mut [f32]) {
        let elements = PhantomData::<T>;
        match self.affine_or_floats() {
            Groups::Affine([scales, biases]) => {
                let w = self.quantized(AffineGroups { scales, biases });
                simd::dispatch(Products { x, w, out, elements });
            }
            Groups::Floats(mode, codes) => {
                let w = self.quantized(FloatScales { mode, codes });
                simd::dispatch(Products { x, w, out, elements });
            }
        }
    }

    /// All elements as float32.
    fn dequantize(&self, out: &mut [f32]) {
        use simd::quantized::Dequantize;
        match self.affine_or_floats() {
            Groups::Affine([scales, biases]) => {
                let w = self.quantized(AffineGroups { scales, biases });
                simd::dispatch(Dequantize { w, out });
            }
            Groups::Floats(mode, codes) => {
                simd::dispatch(Dequantize { w: self.quantized(FloatScales { mode, codes }), out });
            }
        }
    }

    fn affine_or_floats(
        &self,
    ) -> Groups<simd::quantized::Parameters<'_, T>, simd::quantized::Parameters<'_, u8>> {
        self.groups.map(GroupRows::parameters, GroupRows::parameters)
    }

    fn quantized<G>(&self, groups: G) -> Quantized<'_, G> {
        let Tile { packing, words, stride, columns, .. } = *self;
        Quantized { packing, words, stride, columns, groups }
    }
}

/// A type of activations to compute with quantized weights in.
pub(crate) trait Compute: Real {
    /// The weights of a tile, row-major.
    fn dequantize(tile: &Tile<'_, Self>, out: &mut [Self::Wide]);

    /// `out = x @ wᵀ` for few rows; false if there is no kernel for that.
    fn few(x: &[Self::Wide], w: &Matrix<'_, Self>, out: &mut [Self]) -> bool;
}

impl<T: Lanes + Real<Wide = f32>> Compute for T {
    fn dequantize(tile: &Tile<'_, T>, out: &mut [f32]) {
        tile.dequantize(out);
    }

    fn few(x: &[f32], w: &Matrix<'_, T>, out: &mut [T]) -> bool {
        few::transposed(x, w, out);
        true
    }
}

impl Compute for f64 {
    fn dequantize(tile: &Tile<'_, f64>, out: &mut [f64]) {
        let (size, bits) = (tile.packing.group_size(), tile.packing.bits());
        for (row, out) in out.chunks_exact_mut(tile.columns).enumerate() {
            let words = &tile.words[row * tile.stride..];
            for (c, out) in out.iter_mut().enumerate() {
                let (q, group) = (field(words, bits, c), c / size);
                *out = match &tile.groups {
                    Groups::Affine([scales, biases]) => {
                        scales.at(row, group) * q as f64 + biases.at(row, group)
                    }
                    Groups::Floats(mode, codes) => {
                        let scale = mode.scale(codes.at(row, group));
                        f64::from(mode.element(q as u8)) * f64::from(scale)
                    }
                };
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
