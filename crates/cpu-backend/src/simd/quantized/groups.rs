//! What groups of packed elements have in common.

use mlx_vulkan_core::primitives::FpMode;

use super::{
    Activations,
    elements::{Bytes, E4m3, powers},
};
use crate::simd::{Isa, LANES, Lanes, lanes::partial};

/// Scales, and perhaps biases, of the groups of rows of weights; or of one row.
pub(crate) trait Groups: Copy {
    /// Those of one row, of so many groups.
    fn row(self, row: usize, groups: usize) -> Self;
    /// The scales of sixteen groups from `first` on, with as much behind them as kernels read.
    fn scales<I: Isa>(self, isa: I, first: usize) -> [f32; LANES + 8];
    /// The biases of these; zeros that leave what they are added to where there are none.
    fn biases<I: Isa>(self, isa: I, first: usize) -> [f32; LANES + 8];
    /// Adds every group's bias times its sum of activations.
    fn add_biases<I: Isa, const R: usize>(
        self,
        isa: I,
        x: &Activations,
        at: usize,
        acc: &mut [I::F; R],
    );
}

/// One parameter of the groups of rows of weights.
#[derive(Clone, Copy)]
pub(crate) struct Parameters<'a, T> {
    pub(crate) data: &'a [T],
    /// Elements between rows.
    pub(crate) stride: usize,
}

impl<T: Copy> Parameters<'_, T> {
    #[inline(always)]
    fn row(self, row: usize, groups: usize) -> Self {
        Parameters { data: &self.data[row * self.stride..][..groups], ..self }
    }
}

/// Those of the affine format.
#[derive(Clone, Copy)]
pub(crate) struct AffineGroups<'a, T> {
    pub(crate) scales: Parameters<'a, T>,
    pub(crate) biases: Parameters<'a, T>,
}

/// Those of small floats.
#[derive(Clone, Copy)]
pub(crate) struct FloatScales<'a> {
    pub(crate) mode: FpMode,
    pub(crate) codes: Parameters<'a, u8>,
}

/// Sixteen elements from `at` on; zeros past the end.
#[inline(always)]
fn load_upto<I: Isa, T: Lanes>(isa: I, x: &[T], at: usize) -> I::F {
    match x[at..].first_chunk() {
        Some(x) => T::load(isa, x),
        None => T::load_upto(isa, &x[at..]),
    }
}

/// Sixteen numbers, with room behind them.
#[inline(always)]
fn sixteen<I: Isa>(isa: I, x: I::F) -> [f32; LANES + 8] {
    let mut out = [0.0; LANES + 8];
    isa.store(x, out.first_chunk_mut().expect("there is room for more"));
    out
}

impl<T: Lanes> Groups for AffineGroups<'_, T> {
    #[inline(always)]
    fn row(self, row: usize, groups: usize) -> Self {
        AffineGroups { scales: self.scales.row(row, groups), biases: self.biases.row(row, groups) }
    }

    #[inline(always)]
    fn scales<I: Isa>(self, isa: I, first: usize) -> [f32; LANES + 8] {
        sixteen(isa, load_upto(isa, self.scales.data, first))
    }

    #[inline(always)]
    fn biases<I: Isa>(self, isa: I, first: usize) -> [f32; LANES + 8] {
        sixteen(isa, load_upto(isa, self.biases.data, first))
    }

    #[inline(always)]
    fn add_biases<I: Isa, const R: usize>(
        self,
        isa: I,
        x: &Activations,
        at: usize,
        acc: &mut [I::F; R],
    ) {
        let biases = self.biases.data;
        for s in 0..biases.len().div_ceil(LANES) {
            let biases = load_upto(isa, biases, s * LANES);
            for (r, acc) in acc.iter_mut().enumerate() {
                *acc = isa.fma(isa.load(&x.sums(at + r)[s]), biases, *acc);
            }
        }
    }
}

impl Groups for FloatScales<'_> {
    #[inline(always)]
    fn row(self, row: usize, groups: usize) -> Self {
        FloatScales { codes: self.codes.row(row, groups), ..self }
    }

    #[inline(always)]
    fn scales<I: Isa>(self, isa: I, first: usize) -> [f32; LANES + 8] {
        let codes = match self.codes.data[first..].first_chunk() {
            Some(codes) => *codes,
            None => partial(&self.codes.data[first..]),
        };
        sixteen(
            isa,
            match self.mode {
                FpMode::Nvfp4 => E4m3::load(isa, &codes),
                FpMode::Mxfp4 | FpMode::Mxfp8 => powers(isa, &codes),
            },
        )
    }

    #[inline(always)]
    fn biases<I: Isa>(self, _isa: I, _first: usize) -> [f32; LANES + 8] {
        // What is added to it stays as it is, zeros with their sign.
        [-0.0; LANES + 8]
    }

    #[inline(always)]
    fn add_biases<I: Isa, const R: usize>(
        self,
        _isa: I,
        _x: &Activations,
        _at: usize,
        _acc: &mut [I::F; R],
    ) {
    }
}
