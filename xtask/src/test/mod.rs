//! `cargo xtask test`: set-up, checks, every test program, one closing line.

mod lanes;
mod on_mpi;
mod sanitizer;
mod suites;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::tally::Tally;
use crate::{fuzz, headers, mpi, project, rules, run, setup};
use lanes::Chain;
use on_mpi::OnMpi;
use suites::Suite;

const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
const SUITE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Of suites whose processors are emulated.
const EMULATED_LIMIT: Duration = Duration::from_secs(25 * 60);
const EMULATED_SUITES: &[&str] = &["quo-machine emulated"];
/// Long suites that share nothing with the others and run beside them.
const SUITES_APART: &[&str] =
    &["quo-machine emulated", "quo-fuzz c_sanitized", "quo-model library", "quo-faults rounds"];
/// Left out by `--quick`, as the slow checks are.
const SLOW_SUITES: &[&str] = &["quo-model library", "quo-fuzz c_sanitized"];

#[derive(Args)]
pub struct Options {
    /// Run only the steps whose name contains TEXT (what has to be built for them is built).
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Leave out clippy, documentation, model checking, fuzzing and sanitizers.
    #[arg(long)]
    quick: bool,
    /// All of what the usual form samples: every C program on every machine, a minute for each fuzz target.
    #[arg(long)]
    long: bool,
    /// Name the steps and stop.
    #[arg(long)]
    list: bool,
    /// How many steps run at a time; by default half as many as there are cores, two to four.
    #[arg(long, value_name = "N")]
    at_once: Option<usize>,
    /// One step, for the command that runs several at a time.
    #[arg(long, value_name = "NAME", hide = true)]
    step: Option<String>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|text| name.contains(text.as_str()))
            && !(self.quick && SLOW_SUITES.contains(&name))
    }
}

/// One check that is not a test program of ours.
struct Check {
    name: &'static str,
    /// Left out by `--quick`.
    slow: bool,
    work: Work,
}

enum Work {
    /// A cargo call: arguments, then variables.
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
    Rules,
    Headers,
    Fuzz,
    Threads,
}

const CHECKS: &[Check] = &[
    Check { name: "format", slow: false, work: Work::Cargo(&["fmt", "--all", "--check"], &[]) },
    Check { name: "house rules", slow: false, work: Work::Rules },
    Check { name: "headers", slow: false, work: Work::Headers },
];

/// Steps that share nothing with the suites and run beside them, the longest first. Clippy compiles nothing
/// that the suites need.
const APART: &[Check] = &[
    Check {
        name: "clippy",
        slow: true,
        work: Work::Cargo(
            &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-Dwarnings"],
            &[],
        ),
    },
    Check { name: "fuzz", slow: true, work: Work::Fuzz },
    Check { name: "thread sanitizer", slow: true, work: Work::Threads },
    // What a Rust user without MPI builds.
    Check {
        name: "clippy without features",
        slow: true,
        work: Work::Cargo(&["clippy", "--package", "quo", "--", "-Dwarnings"], &[]),
    },
    Check {
        name: "rustdoc",
        slow: true,
        work: Work::Cargo(
            &["doc", "--workspace", "--no-deps", "--all-features"],
            &[("RUSTDOCFLAGS", "-Dwarnings")],
        ),
    },
    Check {
        name: "doc examples",
        slow: false,
        work: Work::Cargo(
            &["test", "--doc", "--no-fail-fast", "--workspace", "--all-features"],
            &[],
        ),
    },
];

/// What the suites run, and the suites, in one call: in two, libraries whose features the tests widen would
/// be compiled twice.
const BUILDS: &[(&str, &[&str])] = &[(
    BUILD,
    &["build", "--workspace", "--all-features", "--lib", "--bins", "--tests", "--examples"],
)];
const BUILD: &str = "build";

pub fn run(options: &Options) -> Result<()> {
    let known = suites::known()?;
    if let Some(home) = mpi::home_in_use()?.filter(|home| home.name != mpi::DEFAULT) {
        return run_on(OnMpi { home, brief: options.quick }, options, &known);
    }
    if let Some(name) = &options.step {
        return step(name, &known);
    }
    if options.list {
        return list(options, &known);
    }
    let wanted: Vec<&Suite> = known.iter().filter(|suite| options.wants(&suite.name)).collect();
    if wanted.is_empty() {
        setup::ensure()?
    } else {
        setup::ensure_test_beds()?
    }
    let (start, begun) = (Instant::now(), SystemTime::now());
    let mut report = Report::default();
    for check in chosen(CHECKS, options) {
        report.check(check)?;
    }
    let on_mpis = report.provide(options);
    let built = if wanted.is_empty() && on_mpis.is_empty() { true } else { report.build()? };
    let (apart, turns): (Vec<&Suite>, Vec<&Suite>) =
        wanted.into_iter().partition(|suite| SUITES_APART.contains(&suite.name.as_str()));
    let mut chains = Vec::new();
    if built {
        chains.push(Chain::new(names(&turns)));
        chains.extend(names(&apart).map(|name| Chain::new([name])));
    } else {
        report.sum.skipped += turns.len() + apart.len();
    }
    chains.extend(chosen(APART, options).map(|check| Chain::new([check.name.to_owned()])));
    for on_mpi in on_mpis.iter().filter(|_| built) {
        chains.extend(on_mpi.chain(options, &known));
    }
    report.sum += lanes::run(chains, options.at_once.unwrap_or_else(lanes::width), options.long)?;
    quo_tests::sweep(Path::new("/dev/shm"), begun);
    if report.sum == Tally::default() {
        bail!("no step has this in its name; `cargo xtask test --list` names them");
    }
    println!("\n{:.1} minutes", start.elapsed().as_secs_f64() / 60.0);
    report.close()
}

fn names<'a>(suites: &'a [&Suite]) -> impl Iterator<Item = String> + 'a {
    suites.iter().map(|suite| suite.name.clone())
}

/// `cargo xtask test --step NAME`: one of those that run side by side.
fn step(name: &str, known: &[Suite]) -> Result<()> {
    lanes::end_with_parent();
    let mut report = Report::default();
    let suite_of = |name: &str| known.iter().find(|suite| suite.name == name);
    if let Some(check) = APART.iter().find(|check| check.name == name) {
        report.check(check)?;
    } else if let Some(suite) = suite_of(name) {
        report.suite(suite, None)?;
    } else {
        let (mpi, what) = name.split_once(": ").context("no such step")?;
        let on_mpi = OnMpi { home: mpi::provide(mpi)?, brief: true };
        match suite_of(what) {
            Some(suite) => report.suite(suite, Some(&on_mpi))?,
            None => {
                report.build_all(on_mpi.builds()?)?;
            }
        }
    }
    lanes::tell(report.sum);
    Ok(())
}

/// `cargo xtask test --mpi NAME`: the end-to-end suites, which are what an MPI can make a difference to.
fn run_on(on_mpi: OnMpi, options: &Options, known: &[Suite]) -> Result<()> {
    if options.list {
        for suite in on_mpi.suites(known) {
            if options.wants(&suite.name) {
                println!("{}", on_mpi.step(&suite.name));
            }
        }
        return Ok(());
    }
    setup::ensure()?;
    let begun = SystemTime::now();
    let mut report = Report::default();
    report.on_mpi(&on_mpi, options, known)?;
    quo_tests::sweep(Path::new("/dev/shm"), begun);
    if report.sum == Tally::default() {
        bail!("no suite has this in its name; `--list` names them");
    }
    report.close()
}

/// The MPIs whose turn it is: all without a filter, those that it names as in `mpich5: quo-tests t0200`.
fn also_tested(options: &Options) -> impl Iterator<Item = &'static str> {
    let filter = options.filter.clone();
    let named = move |name: &&str| match &filter {
        None => true,
        Some(text) => text.starts_with(*name),
    };
    let names = if options.quick { &[] } else { mpi::ALSO_TESTED };
    names.iter().copied().filter(named)
}

fn chosen<'a>(checks: &'a [Check], options: &Options) -> impl Iterator<Item = &'a Check> {
    let (quick, filter) = (options.quick, options.filter.clone());
    checks.iter().filter(move |check| {
        !(quick && check.slow)
            && filter.as_ref().is_none_or(|text| check.name.contains(text.as_str()))
    })
}

fn list(options: &Options, known: &[Suite]) -> Result<()> {
    let before = chosen(CHECKS, options).map(|check| check.name);
    let suites = known.iter().map(|suite| suite.name.as_str()).filter(|name| options.wants(name));
    let after = chosen(APART, options).map(|check| check.name);
    for name in before.chain(suites) {
        println!("{name}");
    }
    for name in also_tested(options) {
        println!("{name}: the end-to-end suites");
    }
    for name in after {
        println!("{name}");
    }
    Ok(())
}

/// Prints each step as it goes and adds up.
#[derive(Default)]
struct Report {
    sum: Tally,
    /// Suites of one MPI run as `--long`; others are told by whoever started their step.
    is_long: bool,
}

impl Report {
    fn check(&mut self, check: &Check) -> Result<()> {
        let step = Step::begin(check.name);
        match check.work {
            Work::Rules => {
                let findings = rules::check()?;
                let passed = findings.errors.is_empty();
                let lines = [findings.errors, findings.warnings].concat().join("\n");
                self.end(step, passed, Tally::of_check(passed), &lines);
                if passed && !lines.is_empty() {
                    println!("{lines}");
                }
            }
            Work::Fuzz => {
                match fuzz::test(&log_of(check.name)?, std::env::var_os(lanes::LONG).is_some()) {
                    Ok((tally, report)) => self.end(step, tally.failed == 0, tally, &report),
                    Err(error) => {
                        self.end(step, false, Tally::of_check(false), &format!("{error:#}"));
                    }
                }
            }
            Work::Threads => {
                let finished = sanitizer::threads(&log_of(check.name)?, BUILD_LIMIT)?;
                let passed = finished.ending.is_success();
                let mut tally = Tally::of_output(&finished.output, passed);
                tally.failed = tally.failed.max(usize::from(!passed || tally.passed == 0));
                self.end(step, tally.failed == 0, tally, &explained(&finished));
            }
            Work::Headers => {
                let outcome = headers::check();
                let mut tally = Tally::of_check(outcome.is_ok());
                let absent = outcome.as_deref().unwrap_or_default();
                tally.skipped = absent.len();
                let complaint = outcome.as_ref().err().map(ToString::to_string);
                self.end(step, outcome.is_ok(), tally, &complaint.unwrap_or_default());
                absent.iter().for_each(|name| println!("  not with {name}, which is not here"));
            }
            Work::Cargo(arguments, variables) => {
                let mut command = project::cargo()?;
                command.args(arguments).envs(variables.iter().copied());
                let finished = self.logged(check.name, &mut command, BUILD_LIMIT)?;
                let mut passed = finished.ending.is_success();
                let mut tally = Tally::of_check(passed);
                if arguments.first() == Some(&"test") {
                    tally = Tally::of_output(&finished.output, passed);
                    // A filter that no test's name matches any more would pass for ever.
                    passed &= tally.passed > 0;
                    tally.failed = tally.failed.max(usize::from(!passed));
                }
                self.end(step, passed, tally, &explained(&finished));
            }
        }
        Ok(())
    }

    /// Builds what the suites run. Says whether it worked.
    fn build(&mut self) -> Result<bool> {
        let call = |arguments: &[&str]| {
            project::cargo().map(|mut cargo| {
                cargo.args(arguments);
                cargo
            })
        };
        let calls =
            BUILDS.iter().map(|(name, arguments)| Ok(((*name).to_owned(), call(arguments)?)));
        self.build_all(calls.collect::<Result<_>>()?)
    }

    fn build_all(&mut self, calls: Vec<(String, Command)>) -> Result<bool> {
        for (name, mut command) in calls {
            let step = Step::begin(&name);
            command.arg("--message-format=json-render-diagnostics");
            let finished = self.logged(&name, &mut command, BUILD_LIMIT)?;
            let passed = finished.ending.is_success();
            let said: Vec<&str> =
                finished.output.lines().filter(|line| !line.starts_with('{')).collect();
            let tally = if passed { Tally::default() } else { Tally::of_check(false) };
            self.end(step, passed, tally, &said.join("\n"));
            if !passed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The MPIs that set-up fetches for the end-to-end suites; the reason why not is told.
    fn provide(&mut self, options: &Options) -> Vec<OnMpi> {
        let mut there = Vec::new();
        for name in also_tested(options) {
            match mpi::provide(name) {
                Ok(home) => there.push(OnMpi { home, brief: true }),
                Err(error) => {
                    println!("{name}: skipped: {error:#}");
                    self.sum.skipped += 1;
                }
            }
        }
        there
    }

    fn on_mpi(&mut self, on_mpi: &OnMpi, options: &Options, known: &[Suite]) -> Result<()> {
        let suites = on_mpi.wanted(options, known);
        if suites.is_empty() {
            return Ok(());
        }
        self.is_long = options.long;
        if !self.build_all(on_mpi.builds()?)? {
            self.sum.skipped += suites.len();
            return Ok(());
        }
        for suite in suites {
            self.suite(suite, Some(on_mpi))?;
        }
        Ok(())
    }

    fn suite(&mut self, suite: &Suite, on_mpi: Option<&OnMpi>) -> Result<()> {
        let named = |what: &str| on_mpi.map_or(what.to_owned(), |on_mpi| on_mpi.step(what));
        let name = named(&suite.name);
        let step = Step::begin(&name);
        let shared = on_mpi.is_none_or(|on_mpi| on_mpi.brief);
        let build = if shared { BUILD.to_owned() } else { named("build tests") };
        let log = std::fs::read_to_string(log_of(&build)?)?;
        let Some(executable) = suite.executable(&log) else {
            bail!("{}: cargo built no test program for it", suite.name);
        };
        let emulated = EMULATED_SUITES.contains(&suite.name.as_str());
        let limit = if emulated { EMULATED_LIMIT } else { SUITE_LIMIT };
        let mut command = suite.command(&executable);
        if let Some(on_mpi) = on_mpi {
            on_mpi.set_up(&mut command)?;
        }
        if self.is_long {
            command.env(lanes::LONG, "1");
        }
        // Whatever a killed launcher leaves goes with it: PRRTE refuses to start where a process that
        // had the same number has left its files.
        let scratch = tempfile::Builder::new().prefix("quo-").tempdir()?;
        command.env("TMPDIR", scratch.path());
        let finished = self.logged(&name, &mut command, limit)?;
        let passed = finished.ending.is_success();
        let mut tally = Tally::of_output(&finished.output, passed);
        if on_mpi.is_some() {
            tally.skipped += Tally::left_out(&finished.output);
        }
        self.end(step, passed, tally, &explained(&finished));
        Ok(())
    }

    fn logged(&self, name: &str, command: &mut Command, limit: Duration) -> Result<run::Finished> {
        run::logged(command, &log_of(name)?, limit)
    }

    fn end(&mut self, step: Step, passed: bool, tally: Tally, output: &str) {
        self.sum += tally;
        step.end(passed, tally);
        if !passed {
            println!("{output}");
        }
    }

    fn close(self) -> Result<()> {
        let Tally { passed, failed, skipped } = self.sum;
        println!("\n{passed} passed, {failed} failed, {skipped} skipped");
        if failed > 0 {
            // The report above says what failed.
            std::process::exit(1);
        }
        Ok(())
    }
}

fn explained(finished: &run::Finished) -> String {
    format!("{}\n{}", finished.output.trim_end(), finished.ending)
}

fn log_of(name: &str) -> Result<std::path::PathBuf> {
    let file = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    Ok(project::target()?.join("xtask").join(format!("{file}.log")))
}

/// One line of the report, begun before the work so that a reader sees what is running.
struct Step {
    start: Instant,
}

impl Step {
    fn begin(name: &str) -> Step {
        print!("{name:.<44} ");
        let _terminal_gone = std::io::stdout().flush();
        Step { start: Instant::now() }
    }

    fn end(self, passed: bool, tally: Tally) {
        let word = if passed { "ok" } else { "FAILED" };
        let tests = match tally.passed + tally.failed {
            0 | 1 => String::new(),
            several => format!("{several:6} tests"),
        };
        println!("{word:6} {:7.1} s{tests}", self.start.elapsed().as_secs_f64());
    }
}
