//! JSON: one rank at a time, in columns. The guide describes the format.

use super::{History, Kind, Point, Row};
use crate::model::{Group, Held, Identity, Job, Moment, Rank, Span, State};
use serde::{Serialize, Serializer};
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
    #[serde(serialize_with = "Moment::or_null")]
    peak: &'a Moment,
    components: &'a [Held],
    phases: &'a [Span],
    time_ns: Vec<u64>,
    kind: Vec<&'static str>,
    total: Vec<u64>,
    kernel: Vec<u64>,
    series: AllSeries<'a>,
}

#[derive(Serialize)]
struct SeriesEntry<'a> {
    name: &'a str,
    group: &'static str,
    owned: Vec<u64>,
    resident: Vec<u64>,
    resident_low: Vec<u64>,
    resident_high: Vec<u64>,
    /// `None` where it is not known.
    shared: Vec<Option<u64>>,
    swapped: Vec<Option<u64>>,
}

/// The columns of all components that ever held memory, one after another: only one is in memory at
/// a time.
struct AllSeries<'a>(&'a History);

impl Serialize for AllSeries<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let by_name = self.0.by_name();
        let held = self.0.names.iter().zip(&by_name).filter(|(_, rows)| !rows.is_empty());
        to.collect_seq(held.map(|(name, rows)| SeriesEntry::of(name, rows, &self.0.points)))
    }
}

impl<'a> SeriesEntry<'a> {
    fn of(name: &'a str, rows: &[(usize, &Row)], points: &[Point]) -> Self {
        let column = |value: fn(&Row) -> u64| {
            let mut column = vec![0; points.len()];
            for (at, row) in rows {
                column[*at] = value(row);
            }
            column
        };
        // For samples, it is known.
        let sometimes = |value: fn(&Row) -> u64| {
            let known =
                |(value, point): (u64, &Point)| (point.kind == Kind::Sample).then_some(value);
            column(value).into_iter().zip(points).map(known).collect()
        };
        SeriesEntry {
            name,
            group: Group::of(name).label(),
            owned: column(|row| row.owned),
            resident: column(|row| row.resident),
            resident_low: column(|row| row.low),
            resident_high: column(|row| row.high),
            shared: sometimes(|row| row.shared),
            swapped: sometimes(|row| row.swapped),
        }
    }
}

impl<'a, W: Write> Document<'a, W> {
    pub fn begin(out: &'a mut W, job: &Job) -> anyhow::Result<Self> {
        write!(out, "{{\"memprof_export\":{VERSION},\"program\":")?;
        serde_json::to_writer(&mut *out, job.program())?;
        write!(out, ",\"started_ns\":{},\"ranks\":[", job.started_ns)?;
        Ok(Self { out, ranks: 0 })
    }

    pub fn rank(&mut self, rank: &Rank, history: &History) -> anyhow::Result<()> {
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
            series: AllSeries(history),
        };
        serde_json::to_writer(&mut *self.out, &entry)?;
        Ok(())
    }

    pub fn end(self) -> anyhow::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        Ok(())
    }
}
