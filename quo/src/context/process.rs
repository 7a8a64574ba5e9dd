//! Facts about this process and its neighbours that only the system knows.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::record::{Place, Process};
use crate::affinity::kernel::proc_counts_as_we_do;
use crate::cpuset::CpuSet;
use crate::topology::Topology;

/// Where shared memory made in `directory` can be reached from.
pub(super) fn place(directory: &Path, hint: u64) -> io::Result<Place> {
    let folder = fs::metadata(directory)?;
    let told = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = boot(&told, rustix::system::uname().nodename().to_bytes());
    Ok(Place { boot, device: folder.dev(), inode: folder.ino(), hint })
}

/// What tells this kernel from others. Where it hides its identifier (some sandboxes do), its name
/// stands in: like machines number their devices alike, so the directory alone would not do.
fn boot(told: &str, node_name: &[u8]) -> [u8; 16] {
    let mut boot = [0; 16];
    let digits: Vec<u8> =
        told.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    for (byte, pair) in boot.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    if boot == [0; 16] {
        // Host names have up to 64 bytes.
        for (place, byte) in node_name.iter().enumerate() {
            let mixed = &mut boot[place % 16];
            *mixed = mixed.rotate_left(3) ^ byte;
        }
    }
    boot
}

/// The CPUs on which the members of a node can run at the same time, given their masks.
pub(super) fn usable_cpus(machine: &Topology, masks: &[CpuSet]) -> usize {
    if machine.is_simulated() {
        // Simulated masks bind nothing: what counts is the machine the processes really run on.
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        return online.trim().parse::<CpuSet>().map_or(1, |online| online.len().max(1));
    }
    let everyone = masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask));
    everyone.intersection(machine.allowed()).len()
}

/// This process.
pub(super) fn this() -> Process {
    Process {
        id: rustix::process::getpid().as_raw_nonzero().get(),
        namespace: fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino()),
        started: if proc_counts_as_we_do() {
            start_time("self").map_or(0, |(_, started)| started)
        } else {
            0
        },
    }
}

/// A digest of the control group that confines this process to CPUs. Equal digests on one node mean
/// the same group; where the system does not tell, all are taken to be in one.
pub(super) fn confinement() -> u64 {
    let group = fs::read("/proc/self/cpuset").unwrap_or_default();
    // In a namespace of their own, containers call different groups by the same name.
    let namespace = fs::metadata("/proc/self/ns/cgroup").map_or(0, |namespace| namespace.ino());
    digest(group.into_iter().chain(namespace.to_ne_bytes()))
}

/// FNV-1a: the same bytes have the same digest in every process and build.
pub(super) fn digest(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Whether a process seen earlier has ended. Unknown counts as no: a process of another process
/// namespace cannot be looked at, nor any where `/proc` is that of another one.
pub(super) fn has_ended(process: &Process, own: &Process) -> bool {
    if process.namespace != own.namespace || process.started == 0 || own.started == 0 {
        return false;
    }
    match start_time(&process.id.to_string()) {
        Ok((state, started)) => started != process.started || matches!(state, 'Z' | 'X' | 'x'),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// State and start time from the process's `stat` file.
fn start_time(process: &str) -> io::Result<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    parse_stat(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The name in the second field may hold anything, so fields count from its closing parenthesis.
fn parse_stat(text: &str) -> Option<(char, u64)> {
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_full_of_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 12345 20";
        assert_eq!(parse_stat(text), Some(('S', 12_345)));
        assert_eq!(parse_stat("42 (a"), None);
    }

    #[test]
    fn this_process_has_not_ended_and_one_that_started_at_another_time_has() {
        let own = this();
        assert!(!has_ended(&own, &own));
        assert!(has_ended(&Process { started: own.started + 1, ..own }, &own));
        assert!(!has_ended(&Process { namespace: 1, started: 1, ..own }, &own));
        let blind = Process { started: 0, ..own };
        assert!(!has_ended(&Process { started: own.started + 1, ..own }, &blind));
    }

    #[test]
    fn kernels_are_told_apart_by_their_identifiers_and_without_them_by_name() {
        let [a, b] =
            ["0b2c6fa0-9d2f-4a51-8f0e-1f7f5c1d2e3f\n", "1b2c6fa0-9d2f-4a51-8f0e-1f7f5c1d2e3f\n"];
        assert_eq!(boot(a, b"one"), boot(a, b"two"));
        assert_ne!(boot(a, b"one"), boot(b, b"one"));
        assert_eq!(boot("", b"one"), boot("", b"one"));
        assert_ne!(boot("", b"node-12.cluster.local"), boot("", b"node-21.cluster.local"));
    }
}
