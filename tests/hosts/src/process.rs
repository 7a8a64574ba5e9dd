//! Facts about processes, from `/proc`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quo_tests::ends_within;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Time within which a killed process, and all that ends with it, must be gone.
const DEATH: Duration = Duration::from_secs(20);

/// A process that is not confused with a later one of the same PID.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    started: u64,
}

impl Process {
    pub(crate) fn find(pid: i32) -> Result<Process> {
        let started = started(pid).with_context(|| format!("process {pid} has ended"))?;
        let pid = Pid::from_raw(pid).context("no process has the number 0")?;
        Ok(Process { pid, started })
    }

    /// Returns a process that ended long ago.
    pub(crate) fn never(self) -> Process {
        Process { started: u64::MAX, ..self }
    }

    pub(crate) fn number(self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(crate) fn is_alive(self) -> bool {
        started(self.number()) == Some(self.started)
    }

    pub(crate) fn folder(self) -> PathBuf {
        Path::new("/proc").join(self.number().to_string())
    }

    /// Kills the process and waits until it is gone.
    pub(crate) fn kill(self) -> Result<()> {
        let handle = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error).context("opening a process"),
        };
        // Only now is it certain which process the handle refers to.
        if !self.is_alive() {
            return Ok(());
        }
        match pidfd_send_signal(&handle, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error).context("killing a process"),
        }
        expect_end(self.number())
    }
}

/// Waits for a process that must end.
pub(crate) fn expect_end(pid: i32) -> Result<()> {
    let Some(process) = Pid::from_raw(pid) else { return Ok(()) };
    if !ends_within(process, DEATH)? {
        bail!("process {pid} does not end");
    }
    Ok(())
}

/// Waits until a process executes a program of this name; from then on its environment can be read,
/// which is empty during the exec.
pub(crate) fn expect_program(pid: i32, name: &str, variable_of_it: &str) -> Result<()> {
    let end = Instant::now() + DEATH;
    let executes = || {
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        program.trim_end() == name && variable(pid, variable_of_it).is_some()
    };
    while !executes() {
        if started(pid).is_none() || Instant::now() > end {
            bail!("process {pid} does not become {name}");
        }
        // Sleeps: between two looks at a step without notification.
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns all visible processes.
pub(crate) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the start of a living process, in clock ticks; `None` when it has ended, reaped or not.
fn started(pid: i32) -> Option<u64> {
    let (state, fields) = stat(pid)?;
    if matches!(state, 'Z' | 'X' | 'x') { None } else { fields.get(18)?.parse().ok() }
}

/// Returns true if the process is exiting in the kernel or has exited: its memory is gone by then.
pub(crate) fn is_ending(pid: i32) -> bool {
    /// `PF_EXITING` among the flags of a task.
    const EXITING: u64 = 4;
    let Some((state, fields)) = stat(pid) else { return true };
    let flags: Option<u64> = fields.get(5).and_then(|flags| flags.parse().ok());
    matches!(state, 'Z' | 'X' | 'x') || flags.is_none_or(|flags| flags & EXITING != 0)
}

pub(crate) fn parent(pid: i32) -> Option<i32> {
    stat(pid)?.1.first()?.parse().ok()
}

/// Returns the state and the fields after it. The name before them may contain any text.
fn stat(pid: i32) -> Option<(char, Vec<String>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.map(str::to_owned).collect()))
}

/// Returns the PID namespace of the process, for comparison.
pub(crate) fn namespace(pid: i32) -> Option<PathBuf> {
    started(pid)?;
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// Returns the process's PIDs, from the outermost visible namespace to its own.
pub(crate) fn numbers(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    parse_numbers(&text)
}

fn parse_numbers(status: &str) -> Vec<i32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.unwrap_or_default().split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Returns a variable of its initial environment; `None` for other users' processes.
pub(crate) fn variable(pid: i32, name: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    find_variable(&bytes, name)
}

fn find_variable(environment: &[u8], name: &str) -> Option<String> {
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let text = std::str::from_utf8(entry).ok()?;
        Some(text.strip_prefix(name)?.strip_prefix('=')?.to_owned())
    })
}

/// Returns true if the process belongs to this user, so that its own statements can be trusted.
pub(crate) fn is_ours(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = fs::metadata(format!("/proc/{pid}")).map(|folder| folder.uid());
    owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
}

/// Returns the command line.
pub(crate) fn command_line(pid: i32) -> String {
    let bytes = match fs::read(format!("/proc/{pid}/cmdline")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return "(ended meanwhile)".to_owned(),
        result => result.unwrap_or_default(),
    };
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn numbers_and_variables_are_read_from_what_the_kernel_writes() {
        assert_eq!(parse_numbers("Name:\tsh\nNSpid:\t16030\t8\t1\nNSpgid:\t0\n"), [16030, 8, 1]);
        assert!(parse_numbers("Name:\tsh\n").is_empty());
        let environment = b"A_SET=no\0SET=yes\0";
        assert_eq!(find_variable(environment, "SET").as_deref(), Some("yes"));
        assert_eq!(find_variable(environment, "SE"), None);
    }

    #[test]
    fn killed_process_is_gone_and_a_second_kill_harmless() {
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = Process::find(child.id().try_into().unwrap()).unwrap();
        assert!(process.is_alive());
        assert!(!is_ending(process.number()));
        process.kill().unwrap();
        assert!(!process.is_alive() && is_ending(process.number()));
        child.wait().unwrap();
        process.kill().unwrap();
        // Its PID may by now belong to another process, which is spared.
        let own = Process::find(std::process::id().try_into().unwrap()).unwrap();
        Process { started: own.started + 1, ..own }.kill().unwrap();
    }
}
