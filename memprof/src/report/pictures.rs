//! The model's timelines as pictures.

use super::table;
use crate::model::{Job, Moment, Node, Rank, Timeline, noun};
use crate::output;
use crate::picture::{self, Outline, Peak, Phase, Series, Style};
use crate::terminal::clean;
use crate::units::{count, time};
use std::path::Path;

/// Returns the picture of all ranks together.
pub fn job(job: &Job) -> picture::Timeline {
    let title = format!(
        "{}: {} on {}, resident",
        clean(job.program()),
        count(job.ranks().count(), job.noun()),
        count(job.nodes.len(), "node")
    );
    timeline(&job.timeline, title, None)
}

/// Returns the picture of one node, with shared pages counted once.
pub fn node(node: &Node) -> picture::Timeline {
    let ranks = count(node.ranks.len(), noun(node.ranks.iter()));
    let title = format!("{}: {ranks}, resident, shared pages once", clean(&node.host));
    timeline(&node.timeline, title, None)
}

/// Returns the picture of one rank, with its owned memory as a line.
///
/// # Errors
/// If the trace of the rank can no longer be read.
pub fn rank(rank: &Rank) -> anyhow::Result<picture::Timeline> {
    Ok(timeline(&rank.timeline()?, rank_title(rank), Some("owned")))
}

/// Returns the title of a rank's picture.
pub fn rank_title(rank: &Rank) -> String {
    format!(
        "{}: {} on {}, resident",
        rank.label(),
        clean(rank.program()),
        clean(&rank.identity.host)
    )
}

/// Returns the picture of any timeline; `owned` names a line for the owned memory.
pub fn timeline(from: &Timeline, title: String, owned: Option<&str>) -> picture::Timeline {
    let drawn = with_peak(from);
    let outline = owned.map(|name| {
        let mut values = vec![0u64; from.bins];
        for series in from.series.iter().filter(|series| series.group.has_ledger()) {
            for (sum, value) in values.iter_mut().zip(&series.owned) {
                *sum = sum.saturating_add(*value);
            }
        }
        drawn.insert(&mut values, |value| value);
        Outline { name: name.to_owned(), values }
    });
    let mut possible = from.ceilings();
    drawn.insert(&mut possible, |value| value.max(drawn.bytes));
    let mut times: Vec<u64> = (0..from.bins).map(|bin| from.middle_ns(bin)).collect();
    drawn.insert(&mut times, |_| drawn.time_ns);
    picture::Timeline {
        title,
        possible: Some(possible),
        times,
        series: from
            .series
            .iter()
            .map(|series| {
                let mut values = series.mean.clone();
                drawn.insert(&mut values, |_| drawn.held(&series.name));
                Series { name: clean(&series.name), group: series.group.label().to_owned(), values }
            })
            .collect(),
        outline,
        phases: from
            .phases
            .iter()
            .map(|span| Phase {
                name: clean(&span.name),
                begin: span.begin_ns,
                end: span.end_ns,
                depth: span.depth as usize,
                is_unseen: !span.is_sampled,
            })
            .collect(),
        samples: (from.samples.iter().enumerate())
            .filter(|(_, count)| **count > 0)
            .map(|(bin, _)| from.middle_ns(bin))
            .collect(),
        peak: from.peak.as_ref().map(|moment| peak(moment, &table::peak_between(from))),
    }
}

/// Point of the curve at the peak: bins have only means, which are lower.
struct PeakPoint<'a> {
    from: &'a Timeline,
    /// Number of bins before it; `None` if its components are not known.
    at: Option<usize>,
    time_ns: u64,
    bytes: u64,
}

fn with_peak(from: &Timeline) -> PeakPoint<'_> {
    let moment = from.peak.as_ref().filter(|_| !from.peak_held.is_empty() && from.bins > 0);
    let time_ns = moment.map_or(0, |moment| moment.time_ns);
    let before = (0..from.bins).take_while(|bin| from.middle_ns(*bin) < time_ns).count();
    let at = moment.map(|_| before);
    PeakPoint { from, at, time_ns, bytes: moment.map_or(0, |moment| moment.bytes) }
}

impl PeakPoint<'_> {
    /// Inserts a value at the peak, computed from that of its bin.
    fn insert(&self, values: &mut Vec<u64>, value: impl Fn(u64) -> u64) {
        if let Some(at) = self.at {
            let of_bin = values.get(self.from.bin_at(self.time_ns)).copied().unwrap_or(0);
            values.insert(at.min(values.len()), value(of_bin));
        }
    }

    fn held(&self, name: &str) -> u64 {
        let held = self.from.peak_held.iter().find(|held| &*held.name == name);
        held.map_or(0, |held| held.bytes)
    }
}

/// Returns the flag of a peak of `resident`, which is an amount or an interval.
fn peak(moment: &Moment, resident: &str) -> Peak {
    let mut label = format!("{resident} at {}", time(moment.time_ns));
    for part in [&moment.phase, &moment.mpi_function].into_iter().flatten() {
        label += &format!(" · {}", clean(part));
    }
    Peak { time: moment.time_ns, bytes: moment.bytes, label }
}

/// Writes the picture. Returns its number of bytes.
///
/// # Errors
/// If the file cannot be created or written.
pub fn svg(drawn: &picture::Timeline, file: &Path) -> anyhow::Result<u64> {
    output::write(file, picture::timeline(drawn, &Style::default()).as_bytes())
}
