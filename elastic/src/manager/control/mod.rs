//! The control socket, through which the command `quo-elastic` or a script asks a job to grow and
//! shrink.
//!
//! The socket is `FOLDER/JOB.sock`, of mode 0600 in a [folder](Folders) of mode 0700. The kernel
//! names the user at the other end: a job serves only its own user and the administrator, and a
//! client accepts only jobs of those two. Both sides exchange [lines of JSON](wire). A client that
//! is silent, sends too much, or disconnects does no harm: the server waits for no client.

mod client;
mod folder;
mod peer;
mod server;
mod socket;
pub mod wire;

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;

pub use client::{Client, ClientError};
pub use folder::{FOLDER_VARIABLE, Folders, is_job_name, jobs, socket_of};
pub(super) use socket::FolderLock;

use super::{Requests, ResourceManager};
use crate::model::change::{Cause, CauseKind};

/// Listens for requests from outside while the job runs.
#[derive(Debug)]
pub struct ControlSocket {
    folders: Folders,
    /// The socket's path, once it listens.
    path: Option<PathBuf>,
    /// Written to at the end.
    over: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Makes a socket of the job's name in one of the [user's folders](Folders::of_this_user). If
    /// none is usable, the job runs without a socket and records a notice in its event log; if
    /// [`FOLDER_VARIABLE`] names one that is not usable, the world cannot be made.
    #[must_use]
    pub fn new() -> Self {
        Self::in_folders(Folders::of_this_user())
    }

    /// Makes a socket of the job's name in this folder. The folder is made if it is missing; it
    /// must belong to this user and be closed to others.
    #[must_use]
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::in_folders(Folders::only(folder))
    }

    fn in_folders(folders: Folders) -> Self {
        Self { folders, path: None, over: None, thread: None }
    }

    fn listen(&mut self, requests: Requests) -> std::io::Result<()> {
        let (listener, path) = match self.folders.bind(&requests.status().job) {
            Err(error) if self.folders.are_usual() && error.kind() != ErrorKind::AddrInUse => {
                let text = format!(
                    "{}: the job runs without a control socket ({FOLDER_VARIABLE} can name a folder): {error}",
                    self.name()
                );
                requests.note(Cause::new(CauseKind::Manager, text));
                return Ok(());
            }
            bound => bound?,
        };
        self.path = Some(path);
        let (over, is_over) = UnixStream::pair()?;
        let (watching, woken) = UnixStream::pair()?;
        requests.watch(watching)?;
        let mut server = server::Server::new(listener, is_over, woken, requests)?;
        self.thread = Some(
            std::thread::Builder::new()
                .name("elastic-control".to_owned())
                .spawn(move || server.run())?,
        );
        self.over = Some(over);
        Ok(())
    }
}

impl Default for ControlSocket {
    fn default() -> Self {
        Self::new()
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
        // While the socket listens, no other job takes the path.
        if let Some(path) = self.path.take() {
            let _ = std::fs::remove_file(path);
        }
        if let Some(mut over) = self.over.take() {
            let _ = over.write_all(&[1]);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
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
    use super::*;
    use crate::model::change::Happening;

    #[test]
    fn job_without_folder_runs_without_socket_and_says_so() {
        let scratch = folder::tests::Scratch::new("nowhere");
        let folders = scratch.usual_with_runtime();
        for name in ["runtime", "tmp"] {
            std::fs::remove_dir(scratch.0.join(name)).unwrap();
        }
        let requests = Requests::alone(1);
        let mut socket = ControlSocket::in_folders(folders);
        socket.begins(requests.clone()).unwrap();
        assert!(socket.path.is_none());
        let notice = requests.events(0).pop().unwrap();
        let cause = notice.cause.unwrap();
        assert_eq!((notice.what, cause.kind), (Happening::Notice, CauseKind::Manager));
        let said =
            "socket: the job runs without a control socket (QUO_ELASTIC_DIR can name a folder): ";
        assert!(cause.detail.starts_with(said), "{cause}");
        let (runtime, shared) = (scratch.0.join("runtime"), scratch.0.join("tmp"));
        let places = [runtime, shared].map(|place| place.display().to_string());
        assert!(places.iter().all(|place| cause.detail.contains(place)), "{cause}");
        // A named folder must be usable.
        let named = ControlSocket::in_folder(scratch.0.join("runtime/sockets")).begins(requests);
        assert!(named.unwrap_err().contains("runtime/sockets"));
    }
}
