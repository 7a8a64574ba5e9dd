//! Memory of GPUs in a trace.

use super::Names;
use crate::model::{Frame, GpuBytes, GpuMemory, GpuSite};
use memprof_trace::layout::{HandleRow, NONE, handle};
use memprof_trace::read::Trace;
use std::sync::Arc;

/// Returns the rows about this memory, with the names of their kinds.
fn rows(trace: &Trace) -> impl Iterator<Item = (&'static str, &HandleRow)> {
    trace.handles.iter().filter_map(|row| {
        let kind = row.row.kind.checked_sub(handle::GPU)?;
        let kind = *handle::GPU_NAMES.get(kind as usize)?;
        (row.row.made > 0).then_some((kind, &row.row))
    })
}

fn bytes(row: &HandleRow) -> GpuBytes {
    GpuBytes {
        allocated: row.made,
        freed: row.freed,
        alive: row.made.saturating_sub(row.freed),
        alive_peak: row.peak,
        blocks: row.blocks,
    }
}

/// Returns the sums of the process and of its components.
pub fn memory(trace: &Trace, names: &Names) -> Vec<GpuMemory> {
    let sums =
        rows(trace).filter(|(_, row)| row.function == 0 && row.object == NONE && row.offset == 0);
    let named = sums.map(|(kind, row)| {
        let component = row.component.checked_sub(1).map(|at| names.component(at as usize));
        GpuMemory { kind, component, bytes: bytes(row) }
    });
    named.collect()
}

/// Returns the call sites; a frame refers to the position of its object in the trace.
pub fn sites(trace: &Trace, names: &Names) -> Vec<GpuSite> {
    let calls =
        rows(trace).filter(|(_, row)| row.function != 0 || row.object != NONE || row.offset != 0);
    let known = calls.filter_map(|(kind, row)| {
        let object = trace.objects.iter().position(|object| object.index == row.object);
        Some(GpuSite {
            kind,
            component: names.component(row.component.checked_sub(1)? as usize),
            function: trace.function(row.function).map(Arc::from),
            frame: Frame { object: object.map_or(NONE, |at| at as u32), offset: row.offset },
            bytes: bytes(row),
            processes: 1,
        })
    });
    known.collect()
}
