//! Journal of events, kept for queries and for followers.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::model::change::Event;

/// Number of events kept in memory; the file has them all.
const KEPT: usize = 4096;

/// The event log of a job: the latest events in memory, and all of them in a file if one was named.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    kept: VecDeque<Event>,
    file: Option<File>,
    /// Why the file lacks events.
    trouble: Option<String>,
    /// Each gets a byte when an event is written.
    watchers: Vec<UnixStream>,
}

impl Journal {
    /// Opens the log in memory and, if named, appends events to a file that only this user can
    /// read.
    pub(crate) fn open(path: Option<&Path>) -> std::io::Result<Self> {
        Ok(Self { file: path.map(quo_files::append).transpose()?, ..Self::default() })
    }

    /// Registers a wake-up socket: its other end becomes readable with every event.
    pub(crate) fn watch(&mut self, end: UnixStream) -> std::io::Result<()> {
        end.set_nonblocking(true)?;
        self.watchers.push(end);
        Ok(())
    }

    /// Writes events, in their order.
    pub(crate) fn write(&mut self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        if let Some(file) = &mut self.file {
            // One write call for all events, so that readers of the file see whole lines.
            let text: String = events.iter().map(|event| event.to_line() + "\n").collect();
            if let Err(error) = file.write_all(text.as_bytes()) {
                // The job continues without its log file; half a line would spoil all later ones.
                self.trouble = Some(error.to_string());
                self.file = None;
            }
        }
        self.kept.extend(events);
        while self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        // A watcher with a full buffer is awake already; a closed one is removed.
        self.watchers.retain_mut(|end| match end.write(&[1]) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
    }

    /// Returns the kept events from this sequence number on.
    pub(crate) fn since(&self, sequence: u64) -> impl Iterator<Item = &Event> {
        let first = self.kept.front().map_or(0, |event| event.sequence);
        let skip = usize::try_from(sequence.saturating_sub(first)).unwrap_or(usize::MAX);
        self.kept.iter().skip(skip)
    }

    /// Returns the number of the next event.
    pub(crate) fn next(&self) -> u64 {
        self.kept.back().map_or(0, |event| event.sequence + 1)
    }

    /// Returns why the file lacks events.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use super::*;
    use crate::model::change::{Changes, Request, RequestKind};

    fn some_events(count: u64) -> Vec<Event> {
        let mut changes = Changes::new(1, Duration::ZERO);
        for _ in 1..count {
            changes.request(Request::new(RequestKind::Grow(1), "test"), Duration::ZERO);
        }
        changes.take_events()
    }

    #[test]
    fn the_latest_events_are_kept_and_watchers_are_woken() {
        let (watching, mut woken) = UnixStream::pair().unwrap();
        let mut journal = Journal::default();
        journal.watch(watching).unwrap();
        journal.write(some_events(5000));
        assert_eq!(journal.next(), 5000);
        assert_eq!(journal.since(0).count(), KEPT);
        let last: Vec<u64> = journal.since(4998).map(|event| event.sequence).collect();
        assert_eq!(last, [4998, 4999]);
        assert_eq!(journal.since(u64::MAX).count(), 0);
        assert_eq!(woken.read(&mut [0; 8]).unwrap(), 1);
    }

    #[test]
    fn a_watcher_that_has_gone_is_forgotten() {
        let (watching, gone) = UnixStream::pair().unwrap();
        let mut journal = Journal::default();
        journal.watch(watching).unwrap();
        drop(gone);
        journal.write(some_events(1));
        assert!(journal.watchers.is_empty());
    }

    #[test]
    fn unwritable_log_file_is_reported_and_the_events_stay() {
        let mut journal = Journal::open(Some(Path::new("/dev/full"))).unwrap();
        journal.write(some_events(2));
        assert!(journal.trouble().is_some());
        assert_eq!(journal.since(0).count(), 2);
        assert!(Journal::open(Some(Path::new("/nowhere/at/all"))).is_err());
    }
}
