//! Which files of a folder are traces.

use serde::Serialize;
use std::path::{Path, PathBuf};

/// A folder that cannot be used as a job.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder could not be listed.
    #[error("cannot read the folder {folder}: {cause}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// There is no trace in it.
    #[error("no traces (*.memprof) in {0}")]
    Empty(PathBuf),
    /// None of its traces could be read.
    #[error("none of the {count} traces in {folder} can be read; the first, {first}: {why}")]
    Unreadable {
        /// The folder.
        folder: PathBuf,
        /// How many there are.
        count: usize,
        /// One of them.
        first: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// One trace could not be read.
    #[error("cannot read {file}: {why}")]
    Trace {
        /// The trace.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A file that looks like a trace and cannot be read as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// The traces in a folder, by name. Links, folders and other things of that name are left alone.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let is_trace = path.extension().is_some_and(|end| end == "memprof");
            if is_trace && entry.file_type()?.is_file() {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    };
    let files = list().map_err(|cause| LoadError::Folder { folder: folder.to_owned(), cause })?;
    match files.is_empty() {
        true => Err(LoadError::Empty(folder.to_owned())),
        false => Ok(files),
    }
}
