//! Ranks over several hosts.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use quo_tests::{BindTo, Launcher, Network, Outcome, Running, describe};

use crate::hosts::{Hosts, REMOTE_SHELL};
use crate::layout::{SUBNET, front_address};

/// Binds a rank to the processor with the number of its host; hosts are named `host0`, `host1` and
/// so on.
const PINNED: &str =
    r#"host=$(cat /proc/sys/kernel/hostname); exec taskset -c "${host#host}" "$0" "$@""#;

/// A program to run under the launcher, over hosts.
#[derive(Clone, Debug)]
pub struct HostJob<'a> {
    hosts: &'a Hosts,
    ranks: Vec<(usize, usize)>,
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    options: Vec<OsString>,
    under: Vec<OsString>,
    bind_to: BindTo,
    pinned: bool,
    survives: bool,
    limit: Duration,
}

impl<'a> HostJob<'a> {
    pub(crate) fn new(hosts: &'a Hosts, ranks: &[(usize, usize)], program: PathBuf) -> Self {
        Self {
            hosts,
            ranks: ranks.to_vec(),
            program,
            arguments: Vec::new(),
            variables: Vec::new(),
            options: Vec::new(),
            under: Vec::new(),
            bind_to: BindTo::None,
            pinned: false,
            survives: false,
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

    /// Adds an option of the launcher.
    #[must_use]
    pub fn option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.options.push(option.as_ref().into());
        self
    }

    /// Starts the launcher by another command, with these words: `memprof run --`.
    #[must_use]
    pub fn under(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.under.extend(words.into_iter().map(Into::into));
        self
    }

    /// Lets the launcher bind the ranks.
    #[must_use]
    pub fn bind_to(mut self, bind_to: BindTo) -> Self {
        self.bind_to = bind_to;
        self
    }

    /// Binds the ranks of each host to one processor, a different one for each host: there are
    /// enough of them.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    /// Keeps the other ranks running when one is killed.
    #[must_use]
    pub fn survives(mut self) -> Self {
        self.survives = true;
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
    /// The launcher cannot be started.
    pub fn start(&self) -> Result<Running> {
        let ranks = self.ranks.iter().map(|(_, ranks)| ranks).sum();
        let text = describe(ranks, &self.program, &self.arguments, &self.variables);
        Running::start(&mut self.launch()?, &text, self.limit)
    }

    /// Runs the job to its end, or ends it when its time is up.
    ///
    /// # Errors
    ///
    /// The launcher cannot be started. A job that fails is an [`Outcome`].
    pub fn run(&self) -> Result<Outcome> {
        self.start()?.finish()
    }

    fn launch(&self) -> Result<Command> {
        if self.program.is_relative() {
            bail!("{} is to be an absolute path", self.program.display());
        }
        let address = |index: usize| self.hosts.host(index).address().to_owned();
        let network = Network {
            hosts: self.ranks.iter().map(|&(host, ranks)| (address(host), ranks)).collect(),
            remote_shell: REMOTE_SHELL.to_owned(),
            subnet: SUBNET.to_owned(),
            front: front_address().to_string(),
        };
        let launcher = Launcher::find()?;
        let mut launch = launcher.command_over(&network, self.bind_to);
        let guard = if self.survives { launcher.survive(&mut launch) } else { &[] };
        let launcher_program = launch.get_program().to_owned();
        let mut words = self.under.iter().chain([&launcher_program]);
        let mut command = self.hosts.front().command(words.next().unwrap_or(&launcher_program));
        command.args(words).args(launch.get_args()).args(&self.options);
        for (name, value) in launch.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        for (name, value) in &self.variables {
            launcher.pass(&mut command, name, value);
        }
        let pinning = if self.pinned { &["/bin/sh", "-c", PINNED][..] } else { &[] };
        command.args(guard).args(pinning).arg(&self.program).args(&self.arguments);
        Ok(command)
    }
}
