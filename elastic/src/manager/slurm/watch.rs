//! The thread that releases nodes, and gives notice of ends.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::decide::{Release, goes_first, is_near, release};
use super::jobs::{Jobs, now};
use crate::manager::{Requests, WorldStatus};
use crate::model::change::{Cause, CauseKind, Request, RequestKind};

/// Time between two queries about the world's own job: an administrator may extend it.
const REFRESH: Duration = Duration::from_secs(60);
/// Delay before a refused command is retried: at first, and at most.
const RETRIES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// Task of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// A request has ended.
    Look,
    /// The job is over.
    End,
}

#[derive(Debug)]
pub(super) struct Watch {
    jobs: Arc<Jobs>,
    requests: Requests,
    /// When the job is queried again. Times are since the start of the job.
    refresh: Duration,
    /// Time before which no refused command is retried, and the next delay.
    retry: (Duration, Duration),
    /// The end of the job that was announced.
    noted: Option<u64>,
}

impl Watch {
    pub(super) fn new(jobs: Arc<Jobs>, requests: Requests) -> Self {
        let (refresh, retry) = (Duration::ZERO, (Duration::ZERO, RETRIES.0));
        Self { jobs, requests, refresh, retry, noted: None }
    }

    pub(super) fn run(mut self, tasks: &Receiver<Task>) {
        loop {
            let status = self.requests.status();
            let at = Duration::from_micros(status.up_us);
            self.refresh(at);
            self.record_node_use(&status, at);
            if at >= self.retry.0 {
                self.give_back(at);
            }
            self.give_notice(&status);
            match tasks.recv_timeout(self.next(at).saturating_sub(at)) {
                Ok(Task::Look) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Task::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.jobs.cancel_all();
    }

    /// Returns the time of the next possible action.
    fn next(&self, at: Duration) -> Duration {
        let linger = self.jobs.options.linger;
        let state = self.jobs.state();
        let nodes = state.held.iter().flat_map(|held| &held.nodes).chain(&state.nodes);
        // Nodes that were due have been released, or are retried, or have to stay.
        let due = nodes.filter_map(|node| node.due(linger)).filter(|&due| due > at);
        let again = (self.retry.0 > at).then_some(self.retry.0);
        let main = state.facts.as_ref().and_then(|facts| facts.end);
        let is_told = |end: &u64| !goes_first(Some(*end), main);
        let ends = state.held.iter().filter(|held| !held.is_noticed).filter_map(|held| held.end);
        let ends = ends.filter(|end| !is_told(end));
        let near = ends.chain(main.filter(|_| main != self.noted)).map(|end| {
            let left = Duration::from_secs(end.saturating_sub(now()));
            at + left.saturating_sub(self.jobs.options.grace) + Duration::from_secs(1)
        });
        due.chain(again).chain(near).min().unwrap_or(self.refresh).min(self.refresh)
    }

    fn refresh(&mut self, at: Duration) {
        if at < self.refresh {
            return;
        }
        self.refresh = at + REFRESH;
        if let Err(reason) = self.jobs.refresh() {
            self.requests.note(Cause::new(CauseKind::Manager, format!("slurm: {reason}")));
        }
    }

    /// Records which nodes have processes of the world.
    fn record_node_use(&self, status: &WorldStatus, at: Duration) {
        let live = live(status);
        let mut state = self.jobs.state();
        let state = &mut *state;
        let held = state.held.iter_mut().flat_map(|held| &mut held.nodes);
        held.chain(&mut state.nodes).for_each(|node| node.record_use(&live, at));
    }

    /// Releases the nodes that have become empty.
    fn give_back(&mut self, at: Duration) {
        let linger = self.jobs.options.linger;
        let (mut ends, mut changes) = (Vec::new(), Vec::new());
        {
            let state = self.jobs.state();
            let anchor = state.facts.as_ref().and_then(|facts| facts.batch.as_deref());
            if let Release::Keep(kept) = release(&state.nodes, anchor, at, linger) {
                changes.push((self.jobs.main, kept));
            }
            for held in &state.held {
                if held.is_doomed {
                    ends.push(held.number);
                } else if held.request.is_none() && !held.nodes.is_empty() {
                    match release(&held.nodes, held.anchor.as_deref(), at, linger) {
                        Release::Nothing => {}
                        Release::Keep(kept) => changes.push((held.number, kept)),
                        Release::All => ends.push(held.number),
                    }
                }
            }
        }
        let mut trouble = None;
        for (number, kept) in changes {
            match self.jobs.shrink(number, &kept) {
                Ok(()) => self.jobs.keep(number, &kept),
                Err(error) => trouble = Some(error),
            }
        }
        for number in ends {
            if let Err(error) = self.jobs.cancel(number) {
                trouble = Some(error);
            }
        }
        match trouble {
            None => self.retry.1 = RETRIES.0,
            Some(error) => {
                if self.retry.1 == RETRIES.0 {
                    let detail = format!("slurm: nodes could not be given back: {error}");
                    self.requests.note(Cause::new(CauseKind::Manager, detail));
                }
                self.retry = (at + self.retry.1, (self.retry.1 * 2).min(RETRIES.1));
            }
        }
    }

    /// Has processes leave nodes shortly before their end; records the near end of the job itself.
    fn give_notice(&mut self, status: &WorldStatus) {
        let (grace, now) = (self.jobs.options.grace, now());
        let live = live(status);
        let mut asked = Vec::new();
        let main = {
            let mut state = self.jobs.state();
            let main = state.facts.as_ref().and_then(|facts| facts.end);
            for held in &mut state.held {
                let is_due = is_near(held.end, now, grace) && goes_first(held.end, main);
                if is_due && !held.is_noticed && held.request.is_none() {
                    held.is_noticed = true;
                    let is_there = |host: &&String| held.nodes.iter().any(|node| node.is(host));
                    let from: Vec<String> = live.iter().filter(is_there).cloned().collect();
                    let left = held.end.unwrap_or(now).saturating_sub(now);
                    if !from.is_empty() {
                        asked.push((from, Duration::from_secs(left)));
                    }
                }
            }
            main
        };
        for (from, left) in asked {
            // A refusal is already in the log as an event.
            let request = Request::new(RequestKind::Leave, "slurm");
            let _ = self.requests.ask(Request { from, grace: Some(left), ..request });
        }
        if is_near(main, now, grace) && self.noted != main {
            self.noted = main;
            let left = main.unwrap_or(now).saturating_sub(now);
            let detail = format!("slurm: job {} ends in {left} s", self.jobs.main);
            self.requests.note(Cause::new(CauseKind::Deadline, detail));
        }
    }
}

/// Returns the hosts with processes of the world.
fn live(status: &WorldStatus) -> Vec<String> {
    let is_live = |host: &&crate::manager::HostStatus| host.slots > 0 || !host.ranks.is_empty();
    status.hosts.iter().filter(is_live).map(|host| host.host.clone()).collect()
}
