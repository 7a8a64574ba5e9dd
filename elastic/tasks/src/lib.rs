//! Recursion as tasks: split, compute, merge, over the available threads and ranks.
//!
//! A [`Task`] is an input that can be split into smaller ones, and that can merge their results.
//! [`run`] computes one over all ranks of a communicator, [`run_in_world`] over ranks that join and
//! leave meanwhile, [`run_alone`] on the threads of this process. No process is started for a task:
//! ranks without work steal tasks.
//!
//! ```
//! use elastic_tasks::{self as tasks, Options, Task, TaskError};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Fibonacci(u64);
//!
//! impl Task for Fibonacci {
//!     type Output = u64;
//!
//!     fn size(&self) -> u64 {
//!         self.0
//!     }
//!
//!     fn split(&self) -> Result<Vec<Self>, TaskError> {
//!         Ok(vec![Self(self.0 - 1), Self(self.0 - 2)])
//!     }
//!
//!     fn sequential(&self) -> Result<u64, TaskError> {
//!         let (mut one, mut next) = (0, 1);
//!         for _ in 0..self.0 {
//!             (one, next) = (next, one + next);
//!         }
//!         Ok(one)
//!     }
//!
//!     fn merge(&self, results: Vec<u64>) -> Result<u64, TaskError> {
//!         Ok(results.iter().sum())
//!     }
//! }
//!
//! let done = tasks::run_alone(Fibonacci(20), &Options::new().threshold(4))?;
//! assert_eq!(done.output, Some(6765));
//! # Ok::<(), tasks::TasksError>(())
//! ```
//!
//! | what | file |
//! |---|---|
//! | which tasks are given out | `policy.rs` |
//! | which tasks are worth a message, by given or measured costs | `cost.rs` |
//! | which rank is asked for work: first on the same node | `neighbours.rs` |
//! | a rank's tasks as a state machine: steals, results, failures, the end | `ledger.rs` |
//! | steps of tasks on the rank's threads | `compute.rs` |
//! | messages, and the tasks handed back before ranks change | `message.rs` |
//! | the loop of a rank over MPI | `session.rs`, `mail.rs` |
//! | ranks that join and leave | `malleable.rs` |
//!
//! Source: explicit tasks of M. C. Cera (UFRGS, 2012).

mod compute;
mod cost;
mod error;
mod ledger;
mod mail;
mod malleable;
mod message;
mod neighbours;
mod policy;
mod session;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use quo_mpi::communicator::Communicator;

pub use cost::{Rate, SendCost, Speed, Trips};
pub use error::{TaskError, TasksError};
pub use malleable::run_in_world;
pub use policy::{Decision, Place, Policy};

/// Input of a recursive computation. It and its output are sent between ranks as bytes.
pub trait Task: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Result of a task.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Returns the size, in the program's own unit. A task with a size of at most the threshold is
    /// not split.
    fn size(&self) -> u64;

    /// Returns the expected work, in the program's own unit: a task is not sent to another rank if
    /// sending takes longer than its work. Defaults to the size.
    fn work(&self) -> u64 {
        self.size()
    }

    /// Splits the task into one or more smaller ones.
    ///
    /// # Errors
    /// Any error, which ends the run on all ranks.
    fn split(&self) -> Result<Vec<Self>, TaskError>;

    /// Computes the task without splitting it.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    fn sequential(&self) -> Result<Self::Output, TaskError>;

    /// Merges the results of the children, in the order of [`split`](Self::split).
    ///
    /// # Errors
    /// As [`split`](Self::split).
    fn merge(&self, results: Vec<Self::Output>) -> Result<Self::Output, TaskError>;
}

/// What happens to running tasks when the ranks change.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// They are completed, which the resize waits for.
    #[default]
    Finish,
    /// They are given back at their next split, and computed again.
    Interrupt,
}

/// Options of a run. All except the number of threads and the node are the same on all ranks.
#[derive(Clone, Debug)]
pub struct Options {
    policy: Policy,
    threshold: u64,
    threads: Option<usize>,
    workers: Option<u64>,
    cost: Option<SendCost>,
    node: Option<usize>,
    release: Release,
    probe: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            threshold: 1,
            threads: None,
            workers: None,
            cost: None,
            node: None,
            release: Release::default(),
            probe: Duration::from_millis(20),
        }
    }
}

impl Options {
    /// Makes the default options: `AdaptiveInPlace`, threshold 1, one thread for each CPU that the
    /// caller may use now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Sets the size up to which tasks are not split.
    #[must_use]
    pub fn threshold(self, threshold: u64) -> Self {
        Self { threshold, ..self }
    }

    /// Sets the number of threads of this rank.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Sets the number of workers that the adaptive policies split for: more workers than exist
    /// make smaller tasks, which balance irregular work. Defaults to the number of threads of all
    /// ranks.
    #[must_use]
    pub fn workers(self, workers: u64) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// Sets the cost of messages that tasks have to outweigh to be sent. By default each rank measures
    /// it from the round trips of its tasks, separately for its own node and for other nodes.
    #[must_use]
    pub fn send_cost(self, cost: SendCost) -> Self {
        Self { cost: Some(cost), ..self }
    }

    /// Sets the number of this rank's node, as [`node_index`](quo::Context::node_index) of a
    /// context over the ranks returns it: a rank without work asks ranks of its own node first.
    /// Defaults to a single node; in a world the nodes are known.
    #[must_use]
    pub fn node(self, number: usize) -> Self {
        Self { node: Some(number), ..self }
    }

    /// Sets what happens to running tasks when the ranks of a world change.
    #[must_use]
    pub fn release(self, release: Release) -> Self {
        Self { release, ..self }
    }

    /// Sets the time between two probes of a world for a resize.
    #[must_use]
    pub fn probe_every(self, interval: Duration) -> Self {
        Self { probe: interval, ..self }
    }

    /// Returns an option that cannot be used, and the reason.
    fn unusable(&self) -> Option<(&'static str, &'static str)> {
        let is_cost = |cost: f64| cost.is_finite() && cost >= 0.0;
        if self.threads == Some(0) {
            return Some(("threads", "0 threads compute nothing: give 1 or more"));
        }
        if self.workers == Some(0) {
            return Some(("workers", "0 workers compute nothing: give 1 or more"));
        }
        let is_right = self.cost.is_none_or(|cost| is_cost(cost.latency) && is_cost(cost.per_byte));
        (!is_right).then_some(("send_cost", "a cost is finite and not negative"))
    }

    fn thread_count(&self) -> usize {
        let allowed = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(allowed)
    }
}

/// Work of this process in a run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks given out by this process, including the root on the rank that had it.
    pub given_out: u64,
    /// Tasks computed by this process together with all their descendants.
    pub computed: u64,
    /// Calls of [`Task::sequential`] in these tasks.
    pub leaves: u64,
    /// Tasks sent to other ranks.
    pub sent: u64,
    /// Part of them sent to other nodes.
    pub sent_away: u64,
    /// Tasks handed back when ranks changed.
    pub returned: u64,
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.given_out += more.given_out;
        self.computed += more.computed;
        self.leaves += more.leaves;
        self.sent += more.sent;
        self.sent_away += more.sent_away;
        self.returned += more.returned;
    }
}

/// Result of a run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Done<O> {
    /// Result of the root, on rank 0; `None` on other ranks.
    pub output: Option<O>,
    /// Work of this process.
    pub counts: Counts,
}

/// Runs a task on the threads of this process, without MPI. Local; the threads run on the CPUs that
/// the caller may use now, which inside a phase are those of the phase.
///
/// # Errors
/// [`TasksError::Options`], [`TasksError::Start`], [`TasksError::Task`].
pub fn run_alone<T: Task>(root: T, options: &Options) -> Result<Done<T::Output>, TasksError> {
    if let Some((option, reason)) = options.unusable() {
        return Err(TasksError::Options { option, reason });
    }
    let pool = quo::phase::rayon_pool(options.thread_count())
        .map_err(|error| TasksError::Start { rank: 0, reason: error::with_sources(&error) })?;
    let job = compute::Job::Compute(root);
    let control = compute::Control::default();
    match pool.install(|| compute::run(0, job, options.threshold, &control)) {
        compute::Outcome::Computed { output, leaves, .. } => {
            let counts = Counts { given_out: 1, computed: 1, leaves, ..Counts::default() };
            Ok(Done { output: Some(output), counts })
        }
        compute::Outcome::Failed(failure) => Err(failure.into()),
        // The job runs to its end.
        compute::Outcome::Interrupted(_)
        | compute::Outcome::Children(..)
        | compute::Outcome::Merged(_) => Err(message::Failure::Skipped.into()),
    }
}

/// Runs a task over the ranks of a communicator, which does not change meanwhile. Collective; rank
/// 0 gives the root, and the roots of other ranks are dropped. Each rank computes on its own
/// threads, while its calling thread sends and receives: any thread level of MPI is sufficient.
/// Inside a phase the threads run where the phase put the rank.
///
/// A task that fails or panics ends the run on all ranks; no further tasks are computed.
///
/// # Errors
/// [`TasksError::Start`], also for options that cannot be used, and [`TasksError::Task`]: the same
/// on all ranks. [`TasksError::Group`].
pub fn run<T: Task>(
    ranks: &Communicator,
    root: Option<T>,
    options: &Options,
) -> Result<Done<T::Output>, TasksError> {
    let mail = mail::Mail::over(ranks, &mail::unlimited(&|| Ok(())))?;
    let begin = session::Begin::Root(root);
    match session::run(mail, begin, options, &mut session::FixedRanks)? {
        session::End::Done(output, counts) => Ok(Done { output, counts }),
        // These ranks never probe.
        session::End::Resize(_, counts) => Ok(Done { output: None, counts }),
    }
}

impl From<message::Failure> for TasksError {
    fn from(failure: message::Failure) -> Self {
        match failure {
            message::Failure::Failed { rank, reason } => Self::Task { rank, reason },
            message::Failure::Skipped => {
                Self::Task { rank: 0, reason: "it was interrupted".to_owned() }
            }
        }
    }
}
