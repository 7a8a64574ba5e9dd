//! Slurm: nodes come by a second job, and go back in place.
//!
//! Slurm can make a running job smaller, not larger. So a growth on new nodes has a job of its own, which holds them
//! and does nothing else; its processes are started there by the world's launcher. It is cancelled when they have
//! left, or when the growth fails; it has no more time than the world's own job; and it ends with that: it looks
//! every few seconds whether the other one still runs, and a process beside rank 0 cancels it when rank 0 dies.
//!
//! Nodes of the world's own job go back by `scontrol update` when everybody there has ended for good. Slurm ends the
//! launcher's processes on such a node, too: the launchers' options for that are in the guide.
//!
//! No call of the program waits for Slurm. Its commands are run by threads, each for a bounded time.

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

/// The most nodes that one growth can have.
const MOST_NODES: u32 = 4096;

/// Nodes of Slurm for the world: see the [module](self).
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

/// Options of the use of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Time that a growth waits for its nodes before it is given up: a minute.
    pub wait: Duration,
    /// Time that each of Slurm's commands may take: 20 seconds.
    pub command_limit: Duration,
    /// Time before the end of a job at which its nodes are left, and its end is noted in the log: two minutes.
    pub grace: Duration,
    /// Time that those who left may take to end, before their node goes back: 5 seconds.
    pub linger: Duration,
    /// Interval at which a job that holds nodes checks that the world's own job still runs: 10 seconds. Whole seconds.
    pub watch: Duration,
    /// Least time before the end of the job for a growth onto new nodes; it is refused later. Two minutes unless set.
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
    /// For the job that this process runs in; none if it runs in none.
    #[must_use]
    pub fn of_this_job() -> Option<Self> {
        let number = std::env::var(JOB_VARIABLE).ok()?.parse().ok()?;
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
