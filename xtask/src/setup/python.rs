//! Packages of Python: what builds and checks the Python package, what its tests need, and what the full test runs under
//! the memory profiler or reads its exports with. They come into the build folder.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::venv::Venv;
use crate::project;

/// The wheel holds a module for each family of MPIs; the source package has tests of its own.
const MPI4PY: &str = "mpi4py==4.1.2";

/// Packages from the registry; of Perfetto only messages of its trace format. Its trace processor is a download and
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
    let venv = Venv::begin(&folder)?;
    venv.pip(&[&["install", "--only-binary", ":all:"], PACKAGES].concat())?;
    venv.unpack(MPI4PY, "test", 1)?;
    let list = venv.unfinished.join(LIST);
    fs::write(&list, wanted).with_context(|| format!("writing {}", list.display()))?;
    venv.finish()?;
    Ok(folder.join("bin/python"))
}
