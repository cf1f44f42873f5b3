//! How primitives of ours are written.

use std::ops::Range;

use smallvec::SmallVec;

use super::{composed, numbers};
use crate::{
    Array, DeviceType, Dtype, Result,
    export::Argument,
    primitives::{
        Arange, Attention, AttentionMask, Axes, BinaryOp, CopyOp, CustomKernel, IndexingOp, Linalg,
        MatmulOp, NormOp, Packing, PassOp, Primitive, QuantizedOp, Rope, Rule, ScatterOp, ShapeOp,
        SoftmaxOp, SortOp, Spec, TernaryOp, To, UnaryOp,
    },
};

/// A primitive where it is applied.
#[derive(Clone, Copy)]
pub(in crate::export) struct Applied<'a> {
    pub(in crate::export) primitive: &'a Primitive,
    pub(in crate::export) inputs: &'a [Spec],
    pub(in crate::export) outputs: &'a [Spec],
    pub(in crate::export) device: DeviceType,
}

/// What a primitive becomes in a file.
pub(in crate::export) enum Form<'a> {
    /// A primitive of upstream, on the same inputs.
    Named(&'static str, Vec<Argument>),
    /// The same, whose result has the dtype of the input and is converted.
    Converted(&'static str),
    /// Nothing: its outputs are these inputs.
    Passed(Range<usize>),
    /// What a function of the inputs is computed with.
    Composed(Composition<'a>),
    /// A primitive of upstream that runs on a GPU alone, which need not be here.
    OnGpu(&'static str, Vec<Argument>),
    /// Upstream writes nothing that computes it.
    Missing,
}

/// A function that computes the same as a primitive.
pub(in crate::export) type Composition<'a> = Box<dyn Fn(&[Array]) -> Result<Vec<Array>> + 'a>;

/// A primitive of upstream's with what it is made with.
macro_rules! named {
    ($name:expr $(, $argument:expr)* $(,)?) => {
        Form::Named($name, vec![$($argument),*])
    };
}

fn composed<'a>(fun: impl Fn(&[Array]) -> Result<Array> + 'a) -> Form<'a> {
    Form::Composed(Box::new(move |inputs| Ok(vec![fun(inputs)?])))
}

/// What a primitive becomes. Upstream's CPU has no kernels for the operations of `mx.fast`, nor one that
/// dequantizes: on the CPU they are written as what they are composed of.
pub(in crate::export) fn form<'a>(step: Applied<'a>) -> Form<'a> {
    use Argument::{Bool, Double, Dtype as Type, Float, Sizes};
    let on_cpu = step.device == DeviceType::Cpu;
    match step.primitive {
        Primitive::Pass(op) => pass(op, step.inputs.len()),
        // Upstream's absolute values of complex numbers are complex.
        Primitive::Unary(UnaryOp::Abs) if step.inputs[0].dtype == Dtype::Complex64 => {
            Form::Converted("Abs")
        }
        Primitive::Unary(op) => unary(*op),
        Primitive::Binary(op) => binary(*op),
        Primitive::Ternary(TernaryOp::Select) => named!("Select"),
        Primitive::Copy(op) => match *op {
            CopyOp::AsType { dtype } => named!("AsType", Type(dtype)),
            CopyOp::View { dtype } => named!("View", Type(dtype)),
            CopyOp::Full => named!("Full"),
            // Upstream writes no such copy. What joins one array is dense, and a scalar is.
            CopyOp::Contiguous { allow_col_major: false } if !step.inputs[0].shape.is_empty() => {
                named!("Concatenate", Argument::int(0))
            }
            CopyOp::Contiguous { .. } => Form::Passed(0..1),
        },
        Primitive::Shape(op) => shape(op, step),
        Primitive::Reduce(reduce) => {
            named!("Reduce", numbers::REDUCE.of(reduce.op), Argument::ints(&reduce.axes))
        }
        Primitive::ArgReduce(reduce) => {
            named!("ArgReduce", numbers::ARG_REDUCE.of(reduce.op), Argument::int(reduce.axis))
        }
        Primitive::Scan(scan) => {
            let (op, axis) = (numbers::SCAN.of(scan.op), Argument::int(scan.axis));
            named!("Scan", op, axis, Bool(scan.reverse), Bool(scan.inclusive))
        }
        Primitive::Sort(op) => sort(*op),
        Primitive::Softmax(SoftmaxOp::Softmax { precise }) => named!("Softmax", Bool(*precise)),
        Primitive::Softmax(SoftmaxOp::LogSumExp) => named!("LogSumExp"),
        Primitive::Indexing(op) => indexing(op),
        Primitive::Arange(arange) => {
            named!("Arange", Double(arange.start.0), Double(stop(arange)), Double(arange.step.0))
        }
        Primitive::Random(bits) => {
            named!("RandomBits", Argument::shape(&bits.shape), Argument::int(bits.width))
        }
        Primitive::Matmul(op) => match *op {
            MatmulOp::Matmul => named!("Matmul"),
            MatmulOp::AddMm { alpha, beta } => named!("AddMM", Float(alpha.0), Float(beta.0)),
            MatmulOp::GatherMm { left_sorted, right_sorted } => {
                named!("GatherMM", Bool(left_sorted), Bool(right_sorted))
            }
            MatmulOp::SegmentedMm => Form::Missing,
        },
        Primitive::Quantized(op) => quantized(*op, on_cpu),
        Primitive::Convolution(c) => {
            let lists =
                [&c.stride, &c.padding_low, &c.padding_high, &c.kernel_dilation, &c.input_dilation];
            let mut arguments = Vec::from(lists.map(|list| Argument::ints(list)));
            arguments.extend([Argument::int(c.groups), Bool(c.flip)]);
            Form::Named("Convolution", arguments)
        }
        Primitive::Norm(op) => norm(*op, step),
        Primitive::Rope(rope) if on_cpu => composed(|inputs| composed::rope(rope, inputs)),
        Primitive::Rope(Rope { dims, traditional, base, scale }) => {
            let base = Float(base.map_or(1.0, |base| base.0));
            let dims = Argument::int(*dims);
            named!("RoPE", dims, Bool(*traditional), base, Float(scale.0), Bool(true))
        }
        Primitive::Attention(attention) if on_cpu || !has_kernel(step.inputs) => {
            composed(|inputs| composed::attention(attention, inputs))
        }
        Primitive::Attention(Attention { scale, mask, sinks }) => {
            let causal = Bool(*mask == AttentionMask::Causal);
            let (sinks, logsumexp, fused) = (Bool(*sinks), Bool(false), Bool(false));
            named!("ScaledDotProductAttention", Float(scale.0), causal, sinks, logsumexp, fused)
        }
        // Upstream's takes the logarithms of sums that its attention gives besides; ours has no such output.
        Primitive::AttentionVjp(vjp) => {
            Form::Composed(Box::new(|inputs| Ok(vjp.derivatives(inputs)?.into_vec())))
        }
        // Upstream computes it by chunks of its own.
        Primitive::Delta(delta) => {
            Form::Composed(Box::new(|inputs| Ok(delta.composed(inputs)?.into_vec())))
        }
        Primitive::Fft(fft) => {
            let axes = Sizes(fft.axes.iter().map(|&axis| axis as u64).collect());
            let odd = fft.inverse && fft.real.is_some_and(|n| n % 2 == 1);
            named!("FFT", axes, Bool(fft.inverse), Bool(fft.real.is_some()), Bool(odd))
        }
        Primitive::Hadamard(hadamard) => named!("Hadamard", Float(hadamard.scale.0)),
        Primitive::Linalg(op) => linalg(*op),
        Primitive::Kernel(kernel) => Form::OnGpu("CustomKernel", custom_kernel(kernel)),
        Primitive::Load(_) => unreachable!("walks take arrays of files as they are"),
        Primitive::Compiled(program) => Form::Composed(Box::new(|inputs| {
            let mut outputs = vec![None; program.outputs.len()];
            program.expand(inputs, |primitive, inputs, output| {
                let value = crate::ops::node(primitive.clone(), inputs)?;
                if let Some(output) = output {
                    outputs[output] = Some(value.clone());
                }
                Ok(value)
            })?;
            Ok(outputs.into_iter().flatten().collect())
        })),
    }
}

fn custom_kernel(kernel: &CustomKernel) -> Vec<Argument> {
    use Argument::{Bool, Flags, Int, MaybeFloat, Scalars, Text};
    let threads = [kernel.grid, kernel.threadgroup].concat();
    let mut arguments = vec![Text(kernel.name.clone()), Text(kernel.source.clone())];
    arguments.extend(threads.into_iter().map(|count| Int(count.into())));
    arguments.extend([
        Flags(kernel.shape_infos.clone()),
        Bool(kernel.ensure_row_contiguous),
        MaybeFloat(kernel.init_value.map(|value| value.0)),
        Scalars(kernel.scalars.clone()),
        Bool(kernel.is_precompiled),
        Int(kernel.shared_memory.into()),
        numbers::MATH_MODE.of(kernel.math_mode),
    ]);
    arguments
}

fn pass<'a>(op: &PassOp, inputs: usize) -> Form<'a> {
    match op {
        PassOp::Copy => named!("Copy"),
        PassOp::StopGradient => named!("StopGradient"),
        PassOp::Depends { .. } => named!("Depends"),
        PassOp::Custom(_) => Form::Passed(op.passed(inputs)),
    }
}

fn unary<'a>(op: UnaryOp) -> Form<'a> {
    match op {
        UnaryOp::Log | UnaryOp::Log2 | UnaryOp::Log10 => named!("Log", numbers::LOG.of(op)),
        UnaryOp::Sqrt | UnaryOp::Rsqrt => named!("Sqrt", Argument::Bool(op == UnaryOp::Rsqrt)),
        UnaryOp::BitwiseInvert => composed(composed::invert),
        UnaryOp::Abs
        | UnaryOp::Arccos
        | UnaryOp::Arccosh
        | UnaryOp::Arcsin
        | UnaryOp::Arcsinh
        | UnaryOp::Arctan
        | UnaryOp::Arctanh
        | UnaryOp::Ceil
        | UnaryOp::Conjugate
        | UnaryOp::Cos
        | UnaryOp::Cosh
        | UnaryOp::Erf
        | UnaryOp::Erfinv
        | UnaryOp::Exp
        | UnaryOp::Expm1
        | UnaryOp::Floor
        | UnaryOp::Imag
        | UnaryOp::Log1p
        | UnaryOp::LogicalNot
        | UnaryOp::Negative
        | UnaryOp::Real
        | UnaryOp::Round
        | UnaryOp::Sigmoid
        | UnaryOp::Sign
        | UnaryOp::Sin
        | UnaryOp::Sinh
        | UnaryOp::Square
        | UnaryOp::Tan
        | UnaryOp::Tanh => named!(op.name()),
    }
}

fn binary<'a>(op: BinaryOp) -> Form<'a> {
    match op {
        BinaryOp::BitwiseAnd
        | BinaryOp::BitwiseOr
        | BinaryOp::BitwiseXor
        | BinaryOp::LeftShift
        | BinaryOp::RightShift => named!("BitwiseBinary", numbers::BITWISE.of(op)),
        BinaryOp::Equal | BinaryOp::NanEqual => {
            named!("Equal", Argument::Bool(op == BinaryOp::NanEqual))
        }
        BinaryOp::Add
        | BinaryOp::Arctan2
        | BinaryOp::Divide
        | BinaryOp::FloorDivide
        | BinaryOp::Greater
        | BinaryOp::GreaterEqual
        | BinaryOp::Less
        | BinaryOp::LessEqual
        | BinaryOp::LogAddExp
        | BinaryOp::LogicalAnd
        | BinaryOp::LogicalOr
        | BinaryOp::Maximum
        | BinaryOp::Minimum
        | BinaryOp::Multiply
        | BinaryOp::NotEqual
        | BinaryOp::Power
        | BinaryOp::Remainder
        | BinaryOp::Subtract => named!(op.name()),
    }
}

fn shape<'a>(op: &ShapeOp, step: Applied<'a>) -> Form<'a> {
    match op {
        ShapeOp::Reshape(To::Exact(shape)) => named!("Reshape", Argument::shape(shape)),
        ShapeOp::Reshape(To::Infer(sizes)) => named!("Reshape", signed(sizes)),
        ShapeOp::Reshape(To::Flatten { start, end }) => {
            named!("Flatten", Argument::int(*start), Argument::int(*end))
        }
        ShapeOp::Reshape(To::Unflatten { axis, sizes }) => {
            named!("Unflatten", Argument::int(*axis), signed(sizes))
        }
        ShapeOp::Transpose { axes } => named!("Transpose", Argument::ints(axes)),
        ShapeOp::Broadcast(Rule::Exact(_) | Rule::Joint) => {
            named!("Broadcast", Argument::shape(&step.outputs[0].shape))
        }
        ShapeOp::Broadcast(Rule::JointExcept(axes)) => {
            named!("BroadcastAxes", Argument::Ints(axes.iter().map(|&axis| axis as i64).collect()))
        }
        ShapeOp::NumberOfElements { axes, inverted, dtype } => {
            let (inverted, dtype) = (Argument::Bool(*inverted), Argument::Dtype(*dtype));
            named!("NumberOfElements", Argument::ints(axes), inverted, dtype)
        }
        ShapeOp::ExpandDims { axes } => named!("ExpandDims", Argument::ints(axes)),
        ShapeOp::Squeeze { axes } => named!("Squeeze", Argument::ints(axes)),
        ShapeOp::AsStrided { shape, strides, offset } => {
            let strides = Argument::Strides(strides.iter().map(|&s| s as i64).collect());
            named!("AsStrided", Argument::shape(shape), strides, Argument::Size(*offset as u64))
        }
        ShapeOp::Slice { start, strides, sizes } => {
            let [start, end, strides] = bounds(start, strides, sizes, &step.inputs[0].shape);
            named!("Slice", start, end, strides)
        }
        ShapeOp::SliceUpdate { start, strides } => {
            let [update, into] = [1, 0].map(|i| &step.inputs[i].shape);
            let [start, end, strides] = bounds(start, strides, update, into);
            named!("SliceUpdate", numbers::SCATTER.of(ScatterOp::Assign), start, end, strides)
        }
        ShapeOp::Pad { low, high } => {
            let axes: Axes = (0..low.len()).collect();
            named!("Pad", Argument::ints(&axes), Argument::shape(low), Argument::shape(high))
        }
        ShapeOp::Concatenate { axis } => named!("Concatenate", Argument::int(*axis)),
    }
}

/// Starts, ends and strides of a slice. An end before the first element is written as many elements lower as
/// the axis has, as Python says it.
fn bounds(start: &[isize], strides: &[isize], sizes: &[usize], of: &[usize]) -> [Argument; 3] {
    let end = |x: usize| {
        let last = start[x] as i64 + (sizes[x] as i64 - 1) * strides[x] as i64;
        match (sizes[x], last + strides[x].signum() as i64) {
            (0, _) => start[x] as i64,
            (_, end) if end < 0 => end - of[x] as i64,
            (_, end) => end,
        }
    };
    [signed(start), Argument::Shape((0..start.len()).map(end).collect()), signed(strides)]
}

/// Sizes or indices that may be negative.
fn signed(values: &[isize]) -> Argument {
    Argument::Shape(values.iter().map(|&value| value as i64).collect())
}

fn sort<'a>(op: SortOp) -> Form<'a> {
    let int = Argument::int;
    match op {
        SortOp::Sort { axis } => named!("Sort", int(axis)),
        SortOp::ArgSort { axis } => named!("ArgSort", int(axis)),
        SortOp::Partition { kth, axis } => named!("Partition", int(kth), int(axis)),
        SortOp::ArgPartition { kth, axis } => named!("ArgPartition", int(kth), int(axis)),
        SortOp::SearchSorted { right } => named!("SearchSorted", Argument::Bool(right)),
    }
}

fn indexing<'a>(op: &IndexingOp) -> Form<'a> {
    match op {
        &IndexingOp::Take { axis } => composed(move |inputs| composed::take(inputs, axis)),
        IndexingOp::TakeAlongAxis { axis } => named!("GatherAxis", Argument::int(*axis)),
        IndexingOp::Gather { axes, slice_sizes } => {
            named!("Gather", Argument::ints(axes), Argument::shape(slice_sizes))
        }
        IndexingOp::Scatter { op, axes } => {
            named!("Scatter", numbers::SCATTER.of(*op), Argument::ints(axes))
        }
        IndexingOp::ScatterAxis { op, axis } => {
            named!("ScatterAxis", numbers::SCATTER_AXIS.of(*op), Argument::int(*axis))
        }
    }
}

/// Where a range ends: where its size says, or half a step earlier if rounding would add an element.
fn stop(arange: &Arange) -> f64 {
    let (start, step, size) = (arange.start.0, arange.step.0, arange.size as f64);
    let stop = start + size * step;
    if ((stop - start) / step).ceil() == size { stop } else { start + (size - 0.5) * step }
}

fn norm<'a>(op: NormOp, step: Applied<'a>) -> Form<'a> {
    use Argument::Float;
    let on_cpu = step.device == DeviceType::Cpu;
    // Upstream's derivatives by scalars, which stand for no parameters there, are zeros.
    let is_vector = |parameter: &Spec| !parameter.shape.is_empty();
    let has_kernel = !on_cpu && step.inputs[1..].iter().all(is_vector);
    match op {
        NormOp::RmsNorm { eps } | NormOp::LayerNorm { eps } if on_cpu => {
            composed(move |inputs| composed::norm(eps.0, inputs))
        }
        NormOp::RmsNorm { eps } => named!("RMSNorm", Float(eps.0)),
        NormOp::LayerNorm { eps } => named!("LayerNorm", Float(eps.0)),
        NormOp::RmsNormVjp { eps, parameters: true } if has_kernel => {
            named!("RMSNormVJP", Float(eps.0))
        }
        NormOp::LayerNormVjp { eps, parameters: true } if has_kernel => {
            named!("LayerNormVJP", Float(eps.0))
        }
        NormOp::RmsNormVjp { .. } | NormOp::LayerNormVjp { .. } => {
            Form::Composed(Box::new(move |inputs| Ok(op.derivatives(inputs)?.into_vec())))
        }
    }
}

fn quantized<'a>(op: QuantizedOp, on_cpu: bool) -> Form<'a> {
    use Argument::Bool;
    let packing = match op {
        QuantizedOp::Quantize(affine) | QuantizedOp::Dequantize(affine) => affine.into(),
        QuantizedOp::DequantizeFloats { mode, .. } => mode.into(),
        QuantizedOp::QuantizedMatmul { packing, .. } | QuantizedOp::GatherQmm { packing, .. } => {
            packing
        }
    };
    let mode = numbers::MODE.of(match packing {
        Packing::Affine(_) => None,
        Packing::Floats(mode) => Some(mode),
    });
    let (size, bits) = (Argument::int(packing.group_size()), Argument::int(packing.bits()));
    match op {
        QuantizedOp::Quantize(_) => named!("Quantize", size, bits, mode, Bool(false)),
        QuantizedOp::Dequantize(affine) if on_cpu => {
            composed(move |inputs| composed::dequantize(affine, inputs))
        }
        QuantizedOp::DequantizeFloats { mode, dtype } if on_cpu => {
            composed(move |inputs| composed::dequantize_floats(mode, inputs, dtype))
        }
        QuantizedOp::Dequantize(_) | QuantizedOp::DequantizeFloats { .. } => {
            named!("Quantize", size, bits, mode, Bool(true))
        }
        QuantizedOp::QuantizedMatmul { transpose, .. } => {
            named!("QuantizedMatmul", size, bits, mode, Bool(transpose))
        }
        QuantizedOp::GatherQmm { transpose, left_sorted, right_sorted, .. } => {
            let sorted = [Bool(left_sorted), Bool(right_sorted)];
            let mut arguments = vec![size, bits, mode, Bool(transpose)];
            arguments.extend(sorted);
            Form::Named("GatherQMM", arguments)
        }
    }
}

/// Whether upstream's GPU has a kernel for attention of queries and values of these shapes.
fn has_kernel(inputs: &[Spec]) -> bool {
    let widths: SmallVec<[usize; 2]> = [0, 2].iter().map(|&i| inputs[i].shape[3]).collect();
    widths[0] == widths[1]
        && matches!(widths[0], 64 | 80 | 128)
        && inputs[0].dtype != Dtype::Float64
}

fn linalg<'a>(op: Linalg) -> Form<'a> {
    use Argument::{Bool, Text};
    match op {
        Linalg::Inverse => named!("Inverse", Bool(false), Bool(false)),
        Linalg::TriangularInverse { upper } => named!("Inverse", Bool(true), Bool(upper)),
        Linalg::Cholesky { upper } => named!("Cholesky", Bool(upper)),
        Linalg::Qr => named!("QRF"),
        Linalg::Svd { vectors } => named!("SVD", Bool(vectors)),
        Linalg::Eigh { upper, vectors } => {
            named!("Eigh", Text(if upper { "U" } else { "L" }.into()), Bool(vectors))
        }
        Linalg::Eig { vectors } => named!("Eig", Bool(vectors)),
        Linalg::Lu => Form::Missing,
    }
}
