//! Facts about this process and the others on its node that only the system knows.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use serde::{Deserialize, Serialize};

use crate::affinity::kernel::proc_counts_as_we_do;
use crate::cpuset::CpuSet;
use crate::node::{ForkId, pid_namespace};
use crate::topology::Topology;

/// Location of a rank's shared memory: ranks with equal places can share memory, whatever the name
/// of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Place {
    /// The kernel's boot identifier.
    pub boot: [u8; 16],
    /// Device and inode of the directory of the segments.
    pub device: u64,
    pub inode: u64,
    /// Separates ranks at the request of the group.
    pub hint: u64,
}

/// Identity of a process, by which other processes of the node can find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerProcess {
    pub id: i32,
    /// PID namespace in which `id` is valid.
    pub namespace: u64,
    /// Start time in clock ticks since boot: distinguishes a process from a later one with the same
    /// id.
    pub started: u64,
}

/// Returns the place of shared memory created in `directory`: ranks with equal places can share
/// memory.
pub(super) fn place(directory: &Path, hint: u64) -> io::Result<Place> {
    let folder = fs::metadata(directory)?;
    Ok(Place { boot: this_kernel(), device: folder.dev(), inode: folder.ino(), hint })
}

/// Returns an identity of this kernel. If the kernel hides its identifier, as some sandboxes do,
/// the host name is used: identical machines number their devices alike, so the directory alone is
/// not enough.
fn this_kernel() -> [u8; 16] {
    boot().unwrap_or_else(|| of_name(rustix::system::uname().nodename().to_bytes()))
}

/// Returns the kernel's identifier of this boot; `None` if the kernel hides it.
pub(super) fn boot() -> Option<[u8; 16]> {
    /// Read once: no process outlives its kernel.
    static IDENTIFIER: OnceLock<Option<[u8; 16]>> = OnceLock::new();
    *IDENTIFIER.get_or_init(|| {
        identifier(&fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default())
    })
}

fn identifier(told: &str) -> Option<[u8; 16]> {
    let mut boot = [0; 16];
    let digits: Vec<u8> =
        told.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    for (byte, pair) in boot.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    (boot != [0; 16]).then_some(boot)
}

fn of_name(node_name: &[u8]) -> [u8; 16] {
    let mut boot = [0_u8; 16];
    // Host names have up to 64 bytes.
    for (place, byte) in node_name.iter().enumerate() {
        let mixed = &mut boot[place % 16];
        *mixed = mixed.rotate_left(3) ^ byte;
    }
    boot
}

/// Returns the number of CPUs on which the members of a node can run at the same time, given their
/// masks.
pub(super) fn usable_cpus(machine: &Topology, masks: &[CpuSet]) -> usize {
    if machine.is_simulated() {
        // Simulated masks bind nothing: the machine on which the processes really run counts.
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        return online.trim().parse::<CpuSet>().map_or(1, |online| online.len().max(1));
    }
    let everyone = masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask));
    everyone.intersection(machine.allowed()).len()
}

/// Returns the identity of this process.
pub(super) fn this() -> PeerProcess {
    /// Constant while the process lives; a forked child is another process.
    static KNOWN: Mutex<Option<(ForkId, PeerProcess)>> = Mutex::new(None);
    // Never waited for: a forked child would wait for a thread that it does not have.
    let Ok(mut known) = KNOWN.try_lock() else { return look_at_this() };
    match *known {
        Some((of, process)) if of == ForkId::current() => process,
        _ => {
            let process = look_at_this();
            // A start time that cannot be read now may be readable later.
            *known = (process.started != 0).then(|| (ForkId::current(), process));
            process
        }
    }
}

fn look_at_this() -> PeerProcess {
    let id = rustix::process::getpid().as_raw_nonzero().get();
    PeerProcess {
        id,
        namespace: pid_namespace(),
        started: if proc_counts_as_we_do() {
            // Read as other processes read it: a processor emulator intercepts the file of the
            // process itself, and uses another clock.
            start_time(&format!("self/task/{id}")).map_or(0, |(_, started)| started)
        } else {
            0
        },
    }
}

/// Returns a digest of the control group that confines this process to CPUs. Equal digests on one
/// node mean the same group; if the system gives no information, all are assumed to be in one
/// group.
pub(super) fn confinement() -> u64 {
    // Read each time: an administrator may move a running process.
    let group = read_unsized("/proc/self/cpuset").unwrap_or_default();
    // Containers with separate namespaces call different groups by the same name.
    let namespace = fs::metadata("/proc/self/ns/cgroup").map_or(0, |namespace| namespace.ino());
    digest(group.into_iter().chain(namespace.to_ne_bytes()))
}

/// Reads a kernel file of unknown size: not asking for the size saves system calls.
pub(super) fn read_unsized(path: &str) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(text),
            Ok(filled) => text.extend_from_slice(&piece[..filled]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// FNV-1a: the same bytes have the same digest in every process and build.
pub(super) fn digest(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns true if no process has the id of one seen earlier; false if unknown. Cheaper than
/// [`has_ended`], but a zombie or another process may have the id.
pub(super) fn is_missing(process: &PeerProcess, own: &PeerProcess) -> bool {
    process.namespace == own.namespace
        && rustix::process::Pid::from_raw(process.id).is_some_and(|id| {
            rustix::process::test_kill_process(id) == Err(rustix::io::Errno::SRCH)
        })
}

/// Returns true if a process seen earlier has ended; false if unknown: a process of another PID
/// namespace cannot be examined, nor any process if `/proc` belongs to another namespace.
pub(super) fn has_ended(process: &PeerProcess, own: &PeerProcess) -> bool {
    if process.namespace != own.namespace || process.started == 0 || own.started == 0 {
        return false;
    }
    match start_time(&process.id.to_string()) {
        Ok((state, started)) => started != process.started || matches!(state, 'Z' | 'X' | 'x'),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns the state and start time from the process's `stat` file.
fn start_time(process: &str) -> io::Result<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    parse_stat(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The name in the second field may contain anything, so fields count from its closing parenthesis.
fn parse_stat(text: &str) -> Option<(char, u64)> {
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_full_of_parentheses_shifts_no_fields() {
        let text = "42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 12345 20";
        assert_eq!(parse_stat(text), Some(('S', 12_345)));
        assert_eq!(parse_stat("42 (a"), None);
    }

    #[test]
    fn process_lives_and_one_of_another_start_does_not() {
        let own = this();
        assert!(!has_ended(&own, &own));
        assert!(has_ended(&PeerProcess { started: own.started + 1, ..own }, &own));
        assert!(!has_ended(&PeerProcess { namespace: 1, started: 1, ..own }, &own));
        assert!(!is_missing(&own, &own));
        let blind = PeerProcess { started: 0, ..own };
        assert!(!has_ended(&PeerProcess { started: own.started + 1, ..own }, &blind));
    }

    #[test]
    fn kernels_differ_by_identifier_or_else_by_name() {
        let [a, b] =
            ["0b2c6fa0-9d2f-4a51-8f0e-1f7f5c1d2e3f\n", "1b2c6fa0-9d2f-4a51-8f0e-1f7f5c1d2e3f\n"];
        assert_eq!(identifier(a).unwrap()[..2], [0x0b, 0x2c]);
        assert_ne!(identifier(a), identifier(b));
        assert_eq!((identifier(""), identifier("00-00\n")), (None, None));
        assert_ne!(of_name(b"node-12.cluster.local"), of_name(b"node-21.cluster.local"));
        assert_eq!(this_kernel(), this_kernel());
    }

    #[test]
    fn remembered_process_facts_are_those_of_the_system() {
        for _again in 0..3 {
            assert_eq!(this(), look_at_this());
        }
    }

    #[test]
    fn files_of_the_kernel_are_read_whole() {
        for path in ["/proc/self/cpuset", "/proc/version", "/proc/kallsyms"] {
            let (Ok(read), Ok(all)) = (read_unsized(path), fs::read(path)) else { continue };
            assert!(read == all, "{path}");
        }
        assert!(read_unsized("/proc/self/nothing").is_err());
    }
}
