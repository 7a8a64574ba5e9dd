//! The page of what works where: written from the kept results, never by hand.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::results::{OnMpi, Outcome, Results};
use super::systems::{System, Systems};
use crate::{mpi, project};

const PAGE: &str = "docs/systems.md";

const HEAD: &str = "# What works on which system\n\n\
`cargo xtask fresh --system NAME` makes a bare Debian, sets the project up there, and runs the suites \
of each part with the MPIs of its packages. This page is written by that command from its results. \
*Works*: every test of the part passed that could run. *Partly*: some failed, with the reason below \
the table. *No*: all failed. Tests that could not run are counted as skipped.\n";

/// Writes the page; returns its path.
pub fn write() -> Result<PathBuf> {
    let path = project::root().join(PAGE);
    std::fs::write(&path, page(&Systems::of_checkout()?, &Results::kept()?))
        .with_context(|| format!("writing {PAGE}"))?;
    Ok(path)
}

fn page(systems: &Systems, results: &Results) -> String {
    let mut page = HEAD.to_owned();
    for system in &systems.all {
        if let Some(of_system) = results.0.get(&system.name) {
            section(&mut page, systems, system, of_system);
        }
    }
    page
}

fn section(
    page: &mut String,
    systems: &Systems,
    system: &System,
    results: &BTreeMap<String, OnMpi>,
) {
    let tried: Vec<(&str, &OnMpi)> = system
        .mpis
        .iter()
        .filter_map(|name| results.get(name).map(|on_mpi| (name.as_str(), on_mpi)))
        .collect();
    let _infallible = write!(page, "\n## {}\n\n", system.title);
    let versions = tried.iter().flat_map(|(_, on_mpi)| &on_mpi.versions);
    let versions: BTreeMap<&str, &str> =
        versions.map(|(name, version)| (name.as_str(), version.as_str())).collect();
    let named: Vec<String> =
        versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let _infallible = write!(page, "{}.\n\n| part |", named.join(", "));
    for (name, _) in &tried {
        let _infallible = write!(page, " {} |", title(name));
    }
    let _infallible = writeln!(page, "\n|---|{}", "---|".repeat(tried.len()));
    let mut reasons = Vec::new();
    for part in &systems.parts {
        let cells: Vec<String> = tried
            .iter()
            .map(|(name, on_mpi)| {
                let Some(outcome) = on_mpi.parts.get(&part.name) else { return "".to_owned() };
                if !outcome.failed.is_empty() {
                    let known = systems.reason(&system.name, name, &part.name);
                    let text = known.map_or_else(|| unexplained(outcome), str::to_owned);
                    reasons.push(format!("{}, {}: {text}", part.name, title(name)));
                }
                cell(outcome)
            })
            .collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            let _infallible = writeln!(page, "| {} | {} |", part.name, cells.join(" | "));
        }
    }
    for (place, reason) in reasons.iter().enumerate() {
        let gap = if place == 0 { "\n" } else { "" };
        let _infallible = writeln!(page, "{gap}- {reason}");
    }
}

/// Returns the common name of a packaged MPI.
fn title(name: &str) -> &str {
    match name {
        mpi::DEFAULT => "Open MPI",
        "mpich4" => "MPICH",
        other => other,
    }
}

fn cell(outcome: &Outcome) -> String {
    let skipped: usize = outcome.skipped.values().sum();
    let mut counts = vec![format!("{} passed", outcome.passed)];
    if !outcome.failed.is_empty() {
        counts.push(format!("{} failed", outcome.failed.len()));
    }
    if skipped > 0 {
        counts.push(format!("{skipped} skipped"));
    }
    format!("{} ({}; {})", outcome.word(), counts.join(", "), outcome.day)
}

fn unexplained(outcome: &Outcome) -> String {
    let names: Vec<String> = outcome.failed.iter().map(|name| format!("`{name}`")).collect();
    format!("not explained yet: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_the_checkout_is_that_of_the_kept_results() {
        let expected = page(&Systems::of_checkout().unwrap(), &Results::kept().unwrap());
        let written = std::fs::read_to_string(project::root().join(PAGE)).unwrap();
        assert!(written == expected, "{PAGE} differs: cargo xtask fresh --table");
    }

    #[test]
    fn page_has_a_table_for_each_tried_system() {
        let systems: Systems = toml::from_str(
            "[[system]]\nname = \"a\"\ntitle = \"A 1\"\nsuite = \"a\"\nmpis = [\"openmpi\", \"mpich4\"]\n\
             [[system]]\nname = \"b\"\ntitle = \"B 2\"\nsuite = \"b\"\nmpis = [\"openmpi\"]\n\
             [versions]\nMPICH = \"mpich\"\n\
             [[part]]\nname = \"C\"\nsuites = [\"t c\"]\n[[part]]\nname = \"Slurm\"\nsuites = [\"h s\"]\n\
             [[reason]]\nsystem = \"a\"\nmpi = \"mpich4\"\npart = \"C\"\ntext = \"no spawn\"\n",
        )
        .unwrap();
        let outcome = |passed, failed: &[&str], skipped| Outcome {
            day: "2000-01-02".into(),
            passed,
            failed: failed.iter().map(|it| (*it).to_owned()).collect(),
            skipped: BTreeMap::from([("no root".to_owned(), skipped)]),
        };
        let on_mpi = |parts: Vec<(&str, Outcome)>| OnMpi {
            versions: BTreeMap::from([("MPICH".to_owned(), "4.2".to_owned())]),
            parts: parts.into_iter().map(|(name, it)| (name.to_owned(), it)).collect(),
        };
        let openmpi =
            on_mpi(vec![("C", outcome(3, &[], 2)), ("Slurm", outcome(0, &["one", "two"], 0))]);
        let mpich = on_mpi(vec![("C", outcome(1, &["x"], 0))]);
        let of_a = BTreeMap::from([("openmpi".to_owned(), openmpi), ("mpich4".to_owned(), mpich)]);
        let text = page(&systems, &Results(BTreeMap::from([("a".to_owned(), of_a)])));
        let body = text.strip_prefix(HEAD).unwrap();
        assert_eq!(
            body,
            "\n## A 1\n\nMPICH 4.2.\n\n| part | Open MPI | MPICH |\n|---|---|---|\n\
             | C | works (3 passed, 2 skipped; 2000-01-02) | partly (1 passed, 1 failed; 2000-01-02) |\n\
             | Slurm | no (0 passed, 2 failed; 2000-01-02) |  |\n\n\
             - C, MPICH: no spawn\n- Slurm, Open MPI: not explained yet: `one`, `two`\n"
        );
    }
}
