//! Chains of elementwise operations: the same bits as one by one, and one kernel.

use std::{fmt::Display, sync::MutexGuard};

use mlx::{
    Array, Device, Dtype, Result, ops,
    vulkan::{
        internals::{builders_are_idle, enable_chains},
        stats,
    },
};
use mlx_tests::{complex_parts, filled, in_child, random_bits, values};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::IndexedRandom};

use super::noise;

/// A turn with chains.
fn turn() -> MutexGuard<'static, ()> {
    let turn = super::turn();
    enable_chains(true);
    turn
}

type Unary = fn(&Array) -> Result<Array>;
type Binary = fn(&Array, &Array) -> Result<Array>;
/// Of two arrays, of which it may ignore the second.
type Function = Box<dyn Fn(&Array, &Array) -> Result<Array>>;

const ROUNDING: [Unary; 3] = [ops::ceil, ops::floor, ops::square];
const REAL: [Unary; 14] = [
    ops::arccosh,
    ops::arctan,
    ops::erf,
    ops::erfinv,
    ops::log10,
    ops::log2,
    ops::rsqrt,
    ops::sigmoid,
    ops::sqrt,
    ops::arcsinh,
    ops::expm1,
    ops::log1p,
    ops::arcsin,
    ops::arctanh,
];
const INEXACT: [Unary; 9] = [
    ops::cos,
    ops::cosh,
    ops::exp,
    ops::log,
    ops::sin,
    ops::sinh,
    ops::tan,
    ops::tanh,
    ops::arccos,
];
const NUMBERS: [Unary; 3] = [ops::negative, ops::sign, ops::abs];
/// Operations of two arrays.
macro_rules! two {
    ($($op:ident),*) => {
        [$(|a: &Array, b: &Array| ops::$op(a, b)),*]
    };
}

const ARITHMETIC: [Binary; 5] = two![add, subtract, multiply, maximum, minimum];
const FLOATING: [Binary; 5] = two![divide, power, logaddexp, arctan2, remainder];
const INTEGERS: [Binary; 7] =
    two![bitwise_and, bitwise_or, bitwise_xor, left_shift, right_shift, floor_divide, remainder];
const COMPARISONS: [Binary; 8] =
    two![equal, not_equal, greater, greater_equal, less, less_equal, logical_and, logical_or];
const DTYPES: [Dtype; 13] = [
    Dtype::Bool,
    Dtype::Uint8,
    Dtype::Uint16,
    Dtype::Uint32,
    Dtype::Uint64,
    Dtype::Int8,
    Dtype::Int16,
    Dtype::Int32,
    Dtype::Int64,
    Dtype::Float16,
    Dtype::Bfloat16,
    Dtype::Float32,
    Dtype::Complex64,
];

fn unary(dtype: Dtype) -> Vec<Unary> {
    match dtype {
        Dtype::Bool => vec![ops::logical_not],
        Dtype::Complex64 => [&INEXACT[..8], &NUMBERS[..1], &[ops::conjugate, ops::square]].concat(),
        _ if dtype.is_floating() => [&ROUNDING[..], &REAL, &INEXACT, &NUMBERS].concat(),
        _ => [&NUMBERS[..], &[ops::bitwise_invert, ops::square]].concat(),
    }
}

fn binary(dtype: Dtype) -> Vec<Binary> {
    match dtype {
        Dtype::Bool => [&ARITHMETIC[3..], &COMPARISONS[..]].concat(),
        Dtype::Complex64 => [&ARITHMETIC[..], &COMPARISONS[..2], &FLOATING[..1]].concat(),
        _ if dtype.is_floating() => [&ARITHMETIC[..], &FLOATING, &COMPARISONS].concat(),
        _ => [&ARITHMETIC[..], &INTEGERS, &COMPARISONS].concat(),
    }
}

/// An array of a layout of any kind; all have the shape 3, 5, 8.
fn input(kind: usize, dtype: Dtype, seed: u64) -> Result<Array> {
    let full = |shape: &[usize]| match dtype {
        Dtype::Bool => filled(shape, dtype, |i| f64::from((i as u64 * 7 + seed).is_multiple_of(3))),
        _ if dtype.is_inexact() => filled(shape, dtype, mlx_tests::noise(seed, -2.0, 2.0)),
        _ => filled(shape, dtype, |i| ((i as u64 * 31 + seed) % 11) as f64),
    };
    match kind {
        0 => Ok(full(&[3, 5, 8])),
        1 => ops::broadcast_to(&full(&[]), &[3, 5, 8]),
        2 => ops::broadcast_to(&full(&[8]), &[3, 5, 8]),
        3 => ops::broadcast_to(&full(&[5, 1]), &[3, 5, 8]),
        4 => ops::transpose(&full(&[8, 5, 3]), &[]),
        5 => ops::slice(&full(&[3, 5, 16]), &[0, 0, 15], &[3, 5, -17], &[1, 1, -2]),
        _ => ops::slice(&full(&[3, 6, 9]), &[0, 1, 1], &[3, 6, 9], &[1, 1, 1]),
    }
}

/// What is done with a result at once.
pub(super) type Then<'a> = &'a dyn Fn(Array) -> Result<Array>;

/// Operations over inputs of one dtype at first, drawn by `seed`. All results are read again or returned.
fn program(seed: u64, dtype: Dtype, dense: bool, then: Then<'_>) -> Result<Vec<Array>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut all = Vec::new();
    for i in 0..3 {
        let kind = if dense { 0 } else { rng.random_range(0..7) };
        all.push(then(input(kind, dtype, 100 * seed + i)?)?);
    }
    let mut results = Vec::new();
    for step in 0..9 {
        let pick = |rng: &mut Xoshiro256PlusPlus| all[rng.random_range(0..all.len())].clone();
        let a = if step == 0 { all[0].clone() } else { all[all.len() - 1].clone() };
        let other = pick(&mut rng);
        let alike = if other.dtype() == a.dtype() { other } else { a.clone() };
        let made = match rng.random_range(0..8) {
            0..3 => unary(a.dtype()).choose(&mut rng).expect("some")(&a)?,
            3..6 => binary(a.dtype()).choose(&mut rng).expect("some")(&a, &alike)?,
            6 => ops::astype(&a, *DTYPES.choose(&mut rng).expect("some"))?,
            _ => {
                let condition = then(ops::astype(&pick(&mut rng), Dtype::Bool)?)?;
                ops::where_(&condition, &a, &alike)?
            }
        };
        let made = then(made)?;
        if rng.random_range(0..4) == 0 {
            results.push(made.clone());
        }
        all.push(made);
    }
    results.extend(all.pop());
    Ok(results)
}

/// The elements as they are, but for what kind of NaN one is.
fn bits(array: &Array) -> Vec<u64> {
    let plain = |x: f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
    match array.dtype() {
        Dtype::Complex64 => complex_parts(array).into_iter().flatten().map(plain).collect(),
        Dtype::Int64 => array.to_vec::<i64>().unwrap().into_iter().map(|x| x as u64).collect(),
        Dtype::Uint64 => array.to_vec::<u64>().unwrap(),
        _ => values(array).into_iter().map(plain).collect(),
    }
}

/// Two arrays have the same bits; of others the first element that differs is shown, for `what`.
pub(super) fn same_bits(got: &Array, want: &Array, what: impl Display) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let pairs = bits(got).into_iter().zip(bits(want));
    if let Some((at, (got, want))) = pairs.enumerate().find(|(_, (got, want))| got != want) {
        let [x, y] = [got, want].map(f64::from_bits);
        panic!("{what}: element {at} is {got:#x} and not {want:#x} ({x:e} and {y:e} as floats)");
    }
}

/// Runs a test in a process where kernels of chains are linked at once.
pub(super) fn at_once(test: &str, body: impl FnOnce()) {
    in_child(test, &[("MLX_VK_PROGRAM_SIGHTINGS", "0")], || {
        let _turn = turn();
        mlx::with_device(Device::GPU, body).unwrap();
    });
}

/// Runs a test on the CPU, where chains are not linked.
fn on_the_cpu(body: impl FnOnce()) {
    let _turn = turn();
    mlx::with_device(Device::CPU, body).unwrap();
}

/// What is evaluated before it is read is in no chain.
pub(super) fn alone(array: Array) -> Result<Array> {
    array.eval().map(|()| array)
}

pub(super) fn evaluated(arrays: Vec<Array>) -> Result<Vec<Array>> {
    mlx::eval(&arrays.iter().collect::<Vec<_>>())?;
    Ok(arrays)
}

/// Chains that the evaluation of `graph` has, and its results.
pub(super) fn chained(graph: impl FnOnce() -> Result<Vec<Array>>) -> (u64, Vec<Array>) {
    let before = stats::snapshot();
    let results = graph().and_then(evaluated).unwrap();
    (stats::snapshot().since(&before).chained, results)
}

/// As many as fit the time that a software device takes to compile them.
const SEEDS: u64 = 3;

/// Compares programs of a dtype with what the same operations give one by one; how many chains they have on
/// the GPU.
fn keep_every_bit(dtype: Dtype, seeds: u64) -> u64 {
    let mut seen = 0;
    for seed in 0..seeds {
        let dense = seed % 2 == 0;
        let (none, want) = chained(|| program(seed, dtype, dense, &alone));
        assert_eq!(none, 0);
        let (some, got) = chained(|| program(seed, dtype, dense, &Ok));
        seen += some;
        for (got, want) in got.iter().zip(&want) {
            assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()));
            same_bits(got, want, format_args!("{dtype} {seed}"));
        }
    }
    seen
}

#[test]
fn random_programs_keep_every_bit() {
    at_once("programs::random_programs_keep_every_bit", || {
        let seen: u64 = DTYPES.into_iter().map(|dtype| keep_every_bit(dtype, SEEDS)).sum();
        assert!(seen > DTYPES.len() as u64, "{seen} chains");
    });
}

#[test]
fn random_programs_keep_every_bit_on_the_cpu() {
    on_the_cpu(|| {
        for dtype in DTYPES.into_iter().chain([Dtype::Float64]) {
            assert_eq!(keep_every_bit(dtype, 10 * SEEDS), 0, "chains of the GPU");
        }
    });
}

/// Every function at every floating dtype, eight in a kernel.
#[test]
fn every_function_keeps_its_bits() {
    at_once("programs::every_function_keeps_its_bits", || {
        for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16, Dtype::Complex64] {
            let (x, y) = (input(0, dtype, 1).unwrap(), input(0, dtype, 2).unwrap());
            let one =
                unary(dtype).into_iter().map(|f| Box::new(move |x: &Array, _: &Array| f(x)) as _);
            let two = binary(dtype).into_iter().map(|f| Box::new(f) as _);
            let all: Vec<Function> = one.chain(two).collect();
            for some in all.chunks(7) {
                // All read this, which makes them one chain.
                let first = ops::negative(&x).unwrap();
                let (count, got) =
                    chained(|| some.iter().map(|f| f(&first, &y)).collect::<Result<_>>());
                assert_eq!(count, 1, "{dtype}");
                for (f, got) in some.iter().zip(&got) {
                    let want = f(&first, &y).unwrap();
                    same_bits(got, &want, format_args!("{dtype}"));
                }
            }
        }
    });
}

/// Numbers of any kind, also such as bfloat16's quick rounding does not take, through functions that pass NaN
/// on, and through a comparison that does not.
#[test]
fn numbers_of_all_kinds() {
    at_once("programs::numbers_of_all_kinds", || {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            let [x, y] = [1, 2].map(|seed| random_bits(&[64, 24], dtype, seed));
            let graph = |then: Then<'_>| {
                let sum = then(ops::add(&x, &y)?)?;
                let product = then(ops::multiply(&sum, &y)?)?;
                let larger = then(ops::maximum(&product, &sum)?)?;
                let is_less = then(ops::less(&product, &sum)?)?;
                let chosen = then(ops::where_(&is_less, &x, &sum)?)?;
                let ratio = then(ops::divide(&sum, &product)?)?;
                let [root, power] = [ops::sqrt(&x)?, ops::exp(&y)?].map(then);
                let curves = [ops::sigmoid(&x)?, ops::tanh(&y)?, ops::erf(&sum)?];
                let mut all = vec![then(ops::negative(&larger)?)?, chosen, ratio, root?, power?];
                all.extend(curves);
                Ok(all)
            };
            let want = graph(&alone).unwrap();
            let (count, got) = chained(|| graph(&Ok));
            assert_eq!(count, 1);
            for (got, want) in got.iter().zip(&want) {
                same_bits(got, want, format_args!("{dtype}"));
            }
        }
    });
}

/// Rows that are shorter than what a thread takes, as rotations of neighbours have them, and rows of a number
/// of elements that is no multiple of it.
#[test]
fn short_rows() {
    at_once("programs::short_rows", || {
        for dtype in [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32] {
            for (rows, row) in [(12, 2), (6, 4), (5, 2), (7, 1), (3, 12), (4, 14)] {
                let shape = [3, rows, row];
                let whole = noise(1, &[3, rows, 2, row], dtype);
                let angles = noise(2, &[rows, row, 2], dtype);
                mlx::eval(&[&whole, &angles]).unwrap();
                let side = |x: &Array, axis: isize, at: isize| -> Result<Array> {
                    ops::squeeze(&ops::slice_axis(x, axis, at, at + 1)?, &[axis])
                };
                let first = side(&whole, 2, 0).unwrap();
                let other = ops::slice_axis(&side(&whole, 2, 1).unwrap(), 2, 0, 1).unwrap();
                let graph = |then: Then<'_>| {
                    let a = then(ops::multiply(&first, &side(&angles, 2, 0)?)?)?;
                    let b = then(ops::multiply(&other, &side(&angles, 2, 1)?)?)?;
                    let sum = then(ops::add(&a, &b)?)?;
                    Ok(vec![then(ops::negative(&sum)?)?])
                };
                let want = graph(&alone).unwrap();
                let (count, got) = chained(|| graph(&Ok));
                assert_eq!(got[0].shape(), shape);
                assert_eq!(count, 1, "{dtype} {shape:?}");
                same_bits(&got[0], &want[0], format_args!("{dtype} {shape:?}"));
            }
        }
    });
}

/// Powers of three, which have a way of their own, in and out of its range.
#[test]
fn cubes() {
    at_once("programs::cubes", || {
        for dtype in [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32] {
            let x = random_bits(&[64, 24], dtype, 5);
            let graph = |then: Then<'_>| {
                let cube = then(ops::power(&x, 3.0f32)?)?;
                Ok(vec![then(ops::negative(&then(ops::add(&cube, &x)?)?)?)?])
            };
            let want = graph(&alone).unwrap();
            let (_, got) = chained(|| graph(&Ok));
            same_bits(&got[0], &want[0], dtype);
        }
    });
}

/// A chain of two results for arrays of some sizes, which the GPU counts `chains` times.
fn sizes(counts: &[usize], chains: u64) {
    for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Int8, Dtype::Int64] {
        for &count in counts {
            let x = noise(1, &[count], Dtype::Float32);
            let x = ops::astype(&ops::multiply(&x, Array::scalar(9.0f32).unwrap()).unwrap(), dtype);
            let x = evaluated(vec![x.unwrap()]).unwrap().remove(0);
            let graph = |then: Then<'_>| {
                let y = then(ops::add(&x, &x)?)?;
                Ok(vec![then(ops::negative(&y)?)?, y])
            };
            let want = graph(&alone).unwrap();
            let (seen, got) = chained(|| graph(&Ok));
            assert_eq!(seen, chains);
            for (got, want) in got.iter().zip(&want) {
                same_bits(got, want, format_args!("{dtype} {count}"));
            }
        }
    }
}

const SIZES: [usize; 9] = [1, 3, 4, 5, 8, 15, 16, 1023, 4099];

#[test]
fn sizes_and_tails() {
    at_once("programs::sizes_and_tails", || sizes(&SIZES, 1));
}

/// Also such as several cores share.
#[test]
fn sizes_and_tails_on_the_cpu() {
    on_the_cpu(|| sizes(&[&SIZES[..], &[1 << 16, (1 << 17) + 1]].concat(), 0));
}

/// Rare numbers by themselves, a block of each: no other one has the block done again.
#[test]
fn rare_numbers_by_themselves() {
    const NUMBERS: [f64; 14] = [
        -1.0,
        -3e-3,
        0.0,
        -0.0,
        1.1754943508222875e-38,
        1.1938e-38,
        1e-40,
        -1e-40,
        88.0,
        -90.0,
        3e38,
        -3.3895e38,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    const FUNCTIONS: [Unary; 7] =
        [ops::sqrt, ops::tanh, ops::exp, ops::sigmoid, ops::erf, ops::square, ops::abs];
    at_once("programs::rare_numbers_by_themselves", || {
        let full = |dtype| filled(&[8 * NUMBERS.len()], dtype, |i| NUMBERS[i / 8]);
        let (x, exact) = (full(Dtype::Bfloat16), full(Dtype::Float32));
        let one = evaluated(vec![filled(&[8 * NUMBERS.len()], Dtype::Bfloat16, |_| 1.0)]);
        let one = one.unwrap().remove(0);
        evaluated(vec![x.clone(), exact.clone()]).unwrap();
        let same = |what: &str, graph: &dyn Fn(Then<'_>) -> Result<Array>| {
            let want = graph(&alone).unwrap();
            let (count, got) = chained(|| Ok(vec![graph(&Ok)?]));
            assert_eq!(count, 1, "{what}");
            same_bits(&got[0], &want, format_args!("{what}"));
        };
        for (number, function) in FUNCTIONS.into_iter().enumerate() {
            same(&format!("function {number}"), &|then| ops::negative(&then(function(&x)?)?));
        }
        same("a sum", &|then| ops::subtract(&then(ops::add(&x, &one)?)?, &one));
        same("a quotient", &|then| ops::negative(&then(ops::divide(&one, &x)?)?));
        same("a conversion", &|then| ops::negative(&then(ops::astype(&exact, Dtype::Bfloat16)?)?));
    });
}

/// What computes the same is computed once, and each result of it is stored.
fn equal_results(chains: u64) {
    let (x, y) = (noise(6, &[40], Dtype::Float32), noise(7, &[40], Dtype::Float32));
    let graph = |then: Then<'_>| {
        let sums = [then(ops::add(&x, &y)?)?, then(ops::add(&x, &y)?)?];
        let product = then(ops::multiply(&sums[0], &then(ops::add(&x, &y)?)?)?)?;
        Ok([&sums[..], &[product]].concat())
    };
    let want = graph(&alone).unwrap();
    let (count, got) = chained(|| graph(&Ok));
    assert_eq!(count, chains);
    for (got, want) in got.iter().zip(&want) {
        same_bits(got, want, "");
    }
}

#[test]
fn equal_results_are_stored() {
    at_once("programs::equal_results_are_stored", || equal_results(1));
}

#[test]
fn equal_results_are_stored_on_the_cpu() {
    on_the_cpu(|| equal_results(0));
}

/// A chain with more results than a kernel stores is several.
#[test]
fn many_results() {
    at_once("programs::many_results", || {
        let x = noise(5, &[64], Dtype::Float32);
        let graph = |then: Then<'_>| {
            let mut all = vec![then(ops::square(&x)?)?];
            for nth in 0..20 {
                all.push(then(ops::add(&all[nth], &x)?)?);
            }
            Ok(all)
        };
        let want = graph(&alone).unwrap();
        let (count, got) = chained(|| graph(&Ok));
        assert!((3..8).contains(&count), "{count} chains");
        for (got, want) in got.iter().zip(&want) {
            same_bits(got, want, "");
        }
    });
}

/// A parameter, its momentum and its gradient, of every size and, in the last of them, in another order.
fn parameters(dtype: Dtype) -> Result<Vec<[Array; 3]>> {
    let full = |seed, shape: &[usize]| ops::negative(&noise(seed, shape, dtype));
    let mut all = Vec::new();
    for (seed, count) in (0..).step_by(3).zip(SIZES) {
        all.push([full(seed, &[count])?, full(seed + 1, &[count])?, full(seed + 2, &[count])?]);
    }
    let turned = ops::transpose(&full(92, &[5, 8])?, &[])?;
    all.push([full(90, &[8, 5])?, full(91, &[8, 5])?, turned]);
    for arrays in &all {
        mlx::eval(&arrays.iter().collect::<Vec<_>>())?;
    }
    Ok(all)
}

/// What momentum makes of parameters.
fn updated(parameters: &[[Array; 3]], then: Then<'_>) -> Result<Vec<Array>> {
    let dtype = parameters[0][0].dtype();
    let [kept, rate] = [0.75f32, 0.125].map(|x| ops::astype(&Array::scalar(x)?, dtype));
    let (kept, rate) = (then(kept?)?, then(rate?)?);
    let mut all = Vec::new();
    for [x, m, gradient] in parameters {
        let m = then(ops::add(&then(ops::multiply(m, &kept)?)?, gradient)?)?;
        all.push(then(ops::subtract(x, &then(ops::multiply(&m, &rate)?)?)?)?);
        all.push(m);
    }
    Ok(all)
}

/// Updates of all parameters are a dispatch for those that lie alike: here one, one for the first, which is a
/// number, and one for the last.
#[test]
fn updates_of_many_arrays() {
    at_once("programs::updates_of_many_arrays", || {
        for dtype in [Dtype::Float32, Dtype::Bfloat16] {
            let parameters = parameters(dtype).unwrap();
            let want = updated(&parameters, &alone).unwrap();
            let before = stats::snapshot();
            let got = updated(&parameters, &Ok).and_then(evaluated).unwrap();
            let counted = stats::snapshot().since(&before);
            // Two numbers are converted before them.
            let converted = if dtype == Dtype::Float32 { 0 } else { 2 };
            assert_eq!(counted.chained, parameters.len() as u64);
            assert_eq!(counted.dispatches, 3 + converted, "{dtype}");
            for (got, want) in got.iter().zip(&want) {
                same_bits(got, want, format_args!("{dtype} {:?}", got.shape()));
            }
        }
    });
}

/// What somebody else reads does not wait for others of its kind.
#[test]
fn updates_that_are_needed() {
    at_once("programs::updates_that_are_needed", || {
        let parameters = parameters(Dtype::Float32).unwrap();
        // Each parameter's gradient is made of the one before it.
        let graph = |then: Then<'_>| {
            let (mut all, mut before) = (Vec::new(), Array::scalar(1.0f32)?);
            for [x, m, gradient] in &parameters {
                let gradient = then(ops::multiply(gradient, &before)?)?;
                let new = updated(&[[x.clone(), m.clone(), gradient]], then)?;
                // Exact in any order.
                before = then(ops::max(&new[0], &[], false)?)?;
                all.extend(new);
            }
            Ok(all)
        };
        let want = graph(&alone).unwrap();
        let got = graph(&Ok).and_then(evaluated).unwrap();
        for (got, want) in got.iter().zip(&want) {
            same_bits(got, want, format_args!("{:?}", got.shape()));
        }
    });
}

/// An update like Adam's takes over the memory of what it replaces, also where that is read twice, and what
/// lies between its steps gets no memory.
fn takes_memory_over(chains: u64) {
    const BYTES: usize = 4 << 20;
    let full = |seed| noise(seed, &[BYTES / 4], Dtype::Float32);
    let mut state = evaluated(vec![full(1), full(2)]).unwrap();
    let gradient = evaluated(vec![ops::negative(&full(3)).unwrap()]).unwrap().remove(0);
    let half = Array::scalar(0.5f32).unwrap();
    let mut peak = 0;
    for round in 0..3 {
        mlx::memory::reset_peak_memory();
        let active = mlx::memory::active_memory();
        let (count, new) = chained(|| {
            let (x, m) = (state.remove(0), state.remove(0));
            let m = ops::add(&ops::multiply(&m, &half)?, &gradient)?;
            let x = ops::subtract(&ops::multiply(&x, &x)?, &ops::square(&m)?)?;
            Ok(vec![x, m])
        });
        state = new;
        assert_eq!(count, chains);
        if round > 0 {
            peak = peak.max(mlx::memory::peak_memory().saturating_sub(active));
        }
    }
    assert!(peak < BYTES, "{peak} bytes were allocated");
}

#[test]
fn memory_is_taken_over() {
    at_once("programs::memory_is_taken_over", || takes_memory_over(1));
}

#[test]
fn memory_is_taken_over_on_the_cpu() {
    on_the_cpu(|| takes_memory_over(0));
}

/// Expects a chain of so many elements to be linked once it was seen `sightings` times. Nobody waits for its
/// kernel: the operations go on one by one until it is there.
fn is_linked_after(sightings: u64, elements: usize, last: fn(&Array) -> Result<Array>) {
    let _turn = turn();
    let x = noise(4, &[elements], Dtype::Float32);
    let graph = || Ok(vec![last(&ops::add(&ops::sigmoid(&x)?, &x)?)?]);
    mlx::with_device(Device::GPU, || {
        let (first, want) = chained(graph);
        assert_eq!(first, 0);
        for _ in 1..sightings {
            assert_eq!(chained(graph).0, 0, "fewer than {sightings} times");
        }
        while !builders_are_idle() {
            std::thread::yield_now();
        }
        let (count, got) = chained(graph);
        assert_eq!(count, u64::from(super::fusing()));
        same_bits(&got[0], &want[0], "");
    })
    .unwrap();
}

#[test]
fn chains_are_linked_once_they_were_seen_often() {
    is_linked_after(mlx::vulkan::Config::get().program_sightings, 1000, ops::square);
}

#[test]
fn chains_of_many_elements_are_linked_sooner() {
    let sightings = mlx::vulkan::Config::get().program_sightings;
    is_linked_after(sightings.div_ceil(5), 1 << 20, ops::negative);
}
