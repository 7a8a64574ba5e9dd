//! Python packages: tools that build and check the Python package, needs of its tests, and what the
//! full test runs under the memory profiler or uses to read its exports. They are installed into
//! the build folder.

use std::fs;

use anyhow::{Context, Result};

use super::venv::Venv;
use crate::project;

/// The wheel has a module for each family of MPIs; the source package has its own tests.
const MPI4PY: &str = "mpi4py==4.1.2";

/// Packages from the registry; of Perfetto only the messages of its trace format.
const PACKAGES: &[&str] = &[
    MPI4PY,
    "flit_core==4.2.0",
    "mypy==2.4.1",
    "numpy==2.4.6",
    "perfetto==0.59.1",
    "threadpoolctl==3.8.0",
];

/// Folder of the packages in the build folder.
const FOLDER: &str = "python";

/// File in the folder with the list of fetched packages.
const LIST: &str = "packages.txt";

/// Returns true if the packages are fetched.
pub fn is_there() -> Result<bool> {
    let list = project::base()?.join(FOLDER).join(LIST);
    Ok(fs::read_to_string(list).is_ok_and(|list| list == PACKAGES.join("\n")))
}

/// Fetches the packages if they are missing. Prints nothing if they are there.
pub fn fetch() -> Result<()> {
    let folder = project::base()?.join(FOLDER);
    if is_there()? {
        return Ok(());
    }
    println!("set-up: fetching {}", PACKAGES.join(" "));
    let venv = Venv::begin(&folder)?;
    venv.pip(&[&["install", "--only-binary", ":all:"], PACKAGES].concat())?;
    venv.unpack(MPI4PY, "test", 1)?;
    let list = venv.unfinished.join(LIST);
    fs::write(&list, PACKAGES.join("\n")).with_context(|| format!("writing {}", list.display()))?;
    venv.finish()
}
