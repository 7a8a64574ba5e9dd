//! Describes the machine.

use coupled::result::count;
use quo::{ObjectType, Topology};

/// Machine, system and MPI that this program runs on; facts that cannot be found out are empty or 0.
pub fn describe() -> [(&'static str, String); 3] {
    let topology = Topology::live().ok();
    let objects =
        |kind, name| count(topology.as_ref().map_or(0, |topology| topology.count(kind)), name);
    let machine = format!(
        "{}: {}, {}, {}, {}, {:.0} GiB",
        value("/proc/cpuinfo", "model name").unwrap_or_default(),
        objects(ObjectType::Package, "package"),
        objects(ObjectType::NumaNode, "NUMA node"),
        objects(ObjectType::Core, "core"),
        objects(ObjectType::Pu, "CPU"),
        memory_gib().unwrap_or_default()
    );
    let system = rustix::system::uname();
    let system = [system.sysname(), system.release(), system.machine()];
    let mpi = mpi::environment::library_version().unwrap_or_default();
    let mpi = mpi.split([',', '\n']).next().unwrap_or_default().trim().to_owned();
    let system = system.map(|word| word.to_string_lossy().into_owned()).join(" ");
    [("Machine", machine), ("System", system), ("MPI", mpi)]
}

fn memory_gib() -> Option<f64> {
    let total = value("/proc/meminfo", "MemTotal")?;
    let kib: f64 = total.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0 / 1024.0)
}

/// The value of the first line that begins with `key` in a file of `/proc`.
fn value(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_core_a_kernel_and_an_mpi() {
        let [(_, machine), (_, system), (_, mpi)] = describe();
        assert!(machine.contains(" core") && !machine.contains(" 0 core"), "{machine}");
        assert!(system.starts_with("Linux ") && !mpi.is_empty(), "{system}, {mpi}");
    }
}
