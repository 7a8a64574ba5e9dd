//! Results on which the ranks that create or adapt a context agree.

use super::record::{encode_status, first_failure};
use crate::error::Error;
use crate::group::{Group, WaitLimits};

/// Agrees whether all ranks succeeded; if not, all return the first failing rank's error.
pub(super) fn agree<T>(
    group: &dyn Group,
    call: &'static str,
    result: Result<T, Error>,
    limits: &WaitLimits<'_>,
) -> Result<T, Error> {
    verdict(group, call, result.as_ref().err(), limits)?;
    result
}

/// Returns the first failing rank's error, if any rank failed.
pub(super) fn verdict(
    group: &dyn Group,
    call: &'static str,
    failure: Option<&Error>,
    limits: &WaitLimits<'_>,
) -> Result<(), Error> {
    // Reasons are long and rare, so they are exchanged only after a failure.
    if group.all(failure.is_none(), limits)? {
        return Ok(());
    }
    let statuses = group.allgather(&encode_status(failure), limits)?;
    first_failure(call, &statuses)
}
