//! Free memory of the allocator in a trace.

use super::Names;
use crate::model::{Arena, FreePages, Slack};
use memprof_trace::layout::{ArenaRow, NONE, SlackRow, flags};
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
        site: position(trace, site),
        by_arena: arenas(trace, names, moment),
    }
}

/// Returns the arenas at a moment.
fn arenas(trace: &Trace, names: &Names, moment: usize) -> Vec<Arena> {
    let component = |number: u32| (number != NONE).then(|| names.component(number as usize));
    let rows = trace.summary.iter().flat_map(|summary| &summary.arenas);
    let rows = rows.filter(|row| row.resident[moment] > 0);
    rows.map(|row: &ArenaRow| Arena {
        number: Some(row.number[moment]).filter(|number| *number != NONE),
        arenas: row.arenas[moment],
        resident: row.resident[moment],
        in_use: row.in_use[moment],
        free: row.free[moment],
        returned_by_trim: row.free[moment].saturating_sub(row.kept[moment]),
        uncertain: row.uncertain[moment],
        held_by: component(row.holder[moment]),
        site: position(trace, row.holder_site[moment]),
        left_by: component(row.left_by[moment]),
        left: row.left[moment],
    })
    .collect()
}

/// Returns the position of a call stack among the stacks of the process.
fn position(trace: &Trace, site: u32) -> Option<usize> {
    trace.sites.iter().position(|known| known.index == site)
}
