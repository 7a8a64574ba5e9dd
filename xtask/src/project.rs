//! Paths of the project: the checkout, its build folder, and commands that use both.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

use crate::run;

/// Returns the checkout this xtask was built from.
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Variables by which a command that was started with another MPI (`crate::mpi`) knows the MPI, and
/// the two folders below.
pub const MPI: &str = "QUO_XTASK_MPI";
pub const BASE: &str = "QUO_XTASK_BASE";
pub const BUILD: &str = "QUO_XTASK_BUILD";

/// Returns cargo's build folder for the MPI in use.
pub fn target() -> Result<PathBuf> {
    std::env::var_os(BUILD).map_or_else(base, |folder| Ok(folder.into()))
}

/// Returns cargo's usual build folder: the one that contains this executable, wherever the user
/// keeps it. Files that are the same for every MPI are here.
pub fn base() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os(BASE) {
        return Ok(folder.into());
    }
    let executable = std::env::current_exe().context("finding the running executable")?;
    let folder = executable.ancestors().nth(2).context("xtask runs outside a build folder")?;
    Ok(folder.to_path_buf())
}

/// Waits until no other command of this kind runs from the build folder. The turn ends with the
/// file's descriptor, also after a kill.
pub fn turn(folder: &Path, kind: &str) -> Result<File> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join(format!("{kind}.lock"));
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let locked = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            println!("waiting for another {kind} from {}", folder.display());
            retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))
        }
        result => result,
    };
    locked.with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

/// Returns a cargo call at the root of the checkout that fills the same build folder.
pub fn cargo() -> Result<Command> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).env("CARGO_TARGET_DIR", target()?).env("CARGO_TERM_COLOR", "never");
    // Cargo describes xtask in the environment of `cargo run`; build scripts would see a change
    // between the ways of starting and compile everything again.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME"] {
        command.env_remove(name);
    }
    // Some environments name this machine, as conda's Rust does: results would be in a folder of
    // that name.
    command.env_remove("CARGO_BUILD_TARGET");
    Ok(command)
}

/// Returns the target triple of this machine.
pub fn triple() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let told = run::captured(Command::new(rustc).current_dir(root()).arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// Removes the linker of another MPI from a cargo call that does not need it. A linker that the
/// user set stays.
pub fn without_mpi_linker(command: &mut Command) -> Result<&mut Command> {
    if std::env::var_os(BUILD).is_some() {
        command.env_remove(linker_variable()?);
    }
    Ok(command)
}

/// Returns the variable that gives cargo another linker for this machine.
pub fn linker_variable() -> Result<String> {
    let triple = triple()?.to_uppercase().replace(['-', '.'], "_");
    Ok(format!("CARGO_TARGET_{triple}_LINKER"))
}

/// Returns the files below a folder, sorted.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        let entries = next.read_dir().with_context(|| format!("reading {}", next.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the full path of a program on `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let candidate = Path::new(name);
    if candidate.components().count() > 1 {
        return is_executable(candidate).then(|| candidate.to_path_buf());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// Finds an administrator's program, whose folder may not be on a user's `PATH`.
pub fn find_system_program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(name));
    find_program(name).or_else(|| folders.into_iter().find(|file| is_executable(file)))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_from_one_build_folder_take_turns() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("target");
        let first = turn(&folder, "test").unwrap();
        let other = File::open(folder.join("test.lock")).unwrap();
        let is_taken =
            || flock(&other, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK);
        assert!(is_taken());
        drop(first);
        let second = turn(&folder, "test").unwrap();
        assert!(is_taken());
        drop(second);
        assert!(!is_taken());
    }

    #[test]
    fn cargo_call_ignores_a_target_of_the_environment() {
        let command = cargo().unwrap();
        let removed =
            |name: &str| command.get_envs().any(|(key, value)| key == name && value.is_none());
        assert!(removed("CARGO_BUILD_TARGET"));
    }
}
