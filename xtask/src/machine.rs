//! `cargo xtask machine`: a command on an emulated machine.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use quo_machine::{Accelerator, Ending, Machine, Shape, Task};

use crate::project;

/// Variables for MPI programs: more ranks than the host has cores must not spin, and running as
/// root is harmless in a disposable machine.
const VARIABLES: &[(&str, &str)] = &[
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

/// The command runs in the same working folder with the same environment, as the same user, and
/// finds the programs of the debug build first. It sees the host's files; its own changes are kept
/// in memory and lost at its end, except in the folder given by --results. Its output and exit
/// status are passed on (128 + N when signal N ended it); there is no input and no network. Needs
/// QEMU and no privileges.
#[derive(Args)]
pub struct Options {
    /// A shape in tests/machine/shapes, such as smt or four-numa-nodes, or the path of a file.
    #[arg(long, value_name = "NAME|FILE", default_value = "two-packages")]
    shape: String,
    /// auto, kvm or tcg; otherwise the value of QUO_MACHINE_ACCELERATOR, otherwise KVM where it
    /// works.
    #[arg(long, value_name = "NAME")]
    accelerator: Option<Accelerator>,
    /// The machine is stopped after this time.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
    /// A folder that the command may write to.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Returns the folder of kernel and initial files.
pub fn cache() -> Result<PathBuf> {
    Ok(project::base()?.join("machine"))
}

pub fn run(options: &Options) -> Result<()> {
    let ending = run_command(options)?;
    std::process::exit(match ending {
        Ending::Exited(status) => status,
        Ending::Killed(signal) => 128 + signal,
        Ending::Stopped => 130,
    });
}

fn run_command(options: &Options) -> Result<Ending> {
    let accelerator = match options.accelerator {
        Some(accelerator) => accelerator,
        None => Accelerator::from_environment()?,
    };
    let mut machine = Machine::new(Shape::named(&options.shape)?, cache()?)
        .accelerator(accelerator)
        .limit(Duration::from_secs(options.limit));
    if let Some(folder) = &options.results {
        machine = machine.results(folder);
    }
    let mut task =
        Task::here(&options.command)?.with_programs_in(&project::target()?.join("debug"));
    for (name, value) in VARIABLES {
        if std::env::var_os(name).is_none() {
            task = task.env(*name, *value);
        }
    }
    let signals = stop_signals().context("watching for signals")?;
    let (mut stdout, mut stderr) = (std::io::stdout(), std::io::stderr());
    machine.run_until(&task, &mut stdout, &mut stderr, Some(signals.as_fd()))
}

/// Blocks the signals that would end this process, which must end the machine first.
fn stop_signals() -> Result<SignalFd> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?)
}
