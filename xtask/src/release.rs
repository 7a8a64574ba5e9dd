//! The optimised build that install, demo and bench share, so that none of them compiles again what
//! another has.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::{project, run};

const LIMIT: Duration = Duration::from_secs(30 * 60);

/// `quo` is always among the packages, since `--all-features` means those of the packages that are
/// named: so it is compiled once for all commands. `quo-mpi` is not: its feature needs libclang, and
/// only Rust programs that use MPI themselves need the feature.
const ARGUMENTS: &[&str] =
    &["build", "--release", "--all-features", "--package", "quo", "--package", "quo-info"];

/// Builds `quo`, `quo-info` and another package, with cargo's own progress on the terminal, and returns the
/// folder of the results.
pub fn build(package: &str) -> Result<PathBuf> {
    println!("building {package}, optimised");
    let start = Instant::now();
    let mut cargo = project::cargo()?;
    run::shown(cargo.args(ARGUMENTS).args(["--package", package]), LIMIT)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(project::target()?.join("release"))
}
