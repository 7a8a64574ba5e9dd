//! Errors of a step.

use super::{Cause, RequestId, Step};
use crate::model::sets::SetName;

/// Why a call on a request was rejected; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The request never was, or ended long ago.
    #[error("{call}: there is no {id}, or it ended long ago")]
    Unknown {
        /// The call that was rejected.
        call: &'static str,
        /// The request.
        id: RequestId,
    },
    /// The request has ended already: somebody else was first.
    #[error("{call}: {id} was {end}{}", .cause.as_ref().map_or(String::new(), |cause| format!(" ({cause})")))]
    #[doc(alias = "MPI_ERR_PORT")]
    Ended {
        /// The call that was rejected.
        call: &'static str,
        /// The request.
        id: RequestId,
        /// Its end.
        end: Step,
        /// Why, if not well.
        cause: Option<Cause>,
    },
    /// The step may not come now.
    #[error("{id} cannot be {step}: {cause}")]
    Illegal {
        /// The request.
        id: RequestId,
        /// The step that was wanted.
        step: Step,
        /// The part that it lacks.
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
    /// A set accepts that was not asked.
    #[error("accept: {id} is not bound to {set}")]
    NotBound {
        /// The request.
        id: RequestId,
        /// The set.
        set: SetName,
    },
}
