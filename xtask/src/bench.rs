//! `cargo xtask bench`: what building, evaluating, encoding and dispatching cost.

use crate::error::{Error, Result};
use crate::generate;
use crate::process;
use crate::setup::{self, component::Purpose};

/// The benchmarks and the examples of `mlx-tests` that they are.
const BENCHMARKS: [(&str, &str); 2] = [("dispatch", "bench_dispatch"), ("ops", "bench_ops")];

/// `cargo xtask bench NAME [ARGUMENT…]`: the arguments go to the benchmark.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let (name, rest) = args.split_first().ok_or_else(|| unknown(""))?;
    let example = example(name)?;
    setup::ensure(&[Purpose::Run])?;
    let mut command =
        process::cargo(["run", "--release", "--package", "mlx-tests", "--example", example, "--"]);
    generate::allow_software(command.args(rest));
    process::hand_over(&mut command)
}

fn example(name: &str) -> Result<&'static str> {
    let found = BENCHMARKS.iter().find(|(known, _)| *known == name);
    found.map(|(_, example)| *example).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Error {
    let known = BENCHMARKS.map(|(known, _)| known).join(", ");
    Error::new(format!("bench: no benchmark {name:?}; there are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_benchmarks_are_refused_with_the_known_ones() {
        assert_eq!(example("dispatch").unwrap(), "bench_dispatch");
        assert!(main(&[]).unwrap_err().to_string().contains("dispatch"));
        assert!(example("speed").unwrap_err().to_string().contains("\"speed\""));
    }
}
