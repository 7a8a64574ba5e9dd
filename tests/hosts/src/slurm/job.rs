//! Ranks that Slurm launches.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use quo_tests::{Outcome, Running, describe};

use super::Slurm;
use crate::layout::SUBNET;

/// A program to run under `srun`.
#[derive(Clone, Debug)]
pub struct SlurmJob<'a> {
    slurm: &'a Slurm,
    nodes: usize,
    ranks: usize,
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    options: Vec<OsString>,
    under: Vec<OsString>,
    limit: Duration,
}

impl<'a> SlurmJob<'a> {
    pub(super) fn new(slurm: &'a Slurm, nodes: usize, ranks: usize, program: PathBuf) -> Self {
        Self {
            slurm,
            nodes,
            ranks,
            program,
            arguments: Vec::new(),
            variables: Vec::new(),
            options: Vec::new(),
            under: Vec::new(),
            limit: Duration::from_secs(60),
        }
    }

    /// Adds an argument of the program.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// Adds a variable to the environment of every rank.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Adds an option of `srun`.
    #[must_use]
    pub fn option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.options.push(option.as_ref().into());
        self
    }

    /// Starts `srun` by another command, with these words: `memprof run --`.
    #[must_use]
    pub fn under(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.under.extend(words.into_iter().map(Into::into));
        self
    }

    /// Sets the time limit of the job, instead of one minute.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Starts the job.
    ///
    /// # Errors
    ///
    /// `srun` cannot be started.
    pub fn start(&self) -> Result<Running> {
        let text = describe(self.ranks, &self.program, &self.arguments, &self.variables);
        Running::start(&mut self.launch(), &text, self.limit)
    }

    /// Runs the job to its end, or ends it when its time is up.
    ///
    /// # Errors
    ///
    /// `srun` cannot be started. A job that fails is an [`Outcome`].
    pub fn run(&self) -> Result<Outcome> {
        self.start()?.finish()
    }

    fn launch(&self) -> Command {
        let srun = OsString::from("srun");
        let mut words = self.under.iter().chain([&srun]);
        let mut command = self.slurm.command(words.next().unwrap_or(&srun));
        command.args(words);
        command.arg(format!("--nodes={}", self.nodes)).arg(format!("--ntasks={}", self.ranks));
        command.args(&self.options);
        // srun passes its whole environment on to the ranks.
        command.env_remove("QUO_TOPOLOGY");
        command.env("OMPI_MCA_btl_tcp_if_include", SUBNET);
        command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.arg(&self.program).args(&self.arguments);
        command
    }
}
