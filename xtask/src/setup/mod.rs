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
use clap::ValueEnum;

use crate::{machine, run};
use needs::Need;
use plan::Plan;

const DOWNLOAD_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Needs of tests, in groups that are installed one after the other: a distribution may lack a
/// package of one.
const OF_TESTS: [&[Need]; 3] = [needs::TEST_BEDS, needs::VIEWERS, needs::PROGRAMS];

/// Groups that the gate needs too.
const OF_GATE: [&[Need]; 2] = [needs::TEST_BEDS, needs::VIEWERS];

/// Tests whose tools are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// `cargo xtask test`
    Gate,
    /// `cargo xtask test --full`, findings, site and packages
    Full,
}

/// A need of tests that is fetched into the build folder.
struct Fetched {
    name: &'static str,
    is_there: fn() -> Result<bool>,
    fetch: fn() -> Result<()>,
    /// True if only the full suite needs it.
    is_of_full: bool,
}

const FETCHED: [Fetched; 6] = [
    Fetched {
        name: "a kernel for emulated machines",
        is_there: || {
            Ok(quo_machine::missing().is_some() || machine::cache()?.join("kernel").exists())
        },
        fetch: fetch_kernel,
        is_of_full: true,
    },
    Fetched { name: "fpm", is_there: fpm::is_there, fetch: fpm::fetch, is_of_full: false },
    Fetched { name: "AccaSim", is_there: judges::is_there, fetch: judges::fetch, is_of_full: true },
    Fetched {
        name: "Perfetto's reader",
        is_there: judges::has_reader,
        fetch: judges::fetch_reader,
        is_of_full: true,
    },
    Fetched {
        name: "Python packages",
        is_there: python::is_there,
        fetch: python::fetch,
        is_of_full: false,
    },
    Fetched {
        name: "mdbook",
        is_there: mdbook::is_there,
        fetch: || mdbook::fetch().map(drop),
        is_of_full: true,
    },
];

/// Prepares the machine so that everything builds and runs. Prints nothing if it already is.
pub fn ensure() -> Result<()> {
    install_missing(needs::BASE)
}

/// Prepares the machine for a build, and names the missing needs of tests and the command that
/// installs them: an error for the full suite; otherwise their tests are skipped.
pub fn ensure_for_tests(is_full: bool) -> Result<()> {
    ensure()?;
    let needs = if is_full { OF_TESTS.concat() } else { OF_GATE.concat() };
    let mut missing: Vec<&str> = probe::missing(&needs).into_iter().map(Need::name).collect();
    for fetched in FETCHED.iter().filter(|fetched| is_full || !fetched.is_of_full) {
        if !(fetched.is_there)()? {
            missing.push(fetched.name);
        }
    }
    judge(is_full, &missing)
}

/// Makes missing needs of tests an error if all tests must run, and otherwise prints them.
fn judge(all: bool, missing: &[&str]) -> Result<()> {
    let missing = match missing {
        [] => return Ok(()),
        some => some.join(", "),
    };
    let remedy = "`cargo xtask setup --tests` installs what can be installed here";
    if all {
        bail!("tests need what is missing: {missing}; {remedy}");
    }
    println!("set-up: missing: {missing}\nset-up: tests that need it are skipped; {remedy}");
    Ok(())
}

/// Installs the needs of `cargo xtask install`.
pub fn ensure_install(fortran: bool) -> Result<()> {
    install_missing(&of_installation(fortran))
}

/// Names everything that `cargo xtask install` needs and lacks. A missing Fortran compiler alone is
/// no error: the library is built without Fortran then.
pub fn check_install(fortran: bool) -> Result<()> {
    let missing = probe::missing(&of_installation(fortran));
    if missing.is_empty() {
        return Ok(());
    }
    explain(&missing);
    if missing == [Need::Fortran] {
        return Ok(());
    }
    bail!("nothing is built.\n{}", plan::advice(&missing))
}

fn of_installation(fortran: bool) -> Vec<Need> {
    let is_wanted = |need: &Need| *need != Need::Fortran || fortran;
    needs::INSTALL.iter().copied().filter(is_wanted).collect()
}

/// Installs the needs of `cargo xtask fresh`.
pub fn ensure_fresh() -> Result<()> {
    install_missing(needs::FRESH)
}

/// Returns the program that builds a site of the pages, building it if necessary.
pub fn mdbook() -> Result<PathBuf> {
    mdbook::fetch()
}

/// Installs the packages needed for MPIs that are Python packages.
pub fn ensure_python() -> Result<()> {
    install_missing(needs::PYTHON)
}

/// Installs packages that are only installed on explicit request.
pub fn install_packages(packages: &[&str]) -> Result<()> {
    let by_hand = || format!("Debian, Ubuntu:  apt-get install {}", packages.join(" "));
    let (prefix, update_first) = plan::means(probe::machine())
        .map_err(|cause| anyhow::anyhow!("{cause}.\n  {}", by_hand()))?;
    println!("set-up: installing {}", packages.join(" "));
    apt_install(packages, prefix, update_first).with_context(by_hand)
}

/// Runs `cargo xtask setup`, except for further MPIs: installs what building and installing need,
/// and what a suite of tests needs. It asks once, before anything is installed or fetched.
pub fn run(suite: Option<Suite>) -> Result<()> {
    let of_tests = match suite {
        None => &[],
        Some(Suite::Gate) => &OF_GATE[..],
        Some(Suite::Full) => &OF_TESTS[..],
    };
    let missing = probe::missing(&[needs::BASE, &of_tests.concat()].concat());
    if missing.is_empty() {
        println!("set-up: every system package is there, nothing to install");
    } else {
        explain(&missing);
        agree(&missing)?;
    }
    install(&probe::missing(needs::BASE))?;
    for needs in of_tests {
        go_on(install(&probe::missing(needs)));
    }
    let is_needed = |fetched: &&Fetched| suite == Some(Suite::Full) || !fetched.is_of_full;
    if suite.is_some() {
        FETCHED.iter().filter(is_needed).for_each(|fetched| go_on((fetched.fetch)()));
    }
    Ok(())
}

/// Prints an error that only makes some tests skip.
fn go_on(outcome: Result<()>) {
    if let Err(error) = outcome {
        println!("set-up: {error:#}\nset-up: going on; tests that need it are skipped");
    }
}

/// Fetches the kernel of emulated machines, which is not installed as a package.
fn fetch_kernel() -> Result<()> {
    if quo_machine::missing().is_some() {
        return Ok(());
    }
    quo_machine::prepare(&machine::cache()?)
}

/// Lists the missing needs, asks, and installs them. Prints nothing if all are there.
fn install_missing(needs: &[Need]) -> Result<()> {
    let missing = probe::missing(needs);
    if missing.is_empty() {
        return Ok(());
    }
    explain(&missing);
    agree(&missing)?;
    install(&missing)
}

/// Asks before these are installed, where this program asks. A no is an error.
fn agree(missing: &[Need]) -> Result<()> {
    let machine = probe::machine();
    if let Plan::Install { packages, .. } = plan::plan(missing, machine)
        && machine.asks
        && !agrees(&packages, &mut io::stdin().lock())?
    {
        bail!("nothing is installed.\n{}", plan::advice(missing));
    }
    Ok(())
}

/// Installs these with apt, and probes again.
fn install(missing: &[Need]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    match plan::plan(missing, probe::machine()) {
        Plan::TellUser { cause } => {
            bail!("cannot install what is missing: {cause}.\n{}", plan::advice(missing))
        }
        Plan::Install { packages, prefix, update_first } => {
            println!("set-up: installing {}", packages.join(" "));
            apt_install(&packages, prefix, update_first)
                .with_context(|| format!("apt-get failed.\n{}", plan::advice(missing)))?;
        }
    }
    let still_missing = probe::missing(missing);
    if !still_missing.is_empty() {
        let names: Vec<&str> = still_missing.iter().map(|need| need.name()).collect();
        bail!(
            "apt-get succeeded, but {} cannot be used yet.\n{}",
            names.join(", "),
            plan::advice(&still_missing)
        );
    }
    println!("set-up: complete");
    Ok(())
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

fn apt_install(packages: &[&str], prefix: &[&str], update_first: bool) -> Result<()> {
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
    fn missing_need_of_tests_fails_only_the_full_suite() {
        let error = judge(true, &["clang++", "fpm"]).unwrap_err().to_string();
        assert!(error.contains("clang++, fpm; `cargo xtask setup --tests`"), "{error}");
        assert!(judge(false, &["clang++"]).is_ok());
        assert!(judge(true, &[]).is_ok());
    }
}
