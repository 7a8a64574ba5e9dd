//! The gate as data: `tests/gate.toml`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::project;

/// The steps of the gate, by the beginnings of their names.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    full_only: Vec<String>,
    not_built: Vec<String>,
    first: Vec<String>,
    second_try: Vec<String>,
    any_mpi: Vec<String>,
    #[serde(default)]
    changed: Vec<Rule>,
}

/// Additions to the gate for changes of some files.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    files: Vec<String>,
    #[serde(default)]
    run: Vec<String>,
    #[serde(default)]
    set: BTreeMap<String, String>,
}

/// Additions of all rules that match a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    pub steps: Vec<String>,
    pub variables: BTreeMap<String, String>,
}

impl Additions {
    /// Returns true if the step is among the additions.
    pub fn has(&self, step: &str) -> bool {
        self.steps.iter().any(|added| added == step)
    }
}

fn begins(names: &[String], step: &str) -> bool {
    names.iter().any(|name| step.starts_with(name.as_str()))
}

impl Gate {
    /// Reads the checkout's file.
    pub fn of_checkout() -> Result<Gate> {
        let path = project::root().join("tests/gate.toml");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// Returns true if the gate runs the step for every change.
    pub fn has(&self, step: &str) -> bool {
        !begins(&self.full_only, step)
    }

    /// Returns the packages that the gate does not build on their own.
    pub fn not_built(&self) -> impl Iterator<Item = &str> {
        self.not_built.iter().map(String::as_str)
    }

    /// Returns true if a failed test of the step is tried once more.
    pub fn tries_twice(&self, step: &str) -> bool {
        begins(&self.second_try, step)
    }

    /// Returns true if a suite concerns all MPIs or none, so that further MPIs leave it out.
    pub fn is_of_any_mpi(&self, suite: &str) -> bool {
        self.any_mpi.iter().any(|name| suite.ends_with(&format!(" {name}")))
    }

    /// Sorts steps: those named in `first`, in that order, then the others in their original order.
    pub fn sort<T>(&self, steps: &mut [T], name: impl Fn(&T) -> &str) {
        let place = |step: &T| self.first.iter().position(|first| name(step).starts_with(first));
        steps.sort_by_key(|step| place(step).unwrap_or(self.first.len()));
    }

    /// Collects the additions for these changed files.
    pub fn additions<'a>(&self, files: impl IntoIterator<Item = &'a str>) -> Additions {
        let files: Vec<&str> = files.into_iter().collect();
        let is_met = |rule: &&Rule| files.iter().any(|file| begins(&rule.files, file));
        let mut additions = Additions::default();
        for rule in self.changed.iter().filter(is_met) {
            additions.steps.extend(rule.run.iter().cloned());
            additions.variables.extend(rule.set.clone());
        }
        additions
    }

    /// Returns the names in the file that match no step, and would have no effect.
    #[cfg(test)]
    pub fn unknown(&self, steps: &[String]) -> Vec<String> {
        let lists = [&self.full_only, &self.first, &self.second_try, &self.any_mpi];
        let runs = self.changed.iter().map(|rule| &rule.run);
        let is_unknown = |name: &&String| {
            !steps
                .iter()
                .any(|step| step.starts_with(name.as_str()) || step.contains(name.as_str()))
        };
        lists.into_iter().chain(runs).flatten().filter(is_unknown).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        toml::from_str(
            r#"
            full_only = ["model", "hosts", "mpi5"]
            not_built = ["model"]
            first = ["long"]
            second_try = ["e2e"]
            any_mpi = ["install"]
            [[changed]]
            files = ["node/"]
            run = ["model library"]
            set = { ROUNDS = "9" }
            [[changed]]
            files = ["mpi/", "node/barrier/"]
            run = ["mpi5: e2e"]
            "#,
        )
        .unwrap()
    }

    #[test]
    fn full_only_steps_are_not_in_the_gate() {
        let gate = gate();
        assert!(gate.has("e2e") && !gate.has("model library") && !gate.has("mpi5: e2e"));
        assert_eq!(gate.not_built().collect::<Vec<_>>(), ["model"]);
    }

    #[test]
    fn changed_files_bring_steps_and_variables_back() {
        let additions = gate().additions(["node/barrier/mod.rs", "README.md"]);
        assert_eq!(additions.steps, ["model library", "mpi5: e2e"]);
        assert_eq!(additions.variables["ROUNDS"], "9");
        assert_eq!(gate().additions(["README.md"]), Additions::default());
    }

    #[test]
    fn long_steps_are_sorted_to_the_front() {
        let mut steps = ["a", "long one", "b"];
        gate().sort(&mut steps, |step| step);
        assert_eq!(steps, ["long one", "a", "b"]);
    }
}
