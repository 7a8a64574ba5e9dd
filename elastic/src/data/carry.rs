//! Data without a pattern: the program decides which bytes go to which rank.

use quo::group::{Group as _, GroupError, WaitLimits};
use quo_mpi::{MpiGroup, Transfer};

use super::message::TAG_OF_CARRIED;
use super::pieces::{Pieces, size_of_word, word_of};

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

/// Tells new ranks the sizes of the pieces of callbacks, and returns by callback the old ranks that send
/// to this process, and their sizes. `places` are the new ranks in the group. Collective.
pub(super) fn incoming(
    group: &MpiGroup,
    given: &[Pieces],
    places: &[usize],
    limits: &WaitLimits<'_>,
) -> Result<Vec<Vec<(usize, usize)>>, GroupError> {
    let count = given.len();
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut words = vec![0; group.size() * count];
    for (callback, pieces) in given.iter().enumerate() {
        for (rank, piece) in pieces {
            if let Some(place) = places.get(*rank) {
                words[place * count + callback] = word_of(piece);
            }
        }
    }
    let words = group.alltoall(&words, limits)?;
    let of_callback = |callback| {
        let ranks = words.chunks_exact(count).enumerate();
        ranks.filter_map(|(old, words)| Some((old, size_of_word(words[callback])?))).collect()
    };
    Ok((0..count).map(of_callback).collect())
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
