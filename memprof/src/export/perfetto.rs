//! Perfetto's native format: a process for each rank, a counter track for each component, phases as
//! slices.
//!
//! Field numbers are those of `perfetto_trace.proto`; their meaning never changes.

use super::History;
use super::protobuf::Message;
use crate::model::Rank;
use std::io::{self, Write};

mod trace {
    pub const PACKET: u32 = 1;
}

mod packet {
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const CLOCK: u32 = 58;
    pub const TRACK: u32 = 60;
    /// The sequence begins: no earlier data are needed.
    pub const CLEARED: u64 = 1;
    /// CLOCK_BOOTTIME, which needs no conversion.
    pub const BOOTTIME: u64 = 6;
}

mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const PARENT: u32 = 5;
    pub const COUNTER: u32 = 8;
    pub const PROCESS_ID: u32 = 1;
    pub const PROCESS_ORDER: u32 = 3;
    pub const PROCESS_NAME: u32 = 6;
    pub const COUNTER_UNIT: u32 = 3;
    pub const SIZE_BYTES: u64 = 3;
}

mod event {
    pub const CATEGORIES: u32 = 22;
    pub const NAME: u32 = 23;
    pub const TYPE: u32 = 9;
    pub const TRACK: u32 = 11;
    pub const VALUE: u32 = 30;
    pub const BEGIN: u64 = 1;
    pub const END: u64 = 2;
    pub const COUNTER: u64 = 4;
}

/// Numbers tracks in the order in which they are requested.
#[derive(Default)]
pub(super) struct Tracks {
    last: u64,
    ranks: u64,
}

impl Tracks {
    pub fn rank(&mut self, out: &mut impl Write, rank: &Rank, history: &History) -> io::Result<()> {
        self.ranks += 1;
        let process = self.process(out, rank)?;
        self.phases(out, process, history)?;
        let total = self.counter(out, process, "resident, all components")?;
        let kernel = self.counter(out, process, "resident, by the kernel")?;
        for point in &history.points {
            self.count(out, total, point.time_ns, point.total)?;
            self.count(out, kernel, point.time_ns, point.kernel)?;
        }
        type Value = fn(&super::Row) -> u64;
        let values: [(&str, Value); 2] =
            [("resident", |row| row.resident), ("owned", |row| row.owned)];
        let by_name = history.by_name();
        for (what, value) in values {
            for (name, rows) in history.names.iter().zip(&by_name) {
                if rows.iter().all(|(_, row)| value(row) == 0) {
                    continue;
                }
                let track = self.counter(out, process, &format!("{what} {name}"))?;
                for (at, value) in changes(rows, history.points.len(), value) {
                    self.count(out, track, history.points[at].time_ns, value)?;
                }
            }
        }
        Ok(())
    }

    fn process(&mut self, out: &mut impl Write, rank: &Rank) -> io::Result<u64> {
        // Process numbers are not unique in a job with several machines.
        let name = format!(
            "{} · {} · {} (pid {})",
            rank.label(),
            rank.program(),
            rank.identity.host,
            rank.identity.pid
        );
        let process = Message::default()
            .number(track::PROCESS_ID, self.ranks)
            .number(track::PROCESS_ORDER, self.ranks)
            .text(track::PROCESS_NAME, &name);
        let uuid = self.uuid();
        let described =
            Message::default().number(track::UUID, uuid).message(track::PROCESS, process);
        let first = self.ranks == 1;
        let packet = Message::default().message(packet::TRACK, described);
        self.packet(
            out,
            match first {
                true => packet.number(packet::SEQUENCE_FLAGS, packet::CLEARED),
                false => packet,
            },
        )?;
        Ok(uuid)
    }

    fn phases(&mut self, out: &mut impl Write, process: u64, history: &History) -> io::Result<()> {
        // Slices of a track have to nest; others are on a track for their depth.
        let deepest = history.phases.iter().map(|span| span.depth).max();
        for depth in 0..=deepest.unwrap_or(0).min(64) {
            let spans: Vec<_> = history.phases.iter().filter(|span| span.depth == depth).collect();
            if spans.is_empty() {
                continue;
            }
            let uuid = self.uuid();
            let name = match depth {
                0 => "phases".to_owned(),
                depth => format!("phases, level {depth}"),
            };
            let described = Message::default()
                .number(track::UUID, uuid)
                .number(track::PARENT, process)
                .text(track::NAME, &name);
            self.packet(out, Message::default().message(packet::TRACK, described))?;
            let mut end = 0;
            for span in spans {
                let begin = span.begin_ns.max(end);
                end = span.end_ns.max(begin);
                let slice = Message::default()
                    .number(event::TYPE, event::BEGIN)
                    .number(event::TRACK, uuid)
                    .text(event::CATEGORIES, "phase")
                    .text(event::NAME, &span.name);
                self.event(out, begin, slice)?;
                let slice =
                    Message::default().number(event::TYPE, event::END).number(event::TRACK, uuid);
                self.event(out, end, slice)?;
            }
        }
        Ok(())
    }

    fn counter(&mut self, out: &mut impl Write, process: u64, name: &str) -> io::Result<u64> {
        let uuid = self.uuid();
        let described = Message::default()
            .number(track::UUID, uuid)
            .number(track::PARENT, process)
            .text(track::NAME, name)
            .message(
                track::COUNTER,
                Message::default().number(track::COUNTER_UNIT, track::SIZE_BYTES),
            );
        self.packet(out, Message::default().message(packet::TRACK, described))?;
        Ok(uuid)
    }

    fn count(&self, out: &mut impl Write, track: u64, time: u64, value: u64) -> io::Result<()> {
        // The value is signed in this format.
        let value = value.min(i64::MAX as u64);
        let counted = Message::default()
            .number(event::TYPE, event::COUNTER)
            .number(event::TRACK, track)
            .number(event::VALUE, value);
        self.event(out, time, counted)
    }

    fn event(&self, out: &mut impl Write, time: u64, event: Message) -> io::Result<()> {
        let packet = Message::default()
            .number(packet::TIMESTAMP, time)
            .number(packet::CLOCK, packet::BOOTTIME)
            .message(packet::TRACK_EVENT, event);
        self.packet(out, packet)
    }

    fn packet(&self, out: &mut impl Write, packet: Message) -> io::Result<()> {
        let packet = packet.number(packet::SEQUENCE, 1);
        out.write_all(Message::default().message(trace::PACKET, packet).bytes())
    }

    fn uuid(&mut self) -> u64 {
        self.last += 1;
        // Perfetto uses small numbers for tracks that it creates itself.
        self.last + (1 << 32)
    }
}

/// Returns at which of `points` points a counter changes, and its new value; the value is 0 at
/// points without a row.
fn changes(
    rows: &[(usize, &super::Row)],
    points: usize,
    value: impl Fn(&super::Row) -> u64,
) -> Vec<(usize, u64)> {
    let mut changes: Vec<(usize, u64)> = Vec::new();
    // A counter keeps its value until the next.
    let mut set = |at: usize, value: u64| {
        if changes.last().is_none_or(|(_, last)| *last != value) {
            changes.push((at, value));
        }
    };
    let mut next = 0;
    for (at, row) in rows {
        if *at > next {
            set(next, 0);
        }
        set(*at, value(row));
        next = at + 1;
    }
    if next < points {
        set(next, 0);
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counter_has_each_points_value_and_changes_only_there(
            values in prop::collection::vec(prop::option::of(0u64..3), 1..20),
        ) {
            let row = |value: &Option<u64>| value.map(|resident| Row { resident, ..Row::default() });
            let rows: Vec<Option<Row>> = values.iter().map(row).collect();
            let rows: Vec<(usize, &Row)> =
                rows.iter().enumerate().filter_map(|(at, row)| Some((at, row.as_ref()?))).collect();
            let mut wanted: Vec<(usize, u64)> = values.iter().map(|value| value.unwrap_or(0)).enumerate().collect();
            wanted.dedup_by_key(|(_, value)| *value);
            prop_assert_eq!(changes(&rows, values.len(), |row| row.resident), wanted);
        }
    }
}
