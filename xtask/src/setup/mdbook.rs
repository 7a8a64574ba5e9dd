//! The program that builds a site from the project's pages. It is built from crates.io's source, in
//! the build folder.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::fpm::quiet_within;
use crate::project;

const VERSION: &str = "0.5.4";
/// The program in its folder.
const PROGRAM: &str = "bin/mdbook";
/// Limit of a build on one slow core.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Returns true if the program is built.
pub fn is_there() -> Result<bool> {
    Ok(folder()?.join(PROGRAM).is_file())
}

/// Returns the program, building it if necessary. Prints nothing if it is there.
pub fn fetch() -> Result<PathBuf> {
    let folder = folder()?;
    let program = folder.join(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    println!("set-up: building mdbook {VERSION}, some minutes");
    let build = folder.with_extension("build");
    let mut cargo = project::cargo()?;
    cargo.args(["install", "mdbook", "--version", VERSION, "--locked", "--no-default-features"]);
    cargo.args(["--features", "search", "--root"]).arg(&folder);
    cargo.env("CARGO_TARGET_DIR", &build);
    quiet_within(&mut cargo, &folder.with_extension("log"), LIMIT)?;
    fs::remove_dir_all(&build).with_context(|| format!("removing {}", build.display()))?;
    Ok(program)
}

fn folder() -> Result<PathBuf> {
    Ok(project::base()?.join(format!("mdbook-{VERSION}")))
}
