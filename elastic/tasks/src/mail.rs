//! Messages of a run over MPI: a length, for which a receive is posted for each rank, and the bytes.

use std::collections::VecDeque;
use std::time::Duration;

use quo::group::{Group, GroupError, WaitLimits};
use quo_mpi::communicator::Communicator;
use quo_mpi::{MpiGroup, Transfer};

const LENGTH: u16 = 1;
const BYTES: u16 = 2;

/// Replaces a length: this rank sends nothing more.
const END: u64 = u64::MAX;

/// Number of messages received in a row before the rank does other work.
pub(super) const AT_ONCE: usize = 64;

/// The communicator of a run, and the messages being sent over it.
pub(super) struct Mail {
    group: MpiGroup,
    sent: VecDeque<Transfer>,
    /// Pending receives of the next length, by rank.
    lengths: Vec<(usize, Transfer)>,
    /// Position in `lengths` at which the next check begins.
    next: usize,
}

impl Mail {
    /// Opens the mail over a duplicate of the communicator. Collective.
    pub fn over(ranks: &Communicator, limits: &WaitLimits<'_>) -> Result<Self, GroupError> {
        let group = ranks.group_within(limits)?;
        Ok(Self { group, sent: VecDeque::new(), lengths: Vec::new(), next: 0 })
    }

    pub fn group(&self) -> &MpiGroup {
        &self.group
    }

    /// Begins to receive from all other ranks, until [`finish`](Self::finish).
    pub fn open(&mut self) -> Result<(), GroupError> {
        for rank in self.others() {
            let length = self.next_length(rank)?;
            self.lengths.push((rank, length));
        }
        Ok(())
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.group.rank();
        (0..self.group.size()).filter(move |&rank| rank != own)
    }

    fn next_length(&self, from: usize) -> Result<Transfer, GroupError> {
        self.group.begin_receive(from, vec![0; size_of::<u64>()], LENGTH)
    }

    /// Receives an available message, from each rank in turn. Waits only for the rest of its bytes.
    pub fn take(
        &mut self,
        limits: &WaitLimits<'_>,
    ) -> Result<Option<(usize, Vec<u8>)>, GroupError> {
        for _ in 0..self.lengths.len() {
            let index = self.next % self.lengths.len();
            self.next = index + 1;
            let (rank, length) = &mut self.lengths[index];
            if !length.test()? {
                continue;
            }
            let rank = *rank;
            let (_, length) = self.lengths.swap_remove(index);
            let length = number(&length.finish(limits)?);
            if length == END {
                return self.take(limits);
            }
            let bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            let bytes = self.group.begin_receive(rank, bytes, BYTES)?.finish(limits)?;
            let length = self.next_length(rank)?;
            self.lengths.push((rank, length));
            return Ok(Some((rank, bytes)));
        }
        Ok(None)
    }

    pub fn send(&mut self, to: usize, bytes: Vec<u8>) -> Result<(), GroupError> {
        self.send_length(to, bytes.len() as u64)?;
        self.sent.push_back(self.group.begin_send(to, bytes, BYTES)?);
        self.clear()
    }

    fn send_length(&mut self, to: usize, length: u64) -> Result<(), GroupError> {
        let length = length.to_ne_bytes().to_vec();
        self.sent.push_back(self.group.begin_send(to, length, LENGTH)?);
        Ok(())
    }

    /// Drops completed sends.
    pub fn clear(&mut self) -> Result<(), GroupError> {
        let mut rest = VecDeque::new();
        while let Some(mut transfer) = self.sent.pop_front() {
            if !transfer.test()? {
                rest.push_back(transfer);
            }
        }
        self.sent = rest;
        Ok(())
    }

    /// Returns true if a message is being sent: long ones proceed only while both ranks call MPI.
    pub fn is_sending(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Informs all other ranks that no message follows, and waits until all have done so.
    /// Collective; no message is under way.
    pub fn finish(&mut self, limits: &WaitLimits<'_>) -> Result<(), GroupError> {
        for rank in self.others() {
            self.send_length(rank, END)?;
        }
        self.sent.drain(..).try_for_each(|transfer| transfer.finish(limits).map(drop))?;
        self.lengths.drain(..).try_for_each(|(_, length)| length.finish(limits).map(drop))
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(END, u64::from_ne_bytes)
}

/// Limits of a wait without a deadline.
pub(super) fn unlimited(check_peers: &dyn Fn() -> Result<(), GroupError>) -> WaitLimits<'_> {
    WaitLimits { deadline: None, check_peers }
}

/// Time between two checks of the other ranks.
pub(super) const LOOK: Duration = Duration::from_millis(100);
