//! The support table: which primitive runs on which dtype, on which backend.

use mlx_vulkan_core::{
    Dtype, Result,
    backend::Backend,
    primitives::{
        Affine, ArgReduceOp, AttentionMask, BinaryOp, Convolution, Fft, Hadamard, Linalg,
        Primitive, ReduceOp, Rope, ScanOp, ScatterOp, Spatial, UnaryOp,
    },
    stream::Device,
};

pub use mlx_vulkan_core::backend::Support;

/// One cell of the table.
#[derive(Debug, Clone)]
pub struct Entry {
    /// An example of the primitive.
    pub primitive: Primitive,
    /// Dtype of the first input (of the output where there is none).
    pub dtype: Dtype,
    /// Name of the backend.
    pub backend: &'static str,
    /// What the backend does with it.
    pub support: Support,
}

/// One example of every primitive, for which the backends are asked.
pub fn primitives() -> Vec<Primitive> {
    let affine = Affine { group_size: 64, bits: 4 };
    let rope = Rope { dims: 64, traditional: false, base: Some(10000.0), scale: 1.0 };
    let mut all: Vec<Primitive> = UnaryOp::ALL.into_iter().map(Primitive::Unary).collect();
    all.extend(BinaryOp::ALL.into_iter().map(Primitive::Binary));
    all.extend(
        [ReduceOp::All, ReduceOp::Any, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod, ReduceOp::Sum]
            .map(|op| Primitive::Reduce { op, axes: [0].into_iter().collect() }),
    );
    all.extend(
        [ArgReduceOp::ArgMax, ArgReduceOp::ArgMin].map(|op| Primitive::ArgReduce { op, axis: 0 }),
    );
    all.extend(
        [ScanOp::Max, ScanOp::Min, ScanOp::Prod, ScanOp::Sum, ScanOp::LogAddExp]
            .map(|op| Primitive::Scan { op, axis: 0, reverse: false, inclusive: true }),
    );
    let scatter_ops =
        [ScatterOp::Assign, ScatterOp::Sum, ScatterOp::Prod, ScatterOp::Max, ScatterOp::Min];
    all.extend(scatter_ops.map(|op| Primitive::Scatter { op, axes: Default::default() }));
    all.extend([
        Primitive::Select,
        Primitive::AsType,
        Primitive::Arange { start: 0.0, step: 1.0 },
        Primitive::Full,
        Primitive::Contiguous { allow_col_major: false },
        Primitive::View,
        Primitive::Reshape,
        Primitive::Transpose { axes: Default::default() },
        Primitive::Broadcast,
        Primitive::ExpandDims { axes: Default::default() },
        Primitive::Squeeze { axes: Default::default() },
        Primitive::AsStrided { strides: Default::default(), offset: 0 },
        Primitive::Slice { start: Default::default(), strides: Default::default() },
        Primitive::SliceUpdate { start: Default::default(), strides: Default::default() },
        Primitive::Concatenate { axis: 0 },
        Primitive::Sort { axis: 0 },
        Primitive::ArgSort { axis: 0 },
        Primitive::Partition { kth: 0, axis: 0 },
        Primitive::ArgPartition { kth: 0, axis: 0 },
        Primitive::Softmax { precise: true },
        Primitive::LogSumExp,
        Primitive::Take { axis: 0 },
        Primitive::TakeAlongAxis { axis: 0 },
        Primitive::Gather { axes: Default::default(), slice_sizes: Default::default() },
        Primitive::ScatterAxis { op: ScatterOp::Assign, axis: 0 },
        Primitive::SearchSorted { right: false },
        Primitive::Matmul,
        Primitive::AddMm { alpha: 1.0, beta: 1.0 },
        Primitive::GatherMm { left_sorted: false, right_sorted: false },
        Primitive::SegmentedMm,
        Primitive::GatherQmm { affine, transpose: true, left_sorted: false, right_sorted: false },
        Primitive::Convolution(Box::new(Convolution {
            stride: Spatial::from_elem(1, 2),
            padding_low: Spatial::from_elem(0, 2),
            padding_high: Spatial::from_elem(0, 2),
            kernel_dilation: Spatial::from_elem(1, 2),
            input_dilation: Spatial::from_elem(1, 2),
            groups: 1,
            flip: false,
        })),
        Primitive::Fft(Fft { axes: [0].into_iter().collect(), inverse: false, real: false }),
        Primitive::Hadamard(Hadamard { m: 1, power: 2, scale: 1.0 }),
        Primitive::Linalg(Linalg::Inverse),
        Primitive::Linalg(Linalg::Cholesky { upper: false }),
        Primitive::Linalg(Linalg::Qr),
        Primitive::Linalg(Linalg::Svd { vectors: true }),
        Primitive::Linalg(Linalg::Eigh { upper: false, vectors: true }),
        Primitive::Linalg(Linalg::Eig { vectors: true }),
        Primitive::Linalg(Linalg::Lu),
        Primitive::Quantize(affine),
        Primitive::Dequantize(affine),
        Primitive::QuantizedMatmul { affine, transpose: true },
        Primitive::RmsNorm { eps: 1e-5 },
        Primitive::LayerNorm { eps: 1e-5 },
        Primitive::Rope(rope),
        Primitive::ScaledDotProductAttention { scale: 1.0, mask: AttentionMask::None },
        Primitive::RandomBits { width: 4 },
    ]);
    all
}

/// Whether operations ever build this primitive with this dtype, on any backend.
fn is_meaningful(primitive: &Primitive, dtype: Dtype) -> bool {
    use BinaryOp::*;
    match primitive {
        Primitive::Unary(op) => unary_takes(*op, dtype),
        Primitive::Binary(BitwiseAnd | BitwiseOr | BitwiseXor) => !dtype.is_inexact(),
        Primitive::Binary(LeftShift | RightShift) => dtype.is_integer(),
        Primitive::Binary(Arctan2) => dtype.is_floating(),
        Primitive::Binary(Divide | LogAddExp) => dtype.is_inexact(),
        Primitive::Binary(LogicalAnd | LogicalOr) => dtype == Dtype::Bool,
        Primitive::Binary(FloorDivide | Remainder) => dtype != Dtype::Complex64,
        Primitive::Reduce { op: ReduceOp::All | ReduceOp::Any, .. } => dtype == Dtype::Bool,
        Primitive::Arange { .. } => dtype != Dtype::Bool,
        Primitive::Scan { op: ScanOp::LogAddExp, .. } => dtype.is_inexact(),
        Primitive::Softmax { .. } | Primitive::LogSumExp => dtype.is_floating(),
        Primitive::Matmul | Primitive::AddMm { .. } => dtype.is_inexact(),
        Primitive::Fft(_) => dtype == Dtype::Complex64,
        Primitive::Linalg(Linalg::Svd { .. } | Linalg::Eigh { .. } | Linalg::Eig { .. }) => {
            matches!(dtype, Dtype::Float32 | Dtype::Float64 | Dtype::Complex64)
        }
        Primitive::Linalg(_) => matches!(dtype, Dtype::Float32 | Dtype::Float64),
        Primitive::GatherMm { .. }
        | Primitive::SegmentedMm
        | Primitive::GatherQmm { .. }
        | Primitive::Convolution(_)
        | Primitive::Hadamard(_)
        | Primitive::Quantize(_)
        | Primitive::QuantizedMatmul { .. }
        | Primitive::RmsNorm { .. }
        | Primitive::LayerNorm { .. }
        | Primitive::Rope(_)
        | Primitive::ScaledDotProductAttention { .. } => dtype.is_floating(),
        Primitive::Dequantize(_) | Primitive::RandomBits { .. } => dtype == Dtype::Uint32,
        _ => true,
    }
}

fn unary_takes(op: UnaryOp, dtype: Dtype) -> bool {
    use UnaryOp::*;
    match op {
        Abs | Negative => !matches!(dtype, Dtype::Bool),
        Sign | Square => true,
        BitwiseInvert => dtype.is_integer(),
        Ceil | Floor => dtype.is_floating(),
        Erf | Erfinv | Sigmoid | Expm1 => dtype.is_floating(),
        Conjugate | Imag | Real => dtype == Dtype::Complex64,
        LogicalNot => dtype == Dtype::Bool,
        _ => dtype.is_inexact(),
    }
}

/// Every cell of the table, for the installed backends.
///
/// # Errors
/// When no backend is installed.
pub fn table() -> Result<Vec<Entry>> {
    let backends: Vec<&dyn Backend> = [Device::CPU, Device::GPU]
        .into_iter()
        .filter_map(|d| mlx_vulkan_core::backend::backend_for(d).ok())
        .map(|b| &**b)
        .collect();
    let mut entries = Vec::new();
    for primitive in primitives() {
        for dtype in Dtype::ALL.into_iter().filter(|&d| is_meaningful(&primitive, d)) {
            entries.extend(backends.iter().map(|backend| Entry {
                primitive: primitive.clone(),
                dtype,
                backend: backend.name(),
                support: backend.support(&primitive, dtype),
            }));
        }
    }
    Ok(entries)
}
