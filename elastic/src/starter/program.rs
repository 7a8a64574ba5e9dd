//! Check that there is a program to start. Some launchers end the job when there is none.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Looks for the program that a launcher on this host would execute.
///
/// # Errors
/// Names the fault.
pub(super) fn look(command: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    look_in(command, std::env::split_paths(&path))
}

fn look_in(command: &str, mut path: impl Iterator<Item = PathBuf>) -> Result<(), String> {
    if command.contains('/') {
        return executable(Path::new(command));
    }
    let found = path.any(|folder| executable(&folder.join(command)).is_ok());
    if found { Ok(()) } else { Err(format!("{command}: there is no such program in PATH")) }
}

fn executable(file: &Path) -> Result<(), String> {
    let failed = |reason: String| Err(format!("{}: {reason}", file.display()));
    match std::fs::metadata(file) {
        Err(error) => failed(error.to_string()),
        Ok(found) if !found.is_file() => failed("not a regular file".to_owned()),
        Ok(_) => access(file, Access::EXEC_OK).or_else(|error| failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_can_be_executed_are_programs() {
        assert_eq!(look("/bin/sh"), Ok(()));
        for (command, reason) in [
            ("/nowhere/program", "No such file"),
            ("/proc/version", "ermission denied"),
            ("/", "not a regular file"),
            ("no program has this name", "in PATH"),
        ] {
            let said = look(command).unwrap_err();
            assert!(said.contains(reason) && said.contains(command), "{said}");
        }
        assert_eq!(look_in("sh", ["/nowhere", "/bin"].map(PathBuf::from).into_iter()), Ok(()));
    }
}
