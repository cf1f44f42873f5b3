//! What cannot be encoded now is tried again: an operation without memory, and the rest of an upload.

use std::{sync::mpsc, thread};

use mlx::{Array, Device, Dtype, Result, Stream, ops, vulkan::stats};
use mlx_tests::{array, in_child, init, late, values};

const DISCRETE: (&str, &str) = ("MLX_VK_FORCE_DISCRETE", "1");

/// An array of so many megabytes, which is not there before the sender is dropped, and neither is what the
/// stream does later.
fn held_up(gpu: Stream, megabytes: usize) -> Result<(Array, mpsc::Sender<()>)> {
    let (late, open) = late();
    let zero = mlx::with_stream(mlx::new_stream(Device::CPU)?, || ops::sum(&late, &[], false))?;
    let held = mlx::with_stream(gpu, || {
        ops::add(ops::full(&[megabytes << 18], 1.0f32, Dtype::Float32)?, &zero)
    })?;
    mlx::async_eval(&[&held])?;
    Ok((held, open))
}

/// Evaluates `a` on a thread of its own, and lets the stream that it needs go on only when that evaluation
/// waits, after `begun` says that it has begun: who evaluates something else gets the turn only then.
fn evaluate_held_up(a: &Array, open: mpsc::Sender<()>, begun: impl Fn() -> bool) -> Result<()> {
    thread::scope(|scope| {
        let evaluating = scope.spawn(|| a.eval());
        while !begun() {
            thread::yield_now();
        }
        let other = mlx::with_device(Device::CPU, || {
            ops::add(array(&[1.0], &[1], Dtype::Float32), 1.0f32)?.eval()
        });
        other??;
        drop(open);
        evaluating.join().unwrap()
    })
}

fn run_out_of_memory() -> Result<()> {
    init();
    let gpu = mlx::new_thread_unsafe_stream(Device::GPU)?;
    let (held, open) = held_up(gpu, 100)?;
    // Its memory is free only when the stream has used it.
    drop(held);
    let before = stats::snapshot();
    let allocations = || stats::snapshot().since(&before).driver_allocations;
    let large = mlx::with_stream(gpu, || {
        ops::add(ops::full(&[150 << 18], 2.0f32, Dtype::Float32)?, 1.0f32)
    })?;
    evaluate_held_up(&large, open, || allocations() > 0)?;
    assert_eq!(allocations(), 3, "without the cache and after a wait");
    let total = mlx::with_stream(gpu, || ops::sum(&large, &[], false))?;
    assert_eq!(values(&total), [f64::from(150 << 18) * 3.0]);
    Ok(())
}

#[test]
fn an_operation_without_memory_is_tried_again() {
    let test = "retried::an_operation_without_memory_is_tried_again";
    let limit = ("MLX_VK_DEBUG_MEMORY_LIMIT_MB", "256");
    in_child(test, &[limit], || run_out_of_memory().unwrap());
    in_child(test, &[limit, DISCRETE], || run_out_of_memory().unwrap());
}

fn upload_in_parts() -> Result<()> {
    init();
    let gpu = mlx::new_thread_unsafe_stream(Device::GPU)?;
    let (_held, open) = held_up(gpu, 1)?;
    // Several times what staging memory holds, and the end is no whole chunk.
    let numbers: Vec<u32> =
        (0..(100 << 18) + 77).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
    let host = Array::from_slice(&numbers, &[numbers.len()])?;
    let before = stats::snapshot();
    let seen = || stats::snapshot().since(&before);
    let inverted = mlx::with_stream(gpu, || ops::bitwise_invert(&host))?;
    // The first chunks are handed over before the upload waits for them.
    evaluate_held_up(&inverted, open, || seen().submits > 0)?;
    assert_eq!(seen().bytes_uploaded, host.nbytes() as u64, "nothing is uploaded twice");
    let got = inverted.to_vec::<u32>()?;
    assert!(got.iter().zip(&numbers).all(|(got, number)| *got == !number));
    Ok(())
}

#[test]
fn an_upload_goes_on_where_it_had_to_wait() {
    let test = "retried::an_upload_goes_on_where_it_had_to_wait";
    in_child(test, &[DISCRETE], || upload_in_parts().unwrap());
}
