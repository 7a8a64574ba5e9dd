//! The memory profiler around a program, and the fake MPI used to check it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;

use crate::checkout::Checkout;
use crate::library::run_compiler;
use crate::wait::ends_within;

/// Folder of the programs of the profiler's tests, relative to the checkout.
pub const PROGRAMS: &str = "memprof/tests/programs";

/// Returns the library that is preloaded into ranks.
///
/// # Errors
///
/// The library is not built.
pub fn preload() -> Result<PathBuf> {
    Checkout::find()?.program("libmemprof_preload.so")
}

/// Returns a folder with the fake MPI, the libraries around it and the interpreter of random
/// programs, rebuilt where a source is newer.
///
/// # Errors
///
/// There is no make, or a compilation fails.
pub fn fake_mpi() -> Result<PathBuf> {
    let checkout = Checkout::find()?;
    let folder = checkout.build_folder().join("fakempi");
    make_fake_mpi(checkout.root(), &folder)?;
    Ok(folder)
}

/// Builds the files of [`fake_mpi`] in another folder. Threads and processes may call this
/// concurrently.
///
/// # Errors
///
/// As [`fake_mpi`].
pub fn make_fake_mpi(checkout: &Path, folder: &Path) -> Result<()> {
    static TURN: Mutex<()> = Mutex::new(());
    let _one_at_a_time = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    fs::create_dir_all(folder)?;
    let lock = File::create(folder.join("lock"))?;
    // Several test programs may run at once.
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(checkout.join(PROGRAMS).join("fakempi"));
    run_compiler(make.arg(format!("OUT={}", folder.display())))
}

/// A command that runs as the only rank of a job, under the profiler.
#[derive(Debug)]
pub struct Profiled {
    command: Command,
    traces: PathBuf,
}

impl Profiled {
    /// Runs `program`, with its trace in `traces`.
    ///
    /// # Errors
    ///
    /// The profiler is not built.
    pub fn new(program: impl AsRef<OsStr>, traces: &Path) -> Result<Profiled> {
        let mut command = Command::new(program);
        // The tests themselves may run in a rank, or profiled.
        let others = ["MEMPROF_", "PMIX_", "PMI_", "OMPI_COMM_WORLD_", "SLURM_"];
        for (name, _) in std::env::vars_os() {
            if others.iter().any(|other| name.to_string_lossy().starts_with(other)) {
                command.env_remove(name);
            }
        }
        command.env("LD_PRELOAD", preload()?).env("MEMPROF_DIR", traces);
        command.env("PMI_RANK", "0").env("PMI_SIZE", "1");
        Ok(Profiled { command, traces: traces.to_path_buf() })
    }

    /// As [`new`](Self::new), where another command, which is not profiled, becomes the program.
    ///
    /// # Errors
    ///
    /// The profiler is not built.
    pub fn through(
        wrapper: &[&str],
        program: impl AsRef<OsStr>,
        traces: &Path,
    ) -> Result<Profiled> {
        let (first, rest) = wrapper.split_first().context("a wrapper of no words")?;
        let mut profiled = Profiled::new(first, traces)?;
        let command = profiled.command();
        command.env_remove("LD_PRELOAD").args(rest).arg("env");
        command.arg(format!("LD_PRELOAD={}", preload()?.display())).arg(program);
        Ok(profiled)
    }

    /// Samples at the requested rate, and never reports being too busy.
    #[must_use]
    pub fn eager(self) -> Profiled {
        self.env("MEMPROF_INTERVAL_MS", "1").env("MEMPROF_MAX_OVERHEAD", "100")
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Profiled {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: &[&str]) -> Profiled {
        self.command.args(arguments);
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Profiled {
        self.command.env(name, value);
        self
    }

    /// Returns the command, for any other setting.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts the command with its output in files, which need not be read as it runs.
    ///
    /// # Errors
    ///
    /// The command cannot be started.
    pub fn start(mut self, input: &str) -> Result<Started> {
        let (stdout, stderr, mut stdin) =
            (tempfile::tempfile()?, tempfile::tempfile()?, tempfile::tempfile()?);
        stdin.write_all(input.as_bytes())?;
        stdin.rewind()?;
        self.command.stdin(stdin).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        let child = self.command.spawn().with_context(|| format!("starting {:?}", self.command))?;
        let description = format!("{:?}", self.command);
        Ok(Started { child, description, stdout, stderr, traces: self.traces })
    }

    /// Runs the command to its end, at most for `limit`.
    ///
    /// # Errors
    ///
    /// The command cannot be started, or does not end.
    pub fn run(self, limit: Duration) -> Result<Finished> {
        self.start("")?.finish(limit)
    }
}

/// A running profiled process, ended when dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    description: String,
    stdout: File,
    stderr: File,
    traces: PathBuf,
}

impl Started {
    /// Returns the PID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output so far.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn said(&mut self) -> Result<String> {
        all(&mut self.stdout)
    }

    /// Returns true if the process still runs.
    ///
    /// # Errors
    ///
    /// The kernel cannot be asked.
    pub fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Kills the process.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }

    /// Waits for the process to end.
    ///
    /// # Errors
    ///
    /// The process does not end in time.
    pub fn finish(mut self, limit: Duration) -> Result<Finished> {
        if !ends_within(Pid::from_child(&self.child), limit)? {
            bail!("{}\n  still runs after {} s", self.description, limit.as_secs());
        }
        let status = self.child.wait()?;
        Ok(Finished {
            description: std::mem::take(&mut self.description),
            status,
            stdout: all(&mut self.stdout)?,
            stderr: all(&mut self.stderr)?,
            traces: traces_in(&self.traces)?,
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

/// Ending of a profiled process, and the traces in its folder.
#[derive(Debug)]
pub struct Finished {
    description: String,
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Traces in the folder after the end.
    pub traces: Vec<PathBuf>,
}

impl Finished {
    /// Checks that the process ended with 0.
    ///
    /// # Errors
    ///
    /// The process did not end with 0.
    pub fn expect_success(&self) -> Result<&Finished> {
        ensure!(self.status.success(), "{}", self.report());
        Ok(self)
    }

    /// Returns the only trace.
    ///
    /// # Errors
    ///
    /// There is no trace, or more than one.
    pub fn trace(&self) -> Result<&Path> {
        match self.traces.as_slice() {
            [one] => Ok(one),
            other => bail!("{} traces\n{}", other.len(), self.report()),
        }
    }

    /// Returns the signal that ended the process.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Returns everything known about the process, for a failure message.
    #[must_use]
    pub fn report(&self) -> String {
        let Finished { description, status, stdout, stderr, .. } = self;
        format!("{description}\n  {status}\n--- output\n{stdout}--- complaints\n{stderr}")
    }
}

/// Returns the traces in a folder, sorted; none if there is no such folder.
///
/// # Errors
///
/// The folder cannot be read.
pub fn traces_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut traces = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(traces);
        }
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("memprof")) {
            traces.push(path);
        }
    }
    traces.sort();
    Ok(traces)
}

fn all(file: &mut File) -> Result<String> {
    // Opened again, since the child writes at the offset of the shared handle.
    let mut bytes = Vec::new();
    let mut copy = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    copy.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
