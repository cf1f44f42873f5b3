//! Normalization against upstream and float64.

mod common;
mod near;

use common::*;
use mlx_vulkan_core::{Dtype, fast};
use near::*;

fn rms(x: &[f64], length: usize, weight: &[f64], eps: f64) -> Vec<f64> {
    let row = |x: &[f64]| {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / length as f64;
        let inverse = 1.0 / (mean + eps).sqrt();
        x.iter().zip(weight).map(|(x, w)| x * inverse * w).collect::<Vec<_>>()
    };
    x.chunks(length).flat_map(row).collect()
}

fn layer(x: &[f64], length: usize, weight: &[f64], bias: &[f64], eps: f64) -> Vec<f64> {
    let row = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / length as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / length as f64;
        let inverse = 1.0 / (variance + eps).sqrt();
        let scaled = x.iter().map(|x| (x - mean) * inverse).zip(weight.iter().zip(bias));
        scaled.map(|(x, (w, b))| x * w + b).collect::<Vec<_>>()
    };
    x.chunks(length).flat_map(row).collect()
}

#[test]
fn every_dtype_and_layout() {
    on_cpu(|| {
        for dtype in FLOATS {
            for shape in [[2, 3, 40], [1, 5, 7], [4, 60, 300], [1, 1, 1]] {
                let n = shape[2];
                let x = stored(&sequence(shape.iter().product(), -2.0, 3.0), dtype);
                let w = stored(&sequence(n, 0.5, 1.5), dtype);
                let b = stored(&sequence(n, -1.0, 1.0), dtype);
                let eps = 1e-5f32;
                let bound = 50.0 * sum_epsilon(dtype);
                let (wa, ba) = (array(&w, &[n], dtype), array(&b, &[n], dtype));
                for (layout, x_array) in layouts(&x, &shape, dtype) {
                    let what = format!("{dtype} {layout} {shape:?}");
                    let got = fast::rms_norm(&x_array, Some(&wa), eps).unwrap();
                    assert_within(&got, &rms(&x, n, &w, eps as f64), bound, &what);
                    let got = fast::layer_norm(&x_array, Some(&wa), Some(&ba), eps).unwrap();
                    assert_within(&got, &layer(&x, n, &w, &b, eps as f64), 8.0 * bound, &what);
                }
            }
        }
    });
}

#[test]
fn upstreams_results() {
    on_cpu(|| {
        let case = upstream("norm").remove(0);
        let f32_of = |values: Vec<f64>, shape: &[usize]| array(&values, shape, Dtype::Float32);
        let x = f32_of(hashed(120, 9), &[3, 40]);
        let (w, b) = (f32_of(hashed(40, 10), &[40]), f32_of(hashed(40, 11), &[40]));
        let check = |got: mlx_vulkan_core::Result<mlx_vulkan_core::Array>, name: &str| {
            assert_within(&got.unwrap(), &numbers(&case[name]), 2e-6, name);
        };
        check(fast::rms_norm(&x, Some(&w), 1e-5), "rms");
        check(fast::rms_norm(&x, None, 1e-5), "rms_plain");
        check(fast::layer_norm(&x, Some(&w), Some(&b), 1e-5), "layer");
        check(fast::layer_norm(&x, None, None, 1e-5), "layer_plain");
    });
}

/// A result that may take over its input's memory is computed in place.
#[test]
fn in_place_and_empty() {
    on_cpu(|| {
        let x = sequence(6 * 32, -1.0, 1.0);
        let shifted =
            mlx_vulkan_core::ops::add(array(&x, &[6, 32], Dtype::Float32), 1.0f32).unwrap();
        let got = fast::rms_norm(&shifted, None, 0.0).unwrap();
        drop(shifted);
        let x: Vec<f64> = x.iter().map(|x| x + 1.0).collect();
        assert_within(&got, &rms(&x, 32, &[1.0; 32], 0.0), 1e-5, "in place");
        let none = array(&[], &[0, 8], Dtype::Float32);
        assert!(read(&fast::rms_norm(&none, None, 1e-5).unwrap()).is_empty());
    });
}
