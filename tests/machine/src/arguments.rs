//! Arguments of QEMU. Pure functions: a shape and some paths in, a command line out.

use std::path::Path;

use crate::shape::{Shape, numbers};

/// A CPU model that both accelerators support, whose threads and caches the kernel understands.
const CPU: &str = "Skylake-Server-v4";

/// Kernel options: all messages go to the host, so that a hanging start can be analysed; no reboot
/// after a panic; nothing that only takes time.
const KERNEL: &str = "console=ttyS0 loglevel=7 panic=-1 oops=panic mitigations=off nokaslr \
    nowatchdog rcupdate.rcu_cpu_stall_suppress=1";

/// How the CPUs are emulated.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Kvm,
    /// Translation by QEMU, with a thread for each CPU.
    Tcg,
}

/// Files that QEMU uses.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Files<'a> {
    pub kernel: &'a Path,
    pub first_files: &'a Path,
    pub console: &'a Path,
    /// Folder that the command may write to.
    pub results: Option<&'a Path>,
}

/// Returns the command line. The port to the machine is a socket that QEMU has as its standard
/// input.
pub(crate) fn arguments(shape: &Shape, engine: Engine, files: Files<'_>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |line: &str| words.extend(line.split(' ').map(str::to_owned));
    add("-nodefaults -no-user-config -no-reboot -display none -machine q35");
    add(match engine {
        Engine::Kvm => "-accel kvm",
        Engine::Tcg => "-accel tcg,thread=multi",
    });
    let Shape { packages, cores, threads, .. } = *shape;
    let cpus = shape.cpus();
    add(&format!("-cpu {CPU} -m {}", shape.memory()));
    add(&format!("-smp {cpus},sockets={packages},cores={cores},threads={threads}"));
    for (node, numa) in shape.numa.iter().enumerate() {
        add(&format!("-object memory-backend-ram,id=memory{node},size={}M", numa.memory));
        let mut line = format!("-numa node,nodeid={node},memdev=memory{node}");
        for cpu in numbers(&numa.cpus).unwrap_or_default() {
            line.push_str(&format!(",cpus={cpu}"));
        }
        add(&line);
    }
    for (from, numa) in shape.numa.iter().enumerate() {
        for (to, distance) in numa.distances.iter().enumerate() {
            add(&format!("-numa dist,src={from},dst={to},val={distance}"));
        }
    }
    add("-device virtio-serial-pci -chardev socket,id=port,fd=0");
    add("-device virtserialport,chardev=port,name=quo");
    let mut pair = |option: &str, value: String| words.extend([option.to_owned(), value]);
    pair("-kernel", files.kernel.display().to_string());
    pair("-initrd", files.first_files.display().to_string());
    pair("-append", KERNEL.to_owned());
    pair("-chardev", format!("file,id=console,path={}", quoted(files.console)));
    pair("-serial", "chardev:console".to_owned());
    pair("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap".into());
    pair("-device", "virtio-9p-pci,fsdev=root,mount_tag=root".to_owned());
    if let Some(folder) = files.results {
        let path = quoted(folder);
        pair("-fsdev", format!("local,id=results,path={path},security_model=none,multidevs=remap"));
        pair("-device", "virtio-9p-pci,fsdev=results,mount_tag=results".to_owned());
    }
    words
}

/// Quotes a path inside an option: QEMU reads two commas as one.
fn quoted(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(shape: &str, engine: Engine, results: Option<&Path>) -> String {
        let files = Files {
            kernel: Path::new("/k"),
            first_files: Path::new("/i"),
            console: Path::new("/private/a,b"),
            results,
        };
        arguments(&Shape::named(shape).unwrap(), engine, files).join(" ")
    }

    #[test]
    fn the_shape_is_spelled_out() {
        let said = line("two-packages", Engine::Tcg, None);
        for words in [
            "-smp 8,sockets=2,cores=4,threads=1",
            "-m 2048",
            "nodeid=1,memdev=memory1,cpus=4,cpus=5,cpus=6,cpus=7",
            "dist,src=0,dst=1,val=21",
            "-accel tcg,thread=multi",
            "path=/private/a,,b",
        ] {
            assert!(said.contains(words), "`{words}` is not in `{said}`");
        }
        assert!(!said.contains("mount_tag=results"));
        assert!(line("smt", Engine::Kvm, None).contains("-accel kvm"));
    }

    #[test]
    fn a_node_of_memory_has_no_cpus() {
        let said = line("memory-without-cpus", Engine::Tcg, None);
        assert!(said.contains("-numa node,nodeid=2,memdev=memory2 "), "{said}");
    }

    #[test]
    fn host_files_are_read_only_and_results_are_not() {
        let said = line("smt", Engine::Tcg, Some(Path::new("/results")));
        assert!(said.contains("id=root,path=/,security_model=none,readonly=on"), "{said}");
        assert!(said.contains("id=results,path=/results,security_model=none,multidevs"), "{said}");
    }
}
