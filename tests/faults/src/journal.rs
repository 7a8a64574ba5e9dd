//! Journal of a member: a line before and after each call, in memory that outlives the member.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context as _, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// How a call ended for one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded, with a value on which all members agree.
    Good(u64),
    /// It timed out.
    TimedOut,
    /// It named these members as dead.
    Dead(Vec<usize>),
    /// It failed with another error.
    Other(String),
}

impl Outcome {
    /// Returns the kind of outcome in one word.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Good(_) => "good",
            Self::TimedOut => "timeout",
            Self::Dead(_) => "dead",
            Self::Other(_) => "error",
        }
    }
}

/// A line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Beginning of a call: stage and number.
    Begin(usize, usize),
    /// End of a call: stage, number and outcome.
    End(usize, usize, Outcome),
    /// An error that the member itself found.
    Complaint(String),
    /// End of the script.
    Finished,
}

impl Entry {
    /// Returns the line without its newline.
    #[must_use]
    pub fn encode(&self) -> String {
        let one_line = |text: &str| text.replace('\n', " ");
        match self {
            Self::Begin(stage, call) => format!("B {stage} {call}"),
            Self::End(stage, call, outcome) => {
                let rest = match outcome {
                    Outcome::Good(value) => value.to_string(),
                    Outcome::TimedOut => String::new(),
                    Outcome::Dead(members) => {
                        let members: Vec<String> = members.iter().map(usize::to_string).collect();
                        members.join(",")
                    }
                    Outcome::Other(text) => one_line(text),
                };
                format!("E {stage} {call} {} {rest}", outcome.class())
            }
            Self::Complaint(text) => format!("C {}", one_line(text)),
            Self::Finished => "F".to_owned(),
        }
    }

    /// Returns the entry of a line; `None` for an incomplete line.
    #[must_use]
    pub fn decode(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        if kind == "F" {
            return Some(Self::Finished);
        }
        if kind == "C" {
            return Some(Self::Complaint(rest.to_owned()));
        }
        let mut words = rest.splitn(4, ' ');
        let mut number = || words.next()?.parse().ok();
        let (stage, call) = (number()?, number()?);
        if kind == "B" {
            return Some(Self::Begin(stage, call));
        }
        let (class, rest) = (words.next()?, words.next()?);
        let outcome = match class {
            "good" => Outcome::Good(rest.parse().ok()?),
            "timeout" => Outcome::TimedOut,
            "dead" => Outcome::Dead(
                rest.split(',')
                    .filter(|member| !member.is_empty())
                    .map(|member| member.parse().ok())
                    .collect::<Option<_>>()?,
            ),
            "error" => Outcome::Other(rest.to_owned()),
            _ => return None,
        };
        (kind == "E").then_some(Self::End(stage, call, outcome))
    }
}

fn memory(name: &str) -> Result<File> {
    let file = memfd_create(name, MFdFlags::MFD_CLOEXEC).context("memory for a journal")?;
    Ok(file.into())
}

/// Journal of a member, created before the member is forked; the member appends, the others read.
#[derive(Debug)]
pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(memory("quo-faults-journal")?))
    }

    /// Returns another handle of the same journal.
    pub(crate) fn again(&self) -> Result<Self> {
        Ok(Self(self.0.try_clone().context("dup")?))
    }

    /// Appends a line in one system call.
    pub(crate) fn note(&self, entry: &Entry) {
        let line = format!("{}\n", entry.encode());
        // If there is no memory for the line, the round is judged without it.
        let _ = std::io::Write::write(&mut &self.0, line.as_bytes());
    }

    pub(crate) fn entries(&self) -> Result<Vec<Entry>> {
        let mut bytes = vec![0; self.0.metadata()?.len() as usize];
        self.0.read_exact_at(&mut bytes, 0).context("reading a journal")?;
        Ok(String::from_utf8_lossy(&bytes).lines().filter_map(Entry::decode).collect())
    }
}

/// Numbers shared by all processes of a round, one for each purpose and member.
#[derive(Debug)]
pub(crate) struct Board(File);

/// Purposes of the numbers.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Column {
    /// Progress of a member, which only grows.
    Progress = 0,
    /// True if a member has ended.
    Gone = 1,
    /// True if a member that waits for its fate may continue.
    Released = 2,
    /// CPUs that a member has borrowed, one bit each.
    Borrowed = 3,
}

const COLUMNS: usize = 4;

impl Board {
    pub(crate) fn new(members: usize) -> Result<Self> {
        let file = memory("quo-faults-board")?;
        file.set_len((members * COLUMNS * 8) as u64).context("memory for the board")?;
        Ok(Self(file))
    }

    fn place(member: usize, column: Column) -> u64 {
        ((member * COLUMNS + column as usize) * 8) as u64
    }

    pub(crate) fn set(&self, member: usize, column: Column, value: u64) -> Result<()> {
        let written = self.0.write_all_at(&value.to_ne_bytes(), Self::place(member, column));
        written.context("writing to the board")
    }

    pub(crate) fn get(&self, member: usize, column: Column) -> Result<u64> {
        let mut bytes = [0; 8];
        let read = self.0.read_exact_at(&mut bytes, Self::place(member, column));
        read.context("reading from the board")?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were_written() {
        let journal = Journal::new().unwrap();
        let entries = [
            Entry::Begin(0, 0),
            Entry::End(0, 0, Outcome::Good(7)),
            Entry::End(1, 0, Outcome::TimedOut),
            Entry::End(2, 101, Outcome::Dead(vec![1, 3])),
            Entry::End(2, 102, Outcome::Dead(Vec::new())),
            Entry::End(3, 0, Outcome::Other("no such thing".to_owned())),
            Entry::Complaint("a mask: 0-1".to_owned()),
            Entry::Finished,
        ];
        entries.iter().for_each(|entry| journal.note(entry));
        assert_eq!(journal.entries().unwrap(), entries);
    }

    #[test]
    fn lines_that_are_not_whole_are_nothing() {
        for line in ["", "B 1", "E 1 0", "E 1 0 dead", "E 1 0 dead x", "E 1 0 well 3", "X"] {
            assert_eq!(Entry::decode(line), None, "{line}");
        }
    }

    #[test]
    fn numbers_on_the_board_do_not_meet() {
        let board = Board::new(2).unwrap();
        board.set(0, Column::Released, 3).unwrap();
        board.set(1, Column::Progress, 4).unwrap();
        assert_eq!(board.get(0, Column::Released).unwrap(), 3);
        assert_eq!(board.get(1, Column::Progress).unwrap(), 4);
        assert_eq!(board.get(1, Column::Gone).unwrap(), 0);
    }
}
