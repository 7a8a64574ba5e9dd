//! Errors of a step.

use super::{Cause, RequestId, Step};
use crate::model::sets::SetName;

/// Why a call on a request was rejected; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The request never existed, or ended long ago.
    #[error("{call}: there is no {id}, or it ended long ago")]
    Unknown {
        /// The call that was rejected.
        call: &'static str,
        /// The request.
        id: RequestId,
    },
    /// The request has ended already: another call was first.
    #[error("{call}: {id} was {end}{}", .cause.as_ref().map_or(String::new(), |cause| format!(" ({cause})")))]
    #[doc(alias = "MPI_ERR_PORT")]
    Ended {
        /// The call that was rejected.
        call: &'static str,
        /// The request.
        id: RequestId,
        /// Its end.
        end: Step,
        /// The cause, unless it was finalised.
        cause: Option<Cause>,
    },
    /// The step is not allowed now.
    #[error("{id} cannot be {step}: {cause}")]
    Illegal {
        /// The request.
        id: RequestId,
        /// The rejected step.
        step: Step,
        /// The missing condition.
        cause: &'static str,
    },
    /// Resizes do not nest.
    #[error("{id} cannot be announced: {running} is under way")]
    Busy {
        /// The request.
        id: RequestId,
        /// The resize that has to end first.
        running: RequestId,
    },
    /// A set accepts that the resize is not bound to.
    #[error("accept: {id} is not bound to {set}")]
    NotBound {
        /// The request.
        id: RequestId,
        /// The set.
        set: SetName,
    },
}
