//! Counting tests from what the test harness prints.
//!
//! cargo-nextest would count for us. But it starts a process for every test, and each opens the Vulkan
//! device again: 25 tests of operations take 2.5 s of CPU time instead of 1.0. CI would compile it for
//! minutes, and it runs no documentation tests.

/// How many tests ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Those that passed.
    pub(super) passed: u64,
    /// Those that failed.
    pub(super) failed: u64,
    /// Those that were left out.
    pub(super) ignored: u64,
}

impl Counts {
    /// Adds those of another test binary.
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Reads a closing line of the test harness: `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    pub(super) fn of_line(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| {
            let part = counts.split("; ").find_map(|part| part.strip_suffix(what))?;
            part.trim().parse().ok()
        };
        Some(Self {
            passed: count(" passed")?,
            failed: count(" failed")?,
            ignored: count(" ignored")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_the_harness_are_counted() {
        let line = "test result: FAILED. 18 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; \
                    finished in 0.00s";
        assert_eq!(Counts::of_line(line), Some(Counts { passed: 18, failed: 2, ignored: 1 }));
        assert_eq!(Counts::of_line("test result_is_shown ... ok"), None);
    }
}
