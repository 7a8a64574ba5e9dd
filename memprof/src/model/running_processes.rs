//! Processes that run on this machine, including those in containers.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Processes of this machine, read once.
pub struct RunningProcesses {
    boot: Option<[u8; 16]>,
    /// Processes in PID namespaces below ours, by number in the innermost namespace and start time.
    /// Processes in two namespaces may have both in common.
    nested: OnceLock<HashMap<(u32, u64), Vec<u32>>>,
    /// True if no process of this machine is in a PID namespace other than ours.
    sees_all: bool,
}

/// Number of the initial PID namespace of every kernel.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// A running process writes within a second; this adds the delay of a busy machine.
const SILENCE: Duration = Duration::from_millis(2000);

impl RunningProcesses {
    /// Reads the present state.
    pub fn new() -> RunningProcesses {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let namespace = std::fs::read_link("/proc/self/ns/pid");
        RunningProcesses {
            boot: boot.ok().and_then(|text| boot_id(&text)),
            nested: OnceLock::new(),
            sees_all: namespace.is_ok_and(|name| name.as_os_str() == FIRST_NAMESPACE),
        }
    }

    /// Returns true if this boot of a machine is that of this one.
    pub fn is_here(&self, boot: &[u8; 16]) -> bool {
        self.boot.as_ref() == Some(boot)
    }

    /// Returns true if the process with this number, as seen by itself, that began at this time and
    /// writes this trace, is alive. For a process that may be in an invisible namespace, `wrote`,
    /// the time of its last write in nanoseconds of the monotonic clock, decides: it must advance.
    pub fn runs(
        &self,
        pid: u32,
        start: u64,
        trace: &Path,
        wrote: &dyn Fn() -> Option<u64>,
    ) -> bool {
        let here = (start_ticks(pid) == Some(start)).then_some(pid);
        let nested = self.nested.get_or_init(nested).get(&(pid, start)).into_iter().flatten();
        here.iter().chain(nested).any(|pid| !writes_another(*pid, trace))
            || !self.sees_all && goes_on(wrote)
    }
}

/// Waits for a new write if the last one is so recent that more may follow. A write is never later
/// than now.
fn goes_on(wrote: &dyn Fn() -> Option<u64>) -> bool {
    let Some(before) = wrote() else { return false };
    let Some(age) = now_ns().checked_sub(before) else { return false };
    let until = Instant::now() + SILENCE.saturating_sub(Duration::from_nanos(age));
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
        if wrote().is_some_and(|at| at > before) {
            return true;
        }
    }
    false
}

/// Returns the time of the monotonic clock.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn boot_id(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

/// Returns the start time of a live process: the 22nd field, counted after the name in parentheses.
fn start_ticks(pid: u32) -> Option<u64> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

/// Returns true if a process has traces mapped, and this is none of them. Of one that may not be asked it is not known.
fn writes_another(pid: u32, trace: &Path) -> bool {
    std::fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| is_of_another(&maps, trace))
}

fn is_of_another(maps: &[u8], trace: &Path) -> bool {
    let name = |line: &[u8]| Path::new(OsStr::from_bytes(line)).file_name().map(OsStr::to_owned);
    let lines = maps.split(|byte| *byte == b'\n').filter(|line| line.ends_with(b".memprof"));
    let mut names = lines.filter_map(name).peekable();
    names.peek().is_some() && !names.any(|name| Some(&*name) == trace.file_name())
}

fn nested() -> HashMap<(u32, u64), Vec<u32>> {
    let mut nested: HashMap<_, Vec<u32>> = HashMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return nested };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let inside = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(((innermost(&status)?, start_ticks(pid)?), pid))
    };
    for (known_as, pid) in names.filter_map(inside) {
        nested.entry(known_as).or_default().push(pid);
    }
    nested
}

/// Returns the number of a process in its innermost namespace; `None` if that is the reader's.
fn innermost(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().skip(1).last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_of_another_start_does_not() {
        let living = RunningProcesses::new();
        let pid = std::process::id();
        let start = start_ticks(pid).expect("this process");
        let trace = Path::new("node.1.2.memprof");
        assert!(living.runs(pid, start, trace, &|| None));
        assert!(!living.runs(pid, start + 1, trace, &|| None));
        assert!(!living.is_here(&[0; 16]) && living.boot.is_some());
    }

    #[test]
    fn contained_process_is_known_by_its_number_there() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t812\t7\nNSpgid:\t1\n"), Some(7));
        assert_eq!(innermost("NSpid:\t812\t90\t1\n"), Some(1));
        assert_eq!(innermost("NSpid:\t812\n"), None);
        assert_eq!(innermost("Name:\tx\n"), None);
    }

    #[test]
    fn trace_tells_which_containers_process_a_number_is() {
        let maps = b"7f00-7f10 r--p 00000000 fe:00 7    /usr/lib/libc.so.6\n\
            7f20-7f30 rw-s 00000000 fe:00 9    /a b/host0.13.99.memprof\n";
        assert!(is_of_another(maps, Path::new("/elsewhere/host1.13.99.memprof")));
        assert!(!is_of_another(maps, Path::new("/elsewhere/host0.13.99.memprof")));
        assert!(!is_of_another(&maps[..60], Path::new("/elsewhere/host1.13.99.memprof")));
    }

    #[test]
    fn invisible_process_runs_as_long_as_it_writes() {
        let written = std::cell::Cell::new(now_ns());
        assert!(goes_on(&|| Some(written.replace(written.get() + 1))));
        // A forged value is not waited for, however it changes.
        let written = std::cell::Cell::new(u64::MAX / 2);
        assert!(!goes_on(&|| Some(written.replace(written.get() + 1))), "of the future");
        assert!(!goes_on(&|| Some(7)), "of long ago");
        assert!(!goes_on(&|| None));
    }

    #[test]
    fn the_bytes_of_a_boot_are_those_of_its_text() {
        let bytes = boot_id("00112233-4455-6677-8899-aabbccddeeff\n").expect("read");
        assert_eq!(bytes[..3], [0, 0x11, 0x22]);
        assert_eq!(bytes[15], 0xff);
    }
}
