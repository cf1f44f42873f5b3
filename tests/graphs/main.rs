//! Random graphs with views and donation: the CPU and Vulkan give the same elements.
//!
//! The elements are integers, also in the floating dtypes, so that results are exact whatever
//! the order of operations.

use mlx::{Array, Device, Dtype, Result, ops};
use mlx_tests::{array, init, values};
use proptest::prelude::*;

/// One step of a random program: an operation on earlier results.
#[derive(Debug, Clone, Copy)]
struct Step {
    op: u8,
    left: u8,
    right: u8,
    parameter: u8,
    /// Forget the operand afterwards, so that its memory may be taken over.
    forget: bool,
    /// Evaluate here instead of at the end.
    eval: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (0u8..14, any::<u8>(), any::<u8>(), any::<u8>(), any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(op, left, right, parameter, forget, eval)| Step {
                op,
                left,
                right,
                parameter,
                forget,
                eval,
            });
    prop::collection::vec(step, 1..40)
}

/// Keeps numbers small enough to be exact in float32.
fn bounded(a: Result<Array>) -> Result<Array> {
    ops::remainder(&a?, 31)
}

/// Two operands of one shape: the second is cut or repeated where it has to be.
fn matched(a: &Array, b: &Array) -> Result<Array> {
    match ops::broadcast_to(b, a.shape()) {
        Ok(b) => Ok(b),
        // Bounded as well: sums of sums would leave the exact integers behind.
        Err(_) => ops::broadcast_to(&bounded(ops::sum(b, &[], false))?, a.shape()),
    }
}

fn apply(step: Step, a: &Array, b: &Array) -> Result<Array> {
    let axis = (step.parameter as usize % a.ndim()) as isize;
    let size = a.dim(axis) as isize;
    match step.op {
        0 => bounded(ops::add(a, &matched(a, b)?)),
        1 => bounded(ops::multiply(a, &matched(a, b)?)),
        2 => ops::subtract(a, &matched(a, b)?).and_then(|x| ops::abs(&x)),
        3 => ops::maximum(a, &matched(a, b)?),
        4 => ops::transpose(a, &[]),
        5 => ops::slice_axis(a, axis, size / 3, size),
        6 => {
            let (mut start, mut stop) = (vec![0; a.ndim()], vec![0; a.ndim()]);
            let mut strides = vec![1; a.ndim()];
            stop.iter_mut().zip(a.shape()).for_each(|(s, &d)| *s = d as isize);
            let i = axis as usize;
            (start[i], stop[i], strides[i]) = (-1, -size - 1, -1);
            ops::slice(a, &start, &stop, &strides)
        }
        7 => ops::reshape(a, &[-1, a.dim(axis) as isize]),
        8 if a.size() < 4000 => ops::concatenate(&[a, a], axis),
        9 => bounded(ops::sum(a, &[axis], true)).and_then(|s| ops::broadcast_to(&s, a.shape())),
        10 => {
            let mut start = vec![0; a.ndim()];
            let stop: Vec<isize> = a.shape().iter().map(|&d| d as isize).collect();
            start[axis as usize] = size / 2;
            let update = ops::full(&[], (step.parameter % 31) as i32, a.dtype())?;
            ops::slice_update(a, &update, &start, &stop, &vec![1; a.ndim()])
        }
        11 => ops::where_(&ops::greater(a, 5)?, a, &matched(a, b)?),
        12 => bounded(ops::cumsum(
            a,
            Some(axis),
            step.parameter & 1 == 1,
            step.parameter & 2 == 2,
            None,
        )),
        13 => ops::sort(a, axis),
        _ => ops::expand_dims(a, &[0]).and_then(|x| ops::squeeze(&x, &[0])),
    }
}

/// Runs a program on this thread's device and returns everything it still holds.
fn run(program: &[Step], dtype: Dtype) -> Result<Vec<Vec<f64>>> {
    let start = |seed: usize, shape: &[usize]| {
        let n: usize = shape.iter().product();
        array(&(0..n).map(|i| ((i * 7 + seed) % 31) as f64).collect::<Vec<_>>(), shape, dtype)
    };
    let mut held = vec![start(1, &[4, 6]), start(5, &[3, 2, 8]), start(11, &[24])];
    for &step in program {
        let left = step.left as usize % held.len();
        let a = held[left].clone();
        let b = held[step.right as usize % held.len()].clone();
        let result = apply(step, &a, &b)?;
        drop((a, b));
        if step.forget {
            held[left] = result;
        } else {
            held.push(result);
        }
        if step.eval {
            held.last().expect("never empty").eval()?;
        }
    }
    mlx::async_eval(&held.iter().collect::<Vec<_>>())?;
    Ok(held.iter().map(comparable).collect())
}

/// The elements with NaN as a number that compares: sums overflow float16.
fn comparable(a: &Array) -> Vec<f64> {
    values(a).into_iter().map(|x| if x.is_nan() { f64::MAX } else { x }).collect()
}

fn compare(program: &[Step], dtype: Dtype) {
    let on = |device| mlx::with_device(device, || run(program, dtype)).unwrap().unwrap();
    assert_eq!(on(Device::CPU), on(Device::GPU), "{dtype}");
}

proptest! {
    #![proptest_config(mlx_tests::cases(60))]

    #[test]
    fn integers_agree(program in steps()) {
        init();
        compare(&program, Dtype::Int32);
    }

    #[test]
    fn floats_agree(program in steps()) {
        init();
        compare(&program, Dtype::Float32);
    }

    #[test]
    fn halves_agree(program in steps()) {
        init();
        compare(&program, Dtype::Float16);
    }
}
