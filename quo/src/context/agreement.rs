//! Results that the ranks which create or adapt a context find together.

use super::record::{encode_status, first_failure};
use crate::error::Error;
use crate::group::{Group, WaitLimits};

/// All ranks learn whether all succeeded; if not, all return the first failing rank's error.
pub(super) fn agree<T>(
    group: &dyn Group,
    call: &'static str,
    result: Result<T, Error>,
    limits: &WaitLimits<'_>,
) -> Result<T, Error> {
    verdict(group, call, result.as_ref().err(), limits)?;
    result
}

/// The first failing rank's error, if any rank failed.
pub(super) fn verdict(
    group: &dyn Group,
    call: &'static str,
    failure: Option<&Error>,
    limits: &WaitLimits<'_>,
) -> Result<(), Error> {
    // Reasons are long, and mostly there are none.
    if group.all(failure.is_none(), limits)? {
        return Ok(());
    }
    let statuses = group.allgather(&encode_status(failure), limits)?;
    first_failure(call, &statuses)
}
