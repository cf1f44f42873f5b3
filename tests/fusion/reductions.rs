//! Chains that end with reductions: what one by one gives, and one kernel.

use mlx::{Array, Dtype, Result, fast, ops, transforms::value_and_grad};
use mlx_tests::{filled, values};

use super::programs::{Then, alone, at_once, chained, evaluated, same_bits};

type Reduction = fn(&Array, &[isize], bool) -> Result<Array>;

/// Small whole numbers: sums of them are exact in any order, and so are their dtypes' roundings.
fn whole(seed: u64, shape: &[usize], dtype: Dtype) -> Array {
    let number = move |i: usize| ((i as u64 * 7 + seed * 3) % 5) as f64 - 2.0;
    evaluated(vec![filled(shape, dtype, number)]).unwrap().remove(0)
}

/// Expects a graph to give the same as one chain as one by one.
fn same(what: &str, graph: impl Fn(Then<'_>) -> Result<Vec<Array>>) {
    let want = graph(&alone).unwrap();
    let (chains, got) = chained(|| graph(&Ok));
    assert_eq!(chains, 1, "{what}: chains");
    for (nth, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{what}");
        same_bits(got, want, format_args!("{what}: result {nth}"));
    }
}

const DTYPES: [Dtype; 3] = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16];

/// Shapes with axes: whole arrays, rows, columns and what lies between, of sizes that blocks fit into or not.
const SHAPES: [(&[usize], &[isize]); 9] = [
    (&[64], &[]),
    (&[3, 5, 7], &[]),
    (&[6, 40], &[1]),
    (&[5, 13], &[-1]),
    (&[33, 24], &[0]),
    (&[19, 3], &[0]),
    (&[2, 9, 16], &[0, 1]),
    (&[3, 10, 8], &[1]),
    (&[2, 1, 12, 1, 4], &[2, 4]),
];

#[test]
fn axes_of_all_kinds() {
    at_once("reductions::axes_of_all_kinds", || {
        for (number, (shape, axes)) in SHAPES.into_iter().enumerate() {
            let dtype = DTYPES[number % 3];
            let (x, y) = (whole(1, shape, dtype), whole(2, shape, dtype));
            same(&format!("{dtype} {shape:?} over {axes:?}"), |then| {
                let product = then(ops::multiply(&x, &y)?)?;
                Ok(vec![ops::sum(&then(ops::add(&product, &x)?)?, axes, false)?])
            });
        }
    });
}

/// Rows that are so long that a GPU takes them in parts, which the workgroup that ends last joins.
#[test]
fn long_rows() {
    const SHAPES: [&[usize]; 6] =
        [&[1, 16_384], &[4, 16_384], &[2, 65_536], &[1, 1 << 20], &[40, 9_000], &[1, 70_004]];
    at_once("reductions::long_rows", || {
        for (shape, dtype) in SHAPES.into_iter().zip(DTYPES.into_iter().cycle()) {
            // Halves hold few whole numbers.
            let sparse = |i: usize| f64::from(u8::from(i % 997 == 5));
            let x = evaluated(vec![filled(shape, dtype, sparse)]).unwrap().remove(0);
            same(&format!("{dtype} {shape:?}"), |then| {
                Ok(vec![ops::sum(&then(ops::abs(&x)?)?, &[1], false)?])
            });
            let y = whole(1, shape, dtype);
            same(&format!("{dtype} {shape:?}, extremes"), |then| {
                Ok(vec![ops::max(&then(ops::multiply(&y, &x)?)?, &[1], false)?])
            });
        }
    });
}

/// Extremes are exact of any numbers, and NaN wins.
#[test]
fn operations_of_all_kinds() {
    at_once("reductions::operations_of_all_kinds", || {
        let all: [Reduction; 4] = [ops::max, ops::min, ops::prod, ops::sum];
        for (reduce, dtype) in all.into_iter().zip(DTYPES.into_iter().cycle()) {
            for axes in [0, 1] {
                let x = whole(3, &[16, 8], dtype);
                same(dtype.name(), |then| Ok(vec![reduce(&then(ops::abs(&x)?)?, &[axes], true)?]));
            }
        }
        let x = whole(4, &[4, 8], Dtype::Float32);
        let (chains, got) =
            chained(|| Ok(vec![ops::max(&ops::divide(&x, &ops::abs(&x)?)?, &[1], false)?]));
        assert_eq!(chains, 1);
        assert!(values(&got[0]).iter().all(|x| x.is_nan()), "zero by zero is in each row");
    });
}

/// A block in which one number is rare is done again, for what is reduced of it and what is stored.
#[test]
fn rare_numbers_in_single_lanes() {
    const RARE: [f64; 5] = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3.3895e38, 1e-40];
    const ROW: usize = 24;
    at_once("reductions::rare_numbers_in_single_lanes", || {
        let number = |i: usize| {
            let (row, column) = (i / ROW, i % ROW);
            let rare = 8 * (row % 3) + [0, 3, 7][row / 3 % 3];
            if column == rare { RARE[row % 5] } else { (i % 5) as f64 - 2.0 }
        };
        let fill = |number: &dyn Fn(usize) -> f64| {
            evaluated(vec![filled(&[45, ROW], Dtype::Bfloat16, number)]).unwrap().remove(0)
        };
        let (x, one) = (fill(&number), fill(&|_| 1.0));
        for axis in [0, 1] {
            same(&format!("over {axis}"), |then| {
                let product = then(ops::multiply(&x, &one)?)?;
                let size = then(ops::abs(&product)?)?;
                let extremes = [&product, &size].map(|of| ops::max(of, &[axis], false));
                let [largest, longest] = extremes;
                Ok(vec![largest?, longest?, ops::negative(&product)?])
            });
            same(&format!("a sum over {axis}"), |then| {
                let size = then(ops::abs(&then(ops::multiply(&x, &one)?)?)?)?;
                Ok(vec![ops::sum(&size, &[axis], false)?])
            });
        }
    });
}

/// A single operation before a reduction is a chain, too; without one there is none.
#[test]
fn one_operation_is_enough() {
    at_once("reductions::one_operation_is_enough", || {
        let x = whole(5, &[12, 16], Dtype::Float32);
        same("a square", |then| Ok(vec![ops::sum(&then(ops::square(&x)?)?, &[0], false)?]));
        let (chains, _) = chained(|| Ok(vec![ops::sum(&x, &[0], false)?]));
        assert_eq!(chains, 0);
    });
}

/// Several values are reduced in one pass; what others need of them is stored, too.
#[test]
fn several_at_once() {
    at_once("reductions::several_at_once", || {
        for (dtype, shape) in [(Dtype::Float32, [96, 12]), (Dtype::Bfloat16, [24, 40])] {
            let (x, g) = (whole(6, &shape, dtype), whole(7, &shape, dtype));
            same(&format!("{dtype} {shape:?}"), |then| {
                let masked = then(ops::maximum(&x, &g)?)?;
                let product = then(ops::multiply(&masked, &x)?)?;
                let square = then(ops::square(&product)?)?;
                let sum = |of: &Array| ops::sum(of, &[0], true);
                Ok(vec![sum(&masked)?, sum(&product)?, sum(&square)?, masked])
            });
        }
    });
}

/// Rows, columns and numbers for the whole array, and arrays that are transposed or cut out of others.
#[test]
fn layouts_of_all_kinds() {
    at_once("reductions::layouts_of_all_kinds", || {
        let dtype = Dtype::Float32;
        let x = whole(8, &[16, 24], dtype);
        let turned = ops::transpose(&whole(9, &[24, 16], dtype), &[]).unwrap();
        let cut = ops::slice(&whole(10, &[17, 30], dtype), &[1, 3], &[17, 27], &[1, 1]).unwrap();
        let row = ops::broadcast_to(&whole(11, &[24], dtype), &[16, 24]).unwrap();
        let column = ops::broadcast_to(&whole(12, &[16, 1], dtype), &[16, 24]).unwrap();
        let number = ops::broadcast_to(&whole(13, &[], dtype), &[16, 24]).unwrap();
        evaluated(vec![turned.clone(), cut.clone(), row.clone(), column.clone()]).unwrap();
        for (nth, other) in [&turned, &cut, &row, &column, &number].into_iter().enumerate() {
            for axes in [&[0isize][..], &[1], &[]] {
                same(&format!("layout {nth} over {axes:?}"), |then| {
                    let sum = then(ops::add(&x, other)?)?;
                    Ok(vec![ops::sum(&then(ops::multiply(&sum, other)?)?, axes, false)?])
                });
            }
        }
    });
}

/// Long rows and columns have parts, which are joined.
#[test]
fn long_ones_in_parts() {
    at_once("reductions::long_ones_in_parts", || {
        for (dtype, shape, axes) in [
            (Dtype::Float32, &[(1 << 17) + 40][..], &[0][..]),
            (Dtype::Bfloat16, &[1 << 14, 16], &[0]),
            (Dtype::Float16, &[2, 1 << 16], &[1]),
            (Dtype::Float32, &[1 << 13, 3], &[0]),
        ] {
            let x = whole(14, shape, dtype);
            // Sums stay small enough for halves.
            let centred = ops::subtract(&x, ops::roll(&x, &[5], &[0]).unwrap()).unwrap();
            let centred = evaluated(vec![centred]).unwrap().remove(0);
            same(&format!("{dtype} {shape:?}"), |then| {
                Ok(vec![ops::sum(&then(ops::negative(&centred)?)?, axes, false)?])
            });
        }
    });
}

/// An operand that is the same for all rows stays in a thread's column, also where a lane's number is rare;
/// of columns that do not fill a workgroup, and of several values in parts.
#[test]
fn operands_of_columns() {
    at_once("reductions::operands_of_columns", || {
        for (dtype, shape) in [
            (Dtype::Bfloat16, [1, 1 << 10, 40]),
            (Dtype::Bfloat16, [3, 1 << 8, 24]),
            (Dtype::Float32, [1, 1 << 10, 12]),
            (Dtype::Bfloat16, [1, 5, 24]),
            (Dtype::Float16, [1, 1 << 10, 5]),
        ] {
            let x = evaluated(vec![ops::abs(&whole(17, &shape, dtype)).unwrap()]).unwrap();
            for (name, reduce, rare) in
                [("sums", ops::sum as Reduction, 3.0), ("extremes", ops::max, f64::INFINITY)]
            {
                let number = move |i: usize| if i % 11 == 3 { rare } else { (i % 3) as f64 - 1.0 };
                let row = evaluated(vec![filled(&shape[2..], dtype, number)]).unwrap();
                same(&format!("{name} of {dtype} {shape:?}"), |then| {
                    let sum = then(ops::add(&x[0], &row[0])?)?;
                    let larger = then(ops::maximum(&sum, &row[0])?)?;
                    let negative = then(ops::negative(&larger)?)?;
                    let doubled = then(ops::add(&larger, &larger)?)?;
                    let all = [&sum, &larger, &negative, &doubled];
                    all.map(|of| reduce(of, &[1], false)).into_iter().collect()
                });
            }
        }
    });
}

/// Parts of several values of a row; and what counts parts counts anew each time.
#[test]
fn several_rows_in_parts() {
    at_once("reductions::several_rows_in_parts", || {
        let x = whole(18, &[2, 1 << 14], Dtype::Float32);
        for time in 0..3 {
            same(&format!("time {time}"), |then| {
                let square = then(ops::square(&x)?)?;
                let negative = then(ops::negative(&square)?)?;
                let more = then(ops::add(&square, &x)?)?;
                let all = [&square, &negative, &more];
                all.map(|of| ops::sum(of, &[1], false)).into_iter().collect()
            });
        }
    });
}

/// What a reduction gives may be needed by operations that read what was reduced, as in a variance.
#[test]
fn what_follows_reads_the_chain() {
    at_once("reductions::what_follows_reads_the_chain", || {
        let x = whole(15, &[32, 8], Dtype::Float32);
        let mean = whole(16, &[1, 8], Dtype::Float32);
        let graph = |then: Then<'_>| {
            let centred = then(ops::subtract(&x, &mean)?)?;
            let sum = then(ops::sum(&then(ops::square(&centred)?)?, &[0], true)?)?;
            let scaled = then(ops::multiply(&centred, &sum)?)?;
            Ok(vec![then(ops::add(&scaled, &mean)?)?, sum])
        };
        let want = graph(&alone).unwrap();
        let (chains, got) = chained(|| graph(&Ok));
        assert_eq!(chains, 2);
        for (got, want) in got.iter().zip(&want) {
            same_bits(got, want, "");
        }
    });
}

/// What is cheap to compute is computed by each kernel that reads it, and gets no memory.
#[test]
fn what_is_cheap_is_done_again() {
    at_once("reductions::what_is_cheap_is_done_again", || {
        [Dtype::Float32, Dtype::Bfloat16].into_iter().for_each(done_again);
    });
}

fn done_again(dtype: Dtype) {
    const SHAPE: [usize; 2] = [1 << 12, 128];
    let bytes = SHAPE.iter().product::<usize>() * dtype.size();
    let (x, mean) = (whole(17, &SHAPE, dtype), whole(18, &[1, 128], dtype));
    let graph = |then: Then<'_>| {
        let centred = then(ops::subtract(&x, &mean)?)?;
        let scaled = then(ops::multiply(&centred, &mean)?)?;
        let sum = then(ops::sum(&then(ops::square(&scaled)?)?, &[0], true)?)?;
        let factor = then(ops::add(&sum, &mean)?)?;
        Ok(vec![then(ops::multiply(&scaled, &factor)?)?, sum])
    };
    let want = graph(&alone).unwrap();
    let active = mlx::memory::active_memory();
    mlx::memory::reset_peak_memory();
    let (chains, got) = chained(|| graph(&Ok));
    assert_eq!(chains, 2);
    let peak = mlx::memory::peak_memory() - active;
    assert!(peak < bytes + bytes / 2, "{peak} bytes for a result of {bytes}");
    for (got, want) in got.iter().zip(&want) {
        same_bits(got, want, "");
    }
}

/// What others hold, or what takes two arrays to compute, is stored.
#[test]
fn what_is_needed_is_stored() {
    at_once("reductions::what_is_needed_is_stored", || {
        let dtype = Dtype::Float32;
        let [x, y] = [19, 20].map(|seed| whole(seed, &[1 << 10, 128], dtype));
        let graph = |then: Then<'_>| {
            let held = then(ops::negative(&x)?)?;
            let both = then(ops::add(&x, &y)?)?;
            let sums = [&held, &both].map(|of| ops::sum(&then(ops::square(of)?)?, &[0], true));
            let [first, second] = sums;
            let (first, second) = (then(first?)?, then(second?)?);
            let results = [ops::multiply(&held, &first)?, ops::multiply(&both, &second)?];
            Ok([&results[..], &[held, first, second]].concat())
        };
        let want = graph(&alone).unwrap();
        let (_, got) = chained(|| graph(&Ok));
        for (got, want) in got.iter().zip(&want) {
            same_bits(got, want, "");
        }
    });
}

/// Of cross entropy and its derivative only what is by logits has their size, and it takes over their memory.
#[test]
fn the_derivative_of_cross_entropy_takes_the_memory_of_logits() {
    const ROWS: usize = 256;
    const CLASSES: usize = 4096;
    at_once("reductions::the_derivative_of_cross_entropy_takes_the_memory_of_logits", || {
        let x = whole(21, &[ROWS, 16], Dtype::Bfloat16);
        let weight = whole(22, &[16, CLASSES], Dtype::Bfloat16);
        let targets: Vec<i32> = (0..ROWS as i32).map(|row| row * 13 % CLASSES as i32).collect();
        let targets = Array::from_slice(&targets, &[ROWS]).unwrap();
        let loss = |x: &Array| {
            let each = fast::cross_entropy(&ops::matmul(x, &weight)?, &targets)?;
            ops::mean(&each, &[], false)
        };
        let graph = || value_and_grad(loss, &x).map(|(loss, by_x)| vec![loss, by_x]);
        // Inputs come to the device the first time.
        let want = evaluated(graph().unwrap()).unwrap();
        let active = mlx::memory::active_memory();
        mlx::memory::reset_peak_memory();
        let (_, got) = chained(graph);
        let (peak, bytes) = (mlx::memory::peak_memory() - active, ROWS * CLASSES * 2);
        assert!(peak < bytes + bytes / 4, "{peak} bytes for logits of {bytes}");
        for (got, want) in got.iter().zip(&want) {
            same_bits(got, want, "");
        }
    });
}
