//! Packages of Python: what builds and checks the Python package, what its tests need, and what the full test runs under
//! the memory profiler or reads its exports with. They come into the build folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::fpm::quiet;
use crate::project;

/// The wheel holds a module for each family of MPIs; the source package has tests of its own.
const MPI4PY: &str = "mpi4py==4.1.2";

/// Of Perfetto, messages of its trace format. Its trace processor is a download of its own, from outside the registry, and
/// left alone.
const PACKAGES: &[&str] = &[
    MPI4PY,
    "build==1.6.1",
    "flit_core==4.2.0",
    "mypy==2.4.1",
    "numpy==2.4.6",
    "perfetto==0.59.1",
    "threadpoolctl==3.8.0",
];

/// File in the folder with what was fetched.
const LIST: &str = "packages.txt";

/// Returns the interpreter that has the packages, which are fetched now if they were not. Says nothing when they are
/// there.
pub fn fetch() -> Result<PathBuf> {
    let folder = project::base()?.join("python");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(folder.join(LIST)).is_ok_and(|list| list == wanted) {
        return Ok(folder.join("bin/python"));
    }
    println!("set-up: fetching {}", PACKAGES.join(" "));
    // Under another name until it is complete.
    let unfinished = folder.with_extension("unfinished");
    let _absent = (fs::remove_dir_all(&unfinished), fs::remove_dir_all(&folder));
    let log = folder.with_extension("log");
    quiet(Command::new("python3").args(["-m", "venv"]).arg(&unfinished), &log)?;
    let pip = |words: &[&str]| {
        let mut pip = Command::new(unfinished.join("bin/python"));
        pip.args(["-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(words).current_dir(&unfinished);
        pip
    };
    quiet(pip(&["install", "--only-binary", ":all:"]).args(PACKAGES), &log)?;
    quiet(&mut pip(&["download", "--no-deps", "--no-binary", "mpi4py", MPI4PY]), &log)?;
    let source = MPI4PY.replace("==", "-");
    let archive = format!("{source}.tar.gz");
    let mut tar = Command::new("tar");
    tar.current_dir(&unfinished).args(["-xzf", &archive, "--strip-components=1"]);
    quiet(tar.arg(format!("{source}/test")), &log)?;
    fs::remove_file(unfinished.join(&archive)).context("removing an unpacked archive")?;
    fs::write(unfinished.join(LIST), wanted).context("listing what was fetched")?;
    fs::rename(&unfinished, &folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder.join("bin/python"))
}
