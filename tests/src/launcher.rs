//! The program that starts ranks, and how to tell it what we want.

use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};

/// What the launcher binds each rank to.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum BindTo {
    /// One core each; ranks share cores when there are too few.
    Core,
    /// All ranks may run everywhere.
    #[default]
    None,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
}

/// How to start ranks on other hosts.
#[derive(Clone, Debug)]
pub struct Network {
    /// The hosts, as the launcher can reach them, each with the number of its ranks.
    pub hosts: Vec<(String, usize)>,
    /// What to call in place of `ssh`.
    pub remote_shell: String,
    /// The network that all hosts are in, as address and prefix length.
    pub subnet: String,
}

/// `mpirun`, or what the variable `QUO_TESTS_MPIRUN` names.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: OsString,
    family: Family,
}

impl Launcher {
    /// Finds the launcher and asks it which MPI it belongs to.
    ///
    /// # Errors
    ///
    /// There is none, or it is of an MPI we do not know how to talk to.
    pub fn find() -> Result<Launcher> {
        let program = std::env::var_os("QUO_TESTS_MPIRUN").unwrap_or_else(|| "mpirun".into());
        let output = Command::new(&program).arg("--version").output().with_context(|| {
            format!("{} does not start; try `cargo xtask setup`", program.to_string_lossy())
        })?;
        let version = String::from_utf8_lossy(&output.stdout);
        let family = if version.contains("Open MPI") || version.contains("OpenRTE") {
            Family::OpenMpi
        } else if version.contains("HYDRA") || version.contains("Intel(R) MPI") {
            Family::Mpich
        } else {
            bail!("{} is of no MPI we know: {version}", program.to_string_lossy());
        };
        Ok(Launcher { program, family })
    }

    /// A launch of `ranks` ranks, still without the program.
    #[must_use]
    pub fn command(&self, ranks: usize, bind_to: BindTo) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-n", &ranks.to_string()]);
        match self.family {
            Family::OpenMpi => {
                let bind = match bind_to {
                    BindTo::Core => "core:overload-allowed",
                    BindTo::None => "none",
                };
                command.args(["--bind-to", bind]);
                if ranks > processors() {
                    command.arg("--oversubscribe");
                }
                // It refuses root, which is who runs in a container, until asked twice.
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
                command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                // In a container its single-copy transport may be forbidden, and then it says so.
                command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
            }
            Family::Mpich => {
                let bind = match bind_to {
                    BindTo::Core => "core",
                    BindTo::None => "none",
                };
                command.args(["-bind-to", bind]);
            }
        }
        command
    }
}

impl Launcher {
    /// The same over several hosts. Variables of the environment reach the ranks only by
    /// [`Launcher::pass`].
    #[must_use]
    pub fn command_over(&self, network: &Network, bind_to: BindTo) -> Command {
        let ranks = network.hosts.iter().map(|(_, ranks)| ranks).sum();
        let mut command = self.command(ranks, bind_to);
        command.args(over(self.family, network));
        command
    }

    /// Gives every rank a variable.
    pub fn pass(&self, command: &mut Command, name: &OsStr, value: &OsStr) {
        match self.family {
            Family::OpenMpi => {
                let mut both = name.to_owned();
                both.push("=");
                both.push(value);
                command.arg("-x").arg(both);
            }
            Family::Mpich => {
                command.arg("-genv").arg(name).arg(value);
            }
        }
    }
}

fn over(family: Family, network: &Network) -> Vec<String> {
    let slots = network.hosts.iter().map(|(host, ranks)| format!("{host}:{ranks}"));
    let hosts = slots.collect::<Vec<_>>().join(",");
    let options: &[&str] = match family {
        Family::OpenMpi => &[
            "--host",
            &hosts,
            "--mca",
            "plm_rsh_agent",
            &network.remote_shell,
            // Each host is reached from where the launcher runs.
            "--mca",
            "plm_rsh_no_tree_spawn",
            "1",
            "--mca",
            "oob_tcp_if_include",
            &network.subnet,
            "--mca",
            "btl_tcp_if_include",
            &network.subnet,
            "--mca",
            "btl_vader_single_copy_mechanism",
            "none",
        ],
        Family::Mpich => {
            &["-hosts", &hosts, "-launcher", "ssh", "-launcher-exec", &network.remote_shell]
        }
    };
    options.iter().map(ToString::to_string).collect()
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_is_named_with_its_ranks_to_either_launcher() {
        let network = Network {
            hosts: vec![("10.0.0.1".to_owned(), 2), ("10.0.0.2".to_owned(), 1)],
            remote_shell: "/run/remote-shell".to_owned(),
            subnet: "10.0.0.0/24".to_owned(),
        };
        for (family, first) in [(Family::OpenMpi, "--host"), (Family::Mpich, "-hosts")] {
            let options = over(family, &network);
            assert_eq!(options[..2], [first, "10.0.0.1:2,10.0.0.2:1"]);
            assert!(options.contains(&"/run/remote-shell".to_owned()));
        }
    }
}
