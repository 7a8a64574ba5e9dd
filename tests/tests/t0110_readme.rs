//! The C and the C++ program of the README compile and run. (The Rust one is an example in the
//! documentation of the harness.)

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use quo_tests::{Checkout, Job};

/// Writes the first block of a language into a file.
fn written(checkout: &Checkout, language: &str, file: &Path) -> Result<()> {
    let readme = fs::read_to_string(checkout.root().join("README.md"))?;
    let (_, rest) = readme.split_once(&format!("```{language}\n")).context("no example")?;
    let (example, _) = rest.split_once("```").context("the example has no end")?;
    Ok(fs::write(file, example)?)
}

fn greets(program: &Path) -> Result<()> {
    let outcome = Job::new(4, program).topology("pack:2 core:2 pu:1").run()?;
    outcome.expect_success()?;
    assert_eq!(outcome.stdout, "a worker with 2 threads\n".repeat(2));
    Ok(())
}

#[test]
fn the_c_example_compiles_and_runs() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("example.c"), folder.path().join("example"));
    written(&checkout, "c", &source)?;
    checkout.library()?.compile(&source, &program, &[])?;
    greets(&program)
}

#[test]
fn the_cxx_example_compiles_and_runs() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("example.cpp"), folder.path().join("example"));
    written(&checkout, "cpp", &source)?;
    checkout.library()?.compile_cxx(&source, &program, "g++", &[])?;
    greets(&program)
}
