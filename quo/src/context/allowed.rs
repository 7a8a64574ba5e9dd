//! CPUs that the system currently allows this process to use, regardless of its mask.
//!
//! A context knows the CPUs allowed when it was made or renewed. Two files show in two microseconds
//! whether that is still right: one names the control group of the process, the other has the CPUs
//! of that group. Phases and queries that follow one another faster than [`RECENT`] share one
//! check. Only if the files have changed is the machine read again.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::io::{pread, retry_on_intr};

use super::control_groups::{Folder, folders};
use super::peer_identity::digest;
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::node::ForkId;
use crate::own_file::OwnFile;
use crate::topology::Topology;

/// File with the control group of this process.
const GROUP: &str = "/proc/self/cpuset";
/// File of online CPUs, read if no file of the control group can be.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Maximum age of a check that phases share: long compared with its cost, short compared with any
/// change.
const RECENT: Duration = Duration::from_millis(1);

/// Last version that was seen, and the time until which it is recent.
static LAST: (AtomicU64, AtomicU64) = (AtomicU64::new(0), AtomicU64::new(0));

/// Files of this process, kept open.
static FILES: Mutex<Option<(ForkId, Files)>> = Mutex::new(None);

/// CPUs allowed at the [`version`] that was last requested.
static KNOWN: Mutex<Option<(u64, CpuSet)>> = Mutex::new(None);

/// Like [`version`], at most [`RECENT`] old.
pub(super) fn recent_version() -> u64 {
    if now() < LAST.1.load(Ordering::Acquire) {
        return LAST.0.load(Ordering::Relaxed);
    }
    version()
}

/// Returns the nanoseconds on a clock of this process.
pub(super) fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let passed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a digest of the CPUs that the system allows this process to use. Equal versions mean
/// that nothing has changed; if the system gives no information, the version never changes.
pub(super) fn version() -> u64 {
    // The time first: a change after the check is found when that time has passed.
    let until = now().saturating_add(u64::try_from(RECENT.as_nanos()).unwrap_or(0));
    let version = read_version();
    LAST.0.store(version, Ordering::Relaxed);
    LAST.1.store(until, Ordering::Release);
    version
}

fn read_version() -> u64 {
    // Never waited for: a forked child would wait for a thread that it does not have.
    let Ok(mut files) = FILES.try_lock() else { return Files::open().fresh_version() };
    if let Some((process, known)) = &*files
        && *process == ForkId::current()
        && let Some(version) = known.version()
    {
        return version;
    }
    let (_, opened) = files.insert((ForkId::current(), Files::open()));
    opened.fresh_version()
}

/// Returns the list of allowed CPUs, as the kernel writes it, if the [`version`] is still this one.
/// Equal lists of two control groups allow the same CPUs.
pub(super) fn list_at(version: u64) -> Option<Vec<u8>> {
    let files = Files::open();
    (files.version()? == version)
        .then(|| files.cpus.as_ref().and_then(contents).unwrap_or_default())
}

/// Returns the CPUs of a machine that this process may use at a [`version`], whatever other
/// processes may use.
pub(super) fn allowed(machine: &Topology, version: u64) -> Result<CpuSet, Error> {
    let known = || KNOWN.try_lock();
    if let Ok(known) = known()
        && let Some((of, cpus)) = &*known
        && *of == version
    {
        return Ok(cpus.intersection(machine.machine_cpuset()));
    }
    let cpus = Topology::discover()?.allowed().clone();
    let allowed = cpus.intersection(machine.machine_cpuset());
    if let Ok(mut known) = known() {
        *known = Some((version, cpus));
    }
    Ok(allowed)
}

/// The two files.
#[derive(Debug)]
struct Files {
    group: Option<OwnFile>,
    /// Group whose CPUs are in `cpus`.
    name: Vec<u8>,
    cpus: Option<OwnFile>,
}

impl Files {
    fn open() -> Self {
        let open = |path: &str| OwnFile::keep(File::open(path).ok()?).ok();
        let group = open(GROUP);
        let name = group.as_ref().and_then(contents).unwrap_or_default();
        let places = control_group_files();
        let cpus = places.iter().find_map(|path| open(path)).or_else(|| open(ONLINE));
        Self { group, name, cpus }
    }

    /// Returns the version, or `None` if other files are relevant by now.
    fn version(&self) -> Option<u64> {
        let name = self.group.as_ref().and_then(contents).unwrap_or_default();
        let cpus = match &self.cpus {
            // Fails for a group that was removed.
            Some(file) => contents(file)?,
            None => Vec::new(),
        };
        (name == self.name).then(|| digest(name.into_iter().chain([0]).chain(cpus)))
    }

    /// Returns the version of files that were just opened.
    fn fresh_version(&self) -> u64 {
        self.version().unwrap_or_default()
    }
}

/// Reads a kernel file again, usually in one system call.
fn contents(file: &OwnFile) -> Option<Vec<u8>> {
    let (file, _) = file.verified()?;
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let place = text.len() as u64;
        let filled = retry_on_intr(|| pread(file, &mut piece, place)).ok()?;
        text.extend_from_slice(&piece[..filled]);
        // A short read means the end of these files.
        if filled < piece.len() {
            return Some(text);
        }
    }
}

/// Returns files that may contain the CPUs of this process's control group, the most specific
/// first: a group that sets no CPUs has its parent's.
fn control_group_files() -> Vec<String> {
    let files = |folder: Folder| {
        let names: &[&str] = if folder.unified {
            &["cpuset.cpus.effective"]
        } else {
            &["cpuset.effective_cpus", "cpuset.cpus"]
        };
        names.iter().map(move |name| format!("{}/{name}", folder.path))
    };
    folders("cpuset").into_iter().flat_map(files).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_stays_while_nothing_changes() {
        let before = version();
        assert_eq!(version(), before);
        assert_eq!(Files::open().fresh_version(), before);
    }

    #[test]
    fn list_is_that_of_its_version_only() {
        let seen = version();
        assert!(!list_at(seen).unwrap().is_empty());
        assert_eq!(list_at(seen.wrapping_add(1)), None);
    }

    #[test]
    fn recent_version_is_the_one_read_last() {
        let seen = version();
        assert_eq!(recent_version(), seen);
        LAST.1.store(0, Ordering::Release);
        assert_eq!(recent_version(), seen);
        assert!(LAST.1.load(Ordering::Acquire) > now());
    }

    #[test]
    fn version_of_files_that_moved_on_is_unknown() {
        let open = Files::open();
        assert!(Files { name: b"/another\n".to_vec(), ..open }.version().is_none());
        let nothing = Files { group: None, name: Vec::new(), cpus: None };
        assert!(nothing.version().is_some());
    }

    #[test]
    fn long_files_are_read_to_their_end() {
        let mut file = tempfile::tempfile().unwrap();
        let own = OwnFile::keep(file.try_clone().unwrap()).unwrap();
        for length in [0, 1, 4095, 4096, 9000] {
            let text = vec![b'x'; length];
            file.set_len(0).unwrap();
            std::io::Write::write_all(&mut file, &text).unwrap();
            std::io::Seek::rewind(&mut file).unwrap();
            assert_eq!(contents(&own), Some(text));
        }
    }
}
