//! Pieces of bytes that ranks send to each other. Only the sender and the receiver of a piece learn its
//! size.

use std::fmt;

use quo::group::{Group as _, GroupError, WaitLimits};
use quo_mpi::MpiGroup;
use serde::{Deserialize, Serialize};

use super::DataError;
use super::message::exchange;

/// Ranks, and the bytes for each or from each, in one piece.
pub(super) type Pieces = Vec<(usize, Vec<u8>)>;

/// Number of words that ranks tell each other before pieces are sent: a number that is the same on all
/// ranks, and the size of the piece.
const WORDS: usize = 2;
/// Size of the pieces of a rank that refuses.
const REFUSED: u64 = u64::MAX;

/// Why a rank cannot take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refusal {
    Unfit(String),
    /// This number of bytes cannot be allocated.
    Memory(usize),
    /// The number that must be the same on all ranks is another one on rank 0.
    Differs {
        found: u64,
        first: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(reason) => out.write_str(reason),
            Self::Memory(bytes) => write!(out, "no memory for {bytes} bytes"),
            Self::Differs { found, first } => write!(out, "{found} is {first} on rank 0"),
        }
    }
}

/// Why no piece was sent: the same on all ranks.
#[derive(Debug)]
pub(super) enum PassError {
    Refused { rank: usize, refusal: Refusal },
    Group(GroupError),
}

impl PassError {
    /// Returns the error of a call for data of this name. `differs` describes the number that is another
    /// one on rank 0.
    pub fn of(
        self,
        call: &'static str,
        name: &str,
        differs: impl FnOnce(u64, u64) -> String,
    ) -> DataError {
        let (rank, refusal) = match self {
            Self::Refused { rank, refusal } => (rank, refusal),
            Self::Group(error) => return error.into(),
        };
        let name = name.to_owned();
        match refusal {
            Refusal::Unfit(reason) => {
                DataError::Rows { call, name, reason: format!("rank {rank}: {reason}") }
            }
            Refusal::Memory(bytes) => {
                let reason = format!("rank {rank} cannot allocate them; nothing has moved");
                DataError::Memory { call, name, bytes, reason }
            }
            Refusal::Differs { found, first } => {
                DataError::Disagree { call, rank, reason: differs(found, first) }
            }
        }
    }
}

impl From<GroupError> for PassError {
    fn from(error: GroupError) -> Self {
        Self::Group(error)
    }
}

/// Returns an empty vector with room for this number of elements.
pub(super) fn reserved<T>(count: usize) -> Result<Vec<T>, Refusal> {
    let mut room = Vec::new();
    let failed = |_| Refusal::Memory(count.saturating_mul(size_of::<T>()));
    room.try_reserve_exact(count).map_err(failed)?;
    Ok(room)
}

/// Returns memory to receive pieces of these sizes.
pub(super) fn room(sizes: Vec<(usize, usize)>) -> Result<Pieces, Refusal> {
    let of_size = |(rank, bytes)| {
        let mut piece = reserved(bytes)?;
        piece.resize(bytes, 0);
        Ok((rank, piece))
    };
    sizes.into_iter().map(of_size).collect()
}

/// Encodes the size of a piece as a word; 0 means no piece.
pub(super) fn word_of(piece: &[u8]) -> u64 {
    piece.len() as u64 + 1
}

/// Returns the size that a word encodes.
pub(super) fn size_of_word(word: u64) -> Option<usize> {
    word.checked_sub(1).map(|size| size as usize)
}

/// Returns the value if every rank has one, otherwise the first refusal. Collective over the group.
pub(super) fn agree<T>(
    call: &'static str,
    group: &MpiGroup,
    mine: Result<T, Refusal>,
    limits: &WaitLimits<'_>,
) -> Result<T, PassError> {
    let all = group.all(mine.is_ok(), limits)?;
    match mine {
        Ok(mine) if all => Ok(mine),
        other => Err(refused(call, group, other.err(), limits)),
    }
}

/// Returns the first refusal of a rank. Collective over the group.
fn refused(
    call: &'static str,
    group: &MpiGroup,
    mine: Option<Refusal>,
    limits: &WaitLimits<'_>,
) -> PassError {
    match exchange(call, group, &mine, limits) {
        Err(error) => error.into(),
        Ok(all) => {
            let first = (0..).zip(all).find_map(|(rank, it)| Some((rank, it?)));
            let (rank, refusal) = first.unwrap_or_else(|| {
                (group.rank(), Refusal::Unfit("a rank has refused without a reason".to_owned()))
            });
            PassError::Refused { rank, refusal }
        }
    }
}

/// Sends pieces to ranks, and returns the pieces for this rank, by ascending rank, its own included.
/// `alike` is the same number on all ranks. `prepare` is called with the number of bytes that will have
/// arrived, before anything is sent; its result is returned too. If one rank refuses, all fail and
/// nothing is sent. Collective over the group.
pub(super) fn pass<R>(
    call: &'static str,
    group: &MpiGroup,
    given: Result<Pieces, Refusal>,
    (tag, alike): (u16, usize),
    prepare: impl FnOnce(usize) -> Result<R, Refusal>,
    limits: &WaitLimits<'_>,
) -> Result<(Pieces, R), PassError> {
    let me = group.rank();
    let size = if given.is_ok() { 0 } else { REFUSED };
    let mut words = [alike as u64, size].repeat(group.size());
    for (rank, piece) in given.iter().flatten() {
        words[WORDS * rank + 1] = word_of(piece);
    }
    let words = group.alltoall(&words, limits)?;
    let told = words.as_chunks::<WORDS>().0;
    let first = told[0][0];
    if let Some(rank) = told.iter().position(|[found, _]| *found != first) {
        let refusal = Refusal::Differs { found: told[rank][0], first };
        return Err(PassError::Refused { rank, refusal });
    }
    let given = match given {
        Ok(given) if told.iter().all(|[_, size]| *size != REFUSED) => given,
        other => return Err(refused(call, group, other.err(), limits)),
    };
    let sizes = told.iter().enumerate();
    let sizes: Vec<_> =
        sizes.filter_map(|(rank, [_, size])| Some((rank, size_of_word(*size)?))).collect();
    let all = sizes.iter().map(|(_, size)| size).sum();
    let others = sizes.into_iter().filter(|(rank, _)| *rank != me).collect();
    // Before any receive: one that is begun cannot be withdrawn.
    let ready = room(others).and_then(|room| Ok((room, prepare(all)?)));
    let (room, prepared) = agree(call, group, ready, limits)?;
    let mut coming = Vec::new();
    for (rank, room) in room {
        coming.push((rank, group.begin_receive(rank, room, tag)?));
    }
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for (rank, piece) in given {
        if rank == me {
            received.push((rank, piece));
        } else {
            sent.push(group.begin_send(rank, piece, tag)?);
        }
    }
    for (rank, transfer) in coming {
        received.push((rank, transfer.finish(limits)?));
    }
    for transfer in sent {
        transfer.finish(limits)?;
    }
    received.sort_by_key(|&(rank, _)| rank);
    Ok((received, prepared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_cannot_be_allocated_is_refused_with_size() {
        assert_eq!(reserved::<u64>(usize::MAX), Err(Refusal::Memory(usize::MAX)));
        let refused = room(vec![(0, 3), (1, isize::MAX as usize)]).unwrap_err();
        assert_eq!(refused.to_string(), format!("no memory for {} bytes", isize::MAX));
        assert_eq!(room(vec![(2, 3), (4, 0)]), Ok(vec![(2, vec![0; 3]), (4, vec![])]));
    }

    #[test]
    fn words_tell_empty_pieces_from_none() {
        assert_eq!(size_of_word(0), None);
        assert_eq!([&[][..], &[7]].map(|piece| size_of_word(word_of(piece))), [Some(0), Some(1)]);
    }
}
