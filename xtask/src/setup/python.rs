//! Tools for the Python package: what builds a wheel and what its tests need. They come as Python packages, into the
//! build folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::fpm::quiet;
use crate::project;

const PACKAGES: &[&str] = &[
    "build==1.6.1",
    "flit_core==4.2.0",
    "mpi4py==4.1.2",
    "mypy==2.4.1",
    "numpy==2.4.6",
    "threadpoolctl==3.8.0",
];

/// Returns the interpreter that has the tools, which are fetched now if they were not. Says nothing when they are
/// there.
pub fn fetch() -> Result<PathBuf> {
    let folder = project::base()?.join("python");
    let interpreter = folder.join("bin/python");
    if interpreter.is_file() {
        return Ok(interpreter);
    }
    println!("set-up: fetching {}", PACKAGES.join(" "));
    // Under another name until it is complete.
    let unfinished = folder.with_extension("unfinished");
    let _absent = (fs::remove_dir_all(&unfinished), fs::remove_dir_all(&folder));
    let log = folder.with_extension("log");
    quiet(Command::new("python3").args(["-m", "venv"]).arg(&unfinished), &log)?;
    let mut pip = Command::new(unfinished.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    quiet(pip.args(["--only-binary", ":all:"]).args(PACKAGES), &log)?;
    fs::rename(&unfinished, &folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(interpreter)
}
