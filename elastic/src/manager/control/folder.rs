//! Where control sockets are.

use std::fs::{self, DirBuilder};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The variable that names another folder for control sockets: the same for jobs and commands.
pub const FOLDER_VARIABLE: &str = "QUO_ELASTIC_DIR";

/// The folder of this user's control sockets: what [`FOLDER_VARIABLE`] says, else `/tmp/quo-elastic-UID`. Not below
/// the variables for temporary files, which differ between a batch job and a shell.
#[must_use]
pub fn folder() -> PathBuf {
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) if !folder.is_empty() => folder.into(),
        _ => format!("/tmp/quo-elastic-{}", rustix::process::geteuid().as_raw()).into(),
    }
}

/// The socket of a job.
#[must_use]
pub fn socket_of(folder: &Path, job: &str) -> PathBuf {
    folder.join(format!("{job}.sock"))
}

/// The names of the jobs that have a socket in a folder, also of those that died.
///
/// # Errors
/// The folder cannot be read; that there is none is no error.
pub fn jobs(folder: &Path) -> std::io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut jobs = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if let (Some(job), true) = (name.strip_suffix(".sock"), entry.file_type()?.is_socket()) {
            jobs.push(job.to_owned());
        }
    }
    jobs.sort_unstable();
    Ok(jobs)
}

/// Makes the folder if it is not there; it must be this user's own and closed to others.
pub(super) fn prepare(folder: &Path) -> std::io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => made.map_err(|error| about(folder, &error.to_string(), error.kind()))?,
    }
    // Not followed: a link may lead to where others can write.
    let found = fs::symlink_metadata(folder)?;
    let refused = |what| Err(about(folder, what, ErrorKind::PermissionDenied));
    if !found.is_dir() {
        return refused("is no folder");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refused("belongs to another user");
    }
    if found.mode() & 0o077 != 0 {
        return refused("is open to others: it needs mode 0700");
    }
    Ok(())
}

fn about(folder: &Path, what: &str, kind: ErrorKind) -> Error {
    Error::new(kind, format!("the folder {}: {what}", folder.display()))
}
