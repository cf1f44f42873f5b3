//! Affine quantization, and products with quantized matrices.

use mlx::{Array, Device, Dtype, ops};
use mlx_tests::{
    Approx, Layout, array, assert_approx, assert_approx_either, dtypes_of, epsilon, filled, hashed,
    keeping, noise, on_each_device, rounded, sum_epsilon, sum_error, values,
};
use serde_json::Value;

const BITS: [usize; 6] = [2, 3, 4, 5, 6, 8];
const GROUPS: [usize; 3] = [32, 64, 128];

/// Packed weights, and what they stand for.
pub(crate) struct Quantized {
    pub(crate) words: Array,
    pub(crate) scales: Array,
    pub(crate) biases: Array,
    /// The packed numbers.
    fields: Vec<f64>,
    /// Scale and bias of each element's group.
    affine: Vec<(f64, f64)>,
}

impl Quantized {
    pub(crate) fn new(w: &Array, group: usize, bits: usize) -> Self {
        let (words, scales, biases) = ops::quantize(w, group, bits).expect("a valid shape");
        let packed = words.to_vec::<u32>().expect("words");
        // Fields follow one another from the lowest bit of the first word on.
        let bit = |i: usize| packed[i / 32] >> (i % 32) & 1;
        let field = |i: usize| (0..bits).map(|b| bit(i * bits + b) << b).sum::<u32>() as f64;
        let (s, b) = (values(&scales), values(&biases));
        Quantized {
            fields: (0..w.size()).map(field).collect(),
            affine: (0..w.size()).map(|i| (s[i / group], b[i / group])).collect(),
            words,
            scales,
            biases,
        }
    }

    /// The value of an element, and the sum of the absolute terms that it is made of.
    pub(crate) fn element(&self, i: usize) -> (f64, f64) {
        let ((scale, bias), field) = (self.affine[i], self.fields[i]);
        (scale * field + bias, (scale * field).abs() + bias.abs())
    }

    fn inputs(&self) -> [&Array; 3] {
        [&self.words, &self.scales, &self.biases]
    }
}

fn floats(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|d| d.is_floating())
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

/// Bit for bit what MLX 0.32 packs.
#[test]
fn packing_is_upstreams() {
    let kept = include_str!("data/kept.json");
    let kept: Value = serde_json::from_str(kept).unwrap();
    on_each_device(|device| {
        for case in kept["quantize"].as_array().unwrap() {
            let side = |name: &str| case[name].as_u64().unwrap() as usize;
            let (bits, group) = (side("bits"), side("group"));
            let w = array(&hashed(512, (bits * 100 + group) as u64), &[2, 256], Dtype::Float32);
            let (words, scales, biases) = ops::quantize(&w, group, bits).unwrap();
            let f32s =
                |list| numbers(list).iter().map(|&x| f64::from(x as f32)).collect::<Vec<_>>();
            let what = format!("{bits} bits, groups of {group} on {device}");
            assert_eq!(values(&words), numbers(&case["words"]), "{what}: words");
            assert_eq!(values(&scales), f32s(&case["scales"]), "{what}: scales");
            assert_eq!(values(&biases), f32s(&case["biases"]), "{what}: biases");
            let back = ops::dequantize(&words, &scales, &biases, group, bits).unwrap();
            let sum: f64 = values(&back).iter().sum();
            assert!((sum - case["sum"].as_f64().unwrap()).abs() < 1e-3, "{what}: {sum}");
        }
    });
}

/// Each element is the nearest of its group's levels, one of the group's edges is a level, and
/// zero is one as nearly as the dtype holds scale and bias.
#[test]
fn quantize_takes_the_nearest_level() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (bits, group) in BITS.into_iter().flat_map(|b| GROUPS.map(|g| (b, g))) {
                for layout in Layout::VIEWS {
                    let w = layout.view(&[3, 2 * group], |s| filled(s, dtype, noise(7, -1.0, 0.8)));
                    let what = format!("{bits} bits /{group} {dtype} {layout:?} on {device}");
                    let q = keeping(&what, &[&w], || Quantized::new(&w, group, bits));
                    assert_eq!(q.words.shape(), [3, 2 * group * bits / 32], "{what}");
                    assert_eq!(
                        (q.scales.shape(), q.scales.dtype()),
                        (&[3, 2][..], dtype),
                        "{what}"
                    );
                    let x = values(&w);
                    check_levels(&what, &x, &q, group, ((1 << bits) - 1) as f64, dtype);
                    check_dequantize(&what, &q, &[3, 2 * group], group, bits);
                }
            }
        }
    });
}

fn check_levels(what: &str, x: &[f64], q: &Quantized, group: usize, levels: f64, dtype: Dtype) {
    for (g, part) in x.chunks(group).enumerate() {
        let low = part.iter().copied().fold(f64::INFINITY, f64::min);
        let high = part.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (scale, bias) = q.affine[g * group];
        // Levels are a few operations in float32, also of float64 arrays, and kept in the dtype.
        let kept = 4.0 * epsilon(Dtype::Float32) + epsilon(dtype);
        let edge = if low.abs() > high.abs() { low } else { high };
        // A wide enough group has a level at zero, so its edge is a whole number of steps off: as
        // many as float32 rounds to, which decides between two where the edge is half a step off.
        let step = (high as f32 - low as f32) / levels as f32;
        let steps = f64::from((edge as f32 / step).abs().round_ties_even());
        let size = if steps == 0.0 { f64::from(step) } else { edge.abs() / steps };
        assert!((scale.abs() - size).abs() <= kept * size, "{what}: {scale} is not ±{size}");
        let edges = if steps == 0.0 { 0.0 } else { edge };
        assert!((bias - edges).abs() <= kept * edges.abs(), "{what}: {bias} is not {edges}");
        assert_eq!(scale < 0.0, low.abs() <= high.abs(), "{what}: sign of {scale}");
        for (i, &x) in part.iter().enumerate() {
            let (value, terms) = q.element(g * group + i);
            // The last level may be short of the other edge, by half a step at most.
            let inside =
                bias.min(bias + scale * levels) <= x && x <= bias.max(bias + scale * levels);
            let slack = kept * (terms + x.abs()) * 2.0;
            let reach = if inside { 0.5 } else { 1.0 } * scale.abs() + slack;
            assert!((value - x).abs() <= reach, "{what}: {x} became {value}, steps of {scale}");
        }
    }
}

/// `scale * field + bias` is one product and one sum.
fn check_dequantize(what: &str, q: &Quantized, shape: &[usize], group: usize, bits: usize) {
    let dtype = q.scales.dtype();
    let got = keeping(what, &q.inputs(), || {
        let got = ops::dequantize(&q.words, &q.scales, &q.biases, group, bits).unwrap();
        got.eval().expect(what);
        got
    });
    assert_eq!((got.shape(), got.dtype()), (shape, dtype), "{what}");
    let want: Vec<Approx> = (0..q.fields.len())
        .map(|i| q.element(i))
        .map(|(value, terms)| Approx { value, error: sum_error(2, terms, dtype) })
        .collect();
    assert_approx(&format!("dequantize {what}"), &got, &want);
}

/// `x @ w` or `x @ wᵀ` for row-major `x` (rows, inner), in the two ways in which it may be done: with the
/// elements of w as they are, or as `dequantize` gives them, rounded to the dtype (matrix units take no
/// others).
fn product(
    x: &[f64],
    inner: usize,
    q: &Quantized,
    outer: usize,
    transpose: bool,
    dtype: Dtype,
) -> [Vec<Approx>; 2] {
    let exact: Vec<(f64, f64)> = (0..inner * outer).map(|i| q.element(i)).collect();
    let whole = exact.iter().map(|&(w, terms)| (rounded(w, dtype), terms)).collect();
    [exact, whole].map(|elements| sums(x, inner, &elements, outer, transpose, dtype))
}

fn sums(
    x: &[f64],
    inner: usize,
    elements: &[(f64, f64)],
    outer: usize,
    transpose: bool,
    dtype: Dtype,
) -> Vec<Approx> {
    let one = |row: &[f64], j: usize| {
        let (mut value, mut size) = (0.0, 0.0);
        for (i, x) in row.iter().enumerate() {
            let (w, terms) = elements[if transpose { j * inner + i } else { i * outer + j }];
            (value, size) = (value + x * w, size + x.abs() * terms);
        }
        // Scale and bias of each element may be multiplied and added up on their own.
        Approx { value, error: sum_error(inner + 3, size, dtype) }
    };
    x.chunks(inner)
        .flat_map(|row| (0..outer).map(move |j| (row, j)))
        .map(|(r, j)| one(r, j))
        .collect()
}

/// Checks a product with a quantized matrix of these sides, or with its transpose.
fn check_product(
    device: Device,
    q: &Quantized,
    sides: [usize; 2],
    (group, bits): (usize, usize),
    (rows, transpose, layout): (usize, bool, Layout),
) {
    let dtype = q.scales.dtype();
    let (inner, outer) = if transpose { (sides[1], sides[0]) } else { (sides[0], sides[1]) };
    let x = layout.view(&[rows, inner], |s| filled(s, dtype, noise(8, -1.0, 1.0)));
    let what =
        format!("{rows} rows, {bits} bits /{group} {dtype} {layout:?} {transpose} on {device}");
    let inputs = [&x, &q.words, &q.scales, &q.biases];
    let got = keeping(&what, &inputs, || {
        let [x, w, s, b] = inputs;
        let got = ops::quantized_matmul(x, w, s, b, transpose, group, bits).unwrap();
        got.eval().expect(&what);
        got
    });
    assert_eq!((got.shape(), got.dtype()), (&[rows, outer][..], dtype), "{what}");
    let [exact, whole] = product(&values(&x), inner, q, outer, transpose, dtype);
    assert_approx_either(&what, &got, [&exact, &whole]);
}

#[test]
fn products_of_every_kind() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (bits, group) in BITS.into_iter().flat_map(|b| GROUPS.map(|g| (b, g))) {
                // An odd number of rows of the matrix, and more than one group.
                let sides = [37, 2 * group];
                let w = filled(&sides, dtype, noise(bits as u64, -1.0, 0.9));
                let q = Quantized::new(&w, group, bits);
                for rows in [1, 2, 5, 9, 33] {
                    for transpose in [true, false] {
                        let kind = (rows, transpose, Layout::Contiguous);
                        check_product(device, &q, sides, (group, bits), kind);
                    }
                }
            }
        }
    });
}

/// A matrix that is not transposed is for few rows what it is for many: the one that `dequantize` gives.
#[test]
fn few_rows_take_rounded_elements() {
    mlx_tests::init();
    mlx::with_device(Device::GPU, || {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            for (rows, inner) in [(1, 128), (3, 256), (8, 64)] {
                let q = Quantized::new(&filled(&[inner, 128], dtype, noise(1, -1.0, 0.9)), 32, 4);
                let x = filled(&[rows, inner], dtype, noise(8, -1.0, 1.0));
                let [words, scales, biases] = q.inputs();
                let got = ops::quantized_matmul(&x, words, scales, biases, false, 32, 4).unwrap();
                let [_, whole] = product(&values(&x), inner, &q, 128, false, dtype);
                assert_approx(&format!("{rows} rows of {inner}, {dtype}"), &got, &whole);
            }
        }
    })
    .unwrap();
}

/// So is every matrix for many rows, on matrix units and without them, but those of 4 bits that lie along
/// whole slices, whose fields are multiplied as they are.
#[test]
fn many_rows_take_rounded_elements() {
    mlx_tests::init();
    mlx::with_device(Device::GPU, || {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            for (bits, transpose) in BITS.into_iter().flat_map(|b| [(b, true), (b, false)]) {
                let (inner, outer) = (160, 192);
                let sides = if transpose { [outer, inner] } else { [inner, outer] };
                let q = Quantized::new(&filled(&sides, dtype, noise(6, -1.0, 0.9)), 32, bits);
                let x = filled(&[33, inner], dtype, noise(8, -1.0, 1.0));
                let [words, scales, biases] = q.inputs();
                let got = ops::quantized_matmul(&x, words, scales, biases, transpose, 32, bits);
                let [_, whole] = product(&values(&x), inner, &q, outer, transpose, dtype);
                assert_approx(&format!("{bits} bits, {dtype}, {transpose}"), &got.unwrap(), &whole);
            }
        }
    })
    .unwrap();
}

/// Elements from the smallest that a dtype has to infinity, each times three.
#[test]
fn elements_of_every_size_are_those_of_dequantize() {
    mlx_tests::init();
    mlx::with_device(Device::GPU, || {
        for (dtype, powers) in [(Dtype::Float16, -28..17), (Dtype::Bfloat16, -112..96)] {
            let count = powers.len();
            let times = |factor: f64| {
                filled(&[count, 1, 1], dtype, |i| factor * 2f64.powi(powers.start + i as i32))
            };
            let words = filled(&[count, 1, 4], Dtype::Uint32, |_| f64::from(0x7531_fcb9u32));
            let (scales, biases) = (times(0.123), times(-0.537));
            let elements = values(&ops::dequantize(&words, &scales, &biases, 32, 4).unwrap());
            let want: Vec<f64> = elements.iter().map(|w| rounded(3.0 * w, dtype)).collect();
            for rows in [4, 40] {
                let x = filled(&[count, rows, 1], dtype, |_| 3.0);
                let got = ops::quantized_matmul(&x, &words, &scales, &biases, false, 32, 4);
                for (got, want) in values(&got.unwrap()).chunks(rows * 32).zip(want.chunks(32)) {
                    assert!(got.chunks(32).all(|row| row == want), "{rows} rows of {dtype}");
                }
            }
        }
    })
    .unwrap();
}

/// Numbers of rows between which kernels change, from one to many.
#[test]
fn products_of_any_number_of_rows() {
    let formats = [(4, 64), (4, 32), (8, 64), (3, 32), (6, 128), (2, 64), (5, 32)];
    on_each_device(|device| {
        for dtype in floats(device) {
            for (i, rows) in [2, 4, 6, 7, 8, 16, 17, 30, 70, 100].into_iter().enumerate() {
                for transpose in [true, false] {
                    let (bits, group) = formats[(2 * i + usize::from(transpose)) % formats.len()];
                    let sides = [78, 384];
                    let q =
                        Quantized::new(&filled(&sides, dtype, noise(1, -1.0, 0.9)), group, bits);
                    let kind = (rows, transpose, Layout::Contiguous);
                    check_product(device, &q, sides, (group, bits), kind);
                }
            }
            for (rows, sides, group, bits) in
                [(1, [1000, 1536], 64, 8), (40, [100, 2048], 64, 4), (5, [600, 576], 32, 8)]
            {
                let q = Quantized::new(&filled(&sides, dtype, noise(2, -1.0, 0.9)), group, bits);
                let kind = (rows, true, Layout::Contiguous);
                check_product(device, &q, sides, (group, bits), kind);
            }
        }
    });
}

/// Sizes for cooperative matrices, where a device has them, up to those that dequantize first.
#[test]
fn many_rows_of_halves() {
    on_each_device(|device| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            let check = |rows, sides: [usize; 2], group, bits, transpose| {
                let q = Quantized::new(&filled(&sides, dtype, noise(3, -1.0, 0.9)), group, bits);
                let kind = (rows, transpose, Layout::Contiguous);
                check_product(device, &q, sides, (group, bits), kind);
            };
            for bits in BITS {
                check(40, [160, 288], 32, bits, true);
                check(40, [288, 160], 32, bits, false);
            }
            check(64, [72, 1280], 128, 4, true);
            check(130, [256, 192], 64, 4, true);
            check(130, [192, 256], 64, 4, false);
            check(400, [96, 128], 64, 4, true);
            check(17, [33, 2048], 64, 4, true);
            // Tiles of few and of more rows, whose inner axis is long enough for several workgroups.
            for (rows, sides, group) in [
                (20, [300, 1024], 64),
                (32, [200, 576], 32),
                (17, [130, 640], 128),
                (34, [2056, 2560], 64),
                (50, [520, 1088], 64),
                (100, [8200, 1088], 64),
                (31, [200, 2624], 32),
                (29, [130, 2688], 128),
            ] {
                check(rows, sides, group, 4, true);
            }
        }
    });
}

/// No rows, and matrices whose parts lie otherwise than `quantize` left them.
#[test]
fn rows_of_nothing_and_words_by_columns() {
    on_each_device(|device| {
        for dtype in floats(device) {
            let q = Quantized::new(&filled(&[6, 64], dtype, noise(4, -1.0, 0.9)), 32, 4);
            let [words, scales, biases] = q.inputs();
            let none = filled(&[0, 64], dtype, |_| 0.0);
            let got = ops::quantized_matmul(&none, words, scales, biases, true, 32, 4).unwrap();
            assert_eq!((got.shape(), values(&got).len()), (&[0, 6][..], 0), "{dtype} on {device}");
            let turned = |a: &Array| ops::transpose(a, &[]).unwrap();
            let columns = turned(&ops::contiguous(&turned(words), false).unwrap());
            let doubled = ops::concatenate(&[scales, scales], 1).unwrap();
            let strided = ops::slice_axis(&doubled, 1, 0, 2).unwrap();
            for rows in [1, 3, 20] {
                let x = filled(&[rows, 64], dtype, noise(5, -1.0, 1.0));
                let got = ops::quantized_matmul(&x, &columns, &strided, biases, true, 32, 4);
                let [exact, whole] = product(&values(&x), 64, &q, 6, true, dtype);
                let what = format!("{rows} rows {dtype} on {device}");
                assert_approx_either(&what, &got.unwrap(), [&exact, &whole]);
            }
        }
    });
}

/// Scales and biases that begin where no two of them can be read at once.
#[test]
fn scales_that_begin_anywhere() {
    on_each_device(|device| {
        for dtype in floats(device) {
            let (sides, group) = ([80, 1024], 64);
            let mut q = Quantized::new(&filled(&sides, dtype, noise(4, -1.0, 0.9)), group, 4);
            let behind_one = |a: &Array| {
                let flat = ops::reshape(a, &[-1]).unwrap();
                let one = ops::slice_axis(&flat, 0, 0, 1).unwrap();
                let all = ops::concatenate(&[&one, &flat], 0).unwrap();
                all.eval().unwrap();
                let rest = ops::slice_axis(&all, 0, 1, 1 + flat.size() as isize).unwrap();
                ops::reshape(&rest, &[sides[0] as isize, -1]).unwrap()
            };
            (q.scales, q.biases) = (behind_one(&q.scales), behind_one(&q.biases));
            for rows in [1, 4, 9, 24, 70] {
                check_product(device, &q, sides, (group, 4), (rows, true, Layout::Contiguous));
            }
        }
    });
}

/// Longer inner axes than one pass takes, and more outputs than one workgroup.
#[test]
fn large_products_and_strided_rows() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (sides, group, bits) in
                [([130, 1024], 64, 4), ([70, 1152], 128, 8), ([600, 96], 32, 3)]
            {
                let q = Quantized::new(&filled(&sides, dtype, noise(9, -1.0, 0.9)), group, bits);
                for (rows, transpose) in [(1, true), (4, true), (3, false), (20, true), (35, false)]
                {
                    for layout in [Layout::Contiguous, Layout::Sliced, Layout::Reversed] {
                        check_product(device, &q, sides, (group, bits), (rows, transpose, layout));
                    }
                }
            }
        }
    });
}

/// Matrices per batch, a matrix for all batches, and a vector.
#[test]
fn batches_share_or_have_their_matrices() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (rows, transpose) in [(1, true), (3, true), (2, false), (17, true)] {
                let w = filled(&[3, 64, 64], dtype, noise(3, -1.0, 0.9));
                let x = filled(&[2, 3, rows, 64], dtype, noise(4, -1.0, 1.0));
                let (q, xv) = (Quantized::new(&w, 32, 4), values(&x));
                let part = |i: usize| Quantized {
                    words: q.words.clone(),
                    scales: q.scales.clone(),
                    biases: q.biases.clone(),
                    fields: q.fields[i * 4096..][..4096].to_vec(),
                    affine: q.affine[i * 4096..][..4096].to_vec(),
                };
                let of = |i: usize, m: usize| {
                    product(&xv[i * rows * 64..][..rows * 64], 64, &part(m), 64, transpose, dtype)
                };
                let what = format!("{rows} rows {dtype} {transpose} on {device}");
                let [w, s, b] = q.inputs();
                let got = ops::quantized_matmul(&x, w, s, b, transpose, 32, 4).unwrap();
                let all = |m: fn(usize) -> usize| {
                    let both: Vec<_> = (0..6).map(|i| of(i, m(i))).collect();
                    [0, 1].map(|way| both.iter().flat_map(|o| o[way].clone()).collect::<Vec<_>>())
                };
                let [exact, whole] = all(|i| i % 3);
                assert_approx_either(&format!("each {what}"), &got, [&exact, &whole]);
                let first =
                    |a: &Array| ops::squeeze(&ops::slice_axis(a, 0, 0, 1).unwrap(), &[0]).unwrap();
                let [w, s, b] = [first(w), first(s), first(b)];
                let got = ops::quantized_matmul(&x, &w, &s, &b, transpose, 32, 4).unwrap();
                let [exact, whole] = all(|_| 0);
                assert_approx_either(&format!("shared {what}"), &got, [&exact, &whole]);
                // The same matrix, with gaps between its rows.
                let [w, s, b] = [&w, &s, &b].map(|a| {
                    let twice = ops::repeat(a, 2, Some(0)).unwrap();
                    let shape: Vec<isize> = twice.shape().iter().map(|&d| d as isize).collect();
                    ops::slice(&twice, &[0, 0], &shape, &[2, 1]).unwrap()
                });
                let got = ops::quantized_matmul(&x, &w, &s, &b, transpose, 32, 4).unwrap();
                assert_approx_either(&format!("gaps {what}"), &got, [&exact, &whole]);
                let row = ops::slice(&x, &[0; 4], &[1, 1, 1, 64], &[1; 4]).unwrap();
                let row = ops::reshape(&row, &[64]).unwrap();
                let got = ops::quantized_matmul(&row, &w, &s, &b, transpose, 32, 4).unwrap();
                assert_eq!(got.shape(), [64]);
                let [exact, whole] = of(0, 0);
                let first = [&exact[..64], &whole[..64]];
                assert_approx_either(&format!("vector {what}"), &got, first);
            }
        }
    });
}

/// Filled rows of caches that heads of queries share: matrices with gaps between them, repeated along an
/// axis.
#[test]
fn matrices_are_parts_of_caches() {
    on_each_device(|device| {
        let (heads, repeats, room, filled_rows, width) = (3, 2, 40, 32, 64);
        for dtype in floats(device) {
            for (rows, transpose) in [(1, true), (1, false), (3, true), (9, false), (17, true)] {
                let w = filled(&[2, heads, 1, room, width], dtype, noise(5, -1.0, 0.9));
                let q = Quantized::new(&w, 32, 4);
                let inner = if transpose { width } else { filled_rows };
                let outer = width + filled_rows - inner;
                let shape = [2, heads, repeats, rows, inner];
                let x = filled(&shape, dtype, noise(6, -1.0, 1.0));
                let xv = values(&x);
                let seen = |a: &Array| ops::slice_axis(a, 3, 0, filled_rows as isize).unwrap();
                let parts = q.inputs().map(seen);
                let [w, s, b] = &parts;
                let got = ops::quantized_matmul(&x, w, s, b, transpose, 32, 4).unwrap();
                assert_eq!(got.shape(), [2, heads, repeats, rows, outer]);
                let of = |i: usize| {
                    let first = i / repeats * room * width;
                    let part = Quantized {
                        words: q.words.clone(),
                        scales: q.scales.clone(),
                        biases: q.biases.clone(),
                        fields: q.fields[first..][..filled_rows * width].to_vec(),
                        affine: q.affine[first..][..filled_rows * width].to_vec(),
                    };
                    let x = &xv[i * rows * inner..][..rows * inner];
                    product(x, inner, &part, outer, transpose, dtype)
                };
                let all: Vec<_> = (0..2 * heads * repeats).map(of).collect();
                let [exact, whole] =
                    [0, 1].map(|way| all.iter().flat_map(|o| o[way].clone()).collect::<Vec<_>>());
                let what = format!("{rows} rows {dtype} {transpose} on {device}");
                assert_approx_either(&what, &got, [&exact, &whole]);
            }
        }
    });
}

/// Groups without extent, whose scale is the smallest one, and groups of one sign.
#[test]
fn flat_and_one_sided_groups() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for value in [0.0, 0.5, -3.0] {
                let w = filled(&[2, 64], dtype, |_| value);
                let q = Quantized::new(&w, 32, 4);
                check_dequantize(&format!("{value} {dtype} on {device}"), &q, &[2, 64], 32, 4);
                let back = ops::dequantize(&q.words, &q.scales, &q.biases, 32, 4).unwrap();
                let step = 15.0 * 1e-7 + sum_epsilon(Dtype::Float32) * value.abs();
                let want = [Approx { value, error: step }; 128];
                assert_approx(&format!("flat {value} {dtype} on {device}"), &back, &want);
            }
            for (low, high) in [(3.0, 5.0), (-5.0, -3.0)] {
                let w = filled(&[2, 64], dtype, noise(2, low, high));
                let q = Quantized::new(&w, 64, 8);
                let what = format!("{low}..{high} {dtype} on {device}");
                check_levels(&what, &values(&w), &q, 64, 255.0, dtype);
            }
        }
        let w = filled(&[2, 48], Dtype::Float32, |_| 1.0);
        assert!(ops::quantize(&w, 32, 4).is_err() && ops::quantize(&w, 16, 4).is_err());
        assert!(ops::quantize(&w, 32, 7).is_err(), "no seven bits");
    });
}
