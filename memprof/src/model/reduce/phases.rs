//! Phases of a trace: the memory in each, and the time it was open.

use super::{Names, end_of, open};
use crate::model::{RankPhase, Span};
use memprof_trace::layout::{NONE, flags, phase};
use memprof_trace::read::{Bin, Options, Trace};
use std::collections::HashMap;
use std::path::Path;

/// Maximum nesting depth of phases; a greater depth in a trace is ignored.
const DEEPEST: u32 = 16;
/// Maximum number of spans kept for a rank: the longest ones.
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

/// Returns true if something is known of what was resident in a phase.
fn is_sampled(trace: &Trace, index: u32) -> bool {
    trace.peaks(index).is_some_and(|peaks| peaks.iter().any(|peak| peak.resident > 0))
}

/// Returns the number of full samples between the end of `init` and the begin of `finalize`,
/// without the one at the end of `init`.
pub fn samples_in_main(trace: &Trace) -> u64 {
    let automatic = |name: &str| {
        let mut rows = trace.phases.iter().map(|phase| &phase.row);
        rows.find(|row| row.kind == phase::AUTOMATIC && row.name.to_string() == name)
    };
    let begin = match automatic("init") {
        Some(init) if init.open > 0 => return 0,
        Some(init) => Some(init.last_time),
        None => None,
    };
    let end = automatic("finalize").map_or(u64::MAX, |finalize| finalize.first_time);
    let in_bin = |bin: &Bin| {
        let (first, last) = bin.seen();
        let samples = u64::from(bin.head.samples);
        match begin {
            _ if first > end => 0,
            Some(begin) if last < begin => 0,
            // At least one is from before, or from after.
            Some(begin) if first < begin => samples.saturating_sub(1),
            _ if last > end => samples.saturating_sub(1),
            _ => samples,
        }
    };
    let found: u64 = trace.timeline.iter().map(in_bin).sum();
    // The first is the sample at the end of `init`.
    found.saturating_sub(u64::from(begin.is_some()))
}

/// Returns the names of the program's regions that were open when the process ended normally.
pub fn left_open(trace: &Trace) -> Vec<String> {
    let is_over = trace.has(flags::CLOSED);
    let open = trace
        .phases
        .iter()
        .map(|phase| &phase.row)
        .filter(|row| is_over && row.open > 0 && row.kind != phase::AUTOMATIC);
    open.map(|row| row.name.to_string()).collect()
}

/// Returns the phases of a rank. `most` is the highest resident memory of the process.
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
                // Older traces do not include an open entry in the total; for the first entry it is
                // known.
                total_ns: match row.entries {
                    1 if open => since.max(row.total_ns),
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
                    // The row of a killed process may be slightly out of date.
                    known => (u64::from(known) << 10).max(residents.max().unwrap_or(0)),
                },
            }
        })
        .collect()
}

/// Returns the phases that were open once, whose span is in their row.
pub fn whole_spans(trace: &Trace, names: &Names) -> Vec<Span> {
    let end = end_of(trace);
    let mut spans: Vec<Span> = (trace.phases.iter())
        .filter(|phase| phase.row.entries == 1)
        .filter_map(|phase| {
            Some(Span {
                is_sampled: is_sampled(trace, phase.index),
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

/// Returns the periods in which phases were open, in nanoseconds since the process started: from
/// the rows, and for phases entered several times as far back as the history goes.
pub fn spans(file: &Path) -> Result<Vec<Span>, String> {
    let trace = open(file, Options { history: true, detail: false })?;
    Ok(all_spans(&trace))
}

/// Returns the same for a trace that was read with its history.
pub fn all_spans(trace: &Trace) -> Vec<Span> {
    let names = Names::of(trace);
    let mut spans = whole_spans(trace, &names);
    let end = end_of(trace);
    let repeated = |index: u32| trace.phase(index).is_some_and(|phase| phase.entries != 1);
    let mut begun: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut add = |index: u32, begin_ns: u64, end_ns: u64| {
        if let Some(name) = names.phase(index) {
            let depth = depth(trace, index);
            let is_sampled = is_sampled(trace, index);
            spans.push(Span { name, depth, begin_ns, end_ns, is_sampled });
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

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_trace::Text;
    use memprof_trace::layout::{Geometry, Identity, PhaseRow, sample};
    use memprof_trace::write::{Buffer, ComponentSample, SampleHead, Writer};

    const MIB: u64 = 1 << 20;
    const MS: u64 = 1_000_000;

    /// Returns a trace with full samples at these times, and phases with these names, kinds and
    /// spans.
    fn trace(samples: &[u64], phases: &[(&str, u32, u64, u64)]) -> Trace {
        let mut memory = Buffer::new(1 << 20);
        let geometry = Geometry::for_file(1 << 20).expect("a geometry");
        let identity = Identity::default();
        let mut writer =
            Writer::create(memory.bytes_mut(), &identity, &geometry).expect("a writer");
        for time in samples {
            let row = ComponentSample { component: 4, resident: MIB, ..ComponentSample::default() };
            let head = SampleHead {
                time: time * MS,
                flags: sample::FULL,
                kernel_resident: MIB,
                walked: MIB,
            };
            writer.sample(&head, &[row]);
        }
        for (index, (name, kind, begin, end)) in phases.iter().enumerate() {
            let row = PhaseRow {
                name: Text::new(name),
                kind: *kind,
                parent: NONE,
                entries: 1,
                first_time: begin * MS,
                last_time: end * MS,
                ..PhaseRow::default()
            };
            writer.set_phase(end * MS, index as u32, &row);
        }
        // Memory was owned in each phase, and sampled in the second.
        writer.set_phase_peaks(0, &[0, MIB], &[0, 0]);
        writer.set_phase_peaks(1, &[0, MIB], &[0, MIB]);
        writer.close(1_000 * MS);
        Trace::from_bytes(memory.bytes()).expect("a trace")
    }

    #[test]
    fn samples_between_init_and_finalize_are_counted() {
        let (own, user) = (phase::AUTOMATIC, phase::USER);
        // At the beginning, in init, at its end, four in main, one in finalize, and the last one.
        let times = [1, 60, 101, 300, 400, 401, 600, 920, 990];
        let mpi = [("init", own, 50, 100), ("finalize", own, 900, 950)];
        assert_eq!(samples_in_main(&trace(&times, &mpi)), 4);
        assert_eq!(samples_in_main(&trace(&[1, 101, 990], &mpi)), 0);
        // Without MPI all samples count, whatever the program's phases are named.
        assert_eq!(samples_in_main(&trace(&times, &[("init", user, 50, 100)])), 9);
    }

    #[test]
    fn phase_in_which_nothing_resident_was_seen_is_not_sampled() {
        let user = phase::USER;
        let trace = trace(&[1, 990], &[("brief", user, 5, 6), ("long", user, 10, 900)]);
        let names = Names::of(&trace);
        let spans = whole_spans(&trace, &names);
        let seen: Vec<_> = spans.iter().map(|span| (&*span.name, span.is_sampled)).collect();
        assert_eq!(seen, [("brief", false), ("long", true)]);
        let phases = phases(&trace, &names, MIB);
        assert_eq!(phases.iter().map(RankPhase::is_sampled).collect::<Vec<_>>(), [false, true]);
    }
}
