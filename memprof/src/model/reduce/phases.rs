//! Phases of a trace: the memory in each, and the time it was open.

use super::{Names, end_of, open};
use crate::model::{RankPhase, Span};
use memprof_trace::layout::NONE;
use memprof_trace::read::{Options, Trace};
use std::collections::HashMap;
use std::path::Path;

/// Phases nest no deeper than this; a trace that says otherwise is not believed.
const DEEPEST: u32 = 16;
/// Spans kept of a rank, the longest.
const SPANS: usize = 512;

fn depth(trace: &Trace, mut index: u32) -> u32 {
    let mut depth = 0;
    while let Some(phase) = trace.phase(index) {
        if phase.parent == NONE || depth == DEEPEST {
            break;
        }
        index = phase.parent;
        depth += 1;
    }
    depth
}

/// `most` is the highest resident memory of the process.
pub fn phases(trace: &Trace, names: &Names, most: u64) -> Vec<RankPhase> {
    let end = end_of(trace);
    trace
        .phases
        .iter()
        .map(|phase| {
            let peaks = trace.peaks(phase.index).map_or(&[][..], |peaks| &peaks[..]);
            let row = &phase.row;
            let residents = peaks.iter().map(|peak| peak.resident);
            let sum = residents.clone().fold(0u64, u64::saturating_add);
            let open = row.open > 0;
            let since = if open { end.saturating_sub(row.first_time) } else { 0 };
            RankPhase {
                name: names.phase(phase.index).unwrap_or_default(),
                depth: depth(trace, phase.index),
                parent: names.phase(row.parent),
                entries: row.entries,
                // An entry that has not ended is not in the total; of the first it is known.
                total_ns: match row.entries {
                    1 if open => since,
                    _ => row.total_ns,
                },
                first_ns: row.first_time,
                last_ns: if open { end } else { row.last_time },
                peaks: (peaks.iter().enumerate())
                    .filter(|(_, peak)| peak.owned > 0 || peak.resident > 0)
                    .map(|(index, peak)| (names.component(index), peak.owned, peak.resident))
                    .collect(),
                resident_peak: match row.resident_kib {
                    0 => sum.min(most),
                    // Who is killed may leave what it was a moment before.
                    known => (u64::from(known) << 10).max(residents.max().unwrap_or(0)),
                },
            }
        })
        .collect()
}

/// Phases that were open once: their span is in their row.
pub fn whole_spans(trace: &Trace, names: &Names) -> Vec<Span> {
    let end = end_of(trace);
    let mut spans: Vec<Span> = (trace.phases.iter())
        .filter(|phase| phase.row.entries == 1)
        .filter_map(|phase| {
            Some(Span {
                name: names.phase(phase.index)?,
                depth: depth(trace, phase.index),
                begin_ns: phase.row.first_time.min(end),
                end_ns: match phase.row.open {
                    0 => phase.row.last_time.min(end),
                    _ => end,
                },
            })
        })
        .collect();
    spans.sort_by_key(|span| (span.begin_ns, span.depth));
    spans
}

/// When phases were open: from the rows, and of those entered several times as far back as the
/// history goes. Nanoseconds since the process started.
pub fn spans(file: &Path) -> Result<Vec<Span>, String> {
    let trace = open(file, Options { history: true, detail: false })?;
    Ok(all_spans(&trace))
}

/// The same of a trace that was read with its history.
pub fn all_spans(trace: &Trace) -> Vec<Span> {
    let names = Names::of(trace);
    let mut spans = whole_spans(trace, &names);
    let end = end_of(trace);
    let repeated = |index: u32| trace.phase(index).is_some_and(|phase| phase.entries != 1);
    let mut begun: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut add = |index: u32, begin_ns: u64, end_ns: u64| {
        if let Some(name) = names.phase(index) {
            let depth = depth(trace, index);
            spans.push(Span { name, depth, begin_ns, end_ns });
        }
    };
    for edge in trace.history.phase_edges() {
        if !repeated(edge.phase) {
            continue;
        }
        let open = begun.entry(edge.phase).or_default();
        if edge.begins {
            open.push(edge.time);
        } else if let Some(begin) = open.pop() {
            add(edge.phase, begin, edge.time);
        }
    }
    for (phase, begins) in begun {
        for begin in begins {
            add(phase, begin, end);
        }
    }
    spans.sort_by_key(|span| std::cmp::Reverse(span.end_ns.saturating_sub(span.begin_ns)));
    spans.truncate(SPANS);
    spans.sort_by_key(|span| (span.begin_ns, span.depth));
    spans
}
