//! What the host hands to kernels beside arrays, where there is no memory for it.

use mlx::{Array, Device, Dtype, Result, Stream, ops};
use mlx_tests::{array, in_child, init};

/// Arrays that leave less than so many kilobytes of what the driver gives.
fn all_but(kilobytes: usize) -> Result<Vec<Array>> {
    let mut held = Vec::new();
    let mut size = 32 << 10;
    while size >= kilobytes {
        let a = ops::add(ops::full(&[size << 8], 1.0f32, Dtype::Float32)?, 1.0f32)?;
        match a.eval() {
            Ok(()) => held.push(a),
            Err(mlx::Error::OutOfMemory { .. }) => size /= 2,
            Err(error) => return Err(error),
        }
    }
    Ok(held)
}

fn negative(on: Stream) -> Result<Vec<f32>> {
    let a = array(&[1.0, 2.0], &[2], Dtype::Float32);
    mlx::with_stream(on, || ops::negative(&a)?.to_vec::<f32>())
}

/// A stream without memory for its first arguments says so, and goes on when there is some.
fn run_out_of_memory() -> Result<()> {
    init();
    mlx::with_device(Device::GPU, || {
        let stream = mlx::new_stream(Device::GPU)?;
        let held = all_but(128)?;
        let error = negative(stream).unwrap_err();
        assert!(matches!(error, mlx::Error::OutOfMemory { .. }), "{error}");
        drop(held);
        assert_eq!(negative(stream)?, [-1.0, -2.0]);
        Ok(())
    })?
}

#[test]
fn no_memory_for_arguments_is_an_error_that_says_so() {
    let test = "arguments::no_memory_for_arguments_is_an_error_that_says_so";
    // Guarded memory is kept until it is looked at, for which nobody waits who reads a result.
    let plain = ("MLX_VK_DEBUG_GUARD", "0");
    in_child(test, &[("MLX_VK_DEBUG_MEMORY_LIMIT_MB", "256"), plain], || {
        run_out_of_memory().unwrap()
    });
}
