//! The steps of a resize, and their order.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A step of a resize. [`Step::Refused`], [`Step::Finalized`] and [`Step::Aborted`] are its ends,
/// exactly one of which it reaches.
///
/// | step | follows | by |
/// |---|---|---|
/// | requested | | the requester |
/// | refused, or accepted | requested | the manager, at once |
/// | announced | accepted, and no other is under way | the manager: deltas are defined |
/// | launched | announced; only with joiners | the back end |
/// | ready | launched | all joiners wait |
/// | pending | announced; only with joiners | the application has named the set they join |
/// | confirmed | pending, launched | the joiners have read the name |
/// | agreed | announced, and ready with joiners; again until begun | the agents: the round is known |
/// | begun | agreed | all ranks: the window is open |
/// | moved | begun | all ranks: data are at their new place |
/// | finalized | announced; confirmed with joiners; accepted by all bound sets with leavers | the application |
/// | aborted | accepted, and any later step that is no end | any side, with a cause |
///
/// Huber 2021, sections 6.2 and 6.4, has announced, pending, finalized and aborted, and aborts
/// growth only. Here every resize that cannot be completed ends as aborted, because every request
/// ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[doc(alias = "MPI_rc_status_t")]
pub enum Step {
    /// The request was made.
    Requested,
    /// End: the request was refused and will not be tried.
    Refused,
    /// The request will be tried in its turn.
    Accepted,
    /// Queries of processes show the resize.
    #[doc(alias = "MPI_RC_STATUS_ANNOUNCED")]
    Announced,
    /// Joiners are being started.
    Launched,
    /// All joiners wait at their ready point.
    Ready,
    /// The old side has published the set that the joiners will be in.
    #[doc(alias = "MPI_RC_STATUS_PENDING")]
    Pending,
    /// All joiners have looked it up.
    Confirmed,
    /// The round at which every rank enters is known.
    Agreed,
    /// The window is open: old and new ranks are connected.
    Begun,
    /// Data are at their place in the new world.
    Moved,
    /// End: the new world is in effect.
    #[doc(alias = "MPI_RC_STATUS_FINALIZED")]
    Finalized,
    /// End: the old world continues unchanged.
    #[doc(alias = "MPI_RC_STATUS_ABORTED")]
    Aborted,
}

impl Step {
    /// All steps.
    pub const ALL: [Step; 13] = [
        Step::Requested,
        Step::Refused,
        Step::Accepted,
        Step::Announced,
        Step::Launched,
        Step::Ready,
        Step::Pending,
        Step::Confirmed,
        Step::Agreed,
        Step::Begun,
        Step::Moved,
        Step::Finalized,
        Step::Aborted,
    ];

    /// Returns true if no step can follow.
    pub fn is_end(self) -> bool {
        matches!(self, Step::Refused | Step::Finalized | Step::Aborted)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Step::Requested => "requested",
            Step::Refused => "refused",
            Step::Accepted => "accepted",
            Step::Announced => "announced",
            Step::Launched => "launched",
            Step::Ready => "ready",
            Step::Pending => "pending",
            Step::Confirmed => "confirmed",
            Step::Agreed => "agreed",
            Step::Begun => "begun",
            Step::Moved => "moved",
            Step::Finalized => "finalized",
            Step::Aborted => "aborted",
        })
    }
}
