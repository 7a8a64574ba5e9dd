//! The Fortran package manager, with which a suite builds programs. Debian has none; it is a Python
//! package, installed into the build folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::venv::Venv;
use crate::{project, run};

const PACKAGE: &str = "fpm==0.12.0";
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// Returns true if there is an fpm, of the machine or fetched.
pub fn is_there() -> Result<bool> {
    Ok(project::find_program("fpm").is_some() || program(&folder()?).is_some())
}

/// Installs fpm if it is missing. Prints nothing if it is there.
pub fn fetch() -> Result<()> {
    if is_there()? {
        return Ok(());
    }
    let folder = folder()?;
    println!("set-up: fetching {PACKAGE}");
    let venv = Venv::begin(&folder)?;
    venv.pip(&["install", "--no-deps", "--only-binary", ":all:", PACKAGE])?;
    let program = program(&venv.unfinished)
        .with_context(|| format!("the Python package {PACKAGE} holds no program fpm"))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    venv.finish()
}

fn folder() -> Result<PathBuf> {
    Ok(project::base()?.join("fpm"))
}

/// Returns the program itself; the script that starts it contains the folder's original name.
fn program(folder: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(folder.join("lib")).ok()?.flatten();
    let mut programs = versions.map(|version| version.path().join("site-packages/fpm/fpm"));
    programs.find(|program| program.is_file())
}

/// Runs a command whose output is only shown if it fails.
pub(super) fn quiet(command: &mut Command, log: &Path) -> Result<()> {
    quiet_within(command, log, LIMIT)
}

/// Runs a command with a time limit, whose output is only shown if it fails.
pub(super) fn quiet_within(command: &mut Command, log: &Path, limit: Duration) -> Result<()> {
    let finished = run::logged(command, log, limit)?;
    if !finished.ending.is_success() {
        let name = command.get_program().to_string_lossy().into_owned();
        bail!("{name}: {}\n{}", finished.ending, finished.output.trim_end());
    }
    Ok(())
}
