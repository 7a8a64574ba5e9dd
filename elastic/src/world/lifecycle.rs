//! Lifecycle of a process in the world: its states, each with what exists only in it.

use std::sync::Arc;

use quo_mpi::communicator::{Communicator, Intercommunicator};

use super::Status;
use crate::model::order::{Losses, ResizePlan};
use crate::node::mailbox::NodeMailbox;
use crate::spawn::starter::Invited;

/// State of this process in the world.
#[derive(Debug)]
pub(super) enum Lifecycle {
    /// A rank.
    Rank {
        /// The ranks of the world.
        current: Communicator,
        mailbox: Arc<NodeMailbox>,
        /// The resize that the last probe found, until its window is opened.
        pending: Option<ResizePlan>,
        /// True in a rank since the beginning of the job, until its first resize.
        is_new: bool,
    },
    /// A process that is no rank: asleep, or about to sleep.
    Parked { mailbox: Arc<NodeMailbox> },
    /// A parked process that has been called in.
    Called {
        mailbox: Arc<NodeMailbox>,
        /// The resize it joins with, until its window is opened.
        pending: Option<ResizePlan>,
    },
    /// A process that was started and has not joined yet.
    Started {
        /// Connection to the others, until it has met them.
        invited: Option<(Intercommunicator, Box<Invited>)>,
        /// The resize it joins with, until its window is opened.
        pending: Option<ResizePlan>,
    },
    /// The job is over for this process.
    Ended {
        /// `None` in a spawned process that has left the world or never joined it.
        mailbox: Option<Arc<NodeMailbox>>,
        /// Processes that the job continued without.
        losses: Losses,
    },
}

impl Lifecycle {
    pub(super) fn ended(mailbox: Option<Arc<NodeMailbox>>) -> Self {
        Self::Ended { mailbox, losses: Losses::default() }
    }

    /// Moves the state out, to make the next one from it. Until that is set, the process counts as
    /// ended.
    pub(super) fn take(&mut self) -> Self {
        let ended = Self::ended(self.mailbox().cloned());
        std::mem::replace(self, ended)
    }

    pub(super) fn status(&self) -> Status {
        match self {
            Self::Rank { is_new: true, .. } => Status::New,
            Self::Rank { .. } => Status::Staying,
            Self::Parked { .. } => Status::Parked,
            Self::Called { .. } | Self::Started { .. } => Status::Joining,
            Self::Ended { .. } => Status::Ended,
        }
    }

    /// Communicator of the world; `None` in a process that is no rank.
    pub(super) fn current(&self) -> Option<&Communicator> {
        match self {
            Self::Rank { current, .. } => Some(current),
            _ => None,
        }
    }

    /// Mailbox of this node; `None` in a process that is not in the world yet or any more.
    pub(super) fn mailbox(&self) -> Option<&Arc<NodeMailbox>> {
        match self {
            Self::Rank { mailbox, .. }
            | Self::Parked { mailbox }
            | Self::Called { mailbox, .. }
            | Self::Ended { mailbox: Some(mailbox), .. } => Some(mailbox),
            Self::Started { .. } | Self::Ended { mailbox: None, .. } => None,
        }
    }

    /// Sets the mailbox that the processes made for a new set of processes.
    pub(super) fn set_mailbox(&mut self, new: Arc<NodeMailbox>) {
        match self {
            Self::Rank { mailbox, .. }
            | Self::Parked { mailbox }
            | Self::Called { mailbox, .. }
            | Self::Ended { mailbox: Some(mailbox), .. } => *mailbox = new,
            Self::Started { .. } | Self::Ended { mailbox: None, .. } => {}
        }
    }

    pub(super) fn pending(&self) -> Option<&ResizePlan> {
        match self {
            Self::Rank { pending, .. }
            | Self::Called { pending, .. }
            | Self::Started { pending, .. } => pending.as_ref(),
            Self::Parked { .. } | Self::Ended { .. } => None,
        }
    }

    pub(super) fn take_pending(&mut self) -> Option<ResizePlan> {
        match self {
            Self::Rank { pending, .. }
            | Self::Called { pending, .. }
            | Self::Started { pending, .. } => pending.take(),
            Self::Parked { .. } | Self::Ended { .. } => None,
        }
    }

    /// Data that rank 0 sent to a spawned process, until it has met the others.
    pub(super) fn invited(&self) -> Option<&Invited> {
        match self {
            Self::Started { invited: Some((_, invited)), .. } => Some(invited),
            _ => None,
        }
    }

    pub(super) fn take_invited(&mut self) -> Option<(Intercommunicator, Box<Invited>)> {
        match self {
            Self::Started { invited, .. } => invited.take(),
            _ => None,
        }
    }
}
