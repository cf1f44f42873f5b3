//! Putting what a benchmark printed into the data.

use super::data::{Figure, Figures};
use crate::error::{Context, Error, Result};
use crate::paths;
use crate::process;
use serde_json::Value;
use std::process::Command;

/// One run of a benchmark with `--json`.
pub(crate) struct Run {
    /// The id of the machine.
    machine: String,
    /// What was typed, without `--json`.
    command: String,
    /// The day it was run.
    date: String,
    /// The commit that was run.
    commit: String,
    printed: Value,
}

impl Run {
    /// A run that was made today with the code that is checked out. `under` is what was typed before
    /// the command: variables, or a program that starts it.
    ///
    /// # Errors
    /// When `printed` is not the JSON of a benchmark.
    pub(crate) fn parse(printed: &str, machine: &str, under: &str) -> Result<Self> {
        let printed: Value =
            serde_json::from_str(printed).context(|| "cannot use what was printed".into())?;
        let command = printed["command"].as_str();
        let command = command.ok_or_else(|| Error::new("no \"command\" in what was printed"))?;
        let command = format!("{under} {command}").trim_start().to_owned();
        let mut git = Command::new("git");
        git.args(["rev-parse", "--short=7", "HEAD"]).current_dir(paths::root());
        let head = process::capture(&mut git)?;
        let commit = String::from_utf8_lossy(&head).trim().to_owned();
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        Ok(Run { machine: machine.to_owned(), command, date, commit, printed })
    }
}

/// Gives the figures of a run their new values; returns their ids.
///
/// # Errors
/// When the data has no such machine, or no figure of such a run, or when a value is not where it
/// should be. Nothing has changed then.
pub(super) fn merge(figures: &mut Figures, run: &Run) -> Result<Vec<String>> {
    let Run { machine, command, .. } = run;
    if figures.machine(machine).is_none() {
        return Err(Error::new(format!("figures: no machine {machine:?} in docs/figures.json")));
    }
    let of_run = |f: &Figure| f.machine == *machine && f.command == *command && f.read.is_some();
    let mut updated = Vec::new();
    for (at, figure) in figures.figures.iter().enumerate().filter(|(_, figure)| of_run(figure)) {
        updated.push((at, update(figure, run)?));
    }
    if updated.is_empty() {
        let error = format!("figures: none of docs/figures.json is of `{command}` on {machine}");
        return Err(Error::new(error));
    }
    let ids = updated.iter().map(|(_, figure)| figure.id.clone()).collect();
    for (at, figure) in updated {
        figures.figures[at] = figure;
    }
    Ok(ids)
}

/// The figure with the values of a run. A note of an earlier run does not apply to it.
fn update(figure: &Figure, run: &Run) -> Result<Figure> {
    let read = figure.read.as_deref().unwrap_or_default();
    let number = |pointer: &str| run.printed.pointer(pointer).and_then(Value::as_f64);
    let value = number(read).ok_or_else(|| {
        Error::new(format!("figures: no number at {read:?} in what `{}` printed", run.command))
    })?;
    // `mlx-vulkan bench` gives a rate its deviation.
    let spread = read.strip_suffix("/tps").and_then(|test| number(&format!("{test}/stddev")));
    Ok(Figure {
        value: rounded(value, decimals(value)),
        spread: spread.map(|spread| rounded(spread, decimals(value))),
        date: run.date.clone(),
        commit: Some(run.commit.clone()),
        note: None,
        ..figure.clone()
    })
}

/// Digits behind the point that leave four significant ones, or all before it.
fn decimals(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() {
        0
    } else {
        (3 - value.abs().log10().floor() as i32).max(0)
    }
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let unit = 10f64.powi(decimals);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let text = r#"{
            "machines": [{"id": "m", "name": "M", "about": "a machine"}],
            "figures": [{
                "id": "pp", "section": "s", "what": "pp512", "machine": "m", "value": 1,
                "unit": "tokens/s",
                "command": "taskset 3 bench -p 512", "read": "/results/0/tps",
                "date": "2026-11-01", "note": "old"
            }]
        }"#;
        serde_json::from_str(text).unwrap()
    }

    fn run(machine: &str, under: &str) -> Run {
        let printed =
            r#"{"command": "bench -p 512", "results": [{"tps": 570.6449, "stddev": 1.23456}]}"#;
        let command = format!("{under} bench -p 512");
        let printed = serde_json::from_str(printed).unwrap();
        let (date, commit) = ("2026-11-23".to_owned(), "abc".to_owned());
        Run { machine: machine.to_owned(), command, date, commit, printed }
    }

    #[test]
    fn a_run_replaces_value_deviation_date_and_commit() {
        let mut figures = figures();
        assert_eq!(merge(&mut figures, &run("m", "taskset 3")).unwrap(), ["pp"]);
        let figure = &figures.figures[0];
        assert_eq!((figure.value, figure.spread), (570.6, Some(1.2)));
        assert_eq!((figure.date.as_str(), figure.commit.as_deref()), ("2026-11-23", Some("abc")));
        assert_eq!(figure.note, None);
    }

    #[test]
    fn runs_of_other_machines_and_commands_are_refused() {
        let error = merge(&mut figures(), &run("other", "taskset 3")).unwrap_err().to_string();
        assert!(error.contains("no machine \"other\""), "{error}");
        let error = merge(&mut figures(), &run("m", "nice")).unwrap_err().to_string();
        assert!(error.contains("`nice bench -p 512` on m"), "{error}");
    }

    #[test]
    fn a_value_that_is_missing_changes_nothing() {
        let mut figures = figures();
        figures.figures[0].read = Some("/results/1/tps".to_owned());
        let error = merge(&mut figures, &run("m", "taskset 3")).unwrap_err().to_string();
        assert!(error.contains("/results/1/tps"), "{error}");
        assert_eq!(figures.figures[0].value, 1.0);
    }

    #[test]
    fn values_keep_four_digits() {
        let digits = |value| rounded(value, decimals(value));
        assert_eq!([89062.4, 570.64, 1.2345, 0.0].map(digits), [89062.0, 570.6, 1.235, 0.0]);
    }
}
