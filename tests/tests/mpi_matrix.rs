//! `cargo xtask mpi` and `--mpi`: the listed capabilities are true, and a missing MPI is reported
//! with the command to install it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use quo_tests::{Checkout, Family, Launcher};
use serde_json::Value;

const NAMES: [&str; 6] = ["openmpi", "openmpi5", "mpich5", "intel", "mpich4", "standard"];

/// Returns an xtask that knows no MPI but the machine's, whichever MPI these tests run on.
fn xtask(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(Checkout::find()?.program("xtask")?);
    command.args(arguments);
    for name in ["MPICC", "MPICXX", "MPIFC", "MPI_HOME", "QUO_TESTS_MPIRUN"] {
        command.env_remove(name);
    }
    for name in ["QUO_XTASK_MPI", "QUO_XTASK_BASE", "QUO_XTASK_BUILD"] {
        command.env_remove(name);
    }
    Ok(command)
}

fn run(command: &mut Command) -> Result<Output> {
    command.output().context("starting xtask")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeded(output: &Output) -> Result<String> {
    ensure!(output.status.success(), "{}\n{}", output.status, text(&output.stderr));
    Ok(text(&output.stdout))
}

/// Checks that the command fails, and prints all of these texts.
fn expect_refusal(command: &mut Command, words: &[&str]) -> Result<()> {
    let output = run(command)?;
    let said = text(&output.stderr);
    ensure!(!output.status.success(), "{command:?} succeeded\n{}", text(&output.stdout));
    for word in words {
        ensure!(said.contains(word), "`{word}` is not in: {said}");
    }
    Ok(())
}

fn listed(options: &[&str]) -> Result<Vec<Value>> {
    let told = succeeded(&run(xtask(&["mpi", "list", "--json"])?.args(options))?)?;
    let told: Value = serde_json::from_str(&told)?;
    Ok(told["mpis"].as_array().context("no list of MPIs")?.clone())
}

/// Creates a folder of files that pose as an MPI's.
fn installation(programs: &[(&str, &str)]) -> Result<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("bin"))?;
    for (name, script) in programs {
        let file = folder.path().join("bin").join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n"))?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(folder)
}

#[test]
fn every_mpi_is_listed_with_capabilities_or_its_source() -> Result<()> {
    let listed = listed(&[])?;
    let names: Vec<&str> = listed.iter().filter_map(|mpi| mpi["name"].as_str()).collect();
    assert_eq!(names, NAMES);
    for mpi in &listed {
        let name = mpi["name"].as_str().context("an MPI without a name")?;
        assert_eq!(mpi["install"], format!("cargo xtask mpi install {name}"));
        if mpi["there"] != true {
            ensure!(mpi.get("can").is_none(), "{name} is not there, and can do things");
            continue;
        }
        ensure!(mpi["version"].as_str().is_some_and(|it| it.contains('.')), "{mpi}");
        for program in [&mpi["compilers"]["c"], &mpi["launcher"]] {
            let file = Path::new(program.as_str().context("a program without a file")?);
            ensure!(file.exists(), "{} does not exist", file.display());
        }
        let can = mpi["can"].as_object().context("nothing it can do")?;
        for question in
            ["threads", "shared_windows", "split_shared", "sessions", "spawn", "connect"]
        {
            let entry = &can[question];
            let answer = entry["answer"].as_str().with_context(|| question.to_owned())?;
            // A "no" has its reason.
            let explained = entry["reason"].as_str().is_some_and(|reason| !reason.is_empty());
            ensure!((answer == "no") == explained, "{name}, {question}: {entry}");
        }
    }
    Ok(())
}

#[test]
fn what_the_default_can_do_is_tried_out_for_real() -> Result<()> {
    let before = std::fs::metadata(kept("openmpi")?).and_then(|file| file.modified()).ok();
    let listed = listed(&["--again", "openmpi"])?;
    assert_eq!(listed.len(), 1);
    let mpi = listed.iter().find(|mpi| mpi["default"] == true).context("no default")?;
    ensure!(mpi["there"] == true, "{mpi}");
    let now = std::fs::metadata(kept("openmpi")?)?.modified()?;
    ensure!(before.is_none_or(|then| then < now), "the answers were not found out again");
    // What the library needs of an MPI, or its users do.
    let answer = |question: &str| mpi["can"][question]["answer"].as_str().unwrap_or_default();
    assert_eq!(answer("threads"), "multiple");
    for question in ["cxx", "fortran", "shared_windows", "split_shared"] {
        assert_eq!(answer(question), "yes", "{question}: {mpi}");
    }
    let launcher = Launcher::of(mpi["launcher"].as_str().unwrap_or_default())?;
    ensure!(matches!(launcher.family(), Family::OpenMpi4 | Family::OpenMpi5));
    Ok(())
}

/// Returns the file that keeps the answers.
fn kept(name: &str) -> Result<PathBuf> {
    let xtask = Checkout::find()?.program("xtask")?;
    let base = xtask.ancestors().nth(2).context("xtask lies in no build folder")?;
    Ok(base.join("mpi/probed").join(format!("{name}.json")))
}

#[test]
fn the_table_names_each_and_says_what_an_asterisk_means() -> Result<()> {
    let told = succeeded(&run(&mut xtask(&["mpi", "list"])?)?)?;
    for name in NAMES {
        ensure!(told.contains(name), "{name} is not in\n{told}");
    }
    let (table, remarks) = told.split_once("\n\n").context("only a table")?;
    for line in table.lines().skip(1).filter(|line| line.contains('*')) {
        let name = line.split_whitespace().next().unwrap_or_default();
        ensure!(remarks.contains(&format!("* {name}, ")), "no remark on {name} in\n{told}");
    }
    Ok(())
}

#[test]
fn names_that_mean_nothing_are_answered_with_those_that_do() -> Result<()> {
    for arguments in [&["test", "--list", "--mpi", "mvapich"][..], &["mpi", "install", "mvapich"]] {
        expect_refusal(&mut xtask(arguments)?, &["no MPI called `mvapich`", "mpich5", "mpi list"])?;
    }
    Ok(())
}

#[test]
fn missing_mpi_is_answered_with_the_words_to_type() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = xtask(&["test", "--list", "--mpi", "intel"])?;
    // A build folder in which nothing was fetched.
    command.env("QUO_XTASK_BASE", folder.path());
    expect_refusal(&mut command, &["intel", "is not here", "cargo xtask mpi install intel"])
}

#[test]
fn variables_that_point_nowhere_are_errors_that_name_them() -> Result<()> {
    let empty = tempfile::tempdir()?;
    let home = empty.path().display().to_string();
    let mut command = xtask(&["test", "--list"])?;
    expect_refusal(command.env("MPI_HOME", &home), &["MPI_HOME=", &home, "bin/mpicc"])?;
    let mut command = xtask(&["test", "--list"])?;
    expect_refusal(command.env("MPICC", "mpicc-of-nobody"), &["MPICC=mpicc-of-nobody"])?;
    let lonely = installation(&[("mpicc", "exit 0")])?;
    let mut command = xtask(&["test", "--list"])?;
    expect_refusal(command.env("MPI_HOME", lonely.path()), &["launcher", "QUO_TESTS_MPIRUN"])
}

#[test]
fn mpi_home_installation_gets_its_own_build_folder() -> Result<()> {
    let home = installation(&[("mpicc", "exit 0"), ("mpirun", "exit 0")])?;
    let mpicc = home.path().join("bin/mpicc");
    let usual = succeeded(&run(&mut xtask(&["test", "--list"])?)?)?;
    ensure!(usual.contains("\nquo library\n"), "{usual}");
    let variables = [("MPI_HOME", home.path()), ("MPICC", &mpicc)];
    let mut told = Vec::new();
    for (name, value) in variables {
        let mut command = xtask(&["test", "--list"])?;
        told.push(succeeded(&run(command.env(name, value))?)?);
    }
    // The same MPI, however it is named, and only the suites that use an MPI.
    assert_eq!(told[0], told[1]);
    for line in told[0].lines() {
        let is_of_jobs = line.contains(": quo-tests ") || line.contains(": quo-hosts ");
        ensure!(line.starts_with("by-path-") && is_of_jobs, "{line}");
    }
    // The machine's own MPI, named by its file, is the default and nothing else.
    let mut command = xtask(&["test", "--list"])?;
    assert_eq!(succeeded(&run(command.env("MPICC", "mpicc"))?)?, usual);
    Ok(())
}
