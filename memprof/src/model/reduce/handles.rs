//! Places of a trace that make MPI objects.

use crate::model::handle;
use crate::model::{Frame, HandleCount, HandleSite};
use memprof_trace::layout::{self, NONE};
use memprof_trace::read::Trace;
use std::sync::Arc;

/// Returns the places; a frame refers to the position of its object in the trace.
pub fn sites(trace: &Trace) -> Vec<HandleSite> {
    let rows = trace.handles.iter().map(|row| row.row);
    let known = rows.filter_map(|row| {
        let kind = *layout::handle::NAMES.get(row.kind as usize)?;
        let object = trace.objects.iter().position(|object| object.index == row.object);
        Some(HandleSite {
            kind,
            mpi_function: trace.function(row.function).map(Arc::from),
            frame: Frame { object: object.map_or(NONE, |at| at as u32), offset: row.offset },
            made: row.made,
            freed: row.freed,
            alive: row.made.saturating_sub(row.freed),
            alive_peak: row.peak,
            processes: 1,
            held: Vec::new(),
        })
    });
    known.filter(|site| site.made > 0).collect()
}

/// Returns the objects by kind.
pub fn counts(trace: &Trace) -> Vec<HandleCount> {
    handle::counts(&sites(trace))
}
