//! `quo-elastic manage`: decides about real jobs with the policies of the simulator.

mod contact;
mod memory;
mod orders;
mod pool;
mod recording;
mod slurm;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use clap::{ArgGroup, Args};
use elastic::manager::WorldStatus;
use elastic_policy::action::Action;
use elastic_policy::job::MpiRatio;
use elastic_policy::live::POLICIES;
use elastic_policy::time::{Span, Time};

pub use contact::{Contact, here};
use recording::Recording;

/// Options of `quo-elastic manage`.
#[derive(Debug, Args)]
#[command(
    after_help = "A manager that is killed harms no job: --resume continues its queue.\n\
    docs/scheduling.md describes the queue file and the policies.",
    group(ArgGroup::new("jobs").required(true).args(["slurm", "pool"]))
)]
pub struct Manage {
    /// Grow Slurm's jobs into idle nodes, release nodes when jobs wait
    #[arg(long, conflicts_with_all = ["queue", "dir", "resume"])]
    slurm: bool,
    /// Use this partition only
    #[arg(long, hide_short_help = true, value_name = "NAME", requires = "slurm")]
    partition: Option<String>,
    /// Run a single round
    #[arg(long, requires = "slurm")]
    once: bool,
    /// Run a queue on hosts with slots: n1:8,n[2-4]:8
    #[arg(long, value_name = "HOSTS", requires = "queue")]
    pool: Option<String>,
    /// Jobs to run, in TOML
    #[arg(long, value_name = "FILE")]
    queue: Option<PathBuf>,
    /// Folder for logs and state [default: FILE.run]
    #[arg(long, value_name = "DIR", requires = "queue")]
    dir: Option<PathBuf>,
    /// Continue a queue after its manager has ended
    #[arg(long, requires = "queue")]
    resume: bool,
    #[command(flatten)]
    common: Common,
}

/// Options of all managers.
#[derive(Debug, Args)]
struct Common {
    /// Policy that decides
    #[arg(long, value_name = "NAME", default_value = "two-parts-egs", value_parser = POLICIES)]
    policy: String,
    /// Time between two rounds [default: 1s, with Slurm 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    interval: Option<Duration>,
    /// Time in which a job leaves nodes
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = time)]
    grace: Duration,
    /// Leave nodes empty that are promised within this time
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "15min", value_parser = time)]
    look_ahead: Duration,
    /// Shrink a job only if its data fit, by its reported bytes per rank and the nodes' free memory
    #[arg(long, hide_short_help = true)]
    memory: bool,
    /// Append the changes of jobs and nodes to this file, for
    /// `quo-elastic simulate FILE --html PAGE`
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print decisions with their reasons, do nothing
    #[arg(long)]
    dry_run: bool,
}

impl Common {
    fn policy(&self) -> Result<Box<dyn elastic_policy::policy::Policy>> {
        let policy =
            elastic_policy::live::policy(&self.policy, span(self.grace), span(self.look_ahead));
        policy.ok_or_else(|| anyhow::anyhow!("there is no policy {:?}", self.policy))
    }

    fn recording(&self) -> Result<Option<Recording>> {
        self.record.as_ref().map(|path| Recording::open(path, &self.policy)).transpose()
    }
}

/// Reads a time on the command line.
pub fn time(text: &str) -> Result<Duration, String> {
    let time = elastic::plan::duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "a time like 30s is expected".to_owned())
}

/// Runs the requested manager.
pub fn run(arguments: &Manage, json: bool) -> Result<u8> {
    match &arguments.pool {
        Some(hosts) => pool::run(arguments, hosts, json),
        None => slurm::run(arguments, json),
    }
}

/// Formats a decision as a line for the log of decisions.
fn decision_line(at: Span, job: &str, action: &Action, reason: &str) -> String {
    let (action, count) = match action {
        Action::Start { nodes, .. } => ("start", nodes.count()),
        Action::Grow { nodes, .. } => ("grow", nodes.count()),
        Action::Shrink { nodes, .. } => ("shrink", nodes.count()),
        Action::Stop { .. } => ("stop", 0),
        Action::Keep { .. } => ("keep", 0),
        Action::Reserve { nodes, .. } => ("reserve", *nodes),
    };
    let at = at.as_seconds();
    serde_json::json!({"at_s": at, "job": job, "action": action, "count": count, "reason": reason})
        .to_string()
}

/// Returns the job's measurements on its present size: the ratio, and the expected end.
fn measured(status: &WorldStatus, origin: Time, now: Time) -> (Option<MpiRatio>, Option<Time>) {
    let ratio = status.mpi_ratio().map(|(total, recent)| MpiRatio { total, recent });
    let report = status.report.as_ref().filter(|report| report.size == status.size);
    let left = report.and_then(|report| report.remaining_seconds);
    let end = left.map(|left| now + Span::from_seconds(left));
    (ratio, end.map(|end| Time(end.since(origin).0)))
}

/// Returns the milliseconds since 1970 as an instant.
fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
