//! Data that no pattern describes: the program says which bytes go to which rank.

use quo::group::{GroupError, WaitLimits};
use quo_mpi::{MpiGroup, Transfer};

use super::moving::TAG_OF_CARRIED;

/// Old and new ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seats {
    /// Number of old ranks.
    pub old_size: usize,
    /// Number of new ranks.
    pub new_size: usize,
    /// Rank of this process among the old ones; none for a joiner.
    pub old_rank: Option<usize>,
    /// Rank among the new ones; none for a leaver.
    pub new_rank: Option<usize>,
}

/// Moves data of the program's own kind. Every process that can be a rank registers one under the same name, with
/// [`Registry::carry`](super::Registry::carry), before it is in a resize.
pub trait Carry {
    /// Called on old ranks: the bytes for each new rank that gets any, the own one included. The process's old data
    /// stay until [`settle`](Self::settle).
    ///
    /// # Errors
    /// A reason, with which the move fails on all.
    fn give(&mut self, seats: &Seats) -> Result<Vec<(usize, Vec<u8>)>, String>;

    /// Called on new ranks with the pieces that came, and the old ranks they came from, ascending.
    /// Not in use until [`settle`](Self::settle).
    ///
    /// # Errors
    /// As [`give`](Self::give).
    fn take(&mut self, seats: &Seats, pieces: Vec<(usize, Vec<u8>)>) -> Result<(), String>;

    /// The resize is over: the taken pieces are in use now if it was committed, and forgotten if
    /// not.
    fn settle(&mut self, committed: bool);
}

/// Pieces that one callback sends and receives.
#[derive(Debug)]
pub(super) struct Carried {
    pub callback: usize,
    sent: Vec<Transfer>,
    /// Its old rank; a piece that is already here has no transfer.
    received: Vec<(usize, Result<Transfer, Vec<u8>>)>,
    pub bytes_sent: usize,
}

impl Carried {
    /// Everything is under way at once; each rank begins with its right neighbour. `places` are the new ranks in the
    /// group, `given` this rank's pieces, `sizes` those of each old rank for this one.
    pub fn begin(
        group: &MpiGroup,
        callback: usize,
        (me, mine): (usize, Option<usize>),
        places: &[usize],
        given: Vec<(usize, Vec<u8>)>,
        sizes: &[(usize, usize)],
    ) -> Result<Self, GroupError> {
        let tag = TAG_OF_CARRIED + (callback % 1024) as u16;
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut bytes_sent = 0;
        for &(old, bytes) in sizes {
            if old == me {
                continue;
            }
            received.push((old, Ok(group.begin_receive(old, vec![0; bytes], tag)?)));
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

    /// Returns true if everything is there.
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

    /// Returns the pieces received, when everything is there.
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
