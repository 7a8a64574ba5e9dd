//! `cargo xtask hosts`: several hosts on this machine, for experiments.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use quo_hosts::slurm::{self, Slurm};
use quo_hosts::{Hosts, Layout};

use crate::project;

/// Several hosts on this machine: each with its own network, name, /dev/shm, /run and processes.
///
/// They are named host0, host1, ... and are connected to a front, from which mpirun reaches them.
/// Needs root.
#[derive(Args)]
#[command(after_help = "Examples, after `cargo xtask hosts`:
  up 3
  run --host 1 -- hostname
  run --ranks 4 --hosts 0,2 -- target/debug/examples/some-program")]
pub struct Options {
    /// Name of the set of hosts
    #[arg(long, global = true, default_value = "developer", value_name = "NAME")]
    set: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create N hosts that stay until `down`, in place of earlier ones
    Up {
        /// Number of hosts.
        #[arg(value_name = "N")]
        hosts: usize,
        /// Give all of them this name.
        #[arg(long, value_name = "HOSTNAME")]
        same_name: Option<String>,
        /// Start Slurm on them.
        #[arg(long)]
        slurm: bool,
    },
    /// Run a command on one host, or ranks of an MPI program over several.
    Run(Run),
    /// Run a command of Slurm, such as srun, on hosts made with --slurm
    Slurm {
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Cut a host's link.
    Cut {
        /// Number of the host.
        host: usize,
    },
    /// Restore a host's link.
    Restore {
        /// Number of the host.
        host: usize,
    },
    /// Kill a host and everything that runs on it.
    Kill {
        /// Number of the host.
        host: usize,
    },
    /// Show the hosts and what is left on them, or the existing sets
    List,
    /// Take the hosts down.
    Down,
}

#[derive(Args)]
struct Run {
    /// The host to run the command on.
    #[arg(long, value_name = "I", default_value_t = 0, conflicts_with = "ranks")]
    host: usize,
    /// Run this many ranks of an MPI program.
    #[arg(long, value_name = "N")]
    ranks: Option<usize>,
    /// Hosts to run the ranks on, in turn; all by default.
    #[arg(long, value_name = "I,J", value_delimiter = ',', requires = "ranks")]
    hosts: Vec<usize>,
    /// End the ranks after this time.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "ranks")]
    limit: u64,
    /// A variable for the ranks.
    #[arg(long, value_name = "NAME=VALUE", requires = "ranks")]
    env: Vec<String>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn run(options: &Options) -> Result<()> {
    let set = options.set.as_str();
    if !rustix::process::geteuid().is_root() {
        bail!("hosts need root: they are made of network namespaces and mounts");
    }
    match &options.action {
        Action::Up { hosts, same_name, slurm } => {
            let layout = Layout::new(set, *hosts);
            let layout = match same_name {
                Some(name) => layout.same_name(name),
                None => layout,
            };
            let hosts = Hosts::with(&layout.stay())?;
            if *slurm && let Err(error) = Slurm::up(hosts, slurm::Options::default()) {
                Hosts::remove(set)?;
                return Err(error);
            }
            list(set)
        }
        Action::Run(run) => match run.ranks {
            Some(ranks) => launch(&Hosts::open(set)?, ranks, run),
            None => single(&Hosts::open(set)?, run),
        },
        Action::Slurm { command } => {
            let (program, arguments) =
                command.split_first().context("hosts slurm: name a command after --")?;
            let mut command = slurm::command(&Hosts::open(set)?, program);
            command.args(arguments);
            finish(command)
        }
        Action::Cut { host } => chosen(set, *host)?.cut(*host),
        Action::Restore { host } => chosen(set, *host)?.restore(*host),
        Action::Kill { host } => chosen(set, *host)?.kill(*host),
        Action::List => list(set),
        Action::Down => {
            if !Hosts::remove(set)? {
                println!("there were no hosts of the set '{set}'");
            }
            Ok(())
        }
    }
}

/// Returns the set, after checking that it has such a host.
fn chosen(set: &str, host: usize) -> Result<Hosts> {
    let hosts = Hosts::open(set)?;
    check(&hosts, host)?;
    Ok(hosts)
}

fn check(hosts: &Hosts, host: usize) -> Result<()> {
    if host >= hosts.len() {
        bail!("there is no host {host}: they are 0 to {}", hosts.len() - 1);
    }
    Ok(())
}

fn list(set: &str) -> Result<()> {
    let hosts = match Hosts::open(set) {
        Ok(hosts) => hosts,
        Err(error) => match Hosts::sets() {
            sets if sets.is_empty() => return Err(error),
            sets => bail!("{error}; there are the sets {}", sets.join(", ")),
        },
    };
    for index in 0..hosts.len() {
        let host = hosts.host(index);
        let state = match host.is_alive() {
            true if hosts.is_cut_off(index) => "cut off",
            true => "up",
            false => "killed",
        };
        println!("{index}  {:<12} {:<12} {state}", host.name(), host.address());
    }
    for left in hosts.leftovers() {
        println!("{left}");
    }
    Ok(())
}

fn single(hosts: &Hosts, run: &Run) -> Result<()> {
    check(hosts, run.host)?;
    // In the current folder, if the host sees it.
    let mut command = hosts.command(run.host, "sh");
    command.args(["-c", "cd \"$1\" 2> /dev/null; shift; exec \"$@\"", "sh"]);
    command.arg(std::env::current_dir()?).args(&run.command);
    finish(command)
}

fn finish(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        std::process::exit(status.code().unwrap_or(1));
    }
    Ok(())
}

fn launch(hosts: &Hosts, ranks: usize, run: &Run) -> Result<()> {
    let chosen = if run.hosts.is_empty() { (0..hosts.len()).collect() } else { run.hosts.clone() };
    chosen.iter().try_for_each(|&host| check(hosts, host))?;
    let (program, arguments) =
        run.command.split_first().context("hosts run: name a program after --")?;
    let path = project::find_program(program).unwrap_or_else(|| PathBuf::from(program));
    let mut job = hosts.job(&shared(ranks, &chosen), std::path::absolute(path)?);
    job = job.limit(Duration::from_secs(run.limit));
    for argument in arguments {
        job = job.arg(argument);
    }
    for variable in &run.env {
        let (name, value) = variable
            .split_once('=')
            .with_context(|| format!("--env {variable}: expected NAME=VALUE"))?;
        job = job.env(name, value);
    }
    let outcome = job.run()?;
    print!("{}", outcome.stdout);
    eprint!("{}", outcome.stderr);
    outcome.leftovers.iter().for_each(|left| eprintln!("left behind: {left}"));
    if outcome.out_of_time {
        bail!("the program was ended after {} s: --limit allows more", run.limit);
    }
    if !outcome.status.success() {
        std::process::exit(outcome.status.code().unwrap_or(1));
    }
    Ok(())
}

/// Spreads ranks evenly over hosts; the first hosts get the rest.
fn shared(ranks: usize, hosts: &[usize]) -> Vec<(usize, usize)> {
    let (each, rest) = (ranks / hosts.len(), ranks % hosts.len());
    let counts = hosts.iter().enumerate();
    let counts = counts.map(|(place, &host)| (host, each + usize::from(place < rest)));
    counts.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_shared_evenly_and_none_is_lost() {
        assert_eq!(shared(4, &[0, 2]), [(0, 2), (2, 2)]);
        assert_eq!(shared(5, &[0, 1, 2]), [(0, 2), (1, 2), (2, 1)]);
        assert_eq!(shared(1, &[1, 0]), [(1, 1)]);
    }
}
