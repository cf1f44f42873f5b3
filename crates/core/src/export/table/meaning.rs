//! What primitives of upstream are read as.

use super::{binary, functions, numbers, unary};
use crate::{
    Array, Dtype, Result, Shape,
    export::Argument,
    graph,
    primitives::{
        Affine, Arange, ArgReduce, Attention, AttentionMask, Axes, BinaryOp, Convolution, CopyOp,
        CustomKernel, Exact, Fft, Hadamard, IndexingOp, Indices, Linalg, MatmulOp, NormOp, Packing,
        PassOp, Primitive, QuantizedOp, RandomBits, Reduce, Rope, Rule, Scan, ShapeOp, SoftmaxOp,
        SortOp, Spec, SpecRef, TernaryOp, To, UnaryOp,
    },
};

/// What a step of an imported function does.
pub(in crate::export) enum Operation {
    /// A primitive of ours.
    Primitive(Primitive),
    /// A function of the inputs, where upstream has a primitive that is several of ours.
    Function(Function),
}

/// A function of the inputs of a step.
pub(in crate::export) type Function = Box<dyn Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync>;

impl Operation {
    pub(in crate::export) fn apply(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        match self {
            Self::Primitive(primitive) => {
                Ok(graph::apply(primitive.clone(), inputs.into())?.into_vec())
            }
            Self::Function(fun) => fun(inputs),
        }
    }
}

/// Shapes and dtypes where a primitive is applied.
#[derive(Clone, Copy)]
pub(in crate::export) struct Specs<'a> {
    pub(in crate::export) inputs: &'a [SpecRef<'a>],
    pub(in crate::export) outputs: &'a [Spec],
}

/// What a primitive of upstream does; `None` if its arguments mean nothing for such inputs and outputs.
pub(in crate::export) fn meaning(
    name: &str,
    arguments: &[Argument],
    specs: Specs<'_>,
) -> Option<Operation> {
    let primitive = direct(name, arguments, specs).map(Operation::Primitive);
    primitive.or_else(|| functions::function(name, arguments, specs).map(Operation::Function))
}

/// The primitive of ours that is the same.
fn direct(name: &str, arguments: &[Argument], specs: Specs<'_>) -> Option<Primitive> {
    use Argument::{Bool, Double, Dtype as Type, Float, Int, Ints, Shape as Sizes, Text};
    Some(match (name, arguments) {
        ("Copy", []) => PassOp::Copy.into(),
        ("StopGradient", []) => PassOp::StopGradient.into(),
        ("Depends", []) => PassOp::Depends { outputs: specs.outputs.len() }.into(),
        ("Log", [Int(base)]) => numbers::LOG.at(*base)?.into(),
        ("Sqrt", [Bool(inverted)]) => {
            (if *inverted { UnaryOp::Rsqrt } else { UnaryOp::Sqrt }).into()
        }
        ("BitwiseBinary", [Int(op)]) => numbers::BITWISE.at(*op)?.into(),
        // Upstream asks of integers too whether they are both not a number.
        ("Equal", [Bool(nan)]) if *nan && specs.input(0)?.dtype.is_inexact() => {
            BinaryOp::NanEqual.into()
        }
        ("Equal", [Bool(_)]) => BinaryOp::Equal.into(),
        // Before there was a primitive of its own, this was how integers were divided.
        ("Divide", []) if !specs.input(0)?.dtype.is_inexact() => BinaryOp::FloorDivide.into(),
        ("Abs", []) if specs.input(0)?.dtype == Dtype::Complex64 => return None,
        ("Select", []) => TernaryOp::Select.into(),
        ("AsType", [Type(dtype)]) => CopyOp::AsType { dtype: *dtype }.into(),
        ("View", [Type(dtype)]) => CopyOp::View { dtype: *dtype }.into(),
        ("Full", []) => CopyOp::Full.into(),
        ("Reduce", [Int(op), Ints(axes)]) => {
            let mut axes = specs.axes(axes)?;
            axes.sort_unstable();
            Reduce { op: numbers::REDUCE.at(*op)?, axes }.into()
        }
        ("ArgReduce", [Int(op), Int(axis)]) => {
            ArgReduce { op: numbers::ARG_REDUCE.at(*op)?, axis: specs.axis(*axis)? }.into()
        }
        ("Scan", [Int(op), Int(axis), Bool(reverse), Bool(inclusive)]) => {
            let (op, axis) = (numbers::SCAN.at(*op)?, specs.axis(*axis)?);
            Scan { op, axis, reverse: *reverse, inclusive: *inclusive }.into()
        }
        ("Sort", [Int(axis)]) => SortOp::Sort { axis: specs.axis(*axis)? }.into(),
        ("ArgSort", [Int(axis)]) => SortOp::ArgSort { axis: specs.axis(*axis)? }.into(),
        ("Partition", [Int(kth), Int(axis)]) => {
            SortOp::Partition { kth: specs.place(*kth, *axis)?, axis: specs.axis(*axis)? }.into()
        }
        ("ArgPartition", [Int(kth), Int(axis)]) => {
            SortOp::ArgPartition { kth: specs.place(*kth, *axis)?, axis: specs.axis(*axis)? }.into()
        }
        ("SearchSorted", [Bool(right)]) => SortOp::SearchSorted { right: *right }.into(),
        ("Softmax", [Bool(precise)]) => SoftmaxOp::Softmax { precise: *precise }.into(),
        ("LogSumExp", []) => SoftmaxOp::LogSumExp.into(),
        ("Arange", [Double(start), Double(_), Double(step)]) => {
            let [Spec { shape, dtype }] = specs.outputs else { return None };
            let [size] = shape.as_slice() else { return None };
            let (start, step) = (Exact(*start), Exact(*step));
            Arange { start, step, size: *size, dtype: *dtype }.into()
        }
        ("RandomBits", [Sizes(shape), Int(width)]) => {
            RandomBits { shape: sizes(shape)?, width: usize::try_from(*width).ok()? }.into()
        }
        ("Matmul", []) => MatmulOp::Matmul.into(),
        ("AddMM", [Float(alpha), Float(beta)]) => {
            MatmulOp::AddMm { alpha: Exact(*alpha), beta: Exact(*beta) }.into()
        }
        ("GatherMM", [Bool(left), Bool(right)]) => {
            MatmulOp::GatherMm { left_sorted: *left, right_sorted: *right }.into()
        }
        ("RMSNorm", [Float(eps)]) => NormOp::RmsNorm { eps: Exact(*eps) }.into(),
        ("LayerNorm", [Float(eps)]) => NormOp::LayerNorm { eps: Exact(*eps) }.into(),
        ("RoPE", [Int(dims), Bool(traditional), Float(base), Float(scale), Bool(forward)]) => {
            // The other way round is by the opposite angle.
            let scale = if *forward { *scale } else { -*scale };
            let base = (specs.inputs.len() == 2).then_some(Exact(*base));
            let dims = usize::try_from(*dims).ok()?;
            Rope { dims, traditional: *traditional, base, scale: Exact(scale) }.into()
        }
        (
            "ScaledDotProductAttention",
            [Float(scale), Bool(causal), Bool(sinks), Bool(false), Bool(_)],
        ) => {
            let mask = match specs.inputs.len().checked_sub(usize::from(*sinks))? {
                3 if *causal => AttentionMask::Causal,
                3 => AttentionMask::None,
                _ => AttentionMask::Array,
            };
            Attention { scale: Exact(*scale), mask, sinks: *sinks }.into()
        }
        ("FFT", [Argument::Sizes(axes), Bool(inverse), Bool(real), odd @ ..]) => {
            let axes: Axes =
                axes.iter().map(|&x| usize::try_from(x)).collect::<Result<_, _>>().ok()?;
            let last = *axes.last()?;
            let real_side =
                if *inverse { specs.outputs.first()?.as_ref() } else { specs.input(0)? };
            let size = *real_side.shape.get(last)?;
            let agrees =
                odd.first().is_none_or(|odd| *odd == Bool(*inverse && *real && size % 2 == 1));
            agrees.then_some(Fft { axes, inverse: *inverse, real: real.then_some(size) })?.into()
        }
        ("CustomKernel", arguments) => custom_kernel(arguments, specs.outputs)?.into(),
        ("Hadamard", [Float(scale)]) => {
            Hadamard::of(*specs.input(0)?.shape.last()?, *scale)?.into()
        }
        ("Inverse", [Bool(false), Bool(_)]) => Linalg::Inverse.into(),
        ("Inverse", [Bool(true), Bool(upper)]) => {
            Linalg::TriangularInverse { upper: *upper }.into()
        }
        ("Cholesky", [Bool(upper)]) => Linalg::Cholesky { upper: *upper }.into(),
        ("QRF", []) => Linalg::Qr.into(),
        ("SVD", [Bool(vectors)]) => Linalg::Svd { vectors: *vectors }.into(),
        ("Eigh", [Text(triangle), Bool(vectors)]) => {
            let upper = match triangle.as_str() {
                "U" | "u" => true,
                "L" | "l" => false,
                _ => return None,
            };
            Linalg::Eigh { upper, vectors: *vectors }.into()
        }
        ("Eig", [Bool(vectors)]) => Linalg::Eig { vectors: *vectors }.into(),
        ("Convolution", arguments) => convolution(arguments)?.into(),
        (name, []) if unary(name).is_some() => unary(name)?.into(),
        (name, []) if binary(name).is_some() => binary(name)?.into(),
        _ => {
            return shape(name, arguments, specs)
                .or_else(|| indexing(name, arguments, specs))
                .or_else(|| quantized(name, arguments, specs).map(Into::into));
        }
    })
}

fn shape(name: &str, arguments: &[Argument], specs: Specs<'_>) -> Option<Primitive> {
    use Argument::{Bool, Dtype as Type, Int, Ints, Shape as List, Size, Strides};
    let op = match (name, arguments) {
        ("Reshape", [List(shape)]) if shape.contains(&-1) => {
            ShapeOp::Reshape(To::Infer(signed(shape)))
        }
        ("Reshape", [List(shape)]) => ShapeOp::Reshape(To::Exact(sizes(shape)?)),
        ("Flatten", [Int(start), Int(end)]) => {
            let (start, end) = (specs.axis(*start)?, specs.axis(*end)?);
            ShapeOp::Reshape(To::Flatten { start, end })
        }
        ("Unflatten", [Int(axis), List(shape)]) => {
            ShapeOp::Reshape(To::Unflatten { axis: specs.axis(*axis)?, sizes: signed(shape) })
        }
        ("Broadcast", [List(shape)]) if specs.inputs.len() == 1 => {
            ShapeOp::Broadcast(Rule::Exact(sizes(shape)?))
        }
        ("Broadcast", [List(_)]) => ShapeOp::Broadcast(Rule::Joint),
        ("BroadcastAxes", [Ints(axes)]) => ShapeOp::Broadcast(Rule::JointExcept(signed(axes))),
        ("NumberOfElements", [Ints(axes), Bool(inverted), Type(dtype)]) => {
            let (inverted, dtype) = (*inverted, *dtype);
            ShapeOp::NumberOfElements { axes: specs.axes(axes)?, inverted, dtype }
        }
        ("Transpose", [Ints(axes)]) => ShapeOp::Transpose { axes: specs.axes(axes)? },
        ("ExpandDims", [Ints(axes)]) => {
            let ndim = specs.input(0)?.ndim() + axes.len();
            let mut axes = normalized(axes, ndim)?;
            axes.sort_unstable();
            ShapeOp::ExpandDims { axes }
        }
        ("Squeeze", [Ints(axes)]) => ShapeOp::Squeeze { axes: specs.axes(axes)? },
        ("AsStrided", [List(shape), Strides(strides), Size(offset)]) => ShapeOp::AsStrided {
            shape: sizes(shape)?,
            strides: strides.iter().map(|&stride| stride as isize).collect(),
            offset: usize::try_from(*offset).ok()?,
        },
        ("Slice", [List(start), List(_), List(strides)]) => ShapeOp::Slice {
            start: signed(start),
            strides: signed(strides),
            sizes: specs.outputs.first()?.shape.clone(),
        },
        ("SliceUpdate", [Int(4), List(start), List(_), List(strides)]) => {
            ShapeOp::SliceUpdate { start: signed(start), strides: signed(strides) }
        }
        ("Concatenate", [Int(axis)]) => ShapeOp::Concatenate { axis: specs.axis(*axis)? },
        _ => return None,
    };
    Some(op.into())
}

fn indexing(name: &str, arguments: &[Argument], specs: Specs<'_>) -> Option<Primitive> {
    use Argument::{Int, Ints, Shape as List};
    let op = match (name, arguments) {
        ("GatherAxis", [Int(axis)]) => IndexingOp::TakeAlongAxis { axis: specs.axis(*axis)? },
        ("Gather", [Ints(axes), List(slice_sizes)]) => {
            IndexingOp::Gather { axes: specs.axes(axes)?, slice_sizes: sizes(slice_sizes)? }
        }
        ("Scatter", [Int(op), Ints(axes)]) => {
            IndexingOp::Scatter { op: numbers::SCATTER.at(*op)?, axes: specs.axes(axes)? }
        }
        ("ScatterAxis", [Int(op), Int(axis)]) => {
            IndexingOp::ScatterAxis { op: numbers::SCATTER_AXIS.at(*op)?, axis: specs.axis(*axis)? }
        }
        _ => return None,
    };
    Some(op.into())
}

/// What is quantized by groups; making small floats, and their global scales, are functions.
fn quantized(name: &str, arguments: &[Argument], specs: Specs<'_>) -> Option<QuantizedOp> {
    use Argument::{Bool, Int};
    let [Int(size), Int(bits), Int(mode), flags @ ..] = arguments else { return None };
    let (group_size, bits) = (usize::try_from(*size).ok()?, usize::try_from(*bits).ok()?);
    let packing = match numbers::MODE.at(*mode)? {
        None => Packing::Affine(Affine { group_size, bits }),
        Some(mode) => Packing::Floats(mode),
    };
    if [packing.group_size(), packing.bits()] != [group_size, bits] {
        return None;
    }
    Some(match (name, flags, packing) {
        ("Quantize", [Bool(false)], Packing::Affine(affine)) => QuantizedOp::Quantize(affine),
        ("Quantize", [Bool(true)], Packing::Affine(affine)) => QuantizedOp::Dequantize(affine),
        ("Quantize", [Bool(true)], Packing::Floats(mode)) if specs.inputs.len() == 2 => {
            QuantizedOp::DequantizeFloats { mode, dtype: specs.outputs.first()?.dtype }
        }
        ("QuantizedMatmul", [Bool(transpose)], _) => {
            QuantizedOp::QuantizedMatmul { packing, transpose: *transpose }
        }
        ("GatherQMM", [Bool(transpose), Bool(left), Bool(right)], _) => {
            let (left_sorted, right_sorted) = (*left, *right);
            QuantizedOp::GatherQmm { packing, transpose: *transpose, left_sorted, right_sorted }
        }
        _ => return None,
    })
}

fn custom_kernel(arguments: &[Argument], outputs: &[Spec]) -> Option<Box<CustomKernel>> {
    use Argument::{Bool, Flags, Int, MaybeFloat, Scalars, Text};
    let [Text(name), Text(source), rest @ ..] = arguments else { return None };
    let (counts, rest) = rest.split_at_checked(6)?;
    let counts: Vec<i32> = counts
        .iter()
        .map(|count| if let Int(count) = count { i32::try_from(*count).ok() } else { None })
        .collect::<Option<_>>()?;
    let [Flags(infos), Bool(rows), MaybeFloat(init), Scalars(scalars), rest @ ..] = rest else {
        return None;
    };
    let [Bool(compiled), Int(shared_memory), Int(math_mode)] = rest else { return None };
    Some(Box::new(CustomKernel {
        name: name.clone(),
        source: source.clone(),
        grid: *counts.first_chunk()?,
        threadgroup: *counts.last_chunk()?,
        shape_infos: infos.clone(),
        ensure_row_contiguous: *rows,
        init_value: init.map(Exact),
        scalars: scalars.clone(),
        is_precompiled: *compiled,
        shared_memory: i32::try_from(*shared_memory).ok()?,
        math_mode: numbers::MATH_MODE.at(*math_mode)?,
        outputs: outputs.iter().cloned().collect(),
    }))
}

fn convolution(arguments: &[Argument]) -> Option<Box<Convolution>> {
    use Argument::{Bool, Int, Ints};
    let [Ints(stride), Ints(low), Ints(high), Ints(kernel), Ints(input), Int(groups), Bool(flip)] =
        arguments
    else {
        return None;
    };
    let spatial = |values: &[i64]| {
        let values = values.iter().map(|&value| usize::try_from(value));
        values.collect::<Result<_, _>>().ok()
    };
    Some(Box::new(Convolution {
        stride: spatial(stride)?,
        padding_low: spatial(low)?,
        padding_high: spatial(high)?,
        kernel_dilation: spatial(kernel)?,
        input_dilation: spatial(input)?,
        groups: usize::try_from(*groups).ok()?,
        flip: *flip,
    }))
}

/// Sizes of axes.
pub(super) fn sizes(values: &[i64]) -> Option<Shape> {
    values.iter().map(|&size| usize::try_from(size)).collect::<Result<_, _>>().ok()
}

/// Indices that may be negative.
pub(super) fn signed(values: &[i64]) -> Indices {
    values.iter().map(|&value| value as isize).collect()
}

/// An axis of so many, which may count from the end.
fn normalized_axis(axis: i64, ndim: usize) -> Option<usize> {
    let axis = if axis < 0 { axis + ndim as i64 } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < ndim)
}

/// Axes of so many, none of them twice.
fn normalized(axes: &[i64], ndim: usize) -> Option<Axes> {
    let axes: Axes = axes.iter().map(|&axis| normalized_axis(axis, ndim)).collect::<Option<_>>()?;
    (1..axes.len()).all(|i| !axes[..i].contains(&axes[i])).then_some(axes)
}

impl<'a> Specs<'a> {
    pub(super) fn input(&self, i: usize) -> Option<SpecRef<'a>> {
        self.inputs.get(i).copied()
    }

    /// An axis of the first input.
    pub(super) fn axis(&self, axis: i64) -> Option<usize> {
        normalized_axis(axis, self.input(0)?.ndim())
    }

    /// Axes of the first input.
    pub(super) fn axes(&self, axes: &[i64]) -> Option<Axes> {
        normalized(axes, self.input(0)?.ndim())
    }

    /// An index along an axis of the first input.
    fn place(&self, index: i64, axis: i64) -> Option<usize> {
        normalized_axis(index, self.input(0)?.shape[self.axis(axis)?])
    }

    /// Whether an operation would apply a primitive to arrays of these dtypes.
    pub(in crate::export) fn are_taken_by(&self, primitive: &Primitive) -> bool {
        let of = |i: usize| self.input(i).map(|spec| spec.dtype);
        let dtype: Option<Dtype> = match primitive {
            Primitive::Arange(arange) => Some(arange.dtype),
            Primitive::Quantized(QuantizedOp::DequantizeFloats { dtype, .. }) => Some(*dtype),
            Primitive::Ternary(_) | Primitive::Quantized(QuantizedOp::Dequantize(_)) => of(1),
            _ => of(0),
        };
        dtype.is_some_and(|dtype| primitive.takes(dtype))
    }
}
