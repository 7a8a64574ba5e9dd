//! What a rank's summary leaves out, read from its trace again.

use std::collections::HashSet;

use memprof_trace::read::Trace;

use super::reduce::{self, Part};
use super::running_processes::RunningProcesses;
use super::site::Collect;
use super::{Counter, HeldThen, LoadError, Object, Rank, Reduced, Site, Sites, Span, Timeline};

/// Returns the periods in which phases were open, on the axis of the job, as far back as the
/// history goes.
pub fn spans(rank: &Rank) -> Vec<Span> {
    match reduce::spans(&rank.file) {
        Ok(spans) => placed(spans, rank),
        Err(_) => rank.spans(),
    }
}

/// Moves spans to the axis of the job. The summary of the rank has the phases that samples saw; a
/// history alone does not.
fn placed(mut spans: Vec<Span>, rank: &Rank) -> Vec<Span> {
    let seen = rank.phases.iter().filter(|phase| phase.is_sampled());
    let seen: HashSet<&str> = seen.map(|phase| &*phase.name).collect();
    for span in &mut spans {
        span.begin_ns = span.begin_ns.saturating_add(rank.offset_ns);
        span.end_ns = span.end_ns.saturating_add(rank.offset_ns);
        span.is_sampled = seen.contains(&*span.name);
    }
    spans
}

impl Rank {
    /// Returns the periods of all phases, including those entered several times, from the trace of
    /// this rank with its history.
    pub fn all_spans(&self, trace: &Trace) -> Vec<Span> {
        placed(reduce::all_spans(trace), self)
    }

    /// Reads the sampled call stacks from the file again, with the objects that they refer to.
    ///
    /// # Errors
    /// If the file can no longer be read, or is damaged.
    pub fn sites(&self) -> Result<(Vec<Object>, Vec<Site>), LoadError> {
        reduce::sites(&self.file).map_err(|why| LoadError::Trace { file: self.file.clone(), why })
    }

    /// Reads what advances at equal moments of its work, and the objects that places refer to.
    ///
    /// # Errors
    /// If the file can no longer be read, or is damaged.
    pub fn counters(&self) -> Result<(Vec<Object>, Vec<Counter>), LoadError> {
        reduce::counters(&self.file)
            .map_err(|why| LoadError::Trace { file: self.file.clone(), why })
    }

    /// Reads the sampled call stacks and merges them like those of a job, largest peak first.
    ///
    /// # Errors
    /// If the file can no longer be read, or is damaged.
    pub fn largest_sites(&self) -> Result<Sites, LoadError> {
        let (objects, sites) = self.sites()?;
        let mut collect = Collect::until(self.duration_ns);
        collect.add_process(objects, sites, 0);
        Ok(collect.finish())
    }

    /// Reads the components over time from the file again, on the axis of the job, without phases
    /// and peak.
    ///
    /// # Errors
    /// If the file can no longer be read, or is damaged.
    pub fn components(&self) -> Result<Timeline, LoadError> {
        let Reduced { mut timeline, .. } =
            reduce::reduce(&self.file, Part::Everything, &RunningProcesses::new())
                .map_err(|why| LoadError::Trace { file: self.file.clone(), why })?;
        timeline.start_ns = timeline.start_ns.saturating_add(self.offset_ns);
        Ok(timeline)
    }

    /// Reads the timeline from the file again, on the axis of the job.
    ///
    /// # Errors
    /// If the file can no longer be read, or is damaged.
    pub fn timeline(&self) -> Result<Timeline, LoadError> {
        let mut timeline = self.components()?;
        timeline.phases = spans(self);
        let mut peak = self.peak.clone();
        peak.time_ns = peak.time_ns.saturating_add(self.offset_ns);
        timeline.peak_at_most = self.kernel_peak.max(peak.bytes);
        timeline.peak = Some(peak);
        let held = timeline.series.iter().map(|series| HeldThen {
            name: series.name.clone(),
            bytes: self.held(&series.name).map_or(0, |held| held.resident_at_peak),
        });
        timeline.peak_held = held.filter(|held| held.bytes > 0).collect();
        Ok(timeline)
    }
}
