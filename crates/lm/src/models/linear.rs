//! A matrix product with weights as they are stored: dense or quantized.

use mlx::{
    Array, Dtype, Result, Tree, ops,
    transforms::tree::{Path, Rebuilder, Visitor},
};

use crate::{config::Quantization, lora::LowRank};

/// `x @ weightᵀ + bias`, and what an adapter adds.
#[derive(Clone, Tree)]
pub struct Linear {
    weight: Weight,
    bias: Option<Array>,
    low_rank: Option<LowRank>,
}

#[derive(Clone)]
enum Weight {
    /// The matrix (out, in) and its transposed view.
    Dense { rows: Array, transposed: Array },
    /// Packed words (out, words) with a scale and a bias per group.
    Quantized { words: Array, scales: Array, biases: Array, format: Quantization },
}

impl Weight {
    fn dense(rows: Array) -> Result<Self> {
        let transposed = ops::transpose(&rows, &[1, 0])?;
        Ok(Self::Dense { rows, transposed })
    }
}

/// The transposed view is no weight of its own.
impl Tree for Weight {
    fn visit<'a>(&'a self, path: &Path<'_>, visit: &mut Visitor<'_, 'a>) {
        match self {
            Self::Dense { rows, .. } => visit(path, rows),
            Self::Quantized { words, scales, biases, .. } => {
                visit(&path.field(0, "words"), words);
                visit(&path.field(1, "scales"), scales);
                visit(&path.field(2, "biases"), biases);
            }
        }
    }

    fn rebuild(&self, path: &Path<'_>, rebuild: &mut Rebuilder<'_>) -> Result<Self> {
        match self {
            Self::Dense { rows, .. } => Self::dense(rebuild(path, rows)?),
            Self::Quantized { words, scales, biases, format } => Ok(Self::Quantized {
                words: rebuild(&path.field(0, "words"), words)?,
                scales: rebuild(&path.field(1, "scales"), scales)?,
                biases: rebuild(&path.field(2, "biases"), biases)?,
                format: *format,
            }),
        }
    }
}

impl Linear {
    /// Dense weights (out, in).
    ///
    /// # Errors
    /// When the weights are no matrix.
    pub fn dense(weight: Array, bias: Option<Array>) -> Result<Self> {
        Ok(Self { weight: Weight::dense(weight)?, bias, low_rank: None })
    }

    /// Quantized weights: packed words, scales and biases, each with one row per output.
    pub fn quantized(
        words: Array,
        scales: Array,
        biases: Array,
        format: Quantization,
        bias: Option<Array>,
    ) -> Self {
        Self { weight: Weight::Quantized { words, scales, biases, format }, bias, low_rank: None }
    }

    /// The product with `x` (…, in): (…, out).
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        let y = match &self.weight {
            Weight::Dense { transposed, .. } => ops::matmul(x, transposed)?,
            Weight::Quantized { words, scales, biases, format } => ops::quantized_matmul(
                x,
                words,
                scales,
                biases,
                true,
                format.group_size,
                format.bits,
            )?,
        };
        let y = match &self.bias {
            Some(bias) => ops::add(&y, bias)?,
            None => y,
        };
        match &self.low_rank {
            Some(low_rank) => low_rank.change(&y, x),
            None => Ok(y),
        }
    }

    /// Adds to all products what `low_rank` says, in place of what another one said.
    pub(crate) fn adapt(&mut self, low_rank: LowRank) {
        self.low_rank = Some(low_rank);
    }

    /// The rows of `ids`, as an embedding looks them up.
    ///
    /// # Errors
    /// When the ids are no integers.
    pub fn rows(&self, ids: &Array) -> Result<Array> {
        match &self.weight {
            Weight::Dense { rows, .. } => ops::take(rows, ids, 0),
            Weight::Quantized { words, scales, biases, format } => {
                let pick = |a: &Array| ops::take(a, ids, 0);
                let (words, scales, biases) = (pick(words)?, pick(scales)?, pick(biases)?);
                ops::dequantize(&words, &scales, &biases, format.group_size, format.bits)
            }
        }
    }

    /// The matrix (out, in) in `dtype`, dequantized where it is quantized.
    ///
    /// # Errors
    /// When the array operations fail.
    pub(crate) fn matrix(&self, dtype: Dtype) -> Result<Array> {
        match &self.weight {
            Weight::Dense { rows, .. } => ops::astype(rows, dtype),
            Weight::Quantized { words, scales, biases, format } => {
                // Dequantized in float32, so that each weight is rounded once.
                let wide = |a: &Array| ops::astype(a, Dtype::Float32);
                let (scales, biases) = (wide(scales)?, wide(biases)?);
                let rows =
                    ops::dequantize(words, &scales, &biases, format.group_size, format.bits)?;
                ops::astype(&rows, dtype)
            }
        }
    }

    /// What is added to the products.
    pub(crate) fn bias(&self) -> Option<&Array> {
        self.bias.as_ref()
    }

    /// Dtype of products with inputs of the same dtype.
    pub fn dtype(&self) -> Dtype {
        match &self.weight {
            Weight::Dense { rows, .. } => rows.dtype(),
            Weight::Quantized { scales, .. } => scales.dtype(),
        }
    }
}
