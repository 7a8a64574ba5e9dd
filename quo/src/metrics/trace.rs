//! Timeline of phases for the trace viewers Chrome `about:tracing` and Perfetto.
//!
//! Each rank is a process of the trace. A phase is a slice that contains slices for its parts
//! (selection, remapping, work, sleep); the number of working threads is a counter. Pure: takes
//! metrics as values, gathered from any number of ranks in any order, and writes JSON to any
//! writer.
//!
//! ```
//! use quo::phase::{PhaseMetrics, trace::Trace};
//! let mut diffusion = PhaseMetrics::default();
//! diffusion.name = "diffusion".to_owned();
//! diffusion.started_at = 1_700_000_000_000_000_000;
//! diffusion.run_seconds = 0.25;
//! let mut json = Vec::new();
//! Trace::of([&diffusion]).write(&mut json)?;
//! assert!(String::from_utf8_lossy(&json).contains(r#""traceEvents":["#));
//! # Ok::<(), quo::phase::trace::TraceError>(())
//! ```

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use super::PhaseMetrics;
use crate::CpuSet;

/// Reason why a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The writer failed.
    #[error("the trace of {events} events could not be written")]
    Write {
        /// Number of events in the trace.
        events: usize,
        /// Error of the writer.
        source: io::Error,
    },
}

/// A trace in the JSON object format of the trace viewers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trace {
    /// Events: first the names of the processes, then the rest rank by rank.
    #[serde(rename = "traceEvents")]
    pub events: Vec<Event>,
    /// Unit in which viewers show times.
    #[serde(rename = "displayTimeUnit")]
    pub display_time_unit: String,
    /// Data other than events.
    #[serde(rename = "otherData")]
    pub other: OtherData,
}

/// Data of a trace other than its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OtherData {
    /// Time 0 of the trace, when the earliest phase began: nanoseconds since the Unix epoch, as
    /// text because JSON readers lose digits of numbers this large.
    pub origin_unix_nanoseconds: String,
}

/// An event. Times are microseconds since the origin of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ph")]
#[non_exhaustive]
pub enum Event {
    /// Names a process or a row.
    #[serde(rename = "M")]
    Metadata {
        /// `process_name`, `process_sort_index` or `thread_name`.
        name: String,
        /// The rank.
        pid: usize,
        /// The row within the rank.
        tid: usize,
        /// The name or the position.
        args: MetadataArgs,
    },
    /// A slice of time: a phase or a part of one.
    #[serde(rename = "X")]
    Complete {
        /// The name of the phase or part.
        name: String,
        /// `phase` or `part`.
        cat: String,
        /// Start time.
        ts: f64,
        /// Duration in microseconds.
        dur: f64,
        /// The rank.
        pid: usize,
        /// The row within the rank.
        tid: usize,
        /// Details.
        args: SliceArgs,
    },
    /// Number of working threads of a rank from here on.
    #[serde(rename = "C")]
    Counter {
        /// `threads`.
        name: String,
        /// Time of the change.
        ts: f64,
        /// The rank.
        pid: usize,
        /// The new value.
        args: CounterArgs,
    },
}

/// The value of a metadata event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MetadataArgs {
    /// A name.
    Name(String),
    /// Position in the order of processes.
    SortIndex(usize),
}

/// The details of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SliceArgs {
    /// The rank on its node.
    pub node_rank: usize,
    /// True if the rank was selected to work.
    pub selected: bool,
    /// Number of threads the rank worked with.
    pub threads: usize,
    /// CPUs the rank worked on.
    pub cpuset: CpuSet,
}

/// The value of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CounterArgs {
    /// Number of working threads.
    pub threads: usize,
}

impl Trace {
    /// Draws the phases of any number of ranks, in any order, starting with the earliest.
    ///
    /// Phases of one rank that overlap without being nested, such as those of two contexts on two
    /// threads, are put in separate rows: slices of a row are always nested or disjoint. A duration
    /// that is negative or not a number counts as 0.
    #[must_use]
    pub fn of<'a>(metrics: impl IntoIterator<Item = &'a PhaseMetrics>) -> Self {
        let mut ranks: BTreeMap<usize, Vec<Drawn<'a>>> = BTreeMap::new();
        let mut origin = u64::MAX;
        for metrics in metrics {
            origin = origin.min(metrics.started_at);
            ranks.entry(metrics.rank).or_default().push(Drawn::of(metrics));
        }
        let mut names = Vec::new();
        let mut events = Vec::new();
        for (&rank, drawn) in &mut ranks {
            // Longer phases first, so that a nested phase follows the one that contains it.
            drawn.sort_by_key(|drawn| (drawn.start, std::cmp::Reverse(drawn.end)));
            let rows = draw_rank(rank, origin, drawn, &mut events);
            name_rank(rank, rows, drawn, &mut names);
        }
        names.append(&mut events);
        Self {
            events: names,
            display_time_unit: "ms".to_owned(),
            other: OtherData {
                origin_unix_nanoseconds: if ranks.is_empty() { 0 } else { origin }.to_string(),
            },
        }
    }

    /// Writes the trace as JSON. Wrap a file in a buffered writer.
    ///
    /// # Errors
    ///
    /// [`TraceError::Write`] if the writer fails.
    pub fn write(&self, mut out: impl io::Write) -> Result<(), TraceError> {
        let fail = |source| TraceError::Write { events: self.events.len(), source };
        serde_json::to_writer(&mut out, self).map_err(|error| fail(error.into()))?;
        out.flush().map_err(fail)
    }
}

/// A phase with its times in whole nanoseconds, so that parts add up exactly.
struct Drawn<'a> {
    metrics: &'a PhaseMetrics,
    start: u64,
    end: u64,
    /// Name, start and end; only parts that took time.
    parts: Vec<(&'static str, u64, u64)>,
}

impl<'a> Drawn<'a> {
    fn of(metrics: &'a PhaseMetrics) -> Self {
        let mut end = metrics.started_at;
        let mut parts = Vec::with_capacity(4);
        for (name, seconds) in [
            ("select", metrics.select_seconds),
            ("remap", metrics.remap_seconds),
            (RUN, metrics.run_seconds),
            ("quiesced", metrics.quiesced_seconds),
        ] {
            let start = end;
            end = end.saturating_add(nanoseconds(seconds));
            if end > start {
                parts.push((name, start, end));
            }
        }
        Self { metrics, start: metrics.started_at, end, parts }
    }

    fn spans(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        std::iter::once((self.start, self.end))
            .chain(self.parts.iter().map(|&(_, start, end)| (start, end)))
    }
}

const RUN: &str = "run";

fn nanoseconds(seconds: f64) -> u64 {
    // The conversion saturates: negative values and NaN become 0.
    (seconds * 1e9).round() as u64
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// Draws the phases of a rank, in order of their start, and returns the number of rows they take.
fn draw_rank(rank: usize, origin: u64, drawn: &[Drawn<'_>], events: &mut Vec<Event>) -> usize {
    let mut rows: Vec<Vec<(u64, u64)>> = Vec::new();
    let mut changes: BTreeMap<u64, i128> = BTreeMap::new();
    for phase in drawn {
        let tid = row_for(phase, &mut rows);
        let metrics = phase.metrics;
        let whole = (metrics.name.as_str(), "phase", phase.start, phase.end);
        let parts = phase.parts.iter().map(|&(name, start, end)| (name, "part", start, end));
        for (name, cat, start, end) in std::iter::once(whole).chain(parts) {
            events.push(Event::Complete {
                name: name.to_owned(),
                cat: cat.to_owned(),
                ts: microseconds(start - origin),
                dur: microseconds(end - start),
                pid: rank,
                tid,
                args: SliceArgs {
                    node_rank: metrics.node_rank,
                    selected: metrics.selected,
                    threads: metrics.threads,
                    cpuset: metrics.cpuset.clone(),
                },
            });
        }
        for &(_, start, end) in phase.parts.iter().filter(|part| part.0 == RUN) {
            *changes.entry(start).or_default() += metrics.threads as i128;
            *changes.entry(end).or_default() -= metrics.threads as i128;
        }
    }
    let mut at_work = 0;
    for (time, change) in changes {
        at_work += change;
        events.push(Event::Counter {
            name: "threads".to_owned(),
            ts: microseconds(time - origin),
            pid: rank,
            args: CounterArgs { threads: usize::try_from(at_work).unwrap_or(0) },
        });
    }
    rows.len()
}

/// Returns the first row in which a phase is nested in, or disjoint from, all others.
fn row_for(phase: &Drawn<'_>, rows: &mut Vec<Vec<(u64, u64)>>) -> usize {
    let fits = |row: &mut Vec<(u64, u64)>| {
        // Phases are sorted by start: those that ended before this one are irrelevant.
        row.retain(|&(_, end)| end > phase.start);
        row.iter().all(|&(start, end)| {
            start >= phase.end.max(phase.start + 1) || (start <= phase.start && phase.end <= end)
        })
    };
    let index = rows.iter_mut().position(fits).unwrap_or_else(|| {
        rows.push(Vec::new());
        rows.len() - 1
    });
    rows[index].extend(phase.spans());
    index
}

fn name_rank(rank: usize, rows: usize, drawn: &[Drawn<'_>], names: &mut Vec<Event>) {
    let node_rank = drawn.first().map_or(0, |phase| phase.metrics.node_rank);
    let mut push = |name: &str, tid, args| {
        names.push(Event::Metadata { name: name.to_owned(), pid: rank, tid, args });
    };
    let process = format!("rank {rank} (node rank {node_rank})");
    push("process_name", 0, MetadataArgs::Name(process));
    push("process_sort_index", 0, MetadataArgs::SortIndex(rank));
    for row in 0..rows {
        let name = if row == 0 { "phases".to_owned() } else { format!("phases {}", row + 1) };
        push("thread_name", row, MetadataArgs::Name(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn phase(name: &str, rank: usize, start: u64, seconds: [f64; 4]) -> PhaseMetrics {
        let [select_seconds, remap_seconds, run_seconds, quiesced_seconds] = seconds;
        PhaseMetrics {
            name: name.to_owned(),
            rank,
            node_rank: rank % 4,
            selected: run_seconds > 0.0,
            threads: if run_seconds > 0.0 { 4 } else { 0 },
            cpuset: CpuSet::from_range(0..4),
            overlap: CpuSet::new(),
            notes: Vec::new(),
            started_at: start,
            select_seconds,
            remap_seconds,
            run_seconds,
            quiesced_seconds,
        }
    }

    fn round_trip(metrics: &[PhaseMetrics]) -> Trace {
        let mut json = Vec::new();
        let trace = Trace::of(metrics);
        trace.write(&mut json).unwrap();
        serde_json::from_slice(&json).unwrap()
    }

    /// Returns process, row, start and end of every slice, in whole nanoseconds.
    fn slices(trace: &Trace) -> Vec<(usize, usize, i64, i64)> {
        let slice = |event: &Event| match event {
            Event::Complete { ts, dur, pid, tid, .. } => {
                let start = (ts * 1e3).round() as i64;
                Some((*pid, *tid, start, start + (dur * 1e3).round() as i64))
            }
            _ => None,
        };
        trace.events.iter().filter_map(slice).collect()
    }

    #[test]
    fn phase_of_two_ranks_is_written_as_viewers_expect() {
        let worker = phase("diffusion", 0, 5_000_000_000, [0.001, 0.002, 1.5, 0.0]);
        let sleeper = phase("diffusion", 1, 5_000_500_000, [0.001, 0.0, 0.0, 1.501]);
        let mut json = Vec::new();
        Trace::of([&sleeper, &worker]).write(&mut json).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(value["displayTimeUnit"], "ms");
        assert_eq!(value["otherData"]["origin_unix_nanoseconds"], "5000000000");
        let events = value["traceEvents"].as_array().unwrap();
        let find = |name: &str, ph: &str, pid: u64| {
            events.iter().find(|e| e["name"] == name && e["ph"] == ph && e["pid"] == pid).unwrap()
        };
        assert_eq!(find("process_name", "M", 1)["args"]["name"], "rank 1 (node rank 1)");
        assert_eq!(find("process_sort_index", "M", 1)["args"]["sort_index"], 1);
        let whole = find("diffusion", "X", 0);
        assert_eq!((&whole["ts"], &whole["dur"]), (&0.0.into(), &1_503_000.0.into()));
        assert_eq!(whole["args"]["cpuset"], "0-3");
        assert_eq!(whole["args"]["selected"], true);
        let run = find("run", "X", 0);
        assert_eq!((&run["ts"], &run["dur"]), (&3_000.0.into(), &1_500_000.0.into()));
        let asleep = find("quiesced", "X", 1);
        assert_eq!((&asleep["ts"], &asleep["dur"]), (&1_500.0.into(), &1_501_000.0.into()));
        let counts: Vec<_> = events.iter().filter(|event| event["ph"] == "C").collect();
        assert_eq!(counts.len(), 2);
        assert_eq!((&counts[0]["args"]["threads"], &counts[0]["ts"]), (&4.into(), &3_000.0.into()));
        assert_eq!(counts[1]["args"]["threads"], 0);
        assert!(!events.iter().any(|event| event["name"] == "remap" && event["pid"] == 1));
    }

    #[test]
    fn crossing_phases_get_own_rows_and_nested_ones_do_not() {
        let outer = phase("outer", 0, 0, [0.0, 0.0, 10.0, 0.0]);
        let inner = phase("inner", 0, 1_000_000_000, [0.0, 0.0, 2.0, 0.0]);
        let crossing = phase("crossing", 0, 9_000_000_000, [0.0, 0.0, 5.0, 0.0]);
        let trace = round_trip(&[crossing, inner, outer]);
        let rows: BTreeMap<String, usize> = trace
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Complete { name, tid, cat, .. } if cat == "phase" => {
                    Some((name.clone(), *tid))
                }
                _ => None,
            })
            .collect();
        assert_eq!((rows["outer"], rows["inner"], rows["crossing"]), (0, 0, 1));
    }

    #[test]
    fn durations_without_sense_count_as_nothing() {
        let broken = phase("broken", 3, 7, [f64::NAN, -1.0, f64::NEG_INFINITY, -0.0]);
        assert_eq!(slices(&round_trip(&[broken])), [(3, 0, 0, 0)]);
    }

    #[test]
    fn nothing_measured_is_an_empty_trace() {
        assert_eq!(round_trip(&[]).events, []);
    }

    #[test]
    fn a_writer_that_fails_is_reported() {
        let mut full = [0_u8; 16];
        let error =
            Trace::of([&phase("p", 0, 0, [1.0; 4])]).write(full.as_mut_slice()).unwrap_err();
        assert!(matches!(error, TraceError::Write { events: 10, .. }), "{error:?}");
    }

    fn metrics() -> impl Strategy<Value = PhaseMetrics> {
        let seconds = prop_oneof![3 => 0.0..3.0_f64, 1 => Just(0.0), 1 => Just(-2.0)];
        ("[a-z\"\\\\é]{0,6}", 0_usize..4, 0_u64..5_000_000_000, prop::array::uniform4(seconds))
            .prop_map(|(name, rank, start, seconds)| phase(&name, rank, start, seconds))
    }

    proptest! {
        #[test]
        fn slices_of_a_row_nest_and_no_time_is_negative(
            metrics in proptest::collection::vec(metrics(), 0..24),
        ) {
            let trace = round_trip(&metrics);
            prop_assert_eq!(&trace, &Trace::of(&metrics));
            let slices = slices(&trace);
            for &(pid, tid, start, end) in &slices {
                prop_assert!(0 <= start && start <= end);
                for &(other_pid, other_tid, from, to) in &slices {
                    if (pid, tid) == (other_pid, other_tid) {
                        let apart = end <= from || to <= start;
                        let nested = (from <= start && end <= to) || (start <= from && to <= end);
                        prop_assert!(apart || nested, "{start}-{end} and {from}-{to}");
                    }
                }
            }
            let phases = trace.events.iter().filter(|event| {
                matches!(event, Event::Complete { cat, .. } if cat == "phase")
            });
            prop_assert_eq!(phases.count(), metrics.len());
            let times = trace.events.iter().filter_map(|event| match event {
                Event::Counter { ts, .. } => Some(*ts),
                _ => None,
            });
            prop_assert!(times.into_iter().all(|ts| ts >= 0.0));
        }
    }
}
