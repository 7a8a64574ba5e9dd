//! Identification of a command's launcher, and passing variables to the processes it starts on
//! other hosts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Launcher of the ranks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `mpirun` of Open MPI, whose remote ranks see only variables named by `-x`.
    OpenMpi,
    /// Hydra (MPICH, Intel MPI, MVAPICH), which passes its whole environment on.
    Hydra,
    /// Slurm's `srun`, which passes everything on unless configured otherwise.
    Srun,
    /// No known launcher: a program, a script, another launcher.
    None,
}

/// Meaning of a launcher's name.
enum Named {
    As(Launcher),
    /// Both Open MPI's and Hydra have this name.
    Several,
}

impl Launcher {
    /// Recognises the first word of a command. Runs it with `--version` if the names are not
    /// sufficient, which takes as long as the launcher takes to start.
    #[must_use]
    pub fn of(program: &OsStr) -> Launcher {
        match Launcher::named(Path::new(program)) {
            Some(Named::As(launcher)) => launcher,
            Some(Named::Several) => {
                Launcher::by_target(program).unwrap_or_else(|| Launcher::ask(program))
            }
            None => Launcher::None,
        }
    }

    /// Recognises the target of a link of this name, since distributions install such links.
    fn by_target(program: &OsStr) -> Option<Launcher> {
        let path = match Path::new(program).components().count() > 1 {
            true => PathBuf::from(program),
            false => in_path(program)?,
        };
        match Launcher::named(&path.canonicalize().ok()?)? {
            Named::As(launcher @ (Launcher::OpenMpi | Launcher::Hydra)) => Some(launcher),
            _ => None,
        }
    }

    fn named(program: &Path) -> Option<Named> {
        let name = program.file_name()?.to_str()?;
        Some(match name {
            "srun" => Named::As(Launcher::Srun),
            "orterun" | "prterun" | "mpirun.openmpi" | "mpiexec.openmpi" => {
                Named::As(Launcher::OpenMpi)
            }
            "mpiexec.hydra" | "mpiexec.mpich" | "mpirun.mpich" => Named::As(Launcher::Hydra),
            "mpirun" | "mpiexec" => Named::Several,
            _ => return None,
        })
    }

    fn ask(program: &OsStr) -> Launcher {
        let output = Command::new(program)
            .arg("--version")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        match output {
            Ok(output) => Launcher::by_version(&String::from_utf8_lossy(&output.stdout)),
            Err(_) => Launcher::None,
        }
    }

    fn by_version(text: &str) -> Launcher {
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if says(&["Open MPI", "OpenRTE", "PRRTE", "prterun"]) {
            Launcher::OpenMpi
        } else if says(&["HYDRA", "Hydra", "Intel(R) MPI", "mpich"]) {
            Launcher::Hydra
        } else {
            Launcher::None
        }
    }

    /// Returns the command with the words that pass `variables` to every rank, and a message to the
    /// user if that is not possible.
    #[must_use]
    pub fn pass(self, command: &[OsString], variables: &[&str]) -> (Vec<OsString>, Option<String>) {
        match self {
            Launcher::OpenMpi => (name_each(command, variables), None),
            Launcher::Srun if limits_export(command) => (
                command.to_vec(),
                Some(format!(
                    "srun was told which variables to pass (--export, SLURM_EXPORT_ENV): {} have \
                         to be among them, or --export=ALL",
                    variables.join(", ")
                )),
            ),
            _ => (command.to_vec(), None),
        }
    }
}

/// Adds `-x NAME` for each variable to each part of the command; `:` separates programs that start
/// together. Named this way a variable has the value the launcher sees.
fn name_each(command: &[OsString], variables: &[&str]) -> Vec<OsString> {
    // A variable to which the part itself assigns a value must not be named twice.
    let gives = |part: &[OsString], name: &str| {
        let is_its = |word: &OsString| {
            word.to_str().is_some_and(|word| word.split_once('=').is_some_and(|(to, _)| to == name))
        };
        part.iter().any(is_its)
    };
    let mut out = Vec::new();
    for (at, word) in command.iter().enumerate() {
        out.push(word.clone());
        if at == 0 || word == ":" {
            let part = command[at + 1..].split(|word| word == ":").next().unwrap_or_default();
            let named = variables.iter().filter(|name| !gives(part, name));
            out.extend(named.flat_map(|name| [OsString::from("-x"), OsString::from(name)]));
        }
    }
    out
}

fn limits_export(command: &[OsString]) -> bool {
    let limited = |value: &str| value != "ALL" && !value.starts_with("ALL,");
    let mut words = command.iter().skip(1).filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        match word.strip_prefix("--export") {
            Some("") => return words.next().is_some_and(limited),
            Some(value) if value.starts_with('=') => return limited(&value[1..]),
            _ => {}
        }
    }
    std::env::var("SLURM_EXPORT_ENV").is_ok_and(|value| limited(&value))
}

/// Returns the program of a command, to name things after it: for a launcher, the program it
/// starts.
#[must_use]
pub fn program(command: &[OsString]) -> PathBuf {
    let first = Path::new(&command[0]);
    if Launcher::named(first).is_some() {
        let rest = &command[1..];
        let file = |word: &OsString| {
            let path = Path::new(word);
            (path.components().count() > 1 && executable(path)).then(|| path.to_owned())
        };
        let found = |word: &OsString| {
            let option = word.as_encoded_bytes().starts_with(b"-");
            (!option).then(|| in_path(word)).flatten()
        };
        if let Some(path) = rest.iter().find_map(file) {
            return path;
        }
        if let Some(path) = rest.iter().find_map(found) {
            return path;
        }
    }
    match first.components().count() > 1 {
        true => first.to_owned(),
        false => in_path(&command[0]).unwrap_or_else(|| first.to_owned()),
    }
}

/// Returns the path at which the shell would find a command.
#[must_use]
pub fn in_path(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| executable(file))
}

fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn open_mpi_is_told_each_variable_for_each_program() {
        let command = words("mpirun -n 1 ./a : -n 2 ./b");
        let (command, told) = Launcher::OpenMpi.pass(&command, &["LD_PRELOAD", "MEMPROF_DIR"]);
        let expected = "mpirun -x LD_PRELOAD -x MEMPROF_DIR -n 1 ./a : \
                        -x LD_PRELOAD -x MEMPROF_DIR -n 2 ./b";
        assert_eq!(command, words(expected));
        assert_eq!(told, None);
    }

    #[test]
    fn variables_that_a_part_gives_itself_are_not_named_twice() {
        let command = words("mpirun -x LD_PRELOAD=b.so ./a : ./b");
        let (command, _) = Launcher::OpenMpi.pass(&command, &["LD_PRELOAD", "MEMPROF_DIR"]);
        let expected = "mpirun -x MEMPROF_DIR -x LD_PRELOAD=b.so ./a : \
                        -x LD_PRELOAD -x MEMPROF_DIR ./b";
        assert_eq!(command, words(expected));
    }

    #[test]
    fn launchers_that_pass_everything_are_left_as_they_are() {
        for launcher in [Launcher::Hydra, Launcher::Srun, Launcher::None] {
            let command = words("srun -n 2 --export=ALL,X=1 ./a");
            assert_eq!(launcher.pass(&command, &["LD_PRELOAD"]), (command, None));
        }
    }

    #[test]
    fn an_srun_that_passes_only_some_variables_is_told_of() {
        for command in ["srun --export=PATH ./a", "srun --export NONE ./a"] {
            assert!(Launcher::Srun.pass(&words(command), &["LD_PRELOAD"]).1.is_some());
        }
    }

    #[test]
    fn the_version_tells_launchers_of_the_same_name_apart() {
        for (text, launcher) in [
            ("mpirun (Open MPI) 4.1.4\n", Launcher::OpenMpi),
            ("mpirun (Open MPI) 5.0.11", Launcher::OpenMpi),
            ("prterun (PRRTE) 3.0.13", Launcher::OpenMpi),
            ("HYDRA build details:\n    Version: 5.0.2", Launcher::Hydra),
            ("Intel(R) MPI Library for Linux* OS, Version 2021.16", Launcher::Hydra),
            ("something else", Launcher::None),
        ] {
            assert_eq!(Launcher::by_version(text), launcher, "{text}");
        }
    }

    #[test]
    fn a_link_to_a_launcher_tells_which_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("mpirun");
        for (name, launcher) in [
            ("orterun", Some(Launcher::OpenMpi)),
            ("mpiexec.hydra", Some(Launcher::Hydra)),
            ("srun", None),
            ("mpiexec", None),
            ("something", None),
        ] {
            let file = folder.path().join(name);
            std::fs::write(&file, "").expect("written");
            std::os::unix::fs::symlink(&file, &link).expect("linked");
            assert_eq!(Launcher::by_target(link.as_os_str()), launcher, "{name}");
            std::fs::remove_file(&link).expect("removed");
        }
        assert_eq!(Launcher::by_target(link.as_os_str()), None);
    }

    #[test]
    fn a_command_is_named_after_the_program_the_launcher_starts() {
        assert_eq!(program(&words("mpirun -n 4 /bin/sh -c true")), Path::new("/bin/sh"));
        assert!(program(&words("mpirun -n 4 sh")).ends_with("sh"));
        assert_eq!(program(&words("./mine a b")), Path::new("./mine"));
        assert!(program(&words("mpirun -n 4 ./absent")).ends_with("mpirun"));
    }
}
