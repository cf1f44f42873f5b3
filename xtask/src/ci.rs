//! `cargo xtask ci`: what must pass before a change lands.

use crate::error::{Error, Result};
use crate::setup;
use crate::{drivers, oracle, python, shaders, test, tidy};
use std::time::Instant;

/// A step of the run: what it is called and what it does.
type Step = (&'static str, fn() -> Result<()>);

const STEPS: [Step; 7] = [
    ("setup", || setup::main(&setup::Args::default())),
    ("tidy", tidy::main),
    ("shaders --check", || shaders::main(&shaders::Args { check: true })),
    ("test", || test::main(&test::Args::default())),
    ("drivers", drivers::main),
    ("oracle", oracle::ci),
    ("python", python::ci),
];

/// `cargo xtask ci`: every step runs even if one before it failed, so that one run tells everything.
pub(crate) fn main() -> Result<()> {
    let failed: Vec<_> = STEPS.iter().filter(|step| !passes(step)).map(|(name, _)| *name).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!("ci: failed: {}", failed.join(", ")))),
    }
}

fn passes((name, run): &Step) -> bool {
    eprintln!("==> {name}");
    let start = Instant::now();
    let result = run();
    let outcome =
        result.as_ref().map_or_else(|error| format!("FAILED: {error}"), |()| "ok".to_owned());
    eprintln!("==> {name}: {outcome} ({} s)", start.elapsed().as_secs());
    result.is_ok()
}
