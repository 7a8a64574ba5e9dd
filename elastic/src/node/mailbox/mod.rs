//! Shared memory of a node's processes, whether they run, sleep or are about to join, and the
//! agents' mail to them.
//!
//! Every live process of the job has a place in the mailbox of its node: a slot and a doorbell of
//! its own, and the common signal and mailbox. Agents write the mailbox and the signal; see
//! [`crate::model::round`] for how the signal is read.

mod words;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quo::Context;

use crate::model::order::Seat;
use crate::model::round::{Hold, Interrupted, Probe, floor, probe};
use crate::observe::measured::LoopFigures;
use words::{Words, sleep, wake};

/// Time that a sleeper sleeps before it checks that the other processes of its node are alive.
const SLICE: Duration = Duration::from_millis(350);

/// Largest size in bytes of an agent's message to the processes of its node.
pub(crate) const MAIL_BYTES: usize = words::MAIL_BYTES;

impl Seat {
    const ASLEEP: u32 = u32::MAX;

    fn encode(self) -> u32 {
        match self {
            Self::Unsaid => 0,
            Self::Asleep => Self::ASLEEP,
            Self::Rank(rank) => u32::try_from(rank + 1).unwrap_or(0),
        }
    }

    fn decode(word: u32) -> Self {
        match word {
            0 => Self::Unsaid,
            Self::ASLEEP => Self::Asleep,
            word => Self::Rank(word as usize - 1),
        }
    }
}

/// Errors of a process that uses the mailbox of its node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MailboxError {
    /// A process of the node has ended without [`World::end`](crate::World::end).
    #[error("rank {0} ended without ending the world")]
    Dead(usize),
    /// The deadline has passed.
    #[error("timed out waiting for the coordinator")]
    Late,
    /// An order is longer than the mailbox.
    #[error("an order of {0} bytes is longer than the mailbox of {MAIL_BYTES} bytes")]
    TooLong(usize),
    /// The shared memory is not available.
    #[error("shared memory of the node: {0}")]
    Memory(String),
}

/// The mailbox of this node, and this process's place in it.
#[derive(Debug)]
pub(crate) struct NodeMailbox {
    context: Context,
    words: Words,
    own: usize,
}

impl NodeMailbox {
    /// Makes the mailbox over a context of all live processes. Collective over the context.
    pub(crate) fn open(context: Context) -> Result<Self, MailboxError> {
        let own = context.node_rank();
        let failed = |error: quo::Error| match error {
            quo::Error::DeadMember { ranks, .. } if !ranks.is_empty() => {
                MailboxError::Dead(ranks[0])
            }
            error => MailboxError::Memory(error.to_string()),
        };
        let memory = context.allocate(Words::bytes(own)).map_err(failed)?;
        let (found, processes) = (memory.all().len(), context.node_size());
        let words = Words::of(memory, processes).ok_or_else(|| {
            MailboxError::Memory(format!("{found} bytes do not fit {processes} processes"))
        })?;
        // No process reads another one's words before all are present.
        context.barrier().map_err(failed)?;
        Ok(Self { context, words, own })
    }

    /// Returns the context of all live processes.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Makes one probe of a running rank.
    ///
    /// # Errors
    /// [`MailboxError::Dead`] while the round is not agreed and a process of the node has ended.
    #[inline]
    pub(crate) fn probe(&self, round: u64) -> Result<Probe, MailboxError> {
        let mut held = Held { mailbox: self, dead: None };
        probe(self.words.signal(), self.words.slot(self.own), round, &mut held)
            .map_err(|Interrupted| MailboxError::Dead(self.name_of(held.dead.unwrap_or(self.own))))
    }

    /// Resets the round before the first probe of an epoch.
    pub(crate) fn reset_round(&self) {
        self.words.slot(self.own).reset();
    }

    /// Raises the signal, and returns the first round that none of these ranks of the node can have
    /// passed. For the agent.
    pub(crate) fn raise(&self, running: &[usize]) -> u64 {
        self.words.signal().raise();
        floor(running.iter().map(|&member| self.words.slot(member)))
    }

    /// Returns which of these ranks of the node have not reached a round yet. For the agent.
    pub(crate) fn late(&self, round: u64, running: &[usize]) -> Vec<usize> {
        let is_late = |member: &usize| self.words.slot(*member).round() < round;
        running.iter().copied().filter(is_late).collect()
    }

    /// Publishes the agreed round. For the agent.
    pub(crate) fn tell_round(&self, round: u64) {
        self.words.signal().tell(round);
        wake(self.words.signal_half());
    }

    /// Lowers the signal: nothing is pending any more. For the agent.
    pub(crate) fn lower(&self) {
        self.words.signal().lower();
        wake(self.words.signal_half());
    }

    /// Puts an order into the mailbox, where it remains until the next one. For the agent.
    ///
    /// # Errors
    /// [`MailboxError::TooLong`].
    pub(crate) fn post(&self, order: &[u8]) -> Result<(), MailboxError> {
        if self.words.write_mail(order) { Ok(()) } else { Err(MailboxError::TooLong(order.len())) }
    }

    /// Returns the content of the mailbox.
    pub(crate) fn mail(&self) -> Vec<u8> {
        self.words.read_mail()
    }

    /// Number of rings for this process.
    pub(crate) fn rings(&self) -> u32 {
        self.words.rings(self.own)
    }

    /// Rings for a process of the node.
    pub(crate) fn ring(&self, member: usize) {
        wake(self.words.count_ring(member));
    }

    /// Sleeps until there are more than `seen` rings for this process.
    ///
    /// # Errors
    /// [`MailboxError::Late`], [`MailboxError::Dead`].
    pub(crate) fn wait_for_ring(
        &self,
        seen: u32,
        deadline: Option<Instant>,
    ) -> Result<u32, MailboxError> {
        loop {
            let now = self.rings();
            if now != seen {
                return Ok(now);
            }
            let left = deadline.map_or(SLICE, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(MailboxError::Late);
            }
            sleep(self.words.bell(self.own), seen, left.min(SLICE));
            self.check_members()?;
        }
    }

    /// Reports that this process is ready to join with a resize.
    pub(crate) fn say_ready(&self, resize: u64) {
        let ready = self.words.ready(self.own);
        ready.store(resize as u32, Ordering::Release);
        wake(ready);
    }

    /// Sleeps until a process of the node is ready to join with a resize. For the agent.
    ///
    /// # Errors
    /// [`MailboxError::Late`], [`MailboxError::Dead`].
    pub(crate) fn wait_until_ready(
        &self,
        member: usize,
        resize: u64,
        deadline: Instant,
    ) -> Result<(), MailboxError> {
        let word = self.words.ready(member);
        loop {
            let seen = word.load(Ordering::Acquire);
            if seen == resize as u32 {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(MailboxError::Late);
            }
            sleep(word, seen, left.min(SLICE));
            self.check_members()?;
            // It has not reported that it is awake.
            if self.dead().contains(&member) {
                return Err(MailboxError::Dead(self.name_of(member)));
            }
        }
    }

    /// Publishes the loops of this process.
    pub(crate) fn tell_loops(&self, epoch: u64, loops: &[LoopFigures]) {
        self.words.write_loops(self.own, epoch, loops);
    }

    /// Returns the loops that a process of the node has published in an epoch. For the agent.
    pub(crate) fn loops(&self, member: usize, epoch: u64) -> Option<Vec<LoopFigures>> {
        self.words.read_loops(member, epoch)
    }

    /// Publishes the state of this process.
    pub(crate) fn sit(&self, seat: Seat) {
        self.words.seat(self.own).store(seat.encode(), Ordering::Release);
    }

    /// Releases the seats of processes of the node that have ended, so that no process waits for
    /// them. For the agent.
    pub(crate) fn remove_dead_sleepers(&self, members: &[usize]) {
        let dead = self.dead();
        for &member in members.iter().filter(|member| dead.contains(member)) {
            self.words.seat(member).store(Seat::Asleep.encode(), Ordering::Release);
        }
    }

    /// Node ranks of the processes that have ended without [`World::end`](crate::World::end).
    pub(crate) fn dead(&self) -> Vec<usize> {
        self.context.dead_node_ranks()
    }

    /// Node ranks of the processes that have ended the world.
    pub(crate) fn departed(&self) -> Vec<usize> {
        self.context.left_node_ranks()
    }

    /// As [`dead`](Self::dead), without processes that were asleep.
    pub(crate) fn missed(&self) -> Vec<usize> {
        let mut dead = self.dead();
        dead.retain(|&member| self.seat(member) != Seat::Asleep);
        dead
    }

    /// Records for the guards of the node that the job has to end because of a rank, and whether
    /// that has been reported.
    pub(crate) fn note_loss(&self, rank: usize, is_said: bool) {
        let rank = u32::try_from(rank).unwrap_or(0).saturating_add(1);
        if is_said {
            self.words.said().store(1, Ordering::Release);
        }
        let loss = self.words.loss();
        // The first loss counts.
        let _ = loss.compare_exchange(0, rank, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns the rank because of which the job has to end, and whether the caller has to report
    /// it.
    pub(crate) fn find_loss(&self) -> Option<(usize, bool)> {
        if self.words.loss().load(Ordering::Acquire) == 0 {
            self.note_loss(self.name_of(*self.missed().first()?), false);
        }
        let rank = self.words.loss().load(Ordering::Acquire) as usize - 1;
        let said = self.words.said().compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
        Some((rank, said.is_ok()))
    }

    /// State of a process of the node.
    fn seat(&self, member: usize) -> Seat {
        Seat::decode(self.words.seat(member).load(Ordering::Acquire))
    }

    /// Returns the rank of a process of the node among all live ones.
    pub(crate) fn process_of(&self, member: usize) -> usize {
        self.context.rank_of(member).unwrap_or(member)
    }

    /// Returns the number that identifies a process of the node in messages: its rank in the world,
    /// or else among all live ones.
    pub(crate) fn name_of(&self, member: usize) -> usize {
        match self.seat(member) {
            Seat::Rank(rank) => rank,
            Seat::Unsaid | Seat::Asleep => self.process_of(member),
        }
    }

    fn check_members(&self) -> Result<(), MailboxError> {
        match self.missed().first() {
            Some(&dead) => Err(MailboxError::Dead(self.name_of(dead))),
            None => Ok(()),
        }
    }
}

/// A rank that waits until the round is agreed.
struct Held<'a> {
    mailbox: &'a NodeMailbox,
    dead: Option<usize>,
}

impl Hold<std::sync::atomic::AtomicU64> for Held<'_> {
    fn hold(&mut self, _: &std::sync::atomic::AtomicU64) -> Result<(), Interrupted> {
        sleep(self.mailbox.words.signal_half(), u32::MAX, SLICE);
        match self.mailbox.missed().first() {
            Some(&dead) => {
                self.dead = Some(dead);
                Err(Interrupted)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_survive_their_encoding() {
        for seat in [Seat::Unsaid, Seat::Asleep, Seat::Rank(0), Seat::Rank(70_000)] {
            assert_eq!(Seat::decode(seat.encode()), seat);
        }
        assert_eq!(Seat::decode(0), Seat::Unsaid, "memory begins with zeros");
    }
}
