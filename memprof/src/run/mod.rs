//! `memprof run`: runs a command and records its ranks.

mod folder;
mod no_trace_diagnosis;
mod program;

use crate::model::{Job, LoadError};
use crate::report::{html, table};
use crate::terminal::{Look, Progress, clean, say};
use crate::units;
use anyhow::{Context, bail};
use folder::Folder;
use memprof_trace::overrides;
use program::Kind;
use quo_launch::job::{Started, wrong_side};
pub(crate) use quo_launch::preload::beside;
use quo_launch::{Launcher, launcher, preload};
use quo_terminal::child as signals;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

/// Run a command and record its ranks; without MPI, the program and its children.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: that of the command; 127 if not there, 126 if it cannot run.")]
pub struct Options {
    /// Folder for the traces, new or empty [default: memprof-PROGRAM-N]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Record every process, however small, with MPI or not
    #[arg(long)]
    pub all: bool,
    /// Shortest time between samples [default: 20]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub interval: Option<u32>,
    /// Share of one processor that sampling may take [default: 0.3]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub max_overhead: Option<f64>,
    /// Count owned peaks exactly, by atomics on every allocation
    #[arg(long, hide_short_help = true)]
    pub exact: bool,
    /// Record every page fault in the kernel: which component touches whose memory first. Page faults
    /// take about a tenth longer; needs kernel.perf_event_paranoid of at most 2
    #[arg(long, hide_short_help = true)]
    pub faults: bool,
    /// Take the time inside and outside of MPI, too
    ///
    /// `memprof time DIR` shows it.
    #[arg(long)]
    pub mpi_time: bool,
    /// Find the loops that call MPI, with their times
    ///
    /// Implies --mpi-time; `memprof time DIR --loops` shows them.
    #[arg(long)]
    pub loops: bool,
    /// Write the loops to the traces at most this often; implies --loops [default: 1]
    #[arg(long, hide_short_help = true, value_name = "SECONDS", value_parser = period)]
    pub loop_interval: Option<f64>,
    /// Mean bytes between sampled call stacks, 0 for none [default: 524288]
    #[arg(long, hide_short_help = true, value_name = "BYTES")]
    pub stacks: Option<u64>,
    /// Write traces to their disk that often, for machines that may lose power [default: never,
    /// which suffices for whatever else may happen]
    #[arg(long, hide_short_help = true, value_name = "SECONDS", value_parser = seconds)]
    pub sync_interval: Option<f64>,
    /// Components of objects: lines `PATTERN CLASS[:NAME]`
    #[arg(long, value_name = "FILE")]
    pub components: Option<PathBuf>,
    /// Write a report next to the traces, report.html
    #[arg(long)]
    pub report: bool,
    /// Print no notes, and no table at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// What to run, as it would be run without memprof
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl Options {
    fn takes_time(&self) -> bool {
        self.mpi_time || self.loop_seconds().is_some()
    }

    /// Seconds between two records of loops; `None` without loops.
    fn loop_seconds(&self) -> Option<f64> {
        self.loop_interval.or_else(|| self.loops.then_some(1.0))
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.001..=100.0).contains(&value) => Ok(value),
        _ => Err("a percentage from 0.001 to 100".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=86_400.0).contains(&value) => Ok(value),
        _ => Err("seconds from 0.1 to 86400".to_owned()),
    }
}

fn period(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.01..=3_600.0).contains(&value) => Ok(value),
        _ => Err("seconds from 0.01 to 3600".to_owned()),
    }
}

/// Runs the command and returns its exit status. `times` makes the table of times of a folder,
/// which is printed at the end if times were recorded.
///
/// # Errors
/// If the profiler cannot be loaded into the command, the command cannot be started, or its traces cannot be read.
pub fn run(
    options: &Options,
    times: fn(&Path, Look) -> anyhow::Result<String>,
) -> anyhow::Result<ExitCode> {
    let recorded = match record(options) {
        Ok(recorded) => recorded,
        Err(error) => {
            let Some(refused) = error.downcast_ref::<NotRun>() else { return Err(error) };
            say(&refused.to_string());
            return Ok(ExitCode::from(refused.status()));
        }
    };
    match options.quiet {
        false => {
            summarize(&recorded);
            if options.takes_time() {
                summarize_time(&recorded, times);
            }
        }
        true if !recorded.folder.has_traces() => say_nothing_recorded(&recorded),
        true => {}
    }
    if options.report {
        write_report(&recorded.folder.path);
    }
    Ok(ExitCode::from(signals::end_like(recorded.status)))
}

/// File name of the object loaded into ranks.
const OBJECT: &str = "libmemprof_preload.so";

/// A command that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run {command}: {cause}")]
struct NotRun {
    command: String,
    cause: std::io::Error,
}

impl NotRun {
    /// Returns the status a shell would end with: 127 for a missing file, 126 for one that cannot
    /// be run.
    fn status(&self) -> u8 {
        match self.cause.kind() {
            std::io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

/// A command that has ended, and where its traces are.
#[derive(Debug)]
pub struct Recorded {
    folder: Folder,
    /// Status of the command.
    pub status: ExitStatus,
    /// Program of the ranks, if the command shows it.
    program: PathBuf,
    /// True if processes without MPI are recorded, too.
    without_mpi: bool,
    /// Description of how the ranks were to be recorded.
    tried: String,
}

/// Runs the command under the profiler and waits for it.
///
/// # Errors
/// If the profiler cannot be found, the folder cannot be prepared, or the command cannot be started.
pub fn record(options: &Options) -> anyhow::Result<Recorded> {
    let preload = preload::find(OBJECT, "MEMPROF_PRELOAD").map_err(anyhow::Error::msg)?;
    let launcher = Launcher::of(&options.command[0]);
    let mut variables = variables(options, launcher)?;
    let program = launcher::program(&options.command);
    let own = options.command[0].to_string_lossy();
    let reason = "each records one rank, in a folder of its own";
    let is_launcher = launcher != Launcher::None;
    if let Some(told) = wrong_side(Started::read(), is_launcher, "memprof run --", &own, reason) {
        say(&clean(&told));
    }
    let folder =
        folder::make(options.output.as_deref(), &program).with_context(|| {
            match &options.output {
                Some(folder) => format!("cannot use {} for the traces", folder.display()),
                None => "cannot make a folder for the traces here".to_owned(),
            }
        })?;
    variables.push(("MEMPROF_DIR", folder.path.clone().into()));
    if let Some(other) = std::env::var_os("MEMPROF_DIR").filter(|other| !other.is_empty()) {
        let (other, here) = (clean(&other.to_string_lossy()), folder.path.display());
        say(&format!(
            "within another memprof run, for {other}: these ranks are recorded in {here}"
        ));
    }
    let mut command = options.command.clone();
    // Nothing is loaded into a program that would not start with it.
    if program::kind(&program) != Kind::Musl {
        command = preload::merge(&preload, &command);
        let list = preload::list(&preload, std::env::var_os("LD_PRELOAD").as_deref());
        variables.push(("LD_PRELOAD", list));
        // AddressSanitizer refuses to run if anything was loaded before it.
        variables.push(("ASAN_OPTIONS", unordered(std::env::var_os("ASAN_OPTIONS"))));
    }

    let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
    let (command, told) = launcher.pass(&command, &names);
    if let Some(told) = told {
        say(&told);
    }
    signals::handle();
    let mut child = spawn(&command, &variables).map_err(|error| {
        // Nothing was recorded, so nothing is left behind.
        folder.drop_if_made();
        NotRun { command: clean(&command[0].to_string_lossy()), cause: error }
    })?;
    signals::pass_to(child.id());
    let status = signals::wait(&mut child).context("cannot wait for the command")?;
    let tried = tried(&command, &variables);
    let without_mpi = options.all || launcher == Launcher::None;
    Ok(Recorded { folder, status, program, without_mpi, tried })
}

/// Describes how the ranks are recorded, for a user who has to find out why they were not.
fn tried(command: &[OsString], variables: &[(&str, OsString)]) -> String {
    let shown = |name: &str| {
        let value = variables.iter().find(|(known, _)| *known == name);
        value.map(|(name, value)| format!("{name}={}", clean(&value.to_string_lossy())))
    };
    let set: Vec<String> = ["LD_PRELOAD", "MEMPROF_DIR"].into_iter().filter_map(shown).collect();
    let words: Vec<_> = command.iter().map(|word| clean(&word.to_string_lossy())).collect();
    format!("tried: {} in the environment of: {}", set.join(" "), words.join(" "))
}

/// Starts a command; a script without an interpreter line is run as shells do.
fn spawn(command: &[OsString], variables: &[(&str, OsString)]) -> std::io::Result<Child> {
    let with = |mut starting: Command| starting.envs(variables.iter().cloned()).spawn();
    let mut starting = Command::new(&command[0]);
    starting.args(&command[1..]);
    match with(starting) {
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            let script = launcher::program(&command[..1]);
            if program::is_binary(&script) {
                return Err(error);
            }
            let mut shell = Command::new("/bin/sh");
            shell.arg(script).args(&command[1..]);
            with(shell)
        }
        result => result,
    }
}

/// Returns the options of AddressSanitizer with the one that lets the profiler precede it, unless
/// that option is already set.
fn unordered(present: Option<OsString>) -> OsString {
    let mut options = present.unwrap_or_default();
    if !options.to_string_lossy().contains("verify_asan_link_order") {
        if !options.is_empty() {
            options.push(":");
        }
        options.push("verify_asan_link_order=0");
    }
    options
}

/// Returns the variables that the object in the ranks reads. Names and meaning are those of
/// `preload/src/options.rs`.
fn variables(
    options: &Options,
    launcher: Launcher,
) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let mut variables: Vec<(&'static str, OsString)> = Vec::new();
    let mut set = |name, value: Option<String>| {
        variables.extend(value.map(|value| (name, OsString::from(value))));
    };
    // A launcher starts ranks. Any other command may be a program without MPI, or a script that
    // calls a launcher.
    let record = match (options.all, launcher, std::env::var_os("MEMPROF_RECORD")) {
        (true, ..) => Some("all".to_owned()),
        (false, Launcher::None, None) => Some(format!("command:{}", std::process::id())),
        _ => None,
    };
    set("MEMPROF_RECORD", record);
    set("MEMPROF_INTERVAL_MS", options.interval.map(|ms| ms.to_string()));
    set("MEMPROF_MAX_OVERHEAD", options.max_overhead.map(|percent| percent.to_string()));
    set("MEMPROF_EXACT", options.exact.then(|| "1".to_owned()));
    set("MEMPROF_FAULTS", options.faults.then(|| "1".to_owned()));
    set("MEMPROF_MPI_TIME", options.takes_time().then(|| "1".to_owned()));
    set("MEMPROF_LOOP_INTERVAL", options.loop_seconds().map(|seconds| seconds.to_string()));
    set("MEMPROF_STACKS", options.stacks.map(|bytes| bytes.to_string()));
    set("MEMPROF_SYNC_INTERVAL", options.sync_interval.map(|seconds| seconds.to_string()));
    set("MEMPROF_QUIET", options.quiet.then(|| "1".to_owned()));
    if let Some(file) = &options.components {
        let name = || format!("cannot read {}", file.display());
        let absolute = file.canonicalize().with_context(name)?;
        if !absolute.is_file() {
            bail!("{} is not a file", file.display());
        }
        // The ranks read the file as well, when it is too late for corrections.
        let text = std::fs::read_to_string(&absolute).with_context(name)?;
        let mut faults = Vec::new();
        overrides::each_fault(&text, |line, fault| {
            faults.push(format!("{}:{line}: {}", file.display(), fault.text()));
        });
        if !faults.is_empty() {
            bail!("{}", faults.join("\n"));
        }
        variables.push(("MEMPROF_COMPONENTS", absolute.into()));
    }
    Ok(variables)
}

/// Prints the short table to standard error: standard output is the command's.
fn summarize(recorded: &Recorded) {
    let mut progress = Progress::new("reading");
    let job = Job::load(&recorded.folder.path, None, &mut |done, total| progress.at(done, total));
    drop(progress);
    match job {
        Ok(job) => {
            let text = table::short(&job, Look::stderr());
            eprint(&text);
        }
        Err(LoadError::Empty { .. } | LoadError::Folder { .. }) => say_nothing_recorded(recorded),
        Err(error) => say(&error.to_string()),
    }
}

/// Says that there are no traces, and why, and removes the folder if it is empty.
fn say_nothing_recorded(recorded: &Recorded) {
    if !recorded.status.success() {
        say(&format!("the command failed: {}", recorded.status));
    }
    let what = if recorded.without_mpi { "no process" } else { "no rank" };
    say(&format!("{what} recorded anything"));
    let folder = &recorded.folder.path;
    for why in no_trace_diagnosis::reasons(folder, &recorded.program, recorded.without_mpi) {
        say(&why);
    }
    say(&recorded.tried);
    recorded.folder.drop_if_made();
}

/// Prints the table of times to standard error. If nothing was recorded, that has been reported
/// already.
fn summarize_time(recorded: &Recorded, times: fn(&Path, Look) -> anyhow::Result<String>) {
    if !recorded.folder.path.exists() {
        return;
    }
    match times(&recorded.folder.path, Look::stderr()) {
        Ok(text) => eprint(&format!("\n{text}")),
        Err(error) => say(&format!("{error:#}")),
    }
}

fn eprint(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn write_report(folder: &Path) {
    let file = folder.join("report.html");
    let written = Job::load(folder, None, &mut |_, _| {})
        .map_err(anyhow::Error::from)
        .and_then(|job| html::write(&job, &file));
    match written {
        Ok(bytes) => say(&format!("report in {} ({})", file.display(), units::bytes(bytes))),
        Err(error) => say(&format!("no report: {error:#}")),
    }
}
