//! Results of steps: passed from the step's process to the command, added up, and shown.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::tally::Tally;

/// Result of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub step: String,
    pub tally: Tally,
    pub milliseconds: u64,
    /// Tests that failed and count.
    #[serde(default)]
    pub failed: Vec<String>,
    /// Tests that passed at the second try.
    pub flaky: Vec<String>,
    /// Tests that failed and do not count for now.
    pub quarantined: Vec<String>,
    /// Skipped tests by their reason.
    pub skipped: BTreeMap<String, usize>,
}

impl Verdict {
    /// Returns a failed step without tests, for instance because its process ended early.
    pub fn failure(step: &str) -> Verdict {
        Verdict { step: step.to_owned(), tally: Tally::of_check(false), ..Verdict::default() }
    }

    /// Returns a step that was left out with all its tests.
    pub fn left_out(step: &str, reason: &str) -> Verdict {
        Verdict {
            step: step.to_owned(),
            tally: Tally { skipped: 1, ..Tally::default() },
            skipped: BTreeMap::from([(reason.to_owned(), 1)]),
            ..Verdict::default()
        }
    }
}

/// Adds up tallies.
pub fn sum(verdicts: &[Verdict]) -> Tally {
    let mut sum = Tally::default();
    verdicts.iter().for_each(|verdict| sum.add_assign(verdict.tally));
    sum
}

/// Returns the tests that passed at the second try, with their steps.
pub fn flaky(verdicts: &[Verdict]) -> Vec<String> {
    let named = |verdict: &Verdict| {
        let step = verdict.step.clone();
        verdict.flaky.clone().into_iter().map(move |test| format!("{step}: {test}"))
    };
    verdicts.iter().flat_map(named).collect()
}

/// Returns the skipped tests of all steps by their reason, the most frequent first, one line each.
pub fn reasons_for_skips(verdicts: &[Verdict]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (reason, count) in verdicts.iter().flat_map(|verdict| &verdict.skipped) {
        // Lines after the first are the error of a tool.
        *counts.entry(reason.lines().next().unwrap_or_default()).or_default() += count;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.iter().map(|(reason, count)| format!("{count:4} × {reason}")).collect()
}

/// Returns the table of all steps: step, tests, seconds, skipped with reasons.
pub fn table(verdicts: &[Verdict]) -> String {
    let width = verdicts.iter().map(|it| it.step.len()).max().unwrap_or(0).max("step".len());
    let mut text = format!("{:width$}  {:>6}  {:>8}  skipped\n", "step", "tests", "seconds");
    for verdict in verdicts {
        let Tally { passed, failed, skipped } = verdict.tally;
        let seconds = verdict.milliseconds as f64 / 1000.0;
        let tests = passed + failed + skipped;
        let step = &verdict.step;
        let mut reasons =
            verdict.skipped.iter().map(|(reason, count)| format!("{count} × {reason}"));
        let first = reasons.next().unwrap_or_default();
        text += format!("{step:width$}  {tests:6}  {seconds:8.1}  {first}").trim_end();
        text += "\n";
        for reason in reasons {
            text += &format!("{:width$}  {:6}  {:8}  {reason}\n", "", "", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_of_all_steps_are_added_up_by_reason() {
        let verdict = |skipped: &[(&str, usize)]| Verdict {
            skipped: skipped.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect(),
            ..Verdict::default()
        };
        let verdicts =
            [verdict(&[("a: no disk\nmore", 1), ("no root", 2)]), verdict(&[("no root", 3)])];
        assert_eq!(reasons_for_skips(&verdicts), ["   5 × no root", "   1 × a: no disk"]);
        assert!(reasons_for_skips(&[]).is_empty());
    }

    #[test]
    fn a_table_has_a_line_for_each_step_and_reason() {
        let skipped = [("no root".to_owned(), 2), ("no valgrind".to_owned(), 1)].into();
        let tally = Tally { passed: 4, failed: 0, skipped: 3 };
        let one =
            Verdict { step: "t1".into(), tally, milliseconds: 1500, skipped, ..Verdict::default() };
        let lines = [
            "step   tests   seconds  skipped",
            "t1         7       1.5  2 × no root",
            "                        1 × no valgrind",
            "",
        ];
        assert_eq!(table(&[one]), lines.join("\n"));
    }
}
