//! `cargo xtask bench`: what building, evaluating, encoding and dispatching cost.

use crate::error::Result;
use crate::generate;
use crate::process;
use crate::setup::{self, component::Purpose};

/// What is measured; each is an example of `mlx-tests`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Benchmark {
    /// Building, evaluating, encoding and dispatching
    Dispatch,
    /// Operations against the roof
    Ops,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    benchmark: Benchmark,
    /// Arguments of the benchmark
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<String>,
}

/// `cargo xtask bench NAME [ARGUMENT…]`: the arguments go to the benchmark.
pub(crate) fn main(args: &Args) -> Result<()> {
    let example = match args.benchmark {
        Benchmark::Dispatch => "bench_dispatch",
        Benchmark::Ops => "bench_ops",
    };
    setup::ensure(&[Purpose::Run])?;
    let mut command =
        process::cargo(["run", "--release", "--package", "mlx-tests", "--example", example, "--"]);
    generate::allow_software(command.args(&args.rest));
    process::hand_over(&mut command)
}
