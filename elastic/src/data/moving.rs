//! A move of all arrays from beginning to end.

use std::time::{Duration, Instant};

use quo::group::{Group, GroupError};
use quo_mpi::MpiGroup;
use serde::{Deserialize, Serialize};

use super::block::{Beacon, Block, Place};
use super::carry::Carried;
use super::lane::{Lane, Neighbours};
use super::registry::{Entry, Registry, State, Transport};
use super::words::{Described, Holds, Parts, Ready, Went, agreed, exchange, first_reason};
use super::{DataError, Seats};
use crate::layout::{Ranks, Schedule};
use crate::node::liveness::{LivenessCheck, wait_limits};

/// Arrays have the tags below this one.
pub(super) const TAG_OF_CARRIED: u16 = 1 << 14;
/// Callbacks have the tags below this one.
pub(super) const TAG_OF_INDICES: u16 = TAG_OF_CARRIED + 1024;
/// Polls without progress before the process yields its core.
const EAGER: u32 = 200;
const YIELDS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);
/// Naps between two checks that all processes are alive.
const NAPS_PER_LOOK: u32 = 64;

/// Result of a move: bytes of this process and of all processes, and the duration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Number of arrays and callbacks.
    pub arrays: usize,
    /// Number of steps of all schedules.
    pub steps: usize,
    /// Bytes that this process had for other processes.
    pub sent: u64,
    /// Bytes that this process has copied from the memory of other processes.
    pub shared: u64,
    /// Bytes that stayed on this process and were copied to their new place.
    pub kept: u64,
    /// Bytes that all processes had for other processes.
    pub all_sent: u64,
    /// Part of them that went through shared memory.
    pub all_shared: u64,
    /// Bytes that stayed on their process, over all processes.
    pub all_kept: u64,
    /// Seconds from the beginning of the move to the agreement that it is done.
    pub seconds: f64,
}

/// Ranks of a group between which arrays move. The old ranks are the first ranks of the group.
#[derive(Clone, Debug)]
pub struct Participants {
    /// Number of old ranks.
    pub old: usize,
    /// Rank in the group of each new rank.
    pub new: Vec<usize>,
    /// Index of this process's node.
    pub node: usize,
    /// The longest time without progress before the move fails.
    pub patience: Duration,
    /// The processes that must stay alive: a death fails the move.
    pub liveness: LivenessCheck,
}

impl Participants {
    fn tell<T: Serialize + for<'b> Deserialize<'b>>(
        &self,
        group: &MpiGroup,
        mine: &T,
    ) -> Result<Vec<T>, GroupError> {
        self.liveness.within(self.patience, |limits| exchange("move", group, mine, limits))
    }
}

/// A move under way. The old arrays can be read meanwhile; dropping the move waits for its end and
/// gives the resize up.
#[derive(Debug)]
pub struct Move<'a> {
    registry: &'a mut Registry,
    group: MpiGroup,
    change: Participants,
    me: usize,
    seats: Seats,
    places: Vec<Option<Place>>,
    /// By array, then by process.
    parts: Vec<Vec<Parts>>,
    arrays: Vec<Entry>,
    next: u64,
    lanes: Vec<Lane>,
    current: usize,
    carried: Vec<Carried>,
    failure: Option<String>,
    begun: Instant,
    ended: bool,
}

struct Prepared {
    schedules: Vec<Schedule>,
    arrays: Vec<Entry>,
    given: Vec<Vec<(usize, Vec<u8>)>>,
}

impl<'a> Move<'a> {
    /// Begins a move. Collective over the group.
    pub(crate) fn begin(
        registry: &'a mut Registry,
        group: MpiGroup,
        change: Participants,
    ) -> Result<Self, DataError> {
        let begun = Instant::now();
        let (me, size) = (group.rank(), group.size());
        let seats = Seats {
            old_size: change.old,
            new_size: change.new.len(),
            old_rank: (me < change.old).then_some(me),
            new_rank: change.new.iter().position(|&place| place == me),
        };
        let holds = registry.holds(change.node, seats.old_rank.is_some());
        let all = change.tell(&group, &holds)?;
        let (mut described, next) = agreed(&all)?;
        registry.complete(&mut described, &group, &change)?;
        let prepared = registry.prepare(&described, &change, &seats);
        let (prepared, reason) = match prepared {
            Ok(prepared) => (Some(prepared), None),
            Err(reason) => (None, Some(reason)),
        };
        let ready = Ready {
            reason,
            parts: registry.parts(&described, prepared.as_ref()),
            out_of_sight: registry.out_of_sight(&all, me),
            given: prepared
                .iter()
                .flat_map(|prepared| &prepared.given)
                .map(|given| sizes(given))
                .collect(),
        };
        let readies = change.tell(&group, &ready)?;
        first_reason(readies.iter().map(|ready| &ready.reason))?;
        let Some(prepared) = prepared else {
            return Err(DataError::InvalidState {
                reason: "this rank is not ready to move, without a reason",
            });
        };
        let is_near = |other: usize| {
            let sees = |one: &Ready, two| !one.out_of_sight.contains(&two);
            all[other].node == holds.node && sees(&readies[me], other) && sees(&readies[other], me)
        };
        let places = (0..size).map(|other| all[other].beacon.filter(|_| is_near(other)));
        let parts = (0..described.len()).map(|array| {
            readies
                .iter()
                .map(|ready| ready.parts.get(array).copied().unwrap_or_default())
                .collect()
        });
        let mut this = Self {
            places: places.collect(),
            parts: parts.collect(),
            lanes: prepared.schedules.iter().map(|schedule| Lane::of(schedule, me)).collect(),
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
        this.carry(prepared.given, &readies)?;
        Ok(this)
    }

    fn carry(
        &mut self,
        given: Vec<Vec<(usize, Vec<u8>)>>,
        readies: &[Ready],
    ) -> Result<(), DataError> {
        for callback in 0..self.registry.callbacks.len() {
            let mine = given.get(callback).cloned().unwrap_or_default();
            let mut sizes = Vec::new();
            for (old, ready) in readies.iter().enumerate() {
                let given = ready.given.get(callback).into_iter().flatten();
                let to_me = given.filter(|(rank, _)| Some(*rank) == self.seats.new_rank);
                sizes.extend(to_me.map(|&(_, bytes)| (old, bytes)));
            }
            let who = (self.me, self.seats.new_rank);
            let places = &self.change.new;
            let carried = Carried::begin(&self.group, callback, who, places, mine, &sizes)?;
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
            moved = self.go_on()?;
        }
        self.is_done()
    }

    fn is_done(&mut self) -> Result<bool, DataError> {
        let mut done = self.current == self.lanes.len();
        for carried in &mut self.carried {
            done &= carried.test()?;
        }
        Ok(done)
    }

    fn go_on(&mut self) -> Result<bool, GroupError> {
        let Some(lane) = self.lanes.get_mut(self.current) else { return Ok(false) };
        let with = Neighbours {
            group: &self.group,
            places: &self.places,
            parts: &self.parts[self.current],
            tag: (self.current % usize::from(TAG_OF_CARRIED)) as u16,
        };
        let old = self.registry.entries.get(self.current);
        let old = old.map_or(&[][..], |entry| entry.block.bytes());
        let mut nothing = Block::nothing();
        let new = self.arrays.get_mut(self.current);
        let new = new.map_or(&mut nothing, |entry| &mut entry.block);
        let moved = lane.go_on(old, new, &with, &mut self.failure)?;
        if lane.is_done() {
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
            if self.go_on()? {
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
        let mut went = Went { reason: reason.or(self.failure.take()), ..Went::default() };
        for lane in &self.lanes {
            went.sent += lane.counts.sent as u64;
            went.shared += lane.counts.shared as u64;
            went.kept += lane.counts.kept as u64;
        }
        for carried in std::mem::take(&mut self.carried) {
            went.sent += carried.bytes_sent as u64;
            let callback = carried.callback;
            let look = || self.change.liveness.check();
            let pieces = carried.pieces(&wait_limits(self.change.patience, &look))?;
            if self.seats.new_rank.is_none() {
                continue;
            }
            let (name, taker) = &mut self.registry.callbacks[callback];
            if let Err(reason) = taker.take(&self.seats, pieces) {
                went.reason.get_or_insert(format!("callback `{name}`: {reason}"));
            }
        }
        let all = self.change.tell(&self.group, &went)?;
        first_reason(all.iter().map(|went| &went.reason))?;
        let sum = |of: fn(&Went) -> u64| all.iter().map(of).sum();
        Ok(Moved {
            arrays: self.lanes.len() + self.registry.callbacks.len(),
            steps: self.lanes.iter().map(|lane| lane.counts.steps).sum(),
            sent: went.sent,
            shared: went.shared,
            kept: went.kept,
            all_sent: sum(|went| went.sent),
            all_shared: sum(|went| went.shared),
            all_kept: sum(|went| went.kept),
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

fn sizes(given: &[(usize, Vec<u8>)]) -> Vec<(usize, usize)> {
    given.iter().map(|(rank, bytes)| (*rank, bytes.len())).collect()
}

impl Registry {
    fn holds(&mut self, node: usize, was_rank: bool) -> Holds {
        if self.beacon.is_none() {
            self.beacon = Beacon::light();
        }
        let reason = match self.is_moved() {
            Ok(false) => None,
            Ok(true) => Some("the data have been moved in this window".to_owned()),
            Err(reason) => Some(reason),
        };
        Holds {
            node: node as u64,
            beacon: self.beacon.as_ref().map(Beacon::place),
            arrays: was_rank
                .then(|| self.entries.iter().map(|entry| entry.described.clone()).collect()),
            next: self.next,
            callbacks: self.callbacks.iter().map(|(name, _)| name.clone()).collect(),
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
        for (name, giver) in &mut self.callbacks {
            let mut pieces = Vec::new();
            if seats.old_rank.is_some() {
                pieces = giver.give(seats).map_err(|why| format!("callback `{name}`: {why}"))?;
            }
            let mut ranks: Vec<usize> = pieces.iter().map(|&(rank, _)| rank).collect();
            ranks.sort_unstable();
            let is_twice = ranks.windows(2).any(|pair| pair[0] == pair[1]);
            if is_twice || ranks.last().is_some_and(|&rank| rank >= seats.new_size) {
                let size = seats.new_size;
                return Err(format!(
                    "callback `{name}` gives to ranks {ranks:?}: each of {size} new ranks at most once"
                ));
            }
            given.push(pieces);
        }
        Ok(Prepared { schedules, arrays, given })
    }

    fn parts(&self, described: &[Described], prepared: Option<&Prepared>) -> Vec<Parts> {
        let descriptor = |entry: &Entry| entry.block.descriptor();
        let each = (0..described.len()).map(|array| Parts {
            old: self.entries.get(array).and_then(descriptor),
            new: prepared.and_then(|all| all.arrays.get(array)).and_then(descriptor),
        });
        each.collect()
    }

    /// Returns processes of this node with memory that this process cannot map, or must not use.
    fn out_of_sight(&self, all: &[Holds], me: usize) -> Vec<usize> {
        let node = all[me].node;
        let others = all.iter().enumerate().filter(|(other, holds)| {
            *other != me
                && holds.node == node
                && (self.transport == Transport::Messages
                    || !holds.beacon.is_some_and(|place| place.is_in_sight()))
        });
        others.map(|(other, _)| other).collect()
    }
}
