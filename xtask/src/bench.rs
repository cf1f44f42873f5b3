//! `cargo xtask bench`: what building, evaluating, encoding and dispatching cost, what single
//! operations reach, and how fast models are.

use crate::error::Result;
use crate::figures::{self, Run};
use crate::generate;
use crate::process;
use crate::python;
use crate::setup::{self, component::Purpose};
use std::process::Command;

/// What is measured.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Benchmark {
    /// Building, evaluating, encoding and dispatching
    Dispatch,
    /// Operations against the roof
    Ops,
    /// Prompts and generation: `mlx-vulkan bench`
    Model,
    /// Calls from Python, beside upstream's binding
    Python,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Put what is printed into the figures of this machine in docs/figures.json; comes before the
    /// benchmark
    #[arg(long, value_name = "MACHINE")]
    record: Option<String>,
    /// What this command was typed behind: variables, or a program that starts it
    #[arg(long, value_name = "PREFIX", default_value = "")]
    under: String,
    benchmark: Benchmark,
    /// Arguments of the benchmark
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<String>,
}

/// `cargo xtask bench [--record MACHINE] NAME [ARGUMENT…]`: the arguments go to the benchmark.
pub(crate) fn main(args: &Args) -> Result<()> {
    setup::ensure(&[Purpose::Run])?;
    let mut command = command(args.benchmark)?;
    command.args(&args.rest);
    let Some(machine) = &args.record else { return process::hand_over(&mut command) };
    process::announce(command.arg("--json"));
    let printed = process::capture(&mut command)?;
    figures::record(&Run::parse(&String::from_utf8_lossy(&printed), machine, &args.under)?)
}

/// The command of a benchmark, without arguments.
fn command(benchmark: Benchmark) -> Result<Command> {
    let example = match benchmark {
        Benchmark::Dispatch => "bench_dispatch",
        Benchmark::Ops => "bench_ops",
        Benchmark::Model => {
            generate::build_lm()?;
            return Ok(generate::lm("bench"));
        }
        Benchmark::Python => return python::bench(),
    };
    let mut command =
        process::cargo(["run", "--release", "--package", "mlx-tests", "--example", example, "--"]);
    generate::allow_software(&mut command);
    Ok(command)
}
