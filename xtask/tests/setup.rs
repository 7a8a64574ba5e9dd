//! Set-up on machines that lack things. `PATH` defines the machine: it contains only stand-ins for
//! the package manager and the tools.
#![allow(clippy::unwrap_used)] // The lint knows tests, not their helpers.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

struct Machine {
    programs: TempDir,
}

impl Machine {
    fn bare() -> Self {
        let machine = Machine { programs: tempfile::tempdir().unwrap() };
        // Tools that every system has and the stand-ins use.
        for tool in ["sh", "env", "cat", "chmod"] {
            let real = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
            let real = real.iter().find(|file| file.exists()).unwrap();
            std::os::unix::fs::symlink(real, machine.path(tool)).unwrap();
        }
        machine
    }

    fn path(&self, program: &str) -> std::path::PathBuf {
        self.programs.path().join(program)
    }

    fn with(self, program: &str, script: &str) -> Self {
        fs::write(self.path(program), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.path(program), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// Adds all needs, except those of the given names.
    fn complete_but(self, absent: &[&str]) -> Self {
        let base = ["mpicc", "mpirun", "c++", "gfortran", "pkg-config", "cc"];
        let test_beds = [
            "clang++",
            "cmake",
            "make",
            "modulecmd",
            "ip",
            "slurmctld",
            "qemu-system-x86_64",
            "python3",
            "mpicc.mpich",
            "mpirun.mpich",
            "ms_print",
            "heaptrack",
            "mkfs.btrfs",
            "qemu-x86_64",
            "chromium",
            "man",
        ];
        let programs = ["lmp", "hpcc", "pw.x", "go"];
        let tools = [&base[..], &test_beds, &programs].concat();
        let present = tools.iter().filter(|tool| !absent.contains(tool));
        present.fold(self, |machine, tool| machine.with(tool, "cat > /dev/null; exit 0"))
    }

    /// Adds an apt-get that records its calls and then runs the script.
    fn with_apt(self, script: &str) -> Self {
        let calls = self.path("calls");
        let record = format!("echo \"$*\" >> '{}'\n{script}", calls.display());
        // Called through sudo for users other than root; the stand-in never asks.
        self.with("apt-get", &record).with("sudo", "[ \"$1\" = -n ] && shift\nexec \"$@\"")
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }

    fn set_up(&self) -> Output {
        self.xtask(&["setup"])
    }

    fn xtask(&self, words: &[&str]) -> Output {
        self.run(Command::new(env!("CARGO_BIN_EXE_xtask")).args(words), "")
    }

    /// Runs set-up for tests on a terminal on which a user types these words.
    fn set_up_at_a_terminal(&self, typed: &str) -> Output {
        let call = concat!(env!("CARGO_BIN_EXE_xtask"), " setup --tests");
        let mut script = Command::new("/usr/bin/script");
        self.run(script.args(["-qec", call, "/dev/null"]).env("SHELL", "/bin/sh"), typed)
    }

    fn run(&self, command: &mut Command, typed: &str) -> Output {
        let command = command
            .env("PATH", self.programs.path())
            .env("LIBCLANG_PATH", self.libclang())
            // Set-up would build mdbook with it.
            .env_remove("CARGO")
            .env_remove("MPICC")
            .env_remove("CC");
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn libclang(&self) -> std::path::PathBuf {
        let file = self.path("libclang.so");
        fs::write(&file, "").unwrap();
        file
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_complete_machine_is_left_alone() {
    let machine = Machine::bare().complete_but(&[]).with_apt("exit 0");
    let output = machine.set_up();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("nothing to install"));
    assert_eq!(machine.calls(), "");
}

#[test]
fn without_a_package_manager_the_packages_are_named_for_three() {
    let output = Machine::bare().set_up();
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(&output.stdout);
    for name in ["mpicc", "mpirun", "gfortran", "pkg-config", "hwloc", "OpenMP"] {
        assert!(stdout.contains(name), "{name} is not in:\n{stdout}");
    }
    let stderr = text(&output.stderr);
    for words in
        ["there is no apt-get", "apt-get install libopenmpi-dev", "dnf install", "spack install"]
    {
        assert!(stderr.contains(words), "{words} is not in:\n{stderr}");
    }
}

#[test]
fn what_is_missing_is_installed_and_the_rest_is_not() {
    // Only tests need heaptrack.
    let machine = Machine::bare().complete_but(&["mpirun", "heaptrack"]);
    let mpirun = machine.path("mpirun");
    let machine = machine.with_apt(&format!(
        "[ \"$1\" = install ] && {{ echo '#!/bin/sh' > '{0}'; chmod 755 '{0}'; }}; exit 0",
        mpirun.display()
    ));
    let output = machine.set_up();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("starts the ranks"), "{}", text(&output.stdout));
    let calls = machine.calls();
    let install = calls.lines().last().unwrap();
    assert_eq!(
        install,
        "install --quiet --yes --no-install-recommends --no-upgrade --no-remove openmpi-bin"
    );
    let again = machine.set_up();
    assert!(again.status.success());
    assert_eq!(machine.calls(), calls, "the second run installs nothing");
}

#[test]
fn nothing_is_installed_at_a_terminal_without_consent() {
    let machine = Machine::bare().complete_but(&["mpirun", "heaptrack"]).with_apt("exit 0");
    let output = machine.set_up_at_a_terminal("n\n");
    let said = text(&output.stdout);
    assert!(said.contains("install openmpi-bin "), "{said}");
    assert!(said.contains(" heaptrack") && said.contains("? [Y/n]"), "{said}");
    assert!(said.contains("nothing is installed") && !said.contains("fetching"), "{said}");
    assert_eq!((output.status.code(), machine.calls()), (Some(1), String::new()));
    machine.set_up_at_a_terminal("y\n");
    assert!(machine.calls().contains("openmpi-bin"), "{}", machine.calls());
}

#[test]
fn an_installation_that_changes_nothing_is_not_believed() {
    let output = Machine::bare().complete_but(&["mpirun"]).with_apt("exit 0").set_up();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("mpirun cannot be used yet"), "{}", text(&output.stderr));
}

#[test]
fn a_package_manager_that_fails_stops_the_set_up() {
    let output = Machine::bare().complete_but(&["mpirun"]).with_apt("exit 100").set_up();
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("100") && stderr.contains("apt-get install openmpi-bin"), "{stderr}");
}

#[test]
fn installation_without_set_up_first_lists_all_that_is_missing() {
    let machine = Machine::bare().complete_but(&["mpicc", "gfortran"]).with_apt("exit 0");
    let prefix = machine.path("prefix");
    let output = machine.xtask(&["install", "--no-setup", "--prefix", prefix.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert!(said.contains("mpicc") && said.contains("gfortran"), "{said}");
    assert!(!said.contains("building"), "{said}");
    let error = text(&output.stderr);
    assert!(error.contains("apt-get install libopenmpi-dev gfortran"), "{error}");
    assert_eq!((output.status.code(), machine.calls()), (Some(1), String::new()));
}
