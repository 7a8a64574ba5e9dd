//! The summary of the trace, and its age.

use memprof_trace::layout::TouchRow;

use super::budget::{LONGEST_AGE, LONGEST_TICK};
use super::state::Sampler;
use crate::base::dictionary;
use crate::base::overflow_counters;
use crate::recording::writer;
use crate::sampling::faults;

impl Sampler {
    /// Returns the age of the last summary.
    pub fn age(&self) -> u64 {
        writer::now().saturating_sub(self.published.time)
    }

    /// Returns true if a new summary is due.
    pub fn is_stale(&self) -> bool {
        self.age() >= LONGEST_AGE
    }

    /// Writes the summary, and the rows that it refers to.
    pub fn publish(&mut self) {
        self.published.components();
        self.published.objects();
        self.published.notes();
        self.published.loops();
        self.published.handles();
        self.published.gpu();
        let time = writer::now();
        self.published.time = time;
        if time.saturating_sub(self.published.sites_time) >= LONGEST_TICK {
            self.published.sites_time = time;
            self.published.sites();
        }
        let (faults, lost) = faults::changes(&mut |index, row, name| {
            writer::with(|writer, _| {
                let function = writer.intern(name);
                writer.set_touch(index, &TouchRow { function, ..*row });
            });
        });
        (self.record.head.faults, self.record.head.faults_lost) = (faults, lost);
        self.record.head.lost = overflow_counters::all();
        let rows = &self.record.rows[..dictionary::count().min(self.record.rows.len())];
        let (segments, head) = (&mut self.walked.segments, &self.record.head);
        let (slack, arenas) = (&self.record.slack, &self.record.arenas);
        let used = arenas.iter().rposition(|arena| arena.resident != [0; 2]);
        let arenas = &arenas[..used.map_or(0, |last| last + 1)];
        writer::with(|writer, _| {
            segments.publish(writer, time);
            writer.publish_summary_with(head, rows, Some((slack, arenas)));
        });
    }
}
