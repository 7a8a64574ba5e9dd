//! Removes the files of jobs that were killed as a whole while they created a segment.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::time::ClockId;

use super::liveness::LockedFile;
use super::{Node, NodeError, SegmentName, directory, file};

/// Minimum age of a stale segment: younger segments may still be under construction.
const STALE: Duration = Duration::from_secs(60);

impl Node {
    /// Removes this user's stale segments from a directory and returns their number. Stale are
    /// files with a segment's name, untouched for more than a minute, of which no living process is
    /// a member or the creator. Local; safe while other jobs create and use segments.
    ///
    /// Segments lose their name as soon as all members are attached, so there is nothing to remove
    /// unless a whole job was killed within those milliseconds.
    ///
    /// # Errors
    /// [`NodeError::System`] if the directory cannot be read, [`NodeError::UnsafeDirectory`] if
    /// others could replace files in it. Files that cannot be examined are skipped.
    pub fn sweep(directory: impl AsRef<Path>) -> Result<usize, NodeError> {
        Self::sweep_older_than(directory, STALE)
    }

    /// Like [`sweep`](Self::sweep), with another age than a minute. Local.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep).
    pub fn sweep_older_than(
        directory: impl AsRef<Path>,
        age: Duration,
    ) -> Result<usize, NodeError> {
        let directory = directory.as_ref();
        directory::open(directory)?;
        let entries = std::fs::read_dir(directory).map_err(|error| {
            NodeError::system("opendir", directory.display().to_string(), error)
        })?;
        let names = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<SegmentName>().ok());
        Ok(names.filter(|name| remove_if_stale(directory, name, age)).count())
    }
}

fn remove_if_stale(directory: &Path, name: &SegmentName, age: Duration) -> bool {
    let Ok(file) = file::open(directory, name) else { return false };
    // Kept, not just open: it may be a segment of this process, and closing it would drop its
    // locks.
    let Ok(kept) = LockedFile::keep(file) else { return false };
    file::verify(kept.descriptor(), directory, name).is_ok()
        && is_older(kept.descriptor(), age)
        && kept.is_unused().unwrap_or(false)
        && file::unlink(directory, name).is_ok()
}

fn is_older(file: impl AsFd, age: Duration) -> bool {
    let Ok(status) = rustix::fs::fstat(file) else { return false };
    let now = rustix::time::clock_gettime(ClockId::Realtime).tv_sec;
    let touched = status.st_mtime.max(status.st_ctime);
    u64::try_from(now - touched).is_ok_and(|seconds| seconds >= age.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeOptions;

    #[test]
    fn only_unused_segments_of_this_user_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &SegmentName| directory.path().join(name.to_string());
        let [stale, used] = [(); 2].map(|()| SegmentName::random().unwrap());
        let options = NodeOptions { directory: directory.path().to_owned(), ..NodeOptions::new(1) };
        std::fs::write(path(&stale), b"").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path(&stale), private).unwrap();
        let other = directory.path().join("quo-something-else");
        std::fs::write(&other, b"").unwrap();
        let segment = Node::create(&used, &options).unwrap();

        let sweep = |age| Node::sweep_older_than(directory.path(), Duration::from_secs(age));
        assert_eq!(sweep(60).unwrap(), 0, "both are young");
        assert_eq!(sweep(0).unwrap(), 1);
        assert!(!path(&stale).exists() && path(&used).exists() && other.exists());
        // The creator has gone without removing the name; a member is attached.
        let node = Node::attach(&used, directory.path(), 0).unwrap();
        assert_eq!(sweep(0).unwrap(), 0);
        assert!(node.is_alive(0), "sweeping has not dropped this member's lock");
        drop(segment);
        assert!(!path(&used).exists());
        assert!(Node::sweep(directory.path().join("missing")).is_err());
    }
}
