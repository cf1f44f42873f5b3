//! A product of few rows with matrices that share them, as data.

use mlx_vulkan_core::{Dtype, primitives::Packing};

use super::planner::MatvecSizes;

/// The weights of one of the products, a dense matrix (outputs, inner), and where its result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Weights {
    /// Packed words, or the elements of a matrix that is not quantized.
    pub(crate) words: u64,
    pub(crate) scales: u64,
    pub(crate) biases: u64,
    /// (rows, outputs).
    pub(crate) result: u64,
    pub(crate) outputs: u32,
    /// What is added to each row of the result, before anything else.
    pub(crate) bias: Option<Bias>,
}

/// A bias (outputs), in the dtype of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bias {
    pub(crate) at: u64,
    /// The product is not rounded before.
    pub(crate) at_once: bool,
}

/// How the elements of a matrix are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Format {
    /// Of `x`, of the result, and of the matrix or its affine scales.
    pub(crate) dtype: u32,
    /// Bits per element; 16 or 32 when not quantized.
    pub(crate) bits: u32,
    /// Elements that share a scale; 1 when not quantized.
    pub(crate) group: u32,
    /// Elements are small floats, of which bits and group size tell the format.
    pub(crate) floats: bool,
}

impl Format {
    /// That of a matrix that is not quantized.
    pub(crate) fn dense(dtype: Dtype) -> Self {
        let bits = 8 * dtype.size() as u32;
        Format { dtype: dtype as u32, bits, group: 1, floats: false }
    }

    /// That of a quantized matrix, for products in `dtype`.
    pub(crate) fn packed(dtype: Dtype, packing: Packing) -> Self {
        let (bits, group) = (packing.bits() as u32, packing.group_size() as u32);
        Format { dtype: dtype as u32, bits, group, floats: packing.affine().is_none() }
    }

    /// Where scales and biases of a matrix are. What is not quantized has none: something that can be read.
    pub(crate) fn affine(&self, matrix: &Weights) -> [u64; 2] {
        let Weights { words, scales, biases, .. } = *matrix;
        if self.bits < 16 { [scales, biases] } else { [words; 2] }
    }

    /// Bytes of a row of so many elements, for products of 16-bit floats: of words, and of scales.
    pub(crate) fn row_bytes(&self, inner: u32) -> [u32; 2] {
        let scale_bytes = match self.bits {
            16.. => 0,
            _ if self.floats => 1,
            _ => 2,
        };
        [inner * self.bits / 8, inner / self.group * scale_bytes]
    }
}

/// RMS norm of the rows, with a weight per column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Norm {
    pub(crate) weight: u64,
    pub(crate) eps: f32,
}

/// Before anything else, the rows are normalized, multiplied with a weight per column and added to residuals.
/// This sum takes their place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowSum {
    pub(crate) norm: Norm,
    pub(crate) residual: u64,
    /// Where it goes, too; or 0.
    pub(crate) result: u64,
}

/// What happens to the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// They are stored.
    Nothing,
    /// What stands at this address is added.
    Residual(u64),
    /// Two matrices: `gate(first) * second`, stored as the first one's result.
    Gate(Gate),
}

/// How one result gates another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Silu,
    /// By tanh.
    Gelu,
}

impl After {
    /// Whether one matrix's results gate another's.
    pub(crate) fn is_gate(self) -> bool {
        matches!(self, After::Gate(_))
    }
}

/// Most matrices of a dispatch.
pub(crate) const MOST_MATRICES: usize = 3;

/// `x @ matrixᵀ` of rows and up to [`MOST_MATRICES`] matrices, with what comes before and after.
#[derive(Debug, Clone)]
pub(crate) struct Fused {
    /// The rows; with a sum or a norm, the input of that.
    pub(crate) x: u64,
    pub(crate) rows: u32,
    pub(crate) inner: u32,
    pub(crate) format: Format,
    /// The first `count` are used.
    pub(crate) matrices: [Weights; MOST_MATRICES],
    count: usize,
    pub(crate) sum: Option<RowSum>,
    pub(crate) norm: Option<Norm>,
    pub(crate) after: After,
}

impl Fused {
    /// A product without matrices yet.
    pub(crate) fn new(x: u64, rows: u32, inner: u32, format: Format) -> Self {
        let (sum, norm, after) = (None, None, After::Nothing);
        let matrices = [Weights::default(); MOST_MATRICES];
        Fused { x, rows, inner, format, matrices, count: 0, sum, norm, after }
    }

    /// A product with one matrix.
    pub(crate) fn of(x: u64, rows: usize, inner: usize, format: Format, matrix: Weights) -> Self {
        let mut fused = Self::new(x, rows as u32, inner as u32, format);
        fused.push(matrix);
        fused
    }

    /// Adds a matrix.
    ///
    /// # Panics
    /// When there are [`MOST_MATRICES`].
    pub(crate) fn push(&mut self, matrix: Weights) {
        self.matrices[self.count] = matrix;
        self.count += 1;
    }

    /// Those that there are.
    pub(crate) fn matrices(&self) -> &[Weights] {
        &self.matrices[..self.count]
    }

    /// Whether any of them has a bias.
    pub(crate) fn is_biased(&self) -> bool {
        self.matrices().iter().any(|matrix| matrix.bias.is_some())
    }

    /// Says where the `i`-th result goes.
    pub(crate) fn stored_at(&mut self, i: usize, result: u64) {
        self.matrices[i].result = result;
    }

    /// Its sizes, for planners.
    pub(crate) fn product(&self) -> MatvecSizes {
        let sets = if self.after.is_gate() { 2 } else { 1 };
        let outputs = self.matrices.map(|m| m.outputs);
        MatvecSizes { rows: self.rows, outputs, sets }
    }
}
