//! Reductions over axes, and indices of extremes.

use mlx::{Array, Complex, Device, Dtype, Result, ops};
use mlx_tests::{
    Approx, Layout, array, assert_approx, axes_of, complex_noise, complex_parts, dtypes_of,
    epsilon, filled, groups, integers, keeping, noise, on_each_device, random_bits, sum_epsilon,
    sum_error, values, wrapped,
};

type Reduction = fn(&Array, &[isize], bool) -> Result<Array>;
/// What a reduction of some numbers of a dtype should give.
type Oracle = fn(&[f64], Dtype) -> Approx;

/// Axes to reduce over: each alone, several in any order, all.
const AXES: [&[isize]; 8] = [&[], &[-1], &[0], &[1], &[1, 0], &[0, 2], &[-1, -2], &[0, 1, 2]];

/// The axes to reduce an array over: all combinations in the dtypes of 32 bits, and a few in the
/// others, whose kernels differ in nothing else. (A kernel costs lavapipe a tenth of a second.)
fn axes_for(layout: Layout, dtype: Dtype) -> &'static [&'static [isize]] {
    match (layout, dtype) {
        (Layout::Scalar, _) => &AXES[..1],
        (_, Dtype::Float32 | Dtype::Int32) => &AXES,
        _ => &AXES[..2],
    }
}

/// Calls `check` with the result and the groups of places that each of its elements stands for.
fn each_result(
    context: &str,
    a: &Array,
    axes: &[isize],
    reduce: Reduction,
    mut check: impl FnMut(&str, &Array, &[Vec<usize>]),
) {
    let normal = axes_of(axes, a.ndim());
    let (kept, groups) = groups(a.shape(), &normal);
    let dropped: Vec<usize> =
        (0..a.ndim()).filter(|x| !normal.contains(x)).map(|x| a.shape()[x]).collect();
    for (keepdims, shape) in [(true, kept), (false, dropped)] {
        let context = format!("{context}, axes {axes:?}, keepdims {keepdims}");
        let got = keeping(&context, &[a], || {
            let got = reduce(a, axes, keepdims).expect(&context);
            got.eval().expect(&context);
            got
        });
        assert_eq!(got.shape(), shape, "{context}: shape");
        check(&context, &got, &groups);
    }
}

/// Checks a reduction of floats over all axes of all layouts against its oracle.
fn check_floats(
    device: Device,
    name: &str,
    (low, high): (f64, f64),
    reduce: Reduction,
    oracle: Oracle,
) {
    for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
        for layout in Layout::ALL {
            let a = layout.array(dtype, noise(3, low, high));
            let x = values(&a);
            for axes in axes_for(layout, dtype) {
                let context = format!("{name} {dtype} {layout:?} on {device}");
                each_result(&context, &a, axes, reduce, |context, got, groups| {
                    assert_eq!(got.dtype(), dtype, "{context}");
                    let of = |g: &Vec<usize>| g.iter().map(|&i| x[i]).collect::<Vec<_>>();
                    let want: Vec<Approx> = groups.iter().map(|g| oracle(&of(g), dtype)).collect();
                    assert_approx(context, got, &want);
                });
            }
        }
    }
}

fn magnitude(x: &[f64]) -> f64 {
    x.iter().map(|x| x.abs()).sum()
}

fn sum(x: &[f64], dtype: Dtype) -> Approx {
    Approx { value: x.iter().sum(), error: sum_error(x.len(), magnitude(x), dtype) }
}

/// Sum, reciprocal of the count and their product are rounded to the dtype, one after the other.
fn mean(x: &[f64], dtype: Dtype) -> Approx {
    let (sum, n) = (sum(x, dtype), x.len() as f64);
    let value = sum.value / n;
    Approx { value, error: sum.error / n + 2.01 * epsilon(dtype) * value.abs() }
}

fn prod(x: &[f64], dtype: Dtype) -> Approx {
    let value: f64 = x.iter().product();
    Approx { value, error: x.len() as f64 * sum_epsilon(dtype) * value.abs() }
}

#[test]
fn sums_products_and_means_match_float64() {
    on_each_device(|device| {
        check_floats(device, "sum", (-1.0, 1.0), ops::sum, sum);
        check_floats(device, "mean", (-1.0, 2.0), ops::mean, mean);
        check_floats(device, "prod", (0.8, 1.2), ops::prod, prod);
    });
}

#[test]
fn extremes_are_elements() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|&d| d != Dtype::Complex64) {
            for layout in Layout::ALL.into_iter().filter(|&l| l != Layout::Empty) {
                let a = layout.view(layout.shape(), |shape| match dtype.is_floating() {
                    true => filled(shape, dtype, noise(5, -100.0, 100.0)),
                    false => random_bits(shape, dtype, 5),
                });
                // Whole numbers for all: float64 does not hold every int64.
                let read = |a: &Array| match dtype.is_floating() {
                    true => values(a).iter().map(|x| (x * 2f64.powi(30)) as i128).collect(),
                    false => integers(a),
                };
                let x: Vec<i128> = read(&a);
                for axes in axes_for(layout, dtype) {
                    for (name, reduce, largest) in
                        [("max", ops::max as Reduction, true), ("min", ops::min, false)]
                    {
                        let context = format!("{name} {dtype} {layout:?} on {device}");
                        each_result(&context, &a, axes, reduce, |context, got, groups| {
                            let best = |g: &Vec<usize>| {
                                let of = g.iter().map(|&i| x[i]);
                                if largest { of.max() } else { of.min() }.expect("not empty")
                            };
                            let want: Vec<i128> = groups.iter().map(best).collect();
                            assert_eq!(read(got), want, "{context}");
                        });
                    }
                }
            }
        }
    });
}

/// The dtype that MLX sums integers in: at least 32 bits, except for a scalar.
fn integer_sum_dtype(dtype: Dtype, layout: Layout) -> Dtype {
    match dtype {
        dtype if layout == Layout::Scalar => dtype,
        Dtype::Bool | Dtype::Int8 | Dtype::Int16 => Dtype::Int32,
        Dtype::Uint8 | Dtype::Uint16 => Dtype::Uint32,
        other => other,
    }
}

#[test]
fn integers_sum_and_multiply_modulo_their_range() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| !d.is_inexact()) {
            for layout in Layout::ALL {
                let a = layout.view(layout.shape(), |shape| random_bits(shape, dtype, 9));
                let x = integers(&a);
                for axes in axes_for(layout, dtype) {
                    let context = format!("{dtype} {layout:?} on {device}");
                    each_result(&format!("sum {context}"), &a, axes, ops::sum, |c, got, groups| {
                        assert_eq!(got.dtype(), integer_sum_dtype(dtype, layout), "{c}");
                        let total = |g: &Vec<usize>| g.iter().map(|&i| x[i]).sum();
                        let want: Vec<i128> =
                            groups.iter().map(|g| wrapped(total(g), got.dtype())).collect();
                        assert_eq!(integers(got), want, "{c}");
                    });
                    each_result(
                        &format!("prod {context}"),
                        &a,
                        axes,
                        ops::prod,
                        |c, got, groups| {
                            assert_eq!(got.dtype(), integer_sum_dtype(dtype, layout), "{c}");
                            // Modulo 2^128 first, of which 2^64 is a divisor.
                            let product =
                                |g: &Vec<usize>| g.iter().fold(1i128, |p, &i| p.wrapping_mul(x[i]));
                            let want: Vec<i128> =
                                groups.iter().map(|g| wrapped(product(g), got.dtype())).collect();
                            assert_eq!(integers(got), want, "{c}");
                        },
                    );
                }
            }
        }
    });
}

#[test]
fn all_and_any_ask_for_nonzero_elements() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::ALL {
                // Rows with no, some and only zeros.
                let a = layout.array(dtype, |i| (i % 20 / 7 * (i % 3)) as f64);
                let x = values(&a);
                for axes in axes_for(layout, dtype) {
                    let context = format!("{dtype} {layout:?} on {device}");
                    for (name, reduce, every) in
                        [("all", ops::all as Reduction, true), ("any", ops::any, false)]
                    {
                        let context = format!("{name} {context}");
                        each_result(&context, &a, axes, reduce, |context, got, groups| {
                            assert_eq!(got.dtype(), Dtype::Bool);
                            let holds = |g: &Vec<usize>| {
                                let mut of = g.iter().map(|&i| x[i] != 0.0);
                                if every { of.all(|b| b) } else { of.any(|b| b) }
                            };
                            let want: Vec<f64> =
                                groups.iter().map(|g| holds(g) as u8 as f64).collect();
                            assert_eq!(values(got), want, "{context}");
                        });
                    }
                }
            }
        }
    });
}

/// Both parts are sums of their own.
#[test]
fn complex_numbers_add_by_parts() {
    on_each_device(|device| {
        for layout in Layout::VIEWS {
            let a = layout.view(layout.shape(), |shape| complex_noise(shape, 2));
            let z = complex_parts(&a);
            for axes in axes_for(layout, Dtype::Complex64) {
                let context = format!("{layout:?} on {device}");
                each_result(&context, &a, axes, ops::sum, |context, got, groups| {
                    for part in [0, 1] {
                        let of = |g: &Vec<usize>| g.iter().map(|&i| z[i][part]).collect::<Vec<_>>();
                        let want: Vec<Approx> =
                            groups.iter().map(|g| sum(&of(g), Dtype::Float32)).collect();
                        let got = if part == 0 { ops::real(got) } else { ops::imag(got) };
                        assert_approx(context, &got.unwrap(), &want);
                    }
                });
            }
        }
    });
}

/// Lengths around workgroups, blocks and the splitting of long rows.
#[test]
fn lengths_around_blocks() {
    on_each_device(|device| {
        for n in [1, 31, 33, 1023, 1025, 5000, 20_001] {
            for (shape, axis) in [(vec![n], 0), (vec![2, n], 1), (vec![n, 3], 0)] {
                for dtype in [Dtype::Float32, Dtype::Bfloat16] {
                    let a = filled(&shape, dtype, noise(n as u64, -1.0, 1.0));
                    let x = values(&a);
                    let context = format!("sum of {shape:?} {dtype} over {axis} on {device}");
                    each_result(&context, &a, &[axis], ops::sum, |context, got, groups| {
                        let of = |g: &Vec<usize>| g.iter().map(|&i| x[i]).collect::<Vec<_>>();
                        let want: Vec<Approx> = groups.iter().map(|g| sum(&of(g), dtype)).collect();
                        assert_approx(context, got, &want);
                    });
                }
                let a = random_bits(&shape, Dtype::Int64, n as u64);
                let x = integers(&a);
                let context = format!("max of {shape:?} over {axis} on {device}");
                each_result(&context, &a, &[axis], ops::max, |context, got, groups| {
                    let largest = |g: &Vec<usize>| g.iter().map(|&i| x[i]).max().unwrap();
                    let want: Vec<i128> = groups.iter().map(largest).collect();
                    assert_eq!(integers(got), want, "{context}");
                });
            }
        }
    });
}

/// Sums that are split between workgroups and cores, along both axes and over both.
#[test]
fn long_rows_and_columns() {
    on_each_device(|device| {
        for shape in [[3, 200_000], [200_000, 3], [600, 1000], [1, 600_000], [5000, 60]] {
            for layout in [Layout::Contiguous, Layout::Transposed, Layout::Sliced] {
                let a = layout.view(&shape, |s| filled(s, Dtype::Float32, noise(6, -1.0, 2.0)));
                let x = values(&a);
                let columns = |f: fn(f64, f64) -> f64, start: f64| {
                    let mut out = vec![start; shape[1]];
                    x.chunks(shape[1])
                        .for_each(|row| out.iter_mut().zip(row).for_each(|(o, x)| *o = f(*o, *x)));
                    out
                };
                let rows = |f: fn(f64, f64) -> f64, start: f64| -> Vec<f64> {
                    x.chunks(shape[1]).map(|row| row.iter().copied().fold(start, f)).collect()
                };
                let add = |a, b| a + b;
                for (axes, terms, sums, sizes, tops) in [
                    (
                        &[0][..],
                        shape[0],
                        columns(add, 0.0),
                        columns(|a, b| a + b.abs(), 0.0),
                        columns(f64::max, -9.0),
                    ),
                    (
                        &[1],
                        shape[1],
                        rows(add, 0.0),
                        rows(|a, b| a + b.abs(), 0.0),
                        rows(f64::max, -9.0),
                    ),
                    (
                        &[0, 1],
                        x.len(),
                        vec![x.iter().sum()],
                        vec![magnitude(&x)],
                        vec![x.iter().copied().fold(-9.0, f64::max)],
                    ),
                ] {
                    let what = format!("{shape:?} {layout:?} over {axes:?} on {device}");
                    // Partial sums keep the error far below the worst case, which would allow anything here.
                    let terms = (terms as f64).sqrt() as usize;
                    let near = |(&value, &size): (&f64, &f64)| {
                        let error = sum_error(terms, size, Dtype::Float32);
                        Approx { value, error }
                    };
                    let want: Vec<Approx> = sums.iter().zip(&sizes).map(near).collect();
                    assert_approx(&what, &ops::sum(&a, axes, false).unwrap(), &want);
                    assert_eq!(values(&ops::max(&a, axes, false).unwrap()), tops, "{what}");
                }
            }
        }
        let x = noise(1, 0.1, 1.1);
        let a = filled(&[3_000_000], Dtype::Float32, x);
        let want: f64 = values(&a).iter().sum();
        let got = values(&ops::sum(&a, &[], false).unwrap())[0];
        assert!((got - want).abs() < want * 3e-6, "{got}, not {want} on {device}");
    });
}

/// Rows beside each other that fill words of 16 bytes, which one thread takes together.
#[test]
fn columns_of_words() {
    on_each_device(|device| {
        for (shape, axes) in
            [(&[300, 64][..], &[0][..]), (&[5, 70, 24], &[1]), (&[40, 50, 16], &[0, 1])]
        {
            for dtype in [Dtype::Float16, Dtype::Bfloat16, Dtype::Int16, Dtype::Uint32] {
                for layout in [Layout::Contiguous, Layout::Sliced, Layout::Reversed] {
                    let number = |i: usize| ((i * 37 + i / 11) % 31) as f64;
                    let a = layout.view(shape, |s| filled(s, dtype, number));
                    let axes: Vec<usize> = axes.to_vec();
                    let (_, groups) = groups(shape, &axes);
                    let x = values(&a);
                    let of = |f: fn(f64, f64) -> f64| -> Vec<f64> {
                        groups.iter().map(|of| of.iter().map(|&i| x[i]).fold(0.0, f)).collect()
                    };
                    let what = format!("{shape:?} {dtype} {layout:?} over {axes:?} on {device}");
                    let axes: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
                    let got = values(&ops::max(&a, &axes, false).unwrap());
                    assert_eq!(got, of(f64::max), "{what}");
                    let near = |value: f64| Approx { value, error: value * epsilon(dtype) };
                    let want: Vec<Approx> = of(|a, b| a + b).into_iter().map(near).collect();
                    assert_approx(&what, &ops::sum(&a, &axes, false).unwrap(), &want);
                }
            }
        }
    });
}

/// A slice that starts off the grid of words is read in single elements up to it.
#[test]
fn rows_off_the_grid_of_words() {
    on_each_device(|device| {
        let a = random_bits(&[700], Dtype::Uint8, 9);
        let x = integers(&a);
        for start in [1, 2, 3, 5] {
            let part = ops::slice(&a, &[start], &[690], &[1]).unwrap();
            let want = x[start as usize..690].iter().sum::<i128>();
            let got = integers(&ops::sum(&part, &[], false).unwrap());
            assert_eq!(got, [want], "from {start} on {device}");
        }
    });
}

/// One element decides, wherever it is; NaN and the smallest number are not zero, -0 is.
#[test]
fn all_and_any_see_every_element() {
    on_each_device(|device| {
        for n in [1, 33, 5000] {
            for hole in [None, Some(0), Some(n - 1), Some(n / 2)] {
                let full = filled(&[n], Dtype::Bool, |i| (Some(i) != hole) as u8 as f64);
                let bare = ops::logical_not(&full).unwrap();
                let all = integers(&ops::all(&full, &[], false).unwrap());
                let any = integers(&ops::any(&bare, &[], false).unwrap());
                let what = format!("{n} with {hole:?} on {device}");
                assert_eq!(
                    (all, any),
                    (vec![hole.is_none().into()], vec![hole.is_some().into()]),
                    "{what}"
                );
            }
        }
        let a = array(&[0.0, -0.0, f64::NAN, 1e-45], &[2, 2], Dtype::Float32);
        assert_eq!(integers(&ops::all(&a, &[1], false).unwrap()), [0, 1], "{device}");
    });
}

#[test]
fn subnormal_numbers_are_extremes() {
    on_each_device(|device| {
        let tiny = 2f64.powi(-149);
        let a = array(&[-tiny, -0.0, tiny, 2.0 * tiny], &[4], Dtype::Float32);
        assert_eq!(values(&ops::max(&a, &[], false).unwrap()), [2.0 * tiny], "{device}");
        assert_eq!(values(&ops::min(&a, &[], false).unwrap()), [-tiny], "{device}");
        let lowest = filled(&[70], Dtype::Float32, |_| f64::NEG_INFINITY);
        assert_eq!(
            values(&ops::max(&lowest, &[], false).unwrap()),
            [f64::NEG_INFINITY],
            "{device}"
        );
    });
}

/// Complex numbers are ordered by their real parts first.
#[test]
fn complex_products_and_extremes() {
    on_each_device(|device| {
        let z = [Complex::new(1.0, 2.0), Complex::new(1.0, 3.0), Complex::new(-2.0, 9.0)];
        let a = Array::from_slice(&z, &[3]).unwrap();
        let of = |reduce: Reduction| reduce(&a, &[], false).unwrap().item::<Complex>().unwrap();
        assert_eq!(of(ops::prod), z[0] * z[1] * z[2], "{device}");
        assert_eq!((of(ops::max), of(ops::min)), (z[1], z[2]), "{device}");
    });
}

/// MLX's rule: the first element that no earlier one reaches; a NaN comes before every number.
fn first_extreme(x: &[f64], largest: bool) -> f64 {
    let further = |a: f64, b: f64| if largest { a > b } else { a < b };
    let better = |a: f64, b: f64| further(a, b) || (a.is_nan() && !b.is_nan());
    (1..x.len()).fold(0, |best, i| if better(x[i], x[best]) { i } else { best }) as f64
}

#[test]
fn indices_of_extremes_are_the_first() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::ALL.into_iter().filter(|&l| l != Layout::Empty) {
                // Few values, so that there are ties.
                let a = layout.array(dtype, |i| (noise(4, 0.0, 5.0)(i)).floor());
                let x = values(&a);
                for axes in axes_for(layout, dtype).iter().filter(|axes| axes.len() < 2) {
                    let axis = axes.first().copied();
                    let (_, groups) = groups(a.shape(), &axes_of(axes, a.ndim()));
                    for largest in [true, false] {
                        let f = if largest { ops::argmax } else { ops::argmin };
                        let got = f(&a, axis, false).unwrap();
                        assert_eq!(got.dtype(), Dtype::Uint32);
                        let of = |g: &Vec<usize>| g.iter().map(|&i| x[i]).collect::<Vec<_>>();
                        let want: Vec<f64> =
                            groups.iter().map(|g| first_extreme(&of(g), largest)).collect();
                        let what = format!("{dtype} {layout:?} axis {axis:?} on {device}");
                        assert_eq!(values(&got), want, "largest {largest} {what}");
                        let kept = f(&a, axis, true).unwrap();
                        assert_eq!((kept.ndim(), kept.size()), (a.ndim(), got.size()), "{what}");
                    }
                }
            }
        }
    });
}

/// Rows as long as a vocabulary, columns of equal elements, several NaN, and ties at the ends of ranges.
#[test]
fn indices_of_extremes_in_long_and_special_rows() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    on_each_device(|device| {
        let check = |what: &str, a: &Array, axis: isize| {
            let x = values(a);
            let (_, groups) = groups(a.shape(), &[axis as usize]);
            for largest in [true, false] {
                let f = if largest { ops::argmax } else { ops::argmin };
                let of = |g: &Vec<usize>| g.iter().map(|&i| x[i]).collect::<Vec<_>>();
                let want: Vec<f64> =
                    groups.iter().map(|g| first_extreme(&of(g), largest)).collect();
                let got = values(&f(a, Some(axis), false).unwrap());
                assert_eq!(got, want, "{what}, largest {largest}, on {device}");
            }
        };
        for n in [31, 33, 255, 257, 4097, 151_936] {
            let a = filled(&[2, n], Dtype::Float32, noise(n as u64, -9.0, 9.0));
            check(&format!("rows of {n}"), &a, 1);
        }
        check("equal columns", &filled(&[20_000, 2], Dtype::Float32, |_| 1.0), 0);
        for row in [
            [nan, 1.0, nan, 2.0],
            [1.0, nan, nan, 2.0],
            [nan; 4],
            [-inf, nan, -inf, nan],
            [0.0, -0.0, -0.0, 0.0],
        ] {
            check(&format!("{row:?}"), &array(&row, &[4], Dtype::Float32), 0);
        }
        for dtype in dtypes_of(device).filter(|d| d.is_integer()) {
            let edges = random_bits(&[1], dtype, 1);
            let pair = [&edges, &ops::bitwise_invert(&edges).unwrap()];
            let a = ops::concatenate(&[pair[0], pair[0], pair[1], pair[1]], 0).unwrap();
            check(&format!("ties of {dtype}"), &a, 0);
        }
    });
}

#[test]
fn nan_wins_sums_extremes_and_their_indices() {
    let nan = f64::NAN;
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for n in [3, 300, 20_000] {
                for at in [0, n / 2, n - 1] {
                    let x: Vec<f64> = (0..n).map(|i| if i == at { nan } else { -1.0 }).collect();
                    let a = array(&x, &[n], dtype);
                    for reduce in [ops::sum as Reduction, ops::prod, ops::max, ops::min, ops::mean]
                    {
                        let got = values(&reduce(&a, &[], false).unwrap());
                        assert!(got[0].is_nan(), "{dtype} {n} {at} on {device}: {got:?}");
                    }
                    for largest in [true, false] {
                        let f = if largest { ops::argmax } else { ops::argmin };
                        let got = values(&f(&a, None, false).unwrap());
                        assert_eq!(
                            got,
                            [first_extreme(&x, largest)],
                            "{dtype} {n} {at} on {device}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn extremes_of_nothing_are_refused() {
    on_each_device(|_| {
        let none = Layout::Empty.array(Dtype::Float32, |_| 0.0);
        for error in [ops::max(&none, &[], false), ops::min(&none, &[1], true)] {
            assert!(error.unwrap_err().to_string().contains("over axis 1 with size 0"));
        }
        assert!(values(&ops::max(&none, &[0], true).unwrap()).is_empty());
        assert!(ops::argmax(&none, None, false).is_err());
        let a = array(&[1.0; 6], &[2, 3], Dtype::Float32);
        assert!(ops::sum(&a, &[2], false).is_err() && ops::sum(&a, &[1, -1], false).is_err());
    });
}

/// More elements than float16 has numbers for: the count is a float32 then.
#[test]
fn variances_of_many_halves() {
    on_each_device(|device| {
        let x = filled(&[2, 65_600], Dtype::Float16, |i| f64::from(i as u32 % 2));
        let var = ops::var(&x, &[1], false, 1).unwrap();
        assert_eq!((var.dtype(), values(&var)), (Dtype::Float16, vec![0.25; 2]), "{device}");
    });
}
