//! Runs the suites of the table's parts on a system, and keeps their results.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::results::{OnMpi, Outcome, Results};
use super::root::{CHECKOUT, Network, Root};
use super::systems::{Part, System};
use super::{LIMIT, folder, packages, table};
use crate::test::Verdict;
use crate::{mpi, run};

/// File with the tests' verdicts, below the checkout.
const VERDICTS: &str = "target/verdicts.json";

/// Runs the suites of these parts on each of the system's MPIs, and writes the table.
pub fn run(
    root: &Root,
    system: &System,
    mpis: &[&str],
    parts: &[&Part],
    versions: &BTreeMap<String, String>,
) -> Result<()> {
    let mut unfinished = Vec::new();
    for mpi in mpis {
        println!("fresh: {} on {}", mpi, system.title);
        let verdicts = verdicts(root, system, mpi, parts)?;
        let day = today()?;
        let mut results = Results::kept()?;
        let kept = results.0.entry(system.name.clone()).or_default();
        let on_mpi: &mut OnMpi = kept.entry((*mpi).to_owned()).or_default();
        on_mpi.versions = packages::versions(&root.packages()?, versions);
        for part in parts {
            let Some(outcome) = Outcome::of(part, &verdicts, &day) else { continue };
            println!("{:16} {}", part.name, outcome.word());
            if !outcome.failed.is_empty() {
                unfinished.push(format!("{mpi}, {}: {}", part.name, outcome.failed.join(", ")));
            }
            on_mpi.parts.insert(part.name.clone(), outcome);
        }
        results.keep()?;
        println!("fresh: {}", table::write()?.display());
    }
    if !unfinished.is_empty() {
        bail!("fresh: failed on {}:\n{}", system.title, unfinished.join("\n"));
    }
    Ok(())
}

fn verdicts(root: &Root, system: &System, mpi: &str, parts: &[&Part]) -> Result<Vec<Verdict>> {
    let is_default = mpi == mpi::DEFAULT;
    let mut words = vec!["cargo", "xtask"];
    if !is_default {
        words.extend(["--mpi", mpi]);
    }
    words.extend(["test", "--json", VERDICTS]);
    let suites = parts.iter().flat_map(|part| &part.suites);
    for suite in suites.filter(|suite| is_default || suite.starts_with("quo-tests ")) {
        words.extend(["--only", suite]);
    }
    let file = root.path().join(CHECKOUT).join(VERDICTS);
    let _absent = std::fs::remove_file(&file);
    let log = folder()?.join(format!("{}-{mpi}.log", system.name));
    println!("fresh: its words go to {}", log.display());
    // A failed test is a result; a run without a verdict is not.
    let finished = run::logged(&mut root.command(&words, Network::Apart)?, &log, LIMIT)?;
    let text = std::fs::read_to_string(&file).with_context(|| {
        let end: Vec<&str> = finished.output.lines().rev().take(20).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        format!("{mpi} on {}: {}\n{}", system.title, finished.ending, end.join("\n"))
    })?;
    let verdicts: Vec<Verdict> =
        serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
    if let Some(build) = verdicts.iter().find(|verdict| is_failed_build(verdict)) {
        bail!("{mpi} on {}: {} failed; see {}", system.title, build.step, log.display());
    }
    Ok(verdicts)
}

/// Returns true for a failed build, after which no suite ran.
fn is_failed_build(verdict: &Verdict) -> bool {
    let step = verdict.step.split_once(": ").map_or(verdict.step.as_str(), |(_, step)| step);
    verdict.tally.failed > 0 && (step == "build" || step.starts_with("build "))
}

/// Returns today's date, as `2000-12-31`.
fn today() -> Result<String> {
    Ok(run::captured(std::process::Command::new("date").arg("+%F"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_build_is_told_from_failed_suites() {
        for (step, is_build) in
            [("build", true), ("mpich4: build tests", true), ("quo-tests cxx", false)]
        {
            assert_eq!(is_failed_build(&Verdict::failure(step)), is_build, "{step}");
            assert!(!is_failed_build(&Verdict::left_out(step, "no root")));
        }
    }
}
