//! The client's side of the control socket.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::folder::{self, Folders, is_job_name, is_socket_path, socket_of};
use super::peer;
use super::wire::{Answer, Call, line};
use crate::model::change::Event;

/// Time limit of an answer; the end of a request may take any time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a job's control socket.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

/// Why a job could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No job listens there.
    #[error("no job listens at {}: {source}", .path.display())]
    NoJob {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The name cannot be that of a job.
    #[error("{name:?} is not a job name, nor the path of a control socket")]
    NotAJob {
        /// The name.
        name: String,
    },
    /// The user has no job of this name.
    #[error("there is no job {job:?}; quo-elastic list shows all")]
    Unknown {
        /// Its name.
        job: String,
    },
    /// The job has died and left its socket behind.
    #[error("job {job:?} was killed: nobody listens at its socket any more")]
    Dead {
        /// Its name.
        job: String,
    },
    /// Several jobs have this name.
    #[error("several jobs have the name {job:?}; give the path of one's socket: {}", paths(.sockets))]
    Several {
        /// Their name.
        job: String,
        /// Their sockets.
        sockets: Vec<PathBuf>,
    },
    /// A folder of jobs cannot be read, or is not private to the user.
    #[error("cannot search the folder of control sockets: {0}")]
    Folder(std::io::Error),
    /// The socket is not one of the user's jobs.
    #[error("the socket {} is not trusted: {reason}", .path.display())]
    Untrusted {
        /// The socket.
        path: PathBuf,
        /// What is wrong with the socket.
        reason: String,
    },
    /// The connection broke.
    #[error("the connection to the job failed: {0}")]
    Connection(#[from] std::io::Error),
    /// The job ended before it answered.
    #[error("the job ended before it answered")]
    Ended,
    /// The answer cannot be read.
    #[error("the answer of the job cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

fn paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Client {
    /// Connects to the socket at this path. Both the socket and the listening job must belong to
    /// this process's user or to the administrator; the administrator may connect to the jobs of
    /// all users.
    ///
    /// # Errors
    /// [`ClientError::NoJob`], also if a job accepts no connection for ten seconds;
    /// [`ClientError::Untrusted`]; [`ClientError::NotAJob`] if the path is not a socket.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let no_job = |source| ClientError::NoJob { path: path.to_owned(), source };
        let untrusted = |user: u32| ClientError::Untrusted {
            path: path.to_owned(),
            reason: format!("it belongs to another user (number {user})"),
        };
        let not_a_job = || ClientError::NotAJob { name: path.to_string_lossy().into_owned() };
        if !is_socket_path(path) {
            return Err(not_a_job());
        }
        let found = path.metadata().map_err(no_job)?;
        if !found.file_type().is_socket() {
            return Err(not_a_job());
        }
        let (user, owner) = (folder::user(), found.uid());
        if owner != user && owner != 0 && user != 0 {
            return Err(untrusted(owner));
        }
        let writer = peer::connect(path, PATIENCE).map_err(no_job)?;
        let listener = peer::user(&writer).map_err(no_job)?;
        if listener != owner {
            return Err(untrusted(listener));
        }
        writer.set_read_timeout(Some(PATIENCE))?;
        writer.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::new(writer.try_clone()?), writer })
    }

    /// Connects to the user's job of this name, in whichever of the folders its socket is. Removes
    /// the sockets of dead jobs there.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn of_job(folders: &Folders, job: &str) -> Result<Self, ClientError> {
        if !is_job_name(job) {
            return Err(ClientError::NotAJob { name: job.to_owned() });
        }
        let job = job.to_owned();
        let (mut living, mut is_dead) = (Vec::new(), false);
        for folder in folders.list().map_err(ClientError::Folder)? {
            let socket = socket_of(&folder, &job);
            match Self::connect(&socket) {
                Ok(client) => living.push((client, socket)),
                Err(ClientError::NoJob { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(ClientError::NoJob { source, .. })
                    if source.kind() == ErrorKind::ConnectionRefused =>
                {
                    is_dead = true;
                    folders.sweep(&folder);
                }
                Err(error) => return Err(error),
            }
        }
        if living.len() > 1 {
            let sockets = living.into_iter().map(|(_, socket)| socket).collect();
            return Err(ClientError::Several { job, sockets });
        }
        match living.pop() {
            Some((client, _)) => Ok(client),
            None if is_dead => Err(ClientError::Dead { job }),
            None => Err(ClientError::Unknown { job }),
        }
    }

    /// Sends a call, and reads the first answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&mut self, call: &Call) -> Result<Answer, ClientError> {
        // A job that refuses the client answers before it reads.
        let sent = self.writer.write_all(&line(call));
        match (self.next(), sent) {
            (Err(ClientError::Ended), Err(error)) => Err(error.into()),
            (answer, _) => answer,
        }
    }

    /// Returns the events from a number on until now.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn events(&mut self, since: u64) -> Result<Vec<Event>, ClientError> {
        let mut events = Vec::new();
        let mut answer = self.ask(&Call::Events { since, follow: false })?;
        while let Answer::Event(event) = answer {
            events.push(*event);
            answer = self.next()?;
        }
        Ok(events)
    }

    /// Waits for the next answer that follows without a call: the end of a request, or an event.
    /// Has no time limit.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn wait(&mut self) -> Result<Answer, ClientError> {
        self.writer.set_read_timeout(None)?;
        let answer = self.next();
        self.writer.set_read_timeout(Some(PATIENCE))?;
        answer
    }

    /// Reads the next line.
    fn next(&mut self) -> Result<Answer, ClientError> {
        let mut text = String::new();
        if self.reader.read_line(&mut text)? == 0 {
            return Err(ClientError::Ended);
        }
        Ok(serde_json::from_str(&text)?)
    }
}
