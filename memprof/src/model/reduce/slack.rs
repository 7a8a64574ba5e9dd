//! Free memory of the allocator in a trace.

use super::Names;
use crate::model::{FreePages, Slack};
use memprof_trace::layout::{NONE, SlackRow, flags};
use memprof_trace::read::Trace;
use std::sync::Arc;

/// Returns the free memory of the allocator; `None` if the trace has no row of it.
pub fn of(trace: &Trace, names: &Names) -> Option<Slack> {
    let row = trace.summary.as_ref()?.slack?;
    let allocator = match row.allocator {
        NONE if trace.has(flags::OWN_ALLOCATOR) => Some(Arc::from("another allocator")),
        NONE => None,
        component => Some(names.component(component as usize)),
    };
    Some(Slack { allocator, now: at(trace, names, &row, 0), at_peak: at(trace, names, &row, 1) })
}

/// Returns the free pages at the last sample (0) or at the peak (1).
fn at(trace: &Trace, names: &Names, row: &SlackRow, moment: usize) -> FreePages {
    // A moment without a sample has zeros only.
    let holder = Some(row.holder[moment]).filter(|it| *it != NONE && row.main[moment] > 0);
    let site = row.holder_site[moment];
    FreePages {
        main: row.main[moment],
        main_top: row.main_top[moment],
        arenas: row.arenas[moment],
        arenas_top: row.arenas_top[moment],
        uncertain: row.uncertain[moment],
        number_of_arenas: row.number_of_arenas[moment],
        held_by: holder.map(|component| names.component(component as usize)),
        site: trace.sites.iter().position(|known| known.index == site),
    }
}
