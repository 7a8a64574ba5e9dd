//! The program that starts ranks, and how to tell it what we want.

use std::ffi::OsString;
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

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}
