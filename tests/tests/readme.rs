//! The C program of the README and the C++ program of the guide compile and run, and the README's
//! launch line runs on any machine. (The Rust program is an example in the documentation of the
//! harness.)

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use quo_tests::{Checkout, Job, Launcher, Running};

/// Writes the first block of a language to a file, from the README or from the page on the other
/// languages.
fn written(checkout: &Checkout, language: &str, file: &Path) -> Result<()> {
    let page = if language == "c" { "README.md" } else { "docs/languages.md" };
    let page = fs::read_to_string(checkout.root().join(page))?;
    // More words may follow the language, as in the pages of the guide.
    let is_start = |line: &str| line.split(' ').next() == Some(&format!("```{language}"));
    let start = page.lines().find(|line| is_start(line)).context("no example")?;
    let (_, rest) = page.split_once(&format!("\n{start}\n")).context("no example")?;
    let (example, _) = rest.split_once("```").context("the example has no end")?;
    Ok(fs::write(file, example)?)
}

/// A function `team` that counts the threads of a parallel region, for C and C++.
const TEAM: &str = "#include <omp.h>
static int team(void)
{
    int threads = 0;
#pragma omp parallel
#pragma omp atomic
    threads++;
    return threads;
}
";

/// Adds a parallel region to the worker of the example in `file`, in place of the number `threads`,
/// and another one after the phase, which must have the one thread of `OMP_NUM_THREADS` again.
fn add_teams(file: &Path, threads: &str, after_the_phase: &str) -> Result<()> {
    let example = fs::read_to_string(file)?;
    let with = example.replacen(threads, " team());", 1).replacen(
        after_the_phase,
        &format!("{after_the_phase} if (team() != 1) return 1;"),
        1,
    );
    anyhow::ensure!(with.matches("team()").count() == 2, "another example than expected:\n{with}");
    Ok(fs::write(file, format!("{TEAM}{with}"))?)
}

/// Runs a program on a machine with two packages of two cores, and checks the lines that its two
/// workers print, in any order.
fn prints(program: &Path, lines: [&str; 2]) -> Result<()> {
    let outcome =
        Job::new(4, program).topology("pack:2 core:2 pu:1").env("OMP_NUM_THREADS", "1").run()?;
    outcome.expect_success()?;
    let mut printed: Vec<&str> = outcome.stdout.lines().collect();
    printed.sort_unstable();
    assert_eq!(printed, lines);
    Ok(())
}

/// What the examples in C and C++ print there.
const SUMS: [&str; 2] =
    ["ranks 0 to 1: sum 2000 by 2 threads", "ranks 2 to 3: sum 2000 by 2 threads"];

#[test]
fn the_c_example_compiles_and_runs() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("example.c"), folder.path().join("example"));
    written(&checkout, "c", &source)?;
    checkout.library()?.compile(&source, &program, &["-fopenmp"])?;
    prints(&program, SUMS)
}

#[test]
fn the_launch_line_runs_with_one_slot() -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(120);
    let checkout = Checkout::find()?;
    let readme = fs::read_to_string(checkout.root().join("README.md"))?;
    let line = readme.lines().find(|line| line.starts_with("mpirun ") && line.contains("./a.out"));
    let line = line.context("README has no line that launches a.out")?;
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("example.c");
    written(&checkout, "c", &source)?;
    checkout.library()?.compile(&source, &folder.path().join("a.out"), &["-fopenmp"])?;
    let launcher = Launcher::find()?;
    let mut shell = Command::new("sh");
    let text = line.replacen("mpirun", &launcher.program().to_string_lossy(), 1);
    shell.current_dir(&folder).args(["-c", &text]);
    launcher.limit_to_one_slot(&mut shell, folder.path())?;
    let outcome = Running::start(&mut shell, line, LIMIT)?.finish()?;
    outcome.expect_success()?;
    anyhow::ensure!(outcome.stdout.contains(" threads\n"), "{line}: {:?}", outcome.stdout);
    Ok(())
}

#[test]
fn the_cxx_example_compiles_and_runs() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("example.cpp"), folder.path().join("example"));
    written(&checkout, "cpp", &source)?;
    checkout.library()?.compile_cxx(&source, &program, "g++", &["-fopenmp"])?;
    prints(&program, SUMS)
}

#[test]
fn openmp_follows_the_phase_in_the_c_example() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("team.c"), folder.path().join("team"));
    written(&checkout, "c", &source)?;
    add_teams(&source, " threads);", "check(QUO_phase_end(solve));")?;
    checkout.library()?.compile(&source, &program, &["-fopenmp"])?;
    prints(&program, SUMS)
}

#[test]
fn openmp_follows_the_phase_in_the_cxx_example() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("team.cpp"), folder.path().join("team"));
    written(&checkout, "cpp", &source)?;
    add_teams(&source, " worker.threads());", "});")?;
    checkout.library()?.compile_cxx(
        &source,
        &program,
        "g++",
        &["-fopenmp", "-Wno-unused-parameter"],
    )?;
    prints(&program, SUMS)
}

/// Checks that the citation and the Python package have the same version.
#[test]
fn citation_and_python_package_have_the_version() -> Result<()> {
    let root = Checkout::find()?.root().to_path_buf();
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in [
        ("CITATION.cff", format!("version: {version}")),
        ("bindings-python/libquo/__init__.py", format!("__version__ = \"{version}\"")),
    ] {
        let text = fs::read_to_string(root.join(file))?;
        anyhow::ensure!(text.lines().any(|found| found == line), "{file} has no line {line:?}");
    }
    Ok(())
}
