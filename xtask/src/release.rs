//! The optimised build that install, demo and bench share, so that none of them compiles again what
//! another has.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::{project, run};

const LIMIT: Duration = Duration::from_secs(30 * 60);

/// `quo` is always among the packages, since `--all-features` means those of the packages that are
/// named: so it is compiled once for all commands. `quo-mpi` is not: its feature needs libclang, and
/// only Rust programs that use MPI themselves need the feature.
const ARGUMENTS: &[&str] =
    &["build", "--release", "--all-features", "--package", "quo", "--package", "quo-info"];

/// Builds libquo, `quo`, `quo-info` and `quo-elastic`, and returns the folder of the results. All MPIs share the
/// folder: of another one only the thin layer is built, which notices the change.
pub fn build_library() -> Result<PathBuf> {
    let mut cargo = project::cargo()?;
    // The linker that another MPI needs where the crate mpi-sys is: a change of it would make cargo
    // compile everything again.
    cargo.env_remove(project::linker_variable()?);
    build_in(project::base()?, &["quo-c", "quo-elastic"], cargo)
}

/// Builds `quo`, `quo-info` and another package, and returns the folder of the results. Each MPI has
/// its own: the crate mpi-sys does not notice another one.
pub fn build(package: &str) -> Result<PathBuf> {
    build_in(project::target()?, &[package], project::cargo()?)
}

/// With cargo's own progress on the terminal.
fn build_in(folder: PathBuf, packages: &[&str], mut cargo: Command) -> Result<PathBuf> {
    println!("building {}, optimised", packages.join(" and "));
    let start = Instant::now();
    cargo.env("CARGO_TARGET_DIR", &folder);
    run::shown(
        cargo.args(ARGUMENTS).args(packages.iter().flat_map(|name| ["--package", name])),
        LIMIT,
    )?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(folder.join("release"))
}

/// What ranks load and programs link of the memory profiler.
const MEMPROF_LIBRARIES: &[&str] = &["memprof-preload", "memprof-api", "memprof-archive"];

/// Builds the memory profiler: its command, which is returned, the object for ranks, libmemprof, and the
/// archive for static programs. It knows no MPI, so it lies where what all MPIs share does.
pub fn build_memprof() -> Result<PathBuf> {
    let packages = [&["memprof"], MEMPROF_LIBRARIES].concat();
    Ok(build_optimised(&packages)?.join("memprof"))
}

fn build_optimised(packages: &[&str]) -> Result<PathBuf> {
    println!("building memprof, optimised");
    let start = Instant::now();
    let folder = project::base()?;
    let mut build = project::cargo()?;
    build.env_remove(project::linker_variable()?).env("CARGO_TARGET_DIR", &folder);
    build.args(["build", "--release"]).args(packages.iter().flat_map(|name| ["--package", name]));
    run::shown(&mut build, LIMIT)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(folder.join("release"))
}
