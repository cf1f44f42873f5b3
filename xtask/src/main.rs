//! Project automation: `cargo xtask COMMAND`.
//!
//! This file is the list of commands; each lives in the file of its name, with its arguments.

mod bench;
mod ci;
mod drivers;
mod error;
mod figures;
mod generate;
mod model;
mod ops;
mod oracle;
mod paths;
mod process;
mod python;
mod record;
mod setup;
mod shaders;
mod test;
mod tidy;
mod venv;

use clap::{Parser, Subcommand};
use error::Result;
use std::process::ExitCode;

/// Project automation of mlx-vulkan
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

/// One thing that `cargo xtask` can do.
#[derive(Debug, Subcommand)]
enum Task {
    /// Fetch SmolLM2 and generate text with it, on Vulkan unless told otherwise
    Generate(generate::Args),
    /// Run the whole test suite, as on unified memory, and as on a discrete GPU under the validation layers
    Test(test::Args),
    /// Run a test binary for cargo, as the suite does
    #[command(hide = true)]
    RunTest(test::binary::Args),
    /// Compare random calls with upstream MLX, on the CPU and on Vulkan
    Oracle(oracle::Args),
    /// Build the Python package, try it, and install it into an environment of its own
    Python(python::Args),
    /// Compile and validate the kernels into shaders/spv
    Shaders(shaders::Args),
    /// Let the compilers of GPUs that are not here compile every kernel
    Drivers,
    /// Print which primitive runs where, and what is refused
    Ops(ops::Args),
    /// Measure dispatches, single operations, or a model
    Bench(bench::Args),
    /// Write the tables of docs/figures.json
    Figures(figures::Args),
    /// Generate text and write the terminal, as it came, to docs/generate.svg
    Record(generate::Args),
    /// Check formatting, lints, documentation, figures, the width of lines and unused dependencies
    Tidy,
    /// Everything that must pass before a change lands: tidy, shaders --check, test, drivers, oracle, python
    Ci,
    /// Fetch SmolLM2 and print where it lies
    Model,
    /// Install what is missing on this machine
    Setup(setup::Args),
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_reported() {
                eprintln!("xtask: error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Generate(args) => generate::main(&args),
        Task::Test(args) => test::main(&args),
        Task::RunTest(args) => test::binary::main(&args),
        Task::Oracle(args) => oracle::main(&args),
        Task::Python(args) => python::main(&args),
        Task::Shaders(args) => shaders::main(&args),
        Task::Drivers => drivers::main(),
        Task::Ops(args) => ops::main(&args),
        Task::Bench(args) => bench::main(&args),
        Task::Figures(args) => figures::main(&args),
        Task::Record(args) => record::main(&args.rest),
        Task::Tidy => tidy::main(),
        Task::Ci => ci::main(),
        Task::Model => model::main(),
        Task::Setup(args) => setup::main(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// A command line behind `cargo xtask`.
    fn parse(args: &[&str]) -> std::result::Result<Task, String> {
        let parsed = Args::try_parse_from(["cargo xtask"].iter().chain(args));
        parsed.map(|args| args.task).map_err(|error| error.to_string())
    }

    #[test]
    fn the_commands_are_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn unknown_commands_and_options_are_refused() {
        assert!(parse(&["tset"]).unwrap_err().contains("tset"));
        assert!(parse(&["shaders", "--chekc"]).unwrap_err().contains("--check"));
        assert!(parse(&["oracle", "--seeds", "many"]).unwrap_err().contains("many"));
        assert!(parse(&["test", "--leg", "nightly"]).unwrap_err().contains("discrete"));
        assert!(parse(&["setup", "shader"]).unwrap_err().contains("shader-macros"));
        assert!(parse(&["bench", "speed"]).unwrap_err().contains("dispatch"));
    }

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn own_options_of_test_are_taken_and_the_rest_is_passed_on() {
        let line = ["test", "--ops", "--leg", "discrete", "--package", "x", "--", "--ops", "y"];
        let Ok(Task::Test(args)) = parse(&line) else { panic!("not a test") };
        assert!(args.ops);
        assert_eq!(args.leg.as_deref(), Some("discrete"));
        assert_eq!(
            args.split(),
            (&strings(&["--package", "x"])[..], &strings(&["--ops", "y"])[..])
        );
        let Ok(Task::Test(args)) = parse(&["test", "--", "--nocapture"]) else {
            panic!("not a test")
        };
        assert_eq!(args.split(), (&[][..], &strings(&["--nocapture"])[..]));
    }

    #[test]
    fn programs_get_their_arguments_as_they_are() {
        let line = ["bench", "ops", "--json", "--help"];
        let Ok(Task::Bench(args)) = parse(&line) else { panic!("not a bench") };
        assert_eq!(args.rest, line[2..]);
        let line = ["generate", "--prompt", "Hi", "--kv-bits=8", "--help"];
        let Ok(Task::Generate(args)) = parse(&line) else { panic!("not a generate") };
        assert_eq!(args.rest, line[1..]);
    }
}
