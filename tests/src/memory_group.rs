//! A memory limit for processes, beyond which the kernel ends one of them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A control group of either version with a memory limit, removed when dropped.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    /// File that takes the PIDs of the group's processes.
    pub tasks: PathBuf,
}

impl MemoryGroup {
    /// Creates a group with this limit in bytes; returns `None` where that needs more rights, or no
    /// controller exists.
    #[must_use]
    pub fn new(limit: u64) -> Option<MemoryGroup> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("memprof-tests-{}-{number}", std::process::id());
        let one = Path::new("/sys/fs/cgroup/memory");
        let two = Path::new("/sys/fs/cgroup");
        if !one.exists() {
            // In version 2 a group counts memory only if its parent enables that.
            let _already_so = write(&two.join("cgroup.subtree_control"), "+memory");
        }
        for (base, file) in [(one, "memory.limit_in_bytes"), (two, "memory.max")] {
            let folder = base.join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = MemoryGroup { tasks: folder.join("cgroup.procs"), folder };
            if write(&group.folder.join(file), &limit.to_string()).is_ok() {
                // No swap space, or a process beyond the limit would continue there.
                let _there_is_none = write(&group.folder.join("memory.swap.max"), "0");
                return Some(group);
            }
        }
        None
    }
}

/// Writes to an existing file: without a controller, the folder is an ordinary one.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _leaves_it_to_the_kernel = fs::remove_dir(&self.folder);
    }
}
