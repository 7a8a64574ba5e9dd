//! Starts in progress, each in its own thread: MPI may not return from one for any length of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Message;
use crate::model::change::{Cause, CauseKind};
use crate::model::order::ResizePlan;
use crate::node::env_marker::EnvMarker;
use crate::node::process_identity::ProcessIdentity;
use crate::spawn::starter::{
    Ended, Failure, HungSpawn, Ready, SpawnCommand, SpawnHelper, Started, Unit, outlive, start,
};

/// Outcome of a start: the units that are ready to join.
pub(super) type Outcome = Result<Vec<Unit>, Failure>;

/// Message of a thread that starts processes.
pub(super) enum StartMessage {
    /// The thread begins with the unit of this number.
    Next(usize),
    /// The units are ready to join, or could not be started.
    Ended(Outcome),
}

/// What outlasts a start: the helper that spawns, and the abandoned starts.
#[derive(Debug, Default)]
pub(super) struct Starts {
    abandoned: Vec<AbandonedStart>,
    last: u64,
    /// The helper that spawns processes, if this process does not.
    spawn_helper: Option<Arc<SpawnHelper>>,
    /// Units that all starts have made ready.
    started: Arc<Started>,
}

/// Largest number of starts that may hang: each keeps a thread of this process, and other
/// processes.
const MOST_HANGING: usize = 6;

/// An abandoned start.
#[derive(Debug)]
struct AbandonedStart {
    number: u64,
    thread: JoinHandle<()>,
    /// True if other processes can be spawned nevertheless.
    is_beside: bool,
    /// Hung processes that have to be killed after this process has ended.
    left: Vec<ProcessIdentity>,
    /// True if MPI of this process is free nevertheless.
    is_elsewhere: bool,
}

/// A start that has just been abandoned.
pub(super) struct Late {
    pub resize: Arc<ResizePlan>,
    pub cause: Cause,
    /// True if slots are free, and this was the first attempt.
    pub may_be_tried_again: bool,
}

/// A start that a resize waits for.
#[derive(Debug)]
pub(super) struct Start {
    number: u64,
    resize: Arc<ResizePlan>,
    thread: JoinHandle<()>,
    deadline: Instant,
    limit: Duration,
    /// The unit in progress, and the ready ones.
    unit: usize,
    ready: Arc<Ready>,
    is_second: bool,
    /// True if another process does the spawning.
    is_elsewhere: Arc<AtomicBool>,
}

impl Start {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Records that the thread begins with this unit, for which the time runs anew.
    pub(super) fn begin_unit(&mut self, unit: usize) {
        self.unit = unit;
        self.deadline = Instant::now() + self.limit;
    }

    /// Time until the start is overdue.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.left().is_zero()
    }

    /// Joins the thread, which has sent its last message. Returns the waiting resize.
    pub(super) fn join(self) -> Arc<ResizePlan> {
        let _ = self.thread.join();
        self.resize
    }
}

impl Starts {
    pub(super) fn by(spawn_helper: Option<SpawnHelper>) -> Self {
        Self { spawn_helper: spawn_helper.map(Arc::new), ..Self::default() }
    }

    /// Returns true if an abandoned start has not returned, and occupies MPI of this process.
    pub(super) fn occupy_mpi(&self) -> bool {
        self.abandoned.iter().any(|start| !start.is_elsewhere && !start.thread.is_finished())
    }

    /// Returns true if an abandoned start, or the number of hung ones, prevents new starts.
    pub(super) fn block_others(&self) -> bool {
        let mut hanging = self.abandoned.iter().filter(|start| !start.thread.is_finished());
        hanging.clone().count() >= MOST_HANGING || hanging.any(|start| !start.is_beside)
    }

    /// Has the remaining hung processes killed after this process has ended.
    pub(super) fn leave(&mut self) {
        let left = self.abandoned.iter_mut().filter(|start| !start.thread.is_finished());
        let left: Vec<ProcessIdentity> =
            left.flat_map(|start| std::mem::take(&mut start.left)).collect();
        if !left.is_empty() {
            outlive(&left);
        }
        if let Some(spawn_helper) = &self.spawn_helper {
            spawn_helper.dismiss();
        }
    }

    /// Begins a start in a thread that sends messages: the first attempt, or a second one.
    pub(super) fn begin(
        &mut self,
        resize: Arc<ResizePlan>,
        spawn_command: &SpawnCommand,
        sender: Sender<Message>,
        is_second: bool,
    ) -> Result<Start, Cause> {
        self.last += 1;
        let (number, limit) = (self.last, spawn_command.stuck_after());
        let (spawn_command, wanted) = (spawn_command.clone(), Arc::clone(&resize));
        let ready = Arc::new(Ready::default());
        let listed = Arc::clone(&ready);
        let spawn_helper = self.spawn_helper.clone();
        let started = Arc::clone(&self.started);
        let is_elsewhere = Arc::new(AtomicBool::new(false));
        let is_with_starter = Arc::clone(&is_elsewhere);
        let thread = std::thread::Builder::new().name("elastic-start".to_owned());
        let thread = thread.spawn(move || {
            // A send fails only when the coordinator has ended, and needs no answer then.
            let say = |message| drop(sender.send(Message::Start(number, message)));
            let starter = spawn_helper.and_then(|spawn_helper| spawn_helper.starter());
            is_with_starter.store(starter.is_some(), Ordering::Release);
            let goes_on = |unit| say(StartMessage::Next(unit));
            let ended = start(
                &spawn_command,
                &wanted,
                number,
                (&listed, &started),
                starter.as_deref(),
                goes_on,
            );
            // Dropped before the message: the holder of the last reference would have to dismiss
            // it.
            drop(starter);
            say(StartMessage::Ended(ended));
        });
        let failed = |error: std::io::Error| Cause::new(CauseKind::SpawnFailed, error.to_string());
        let thread = thread.map_err(failed)?;
        let deadline = Instant::now() + limit;
        let unit = 0;
        Ok(Start { number, resize, thread, deadline, limit, unit, ready, is_second, is_elsewhere })
    }

    /// Dismisses the units of an abandoned start that has ended after all.
    pub(super) fn dismiss(&mut self, number: u64, ended: Outcome) {
        ended.into_iter().flatten().for_each(Unit::send_away);
        self.abandoned.retain(|start| start.number != number);
    }

    /// Abandons an overdue start, and kills its hung processes if that harms nothing else.
    pub(super) fn abandon(&mut self, overdue: Start, spawn_command: &SpawnCommand) -> Late {
        let meets =
            || self.spawn_helper.as_ref().is_some_and(|spawn_helper| spawn_helper.is_meeting());
        let is_elsewhere = overdue.is_elsewhere.load(Ordering::Acquire) && !meets();
        let is_free = spawn_command.hung_spawn != HungSpawn::Leave || is_elsewhere;
        if is_free {
            // If MPI lets no other call through, the units cannot be dismissed.
            overdue.ready.take().into_iter().for_each(Unit::send_away);
        }
        let marker = EnvMarker::new(overdue.number, overdue.unit);
        let may_stay = spawn_command.oversubscribe && is_free && !overdue.is_second;
        let Ended { all, told, left } = if may_stay {
            spawn_command.hung_spawn.spare(&marker)
        } else {
            spawn_command.hung_spawn.deal_with(&marker)
        };
        if may_stay && spawn_command.hung_spawn == HungSpawn::End && !left.is_empty() {
            // The launcher continues after this process, and would wait for the hung processes.
            outlive(&left);
        }
        if overdue.is_second {
            // The second attempt was no help: the first one's processes are killed now.
            let first =
                self.abandoned.iter_mut().filter(|start| start.number + 1 == overdue.number);
            first.for_each(|start| spawn_command.hung_spawn.end(&mut start.left));
        }
        if let Some(spawn_helper) = self.spawn_helper.as_ref().filter(|_| is_elsewhere) {
            spawn_helper.abandon();
        }
        let is_beside = all || spawn_command.oversubscribe && is_free;
        let Start { number, resize, thread, is_second, limit, .. } = overdue;
        let detail = format!(
            "MPI has not come back from the start within {} s: what was started is no program of it, or has \
             ended, or hangs{told}",
            limit.as_secs()
        );
        let cause = Cause::new(CauseKind::SpawnFailed, detail);
        let may_be_tried_again = !is_second && (all || may_stay && !left.is_empty());
        self.abandoned.push(AbandonedStart { number, thread, is_beside, left, is_elsewhere });
        Late { resize, cause, may_be_tried_again }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn many_hanging_processes_block_further_starts() {
        let (end, ended) = channel::<()>();
        let mut starts = Starts::default();
        let mut abandon = |number, is_beside| {
            let (end, ended) = channel::<()>();
            let thread = std::thread::spawn(move || assert!(ended.recv().is_err()));
            let start =
                AbandonedStart { number, thread, is_beside, left: Vec::new(), is_elsewhere: true };
            starts.abandoned.push(start);
            (starts.block_others(), end)
        };
        let told: Vec<_> = (0..MOST_HANGING as u64).map(|number| abandon(number, true)).collect();
        let (last, before) = told.split_last().unwrap();
        assert!(before.iter().all(|told| !told.0) && last.0);
        drop(told);
        let limit = Instant::now() + Duration::from_secs(60);
        while starts.block_others() {
            assert!(Instant::now() < limit);
            std::thread::yield_now();
        }
        let thread = std::thread::spawn(move || assert!(ended.recv().is_err()));
        let start = AbandonedStart {
            number: 9,
            thread,
            is_beside: false,
            left: Vec::new(),
            is_elsewhere: true,
        };
        starts.abandoned.push(start);
        assert!(starts.block_others());
        drop(end);
    }
}
