//! Records of each rank's work: when, on which CPUs, with how many threads.

use quo::{Context, CpuSet};
use serde::{Deserialize, Serialize};

use crate::clock;

/// Phase of a rank.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// L0, the explicit solver.
    Flow,
    /// Moving data between the ranks and the workers of L1.
    Remap,
    /// L1, the implicit solver.
    Diffusion,
    /// Waiting for the workers of L1.
    Wait,
}

impl Phase {
    /// All, in the order in which they are shown.
    pub const ALL: [Phase; 4] = [Phase::Flow, Phase::Remap, Phase::Diffusion, Phase::Wait];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Phase::Flow => "L0, flow",
            Phase::Remap => "moving data",
            Phase::Diffusion => "L1, diffusion",
            Phase::Wait => "waiting for L1",
        }
    }
}

/// A stretch of time in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The phase.
    pub phase: Phase,
    /// Seconds of the monotonic clock.
    pub start: f64,
    /// End of the stretch.
    pub end: f64,
    /// Of which spent in message passing, in seconds.
    #[serde(default)]
    pub messages: f64,
    /// Threads that run it.
    pub threads: usize,
    /// CPUs the main thread may run on.
    pub cpus: String,
}

/// Time spent in one phase over a whole run.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTotal {
    /// The phase.
    pub phase: Phase,
    /// Seconds in it.
    pub seconds: f64,
    /// Of which in message passing.
    pub messages: f64,
}

/// More than this many intervals are counted but not kept.
const KEPT: usize = 40_000;

/// Records the timeline of one rank: it is in exactly one phase at any time.
#[derive(Clone)]
pub struct Recorder {
    intervals: Vec<Interval>,
    totals: [PhaseTotal; 4],
    open: Option<Interval>,
    /// True if the bindings in the next phase of threads were asked for.
    asked: bool,
    explained: Option<serde_json::Value>,
}

impl Recorder {
    /// Nothing recorded.
    pub(crate) fn new() -> Self {
        Recorder {
            intervals: Vec::new(),
            totals: Phase::ALL.map(|phase| PhaseTotal { phase, seconds: 0.0, messages: 0.0 }),
            open: None,
            asked: false,
            explained: None,
        }
    }

    /// Asks for the bindings in the next phase of threads.
    pub fn ask_for_bindings(&mut self) {
        (self.asked, self.explained) = (true, None);
    }

    /// In a phase of threads: keeps the explanation of the bindings, if requested.
    pub fn explain(&mut self, context: &Context) {
        if std::mem::take(&mut self.asked) {
            self.explained =
                context.explain().ok().and_then(|told| serde_json::to_value(told).ok());
        }
    }

    /// The bindings that were asked for, once: as a rank saw them that ran threads.
    pub fn take_bindings(&mut self) -> Option<serde_json::Value> {
        self.asked = false;
        self.explained.take()
    }

    /// Ends the phase that is open and starts another, run by `threads` threads.
    pub fn enter(&mut self, phase: Phase, threads: usize) {
        let now = clock::now();
        self.close(now);
        let cpus = own_mask().to_string();
        self.open = Some(Interval { phase, start: now, end: now, messages: 0.0, threads, cpus });
    }

    /// Says that `seconds` of the open phase were spent in message passing.
    pub fn add_messages(&mut self, seconds: f64) {
        if let Some(open) = &mut self.open {
            open.messages += seconds;
        }
    }

    /// Continues in `phase`, or starts it if none is open, as after a wait for starting ranks.
    pub fn resume(&mut self, phase: Phase, threads: usize) {
        if self.open.as_ref().is_none_or(|open| open.phase != phase) {
            self.enter(phase, threads);
        }
    }

    /// Ends the phase that is open.
    pub fn leave(&mut self) {
        self.close(clock::now());
    }

    fn close(&mut self, now: f64) {
        let Some(mut interval) = self.open.take() else { return };
        interval.end = now;
        for total in &mut self.totals {
            if total.phase == interval.phase {
                total.seconds += now - interval.start;
                total.messages += interval.messages;
            }
        }
        if self.intervals.len() < KEPT {
            self.intervals.push(interval);
        }
    }

    /// Time per phase, and the intervals in order.
    pub fn finish(mut self) -> (Vec<PhaseTotal>, Vec<Interval>) {
        self.leave();
        (self.totals.to_vec(), self.intervals)
    }
}

/// The CPUs the calling thread may run on now; empty if the kernel does not say.
pub fn own_mask() -> CpuSet {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => CpuSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_is_in_one_phase_and_totals_cover_it() {
        let mut recorder = Recorder::new();
        recorder.enter(Phase::Flow, 1);
        recorder.add_messages(0.25);
        recorder.enter(Phase::Remap, 1);
        recorder.enter(Phase::Flow, 1);
        let (totals, intervals) = recorder.finish();
        let order: Vec<Phase> = intervals.iter().map(|i| i.phase).collect();
        assert_eq!(order, [Phase::Flow, Phase::Remap, Phase::Flow]);
        for pair in intervals.windows(2) {
            assert_eq!(pair[0].end, pair[1].start);
        }
        let covered: f64 = totals.iter().map(|total| total.seconds).sum();
        let whole = intervals[2].end - intervals[0].start;
        assert!((covered - whole).abs() < 1e-9);
        assert_eq!(totals[0].messages, 0.25);
        assert!(!intervals[0].cpus.is_empty());
    }

    #[test]
    fn resuming_starts_a_phase_only_where_none_is_open() {
        let mut recorder = Recorder::new();
        recorder.enter(Phase::Flow, 3);
        recorder.resume(Phase::Flow, 3);
        recorder.leave();
        recorder.leave();
        recorder.resume(Phase::Flow, 3);
        let (_, intervals) = recorder.finish();
        assert_eq!(intervals.len(), 2, "{intervals:?}");
        assert!(intervals[0].end < intervals[1].start, "{intervals:?}");
    }
}
