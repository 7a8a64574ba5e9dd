//! A job run under the memory profiler as users run it, and checks of its traces.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use memprof_trace::layout::{Class, flags};

use crate::checkout::Checkout;
use crate::launch::{Outcome, Running};
use crate::launcher::{BindTo, Launcher};
use crate::memprof::traces_in;
use crate::trace_invariants::{CheckedTrace, MPI};

const LIMIT: Duration = Duration::from_secs(100);
const MEBI: u64 = 1 << 20;
const TRACES: &str = "traces";

/// A job that runs under the memory profiler.
#[derive(Debug)]
pub struct Recording {
    running: Running,
    folder: tempfile::TempDir,
}

impl Recording {
    /// Returns the folder of the traces.
    #[must_use]
    pub fn traces(&self) -> PathBuf {
        self.folder.path().join(TRACES)
    }
}

/// A job that has run under the memory profiler.
#[derive(Debug)]
pub struct Recorded {
    /// Outcome of the command, with its output.
    pub outcome: Outcome,
    /// Trace of each rank, in rank order.
    pub traces: Vec<CheckedTrace>,
    folder: tempfile::TempDir,
}

impl Recorded {
    /// Runs `memprof run -- mpirun -n RANKS PROGRAM ...` with the launcher of the MPI in use; it
    /// must succeed and record every rank.
    ///
    /// # Errors
    ///
    /// The run fails, or a rank is not recorded.
    pub fn run(ranks: usize, program: &Path, arguments: &[&str]) -> Result<Recorded> {
        Recorded::run_with(&[], ranks, program, arguments)
    }

    /// Does the same with options of `memprof run`.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_with(
        options: &[&str],
        ranks: usize,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Recorded> {
        let launch = Launcher::find()?.command(ranks, BindTo::None);
        Recorded::started(options, &launch, program, arguments)?.expect_ranks(ranks)
    }

    /// Runs `memprof run -- LAUNCH PROGRAM ...`, which must succeed.
    ///
    /// # Errors
    ///
    /// The run fails, or a trace cannot be read.
    pub fn under(launch: &Command, program: &Path, arguments: &[&str]) -> Result<Recorded> {
        Recorded::started(&[], launch, program, arguments)
    }

    /// As [`run_with`](Self::run_with), for a program that takes longer than others: the job is ended after `limit`.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_within(
        limit: Duration,
        options: &[&str],
        ranks: usize,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Recorded> {
        let launch = Launcher::find()?.command(ranks, BindTo::None);
        let recorded = Recorded::of_job(begun(limit, options, &launch, program, arguments)?)?;
        recorded.outcome.expect_success()?;
        recorded.expect_ranks(ranks)
    }

    fn started(
        options: &[&str],
        launch: &Command,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Recorded> {
        let recorded = Recorded::ended(options, launch, program, arguments)?;
        recorded.outcome.expect_success()?;
        Ok(recorded)
    }

    /// Runs `memprof run OPTIONS -- LAUNCH PROGRAM ...`, however it ends.
    ///
    /// # Errors
    ///
    /// The command does not start, or a trace cannot be read.
    pub fn ended(
        options: &[&str],
        launch: &Command,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Recorded> {
        Recorded::of_job(Recorded::begun(options, launch, program, arguments)?)
    }

    /// Starts what [`ended`](Self::ended) runs, and returns while it runs.
    ///
    /// # Errors
    ///
    /// The command does not start.
    pub fn begun(
        options: &[&str],
        launch: &Command,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Recording> {
        begun(LIMIT, options, launch, program, arguments)
    }

    /// Waits for the end of a job that was [`begun`](Self::begun).
    ///
    /// # Errors
    ///
    /// A trace cannot be read.
    pub fn of_job(recording: Recording) -> Result<Recorded> {
        Recorded::of(recording.running.finish()?, recording.folder)
    }

    /// Takes an ended job whose traces are in `traces` in this folder.
    ///
    /// # Errors
    ///
    /// A trace cannot be read.
    pub fn of(outcome: Outcome, folder: tempfile::TempDir) -> Result<Recorded> {
        let mut traces = Vec::new();
        for file in traces_in(&folder.path().join(TRACES))? {
            traces.push(CheckedTrace::open(&file)?);
        }
        traces.sort_by_key(|one| one.trace.identity.rank);
        Ok(Recorded { outcome, traces, folder })
    }

    /// Checks that there is one trace of each rank, and drops the traces of processes around the
    /// ranks, such as a script.
    ///
    /// # Errors
    ///
    /// Another number of traces; the error lists them.
    pub fn expect_ranks(mut self, ranks: usize) -> Result<Recorded> {
        self.traces.retain(|one| one.trace.identity.rank >= 0);
        let Recorded { outcome, traces, .. } = &self;
        ensure!(traces.len() == ranks, "{} of {ranks} ranks\n{}", traces.len(), outcome.report());
        for (rank, one) in traces.iter().enumerate() {
            ensure!(usize::try_from(one.trace.identity.rank)? == rank, "rank {rank} is missing");
        }
        Ok(self)
    }

    /// Checks the conditions on every job.
    ///
    /// # Errors
    ///
    /// The first rank whose trace is not in order.
    pub fn expect_good_books(&self) -> Result<&Recorded> {
        for one in &self.traces {
            one.expect_whole_run()?.expect_all_attributed()?;
        }
        let report = self.report()?;
        ensure!(report.contains("balance:"), "no balance\n{report}");
        ensure!(!report.contains(" resident and owns "), "{report}");
        Ok(self)
    }

    /// Checks that the program printed this text.
    ///
    /// # Errors
    ///
    /// The text is missing; the error has the output.
    pub fn expect_said(&self, text: &str) -> Result<&Recorded> {
        ensure!(self.outcome.stdout.contains(text), "{}", self.outcome.report());
        Ok(self)
    }

    /// Checks for a run of `fresh_buffers.c` that the program has 80 MiB at most, and that MPI's
    /// memory changes by less than a MiB after the first message.
    ///
    /// # Errors
    ///
    /// The first rank that violates this.
    pub fn expect_fresh_buffers(&self) -> Result<&Recorded> {
        self.expect_said("received")?.expect_good_books()?;
        for one in &self.traces {
            let of_blocks = |class| class == Class::AppExecutable;
            // In a static program, code and data of MPI belong to the program.
            let peak = match one.trace.has(flags::STATIC) {
                true => one.owned_peak(of_blocks)?,
                false => one.peak(of_blocks),
            };
            let off = peak.abs_diff(80 * MEBI);
            ensure!(off * 100 <= 80 * MEBI, "the peak is {peak} B\n{}", one.table());
            // After the end of the first exchange.
            let of_mpi: Vec<u64> = one
                .full()
                .skip_while(|(_, rows)| one.resident(rows, of_blocks) < 79 * MEBI)
                .filter(|(_, rows)| one.resident(rows, of_blocks) > 30 * MEBI)
                .map(|(_, rows)| one.resident(rows, MPI))
                .collect();
            let low = of_mpi.iter().min().context("no sample after the first exchange")?;
            let high = of_mpi.iter().max().context("no sample after the first exchange")?;
            ensure!(high - low <= MEBI, "MPI has {low} to {high} B\n{}", one.table());
        }
        Ok(self)
    }

    /// Checks that there are phases of these names.
    ///
    /// # Errors
    ///
    /// The first phase that is missing.
    pub fn expect_phases(&self, wanted: &[&str]) -> Result<&Recorded> {
        for one in &self.traces {
            let phases = &one.trace.phases;
            let names: Vec<String> = phases.iter().map(|row| row.row.name.to_string()).collect();
            for wanted in wanted {
                ensure!(names.iter().any(|name| name == wanted), "no {wanted} among {names:?}");
            }
        }
        Ok(self)
    }

    /// Returns the output of `memprof report`.
    ///
    /// # Errors
    ///
    /// The report fails.
    pub fn report(&self) -> Result<String> {
        let output = Command::new(Checkout::find()?.program("memprof")?)
            .arg("report")
            .arg(self.traces())
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the folder of the traces.
    #[must_use]
    pub fn traces(&self) -> PathBuf {
        self.folder.path().join(TRACES)
    }
}

/// Starts `memprof run OPTIONS -- LAUNCH PROGRAM ...`, which is ended after `limit`.
fn begun(
    limit: Duration,
    options: &[&str],
    launch: &Command,
    program: &Path,
    arguments: &[&str],
) -> Result<Recording> {
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join(TRACES);
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    command.arg("run").args(options).arg("--output").arg(&traces).arg("--");
    command.arg(launch.get_program()).args(launch.get_args());
    for (name, value) in launch.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.arg(program).args(arguments);
    let description = format!("{command:?}");
    let running = Running::start(&mut command, &description, limit)?;
    Ok(Recording { running, folder })
}
