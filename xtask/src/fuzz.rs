//! `cargo xtask fuzz`: hostile input, found by coverage, for all code that reads outside input.
//!
//! The engine is libFuzzer, built from source; the stable compiler itself instruments the code, so
//! neither a nightly toolchain nor `cargo fuzz` is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::tally::Tally;
use crate::{project, run, setup};

/// Flags that make the compiler count edges and comparisons for the engine.
const INSTRUMENTATION: &str = "--cfg fuzzing -Cdebug-assertions -Coverflow-checks \
    -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The source that lists the targets.
const TARGETS: &str = "tests/fuzz/src/targets/mod.rs";
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
/// Time for the seeds, and for the engine to finish.
const MARGIN: Duration = Duration::from_secs(90);
/// An input that takes this long is a finding.
const INPUT_SECONDS: u32 = 20;
const MOST_MEGABYTES: u32 = 512;
/// Seconds for each target in `cargo xtask test --filter fuzz`, and with `--full`.
const SECONDS_IN_TEST: u64 = 10;
const SECONDS_IN_LONG_TEST: u64 = 60;

#[derive(Args)]
pub struct Options {
    /// The target; without one, all of them in turn.
    target: Option<String>,
    /// Time for each target.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// The engine's seed: with equal seeds and an empty corpus, equal inputs in equal order.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// Start from the seeds alone, not from inputs that earlier runs have kept.
    #[arg(long)]
    fresh: bool,
    /// List the targets and stop.
    #[arg(long)]
    list: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let known = named(&fs::read_to_string(project::root().join(TARGETS)).context(TARGETS)?)?;
    if options.list {
        known.iter().for_each(|(name, about)| println!("{name:20} {about}"));
        return Ok(());
    }
    if let Some(name) = &options.target {
        check(name, &known)?;
    }
    setup::ensure()?;
    println!("building the targets, instrumented");
    let built = build(&mut |command| run::shown(command, BUILD_LIMIT))?;
    let targets = targets(&built)?;
    let wanted = |target: &&Target| options.target.as_ref().is_none_or(|name| *name == target.name);
    let chosen: Vec<&Target> = targets.iter().filter(wanted).collect();
    ensure!(!chosen.is_empty(), "the program that was built has no target of this name");
    let drive = Drive { seconds: options.seconds, seed: options.seed, fresh: options.fresh };
    let mut failed = 0;
    for target in chosen {
        let verdict = drive.run(&built, target)?;
        println!("{}", verdict.line(target));
        failed += usize::from(verdict.failure.is_some());
    }
    ensure!(failed == 0, "{failed} targets failed");
    Ok(())
}

/// Refuses a name that no target has.
fn check(name: &str, known: &[(String, String)]) -> Result<()> {
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    ensure!(
        names.contains(&name),
        "there is no fuzz target {name:?}; there are {}",
        names.join(", ")
    );
    Ok(())
}

/// Returns names and descriptions of the targets from the text of their source: nothing needs to be
/// built.
fn named(source: &str) -> Result<Vec<(String, String)>> {
    let fields = |field: &str| {
        let begin = format!("        {field}: \"");
        let value = |line: &str| Some(line.strip_prefix(&begin)?.strip_suffix("\",")?.to_owned());
        source.lines().filter_map(value).collect::<Vec<_>>()
    };
    let (names, abouts) = (fields("name"), fields("about"));
    let targets = source.matches("    Target {").count();
    ensure!(
        targets > 0 && [names.len(), abouts.len()] == [targets; 2],
        "{TARGETS}: {targets} targets, {} names, {} descriptions: each has to be a line",
        names.len(),
        abouts.len()
    );
    Ok(names.into_iter().zip(abouts).collect())
}

/// Runs all targets for a short time each, from the seeds alone. The second value is the report.
pub fn test(log: &Path, long: bool) -> Result<(Tally, String)> {
    let built = build(&mut |command| {
        let finished = run::logged(command, log, BUILD_LIMIT)?;
        ensure!(finished.ending.is_success(), "{}\n{}", finished.output, finished.ending);
        Ok(())
    })?;
    let seconds = if long { SECONDS_IN_LONG_TEST } else { SECONDS_IN_TEST };
    let drive = Drive { seconds, seed: 1, fresh: true };
    let (mut tally, mut report) = (Tally::default(), String::new());
    for target in targets(&built)? {
        let verdict = drive.run(&built, &target)?;
        tally += Tally::of_check(verdict.failure.is_none());
        report += &format!("{}\n", verdict.line(&target));
    }
    Ok((tally, report))
}

/// The engine, and the folder of its files.
struct Built {
    engine: PathBuf,
    folder: PathBuf,
}

/// Builds the engine in a separate folder: with its flags cargo would compile everything again.
fn build(carry_out: &mut dyn FnMut(&mut Command) -> Result<()>) -> Result<Built> {
    let folder = project::target()?.join("fuzz");
    // Named explicitly even for this machine: build scripts and macros are then not instrumented.
    let triple = project::triple()?;
    let mut cargo = project::cargo()?;
    cargo.args(["build", "--profile", "fuzz", "--package", "quo-fuzz", "--target", &triple]);
    carry_out(cargo.env("CARGO_TARGET_DIR", &folder).env("RUSTFLAGS", INSTRUMENTATION))?;
    Ok(Built { engine: folder.join(triple).join("fuzz/quo-fuzz"), folder })
}

#[derive(Debug, PartialEq, Eq)]
struct Target {
    name: String,
    longest: usize,
    about: String,
}

fn targets(built: &Built) -> Result<Vec<Target>> {
    let listed = run::captured(Command::new(&built.engine).arg("list"))?;
    listed.lines().map(parse_target).collect()
}

fn parse_target(line: &str) -> Result<Target> {
    let mut parts = line.splitn(3, ' ');
    let mut next = || parts.next().with_context(|| format!("not a fuzz target: {line}"));
    let (name, longest, about) = (next()?, next()?, next()?);
    Ok(Target { name: name.to_owned(), longest: longest.parse()?, about: about.to_owned() })
}

/// Options of a target's run.
struct Drive {
    seconds: u64,
    seed: u32,
    fresh: bool,
}

impl Drive {
    fn run(&self, built: &Built, target: &Target) -> Result<Verdict> {
        let place = |kind: &str| built.folder.join(kind).join(&target.name);
        let (corpus, seeds) = (place("corpus"), place("seeds"));
        // What the engine keeps in a fresh run is of no use to the next run.
        let corpus = if self.fresh { place("fresh") } else { corpus };
        let findings = place("findings");
        for outdated in [&seeds, &findings].into_iter().chain(self.fresh.then_some(&corpus)) {
            remove(outdated)?;
        }
        for folder in [&corpus, &findings] {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        let scratch = Scratch::new(&target.name)?;
        run::captured(
            Command::new(&built.engine)
                .args(["seeds", &target.name])
                .arg(&seeds)
                .env("TMPDIR", &scratch.folder),
        )?;
        let sources = project::root().join("tests/fuzz");
        let regressions = sources.join("regressions").join(&target.name);
        let words = sources.join("dictionaries").join(format!("{}.dict", target.name));
        let mut engine = Command::new(&built.engine);
        engine.env("QUO_FUZZ_TARGET", &target.name).env("TMPDIR", &scratch.folder);
        engine.args([&corpus, &seeds]).args(regressions.is_dir().then_some(&regressions));
        engine.args(self.arguments(target, &findings));
        if words.is_file() {
            engine.arg(format!("-dict={}", words.display()));
        }
        let limit = Duration::from_secs(self.seconds) + MARGIN;
        let finished = run::logged(&mut engine, &place("logs").with_extension("log"), limit)?;
        Ok(Verdict {
            failure: failure(&finished, &target.name, &findings),
            progress: progress(&finished.output),
        })
    }

    fn arguments(&self, target: &Target, findings: &Path) -> Vec<String> {
        vec![
            format!("-max_total_time={}", self.seconds),
            format!("-seed={}", self.seed),
            format!("-max_len={}", target.longest),
            format!("-timeout={INPUT_SECONDS}"),
            format!("-report_slow_units={INPUT_SECONDS}"),
            format!("-rss_limit_mb={MOST_MEGABYTES}"),
            format!("-artifact_prefix={}/", findings.display()),
            "-print_final_stats=1".to_owned(),
        ]
    }
}

/// Result of a target.
struct Verdict {
    failure: Option<String>,
    progress: String,
}

impl Verdict {
    fn line(&self, target: &Target) -> String {
        match &self.failure {
            None => format!("{:20} ok      {}", target.name, self.progress),
            Some(reason) => format!("{:20} FAILED  {}\n{reason}", target.name, self.progress),
        }
    }
}

/// Returns the error, with the input that caused it and the command to reproduce it.
fn failure(finished: &run::Finished, name: &str, findings: &Path) -> Option<String> {
    if finished.ending.is_success() && edges(&finished.output).is_some_and(|edges| edges > 0) {
        return None;
    }
    let lines: Vec<&str> = finished.output.lines().collect();
    let told =
        lines.iter().position(|line| line.contains("panicked at") || line.contains("ERROR:"));
    let from = told.unwrap_or(lines.len().saturating_sub(10));
    let mut text = lines[from..].iter().take(20).copied().collect::<Vec<_>>().join("\n");
    text += &format!("\n{}", finished.ending);
    for entry in fs::read_dir(findings).into_iter().flatten().flatten() {
        let file = entry.path();
        text += &format!(
            "\ninput: {0}\nagain: cargo run -p quo-fuzz -- replay {name} {0}",
            file.display()
        );
    }
    Some(text)
}

/// Returns runs and covered edges, from the engine's last status line.
fn progress(output: &str) -> String {
    let covered = |mark: &str| {
        let line = output.lines().rfind(|line| line.starts_with('#') && line.contains(mark));
        line.and_then(edges).map_or_else(|| "?".to_owned(), |edges| edges.to_string())
    };
    let runs = output.lines().rfind(|line| line.starts_with("stat::number_of_executed_units:"));
    let runs = runs.and_then(|line| line.split_whitespace().last()).unwrap_or("?");
    format!("{runs} runs, {} to {} edges", covered("INITED"), covered("cov: "))
}

/// Returns the last number after `cov:`. There is none without instrumentation.
fn edges(output: &str) -> Option<u64> {
    let (_, after) = output.rsplit_once(" cov: ")?;
    after.split_whitespace().next()?.parse().ok()
}

/// A folder in memory for the files that inputs become, removed afterwards, also after a crash.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new(name: &str) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = base.join(format!("quo-fuzz-{name}-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self { folder })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _left_for_people_to_see = remove(&self.folder);
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            bail!("removing {}: {error}", folder.display())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    const OUTPUT: &str = "INFO: Seed: 1\n#9\tINITED cov: 1634 ft: 2355 corp: 8/58Kb\n\
        #900\tNEW    cov: 1700 ft: 2400\n#354861\tDONE   cov: 2030 ft: 5577 corp: 616/1332Kb\n\
        stat::number_of_executed_units: 354861\n";

    fn finished(output: &str, status: i32) -> run::Finished {
        let ending = run::Ending::Exited(ExitStatus::from_raw(status));
        run::Finished { ending, output: output.to_owned() }
    }

    #[test]
    fn progress_is_told_from_the_first_to_the_last_status() {
        assert_eq!(progress(OUTPUT), "354861 runs, 1634 to 2030 edges");
        assert_eq!(progress(""), "? runs, ? to ? edges");
    }

    #[test]
    fn a_target_is_a_name_a_length_and_a_description() {
        let target = parse_target("cpu_lists 128 CPU lists and bindings").unwrap();
        assert_eq!((target.name.as_str(), target.longest), ("cpu_lists", 128));
        assert_eq!(target.about, "CPU lists and bindings");
        assert!(parse_target("cpu_lists").is_err());
    }

    #[test]
    fn names_of_targets_are_known_without_a_build() {
        let source = include_str!("../../tests/fuzz/src/targets/mod.rs");
        let known = named(source).unwrap();
        let cpus = ("cpu_lists".to_owned(), "CPU lists and initial bindings".to_owned());
        assert!(known.contains(&cpus), "{known:?}");
        assert!(named(&source.replace("about: \"CPU", "about:\n \"CPU")).is_err());
        check("cpu_lists", &known).unwrap();
        let error = check("cpu_list", &known).unwrap_err().to_string();
        assert!(known.iter().all(|(name, _)| error.contains(name)), "{error}");
        assert!(error.starts_with("there is no fuzz target \"cpu_list\"; there are "), "{error}");
    }

    #[test]
    fn a_good_end_with_coverage_is_no_failure() {
        assert_eq!(failure(&finished(OUTPUT, 0), "a", Path::new("none")), None);
    }

    #[test]
    fn an_engine_without_feedback_has_failed() {
        let blind = OUTPUT.replace("cov:", "ft:");
        assert!(failure(&finished(&blind, 0), "a", Path::new("none")).is_some());
    }

    #[test]
    fn failure_names_cause_input_and_reproduction() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("crash-1"), "x").unwrap();
        let output = format!("{OUTPUT}thread 'main' panicked at x.rs:1\nboom\n");
        let text = failure(&finished(&output, 256), "cpu_lists", folder.path()).unwrap();
        assert!(text.starts_with("thread 'main' panicked at x.rs:1\nboom"), "{text}");
        assert!(text.contains("replay cpu_lists") && text.contains("crash-1"), "{text}");
    }
}
