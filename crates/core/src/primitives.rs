//! Primitives: what a node of the graph computes, as data.
//!
//! Every match over these enums is exhaustive, so that a new primitive does not compile until
//! each backend and transform has answered for it. Shapes and dtypes of results are not repeated
//! here: they stand in the outputs of the node.

use smallvec::SmallVec;

use crate::{Shape, Strides};

/// Elementwise functions of one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the variants are MLX's names of well-known functions")]
pub enum UnaryOp {
    Abs,
    Arccos,
    Arccosh,
    Arcsin,
    Arcsinh,
    Arctan,
    Arctanh,
    BitwiseInvert,
    Ceil,
    Conjugate,
    Cos,
    Cosh,
    Erf,
    Erfinv,
    Exp,
    Expm1,
    Floor,
    Imag,
    Log,
    Log10,
    Log1p,
    Log2,
    LogicalNot,
    Negative,
    Real,
    Round,
    Rsqrt,
    Sigmoid,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Square,
    Tan,
    Tanh,
}

impl UnaryOp {
    /// Every function, in declaration order.
    pub const ALL: [UnaryOp; 35] = {
        use UnaryOp::*;
        [
            Abs,
            Arccos,
            Arccosh,
            Arcsin,
            Arcsinh,
            Arctan,
            Arctanh,
            BitwiseInvert,
            Ceil,
            Conjugate,
            Cos,
            Cosh,
            Erf,
            Erfinv,
            Exp,
            Expm1,
            Floor,
            Imag,
            Log,
            Log10,
            Log1p,
            Log2,
            LogicalNot,
            Negative,
            Real,
            Round,
            Rsqrt,
            Sigmoid,
            Sign,
            Sin,
            Sinh,
            Sqrt,
            Square,
            Tan,
            Tanh,
        ]
    };
}

/// Elementwise functions of two arrays of the same dtype and shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the variants are MLX's names of well-known functions")]
pub enum BinaryOp {
    Add,
    Arctan2,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Divide,
    Equal,
    /// `floor(a / b)`; for integers rounded towards negative infinity is not MLX's rule: it
    /// truncates, as C does.
    FloorDivide,
    Greater,
    GreaterEqual,
    LeftShift,
    Less,
    LessEqual,
    LogAddExp,
    LogicalAnd,
    LogicalOr,
    Maximum,
    Minimum,
    Multiply,
    /// Equal, or both NaN.
    NanEqual,
    NotEqual,
    Power,
    /// With the sign of the divisor, as in Python.
    Remainder,
    RightShift,
    Subtract,
}

impl BinaryOp {
    /// Every function, in declaration order.
    pub const ALL: [BinaryOp; 25] = {
        use BinaryOp::*;
        [
            Add,
            Arctan2,
            BitwiseAnd,
            BitwiseOr,
            BitwiseXor,
            Divide,
            Equal,
            FloorDivide,
            Greater,
            GreaterEqual,
            LeftShift,
            Less,
            LessEqual,
            LogAddExp,
            LogicalAnd,
            LogicalOr,
            Maximum,
            Minimum,
            Multiply,
            NanEqual,
            NotEqual,
            Power,
            Remainder,
            RightShift,
            Subtract,
        ]
    };

    /// Whether the result is bool whatever the operands are.
    pub const fn is_predicate(self) -> bool {
        use BinaryOp::*;
        matches!(
            self,
            Equal
                | Greater
                | GreaterEqual
                | Less
                | LessEqual
                | LogicalAnd
                | LogicalOr
                | NanEqual
                | NotEqual
        )
    }
}

/// Reductions over axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ReduceOp {
    /// All nonzero; the result is bool.
    All,
    /// Any nonzero; the result is bool.
    Any,
    /// Largest; NaN if there is one.
    Max,
    /// Smallest; NaN if there is one.
    Min,
    /// Product.
    Prod,
    /// Sum.
    Sum,
}

/// Index of an extreme element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ArgReduceOp {
    /// First index of the largest element.
    ArgMax,
    /// First index of the smallest element.
    ArgMin,
}

/// Cumulative reductions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ScanOp {
    /// Running maximum.
    Max,
    /// Running minimum.
    Min,
    /// Running product.
    Prod,
    /// Running sum.
    Sum,
    /// Running log of the sum of exponentials.
    LogAddExp,
}

/// How an update joins what lies at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ScatterOp {
    /// It replaces it; of several updates of one place, one.
    Assign,
    /// Sum; logical or for bool.
    Sum,
    /// Product; logical and for bool.
    Prod,
    /// The larger one; NaN if either is.
    Max,
    /// The smaller one; NaN if either is.
    Min,
}

/// Parameters of affine quantization: `w = scale * q + bias`, one pair per group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Affine {
    /// Elements of the last axis that share a scale and a bias: 32, 64 or 128.
    pub group_size: usize,
    /// Bits per element: 2, 3, 4, 5, 6 or 8.
    pub bits: usize,
}

impl Affine {
    /// 32-bit words that hold `columns` quantized elements, packed without gaps from the lowest
    /// bit up (3, 5 and 6 bits straddle words).
    pub const fn packed_words(self, columns: usize) -> usize {
        columns * self.bits / 32
    }
}

/// Rotary position embedding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Features that are rotated; the rest is copied.
    pub dims: usize,
    /// Rotate neighbouring pairs instead of the two halves.
    pub traditional: bool,
    /// Base of the frequencies `base^(-2i/dims)`; `None` when they are the third input
    /// (then the angle is `position / freqs[i]`).
    pub base: Option<f32>,
    /// Scale of the positions.
    pub scale: f32,
}

/// Numbers per spatial axis.
pub type Spatial<T> = SmallVec<[T; 3]>;

/// Parameters of a convolution of channels-last arrays, per spatial axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convolution {
    /// Distance of neighbouring windows.
    pub stride: Spatial<usize>,
    /// Zeros before the input.
    pub padding_low: Spatial<usize>,
    /// Zeros after the input.
    pub padding_high: Spatial<usize>,
    /// Distance of a window's elements.
    pub kernel_dilation: Spatial<usize>,
    /// Distance that the input's elements are spread to.
    pub input_dilation: Spatial<usize>,
    /// Groups of channels that do not mix.
    pub groups: usize,
    /// The weight is flipped along the spatial axes.
    pub flip: bool,
}

/// A Hadamard transform of `m * power` elements: the Kronecker product of a Hadamard matrix of
/// order `m` with Sylvester's of order `power`, times `scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hadamard {
    /// Order of the first factor: 1, 12, 20 or 28.
    pub m: usize,
    /// Order of the second factor, a power of two.
    pub power: usize,
    /// Factor of the result.
    pub scale: f32,
}

impl Hadamard {
    /// The transform of `n` elements, if there is one.
    pub fn of(n: usize, scale: f32) -> Option<Hadamard> {
        let fits = |&m: &usize| n.is_multiple_of(m) && (n / m).is_power_of_two();
        [1, 12, 20, 28].into_iter().find(fits).map(|m| Hadamard { m, power: n / m, scale })
    }

    /// Signs of row `row` of the matrix of order `m`: bit `i` is set where element `i` is -1.
    /// The matrices are Sloane's had.12, had.20.pal and had.28.pal2
    /// (<http://neilsloane.com/hadamard/>), those of MLX.
    pub fn signs(self) -> &'static [u32] {
        match self.m {
            12 => &HADAMARD_12,
            20 => &HADAMARD_20,
            28 => &HADAMARD_28,
            _ => &[0],
        }
    }
}

/// A discrete Fourier transform of some axes, not scaled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fft {
    /// The axes; where one side is real, it is halved along the last of them.
    pub axes: Axes,
    /// With positive exponents, divided by the number of elements.
    pub inverse: bool,
    /// The input (of the inverse: the output) is real, and the other side has the first half of the
    /// conjugate-symmetric coefficients.
    pub real: bool,
}

/// Decompositions of the matrices of the last two axes; they run on CPU streams only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Linalg {
    /// Inverse of square matrices.
    Inverse,
    /// Inverse of triangular matrices.
    TriangularInverse {
        /// The upper triangle is meant.
        upper: bool,
    },
    /// Cholesky factor.
    Cholesky {
        /// The upper triangular one.
        upper: bool,
    },
    /// Outputs `q` and `r`.
    Qr,
    /// Outputs `u`, singular values, `vᵀ`; without vectors the singular values alone.
    Svd {
        /// With singular vectors.
        vectors: bool,
    },
    /// Outputs eigenvalues and eigenvectors of self-adjoint matrices.
    Eigh {
        /// The upper triangle is looked at.
        upper: bool,
        /// With eigenvectors.
        vectors: bool,
    },
    /// Outputs eigenvalues and eigenvectors.
    Eig {
        /// With eigenvectors.
        vectors: bool,
    },
    /// Outputs the factors in one array, the pivots, and the rows that they exchange in all.
    Lu,
}

/// What masks the scores of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttentionMask {
    /// Nothing.
    None,
    /// Query `i` of `n` sees keys up to `i + keys - n`.
    Causal,
    /// The fourth input: bool (true is kept) or additive, broadcastable to the scores.
    Array,
}

/// Axes, each in `0..ndim`.
pub type Axes = SmallVec<[usize; 4]>;
/// Per-axis integers of slices.
pub type Indices = SmallVec<[isize; 4]>;

/// What a node computes. Inputs are named in the order in which the node holds them.
#[derive(Debug, Clone, PartialEq)]
pub enum Primitive {
    /// Elementwise function of one array.
    Unary(UnaryOp),
    /// Elementwise function of `a`, `b`, which have the output's shape.
    Binary(BinaryOp),
    /// `condition ? a : b`, all of the output's shape; the condition is bool.
    Select,
    /// Conversion to the output's dtype.
    AsType,
    /// `start + i * step` as the output's dtype.
    Arange {
        /// First value.
        start: f64,
        /// Distance of neighbours.
        step: f64,
    },
    /// A dense array filled from an input that broadcasts to the output's shape.
    Full,
    /// A dense copy; the input itself where it is dense already.
    Contiguous {
        /// Column-major counts as dense too.
        allow_col_major: bool,
    },
    /// The same bytes as the output's dtype.
    View,
    /// The same elements in the output's shape; a view where strides allow.
    Reshape,
    /// View with permuted axes: output axis `i` is input axis `axes[i]`.
    Transpose {
        /// The permutation.
        axes: Axes,
    },
    /// View with axes of size 1 or missing leading axes repeated to the output's shape.
    Broadcast,
    /// View with new axes of size 1 at these places of the output.
    ExpandDims {
        /// Places in the output.
        axes: Axes,
    },
    /// View without these axes of size 1.
    Squeeze {
        /// Axes of the input.
        axes: Axes,
    },
    /// View of the flattened input with any strides.
    AsStrided {
        /// Strides in elements.
        strides: Strides,
        /// First element.
        offset: usize,
    },
    /// View of every `strides[i]`-th element from `start[i]`.
    Slice {
        /// First index of each axis.
        start: Indices,
        /// Steps, may be negative.
        strides: Indices,
    },
    /// A copy of the first input with a slice of it replaced by the second.
    SliceUpdate {
        /// First index of each axis.
        start: Indices,
        /// Steps, may be negative.
        strides: Indices,
    },
    /// The inputs one after the other along an axis.
    Concatenate {
        /// The axis.
        axis: usize,
    },
    /// Reduction over axes, which stay with size 1.
    Reduce {
        /// Which reduction.
        op: ReduceOp,
        /// Axes, ascending.
        axes: Axes,
    },
    /// Index of an extreme element along an axis, which stays with size 1; the output is uint32.
    ArgReduce {
        /// Which extreme.
        op: ArgReduceOp,
        /// The axis.
        axis: usize,
    },
    /// Cumulative reduction along an axis.
    Scan {
        /// Which reduction.
        op: ScanOp,
        /// The axis.
        axis: usize,
        /// From the end.
        reverse: bool,
        /// The i-th output includes the i-th input.
        inclusive: bool,
    },
    /// Ascending order along an axis; NaN last.
    Sort {
        /// The axis.
        axis: usize,
    },
    /// Indices (uint32) of the stable ascending order along an axis; NaN last.
    ArgSort {
        /// The axis.
        axis: usize,
    },
    /// An order along an axis in which element `kth` is in its sorted place.
    Partition {
        /// The place.
        kth: usize,
        /// The axis.
        axis: usize,
    },
    /// Indices (uint32) of such an order.
    ArgPartition {
        /// The place.
        kth: usize,
        /// The axis.
        axis: usize,
    },
    /// Softmax over the last axis.
    Softmax {
        /// Accumulate half precision in float32.
        precise: bool,
    },
    /// Log of the sum of exponentials over the last axis, which stays with size 1.
    LogSumExp,
    /// Slices of the first input along `axis` at the second input's integer indices, whose axes
    /// replace it; negative indices count from the end.
    Take {
        /// The axis.
        axis: usize,
    },
    /// Elements of the first input at the second input's indices along `axis`; the other axes
    /// match.
    TakeAlongAxis {
        /// The axis.
        axis: usize,
    },
    /// Slices of the first input at the other inputs' indices into `axes`, which are all of one
    /// integer dtype and shape; the output's axes are the indices', then the slices'. Negative
    /// indices count from the end.
    Gather {
        /// The axis of each array of indices.
        axes: Axes,
        /// Sizes of a slice, one for each axis of the first input.
        slice_sizes: Shape,
    },
    /// The first input with the last one's slices joined to it at the indices between them, as
    /// [`Primitive::Gather`] reads them. Updates that lie outside are left out.
    Scatter {
        /// How updates join.
        op: ScatterOp,
        /// The axis of each array of indices.
        axes: Axes,
    },
    /// The first input with elements of the third one joined to it at the second one's indices
    /// along `axis`; the other axes match.
    ScatterAxis {
        /// How updates join.
        op: ScatterOp,
        /// The axis.
        axis: usize,
    },
    /// Places (uint32) in the first input, which is sorted and has one axis, before which the
    /// second one's elements belong.
    SearchSorted {
        /// Behind equal elements instead of before them.
        right: bool,
    },
    /// Matrix product of the last two axes; the batch axes match.
    Matmul,
    /// `alpha * (a @ b) + beta * c`; inputs `a`, `b`, `c`, where `c` has the output's shape.
    AddMm {
        /// Factor of the product.
        alpha: f32,
        /// Factor of `c`.
        beta: f32,
    },
    /// Products of matrices picked from both operands: inputs `a`, `b`, and uint32 indices of their
    /// matrices, which have the batch axes of the output.
    GatherMm {
        /// The indices of `a` ascend.
        left_sorted: bool,
        /// The indices of `b` ascend.
        right_sorted: bool,
    },
    /// `a[:, start..end] @ b[start..end, :]` for uint32 pairs: inputs `a`, `b`, segments (…, 2).
    SegmentedMm,
    /// Convolution: inputs (batch, spatial…, channels) and weight (outputs, spatial…, channels of a
    /// group).
    Convolution(Box<Convolution>),
    /// Fourier transform; the output is complex64, or float32 where the inverse is real.
    Fft(Fft),
    /// Hadamard transform of the last axis.
    Hadamard(Hadamard),
    /// Decomposition of the matrices of the last two axes.
    Linalg(Linalg),
    /// Affine quantization of the last axis: outputs packed uint32 words, scales, biases.
    Quantize(Affine),
    /// Undoes [`Primitive::Quantize`]: inputs words, scales, biases.
    Dequantize(Affine),
    /// `x @ w` with quantized `w`: inputs `x`, words, scales, biases.
    QuantizedMatmul {
        /// How `w` is quantized; always along its last axis.
        affine: Affine,
        /// `w` is (outputs, inputs) and used transposed.
        transpose: bool,
    },
    /// Products of matrices picked from `x` and quantized `w`: inputs `x`, words, scales, biases, and
    /// uint32 indices of their matrices, which have the batch axes of the output.
    GatherQmm {
        /// How `w` is quantized; always along its last axis.
        affine: Affine,
        /// Matrices of `w` are (outputs, inputs) and used transposed.
        transpose: bool,
        /// The indices of `x` ascend.
        left_sorted: bool,
        /// The indices of `w` ascend.
        right_sorted: bool,
    },
    /// `x / sqrt(mean(x²) + eps) * weight` over the last axis: inputs `x`, weight of its size or
    /// a scalar one.
    RmsNorm {
        /// Added to the mean square.
        eps: f32,
    },
    /// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis: inputs `x`, weight,
    /// bias, each of its size or scalar.
    LayerNorm {
        /// Added to the variance.
        eps: f32,
    },
    /// Rotary embedding: inputs `x` (batch, …, positions, features), offset (int32 scalar or one
    /// per batch), and the frequencies if `base` is `None`.
    Rope(Rope),
    /// Softmax attention: inputs queries (batch, heads, n, d), keys (batch, kv heads, m, d), values
    /// (batch, kv heads, m, dv), and the mask if it is an array.
    ScaledDotProductAttention {
        /// Factor of the scores.
        scale: f32,
        /// What masks the scores.
        mask: AttentionMask,
    },
    /// Threefry bits: input keys (…, 2) uint32; the output appends its own axes.
    RandomBits {
        /// Bytes per number: 1, 2 or 4.
        width: usize,
    },
}

impl Primitive {
    /// MLX's name of the primitive.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unary(op) => unary_name(*op),
            Self::Binary(op) => binary_name(*op),
            Self::Select => "Select",
            Self::AsType => "AsType",
            Self::Arange { .. } => "Arange",
            Self::Full => "Full",
            Self::Contiguous { .. } => "Contiguous",
            Self::View => "View",
            Self::Reshape => "Reshape",
            Self::Transpose { .. } => "Transpose",
            Self::Broadcast => "Broadcast",
            Self::ExpandDims { .. } => "ExpandDims",
            Self::Squeeze { .. } => "Squeeze",
            Self::AsStrided { .. } => "AsStrided",
            Self::Slice { .. } => "Slice",
            Self::SliceUpdate { .. } => "SliceUpdate",
            Self::Concatenate { .. } => "Concatenate",
            Self::Reduce { op, .. } => match op {
                ReduceOp::All => "All",
                ReduceOp::Any => "Any",
                ReduceOp::Max => "Max",
                ReduceOp::Min => "Min",
                ReduceOp::Prod => "Prod",
                ReduceOp::Sum => "Sum",
            },
            Self::ArgReduce { op: ArgReduceOp::ArgMax, .. } => "ArgMax",
            Self::ArgReduce { op: ArgReduceOp::ArgMin, .. } => "ArgMin",
            Self::Scan { op, .. } => match op {
                ScanOp::Max => "CumMax",
                ScanOp::Min => "CumMin",
                ScanOp::Prod => "CumProd",
                ScanOp::Sum => "CumSum",
                ScanOp::LogAddExp => "LogCumSumExp",
            },
            Self::Sort { .. } => "Sort",
            Self::ArgSort { .. } => "ArgSort",
            Self::Partition { .. } => "Partition",
            Self::ArgPartition { .. } => "ArgPartition",
            Self::Softmax { .. } => "Softmax",
            Self::LogSumExp => "LogSumExp",
            Self::Take { .. } => "Take",
            Self::TakeAlongAxis { .. } => "TakeAlongAxis",
            Self::Gather { .. } => "Gather",
            Self::Scatter { .. } => "Scatter",
            Self::ScatterAxis { .. } => "ScatterAxis",
            Self::SearchSorted { .. } => "SearchSorted",
            Self::Matmul => "Matmul",
            Self::AddMm { .. } => "AddMM",
            Self::GatherMm { .. } => "GatherMM",
            Self::SegmentedMm => "SegmentedMM",
            Self::Convolution(_) => "Convolution",
            Self::Fft(_) => "FFT",
            Self::Hadamard(_) => "Hadamard",
            Self::Linalg(op) => match op {
                Linalg::Inverse | Linalg::TriangularInverse { .. } => "Inverse",
                Linalg::Cholesky { .. } => "Cholesky",
                Linalg::Qr => "QRF",
                Linalg::Svd { .. } => "SVD",
                Linalg::Eigh { .. } => "Eigh",
                Linalg::Eig { .. } => "Eig",
                Linalg::Lu => "LUF",
            },
            Self::Quantize(_) => "Quantize",
            Self::Dequantize(_) => "Dequantize",
            Self::QuantizedMatmul { .. } => "QuantizedMatmul",
            Self::GatherQmm { .. } => "GatherQMM",
            Self::RmsNorm { .. } => "RMSNorm",
            Self::LayerNorm { .. } => "LayerNorm",
            Self::Rope(_) => "RoPE",
            Self::ScaledDotProductAttention { .. } => "ScaledDotProductAttention",
            Self::RandomBits { .. } => "RandomBits",
        }
    }
}

fn unary_name(op: UnaryOp) -> &'static str {
    use UnaryOp::*;
    match op {
        Abs => "Abs",
        Arccos => "ArcCos",
        Arccosh => "ArcCosh",
        Arcsin => "ArcSin",
        Arcsinh => "ArcSinh",
        Arctan => "ArcTan",
        Arctanh => "ArcTanh",
        BitwiseInvert => "BitwiseInvert",
        Ceil => "Ceil",
        Conjugate => "Conjugate",
        Cos => "Cos",
        Cosh => "Cosh",
        Erf => "Erf",
        Erfinv => "ErfInv",
        Exp => "Exp",
        Expm1 => "Expm1",
        Floor => "Floor",
        Imag => "Imag",
        Log => "Log",
        Log10 => "Log10",
        Log1p => "Log1p",
        Log2 => "Log2",
        LogicalNot => "LogicalNot",
        Negative => "Negative",
        Real => "Real",
        Round => "Round",
        Rsqrt => "Rsqrt",
        Sigmoid => "Sigmoid",
        Sign => "Sign",
        Sin => "Sin",
        Sinh => "Sinh",
        Sqrt => "Sqrt",
        Square => "Square",
        Tan => "Tan",
        Tanh => "Tanh",
    }
}

fn binary_name(op: BinaryOp) -> &'static str {
    use BinaryOp::*;
    match op {
        Add => "Add",
        Arctan2 => "ArcTan2",
        BitwiseAnd => "BitwiseAnd",
        BitwiseOr => "BitwiseOr",
        BitwiseXor => "BitwiseXor",
        Divide => "Divide",
        Equal => "Equal",
        FloorDivide => "FloorDivide",
        Greater => "Greater",
        GreaterEqual => "GreaterEqual",
        LeftShift => "LeftShift",
        Less => "Less",
        LessEqual => "LessEqual",
        LogAddExp => "LogAddExp",
        LogicalAnd => "LogicalAnd",
        LogicalOr => "LogicalOr",
        Maximum => "Maximum",
        Minimum => "Minimum",
        Multiply => "Multiply",
        NanEqual => "NaNEqual",
        NotEqual => "NotEqual",
        Power => "Power",
        Remainder => "Remainder",
        RightShift => "RightShift",
        Subtract => "Subtract",
    }
}

const HADAMARD_12: [u32; 12] =
    [0x2, 0xaab, 0x3c8, 0x96e, 0xf20, 0x5ba, 0xc8c, 0x6e6, 0x23c, 0xb96, 0x8f0, 0xe5a];

const HADAMARD_20: [u32; 20] = [
    0x933de, 0x2e3bd, 0x5477b, 0xa0ef7, 0x499ef, 0x637c1, 0xc6ba2, 0x8d764, 0x1aee8, 0x359f0,
    0xfa53, 0x174a7, 0x26d4e, 0x45e9c, 0x83d39, 0xf7a6d, 0xef4fa, 0xdedd5, 0xbdf8b, 0x7bf36,
];

const HADAMARD_28: [u32; 28] = [
    0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f, 0xb467f43,
    0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1, 0x87fb325, 0xff66ca,
    0x1decd95, 0x39ddb2a, 0x71bf654, 0xe17eca9, 0xc2fd9d2, 0xfcf1299, 0xfbe2532, 0xf7c4ae4,
    0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c,
];
