//! What evaluations on Vulkan count: dispatches, barriers, submissions, and what is created.

use mlx::{
    Array, Device, Dtype, Result, ops,
    vulkan::{self, stats},
};
use mlx_tests::init;

use crate::counters;

fn numbers(n: usize) -> Result<Array> {
    Array::from_slice(&(0..n as i32).collect::<Vec<_>>(), &[n])
}

/// Conversions there and back, each of which waits for the one before, and which change nothing.
fn chain(a: &Array, links: usize) -> Result<Array> {
    (0..links)
        .try_fold(a.clone(), |a, _| ops::astype(&ops::astype(&a, Dtype::Float32)?, Dtype::Int32))
}

/// Runs a test on Vulkan while no other one of this process evaluates.
fn alone(test: impl FnOnce() -> Result<()>) {
    init();
    let _counters = counters();
    mlx::with_device(Device::GPU, test).unwrap().unwrap();
    mlx_tests::expect_valid();
}

#[test]
fn long_chains_are_handed_over_in_batches() {
    alone(|| {
        let a = numbers(1000)?;
        let before = stats::snapshot();
        let b = chain(&a, 600)?;
        assert_eq!(b.to_vec::<i32>()?, a.to_vec::<i32>()?);
        let seen = stats::snapshot().since(&before);
        assert!(seen.dispatches >= 1200, "{seen:?}");
        // Eight batches of 100 operations may wait; then the device has to have some.
        assert!(seen.submits >= 2, "nothing was handed over in between: {seen:?}");
        assert!(seen.barriers + seen.submits >= 1200, "a link waits for the one before: {seen:?}");
        Ok(())
    });
}

#[test]
fn nothing_is_created_for_what_ran_before() {
    alone(|| {
        let a = numbers(5000)?;
        let run = || chain(&a, 40)?.to_vec::<i32>();
        let want = run()?;
        run()?;
        let before = stats::snapshot();
        for _ in 0..20 {
            assert_eq!(run()?, want);
        }
        let seen = stats::snapshot().since(&before);
        assert_eq!((seen.driver_allocations, seen.pipeline_creations), (0, 0), "{seen:?}");
        assert!(seen.cache_reuses > 0, "{seen:?}");
        Ok(())
    });
}

#[test]
fn independent_work_needs_no_barriers() {
    alone(|| {
        let config = vulkan::Config::get();
        let in_order = config.serialize || config.poison || config.profile;
        let unified = vulkan::capabilities(0).unwrap().unified;
        if in_order || config.trace.is_some() || (config.debug_guard && !unified) {
            // These order everything. Guards of memory that the host does not see are written before
            // an output.
            return Ok(());
        }
        let a = numbers(4096)?;
        ops::astype(&a, Dtype::Float32)?.eval()?;
        let before = stats::snapshot();
        let parts = (0..50).map(|_| ops::astype(&a, Dtype::Int16)).collect::<Result<Vec<_>>>()?;
        mlx::async_eval(&parts.iter().collect::<Vec<_>>())?;
        mlx::synchronize(mlx::current_stream()?)?;
        let seen = stats::snapshot().since(&before);
        assert_eq!((seen.dispatches, seen.barriers), (50, 0));
        for part in &parts {
            assert_eq!(part.to_vec::<i16>()?[4095], 4095);
        }
        Ok(())
    });
}
