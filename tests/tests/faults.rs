//! A rank is killed under a real launcher: the others soon get an error that names it, and nothing
//! is left behind.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use quo_tests::{Checkout, Job, Outcome};

/// The program, compiled once for all tests of this file.
fn program() -> Result<PathBuf> {
    static PROGRAM: OnceLock<Result<(tempfile::TempDir, PathBuf), String>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| {
        let build = || -> Result<_> {
            let folder = tempfile::tempdir()?;
            let checkout = Checkout::find()?;
            let program =
                checkout.compile_c("tests/programs/dead_rank.c", folder.path(), &["-pthread"])?;
            Ok((folder, program))
        };
        build().map_err(|error| format!("{error:#}"))
    });
    match built {
        Ok((_, program)) => Ok(program.clone()),
        Err(text) => anyhow::bail!("{text}"),
    }
}

/// Runs three ranks, one of which is killed; the launcher is told not to end the others with it.
fn run(place: &str, environment: &[(&str, &str)]) -> Result<(Outcome, tempfile::TempDir)> {
    let directory = tempfile::Builder::new().prefix("faults-").tempdir_in("/dev/shm")?;
    let mut job = Job::new(3, program()?)
        .arg(place)
        .survives()
        .env("QUO_TMPDIR", directory.path())
        .limit(Duration::from_secs(60));
    for (name, value) in environment {
        job = job.env(name, value);
    }
    let outcome = job.run()?;
    outcome.expect_clean()?;
    let names = std::fs::read_dir(directory.path())?.flatten().map(|entry| entry.file_name());
    // The description of the machine stays for later processes.
    let stays = |name: &OsString| name.to_string_lossy().starts_with("quo-machine-");
    let left: Vec<OsString> = names.filter(|name| !stays(name)).collect();
    ensure!(left.is_empty(), "{left:?} was left behind\n{}", outcome.report());
    Ok((outcome, directory))
}

/// Checks that each survivor named `dead`. A late survivor may also name ranks that left before it.
fn survivors_name(outcome: &Outcome, dead: usize) -> Result<()> {
    for rank in (0..3).filter(|rank| *rank != dead) {
        let said = outcome
            .stdout
            .lines()
            // Launchers may insert one rank's output into another rank's line.
            .find_map(|line| line.find(&format!("rank {rank}: ")).map(|at| &line[at..]))
            .with_context(|| format!("rank {rank} said nothing\n{}", outcome.report()))?;
        let named = said
            .split_once("rank ")
            .and_then(|(_, rest)| rest.rsplit_once(" ended without taking part"))
            .and_then(|(rest, _)| rest.rsplit_once("rank"))
            .map(|(_, ranks)| ranks.trim_start_matches('s').split(','))
            .is_some_and(|mut ranks| ranks.any(|rank| rank.trim() == dead.to_string()));
        ensure!(named, "{said}");
    }
    Ok(())
}

#[test]
fn a_rank_killed_inside_the_barrier_is_named() -> Result<()> {
    survivors_name(&run("barrier", &[])?.0, 1)
}

#[test]
fn a_rank_killed_between_two_barriers_is_named() -> Result<()> {
    survivors_name(&run("between", &[])?.0, 1)
}

#[test]
fn leader_killed_inside_create_is_named_and_its_segment_removed() -> Result<()> {
    // The kill aims at a window of microseconds and may be late; then create succeeds on all ranks
    // or, if the kill falls in the middle of the last exchange, on some.
    for _attempt in 0..20 {
        let (outcome, _directory) = run("create", &[])?;
        if !outcome.stdout.contains("lived on") {
            return survivors_name(&outcome, 0);
        }
    }
    anyhow::bail!("rank 0 was never killed before another rank had its context")
}

#[test]
fn rank_killed_before_create_is_named_to_all() -> Result<()> {
    survivors_name(&run("unannounced", &[])?.0, 1)
}
