//! What the fusing planner knows of an operation: its meaning, with addresses.

/// A dense matrix (outputs, inner) that a mat-vec multiplies with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Matrix {
    /// Packed words, or the elements of a matrix that is not quantized.
    pub(crate) words: u64,
    pub(crate) scales: u64,
    pub(crate) biases: u64,
    /// (rows, outputs).
    pub(crate) result: u64,
    pub(crate) outputs: u32,
}

/// How the elements of a matrix are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// Of `x`, of the result, and of the matrix or its scales.
    pub(crate) dtype: u32,
    /// Bits per element; 16 or 32 when not quantized.
    pub(crate) bits: u32,
    /// Elements that share a scale.
    pub(crate) group: u32,
}

/// `result = x @ matrixᵀ` for few rows. Reads: x, then the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatVec {
    pub(crate) x: u64,
    pub(crate) rows: u32,
    pub(crate) inner: u32,
    pub(crate) format: Format,
    pub(crate) matrix: Matrix,
}

/// RMS norm of whole rows with a weight per column. Reads: x, then the weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RmsNorm {
    pub(crate) x: u64,
    pub(crate) weight: u64,
    pub(crate) rows: u32,
    pub(crate) width: u32,
    pub(crate) dtype: u32,
    pub(crate) eps: f32,
}

/// An elementwise function of dense arrays of one dtype. Reads: its operands in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) function: Function,
    pub(crate) operands: [u64; 2],
    pub(crate) result: u64,
    pub(crate) count: u64,
    pub(crate) dtype: u32,
}

/// The functions that have a place in fused kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Add,
    Multiply,
    Sigmoid,
}

/// The meaning of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    MatVec(MatVec),
    RmsNorm(RmsNorm),
    Map(Map),
}
