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
    /// Elements that share a scale; 1 when not quantized.
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

/// Rotary embedding of one token's heads, (heads, width) dense, all of each head. Reads: x, the offset, and the
/// frequencies if they are given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rope {
    pub(crate) x: u64,
    pub(crate) heads: u32,
    pub(crate) width: u32,
    pub(crate) dtype: u32,
    pub(crate) angle: Angle,
}

/// What angle a feature is rotated by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Angle {
    /// The position, an int32.
    pub(crate) offset: u64,
    /// Its buffer: small host values travel with each operation, to another address each time.
    pub(crate) offset_buffer: usize,
    /// Pairs of float32, or divisors.
    pub(crate) frequencies: u64,
    pub(crate) divisors: bool,
    pub(crate) traditional: bool,
    pub(crate) scale: f32,
}

impl Angle {
    /// Whether both rotate by the same angles.
    pub(crate) fn same(&self, other: &Angle) -> bool {
        Angle { offset: 0, ..*self } == Angle { offset: 0, ..*other }
    }
}

/// A row of every head, dense, to rows that are `step` elements apart. Reads: the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) to: u64,
    pub(crate) heads: u32,
    pub(crate) width: u32,
    pub(crate) step: u64,
    pub(crate) dtype: u32,
}

/// Attention of one query token without a mask. Reads: queries, keys, values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Attention {
    /// (heads, width), dense.
    pub(crate) q: u64,
    pub(crate) keys: u64,
    pub(crate) values: u64,
    /// (heads, width), dense.
    pub(crate) result: u64,
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) count: u32,
    pub(crate) width: u32,
    /// Strides of heads and rows, in elements, of the keys and of the values.
    pub(crate) steps: [u32; 4],
    pub(crate) scale: f32,
    pub(crate) dtype: u32,
    /// Shares of the keys, scratch memory for them, and zeroed counters of finished ones.
    pub(crate) splits: u32,
    pub(crate) parts: u64,
    pub(crate) counters: u64,
}

/// The meaning of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    Attention(Attention),
    Move(Move),
    Rope(Rope),
    MatVec(MatVec),
    RmsNorm(RmsNorm),
    Map(Map),
}
