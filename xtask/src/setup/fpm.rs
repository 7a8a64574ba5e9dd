//! The Fortran package manager, with which a suite builds programs. Debian has none; it comes as a Python
//! package, into the build folder.

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

/// Makes it be there. Says nothing when it is.
pub fn fetch() -> Result<()> {
    let folder = project::base()?.join("fpm");
    if project::find_program("fpm").is_some() || program(&folder).is_some() {
        return Ok(());
    }
    println!("set-up: fetching {PACKAGE}");
    let venv = Venv::begin(&folder)?;
    venv.pip(&["install", "--no-deps", "--only-binary", ":all:", PACKAGE])?;
    let program = program(&venv.unfinished)
        .with_context(|| format!("the Python package {PACKAGE} holds no program fpm"))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    venv.finish()
}

/// The program itself; the script in front of it has the folder's first name in it.
fn program(folder: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(folder.join("lib")).ok()?.flatten();
    let mut programs = versions.map(|version| version.path().join("site-packages/fpm/fpm"));
    programs.find(|program| program.is_file())
}

/// Runs a command whose output is only shown when it fails.
pub(super) fn quiet(command: &mut Command, log: &Path) -> Result<()> {
    quiet_within(command, log, LIMIT)
}

/// Runs a command that may take until `limit` and whose output is only shown when it fails.
pub(super) fn quiet_within(command: &mut Command, log: &Path, limit: Duration) -> Result<()> {
    let finished = run::logged(command, log, limit)?;
    if !finished.ending.is_success() {
        let name = command.get_program().to_string_lossy().into_owned();
        bail!("{name}: {}\n{}", finished.ending, finished.output.trim_end());
    }
    Ok(())
}
