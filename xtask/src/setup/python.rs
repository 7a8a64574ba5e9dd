//! Python packages: tools that build and check the Python package, needs of its tests, and what the
//! full test runs under the memory profiler or uses to read its exports. They are installed into
//! the build folder.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::venv::Venv;
use crate::project;

/// The wheel has a module for each family of MPIs; the source package has its own tests.
const MPI4PY: &str = "mpi4py==4.1.2";

/// Packages from the registry; of Perfetto only the messages of its trace format. Its trace
/// processor is a separate download and not used.
const PACKAGES: &[&str] = &[
    MPI4PY,
    "flit_core==4.2.0",
    "mypy==2.4.1",
    "numpy==2.4.6",
    "perfetto==0.59.1",
    "threadpoolctl==3.8.0",
];

/// File in the folder with the list of fetched packages.
const LIST: &str = "packages.txt";

/// Returns the interpreter that has the packages, fetching them if necessary. Prints nothing if
/// they are there.
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
