//! Cumulative reductions.

use mlx::{Array, Complex, Device, Dtype, Result, ops};
use mlx_tests::{
    Approx, Layout, array, assert_approx, complex_noise, complex_parts, dtypes_of, epsilon, filled,
    groups, integers, keeping, noise, on_each_device, random_bits, sum_epsilon, values, wrapped,
};

type Scan = fn(&Array, Option<isize>, bool, bool) -> Result<Array>;

/// (reverse, inclusive)
const DIRECTIONS: [(bool, bool); 4] = [(false, true), (true, true), (false, false), (true, false)];

/// What each element of one row should be, given the elements that count for it in the order in
/// which they are taken.
type Oracle = fn(&[f64], Dtype) -> Approx;

/// The places of the elements that count for each element of a row of `n`.
fn prefixes(row: &[usize], reverse: bool, inclusive: bool) -> impl Iterator<Item = Vec<usize>> {
    (0..row.len()).map(move |i| match (reverse, inclusive) {
        (false, true) => row[..=i].to_vec(),
        (false, false) => row[..i].to_vec(),
        (true, true) => row[i..].iter().rev().copied().collect(),
        (true, false) => row[i + 1..].iter().rev().copied().collect(),
    })
}

/// Runs a scan in every direction and calls `check` with the result and what counts for each of
/// its elements.
fn each_direction(
    context: &str,
    a: &Array,
    axis: usize,
    scan: Scan,
    mut check: impl FnMut(&str, &Array, &[Vec<usize>]),
) {
    let (_, rows) = groups(a.shape(), &[axis]);
    for (reverse, inclusive) in DIRECTIONS {
        let context = format!("{context}, axis {axis}, reverse {reverse}, inclusive {inclusive}");
        let got = keeping(&context, &[a], || {
            let got = scan(a, Some(axis as isize), reverse, inclusive).expect(&context);
            got.eval().expect(&context);
            got
        });
        assert_eq!(got.shape(), a.shape(), "{context}: shape");
        let mut counted = vec![Vec::new(); a.size()];
        for row in &rows {
            for (&place, prefix) in row.iter().zip(prefixes(row, reverse, inclusive)) {
                counted[place] = prefix;
            }
        }
        check(&context, &got, &counted);
    }
}

fn check_floats(context: &str, a: &Array, axis: usize, scan: Scan, oracle: Oracle) {
    let x = values(a);
    each_direction(context, a, axis, scan, |context, got, counted| {
        let of = |c: &Vec<usize>| c.iter().map(|&i| x[i]).collect::<Vec<_>>();
        let want: Vec<Approx> = counted.iter().map(|c| oracle(&of(c), got.dtype())).collect();
        assert_approx(context, got, &want);
    });
}

/// Blocks of a row are joined in any order, so the bound of sums holds: see `sum_error`.
fn sum(x: &[f64], dtype: Dtype) -> Approx {
    let magnitude: f64 = x.iter().map(|x| x.abs()).sum();
    let error = x.len() as f64 * sum_epsilon(dtype) * magnitude;
    Approx { value: x.iter().sum(), error }
}

fn product(x: &[f64], dtype: Dtype) -> Approx {
    let value: f64 = x.iter().product();
    Approx { value, error: x.len() as f64 * sum_epsilon(dtype) * value.abs() }
}

fn largest(x: &[f64], _: Dtype) -> Approx {
    Approx::exact(x.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

fn smallest(x: &[f64], _: Dtype) -> Approx {
    Approx::exact(x.iter().copied().fold(f64::INFINITY, f64::min))
}

/// Each of the steps has two results of elementary functions in it, each within four units of
/// numbers up to the largest of the intermediate results.
fn log_sum_exp(x: &[f64], dtype: Dtype) -> Approx {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return Approx::exact(top);
    }
    let value = top + x.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
    let size = x.iter().fold(value.abs(), |m, x| m.max(x.abs())).max(1.0);
    Approx { value, error: x.len() as f64 * 8.0 * sum_epsilon(dtype) * size }
}

/// Every floating scan, with the range in which its rows stay finite.
const FLOATING: [(&str, Scan, Oracle, (f64, f64)); 5] = [
    (
        "cumsum",
        |a, axis, reverse, inclusive| ops::cumsum(a, axis, reverse, inclusive, None),
        sum,
        (-1.0, 1.0),
    ),
    (
        "cumprod",
        |a, axis, reverse, inclusive| ops::cumprod(a, axis, reverse, inclusive, None),
        product,
        (0.7, 1.4),
    ),
    ("cummax", ops::cummax, largest, (-9.0, 9.0)),
    ("cummin", ops::cummin, smallest, (-9.0, 9.0)),
    ("logcumsumexp", ops::logcumsumexp, log_sum_exp, (-8.0, 8.0)),
];

fn layouts() -> impl Iterator<Item = Layout> {
    Layout::ALL.into_iter().filter(|&l| l != Layout::Scalar)
}

#[test]
fn every_layout_axis_and_direction_matches_float64() {
    on_each_device(|device| {
        for (name, scan, oracle, (low, high)) in FLOATING {
            for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
                for layout in layouts() {
                    let a = layout.array(dtype, noise(2, low, high));
                    for axis in 0..3 {
                        let context = format!("{name} {dtype} {layout:?} on {device}");
                        check_floats(&context, &a, axis, scan, oracle);
                    }
                }
            }
        }
    });
}

/// Lengths that end within, at and behind workgroups and blocks, along and across the rows.
#[test]
fn lengths_around_blocks() {
    on_each_device(|device| {
        let cases = |n: usize| [(vec![n], 0), (vec![2, n], 1), (vec![n, 2], 0)];
        for n in [1, 31, 255, 1023, 1025] {
            for (shape, axis) in cases(n) {
                for (name, scan, oracle, (low, high)) in FLOATING {
                    // A product of many numbers leaves the range unless they are near one.
                    let (low, high) = if name == "cumprod" { (0.99, 1.01) } else { (low, high) };
                    let a = filled(&shape, Dtype::Float32, noise(n as u64, low, high));
                    check_floats(&format!("{name} {shape:?} on {device}"), &a, axis, scan, oracle);
                }
            }
        }
        for n in [5000, 20_001, 50_001] {
            for (shape, axis) in cases(n) {
                check_long(device, &shape, axis);
            }
        }
    });
}

/// The oracle of long rows: running totals, because all prefixes would be too many.
fn check_long(device: Device, shape: &[usize], axis: usize) {
    let (_, rows) = groups(shape, &[axis]);
    let integers_in = random_bits(shape, Dtype::Int32, 8);
    let floats_in = filled(shape, Dtype::Float16, noise(8, -0.5, 0.5));
    let (x, y) = (integers(&integers_in), values(&floats_in));
    for (reverse, inclusive) in DIRECTIONS {
        let what = format!("{shape:?} reverse {reverse} inclusive {inclusive} on {device}");
        let got = ops::cumsum(&integers_in, Some(axis as isize), reverse, inclusive, None).unwrap();
        let sums = ops::cumsum(&floats_in, Some(axis as isize), reverse, inclusive, None).unwrap();
        let mut want = vec![0i128; x.len()];
        let mut near = vec![Approx::exact(0.0); x.len()];
        for row in &rows {
            let (mut total, mut sum, mut size) = (0i128, 0.0, 0.0);
            let order: Vec<usize> =
                if reverse { row.iter().rev().copied().collect() } else { row.clone() };
            for (n, &i) in order.iter().enumerate() {
                let error = |sum, size| Approx {
                    value: sum,
                    error: n as f64 * sum_epsilon(Dtype::Float16) * size,
                };
                (want[i], near[i]) = (total, error(sum, size));
                (total, sum, size) = (total + x[i], sum + y[i], size + y[i].abs());
                if inclusive {
                    (want[i], near[i]) = (total, error(sum, size));
                }
            }
        }
        let want: Vec<i128> = want.iter().map(|&w| wrapped(w, Dtype::Int32)).collect();
        assert_eq!(integers(&got), want, "cumsum {what}");
        assert_approx(&format!("cumsum float16 {what}"), &sums, &near);
    }
}

/// Blocks are joined by their totals: the error grows with their number, not with that of the elements.
#[test]
fn long_sums_stay_accurate() {
    on_each_device(|device| {
        let a = filled(&[300_000], Dtype::Float32, noise(1, 0.0, 1.0));
        let got = values(&ops::cumsum(&a, Some(0), false, true, None).unwrap());
        let mut total = 0.0;
        for (i, (x, got)) in values(&a).into_iter().zip(got).enumerate() {
            total += x;
            assert!((got - total).abs() <= 1e-5 * total, "{i} on {device}: {got}, not {total}");
        }
    });
}

#[test]
fn long_extremes_of_bytes() {
    on_each_device(|device| {
        let a = random_bits(&[40_000], Dtype::Int8, 7);
        let columns = ops::reshape(&a, &[20_000, 2]).unwrap();
        let x = integers(&a);
        let got = integers(&ops::cummax(&a, Some(0), false, true).unwrap());
        let mut top = i128::MIN;
        for (i, (x, got)) in x.iter().zip(got).enumerate() {
            top = top.max(*x);
            assert_eq!(got, top, "{i} on {device}");
        }
        let got = integers(&ops::cummin(&columns, Some(0), false, true).unwrap());
        let mut least = [i128::MAX; 2];
        for (i, (x, got)) in x.iter().zip(got).enumerate() {
            least[i % 2] = least[i % 2].min(*x);
            assert_eq!(got, least[i % 2], "{i} across on {device}");
        }
    });
}

#[test]
fn complex_numbers_multiply() {
    on_each_device(|device| {
        let z = [Complex::new(0.0, 1.0), Complex::new(2.0, 0.0), Complex::new(0.0, 1.0)];
        let a = Array::from_slice(&z, &[3]).unwrap();
        let got = ops::cumprod(&a, Some(0), false, true, None).unwrap();
        let want = [z[0], z[0] * z[1], z[0] * z[1] * z[2]];
        assert_eq!(got.to_vec::<Complex>().unwrap(), want, "{device}");
    });
}

/// Both parts are sums of their own.
#[test]
fn complex_numbers_add_by_parts() {
    on_each_device(|device| {
        for layout in Layout::VIEWS {
            let a = layout.view(layout.shape(), |shape| complex_noise(shape, 2));
            let z = complex_parts(&a);
            for axis in [1, 2] {
                let context = format!("complex {layout:?} on {device}");
                let scan: Scan =
                    |a, axis, reverse, inclusive| ops::cumsum(a, axis, reverse, inclusive, None);
                each_direction(&context, &a, axis, scan, |context, got, counted| {
                    for part in [0, 1] {
                        let of = |c: &Vec<usize>| c.iter().map(|&i| z[i][part]).collect::<Vec<_>>();
                        let want: Vec<Approx> =
                            counted.iter().map(|c| sum(&of(c), Dtype::Float32)).collect();
                        let got = if part == 0 { ops::real(got) } else { ops::imag(got) };
                        assert_approx(context, &got.unwrap(), &want);
                    }
                });
            }
        }
    });
}

#[test]
fn integers_are_exact_modulo_their_range() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| !d.is_inexact()) {
            let bits = 8 * dtype.size() as u32;
            // What cummax and cummin start from.
            let (low, high) = match dtype {
                Dtype::Bool => (0, 1),
                d if d.is_signed_integer() => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                _ => (0, (1i128 << bits) - 1),
            };
            for layout in layouts() {
                let a = layout.view(layout.shape(), |shape| random_bits(shape, dtype, 6));
                let x = integers(&a);
                type Fold = fn(i128, i128) -> i128;
                let scans: [(&str, Scan, Fold, i128); 4] = [
                    (
                        "cumsum",
                        |a, axis, reverse, inclusive| {
                            ops::cumsum(a, axis, reverse, inclusive, None)
                        },
                        |a, b| a + b,
                        0,
                    ),
                    // Modulo 2^128, of which every range is a divisor.
                    (
                        "cumprod",
                        |a, axis, reverse, inclusive| {
                            ops::cumprod(a, axis, reverse, inclusive, None)
                        },
                        i128::wrapping_mul,
                        1,
                    ),
                    ("cummax", ops::cummax, i128::max, low),
                    ("cummin", ops::cummin, i128::min, high),
                ];
                for (name, scan, fold, start) in scans {
                    for axis in 0..3 {
                        let context = format!("{name} {dtype} {layout:?} on {device}");
                        each_direction(&context, &a, axis, scan, |context, got, counted| {
                            // Bools are counted; their product is a bool.
                            let counts = dtype == Dtype::Bool && name == "cumsum";
                            let out = if counts { Dtype::Int32 } else { dtype };
                            assert_eq!(got.dtype(), out, "{context}");
                            let of = |c: &Vec<usize>| c.iter().map(|&i| x[i]).fold(start, fold);
                            let want: Vec<i128> =
                                counted.iter().map(|c| wrapped(of(c), out)).collect();
                            assert_eq!(integers(got), want, "{context}");
                        });
                    }
                }
            }
        }
    });
}

#[test]
fn nan_and_infinities_stay_once_they_came() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    on_each_device(|device| {
        let x = [1.0, -inf, nan, 5.0];
        let a = array(&x, &[4], Dtype::Float32);
        let cases: [(&str, Scan, [f64; 4]); 4] = [
            (
                "cumsum",
                |a, axis, reverse, inclusive| ops::cumsum(a, axis, reverse, inclusive, None),
                [1.0, -inf, nan, nan],
            ),
            ("cummax", ops::cummax, [1.0, 1.0, nan, nan]),
            ("cummin", ops::cummin, [1.0, -inf, nan, nan]),
            ("logcumsumexp", ops::logcumsumexp, [1.0, 1.0, nan, nan]),
        ];
        for (name, scan, want) in cases {
            let want = want.map(Approx::exact);
            let got = scan(&a, Some(0), false, true).unwrap();
            assert_approx(&format!("{name} on {device}"), &got, &want);
        }
        let hidden = array(&[-inf; 40], &[40], Dtype::Float32);
        let got = ops::logcumsumexp(&hidden, Some(0), false, true).unwrap();
        assert_approx(&format!("nothing seen on {device}"), &got, &[Approx::exact(-inf); 40]);
    });
}

#[test]
fn integers_take_logarithms_as_float32() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| !d.is_inexact()) {
            let a = Layout::Sliced.array(dtype, |i| (i % 7) as f64);
            let got = ops::logcumsumexp(&a, Some(1), false, true).unwrap();
            assert_eq!(got.dtype(), Dtype::Float32);
            check_floats(&format!("{dtype} on {device}"), &a, 1, ops::logcumsumexp, log_sum_exp);
        }
    });
}

/// The exponentials of both sides agree: of a complex logarithm only that is defined.
#[test]
fn complex_numbers_add_as_exponentials() {
    let exp = |[re, im]: [f64; 2]| [re.exp() * im.cos(), re.exp() * im.sin()];
    on_each_device(|device| {
        for shape in [vec![2, 3, 5], vec![3000]] {
            let a = complex_noise(&shape, 5);
            let z: Vec<[f64; 2]> = complex_parts(&a).into_iter().map(exp).collect();
            let axis = shape.len() - 1;
            let context = format!("complex {shape:?} on {device}");
            let scan = ops::logcumsumexp(&a, Some(axis as isize), false, true).unwrap();
            let got = complex_parts(&scan);
            let (_, rows) = groups(&shape, &[axis]);
            for row in &rows {
                let (mut sum, mut size) = ([0.0, 0.0], 0.0);
                for (n, &i) in row.iter().enumerate() {
                    sum = [sum[0] + z[i][0], sum[1] + z[i][1]];
                    size += z[i][0].hypot(z[i][1]);
                    let [re, im] = exp(got[i]);
                    let off = (re - sum[0]).hypot(im - sum[1]);
                    let bound = 8.0 * (n as f64 + 4.0) * epsilon(Dtype::Float32) * size;
                    assert!(off <= bound, "{context}: element {i} is off by {off:e} > {bound:e}");
                }
            }
        }
    });
}

#[test]
fn without_an_axis_and_with_a_dtype() {
    on_each_device(|device| {
        let a = array(&[200.0, 100.0, 3.0, 4.0], &[2, 2], Dtype::Uint8);
        let sums = ops::cumsum(&a, None, false, true, None).unwrap();
        assert_eq!((sums.shape(), sums.dtype()), (&[4][..], Dtype::Uint8), "{device}");
        assert_eq!(integers(&sums), [200, 44, 47, 51], "{device}");
        let wide = ops::cumsum(&a, None, false, true, Some(Dtype::Int32)).unwrap();
        assert_eq!(wide.dtype(), Dtype::Int32, "{device}");
        assert_eq!(integers(&wide), [200, 300, 303, 307], "{device}");
        let product = ops::cumprod(&a, Some(-1), false, true, Some(Dtype::Float32)).unwrap();
        assert_eq!(values(&product), [200.0, 20_000.0, 3.0, 12.0], "{device}");
        let counted = ops::cumsum(&a, Some(1), false, true, Some(Dtype::Bool)).unwrap();
        assert_eq!(counted.dtype(), Dtype::Int32, "{device}");
        assert_eq!(integers(&counted), [1, 2, 1, 2], "{device}");
        let one = ops::cummax(&array(&[3.0], &[], Dtype::Float32), None, false, true).unwrap();
        assert_eq!((one.shape(), values(&one)), (&[1][..], vec![3.0]), "{device}");
        assert!(ops::cumsum(&a, Some(2), false, true, None).is_err());
    });
}
