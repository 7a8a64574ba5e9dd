//! Slurm on a set of hosts: the controller at the front, a node daemon on each host, the credential
//! service on all of them.
//!
//! The daemons live in the hosts' namespaces and end with them. Their files lie in `/run` of their
//! host, so a system-wide Slurm is neither used nor disturbed. A node may claim more cores than the
//! machine has; binding is left to Slurm, which binds to existing cores.
//!
//! ```no_run
//! use quo_hosts::Hosts;
//! use quo_hosts::slurm::{Options, Slurm};
//!
//! # fn main() -> anyhow::Result<()> {
//! let slurm = Slurm::up(Hosts::up("example", 2)?, Options::default())?;
//! // Two ranks on each of two nodes.
//! let job = slurm.srun(2, 4, "/usr/bin/hostname").option("--cpu-bind=cores");
//! job.run()?.expect_success()?;
//! assert!(slurm.leftovers()?.is_empty());
//! slurm.down()
//! # }
//! ```
//!
//! MPI programs connect through `PMIx`, as with Debian's Open MPI and Slurm; `SLURM_MPI_TYPE` in
//! the environment selects another way.

mod configuration;
mod confinement;
mod job;
mod requirements;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::host::{Host, checked};
use crate::hosts::Hosts;
pub use configuration::Claim;
use configuration::{ACCOUNTS, CREDENTIALS, FOLDER, MAIN_FILE, Node, node_name, node_prefix};
use confinement::Confinement;
pub use confinement::why_not as why_not_confined;
pub use job::SlurmJob;
pub use requirements::why_not;

/// Limit for the daemons to connect, and for the nodes to be free again after a job.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks at the nodes.
const PAUSE: Duration = Duration::from_millis(50);

/// Options of a Slurm.
#[derive(Copy, Clone, Debug, Default)]
pub struct Options {
    /// Hardware that each node claims to have.
    pub claim: Claim,
    /// Confines steps to their cores by the machine's control groups, where [`why_not_confined`]
    /// has no objection.
    pub confined: bool,
}

/// Slurm on hosts, and the hosts. All of it ends when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Slurm {
    hosts: Hosts,
    /// Processes of the hosts while no job runs.
    usual: Vec<String>,
    /// Dropped after the hosts: a control group can be removed only when it is empty.
    _confinement: Option<Confinement>,
}

impl Slurm {
    /// Starts Slurm on the hosts and waits until it takes jobs.
    ///
    /// # Errors
    ///
    /// A daemon does not start, or the nodes are not ready within a minute; the error shows the
    /// daemons' logs.
    pub fn up(hosts: Hosts, options: Options) -> Result<Slurm> {
        if let Some(reason) = why_not() {
            bail!("{reason}");
        }
        let confinement = options
            .confined
            .then(|| Confinement::prepare(&node_prefix(hosts.set())))
            .transpose()?;
        let mut slurm = Slurm { hosts, usual: Vec::new(), _confinement: confinement };
        let started = slurm.start(options).and_then(|()| slurm.free());
        started.with_context(|| format!("Slurm on {}\n{}", slurm.hosts.set(), slurm.logs()))?;
        slurm.usual = slurm.hosts.leftovers();
        Ok(slurm)
    }

    /// Returns the hosts.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Returns the name of the node on a host.
    #[must_use]
    pub fn node(&self, index: usize) -> String {
        node_name(self.hosts.set(), index)
    }

    /// Returns one of Slurm's commands, to run at the front.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        command(&self.hosts, program)
    }

    /// Returns ranks of an MPI program launched directly by `srun`: this many ranks on this many
    /// nodes.
    #[must_use]
    pub fn srun(&self, nodes: usize, ranks: usize, program: impl Into<PathBuf>) -> SlurmJob<'_> {
        SlurmJob::new(self, nodes, ranks, program.into())
    }

    /// Waits until all nodes are free for the next job.
    ///
    /// # Errors
    ///
    /// The nodes are not free within a minute.
    pub fn free(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let mut command = self.command("sinfo");
            command.args(["--noheader", "--Node", "--format=%T"]);
            let output = command.output().context("starting sinfo")?;
            let states = String::from_utf8_lossy(&output.stdout);
            let idle = states.lines().filter(|state| *state == "idle").count();
            if idle == self.hosts.len() {
                return Ok(());
            }
            if Instant::now() > end {
                let complaint = String::from_utf8_lossy(&output.stderr);
                bail!("the nodes do not become free: {}{}", states, complaint.trim());
            }
            // Sleeps: the controller does not announce changes of nodes.
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns what the jobs have left on the hosts, after all jobs have ended: processes, and
    /// files in `/dev/shm` and in the folder for temporary files.
    ///
    /// # Errors
    ///
    /// A job has not ended within a minute.
    pub fn leftovers(&self) -> Result<Vec<String>> {
        self.free()?;
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let mut left = self.hosts.leftovers();
            left.retain(|found| !self.usual.contains(found));
            if left.is_empty() || Instant::now() > end {
                return Ok(left);
            }
            // Sleeps: a step's daemon may still run after the node is reported free.
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns the accounts of the ended jobs: one line each, of words `Key=value`.
    #[must_use]
    pub fn accounts(&self) -> Vec<String> {
        let written = fs::read_to_string(self.hosts.front().path(ACCOUNTS)).unwrap_or_default();
        written.lines().map(str::to_owned).collect()
    }

    /// Ends Slurm and takes the hosts down.
    ///
    /// # Errors
    ///
    /// A part of the hosts cannot be removed.
    pub fn down(self) -> Result<()> {
        self.hosts.down()
    }

    /// Returns the end of each daemon's log.
    #[must_use]
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for host in self.everywhere() {
            for log in ["munged.log", "slurmctld.log", "slurmd.log"] {
                let written = fs::read_to_string(host.path(FOLDER).join(log)).unwrap_or_default();
                let lines: Vec<&str> = written.lines().collect();
                let last = &lines[lines.len().saturating_sub(20)..];
                if !last.is_empty() {
                    text.push_str(&format!("--- {log} of {}\n{}\n", host.name(), last.join("\n")));
                }
            }
        }
        text
    }

    fn everywhere(&self) -> impl Iterator<Item = &Host> {
        let hosts = (0..self.hosts.len()).map(|index| self.hosts.host(index));
        std::iter::once(self.hosts.front()).chain(hosts)
    }

    fn start(&self, options: Options) -> Result<()> {
        let mut key = [0; 128];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())
            .context("making a key")?;
        let front = self.hosts.front();
        let node = |index| {
            let host = self.hosts.host(index);
            let (host, address) = (host.name().to_owned(), host.address().to_owned());
            Node { name: self.node(index), host, address }
        };
        let nodes: Vec<Node> = (0..self.hosts.len()).map(node).collect();
        let controller = (front.name(), front.address());
        let Options { claim, confined } = options;
        let main = configuration::main_file(controller, &nodes, claim, confined);
        let version = Command::new("slurmd").arg("-V").output().context("starting slurmd")?;
        let groups = configuration::confinement_file(
            confined.then_some(confinement::MOUNTED),
            &String::from_utf8_lossy(&version.stdout),
        );
        for host in self.everywhere() {
            furnish(host, &key, &main, &groups)
                .with_context(|| format!("writing Slurm's files on {}", host.name()))?;
            serve_credentials(host)?;
        }
        // -c: start without saved state.
        checked(configured(front, "slurmctld").arg("-c"))?;
        for (index, node) in nodes.iter().enumerate() {
            checked(configured(self.hosts.host(index), "slurmd").args(["-N", &node.name]))?;
        }
        Ok(())
    }
}

/// Returns one of Slurm's commands, to run at the front of hosts that have Slurm.
pub fn command(hosts: &Hosts, program: impl AsRef<OsStr>) -> Command {
    configured(hosts.front(), program)
}

fn configured(host: &Host, program: impl AsRef<OsStr>) -> Command {
    let mut command = host.command(program);
    command.env("SLURM_CONF", MAIN_FILE);
    // With the other algorithm of Slurm's plugin for the start of ranks, a tree, nodes wait for
    // each other only if there are at least TreeWidth nodes: otherwise ranks of one node send to
    // ranks of another that are not ready, which crashes Open MPI. The guide gives users the same
    // advice.
    command.env("SLURM_PMIX_FENCE", "ring");
    command
}

fn furnish(host: &Host, key: &[u8], main: &str, groups: &str) -> Result<()> {
    let folder = host.path(FOLDER);
    for part in ["state", "spool"] {
        fs::create_dir_all(folder.join(part))?;
    }
    let secret = folder.join("munge.key");
    fs::write(&secret, key)?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o400))?;
    fs::write(host.path(MAIN_FILE), main)?;
    fs::write(folder.join("mpi.conf"), configuration::mpi_file("/run/tmp"))?;
    fs::write(folder.join("cgroup.conf"), groups)?;
    Ok(())
}

/// The daemon's command returns when the daemon is ready.
fn serve_credentials(host: &Host) -> Result<()> {
    let mut command = host.command("munged");
    command.arg(format!("--socket={CREDENTIALS}")).arg("--num-threads=2");
    for (option, file) in [
        ("key-file", "munge.key"),
        ("pid-file", "munged.pid"),
        ("log-file", "munged.log"),
        ("seed-file", "munged.seed"),
    ] {
        command.arg(format!("--{option}={FOLDER}/{file}"));
    }
    checked(&mut command)
}
