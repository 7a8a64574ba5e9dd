//! Limits to the CPUs of a running job, set from outside.

use std::io::ErrorKind;

use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::node::{LimitedSegment, NodeError};
use crate::topology::Topology;

/// Limits the contexts that a process of this user has to some CPUs from their next phase on, or lifts
/// the limit. All ranks of the node in these contexts are limited with it. Returns the number of contexts.
///
/// Ranks whose binding lies outside are moved inside at that point and put back when the limit is
/// lifted. Contexts that have none of the CPUs, such as a scope of others, keep theirs, and so do
/// ranks with a control group of their own that has none. Local.
///
/// # Errors
/// [`Error::InvalidArgument`] when there is no such process, it has no contexts, is of another user, or none of its
/// contexts may use any of the CPUs; nothing has changed then. [`Error::Node`].
#[doc(alias = "quo-info set")]
pub fn limit_cpus(process: i32, cpus: Option<&CpuSet>) -> Result<usize, Error> {
    const CALL: &str = "limit CPUs";
    let invalid = |reason: String| Error::InvalidArgument { call: CALL, reason };
    let segments = LimitedSegment::of_process(process).map_err(|error| match error {
        NodeError::System { source, .. } if source.kind() == ErrorKind::NotFound => {
            invalid(format!("there is no process {process} on this node"))
        }
        error => invalid(format!("process {process} cannot be looked at: {error}")),
    })?;
    // Segments without a machine are of groups, and have no bindings.
    let machine = |segment: &LimitedSegment| Topology::from_bytes(&segment.payload()?).ok();
    let contexts: Vec<(LimitedSegment, Topology)> = segments
        .into_iter()
        .filter_map(|segment| machine(&segment).map(|machine| (segment, machine)))
        .collect();
    if contexts.is_empty() {
        return Err(invalid(format!("process {process} has no context of quo")));
    }
    if let Some(cpus) = cpus
        && !contexts.iter().any(|(_, machine)| machine.allowed().intersects(cpus))
    {
        let allowed = contexts[0].1.allowed();
        return Err(invalid(format!(
            "process {process} may use none of the CPUs {cpus}; its job may use {allowed}"
        )));
    }
    for (segment, _) in &contexts {
        segment.set(cpus)?;
    }
    Ok(contexts.len())
}
