//! Blocking calls of MPI, waited for with patience: communicators are made by calls that have no form which can be given
//! up, and that wait for ever for a rank that has ended.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use quo::group::{GroupError, Patience};

use super::{Communicator, Intercommunicator, ThreadLevel, thread_level};

/// Time between two looks at the clock and at the other members.
const SLICE: Duration = Duration::from_millis(20);

/// Makes a blocking call in a thread of its own, which is left where it is when the patience ends: no call of MPI may
/// follow then unless several threads may make them. Where only the thread that initialised MPI may call it, the call is
/// made here, without a limit.
fn wait<T: Send + 'static>(
    call: &'static str,
    patience: &Patience<'_>,
    work: impl FnOnce() -> Result<T, GroupError> + Send + 'static,
) -> Result<T, GroupError> {
    if thread_level()? < ThreadLevel::Serialized {
        return work();
    }
    let failed = |text: String| GroupError::Node { call, text };
    let (sender, receiver) = channel();
    let thread = Builder::new().name("quo-mpi".to_owned());
    let thread = thread.spawn(move || drop(sender.send(work())));
    let thread = thread.map_err(|error| failed(format!("a thread for the call: {error}")))?;
    loop {
        match receiver.recv_timeout(SLICE) {
            Ok(ended) => {
                // It has nothing left to do.
                let _ = thread.join();
                return ended;
            }
            Err(RecvTimeoutError::Timeout) => patience.check(call)?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed("the thread of the call has panicked".to_owned()));
            }
        }
    }
}

impl Communicator {
    /// As [`part`](Self::part), for as long as the patience lasts where MPI was initialised with
    /// [`ThreadLevel::Serialized`] or more.
    ///
    /// # Errors
    /// As [`part`](Self::part); [`GroupError::Late`] and the patience's own.
    pub fn part_within(
        &self,
        ranks: &[usize],
        tag: u16,
        patience: &Patience<'_>,
    ) -> Result<Self, GroupError> {
        let (this, ranks) = (self.alias(), ranks.to_vec());
        wait("MPI_Comm_create_group", patience, move || this.part(&ranks, tag))
    }

    /// As [`meet`](Self::meet), bounded as [`part_within`](Self::part_within).
    ///
    /// # Errors
    /// As [`part_within`](Self::part_within).
    pub fn meet_within(
        &self,
        leader: usize,
        peer: &Self,
        other: usize,
        tag: u16,
        patience: &Patience<'_>,
    ) -> Result<Intercommunicator, GroupError> {
        let (this, peer) = (self.alias(), peer.alias());
        wait("MPI_Intercomm_create", patience, move || this.meet(leader, &peer, other, tag))
    }

    /// As [`accept`](Self::accept), bounded as [`part_within`](Self::part_within).
    ///
    /// # Errors
    /// As [`part_within`](Self::part_within).
    pub fn accept_within(
        &self,
        port: &str,
        patience: &Patience<'_>,
    ) -> Result<Intercommunicator, GroupError> {
        let (this, port) = (self.alias(), port.to_owned());
        wait("MPI_Comm_accept", patience, move || this.accept(&port))
    }

    /// As [`connect`](Self::connect), bounded as [`part_within`](Self::part_within).
    ///
    /// # Errors
    /// As [`part_within`](Self::part_within).
    pub fn connect_within(
        &self,
        port: &str,
        patience: &Patience<'_>,
    ) -> Result<Intercommunicator, GroupError> {
        let (this, port) = (self.alias(), port.to_owned());
        wait("MPI_Comm_connect", patience, move || this.connect(&port))
    }

    /// The same communicator under a second name, for a thread that may outlive the first one.
    fn alias(&self) -> Self {
        let &Self { comm, process, rank, size } = self;
        Self { comm, process, rank, size }
    }
}

impl Intercommunicator {
    /// As [`merge`](Self::merge), bounded as [`Communicator::part_within`].
    ///
    /// # Errors
    /// As [`Communicator::part_within`].
    pub fn merge_within(
        &self,
        high: bool,
        patience: &Patience<'_>,
    ) -> Result<Communicator, GroupError> {
        let this = Self { comm: self.comm, process: self.process };
        wait("MPI_Intercomm_merge", patience, move || this.merge(high))
    }

    /// As [`disconnect`](Self::disconnect), bounded as [`Communicator::part_within`].
    ///
    /// # Errors
    /// As [`Communicator::part_within`].
    pub fn disconnect_within(self, patience: &Patience<'_>) -> Result<(), GroupError> {
        wait("MPI_Comm_disconnect", patience, move || self.disconnect())
    }
}
