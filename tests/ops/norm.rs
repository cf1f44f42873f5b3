//! Normalization over the last axis.

use mlx::{Array, Device, Dtype, Result, fast, graph, ops, primitives::NormOp};
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
    let run = |name: &str, f: &dyn Fn() -> Result<Array>, row: &dyn Fn(&[f64]) -> Vec<Approx>| {
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

/// Row lengths around what a lane, a subgroup and a workgroup keep of one, on small and large devices.
const DERIVED_WIDTHS: [usize; 11] = [1, 7, 96, 97, 192, 196, 512, 513, 576, 4096, 5000];

/// A norm's inputs, and a cotangent of its output.
struct Point {
    x: Array,
    weight: Array,
    bias: Array,
    cotangent: Array,
}

impl Point {
    /// Random rows whose parameters are vectors, or scalars.
    fn random(shape: &[usize], dtype: Dtype, scalars: bool, layout: Layout) -> Point {
        let width = shape[shape.len() - 1..].to_vec();
        let parameter = if scalars { vec![] } else { width };
        let laid =
            |seed, low, high| layout.view(shape, |s| filled(s, dtype, noise(seed, low, high)));
        Point {
            x: laid(21, -2.0, 3.0),
            weight: filled(&parameter, dtype, noise(22, -1.5, 1.5)),
            bias: filled(&parameter, dtype, noise(23, -1.0, 1.0)),
            cotangent: laid(24, -1.0, 1.5),
        }
    }

    /// The derivatives of RMS norm, or of layer norm: by the first input alone or by all of them.
    fn derivatives(&self, centred: bool, parameters: bool) -> Result<Vec<Array>> {
        let (eps, [x, weight, bias, cotangent]) = (EPS.into(), self.inputs().map(Clone::clone));
        let outputs = match centred {
            false => {
                let op = NormOp::RmsNormVjp { eps, parameters };
                graph::apply(op.into(), [x, weight, cotangent].into_iter().collect())
            }
            true => {
                let op = NormOp::LayerNormVjp { eps, parameters };
                graph::apply(op.into(), [x, weight, bias, cotangent].into_iter().collect())
            }
        };
        Ok(outputs?.into_vec())
    }

    fn inputs(&self) -> [&Array; 4] {
        [&self.x, &self.weight, &self.bias, &self.cotangent]
    }

    /// What float64 gives for them.
    fn oracle(&self, centred: bool) -> [Vec<Approx>; 3] {
        let (width, unit) = (self.x.dim(-1), sum_epsilon(self.x.dtype()));
        let [x, weight, _, cotangent] = self.inputs().map(values);
        let weight = |i: usize| weight[if self.weight.ndim() == 0 { 0 } else { i }];
        let places = self.weight.size();
        let (mut by_x, mut sums) =
            (Vec::new(), [vec![Sum::default(); places], vec![Sum::default(); places]]);
        for (x, cotangent) in x.chunks(width).zip(cotangent.chunks(width)) {
            let (units, scale) = units(x, centred, unit);
            let weighted: Vec<f64> = (0..).zip(cotangent).map(|(i, g)| g * weight(i)).collect();
            by_x.extend(by_row(&units, scale, &weighted, centred, unit));
            for (i, (g, u)) in cotangent.iter().zip(&units).enumerate() {
                sums[0][i % places].add(g * u.value, g.abs() * u.error);
                sums[1][i % places].add(*g, 0.0);
            }
        }
        let [by_weight, by_bias] =
            sums.map(|sums| sums.iter().map(|sum| sum.total(unit)).collect());
        [by_x, by_weight, by_bias]
    }

    /// Checks the derivatives of both norms, all of them and those by the first input alone.
    fn check(&self, context: &str) {
        let context = format!("{context} {:?} {}", self.x.shape(), self.x.dtype());
        for centred in [false, true] {
            let want = self.oracle(centred);
            for parameters in [true, false] {
                let context = format!("{context} centred {centred} parameters {parameters}");
                let got = keeping(&context, &self.inputs(), || {
                    let got = self.derivatives(centred, parameters).expect(&context);
                    mlx::eval(&got.iter().collect::<Vec<_>>()).expect(&context);
                    got
                });
                let count = if parameters { 2 + usize::from(centred) } else { 1 };
                assert_eq!(got.len(), count, "{context}");
                for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                    assert_eq!(got.spec(), self.inputs()[i].spec(), "{context} by {i}");
                    assert_approx(&format!("{context} by {i}"), got, want);
                }
            }
        }
    }
}

/// A sum, its absolute terms, and their errors.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    value: f64,
    magnitude: f64,
    error: f64,
    terms: usize,
}

impl Sum {
    fn add(&mut self, term: f64, error: f64) {
        self.value += term;
        self.magnitude += term.abs();
        self.error += error;
        self.terms += 1;
    }

    /// The sum, where each term is a product and each addition rounds once.
    fn total(&self, unit: f64) -> Approx {
        let error = self.error + (self.terms + 2) as f64 * unit * self.magnitude;
        Approx { value: self.value, error }
    }

    /// The mean of terms and their errors.
    fn mean(terms: impl Iterator<Item = Approx>, unit: f64) -> Approx {
        let mut sum = Sum::default();
        terms.for_each(|term| sum.add(term.value, term.error));
        let (total, n) = (sum.total(unit), sum.terms as f64);
        Approx { value: total.value / n, error: total.error / n + unit * (total.value / n).abs() }
    }
}

/// A row without its parameters, and what its elements were multiplied by.
///
/// Their errors are those that [`rms`] and [`layer`] tell of.
fn units(x: &[f64], centred: bool, unit: f64) -> (Vec<Approx>, Approx) {
    let n = x.len() as f64;
    let mean = match centred {
        true => Sum::mean(x.iter().copied().map(Approx::exact), unit),
        false => Approx::exact(0.0),
    };
    let variance = x.iter().map(|x| (x - mean.value) * (x - mean.value)).sum::<f64>() / n;
    let scale = 1.0 / (variance + f64::from(EPS)).sqrt();
    let shift = mean.error * scale;
    let relative = (0.5 * n + 4.0) * unit + 0.5 * shift * shift;
    let of = |x: &f64| {
        let value = (x - mean.value) * scale;
        Approx { value, error: shift + (relative + 4.0 * unit) * value.abs() }
    };
    (x.iter().map(of).collect(), Approx { value: scale, error: relative * scale })
}

/// `scale * (v - mean(v) - u * mean(u * v))` with the row `u` and the weighted cotangent `v`, where only
/// layer norm takes off the mean. Errors of factors add up; a few elementary operations follow.
fn by_row(u: &[Approx], scale: Approx, v: &[f64], centred: bool, unit: f64) -> Vec<Approx> {
    let weighted = |v: &f64| Approx { value: *v, error: unit * v.abs() };
    let shift = match centred {
        true => Sum::mean(v.iter().map(weighted), unit),
        false => Approx::exact(0.0),
    };
    let product = |(u, v): (&Approx, &f64)| Approx { value: u.value * v, error: u.error * v.abs() };
    let radial = Sum::mean(u.iter().zip(v).map(product), unit);
    let of = |(u, v): (&Approx, &f64)| {
        let value = (v - shift.value - u.value * radial.value) * scale.value;
        let along = (u.value.abs() + u.error) * radial.error + u.error * radial.value.abs();
        let terms = v.abs() + shift.value.abs() + (u.value * radial.value).abs();
        let error = (shift.error + along + 8.0 * unit * terms) * scale.value + terms * scale.error;
        Approx { value, error }
    };
    u.iter().zip(v).map(of).collect()
}

fn floating(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|dtype| dtype.is_floating())
}

#[test]
fn derivatives_match_float64() {
    on_each_device(|device| {
        for dtype in floating(device) {
            // Every width is a pipeline, and halves differ in loads and stores alone.
            let few = dtype.size() == 2;
            for width in DERIVED_WIDTHS.into_iter().filter(|w| !few || [7, 192, 4096].contains(w)) {
                let point = Point::random(&[9, width], dtype, false, Layout::Contiguous);
                point.check(&format!("derivatives on {device}"));
            }
            for shape in [&[40][..], &[1, 300], &[35, 2, 33], &[999, 12], &[130, 260]] {
                for scalars in [false, true] {
                    let point = Point::random(shape, dtype, scalars, Layout::Contiguous);
                    point.check(&format!("derivatives, scalars {scalars}, on {device}"));
                }
            }
        }
    });
}

#[test]
fn derivatives_of_long_rows_match_float64() {
    on_each_device(|device| {
        let point = Point::random(&[5, 131_072], Dtype::Float32, false, Layout::Contiguous);
        point.check(&format!("long rows on {device}"));
    });
}

#[test]
fn derivatives_of_every_layout_match_float64() {
    on_each_device(|device| {
        for dtype in floating(device) {
            for layout in Layout::VIEWS {
                for shape in [&[3, 4, 5][..], &[5, 64], &[2, 130]] {
                    let point = Point::random(shape, dtype, false, layout);
                    point.check(&format!("{layout:?} on {device}"));
                }
            }
            let parameter =
                |seed| Layout::Sliced.view(&[64], |s| filled(s, dtype, noise(seed, -1.5, 1.5)));
            let rows = Point::random(&[5, 64], dtype, false, Layout::Contiguous);
            let point = Point { weight: parameter(1), bias: parameter(2), ..rows };
            point.check(&format!("parameters that lie apart on {device}"));
        }
    });
}

/// Rows whose squares leave float16's range, of zeros, and of one value.
#[test]
fn derivatives_of_extreme_rows() {
    on_each_device(|device| {
        for dtype in floating(device) {
            let check = |context: &str, x: Array| {
                let rows = Point::random(&[2, 64], dtype, false, Layout::Contiguous);
                Point { x, ..rows }.check(&format!("{context} on {device}"));
            };
            check("large", filled(&[2, 64], dtype, noise(4, -6e4, 6e4)));
            check("small", filled(&[2, 64], dtype, noise(4, -1e-4, 1e-4)));
            check("zeros", filled(&[2, 64], dtype, |_| 0.0));
            check("flat", filled(&[2, 64], dtype, |_| 1.0));
            check("off centre", filled(&[2, 64], dtype, noise(4, 99.0, 101.0)));
        }
    });
}

/// A derivative that may take the memory of the cotangent, or of the rows, is the same.
#[test]
fn differentiated_in_place() {
    on_each_device(|device| {
        for dtype in floating(device) {
            // Narrow, wide and long rows of small devices.
            for shape in [[240, 100], [240, 300], [40, 1000]] {
                let halves = Point::random(&shape, dtype, false, Layout::Contiguous);
                let twice = |a: &Array| ops::add(a, a).unwrap();
                let doubled = |halves: &Point| Point {
                    x: twice(&halves.x),
                    weight: halves.weight.clone(),
                    bias: halves.bias.clone(),
                    cotangent: twice(&halves.cotangent),
                };
                for centred in [false, true] {
                    let want = doubled(&halves).oracle(centred);
                    let point = doubled(&halves);
                    let got = point.derivatives(centred, true).unwrap();
                    drop(point);
                    for (got, want) in got.iter().zip(&want) {
                        assert_approx(&format!("{shape:?} {dtype} on {device}"), got, want);
                    }
                }
            }
        }
    });
}

#[test]
fn derivatives_are_the_same_each_time() {
    on_each_device(|device| {
        let point = Point::random(&[700, 200], Dtype::Float32, false, Layout::Contiguous);
        let bytes = || {
            let derivatives = point.derivatives(true, true).unwrap();
            derivatives.iter().map(|a| a.to_bytes().unwrap()).collect::<Vec<_>>()
        };
        let first = bytes();
        (0..3).for_each(|_| assert!(bytes() == first, "{device}"));
    });
}

#[test]
fn derivatives_of_nothing() {
    on_each_device(|device| {
        for (shape, scalars) in [([0, 8], false), ([0, 8], true), ([3, 0], false), ([3, 0], true)] {
            let point = Point::random(&shape, Dtype::Float16, scalars, Layout::Contiguous);
            for centred in [false, true] {
                for (got, input) in
                    point.derivatives(centred, true).unwrap().iter().zip(point.inputs())
                {
                    assert_eq!(got.spec(), input.spec(), "{device}");
                    assert!(values(got).iter().all(|&x| x == 0.0), "{shape:?} on {device}");
                }
            }
        }
    });
}

#[test]
fn wrong_inputs_of_derivatives_are_refused() {
    on_each_device(|_| {
        let good = || Point::random(&[2, 8], Dtype::Float16, false, Layout::Contiguous);
        let wrong = |shape: &[usize], dtype| filled(shape, dtype, |_| 1.0);
        let refused = |point: Point, name: &str| {
            let error = point.derivatives(name == "LayerNormVJP", true).unwrap_err().to_string();
            assert!(error.starts_with(&format!("[{name}] Inputs (")), "{error}");
        };
        for name in ["RMSNormVJP", "LayerNormVJP"] {
            refused(Point { cotangent: wrong(&[8], Dtype::Float16), ..good() }, name);
            refused(Point { cotangent: wrong(&[2, 8], Dtype::Float32), ..good() }, name);
            refused(Point { weight: wrong(&[7], Dtype::Float16), ..good() }, name);
            refused(Point { weight: wrong(&[8], Dtype::Float32), ..good() }, name);
            refused(Point { x: wrong(&[], Dtype::Float16), ..good() }, name);
        }
        refused(Point { bias: wrong(&[7], Dtype::Float16), ..good() }, "LayerNormVJP");
    });
}
