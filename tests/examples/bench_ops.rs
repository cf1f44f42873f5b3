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

/// Reading and writing at random indices, in and out of a megabyte of elements and of rows.
fn indexing(mib: usize) -> Result<()> {
    let n = mib << 18;
    let bytes = (mib << 20) as f64;
    let key = mlx::random::key(1)?;
    let places = (1 << 20).min(n);
    let picks = mlx::random::randint(0, places as i32, &[n], Dtype::Int32, Some(&key))?;
    let rows = mlx::random::randint(0, n as i32 / 256, &[n / 256], Dtype::Int32, Some(&key))?;
    let updates = ops::ones(&[n, 1], Dtype::Float32)?;
    let table = ops::ones(&[n / 256, 256], Dtype::Float32)?;
    let lines = ops::reshape(&updates, &[n as isize / 256, 1, 256])?;
    let few = ops::zeros(&[places], Dtype::Float32)?;
    mlx::eval(&[&picks, &rows, &updates, &table, &few])?;
    // An index and an update are read for each atomic addition.
    report("scatter_add into 1 Mi", Work::Bytes(2.0 * bytes), &|| {
        ops::scatter_add(&few, &[&picks], &updates, &[0])
    })?;
    report("scatter_max into 1 Mi", Work::Bytes(2.0 * bytes), &|| {
        ops::scatter_max(&few, &[&picks], &updates, &[0])
    })?;
    report("gather from 1 Mi", Work::Bytes(2.0 * bytes), &|| {
        ops::gather(&few, &[&picks], &[0], &[1])
    })?;
    report("gather rows of 1 KiB", Work::Bytes(2.0 * bytes), &|| {
        ops::gather(&table, &[&rows], &[0], &[1, 256])
    })?;
    // The table is copied first.
    report("scatter rows of 1 KiB", Work::Bytes(4.0 * bytes), &|| {
        ops::scatter(&table, &[&rows], &lines, &[0])
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

/// Pairs of links in a chain of mat-vecs, each with weights of its own.
const PAIRS: usize = 32;

/// A 4-bit matrix of random numbers.
fn quantized(outputs: usize, inner: usize, seed: u64) -> Result<[Array; 3]> {
    let key = mlx::random::key(seed)?;
    let dense = mlx::random::normal(&[outputs, inner], Dtype::Bfloat16, 0.0, 0.1, Some(&key))?;
    let (words, scales, biases) = ops::quantize(&dense, 64, 4)?;
    mlx::eval(&[&words, &scales, &biases])?;
    Ok([words, scales, biases])
}

/// Dependent 4-bit mat-vecs there and back again, as in a decode step: time of a pair.
fn mat_vecs() -> Result<()> {
    for (narrow, wide) in [(1024, 1024), (1024, 3072), (1024, 4096), (4096, 6144), (4096, 12288)] {
        let make = |i: usize| -> Result<_> {
            Ok([quantized(wide, narrow, i as u64)?, quantized(narrow, wide, !i as u64)?])
        };
        let links = (0..PAIRS).map(make).collect::<Result<Vec<_>>>()?;
        let x = ops::full(&[1, narrow], 0.01f32, Dtype::Bfloat16)?;
        let chain = || {
            links.iter().flatten().try_fold(x.clone(), |y, [words, scales, biases]| {
                ops::quantized_matmul(&y, words, scales, biases, true, 64, 4)
            })
        };
        let seconds = seconds(&chain)? / PAIRS as f64;
        let rate = (narrow * wide) as f64 * 2.0 * 4.5 / 8.0 / seconds / 1e9;
        println!(
            "mat-vecs {narrow} -> {wide:5} -> {narrow:5} {rate:10.1} GB/s {:12.2} us",
            seconds * 1e6
        );
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
    if !arguments.iter().any(|a| a == "--mat-vecs") {
        bandwidth(mib)?;
        indexing(mib)?;
        products()?;
    }
    if mlx::default_device() != Device::CPU {
        mat_vecs()?;
    }
    mlx::shutdown();
    Ok(())
}
