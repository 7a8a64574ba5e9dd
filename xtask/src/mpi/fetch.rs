//! Gets an MPI that is not on this machine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::catalogue::{DEFAULT, Mpi, Origin, named};
use super::home;
use crate::{run, setup};

const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Installs the MPI if it is missing. Prints nothing if it is there.
pub fn ensure(mpi: &Mpi) -> Result<bool> {
    if home::find(mpi)?.is_some() {
        return Ok(false);
    }
    match mpi.origin {
        Origin::Packages { apt, .. } if mpi.name != DEFAULT => setup::install_packages(apt)?,
        Origin::Packages { .. } => setup::ensure()?,
        Origin::StandardOf(name) => return ensure(named(name)?),
        Origin::Wheels(packages) => {
            setup::ensure_python()?;
            unpack(mpi, packages).with_context(|| format!("fetching {}", mpi.title))?;
        }
    }
    home::require(mpi)?;
    Ok(true)
}

/// Unpacks into a folder under another name until it is complete, so that an interrupted one is not
/// mistaken for it.
fn unpack(mpi: &Mpi, packages: &[&str]) -> Result<()> {
    let folder = home::wheels(mpi)?;
    let unfinished = folder.with_extension("unfinished");
    remove(&unfinished)?;
    remove(&folder)?;
    println!("set-up: fetching {}", packages.join(" "));
    let mut venv = Command::new("python3");
    quiet(venv.args(["-m", "venv"]).arg(&unfinished))?;
    let mut pip = Command::new(unfinished.join("bin/pip"));
    pip.args(["install", "--quiet", "--no-input", "--no-deps", "--disable-pip-version-check"]);
    quiet(pip.args(["--only-binary", ":all:"]).args(packages))?;
    if mpi.name == "intel" {
        // The Fortran wrapper looks for gfortran's modules there.
        std::os::unix::fs::symlink("mpi/gfortran", unfinished.join("include/gfortran"))?;
    }
    std::fs::rename(&unfinished, &folder)?;
    Ok(())
}

fn quiet(command: &mut Command) -> Result<()> {
    let log = tempfile::NamedTempFile::new()?;
    let finished = run::logged(command, log.path(), LIMIT)?;
    if !finished.ending.is_success() {
        let end: Vec<&str> = finished.output.lines().rev().take(5).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        bail!("{}: {}\n{}", command.get_program().display(), finished.ending, end.join("\n"));
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}
