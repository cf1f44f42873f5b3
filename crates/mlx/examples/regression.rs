//! Fits a line by gradient descent, with the gradient written out: lazy arrays in ten lines.
//!
//! `cargo run -p mlx --example regression`

use mlx_vulkan::{Dtype, Result, ops, random};

fn main() -> Result<()> {
    mlx_vulkan::init();
    let key = random::key(7)?;
    let x = random::normal(&[256, 1], Dtype::Float32, 0.0, 1.0, Some(&key))?;
    let y = &x * 3.0f32 + 0.5f32;
    let (mut slope, mut offset) =
        (ops::zeros(&[], Dtype::Float32)?, ops::zeros(&[], Dtype::Float32)?);
    for _ in 0..100 {
        let error = &x * &slope + &offset - &y;
        slope = &slope - ops::mean(&(&error * &x), &[], false)? * 0.2f32;
        offset = &offset - ops::mean(&error, &[], false)? * 0.2f32;
        mlx_vulkan::async_eval(&[&slope, &offset])?;
    }
    println!("slope {slope}, offset {offset} on {}", mlx_vulkan::default_device());
    mlx_vulkan::shutdown();
    Ok(())
}
