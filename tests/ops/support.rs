//! The support table against reality: every entry is called. What is native gives on Vulkan what it gives
//! on the CPU, and what is refused says so by name. Sizes are small; how exact the results are is the
//! families' own tests' business.

use mlx::{
    Array, Device, Dtype, Result, fast, fft,
    linalg::{self, Uplo},
    ops,
    primitives::{ArgReduceOp, BinaryOp, Linalg, Primitive, ReduceOp, ScanOp, ScatterOp, UnaryOp},
    random,
    support::{Entry, Support, table},
};
use mlx_tests::{array, complex_parts, epsilon, filled, noise, values};

/// An array without special values: in 0.1 to 0.9, small integers, or both truth values.
fn operand(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    match dtype {
        Dtype::Bool => filled(shape, dtype, |i| ((i as u64 + seed) % 2) as f64),
        _ if dtype.is_inexact() => filled(shape, dtype, noise(seed, 0.1, 0.9)),
        _ => filled(shape, dtype, |i| 1.0 + ((i as u64 * 5 + seed) % 7) as f64),
    }
}

fn places(values: &[f64]) -> Array {
    array(values, &[values.len()], Dtype::Int32)
}

fn unary(op: UnaryOp, a: &Array) -> Result<Array> {
    use UnaryOp::*;
    match op {
        Abs => ops::abs(a),
        Arccos => ops::arccos(a),
        // Its arguments begin at 1.
        Arccosh => ops::arccosh(&ops::add(a, 1.0f32)?),
        Arcsin => ops::arcsin(a),
        Arcsinh => ops::arcsinh(a),
        Arctan => ops::arctan(a),
        Arctanh => ops::arctanh(a),
        BitwiseInvert => ops::bitwise_invert(a),
        Ceil => ops::ceil(a),
        Conjugate => ops::conjugate(a),
        Cos => ops::cos(a),
        Cosh => ops::cosh(a),
        Erf => ops::erf(a),
        Erfinv => ops::erfinv(a),
        Exp => ops::exp(a),
        Expm1 => ops::expm1(a),
        Floor => ops::floor(a),
        Imag => ops::imag(a),
        Log => ops::log(a),
        Log10 => ops::log10(a),
        Log1p => ops::log1p(a),
        Log2 => ops::log2(a),
        LogicalNot => ops::logical_not(a),
        Negative => ops::negative(a),
        Real => ops::real(a),
        Round => ops::round(a, 0),
        Rsqrt => ops::rsqrt(a),
        Sigmoid => ops::sigmoid(a),
        Sign => ops::sign(a),
        Sin => ops::sin(a),
        Sinh => ops::sinh(a),
        Sqrt => ops::sqrt(a),
        Square => ops::square(a),
        Tan => ops::tan(a),
        Tanh => ops::tanh(a),
    }
}

fn binary(op: BinaryOp, a: &Array, b: &Array) -> Result<Array> {
    use BinaryOp::*;
    match op {
        Add => ops::add(a, b),
        Arctan2 => ops::arctan2(a, b),
        BitwiseAnd => ops::bitwise_and(a, b),
        BitwiseOr => ops::bitwise_or(a, b),
        BitwiseXor => ops::bitwise_xor(a, b),
        Divide => ops::divide(a, b),
        Equal => ops::equal(a, b),
        FloorDivide => ops::floor_divide(a, &ones_where_zero(b)?),
        Greater => ops::greater(a, b),
        GreaterEqual => ops::greater_equal(a, b),
        LeftShift => ops::left_shift(a, b),
        Less => ops::less(a, b),
        LessEqual => ops::less_equal(a, b),
        LogAddExp => ops::logaddexp(a, b),
        LogicalAnd => ops::logical_and(a, b),
        LogicalOr => ops::logical_or(a, b),
        Maximum => ops::maximum(a, b),
        Minimum => ops::minimum(a, b),
        Multiply => ops::multiply(a, b),
        NanEqual => ops::array_equal(a, b, true),
        NotEqual => ops::not_equal(a, b),
        Power => ops::power(a, b),
        Remainder => ops::remainder(a, &ones_where_zero(b)?),
        RightShift => ops::right_shift(a, b),
        Subtract => ops::subtract(a, b),
    }
}

/// Divisors of bools must not be false.
fn ones_where_zero(b: &Array) -> Result<Array> {
    if b.dtype() == Dtype::Bool { ops::ones_like(b) } else { Ok(b.clone()) }
}

fn reduce(op: ReduceOp, a: &Array) -> Result<Array> {
    match op {
        ReduceOp::All => ops::all(a, &[0], false),
        ReduceOp::Any => ops::any(a, &[0], false),
        ReduceOp::Max => ops::max(a, &[0], false),
        ReduceOp::Min => ops::min(a, &[0], false),
        ReduceOp::Prod => ops::prod(a, &[0], false),
        ReduceOp::Sum => ops::sum(a, &[0], false),
    }
}

fn scan(op: ScanOp, a: &Array) -> Result<Array> {
    match op {
        ScanOp::LogAddExp => ops::logcumsumexp(a, Some(1), false, true),
        ScanOp::Max => ops::cummax(a, Some(1), false, true),
        ScanOp::Min => ops::cummin(a, Some(1), false, true),
        ScanOp::Prod => ops::cumprod(a, Some(1), false, true, None),
        ScanOp::Sum => ops::cumsum(a, Some(1), false, true, None),
    }
}

fn scatter(op: ScatterOp, a: &Array) -> Result<Array> {
    let (at, updates) = (places(&[3.0, 0.0, 1.0]), operand(&[3, 1, 6], a.dtype(), 9));
    let f = match op {
        ScatterOp::Assign => ops::scatter,
        ScatterOp::Sum => ops::scatter_add,
        ScatterOp::Prod => ops::scatter_prod,
        ScatterOp::Max => ops::scatter_max,
        ScatterOp::Min => ops::scatter_min,
    };
    f(a, &[&at], &updates, &[0])
}

fn scatter_axis(op: ScatterOp, a: &Array) -> Result<Array> {
    let (at, updates) = (array(&[2.0; 6], &[1, 6], Dtype::Int32), operand(&[1, 6], a.dtype(), 9));
    match op {
        ScatterOp::Sum => ops::scatter_add_axis(a, &at, &updates, 0),
        _ => ops::put_along_axis(a, &at, &updates, 0),
    }
}

/// What a factorization is checked by: its products, not its factors, whose signs are free.
fn factorization(what: &Linalg, dtype: Dtype) -> Result<Vec<Array>> {
    // A positive definite matrix.
    let a = operand(&[4, 4], dtype, 3);
    let a = ops::matmul(&a, &ops::transpose(&a, &[1, 0])?)?;
    let a = ops::add(&a, &ops::eye(4, 4, 0, dtype)?)?;
    Ok(match what {
        Linalg::Inverse => vec![linalg::inv(&a)?],
        Linalg::TriangularInverse { upper } => vec![linalg::tri_inv(&a, *upper)?],
        Linalg::Cholesky { upper } => vec![linalg::cholesky(&a, *upper)?],
        Linalg::Qr => {
            let (q, r) = linalg::qr(&a)?;
            vec![ops::matmul(&q, &r)?]
        }
        Linalg::Svd { .. } => vec![linalg::svd(&a)?.1],
        Linalg::Eigh { .. } => vec![linalg::eigh(&a, Uplo::L)?.0],
        Linalg::Eig { .. } => vec![ops::sum(&linalg::eig(&a)?.0, &[], false)?],
        Linalg::Lu => vec![linalg::lu(&a)?.2],
    })
}

fn quantized(dtype: Dtype) -> Result<(Array, Array, Array)> {
    ops::quantize(&operand(&[8, 64], dtype, 5), 64, 4)
}

/// Calls what makes `primitive`, with a first input of `dtype`.
fn call(primitive: &Primitive, dtype: Dtype) -> Result<Vec<Array>> {
    let (a, b) = (operand(&[4, 6], dtype, 1), operand(&[4, 6], dtype, 2));
    let one = |result: Result<Array>| result.map(|a| vec![a]);
    match primitive {
        Primitive::Unary(op) => one(unary(*op, &a)),
        Primitive::Binary(op) => one(binary(*op, &a, &b)),
        Primitive::Select => one(ops::where_(&operand(&[4, 6], Dtype::Bool, 0), &a, &b)),
        Primitive::AsType => one(ops::astype(
            &a,
            if dtype == Dtype::Float32 { Dtype::Int32 } else { Dtype::Float32 },
        )),
        Primitive::Arange { .. } => one(ops::arange(1.0, 9.0, 2.0, dtype)),
        Primitive::Full => one(ops::full(&[3, 2], operand(&[], dtype, 1), dtype)),
        Primitive::Contiguous { allow_col_major } => {
            one(ops::contiguous(&ops::transpose(&a, &[1, 0])?, *allow_col_major))
        }
        // Views of transposed elements as bytes, and of strides beyond them, take a copy.
        Primitive::View => one(ops::view(&ops::transpose(&a, &[1, 0])?, Dtype::Uint8)),
        Primitive::Reshape => one(ops::reshape(&ops::transpose(&a, &[1, 0])?, &[24])),
        Primitive::Transpose { .. } => one(ops::transpose(&a, &[1, 0])),
        Primitive::Broadcast => one(ops::broadcast_to(&a, &[2, 4, 6])),
        Primitive::ExpandDims { .. } => one(ops::expand_dims(&a, &[0])),
        Primitive::Squeeze { .. } => one(ops::squeeze(&operand(&[1, 5], dtype, 1), &[0])),
        Primitive::AsStrided { .. } => {
            one(ops::as_strided(&ops::transpose(&a, &[1, 0])?, &[3, 3], &[2, 5], 1))
        }
        Primitive::Slice { .. } => one(ops::slice(&a, &[3, 1], &[0, 6], &[-1, 2])),
        Primitive::SliceUpdate { .. } => {
            one(ops::slice_update(&a, &operand(&[2, 3], dtype, 2), &[1, 0], &[3, 6], &[1, 2]))
        }
        Primitive::Concatenate { .. } => one(ops::concatenate(&[&a, &b], 1)),
        Primitive::Reduce { op, .. } => one(reduce(*op, &a)),
        Primitive::ArgReduce { op: ArgReduceOp::ArgMax, .. } => {
            one(ops::argmax(&a, Some(1), false))
        }
        Primitive::ArgReduce { op: ArgReduceOp::ArgMin, .. } => {
            one(ops::argmin(&a, Some(1), false))
        }
        Primitive::Scan { op, .. } => one(scan(*op, &a)),
        Primitive::Sort { .. } => one(ops::sort(&a, 1)),
        Primitive::ArgSort { .. } => one(ops::argsort(&a, 1)),
        // What lies on either side of the element is in no order: the element itself is looked at.
        Primitive::Partition { .. } => one(ops::slice_axis(&ops::partition(&a, 2, 1)?, 1, 2, 3)),
        Primitive::ArgPartition { .. } => {
            let place = ops::slice_axis(&ops::argpartition(&a, 2, 1)?, 1, 2, 3)?;
            one(ops::take_along_axis(&a, &place, 1))
        }
        Primitive::Softmax { precise } => one(ops::softmax(&a, &[1], *precise)),
        Primitive::LogSumExp => one(ops::logsumexp(&a, &[1], false)),
        Primitive::Take { .. } => one(ops::take(&a, &places(&[3.0, 1.0]), 0)),
        Primitive::TakeAlongAxis { .. } => {
            one(ops::take_along_axis(&a, &array(&[1.0; 6], &[1, 6], Dtype::Int32), 0))
        }
        Primitive::Gather { .. } => one(ops::gather(&a, &[&places(&[2.0, 0.0])], &[0], &[1, 4])),
        Primitive::Scatter { op, .. } => one(scatter(*op, &a)),
        Primitive::ScatterAxis { op, .. } => one(scatter_axis(*op, &a)),
        Primitive::SearchSorted { .. } => {
            let row = ops::sort(&operand(&[9], dtype, 4), 0)?;
            one(ops::searchsorted(&row, &a, "left"))
        }
        Primitive::Matmul => one(ops::matmul(&a, &operand(&[6, 5], dtype, 3))),
        Primitive::AddMm { .. } => {
            let c = operand(&[4, 5], dtype, 4);
            one(ops::addmm(&c, &a, &operand(&[6, 5], dtype, 3), 2.0, 0.5))
        }
        Primitive::GatherMm { .. } => {
            let stacks = [operand(&[3, 4, 6], dtype, 1), operand(&[2, 6, 5], dtype, 2)];
            let [lhs, rhs] = [places(&[2.0, 0.0]), places(&[1.0, 1.0])];
            one(ops::gather_mm(&stacks[0], &stacks[1], Some(&lhs), Some(&rhs), false))
        }
        Primitive::SegmentedMm => {
            let segments = array(&[0.0, 2.0, 2.0, 6.0], &[2, 2], Dtype::Uint32);
            one(ops::segmented_mm(&a, &operand(&[6, 5], dtype, 3), &segments))
        }
        Primitive::Convolution(_) => {
            let (x, w) = (operand(&[1, 6, 7, 3], dtype, 1), operand(&[4, 3, 3, 3], dtype, 2));
            one(ops::conv2d(&x, &w, [1, 2], [1, 0], [1, 1], 1))
        }
        Primitive::Fft(_) => one(fft::fft(&a, None, 1, fft::Norm::Backward)),
        Primitive::Hadamard(_) => one(ops::hadamard_transform(&operand(&[2, 24], dtype, 1), None)),
        Primitive::Linalg(what) => factorization(what, dtype),
        Primitive::Quantize(_) => {
            quantized(dtype).map(|(w, scales, biases)| vec![w, scales, biases])
        }
        Primitive::Dequantize(_) => {
            let (w, scales, biases) = quantized(Dtype::Float32)?;
            one(ops::dequantize(&w, &scales, &biases, 64, 4))
        }
        Primitive::QuantizedMatmul { .. } => {
            let (w, scales, biases) = quantized(dtype)?;
            let x = operand(&[3, 64], dtype, 6);
            one(ops::quantized_matmul(&x, &w, &scales, &biases, true, 64, 4))
        }
        Primitive::GatherQmm { .. } => {
            let stack = operand(&[2, 8, 64], dtype, 5);
            let (w, scales, biases) = ops::quantize(&stack, 64, 4)?;
            let rhs = places(&[1.0, 0.0]);
            let picks = ops::Picks { lhs: None, rhs: Some(&rhs), sorted: false };
            let x = operand(&[2, 3, 64], dtype, 6);
            one(ops::gather_qmm(&x, &w, &scales, &biases, picks, true, 64, 4))
        }
        Primitive::RmsNorm { eps } => one(fast::rms_norm(&a, Some(&operand(&[6], dtype, 3)), *eps)),
        Primitive::LayerNorm { eps } => {
            let (weight, bias) = (operand(&[6], dtype, 3), operand(&[6], dtype, 4));
            one(fast::layer_norm(&a, Some(&weight), Some(&bias), *eps))
        }
        Primitive::Rope(_) => {
            let x = operand(&[1, 2, 3, 8], dtype, 1);
            one(fast::rope(&x, 8, false, Some(10000.0), 1.0, 2, None))
        }
        Primitive::ScaledDotProductAttention { scale, .. } => {
            let [q, k, v] = [1, 2, 3].map(|seed| operand(&[1, 2, 5, 8], dtype, seed));
            one(fast::scaled_dot_product_attention(&q, &k, &v, *scale, fast::Mask::None))
        }
        Primitive::RandomBits { width } => one(random::bits(&[9], *width, Some(&random::key(7)?))),
    }
}

/// The numbers that a call makes on a device, or what it says.
fn run(device: Device, entry: &Entry) -> std::result::Result<Vec<Vec<[f64; 2]>>, String> {
    let numbers = |a: &Array| match a.dtype() {
        Dtype::Complex64 => complex_parts(a),
        _ => values(a).into_iter().map(|x| [x, 0.0]).collect(),
    };
    mlx::with_device(device, || {
        let results = call(&entry.primitive, entry.dtype)?;
        mlx::eval(&results.iter().collect::<Vec<_>>())?;
        Ok(results.iter().map(numbers).collect())
    })
    .and_then(|result| result)
    .map_err(|error: mlx::Error| error.to_string())
}

/// Whether numbers are equal up to some roundings of the largest one.
fn agree(got: &[Vec<[f64; 2]>], want: &[Vec<[f64; 2]>], dtype: Dtype) -> bool {
    let close = |got: &Vec<[f64; 2]>, want: &Vec<[f64; 2]>| {
        let most = want.iter().flatten().fold(1.0, |m: f64, x| m.max(x.abs()));
        let bound = 16.0 * if dtype.is_inexact() { epsilon(dtype) } else { 1e-7 } * most;
        let near = |(g, w): (&f64, &f64)| g == w || (g - w).abs() <= bound;
        got.len() == want.len() && got.iter().flatten().zip(want.iter().flatten()).all(near)
    };
    got.len() == want.len() && got.iter().zip(want).all(|(g, w)| close(g, w))
}

/// What is wrong with an entry of Vulkan, if something is.
fn fault(entry: &Entry) -> Option<String> {
    let got = run(Device::GPU, entry);
    let wrong = match (entry.support, got) {
        (Support::Native, Ok(got)) => {
            let want = run(Device::CPU, entry).expect("the CPU runs everything that Vulkan does");
            (!agree(&got, &want, entry.dtype)).then(|| format!("{got:?}, on the CPU {want:?}"))
        }
        (Support::Native, Err(error)) => Some(error),
        (Support::Refused(_), Err(_)) => None,
        (Support::Refused(reason), Ok(_)) => Some(format!("runs, but is refused: {reason}")),
        (Support::Fallback(reason), _) => Some(format!("runs elsewhere: {reason}")),
    };
    wrong.map(|text| format!("{} {}: {text}", entry.primitive.name(), entry.dtype))
}

#[test]
fn every_entry_of_the_table_is_true() {
    mlx_tests::init();
    let entries: Vec<Entry> =
        table().unwrap().into_iter().filter(|entry| entry.backend == "vulkan").collect();
    let faults: Vec<String> = entries.iter().filter_map(fault).collect();
    let refused = entries.iter().filter(|e| matches!(e.support, Support::Refused(_))).count();
    println!(
        "support table: {} entries, {} run, {refused} refused, {} faults",
        entries.len(),
        entries.len() - refused,
        faults.len()
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
