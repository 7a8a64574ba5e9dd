//! Starts that are under way in threads of their own, each of which may not come back for as long as MPI likes.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Message;
use crate::change::{Cause, CauseKind};
use crate::order::Resize;
use crate::starter::{Recipe, Unit, start};

/// What a thread that starts processes says.
pub(super) enum Word {
    /// It begins with the next unit.
    Next,
    /// They are ready to join, or could not be started.
    Ended(Result<Vec<Unit>, Cause>),
}

/// The start that a resize waits for, and those that nobody waits for any more.
#[derive(Debug, Default)]
pub(super) struct Starting {
    current: Option<Current>,
    given_up: Vec<(u64, JoinHandle<()>)>,
    last: u64,
}

#[derive(Debug)]
struct Current {
    number: u64,
    resize: Resize,
    thread: JoinHandle<()>,
    deadline: Instant,
    limit: Duration,
}

impl Starting {
    /// Whether a resize waits for a start.
    pub(super) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Whether a start that was given up has not come back.
    pub(super) fn is_stuck(&self) -> bool {
        self.given_up.iter().any(|(_, thread)| !thread.is_finished())
    }

    /// How long at most until somebody has to look.
    pub(super) fn left(&self) -> Option<Duration> {
        let current = self.current.as_ref()?;
        Some(current.deadline.saturating_duration_since(Instant::now()))
    }

    /// Begins one, whose words come as messages.
    pub(super) fn begin(
        &mut self,
        resize: Resize,
        recipe: &Recipe,
        sender: Sender<Message>,
    ) -> Result<(), Cause> {
        self.last += 1;
        let (number, limit) = (self.last, recipe.stuck_after());
        let (recipe, wanted) = (recipe.clone(), resize.clone());
        let thread = std::thread::Builder::new().name("elastic-start".to_owned());
        let thread = thread.spawn(move || {
            // It listens until this thread has ended, or is not waited for any more.
            let say = |word| drop(sender.send(Message::Start(number, word)));
            let ended = start(&recipe, &wanted, || say(Word::Next));
            say(Word::Ended(ended));
        });
        let failed = |error: std::io::Error| Cause::new(CauseKind::SpawnFailed, error.to_string());
        let thread = thread.map_err(failed)?;
        let deadline = Instant::now() + limit;
        self.current = Some(Current { number, resize, thread, deadline, limit });
        Ok(())
    }

    /// A word has come: the resize that waited for it, and what became of its start.
    pub(super) fn hear(
        &mut self,
        number: u64,
        word: Word,
    ) -> Option<(Resize, Result<Vec<Unit>, Cause>)> {
        let is_current = self.current.as_ref().is_some_and(|current| current.number == number);
        match word {
            Word::Next => {
                if let Some(current) = self.current.as_mut().filter(|_| is_current) {
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
                self.given_up.retain(|(other, _)| *other != number);
                None
            }
        }
    }

    /// Gives the current one up when it has taken too long.
    pub(super) fn give_up_late(&mut self) -> Option<(Resize, Cause)> {
        let current = self.current.take_if(|current| Instant::now() >= current.deadline)?;
        self.given_up.push((current.number, current.thread));
        let detail = format!(
            "MPI has not come back from the start within {} s: what was started is no program of it, or has ended",
            current.limit.as_secs()
        );
        Some((current.resize, Cause::new(CauseKind::SpawnFailed, detail)))
    }
}
