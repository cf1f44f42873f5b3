//! Float32 as float16 with scales, for products on cooperative matrices (`scaled.glsl`): as exact as TF32, in
//! which upstream's CUDA backend multiplies by default, beside the norms of what is multiplied. What is far
//! smaller than the largest that shares its scale is less exact, or zero, where TF32 has all of its bits.
//!
//! Dense products have a scale for each row of the left operand and each column of the right one
//! (`matmul/lines.rs`). Convolutions and attention, whose elements are added up with those of many rows, have
//! one for each operand ([`whole`]).

pub(crate) mod whole;

use mlx_vulkan_core::{Dtype, Result, Strides, shape};

use super::{Ctx, Operand, fragment::fragment, operands::Dtypes, strided::Walk};
use crate::runtime::{
    capabilities::{Capabilities, Fragment},
    config::Config,
};

/// What the kernels read and write.
pub(crate) const DTYPES: Dtypes = Dtypes { operands: Dtype::Float16, result: Dtype::Float32 };

/// Multiplications from which a product gains. By what was measured on an H200: a float32 tile makes 20 to 30
/// TFLOP/s, a product of float16 200 to 300; the dispatches before it take some 10 µs.
const LEAST: usize = 1 << 26;

/// Elements of the largest operand: a bit more than two bytes of each lie in scratch memory.
pub(crate) const MOST: usize = 1 << 30;

/// Elements of an octet, which rows of the new matrices are made of.
pub(crate) const OCTET: usize = 8;

/// What cooperative matrices multiply for products in `dtype`, if these are float32 and may be made this way.
pub(crate) fn fragment_of(
    dtype: Dtype,
    multiplications: usize,
    leading: [i64; 2],
    caps: &Capabilities,
    config: &Config,
) -> Option<Fragment> {
    let gains = dtype == Dtype::Float32 && multiplications >= LEAST;
    if !gains || !config.enable_tf32 {
        return None;
    }
    fragment(DTYPES.operands, leading, caps, config)
}

/// A float32 operand: matrices of rows that are dense.
pub(crate) struct Source<'a> {
    pub at: Operand,
    /// From row to row.
    pub leading: i64,
    pub rows: usize,
    pub width: usize,
    /// Axes of matrices.
    pub shape: &'a [usize],
    /// Their strides.
    pub strides: Strides,
}

impl Source<'_> {
    /// One matrix without gaps.
    pub(crate) fn dense(at: Operand, rows: usize, width: usize) -> Source<'static> {
        Source { at, leading: width as i64, rows, width, shape: &[], strides: Strides::new() }
    }

    /// Octets of a row of the new matrices.
    pub(crate) fn octets(&self) -> usize {
        self.width.div_ceil(OCTET)
    }

    /// The axes along which matrices differ, and the strides that all axes have in the new operand, whose
    /// matrices have so many elements.
    pub(crate) fn without_repeats(&self, elements: usize) -> (Walk<1>, Strides) {
        let differs = |&(_, &stride): &(usize, &isize)| stride != 0;
        let axes = || self.shape.iter().copied().zip(&self.strides);
        let (shape, own): (Vec<usize>, Vec<isize>) = axes().filter(differs).unzip();
        let mut dense = shape::row_major_strides(&shape).into_iter();
        let strides = axes().map(|axis| {
            if differs(&axis) { dense.next().unwrap_or(0) * elements as isize } else { 0 }
        });
        (Walk::new(&shape, [&own]), strides.collect())
    }

    /// The number of axes of matrices and where the kernel finds them; none of a single matrix.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn axes(ctx: &mut Ctx<'_>, walk: &Walk<1>) -> Result<(u32, u64)> {
        match walk.count() {
            1 => Ok((0, 0)),
            _ => Ok((walk.ndim(), ctx.args(&walk.pack())?)),
        }
    }

    /// Whether whole octets of the matrices of `walk` are aligned.
    pub(crate) fn is_vector(&self, walk: &Walk<1>) -> bool {
        self.at.is_aligned(16)
            && self.leading % 4 == 0
            && walk.strides[0].iter().all(|stride| stride % 4 == 0)
    }
}
