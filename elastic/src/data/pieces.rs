//! Pieces of bytes that ranks send to each other. Only the sender and the receiver of a piece learn its
//! size.

use std::fmt;

use quo::group::{Group as _, GroupError, WaitLimits};
use quo_mpi::MpiGroup;
use serde::{Deserialize, Serialize};

use super::DataError;
use super::message::{TAG_OF_SIZES, exchange};

/// Ranks, and the bytes for each or from each, in one piece.
pub(super) type Pieces = Vec<(usize, Vec<u8>)>;

/// Why a rank cannot take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refusal {
    Unfit(String),
    /// This number of bytes cannot be allocated.
    Memory(usize),
    /// The number that must be the same on all ranks is another one on rank 0.
    Differs {
        found: i64,
        first: i64,
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
        differs: impl FnOnce(i64, i64) -> String,
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

/// Sends a list of numbers to each of some ranks, and returns the lists for this rank, by ascending rank.
/// All lists are of one length. Collective over the group.
pub(super) fn send_numbers(
    group: &MpiGroup,
    lists: &[(usize, Vec<u64>)],
    length: usize,
    limits: &WaitLimits<'_>,
) -> Result<Vec<(usize, Vec<u64>)>, GroupError> {
    let mut marks = vec![false; group.size()];
    lists.iter().for_each(|(rank, _)| marks[*rank] = true);
    let senders = group.count_marks(&marks, limits)?;
    let mut sent = Vec::new();
    for (rank, list) in lists {
        let bytes = list.iter().flat_map(|word| word.to_ne_bytes()).collect();
        sent.push(group.begin_send(*rank, bytes, TAG_OF_SIZES)?);
    }
    // All lists have arrived on all ranks before a rank can send other ones: the agreement on memory
    // follows. So each list that arrives belongs to this call.
    let mut received = Vec::new();
    for _ in 0..senders {
        let rank = group.await_sender(TAG_OF_SIZES, limits)?;
        let room = vec![0; length * size_of::<u64>()];
        let bytes = group.begin_receive(rank, room, TAG_OF_SIZES)?.finish(limits)?;
        let words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        received.push((rank, words.collect()));
    }
    for transfer in sent {
        transfer.finish(limits)?;
    }
    received.sort_unstable_by_key(|&(rank, _)| rank);
    Ok(received)
}

/// Returns the value if every rank has one and the number `alike` is the same on all ranks, otherwise the
/// first refusal. Collective over the group.
pub(super) fn agree<T>(
    call: &'static str,
    group: &MpiGroup,
    mine: Result<T, Refusal>,
    alike: i64,
    limits: &WaitLimits<'_>,
) -> Result<T, PassError> {
    let [all, smallest, largest] =
        group.minimum([i64::from(mine.is_ok()), alike, alike.saturating_neg()], limits)?;
    match mine {
        Ok(mine) if all != 0 && smallest == largest.saturating_neg() => Ok(mine),
        other => Err(refused(call, group, (other.err(), alike), limits)),
    }
}

/// Returns the first refusal of a rank. Collective over the group.
fn refused(
    call: &'static str,
    group: &MpiGroup,
    mine: (Option<Refusal>, i64),
    limits: &WaitLimits<'_>,
) -> PassError {
    let all = match exchange(call, group, &mine, limits) {
        Ok(all) => all,
        Err(error) => return error.into(),
    };
    let first = all.first().map_or(0, |(_, first)| *first);
    let differs = |found| (found != first).then_some(Refusal::Differs { found, first });
    let odd = all.iter().map(|(_, found)| differs(*found)).enumerate();
    let refusals = all.iter().map(|(refusal, _)| refusal.clone()).enumerate();
    let (rank, refusal) =
        refusals.chain(odd).find_map(|(rank, it)| Some((rank, it?))).unwrap_or_else(|| {
            (group.rank(), Refusal::Unfit("a rank has refused without a reason".to_owned()))
        });
    PassError::Refused { rank, refusal }
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
    let pieces = given.iter().flatten().filter(|(rank, _)| *rank != me);
    let sizes: Vec<_> = pieces.map(|(rank, piece)| (*rank, vec![piece.len() as u64])).collect();
    let from = send_numbers(group, &sizes, 1, limits)?.into_iter();
    let sizes: Vec<_> = from.map(|(rank, size)| (rank, size[0] as usize)).collect();
    let ready = given.and_then(|given| {
        let own = given.iter().filter(|(rank, _)| *rank == me).map(|(_, piece)| piece.len());
        let all = own.chain(sizes.iter().map(|(_, size)| *size)).sum();
        Ok((given, room(sizes)?, prepare(all)?))
    });
    // Before any receive: one that is begun cannot be withdrawn.
    let (given, room, prepared) = agree(call, group, ready, alike as i64, limits)?;
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
}
