//! Jobs with a wrong launch get a message with the right command line: for a command behind the
//! launcher that belongs before it, and for contexts over one rank each. Jobs with a right launch,
//! also nested ones, get no message.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{BindTo, Checkout, Job, Launcher, Outcome, Running};
use tempfile::TempDir;

fn program() -> Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let checkout = Checkout::find()?;
    let program = checkout.compile_c("tests/programs/wrong_launch.c", folder.path(), &[])?;
    Ok((folder, program))
}

fn once(outcome: &Outcome, times: &str, line: &str) -> Result<()> {
    outcome.expect_success()?;
    for words in [times, line] {
        let found = outcome.stderr.matches(words).count();
        ensure!(found == 1, "{words:?} stands there {found} times: {}", outcome.report());
    }
    Ok(())
}

fn quo_run_behind_the_launcher_is_told_once() -> Result<()> {
    let (_folder, program) = program()?;
    let job =
        Job::new(3, Checkout::find()?.program("quo-run")?).arg("--").arg(&program).arg("world");
    let line = format!("put the launcher behind it: quo-run -- mpirun -n 3 {}", program.display());
    let outcome = job.run()?;
    once(&outcome, "started this command 3 times", &line)?;
    ensure!(outcome.stderr.matches("quo-run: ").count() == 1, "{}", outcome.report());
    Ok(())
}

fn program_that_fails_behind_the_launcher_is_passed_through() -> Result<()> {
    let script = "echo bad >&2; exit 3";
    let quo_run = Checkout::find()?.program("quo-run")?;
    let outcome = Job::new(2, quo_run).arg("--").arg("sh").arg("-c").arg(script).run()?;
    let lines = outcome.stderr.lines().filter(|line| line.starts_with("quo-run: "));
    ensure!(lines.count() == 1 && outcome.stderr.contains("bad"), "{}", outcome.report());
    ensure!(outcome.status.code() == Some(3), "{}", outcome.report());
    Ok(())
}

fn memprof_run_behind_the_launcher_is_told_once() -> Result<()> {
    let (folder, program) = program()?;
    // A separate output for each rank: with a common folder all but one rank would fail.
    let script = r#"exec "$0" run -q -o "$1.$$" -- "$2" world"#;
    let memprof = Checkout::find()?.program("memprof")?;
    let job = Job::new(2, "sh").arg("-c").arg(script).arg(memprof).arg(folder.path().join("out"));
    let line = format!("behind it: memprof run -- mpirun -n 2 {}", program.display());
    once(&job.arg(&program).run()?, "started this command 2 times", &line)
}

fn commands_before_the_launcher_are_told_nothing() -> Result<()> {
    let (folder, program) = program()?;
    let out = folder.path().join("out").display().to_string();
    let checkout = Checkout::find()?;
    for (name, words) in [("quo-run", &["--"][..]), ("memprof", &["run", "-q", "-o", &out, "--"])] {
        let launch = Launcher::find()?.command(2, BindTo::None);
        let mut command = std::process::Command::new(checkout.program(name)?);
        command.args(words).arg(launch.get_program()).args(launch.get_args());
        let variables = launch.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(variables).arg(&program).arg("world");
        let limit = std::time::Duration::from_secs(60);
        let outcome = Running::start(&mut command, name, limit)?.finish()?;
        outcome.expect_success()?;
        ensure!(!outcome.stderr.contains("behind it"), "{}", outcome.report());
        // A single rank is as good as no launcher.
        let job = Job::new(1, checkout.program(name)?);
        let alone = folder.path().join(format!("alone-{name}"));
        let words = match name {
            "memprof" => {
                vec!["run".into(), "-q".into(), "-o".into(), alone.into_os_string(), "--".into()]
            }
            _ => vec![std::ffi::OsString::from("--")],
        };
        let job = words.into_iter().fold(job, Job::arg).arg(&program).arg("world");
        let outcome = job.run()?;
        outcome.expect_success()?;
        ensure!(!outcome.stderr.contains("behind it"), "{}", outcome.report());
    }
    Ok(())
}

fn context_of_one_rank_among_several_is_explained() -> Result<()> {
    let (_folder, program) = program()?;
    let words = |ranks: usize| format!("the context has 1 of the {ranks} ranks of MPI_COMM_WORLD");
    for (what, ranks, warned) in [("self", 3, 3), ("world", 3, 0), ("self", 1, 0), ("world", 1, 0)]
    {
        let outcome = Job::new(ranks, &program).arg(what).run()?;
        outcome.expect_success()?;
        let found = outcome.stdout.matches(&words(ranks)).count();
        ensure!(found == warned, "{what}, {ranks} ranks: {found} warnings: {}", outcome.report());
        ensure!(!outcome.stderr.contains("quo: "), "{}", outcome.report());
    }
    Ok(())
}

fn process_that_was_spawned_alone_is_told_nothing() -> Result<()> {
    let (_folder, program) = program()?;
    let job = Job::new(1, &program).arg("spawns");
    let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let outcome = job.env("OMPI_MCA_rmaps_base_oversubscribe", "1").run()?;
    if !outcome.status.success() && outcome.stderr.to_lowercase().contains("spawn") {
        return Err(Skipped("this MPI cannot spawn".to_owned()).into());
    }
    outcome.expect_success()?;
    ensure!(outcome.stdout.contains("allowed CPUs"), "nothing was spawned: {}", outcome.report());
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    ensure!(!said.contains("sees 1 rank") && !said.contains("the context has 1"), "{said}");
    Ok(())
}

quo_tests::suite! {
    quo_run_behind_the_launcher_is_told_once
    program_that_fails_behind_the_launcher_is_passed_through
    memprof_run_behind_the_launcher_is_told_once
    commands_before_the_launcher_are_told_nothing
    context_of_one_rank_among_several_is_explained
    process_that_was_spawned_alone_is_told_nothing
}
