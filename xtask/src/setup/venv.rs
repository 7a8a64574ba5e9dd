//! Folders of Python packages, created under another name until they are complete.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::fpm::quiet;

/// A virtual environment under construction.
pub(super) struct Venv {
    folder: PathBuf,
    /// Path of the environment until it is complete.
    pub(super) unfinished: PathBuf,
    log: PathBuf,
}

impl Venv {
    /// Begins the environment that becomes `folder`.
    pub(super) fn begin(folder: &Path) -> Result<Self> {
        let unfinished = folder.with_extension("unfinished");
        let _absent = fs::remove_dir_all(&unfinished);
        let log = folder.with_extension("log");
        quiet(Command::new("python3").args(["-m", "venv"]).arg(&unfinished), &log)?;
        Ok(Self { folder: folder.to_path_buf(), unfinished, log })
    }

    /// Runs pip with these arguments.
    pub(super) fn pip(&self, words: &[&str]) -> Result<()> {
        let mut pip = Command::new(self.unfinished.join("bin/python"));
        pip.args(["-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]);
        quiet(pip.args(words).current_dir(&self.unfinished), &self.log)
    }

    /// Extracts `part` from the sources of a package, without its first `strip` folders. `package`
    /// is `NAME==VERSION`.
    pub(super) fn unpack(&self, package: &str, part: &str, strip: u8) -> Result<()> {
        let (name, _) = package.split_once("==").unwrap_or((package, ""));
        self.pip(&["download", "--no-deps", "--no-binary", name, package])?;
        let source = package.replace("==", "-");
        let archive = format!("{source}.tar.gz");
        let mut tar = Command::new("tar");
        tar.current_dir(&self.unfinished).args(["-xzf", &archive]);
        tar.arg(format!("--strip-components={strip}")).arg(format!("{source}/{part}"));
        quiet(&mut tar, &self.log)?;
        let archive = self.unfinished.join(archive);
        fs::remove_file(&archive).with_context(|| format!("removing {}", archive.display()))
    }

    /// Renames the complete environment, replacing an older one.
    pub(super) fn finish(self) -> Result<()> {
        let folder = self.folder;
        let _absent = fs::remove_dir_all(&folder);
        fs::rename(self.unfinished, &folder).with_context(|| format!("making {}", folder.display()))
    }
}
