//! Counting and printing.

use std::{collections::BTreeSet, fmt::Write};

use mlx::Device;

/// Counts of one family.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) calls: usize,
    /// Runs: each call on one device or both.
    pub(crate) runs: usize,
    pub(crate) equal: usize,
    pub(crate) refused_alike: usize,
    pub(crate) unsupported: usize,
    pub(crate) differences: usize,
}

/// What a whole run found.
#[derive(Default)]
pub(crate) struct Report {
    families: Vec<(String, Counts)>,
    /// Functions that were drawn and are not in the table.
    missing: BTreeSet<String>,
    /// What Vulkan has no kernel for.
    unsupported: BTreeSet<String>,
}

impl Report {
    /// Starts a family: its counts, and the names of what Vulkan has no kernel for.
    pub(crate) fn family(&mut self, name: &str) -> (&mut Counts, &mut BTreeSet<String>) {
        self.families.push((name.to_owned(), Counts::default()));
        let counts = &mut self.families.last_mut().expect("it was just added").1;
        (counts, &mut self.unsupported)
    }

    /// A function that this library does not have.
    pub(crate) fn missing(&mut self, function: &str) {
        self.missing.insert(function.to_owned());
    }

    /// Whether anything differs.
    pub(crate) fn differs(&self) -> bool {
        self.families.iter().any(|(_, counts)| counts.differences > 0)
    }

    /// The table by family, and the functions that are not covered.
    pub(crate) fn table(&self, uncovered: &[String]) -> String {
        let columns =
            ["family", "calls", "runs", "equal", "refused alike", "unsupported", "differences"];
        let mut text = row(columns);
        let mut total = Counts::default();
        for (name, counts) in &self.families {
            text += &counts.row(name);
            total.add(counts);
        }
        text += &total.row("all");
        if !self.unsupported.is_empty() {
            let names = self.unsupported.iter().map(String::as_str).collect::<Vec<_>>();
            let _ = writeln!(text, "\nnot on Vulkan: {}", names.join(", "));
        }
        let names = self.missing.iter().chain(uncovered).map(String::as_str).collect::<Vec<_>>();
        if !names.is_empty() {
            let _ = writeln!(text, "\nnot covered ({}): {}", names.len(), names.join(", "));
        }
        text
    }
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.calls += other.calls;
        self.runs += other.runs;
        self.equal += other.equal;
        self.refused_alike += other.refused_alike;
        self.unsupported += other.unsupported;
        self.differences += other.differences;
    }

    fn row(&self, name: &str) -> String {
        let counts = [self.calls, self.runs, self.equal, self.refused_alike, self.unsupported];
        let [calls, runs, equal, refused, unsupported] = counts.map(|n| n.to_string());
        row([name, &calls, &runs, &equal, &refused, &unsupported, &self.differences.to_string()])
    }
}

fn row([name, rest @ ..]: [&str; 7]) -> String {
    let rest: Vec<String> = rest.iter().map(|text| format!("{text:>14}")).collect();
    format!("{name:<12}{}\n", rest.concat())
}

/// Prints one difference.
pub(crate) fn print_difference(device: Device, what: &str, call: &str) {
    println!("{device:?}: {what}\n    {call}\n");
}
