//! What every evaluation computes anew from the same arrays.

use mlx::{Array, Dtype, Result, memory, ops};
use mlx_tests::{filled, on_each_device, values};

use crate::counters;

/// Evaluations after which a result is surely kept.
const MANY: usize = 8;

/// Evaluates `(weight + one) * x` with an `x` that changes; the sum, evaluated with it, if it is read.
fn step(weight: &Array, one: f64, x: f64) -> Result<(Array, Array)> {
    let sum = ops::add(weight, Array::scalar_of(one, Dtype::Float32)?)?;
    // What changes is computed in the same evaluation.
    let first = filled(&[64], Dtype::Float32, |i| if i == 0 { x } else { 0.0 });
    let x = ops::cumsum(&first, Some(0), false, true, None)?;
    let product = ops::multiply(&sum, &x)?;
    product.eval()?;
    Ok((sum, product))
}

fn weight() -> Array {
    filled(&[64], Dtype::Float32, |i| i as f64)
}

/// Where the elements of an array are.
fn memory_of(a: &Array) -> usize {
    a.data().expect("it is evaluated").buffer.id()
}

fn run(test: impl Fn() -> Result<()>) {
    let _counters = counters();
    on_each_device(|device| {
        memory::clear_cache();
        test().unwrap_or_else(|error| panic!("{device}: {error}"));
    });
}

#[test]
fn it_is_computed_once() {
    run(|| {
        let weight = weight();
        let mut sums = Vec::new();
        for i in 0..MANY {
            let (sum, product) = step(&weight, 1.0, i as f64)?;
            let want: Vec<f64> = (0..64).map(|k| (k as f64 + 1.0) * i as f64).collect();
            assert_eq!(values(&product), want);
            sums.push(sum);
        }
        assert_ne!(memory_of(&sums[0]), memory_of(&sums[1]), "it was seen once");
        assert_eq!(memory_of(&sums[MANY - 1]), memory_of(&sums[MANY - 2]));
        assert_eq!(values(&sums[MANY - 1]), values(&sums[0]));
        Ok(())
    });
}

#[test]
fn other_arrays_and_numbers_give_other_results() {
    run(|| {
        let (first, second) = (weight(), ops::multiply(weight(), weight())?);
        second.eval()?;
        for i in 0..2 * MANY {
            for (weight, one) in [(&first, 1.0), (&first, 2.0), (&second, 1.0)] {
                let (_, product) = step(weight, one, i as f64)?;
                let want: Vec<f64> =
                    values(weight).iter().map(|value| (value + one) * i as f64).collect();
                assert_eq!(values(&product), want);
            }
        }
        Ok(())
    });
}

#[test]
fn an_array_that_was_made_anew_is_another_one() {
    run(|| {
        let mut weight = weight();
        for _ in 0..2 * MANY {
            let (_, product) = step(&weight, 1.0, 1.0)?;
            let want: Vec<f64> = values(&weight).iter().map(|value| value + 1.0).collect();
            assert_eq!(values(&product), want);
            // The old one's memory is free for it.
            let next = ops::add(&weight, Array::scalar_of(1.0, Dtype::Float32)?)?;
            drop(weight);
            next.eval()?;
            weight = next;
        }
        Ok(())
    });
}

#[test]
fn a_graph_of_which_nothing_changes_is_evaluated_again() {
    run(|| {
        let weight = weight();
        let mut results = Vec::new();
        for _ in 0..MANY {
            let sum = ops::add(&weight, Array::scalar_of(1.0, Dtype::Float32)?)?;
            let product = ops::multiply(&sum, &weight)?;
            product.eval()?;
            results.push((sum, product));
        }
        let [.., a, b] = &results[..] else { unreachable!("there are many") };
        assert_ne!(memory_of(&a.1), memory_of(&b.1));
        Ok(())
    });
}

#[test]
fn clearing_the_cache_lets_it_go() {
    run(|| {
        let weight = weight();
        let settle = || mlx::synchronize(mlx::current_stream()?);
        // The first one also brings the weight to a device.
        step(&weight, 1.0, 0.0)?;
        settle()?;
        let before = memory::active_memory();
        for i in 0..MANY {
            step(&weight, 1.0, i as f64)?;
        }
        settle()?;
        assert!(memory::active_memory() > before, "nothing is kept");
        memory::clear_cache();
        assert!(memory::active_memory() <= before);
        Ok(())
    });
}
