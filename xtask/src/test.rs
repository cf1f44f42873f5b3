//! `cargo xtask test`: the whole suite, in several legs.

pub(crate) mod binary;
mod counts;
mod parts;

use crate::error::{Context, Error, Result};
use crate::model;
use crate::process;
use crate::setup::{self, component::Purpose};
use binary::Share;
use counts::Counts;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One pass over the suite, or over a part of it.
struct Leg {
    name: &'static str,
    /// What `cargo test` is given to choose the tests.
    selection: &'static [&'static str],
    /// Whether it tries the kernels where Vulkan is a software device and all legs run.
    kernels: bool,
    /// What the test binaries are given to leave out.
    left_out: &'static [&'static str],
    /// What is set in the environment beside [`COMMON`].
    environment: &'static [&'static [(&'static str, &'static str)]],
}

/// The packages whose tests use the Vulkan backend. The last one has none: cargo chooses features for the
/// packages that it is given, and with this one they are those of the whole workspace, so that nothing is
/// built anew.
const VULKAN_TESTS: &[&str] =
    &["--package", "mlx-tests", "--package", "mlx-vulkan-vk", "--package", "mlx-vulkan-python"];

/// Tests of the CPU backend: the first leg has them.
const CPU_TESTS: &[&str] = &["--skip", "::cpu::"];

/// What `--ops` chooses instead of a leg's own selection.
const OPERATION_TESTS: &[&str] = &["--package", "mlx-tests", "--test", "ops"];

/// What it gives the tests besides: the one of the support table says how many entries it called.
const OPERATION_OUTPUT: &[&str] = &["--show-output"];

const LEGS: [Leg; 2] = [
    // Everything on memory that CPU and GPU share, with the documentation's examples. What lavapipe compiles
    // for the kernels' own tests takes most of the time of all legs, so one of them has these.
    Leg {
        name: "unified",
        selection: &["--workspace"],
        kernels: false,
        left_out: &[],
        environment: &[],
    },
    // Core validation is the layer's default; synchronization must be asked for. Neither follows addresses:
    // guards around every allocation show what writes outside of its output. On a discrete device the layers
    // see more, uploads and read-backs, than on a unified one.
    Leg {
        name: "discrete",
        selection: VULKAN_TESTS,
        kernels: true,
        left_out: CPU_TESTS,
        environment: &[DISCRETE, VALIDATION],
    },
];

/// What makes the device at hand behave as a discrete GPU, which CI does not have. It also sorts as devices
/// do whose subgroups have no votes.
const DISCRETE: &[(&str, &str)] =
    &[("MLX_VK_FORCE_DISCRETE", "1"), ("MLX_VK_ENABLE_SORT_VOTES", "0")];

/// What turns the validation layers and the guards on.
pub(crate) const VALIDATION: &[(&str, &str)] = &[
    ("MLX_TEST_DEVICE", "gpu"),
    ("MLX_VK_VALIDATION", "1"),
    ("MLX_VK_DEBUG_GUARD", "1"),
    ("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation"),
    ("VK_LAYER_ENABLES", "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"),
];

/// What every leg runs with.
const COMMON: [(&str, &str); 1] = [
    // The machine that runs the tests may well have no GPU.
    ("MLX_VK_ALLOW_SOFTWARE", "1"),
];

/// What every leg runs with unless the caller has set it: lavapipe without worker threads runs the tiny
/// dispatches of unit tests twenty times as fast, and the tests themselves keep the cores busy.
pub(crate) const DEFAULTS: [(&str, &str); 1] = [("LP_NUM_THREADS", "0")];

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Args {
    /// Only the tests of operations
    #[arg(long)]
    pub(crate) ops: bool,
    /// One leg instead of all
    #[arg(long, value_name = "NAME", value_parser = LEGS.map(|leg| leg.name))]
    pub(crate) leg: Option<String>,
    /// Arguments of `cargo test`
    #[arg(allow_hyphen_values = true)]
    of_cargo: Vec<String>,
    /// Arguments of the test binaries
    #[arg(last = true)]
    of_tests: Vec<String>,
}

impl Args {
    /// What is for `cargo test`, and what behind `--` is for the test binaries. Behind an argument for cargo,
    /// clap takes `--` for another one.
    pub(crate) fn split(&self) -> (&[String], &[String]) {
        match self.of_cargo.iter().position(|arg| arg == "--") {
            Some(at) => (&self.of_cargo[..at], &self.of_cargo[at + 1..]),
            None => (&self.of_cargo, &self.of_tests),
        }
    }

    /// Whether cargo is asked for a part of the tests, which runs alone.
    fn is_narrowed(&self) -> bool {
        self.ops || !self.of_cargo.is_empty()
    }
}

/// What a cargo is given to leave the documentation's tests to the other.
const BINARIES: [&str; 1] = ["--tests"];

/// `cargo xtask test [--ops] [--leg NAME] [ARGUMENT…] [-- ARGUMENT…]`.
pub(crate) fn main(args: &Args) -> Result<()> {
    setup::ensure(&[Purpose::Run, Purpose::Validation])?;
    let model = model::fetch(&mlx_fetch::SMOLLM2)?;
    model::fetch(&mlx_fetch::DIGITS)?;
    let legs = LEGS.iter().filter(|leg| args.leg.as_ref().is_none_or(|name| name == leg.name));
    let outcomes = legs.map(|leg| run(leg, args, &model)).collect::<Result<Vec<_>>>()?;
    summarize(&outcomes)
}

/// How a leg ended.
struct Outcome {
    leg: &'static str,
    counts: Counts,
    succeeded: bool,
    time: Duration,
}

fn run(leg: &Leg, args: &Args, model: &Path) -> Result<Outcome> {
    eprintln!("==> test leg {}", leg.name);
    let start = Instant::now();
    let (succeeded, counts) = match args.is_narrowed() {
        true => run_counting(&mut command(leg, args, model)?)?,
        false => run_shares(leg, args, model)?,
    };
    Ok(Outcome { leg: leg.name, counts, succeeded, time: start.elapsed() })
}

/// Runs binaries of few and long tests beside the others. What one cargo builds the other finds.
fn run_shares(leg: &Leg, args: &Args, model: &Path) -> Result<(bool, Counts)> {
    let mut others = command(leg, args, model)?;
    others.envs([Share::Others.variable()]);
    if !leg.kernels && args.leg.is_none() {
        others.envs([binary::leave_kernels()]);
    }
    let mut serial = command(
        leg,
        &Args { of_cargo: BINARIES.map(str::to_owned).into(), ..args.clone() },
        model,
    )?;
    serial.envs([Share::Serial.variable()]);
    let (others, serial) = std::thread::scope(|scope| {
        let serial = scope.spawn(|| run_counting(&mut serial));
        let others = run_counting(&mut others);
        (others, process::joined(serial))
    });
    let ((others, mut counts), (serial, more)) = (others?, serial?);
    counts.add(more);
    Ok((others && serial, counts))
}

fn command(leg: &Leg, args: &Args, model: &Path) -> Result<Command> {
    let (selection, output) = match args.ops {
        true => (OPERATION_TESTS, OPERATION_OUTPUT),
        false => (leg.selection, &[][..]),
    };
    // A leg tells all that fails in it, not only the first test binary that does.
    let mut command = process::cargo(["test", "--no-fail-fast"]);
    command.args(binary::through_xtask()?);
    let (of_cargo, of_tests) = args.split();
    command.args(selection).args(of_cargo).arg("--").args(output).args(of_tests).args(leg.left_out);
    process::default_envs(&mut command, &DEFAULTS);
    command.envs(COMMON).envs(leg.environment.iter().copied().flatten().copied());
    command.env("MLX_TEST_MODEL", model);
    Ok(command)
}

/// Passes the output on line by line and adds up the counts in it.
fn run_counting(command: &mut Command) -> Result<(bool, Counts)> {
    process::announce(command);
    let cannot = || "cannot run cargo test".to_owned();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context(cannot)?;
    let mut counts = Counts::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context(cannot)?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            counts.add(Counts::of_line(&line).unwrap_or_default());
        }
    }
    let status = child.wait().context(cannot)?;
    Ok((status.success(), counts))
}

fn summarize(outcomes: &[Outcome]) -> Result<()> {
    let mut total = Counts::default();
    println!();
    for outcome in outcomes {
        total.add(outcome.counts);
        println!("{}", row(outcome));
    }
    println!("\n{} passed, {} failed, {} skipped", total.passed, total.failed, total.ignored);
    let failed: Vec<_> =
        outcomes.iter().filter(|outcome| !outcome.succeeded).map(|outcome| outcome.leg).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!("test: failed in {}", failed.join(", ")))),
    }
}

fn row(outcome: &Outcome) -> String {
    let Counts { passed, failed, ignored } = outcome.counts;
    let verdict = match (outcome.succeeded, failed) {
        (true, _) => "ok",
        // Nothing failed and yet the leg did: something did not compile, or a test binary crashed.
        (false, 0) => "DID NOT FINISH",
        (false, _) => "FAILED",
    };
    let seconds = outcome.time.as_secs();
    format!(
        "{:<12}{passed:>6} passed {failed:>4} failed {ignored:>4} ignored {seconds:>5} s  {verdict}",
        outcome.leg
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_that_fails_without_a_failed_test_says_so() {
        let outcome = Outcome {
            leg: "unified",
            counts: Counts::default(),
            succeeded: false,
            time: Duration::ZERO,
        };
        assert!(row(&outcome).ends_with("DID NOT FINISH"));
    }
}
