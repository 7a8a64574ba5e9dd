//! The program to spawn: this process's own, and a check that the file exists. Some launchers end
//! the job if it does not.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Returns the program of this process, by the name it was started under, and its arguments.
///
/// # Errors
/// The program's file was removed, or a word is not UTF-8.
pub(crate) fn own_command() -> Result<(String, Vec<String>), String> {
    let file = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = named(&name, &file, std::env::split_paths(&path));
    let unreadable = |_| "the program's name or an argument is no text".to_owned();
    let program = program.into_os_string().into_string().map_err(unreadable)?;
    let arguments = words.map(|word| word.into_string().map_err(unreadable));
    Ok((program, arguments.collect::<Result<_, _>>()?))
}

/// Returns the path by which `name` leads to `file`, else `file`. The path of a link is kept:
/// Python finds the packages of a virtual environment by it.
fn named(name: &OsStr, file: &Path, path: impl Iterator<Item = PathBuf>) -> PathBuf {
    let is_same = |candidate: &PathBuf| candidate.canonicalize().is_ok_and(|found| found == file);
    let mut candidates: Box<dyn Iterator<Item = PathBuf>> =
        if Path::new(name).components().count() > 1 {
            Box::new(std::path::absolute(name).into_iter())
        } else {
            Box::new(path.map(|folder| folder.join(name)))
        };
    candidates.find(is_same).unwrap_or_else(|| file.to_path_buf())
}

/// Checks that a launcher on this host finds the program.
///
/// # Errors
/// Describes the problem.
pub(super) fn check_program(command: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    check_program_in(command, std::env::split_paths(&path))
}

fn check_program_in(command: &str, mut path: impl Iterator<Item = PathBuf>) -> Result<(), String> {
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
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn program_is_named_as_it_was_started() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (file, link) = (folder.join("python3.11"), folder.join("venv"));
        std::fs::write(&file, "").unwrap();
        std::fs::write(folder.join("other"), "").unwrap();
        symlink(&file, &link).unwrap();
        let path = || ["/nowhere".into(), folder.clone()].into_iter();
        let of = |name: &OsStr| named(name, &file, path());
        assert_eq!(of(link.as_os_str()), link);
        assert_eq!(of(OsStr::new("venv")), link, "found in PATH");
        for name in ["other", "gone", "/nowhere/python3.11", "", "-sh"] {
            assert_eq!(of(OsStr::new(name)), file, "{name}");
        }
    }

    #[test]
    fn only_files_that_can_be_executed_are_programs() {
        assert_eq!(check_program("/bin/sh"), Ok(()));
        for (command, reason) in [
            ("/nowhere/program", "No such file"),
            ("/proc/version", "ermission denied"),
            ("/", "not a regular file"),
            ("no program has this name", "in PATH"),
        ] {
            let said = check_program(command).unwrap_err();
            assert!(said.contains(reason) && said.contains(command), "{said}");
        }
        assert_eq!(
            check_program_in("sh", ["/nowhere", "/bin"].map(PathBuf::from).into_iter()),
            Ok(())
        );
    }
}
