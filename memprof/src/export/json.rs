//! JSON: a rank at a time, in columns. The form is described in the guide.

use super::{History, Kind};
use crate::model::{Held, Identity, Job, Moment, Rank, Span, State};
use serde::Serialize;
use std::io::Write;

/// Version of this form; fields are only added within one.
const VERSION: u32 = 1;

/// A document that is being written.
pub(super) struct Document<'a, W: Write> {
    out: &'a mut W,
    ranks: usize,
}

#[derive(Serialize)]
struct RankEntry<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    state: State,
    offset_ns: u64,
    duration_ns: u64,
    peak: &'a Moment,
    components: &'a [Held],
    phases: &'a [Span],
    time_ns: Vec<u64>,
    kind: Vec<&'static str>,
    total: Vec<u64>,
    kernel: Vec<u64>,
    series: Vec<SeriesEntry<'a>>,
}

#[derive(Serialize)]
struct SeriesEntry<'a> {
    name: &'a str,
    group: &'static str,
    owned: Vec<u64>,
    resident: Vec<u64>,
    resident_low: Vec<u64>,
    resident_high: Vec<u64>,
    /// Nothing where it is not known.
    shared: Vec<Option<u64>>,
    swapped: Vec<Option<u64>>,
}

impl<'a, W: Write> Document<'a, W> {
    pub fn begin(out: &'a mut W, job: &Job) -> anyhow::Result<Self> {
        write!(out, "{{\"memprof_export\":{VERSION},\"program\":")?;
        serde_json::to_writer(&mut *out, job.program())?;
        write!(out, ",\"started_ns\":{},\"ranks\":[", job.started_ns)?;
        Ok(Self { out, ranks: 0 })
    }

    pub fn rank(&mut self, rank: &Rank, history: &History) -> anyhow::Result<()> {
        let count = history.points.len();
        let mut series: Vec<SeriesEntry> = history
            .names
            .iter()
            .map(|name| SeriesEntry {
                name,
                group: crate::model::Group::of(name).label(),
                owned: vec![0; count],
                resident: vec![0; count],
                resident_low: vec![0; count],
                resident_high: vec![0; count],
                shared: vec![None; count],
                swapped: vec![None; count],
            })
            .collect();
        let mut held = vec![false; series.len()];
        for (at, point) in history.points.iter().enumerate() {
            if point.kind == Kind::Sample {
                for entry in &mut series {
                    entry.shared[at] = Some(0);
                    entry.swapped[at] = Some(0);
                }
            }
            for row in &point.rows {
                held[row.component] = true;
                let entry = &mut series[row.component];
                entry.owned[at] = row.owned;
                entry.resident[at] = row.resident;
                entry.resident_low[at] = row.low;
                entry.resident_high[at] = row.high;
                if point.kind == Kind::Sample {
                    entry.shared[at] = Some(row.shared);
                    entry.swapped[at] = Some(row.swapped);
                }
            }
        }
        let mut held = held.into_iter();
        series.retain(|_| held.next().unwrap_or(false));
        if self.ranks > 0 {
            self.out.write_all(b",")?;
        }
        self.ranks += 1;
        self.out.write_all(b"\n")?;
        let points = &history.points;
        let entry = RankEntry {
            identity: &rank.identity,
            state: rank.state,
            offset_ns: rank.offset_ns,
            duration_ns: rank.duration_ns,
            peak: &rank.peak,
            components: &rank.held,
            phases: &history.phases,
            time_ns: points.iter().map(|point| point.time_ns).collect(),
            kind: points.iter().map(|point| point.kind.label()).collect(),
            total: points.iter().map(|point| point.total).collect(),
            kernel: points.iter().map(|point| point.kernel).collect(),
            series,
        };
        serde_json::to_writer(&mut *self.out, &entry)?;
        Ok(())
    }

    pub fn end(self) -> anyhow::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        Ok(())
    }
}
