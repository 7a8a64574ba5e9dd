//! Runs single steps and prints each as it runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::gate::Gate;
use super::oldest_rust;
use super::on_mpi::OnMpi;
use super::quarantine::Quarantine;
use super::sanitizer;
use super::suites::Suite;
use super::verdict::Verdict;
use super::{BUILD, Check, LONG, Work};
use crate::tally::{self, Tally};
use crate::{book, fuzz, headers, mutants, project, rules, run};

const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
const SUITE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Limit of a suite whose processors are emulated, or that has no short form.
const LONG_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Limit of all suites of the table on one system, with their builds.
const SYSTEMS_LIMIT: Duration = Duration::from_secs(6 * 60 * 60);

/// If more tests than this fail in one suite, that is no coincidence, and they are not tried again.
const MOST_TRIED_AGAIN: usize = 5;

/// What is known about tests before they run.
pub struct Report {
    pub gate: Gate,
    pub quarantine: Quarantine,
}

impl Report {
    pub fn of_checkout() -> Result<Report> {
        Ok(Report { gate: Gate::of_checkout()?, quarantine: Quarantine::of_checkout()? })
    }

    /// Runs one check.
    pub fn check(&self, check: &Check) -> Result<Verdict> {
        let step = Step::begin(check.name);
        let is_long = std::env::var_os(LONG).is_some();
        let verdict = match &check.work {
            Work::Rules => {
                let findings = rules::check()?;
                let passed = findings.errors.is_empty();
                let lines = [findings.errors, findings.warnings].concat().join("\n");
                let verdict = step.end(passed, Tally::of_check(passed), &lines);
                if passed && !lines.is_empty() {
                    println!("{lines}");
                }
                verdict
            }
            Work::Fuzz => match fuzz::test(&log_of(check.name)?, is_long) {
                Ok((tally, report)) => step.end(tally.failed == 0, tally, &report),
                Err(error) => step.end(false, Tally::of_check(false), &format!("{error:#}")),
            },
            Work::Mutants => match mutants::test() {
                Ok((tally, report)) => step.end(tally.failed == 0, tally, &report),
                Err(error) => step.end(false, Tally::of_check(false), &format!("{error:#}")),
            },
            Work::Threads => {
                let finished = sanitizer::threads(&log_of(check.name)?, BUILD_LIMIT)?;
                let passed = finished.ending.is_success();
                let mut tally = Tally::of_output(&finished.output, passed);
                tally.failed = tally.failed.max(usize::from(!passed || tally.passed == 0));
                step.end(tally.failed == 0, tally, &explained(&finished))
            }
            Work::Book => {
                let outcome = book::check();
                let complaint = outcome.as_ref().err().map(|error| format!("{error:#}"));
                let passed = outcome.is_ok();
                step.end(passed, Tally::of_check(passed), &complaint.unwrap_or_default())
            }
            Work::Systems if !rustix::process::geteuid().is_root() => {
                Verdict::left_out(check.name, "a bare system needs root")
            }
            Work::Systems => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["fresh", "--system", "debian13"]);
                let finished = run::logged(&mut command, &log_of(check.name)?, SYSTEMS_LIMIT)?;
                let passed = finished.ending.is_success();
                step.end(passed, Tally::of_check(passed), &explained(&finished))
            }
            Work::OldestRust => match oldest_rust::check()? {
                Some(cargo) => self.cargo(step, cargo, check.name)?,
                None => Verdict::left_out(check.name, "rustup cannot install the oldest Rust"),
            },
            Work::Headers => {
                let outcome = headers::check();
                let mut tally = Tally::of_check(outcome.is_ok());
                let absent = outcome.as_deref().unwrap_or_default();
                tally.skipped = absent.len();
                let complaint = outcome.as_ref().err().map(ToString::to_string);
                let mut verdict = step.end(outcome.is_ok(), tally, &complaint.unwrap_or_default());
                verdict
                    .skipped
                    .extend(absent.iter().map(|name| (format!("{name} is not here"), 1)));
                verdict
            }
            Work::Cargo(arguments, variables) => {
                let mut command = project::cargo()?;
                command.args(*arguments).envs(variables.iter().copied());
                self.cargo(step, command, check.name)?
            }
            Work::Clippy => {
                let mut command = project::cargo()?;
                command.arg("clippy").args(selection(is_long, &self.gate, &[]));
                command.args(["--", "-Dwarnings"]);
                self.cargo(step, command, check.name)?
            }
        };
        Ok(verdict)
    }

    fn cargo(&self, step: Step, mut command: Command, name: &str) -> Result<Verdict> {
        let is_of_tests = command.get_args().next().is_some_and(|word| word == "test");
        let finished = run::logged(&mut command, &log_of(name)?, BUILD_LIMIT)?;
        let mut passed = finished.ending.is_success();
        let mut tally = Tally::of_check(passed);
        if is_of_tests {
            tally = Tally::of_output(&finished.output, passed);
            // A filter that no longer matches any test's name would always pass.
            passed &= tally.passed > 0;
            tally.failed = tally.failed.max(usize::from(!passed));
        }
        Ok(step.end(passed, tally, &explained(&finished)))
    }

    /// Runs builds one after the other until one fails.
    pub fn build(&self, calls: Vec<(String, Command)>) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        for (name, mut command) in calls {
            let step = Step::begin(&name);
            command.arg("--message-format=json-render-diagnostics");
            let finished = run::logged(&mut command, &log_of(&name)?, BUILD_LIMIT)?;
            let passed = finished.ending.is_success();
            let lines = finished.output.lines().filter(|line| !line.starts_with('{'));
            let said: Vec<&str> = lines.collect();
            let tally = if passed { Tally::default() } else { Tally::of_check(false) };
            verdicts.push(step.end(passed, tally, &said.join("\n")));
            if !passed {
                break;
            }
        }
        Ok(verdicts)
    }

    /// Runs one test program, and its failed tests once more where the gate's data allow it.
    pub fn suite(&self, suite: &Suite, on_mpi: Option<&OnMpi>) -> Result<Verdict> {
        self.suite_with(suite, on_mpi, &BTreeMap::new())
    }

    /// As [`Self::suite`], with further variables.
    pub fn suite_with(
        &self,
        suite: &Suite,
        on_mpi: Option<&OnMpi>,
        variables: &BTreeMap<String, String>,
    ) -> Result<Verdict> {
        let named = |what: &str| on_mpi.map_or(what.to_owned(), |on_mpi| on_mpi.step(what));
        let name = named(&suite.name);
        let shared = on_mpi.is_none_or(|on_mpi| !on_mpi.own_tests);
        let build = if shared { BUILD.to_owned() } else { named("build tests") };
        let log = std::fs::read_to_string(log_of(&build)?)
            .with_context(|| format!("{name}: its build has not run"))?;
        let Some(executable) = suite.executable(&log) else {
            bail!("{}: cargo built no test program for it", suite.name);
        };
        let is_long = std::env::var_os(LONG).is_some() || suite.name.starts_with("quo-machine");
        let limit = if is_long { LONG_LIMIT } else { SUITE_LIMIT };
        let attempt = |tests: &[String], log: &str| -> Result<run::Finished> {
            let mut command = suite.command(&executable);
            command.envs(variables);
            if !tests.is_empty() {
                command.arg("--exact").args(tests);
            }
            if let Some(on_mpi) = on_mpi {
                on_mpi.set_up(&mut command)?;
            }
            // A separate folder for what a killed launcher leaves: PRRTE refuses to start if a
            // process with the same PID has left its files.
            let scratch = tempfile::Builder::new().prefix("quo-").tempdir()?;
            command.env("TMPDIR", scratch.path());
            run::logged(&mut command, &log_of(log)?, limit)
        };
        let step = Step::begin(&name);
        let finished = attempt(&[], &name)?;
        let mut passed = finished.ending.is_success();
        let mut tally = Tally::of_output(&finished.output, passed);
        let mut failed = tally::failed_tests(&finished.output);
        let mut flaky = Vec::new();
        let again = (1..=MOST_TRIED_AGAIN).contains(&failed.len()) && tally.failed == failed.len();
        if !passed && again && self.gate.tries_twice(&name) {
            let second = attempt(&failed, &format!("{name} again"))?;
            let twice = tally::failed_tests(&second.output);
            let ended = second.ending.is_success() || !twice.is_empty();
            // A test that the second try does not mention has not passed.
            let passes = |test: &String| {
                ended
                    && !twice.contains(test)
                    && second.output.contains(&format!("test {test} ... "))
            };
            (flaky, failed) = failed.into_iter().partition(passes);
        }
        let reason = |test: &String| self.quarantine.reason(&name, test);
        let (quarantined, counted): (Vec<String>, Vec<String>) =
            failed.into_iter().partition(|test| reason(test).is_some());
        let failed = counted.clone();
        if !flaky.is_empty() || !quarantined.is_empty() {
            passed = counted.is_empty();
            tally.passed += flaky.len();
            tally.skipped += quarantined.len();
            tally.failed = counted.len();
        }
        let mut verdict = step.end(passed, tally, &explained(&finished));
        for test in &flaky {
            keep_flaky(&name, test, tally::words_of(&finished.output, test))?;
        }
        for test in &quarantined {
            println!("QUARANTINED {name}: {test}: {}", reason(test).unwrap_or_default());
        }
        verdict.skipped = tally::reasons_for_skips(&finished.output);
        verdict.skipped.extend(quarantined.iter().map(|test| (format!("quarantined: {test}"), 1)));
        (verdict.failed, verdict.flaky, verdict.quarantined) = (failed, flaky, quarantined);
        Ok(verdict)
    }
}

/// Prints a test that passed at the second try with the output of the first, and keeps it in a
/// file.
fn keep_flaky(step: &str, test: &str, words: &str) -> Result<()> {
    println!("FLAKY {step}: {test}\n{words}\n");
    let path = flaky_log()?;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let file = file.as_mut().map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    writeln!(file, "FLAKY {step}: {test}\n{words}\n")?;
    Ok(())
}

/// Returns the file with the first output of flaky tests.
pub fn flaky_log() -> Result<PathBuf> {
    Ok(project::target()?.join("xtask").join("flaky.log"))
}

/// Returns cargo's arguments for all packages, or for those of the gate and `also`.
pub fn selection(is_full: bool, gate: &Gate, also: &[&str]) -> Vec<String> {
    let mut words: Vec<String> = vec!["--workspace".into()];
    let targets: &[&str] = if is_full {
        words.push("--all-features".into());
        &["--all-targets"]
    } else {
        let left_out = gate.not_built().filter(|package| !also.contains(package));
        words.extend(left_out.flat_map(|package| ["--exclude".into(), package.to_owned()]));
        words.extend(["--features".into(), "quo/rayon,quo-mpi/rsmpi".into()]);
        &["--lib", "--bins", "--tests", "--examples"]
    };
    words.extend(targets.iter().map(|word| (*word).to_owned()));
    words
}

fn explained(finished: &run::Finished) -> String {
    format!("{}\n{}", finished.output.trim_end(), finished.ending)
}

pub fn log_of(name: &str) -> Result<PathBuf> {
    let file = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    Ok(project::target()?.join("xtask").join(format!("{file}.log")))
}

/// One line of the report, begun before the work so that a reader sees the running step.
struct Step {
    name: String,
    start: Instant,
}

impl Step {
    fn begin(name: &str) -> Step {
        print!("{name:.<44} ");
        let _terminal_gone = std::io::stdout().flush();
        Step { name: name.to_owned(), start: Instant::now() }
    }

    fn end(self, passed: bool, tally: Tally, output: &str) -> Verdict {
        let word = if passed { "ok" } else { "FAILED" };
        let tests = match tally.passed + tally.failed {
            0 | 1 => String::new(),
            several => format!("{several:6} tests"),
        };
        let took = self.start.elapsed();
        println!("{word:6} {:7.1} s{tests}", took.as_secs_f64());
        if !passed {
            println!("{output}");
        }
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Verdict {
            step: self.name,
            tally,
            milliseconds,
            skipped: BTreeMap::new(),
            ..Verdict::default()
        }
    }
}
