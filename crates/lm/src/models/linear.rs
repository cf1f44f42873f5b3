//! A matrix product with weights as they are stored: dense or quantized.

use mlx::{Array, Dtype, Result, Tree, ops};

use super::weight::Weight;
use crate::lora::LowRank;

/// `x @ weightᵀ + bias`, and what an adapter adds.
#[derive(Clone, Tree)]
pub struct Linear {
    weight: Weight,
    bias: Option<Array>,
    low_rank: Option<LowRank>,
}

impl Linear {
    /// A matrix (out, in), and a bias (out).
    pub(crate) fn new(weight: Weight, bias: Option<Array>) -> Self {
        Self { weight, bias, low_rank: None }
    }

    /// The product with `x` (…, in): (…, out).
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        let y = self.weight.product(x)?;
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
        self.weight.rows(ids)
    }

    /// The matrix (out, in) in `dtype`, dequantized where it is quantized.
    ///
    /// # Errors
    /// When the array operations fail.
    pub(crate) fn matrix(&self, dtype: Dtype) -> Result<Array> {
        self.weight.matrices(dtype)
    }

    /// What is added to the products.
    pub(crate) fn bias(&self) -> Option<&Array> {
        self.bias.as_ref()
    }

    /// Dtype of products with inputs of the same dtype.
    pub fn dtype(&self) -> Dtype {
        self.weight.dtype()
    }
}
