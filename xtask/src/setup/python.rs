//! Python packages that the full test runs under the memory profiler, or reads its exports with: mpi4py, whose source package
//! holds its own tests, and Perfetto's schema. They come into the build folder.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::fpm::quiet;
use crate::project;

/// The wheel holds a module for each family of MPIs.
const MPI4PY: &str = "mpi4py==4.1.2";
/// Messages of its trace format, with the readers of protobuf that it needs. Its trace processor is a download of its own,
/// from outside the registry, and left alone.
const PERFETTO: &str = "perfetto==0.59.1";

/// Makes them be there. Says nothing when they are.
pub fn fetch() -> Result<()> {
    let folder = project::base()?.join("python");
    if folder.is_dir() {
        return Ok(());
    }
    println!("set-up: fetching {MPI4PY}, its tests, and {PERFETTO}");
    // Under another name until it is complete.
    let unfinished = folder.with_extension("unfinished");
    let _absent = fs::remove_dir_all(&unfinished);
    let log = folder.with_extension("log");
    quiet(Command::new("python3").args(["-m", "venv"]).arg(&unfinished), &log)?;
    let pip = |words: &[&str]| {
        let mut pip = Command::new(unfinished.join("bin/python"));
        pip.args(["-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(words).current_dir(&unfinished);
        pip
    };
    quiet(&mut pip(&["install", "--only-binary", ":all:", MPI4PY, PERFETTO]), &log)?;
    quiet(&mut pip(&["download", "--no-deps", "--no-binary", "mpi4py", MPI4PY]), &log)?;
    let source = MPI4PY.replace("==", "-");
    let archive = format!("{source}.tar.gz");
    let mut tar = Command::new("tar");
    tar.current_dir(&unfinished).args(["-xzf", &archive, "--strip-components=1"]);
    quiet(tar.arg(format!("{source}/test")), &log)?;
    fs::remove_file(unfinished.join(&archive)).context("removing an unpacked archive")?;
    fs::rename(&unfinished, &folder).with_context(|| format!("making {}", folder.display()))
}
