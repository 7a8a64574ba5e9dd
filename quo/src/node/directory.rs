//! Directory of segments: other users must not be able to replace files in it.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags};

use super::NodeError;
use super::name::user;

/// Opens a directory in which only this user and the administrator can replace this user's files.
/// The result refers to the directory that was checked, wherever the path leads later.
pub(super) fn open(path: &Path) -> Result<OwnedFd, NodeError> {
    let system = |call| move |error| NodeError::system(call, path.display().to_string(), error);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = fs::open(path, flags, Mode::empty()).map_err(system("open"))?;
    let status = fs::fstat(&directory).map_err(system("fstat"))?;
    let owner = Owner { id: status.st_uid, is_hidden_root: is_hidden_root(status.st_uid) };
    match objection(&owner, status.st_mode, user()) {
        None => Ok(directory),
        Some(reason) => Err(NodeError::UnsafeDirectory { directory: path.to_owned(), reason }),
    }
}

struct Owner {
    id: u32,
    /// In a container without a mapped administrator, the administrator's files belong to `nobody`.
    is_hidden_root: bool,
}

/// Returns why segments are not safe in a directory of this owner and mode.
fn objection(owner: &Owner, mode: u32, user: u32) -> Option<&'static str> {
    let mode = Mode::from_raw_mode(mode);
    if owner.id != user && owner.id != 0 && !owner.is_hidden_root {
        Some("it belongs to another user, who could replace what is in it")
    } else if mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX) {
        Some("others may write to it and it has no sticky bit, so they could replace what is in it")
    } else {
        None
    }
}

fn is_hidden_root(owner: u32) -> bool {
    let text = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let is_nobody = || text("/proc/sys/kernel/overflowuid").trim().parse() == Ok(owner);
    owner != 0 && is_nobody() && !maps_root(&text("/proc/self/uid_map"))
}

/// Returns true if this user namespace maps the machine's administrator, so that processes can tell
/// the administrator's files from others. Lines are: first id inside, first id outside, count.
fn maps_root(map: &str) -> bool {
    let outside = |line: &str| line.split_whitespace().nth(1).map(|id| id == "0");
    map.lines().any(|line| outside(line).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(id: u32, is_hidden_root: bool, mode: u32) -> Option<&'static str> {
        objection(&Owner { id, is_hidden_root }, mode, 1_000)
    }

    #[test]
    fn directories_of_this_user_and_of_the_administrator_are_good() {
        for (owner, mode) in [(1_000, 0o700), (1_000, 0o755), (0, 0o1777), (0, 0o755)] {
            assert_eq!(judge(owner, false, mode), None, "{owner} {mode:o}");
        }
    }

    #[test]
    fn directories_in_which_others_can_replace_files_are_not() {
        for mode in [0o777, 0o770, 0o702] {
            assert!(judge(1_000, false, mode).unwrap().contains("sticky"), "{mode:o}");
            assert!(judge(0, false, mode).unwrap().contains("sticky"), "{mode:o}");
        }
        for mode in [0o700, 0o1777] {
            assert!(judge(1_001, false, mode).unwrap().contains("another user"), "{mode:o}");
        }
    }

    #[test]
    fn where_the_administrator_shows_as_nobody_his_directories_are_good() {
        assert_eq!(judge(65_534, true, 0o1777), None);
        assert!(judge(65_534, true, 0o777).is_some());
        assert!(maps_root("         0          0 4294967295\n"));
        assert!(!maps_root("      1000       1000          1\n"));
        assert!(!maps_root("0 1000 1\n1 100000 65536\n"));
    }
}
