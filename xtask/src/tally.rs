//! Adds up the results that test programs print.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tests passed, failed and skipped.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Tally {
    /// Counts a check that is not a test program.
    pub fn of_check(passed: bool) -> Self {
        Tally { passed: usize::from(passed), failed: usize::from(!passed), skipped: 0 }
    }

    /// Returns the sum of all `test result:` lines. A failed program without any such line (a
    /// crash, a build error) counts as one failure, so that no failure is lost.
    pub fn of_output(output: &str, succeeded: bool) -> Self {
        let mut tally = Tally::default();
        for line in output.lines().filter_map(|line| line.trim().strip_prefix("test result: ")) {
            tally += Tally {
                passed: number_before(line, "passed"),
                failed: number_before(line, "failed"),
                skipped: number_before(line, "ignored"),
            };
        }
        let skipped = said_to_be_skipped(output).min(tally.passed);
        tally.passed -= skipped;
        tally.skipped += skipped;
        if !succeeded && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

/// Counts tests that passed after reporting that they cannot run here: the standard runner has no
/// other way to express it. Their output is there with `--show-output`.
fn said_to_be_skipped(output: &str) -> usize {
    reasons_said(output).len()
}

/// Returns the first reason of each of these tests.
fn reasons_said(output: &str) -> Vec<&str> {
    let (mut is_of_success, mut is_counted, mut reasons) = (false, false, Vec::new());
    for line in output.lines() {
        match line {
            "successes:" => is_of_success = true,
            "failures:" => is_of_success = false,
            line if line.starts_with("---- ") => is_counted = false,
            line => {
                let reason =
                    line.strip_prefix("skipped: ").filter(|_| is_of_success && !is_counted);
                is_counted |= reason.is_some();
                reasons.extend(reason);
            }
        }
    }
    reasons
}

/// Counts skipped tests by the given reason.
pub fn reasons_for_skips(output: &str) -> BTreeMap<String, usize> {
    let lines = output.lines().filter_map(|line| line.trim().strip_prefix("test "));
    let of_our_runner = lines.filter_map(|line| Some(line.split_once(" ... ignored")?.1));
    let mut counts = BTreeMap::new();
    for reason in of_our_runner.chain(reasons_said(output)) {
        let reason = match reason.trim_start_matches([':', ',', ' ']) {
            "" => "ignored",
            reason => reason,
        };
        *counts.entry(reason.to_owned()).or_insert(0) += 1;
    }
    counts
}

/// Returns the names of the failed tests.
pub fn failed_tests(output: &str) -> Vec<String> {
    let lines = output.lines().filter_map(|line| line.trim().strip_prefix("test "));
    let mut names: Vec<String> =
        lines.filter_map(|line| Some(line.split_once(" ... FAILED")?.0.to_owned())).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the output of a failed test: from its section by the standard runner, or after the
/// verdict by this project's runner.
pub fn words_of<'a>(output: &'a str, test: &str) -> &'a str {
    let section = format!("---- {test} stdout ----\n");
    let behind = |mark: &str| output.split_once(mark).map(|(_, rest)| rest);
    let verdict = || behind(&format!("test {test} ... FAILED")).map(|rest| cut(rest, "\ntest "));
    behind(&section)
        .map(|rest| cut(cut(rest, "\n---- "), "\nfailures:"))
        .or_else(verdict)
        .unwrap_or("")
        .trim()
}

fn cut<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or(text, |(before, _)| before)
}

fn number_before(line: &str, word: &str) -> usize {
    let mut previous = "";
    for part in line.split([' ', ';', '.']).filter(|part| !part.is_empty()) {
        if part == word {
            return previous.parse().unwrap_or(0);
        }
        previous = part;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_programs_are_summed() {
        let output = "running 3 tests\ntest a ... ok\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s\n\
            test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n";
        assert_eq!(Tally::of_output(output, false), Tally { passed: 13, failed: 2, skipped: 1 });
    }

    #[test]
    fn a_failure_without_a_result_line_is_counted() {
        assert_eq!(
            Tally::of_output("error: could not compile", false),
            Tally { passed: 0, failed: 1, skipped: 0 }
        );
        let aborted = "test result: ok. 4 passed; 0 failed; 0 ignored\nsignal: 6, SIGABRT";
        assert_eq!(Tally::of_output(aborted, false), Tally { passed: 4, failed: 1, skipped: 0 });
    }

    #[test]
    fn a_test_that_talks_about_results_is_not_counted() {
        assert_eq!(Tally::of_output("note: test result: ok. 9 passed", true), Tally::default());
    }

    #[test]
    fn failed_tests_are_named_with_their_words() {
        let usual = "test a::b ... FAILED\ntest c ... ok\n\nfailures:\n\n---- a::b stdout ----\nleft: 1\n\n\
            failures:\n    a::b\n\ntest result: FAILED. 1 passed; 1 failed\n";
        assert_eq!(failed_tests(usual), ["a::b"]);
        assert_eq!(words_of(usual, "a::b"), "left: 1");
        let ours = "test a ... FAILED (0.10 s)\nno ranks\n\ntest b ... ignored: no root\n\ntest result: FAILED.\n";
        assert_eq!(failed_tests(ours), ["a"]);
        assert_eq!(words_of(ours, "a"), "(0.10 s)\nno ranks");
        assert_eq!(words_of("killed", "a"), "");
    }

    #[test]
    fn skipped_tests_are_counted_by_reason() {
        let ours = "test a ... ignored: no root\ntest b ... ignored: no root\ntest c ... ignored\n";
        let expected = [("ignored", 1), ("no root", 2)].map(|(why, n)| (why.to_owned(), n));
        assert_eq!(reasons_for_skips(ours), BTreeMap::from(expected));
        let usual = "successes:\n\n---- a stdout ----\nskipped: no cc\nskipped: no nm\n";
        assert_eq!(reasons_for_skips(usual), BTreeMap::from([("no cc".to_owned(), 1)]));
    }

    #[test]
    fn tests_that_say_they_are_skipped_did_not_pass() {
        let output = "test a ... ok\ntest b ... ok\ntest c ... FAILED\n\nsuccesses:\n\n\
            ---- a stdout ----\nskipped: no cc\nskipped: no nm\n\n---- b stdout ----\nfine\n\n\
            failures:\n\n---- c stdout ----\nskipped: no cc\npanicked\n\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored\n";
        let expected = Tally { passed: 1, failed: 1, skipped: 1 };
        assert_eq!(Tally::of_output(output, false), expected);
    }
}
