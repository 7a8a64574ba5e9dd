//! A move of all arrays from beginning to end.

use std::time::{Duration, Instant};

use quo::group::{Group, GroupError, WaitLimits};
use quo_mpi::MpiGroup;

use super::array_transfer::{ArrayTransfer, Neighbours};
use super::block::{Block, ProcessToken, TokenLocation};
use super::carry::{Carried, incoming};
use super::matrix::Matrix;
use super::message::{
    Agreed, Described, Descriptors, HeldArrays, MoveReadiness, Moved, Participants, TAG_OF_CARRIED,
    TransferReport, agreed, first_reason,
};
use super::pieces::{PassError, Pieces, Refusal, agree, room};
use super::registry::{Entry, Registry, State, Transport};
use super::{DataError, Seats};
use crate::layout::{Ranks, Schedule};

/// Polls without progress before the process yields its core.
const EAGER: u32 = 200;
const YIELDS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);
/// Naps between two checks that all processes are alive.
const NAPS_PER_LOOK: u32 = 64;

/// A move under way. The old arrays can be read meanwhile; dropping the move waits for its end and
/// aborts the resize.
#[derive(Debug)]
pub struct Move<'a> {
    registry: &'a mut Registry,
    group: MpiGroup,
    change: Participants,
    me: usize,
    seats: Seats,
    places: Vec<Option<TokenLocation>>,
    /// By array, then by process.
    parts: Vec<Vec<Descriptors>>,
    arrays: Vec<Entry>,
    next: u64,
    transfers: Vec<ArrayTransfer>,
    current: usize,
    carried: Vec<Carried>,
    failure: Option<String>,
    begun: Instant,
    ended: bool,
}

/// Memory, schedules and pieces of one rank.
struct Prepared {
    schedules: Vec<Schedule>,
    arrays: Vec<Entry>,
    given: Vec<Pieces>,
}

/// A move on which all processes have agreed.
struct Begun {
    prepared: Prepared,
    /// As in [`Move`].
    places: Vec<Option<TokenLocation>>,
    /// As in [`Move`].
    parts: Vec<Vec<Descriptors>>,
    next: u64,
    /// Memory for the pieces of other ranks, by callback.
    room: Vec<Pieces>,
}

impl<'a> Move<'a> {
    /// Begins a move. Collective over the group. If it fails, the resize can only be aborted.
    pub(crate) fn begin(
        registry: &'a mut Registry,
        group: MpiGroup,
        change: Participants,
    ) -> Result<Self, DataError> {
        let begun = Instant::now();
        let me = group.rank();
        let seats = Seats {
            old_size: change.old,
            new_size: change.new.len(),
            old_rank: (me < change.old).then_some(me),
            new_rank: change.new.iter().position(|&place| place == me),
        };
        let Begun { prepared, places, parts, next, room } =
            registry.begin_move(&group, &change, &seats).inspect_err(|error| {
                // Data that were moved in this window before remain as they are.
                if matches!(registry.state, State::Before) {
                    registry.state = State::Failed(error.to_string());
                }
            })?;
        let mut this = Self {
            places,
            parts,
            transfers: prepared
                .schedules
                .iter()
                .map(|schedule| ArrayTransfer::of(schedule, me))
                .collect(),
            arrays: prepared.arrays,
            next,
            current: 0,
            carried: Vec::new(),
            failure: None,
            begun,
            ended: false,
            registry,
            group,
            change,
            me,
            seats,
        };
        this.carry(prepared.given, room)?;
        Ok(this)
    }

    fn carry(&mut self, given: Vec<Pieces>, room: Vec<Pieces>) -> Result<(), DataError> {
        for (callback, (given, room)) in given.into_iter().zip(room).enumerate() {
            let who = (self.me, self.seats.new_rank);
            let places = &self.change.new;
            let carried = Carried::begin(&self.group, callback, who, places, given, room)?;
            self.carried.push(carried);
        }
        Ok(())
    }

    /// Returns the arrays as they were, which can be read during the move. Local.
    #[must_use]
    pub fn old(&self) -> &Registry {
        self.registry
    }

    /// Moves data that need no wait, at most a few megabytes, and returns true if this process is
    /// done. Local.
    ///
    /// # Errors
    /// [`DataError::Group`].
    pub fn test(&mut self) -> Result<bool, DataError> {
        let mut moved = true;
        for _ in 0..4 {
            if self.is_done()? || !moved {
                break;
            }
            if let Some(entry) = self.arrays.get_mut(self.current) {
                entry.block.keep_small();
            }
            moved = self.progress()?;
        }
        self.is_done()
    }

    fn is_done(&mut self) -> Result<bool, DataError> {
        let mut done = self.current == self.transfers.len();
        for carried in &mut self.carried {
            done &= carried.test()?;
        }
        Ok(done)
    }

    fn progress(&mut self) -> Result<bool, GroupError> {
        let Some(transfer) = self.transfers.get_mut(self.current) else { return Ok(false) };
        let with = Neighbours {
            group: &self.group,
            places: &self.places,
            parts: &self.parts[self.current],
            tag: (self.current % usize::from(TAG_OF_CARRIED)) as u16,
        };
        let old = self.registry.entries.get(self.current);
        let old = old.map_or(&[][..], Entry::held);
        let mut nothing = Block::nothing();
        let new = self.arrays.get_mut(self.current);
        let new = new.map_or(&mut nothing, |entry| &mut entry.block);
        let moved = transfer.progress(old, new, &with, &mut self.failure)?;
        if transfer.is_done() {
            self.current += 1;
            return Ok(true);
        }
        Ok(moved)
    }

    /// Waits until the data of all processes are at their place. They take effect with the commit.
    /// Collective over all ranks of the window.
    ///
    /// # Errors
    /// [`DataError::Failed`], the same on all ranks; [`DataError::Group`].
    pub fn finish(mut self) -> Result<Moved, DataError> {
        self.end(None)
    }

    fn end(&mut self, reason: Option<String>) -> Result<Moved, DataError> {
        self.ended = true;
        let result = self.arrive(reason);
        self.registry.state = match &result {
            Ok(moved) => {
                self.registry.last = Some(moved.clone());
                State::Moved { arrays: std::mem::take(&mut self.arrays), next: self.next }
            }
            Err(error) => State::Failed(error.to_string()),
        };
        result
    }

    fn arrive(&mut self, reason: Option<String>) -> Result<Moved, DataError> {
        let (mut idle, mut last) = (0_u32, Instant::now());
        while !self.is_done()? {
            if self.progress()? {
                (idle, last) = (0, Instant::now());
                continue;
            }
            idle = idle.saturating_add(1);
            if idle > EAGER + YIELDS {
                std::thread::sleep(NAP);
                if idle.is_multiple_of(NAPS_PER_LOOK) {
                    self.change.liveness.check()?;
                }
                if last.elapsed() > self.change.patience {
                    return Err(GroupError::Late { call: "move" }.into());
                }
            } else if idle > EAGER {
                std::thread::yield_now();
            }
        }
        let mut report =
            TransferReport { reason: reason.or(self.failure.take()), ..TransferReport::default() };
        for transfer in &self.transfers {
            report.sent += transfer.counts.sent as u64;
            report.shared += transfer.counts.shared as u64;
            report.kept += transfer.counts.kept as u64;
        }
        for carried in std::mem::take(&mut self.carried) {
            report.sent += carried.bytes_sent as u64;
            let callback = carried.callback;
            let pieces = |limits: &WaitLimits<'_>| carried.pieces(limits);
            let pieces = self.change.liveness.within(self.change.patience, pieces)?;
            if self.seats.new_rank.is_none() {
                continue;
            }
            if let Some((name, taker)) = self.registry.carriers().nth(callback)
                && let Err(reason) = taker.take(&self.seats, pieces)
            {
                report.reason.get_or_insert(format!("`{name}`: {reason}"));
            }
        }
        if let Err(error) = self.registry.grow_vectors(&mut self.arrays) {
            report.reason.get_or_insert(error.to_string());
        }
        let all = self.change.exchange(&self.group, &report)?;
        first_reason(all.iter().map(|report| &report.reason))?;
        let sum = |of: fn(&TransferReport) -> u64| all.iter().map(of).sum();
        Ok(Moved {
            arrays: self.transfers.len() + self.registry.carriers().count(),
            steps: self.transfers.iter().map(|transfer| transfer.counts.steps).sum(),
            sent: report.sent,
            shared: report.shared,
            kept: report.kept,
            all_sent: sum(|report| report.sent),
            all_shared: sum(|report| report.shared),
            all_kept: sum(|report| report.kept),
            seconds: self.begun.elapsed().as_secs_f64(),
        })
    }
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // The other processes wait for this one's data.
            let _ = self.end(Some("a move was left before its end".to_owned()));
        }
    }
}

impl Registry {
    /// Agrees with all processes on what is moved, and prepares it. Collective over the group.
    fn begin_move(
        &mut self,
        group: &MpiGroup,
        change: &Participants,
        seats: &Seats,
    ) -> Result<Begun, DataError> {
        let (me, size) = (group.rank(), group.size());
        let holds = self.holds(change.node, seats.old_rank.is_some());
        let all = change.exchange(group, &holds)?;
        let Agreed { arrays: mut described, matrices, next } = agreed("move", &all)?;
        if seats.old_rank.is_none() {
            self.matrices = matrices.into_iter().map(Matrix::without_rows).collect();
        }
        let complete =
            |limits: &WaitLimits<'_>| self.complete(&mut described, group, change.old, limits);
        change.liveness.within(change.patience, complete)?;
        let (prepared, reason) = match self.prepare(&described, change, seats) {
            Ok(prepared) => (Some(prepared), None),
            Err(reason) => (None, Some(reason)),
        };
        let ready = MoveReadiness {
            reason,
            parts: self.parts(&described, prepared.as_ref()),
            invisible: self.invisible(&all, me),
        };
        let readies = change.exchange(group, &ready)?;
        first_reason(readies.iter().map(|ready| &ready.reason))?;
        let Some(prepared) = prepared else {
            return Err(DataError::InvalidState {
                reason: "this rank is not ready to move, without a reason",
            });
        };
        let room = self.room_for(group, change, &prepared.given)?;
        let is_near = |other: usize| {
            let sees = |one: &MoveReadiness, two| !one.invisible.contains(&two);
            all[other].node == holds.node && sees(&readies[me], other) && sees(&readies[other], me)
        };
        let places = (0..size).map(|other| all[other].token.filter(|_| is_near(other))).collect();
        let of_array = |array: usize| {
            let parts = readies.iter().map(|ready| ready.parts.get(array).copied());
            parts.map(Option::unwrap_or_default).collect()
        };
        let parts = (0..described.len()).map(of_array).collect();
        Ok(Begun { prepared, places, parts, next, room })
    }

    fn holds(&mut self, node: usize, was_rank: bool) -> HeldArrays {
        if self.token.is_none() {
            self.token = ProcessToken::make();
        }
        let exchanging = self.exchanging().map(|name| {
            format!("an exchange of the ghost cells of `{name}` has begun: end it before a resize")
        });
        let reason = match self.is_moved() {
            Ok(false) => exchanging,
            Ok(true) => Some("the data have been moved in this window".to_owned()),
            Err(reason) => Some(reason),
        };
        HeldArrays {
            node: node as u64,
            token: self.token.as_ref().map(ProcessToken::place),
            arrays: was_rank
                .then(|| self.entries.iter().map(|entry| entry.described.clone()).collect()),
            matrices: self.matrices.iter().map(|matrix| matrix.described.clone()).collect(),
            next: self.next,
            callbacks: self.carried().map(str::to_owned).collect(),
            items: self.items.iter().map(|items| (items.name.clone(), items.element)).collect(),
            reason,
        }
    }

    /// Prepares memory for all incoming data, and the pieces of callbacks. Local.
    fn prepare(
        &mut self,
        described: &[Described],
        change: &Participants,
        seats: &Seats,
    ) -> Result<Prepared, String> {
        let ranks = Ranks::list(change.new.iter().copied()).map_err(|error| error.to_string())?;
        let (mut schedules, mut arrays) = (Vec::new(), Vec::new());
        for array in described {
            let failed = |error| format!("array `{}`: {error}", array.name);
            let next = array.next.unwrap_or(array.pattern);
            let old = array.over(array.pattern, Ranks::first(change.old)).map_err(failed)?;
            let new = array.over(next, ranks.clone()).map_err(failed)?;
            schedules.push(Schedule::between(&old, &new, array.element).map_err(failed)?);
            if let Some(rank) = seats.new_rank {
                let described = Described { pattern: next, next: None, ..array.clone() };
                let entry = Entry::new("move", described, rank, seats.new_size);
                arrays.push(entry.map_err(|error| error.to_string())?);
            }
        }
        let mut given = Vec::new();
        for (name, giver) in self.carriers() {
            let mut pieces = Vec::new();
            if seats.old_rank.is_some() {
                pieces = giver.give(seats).map_err(|why| format!("`{name}`: {why}"))?;
            }
            let mut ranks: Vec<usize> = pieces.iter().map(|&(rank, _)| rank).collect();
            ranks.sort_unstable();
            let is_twice = ranks.windows(2).any(|pair| pair[0] == pair[1]);
            if is_twice || ranks.last().is_some_and(|&rank| rank >= seats.new_size) {
                let size = seats.new_size;
                return Err(format!(
                    "`{name}` gives to ranks {ranks:?}: each of {size} new ranks at most once"
                ));
            }
            given.push(pieces);
        }
        Ok(Prepared { schedules, arrays, given })
    }

    /// Returns memory for the pieces of other ranks, by callback, if all processes have theirs.
    /// Collective over the group.
    fn room_for(
        &mut self,
        group: &MpiGroup,
        change: &Participants,
        given: &[Pieces],
    ) -> Result<Vec<Pieces>, DataError> {
        if given.is_empty() {
            return Ok(Vec::new());
        }
        change.liveness.within(change.patience, |limits| {
            let sizes = incoming(group, given, &change.new, limits)?;
            let each = self.carriers().zip(sizes).map(|((name, _), sizes)| {
                let unfit = |refusal| Refusal::Unfit(format!("`{name}`: {refusal}"));
                room(sizes).map_err(unfit)
            });
            agree("move", group, each.collect(), 0, limits).map_err(|error| match error {
                PassError::Refused { rank, refusal } => {
                    DataError::Failed { rank, reason: refusal.to_string() }
                }
                PassError::Group(error) => error.into(),
            })
        })
    }

    fn parts(&self, described: &[Described], prepared: Option<&Prepared>) -> Vec<Descriptors> {
        // Other processes open memory by the size of the part, which ghosts exceed.
        let descriptor = |entry: &Entry| entry.block.descriptor().filter(|_| entry.ghosts == 0);
        let each = (0..described.len()).map(|array| Descriptors {
            old: self.entries.get(array).and_then(descriptor),
            new: prepared.and_then(|all| all.arrays.get(array)).and_then(descriptor),
        });
        each.collect()
    }

    /// Returns processes of this node with memory that this process cannot map, or must not use.
    fn invisible(&self, all: &[HeldArrays], me: usize) -> Vec<usize> {
        let node = all[me].node;
        let others = all.iter().enumerate().filter(|(other, holds)| {
            *other != me
                && holds.node == node
                && (self.transport == Transport::Messages
                    || !holds.token.is_some_and(|place| place.is_visible()))
        });
        others.map(|(other, _)| other).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;
    use crate::layout::Halo;

    #[test]
    fn exchange_under_way_keeps_arrays_from_moving() {
        let mut registry = Registry::serial();
        let pattern = Pattern::halo([1, 1, 4], [Halo::NONE, Halo::NONE, Halo::periodic(1)]);
        registry.register::<f64>("ring", pattern).unwrap();
        assert_eq!(registry.holds(0, true).reason, None);
        registry.begin_exchange("begin", "ring").unwrap();
        let reason = registry.holds(0, true).reason.unwrap();
        assert!(reason.contains("`ring`") && reason.contains("end it before"), "{reason}");
    }
}
