//! Upstream's own tests on this package: a table by file, and each test that ends otherwise than upstream's.

use super::pytest;
use crate::error::{Context, Error, Result};
use crate::paths;
use crate::process;
use roxmltree::Document;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What loads upstream's binding in place of ours.
const UPSTREAM: &str = "MLX_VULKAN_UPSTREAM";

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Skipped,
    Passed,
    Failed,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            End::Skipped => "skipped",
            End::Passed => "passed",
            End::Failed => "failed",
        }
    }
}

/// How the tests of a file ended, by their names.
type Ends = BTreeMap<String, End>;

/// Whose `mlx.core` is tested.
#[derive(Debug, Clone, Copy)]
enum Binding {
    Ours,
    /// Upstream's, which has the CPU alone.
    Upstream,
}

/// Runs every test file of `folder`, each in a process of its own, and in another one on upstream's binding:
/// a table by file, and under it each test that ends otherwise than upstream's.
///
/// # Errors
/// When a test fails that passes upstream, or a file does not come to its end.
pub(super) fn run(python: &Path, folder: &Path, device: &str, only: &[String]) -> Result<()> {
    let report = paths::target().join("upstream-tests");
    fs::create_dir_all(&report).context(|| format!("cannot make {}", report.display()))?;
    let (mut all, mut upstream) = (Ends::new(), Ends::new());
    println!(
        "{:<24}{:>8}{:>8}{:>8}{:>20}",
        "file", "passed", "failed", "skipped", "passed upstream"
    );
    for file in files(folder, only)? {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let ends = one(python, &file, device, Binding::Ours, &report.join(format!("{name}.xml")))?;
        let of_upstream = report.join(format!("{name}.upstream.xml"));
        let expected = one(python, &file, "cpu", Binding::Upstream, &of_upstream)?;
        println!("{}", row(&name, &ends, &expected));
        differences(&ends, &expected).for_each(|difference| println!("    {difference}"));
        all.extend(ends);
        upstream.extend(expected);
    }
    println!("{}", row("", &all, &upstream));
    match lost(&all, &upstream) {
        0 => Ok(()),
        lost => {
            let message = format!("python: {lost} tests that upstream passes fail on {device}");
            Err(Error::new(format!("{message} (see {})", paths::shown(&report))))
        }
    }
}

/// A line of the table.
fn row(name: &str, ends: &Ends, upstream: &Ends) -> String {
    let count = |ends: &Ends, wanted| ends.values().filter(|&&end| end == wanted).count();
    let [passed, failed, skipped] =
        [End::Passed, End::Failed, End::Skipped].map(|end| count(ends, end));
    format!("{name:<24}{passed:>8}{failed:>8}{skipped:>8}{:>20}", count(upstream, End::Passed))
}

/// What ends otherwise than upstream, or is there on one side alone.
fn differences<'a>(ends: &'a Ends, upstream: &'a Ends) -> impl Iterator<Item = String> + 'a {
    let tests: BTreeSet<&String> = ends.keys().chain(upstream.keys()).collect();
    let shown = |end: Option<&End>| end.map_or("not there", |end| end.word());
    tests.into_iter().filter_map(move |test| {
        let (own, other) = (ends.get(test), upstream.get(test));
        (own != other).then(|| format!("{test}: {}, upstream {}", shown(own), shown(other)))
    })
}

/// Tests that upstream passes and that fail here, and files that did not come to their end here.
fn lost(ends: &Ends, upstream: &Ends) -> usize {
    let failed = ends.iter().filter(|&(_, &end)| end == End::Failed);
    failed.filter(|(test, _)| upstream.get(*test).is_none_or(|&end| end == End::Passed)).count()
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
fn one(python: &Path, file: &Path, device: &str, binding: Binding, report: &Path) -> Result<Ends> {
    let printed = report.with_extension("txt");
    let _ = fs::remove_file(report);
    let mut command: Command = pytest(python, device);
    match binding {
        Binding::Ours => command.env_remove(UPSTREAM),
        Binding::Upstream => command.env(UPSTREAM, "1"),
    };
    let plugins = paths::root().join("xtask/src/python");
    command.env("PYTHONPATH", plugins).args(["-p", "seeds"]);
    let folder = file.parent().unwrap_or(Path::new("."));
    command.current_dir(folder).arg(file).args(["-q", "--tb=short", "--junit-xml"]).arg(report);
    let output =
        command.output().context(|| format!("cannot start {}", process::shown(&command)))?;
    fs::write(&printed, [output.stdout, output.stderr].concat())
        .context(|| format!("cannot write {}", printed.display()))?;
    match fs::read_to_string(report) {
        Ok(report) => ends(&report),
        Err(_) => {
            let ended = format!("{} did not end well ({})", file.display(), output.status);
            Ok(Ends::from([(ended, End::Failed)]))
        }
    }
}

/// Reads what pytest reports as JUnit's XML: an element for each test, with what went wrong inside. Of
/// several with one name, which parts of a test have, the worst end counts.
fn ends(report: &str) -> Result<Ends> {
    let document =
        Document::parse(report).context(|| "pytest's report cannot be read".to_owned())?;
    let mut ends = Ends::new();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let has = |name| case.children().any(|child| child.has_tag_name(name));
        let attribute = |name| case.attribute(name).unwrap_or_default();
        let end = match () {
            () if has("failure") || has("error") => End::Failed,
            () if has("skipped") => End::Skipped,
            () => End::Passed,
        };
        let test = format!("{}.{}", attribute("classname"), attribute("name"));
        let worst = ends.entry(test).or_insert(end);
        *worst = end.max(*worst);
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_compared_by_how_they_ended() {
        let report = r#"<testsuite>
            <testcase classname="test_ops.Ops" name="test_add" time="0.1"/>
            <testcase classname="test_ops.Ops" name="test_sort"><failure message="x">y</failure></testcase>
            <testcase classname="test_ops.Ops" name="test_sort"/>
            <testcase classname="test_ops.Ops" name="test_gpu"><skipped message="no"/></testcase>
            </testsuite>"#;
        let ours = ends(report).unwrap();
        assert_eq!(
            row("test_ops", &ours, &ours).split_whitespace().skip(1).collect::<Vec<_>>(),
            ["1"; 4]
        );
        assert_eq!((differences(&ours, &ours).count(), lost(&ours, &ours)), (0, 0));
        let upstream = ends(&report.replace("failure", "system-out")).unwrap();
        let sort = "test_ops.Ops.test_sort: failed, upstream passed";
        assert_eq!(differences(&ours, &upstream).collect::<Vec<_>>(), [sort]);
        assert_eq!((lost(&ours, &upstream), lost(&upstream, &ours)), (1, 0));
        assert_eq!(lost(&ours, &Ends::new()), 1);
    }
}
