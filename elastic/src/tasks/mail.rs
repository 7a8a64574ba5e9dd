//! Messages of a run over MPI.

use std::collections::VecDeque;
use std::time::Duration;

use quo::group::{GroupError, WaitLimits};
use quo_mpi::communicator::Communicator;
use quo_mpi::{MpiGroup, Transfer};

const TAG: u16 = 1;

/// The most bytes of a message: MPI's probe says the length of one piece.
const MOST: usize = 1 << 30;

/// Messages that are taken one after the other before the rank does something else.
pub(super) const AT_ONCE: usize = 64;

/// A communicator of a run's own, and the messages that are being sent over it.
pub(super) struct Mail {
    group: MpiGroup,
    sent: VecDeque<Transfer>,
}

impl Mail {
    /// Collective over the communicator, which is duplicated.
    pub fn over(ranks: &Communicator, limits: &WaitLimits<'_>) -> Result<Self, GroupError> {
        Ok(Self { group: ranks.group_within(limits)?, sent: VecDeque::new() })
    }

    pub fn group(&self) -> &MpiGroup {
        &self.group
    }

    /// Takes a message that has come. Waits only for the rest of its bytes.
    pub fn take(
        &mut self,
        limits: &WaitLimits<'_>,
    ) -> Result<Option<(usize, Vec<u8>)>, GroupError> {
        let Some((from, bytes)) = self.group.probe(TAG)? else { return Ok(None) };
        let transfer = self.group.begin_receive(from, vec![0; bytes], TAG)?;
        Ok(Some((from, transfer.finish(limits)?)))
    }

    pub fn can_send(bytes: &[u8]) -> bool {
        bytes.len() <= MOST
    }

    pub fn send(&mut self, to: usize, bytes: Vec<u8>) -> Result<(), GroupError> {
        self.sent.push_back(self.group.begin_send(to, bytes, TAG)?);
        self.clear()
    }

    /// Lets go of what has been sent.
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

    /// Waits until all has been sent.
    pub fn finish(&mut self, limits: &WaitLimits<'_>) -> Result<(), GroupError> {
        self.sent.drain(..).try_for_each(|transfer| transfer.finish(limits).map(drop))
    }
}

/// Limits of a wait without a deadline.
pub(super) fn unlimited(check_peers: &dyn Fn() -> Result<(), GroupError>) -> WaitLimits<'_> {
    WaitLimits { deadline: None, check_peers }
}

/// Time between two looks at the other ranks.
pub(super) const LOOK: Duration = Duration::from_millis(100);
