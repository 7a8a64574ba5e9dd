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
use crate::node::process_identity::Life;
use crate::spawn::starter::{
    Ended, Failure, HungSpawn, Ready, SpawnCommand, SpawnHelper, Started, Unit, outlive, start,
};

/// Message of a thread that starts processes.
pub(super) enum Word {
    /// The thread begins with the unit of this number.
    Next(usize),
    /// The units are ready to join, or could not be started.
    Ended(Result<Vec<Unit>, Failure>),
}

/// The start that a resize waits for, and the abandoned ones.
#[derive(Debug, Default)]
pub(super) struct Starting {
    current: Option<Current>,
    given_up: Vec<GivenUp>,
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
struct GivenUp {
    number: u64,
    thread: JoinHandle<()>,
    /// True if other processes can be spawned nevertheless.
    is_beside: bool,
    /// Hung processes that have to be killed after this process has ended.
    left: Vec<Life>,
    /// True if MPI of this process is free nevertheless.
    is_elsewhere: bool,
}

/// A start that has just been abandoned.
pub(super) struct Late {
    pub resize: ResizePlan,
    pub cause: Cause,
    /// True if slots are free, and this was the first attempt.
    pub may_be_tried_again: bool,
}

#[derive(Debug)]
struct Current {
    number: u64,
    resize: ResizePlan,
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

impl Starting {
    pub(super) fn by(spawn_helper: Option<SpawnHelper>) -> Self {
        Self { spawn_helper: spawn_helper.map(Arc::new), ..Self::default() }
    }

    /// Returns true if a resize waits for a start.
    pub(super) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Returns true if an abandoned start has not returned, and occupies MPI of this process.
    pub(super) fn is_stuck(&self) -> bool {
        self.given_up.iter().any(|start| !start.is_elsewhere && !start.thread.is_finished())
    }

    /// Returns true if an abandoned start, or the number of hung ones, prevents new starts.
    pub(super) fn is_in_the_way(&self) -> bool {
        let mut hanging = self.given_up.iter().filter(|start| !start.thread.is_finished());
        hanging.clone().count() >= MOST_HANGING || hanging.any(|start| !start.is_beside)
    }

    /// Has the remaining hung processes killed after this process has ended.
    pub(super) fn leave(&mut self) {
        let left = self.given_up.iter_mut().filter(|start| !start.thread.is_finished());
        let left: Vec<Life> = left.flat_map(|start| std::mem::take(&mut start.left)).collect();
        if !left.is_empty() {
            outlive(&left);
        }
        if let Some(spawn_helper) = &self.spawn_helper {
            spawn_helper.dismiss();
        }
    }

    /// Time until the current start is overdue; `None` without one.
    pub(super) fn left(&self) -> Option<Duration> {
        let current = self.current.as_ref()?;
        Some(current.deadline.saturating_duration_since(Instant::now()))
    }

    /// Begins a start in a thread that sends messages: the first attempt, or a second one.
    pub(super) fn begin(
        &mut self,
        resize: ResizePlan,
        spawn_command: &SpawnCommand,
        sender: Sender<Message>,
        is_second: bool,
    ) -> Result<(), Cause> {
        self.last += 1;
        let (number, limit) = (self.last, spawn_command.stuck_after());
        let (spawn_command, wanted) = (spawn_command.clone(), resize.clone());
        let ready = Arc::new(Ready::default());
        let listed = Arc::clone(&ready);
        let spawn_helper = self.spawn_helper.clone();
        let started = Arc::clone(&self.started);
        let is_elsewhere = Arc::new(AtomicBool::new(false));
        let is_with_starter = Arc::clone(&is_elsewhere);
        let thread = std::thread::Builder::new().name("elastic-start".to_owned());
        let thread = thread.spawn(move || {
            // A send fails only when the coordinator has ended, and needs no answer then.
            let say = |word| drop(sender.send(Message::Start(number, word)));
            let starter = spawn_helper.and_then(|spawn_helper| spawn_helper.starter());
            is_with_starter.store(starter.is_some(), Ordering::Release);
            let goes_on = |unit| say(Word::Next(unit));
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
            say(Word::Ended(ended));
        });
        let failed = |error: std::io::Error| Cause::new(CauseKind::SpawnFailed, error.to_string());
        let thread = thread.map_err(failed)?;
        let deadline = Instant::now() + limit;
        let unit = 0;
        self.current = Some(Current {
            number,
            resize,
            thread,
            deadline,
            limit,
            unit,
            ready,
            is_second,
            is_elsewhere,
        });
        Ok(())
    }

    /// Handles a message. Returns the waiting resize and the outcome once its start has ended.
    pub(super) fn hear(
        &mut self,
        number: u64,
        word: Word,
    ) -> Option<(ResizePlan, Result<Vec<Unit>, Failure>)> {
        let is_current = self.current.as_ref().is_some_and(|current| current.number == number);
        match word {
            Word::Next(unit) => {
                if let Some(current) = self.current.as_mut().filter(|_| is_current) {
                    current.unit = unit;
                    current.deadline = Instant::now() + current.limit;
                }
                None
            }
            Word::Ended(ended) if is_current => {
                let current = self.current.take()?;
                let _ = current.thread.join();
                Some((current.resize, ended))
            }
            Word::Ended(ended) => {
                // The start had been abandoned.
                ended.into_iter().flatten().for_each(Unit::send_away);
                self.given_up.retain(|start| start.number != number);
                None
            }
        }
    }

    /// Abandons an overdue start, and kills its hung processes if that harms nothing else.
    pub(super) fn give_up_late(&mut self, spawn_command: &SpawnCommand) -> Option<Late> {
        let current = self.current.take_if(|current| Instant::now() >= current.deadline)?;
        let meets =
            || self.spawn_helper.as_ref().is_some_and(|spawn_helper| spawn_helper.is_meeting());
        let is_elsewhere = current.is_elsewhere.load(Ordering::Acquire) && !meets();
        let is_free = spawn_command.hung_spawn != HungSpawn::Leave || is_elsewhere;
        if is_free {
            // If MPI lets no other call through, the units cannot be dismissed.
            current.ready.take().into_iter().for_each(Unit::send_away);
        }
        let marker = EnvMarker::new(current.number, current.unit);
        let may_stay = spawn_command.crowded && is_free && !current.is_second;
        let Ended { all, told, left } = if may_stay {
            spawn_command.hung_spawn.spare(&marker)
        } else {
            spawn_command.hung_spawn.deal_with(&marker)
        };
        if may_stay && spawn_command.hung_spawn == HungSpawn::End && !left.is_empty() {
            // The launcher continues after this process, and would wait for the hung processes.
            outlive(&left);
        }
        if current.is_second {
            // The second attempt was no help: the first one's processes are killed now.
            let first = self.given_up.iter_mut().filter(|start| start.number + 1 == current.number);
            first.for_each(|start| spawn_command.hung_spawn.end(&mut start.left));
        }
        if let Some(spawn_helper) = self.spawn_helper.as_ref().filter(|_| is_elsewhere) {
            spawn_helper.give_up();
        }
        let is_beside = all || spawn_command.crowded && is_free;
        let Current { number, resize, thread, is_second, limit, .. } = current;
        let detail = format!(
            "MPI has not come back from the start within {} s: what was started is no program of it, or has \
             ended, or hangs{told}",
            limit.as_secs()
        );
        let cause = Cause::new(CauseKind::SpawnFailed, detail);
        let may_be_tried_again = !is_second && (all || may_stay && !left.is_empty());
        self.given_up.push(GivenUp { number, thread, is_beside, left, is_elsewhere });
        Some(Late { resize, cause, may_be_tried_again })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn many_hanging_processes_block_further_starts() {
        let (end, ended) = channel::<()>();
        let mut starting = Starting::default();
        let mut give_up = |number, is_beside| {
            let (end, ended) = channel::<()>();
            let thread = std::thread::spawn(move || assert!(ended.recv().is_err()));
            let start = GivenUp { number, thread, is_beside, left: Vec::new(), is_elsewhere: true };
            starting.given_up.push(start);
            (starting.is_in_the_way(), end)
        };
        let told: Vec<_> = (0..MOST_HANGING as u64).map(|number| give_up(number, true)).collect();
        let (last, before) = told.split_last().unwrap();
        assert!(before.iter().all(|told| !told.0) && last.0);
        drop(told);
        let limit = Instant::now() + Duration::from_secs(60);
        while starting.is_in_the_way() {
            assert!(Instant::now() < limit);
            std::thread::yield_now();
        }
        let thread = std::thread::spawn(move || assert!(ended.recv().is_err()));
        let start =
            GivenUp { number: 9, thread, is_beside: false, left: Vec::new(), is_elsewhere: true };
        starting.given_up.push(start);
        assert!(starting.is_in_the_way());
        drop(end);
    }
}
