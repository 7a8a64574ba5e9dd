//! Connections to the control sockets of jobs: on this machine, or by a command on the node of rank
//! 0.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use elastic::change::Event;
use elastic::manager::WorldStatus;
use elastic::manager::control::wire::{Answer, Call};
use elastic::manager::control::{Client, Folders, jobs, socket_of};
use elastic::manager::slurm::query;

/// The longest time that a command on another node may take.
const REMOTE_LIMIT: Duration = Duration::from_secs(30);

/// Connection to the control socket of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// A socket of this machine.
    Here(PathBuf),
    /// A job on another node: the words that run a command there, and the job's name.
    There(Vec<String>, String),
}

impl Contact {
    /// Sends a call to the job, and returns its first answer.
    pub fn ask(&self, call: &Call) -> Result<Answer> {
        match self {
            Contact::Here(path) => Ok(Client::connect(path)?.ask(call)?),
            Contact::There(words, job) => {
                let text = remote(words, &["call", job, &serde_json::to_string(call)?])?;
                let line = text.lines().next().with_context(|| format!("{job}: no answer"))?;
                serde_json::from_str(line).with_context(|| format!("{job}: {line}"))
            }
        }
    }

    /// Requests the job's events from a number on.
    pub fn events(&self, since: u64) -> Result<Vec<Event>> {
        match self {
            Contact::Here(path) => Ok(Client::connect(path)?.events(since)?),
            Contact::There(words, job) => {
                let call = serde_json::to_string(&Call::Events { since, follow: false })?;
                let mut events = Vec::new();
                for line in remote(words, &["call", job, &call])?.lines() {
                    if let Answer::Event(event) = serde_json::from_str(line)? {
                        events.push(*event);
                    }
                }
                Ok(events)
            }
        }
    }

    /// Requests the job's status.
    pub fn status(&self) -> Result<WorldStatus> {
        match self.ask(&Call::Status {})? {
            Answer::Status(status) => Ok(*status),
            other => bail!("asking the job for its status: the answer is {other:?}"),
        }
    }
}

/// Lists the jobs of this user with sockets on this machine. Jobs that die meanwhile are left out.
pub fn here() -> Result<Vec<(WorldStatus, Contact)>> {
    let folders = Folders::of_this_user();
    let mut found = Vec::new();
    for folder in folders.list()? {
        folders.sweep(&folder);
        for job in jobs(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let contact = Contact::Here(socket_of(&folder, &job));
            if let Ok(status) = contact.status() {
                found.push((status, contact));
            }
        }
    }
    Ok(found)
}

/// Lists the jobs of this user on another node.
pub fn there(words: &[String]) -> Result<Vec<(WorldStatus, Contact)>> {
    let text = remote(words, &["--json", "list"])?;
    let mut found = Vec::new();
    for line in text.lines() {
        let answer = serde_json::from_str(line)
            .with_context(|| format!("reading the status of a job: {line:?}"))?;
        if let Answer::Status(status) = answer {
            let contact = Contact::There(words.to_vec(), status.job.clone());
            found.push((*status, contact));
        }
    }
    Ok(found)
}

/// Runs this program on another node, and returns its output.
fn remote(words: &[String], arguments: &[&str]) -> Result<String> {
    let own = std::env::current_exe().context("finding this program")?;
    let own = own
        .into_os_string()
        .into_string()
        .map_err(|name| anyhow!("the path of this program, {name:?}, is not UTF-8"))?;
    let (program, options) =
        words.split_first().context("the command that reaches other nodes is empty")?;
    let mut all = options.to_vec();
    all.push(own);
    all.extend(arguments.iter().map(|&word| word.to_owned()));
    query(program, &all, REMOTE_LIMIT).map_err(anyhow::Error::msg)
}
