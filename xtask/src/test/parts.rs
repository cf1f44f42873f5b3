//! A test binary in several processes at a time, a module of its tests in each.

use super::binary::outcome;
use crate::error::Result;
use crate::process;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Options after which the binary does not simply run all tests that it lists.
const OTHERWISE: [&str; 3] = ["--exact", "--list", "--help"];

/// Whether a binary that is given `arguments` can run in parts.
pub(super) fn apply_to(arguments: &[OsString]) -> bool {
    !arguments.iter().any(|argument| OTHERWISE.iter().any(|other| argument == other))
}

/// Runs what `command` runs, with as many processes at a time as the machine has cores. Each prints when it
/// has ended, so that what it says stays together.
pub(super) fn run(command: &(dyn Fn() -> Command + Sync)) -> Result<()> {
    let listed = process::capture(command().arg("--list"))?;
    let parts = Mutex::new(parts(&String::from_utf8_lossy(&listed)));
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let worker = || {
        let mut result = Ok(());
        while let Some(tests) = next() {
            result = result.and(run_part(command(), &tests));
        }
        result
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        running.into_iter().try_for_each(process::joined)
    })
}

/// Runs these tests alone, and passes on what they print.
fn run_part(mut command: Command, tests: &[String]) -> Result<()> {
    // Filters among the arguments, which chose what was listed, match nothing more now.
    command.arg("--exact").args(tests);
    let status = process::run_beside(&mut command)?;
    outcome(Path::new(command.get_program()), status)
}

/// The tests of each module by their names, from what the test harness lists, the largest module first; a
/// test outside of modules is alone.
fn parts(listed: &str) -> VecDeque<Vec<String>> {
    let mut modules = BTreeMap::<&str, Vec<String>>::new();
    for test in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
        let module = test.split("::").next().unwrap_or(test);
        modules.entry(module).or_default().push(test.to_owned());
    }
    let mut parts: Vec<_> = modules.into_values().collect();
    parts.sort_by_key(|tests| std::cmp::Reverse(tests.len()));
    parts.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_parts_and_the_largest_comes_first() {
        let listed =
            "alone: test\nfft::a: test\nunary::a: test\nunary::b::c: test\n\n4 tests, 0 benchmarks";
        assert_eq!(
            parts(listed),
            [
                vec!["unary::a".to_owned(), "unary::b::c".to_owned()],
                vec!["alone".to_owned()],
                vec!["fft::a".to_owned()],
            ]
        );
        assert!(parts("0 tests, 0 benchmarks").is_empty());
    }

    #[test]
    fn who_names_tests_exactly_gets_one_process() {
        assert!(apply_to(&["--skip".into(), "::cpu::".into()]));
        assert!(!apply_to(&["a::b".into(), "--exact".into()]));
    }
}
