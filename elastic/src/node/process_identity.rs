//! Identities of spawned processes, for checking that they are alive. MPI does not report the end
//! of processes that no rank has joined yet.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process as other processes of its host can identify it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    process: i32,
    /// Start time in the kernel's unit: another process that gets the same number has another one.
    began: u64,
    /// Identity of the boot of the kernel.
    boot: String,
}

impl ProcessIdentity {
    /// Returns the identity of this process; `None` if the kernel does not give it.
    pub(crate) fn own() -> Option<Self> {
        Self::of(std::process::id().cast_signed())
    }

    /// Returns the identity of a live process of this host; `None` if it does not exist, or the
    /// kernel does not give it.
    pub(crate) fn of(process: i32) -> Option<Self> {
        let (state, began) = state(process)?;
        (!matches!(state, 'Z' | 'X')).then_some(Self { process, began, boot: boot()? })
    }

    pub(crate) fn process(&self) -> i32 {
        self.process
    }

    /// Returns the number and the start time of the process, unique on this host.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.process, self.began)
    }

    /// Returns the same as one word of a shell script: `PROCESS:BEGAN`.
    pub(crate) fn word(&self) -> String {
        format!("{}:{}", self.process, self.began)
    }

    /// Kills this process, but never another process with the same number. Returns true if it
    /// existed.
    pub(crate) fn kill(&self) -> bool {
        let Some(number) = Pid::from_raw(self.process) else { return false };
        // The descriptor keeps referring to the same process if the number is reused.
        let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return false };
        self.has_ended().is_none()
            && Self::of(self.process).as_ref() == Some(self)
            && pidfd_send_signal(handle, Signal::KILL).is_ok()
    }

    /// Returns true if this host has the process, even one that has ended and that its launcher has
    /// not reaped. Returns false for processes of other hosts, which are not known.
    pub(crate) fn is_uncollected(&self) -> bool {
        boot().as_ref() == Some(&self.boot)
            && names_are_shared()
            && state(self.process).is_some_and(|(_, began)| began == self.began)
    }

    /// Returns its number if it is known to have ended: only on its own host, and in its space of
    /// process numbers.
    pub(crate) fn has_ended(&self) -> Option<i32> {
        if boot().as_ref() != Some(&self.boot) || !names_are_shared() {
            return None;
        }
        let is_there = state(self.process)
            // A process that its launcher has not reaped yet has ended nevertheless.
            .is_some_and(|(state, began)| began == self.began && !matches!(state, 'Z' | 'X'));
        (!is_there).then_some(self.process)
    }
}

/// Returns the numbers of the processes of this host.
pub(crate) fn processes() -> impl Iterator<Item = i32> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok())
}

/// Returns the numbers of a process's children.
pub(crate) fn children(process: i32) -> Vec<i32> {
    processes().filter(|&child| parent(child) == Some(process)).collect()
}

/// Returns the number of a process's parent; `None` if there is no parent, or no such process.
pub(crate) fn parent(process: i32) -> Option<i32> {
    let text = stat(process)?;
    let parent = words(&text)?.nth(1)?.parse().ok()?;
    (parent > 0).then_some(parent)
}

/// Returns the state and start time of a process; `None` if it does not exist.
fn state(process: i32) -> Option<(char, u64)> {
    let text = stat(process)?;
    let mut words = words(&text)?;
    let state = words.next()?.chars().next()?;
    Some((state, words.nth(18)?.parse().ok()?))
}

fn stat(process: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{process}/stat")).ok()
}

/// Returns the words after the name, which is in brackets and may contain any character.
fn words(stat: &str) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // Includes the space of process numbers: in another one this process has another number.
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", text.trim(), space.display()))
}

/// Returns true if `/proc` shows this process under its own number, which is not so if another
/// space's `/proc` is mounted.
fn names_are_shared() -> bool {
    let own = std::fs::read_link("/proc/self").ok();
    own.is_some_and(|own| own.as_os_str() == std::process::id().to_string().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_exists_until_it_ends_even_if_not_collected() {
        let own = ProcessIdentity::own().unwrap();
        assert_eq!(own.has_ended(), None);
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = child.id().cast_signed();
        let (_, began) = state(process).unwrap();
        let life = ProcessIdentity { process, began, ..own };
        assert_eq!(life.has_ended(), None);
        // It ends when its input closes; no process has reaped it then.
        drop(child.stdin.take());
        let state = rustix::process::waitid(
            rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child)),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        );
        state.unwrap();
        assert_eq!(life.has_ended(), Some(process));
        assert!(life.is_uncollected());
        child.wait().unwrap();
        assert_eq!(life.has_ended(), Some(process));
        assert!(!life.is_uncollected());
    }

    #[test]
    fn identity_of_other_hosts_and_reused_numbers_is_not_believed() {
        let own = ProcessIdentity::own().unwrap();
        let elsewhere =
            ProcessIdentity { process: i32::MAX, boot: "another".to_owned(), ..own.clone() };
        assert_eq!(elsewhere.has_ended(), None);
        let before = ProcessIdentity { began: own.began - 1, ..own };
        assert_eq!(before.has_ended(), Some(before.process));
    }
}
