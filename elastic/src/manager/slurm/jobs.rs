//! The Slurm jobs that provide the world's nodes: its own, and the jobs that hold nodes for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::Options;
use super::command::{CommandError, run};
use super::decide::{Node, is_hopeless, minutes, name_of, submission};
use super::guard::Guard;
use super::text::{
    JOB_FORMAT, JobFacts, JobState, STEP_FORMAT, hosts, job, steps_elsewhere, submitted,
};
use crate::manager::Supply;
use crate::model::change::{Cause, CauseKind, RequestId};

/// Program of a job that only holds nodes.
const KEEPER: &str = include_str!("keeper.sh");

/// Time that the launcher's processes on a node to be released may take to end.
const STEPS_END: Duration = Duration::from_secs(3);

/// Pauses between two checks of a waiting job: the first one, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Jobs, and the commands that change them. Shared by threads; the lock is never held while a
/// command runs.
#[derive(Debug)]
pub(super) struct Jobs {
    /// The number of the world's own job.
    pub main: u32,
    pub options: Options,
    state: Mutex<State>,
    /// Notified when waits have to end.
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The latest facts about the world's own job.
    pub facts: Option<JobFacts>,
    /// Its nodes.
    pub nodes: Vec<Node>,
    pub held: Vec<Held>,
    pub is_over: bool,
}

/// A job that holds nodes.
#[derive(Debug)]
pub(super) struct Held {
    pub number: u32,
    /// Empty until the job has its nodes.
    pub nodes: Vec<Node>,
    /// The node without which the job ends.
    pub anchor: Option<String>,
    /// When its time limit expires, in seconds since 1970.
    pub end: Option<u64>,
    /// The request that it was made for, until the request has ended.
    pub request: Option<RequestId>,
    /// True if the job is of no use any more.
    pub is_doomed: bool,
    /// True if its end was announced.
    pub is_noticed: bool,
    guard: Option<Guard>,
}

impl Jobs {
    pub(super) fn new(main: u32, options: Options) -> Self {
        Self { main, options, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // No value in it is left half changed by a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all waits.
    pub(super) fn close(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// Waits for at most `at_most`, or until the waits have to end.
    fn pause(&self, at_most: Duration) {
        let state = self.state();
        if !state.is_over {
            drop(self.changed.wait_timeout(state, at_most));
        }
    }

    /// Records the end of a request: if it failed, the nodes brought for it are released.
    pub(super) fn ended(&self, request: RequestId, is_done: bool) {
        for held in &mut self.state().held {
            if held.request == Some(request) {
                (held.request, held.is_doomed) = (None, !is_done);
            }
        }
        self.changed.notify_all();
    }

    /// Queries Slurm about the world's own job.
    ///
    /// # Errors
    /// The error of Slurm.
    pub(super) fn refresh(&self) -> Result<JobFacts, String> {
        let facts = self.facts(self.main)?;
        let facts = facts.ok_or_else(|| format!("squeue: there is no job {}", self.main))?;
        let names: Vec<String> = self.state().nodes.iter().map(|node| node.name.clone()).collect();
        if facts.nodes != names {
            let found = self.hosts(&facts.nodes)?;
            let mut state = self.state();
            let known = std::mem::take(&mut state.nodes);
            let node = |name: (String, String)| {
                let before = known.iter().find(|node| node.name == name.0).cloned();
                before.unwrap_or_else(|| Node::new(name))
            };
            state.nodes = found.into_iter().map(node).collect();
        }
        self.state().facts = Some(facts.clone());
        Ok(facts)
    }

    /// Shrinks a job to these nodes.
    ///
    /// # Errors
    /// The error of Slurm; the job is unchanged.
    pub(super) fn shrink(&self, number: u32, kept: &[String]) -> Result<(), CommandError> {
        self.end_steps(number, kept);
        let words = [
            "update".to_owned(),
            format!("JobId={number}"),
            format!("NodeList={}", kept.join(",")),
        ];
        self.run("scontrol", &words, "").map(drop)
    }

    /// Lets the launcher's processes on all other nodes end in order: they would be killed with the
    /// nodes.
    fn end_steps(&self, number: u32, kept: &[String]) {
        let words = ["--noheader", "--steps"].map(str::to_owned);
        let words =
            [&words[..], &[format!("--jobs={number}"), format!("--format={STEP_FORMAT}")]].concat();
        let found = || {
            let answer = self.run("squeue", &words, "").unwrap_or_default();
            steps_elsewhere(&answer, number, kept)
        };
        let steps = found();
        if steps.is_empty() {
            return;
        }
        let _ = self.run("scancel", &[&["--signal=TERM".to_owned()], &steps[..]].concat(), "");
        let end = Instant::now() + STEPS_END;
        while !found().is_empty() && Instant::now() < end {
            self.pause(PAUSES.0);
        }
    }

    /// Records that a job has only these nodes.
    pub(super) fn keep(&self, number: u32, kept: &[String]) {
        let is_kept = |node: &Node| kept.contains(&node.name);
        if number == self.main {
            self.state().nodes.retain(is_kept);
        } else {
            self.with(number, |held| held.nodes.retain(is_kept));
        }
    }

    /// Cancels a job that holds nodes.
    ///
    /// # Errors
    /// The error of Slurm; the cancellation has to be retried.
    pub(super) fn cancel(&self, number: u32) -> Result<(), CommandError> {
        match self.run("scancel", &[number.to_string()], "") {
            Err(error) if !error.is_unknown_job() => {
                self.with(number, |held| held.is_doomed = true);
                Err(error)
            }
            _ => {
                let held = {
                    let mut state = self.state();
                    let at = state.held.iter().position(|held| held.number == number);
                    at.map(|at| state.held.remove(at))
                };
                if let Some(guard) = held.and_then(|held| held.guard) {
                    guard.dismiss();
                }
                Ok(())
            }
        }
    }

    /// Cancels all jobs that hold nodes, if Slurm answers; the rest end by themselves.
    pub(super) fn cancel_all(&self) {
        let is_used =
            |held: &Held| held.nodes.iter().any(|node| node.was_used && node.empty_since.is_none());
        let (used, unused): (Vec<Held>, Vec<Held>) =
            std::mem::take(&mut self.state().held).into_iter().partition(is_used);
        // Ranks on those nodes end with this process; the cancellation has to follow that.
        used.into_iter().filter_map(|held| held.guard).for_each(Guard::entrust);
        let numbers: Vec<u32> = unused.iter().map(|held| held.number).collect();
        self.state().held = unused;
        for number in numbers {
            if let Err(CommandError::NoAnswer { .. }) = self.cancel(number) {
                break;
            }
        }
        // Dropping a guard cancels its job.
        self.state().held.clear();
    }

    fn run(&self, program: &str, words: &[String], input: &str) -> Result<String, CommandError> {
        run(program, words, input, self.options.command_limit)
    }

    fn facts(&self, number: u32) -> Result<Option<JobFacts>, String> {
        let words = [
            "--noheader".to_owned(),
            "--states=all".to_owned(),
            format!("--jobs={number}"),
            format!("--format={JOB_FORMAT}"),
        ];
        match self.run("squeue", &words, "") {
            Ok(answer) => job(&answer, number),
            Err(error) if error.is_unknown_job() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn hosts(&self, names: &[String]) -> Result<Vec<(String, String)>, String> {
        let words = ["show", "node", "--oneliner"].map(str::to_owned);
        let words = [&words[..], &[names.join(",")]].concat();
        let answer = self.run("scontrol", &words, "").map_err(|error| error.to_string())?;
        hosts(&answer, names)
    }

    fn with<T>(&self, number: u32, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        self.state().held.iter_mut().find(|held| held.number == number).map(change)
    }

    /// Submits a job that holds nodes.
    fn submit(&self, request: RequestId, nodes: u32) -> Result<u32, Cause> {
        let facts = self.refresh().map_err(refused)?;
        let minutes = minutes(facts.end, now(), self.options.least).map_err(too_late)?;
        let name = format!("{}-{}", name_of(self.main), request.0);
        let more = &self.options.submit;
        let words = submission(self.main, &name, &facts, nodes, minutes, more);
        let script = KEEPER
            .replace("MAIN", &self.main.to_string())
            .replace("PAUSE", &self.options.watch.as_secs().max(1).to_string());
        let answer = self.run("sbatch", &words, &script);
        let submitted = match answer {
            Ok(answer) => submitted(&answer),
            Err(error @ CommandError::NoAnswer { .. }) => Err(error.to_string()),
            Err(error) => return Err(refused(error.to_string())),
        };
        let number = submitted.map_err(|reason| {
            // The job may exist although its number did not arrive.
            let _ = self.run("scancel", &[format!("--name={name}")], "");
            refused(reason)
        })?;
        let guard = Guard::over(number);
        let mut trouble = None;
        let guard = guard.map_err(|error| trouble = Some(error)).ok();
        let held = Held {
            number,
            nodes: Vec::new(),
            anchor: None,
            end: None,
            request: Some(request),
            is_doomed: false,
            is_noticed: false,
            guard,
        };
        self.state().held.push(held);
        match trouble {
            None => Ok(number),
            Some(error) => {
                let _ = self.cancel(number);
                Err(refused(format!("job {number} has no keeper: {error}")))
            }
        }
    }

    /// Waits until a job has its nodes.
    fn wait_for_nodes(&self, number: u32) -> Result<JobFacts, Cause> {
        let end = Instant::now() + self.options.wait;
        let mut pause = PAUSES.0;
        loop {
            let is_wanted = self.with(number, |held| !held.is_doomed) == Some(true);
            if self.state().is_over || !is_wanted {
                return Err(Cause::new(
                    CauseKind::Cancelled,
                    "its growth has ended before its nodes came",
                ));
            }
            let reason = match self.facts(number) {
                Ok(Some(facts)) if facts.state == JobState::Runs => return Ok(facts),
                Ok(Some(facts)) if facts.state.is_waiting() => facts.reason,
                Ok(_) => return Err(refused(format!("job {number} ended before it had nodes"))),
                // The next query may be answered.
                Err(trouble) => trouble,
            };
            if is_hopeless(&reason) {
                return Err(refused(format!("Slurm says of job {number}: {reason}")));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let seconds = self.options.wait.as_secs();
                let detail = format!("no nodes within {seconds} s: job {number} waits: {reason}");
                return Err(Cause::new(CauseKind::NoCapacity, detail));
            }
            self.pause(pause.min(left));
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn take(&self, number: u32) -> Result<Vec<String>, Cause> {
        let facts = self.wait_for_nodes(number)?;
        let found = self.hosts(&facts.nodes).map_err(refused)?;
        let main_end = self.state().facts.as_ref().and_then(|facts| facts.end);
        let mut end = facts.end;
        // The job has waited, and its time counts from now.
        if let (Some(limit), true) = (main_end, facts.end > main_end) {
            let minutes = (limit.saturating_sub(now()) / 60).max(1);
            let words =
                ["update".to_owned(), format!("JobId={number}"), format!("TimeLimit={minutes}")];
            // Otherwise it ends when it sees that the world's own job has ended.
            if self.run("scontrol", &words, "").is_ok() {
                end = Some(limit);
            }
        }
        self.with(number, |held| {
            held.nodes = found.into_iter().map(Node::new).collect();
            (held.anchor, held.end) = (facts.batch, end);
        });
        Ok(facts.nodes)
    }
}

impl Supply for Jobs {
    fn check(&self, nodes: u32, grace: Option<Duration>) -> Result<(), Cause> {
        let state = self.state();
        let Some(facts) = &state.facts else { return Ok(()) };
        if nodes > super::MOST_NODES {
            let detail = format!("{nodes} nodes; at most {} at a time", super::MOST_NODES);
            return Err(Cause::new(CauseKind::NoCapacity, detail));
        }
        let least = self.options.least.max(grace.unwrap_or_default());
        minutes(facts.end, now(), least).map(drop).map_err(too_late)
    }

    fn obtain_nodes(&self, request: RequestId, nodes: u32) -> Result<Vec<String>, Cause> {
        let number = self.submit(request, nodes)?;
        self.take(number).inspect_err(|_| {
            // A job that cannot be cancelled now is retried, and ends with the world's own job.
            let _ = self.cancel(number);
        })
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn refused(reason: String) -> Cause {
    Cause::new(CauseKind::Manager, reason)
}

fn too_late(reason: String) -> Cause {
    Cause::new(CauseKind::Deadline, reason)
}
