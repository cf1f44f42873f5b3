//! Int8 rows: products of quantized matrices as sums of products of bytes, where the device is
//! told to take them (`MLX_VK_ENABLE_INTEGER_DOTS`), in dispatches and in runs.

use mlx::{Array, Device, Dtype, ops, vulkan::stats};
use mlx_tests::{array, values};

use super::{Quantized, agrees, biases, interpreter, noise, turn};

pub(super) const INT8_ROWS: (&str, &str) = ("MLX_VK_ENABLE_INTEGER_DOTS", "1");
const DISPATCHES: (&str, &str) = ("MLX_VK_ENABLE_INTERPRETER", "0");
const LANES: (&str, &str) = ("MLX_VK_ENABLE_COOPMAT_MATVEC", "0");
const NO_TILES: (&str, &str) = ("MLX_VK_ENABLE_COOPMAT", "0");

pub(super) fn was_used(kernel: &str) {
    let created = stats::pipelines_created();
    assert!(created.contains_key(kernel), "{kernel} is not among {created:?}");
}

#[test]
fn products_of_every_group_and_number_of_rows() {
    let test = "int8_rows::products_of_every_group_and_number_of_rows";
    mlx_tests::in_child(test, &[INT8_ROWS, DISPATCHES, LANES, NO_TILES], || {
        let _turn = turn();
        for (bits, group, rows) in [
            (2, 64, 1),
            (3, 32, 2),
            (4, 32, 1),
            (4, 64, 3),
            (4, 128, 8),
            (5, 128, 1),
            (6, 64, 1),
            (8, 32, 5),
            (8, 64, 1),
            (8, 128, 2),
        ] {
            for dtype in [Dtype::Float16, Dtype::Bfloat16] {
                let x = noise(1, &[rows, 640], dtype);
                let [a, b] = [2, 3].map(|seed| Quantized::new(seed, 48, 640, group, bits, dtype));
                agrees(&format!("{bits} bits, {group}, {rows} rows, {dtype}"), 1, dtype, &|| {
                    Ok(vec![a.forward(&x)?, b.forward(&x)?])
                });
            }
        }
        was_used("matvec_fused_dots");
    });
}

#[test]
fn products_with_biases() {
    let settings = [INT8_ROWS, DISPATCHES, LANES, NO_TILES];
    mlx_tests::in_child("int8_rows::products_with_biases", &settings, || {
        biases::residuals();
        was_used("matvec_fused_dots");
    });
}

#[test]
fn steps_of_runs() {
    mlx_tests::in_child("int8_rows::steps_of_runs", &[INT8_ROWS, interpreter::ON], || {
        let _turn = turn();
        for (hidden, format, dtype) in [
            (128, (4, 32), Dtype::Float16),
            (192, (4, 64), Dtype::Bfloat16),
            (128, (8, 32), Dtype::Bfloat16),
            (128, (8, 64), Dtype::Float16),
            (128, (3, 64), Dtype::Bfloat16),
            (128, (6, 32), Dtype::Float16),
            // Lanes take chunks of twice the length.
            (2048, (4, 64), Dtype::Float16),
            (2176, (4, 128), Dtype::Bfloat16),
            (2048, (3, 64), Dtype::Float16),
            (2048, (6, 64), Dtype::Bfloat16),
            // And not with these.
            (2048, (4, 32), Dtype::Bfloat16),
        ] {
            interpreter::decoder(hidden, format, dtype, 0);
        }
        interpreter::decoder(128, (8, 64), Dtype::Bfloat16, 7);
        was_used("interpreter_dots");
    });
}

/// What a product of one row is, and how far from it int8 rows may lead: half a unit for each element, where
/// a unit is the 1/32256 of the largest of 32.
fn exact(x: &[f64], matrix: &[f64]) -> Vec<(f64, f64)> {
    let row = |w: &[f64]| {
        let (mut y, mut bound) = (0.0, 0.0);
        for (x, w) in x.chunks(32).zip(w.chunks(32)) {
            let unit = x.iter().fold(0.0, |m: f64, x| m.max(x.abs())) / 32_256.0;
            y += x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
            let sizes = x.iter().zip(w).map(|(x, w)| (unit / 2.0 + 1e-5 * x.abs()) * w.abs());
            bound += sizes.sum::<f64>();
        }
        (y, bound + y.abs() / 2048.0)
    };
    matrix.chunks(x.len()).map(row).collect()
}

fn on_gpu(matrix: &Quantized, x: &Array) -> Vec<f64> {
    mlx::with_device(Device::GPU, || values(&matrix.forward(x).unwrap())).unwrap()
}

#[test]
fn large_elements_cost_others_no_more_than_their_unit() {
    let test = "int8_rows::large_elements_cost_others_no_more_than_their_unit";
    mlx_tests::in_child(test, &[INT8_ROWS, DISPATCHES, LANES], || {
        let _turn = turn();
        let (inner, dtype) = (256, Dtype::Float16);
        for bits in [2, 3, 4, 5, 6, 8] {
            let matrix = Quantized::new(5, 64, inner, 64, bits, dtype);
            let [words, scales, biases] = &matrix.parts;
            // float16 rounds what it dequantizes to: the exact elements are made of float32 scales.
            let dense = mlx::with_device(Device::CPU, || {
                let exact = |a: &Array| ops::astype(a, Dtype::Float32).unwrap();
                let (scales, biases) = (exact(scales), exact(biases));
                let dense = ops::dequantize(words, &scales, &biases, 64, bits).unwrap();
                assert_eq!(dense.shape(), [64, inner]);
                values(&dense)
            });
            let dense = dense.unwrap();
            for large in [0.0, 1.0, 40.0, 3000.0, -60_000.0] {
                let mut x = values(&noise(6, &[1, inner], dtype));
                x[37] = large;
                x[64..96].fill(0.0);
                let got = on_gpu(&matrix, &array(&x, &[1, inner], dtype));
                for (i, (&y, (want, bound))) in got.iter().zip(exact(&x, &dense)).enumerate() {
                    let far = (y - want).abs();
                    assert!(
                        far <= bound,
                        "{bits} bits, {large}: result {i}: {y}, {want} +- {bound}"
                    );
                }
            }
        }
        was_used("matvec_fused_dots");
    });
}

#[test]
fn what_is_not_finite_stays_so() {
    let test = "int8_rows::what_is_not_finite_stays_so";
    mlx_tests::in_child(test, &[INT8_ROWS, DISPATCHES, LANES], || {
        let _turn = turn();
        let matrix = Quantized::new(7, 32, 128, 32, 4, Dtype::Bfloat16);
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut x = values(&noise(8, &[1, 128], Dtype::Bfloat16));
            x[70] = wrong;
            let got = on_gpu(&matrix, &array(&x, &[1, 128], Dtype::Bfloat16));
            assert!(got.iter().all(|y| !y.is_finite()), "{wrong}: {got:?}");
        }
        was_used("matvec_fused_dots");
    });
}
