//! Derivatives and mapping of products with matrices of small floats, and of undoing these.

use mlx::{
    Array, Device, Dtype, Result, ops,
    ops::{FpMode, Picks},
    transforms::vjp,
};
use mlx_tests::{filled, noise};

use crate::{derivatives, mapping};

const MODES: [FpMode; 3] = [FpMode::Mxfp4, FpMode::Nvfp4, FpMode::Mxfp8];

/// Random numbers, other ones for each seed.
fn random(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    filled(shape, dtype, noise(seed, -1.0, 1.0))
}

/// Words and scales of random numbers.
fn quantized(shape: &[usize], mode: FpMode, seed: u64) -> [Array; 2] {
    mlx_tests::init();
    let quantize = || {
        let w = random(shape, Dtype::Float32, seed);
        let (words, scales) = ops::fp_quantize(&w, mode, None)?;
        mlx::eval(&[&words, &scales])?;
        Ok::<_, mlx::Error>([words, scales])
    };
    mlx::with_device(Device::CPU, quantize).unwrap().unwrap()
}

/// A product of x with words and scales.
type Product = fn(&Array, &Array, &Array, bool, FpMode) -> Result<Array>;

/// Checks the derivative of a product by `x`, and the product mapped over all that it takes.
fn check(name: &str, batch: &[usize], stack: &[usize], product: Product) {
    for (mode, transpose) in MODES.into_iter().flat_map(|mode| [(mode, true), (mode, false)]) {
        let columns = 2 * mode.group_size();
        let inner = if transpose { columns } else { 3 };
        let x = |dtype, seed| {
            let shape: Vec<usize> = batch.iter().copied().chain([2, inner]).collect();
            random(&shape, dtype, seed)
        };
        let matrices: Vec<usize> = stack.iter().copied().chain([3, columns]).collect();
        let [words, scales] = quantized(&matrices, mode, 1);
        let apply =
            |inputs: &[Array]| Ok(vec![product(&inputs[0], &words, &scales, transpose, mode)?]);
        derivatives::check_function(name, &[x(Dtype::Float64, 2)], apply);
        let inputs = |seed| {
            let [words, scales] = quantized(&matrices, mode, seed + 3);
            vec![x(Dtype::Float32, seed), words, scales]
        };
        let apply = |i: &[Array]| Ok(vec![product(&i[0], &i[1], &i[2], transpose, mode)?]);
        mapping::check_function(name, inputs, apply);
    }
}

#[test]
fn products() {
    let product: Product =
        |x, w, s, transpose, mode| ops::fp_quantized_matmul(x, w, s, transpose, mode);
    check("a matrix", &[], &[], product);
    check("a matrix for all batches", &[2, 2], &[], product);
    check("a matrix for some batches", &[2, 1], &[3], product);
}

#[test]
fn products_of_picked_matrices() {
    check("both are picked", &[2], &[3], |x, w, s, transpose, mode| {
        let lhs = Array::from_slice(&[1u32, 0, 1], &[3])?;
        let rhs = Array::from_slice(&[2u32, 0, 2, 2, 1, 0], &[2, 3])?;
        let picks = Picks { lhs: Some(&lhs), rhs: Some(&rhs), sorted: false };
        ops::fp_gather_qmm(x, w, s, picks, transpose, mode, None)
    });
    check("indices that ascend", &[3], &[4], |x, w, s, transpose, mode| {
        let rhs = Array::from_slice(&[0u32, 2, 2], &[3])?;
        let picks = Picks { lhs: None, rhs: Some(&rhs), sorted: true };
        ops::fp_gather_qmm(x, w, s, picks, transpose, mode, None)
    });
}

#[test]
fn numbers_are_mapped() {
    for mode in MODES {
        let inputs = |seed| quantized(&[2, 3, 32], mode, seed).to_vec();
        mapping::check_function(mode.name(), inputs, |i| {
            Ok(vec![ops::fp_dequantize(&i[0], &i[1], mode, None, Dtype::Float32)?])
        });
    }
}

#[test]
fn words_and_scales_have_no_derivative() {
    mlx_tests::on_each_device(|_| {
        let parts = quantized(&[8, 64], FpMode::Mxfp4, 1);
        let x = random(&[1, 64], Dtype::Float32, 2);
        let ones = ops::ones(&[1, 8], Dtype::Float32).unwrap();
        let says = |i: usize, words: &str| {
            let product = |a: &[Array]| {
                let mut parts = parts.clone();
                parts[i] = a[0].clone();
                Ok(vec![ops::fp_quantized_matmul(&x, &parts[0], &parts[1], true, FpMode::Mxfp4)?])
            };
            let error = vjp(product, &parts[i..=i], std::slice::from_ref(&ones)).unwrap_err();
            assert_eq!(error.to_string(), format!("[QuantizedMatmul::vjp] {words}"));
        };
        says(0, "no gradient wrt the quantized weights.");
        says(1, "no gradient wrt scales with mxfp4 quantization.");
    });
}
