//! The files of a change, which decide the additions to the gate.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{project, run};

/// Returns the files that differ from `since`, including uncommitted ones. Without `since`: from
/// the point where the branch left the remote's default branch, or, if it has not left it, the
/// files of the newest commit.
pub fn files(since: Option<&str>) -> Result<Vec<String>> {
    let base = match since {
        Some(revision) => revision.to_owned(),
        None => default_base(),
    };
    let changed = git(&["diff", "--name-only", &base])
        .with_context(|| format!("--since {base}: comparing with this revision"));
    // A folder outside git, such as an unpacked archive, has no changes.
    let changed = if since.is_some() { changed? } else { changed.unwrap_or_default() };
    let new = git(&["ls-files", "--others", "--exclude-standard"]).unwrap_or_default();
    Ok(changed.lines().chain(new.lines()).map(str::to_owned).collect())
}

fn default_base() -> String {
    let head = git(&["rev-parse", "HEAD"]).unwrap_or_default();
    let left = git(&["merge-base", "HEAD", "origin/HEAD"]).unwrap_or_default();
    if left.is_empty() || left == head { "HEAD^".to_owned() } else { left.trim().to_owned() }
}

fn git(arguments: &[&str]) -> Result<String> {
    run::captured(Command::new("git").current_dir(project::root()).args(arguments))
}
