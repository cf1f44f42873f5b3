//! What holds for every primitive.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
};

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::{Shape, Strides};

fn specs_of(example: &Example) -> Specs {
    let inputs: Vec<SpecRef<'_>> = example.inputs.iter().map(Input::spec).collect();
    example.primitive.output_specs(&inputs).unwrap()
}

#[test]
fn every_example_fits_and_is_another_one() {
    let examples = Primitive::examples();
    for example in &examples {
        assert!(example.primitive.takes(example.dtype), "{example:?}");
        assert!(!specs_of(example).is_empty(), "{example:?}");
    }
    let distinct: HashSet<(&Primitive, Dtype)> =
        examples.iter().map(|e| (&e.primitive, e.dtype)).collect();
    assert_eq!(distinct.len(), examples.len());
}

#[test]
fn a_primitive_is_small() {
    // A node holds one, and a graph is made of nodes before anything runs.
    assert!(size_of::<Primitive>() <= 128, "{}", size_of::<Primitive>());
}

/// Primitives, each of which differs in one parameter from the first of its list.
fn variations() -> Vec<Vec<Primitive>> {
    fn list<P: Into<Primitive>, const N: usize>(all: [P; N]) -> Vec<Primitive> {
        all.map(Into::into).into()
    }
    let axes = |a: &[usize]| Axes::from(a);
    let steps = |a: &[isize]| Strides::from(a);
    let slice = |a: &[isize], b: &[isize], c: &[usize]| ShapeOp::Slice {
        start: steps(a),
        strides: steps(b),
        sizes: axes(c),
    };
    let strided = |a: &[usize], b: &[isize], offset| ShapeOp::AsStrided {
        shape: axes(a),
        strides: steps(b),
        offset,
    };
    let arange = |start, step, size, dtype| {
        let (start, step) = (Exact(start), Exact(step));
        Arange { start, step, size, dtype }
    };
    let affine = |group_size, bits| Affine { group_size, bits };
    let packed = |bits| Packing::Affine(affine(64, bits));
    let rope = |dims, traditional, base: Option<f32>, scale| {
        let (base, scale) = (base.map(Exact), Exact(scale));
        Rope { dims, traditional, base, scale }
    };
    let scan = |op, axis, reverse, inclusive| Scan { op, axis, reverse, inclusive };
    let fft = |a: &[usize], inverse, real| Fft { axes: axes(a), inverse, real };
    let hadamard = |m, power, scale| Hadamard { m, power, scale: Exact(scale) };
    let base = Convolution {
        stride: smallvec![1],
        padding_low: smallvec![0],
        padding_high: smallvec![0],
        kernel_dilation: smallvec![1],
        input_dilation: smallvec![1],
        groups: 1,
        flip: false,
    };
    let convolution = |change: fn(&mut Convolution)| {
        let mut changed = base.clone();
        change(&mut changed);
        Box::new(changed)
    };
    let gather_qmm = |packing, transpose, left_sorted, right_sorted| QuantizedOp::GatherQmm {
        packing,
        transpose,
        left_sorted,
        right_sorted,
    };
    let (sum, one, f32) = (ReduceOp::Sum, axes(&[1]), Dtype::Float32);
    vec![
        list([1, 2].map(|outputs| PassOp::Depends { outputs })),
        list(UnaryOp::ALL),
        list(BinaryOp::ALL),
        list(Dtype::ALL.map(|dtype| CopyOp::AsType { dtype })),
        list(Dtype::ALL.map(|dtype| CopyOp::View { dtype })),
        list([true, false].map(|allow_col_major| CopyOp::Contiguous { allow_col_major })),
        list([axes(&[2, 3]), axes(&[3, 2]), axes(&[6])].map(|a| ShapeOp::Reshape(To::Exact(a)))),
        list([axes(&[2, 3]), axes(&[3, 3])].map(|a| ShapeOp::Broadcast(Rule::Exact(a)))),
        list(
            [
                To::Infer(steps(&[2, -1])),
                To::Infer(steps(&[-1, 2])),
                To::Flatten { start: 0, end: 2 },
                To::Flatten { start: 1, end: 2 },
                To::Flatten { start: 0, end: 1 },
                To::Unflatten { axis: 0, sizes: steps(&[2, -1]) },
                To::Unflatten { axis: 1, sizes: steps(&[2, -1]) },
                To::Unflatten { axis: 0, sizes: steps(&[-1, 2]) },
            ]
            .map(ShapeOp::Reshape),
        ),
        list(
            [Rule::Joint, Rule::JointExcept(steps(&[-1])), Rule::JointExcept(steps(&[-2]))]
                .map(ShapeOp::Broadcast),
        ),
        list(
            [
                (&[0], false, f32),
                (&[1], false, f32),
                (&[0], true, f32),
                (&[0], false, Dtype::Int32),
            ]
            .map(|(a, inverted, dtype)| ShapeOp::NumberOfElements {
                axes: axes(a),
                inverted,
                dtype,
            }),
        ),
        list([axes(&[0, 1]), axes(&[1, 0])].map(|axes| ShapeOp::Transpose { axes })),
        list([axes(&[0]), axes(&[1])].map(|axes| ShapeOp::ExpandDims { axes })),
        list([axes(&[0]), axes(&[1])].map(|axes| ShapeOp::Squeeze { axes })),
        list([
            strided(&[2], &[1], 0),
            strided(&[3], &[1], 0),
            strided(&[2], &[2], 0),
            strided(&[2], &[1], 1),
        ]),
        list([
            slice(&[0], &[1], &[2]),
            slice(&[1], &[1], &[2]),
            slice(&[0], &[2], &[2]),
            slice(&[0], &[1], &[3]),
        ]),
        list([([0], [1]), ([1], [1]), ([0], [2])].map(|(start, strides)| ShapeOp::SliceUpdate {
            start: steps(&start),
            strides: steps(&strides),
        })),
        list(
            [(&[0, 0], &[1, 2]), (&[1, 0], &[1, 2]), (&[0, 0], &[2, 1])]
                .map(|(low, high)| ShapeOp::Pad { low: axes(low), high: axes(high) }),
        ),
        list([0, 1].map(|axis| ShapeOp::Concatenate { axis })),
        list([Reduce { op: sum, axes: axes(&[0]) }, Reduce { op: sum, axes: one.clone() }]),
        list(ReduceOp::ALL.map(|op| Reduce { op, axes: one.clone() })),
        list(ArgReduceOp::ALL.map(|op| ArgReduce { op, axis: 0 })),
        list([0, 1].map(|axis| ArgReduce { op: ArgReduceOp::ArgMax, axis })),
        list(ScanOp::ALL.map(|op| scan(op, 0, false, false))),
        list([
            scan(ScanOp::Sum, 0, false, false),
            scan(ScanOp::Sum, 1, false, false),
            scan(ScanOp::Sum, 0, true, false),
            scan(ScanOp::Sum, 0, false, true),
        ]),
        list([0, 1].map(|axis| SortOp::Sort { axis })),
        list([0, 1].map(|axis| SortOp::ArgSort { axis })),
        list([(0, 0), (1, 0), (0, 1)].map(|(kth, axis)| SortOp::Partition { kth, axis })),
        list([(0, 0), (1, 0), (0, 1)].map(|(kth, axis)| SortOp::ArgPartition { kth, axis })),
        list([true, false].map(|right| SortOp::SearchSorted { right })),
        list([true, false].map(|precise| SoftmaxOp::Softmax { precise })),
        list([0, 1].map(|axis| IndexingOp::Take { axis })),
        list([0, 1].map(|axis| IndexingOp::TakeAlongAxis { axis })),
        list([(&[0], &[1]), (&[1], &[1]), (&[0], &[2])].map(|(a, slice_sizes)| {
            IndexingOp::Gather { axes: axes(a), slice_sizes: axes(slice_sizes) }
        })),
        list(ScatterOp::ALL.map(|op| IndexingOp::Scatter { op, axes: one.clone() })),
        list(ScatterOp::ALL.map(|op| IndexingOp::ScatterAxis { op, axis: 0 })),
        list([0, 1].map(|axis| IndexingOp::ScatterAxis { op: ScatterOp::Sum, axis })),
        list([
            arange(0.0, 1.0, 2, f32),
            arange(-0.0, 1.0, 2, f32),
            arange(f64::NAN, 1.0, 2, f32),
            arange(0.0, 2.0, 2, f32),
            arange(0.0, 1.0, 3, f32),
            arange(0.0, 1.0, 2, Dtype::Int32),
        ]),
        list([(4, 2), (4, 3), (2, 2)].map(|(width, n)| RandomBits { shape: axes(&[n]), width })),
        list(
            [(1.0, 0.0), (2.0, 0.0), (1.0, -0.0), (1.0, f32::NAN)]
                .map(|(alpha, beta)| MatmulOp::AddMm { alpha: Exact(alpha), beta: Exact(beta) }),
        ),
        list(
            [(false, false), (true, false), (false, true)].map(|(left_sorted, right_sorted)| {
                MatmulOp::GatherMm { left_sorted, right_sorted }
            }),
        ),
        list([affine(64, 4), affine(32, 4), affine(64, 8)].map(QuantizedOp::Quantize)),
        list([affine(64, 4), affine(32, 4), affine(64, 8)].map(QuantizedOp::Dequantize)),
        list([(4, true), (8, true), (4, false)].map(|(bits, transpose)| {
            QuantizedOp::QuantizedMatmul { packing: packed(bits), transpose }
        })),
        list(
            FpMode::ALL
                .map(|mode| QuantizedOp::QuantizedMatmul { packing: mode.into(), transpose: true }),
        ),
        list(
            [(0, Dtype::Float32), (1, Dtype::Float32), (0, Dtype::Float16)]
                .map(|(i, dtype)| QuantizedOp::DequantizeFloats { mode: FpMode::ALL[i], dtype }),
        ),
        list([
            gather_qmm(packed(4), false, false, false),
            gather_qmm(packed(8), false, false, false),
            gather_qmm(packed(4), true, false, false),
            gather_qmm(packed(4), false, true, false),
            gather_qmm(packed(4), false, false, true),
        ]),
        list([
            convolution(|_| ()),
            convolution(|c| c.stride[0] = 2),
            convolution(|c| c.padding_low[0] = 2),
            convolution(|c| c.padding_high[0] = 2),
            convolution(|c| c.kernel_dilation[0] = 2),
            convolution(|c| c.input_dilation[0] = 2),
            convolution(|c| c.groups = 2),
            convolution(|c| c.flip = true),
        ]),
        list([1e-5, 1e-6].map(|eps| NormOp::RmsNorm { eps: Exact(eps) })),
        list([1e-5, 1e-6].map(|eps| NormOp::LayerNorm { eps: Exact(eps) })),
        list(
            [(1e-5, true), (1e-6, true), (1e-5, false)]
                .map(|(eps, parameters)| NormOp::RmsNormVjp { eps: Exact(eps), parameters }),
        ),
        list(
            [(1e-5, true), (1e-6, true), (1e-5, false)]
                .map(|(eps, parameters)| NormOp::LayerNormVjp { eps: Exact(eps), parameters }),
        ),
        list([
            rope(8, false, Some(1e4), 1.0),
            rope(4, false, Some(1e4), 1.0),
            rope(8, true, Some(1e4), 1.0),
            rope(8, false, None, 1.0),
            rope(8, false, Some(1e5), 1.0),
            rope(8, false, Some(1e4), 0.5),
        ]),
        list([
            Attention { scale: Exact(1.0), mask: AttentionMask::None, sinks: false },
            Attention { scale: Exact(0.5), mask: AttentionMask::None, sinks: false },
            Attention { scale: Exact(1.0), mask: AttentionMask::Causal, sinks: false },
            Attention { scale: Exact(1.0), mask: AttentionMask::Array, sinks: false },
            Attention { scale: Exact(1.0), mask: AttentionMask::Array, sinks: true },
        ]),
        list([
            AttentionVjp { scale: Exact(1.0), mask: AttentionMask::None },
            AttentionVjp { scale: Exact(0.5), mask: AttentionMask::None },
            AttentionVjp { scale: Exact(1.0), mask: AttentionMask::Causal },
            AttentionVjp { scale: Exact(1.0), mask: AttentionMask::Array },
        ]),
        list([
            fft(&[0], false, None),
            fft(&[1], false, None),
            fft(&[0], true, None),
            fft(&[0], true, Some(4)),
            fft(&[0], true, Some(5)),
        ]),
        list([hadamard(1, 2, 1.0), hadamard(12, 2, 1.0), hadamard(1, 4, 1.0), hadamard(1, 2, 0.5)]),
        list([true, false].map(|upper| Linalg::Cholesky { upper })),
        list([true, false].map(|upper| Linalg::TriangularInverse { upper })),
        list([true, false].map(|vectors| Linalg::Svd { vectors })),
        list([true, false].map(|vectors| Linalg::Eig { vectors })),
        list(
            [(true, true), (false, true), (true, false)]
                .map(|(upper, vectors)| Linalg::Eigh { upper, vectors }),
        ),
    ]
}

#[test]
fn every_parameter_counts_for_equality() {
    let hasher = RandomState::new();
    for list in variations() {
        for (i, a) in list.iter().enumerate() {
            let same = a.clone();
            assert_eq!(*a, same);
            assert_eq!(hasher.hash_one(a), hasher.hash_one(&same));
            for b in &list[i + 1..] {
                assert_ne!(a, b);
            }
        }
    }
}

#[test]
fn every_primitive_with_parameters_is_varied() {
    let varied: HashSet<&str> = variations().iter().flatten().map(Primitive::name).collect();
    for Example { primitive, .. } in Primitive::examples() {
        let is_varied = match &primitive {
            // Equal to itself alone, and what several others are.
            Primitive::Pass(PassOp::Custom(_)) | Primitive::Load(_) | Primitive::Compiled(_) => {
                true
            }
            primitive => varied.contains(primitive.name()),
        };
        // Without parameters there are names alone.
        let has_parameters = format!("{primitive:?}").contains(['{', '[']);
        assert!(is_varied || !has_parameters, "{primitive:?} is not in `variations`");
    }
}

#[test]
fn constants_are_compared_by_their_bits() {
    assert_eq!(Exact(f32::NAN), Exact(f32::NAN));
    assert_eq!(Exact(f64::NAN), Exact(f64::NAN));
    assert_ne!(Exact(f32::NAN), Exact(-f32::NAN));
    assert_ne!(Exact(0.0f64), Exact(-0.0));
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let sizes = prop_oneof![8 => 0..5usize, 1 => Just(64), 1 => Just(usize::MAX)];
    let shape = proptest::collection::vec(sizes, 0..5);
    let dtype = proptest::sample::select(&Dtype::ALL[..]);
    (shape, dtype).prop_map(|(shape, dtype)| Spec { shape: Shape::from_vec(shape), dtype })
}

proptest! {
    /// Inputs may come from a file: those that do not fit are an error, not a panic.
    #[test]
    fn no_inputs_are_too_wrong(specs in proptest::collection::vec(any_spec(), 0..7)) {
        let inputs: Vec<SpecRef<'_>> = specs.iter().map(Spec::as_ref).collect();
        for primitive in variations().into_iter().flatten() {
            let _ = primitive.output_specs(&inputs);
        }
        for example in Primitive::examples() {
            let _ = example.primitive.output_specs(&inputs);
        }
    }

    /// One input of an example that is replaced may be refused, or fit, but not break anything.
    #[test]
    fn one_wrong_input_is_refused(spec in any_spec(), which in 0..6usize) {
        for example in Primitive::examples() {
            let mut inputs: Vec<SpecRef<'_>> = example.inputs.iter().map(Input::spec).collect();
            let Some(input) = inputs.get_mut(which) else { continue };
            *input = spec.as_ref();
            let _ = example.primitive.output_specs(&inputs);
        }
    }
}
