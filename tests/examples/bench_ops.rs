//! Achieved bandwidth and arithmetic rate of single operations.
//!
//! `bench_ops [--device cpu|gpu] [--mib N]`: arrays of N MiB of float32. Each figure is
//! the median of several runs of one operation that is evaluated again and again on warm memory.

use std::time::Instant;

use mlx::{Array, Device, Dtype, Result, ops};

/// Evaluations in one timed run, and timed runs of which the median counts.
const REPEATS: usize = 10;
const ROUNDS: usize = 5;

/// What an operation moves or computes, per evaluation.
enum Work {
    Bytes(f64),
    Flops(f64),
}

/// Seconds per evaluation.
fn seconds(make: &dyn Fn() -> Result<Array>) -> Result<f64> {
    let run = || -> Result<f64> {
        let start = Instant::now();
        let mut last = None;
        for _ in 0..REPEATS {
            let array = make()?;
            mlx::async_eval(&[&array])?;
            last = Some(array);
        }
        last.map_or(Ok(()), |a| a.eval())?;
        Ok(start.elapsed().as_secs_f64() / REPEATS as f64)
    };
    run()?;
    let mut times = (0..ROUNDS).map(|_| run()).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

fn report(name: &str, work: Work, make: &dyn Fn() -> Result<Array>) -> Result<()> {
    let seconds = seconds(make)?;
    match work {
        Work::Bytes(n) => {
            println!("{name:28} {:10.1} GB/s   {:9.1} us", n / seconds / 1e9, seconds * 1e6)
        }
        Work::Flops(n) => {
            println!("{name:28} {:10.2} TFLOP/s {:8.1} us", n / seconds / 1e12, seconds * 1e6)
        }
    }
    Ok(())
}

fn bandwidth(mib: usize) -> Result<()> {
    let (rows, columns) = (mib * 256, 1024);
    let bytes = (mib << 20) as f64;
    let a = ops::astype(
        &ops::arange(0.0, (rows * columns) as f64, 1.0, Dtype::Float32)?,
        Dtype::Float32,
    )?;
    let a = ops::reshape(&a, &[rows as isize, columns as isize])?;
    let b = ops::add(&a, 1.0f32)?;
    mlx::eval(&[&a, &b])?;
    report("copy", Work::Bytes(2.0 * bytes), &|| ops::multiply(&a, 1.0f32))?;
    report("add", Work::Bytes(3.0 * bytes), &|| ops::add(&a, &b))?;
    report("sum of all", Work::Bytes(bytes), &|| ops::sum(&a, &[], false))?;
    report("sum of rows", Work::Bytes(bytes), &|| ops::sum(&a, &[1], false))?;
    report("sum of columns", Work::Bytes(bytes), &|| ops::sum(&a, &[0], false))?;
    report("softmax of rows", Work::Bytes(2.0 * bytes), &|| ops::softmax(&a, &[-1], true))?;
    report("transpose copy", Work::Bytes(2.0 * bytes), &|| {
        ops::contiguous(&ops::transpose(&a, &[])?, false)
    })
}

fn products() -> Result<()> {
    for (n, dtype) in [(1024, Dtype::Float32), (4096, Dtype::Float32), (4096, Dtype::Bfloat16)] {
        if n > 1024 && mlx::default_device() == Device::CPU {
            continue;
        }
        let a = ops::full(&[n, n], 0.5f32, dtype)?;
        let b = ops::full(&[n, n], 0.25f32, dtype)?;
        mlx::eval(&[&a, &b])?;
        let flops = 2.0 * (n as f64).powi(3);
        report(&format!("matmul {n} {dtype}"), Work::Flops(flops), &|| ops::matmul(&a, &b))?;
    }
    Ok(())
}

fn main() -> Result<()> {
    mlx::init();
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        arguments.iter().position(|a| a == name).and_then(|i| arguments.get(i + 1).cloned())
    };
    if value("--device").as_deref() == Some("cpu") {
        mlx::set_default_device(Device::CPU)?;
    }
    let mib = value("--mib").and_then(|v| v.parse().ok()).unwrap_or(64);
    println!("{} with arrays of {mib} MiB", mlx::default_device());
    bandwidth(mib)?;
    products()?;
    mlx::shutdown();
    Ok(())
}
