//! The derivatives of attention as a primitive.

use mlx::{
    Array, Device, Dtype, Result,
    fast::{self, Mask},
    graph, ops,
    primitives::{AttentionMask, AttentionVjp},
};
use mlx_tests::{
    Approx, Host, Layout, assert_approx, dtypes_of, epsilon, filled, keeping, noise,
    on_each_device, scattered, sum_epsilon, values,
};

/// What hides keys from queries.
#[derive(Clone)]
enum Hidden {
    Nothing,
    Later,
    /// An array of bools or of numbers to add, of the scores' shape.
    By(Array),
}

/// What is attended to, the output, and a cotangent of it.
struct Point {
    q: Array,
    k: Array,
    v: Array,
    hidden: Hidden,
    output: Array,
    cotangent: Array,
}

const SCALE: f32 = 0.2;

impl Point {
    /// The output is what attention gives, rounded.
    fn new([q, k, v]: [Array; 3], hidden: Hidden) -> Point {
        let mask = match &hidden {
            Hidden::Nothing => Mask::None,
            Hidden::Later => Mask::Causal,
            Hidden::By(mask) => Mask::Array(mask),
        };
        let output = fast::scaled_dot_product_attention(&q, &k, &v, SCALE, mask).unwrap();
        let cotangent = filled(output.shape(), q.dtype(), noise(4, -1.0, 1.5));
        Point { q, k, v, hidden, output, cotangent }
    }

    /// Random numbers: batches, heads, kv heads; queries, keys; features of keys and values.
    fn random(
        dtype: Dtype,
        [b, heads, kv_heads]: [usize; 3],
        [n, m]: [usize; 2],
        [d, dv]: [usize; 2],
        hidden: Hidden,
    ) -> Point {
        let of = |shape: &[usize], seed| filled(shape, dtype, noise(seed, -1.0, 1.0));
        let (q, k) = (of(&[b, heads, n, d], 1), of(&[b, kv_heads, m, d], 2));
        Point::new([q, k, of(&[b, kv_heads, m, dv], 3)], hidden)
    }

    fn inputs(&self) -> Vec<&Array> {
        let mask = if let Hidden::By(mask) = &self.hidden { Some(mask) } else { None };
        let primals = [&self.q, &self.k, &self.v].into_iter().chain(mask);
        primals.chain([&self.output, &self.cotangent]).collect()
    }

    fn derivatives(&self) -> Result<Vec<Array>> {
        let mask = match self.hidden {
            Hidden::Nothing => AttentionMask::None,
            Hidden::Later => AttentionMask::Causal,
            Hidden::By(_) => AttentionMask::Array,
        };
        let op = AttentionVjp { scale: SCALE.into(), mask };
        Ok(graph::apply(op.into(), self.inputs().into_iter().cloned().collect())?.into_vec())
    }

    fn check(&self, context: &str, device: Device) {
        let shapes = [&self.q, &self.k, &self.v].map(Array::shape);
        let context = format!("{context} {shapes:?} {} on {device}", self.q.dtype());
        let got = keeping(&context, &self.inputs(), || {
            let got = self.derivatives().expect(&context);
            mlx::eval(&got.iter().collect::<Vec<_>>()).expect(&context);
            got
        });
        let names = ["queries", "keys", "values"];
        let inputs = [&self.q, &self.k, &self.v];
        for ((got, want), (name, input)) in
            got.iter().zip(self.oracle(device)).zip(names.into_iter().zip(inputs))
        {
            assert_eq!(got.spec(), input.spec(), "{context}");
            assert_approx(&format!("{name} of {context}"), got, &want);
        }
    }

    /// What float64 gives.
    fn oracle(&self, device: Device) -> [Vec<Approx>; 3] {
        let [b, heads, n, d] = [0, 1, 2, 3].map(|x| self.q.dim(x));
        let (kv_heads, m, dv) = (self.k.dim(1), self.k.dim(2), self.v.dim(3));
        let [q, k, v] = [&self.q, &self.k, &self.v].map(values);
        let (output, cotangent) = (values(&self.output), values(&self.cotangent));
        let mut sums = [q.len(), k.len(), v.len()].map(|len| vec![Sum::default(); len]);
        let softmax = Softmax::new(self, device);
        for row in 0..b * heads * n {
            let kv = row / n / heads * kv_heads + row / n % heads / (heads / kv_heads);
            let (query, along) = (row * d..(row + 1) * d, row * dv..(row + 1) * dv);
            let (keys, all_values) = (kv * m * d..(kv + 1) * m * d, kv * m * dv..(kv + 1) * m * dv);
            let mean = softmax.product(&cotangent[along.clone()], &output[along.clone()]);
            let weights = softmax.weights(row, &q[query.clone()], &k[keys.clone()]);
            for (j, (weight, seen)) in weights.into_iter().enumerate() {
                let value = all_values.start + j * dv;
                let upward = softmax.product(&cotangent[along.clone()], &v[value..value + dv]);
                let change = softmax.change(weight, seen, upward, mean);
                let scale = f64::from(SCALE);
                for x in 0..d {
                    let key = keys.start + j * d + x;
                    sums[0][query.start + x].add(change, scale * k[key]);
                    sums[1][key].add(change, scale * q[query.start + x]);
                }
                let weight = softmax.rounded(weight);
                (0..dv).for_each(|x| sums[2][value + x].add(weight, cotangent[along.start + x]));
            }
        }
        sums.map(|sums| sums.into_iter().map(|sum| sum.finish(softmax.unit)).collect())
    }
}

/// A sum of products, the first factors of which have errors.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    error: f64,
    size: f64,
    terms: usize,
}

impl Sum {
    fn add(&mut self, x: Approx, y: f64) {
        self.value += x.value * y;
        self.error += x.error * y.abs();
        self.size += (x.value * y).abs();
        self.terms += 1;
    }

    fn finish(self, unit: f64) -> Approx {
        Approx { value: self.value, error: self.error + unit * (self.terms + 3) as f64 * self.size }
    }
}

/// Weights in float64, and how far off they may be.
struct Softmax<'a> {
    point: &'a Point,
    mask: Option<(Host, bool)>,
    /// Relative precision of sums.
    unit: f64,
    /// Matrix units multiply halves: there weights and changes of scores are rounded to them once.
    rounding: f64,
    /// The smallest of these.
    tiny: f64,
}

impl<'a> Softmax<'a> {
    fn new(point: &'a Point, device: Device) -> Self {
        let dtype = point.q.dtype();
        let halves = device != Device::CPU && dtype.size() == 2;
        let mask = match &point.hidden {
            Hidden::By(mask) => Some((Host::of(mask), mask.dtype() == Dtype::Bool)),
            Hidden::Nothing | Hidden::Later => None,
        };
        Softmax {
            point,
            mask,
            unit: sum_epsilon(dtype),
            rounding: if halves { epsilon(dtype) } else { 0.0 },
            tiny: if halves && dtype == Dtype::Float16 { 2f64.powi(-25) } else { 0.0 },
        }
    }

    fn product(&self, x: &[f64], y: &[f64]) -> Approx {
        let mut sum = Sum::default();
        x.iter().zip(y).for_each(|(&x, &y)| sum.add(Approx::exact(x), y));
        sum.finish(self.unit)
    }

    /// The weights of a row, and whether their keys are seen. A score has the error of its products, of which
    /// the mask takes the rounding once more; weights have twice its error, and that of the exponent.
    fn weights(&self, row: usize, query: &[f64], keys: &[f64]) -> Vec<(Approx, bool)> {
        let (heads, n, m) = (self.point.q.dim(1), self.point.q.dim(2), self.point.k.dim(2));
        let (b, h, i) = (row / n / heads, row / n % heads, row % n);
        let mut error: f64 = 0.0;
        let score = |j: usize| {
            let dot = self.product(query, &keys[j * query.len()..][..query.len()]);
            let at = |mask: &Host| mask.at(&[b, h, i, j]);
            let seen = match &self.mask {
                Some((mask, true)) => at(mask) != 0.0,
                _ => !matches!(self.point.hidden, Hidden::Later) || j + n <= i + m,
            };
            let added = if let Some((mask, false)) = &self.mask { at(mask) } else { 0.0 };
            let size = if added.is_finite() { added.abs() } else { 0.0 };
            error = error.max(f64::from(SCALE) * dot.error + 4.0 * self.unit * size);
            // A row that sees nothing averages over all keys.
            (if seen { f64::from(SCALE) * dot.value + added } else { -1e9 }, seen)
        };
        let scores: Vec<(f64, bool)> = (0..m).map(score).collect();
        let top = scores.iter().fold(f64::NEG_INFINITY, |top, score| top.max(score.0));
        let sum: f64 = scores.iter().map(|score| (score.0 - top).exp()).sum();
        let weight = |(score, seen): (f64, bool)| {
            let value = (score - top).exp() / sum;
            let spread = if value > 0.0 { top - score } else { 0.0 };
            let relative = 2.0 * error + self.unit * (m as f64 + 16.0 + 4.0 * spread);
            (Approx { value, error: relative * value }, seen)
        };
        scores.into_iter().map(weight).collect()
    }

    /// What a score changes by: `weight (upward - mean)`.
    fn change(&self, weight: Approx, seen: bool, upward: Approx, mean: Approx) -> Approx {
        if !seen {
            return Approx::exact(0.0);
        }
        let size = upward.value.abs() + mean.value.abs();
        let error = upward.error + mean.error + 4.0 * self.unit * size;
        let value = weight.value * (upward.value - mean.value);
        self.rounded(Approx { value, error: weight.error * size + weight.value * error })
    }

    /// As the factor of a product.
    fn rounded(&self, x: Approx) -> Approx {
        Approx { value: x.value, error: x.error + self.rounding * x.value.abs() + self.tiny }
    }
}

/// A mask of bools; of some rows it hides everything.
fn bools(shape: &[usize]) -> Hidden {
    let last = shape[3];
    let seen = |i: usize| i / last % 7 != 3 && scattered(i, 4).is_multiple_of(3);
    Hidden::By(filled(shape, Dtype::Bool, |i| seen(i) as u8 as f64))
}

/// Numbers to add, some of which are the lowest.
fn numbers(shape: &[usize], dtype: Dtype) -> Hidden {
    let random = noise(5, -3.0, 3.0);
    let lowest = |i: usize| if i % 5 == 2 { f64::NEG_INFINITY } else { random(i) };
    Hidden::By(filled(shape, dtype, lowest))
}

/// The masks in turns.
fn hidden(turn: usize, shape: &[usize], dtype: Dtype) -> Hidden {
    match turn % 4 {
        0 => Hidden::Nothing,
        1 => Hidden::Later,
        2 => bools(shape),
        _ => numbers(shape, dtype),
    }
}

fn floating(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|dtype| dtype.is_floating())
}

/// Every width with every number of queries. Masks and halves take turns, because each pair is another
/// kernel, which takes lavapipe long to compile.
#[test]
fn every_width_and_number_of_queries() {
    let widths =
        [[16, 16], [33, 17], [64, 64], [80, 80], [96, 96], [128, 128], [256, 256], [64, 48]];
    on_each_device(|device| {
        for dtype in floating(device) {
            for (i, width) in widths.into_iter().enumerate() {
                for (j, n) in [1, 35].into_iter().enumerate() {
                    if dtype == [Dtype::Float16, Dtype::Bfloat16][(i + j) % 2] {
                        continue;
                    }
                    let m = n + 20 + 7 * i;
                    let mask = hidden(i + j, &[1, 2, n, m], dtype);
                    Point::random(dtype, [1, 2, 1], [n, m], width, mask).check("widths", device);
                }
            }
        }
    });
}

#[test]
fn heads_share_keys_under_every_mask() {
    on_each_device(|device| {
        for dtype in floating(device) {
            for (i, heads) in [[2, 4, 4], [2, 6, 2], [1, 9, 3]].into_iter().enumerate() {
                for turn in 0..4 {
                    let size = [[40, 40], [9, 50], [50, 33]][(i + turn) % 3];
                    let mask = hidden(turn, &[heads[0], heads[1], size[0], size[1]], dtype);
                    Point::random(dtype, heads, size, [64, 64], mask).check("heads", device);
                }
            }
        }
    });
}

/// Rows enough for several blocks of every kernel.
#[test]
fn many_rows() {
    on_each_device(|device| {
        for dtype in floating(device) {
            for turn in 0..4 {
                if dtype == [Dtype::Float16, Dtype::Bfloat16][turn % 2] {
                    continue;
                }
                let size = [[150, 150], [70, 210], [140, 65]][turn % 3];
                let width = [64, 128][turn / 2];
                let mask = hidden(turn, &[1, 2, size[0], size[1]], dtype);
                Point::random(dtype, [1, 2, 1], size, [width; 2], mask).check("rows", device);
            }
        }
    });
}

/// More queries than keys: the first ones see none, and average.
#[test]
fn queries_that_see_nothing() {
    on_each_device(|device| {
        for dtype in floating(device) {
            for size in [[12, 4], [150, 20]] {
                let point = Point::random(dtype, [1, 2, 1], size, [32, 32], Hidden::Later);
                point.check("few keys", device);
            }
        }
    });
}

#[test]
fn any_layout() {
    on_each_device(|device| {
        for dtype in floating(device) {
            for layout in Layout::VIEWS {
                let of = |shape: &[usize], seed| {
                    layout.view(shape, |s| filled(s, dtype, noise(seed, -1.0, 1.0)))
                };
                let (q, k) = (of(&[2, 4, 19, 32], 1), of(&[2, 2, 21, 32], 2));
                let mask = layout.view(&[2, 4, 19, 21], |s| match bools(s) {
                    Hidden::By(mask) => mask,
                    Hidden::Nothing | Hidden::Later => unreachable!("an array"),
                });
                let point = Point::new([q, k, of(&[2, 2, 21, 32], 3)], Hidden::By(mask));
                point.check(&format!("{layout:?}"), device);
            }
            // Heads that were split off the features of tokens.
            let split = |heads: isize, seed| {
                let tokens = filled(&[2, 50, 64 * heads as usize], dtype, noise(seed, -1.0, 1.0));
                let heads = ops::reshape(&tokens, &[2, 50, heads, 64]).unwrap();
                ops::transpose(&heads, &[0, 2, 1, 3]).unwrap()
            };
            let point = Point::new([split(4, 1), split(2, 2), split(2, 3)], Hidden::Later);
            point.check("tokens", device);
        }
    });
}

#[test]
fn they_are_the_same_each_time() {
    on_each_device(|device| {
        for dtype in floating(device) {
            let point = Point::random(dtype, [2, 4, 2], [90, 90], [64, 64], Hidden::Later);
            let bytes = || {
                let derivatives = point.derivatives().unwrap();
                derivatives.iter().map(|a| a.to_bytes().unwrap()).collect::<Vec<_>>()
            };
            let first = bytes();
            (0..3).for_each(|_| assert!(bytes() == first, "{dtype} on {device}"));
        }
    });
}

#[test]
fn of_nothing() {
    on_each_device(|device| {
        for (heads, size, width) in [
            ([0, 2, 1], [3, 4], [8, 8]),
            ([1, 2, 1], [0, 4], [8, 8]),
            ([1, 2, 1], [3, 4], [8, 0]),
            ([1, 2, 1], [3, 4], [0, 0]),
        ] {
            let point = Point::random(Dtype::Float16, heads, size, width, Hidden::Nothing);
            for (got, input) in point.derivatives().unwrap().iter().zip(point.inputs()) {
                assert_eq!(got.spec(), input.spec(), "{device}");
                assert!(values(got).iter().all(|&x| x == 0.0), "{heads:?} {size:?} on {device}");
            }
        }
    });
}

/// An additive mask that leaves a row nothing makes it NaN, as in the attention itself.
#[test]
fn rows_without_scores() {
    on_each_device(|device| {
        for dtype in floating(device) {
            let mask = filled(&[1, 2, 5, 9], dtype, |_| f64::NEG_INFINITY);
            let point = Point::random(dtype, [1, 2, 1], [5, 9], [32, 32], Hidden::By(mask));
            for got in point.derivatives().unwrap() {
                assert!(values(&got).iter().all(|x| x.is_nan()), "{dtype} on {device}");
            }
        }
    });
}

#[test]
fn wrong_inputs_are_refused() {
    on_each_device(|_| {
        let good = || Point::random(Dtype::Float32, [1, 2, 1], [3, 4], [8, 6], Hidden::Nothing);
        let wrong = |shape: &[usize], dtype| filled(shape, dtype, |_| 1.0);
        let refused = |point: Point| {
            let error = point.derivatives().unwrap_err().to_string();
            assert!(error.starts_with("[ScaledDotProductAttentionVJP] Inputs ("), "{error}");
        };
        refused(Point { output: wrong(&[1, 2, 3, 8], Dtype::Float32), ..good() });
        refused(Point { cotangent: wrong(&[1, 2, 3, 6], Dtype::Float16), ..good() });
        refused(Point { cotangent: wrong(&[6], Dtype::Float32), ..good() });
        refused(Point { k: wrong(&[1, 1, 4, 6], Dtype::Float32), ..good() });
        refused(Point { hidden: Hidden::By(wrong(&[3, 4], Dtype::Bool)), ..good() });
    });
}
