//! RMS norm and layer norm against float64.

mod common;
mod oracle;

use mlx_vulkan_core::{Array, Dtype, fast, ops};
use oracle::{FLOATS, assert_close, exact, random};

fn rms(x: &[f64], weight: &[f64], width: usize) -> Vec<f64> {
    x.chunks(width)
        .flat_map(|row| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / width as f64;
            row.iter()
                .enumerate()
                .map(move |(i, x)| x / (mean + 1e-5).sqrt() * weight[i % weight.len()])
        })
        .collect()
}

fn layer(x: &[f64], weight: &[f64], bias: &[f64], width: usize) -> Vec<f64> {
    x.chunks(width)
        .flat_map(|row| {
            let mean = row.iter().sum::<f64>() / width as f64;
            let var = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / width as f64;
            row.iter().enumerate().map(move |(i, x)| {
                (x - mean) / (var + 1e-5).sqrt() * weight[i % weight.len()] + bias[i % bias.len()]
            })
        })
        .collect()
}

fn check(x: &Array, what: &str) {
    let (width, dtype) = (x.dim(-1), x.dtype());
    let (weight, bias) = (random(&[width], dtype, 11), random(&[width], dtype, 12));
    let (xv, wv, bv) = (exact(x), exact(&weight), exact(&bias));
    assert_close(
        &fast::rms_norm(x, Some(&weight), 1e-5).unwrap(),
        &rms(&xv, &wv, width),
        &format!("rms {what}"),
    );
    assert_close(
        &fast::rms_norm(x, None, 1e-5).unwrap(),
        &rms(&xv, &[1.0], width),
        &format!("rms, no weight {what}"),
    );
    let got = fast::layer_norm(x, Some(&weight), Some(&bias), 1e-5).unwrap();
    assert_close(&got, &layer(&xv, &wv, &bv, width), &format!("layer {what}"));
    let got = fast::layer_norm(x, None, None, 1e-5).unwrap();
    assert_close(&got, &layer(&xv, &[1.0], &[0.0], width), &format!("layer, no parameters {what}"));
}

#[test]
fn rows_of_any_length_and_layout() {
    common::with_gpu(|| {
        for dtype in FLOATS {
            for shape in [&[3, 576][..], &[2, 5, 33], &[1, 1], &[4, 2050], &[130, 64], &[7]] {
                check(&random(shape, dtype, 3), &format!("{shape:?} {dtype}"));
            }
        }
        let x = random(&[40, 12], Dtype::Float32, 4);
        check(&ops::transpose(&x, &[]).unwrap(), "transposed");
        check(&ops::slice(&x, &[1, 1], &[40, 12], &[2, 1]).unwrap(), "sliced");
    });
}

#[test]
fn a_large_mean_does_not_cancel() {
    common::with_gpu(|| {
        let x = ops::add(random(&[2, 512], Dtype::Float32, 4), 1000.0f32).unwrap();
        let got = fast::layer_norm(&x, None, None, 1e-5).unwrap();
        let want = layer(&exact(&x), &[1.0], &[0.0], 512);
        for (g, w) in exact(&got).iter().zip(&want) {
            assert!((g - w).abs() < 2e-4, "{g} {w}");
        }
    });
}
