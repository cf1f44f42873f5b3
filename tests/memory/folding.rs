//! What every evaluation computes anew from the same arrays.

use mlx::{Array, Device, Dtype, Result, memory, ops, vulkan::stats};
use mlx_tests::{filled, on_each_device, values};

use crate::counters;

/// Evaluations after which a result is surely kept.
const MANY: usize = 8;

/// Evaluates `(weight + one) * x` with an `x` that changes.
fn step(weight: &Array, one: f64, x: f64) -> Result<Array> {
    let sum = ops::add(weight, Array::scalar_of(one, Dtype::Float32)?)?;
    // What changes is computed in the same evaluation.
    let first = filled(&[64], Dtype::Float32, |i| if i == 0 { x } else { 0.0 });
    let x = ops::cumsum(&first, Some(0), false, true, None)?;
    let product = ops::multiply(&sum, &x)?;
    drop((sum, x));
    product.eval()?;
    Ok(product)
}

fn weight() -> Array {
    filled(&[64], Dtype::Float32, |i| i as f64)
}

/// What a step gives.
fn expected(weight: &Array, one: f64, x: f64) -> Vec<f64> {
    values(weight).iter().map(|value| (value + one) * x).collect()
}

fn run(test: impl Fn() -> Result<()>) {
    let _counters = counters();
    on_each_device(|device| {
        memory::clear_cache();
        test().unwrap_or_else(|error| panic!("{device}: {error}"));
    });
}

/// Dispatches that something takes.
fn dispatches(of: impl FnOnce() -> Result<()>) -> Result<u64> {
    let before = stats::snapshot();
    of()?;
    Ok(stats::snapshot().since(&before).dispatches)
}

#[test]
fn it_is_computed_once() {
    mlx_tests::init();
    let _counters = counters();
    memory::clear_cache();
    let test = || -> Result<()> {
        let weight = weight();
        let step = |x| {
            let product = step(&weight, 1.0, x)?;
            assert_eq!(values(&product), expected(&weight, 1.0, x));
            Ok(())
        };
        step(0.5)?;
        let first = dispatches(|| step(1.0))?;
        (0..MANY).try_for_each(|i| step(i as f64))?;
        assert_eq!(dispatches(|| step(2.0))?, first - 1);
        // Once it is let go it is computed again.
        memory::clear_cache();
        assert_eq!(dispatches(|| step(3.0))?, first);
        Ok(())
    };
    mlx::with_device(Device::GPU, test).unwrap().unwrap();
}

#[test]
fn other_arrays_and_numbers_give_other_results() {
    run(|| {
        let (first, second) = (weight(), ops::multiply(weight(), weight())?);
        second.eval()?;
        for i in 0..2 * MANY {
            for (weight, one) in [(&first, 1.0), (&first, 2.0), (&second, 1.0)] {
                let product = step(weight, one, i as f64)?;
                assert_eq!(values(&product), expected(weight, one, i as f64));
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
            assert_eq!(values(&step(&weight, 1.0, 1.0)?), expected(&weight, 1.0, 1.0));
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
        assert_eq!(memory::cache_memory(), 0);
        Ok(())
    });
}
