//! Achieved bandwidth and arithmetic rate of single operations, and how much that is of what the
//! device itself reaches: of a copy, or of the fastest product of matrices in the same run.
//!
//! `bench_ops [--device cpu|gpu] [--mib N] [--only FAMILY] [--plot [FILE.svg]] [--json]`: arrays of N MiB of
//! float32; families are `memory`, `chains`, `indexing`, `sorting`, `transforms`, `products`, `convolutions`
//! and `mat-vecs`. `--json` prints one object instead of a table.

mod chains;
mod measure;
mod memory;
mod plot;
mod products;

use std::path::Path;

use measure::Bench;
use mlx::{Device, Result};

fn run(bench: &mut Bench, mib: usize, only: Option<&str>) -> Result<()> {
    let wanted = |family: &str| only.is_none_or(|name| name == family);
    if wanted("chains") {
        chains::chains(bench, mib)?;
    }
    // Products come before convolutions, which are held against them.
    if wanted("memory") {
        memory::bandwidth(bench, mib)?;
    }
    if wanted("products") || only == Some("convolutions") {
        products::dense(bench)?;
    }
    if wanted("convolutions") {
        products::convolutions(bench)?;
    }
    if wanted("indexing") {
        memory::indexing(bench, mib)?;
    }
    if wanted("sorting") {
        memory::sorting(bench, mib)?;
    }
    if wanted("transforms") {
        memory::transforms(bench, mib)?;
    }
    if wanted("mat-vecs") && mlx::default_device() != Device::CPU {
        products::mat_vecs(bench)?;
    }
    Ok(())
}

/// What was typed, without `--json`.
fn command(arguments: &[String]) -> String {
    let arguments = arguments.iter().skip(1).map(String::as_str).filter(|a| *a != "--json");
    ["cargo xtask bench ops"].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
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
    let title = format!("{} with arrays of {mib} MiB", mlx::default_device());
    let json = arguments.iter().any(|a| a == "--json");
    if !json {
        println!("{title}");
    }
    let mut bench = Bench { quiet: json, ..Bench::default() };
    let only = value("--only");
    memory::copy(&mut bench, mib)?;
    run(&mut bench, mib, only.as_deref())?;
    if json {
        println!("{}", bench.json(&command(&arguments)));
    }
    if arguments.iter().any(|a| a == "--plot") {
        let named = value("--plot").filter(|path| !path.starts_with("--"));
        let path = named.unwrap_or_else(|| "roofline.svg".to_owned());
        match plot::roofline(&bench, &title, Path::new(&path)) {
            Ok(()) => eprintln!("roofline: {path}"),
            Err(error) => eprintln!("roofline: {error}"),
        }
    }
    mlx::shutdown();
    Ok(())
}
