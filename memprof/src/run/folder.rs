//! The folder for a job's traces: new, private, and never one that is already in use.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Longest path that the object in the ranks accepts.
const LONGEST: usize = 1023;

/// A folder for traces.
#[derive(Debug)]
pub struct Folder {
    /// Absolute path.
    pub path: PathBuf,
    /// True if it did not exist before.
    pub made: bool,
}

impl Folder {
    /// Returns true if there is a trace in the folder.
    pub fn has_traces(&self) -> bool {
        let is_trace = |entry: io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "memprof"))
        };
        self.path.read_dir().is_ok_and(|mut entries| entries.any(is_trace))
    }

    /// Removes the folder if it was created here and nothing was recorded.
    pub fn drop_if_made(&self) {
        if self.made {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Creates `named` or, without a name, the first free `memprof-PROGRAM-N` in the current folder.
///
/// An existing folder may be named if it is empty and no other user can write to it.
pub fn make(named: Option<&Path>, program: &Path) -> io::Result<Folder> {
    let folder = find(named, program)?;
    if folder.path.as_os_str().len() > LONGEST {
        folder.drop_if_made();
        let why = format!("its path is longer than {LONGEST} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, why));
    }
    Ok(folder)
}

fn find(named: Option<&Path>, program: &Path) -> io::Result<Folder> {
    match named {
        Some(folder) => {
            let folder = std::path::absolute(folder)?;
            match private(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    quo_files::check(&folder, quo_files::Access::ReadOnly)?;
                    if folder.read_dir()?.next().is_some() {
                        let why = "is there already and is not empty; name another folder";
                        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
                    }
                    Ok(Folder { path: folder, made: false })
                }
                result => result.map(|()| Folder { path: folder, made: true }),
            }
        }
        None => {
            let here = std::env::current_dir()?;
            let name = name_of(program);
            for number in 1.. {
                let folder = here.join(format!("memprof-{name}-{number}"));
                match private(&folder) {
                    Ok(()) => return Ok(Folder { path: folder, made: true }),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
            unreachable!("numbers do not end")
        }
    }
}

fn private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Returns a file name without special characters.
fn name_of(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name
        .chars()
        .filter(|c| c.is_alphanumeric() || "._+".contains(*c) || *c == '-')
        .take(64)
        .collect();
    match name.trim_matches(['.', '-']) {
        "" => "job".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn named_folder_is_made_private_and_a_used_one_refused() {
        let place = tempfile::tempdir().expect("a folder");
        let wanted = place.path().join("out");
        let folder = make(Some(&wanted), Path::new("x")).expect("made");
        assert!(folder.made);
        let mode = folder.path.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let again = make(Some(&wanted), Path::new("x")).expect("still empty");
        assert!(!again.made);
        again.drop_if_made();
        std::fs::write(wanted.join("kept"), "").expect("written");
        let error = make(Some(&wanted), Path::new("x")).expect_err("used");
        assert!(error.to_string().contains("not empty"), "{error}");
        assert!(wanted.join("kept").exists());
    }

    #[test]
    fn names_are_safe_whatever_the_program_is_called() {
        for (program, name) in
            [("./mg.x", "mg.x"), ("/a b/c d$(e)", "cde"), ("..", "job"), ("/opt/-rf", "rf")]
        {
            assert_eq!(name_of(Path::new(program)), name, "{program}");
        }
    }
}
