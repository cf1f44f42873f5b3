//! `cargo xtask figures`: every speed that the project states, in one file of data and the tables made
//! from it.
//!
//! `docs/figures.json` is written by whoever measures; `docs/figures.md` and the table of README.md are
//! made from it, and `--check`, which `cargo xtask tidy` runs, refuses tables that are not what the
//! data says.

mod data;
mod merge;
mod tables;

use crate::error::{Context, Error, Result};
use crate::paths;
use data::Figures;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use merge::Run;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Fail if the tables are not what the data says
    #[arg(long)]
    check: bool,
    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Put what benchmarks printed with --json into the data
    Merge {
        /// The machine's id in docs/figures.json
        #[arg(long)]
        machine: String,
        /// What the benchmark was typed behind: variables, or a program that starts it
        #[arg(long, value_name = "PREFIX", default_value = "")]
        under: String,
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// `cargo xtask figures [--check]`, or `cargo xtask figures merge --machine ID [--under PREFIX] FILE…`.
pub(crate) fn main(args: &Args) -> Result<()> {
    match &args.task {
        Some(Task::Merge { machine, under, files }) => {
            let merge = |file: &PathBuf| record(&Run::parse(&read(file)?, machine, under)?);
            files.iter().try_for_each(merge)
        }
        None if args.check => check(),
        None => write(&Figures::read(&data_file())?),
    }
}

/// Fails when a table is not what the data says.
///
/// # Errors
/// When a file cannot be read, or is stale.
pub(crate) fn check() -> Result<()> {
    let figures = Figures::read(&data_file())?;
    for (path, text) in documents(&figures)? {
        if read(&path)? != text {
            let path = paths::shown(&path);
            return Err(Error::new(format!("{path} is stale: run `cargo xtask figures`")));
        }
    }
    Ok(())
}

/// Puts what a benchmark printed with `--json` into the data, and writes the tables anew.
///
/// # Errors
/// When the run fits no figure, or a file cannot be read or written.
pub(crate) fn record(run: &Run) -> Result<()> {
    let mut figures = Figures::read(&data_file())?;
    let changed = merge::merge(&mut figures, run)?;
    figures.write(&data_file())?;
    write(&figures)?;
    changed.iter().for_each(|id| println!("{id}"));
    Ok(())
}

fn write(figures: &Figures) -> Result<()> {
    for (path, text) in documents(figures)? {
        fs::write(&path, text).context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The files that hold tables, and what they should say.
fn documents(figures: &Figures) -> Result<[(PathBuf, String); 2]> {
    let readme = paths::root().join("README.md");
    let text = tables::insert(&read(&readme)?, &tables::peers(figures))?;
    Ok([(paths::root().join("docs/figures.md"), tables::all(figures)), (readme, text)])
}

fn data_file() -> PathBuf {
    paths::root().join("docs/figures.json")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_figures_name_known_machines_have_ids_of_their_own_and_fit_their_lines() {
        let figures = Figures::read(&data_file()).unwrap();
        for figure in &figures.figures {
            assert!(figures.machine(&figure.machine).is_some(), "{}", figure.id);
            let same = figures.figures.iter().filter(|other| other.id == figure.id);
            assert_eq!(same.count(), 1, "{}", figure.id);
        }
        for line in tables::all(&figures).lines() {
            assert!(line.chars().count() <= tables::COLUMNS, "{line}");
        }
    }
}
