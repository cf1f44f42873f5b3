//! Scaled dot-product attention.

use mlx::{Array, Device, Dtype, fast, fast::Mask, ops};
use mlx_tests::{
    Approx, Host, Layout, array, assert_approx, dtypes_of, epsilon, filled, hashed, keeping, noise,
    on_each_device, scattered, sum_epsilon, values,
};
use serde_json::Value;

/// What hides keys from queries.
#[derive(Clone)]
enum Hidden {
    Nothing,
    /// Keys behind the query, which is the last but as many as follow it.
    Later,
    /// An array of bools or of numbers to add.
    By(Array),
}

impl Hidden {
    fn mask(&self) -> Mask<'_> {
        match self {
            Hidden::Nothing => Mask::None,
            Hidden::Later => Mask::Causal,
            Hidden::By(mask) => Mask::Array(mask),
        }
    }
}

/// Softmax attention in float64.
///
/// A score is a sum of `d` products, of which the mask takes the rounding once more; the weights
/// have twice its error, and that of the exponent as in softmax; the result is a sum over the
/// keys in which each weight has that error.
fn attention(
    [q, k, v]: [&Array; 3],
    scale: f32,
    hidden: &Hidden,
    sinks: Option<&Array>,
) -> Vec<Approx> {
    let [batches, heads, queries, width] = [0, 1, 2, 3].map(|x| q.dim(x));
    let (kv_heads, keys, value_width) = (k.dim(1), k.dim(2), v.dim(3));
    let (qs, ks, vs) = (values(q), values(k), values(v));
    let unit = sum_epsilon(q.dtype());
    // What MLX hides with: a row that sees nothing averages over all keys.
    let lowest = match q.dtype() {
        Dtype::Float16 => -65504.0,
        Dtype::Bfloat16 => -3.389_531_389_251_535_5e38,
        Dtype::Float64 => f64::MIN,
        _ => f64::from(f32::MIN),
    };
    let mask = match hidden {
        Hidden::By(mask) => Some((Host::of(mask), mask.dtype() == Dtype::Bool)),
        _ => None,
    };
    let mut out = Vec::new();
    for row in 0..batches * heads * queries {
        let (b, h, i) = (row / queries / heads, row / queries % heads, row % queries);
        let kv = b * kv_heads + h / (heads / kv_heads);
        let query = &qs[row * width..][..width];
        let mut error: f64 = 0.0;
        let mut score = |j: usize| {
            let key = &ks[(kv * keys + j) * width..][..width];
            let terms = query.iter().zip(key).map(|(x, y)| x * y * f64::from(scale));
            let (sum, size) = terms.fold((0.0, 0.0), |(s, m), x| (s + x, m + f64::abs(x)));
            let seen = match &mask {
                _ if matches!(hidden, Hidden::Later) => j + queries <= i + keys,
                Some((mask, true)) => mask.at(&[b, h, i, j]) != 0.0,
                _ => true,
            };
            let added = match &mask {
                Some((mask, false)) => mask.at(&[b, h, i, j]),
                _ => 0.0,
            };
            let added_size = if added.is_finite() { added.abs() } else { 0.0 };
            error = error.max(unit * ((width + 2) as f64 * size + added_size));
            if seen { sum + added } else { lowest }
        };
        let scores: Vec<f64> = (0..keys).map(&mut score).collect();
        let sink = sinks.map_or(f64::NEG_INFINITY, |sinks| values(sinks)[h]);
        let top = scores.iter().copied().fold(sink, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let sum: f64 = weights.iter().sum::<f64>() + (sink - top).exp();
        // The rounding of an exponent: distance · exp(-distance) is at most 1/e of the largest.
        let spread = scores.iter().zip(&weights).fold(0f64, |m, (s, w)| match *w > 0.0 {
            true => m.max((top - s) * w.sqrt()),
            false => m,
        });
        let relative = 2.0 * error + unit * (keys as f64 + 16.0 + 4.0 * spread);
        for d in 0..value_width {
            let value = |j: usize| vs[(kv * keys + j) * value_width + d];
            let terms = weights.iter().enumerate().map(|(j, w)| w / sum * value(j));
            let (total, size) = terms.fold((0.0, 0.0), |(s, m), x| (s + x, m + f64::abs(x)));
            out.push(Approx { value: total, error: relative * size });
        }
    }
    out
}

fn check(context: &str, [q, k, v]: [&Array; 3], scale: f32, hidden: &Hidden) {
    let got = keeping(context, &[q, k, v], || {
        let got = fast::scaled_dot_product_attention(q, k, v, scale, hidden.mask()).expect(context);
        got.eval().expect(context);
        got
    });
    let shape = [q.dim(0), q.dim(1), q.dim(2), v.dim(3)];
    assert_eq!((got.shape(), got.dtype()), (&shape[..], q.dtype()), "{context}");
    assert_approx(context, &got, &attention([q, k, v], scale, hidden, None));
}

/// Random queries, keys and values.
fn inputs(dtype: Dtype, [b, heads, kv_heads]: [usize; 3], [n, m, d]: [usize; 3]) -> [Array; 3] {
    [
        filled(&[b, heads, n, d], dtype, noise(1, -1.0, 1.0)),
        filled(&[b, kv_heads, m, d], dtype, noise(2, -1.0, 1.0)),
        filled(&[b, kv_heads, m, d], dtype, noise(3, -1.0, 1.0)),
    ]
}

/// A mask of bools, of which each row has at least one that is true.
fn bools(shape: &[usize]) -> Hidden {
    let last = shape[shape.len() - 1];
    let seen = |i: usize| i % last == i / last % last || scattered(i, 4).is_multiple_of(3);
    Hidden::By(filled(shape, Dtype::Bool, |i| seen(i) as u8 as f64))
}

fn numbers(shape: &[usize], dtype: Dtype) -> Hidden {
    Hidden::By(filled(shape, dtype, noise(5, -3.0, 3.0)))
}

fn floats(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|d| d.is_floating())
}

/// Every width of a head with every number of queries; the masks take turns, and so do the
/// halves, because each pair is another kernel, which takes lavapipe long to compile.
#[test]
fn every_head_width_and_number_of_queries() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (i, d) in [32, 64, 80, 96, 128, 256].into_iter().enumerate() {
                for (j, n) in [1, 3, 17, 70].into_iter().enumerate() {
                    let halves = [Dtype::Float16, Dtype::Bfloat16];
                    if dtype == halves[(i + j) % 2] {
                        continue;
                    }
                    let keys = n + 20 + 7 * i;
                    let x = inputs(dtype, [1, 2, 1], [n, keys, d]);
                    let hidden = match (i + j) % 4 {
                        0 => Hidden::Nothing,
                        1 => Hidden::Later,
                        2 => bools(&[n, keys]),
                        _ => numbers(&[1, 2, n, keys], dtype),
                    };
                    let what = format!(
                        "{n} queries, {keys} keys of {d} {dtype}, mask {} on {device}",
                        (i + j) % 4
                    );
                    check(&what, x.each_ref(), 1.0 / (d as f32).sqrt(), &hidden);
                }
            }
        }
    });
}

#[test]
fn heads_share_keys_under_every_mask() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (b, heads, kv_heads) in [(2, 4, 4), (2, 6, 2), (1, 9, 3), (2, 7, 1)] {
                for n in [1, 5, 18] {
                    let keys = 33;
                    let x = inputs(dtype, [b, heads, kv_heads], [n, keys, 64]);
                    let masks = [
                        Hidden::Nothing,
                        Hidden::Later,
                        bools(&[keys]),
                        bools(&[b, 1, 1, keys]),
                        bools(&[1, heads, n, keys]),
                        numbers(&[n, keys], dtype),
                        numbers(&[b, heads, 1, keys], dtype),
                    ];
                    for (i, hidden) in masks.iter().enumerate() {
                        let what =
                            format!("{b}x{heads}/{kv_heads}x{n} {dtype}, mask {i} on {device}");
                        check(&what, x.each_ref(), 0.3, hidden);
                    }
                }
            }
        }
    });
}

/// Scores without values take their share in every kernel, be they far below or above all others: of one
/// token and of many, of few keys and of so many that they are split, under every mask.
#[test]
fn sinks_of_every_kernel() {
    let cases = [
        ([2, 4, 2], [1, 40, 64]),
        ([1, 8, 1], [1, 1500, 128]),
        ([1, 4, 2], [1, 5000, 64]),
        ([1, 4, 2], [3, 900, 32]),
        ([2, 4, 2], [20, 33, 64]),
        ([1, 2, 1], [17, 600, 80]),
        ([1, 4, 2], [130, 300, 128]),
    ];
    on_each_device(|device| {
        for (i, (heads, [n, keys, d])) in cases.into_iter().enumerate() {
            for (j, dtype) in floats(device).enumerate() {
                if dtype == [Dtype::Float16, Dtype::Bfloat16][i % 2] {
                    continue;
                }
                let [q, k, v] = &inputs(dtype, heads, [n, keys, d]);
                let hidden = match (2 * i + j) % 4 {
                    0 => Hidden::Nothing,
                    1 => Hidden::Later,
                    2 => bools(&[n, keys]),
                    _ => numbers(&[n, keys], dtype),
                };
                let far = [0.5, -60.0, 7.0, 60.0, 0.0, 3.0, f64::NEG_INFINITY, 1.0];
                let sinks = array(&far[..heads[1]], &[heads[1]], dtype);
                for (name, hidden) in [("none", Hidden::Nothing), ("mask", hidden)] {
                    let what = format!("{heads:?} {n}x{keys} of {d}, {name} {dtype} on {device}");
                    let got = fast::scaled_dot_product_attention_with_sinks(
                        q,
                        k,
                        v,
                        0.2,
                        hidden.mask(),
                        &sinks,
                    );
                    let want = attention([q, k, v], 0.2, &hidden, Some(&sinks));
                    assert_approx(&what, &got.expect(&what), &want);
                }
            }
        }
    });
}

/// Keys enough for several blocks, and for being split between workgroups.
/// Float32 whose products a device may round to eleven bits: many keys, which it may share among workgroups,
/// heads that were split off features, keys that are hidden, and sinks.
#[test]
fn many_keys_in_float32() {
    let (queries, keys, width) = (40, 4200, 64);
    let shown = filled(&[queries, keys], Dtype::Bool, |i| f64::from(i % 3 != 0));
    let sinks = array(&[0.5, -1.0, 8.0, 0.0], &[4], Dtype::Float32);
    on_each_device(|device| {
        let split = |rows: usize, heads: usize, seed| {
            let shape = [1, rows, heads, width];
            let features = filled(&shape, Dtype::Float32, noise(seed, -1.0, 1.0));
            ops::swapaxes(&features, 1, 2).unwrap()
        };
        let inputs = [split(queries, 4, 1), split(keys, 2, 2), split(keys, 2, 3)];
        let attend = |[q, k, v]: [&Array; 3], sinks: &Array| {
            let mask = Mask::Array(&shown);
            values(
                &fast::scaled_dot_product_attention_with_sinks(q, k, v, 0.3, mask, sinks).unwrap(),
            )
        };
        let got = attend(inputs.each_ref(), &sinks);
        let want = mlx::with_device(Device::CPU, || {
            let wide = |a: &Array| ops::astype(a, Dtype::Float64).unwrap();
            attend(inputs.each_ref().map(wide).each_ref(), &wide(&sinks))
        });
        let square = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>();
        let want = want.unwrap();
        let off = square(&mut got.iter().zip(&want).map(|(got, want)| got - want));
        let off = (off / square(&mut want.iter().copied())).sqrt();
        assert!(off <= 2.0 * epsilon(Dtype::Float16), "{off} on {device}");
    });
}

#[test]
fn long_caches() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (n, keys) in [(1, 1025), (1, 5000), (3, 2500), (12, 1500)] {
                let x = inputs(dtype, [1, 4, 2], [n, keys, 64]);
                for (name, hidden) in [
                    ("none", Hidden::Nothing),
                    ("causal", Hidden::Later),
                    ("bools", bools(&[keys])),
                ] {
                    let what = format!("{n} queries, {keys} keys {dtype}, {name} on {device}");
                    check(&what, x.each_ref(), 0.125, &hidden);
                }
            }
        }
    });
}

/// Queries with heads and positions exchanged, keys and values that are the used part of a
/// cache, and any other strides.
#[test]
fn caches_and_transposed_inputs() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for n in [1, 6, 20] {
                let q = filled(&[2, n, 4, 64], dtype, noise(1, -1.0, 1.0));
                let q = ops::transpose(&q, &[0, 2, 1, 3]).unwrap();
                let part = |seed| {
                    let cache = filled(&[2, 2, 64, 64], dtype, noise(seed, -1.0, 1.0));
                    ops::slice_axis(&cache, 2, 0, 37).unwrap()
                };
                let what = format!("cache, {n} queries {dtype} on {device}");
                check(&what, [&q, &part(2), &part(3)], 0.125, &Hidden::Later);
                for layout in Layout::VIEWS {
                    let view = |shape: &[usize], seed| {
                        layout.view(shape, |s| filled(s, dtype, noise(seed, -1.0, 1.0)))
                    };
                    let (q, k) = (view(&[2, 4, n, 32], 1), view(&[2, 2, 21, 32], 2));
                    let v = view(&[2, 2, 21, 32], 3);
                    let mask = layout.view(&[2, 4, n, 21], |s| match bools(s) {
                        Hidden::By(mask) => mask,
                        _ => unreachable!("an array"),
                    });
                    let seen = values(&mask).chunks(21).all(|row| row.contains(&1.0));
                    let what = format!("{layout:?}, {n} queries {dtype} on {device}");
                    assert!(seen || layout != Layout::Contiguous);
                    check(&what, [&q, &k, &v], 0.2, &Hidden::By(mask));
                }
            }
        }
    });
}

/// Widths of any size, also of values alone, and prompts over several tiles and parts of keys, which
/// are the used part of a cache. Masks and halves take turns, because each pair is another kernel,
/// which takes lavapipe long to compile.
#[test]
fn odd_widths_and_long_prompts() {
    let cases = [
        ([2, 4, 2], [3, 7, 16], 8),
        ([1, 2, 2], [9, 4, 5], 3),
        ([2, 6, 2], [50, 90, 33], 17),
        ([2, 2, 1], [5, 9, 256], 64),
        ([1, 2, 2], [4, 11, 600], 300),
        ([1, 3, 1], [1, 300, 20], 20),
        ([2, 4, 4], [1, 700, 128], 128),
        ([2, 4, 2], [65, 90, 64], 64),
        ([2, 3, 1], [20, 33, 80], 80),
        ([2, 2, 1], [70, 50, 128], 128),
        ([2, 2, 2], [17, 600, 64], 64),
        ([2, 2, 1], [40, 50, 192], 128),
        ([2, 2, 1], [35, 64, 256], 256),
        ([1, 2, 1], [70, 600, 32], 16),
        ([1, 1, 1], [130, 130, 8], 8),
    ];
    on_each_device(|device| {
        for (i, (heads, [n, keys, d], dv)) in cases.into_iter().enumerate() {
            for (j, dtype) in floats(device).enumerate() {
                if dtype == [Dtype::Float16, Dtype::Bfloat16][i % 2] {
                    continue;
                }
                let [b, h, g] = heads;
                let q = filled(&[b, h, n, d], dtype, noise(1, -1.0, 1.0));
                let part = |width, seed| {
                    let cache = filled(&[b, g, keys + 9, width], dtype, noise(seed, -1.0, 1.0));
                    ops::slice_axis(&cache, 2, 0, keys as isize).unwrap()
                };
                let hidden = match (2 * i + j) % 4 {
                    0 => Hidden::Nothing,
                    1 => Hidden::Later,
                    2 => bools(&[n, keys]),
                    _ => numbers(&[n, keys], dtype),
                };
                let what = format!("{heads:?} {n}x{keys}, {d}/{dv} {dtype} on {device}");
                check(&what, [&q, &part(d, 2), &part(dv, 3)], 0.2, &hidden);
            }
        }
    });
}

#[test]
fn kept_results_of_upstream() {
    let kept: Value = serde_json::from_str(include_str!("data/kept.json")).unwrap();
    on_each_device(|device| {
        for case in kept["attention"].as_array().unwrap() {
            let side = |name: &str| case[name].as_u64().unwrap() as usize;
            let (n, m) = (side("n"), side("m"));
            let of = |shape: &[usize], seed| {
                array(&hashed(shape.iter().product(), seed), shape, Dtype::Float32)
            };
            let (q, k, v) = (of(&[1, 4, n, 8], 1), of(&[1, 2, m, 8], 2), of(&[1, 2, m, 6], 3));
            let keep = filled(&[n, m], Dtype::Bool, |i| (hashed(n * m, 4)[i] > 0.0) as u8 as f64);
            let bias = of(&[1, 4, n, m], 5);
            let mask = match case["mask"].as_str().unwrap() {
                "none" => Mask::None,
                "causal" => Mask::Causal,
                "bool" => Mask::Array(&keep),
                _ => Mask::Array(&bias),
            };
            let got = fast::scaled_dot_product_attention(&q, &k, &v, 0.25, mask).unwrap();
            // A row that sees no finite score is NaN, which JSON has not.
            let near = |x: &Value| Approx { value: x.as_f64().unwrap_or(f64::NAN), error: 2e-6 };
            let want: Vec<Approx> = case["out"].as_array().unwrap().iter().map(near).collect();
            assert_approx(&format!("{} {n} {m} on {device}", case["mask"]), &got, &want);
        }
    });
}

/// What MLX does where a mask leaves nothing: bools average over all keys, numbers give NaN.
#[test]
fn rows_that_see_nothing() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for n in [1, 5, 20] {
                let x = inputs(dtype, [1, 2, 1], [n, 9, 32]);
                let nothing = Hidden::By(filled(&[9], Dtype::Bool, |_| 0.0));
                check(&format!("{n} {dtype} on {device}"), x.each_ref(), 0.2, &nothing);
                let [q, k, v] = &x;
                let mask = filled(&[9], dtype, |_| f64::NEG_INFINITY);
                let got =
                    fast::scaled_dot_product_attention(q, k, v, 0.2, Mask::Array(&mask)).unwrap();
                assert!(values(&got).iter().all(|x| x.is_nan()), "{n} {dtype} on {device}");
                let some =
                    filled(&[9], dtype, |i| if i % 2 == 0 { f64::NEG_INFINITY } else { 0.5 });
                check(
                    &format!("half {n} {dtype} on {device}"),
                    x.each_ref(),
                    0.2,
                    &Hidden::By(some),
                );
            }
            let q = filled(&[1, 2, 5, 32], dtype, noise(1, -1.0, 1.0));
            let none = filled(&[1, 1, 0, 32], dtype, |_| 0.0);
            let got =
                fast::scaled_dot_product_attention(&q, &none, &none, 0.2, Mask::None).unwrap();
            assert!(values(&got).iter().all(|&x| x == 0.0), "no keys {dtype} on {device}");
            // More queries than keys: the first ones see none.
            let x = inputs(dtype, [1, 2, 1], [12, 4, 32]);
            check(&format!("few keys {dtype} on {device}"), x.each_ref(), 0.2, &Hidden::Later);
        }
    });
}

#[test]
fn values_of_another_width_and_large_scores() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for n in [1, 9, 40] {
                let q = filled(&[1, 2, n, 64], dtype, noise(1, -1.0, 1.0));
                let k = filled(&[1, 2, 50, 64], dtype, noise(2, -1.0, 1.0));
                let v = filled(&[1, 2, 50, 24], dtype, noise(3, -1.0, 1.0));
                check(
                    &format!("narrow values {n} {dtype} on {device}"),
                    [&q, &k, &v],
                    0.1,
                    &Hidden::Later,
                );
                // Weights that are all but one zero.
                check(
                    &format!("large {n} {dtype} on {device}"),
                    [&q, &k, &v],
                    8.0,
                    &Hidden::Nothing,
                );
            }
        }
        let [q, k, v] = inputs(Dtype::Float32, [1, 3, 2], [2, 4, 32]);
        assert!(
            fast::scaled_dot_product_attention(&q, &k, &v, 1.0, Mask::None).is_err(),
            "3 heads on 2"
        );
        let mask = array(&[1.0; 3], &[3], Dtype::Bool);
        let q = filled(&[1, 2, 2, 32], Dtype::Float32, |_| 1.0);
        assert!(fast::scaled_dot_product_attention(&q, &k, &v, 1.0, Mask::Array(&mask)).is_err());
    });
}
