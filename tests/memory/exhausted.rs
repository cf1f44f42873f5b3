//! When the device has no memory left: the cache goes first, then there is an error with a remedy,
//! and the process lives on.

use mlx::{Array, Device, Dtype, Result, memory, ops, vulkan::stats};
use mlx_tests::{in_child, init, values};

/// What the driver gives in these tests; a first block takes 64 MB of it.
const LIMIT: (&str, &str) = ("MLX_VK_DEBUG_MEMORY_LIMIT_MB", "256");

/// An evaluated array of so many megabytes.
fn megabytes(n: usize) -> Result<Array> {
    let a = ops::full(&[n << 18], 1.0f32, Dtype::Float32)?;
    // Not a broadcast scalar: memory of its own.
    let a = ops::add(&a, 1.0f32)?;
    a.eval()?;
    Ok(a)
}

fn exhaust() -> Result<()> {
    init();
    mlx::with_device(Device::GPU, || {
        // Cached memory is not in the way: it is freed, and the allocation tried once more.
        let (a, b) = (megabytes(48)?, megabytes(56)?);
        drop((a, b));
        mlx::synchronize(mlx::current_stream()?)?;
        assert!(memory::cache_memory() >= 100 << 20);
        let before = stats::snapshot();
        let kept = megabytes(80)?;
        assert!(stats::snapshot().since(&before).driver_allocations > 0);
        assert!(memory::cache_memory() < 100 << 20, "{} bytes cached", memory::cache_memory());

        // What does not fit at all is an error that says what to do.
        let error = megabytes(200).unwrap_err();
        let mlx::Error::OutOfMemory { requested, .. } = error else { panic!("{error}") };
        assert!(requested >= 200 << 20, "{error}");
        let text = error.to_string();
        assert!(text.starts_with("[malloc] Unable to allocate"), "{text}");
        assert!(text.contains("free arrays") && text.contains("in use"), "{text}");

        // The process lives on: what was computed is there, and what fits is computed.
        assert_eq!(kept.to_vec::<f32>()?[..2], [2.0, 2.0]);
        assert_eq!(values(&ops::sum(&kept, &[], false)?), [(80 << 18) as f64 * 2.0]);
        drop(kept);
        megabytes(90)?;
        Ok(())
    })?
}

#[test]
fn out_of_memory_is_an_error_after_the_cache_was_freed() {
    let test = "exhausted::out_of_memory_is_an_error_after_the_cache_was_freed";
    in_child(test, &[LIMIT], || exhaust().unwrap());
}

#[test]
fn out_of_device_memory_is_an_error_too() {
    let test = "exhausted::out_of_device_memory_is_an_error_too";
    in_child(test, &[LIMIT, ("MLX_VK_FORCE_DISCRETE", "1")], || exhaust().unwrap());
}
