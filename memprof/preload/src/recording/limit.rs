//! Memory limit of the control group of the process: beyond the limit, the kernel ends one of its
//! processes, and the report of a job that lost a process names the limit.

use core::ffi::CStr;
use core::str;

use crate::base::diagnostics::{self, Code};
use crate::base::kernel;
use crate::base::options::Text;

/// A value from here on means no limit.
const NONE: u64 = 1 << 50;

type Path = Text<1024>;

/// For each version: the folder of its groups, and the file of a group that holds the limit.
const VERSIONS: [(&[u8], &[u8]); 2] =
    [(b"/sys/fs/cgroup/memory", b"memory.limit_in_bytes"), (b"/sys/fs/cgroup", b"memory.max")];

/// Returns the group that counts the memory of the process, from `/proc/self/cgroup`: the version
/// minus one, and its path. Where both versions are in use, version 1 counts memory.
fn group(text: &[u8]) -> Option<(usize, &[u8])> {
    let lines = || text.split(|&byte| byte == b'\n').filter_map(fields);
    let counts = |names: &[u8]| names.split(|&byte| byte == b',').any(|name| name == b"memory");
    let first = lines().find(|(_, names, _)| counts(names)).map(|(_, _, path)| (0, path));
    first.or_else(|| lines().find(|(number, ..)| *number == b"0").map(|(_, _, path)| (1, path)))
}

/// Splits `NUMBER:NAMES:PATH`.
fn fields(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let mut fields = line.splitn(3, |&byte| byte == b':');
    Some((fields.next()?, fields.next()?, fields.next()?))
}

/// Returns the smallest limit of a group and the groups that contain it, from the files of this
/// name below a folder.
fn least((base, name): (&[u8], &[u8]), group: &[u8]) -> u64 {
    let mut group = group.strip_suffix(b"/").unwrap_or(group);
    let mut least = u64::MAX;
    loop {
        let mut path = Path::empty();
        for part in [base, group, b"/", name, b"\0"] {
            path.push(part);
        }
        let mut buffer = [0; 32];
        let limit = CStr::from_bytes_until_nul(path.as_bytes())
            .ok()
            .and_then(|path| kernel::read_path(path, &mut buffer).ok())
            .and_then(|text| str::from_utf8(text).ok()?.trim().parse().ok());
        least = least.min(limit.unwrap_or(u64::MAX));
        let Some(end) = group.iter().rposition(|&byte| byte == b'/') else { return least };
        group = &group[..end];
    }
}

/// Returns the memory of the node in bytes; 0 if the kernel does not report it.
pub fn node_memory() -> u64 {
    let mut buffer = [0; 256];
    let text = kernel::read_path(c"/proc/meminfo", &mut buffer);
    text.ok().and_then(total).map_or(0, |kib| kib << 10)
}

/// Returns the KiB of all memory, from the beginning of `/proc/meminfo`.
fn total(text: &[u8]) -> Option<u64> {
    let line =
        text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"MemTotal:"))?;
    let number = str::from_utf8(line).ok()?.trim().strip_suffix("kB")?;
    number.trim().parse().ok()
}

/// Returns the smallest limit of the groups of the process, if there is one.
pub fn memory_limit() -> Option<u64> {
    let mut buffer = [0; 2048];
    let text = kernel::read_path(c"/proc/self/cgroup", &mut buffer).ok()?;
    let (version, group) = group(text)?;
    Some(least(VERSIONS[version], group)).filter(|limit| *limit < NONE)
}

/// Records the limit, if there is one.
pub fn record_limit() {
    if let Some(limit) = memory_limit() {
        diagnostics::say(
            Code::MemoryLimit,
            format_args!(
                "its control group may hold {limit} bytes ({} MiB); beyond that the kernel kills",
                limit >> 20
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_in_either_version() {
        let first = b"4:memory:/slurm/job_1\n0::/user\n";
        assert_eq!(group(first), Some((0, &b"/slurm/job_1"[..])));
        assert_eq!(group(b"12:cpu,memory:/a\n"), Some((0, &b"/a"[..])));
        assert_eq!(group(b"3:cpuset:/a\n0::/b:c\n"), Some((1, &b"/b:c"[..])));
        assert_eq!(group(b"3:cpuset:/a\nbroken\n"), None);
        assert_eq!(group(b""), None);
    }

    #[test]
    fn memory_of_the_node_is_read_in_kib() {
        assert_eq!(total(b"MemTotal:       65830328 kB\nMemFree: 1 kB\n"), Some(65_830_328));
        assert_eq!((total(b"MemFree: 1 kB\n"), total(b"MemTotal: many\n")), (None, None));
        assert!(node_memory() > 1 << 20);
    }

    #[test]
    fn a_group_that_is_not_there_has_no_limit() {
        assert_eq!(least(VERSIONS[1], b"/nowhere/at/all"), least(VERSIONS[1], b""));
    }

    /// Uses the files of a Slurm step on a kernel with version 2 alone: the root has no memory
    /// limit, and a group without a limit says `max`.
    #[test]
    fn version_2_limits_include_all_enclosing_groups() {
        let place = tempfile::tempdir().expect("a folder");
        let groups = [
            ("system.slice", "max"),
            ("system.slice/slurmstepd.scope", "max"),
            ("system.slice/slurmstepd.scope/job_7", "8589934592"),
            ("system.slice/slurmstepd.scope/job_7/step_0", "4294967296"),
            ("system.slice/slurmstepd.scope/job_7/step_0/user", "max"),
            ("system.slice/slurmstepd.scope/job_7/step_0/user/task_1", "max"),
        ];
        for (group, limit) in groups {
            let folder = place.path().join(group);
            std::fs::create_dir_all(&folder).expect("a group");
            std::fs::write(folder.join("memory.max"), format!("{limit}\n")).expect("a limit");
        }
        let text = b"0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_1\n";
        let (version, group) = group(text).expect("a group");
        assert_eq!(version, 1);
        let base = place.path().to_str().expect("a path").as_bytes();
        let least = |group: &[u8]| least((base, VERSIONS[version].1), group);
        assert_eq!(least(group), 4 << 30);
        assert_eq!(least(b"/system.slice/slurmstepd.scope/job_7"), 8 << 30);
        assert_eq!(least(b"/system.slice"), u64::MAX);
        assert_eq!(least(b"/"), u64::MAX);
        // In a container, the group of the process is the root, and has a limit.
        std::fs::write(place.path().join("memory.max"), "1073741824\n").expect("a limit");
        assert_eq!(least(b"/"), 1 << 30);
        assert_eq!(least(group), 1 << 30);
    }
}
