//! The side of those who ask.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::wire::{Answer, Call, line};

/// How long a job may take for an answer; the end of a request may take as long as it likes.
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
    /// Nobody listens there.
    #[error("no job listens at {}: {source}", .path.display())]
    NoJob {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection to the job: {0}")]
    Connection(#[from] std::io::Error),
    /// The job ended before it answered.
    #[error("the job has ended")]
    Ended,
    /// What it said cannot be read.
    #[error("an answer that cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl Client {
    /// Connects to the socket at this path.
    ///
    /// # Errors
    /// [`ClientError::NoJob`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let no_job = |source| ClientError::NoJob { path: path.to_owned(), source };
        let writer = UnixStream::connect(path).map_err(no_job)?;
        writer.set_read_timeout(Some(PATIENCE))?;
        writer.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::new(writer.try_clone()?), writer })
    }

    /// Asks, and reads the first answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&mut self, call: &Call) -> Result<Answer, ClientError> {
        // A job that refuses to listen answers before it reads.
        let sent = self.writer.write_all(&line(call));
        match (self.next(), sent) {
            (Err(ClientError::Ended), Err(error)) => Err(error.into()),
            (answer, _) => answer,
        }
    }

    /// The next answer that comes without being asked for: an end, an event. Waits for as long as it takes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn wait(&mut self) -> Result<Answer, ClientError> {
        self.writer.set_read_timeout(None)?;
        let answer = self.next();
        self.writer.set_read_timeout(Some(PATIENCE))?;
        answer
    }

    /// The next line.
    fn next(&mut self) -> Result<Answer, ClientError> {
        let mut text = String::new();
        if self.reader.read_line(&mut text)? == 0 {
            return Err(ClientError::Ended);
        }
        Ok(serde_json::from_str(&text)?)
    }
}
