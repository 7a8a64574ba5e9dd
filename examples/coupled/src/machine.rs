//! Describes the machine.

use quo::{ObjectType, Topology};

use crate::result::Machine;

/// The machine the caller runs on; facts that cannot be found out are empty or 0. MPI must be
/// initialised.
pub fn describe() -> Machine {
    let topology = Topology::live().ok();
    let count = |kind| topology.as_ref().map_or(0, |topology| topology.count(kind));
    let system = rustix::system::uname();
    let mpi = mpi::environment::library_version().unwrap_or_default();
    Machine {
        processor: processor_name().unwrap_or_default(),
        packages: count(ObjectType::Package),
        numa_nodes: count(ObjectType::NumaNode),
        cores: count(ObjectType::Core),
        cpus: count(ObjectType::Pu),
        memory_gib: memory_gib().unwrap_or_default(),
        system: format!(
            "{} {} {}",
            system.sysname().to_string_lossy(),
            system.release().to_string_lossy(),
            system.machine().to_string_lossy()
        ),
        mpi: mpi.split([',', '\n']).next().unwrap_or_default().trim().to_owned(),
    }
}

fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn memory_gib() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0 / 1024.0)
}
