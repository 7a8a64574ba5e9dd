//! The C program of the README compiles and runs. (The Rust one is an example in the documentation of
//! the harness.)

use std::fs;

use anyhow::{Context, Result};
use quo_tests::{Checkout, Job};

#[test]
fn the_c_example_compiles_and_runs() -> Result<()> {
    let checkout = Checkout::find()?;
    let readme = fs::read_to_string(checkout.root().join("README.md"))?;
    let (_, rest) = readme.split_once("```c\n").context("no C example")?;
    let (example, _) = rest.split_once("```").context("the C example has no end")?;
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("example.c"), folder.path().join("example"));
    fs::write(&source, example)?;
    checkout.library()?.compile(&source, &program, &[])?;
    let outcome = Job::new(4, &program).topology("pack:2 core:2 pu:1").run()?;
    outcome.expect_success()?;
    assert_eq!(outcome.stdout, "a worker with 2 threads\n".repeat(2));
    Ok(())
}
