//! What an MPI's compiler wrappers report about the MPI.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{project, run};

/// The MPI that libquo is linked with.
pub struct Mpi {
    /// Name and version, such as `Open MPI 4.1.4`.
    pub name: String,
    /// Wrapper for C, as a full path.
    pub mpicc: PathBuf,
    /// Flags that the wrapper passes to the linker.
    pub link_flags: Vec<String>,
    /// Folders in which programs find the MPI's libraries at run time.
    pub run_path: Vec<PathBuf>,
}

impl Mpi {
    pub fn of_build() -> Result<Mpi> {
        let named = quo_tests::mpicc();
        let mpicc = project::find_program(&named.to_string_lossy())
            .with_context(|| format!("{}: no such program", named.to_string_lossy()))?;
        let shown = run::captured(Command::new(&mpicc).arg("-show"))?;
        let name = name(&mpicc)?;
        let beside = mpicc.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"));
        let mut run_path = run_path(folders(&shown));
        if run_path.is_empty() {
            run_path = self::run_path(beside.into_iter().collect());
        }
        Ok(Mpi { name, mpicc, link_flags: link_flags(&shown), run_path })
    }
}

/// Returns the linker's part of a wrapper's flags.
fn link_flags(shown: &str) -> Vec<String> {
    let is_for_linker =
        |word: &&str| ["-L", "-l", "-Wl,"].iter().any(|start| word.starts_with(start));
    let mut flags: Vec<String> = Vec::new();
    for word in shown.split_whitespace().filter(is_for_linker).map(unquoted) {
        if !flags.contains(&word) {
            flags.push(word);
        }
    }
    flags
}

/// Returns the folders in which a wrapper looks for libraries, at link time and at run time.
fn folders(shown: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut follows_rpath = false;
    for word in shown.split_whitespace().map(unquoted) {
        if let Some(folder) = word.strip_prefix("-L") {
            folders.push(PathBuf::from(folder));
        }
        for part in word.strip_prefix("-Wl,").into_iter().flat_map(|rest| rest.split(',')) {
            if follows_rpath {
                folders.push(PathBuf::from(part));
            } else if let Some(folder) = part.strip_prefix("-rpath=") {
                folders.push(PathBuf::from(folder));
            }
            follows_rpath = matches!(part, "-rpath" | "--rpath");
        }
    }
    folders
}

/// Removes quotes: some wrappers quote their output for the shell.
fn unquoted(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '"' | '\'')).collect()
}

/// Returns the real folders of the MPI libraries in these folders. Debian keeps the linker's
/// symbolic links elsewhere.
fn run_path(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| is_mpi_library(&entry.file_name())) {
            let Ok(library) = entry.path().canonicalize() else { continue };
            let parent = library.parent().unwrap_or(&folder).to_path_buf();
            if !found.contains(&parent) {
                found.push(parent);
            }
        }
    }
    found.sort();
    found
}

fn is_mpi_library(name: &OsStr) -> bool {
    matches!(name.to_str(), Some("libmpi.so" | "libmpich.so"))
}

/// Returns the name of the MPI that a wrapper compiles for, from the macros of its header.
fn name(mpicc: &Path) -> Result<String> {
    let mut preprocess = Command::new(mpicc);
    preprocess.args(["-E", "-dM", "-include", "mpi.h", "-x", "c", "/dev/null"]);
    Ok(name_from(&run::captured(&mut preprocess)?))
}

fn name_from(macros: &str) -> String {
    let value = |name: &str| {
        let lines = macros.lines().filter_map(|line| line.strip_prefix("#define "));
        let mut values = lines.filter_map(|line| line.split_once(' '));
        values.find(|(key, _)| *key == name).map(|(_, value)| value.trim().replace('"', ""))
    };
    let open_mpi = ["OMPI_MAJOR_VERSION", "OMPI_MINOR_VERSION", "OMPI_RELEASE_VERSION"].map(value);
    if let [Some(major), Some(minor), Some(release)] = open_mpi {
        return format!("Open MPI {major}.{minor}.{release}");
    }
    if let Some(version) = value("I_MPI_VERSION") {
        return format!("Intel MPI {version}");
    }
    match value("MPICH_VERSION") {
        Some(version) => format!("MPICH {version}"),
        None => "an MPI without a name".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mpis_linker_flags_are_passed_each_once() {
        let shown = "gcc -I/usr/mpi/include -pthread -L/usr/mpi/lib -L/usr/mpi/lib \
                     -Wl,-rpath,/usr/mpi/lib -lmpi\n";
        assert_eq!(link_flags(shown), ["-L/usr/mpi/lib", "-Wl,-rpath,/usr/mpi/lib", "-lmpi"]);
    }

    #[test]
    fn folders_for_the_linker_and_the_loader_are_found() {
        let shown = "gcc -L\"/a/lib\" -Xlinker -Wl,-rpath -Wl,/b/lib -Wl,-rpath,/c/lib \
                     -Wl,-rpath=/d/lib -Wl,--enable-new-dtags";
        let expected = ["/a/lib", "/b/lib", "/c/lib", "/d/lib"].map(PathBuf::from);
        assert_eq!(folders(shown), expected);
    }

    #[test]
    fn the_run_path_is_where_the_library_itself_lies() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["real", "links", "empty"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("real/libmpi.so.40"), "").unwrap();
        std::os::unix::fs::symlink("../real/libmpi.so.40", root.join("links/libmpi.so")).unwrap();
        let asked = ["links", "empty", "absent"].map(|name| root.join(name)).to_vec();
        assert_eq!(run_path(asked), [root.join("real")]);
    }

    #[test]
    fn an_mpi_is_known_by_its_macros() {
        let open = "#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n\
                    #define OMPI_RELEASE_VERSION 4\n";
        assert_eq!(name_from(open), "Open MPI 4.1.4");
        assert_eq!(name_from("#define MPICH_VERSION \"4.0.2\"\n"), "MPICH 4.0.2");
        let intel = "#define MPICH_VERSION \"3.3\"\n#define I_MPI_VERSION \"2021.14\"\n";
        assert_eq!(name_from(intel), "Intel MPI 2021.14");
        assert_eq!(name_from(""), "an MPI without a name");
    }
}
