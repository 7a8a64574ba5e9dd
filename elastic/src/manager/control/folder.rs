//! The folders of control sockets, and the check that they can be trusted.

use std::fs::{self, DirBuilder};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use quo_files::Access;

/// The variable that names the only folder for control sockets, for jobs and commands alike.
pub const FOLDER_VARIABLE: &str = "QUO_ELASTIC_DIR";

/// The variable of the XDG Base Directory Specification for the user's runtime folder.
const RUNTIME_VARIABLE: &str = "XDG_RUNTIME_DIR";

/// The end of a socket's name, after the name of its job.
const SUFFIX: &str = ".sock";

/// Number of names that are tried for a new folder in the temporary folder.
const ATTEMPTS: usize = 8;

/// The folders of a user's control sockets.
///
/// Either the one named by [`FOLDER_VARIABLE`] or the program; or `quo-elastic` in
/// `$XDG_RUNTIME_DIR` and in `/run/user/UID`, and the folders of `/tmp` with the name
/// `quo-elastic-UID` or the prefix `quo-elastic-UID-`. A folder counts only if it belongs to the
/// user and has mode 0700, so that no other user can block a job's socket by making a folder first.
#[derive(Clone, Debug)]
pub struct Folders {
    pub(super) places: Places,
    /// Owner of the folders.
    pub(super) user: u32,
}

/// Where the folders are.
#[derive(Clone, Debug)]
pub(super) enum Places {
    /// A named folder.
    Named(PathBuf),
    /// The usual folders, unless one is named.
    Usual {
        /// The user's runtime folder, if the environment names it.
        runtime: Option<PathBuf>,
        /// The runtime folder of the user's logins, for commands without the variable.
        login: PathBuf,
        /// The temporary folder, shared with other users.
        temporary: PathBuf,
    },
}

impl Folders {
    /// Finds the folders of this process's user. They do not depend on the variables for temporary
    /// files, which differ between a batch job and a shell.
    #[must_use]
    pub fn of_this_user() -> Self {
        let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(folder) = value(FOLDER_VARIABLE) {
            return Self::only(folder);
        }
        let user = user();
        let runtime = value(RUNTIME_VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute());
        let (login, temporary) = (format!("/run/user/{user}").into(), "/tmp".into());
        Self { places: Places::Usual { runtime, login, temporary }, user }
    }

    /// Uses only the named folder. It must belong to this process's user and be closed to others.
    #[must_use]
    pub fn only(folder: impl Into<PathBuf>) -> Self {
        Self { places: Places::Named(folder.into()), user: user() }
    }

    /// Lists the existing folders that can be trusted.
    ///
    /// # Errors
    /// The named folder cannot be trusted. A missing one is no error.
    pub fn list(&self) -> Result<Vec<PathBuf>> {
        let (runtime, login, temporary) = match &self.places {
            Places::Named(folder) => {
                return match check(folder, self.user) {
                    Ok(()) => Ok(vec![folder.clone()]),
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
                    Err(error) => Err(error),
                };
            }
            Places::Usual { runtime, login, temporary } => (runtime, login, temporary),
        };
        let mut all: Vec<PathBuf> = Vec::new();
        for above in runtime.iter().chain([login]) {
            let folder = below(above);
            let is_private = || check(above, self.user).and_then(|()| check(&folder, self.user));
            if !all.contains(&folder) && is_private().is_ok() {
                all.push(folder);
            }
        }
        all.extend(self.shared(temporary));
        Ok(all)
    }

    /// Lists the user's own folders in the temporary folder, in the order of their names.
    fn shared(&self, temporary: &Path) -> Vec<PathBuf> {
        let name = self.name();
        let first = format!("{name}-");
        let entries = fs::read_dir(temporary).into_iter().flatten().flatten();
        let named = entries.filter(|entry| {
            let found = entry.file_name();
            found.to_str().is_some_and(|found| found == name || found.starts_with(&first))
        });
        let paths = named.map(|entry| entry.path());
        let mut own: Vec<PathBuf> = paths.filter(|path| check(path, self.user).is_ok()).collect();
        own.sort_unstable();
        own
    }

    /// Returns folders for a new socket in the order of preference. Missing ones are made.
    pub(in crate::manager) fn for_new(&self) -> Vec<Result<PathBuf>> {
        match &self.places {
            Places::Named(folder) => vec![prepare(folder, self.user)],
            Places::Usual { runtime, temporary, .. } => {
                let of_runtime = runtime.iter().map(|above| {
                    check(above, self.user)?;
                    prepare(&below(above), self.user)
                });
                of_runtime.chain([self.prepare_shared(temporary)]).collect()
            }
        }
    }

    /// Finds or makes a private folder of the user in the temporary folder. Other users may have
    /// taken any name.
    fn prepare_shared(&self, temporary: &Path) -> Result<PathBuf> {
        if let Some(folder) = self.shared(temporary).into_iter().next() {
            return Ok(folder);
        }
        let mut name = self.name();
        for _ in 0..ATTEMPTS {
            let folder = temporary.join(&name);
            match make(&folder) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.and_then(|()| check(&folder, self.user)).map(|()| folder),
            }
            let mut random = [0; 8];
            rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
            name = format!("{}-{:016x}", self.name(), u64::from_ne_bytes(random));
        }
        Err(about(temporary, "others take each name for a folder in it", ErrorKind::AlreadyExists))
    }

    fn name(&self) -> String {
        format!("quo-elastic-{}", self.user)
    }

    /// Returns true if no folder was named. Then a job can do without a socket, and all sockets are
    /// of this host: in a named folder, sockets without a listener may belong to jobs on other
    /// hosts.
    pub(super) fn are_usual(&self) -> bool {
        matches!(self.places, Places::Usual { .. })
    }
}

/// The user that this process acts as.
pub(super) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn below(runtime: &Path) -> PathBuf {
    runtime.join("quo-elastic")
}

/// Returns true if a job can have this name, which is a part of its socket's path and of names of process sets.
#[must_use]
pub fn is_job_name(name: &str) -> bool {
    let strange = |letter: char| letter == '/' || letter.is_control() || letter.is_whitespace();
    !name.is_empty() && !name.starts_with('.') && !name.contains(strange)
}

/// The path of a job's socket in a folder.
#[must_use]
pub fn socket_of(folder: &Path, job: &str) -> PathBuf {
    folder.join(format!("{job}{SUFFIX}"))
}

/// Returns true if a path has the ending of control sockets.
pub(super) fn is_socket_path(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(SUFFIX.as_bytes())
}

/// Returns the names of the jobs with a socket in a folder, including dead jobs.
///
/// # Errors
/// The folder cannot be read; a missing one is no error.
pub fn jobs(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut jobs = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        // The file type is missing if the socket was removed since.
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if let Some(job) = name.strip_suffix(SUFFIX).filter(|job| is_socket && is_job_name(job)) {
            jobs.push(job.to_owned());
        }
    }
    jobs.sort_unstable();
    Ok(jobs)
}

/// Makes the folder if it is missing, and checks it.
fn prepare(folder: &Path, user: u32) -> Result<PathBuf> {
    match make(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => check(folder, user).map(|()| folder.to_owned()),
    }
}

fn make(folder: &Path) -> Result<()> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    made.map_err(|error| about(folder, &error.to_string(), error.kind()))
}

/// Checks that a folder belongs to the user and is closed to others.
///
/// # Errors
/// The folder is missing, or cannot be trusted.
fn check(folder: &Path, user: u32) -> Result<()> {
    quo_files::check_of(folder, Access::Private, user)
}

fn about(folder: &Path, what: &str, kind: ErrorKind) -> Error {
    Error::new(kind, format!("the folder {}: {what}", folder.display()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    /// A folder for one test, removed at its end.
    #[derive(Debug)]
    pub(crate) struct Scratch(pub PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Self {
            let process = std::process::id();
            let path = std::env::temp_dir().join(format!("quo-control-{name}-{process}"));
            let _absent = fs::remove_dir_all(&path);
            make(&path).unwrap();
            Self(path)
        }

        /// The usual folders, all placed in this one.
        pub(crate) fn usual(&self) -> Folders {
            for name in ["runtime", "tmp"] {
                prepare(&self.0.join(name), user()).unwrap();
            }
            let (runtime, login) = (None, self.0.join("login"));
            let temporary = self.0.join("tmp");
            Folders { places: Places::Usual { runtime, login, temporary }, user: user() }
        }

        /// The usual folders with a runtime folder.
        pub(crate) fn usual_with_runtime(&self) -> Folders {
            let mut folders = self.usual();
            if let Places::Usual { runtime, .. } = &mut folders.places {
                *runtime = Some(self.0.join("runtime"));
            }
            folders
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn first(folders: &Folders) -> PathBuf {
        folders.for_new().into_iter().flatten().next().unwrap()
    }

    #[test]
    fn runtime_folder_of_user_comes_first() {
        let scratch = Scratch::new("runtime");
        let folders = scratch.usual_with_runtime();
        let folder = first(&folders);
        assert_eq!(folder, scratch.0.join("runtime/quo-elastic"));
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(folders.list().unwrap().first(), Some(&folder));
    }

    #[test]
    fn runtime_folder_open_to_others_is_not_used() {
        let scratch = Scratch::new("open");
        let folders = scratch.usual_with_runtime();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(scratch.0.join("runtime"), open).unwrap();
        assert!(first(&folders).starts_with(scratch.0.join("tmp")));
    }

    #[test]
    fn taken_folder_names_do_not_block_new_ones() {
        let scratch = Scratch::new("taken");
        let folders = scratch.usual();
        let taken = scratch.0.join("tmp").join(folders.name());
        symlink("/", &taken).unwrap();
        let folder = first(&folders);
        assert!(folder.to_str().unwrap().starts_with(&format!("{}-", taken.display())));
        // The next job and the command find it again.
        assert_eq!(first(&folders), folder);
        assert_eq!(folders.list().unwrap(), [folder]);
    }

    #[test]
    fn folders_of_other_users_are_neither_used_nor_listed() {
        let scratch = Scratch::new("others");
        let mut folders = scratch.usual();
        folders.user += 1;
        let taken = scratch.0.join("tmp").join(folders.name());
        for name in [taken.clone(), format!("{}-1", taken.display()).into()] {
            make(&name).unwrap();
        }
        assert_eq!(folders.list().unwrap(), Vec::<PathBuf>::new());
        let mut named = Folders::only(&taken);
        assert_eq!(named.list().unwrap(), std::slice::from_ref(&taken));
        named.user += 1;
        let expected = format!("the folder {}: belongs to another user", taken.display());
        assert_eq!(named.list().unwrap_err().to_string(), expected);
        assert_eq!(named.for_new().remove(0).unwrap_err().to_string(), expected);
    }

    #[test]
    fn strange_words_are_not_job_names() {
        for name in ["weather", "a.b-c_d", "42", "wetter-ä"] {
            assert!(is_job_name(name), "{name}");
        }
        for name in ["", ".", "../../etc", "a/b", "a b", "a\u{1b}[31m", "a\n", "\u{9b}1m"] {
            assert!(!is_job_name(name), "{name:?}");
        }
    }
}
