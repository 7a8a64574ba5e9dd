//! Results of the parts on each system and MPI, kept between runs in a file of the checkout.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::systems::Part;
use crate::project;
use crate::test::Verdict;

const FILE: &str = "tests/systems.json";

/// All results, by system and MPI.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results(pub BTreeMap<String, BTreeMap<String, OnMpi>>);

/// Results on one MPI of one system.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnMpi {
    /// Versions of packages, by the shown name.
    pub versions: BTreeMap<String, String>,
    /// Outcomes by the name of the part.
    pub parts: BTreeMap<String, Outcome>,
}

/// Outcome of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The day of the run, as `2000-12-31`.
    pub day: String,
    pub passed: usize,
    /// Failed tests, and suites that ended without naming one.
    pub failed: Vec<String>,
    /// Skipped tests by their reason.
    pub skipped: BTreeMap<String, usize>,
}

impl Outcome {
    /// Adds up the verdicts of a part's suites; returns `None` if none of them ran.
    pub fn of(part: &Part, verdicts: &[Verdict], day: &str) -> Option<Outcome> {
        let mut outcome = Outcome { day: day.to_owned(), ..Outcome::default() };
        let is_of_part = |verdict: &&Verdict| {
            let step = verdict.step.split_once(": ").map_or(verdict.step.as_str(), |(_, it)| it);
            part.suites.iter().any(|suite| suite == step)
        };
        let mut verdicts = verdicts.iter().filter(is_of_part).peekable();
        verdicts.peek()?;
        for verdict in verdicts {
            outcome.passed += verdict.tally.passed;
            outcome.failed.extend(verdict.failed.iter().cloned());
            if verdict.tally.failed > verdict.failed.len() {
                outcome.failed.push(verdict.step.clone());
            }
            for (reason, count) in &verdict.skipped {
                let first = reason.lines().next().unwrap_or_default();
                *outcome.skipped.entry(first.to_owned()).or_default() += count;
            }
        }
        Some(outcome)
    }

    /// Returns the word for the table.
    pub fn word(&self) -> &'static str {
        match (self.passed, self.failed.len()) {
            (0, 0) => "not tried",
            (_, 0) => "works",
            (0, _) => "no",
            _ => "partly",
        }
    }
}

impl Results {
    /// Reads the kept results; empty without a file.
    pub fn kept() -> Result<Results> {
        let path = Self::file();
        if !path.exists() {
            return Ok(Results::default());
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {FILE}"))?;
        serde_json::from_str(&text).with_context(|| format!("reading {FILE}"))
    }

    pub fn keep(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(Self::file(), text).with_context(|| format!("writing {FILE}"))
    }

    fn file() -> PathBuf {
        project::root().join(FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    fn verdict(step: &str, passed: usize, failed: &[&str]) -> Verdict {
        Verdict {
            step: step.to_owned(),
            tally: Tally { passed, failed: failed.len(), skipped: 0 },
            failed: failed.iter().map(|name| (*name).to_owned()).collect(),
            ..Verdict::default()
        }
    }

    #[test]
    fn suites_of_a_part_add_up_to_one_word() {
        let part = Part { name: "C".into(), suites: vec!["t a".into(), "t b".into()] };
        let of = |verdicts: &[Verdict]| Outcome::of(&part, verdicts, "2000-01-01");
        assert_eq!(of(&[verdict("t c", 1, &[])]), None);
        let both = of(&[verdict("t a", 1, &[]), verdict("t b", 2, &[])]).unwrap();
        assert_eq!((both.passed, both.word()), (3, "works"));
        let partly = of(&[verdict("mpich4: t a", 1, &["x"])]).unwrap();
        assert_eq!((partly.failed.as_slice(), partly.word()), (&["x".to_owned()][..], "partly"));
        assert_eq!(of(&[verdict("t a", 0, &["x"])]).unwrap().word(), "no");
        assert_eq!(of(&[Verdict::left_out("t a", "no disk")]).unwrap().word(), "not tried");
    }

    #[test]
    fn failure_without_a_named_test_is_the_suites() {
        let part = Part { name: "C".into(), suites: vec!["t a".into()] };
        let outcome = Outcome::of(&part, &[Verdict::failure("t a")], "2000-01-01").unwrap();
        assert_eq!((outcome.failed.as_slice(), outcome.word()), (&["t a".to_owned()][..], "no"));
    }
}
