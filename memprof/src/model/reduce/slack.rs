//! Free memory of the allocator in a trace.

use super::Names;
use crate::model::{Arena, FreePages, Holder, Slack};
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
    let holder = if row.main[moment] > 0 { row.holder[moment] } else { NONE };
    FreePages {
        main: row.main[moment],
        main_top: row.main_top[moment],
        arenas: row.arenas[moment],
        arenas_top: row.arenas_top[moment],
        uncertain: row.uncertain[moment],
        number_of_arenas: row.number_of_arenas[moment],
        holder: holder_of(trace, names, holder, row.holder_site[moment]),
        by_arena: arenas(trace, names, moment),
    }
}

/// Returns the arenas at a moment.
fn arenas(trace: &Trace, names: &Names, moment: usize) -> Vec<Arena> {
    let rows = trace.summary.iter().flat_map(|summary| &summary.arenas);
    let rows = rows.filter(|row| row.resident[moment] > 0);
    rows.map(|row: &ArenaRow| Arena {
        number: Some(row.number[moment]).filter(|number| *number != NONE),
        arenas: row.arenas[moment],
        resident: row.resident[moment],
        in_use: row.in_use[moment],
        free: row.resident[moment].saturating_sub(row.in_use[moment]),
        free_pages: row.free_pages[moment],
        returned_by_trim: row.free_pages[moment].saturating_sub(row.kept[moment]),
        uncertain: row.uncertain[moment],
        holder: holder_of(trace, names, row.holder[moment], row.holder_site[moment]),
        left_by: component(names, row.left_by[moment]),
        left: row.left[moment],
    })
    .collect()
}

fn component(names: &Names, number: u32) -> Option<Arc<str>> {
    (number != NONE).then(|| names.component(number as usize))
}

/// Returns the component with this number, and the position of this call stack among the stacks of
/// the process.
fn holder_of(trace: &Trace, names: &Names, number: u32, site: u32) -> Holder {
    let site = trace.sites.iter().position(|known| known.index == site);
    Holder { held_by: component(names, number), site }
}
