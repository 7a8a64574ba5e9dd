//! Hardware that one phase at a time holds, also across jobs and contexts that are unaware of each
//! other.
//!
//! A CPU is held by an exclusive lock (`flock`) on its folder in sysfs, which is the same file for
//! all processes of the machine. The kernel drops the lock when its holder ends, however it ends,
//! so nothing is left behind. The first worker of a node holds the CPUs of all its workers, so
//! workers that communicate never wait for each other here.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::cpuset::CpuSet;
use crate::error::Error;

const CALL: &str = "phase";

/// Interval between two attempts to lock CPUs that others hold: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(2));

/// How a phase treats phases of other contexts and jobs that want the same CPUs.
///
/// Phases that [overlap](Sharing::Overlap) hold no CPUs and do not wait: only phases that all
/// choose another mode keep off each other's CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharing {
    /// Runs at once and shares its CPUs with any other phase. The default.
    #[default]
    #[doc(alias = "QUO_SHARING_OVERLAP")]
    Overlap,
    /// Waits until all its CPUs are free, and holds them exclusively while it runs.
    #[doc(alias = "QUO_SHARING_WAIT")]
    Wait,
    /// Takes the free ones of its CPUs and holds them exclusively while it runs. Waits only while
    /// some worker would have no CPU.
    #[doc(alias = "QUO_SHARING_LEFT")]
    Left,
}

/// CPUs that this process holds for a phase, released on drop.
#[derive(Debug, Default)]
pub(super) struct Held {
    locks: Vec<(usize, File)>,
}

impl Held {
    /// Takes the CPUs of the workers, given worker by worker, or the free ones among them. Waits
    /// for at most `limit`.
    pub(super) fn take(
        parts: &[&CpuSet],
        sharing: Sharing,
        limit: Duration,
    ) -> Result<Self, Error> {
        let all = parts.iter().fold(CpuSet::new(), |all, part| all.union(part));
        let deadline = Instant::now().checked_add(limit);
        let mut pause = LOOKS.0;
        let mut held = Self::default();
        loop {
            held.extend(&all, sharing)?;
            let cpus = held.cpus();
            let is_enough = match sharing {
                Sharing::Left => parts.iter().all(|part| part.intersects(&cpus)),
                _ => cpus == all,
            };
            if is_enough {
                return Ok(held);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::HardwareInUse {
                    call: CALL,
                    cpus: all.difference(&cpus),
                    limit,
                });
            }
            if sharing == Sharing::Left {
                // Holding CPUs while waiting for more would keep other waiters from ever getting
                // enough.
                held = Self::default();
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(LOOKS.1);
        }
    }

    /// Takes more of the CPUs, in ascending order, so that of two processes that wait for all of
    /// theirs one makes progress: up to the first that is not free, or with `Left` every free one.
    fn extend(&mut self, all: &CpuSet, sharing: Sharing) -> Result<(), Error> {
        for cpu in all.difference(&self.cpus()).iter() {
            match lock(cpu)? {
                Some(file) => self.locks.push((cpu, file)),
                None if sharing == Sharing::Left => {}
                None => break,
            }
        }
        Ok(())
    }

    /// The CPUs held.
    pub(super) fn cpus(&self) -> CpuSet {
        self.locks.iter().map(|&(cpu, _)| cpu).collect()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (_, file) in &self.locks {
            // Closing alone would leave the lock with a child that was forked meanwhile.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// Locks a CPU for this process; returns `None` while another process holds it.
fn lock(cpu: usize) -> Result<Option<File>, Error> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}");
    let failed = |source| Error::File { call: CALL, path: path.clone(), source };
    let file = File::open(&path).map_err(failed)?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the CPUs online.
    fn online() -> CpuSet {
        let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
        list.trim().parse().unwrap()
    }

    #[test]
    fn cpus_are_held_once_and_free_after_the_drop() {
        // Tests of other processes may hold CPUs for a moment.
        let long = Duration::from_secs(60);
        let cpu = CpuSet::single(online().iter().last().unwrap());
        let held = Held::take(&[&cpu], Sharing::Wait, long).unwrap();
        assert_eq!(held.cpus(), cpu);
        for sharing in [Sharing::Wait, Sharing::Left] {
            let error = Held::take(&[&cpu], sharing, Duration::ZERO).unwrap_err();
            assert!(matches!(&error, Error::HardwareInUse { cpus, .. } if *cpus == cpu), "{error}");
        }
        drop(held);
        Held::take(&[&cpu], Sharing::Left, long).unwrap();
    }

    #[test]
    fn cpu_that_does_not_exist_is_an_error() {
        let none = CpuSet::single(8_000);
        let error = Held::take(&[&none], Sharing::Wait, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("cpu8000"), "{error}");
    }
}
