//! Data without a pattern: the program decides which bytes go to which rank.

use std::collections::BTreeMap;

use quo::group::{Group as _, GroupError, WaitLimits};
use quo_mpi::{MpiGroup, Transfer};

use super::message::TAG_OF_CARRIED;
use super::pieces::{Pieces, send_numbers};

/// Sizes of the old and new world, and this process's ranks in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seats {
    /// Number of old ranks.
    pub old_size: usize,
    /// Number of new ranks.
    pub new_size: usize,
    /// Rank of this process among the old ones; `None` for a joiner.
    pub old_rank: Option<usize>,
    /// Rank among the new ones; `None` for a leaver.
    pub new_rank: Option<usize>,
}

/// Moves data of the program's own kind. Every process that can become a rank registers it under
/// the same name, with [`Registry::carry`](super::Registry::carry), before it takes part in a
/// resize.
pub trait Carry {
    /// Called on old ranks: returns the bytes for each new rank that gets any, including this one.
    /// The process's old data remain until [`end_transfer`](Self::end_transfer).
    ///
    /// # Errors
    /// The reason with which the move fails on all ranks.
    fn give(&mut self, seats: &Seats) -> Result<Vec<(usize, Vec<u8>)>, String>;

    /// Called on new ranks with the received pieces and the old ranks that sent them, in ascending
    /// order. The pieces take effect only with [`end_transfer`](Self::end_transfer).
    ///
    /// # Errors
    /// As [`give`](Self::give).
    fn take(&mut self, seats: &Seats, pieces: Vec<(usize, Vec<u8>)>) -> Result<(), String>;

    /// Called when the resize is over: if it was committed, the taken pieces take effect; otherwise
    /// they are discarded.
    fn end_transfer(&mut self, committed: bool);
}

/// Sends the sizes of pieces of callbacks to new ranks, and returns by callback the other old ranks that
/// send to this process, and the sizes. `places` are the new ranks in the group. Collective.
pub(super) fn incoming(
    group: &MpiGroup,
    given: &[Pieces],
    places: &[usize],
    limits: &WaitLimits<'_>,
) -> Result<Vec<Vec<(usize, usize)>>, GroupError> {
    // Sizes by place: 0 for none, so one more than the size.
    let mut lists: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (callback, pieces) in given.iter().enumerate() {
        for (rank, piece) in pieces {
            if let Some(place) = places.get(*rank).filter(|place| **place != group.rank()) {
                let sizes = lists.entry(*place).or_insert_with(|| vec![0; given.len()]);
                sizes[callback] = piece.len() as u64 + 1;
            }
        }
    }
    let lists: Vec<_> = lists.into_iter().collect();
    let received = send_numbers(group, &lists, given.len(), limits)?;
    let of_callback = |callback: usize| {
        let sizes = received.iter().map(|(old, sizes)| (*old, sizes[callback]));
        sizes.filter_map(|(old, size)| Some((old, size.checked_sub(1)? as usize))).collect()
    };
    Ok((0..given.len()).map(of_callback).collect())
}

/// Pieces that one callback sends and receives.
#[derive(Debug)]
pub(super) struct Carried {
    pub callback: usize,
    sent: Vec<Transfer>,
    /// The sender's old rank; a piece that stayed on this rank has no transfer.
    received: Vec<(usize, Result<Transfer, Vec<u8>>)>,
    pub bytes_sent: usize,
}

impl Carried {
    /// Starts all transfers at once; each rank begins with its right neighbour. `places` are the
    /// new ranks in the group, `given` this rank's pieces, `room` the memory for the piece of each
    /// other rank.
    pub fn begin(
        group: &MpiGroup,
        callback: usize,
        (me, mine): (usize, Option<usize>),
        places: &[usize],
        given: Pieces,
        room: Pieces,
    ) -> Result<Self, GroupError> {
        let tag = TAG_OF_CARRIED + (callback % 1024) as u16;
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut bytes_sent = 0;
        for (old, room) in room {
            received.push((old, Ok(group.begin_receive(old, room, tag)?)));
        }
        let mut given = given;
        let count = places.len().max(1);
        given.sort_by_key(|&(rank, _)| (rank + count - me % count) % count);
        for (rank, bytes) in given {
            if Some(rank) == mine {
                received.push((me, Err(bytes)));
            } else if let Some(&place) = places.get(rank) {
                bytes_sent += bytes.len();
                sent.push(group.begin_send(place, bytes, tag)?);
            }
        }
        received.sort_by_key(|&(old, _)| old);
        Ok(Self { callback, sent, received, bytes_sent })
    }

    /// Returns true if all transfers are done.
    pub fn test(&mut self) -> Result<bool, GroupError> {
        let mut done = true;
        for transfer in &mut self.sent {
            done &= transfer.test()?;
        }
        for (_, transfer) in &mut self.received {
            if let Ok(transfer) = transfer {
                done &= transfer.test()?;
            }
        }
        Ok(done)
    }

    /// Returns the pieces received, once all transfers are done.
    pub fn pieces(self, limits: &WaitLimits<'_>) -> Result<Vec<(usize, Vec<u8>)>, GroupError> {
        for transfer in self.sent {
            transfer.finish(limits)?;
        }
        let each = self.received.into_iter().map(|(old, transfer)| match transfer {
            Ok(transfer) => Ok((old, transfer.finish(limits)?)),
            Err(bytes) => Ok((old, bytes)),
        });
        each.collect()
    }
}
