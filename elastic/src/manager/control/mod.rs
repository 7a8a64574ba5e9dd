//! The control socket: a job is told from outside to grow and shrink, by the command `quo-elastic` or by a script.
//!
//! The socket is `FOLDER/JOB.sock`, of mode 0600 in a folder of mode 0700; the kernel says who connects, and only the
//! job's user and the administrator are heard. Both sides speak [lines of JSON](wire). A client that says nothing,
//! too much, or goes away does no harm: nobody waits for it.

mod client;
mod folder;
mod peer;
mod server;
pub mod wire;

use std::io::{ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

pub use client::{Client, ClientError};
pub use folder::{FOLDER_VARIABLE, folder, jobs, socket_of};

use super::{Requests, ResourceManager};

/// Listens for requests from outside while the job runs.
#[derive(Debug)]
pub struct ControlSocket {
    folder: PathBuf,
    /// Where it listens, once it does.
    path: Option<PathBuf>,
    /// Written to at the end.
    over: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// A socket of the job's name in the [usual folder](folder).
    #[must_use]
    pub fn new() -> Self {
        Self::in_folder(folder())
    }

    /// A socket of the job's name in this folder. It is made if it is not there, and has to belong to this user and
    /// be closed to others.
    #[must_use]
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), path: None, over: None, thread: None }
    }

    fn listen(&mut self, requests: Requests) -> std::io::Result<()> {
        folder::prepare(&self.folder)?;
        let path = socket_of(&self.folder, &requests.status().job);
        let listener = bind(&path)?;
        let (over, is_over) = UnixStream::pair()?;
        let (watching, woken) = UnixStream::pair()?;
        requests.watch(watching)?;
        let mut server = server::Server::new(listener, is_over, woken, requests)?;
        self.thread = Some(
            std::thread::Builder::new()
                .name("elastic-control".to_owned())
                .spawn(move || server.run())?,
        );
        (self.path, self.over) = (Some(path), Some(over));
        Ok(())
    }
}

impl Default for ControlSocket {
    fn default() -> Self {
        Self::new()
    }
}

/// Listens at the path, in the place of a socket whose job has died, not of one that lives. The path leads to the
/// socket only once it listens: to a client, a socket that does not is one of a dead job.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let new = path.with_extension(std::process::id().to_string());
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&new)?;
    // The folder is closed to others already.
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    let placed = std::fs::set_permissions(&new, private).and_then(|()| place(&new, path));
    std::fs::remove_file(&new)?;
    placed.map(|()| listener)
}

/// Gives a socket that listens its path.
fn place(new: &Path, path: &Path) -> std::io::Result<()> {
    match std::fs::hard_link(new, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if UnixStream::connect(path).is_ok() {
                let text = format!("a job of this name is running: {}", path.display());
                return Err(std::io::Error::new(ErrorKind::AddrInUse, text));
            }
            std::fs::remove_file(path)?;
            std::fs::hard_link(new, path)
        }
        placed => placed,
    }
}

impl ResourceManager for ControlSocket {
    fn name(&self) -> &'static str {
        "socket"
    }

    fn begins(&mut self, requests: Requests) -> Result<(), String> {
        self.listen(requests).map_err(|error| error.to_string())
    }

    fn ends(&mut self) {
        if let Some(mut over) = self.over.take() {
            let _ = over.write_all(&[1]);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(path) = self.path.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.ends();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("quo-control-{name}-{}", std::process::id()));
        let _absent = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn socket_of_a_dead_job_is_replaced_and_a_living_one_kept() {
        let folder = folder("replaced");
        let path = folder.join("test.sock");
        let listener = bind(&path).unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        let _listener = bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn socket_that_is_there_can_be_connected_to() {
        const SOCKETS: usize = 200;
        let folder = folder("connected");
        let path = |number: usize| folder.join(format!("{number}.sock"));
        let bound = AtomicUsize::new(0);
        let listeners = std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..SOCKETS {
                    while !path(number).exists() && bound.load(Ordering::Acquire) <= number {}
                    UnixStream::connect(path(number)).unwrap();
                }
            });
            (0..SOCKETS)
                .map(|number| {
                    let listener = bind(&path(number)).unwrap();
                    bound.store(number + 1, Ordering::Release);
                    listener
                })
                .collect::<Vec<UnixListener>>()
        });
        drop(listeners);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
