//! Attention against float64: masks, grouped heads, caches, odd sizes.

mod common;
mod oracle;

use mlx_vulkan_core::{Array, Dtype, dtype::Bool8, fast, fast::Mask, ops};
use oracle::{FLOATS, assert_close, exact, noise, random};

/// Scores to add, by (batch, head, query, key).
type Bias<'a> = &'a dyn Fn(usize, usize, usize, usize) -> f64;

fn expected(q: &Array, k: &Array, v: &Array, scale: f64, bias: Bias<'_>) -> Vec<f64> {
    let [batches, heads, queries, width] = [0, 1, 2, 3].map(|i| q.dim(i));
    let (kv_heads, keys, value_width) = (k.dim(1), k.dim(2), v.dim(3));
    let (qs, ks, vs) = (exact(q), exact(k), exact(v));
    let mut out = Vec::new();
    for b in 0..batches {
        for h in 0..heads {
            let kv = b * kv_heads + h / (heads / kv_heads);
            for i in 0..queries {
                let row = &qs[((b * heads + h) * queries + i) * width..][..width];
                let score = |j: usize| {
                    let key = &ks[(kv * keys + j) * width..][..width];
                    row.iter().zip(key).map(|(x, y)| x * y).sum::<f64>() * scale + bias(b, h, i, j)
                };
                let scores: Vec<f64> = (0..keys).map(score).collect();
                let top = scores.iter().copied().fold(f64::MIN, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
                let sum: f64 = weights.iter().sum();
                out.extend((0..value_width).map(|d| {
                    let total: f64 =
                        (0..keys).map(|j| weights[j] * vs[(kv * keys + j) * value_width + d]).sum();
                    if sum > 0.0 { total / sum } else { 0.0 }
                }));
            }
        }
    }
    out
}

fn causal(queries: usize, keys: usize) -> impl Fn(usize, usize, usize, usize) -> f64 {
    move |_, _, i, j| if j <= i + keys - queries { 0.0 } else { f64::NEG_INFINITY }
}

fn none(_: usize, _: usize, _: usize, _: usize) -> f64 {
    0.0
}

#[test]
fn sizes_heads_and_dtypes() {
    common::with_gpu(|| {
        let cases = [
            (9, 3, 1, 40, 64, 64),
            (4, 4, 1, 700, 128, 128),
            (4, 1, 3, 65, 80, 80),
            (2, 2, 37, 37, 64, 64),
            (6, 2, 50, 90, 33, 17),
            (2, 1, 5, 9, 256, 64),
            (2, 2, 4, 11, 600, 300),
        ];
        for (heads, kv_heads, queries, keys, d, dv) in cases {
            for dtype in FLOATS {
                let q = random(&[2, heads, queries, d], dtype, 1);
                let k = random(&[2, kv_heads, keys, d], dtype, 2);
                let v = random(&[2, kv_heads, keys, dv], dtype, 3);
                let what = format!("{heads}/{kv_heads} heads, {queries}x{keys}, {d}/{dv}, {dtype}");
                let got = fast::scaled_dot_product_attention(&q, &k, &v, 0.3, Mask::None).unwrap();
                assert_close(&got, &expected(&q, &k, &v, 0.3f32.into(), &none), &what);
                let got =
                    fast::scaled_dot_product_attention(&q, &k, &v, 0.3, Mask::Causal).unwrap();
                let want = expected(&q, &k, &v, 0.3f32.into(), &causal(queries, keys));
                assert_close(&got, &want, &format!("causal {what}"));
            }
        }
    });
}

#[test]
fn masks_broadcast() {
    common::with_gpu(|| {
        for (queries, keys) in [(1, 100), (20, 45)] {
            let q = random(&[2, 4, queries, 32], Dtype::Float32, 1);
            let k = random(&[2, 2, keys, 32], Dtype::Float32, 2);
            let v = random(&[2, 2, keys, 32], Dtype::Float32, 3);
            let data = noise(queries * keys, 4);
            let additive = Array::from_slice(&data, &[queries, keys]).unwrap();
            let got = fast::scaled_dot_product_attention(&q, &k, &v, 0.2, Mask::Array(&additive))
                .unwrap();
            let want = expected(&q, &k, &v, 0.2f32.into(), &|_, _, i, j| data[i * keys + j].into());
            assert_close(&got, &want, "additive");
            let bits: Vec<Bool8> = noise(2 * keys, 5)
                .iter()
                .enumerate()
                .map(|(i, x)| (*x > 0.0 || i % keys == 0).into())
                .collect();
            let keep = Array::from_slice(&bits, &[2, 1, 1, keys]).unwrap();
            let got =
                fast::scaled_dot_product_attention(&q, &k, &v, 0.2, Mask::Array(&keep)).unwrap();
            let bias = |b: usize, _, _, j: usize| {
                if bits[b * keys + j].0 != 0 { 0.0 } else { f64::NEG_INFINITY }
            };
            assert_close(&got, &expected(&q, &k, &v, 0.2f32.into(), &bias), "bool per batch");
        }
    });
}

#[test]
fn rows_that_see_nothing_average_or_are_nan() {
    common::with_gpu(|| {
        for dtype in FLOATS {
            let q = random(&[1, 2, 5, 32], dtype, 1);
            let (k, v) = (random(&[1, 1, 3, 32], dtype, 2), random(&[1, 1, 3, 32], dtype, 3));
            let lowest = f64::from(f32::MIN);
            let bias = |_, _, i: usize, j: usize| if j + 2 <= i { 0.0 } else { lowest };
            let got = fast::scaled_dot_product_attention(&q, &k, &v, 0.2, Mask::Causal).unwrap();
            assert_close(
                &got,
                &expected(&q, &k, &v, 0.2f32.into(), &bias),
                "more queries than keys",
            );
            let keep = Array::from_slice(&[Bool8::from(false); 3], &[3]).unwrap();
            let got =
                fast::scaled_dot_product_attention(&q, &k, &v, 0.2, Mask::Array(&keep)).unwrap();
            assert_close(&got, &expected(&q, &k, &v, 0.0, &none), "nothing kept");
        }
        let q = random(&[1, 1, 1, 8], Dtype::Float32, 1);
        let none = Array::from_slice(&[f32::NEG_INFINITY], &[1]).unwrap();
        let got = fast::scaled_dot_product_attention(&q, &q, &q, 1.0, Mask::Array(&none)).unwrap();
        assert!(exact(&got).iter().all(|x| x.is_nan()));
    });
}

#[test]
fn cache_slices_and_transposed_inputs() {
    common::with_gpu(|| {
        let q = ops::transpose(&random(&[1, 3, 6, 64], Dtype::Float16, 1), &[0, 2, 1, 3]).unwrap();
        let cut = |seed| {
            let cache = random(&[1, 2, 256, 64], Dtype::Float16, seed);
            ops::slice(&cache, &[0, 0, 0, 0], &[1, 2, 77, 64], &[1, 1, 1, 1]).unwrap()
        };
        let (k, v) = (cut(2), cut(3));
        let got = fast::scaled_dot_product_attention(&q, &k, &v, 0.125, Mask::Causal).unwrap();
        assert_close(&got, &expected(&q, &k, &v, 0.125, &causal(3, 77)), "cache");
        // What models do next is a view.
        let merged =
            ops::reshape(&ops::transpose(&got, &[0, 2, 1, 3]).unwrap(), &[1, 3, -1]).unwrap();
        assert_eq!(merged.shape(), [1, 3, 384]);
        let features =
            ops::transpose(&random(&[1, 2, 64, 40], Dtype::Float32, 4), &[0, 1, 3, 2]).unwrap();
        let got =
            fast::scaled_dot_product_attention(&features, &features, &features, 0.1, Mask::None)
                .unwrap();
        assert_close(
            &got,
            &expected(&features, &features, &features, 0.1f32.into(), &none),
            "no dense features",
        );
    });
}

/// Where the device has cooperative matrices these run on them: tails of queries and keys, every width that
/// they take, masks, caches, keys in parts.
#[test]
fn many_queries_of_halves() {
    common::with_gpu(|| {
        let cases = [
            (4, 2, 65, 90, 64, 64),
            (3, 1, 20, 33, 80, 80),
            (2, 1, 70, 50, 128, 128),
            (2, 2, 17, 600, 64, 64),
            (2, 1, 40, 50, 192, 128),
            (2, 1, 35, 64, 256, 256),
        ];
        for (i, &(heads, kv_heads, queries, keys, d, dv)) in cases.iter().enumerate() {
            for (j, dtype) in [Dtype::Float16, Dtype::Bfloat16].into_iter().enumerate() {
                let q = random(&[2, heads, queries, d], dtype, 1);
                let cut = |width, seed| {
                    let cache = random(&[2, kv_heads, keys + 9, width], dtype, seed);
                    ops::slice_axis(&cache, 2, 0, keys as isize).unwrap()
                };
                let (k, v) = (cut(d, 2), cut(dv, 3));
                let check = |what: &str, mask: Mask<'_>, bias: Bias<'_>| {
                    let got = fast::scaled_dot_product_attention(&q, &k, &v, 0.2, mask).unwrap();
                    let sizes = format!("{heads}/{kv_heads} heads, {queries}x{keys}, {d}/{dv}");
                    let want = expected(&q, &k, &v, 0.2f32.into(), bias);
                    assert_close(&got, &want, &format!("{what} {sizes}, {dtype}"));
                };
                let lowest = f64::from(f32::MIN);
                // Masks take turns, because each is another kernel, which takes lavapipe long to compile.
                match (2 * i + j) % 4 {
                    0 => check("all", Mask::None, &none),
                    1 => {
                        let seen = |i, j| j + queries <= i + keys;
                        let bias = |_, _, i, j| if seen(i, j) { 0.0 } else { lowest };
                        check("causal", Mask::Causal, &bias);
                    }
                    2 => {
                        let keep: Vec<Bool8> = (0..keys).map(|j| (j % 3 != 1).into()).collect();
                        let keep = Array::from_slice(&keep, &[keys]).unwrap();
                        let hidden = |_, _, _, j: usize| if j % 3 != 1 { 0.0 } else { lowest };
                        check("kept", Mask::Array(&keep), &hidden);
                    }
                    _ => {
                        let added = random(&[queries, keys], dtype, 4);
                        let data = exact(&added);
                        check("added", Mask::Array(&added), &|_, _, i, j| data[i * keys + j]);
                    }
                }
            }
        }
    });
}
