//! Slurm: nodes are added by a second job, and released in place.
//!
//! Slurm can shrink a running job, but not enlarge it. So a growth on new nodes has a job of its
//! own, which only holds them; the world's launcher starts the processes there. The holding job is
//! cancelled when its processes have left or the growth fails, has no later end than the world's
//! own job, and ends with it: it checks every few seconds that the world's own job still runs, and
//! a process next to rank 0 cancels it when rank 0 dies.
//!
//! Nodes of the world's own job are released by `scontrol update` when all processes there have
//! ended. Slurm then ends the launcher's processes on such a node, too: the guide has the launcher
//! options for that.
//!
//! No call of the program waits for Slurm. Threads run its commands, each for a bounded time.

mod agent;
mod command;
mod decide;
mod guard;
mod host_list;
mod jobs;
mod text;
mod watch;

pub use command::query;
pub use host_list::expand as expand_hosts;
pub use text::JobState;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Requests, ResourceManager, Supply};
pub use crate::coordinator::SLURM_JOB_VARIABLE as JOB_VARIABLE;
use crate::model::change::{Event, Happening, Step};
pub use agent::agent;
use jobs::Jobs;
use watch::{Task, Watch};

/// Largest number of nodes in one growth.
const MOST_NODES: u32 = 4096;

/// Nodes of Slurm for the world: see the [module](self). If the program sets none, its world has one
/// with `QUO_ELASTIC_SLURM=1` in the environment, as `quo-elastic launch --slurm` sets it.
///
/// ```no_run
/// use elastic::WorldOptions;
/// use elastic::manager::slurm::Slurm;
/// let mut options = WorldOptions::new().max_ranks(64);
/// // Outside of Slurm the program runs without it.
/// if let Some(slurm) = Slurm::of_this_job() {
///     options = options.manager(slurm);
/// }
/// ```
#[derive(Debug)]
pub struct Slurm {
    jobs: Arc<Jobs>,
    sender: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

/// Options for using Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Time that a growth waits for its nodes before it is aborted. One minute by default.
    pub wait: Duration,
    /// Time limit of each Slurm command. 20 seconds by default.
    pub command_limit: Duration,
    /// Time before the end of a job at which its nodes are vacated, and its end is recorded in the
    /// log. Two minutes by default.
    pub grace: Duration,
    /// Time that leavers get to end before their node is released. 5 seconds by default.
    pub linger: Duration,
    /// Interval at which a holding job checks that the world's own job still runs, in whole
    /// seconds. 10 seconds by default.
    pub watch: Duration,
    /// Time before the end of the job from which a growth onto new nodes is refused. Two minutes by
    /// default.
    pub least: Duration,
    /// More options for `sbatch`, such as `--constraint=fast`.
    pub submit: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(60),
            command_limit: Duration::from_secs(20),
            grace: Duration::from_secs(120),
            linger: Duration::from_secs(5),
            watch: Duration::from_secs(10),
            least: Duration::from_secs(120),
            submit: Vec::new(),
        }
    }
}

impl Slurm {
    /// Returns the manager for the job that this process runs in; `None` outside a job.
    #[must_use]
    pub fn of_this_job() -> Option<Self> {
        Self::of_job(|name| std::env::var(name).ok())
    }

    /// Returns the manager for the job that these variables describe; `None` outside a job.
    pub(crate) fn of_job(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = variable(JOB_VARIABLE)?.parse().ok()?;
        Some(Self::of(number, Options::default()))
    }

    /// Returns the manager with other options.
    #[must_use]
    pub fn with(self, options: Options) -> Self {
        Self::of(self.jobs.main, options)
    }

    fn of(number: u32, options: Options) -> Self {
        Self { jobs: Arc::new(Jobs::new(number, options)), sender: None, thread: None }
    }

    fn tell(&self, task: Task) {
        if let Some(sender) = &self.sender {
            // Without the thread the job is ending.
            let _ = sender.send(task);
        }
    }
}

impl ResourceManager for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn begins(&mut self, requests: Requests) -> Result<(), String> {
        let (sender, receiver) = channel();
        let watch = Watch::new(Arc::clone(&self.jobs), requests);
        let thread = std::thread::Builder::new().name("elastic-slurm".to_owned());
        let thread =
            thread.spawn(move || watch.run(&receiver)).map_err(|error| error.to_string())?;
        (self.sender, self.thread) = (Some(sender), Some(thread));
        Ok(())
    }

    fn supply(&self) -> Option<Arc<dyn Supply>> {
        Some(Arc::clone(&self.jobs) as Arc<dyn Supply>)
    }

    fn on_event(&mut self, event: &Event) {
        let Some(request) = event.request.filter(|_| event.is_end()) else { return };
        self.jobs.ended(request, event.what == Happening::Step(Step::Finalized));
        self.tell(Task::Look);
    }

    fn ends(&mut self) {
        self.jobs.close();
        self.tell(Task::End);
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.ends();
    }
}
