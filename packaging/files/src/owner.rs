//! Checks of owners and modes.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use rustix::fs::Stat;

/// Returns the effective user of this process.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns true if an owner is this user or the administrator, who can do everything anyway.
pub(crate) fn is_trusted(owner: u32) -> bool {
    owner == user() || owner == 0 || is_hidden_root(owner)
}

/// In a container without a mapped administrator, the administrator's files belong to `nobody`.
fn is_hidden_root(owner: u32) -> bool {
    let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let maps_root = |line: &str| line.split_whitespace().nth(1) == Some("0");
    text("/proc/sys/kernel/overflowuid").trim().parse() == Ok(owner)
        && !text("/proc/self/uid_map").lines().any(maps_root)
}

/// Returns an error that names the file or folder.
pub(crate) fn about(kind: &str, path: &Path, what: &str, error: ErrorKind) -> Error {
    Error::new(error, format!("the {kind} {}: {what}", path.display()))
}

pub(crate) fn refused<T>(kind: &str, path: &Path, what: &str) -> Result<T> {
    Err(about(kind, path, what, ErrorKind::PermissionDenied))
}

/// Returns the permission bits of a file.
pub(crate) fn mode(found: &Stat) -> u32 {
    found.st_mode & 0o7777
}
