//! Reads a process as it is now: mask, limits, variables, objects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quo::affinity::InitialBinding;
use quo::context::Launcher;
use quo::environment::{BINDING, TOPOLOGY, value};
use quo::{CpuSet, Topology};
use quo_launch::job::Started;
use rustix::process::{Resource, getrlimit};

use super::facts::{Limits, Process};

/// Beginnings of the names of variables that matter.
const NAMES: [&str; 18] = [
    "OMP_",
    "GOMP_",
    "KMP_",
    "QUO_",
    "MEMPROF_",
    "OMPI_MCA_",
    "OMPI_UNIVERSE_",
    "OMPI_ALLOW_",
    "PMIX_MCA_",
    "PRTE_MCA_",
    "MPIR_CVAR_",
    "I_MPI_",
    "UCX_",
    "FI_",
    "OPENBLAS_",
    "MKL_",
    "BLIS_",
    "MALLOC_",
];

/// Reads this process; `objects` and `mpi` belong to the program it stands for.
pub fn read(program: &str, objects: Vec<String>, mpi: Option<String>) -> Process {
    let started = Started::read();
    let launcher = Launcher::detect();
    Process {
        rank: started.as_ref().and_then(|it| it.rank).unwrap_or(0),
        ranks: started.as_ref().and_then(|it| it.ranks).unwrap_or(1),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        program: program.to_owned(),
        mask: mask(),
        environment: variables(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        })),
        refused: refused(),
        limits: limits(),
        quota: quo::context::cpu_quota(),
        is_root: rustix::process::geteuid().is_root(),
        objects,
        mpi,
        launcher: (launcher != Launcher::Unknown).then(|| launcher.to_string()),
    }
}

/// Returns the CPUs that the calling thread may use.
fn mask() -> CpuSet {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| list.trim().parse().ok()).unwrap_or_default()
}

/// Keeps the variables that matter, without those by which the doctor finds its ranks.
fn variables(all: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    all.filter(|(name, _)| {
        NAMES.iter().any(|start| name.starts_with(start)) && !name.starts_with("QUO_DOCTOR_")
    })
    .collect()
}

/// Returns why a context would refuse `QUO_TOPOLOGY` or `QUO_BINDING`.
fn refused() -> BTreeMap<String, String> {
    let binding = value(&BINDING).filter(|value| value != "none");
    if value(&TOPOLOGY).is_none() {
        let needs = |value| format!("QUO_BINDING={value}: QUO_TOPOLOGY is not set");
        return binding.map(|value| (BINDING.name.to_owned(), needs(value))).into_iter().collect();
    }
    let refusal = match Topology::discover() {
        Err(error) => Some((TOPOLOGY.name, error.to_string())),
        Ok(machine) => binding.and_then(|value| {
            let reason = unbound(&value, &machine)?;
            Some((BINDING.name, format!("QUO_BINDING={value}: {reason}")))
        }),
    };
    refusal.map(|(name, reason)| (name.to_owned(), reason)).into_iter().collect()
}

/// Returns why the value binds no ranks on the machine; `None` if it does.
fn unbound(value: &str, machine: &Topology) -> Option<String> {
    let binding = match value.parse::<InitialBinding>() {
        Ok(binding) => binding,
        Err(error) => return Some(error.to_string()),
    };
    // Each list belongs to another rank.
    let mut masks = (0..=value.matches(';').count()).map(|rank| binding.mask(machine, rank));
    masks.find_map(|mask| mask.err()).map(|error| error.to_string())
}

fn limits() -> Limits {
    let soft = |resource| getrlimit(resource).current;
    Limits {
        files: soft(Resource::Nofile),
        processes: soft(Resource::Nproc),
        locked_memory: soft(Resource::Memlock),
        file_size: soft(Resource::Fsize),
        address_space: soft(Resource::As),
    }
}

/// Returns the files in the text of `/proc/PID/maps`, each once, in the order of their addresses.
pub fn objects_in(maps: &str) -> Vec<String> {
    let mut objects: Vec<String> = Vec::new();
    for line in maps.lines() {
        let Some(start) = line.find('/') else { continue };
        // Data files and shared segments are mapped without the right to run.
        let runs = line.split_whitespace().nth(1).is_some_and(|rights| rights.contains('x'));
        let path = &line[start..];
        if runs && objects.last().is_none_or(|last| last != path) {
            objects.push(path.to_owned());
        }
    }
    objects
}

/// Returns what the loader would load for a program, without running it. `None` for scripts and
/// for programs without a loader.
pub fn linked(program: &Path) -> Option<Vec<String>> {
    let own = std::fs::read_to_string("/proc/self/maps").ok()?;
    let loader = objects_in(&own).into_iter().find(|path| {
        path.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("ld-") || name.starts_with("ld."))
    })?;
    let mut command = std::process::Command::new(loader);
    let output = command.arg("--list").arg(program).env_remove("LD_PRELOAD").output().ok()?;
    output.status.success().then(|| objects_listed(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the files in the loader's list of a program.
fn objects_listed(text: &str) -> Vec<String> {
    let path = |line: &str| {
        let (_, path) = line.split_once("=> ")?;
        let path = path.rsplit_once(" (").map_or(path, |(path, _)| path).trim();
        path.starts_with('/').then(|| path.to_owned())
    };
    text.lines().filter_map(path).collect()
}

/// Returns the path of a program of this name, as a shell finds it.
pub fn find(program: &std::ffi::OsStr) -> PathBuf {
    match Path::new(program).components().count() > 1 {
        true => PathBuf::from(program),
        false => quo_launch::launcher::in_path(program).unwrap_or_else(|| PathBuf::from(program)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_mapped_files_with_code() {
        let maps = "\
55e0-55e1 r--p 00000000 fe:01 12 /usr/bin/app
55e1-55e2 r-xp 00001000 fe:01 12 /usr/bin/app
7f00-7f01 r-xp 00000000 fe:01 13 /lib/a name.so.1
7f01-7f02 rw-s 00000000 00:01 14 /dev/shm/segment
7ffd-7ffe r-xp 00000000 00:00 0 [vdso]
";
        assert_eq!(objects_in(maps), ["/usr/bin/app", "/lib/a name.so.1"]);
    }

    #[test]
    fn list_of_the_loader_gives_paths() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibmpi.so.40 => /usr/lib/libmpi.so.40 (0x2)\n\tlibx.so => not found\n\t/lib64/ld.so (0x3)\n";
        assert_eq!(objects_listed(text), ["/usr/lib/libmpi.so.40"]);
    }

    #[test]
    fn variables_are_those_that_matter() {
        let all = [
            ("HOME", "/"),
            ("OMP_PLACES", "cores"),
            ("QUO_DOCTOR_FOLDER", "/x"),
            ("QUO_WAIT", "mpi"),
        ];
        let kept =
            variables(all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["OMP_PLACES", "QUO_WAIT"]);
    }

    #[test]
    fn own_program_is_linked_with_the_c_library() {
        let program = std::env::current_exe().unwrap();
        assert!(linked(&program).unwrap().iter().any(|path| path.contains("libc.so")));
        assert_eq!(linked(Path::new("/proc/self/status")), None);
    }

    #[test]
    fn binding_that_the_machine_lacks_has_a_reason() {
        let machine = Topology::from_synthetic("pack:2 core:2 pu:1").unwrap();
        assert_eq!(unbound("core", &machine), None);
        assert_eq!(unbound("0-1;2-3", &machine), None);
        for value in ["numma", "0;9", "die"] {
            assert!(unbound(value, &machine).is_some(), "{value}");
        }
    }
}
