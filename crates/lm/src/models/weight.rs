//! Weights as they are stored: a matrix or a stack of them, dense or quantized.

use mlx::{
    Array, Dtype, Result, Tree, ops,
    ops::{FpMode, Picks},
    transforms::tree::{Path, Rebuilder, Visitor},
};

use crate::config::Quantization;

/// Matrices (…, out, in), and the products with them.
#[derive(Clone)]
pub(crate) enum Weight {
    /// The matrices and their transposed view (…, in, out).
    Dense { rows: Array, transposed: Array },
    /// Packed words (…, out, words) with a scale and a bias per group.
    Affine { words: Array, scales: Array, biases: Array, format: Quantization },
    /// Small floats in words (…, out, words) with a scale of 8 bits per group; rows become `dtype`.
    Floats { words: Array, scales: Array, mode: FpMode, dtype: Dtype },
}

/// The transposed view is no weight of its own.
impl Tree for Weight {
    fn visit<'a>(&'a self, path: &Path<'_>, visit: &mut Visitor<'_, 'a>) {
        match self {
            Self::Dense { rows, .. } => visit(path, rows),
            Self::Affine { words, scales, biases, .. } => {
                visit(&path.field(0, "words"), words);
                visit(&path.field(1, "scales"), scales);
                visit(&path.field(2, "biases"), biases);
            }
            Self::Floats { words, scales, .. } => {
                visit(&path.field(0, "words"), words);
                visit(&path.field(1, "scales"), scales);
            }
        }
    }

    fn rebuild(&self, path: &Path<'_>, rebuild: &mut Rebuilder<'_>) -> Result<Self> {
        match self {
            Self::Dense { rows, .. } => Self::dense(rebuild(path, rows)?),
            Self::Affine { words, scales, biases, format } => Ok(Self::Affine {
                words: rebuild(&path.field(0, "words"), words)?,
                scales: rebuild(&path.field(1, "scales"), scales)?,
                biases: rebuild(&path.field(2, "biases"), biases)?,
                format: *format,
            }),
            Self::Floats { words, scales, mode, dtype } => Ok(Self::Floats {
                words: rebuild(&path.field(0, "words"), words)?,
                scales: rebuild(&path.field(1, "scales"), scales)?,
                mode: *mode,
                dtype: *dtype,
            }),
        }
    }
}

impl Weight {
    /// Dense matrices (…, out, in).
    pub(crate) fn dense(rows: Array) -> Result<Self> {
        let transposed = ops::swapaxes(&rows, -1, -2)?;
        Ok(Self::Dense { rows, transposed })
    }

    /// Whether rows in any order pick matrices of this format and these sizes from a stack, on a device that
    /// serves such: those of 4 bits, with scales and biases or as mxfp4.
    pub(super) fn fits_any_order(&self) -> bool {
        let words = match self {
            Self::Affine { words, format, .. } if format.bits == 4 => words,
            Self::Floats { words, mode: FpMode::Mxfp4, dtype: Dtype::Bfloat16, .. } => words,
            _ => return false,
        };
        self.dtype().size() == 2 && words.dim(-2).is_multiple_of(16)
    }

    /// `x @ wᵀ` with one matrix: (…, in) to (…, out).
    pub(super) fn product(&self, x: &Array) -> Result<Array> {
        match self {
            Self::Dense { transposed, .. } => ops::matmul(x, transposed),
            Self::Affine { words, scales, biases, format } => {
                let Quantization { group_size, bits } = *format;
                ops::quantized_matmul(x, words, scales, biases, true, group_size, bits)
            }
            Self::Floats { words, scales, mode, .. } => {
                ops::fp_quantized_matmul(x, words, scales, true, *mode)
            }
        }
    }

    /// `x @ w[picked]ᵀ` with matrices of a stack: `x` (…, rows, in), whose leading axes broadcast with the
    /// indices' axes. `sorted` says that the indices ascend.
    pub(super) fn gathered_product(
        &self,
        x: &Array,
        picked: &Array,
        sorted: bool,
    ) -> Result<Array> {
        let picks = Picks { lhs: None, rhs: Some(picked), sorted };
        match self {
            Self::Dense { transposed, .. } => {
                ops::gather_mm(x, transposed, None, Some(picked), sorted)
            }
            Self::Affine { words, scales, biases, format } => {
                let Quantization { group_size, bits } = *format;
                ops::gather_qmm(x, words, scales, biases, picks, true, group_size, bits)
            }
            Self::Floats { words, scales, mode, .. } => {
                ops::fp_gather_qmm(x, words, scales, picks, true, *mode, None)
            }
        }
    }

    /// Matrices of the stack: the size of the first axis.
    pub(super) fn stacked(&self) -> usize {
        match self {
            Self::Dense { rows, .. } => rows.dim(0),
            Self::Affine { words, .. } | Self::Floats { words, .. } => words.dim(0),
        }
    }

    /// The rows of `ids`, as an embedding looks them up.
    pub(super) fn rows(&self, ids: &Array) -> Result<Array> {
        let pick = |a: &Array| ops::take(a, ids, 0);
        match self {
            Self::Dense { rows, .. } => pick(rows),
            Self::Affine { words, scales, biases, format } => {
                let (words, scales, biases) = (pick(words)?, pick(scales)?, pick(biases)?);
                ops::dequantize(&words, &scales, &biases, format.group_size, format.bits)
            }
            Self::Floats { words, scales, mode, dtype } => {
                ops::fp_dequantize(&pick(words)?, &pick(scales)?, *mode, None, *dtype)
            }
        }
    }

    /// The matrices (…, out, in) in `dtype`, dequantized where they are quantized.
    pub(crate) fn matrices(&self, dtype: Dtype) -> Result<Array> {
        match self {
            Self::Dense { rows, .. } => ops::astype(rows, dtype),
            Self::Affine { words, scales, biases, format } => {
                // Dequantized in float32, so that each weight is rounded once.
                let wide = |a: &Array| ops::astype(a, Dtype::Float32);
                let (scales, biases) = (wide(scales)?, wide(biases)?);
                let rows =
                    ops::dequantize(words, &scales, &biases, format.group_size, format.bits)?;
                ops::astype(&rows, dtype)
            }
            Self::Floats { words, scales, mode, .. } => {
                ops::fp_dequantize(words, scales, *mode, None, dtype)
            }
        }
    }

    /// Dtype of products with inputs of the same dtype.
    pub(super) fn dtype(&self) -> Dtype {
        match self {
            Self::Dense { rows, .. } => rows.dtype(),
            Self::Affine { scales, .. } => scales.dtype(),
            Self::Floats { dtype, .. } => *dtype,
        }
    }
}
