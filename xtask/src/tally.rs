//! Adds up what test programs say about themselves.

use std::ops::AddAssign;

/// Tests passed, failed and skipped.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
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
    /// One check that is not a test program.
    pub fn of_check(passed: bool) -> Self {
        Tally { passed: usize::from(passed), failed: usize::from(!passed), skipped: 0 }
    }

    /// How many tests a program left out because it was told to.
    pub fn left_out(output: &str) -> usize {
        let lines = output.lines().filter_map(|line| line.trim().strip_prefix("test result: "));
        lines.map(|line| number_before(line, "filtered")).sum()
    }

    /// The sum of all `test result:` lines. Output without any (a crash, a build error) from a
    /// program that failed counts as one failure, so that no failure is lost from the sum.
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

/// Tests that passed since they found that they cannot be made here, and said so: the usual runner has no
/// other word for it. What they said is there with `--show-output`.
fn said_to_be_skipped(output: &str) -> usize {
    let (mut is_of_success, mut is_counted, mut count) = (false, false, 0);
    for line in output.lines() {
        match line {
            "successes:" => is_of_success = true,
            "failures:" => is_of_success = false,
            line if line.starts_with("---- ") => is_counted = false,
            line if is_of_success && !is_counted && line.starts_with("skipped: ") => {
                is_counted = true;
                count += 1;
            }
            _ => {}
        }
    }
    count
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
    fn what_was_left_out_is_told_from_what_was_ignored() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out\n";
        assert_eq!(Tally::left_out(output), 7);
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
    fn tests_that_say_they_are_skipped_did_not_pass() {
        let output = "test a ... ok\ntest b ... ok\ntest c ... FAILED\n\nsuccesses:\n\n\
            ---- a stdout ----\nskipped: no cc\nskipped: no nm\n\n---- b stdout ----\nfine\n\n\
            failures:\n\n---- c stdout ----\nskipped: no cc\npanicked\n\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored\n";
        let expected = Tally { passed: 1, failed: 1, skipped: 1 };
        assert_eq!(Tally::of_output(output, false), expected);
    }
}
