//! A program to run under the launcher of this machine.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;

use crate::launch::{Outcome, Running};
use crate::launcher::{BindTo, Launcher};
use crate::leftovers;

/// Allows one job at a time in this test program.
static TURN: Mutex<()> = Mutex::new(());

/// A program to run under the launcher.
#[derive(Clone, Debug)]
pub struct Job {
    ranks: usize,
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    bind_to: BindTo,
    survives: bool,
    limit: Duration,
}

impl Job {
    /// Creates a job of `ranks` ranks, unbound, with a limit of one minute.
    pub fn new(ranks: usize, program: impl Into<PathBuf>) -> Job {
        Job {
            ranks,
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            bind_to: BindTo::None,
            survives: false,
            limit: Duration::from_secs(60),
        }
    }

    /// Adds an argument of the program.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Job {
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// Adds a variable to the environment of every rank.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Job {
        self.variables.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Simulates a machine: a synthetic description or an XML file.
    #[must_use]
    pub fn topology(self, description: &str) -> Job {
        self.env("QUO_TOPOLOGY", description)
    }

    /// Lets the launcher bind the ranks.
    #[must_use]
    pub fn bind_to(mut self, bind_to: BindTo) -> Job {
        self.bind_to = bind_to;
        self
    }

    /// Keeps the other ranks running when one is killed.
    #[must_use]
    pub fn survives(mut self) -> Job {
        self.survives = true;
        self
    }

    /// Sets the time limit of the job, instead of one minute.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Job {
        self.limit = limit;
        self
    }

    /// Runs the job to its end, or ends it when its time is up. Only one job runs at a time in a
    /// test program.
    ///
    /// # Errors
    ///
    /// The launcher cannot be started. A job that fails is an [`Outcome`].
    pub fn run(&self) -> Result<Outcome> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let launcher = Launcher::find()?;
        let mut command = launcher.command(self.ranks, self.bind_to);
        if self.survives {
            let guard = launcher.survive(&mut command);
            command.args(guard);
        }
        command.arg(&self.program).args(&self.arguments);
        command.env_remove("QUO_TOPOLOGY").envs(self.variables.iter().map(|(n, v)| (n, v)));
        let mut outcome =
            Running::start(&mut command, &self.description(), self.limit)?.finish()?;
        let segments = leftovers::orphaned_segments(Path::new("/dev/shm"));
        // The segments stay for analysis.
        outcome.leftovers.extend(segments.iter().map(|path| format!("segment {}", path.display())));
        Ok(outcome)
    }

    fn description(&self) -> String {
        describe(self.ranks, &self.program, &self.arguments, &self.variables)
    }
}

/// Describes a job, for a failure message.
#[must_use]
pub fn describe(
    ranks: usize,
    program: &Path,
    arguments: &[OsString],
    variables: &[(OsString, OsString)],
) -> String {
    let mut text = format!("{ranks} ranks of {}", program.display());
    for argument in arguments {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    for (name, value) in variables {
        text.push_str("\n  with ");
        text.push_str(&format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
    }
    text
}
