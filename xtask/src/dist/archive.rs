//! Reproducible archives: their bytes depend only on the contents, not on the day, the user or the
//! order of a folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{project, run};

const LIMIT: Duration = Duration::from_secs(10 * 60);

/// Packs one folder of `parent`, with the time of the commit for all files, into `out`.
pub fn pack(parent: &Path, name: &str, out: &Path) -> Result<PathBuf> {
    let archive = out.join(format!("{name}.tar.gz"));
    let unfinished = out.join(format!(".{name}.tar.gz.unfinished"));
    let mut tar = Command::new("tar");
    tar.env("LC_ALL", "C").arg("--directory").arg(parent);
    // Otherwise gzip would record the time.
    tar.args(["--use-compress-program", "gzip --no-name", "--format=gnu", "--sort=name"]);
    tar.args(["--owner=0", "--group=0", "--numeric-owner", "--mode=u+rw,go+rX,go-w"]);
    tar.arg(format!("--mtime=@{}", commit_time()?));
    tar.arg("--create").arg("--file").arg(&unfinished).arg(name);
    let ending = run::logged(&mut tar, &project::base()?.join("xtask/release.log"), LIMIT)?;
    if !ending.ending.is_success() {
        bail!("packing {name}: tar: {}\n{}", ending.ending, ending.output.trim_end());
    }
    std::fs::rename(&unfinished, &archive)
        .with_context(|| format!("renaming {}", unfinished.display()))?;
    Ok(archive)
}

fn commit_time() -> Result<u64> {
    let mut git = Command::new("git");
    git.current_dir(project::root()).args(["log", "-1", "--format=%ct"]);
    let time = run::captured(&mut git).context("asking git for the time of the commit")?;
    time.trim()
        .parse()
        .with_context(|| format!("git log: {:?} is not the time of a commit", time.trim()))
}
