//! Derivatives and mapping of quantization and of products with quantized matrices.

use mlx::{Array, Device, Dtype, Result, ops, ops::Picks, transforms::vjp};
use mlx_tests::{filled, noise};

use crate::{derivatives, mapping};

const GROUP: usize = 32;
const BITS: usize = 4;

/// Random numbers, other ones for each seed.
fn random(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    filled(shape, dtype, noise(seed, -1.0, 1.0))
}

/// Quantized matrices of random numbers: words, scales and biases.
fn quantized(shape: &[usize], dtype: Dtype, seed: u64) -> [Array; 3] {
    mlx_tests::init();
    let quantize = || {
        let (words, scales, biases) = ops::quantize(&random(shape, dtype, seed), GROUP, BITS)?;
        mlx::eval(&[&words, &scales, &biases])?;
        Ok::<_, mlx::Error>([words, scales, biases])
    };
    mlx::with_device(Device::CPU, quantize).unwrap().unwrap()
}

/// A function of x, scales and biases, for words.
type Product = fn(&Array, &Array, &[Array], bool) -> Result<Array>;

/// Checks the derivatives of a product by `x`, scales and biases, and the product mapped over these and the
/// words; transposed and not.
fn check(name: &str, batch: &[usize], stack: &[usize], product: Product) {
    for transpose in [true, false] {
        let (inner, outer) = if transpose { (2 * GROUP, 3) } else { (3, 2 * GROUP) };
        let x = |dtype, seed| {
            let shape: Vec<usize> = batch.iter().copied().chain([2, inner]).collect();
            random(&shape, dtype, seed)
        };
        let (rows, columns) = if transpose { (outer, inner) } else { (inner, outer) };
        let matrices: Vec<usize> = stack.iter().copied().chain([rows, columns]).collect();
        let [words, scales, biases] = quantized(&matrices, Dtype::Float64, 1);
        let apply =
            |inputs: &[Array]| Ok(vec![product(&inputs[0], &words, &inputs[1..], transpose)?]);
        derivatives::check_function(name, &[x(Dtype::Float64, 2), scales, biases], apply);
        let inputs = |seed| {
            let [words, scales, biases] = quantized(&matrices, Dtype::Float32, seed + 3);
            vec![x(Dtype::Float32, seed), words, scales, biases]
        };
        let apply =
            |inputs: &[Array]| Ok(vec![product(&inputs[0], &inputs[1], &inputs[2..], transpose)?]);
        mapping::check_function(name, inputs, apply);
    }
}

#[test]
fn products() {
    let product: Product =
        |x, w, p, transpose| ops::quantized_matmul(x, w, &p[0], &p[1], transpose, GROUP, BITS);
    check("a matrix", &[], &[], product);
    check("a matrix for all batches", &[2, 2], &[], product);
    check("a matrix for each batch", &[2], &[2], product);
    check("a matrix for some batches", &[2, 1], &[3], product);
    check("no batches", &[0], &[], product);
}

#[test]
fn products_of_picked_matrices() {
    fn gathered(
        x: &Array,
        w: &Array,
        p: &[Array],
        transpose: bool,
        picks: Picks<'_>,
    ) -> Result<Array> {
        ops::gather_qmm(x, w, &p[0], &p[1], picks, transpose, GROUP, BITS)
    }
    check("both are picked", &[2], &[3], |x, w, p, transpose| {
        let lhs = Array::from_slice(&[1u32, 0, 1], &[3])?;
        let rhs = Array::from_slice(&[2u32, 0, 2, 2, 1, 0], &[2, 3])?;
        gathered(x, w, p, transpose, Picks { lhs: Some(&lhs), rhs: Some(&rhs), sorted: false })
    });
    check("indices that ascend", &[3], &[4], |x, w, p, transpose| {
        let rhs = Array::from_slice(&[0u32, 2, 2], &[3])?;
        gathered(x, w, p, transpose, Picks { lhs: None, rhs: Some(&rhs), sorted: true })
    });
    check("sorted indices are broadcast", &[2, 3], &[4], |x, w, p, transpose| {
        let rhs = Array::from_slice(&[0u32, 2, 2], &[3])?;
        gathered(x, w, p, transpose, Picks { lhs: None, rhs: Some(&rhs), sorted: true })
    });
    check("each matrix once", &[2], &[3], |x, w, p, transpose| {
        let lhs = Array::from_slice(&[0u32, 0, 1], &[3])?;
        gathered(x, w, p, transpose, Picks { lhs: Some(&lhs), rhs: None, sorted: true })
    });
}

#[test]
fn parameters() {
    let [words, scales, biases] = quantized(&[2, 3, 64], Dtype::Float64, 1);
    derivatives::check_function("dequantize", &[scales, biases], |x| {
        Ok(vec![ops::dequantize(&words, &x[0], &x[1], GROUP, BITS)?])
    });
    let w = random(&[3, 96], Dtype::Float64, 5);
    derivatives::check_function("quantize", &[w], |x| {
        let (_, scales, biases) = ops::quantize(&x[0], GROUP, BITS)?;
        Ok(vec![scales, biases])
    });
    // A group of zeros has no bias.
    let zeros = ops::zeros(&[1, 32], Dtype::Float32).unwrap();
    let quantize = |x: &[Array]| {
        let (words, scales, biases) = ops::quantize(&x[0], GROUP, BITS)?;
        Ok(vec![words, scales, biases])
    };
    let cotangent =
        |dtype| ops::ones(&[1, if dtype == Dtype::Uint32 { 4 } else { 1 }], dtype).unwrap();
    let cotangents = [Dtype::Uint32, Dtype::Float32, Dtype::Float32].map(cotangent);
    mlx_tests::on_each_device(|_| {
        let (_, got) = vjp(quantize, std::slice::from_ref(&zeros), &cotangents).unwrap();
        assert_eq!(mlx_tests::values(&got[0]), [0.0; 32]);
    });
    mapping::check_function("quantize", |i| vec![random(&[2, 3, 32], Dtype::Float32, i)], quantize);
}

/// Low-rank matrices beside a quantized one, whose derivatives alone are wanted.
#[test]
fn low_rank_updates() {
    let [words, scales, biases] = quantized(&[8, 64], Dtype::Float64, 1);
    let inputs = [
        random(&[5, 64], Dtype::Float64, 2),
        random(&[64, 2], Dtype::Float64, 3),
        random(&[2, 8], Dtype::Float64, 4),
    ];
    let layer = |x: &[Array]| {
        let plain = ops::quantized_matmul(&x[0], &words, &scales, &biases, true, GROUP, BITS)?;
        let update = ops::matmul(&ops::matmul(&x[0], &x[1])?, &x[2])?;
        Ok(vec![ops::tanh(&ops::add(&plain, &ops::multiply(&update, 0.5)?)?)?])
    };
    derivatives::check_function("a layer with low-rank updates", &inputs, layer);
}

#[test]
fn words_have_no_derivative() {
    mlx_tests::on_each_device(|_| {
        let [words, scales, biases] = quantized(&[8, 64], Dtype::Float32, 1);
        let x = random(&[1, 64], Dtype::Float32, 2);
        let ones = ops::ones(&[1, 8], Dtype::Float32).unwrap();
        let product = |w: &[Array]| {
            Ok(vec![ops::quantized_matmul(&x, &w[0], &scales, &biases, true, GROUP, BITS)?])
        };
        let error = vjp(product, &[words], &[ones]).unwrap_err();
        let expected = "[QuantizedMatmul::vjp] no gradient wrt the quantized weights.";
        assert_eq!(error.to_string(), expected);
    });
}
