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

/// Takes the place of a socket whose job has died, not that of one that lives.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => match UnixStream::connect(path) {
            Ok(_) => {
                let text = format!("a job of this name is running: {}", path.display());
                return Err(std::io::Error::new(ErrorKind::AddrInUse, text));
            }
            Err(_) => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)
            }
        },
        bound => bound,
    }
    .and_then(|listener| {
        // The folder is closed to others already.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, private)?;
        Ok(listener)
    })
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
