//! Blocking MPI calls with limits. Communicators are created by calls that have no cancellable form
//! and wait forever for a rank that has ended.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use quo::group::{GroupError, WaitLimits};

use super::{Communicator, Intercommunicator, ThreadLevel, thread_level};

/// Interval between two checks of the clock and of the other members.
const SLICE: Duration = Duration::from_millis(20);

/// Makes a blocking call in a separate thread, which is left behind when the limits are reached:
/// after that no MPI call may follow unless several threads may make them. If only the thread that
/// initialised MPI may call it, the call is made here, without a limit.
fn wait<T: Send + 'static>(
    call: &'static str,
    limits: &WaitLimits<'_>,
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
                // The thread has nothing left to do.
                let _ = thread.join();
                return ended;
            }
            Err(RecvTimeoutError::Timeout) => limits.check(call)?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed("the thread of the call has panicked".to_owned()));
            }
        }
    }
}

impl Communicator {
    /// Like [`subset`](Self::subset), within the limits if MPI was initialised with
    /// [`ThreadLevel::Serialized`] or more.
    ///
    /// # Errors
    /// As [`subset`](Self::subset); [`GroupError::Late`] and the errors of `check_peers`.
    pub fn subset_within(
        &self,
        ranks: &[usize],
        tag: u16,
        limits: &WaitLimits<'_>,
    ) -> Result<Self, GroupError> {
        let (this, ranks) = (self.alias(), ranks.to_vec());
        wait("MPI_Comm_create_group", limits, move || this.subset(&ranks, tag))
    }

    /// Like [`create_intercomm`](Self::create_intercomm), bounded as
    /// [`subset_within`](Self::subset_within).
    ///
    /// # Errors
    /// As [`subset_within`](Self::subset_within).
    pub fn create_intercomm_within(
        &self,
        leader: usize,
        peer: &Self,
        other: usize,
        tag: u16,
        limits: &WaitLimits<'_>,
    ) -> Result<Intercommunicator, GroupError> {
        let (this, peer) = (self.alias(), peer.alias());
        wait("MPI_Intercomm_create", limits, move || {
            this.create_intercomm(leader, &peer, other, tag)
        })
    }

    /// Like [`accept`](Self::accept), bounded as [`subset_within`](Self::subset_within).
    ///
    /// # Errors
    /// As [`subset_within`](Self::subset_within).
    pub fn accept_within(
        &self,
        port: &str,
        limits: &WaitLimits<'_>,
    ) -> Result<Intercommunicator, GroupError> {
        let (this, port) = (self.alias(), port.to_owned());
        wait("MPI_Comm_accept", limits, move || this.accept(&port))
    }

    /// Like [`connect`](Self::connect), bounded as [`subset_within`](Self::subset_within).
    ///
    /// # Errors
    /// As [`subset_within`](Self::subset_within).
    pub fn connect_within(
        &self,
        port: &str,
        limits: &WaitLimits<'_>,
    ) -> Result<Intercommunicator, GroupError> {
        let (this, port) = (self.alias(), port.to_owned());
        wait("MPI_Comm_connect", limits, move || this.connect(&port))
    }

    /// Returns a second handle of the same communicator, for a thread that may outlive the first
    /// one.
    fn alias(&self) -> Self {
        let &Self { comm, process, rank, size } = self;
        Self { comm, process, rank, size }
    }
}

impl Intercommunicator {
    /// Like [`merge`](Self::merge), bounded as [`Communicator::subset_within`].
    ///
    /// # Errors
    /// As [`Communicator::subset_within`].
    pub fn merge_within(
        &self,
        high: bool,
        limits: &WaitLimits<'_>,
    ) -> Result<Communicator, GroupError> {
        let this = Self { comm: self.comm, process: self.process };
        wait("MPI_Intercomm_merge", limits, move || this.merge(high))
    }

    /// Like [`disconnect`](Self::disconnect), bounded as [`Communicator::subset_within`].
    ///
    /// # Errors
    /// As [`Communicator::subset_within`].
    pub fn disconnect_within(self, limits: &WaitLimits<'_>) -> Result<(), GroupError> {
        wait("MPI_Comm_disconnect", limits, move || self.disconnect())
    }
}
