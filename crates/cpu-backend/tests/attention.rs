//! Attention against upstream and float64.

mod common;
mod near;

use common::*;
use mlx_vulkan_core::{Array, Dtype, fast, fast::Mask, ops};
use near::*;

/// Batch, heads, kv heads, queries, keys, features of keys and of values.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    b: usize,
    h: usize,
    g: usize,
    n: usize,
    m: usize,
    d: usize,
    dv: usize,
}

impl Sizes {
    fn q(&self) -> [usize; 4] {
        [self.b, self.h, self.n, self.d]
    }
    fn k(&self) -> [usize; 4] {
        [self.b, self.g, self.m, self.d]
    }
    fn v(&self) -> [usize; 4] {
        [self.b, self.g, self.m, self.dv]
    }
}

const SCALE: f32 = 0.25;

/// Attention in float64; `mask(b, h, i, j)` is added to a score, and `None` hides the key.
fn oracle(
    s: Sizes,
    q: &[f64],
    k: &[f64],
    v: &[f64],
    mask: impl Fn([usize; 4]) -> Option<f64>,
) -> Vec<f64> {
    let mut out = Vec::new();
    for row in 0..s.b * s.h * s.n {
        let (b, h, i) = (row / s.n / s.h, row / s.n % s.h, row % s.n);
        let kv = (b * s.g + h / (s.h / s.g)) * s.m;
        let scores: Vec<Option<f64>> = (0..s.m)
            .map(|j| {
                let pairs = q[row * s.d..].iter().zip(&k[(kv + j) * s.d..][..s.d]);
                let dot: f64 = pairs.map(|(x, y)| x * y).sum();
                mask([b, h, i, j]).map(|m| m + dot * SCALE as f64)
            })
            .collect();
        // Hidden keys count alike where nothing is visible.
        let hidden_only = scores.iter().all(Option::is_none);
        let largest = scores.iter().flatten().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        let weight = |s: &Option<f64>| match s {
            None => hidden_only as u8 as f64,
            Some(s) => (s - largest).exp(),
        };
        let weights: Vec<f64> = scores.iter().map(weight).collect();
        let sum: f64 = weights.iter().sum();
        for c in 0..s.dv {
            let values = weights.iter().enumerate().map(|(j, w)| w * v[(kv + j) * s.dv + c]);
            out.push(values.sum::<f64>() / sum);
        }
    }
    out
}

fn causal(s: Sizes) -> impl Fn([usize; 4]) -> Option<f64> {
    move |[_, _, i, j]| (j + s.n <= i + s.m).then_some(0.0)
}

fn size(shape: [usize; 4]) -> usize {
    shape.iter().product()
}

#[test]
fn upstreams_results() {
    on_cpu(|| {
        for case in upstream("attention") {
            let (n, m) =
                (case["n"].as_u64().unwrap() as usize, case["m"].as_u64().unwrap() as usize);
            let f = |values: Vec<f64>, shape: &[usize]| array(&values, shape, Dtype::Float32);
            let q = f(hashed(4 * n * 8, 1), &[1, 4, n, 8]);
            let k = f(hashed(2 * m * 8, 2), &[1, 2, m, 8]);
            let v = f(hashed(2 * m * 6, 3), &[1, 2, m, 6]);
            let keep: Vec<f64> = hashed(n * m, 4).iter().map(|&x| (x > 0.0) as u8 as f64).collect();
            let keep = array(&keep, &[n, m], Dtype::Bool);
            let bias = f(hashed(4 * n * m, 5), &[1, 4, n, m]);
            let mask = match case["mask"].as_str().unwrap() {
                "none" => Mask::None,
                "causal" => Mask::Causal,
                "bool" => Mask::Array(&keep),
                _ => Mask::Array(&bias),
            };
            let got = fast::scaled_dot_product_attention(&q, &k, &v, 0.25, mask).unwrap();
            let what = format!("{} {n} {m}", case["mask"]);
            assert_within(&got, &numbers(&case["out"]), 2e-6, &what);
        }
    });
}

#[track_caller]
fn check(dtype: Dtype, s: Sizes) {
    let q = stored(&sequence(size(s.q()), -2.0, 2.0), dtype);
    let k = stored(&sequence(size(s.k()), -2.0, 2.5), dtype);
    let v = stored(&sequence(size(s.v()), -1.0, 1.0), dtype);
    let keep: Vec<f64> =
        sequence(s.n * s.m, 0.0, 1.0).iter().map(|&x| (x > 0.3) as u8 as f64).collect();
    let bias = stored(&sequence(s.h * s.n * s.m, -1.0, 1.0), dtype);
    let keep_array = array(&keep, &[1, 1, s.n, s.m], Dtype::Bool);
    let bias_array = array(&bias, &[s.h, s.n, s.m], dtype);
    let (n, m) = (s.n, s.m);
    let masks: [(&str, Mask<'_>, Vec<f64>); 4] = [
        ("none", Mask::None, oracle(s, &q, &k, &v, |_| Some(0.0))),
        ("causal", Mask::Causal, oracle(s, &q, &k, &v, causal(s))),
        (
            "bool",
            Mask::Array(&keep_array),
            oracle(s, &q, &k, &v, |[_, _, i, j]| (keep[i * m + j] != 0.0).then_some(0.0)),
        ),
        (
            "additive",
            Mask::Array(&bias_array),
            oracle(s, &q, &k, &v, |[_, h, i, j]| Some(bias[(h * n + i) * m + j])),
        ),
    ];
    let bound = 64.0 * sum_epsilon(dtype) + epsilon(dtype);
    let layouts_of = |x: &[f64], shape| layouts(x, shape, dtype).into_iter();
    let arrays = layouts_of(&q, &s.q()).zip(layouts_of(&k, &s.k()).zip(layouts_of(&v, &s.v())));
    for ((layout, q), ((_, k), (_, v))) in arrays {
        for (name, mask, want) in &masks {
            let got = fast::scaled_dot_product_attention(&q, &k, &v, SCALE, *mask).unwrap();
            assert_within(&got, want, bound, &format!("{dtype} {layout} {name} {s:?}"));
        }
    }
}

#[test]
fn every_dtype_layout_and_mask() {
    on_cpu(|| {
        for dtype in FLOATS {
            check(dtype, Sizes { b: 2, h: 4, g: 2, n: 3, m: 7, d: 16, dv: 8 });
            check(dtype, Sizes { b: 1, h: 3, g: 1, n: 1, m: 300, d: 20, dv: 20 });
            check(dtype, Sizes { b: 1, h: 2, g: 2, n: 9, m: 4, d: 5, dv: 3 });
        }
    });
}

#[test]
fn prompts_over_several_blocks_and_tiles() {
    on_cpu(|| {
        for dtype in FLOATS {
            check(dtype, Sizes { b: 1, h: 2, g: 1, n: 70, m: 600, d: 32, dv: 16 });
            check(dtype, Sizes { b: 1, h: 1, g: 1, n: 130, m: 130, d: 8, dv: 8 });
        }
    });
}

#[test]
fn long_caches_are_split() {
    on_cpu(|| {
        check(Dtype::Float32, Sizes { b: 1, h: 4, g: 2, n: 1, m: 5000, d: 16, dv: 16 });
        check(Dtype::Float16, Sizes { b: 1, h: 2, g: 1, n: 2, m: 4099, d: 16, dv: 8 });
    });
}

/// Keys and values as a model has them: the beginning of a longer cache, heads transposed.
#[test]
fn slices_of_a_cache() {
    on_cpu(|| {
        let s = Sizes { b: 1, h: 4, g: 2, n: 1, m: 10, d: 16, dv: 16 };
        let (q, k, v) =
            (sequence(64, -1.0, 1.0), sequence(320, -1.0, 1.0), sequence(320, 0.0, 1.0));
        let cache = |values: &[f64]| {
            let new = array(values, &[1, 2, 10, 16], Dtype::Float32);
            let room = array(&[f64::NAN; 2 * 54 * 16], &[1, 2, 54, 16], Dtype::Float32);
            let cache = ops::concatenate(&[&new, &room], 2).unwrap();
            ops::slice_axis(&cache, 2, 0, 10).unwrap()
        };
        let q_array = array(&q, &s.q(), Dtype::Float32);
        let got = fast::scaled_dot_product_attention(
            &q_array,
            &cache(&k),
            &cache(&v),
            SCALE,
            Mask::Causal,
        );
        assert_within(&got.unwrap(), &oracle(s, &q, &k, &v, causal(s)), 1e-5, "cache");
    });
}

#[test]
fn rows_that_see_nothing() {
    on_cpu(|| {
        let q = array(&sequence(16, -1.0, 1.0), &[1, 1, 2, 8], Dtype::Float32);
        let k = array(&sequence(24, -1.0, 1.0), &[1, 1, 3, 8], Dtype::Float32);
        let v = array(&[1.0, 2.0, 6.0], &[1, 1, 3, 1], Dtype::Float32);
        let keep = array(&[0.0, 0.0, 0.0, 0.0, 1.0, 0.0], &[2, 3], Dtype::Bool);
        let got =
            fast::scaled_dot_product_attention(&q, &k, &v, SCALE, Mask::Array(&keep)).unwrap();
        assert_within(&got, &[3.0, 2.0], 1e-6, "hidden keys count alike");
        let minus = f64::NEG_INFINITY;
        let bias = array(&[minus, minus, minus, minus, 0.0, minus], &[2, 3], Dtype::Float32);
        let got =
            fast::scaled_dot_product_attention(&q, &k, &v, SCALE, Mask::Array(&bias)).unwrap();
        assert_within(&got, &[f64::NAN, 2.0], 1e-6, "no finite score");
        let none = |last| Array::from_slice::<f32>(&[], &[1, 1, 0, last]).unwrap();
        let got = fast::scaled_dot_product_attention(&q, &none(8), &none(1), SCALE, Mask::None);
        assert_within(&got.unwrap(), &[0.0, 0.0], 0.0, "no keys");
    });
}
