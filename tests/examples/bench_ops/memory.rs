//! Operations that memory bounds.

use mlx::{
    Array, Dtype, Result,
    fft::{self, Norm},
    ops,
};

use crate::measure::{Bench, Bound, Work};

/// One operation an element.
fn moved(bytes: f64) -> Work {
    Work { bytes, flops: bytes / 8.0 }
}

/// A copy, which every family is held against.
pub(crate) fn copy(bench: &mut Bench, mib: usize) -> Result<()> {
    let a = ops::full(&[mib << 18], 0.5f32, Dtype::Float32)?;
    mlx::eval(&[&a])?;
    let work = moved(2.0 * (mib << 20) as f64);
    bench.time("copy", work, Bound::Copy, &|| ops::multiply(&a, 1.0f32))
}

/// Elementwise operations, reductions, and what goes over rows.
pub(crate) fn bandwidth(bench: &mut Bench, mib: usize) -> Result<()> {
    let (rows, columns) = (mib * 256, 1024);
    let bytes = (mib << 20) as f64;
    let a = ops::astype(
        &ops::arange(0.0, (rows * columns) as f64, 1.0, Dtype::Float32)?,
        Dtype::Float32,
    )?;
    let a = ops::reshape(&a, &[rows as isize, columns as isize])?;
    let b = ops::add(&a, 1.0f32)?;
    mlx::eval(&[&a, &b])?;
    let mut time = |name, times: f64, make: &dyn Fn() -> Result<Array>| {
        bench.time(name, moved(times * bytes), Bound::Copy, make)
    };
    time("add", 3.0, &|| ops::add(&a, &b))?;
    time("sum of all", 1.0, &|| ops::sum(&a, &[], false))?;
    time("sum of rows", 1.0, &|| ops::sum(&a, &[1], false))?;
    time("sum of columns", 1.0, &|| ops::sum(&a, &[0], false))?;
    time("softmax of rows", 2.0, &|| ops::softmax(&a, &[-1], true))?;
    time("cumsum of rows", 2.0, &|| ops::cumsum(&a, Some(1), false, true, None))?;
    time("cumsum of all", 2.0, &|| ops::cumsum(&a, None, false, true, None))?;
    time("transpose copy", 2.0, &|| ops::contiguous(&ops::transpose(&a, &[])?, false))
}

/// Reading and writing at random indices, in and out of a megabyte of elements and of rows.
pub(crate) fn indexing(bench: &mut Bench, mib: usize) -> Result<()> {
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
    let mut time = |name, times: f64, make: &dyn Fn() -> Result<Array>| {
        bench.time(name, moved(times * bytes), Bound::Copy, make)
    };
    // An index and an update are read for each atomic addition.
    time("scatter_add into 1 Mi", 2.0, &|| ops::scatter_add(&few, &[&picks], &updates, &[0]))?;
    time("scatter_max into 1 Mi", 2.0, &|| ops::scatter_max(&few, &[&picks], &updates, &[0]))?;
    time("gather from 1 Mi", 2.0, &|| ops::gather(&few, &[&picks], &[0], &[1]))?;
    time("gather rows of 1 KiB", 2.0, &|| ops::gather(&table, &[&rows], &[0], &[1, 256]))?;
    // The table is copied first.
    time("scatter rows of 1 KiB", 4.0, &|| ops::scatter(&table, &[&rows], &lines, &[0]))
}

/// Sorting one long row, against reading and writing it once.
pub(crate) fn sorting(bench: &mut Bench, mib: usize) -> Result<()> {
    let key = mlx::random::key(2)?;
    let n = mib << 18;
    let a = mlx::random::uniform(0.0f32, 1.0f32, &[n], Dtype::Float32, Some(&key))?;
    mlx::eval(&[&a])?;
    let work = moved(2.0 * (mib << 20) as f64);
    bench.time(&format!("sort {n} float32"), work, Bound::Copy, &|| ops::sort(&a, 0))?;
    bench.time(&format!("argsort {n} float32"), work, Bound::Copy, &|| ops::argsort(&a, 0))
}

/// Fourier transforms, against reading and writing their elements once.
pub(crate) fn transforms(bench: &mut Bench, mib: usize) -> Result<()> {
    let total = mib << 17;
    for length in [1 << 10, 1 << 20, 1000, 1021] {
        let rows = (total / length).max(1);
        let key = mlx::random::key(3)?;
        let normal = |key| mlx::random::normal(&[rows, length], Dtype::Float32, 0.0, 1.0, key);
        let a = ops::astype(&normal(Some(&key))?, Dtype::Complex64)?;
        mlx::eval(&[&a])?;
        let n = (rows * length) as f64;
        let work = Work { bytes: 16.0 * n, flops: 5.0 * n * (length as f64).log2() };
        let name = format!("fft of {rows} x {length}");
        bench.time(&name, work, Bound::Copy, &|| fft::fft(&a, None, -1, Norm::Backward))?;
    }
    Ok(())
}
