//! The model's timelines as pictures.

use crate::model::{Job, Moment, Node, Rank, Timeline, noun};
use crate::output;
use crate::picture::{self, Outline, Peak, Phase, Series, Style, Theme};
use crate::terminal::clean;
use crate::units::{bytes, count, time};
use std::path::Path;

/// All ranks together.
pub fn job(job: &Job) -> picture::Timeline {
    let title = format!(
        "{}: {} on {}, resident",
        clean(job.program()),
        count(job.ranks().count(), job.noun()),
        count(job.nodes.len(), "node")
    );
    timeline(&job.timeline, title, None)
}

/// One node, shared pages counted once.
pub fn node(node: &Node) -> picture::Timeline {
    let ranks = count(node.ranks.len(), noun(node.ranks.iter()));
    let title = format!("{}: {ranks}, resident, shared pages once", clean(&node.host));
    timeline(&node.timeline, title, None)
}

/// One rank, with its owned memory as a line.
pub fn rank(rank: &Rank) -> anyhow::Result<picture::Timeline> {
    Ok(timeline(&rank.timeline()?, rank_title(rank), Some("owned")))
}

/// The line above the picture of a rank.
pub fn rank_title(rank: &Rank) -> String {
    format!(
        "{}: {} on {}, resident",
        rank.label(),
        clean(rank.program()),
        clean(&rank.identity.host)
    )
}

/// Any timeline; `owned` names a line for the owned memory.
pub fn timeline(from: &Timeline, title: String, owned: Option<&str>) -> picture::Timeline {
    let outline = owned.map(|name| {
        let mut values = vec![0u64; from.bins];
        for series in from.series.iter().filter(|series| series.group.has_ledger()) {
            for (sum, value) in values.iter_mut().zip(&series.owned) {
                *sum = sum.saturating_add(*value);
            }
        }
        Outline { name: name.to_owned(), values }
    });
    picture::Timeline {
        title,
        possible: Some(from.ceilings()),
        times: (0..from.bins).map(|bin| from.middle_ns(bin)).collect(),
        series: from
            .series
            .iter()
            .map(|series| Series {
                name: clean(&series.name),
                group: series.group.label().to_owned(),
                values: series.mean.clone(),
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
        peak: from.peak.as_ref().map(peak),
    }
}

fn peak(moment: &Moment) -> Peak {
    let mut label = format!("{} at {}", bytes(moment.bytes), time(moment.time_ns));
    for part in [&moment.phase, &moment.mpi_function].into_iter().flatten() {
        label += &format!(" · {}", clean(part));
    }
    Peak { time: moment.time_ns, bytes: moment.bytes, label }
}

/// Writes vectors; how many bytes.
pub fn svg(drawn: &picture::Timeline, file: &Path) -> anyhow::Result<u64> {
    output::write(file, picture::timeline(drawn, &Style::default()).as_bytes())
}

/// Writes pixels, two for each unit; how many bytes.
pub fn png(drawn: &picture::Timeline, file: &Path) -> anyhow::Result<u64> {
    let style = Style { theme: Theme::Light, ..Style::default() };
    output::write(file, &picture::png(&picture::timeline(drawn, &style), 2.0)?)
}
