//! Starts that are under way in threads of their own, each of which may not come back for as long as MPI likes.

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

/// The start that a resize waits for, and those that nobody waits for any more.
#[derive(Debug, Default)]
pub(super) struct Starting {
    current: Option<Current>,
    given_up: Vec<GivenUp>,
    last: u64,
    /// By whom processes are started, if it is not this one.
    spawn_helper: Option<Arc<SpawnHelper>>,
    /// Units that all starts have made ready.
    started: Arc<Started>,
}

/// Number of starts that may hang: each keeps a thread of this process, and processes.
const MOST_HANGING: usize = 6;

/// A start that nobody waits for any more.
#[derive(Debug)]
struct GivenUp {
    number: u64,
    thread: JoinHandle<()>,
    /// Others can be started all the same.
    is_beside: bool,
    /// Processes that hang, and have to go when this process has ended.
    left: Vec<Life>,
    /// MPI of this process is free all the same.
    is_elsewhere: bool,
}

/// A start that has just been given up.
pub(super) struct Late {
    pub resize: ResizePlan,
    pub cause: Cause,
    /// True if there are places, and this was the first attempt.
    pub may_be_tried_again: bool,
}

#[derive(Debug)]
struct Current {
    number: u64,
    resize: ResizePlan,
    thread: JoinHandle<()>,
    deadline: Instant,
    limit: Duration,
    /// The unit that is being started, and those that are ready.
    unit: usize,
    ready: Arc<Ready>,
    is_second: bool,
    /// True if another process starts them.
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

    /// Returns true if a start that was given up has not come back, and holds MPI of this process.
    pub(super) fn is_stuck(&self) -> bool {
        self.given_up.iter().any(|start| !start.is_elsewhere && !start.thread.is_finished())
    }

    /// Returns true if nothing can be started because of one, or of as many as may hang.
    pub(super) fn is_in_the_way(&self) -> bool {
        let mut hanging = self.given_up.iter().filter(|start| !start.thread.is_finished());
        hanging.clone().count() >= MOST_HANGING || hanging.any(|start| !start.is_beside)
    }

    /// Has hanging processes, which could not be killed before, killed when this process has ended.
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

    /// Longest time until the next look is due.
    pub(super) fn left(&self) -> Option<Duration> {
        let current = self.current.as_ref()?;
        Some(current.deadline.saturating_duration_since(Instant::now()))
    }

    /// Begins one, whose words come as messages: the first attempt, or a second one.
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
            // It listens until this thread has ended, or is not waited for any more.
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
            // Before it is said: it is dismissed by who has the last of it.
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

    /// Takes a message: the resize that waited for it, and its start's result.
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
                // Too late.
                ended.into_iter().flatten().for_each(Unit::send_away);
                self.given_up.retain(|start| start.number != number);
                None
            }
        }
    }

    /// Gives the current one up when it has taken too long, and ends hanging processes where that ends nothing else.
    pub(super) fn give_up_late(&mut self, spawn_command: &SpawnCommand) -> Option<Late> {
        let current = self.current.take_if(|current| Instant::now() >= current.deadline)?;
        let meets =
            || self.spawn_helper.as_ref().is_some_and(|spawn_helper| spawn_helper.is_meeting());
        let is_elsewhere = current.is_elsewhere.load(Ordering::Acquire) && !meets();
        let is_free = spawn_command.hung_spawn != HungSpawn::Leave || is_elsewhere;
        if is_free {
            // Where MPI lets no other call through, they cannot be told.
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
            // The launcher goes on without this process, and would wait for what hangs.
            outlive(&left);
        }
        if current.is_second {
            // It was no help.
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
