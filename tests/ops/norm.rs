//! Normalization over the last axis.

use mlx::{Array, Dtype, fast, ops};
use mlx_tests::{
    Approx, Layout, array, assert_approx, dtypes_of, filled, hashed, keeping, noise,
    on_each_device, sum_epsilon, values,
};
use serde_json::Value;

const EPS: f32 = 1e-5;
/// Row lengths around words, workgroups and what a thread keeps.
const WIDTHS: [usize; 7] = [1, 63, 64, 65, 257, 1000, 4097];

/// A parameter's element, or what stands for it where there is none.
fn at(parameter: Option<&[f64]>, i: usize, default: f64) -> f64 {
    parameter.map_or(default, |p| p[i])
}

/// `x / √(mean(x²) + eps) * weight`.
///
/// The mean has the relative error of a sum of `n` squares, and the root half of that; a few
/// elementary operations follow.
fn rms(x: &[f64], weight: Option<&[f64]>, unit: f64) -> Vec<Approx> {
    let n = x.len() as f64;
    let mean = x.iter().map(|x| x * x).sum::<f64>() / n;
    let inverse = 1.0 / (mean + f64::from(EPS)).sqrt();
    let of = |(i, x): (usize, &f64)| {
        let value = x * inverse * at(weight, i, 1.0);
        Approx { value, error: unit * (0.5 * n + 8.0) * value.abs() }
    };
    x.iter().enumerate().map(of).collect()
}

/// `(x - mean) / √(var + eps) * weight + bias`.
///
/// The mean has the error of a sum, which also shifts all elements; the variance has the error of
/// a sum of squares and, squared, that of the mean. A few elementary operations follow.
fn layer(x: &[f64], [weight, bias]: [Option<&[f64]>; 2], unit: f64) -> Vec<Approx> {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let shift = (n + 2.0) * unit * x.iter().map(|x| x.abs()).sum::<f64>() / n;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    let inverse = 1.0 / (variance + f64::from(EPS)).sqrt();
    let relative = 0.5 * (n + 2.0) * unit + 0.5 * (shift * inverse) * (shift * inverse);
    let of = |(i, x): (usize, &f64)| {
        let (weight, bias) = (at(weight, i, 1.0), at(bias, i, 0.0));
        let scaled = (x - mean) * inverse * weight;
        let error = (shift + unit * (x - mean).abs()) * inverse * weight.abs()
            + (relative + 8.0 * unit) * scaled.abs()
            + unit * (scaled + bias).abs();
        Approx { value: scaled + bias, error }
    };
    x.iter().enumerate().map(of).collect()
}

/// Checks both norms of an array with and without their parameters.
fn check(context: &str, x: &Array) {
    let (dtype, width) = (x.dtype(), x.dim(-1));
    let weight = Layout::Sliced.view(&[width], |s| filled(s, dtype, noise(11, -1.5, 1.5)));
    let bias = filled(&[width], dtype, noise(12, -1.0, 1.0));
    let (rows, w, b, unit) = (values(x), values(&weight), values(&bias), sum_epsilon(dtype));
    let context = format!("{context} {:?} {dtype}", x.shape());
    let run =
        |name: &str, f: &dyn Fn() -> mlx::Result<Array>, row: &dyn Fn(&[f64]) -> Vec<Approx>| {
            let context = format!("{name} {context}");
            let got = keeping(&context, &[x, &weight, &bias], || {
                let got = f().expect(&context);
                got.eval().expect(&context);
                got
            });
            assert_eq!((got.shape(), got.dtype()), (x.shape(), dtype), "{context}");
            let want: Vec<Approx> = rows.chunks(width).flat_map(row).collect();
            assert_approx(&context, &got, &want);
        };
    for weighted in [true, false] {
        let (wa, wv) = (weighted.then_some(&weight), weighted.then_some(w.as_slice()));
        run("rms", &|| fast::rms_norm(x, wa, EPS), &|x| rms(x, wv, unit));
        for biased in [true, false] {
            let (ba, bv) = (biased.then_some(&bias), biased.then_some(b.as_slice()));
            run("layer", &|| fast::layer_norm(x, wa, ba, EPS), &|x| layer(x, [wv, bv], unit));
        }
    }
}

#[test]
fn every_width_matches_float64() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for width in WIDTHS {
                let x = filled(&[3, width], dtype, noise(width as u64, -2.0, 3.0));
                check(&format!("rows on {device}"), &x);
            }
            check(
                &format!("many rows on {device}"),
                &filled(&[70, 2, 33], dtype, noise(1, -1.0, 1.0)),
            );
            check(&format!("a vector on {device}"), &filled(&[40], dtype, noise(1, -1.0, 1.0)));
        }
    });
}

#[test]
fn every_layout_matches_float64() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for layout in Layout::VIEWS {
                for shape in [&[3, 4, 5][..], &[5, 64], &[2, 130]] {
                    let x = layout.view(shape, |s| filled(s, dtype, noise(3, -2.0, 3.0)));
                    check(&format!("{layout:?} on {device}"), &x);
                }
            }
        }
    });
}

/// Rows whose squares leave float16's range, of zeros, and of one value.
#[test]
fn extreme_rows() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            check(&format!("large on {device}"), &filled(&[2, 64], dtype, noise(4, -6e4, 6e4)));
            check(&format!("small on {device}"), &filled(&[2, 64], dtype, noise(4, -1e-4, 1e-4)));
            check(&format!("zeros on {device}"), &filled(&[2, 64], dtype, |_| 0.0));
            check(&format!("flat on {device}"), &filled(&[2, 64], dtype, |_| 1.0));
            check(
                &format!("off centre on {device}"),
                &filled(&[2, 64], dtype, noise(4, 99.0, 101.0)),
            );
        }
    });
}

/// The mean is taken off before squares are summed.
#[test]
fn a_large_mean_does_not_cancel() {
    on_each_device(|device| {
        let x = filled(&[2, 512], Dtype::Float32, noise(4, 999.0, 1001.0));
        let got = values(&fast::layer_norm(&x, None, None, EPS).unwrap());
        let want = values(&x);
        let want = want.chunks(512).flat_map(|row| layer(row, [None; 2], 0.0));
        for (got, want) in got.into_iter().zip(want) {
            assert!((got - want.value).abs() < 2e-4, "{got}, not {} on {device}", want.value);
        }
    });
}

/// A result that may take the memory of its input is the same.
#[test]
fn normalized_in_place() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            let a = filled(&[240, 300], dtype, noise(6, -1.0, 1.0));
            let x = values(&ops::add(&a, &a).unwrap());
            let doubled = ops::add(&a, &a).unwrap();
            let got = fast::rms_norm(&doubled, None, EPS).unwrap();
            drop(doubled);
            let unit = sum_epsilon(dtype);
            let want: Vec<Approx> = x.chunks(300).flat_map(|row| rms(row, None, unit)).collect();
            assert_approx(&format!("{dtype} on {device}"), &got, &want);
        }
    });
}

#[test]
fn kept_results_of_upstream() {
    let kept = include_str!("data/kept.json");
    let kept: Value = serde_json::from_str(kept).unwrap();
    let case = &kept["norm"][0];
    on_each_device(|device| {
        let of = |n: usize, seed, shape: &[usize]| array(&hashed(n, seed), shape, Dtype::Float32);
        let (x, w, b) = (of(120, 9, &[3, 40]), of(40, 10, &[40]), of(40, 11, &[40]));
        for (name, got) in [
            ("rms", fast::rms_norm(&x, Some(&w), EPS)),
            ("rms_plain", fast::rms_norm(&x, None, EPS)),
            ("layer", fast::layer_norm(&x, Some(&w), Some(&b), EPS)),
            ("layer_plain", fast::layer_norm(&x, None, None, EPS)),
        ] {
            // Upstream's own float32 has errors of the same size as ours: elements below two.
            let near = |x: &Value| Approx {
                value: x.as_f64().unwrap(),
                error: 80.0 * sum_epsilon(Dtype::Float32),
            };
            let want: Vec<Approx> = case[name].as_array().unwrap().iter().map(near).collect();
            assert_approx(&format!("{name} on {device}"), &got.unwrap(), &want);
        }
    });
}

#[test]
fn wrong_parameters_are_refused_and_others_promoted() {
    on_each_device(|device| {
        let x = filled(&[2, 8], Dtype::Float16, |i| i as f64);
        let wide = filled(&[8], Dtype::Float32, |_| 1.0);
        let got = fast::rms_norm(&x, Some(&wide), EPS).unwrap();
        assert_eq!(got.dtype(), Dtype::Float32, "{device}");
        let want: Vec<Approx> =
            values(&x).chunks(8).flat_map(|r| rms(r, None, sum_epsilon(Dtype::Float32))).collect();
        assert_approx(&format!("promoted on {device}"), &got, &want);
        let short = filled(&[7], Dtype::Float16, |_| 1.0);
        assert!(fast::rms_norm(&x, Some(&short), EPS).is_err());
        assert!(fast::layer_norm(&x, None, Some(&short), EPS).is_err());
        assert!(fast::rms_norm(&array(&[1.0], &[], Dtype::Float32), None, EPS).is_err());
        assert!(fast::layer_norm(&array(&[1.0], &[1], Dtype::Int32), None, None, EPS).is_err());
        let none = filled(&[0, 8], Dtype::Float32, |_| 0.0);
        assert!(values(&fast::rms_norm(&none, None, EPS).unwrap()).is_empty());
    });
}
