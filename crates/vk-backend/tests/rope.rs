//! Rotary embedding against float64.

mod common;
mod oracle;

use mlx_vulkan_core::{Array, Dtype, fast, ops};
use oracle::{FLOATS, assert_close, exact, noise, random};

struct Case<'a> {
    dims: usize,
    traditional: bool,
    scale: f64,
    offsets: &'a [i32],
    inverse: &'a [f64],
}

/// Rotates rows of (batch, heads, rows, features).
fn rotated(x: &Array, case: &Case<'_>) -> Vec<f64> {
    let shape = x.shape();
    let (features, rows) = (x.dim(-1), x.dim(-2));
    let per_batch: usize = shape[1..].iter().product();
    let mut out = exact(x);
    for (i, row) in out.chunks_mut(features).enumerate() {
        let offset = case.offsets[(i * features / per_batch) % case.offsets.len()];
        let position = f64::from((i % rows) as i32 + offset) * case.scale;
        for pair in 0..case.dims / 2 {
            let (s, c) = (position * case.inverse[pair]).sin_cos();
            let (p, q) = if case.traditional {
                (2 * pair, 2 * pair + 1)
            } else {
                (pair, pair + case.dims / 2)
            };
            (row[p], row[q]) = (row[p] * c - row[q] * s, row[p] * s + row[q] * c);
        }
    }
    out
}

fn inverse(base: f64, dims: usize) -> Vec<f64> {
    (0..dims / 2).map(|i| base.powf(-2.0 * i as f64 / dims as f64)).collect()
}

#[test]
fn bases_offsets_and_layouts() {
    common::with_gpu(|| {
        for dtype in FLOATS {
            for traditional in [false, true] {
                for (dims, offset) in [(64, 0), (32, 7), (64, 100_000)] {
                    let x = random(&[2, 3, 5, 64], dtype, 3);
                    let freqs = inverse(1e4, dims);
                    let case =
                        Case { dims, traditional, scale: 1.0, offsets: &[offset], inverse: &freqs };
                    let want = rotated(&x, &case);
                    let got =
                        fast::rope(&x, dims, traditional, Some(1e4), 1.0, offset, None).unwrap();
                    assert_close(
                        &got,
                        &want,
                        &format!("{dtype} {traditional} dims {dims} offset {offset}"),
                    );
                    let swapped = ops::transpose(&x, &[0, 2, 1, 3]).unwrap();
                    let want = rotated(&swapped, &case);
                    let got = fast::rope(&swapped, dims, traditional, Some(1e4), 1.0, offset, None)
                        .unwrap();
                    assert_close(
                        &got,
                        &want,
                        &format!("{dtype} transposed {traditional} dims {dims}"),
                    );
                }
            }
        }
        let x = random(&[1, 2, 9, 32], Dtype::Float32, 4);
        let freqs = inverse(1e4, 32);
        let case = Case {
            dims: 32,
            traditional: false,
            scale: 0.1f32.into(),
            offsets: &[1_000_000],
            inverse: &freqs,
        };
        let got = fast::rope(&x, 32, false, Some(1e4), 0.1, 1_000_000, None).unwrap();
        assert_close(&got, &rotated(&x, &case), "a far position with a scale");
    });
}

#[test]
fn offsets_per_batch_scales_and_given_frequencies() {
    common::with_gpu(|| {
        let x = random(&[3, 4, 6, 20], Dtype::Float32, 5);
        let offsets = [3, 0, 1000];
        let given = Array::from_slice(&offsets, &[3]).unwrap();
        let freqs: Vec<f32> = noise(10, 9).iter().map(|f| 10f32.powf(f * 3.0)).collect();
        let divisors = Array::from_slice(&freqs, &[10]).unwrap();
        let inverse: Vec<f64> = freqs.iter().map(|&f| 1.0 / f64::from(f)).collect();
        let case = Case {
            dims: 20,
            traditional: false,
            scale: 0.25,
            offsets: &offsets,
            inverse: &inverse,
        };
        let got = fast::rope(&x, 20, false, None, 0.25, &given, Some(&divisors)).unwrap();
        assert_close(&got, &rotated(&x, &case), "given frequencies");
        let flat = random(&[2, 9, 16], Dtype::Float32, 6);
        let case = Case {
            dims: 16,
            traditional: true,
            scale: 1.0,
            offsets: &[2],
            inverse: &self::inverse(100.0, 16),
        };
        let got = fast::rope(&flat, 16, true, Some(100.0), 1.0, 2, None).unwrap();
        assert_close(&got, &rotated(&flat, &case), "three axes");
        let endless = Array::from_slice(&[f32::INFINITY, 1.0], &[2]).unwrap();
        let case =
            Case { dims: 4, traditional: false, scale: 1.0, offsets: &[2], inverse: &[0.0, 1.0] };
        let x = random(&[1, 2, 3, 4], Dtype::Float32, 7);
        let got = fast::rope(&x, 4, false, None, 1.0, 2, Some(&endless)).unwrap();
        assert_close(&got, &rotated(&x, &case), "an infinite period");
    });
}
