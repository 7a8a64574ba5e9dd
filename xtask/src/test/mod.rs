//! `cargo xtask test`: set-up, checks, test programs, one closing line. Two tiers: the gate, and
//! everything with `--full`.

mod changes;
mod gate;
mod lanes;
mod oldest_rust;
mod on_mpi;
mod quarantine;
mod report;
mod sanitizer;
mod suites;
mod verdict;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::tally::Tally;
use crate::{mpi, project, rules, setup};
use gate::Additions;
use lanes::Chain;
use on_mpi::OnMpi;
use report::Report;
use suites::Suite;
pub use verdict::Verdict;

/// Variable that tells the steps, and the test programs they start, to shorten nothing.
const LONG: &str = "QUO_TESTS_LONG";
/// Variables with the seeds of property tests, and of other random draws in tests.
const SEEDS: [&str; 2] = ["PROPTEST_RNG_SEED", "QUO_TESTS_SEED"];
const SEED_OF_GATE: u64 = 1;

#[derive(Args)]
pub struct Options {
    /// Run everything at full length, with random seeds
    ///
    /// Model checking, fuzzing, sanitizers, hosts, Slurm, all MPIs.
    #[arg(long)]
    full: bool,
    /// Run only the steps with TEXT in their names, including steps of the full suite.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Run only the step of exactly this name; may be given several times.
    #[arg(long, value_name = "STEP", conflicts_with = "filter")]
    only: Vec<String>,
    /// Write the results of all steps to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// List the steps and stop.
    #[arg(long)]
    list: bool,
    /// Draw random tests from N: the number that a failed full run has printed.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Look for changed files since REVISION, which decide the additions to the gate
    /// (tests/gate.toml).
    #[arg(long, value_name = "REVISION")]
    since: Option<String>,
    /// Number of steps that run at once; by default half the number of cores, two to four.
    #[arg(long, value_name = "N")]
    at_once: Option<usize>,
    /// Write tests/README.md, the index of suites, and stop.
    #[arg(long)]
    index: bool,
    /// Run one step, for the command that runs several at once.
    #[arg(long, value_name = "NAME", hide = true)]
    step: Option<String>,
}

impl Options {
    /// Returns true if the step is selected, where `gate` selects the short form.
    fn wants(&self, step: &str, report: &Report, additions: &Additions) -> bool {
        match &self.filter {
            _ if !self.only.is_empty() => self.only.iter().any(|only| only == step),
            Some(text) => step.contains(text.as_str()),
            None => self.full || report.gate.has(step) || additions.has(step),
        }
    }
}

/// One check that is not a test program of the project.
struct Check {
    name: &'static str,
    work: Work,
}

enum Work {
    /// A cargo call: arguments, then variables.
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
    Clippy,
    Rules,
    Headers,
    Fuzz,
    Mutants,
    Threads,
    Book,
    Systems,
    OldestRust,
}

const CHECKS: &[Check] = &[
    Check { name: "format", work: Work::Cargo(&["fmt", "--all", "--check"], &[]) },
    Check { name: "house rules", work: Work::Rules },
    Check { name: "headers", work: Work::Headers },
];

/// Steps that share nothing with the suites and run in parallel with them.
const APART: &[Check] = &[
    Check { name: "clippy", work: Work::Clippy },
    Check { name: "fuzz", work: Work::Fuzz },
    Check { name: "mutants", work: Work::Mutants },
    Check { name: "thread sanitizer", work: Work::Threads },
    Check { name: "book", work: Work::Book },
    Check { name: "systems", work: Work::Systems },
    Check { name: "oldest Rust", work: Work::OldestRust },
    // What a Rust user without MPI builds.
    Check {
        name: "without features",
        work: Work::Cargo(&["clippy", "--package", "quo", "--", "-Dwarnings"], &[]),
    },
    Check {
        name: "rustdoc",
        work: Work::Cargo(
            &["doc", "--workspace", "--no-deps", "--features", "quo/rayon,quo-mpi/rsmpi"],
            &[("RUSTDOCFLAGS", "-Dwarnings")],
        ),
    },
    Check {
        name: "doc examples",
        work: Work::Cargo(
            &[
                "test",
                "--doc",
                "--no-fail-fast",
                "--workspace",
                "--features",
                "quo/rayon,quo-mpi/rsmpi",
            ],
            &[],
        ),
    },
];

const BUILD: &str = "build";

pub fn run(options: &Options) -> Result<()> {
    if options.index {
        println!("{}", rules::write_index()?.display());
        return Ok(());
    }
    let known = suites::known()?;
    let report = Report::of_checkout()?;
    if let Some(home) = mpi::home_in_use()?.filter(|home| home.name != mpi::DEFAULT) {
        return run_on(
            OnMpi { home, brief: !options.full, own_tests: true },
            options,
            &report,
            &known,
        );
    }
    let steps = every_step(&report, &known);
    if let Some(unknown) = options.only.iter().find(|only| !steps.contains(only)) {
        bail!("there is no step {unknown:?}; `cargo xtask test --full --list` names all");
    }
    if let Some(name) = &options.step {
        return step(name, &report, &known);
    }
    let changed = changes::files(options.since.as_deref())?;
    let additions = report.gate.additions(changed.iter().map(String::as_str));
    if options.list {
        steps
            .iter()
            .filter(|step| options.wants(step, &report, &additions))
            .for_each(|step| println!("{step}"));
        return Ok(());
    }
    let _turn = turn()?;
    let variables = variables(options, &additions);
    let (start, begun) = (Instant::now(), SystemTime::now());
    let verdicts = carry_out(options, &report, &known, &additions, &variables)?;
    quo_tests::sweep(Path::new("/dev/shm"), begun);
    if verdicts.is_empty() {
        bail!(
            "no step has this name or this in its name; `cargo xtask test --full --list` names them"
        );
    }
    if options.full {
        print!("\n{}", verdict::table(&verdicts));
    }
    println!("\n{:.1} minutes", start.elapsed().as_secs_f64() / 60.0);
    if options.full {
        println!(
            "once more with the same seed: cargo xtask test --full --seed {}",
            variables[SEEDS[0]]
        );
    }
    close(&verdicts, options)
}

/// Waits for other test runs: all write their logs, in which test programs are found, to the same
/// place.
fn turn() -> Result<File> {
    project::turn(&project::target()?.join("xtask"), "test")
}

/// Returns the variables that the tier, the seed and the change set for all steps.
fn variables(options: &Options, additions: &Additions) -> BTreeMap<String, String> {
    let mut variables = additions.variables.clone();
    let mut seed = options.seed.unwrap_or(SEED_OF_GATE);
    if options.full {
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        seed = options.seed.unwrap_or(u64::from(clock.subsec_nanos()));
        variables.insert(LONG.to_owned(), "1".to_owned());
    }
    variables.extend(SEEDS.map(|name| (name.to_owned(), seed.to_string())));
    variables
}

/// Sets up, checks, builds, and runs the other steps in parallel.
fn carry_out(
    options: &Options,
    report: &Report,
    known: &[Suite],
    additions: &Additions,
    variables: &BTreeMap<String, String>,
) -> Result<Vec<Verdict>> {
    let wants = |step: &str| options.wants(step, report, additions);
    let suites: Vec<&Suite> = known.iter().filter(|suite| wants(&suite.name)).collect();
    let mut verdicts = Vec::new();
    if suites.is_empty() {
        setup::ensure()?;
    } else {
        setup::ensure_for_tests(options.full)?;
    }
    // The variable selects the long form of checks, as in the steps' processes.
    for check in CHECKS.iter().filter(|check| wants(check.name)) {
        verdicts.push(report.check(check)?);
    }
    let mpis = on_mpis(report, known, &wants, options.full, &mut verdicts)?;
    let mut chains: Vec<(String, Chain)> = Vec::new();
    if !suites.is_empty() || !mpis.is_empty() {
        let mut packages: Vec<&str> = suites.iter().map(|suite| suite.package()).collect();
        // Further MPIs have the test programs of the default one.
        let on_any = |suite: &&Suite| {
            mpi::ALSO_TESTED.iter().any(|name| wants(&format!("{name}: {}", suite.name)))
        };
        packages.extend(known.iter().filter(on_any).map(|suite| suite.package()));
        let mut cargo = project::cargo()?;
        cargo.arg("build").args(report::selection(options.full, &report.gate, &packages));
        let built = report.build(vec![(BUILD.to_owned(), cargo)])?;
        let failed = verdict::sum(&built).failed > 0;
        verdicts.extend(built);
        if failed {
            let left_out = |suite: &&Suite| Verdict::left_out(&suite.name, "the build failed");
            verdicts.extend(suites.iter().map(left_out));
        } else {
            chains.extend(suites.iter().map(|suite| single(&suite.name)));
            chains.extend(mpis);
        }
    }
    chains.extend(APART.iter().filter(|check| wants(check.name)).map(|check| single(check.name)));
    report.gate.sort(&mut chains, |(name, _)| name);
    let chains = chains.into_iter().map(|(_, chain)| chain).collect();
    let width = options.at_once.unwrap_or_else(lanes::width);
    verdicts.extend(lanes::run(chains, width, variables)?);
    Ok(verdicts)
}

fn single(step: &str) -> (String, Chain) {
    (step.to_owned(), Chain::new([step.to_owned()]))
}

/// Returns the chains of further MPIs: a build, then the selected suites. An MPI that is not
/// available is left out, and counts as a failure in the full suite.
fn on_mpis(
    report: &Report,
    known: &[Suite],
    wants: &dyn Fn(&str) -> bool,
    is_full: bool,
    verdicts: &mut Vec<Verdict>,
) -> Result<Vec<(String, Chain)>> {
    let mut chains = Vec::new();
    for name in mpi::ALSO_TESTED {
        let steps = on_mpi::steps(name, &report.gate, known, true);
        let steps: Vec<String> = steps.into_iter().filter(|step| wants(step)).collect();
        if steps.is_empty() {
            continue;
        }
        match mpi::provide(name) {
            Ok(home) => {
                verdicts.extend(OnMpi { home, brief: true, own_tests: false }.without_fortran());
                let build = format!("{name}: build");
                chains.push((build.clone(), Chain::after_build([build].into_iter().chain(steps))));
            }
            Err(error) => {
                println!("{name}: cannot be had: {error:#}");
                let verdict = Verdict::left_out(name, &format!("{error:#}"));
                verdicts.push(if is_full { Verdict::failure(name) } else { verdict });
            }
        }
    }
    Ok(chains)
}

/// Returns all steps of the full suite.
fn every_step(report: &Report, known: &[Suite]) -> Vec<String> {
    let checks = CHECKS.iter().chain(APART).map(|check| check.name.to_owned());
    let suites = known.iter().map(|suite| suite.name.clone());
    let of_mpi = |name: &&str| on_mpi::steps(name, &report.gate, known, true);
    checks.chain(suites).chain(mpi::ALSO_TESTED.iter().flat_map(of_mpi)).collect()
}

/// Runs `cargo xtask test --step NAME`: one of the steps that run in parallel.
fn step(name: &str, report: &Report, known: &[Suite]) -> Result<()> {
    lanes::end_with_parent();
    let suite_of = |name: &str| known.iter().find(|suite| suite.name == name);
    let verdict = if let Some(check) = APART.iter().find(|check| check.name == name) {
        report.check(check)?
    } else if let Some(suite) = suite_of(name) {
        report.suite(suite, None)?
    } else {
        let (mpi, what) =
            name.split_once(": ").with_context(|| format!("there is no step {name:?}"))?;
        let on_mpi = OnMpi { home: mpi::provide(mpi)?, brief: true, own_tests: false };
        match suite_of(what) {
            Some(suite) => report.suite(suite, Some(&on_mpi))?,
            None => {
                let mut built = report.build(on_mpi.builds()?)?;
                built.pop().with_context(|| format!("the step {name:?} builds nothing"))?
            }
        }
    };
    lanes::tell(&verdict)
}

/// Runs `cargo xtask test --mpi NAME`: only the end-to-end suites, as only they depend on the MPI.
fn run_on(on_mpi: OnMpi, options: &Options, report: &Report, known: &[Suite]) -> Result<()> {
    let steps = on_mpi::steps(&on_mpi.home.name, &report.gate, known, on_mpi.brief);
    let text = options.filter.as_deref().unwrap_or_default();
    let is_of = |only: &str, step: &str| only == step || on_mpi.step(only) == step;
    let is_named =
        |step: &str| options.only.is_empty() || options.only.iter().any(|only| is_of(only, step));
    if let Some(unknown) =
        options.only.iter().find(|only| !steps.iter().any(|step| is_of(only, step)))
    {
        bail!("there is no step {unknown:?}; `--list` names all of this MPI");
    }
    let wanted: Vec<&String> =
        steps.iter().filter(|step| step.contains(text) && is_named(step)).collect();
    if options.list {
        wanted.iter().for_each(|step| println!("{step}"));
        return Ok(());
    }
    if wanted.is_empty() {
        bail!("no suite has this name or this in its name; `--list` names them");
    }
    let _turn = turn()?;
    setup::ensure()?;
    let begun = SystemTime::now();
    let mut verdicts = report.build(on_mpi.builds()?)?;
    if verdict::sum(&verdicts).failed == 0 {
        verdicts.extend(on_mpi.without_fortran());
        let variables = variables(options, &Additions::default());
        for suite in known.iter().filter(|suite| wanted.contains(&&on_mpi.step(&suite.name))) {
            verdicts.push(report.suite_with(suite, Some(&on_mpi), &variables)?);
        }
    }
    quo_tests::sweep(Path::new("/dev/shm"), begun);
    close(&verdicts, options)
}

/// Prints the last lines and writes the results; ends the process with an error if something
/// failed.
fn close(verdicts: &[Verdict], options: &Options) -> Result<()> {
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(verdicts)?)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    let flaky = verdict::flaky(verdicts);
    if !flaky.is_empty() {
        println!("\nflaky, passed at the second try: {}", flaky.len());
        flaky.iter().for_each(|test| println!("FLAKY {test}"));
        println!("their first words: {}", report::flaky_log()?.display());
    }
    let reasons = verdict::reasons_for_skips(verdicts);
    if !reasons.is_empty() {
        println!("\nskipped:\n{}", reasons.join("\n"));
    }
    let Tally { passed, failed, skipped } = verdict::sum(verdicts);
    println!("\n{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 {
        // The report above says what failed.
        std::process::exit(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::gate::Gate;
    use super::*;

    #[test]
    fn gate_names_only_steps_that_there_are() {
        let report = Report::of_checkout().unwrap();
        let steps = every_step(&report, &suites::known().unwrap());
        assert_eq!(report.gate.unknown(&steps), Vec::<String>::new());
    }

    #[test]
    fn parts_of_systems_name_only_suites_that_there_are() {
        let text = std::fs::read_to_string(project::root().join("tests/systems.toml")).unwrap();
        let systems: toml::Table = text.parse().unwrap();
        let steps = every_step(&Report::of_checkout().unwrap(), &suites::known().unwrap());
        let parts = systems["part"].as_array().unwrap().iter();
        let suites = parts.flat_map(|part| part["suites"].as_array().unwrap());
        let unknown: Vec<_> = suites
            .filter(|suite| !steps.iter().any(|step| Some(step.as_str()) == suite.as_str()))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn gate_builds_no_package_with_the_bench_harness() {
        let gate = Gate::of_checkout().unwrap();
        let members = std::fs::read_to_string(crate::project::root().join("Cargo.toml")).unwrap();
        let members = members.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
        let mut with_harness = Vec::new();
        for member in members.split('"').skip(1).step_by(2) {
            let manifest = crate::project::root().join(member).join("Cargo.toml");
            let manifest: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
            if manifest.get("dev-dependencies").is_some_and(|it| it.get("criterion").is_some()) {
                with_harness.push(manifest["package"]["name"].as_str().unwrap().to_owned());
            }
        }
        assert!(!with_harness.is_empty(), "no package has it");
        let is_left_out = |name: &String| gate.not_built().any(|package| package == name);
        assert!(with_harness.iter().all(is_left_out), "{with_harness:?}");
    }

    #[test]
    fn full_variables_hold_the_seed_and_the_long_form() {
        let options = |full| Options {
            full,
            filter: None,
            only: Vec::new(),
            json: None,
            list: false,
            seed: Some(7),
            since: None,
            at_once: None,
            index: false,
            step: None,
        };
        let set = variables(&options(true), &Additions::default());
        assert_eq!((set[LONG].as_str(), set[SEEDS[0]].as_str()), ("1", "7"));
        assert!(!variables(&options(false), &Additions::default()).contains_key(LONG));
    }
}
