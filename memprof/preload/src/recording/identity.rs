//! Identity of this process: its rank, from the environment set by launchers, and its numbers, from
//! the kernel.

use core::str;

use memprof_trace::SPAWNED;

use crate::base::kernel;
use crate::base::options::Text;

/// A launcher's description of a process; -1 where it sets no variable.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub rank: i32,
    pub size: i32,
    pub local_rank: i32,
}

const RANK: &[&str] = &["PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
const SIZE: &[&str] = &["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"];
const LOCAL_RANK: &[&str] = &["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"];
/// Names set by launchers come first: a scheduler has one name for everything that a script starts,
/// Slurm for all steps.
const JOB: &[&str] = &["PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];

/// Returns the first of the variables that holds a number that can be a rank. Slurm also sets its
/// variables in the batch script, which is not a rank: there `SLURM_STEP_ID` is missing.
fn number<'v>(names: &[&str], value: &dyn Fn(&str) -> Option<&'v [u8]>) -> i32 {
    for name in names {
        if name.starts_with("SLURM") && value("SLURM_STEP_ID").is_none() {
            continue;
        }
        let text = value(name).and_then(|text| str::from_utf8(text).ok());
        if let Some(number) = text.and_then(|text| text.parse::<i32>().ok())
            && number >= 0
        {
            return number;
        }
    }
    -1
}

/// Reads the variables set by launchers.
pub fn place<'v>(value: &dyn Fn(&str) -> Option<&'v [u8]>) -> Place {
    Place {
        rank: number(RANK, value),
        size: number(SIZE, value),
        local_rank: number(LOCAL_RANK, value),
    }
}

/// Variables of processes that other ranks started with `MPI_Comm_spawn`.
const PARENT: &[&str] = &["OMPI_PARENT_PORT", "PMI_SPAWNED"];

/// Returns a name that distinguishes jobs that write into the same folder; empty where there is
/// none. The name shows whether ranks were started by others, to whose job they belong.
pub fn job<'v>(value: &dyn Fn(&str) -> Option<&'v [u8]>) -> Text<64> {
    let found = JOB.iter().find_map(|name| value(name).filter(|text| !text.is_empty()));
    let name = found.unwrap_or(b"");
    let says_so = |text: &[u8]| !matches!(text, b"" | b"0");
    if !PARENT.iter().any(|name| value(name).is_some_and(says_so)) {
        return Text::cut(name);
    }
    let mut text = Text::cut(&name[..name.len().min(64 - SPAWNED.len())]);
    text.push(SPAWNED.as_bytes());
    text
}

/// Returns the start time of a process in clock ticks since boot, from `/proc/PID/stat`. The name
/// in brackets may contain any characters.
pub fn start_ticks(stat: &[u8]) -> Option<u64> {
    let after = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let mut words = stat[after..].split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    str::from_utf8(words.nth(19)?).ok()?.trim().parse().ok()
}

/// Returns the number in a link such as `pid:[4026532837]`; 0 for the initial namespace of a
/// kernel.
fn namespace(link: &[u8]) -> u64 {
    const FIRST: u64 = 4_026_531_836;
    let digits = link.iter().filter_map(|&byte| char::from(byte).to_digit(10));
    let number = digits.fold(0, |number: u64, digit| number.wrapping_mul(10) + u64::from(digit));
    if number == FIRST { 0 } else { number }
}

/// Converts the kernel's text for a boot into sixteen bytes.
pub fn boot(text: &[u8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    let digits = text.iter().filter_map(|&byte| char::from(byte).to_digit(16));
    for (index, digit) in digits.take(32).enumerate() {
        bytes[index / 2] |= (digit as u8) << if index % 2 == 0 { 4 } else { 0 };
    }
    bytes
}

/// Returns true if a program with this path starts ranks and is never a rank, by its name.
pub fn is_launcher(path: &[u8]) -> bool {
    const NAMES: &[&str] = &[
        "mpirun",
        "mpiexec",
        "mpiexec.hydra",
        "oshrun",
        "orterun",
        "orted",
        "prterun",
        "prte",
        "prted",
        "hydra_pmi_proxy",
        "hydra_bstrap_proxy",
        "srun",
        "slurmstepd",
    ];
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    NAMES.iter().any(|launcher| launcher.as_bytes() == name)
}

/// Identity of this process, as reported by the kernel.
pub struct Process {
    pub pid: u32,
    /// Namespace of its number if it is not the initial one of the kernel; else 0.
    pub namespace: u64,
    pub start_ticks: u64,
    pub boot: [u8; 16],
    pub host: Text<64>,
    pub program: Text<256>,
}

/// Reads the identity from the kernel.
pub fn process() -> Process {
    let mut buffer = [0; 1024];
    let stat = kernel::read_path(c"/proc/self/stat", &mut buffer);
    let start_ticks = stat.ok().and_then(start_ticks).unwrap_or(0);
    let mut buffer = [0; 64];
    let text = kernel::read_path(c"/proc/sys/kernel/random/boot_id", &mut buffer);
    let boot = text.map_or([0; 16], boot);
    let mut buffer = [0; 65];
    let host = kernel::read_path(c"/proc/sys/kernel/hostname", &mut buffer).unwrap_or(b"unknown");
    let host = Text::cut(host.trim_ascii());
    let mut buffer = [0; 256];
    let program =
        kernel::read_link(c"/proc/self/exe", &mut buffer).unwrap_or_else(|_| kernel::started_as());
    let mut buffer = [0; 64];
    let link = kernel::read_link(c"/proc/self/ns/pid", &mut buffer);
    let namespace = link.map_or(0, namespace);
    let (pid, program) = (kernel::process(), Text::cut(program));
    Process { pid, namespace, start_ticks, boot, host, program }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &'static str)]) -> Place {
        place(&|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_bytes()))
    }

    #[test]
    fn each_launcher_is_understood() {
        let open_mpi = read(&[
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ]);
        assert_eq!(open_mpi, Place { rank: 3, size: 4, local_rank: 1 });
        let hydra = read(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "0")]);
        assert_eq!(hydra, Place { rank: 0, size: 2, local_rank: 0 });
        let slurm = [("SLURM_PROCID", "7"), ("SLURM_NTASKS", "8"), ("SLURM_LOCALID", "3")];
        assert_eq!(read(&slurm), Place { rank: -1, size: -1, local_rank: -1 });
        let step: Vec<_> = slurm.into_iter().chain([("SLURM_STEP_ID", "0")]).collect();
        assert_eq!(read(&step), Place { rank: 7, size: 8, local_rank: 3 });
    }

    #[test]
    fn steps_of_one_slurm_job_have_separate_names() {
        let name = |set: &[(&'static str, &'static str)]| {
            let value = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, text)| text.as_bytes())
            };
            String::from_utf8(job(&value).as_bytes().to_vec()).expect("text")
        };
        let batch = ("SLURM_JOB_ID", "7");
        assert_eq!(name(&[batch, ("PMIX_NAMESPACE", "slurm.pmix.7.1")]), "slurm.pmix.7.1");
        assert_eq!(name(&[batch, ("PMI_JOBID", "7.1")]), "7.1");
        assert_eq!(name(&[batch]), "7");
        assert_eq!(name(&[("PMIX_NAMESPACE", ""), ("PBS_JOBID", "12.host")]), "12.host");
        assert_eq!(name(&[]), "");
    }

    #[test]
    fn spawned_ranks_are_told_from_launched_ones() {
        let name = |set: &[(&'static str, &'static str)]| {
            let value = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, text)| text.as_bytes())
            };
            String::from_utf8(job(&value).as_bytes().to_vec()).expect("text")
        };
        let open_mpi = [("PMIX_NAMESPACE", "65538"), ("OMPI_PARENT_PORT", "65537.0:1")];
        assert_eq!(name(&open_mpi), "65538+spawned");
        assert_eq!(name(&[("PMI_SPAWNED", "1")]), "+spawned");
        assert_eq!(name(&[("PMI_SPAWNED", "0")]), "");
        let long = "x".repeat(64);
        let long: &'static str = Box::leak(long.into_boxed_str());
        assert!(name(&[("PMI_JOBID", long), ("PMI_SPAWNED", "1")]).ends_with("x+spawned"));
    }

    #[test]
    fn first_process_namespace_is_none_and_others_are_numbered() {
        assert_eq!(namespace(b"pid:[4026531836]"), 0);
        assert_eq!(namespace(b"pid:[4026532837]"), 4_026_532_837);
        assert_eq!(namespace(b""), 0);
    }

    #[test]
    fn launchers_are_known_by_name() {
        assert!(is_launcher(b"/usr/lib/mpi/bin/mpirun") && is_launcher(b"orted"));
        assert!(!is_launcher(b"/opt/mpirun/app") && !is_launcher(b"") && !is_launcher(b"mpirun2"));
    }

    #[test]
    fn what_is_no_rank_is_none() {
        for value in ["", "-1", "x", "99999999999", " 1"] {
            assert_eq!(read(&[("PMI_RANK", value)]).rank, -1, "{value}");
        }
        assert_eq!(read(&[("PMIX_RANK", "bad"), ("PMI_RANK", "5")]).rank, 5);
    }

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let stat = b"12 (a ) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 424242 20\n";
        assert_eq!(start_ticks(stat), Some(424_242));
        assert_eq!(start_ticks(b""), None);
        assert_eq!(start_ticks(b"12 (x) S 1"), None);
        assert_eq!(start_ticks(b")"), None);
    }

    #[test]
    fn a_boot_is_sixteen_bytes() {
        let bytes = boot(b"01234567-89ab-cdef-0123-456789abcdef\n");
        assert_eq!(bytes[..4], [0x01, 0x23, 0x45, 0x67]);
        assert_eq!(bytes[15], 0xef);
        assert_eq!(boot(b""), [0; 16]);
    }

    #[test]
    fn the_kernel_tells_who_we_are() {
        let process = process();
        assert_eq!(process.pid, std::process::id());
        assert!(process.start_ticks > 0);
        assert!(!process.host.as_bytes().is_empty());
        assert!(process.program.as_bytes().starts_with(b"/"));
    }
}
