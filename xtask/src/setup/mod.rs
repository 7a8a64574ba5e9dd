//! Prepares a fresh machine: probes, lists the missing things with reasons, installs them, and
//! probes again.

mod fpm;
mod judges;
mod mdbook;
mod needs;
mod plan;
mod probe;
mod python;
mod venv;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{machine, run};
use needs::Need;
use plan::Plan;

const DOWNLOAD_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Prepares the machine so that everything builds and runs. Prints nothing if it already is.
pub fn ensure() -> Result<()> {
    install_missing(needs::BASE).map(drop)
}

/// Prepares the machine, and installs the needs of the test beds. If those are not available, `all`
/// makes it an error; otherwise suites that need them are skipped, with a message here.
pub fn ensure_test_beds(all: bool) -> Result<()> {
    ensure()?;
    bring_test_beds(all, all)
}

/// Installs what tests need, including rare and costly needs if `is_full`; an unavailable need is
/// an error if it `must` be there.
fn bring_test_beds(is_full: bool, must: bool) -> Result<()> {
    let in_full = |bring: fn() -> Result<()>| if is_full { bring() } else { Ok(()) };
    let steps = [
        ("suites that need them", install_missing(needs::TEST_BEDS).map(drop)),
        ("tests of what is shown", install_missing(needs::VIEWERS).map(drop)),
        (OF_PROGRAMS, in_full(|| install_missing(needs::PROGRAMS).map(drop))),
        ("suites on emulated machines", in_full(fetch_kernel)),
        ("tests with fpm", fpm::fetch()),
        ("comparisons of schedulers", in_full(judges::fetch)),
        ("tests in Python", python().map(drop)),
        ("the site of the documentation", in_full(|| mdbook().map(drop))),
    ];
    steps.into_iter().try_for_each(|(tests, outcome)| judge(must, tests, outcome))
}

/// Third-party programs on which the memory profiler is tested.
const OF_PROGRAMS: &str = "programs of others under the memory profiler";

/// Makes an unavailable need of tests an error if `all` of them must run, and otherwise prints
/// which tests are skipped.
fn judge(all: bool, tests: &str, outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if !all => {
            println!("set-up: {error:#}\nset-up: going on; {tests} are skipped");
            Ok(())
        }
        outcome => outcome,
    }
}

/// Installs the needs of `cargo xtask install`.
pub fn ensure_install(fortran: bool) -> Result<()> {
    let unwanted = |need: &Need| *need == Need::Fortran && !fortran;
    let needs: Vec<Need> = needs::INSTALL.iter().copied().filter(|need| !unwanted(need)).collect();
    install_missing(&needs).map(drop)
}

/// Installs the needs of `cargo xtask fresh`.
pub fn ensure_fresh() -> Result<()> {
    install_missing(needs::FRESH).map(drop)
}

/// Returns the program that builds a site of the pages, building it if necessary.
pub fn mdbook() -> Result<PathBuf> {
    mdbook::fetch()
}

/// Returns the Python interpreter with which the Python package is built and checked, fetching it
/// if necessary.
pub fn python() -> Result<PathBuf> {
    install_missing(needs::PYTHON)?;
    python::fetch()
}

/// Installs the packages needed for MPIs that are Python packages.
pub fn ensure_python() -> Result<()> {
    install_missing(needs::PYTHON).map(drop)
}

/// Installs packages that are only installed on explicit request.
pub fn install_packages(packages: &[&str]) -> Result<()> {
    let by_hand = || format!("Debian, Ubuntu:  apt-get install {}", packages.join(" "));
    let (prefix, update_first) = plan::means(probe::machine())
        .map_err(|cause| anyhow::anyhow!("{cause}.\n  {}", by_hand()))?;
    println!("set-up: installing {}", packages.join(" "));
    install(packages, prefix, update_first).with_context(by_hand)
}

/// Runs `cargo xtask setup`, except for further MPIs: installs everything, and prints a message if
/// nothing was missing.
pub fn run() -> Result<()> {
    if probe::missing(needs::BASE).is_empty() && probe::missing(needs::TEST_BEDS).is_empty() {
        println!("set-up: everything is there, nothing to install");
    }
    ensure()?;
    bring_test_beds(true, false)
}

/// Fetches the kernel of emulated machines, which is not installed as a package.
fn fetch_kernel() -> Result<()> {
    if quo_machine::missing().is_some() {
        return Ok(());
    }
    quo_machine::prepare(&machine::cache()?)
}

/// Returns true if something had to be installed.
fn install_missing(needs: &[Need]) -> Result<bool> {
    let missing = probe::missing(needs);
    if missing.is_empty() {
        return Ok(false);
    }
    let machine = probe::machine();
    match plan::plan(&missing, machine) {
        Plan::TellUser { cause } => {
            explain(&missing);
            bail!("cannot install what is missing: {cause}.\n{}", plan::advice(&missing));
        }
        Plan::Install { packages, prefix, update_first } => {
            explain(&missing);
            if machine.asks && !agrees(&packages, &mut io::stdin().lock())? {
                bail!("nothing is installed.\n{}", plan::advice(&missing));
            }
            println!("set-up: installing {}", packages.join(" "));
            install(&packages, prefix, update_first)
                .with_context(|| format!("apt-get failed.\n{}", plan::advice(&missing)))?;
        }
    }
    let still_missing = probe::missing(needs);
    if !still_missing.is_empty() {
        let names: Vec<&str> = still_missing.iter().map(|need| need.name()).collect();
        bail!(
            "apt-get succeeded, but {} cannot be used yet.\n{}",
            names.join(", "),
            plan::advice(&still_missing)
        );
    }
    println!("set-up: complete");
    Ok(true)
}

/// Asks the user, whose answer is a line. The end of the input is a no.
fn agrees(packages: &[&str], answers: &mut dyn BufRead) -> Result<bool> {
    print!("set-up: install {}? [Y/n] ", packages.join(" "));
    io::stdout().flush()?;
    let mut answer = String::new();
    let is_answered = answers.read_line(&mut answer)? > 0;
    Ok(is_answered && matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
}

fn explain(missing: &[Need]) {
    println!("set-up: missing on this machine:");
    for need in missing {
        println!("  {:18}  {}", need.name(), need.reason());
    }
}

fn install(packages: &[&str], prefix: &[&str], update_first: bool) -> Result<()> {
    if update_first {
        apt(prefix, &["update", "--quiet"])?;
    }
    // What is there stays as it is: nothing is upgraded that is not missing, nothing is removed.
    let mut arguments = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
    arguments.extend(["--no-upgrade", "--no-remove"]);
    arguments.extend(packages);
    let outcome = apt(prefix, &arguments);
    if outcome.is_err() && !update_first {
        // Even fresh lists can name a package that was replaced an hour ago.
        apt(prefix, &["update", "--quiet"])?;
        return apt(prefix, &arguments);
    }
    outcome
}

fn apt(prefix: &[&str], arguments: &[&str]) -> Result<()> {
    // `env` goes after sudo, which may drop variables set before it.
    let mut words = prefix.to_vec();
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    words.extend(arguments);
    println!("set-up: {}", words.join(" "));
    run::shown(Command::new(words[0]).args(&words[1..]), DOWNLOAD_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_that_agrees_installs() {
        for (answer, expected) in
            [("\n", true), ("Yes\n", true), ("n\n", false), ("what?\n", false), ("", false)]
        {
            assert_eq!(agrees(&["hwloc"], &mut answer.as_bytes()).unwrap(), expected, "{answer:?}");
        }
    }

    #[test]
    fn missing_tool_fails_only_where_all_tests_are_to_run() {
        let missing = || Err(anyhow::anyhow!("no network"));
        assert!(judge(true, OF_PROGRAMS, missing()).is_err());
        assert!(judge(false, OF_PROGRAMS, missing()).is_ok());
        assert!(judge(true, OF_PROGRAMS, Ok(())).is_ok());
    }
}
