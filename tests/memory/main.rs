//! Counters, limits and caches: a process of their own, because they belong to the process.

mod arguments;
mod dispatches;
mod exhausted;
mod folding;
mod guard;
mod loaded;
mod pool;
mod retried;

use mlx::{Dtype, memory, ops};
use mlx_tests::on_each_device;

/// Tests of this process read the counters one at a time, without chains, whose kernels are there when a
/// builder has made them.
static COUNTERS: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn counters() -> std::sync::MutexGuard<'static, ()> {
    mlx::vulkan::internals::enable_chains(false);
    COUNTERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn memory_returns_to_its_start_after_drop() {
    let _counters = counters();
    on_each_device(|device| {
        let warm = ops::zeros(&[1 << 20], Dtype::Float32).unwrap();
        warm.eval().unwrap();
        drop(warm);
        mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
        let before = memory::active_memory();
        let a = ops::zeros(&[1 << 20], Dtype::Float32).unwrap();
        a.eval().unwrap();
        assert!(memory::active_memory() >= before + (4 << 20), "{device}");
        drop(a);
        mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
        assert!(memory::active_memory() <= before, "{device}");
    });
}

#[test]
fn the_peak_follows_and_resets() {
    let _counters = counters();
    on_each_device(|device| {
        memory::reset_peak_memory();
        let a = ops::ones(&[1 << 20], Dtype::Float32).unwrap();
        a.eval().unwrap();
        drop(a);
        assert!(memory::peak_memory() >= 4 << 20, "{device}");
        memory::reset_peak_memory();
        assert_eq!(memory::peak_memory(), 0);
    });
}

#[test]
fn freed_memory_is_cached_and_can_be_cleared() {
    let _counters = counters();
    on_each_device(|device| {
        let a = ops::ones(&[1 << 20], Dtype::Float32).unwrap();
        a.eval().unwrap();
        drop(a);
        mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
        assert!(memory::cache_memory() >= 4 << 20, "{device}");
        memory::clear_cache();
        assert_eq!(memory::cache_memory(), 0, "{device}");
    });
}

#[test]
fn setters_return_the_previous_limit() {
    let _counters = counters();
    mlx_tests::init();
    let limit = memory::set_memory_limit(1 << 30);
    assert_eq!(memory::set_memory_limit(limit), 1 << 30);
    let cache = memory::set_cache_limit(0);
    let a = ops::ones(&[1 << 20], Dtype::Float32).unwrap();
    a.eval().unwrap();
    drop(a);
    assert_eq!(memory::set_cache_limit(cache), 0);
}
