//! Limits on the CPUs of a running job, set from outside.

use std::io::ErrorKind;

use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::node::{LimitedSegment, NodeError};
use crate::topology::Topology;

/// Limits the contexts of a process of this user to some CPUs from their next phase on, or lifts
/// the limit. The limit applies to all ranks of the node in these contexts. Returns the number of
/// contexts.
///
/// Ranks bound outside the limit are moved inside at that point and moved back when the limit is
/// lifted. Contexts that have none of the CPUs, such as a scope of others, keep theirs, and so do
/// ranks whose control group has none of them. Local.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is no such process, it has no contexts, belongs to another
/// user, or none of its contexts may use any of the CPUs; nothing has changed then.
/// [`Error::Node`].
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
    // Segments without a machine belong to groups, and have no bindings.
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
