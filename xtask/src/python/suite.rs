//! Upstream's own tests on this package: a table by file, and each test that fails.

use super::pytest;
use crate::error::{Context, Error, Result};
use crate::paths;
use crate::process;
use roxmltree::Document;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the tests of a file ended.
#[derive(Debug, Default)]
struct Ends {
    passed: usize,
    skipped: usize,
    /// The names of those that failed.
    failed: Vec<String>,
}

/// Runs every test file of `folder` in a process of its own.
///
/// # Errors
/// When a test fails, or a file does not come to its end.
pub(super) fn run(python: &Path, folder: &Path, device: &str, only: &[String]) -> Result<()> {
    let report = paths::target().join("upstream-tests");
    fs::create_dir_all(&report).context(|| format!("cannot make {}", report.display()))?;
    let mut total = Ends::default();
    println!("{:<28}{:>8}{:>8}{:>8}", "file", "passed", "failed", "skipped");
    for file in files(folder, only)? {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let ends = one(python, &file, device, &report.join(format!("{name}.xml")))?;
        println!("{name:<28}{:>8}{:>8}{:>8}", ends.passed, ends.failed.len(), ends.skipped);
        ends.failed.iter().for_each(|test| println!("    {test}"));
        total.passed += ends.passed;
        total.skipped += ends.skipped;
        total.failed.extend(ends.failed);
    }
    println!("{:<28}{:>8}{:>8}{:>8}", "", total.passed, total.failed.len(), total.skipped);
    match total.failed.len() {
        0 => Ok(()),
        failed => Err(Error::new(format!("python: {failed} of upstream's tests fail on {device}"))),
    }
}

/// The test files, or those of them whose names were given.
fn files(folder: &Path, only: &[String]) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let wanted = only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
        name.starts_with("test_") && name.ends_with(".py") && wanted
    });
    files.sort();
    Ok(files)
}

/// Runs a file; what pytest says about each test goes to `report`, what it prints beside it.
fn one(python: &Path, file: &Path, device: &str, report: &Path) -> Result<Ends> {
    let _ = fs::remove_file(report);
    let mut command: Command = pytest(python, device);
    let folder = file.parent().unwrap_or(Path::new("."));
    command.current_dir(folder).arg(file).args(["-q", "--tb=short", "--junit-xml"]).arg(report);
    let output =
        command.output().context(|| format!("cannot start {}", process::shown(&command)))?;
    let printed = report.with_extension("txt");
    fs::write(&printed, [output.stdout, output.stderr].concat())
        .context(|| format!("cannot write {}", printed.display()))?;
    match fs::read_to_string(report) {
        Ok(report) => ends(&report),
        Err(_) => {
            let ended = format!("the process did not end well ({})", output.status);
            Ok(Ends { failed: vec![ended], ..Ends::default() })
        }
    }
}

/// Reads what pytest reports as JUnit's XML: an element for each test, with what went wrong inside.
fn ends(report: &str) -> Result<Ends> {
    let document =
        Document::parse(report).context(|| "pytest's report cannot be read".to_owned())?;
    let mut ends = Ends::default();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let has = |name| case.children().any(|child| child.has_tag_name(name));
        let attribute = |name| case.attribute(name).unwrap_or_default();
        if has("failure") || has("error") {
            ends.failed.push(format!("{}.{}", attribute("classname"), attribute("name")));
        } else if has("skipped") {
            ends.skipped += 1;
        } else {
            ends.passed += 1;
        }
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_how_they_ended() {
        let report = r#"<testsuite>
            <testcase classname="test_ops.Ops" name="test_add" time="0.1"/>
            <testcase classname="test_ops.Ops" name="test_sort"><failure message="x">y</failure></testcase>
            <testcase classname="test_ops.Ops" name="test_gpu"><skipped message="no"/></testcase>
            </testsuite>"#;
        let ends = ends(report).unwrap();
        assert_eq!((ends.passed, ends.skipped), (1, 1));
        assert_eq!(ends.failed, ["test_ops.Ops.test_sort"]);
    }
}
