//! The runtime under the kernels: reuse, donation, streams, transfers, counters.

mod common;

use std::sync::Mutex;

use common::with_gpu;
use mlx_vulkan_core::{
    Array, Device, Dtype, async_eval, memory, new_stream, ops, synchronize, with_stream,
};
use mlx_vulkan_vk::stats;

/// Counters are the process's: tests that read them run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn numbers(n: usize) -> Array {
    let values: Vec<i32> = (0..n as i32).collect();
    Array::from_slice(&values, &[n]).unwrap()
}

/// A chain of conversions there and back, which changes nothing.
fn chain(mut a: Array, links: usize) -> Array {
    for _ in 0..links {
        a = ops::astype(&ops::astype(&a, Dtype::Float32).unwrap(), Dtype::Int32).unwrap();
    }
    a
}

#[test]
fn long_chains_commit_many_times_and_stay_right() {
    let _alone = ALONE.lock();
    with_gpu(|| {
        let a = numbers(1000);
        let before = stats::snapshot();
        let b = chain(a.clone(), 600);
        assert_eq!(b.to_vec::<i32>().unwrap(), a.to_vec::<i32>().unwrap());
        let seen = stats::snapshot().since(&before);
        assert!(seen.dispatches >= 1200, "{seen:?}");
        // Eight batches of 100 operations may wait; then the device has to have some.
        assert!(seen.submits >= 2, "nothing was handed over in between: {seen:?}");
        let waits = seen.barriers + seen.submits;
        assert!(waits >= 1200, "each link waits for the one before: {seen:?}");
    });
}

#[test]
fn nothing_is_created_in_the_hot_loop() {
    let _alone = ALONE.lock();
    with_gpu(|| {
        let step = |a: &Array| chain(a.clone(), 40).to_vec::<i32>().unwrap();
        let a = numbers(5000);
        let want = step(&a);
        step(&a);
        let before = stats::snapshot();
        for _ in 0..20 {
            assert_eq!(step(&a), want);
        }
        let seen = stats::snapshot().since(&before);
        assert_eq!(
            (seen.driver_allocations, seen.pipeline_creations, seen.descriptor_sets),
            (0, 0, 0)
        );
        assert!(seen.cache_reuses > 0);
    });
}

#[test]
fn independent_work_needs_no_barriers() {
    let _alone = ALONE.lock();
    with_gpu(|| {
        let config = mlx_vulkan_vk::Config::get();
        if config.serialize || config.poison || config.profile || config.trace.is_some() {
            return; // They order everything.
        }
        let unified = mlx_vulkan_vk::backend::capabilities(0).unwrap().unified;
        if config.debug_guard && !unified {
            return; // A stream writes the guards around an output before the output.
        }
        let a = numbers(4096);
        ops::astype(&a, Dtype::Float32).unwrap().eval().unwrap();
        let before = stats::snapshot();
        let parts: Vec<Array> = (0..50).map(|_| ops::astype(&a, Dtype::Int16).unwrap()).collect();
        async_eval(&parts.iter().collect::<Vec<_>>()).unwrap();
        synchronize(mlx_vulkan_core::current_stream().unwrap()).unwrap();
        let seen = stats::snapshot().since(&before);
        assert_eq!((seen.dispatches, seen.barriers), (50, 0));
        for part in &parts {
            assert_eq!(part.to_vec::<i16>().unwrap()[4095], 4095);
        }
    });
}

#[test]
fn memory_returns_and_clears() {
    let _alone = ALONE.lock();
    with_gpu(|| {
        let start = memory::active_memory();
        {
            let a = chain(numbers(1 << 16), 10);
            a.eval().unwrap();
            assert!(memory::active_memory() >= start + (4 << 16));
        }
        assert_eq!(memory::active_memory(), start);
        synchronize(mlx_vulkan_core::current_stream().unwrap()).unwrap();
        memory::clear_cache();
        assert_eq!(memory::cache_memory(), 0);
    });
}

#[test]
fn donation_updates_in_place_and_spares_other_readers() {
    let _alone = ALONE.lock();
    with_gpu(|| {
        let zeros = ops::zeros(&[8, 1024], Dtype::Float32).unwrap();
        let row = ops::full(&[1, 1024], 1.0f32, Dtype::Float32).unwrap();
        let mut cache = ops::contiguous(&zeros, false).unwrap();
        cache.eval().unwrap();
        for i in 0..8 {
            cache = ops::slice_update(&cache, &row, &[i, 0], &[i + 1, 1024], &[1, 1]).unwrap();
            cache.eval().unwrap();
        }
        assert_eq!(cache.to_vec::<f32>().unwrap(), vec![1.0; 8 * 1024]);
        assert_eq!(zeros.to_vec::<f32>().unwrap(), vec![0.0; 8 * 1024], "zeros is still ours");

        let other = new_stream(Device::GPU).unwrap();
        let mut a = ops::astype(&numbers(1 << 18), Dtype::Float32).unwrap();
        a.eval().unwrap();
        for round in 0..20 {
            let reader = with_stream(other, || ops::astype(&a, Dtype::Int32).unwrap());
            async_eval(&[&reader]).unwrap();
            let next = ops::slice_update(&a, &row, &[0], &[1024], &[1]);
            let next = next.or_else(|_| {
                ops::slice_update(&a, &ops::reshape(&row, &[1024])?, &[0], &[1024], &[1])
            });
            a = next.unwrap();
            async_eval(&[&a]).unwrap();
            let seen = reader.to_vec::<i32>().unwrap();
            let want = if round == 0 { 1023 } else { 1 };
            assert_eq!((seen[1023], seen[1024]), (want, 1024), "round {round}");
        }
    });
}

#[test]
fn streams_wait_for_each_other() {
    let _alone = ALONE.lock();
    with_gpu(|| {
        let streams: Vec<_> = (0..3).map(|_| new_stream(Device::GPU).unwrap()).collect();
        for _ in 0..20 {
            let mut a = numbers(3000);
            for i in 0..30 {
                a = with_stream(streams[i % 3], || {
                    let to = if i % 2 == 0 { Dtype::Float32 } else { Dtype::Int32 };
                    ops::astype(&a, to).unwrap()
                });
            }
            assert_eq!(a.to_vec::<i32>().unwrap(), (0..3000).collect::<Vec<_>>());
        }
        let threads: Vec<_> = streams
            .iter()
            .map(|&stream| {
                std::thread::spawn(move || {
                    with_stream(stream, || {
                        for _ in 0..20 {
                            let a = chain(numbers(2000), 15);
                            assert_eq!(a.to_vec::<i32>().unwrap()[1999], 1999);
                        }
                    });
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn large_arrays_go_up_and_come_back_in_chunks() {
    let _alone = ALONE.lock();
    with_gpu(|| {
        let n = (80 << 20) / 4 + 3;
        let values: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let a = Array::from_slice(&values, &[n]).unwrap();
        let b =
            ops::contiguous(&ops::slice(&a, &[1], &[n as isize], &[1]).unwrap(), false).unwrap();
        let c = ops::astype(&b, Dtype::Int64).unwrap();
        let back = ops::astype(&c, Dtype::Uint32).unwrap().to_vec::<u32>().unwrap();
        assert!(back == values[1..]);
    });
}

#[test]
fn async_eval_returns_an_array_that_arrives_later() {
    let _alone = ALONE.lock();
    with_gpu(|| {
        let a = chain(numbers(1 << 20), 20);
        async_eval(&[&a]).unwrap();
        assert!(a.data().is_some(), "encoded");
        assert_eq!(a.to_vec::<i32>().unwrap()[(1 << 20) - 1], (1 << 20) - 1);
        assert!(a.is_available());
    });
}
