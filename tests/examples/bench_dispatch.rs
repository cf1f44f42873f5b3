//! What building, evaluating, encoding and dispatching cost. `--json` prints one object.
//!
//! Run by `cargo xtask bench dispatch`.

use std::time::Instant;

use mlx::{Array, Device, Result, ops};

/// Operations of the chain that is built and evaluated.
const CHAIN: usize = 1000;
/// Elements of its arrays.
const ELEMENTS: usize = 16;
/// Repetitions, of which the median counts.
const ROUNDS: usize = 101;

/// Nanoseconds per operation to build and to evaluate a chain of additions on a device.
struct Chain {
    build: f64,
    eval: f64,
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Times one chain; returns the seconds to build and to evaluate it.
fn once(one: &Array) -> Result<(f64, f64)> {
    let start = Instant::now();
    let mut x = one.clone();
    for _ in 0..CHAIN {
        x = ops::add(&x, one)?;
    }
    let built = start.elapsed().as_secs_f64();
    let start = Instant::now();
    x.eval()?;
    Ok((built, start.elapsed().as_secs_f64()))
}

fn chain(device: Device) -> Result<Chain> {
    mlx::with_device(device, || {
        let one = ops::add(&Array::from_slice(&[1.0f32; ELEMENTS], &[ELEMENTS])?, 0.0f32)?;
        one.eval()?;
        let times = (0..ROUNDS).map(|_| once(&one)).collect::<Result<Vec<_>>>()?;
        let per_op = |pick: fn(&(f64, f64)) -> f64| {
            median(times.iter().map(pick).collect()) * 1e9 / CHAIN as f64
        };
        Ok(Chain { build: per_op(|t| t.0), eval: per_op(|t| t.1) })
    })?
}

fn main() -> Result<()> {
    mlx::init();
    let cpu = chain(Device::CPU)?;
    let gpu = chain(Device::GPU)?;
    let encode = mlx::vulkan::internals::encode(ROUNDS)?;
    let rows = [
        ("graph_build_ns_per_op", cpu.build),
        ("cpu_eval_ns_per_op", cpu.eval),
        ("gpu_eval_ns_per_op", gpu.eval),
        ("encode_dependent_ns", encode.encoder_dependent),
        ("plain_dependent_ns", encode.plain_dependent),
        ("encode_independent_ns", encode.encoder_independent),
        ("plain_independent_ns", encode.plain_independent),
        ("encode_ratio_dependent", encode.encoder_dependent / encode.plain_dependent),
        ("encode_ratio_independent", encode.encoder_independent / encode.plain_independent),
        ("gpu_dependent_ns", encode.gpu_dependent),
        ("gpu_independent_ns", encode.gpu_independent),
    ];
    let device = &mlx::vulkan::capabilities(0)?.name;
    if std::env::args().any(|a| a == "--json") {
        let mut object =
            serde_json::json!({"command": "cargo xtask bench dispatch", "device": device});
        rows.iter().for_each(|(name, value)| object[name] = (*value).into());
        println!("{object}");
    } else {
        println!("{device}");
        rows.iter().for_each(|(name, value)| println!("{name:26} {value:10.2}"));
    }
    mlx::shutdown();
    Ok(())
}
