//! Operands of convolutions on cooperative matrices: their channels are neighbours, in whole octets that lie
//! on multiples of 16 bytes.

use mlx_vulkan_core::{
    Dtype, Result, Strides,
    shape::{is_row_contiguous, num_elements, row_major_strides},
};

use crate::kernels::{
    Ctx, Operand, Region,
    copy::{self, StridedOperand},
    scaled::{
        self, Source,
        whole::{self, Scaled},
    },
};

/// Elements of an octet.
const OCTET: usize = 8;

/// Bytes that 32-bit offsets of the kernels reach, with room for what they add.
const REACH: usize = 1 << 30;

/// An array as a convolution reads it: (batch, y, x, channels).
#[derive(Debug, Clone)]
pub(super) struct Pixels {
    pub at: Operand,
    pub dtype: Dtype,
    pub shape: [usize; 4],
    pub strides: [isize; 4],
}

impl Pixels {
    /// Whether the elements fit into what kernels reach.
    pub(super) fn is_near(&self) -> bool {
        let [n, y, x, c] = self.shape;
        [n, y, x, c.next_multiple_of(OCTET)].into_iter().fold(2, usize::saturating_mul) < REACH
    }

    fn elements(&self) -> usize {
        num_elements(&self.shape)
    }

    fn is_dense(&self) -> bool {
        is_row_contiguous(&self.shape, &self.strides)
    }

    /// Whether the kernels take it as it is.
    fn serves(&self) -> bool {
        let [.., channels] = self.shape;
        let span =
            |(&size, &stride): (&usize, &isize)| (size.max(1) - 1).saturating_mul(stride as usize);
        let (outer, last) = (&self.strides[..3], self.strides[3]);
        channels.is_multiple_of(OCTET)
            && last == 1
            && self.at.is_aligned(16)
            && outer.iter().all(|&s| s >= 0 && s % OCTET as isize == 0)
            && self.shape.iter().zip(outer).map(span).fold(0, usize::saturating_add) < REACH / 2
    }

    /// The same elements in rows of `channels`, which are zero where there were fewer.
    fn copied(&self, ctx: &mut Ctx<'_>, channels: usize) -> Result<Pixels> {
        let [n, y, x, own] = self.shape;
        let shape = [n, y, x, channels];
        let region = ctx.scratch((num_elements(&shape) * self.dtype.size()) as u64)?;
        let at = Operand { address: region.address, region };
        let strides: Strides = row_major_strides(&shape);
        if own != channels {
            let address = ctx.args(&[0; 16])?;
            let zero = Operand { address, region: Default::default() };
            let from = StridedOperand { at: zero, dtype: self.dtype, strides: &[0; 4] };
            let to = StridedOperand { at, dtype: self.dtype, strides: &strides };
            copy::copy(ctx, &shape, from, to)?;
        }
        let from = StridedOperand { at: self.at, dtype: self.dtype, strides: &self.strides };
        let to = StridedOperand { at, dtype: self.dtype, strides: &strides };
        copy::copy(ctx, &self.shape, from, to)?;
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| strides[i]);
        Ok(Pixels { at, dtype: self.dtype, shape, strides: [a, b, c, d] })
    }

    /// The same elements without gaps.
    fn dense(&self, ctx: &mut Ctx<'_>) -> Result<Pixels> {
        match self.is_dense() {
            true => Ok(self.clone()),
            false => self.copied(ctx, self.shape[3]),
        }
    }

    /// The same with batches for channels and channels for batches.
    pub(super) fn turned(mut self) -> Pixels {
        self.shape.swap(0, 3);
        self.strides.swap(0, 3);
        self
    }

    /// As rows of a dense matrix of whole octets, which channels make already.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(super) fn rows(&self, ctx: &mut Ctx<'_>) -> Result<Pixels> {
        match self.serves() && self.is_dense() {
            true => Ok(self.clone()),
            false => self.copied(ctx, self.shape[3]),
        }
    }

    /// In whole octets.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(super) fn octets(&self, ctx: &mut Ctx<'_>) -> Result<Pixels> {
        match self.serves() {
            true => Ok(self.clone()),
            false => self.copied(ctx, self.shape[3].next_multiple_of(OCTET)),
        }
    }

    /// Dense rows of channels, one for each pixel.
    fn source(&self) -> Source<'static> {
        let width = self.shape[3];
        let rows = self.elements() / width.max(1);
        Source::dense(self.at, rows, width)
    }
}

/// Both operands of a convolution in float32 as whole octets of float16, and the factors of the result
/// (`scaled/whole.rs`).
///
/// # Errors
/// When memory or the device fails.
pub(super) fn scaled(ctx: &mut Ctx<'_>, pixels: [&Pixels; 2]) -> Result<(Pixels, Pixels, Region)> {
    let [from, by] = pixels;
    let dense = [from.dense(ctx)?, by.dense(ctx)?];
    let Scaled { at, factors, .. } = whole::convert(ctx, [dense[0].source(), dense[1].source()])?;
    Ok((halves(from.shape, at[0]), halves(by.shape, at[1]), factors))
}

/// Dense elements of float16 in whole octets.
fn halves([n, y, x, channels]: [usize; 4], at: Operand) -> Pixels {
    let shape = [n, y, x, channels.next_multiple_of(OCTET)];
    let strides = row_major_strides(&shape);
    let strides = [0, 1, 2, 3].map(|i| strides[i]);
    Pixels { at, dtype: scaled::DTYPES.operands, shape, strides }
}
