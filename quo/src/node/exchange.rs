#![allow(unsafe_code)]
//! Exchange of a message of every member with all others: two boards, used in turn.
//!
//! A member writes its entry, passes one barrier, and reads all entries. The parity of the number
//! of completed generations selects the board, so all members agree on it, and a fast member that
//! is already writing for the next exchange writes on the other board. It cannot return to this
//! board before every reader has arrived at a later barrier, which a reader cannot do while it
//! holds the results.
//!
//! Entries are stamped with the generation and with the number of failed attempts at it: when it
//! completes, all members have seen the same failures. The entry of a process that is no longer a
//! member, or not yet, has another stamp and is not shown; neither is the entry of a member that
//! died or left in an earlier attempt at the same generation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use smallvec::SmallVec;

use super::NodeError;
use super::layout::{BoardShape, ENTRY_HEADER};
use super::mapping::{Mapping, Shared};
use super::protocol::barrier::{FAILURES, GenerationCursor};

/// Length of an entry whose message did not fit.
const OVERSIZE: u32 = u32::MAX;

/// Both boards.
#[derive(Debug)]
pub(super) struct Board {
    // The view as words only gives the address of the boards and keeps them mapped.
    memory: Shared<AtomicU64>,
    shape: BoardShape,
}

impl Board {
    pub(super) fn new(
        mapping: &Arc<Mapping>,
        offset: usize,
        shape: BoardShape,
    ) -> Result<Self, NodeError> {
        let outside = NodeError::Damaged { reason: "an exchange lies outside the segment" };
        let memory = Shared::new(mapping, offset, shape.bytes() / 8).ok_or(outside)?;
        Ok(Self { memory, shape })
    }

    pub(super) fn room(&self) -> usize {
        self.shape.room
    }

    /// Returns the entry of a member on the board of a turn, or `None` without such a member.
    fn entry(&self, cursor: &GenerationCursor, member: usize) -> Option<Entry<'_>> {
        if member >= self.shape.capacity {
            return None;
        }
        let parity = (cursor.completed & 1) as usize;
        let start = (parity * self.shape.capacity + member) * self.shape.stride();
        // SAFETY: `start` is less than the size of both boards, which `memory` covers, and is
        // aligned for the three atomics that an entry begins with.
        unsafe {
            let entry = self.memory.as_ptr().cast::<u8>().add(start);
            let word = entry.cast::<AtomicU64>();
            Some(Entry {
                stamp: word.as_ref(),
                first: word.add(1).as_ref(),
                length: word.add(2).cast::<AtomicU32>().as_ref(),
                bytes: entry.add(ENTRY_HEADER).as_ptr(),
            })
        }
    }

    /// Writes a member's own entry, before the member arrives at the barrier of its turn. A message
    /// that does not fit is recorded as such, so that all members can report it.
    pub(super) fn write(
        &self,
        cursor: &GenerationCursor,
        member: usize,
        mine: &[u8],
        sent: &mut Sent,
    ) {
        let Some(entry) = self.entry(cursor, member) else { return };
        let length = if mine.len() <= self.shape.room {
            // SAFETY: the entry has `room` bytes. No member reads them now: readers of this board's
            // previous use have released it, and readers of this use read after the barrier.
            unsafe { std::ptr::copy_nonoverlapping(mine.as_ptr(), entry.bytes, mine.len()) };
            mine.len() as u32
        } else {
            OVERSIZE
        };
        entry.length.store(length, Ordering::Relaxed);
        entry.first.store(sent.first(mine, stamp(cursor)), Ordering::Relaxed);
        entry.stamp.store(stamp(cursor), Ordering::Relaxed);
    }

    /// Returns true if the message of any participant of the exchange at a turn did not fit.
    pub(super) fn has_oversize(&self, cursor: &GenerationCursor) -> bool {
        (0..self.shape.capacity).filter_map(|member| self.entry(cursor, member)).any(|entry| {
            entry.stamp.load(Ordering::Relaxed) == stamp(cursor)
                && entry.length.load(Ordering::Relaxed) == OVERSIZE
        })
    }
}

struct Entry<'a> {
    stamp: &'a AtomicU64,
    /// Stamp of the turn at which the member first sent this message.
    first: &'a AtomicU64,
    length: &'a AtomicU32,
    bytes: *mut u8,
}

/// Messages that a member sent last, and the stamp of the first turn of each. Member and stamp
/// identify the message of a turn, so that readers recognize repeated messages without their bytes.
#[derive(Debug, Default)]
pub(super) struct Sent {
    messages: [(u64, SmallVec<[u8; Self::ROOM]>); 4],
    next: usize,
}

impl Sent {
    /// Longest message that is kept: that of a selection on a machine with 1,984 CPUs.
    const ROOM: usize = 320;

    /// Returns the stamp of the turn at which this message was first sent: `now`, unless it is one
    /// of the last messages.
    fn first(&mut self, mine: &[u8], now: u64) -> u64 {
        if mine.len() > Self::ROOM {
            return now;
        }
        let known = self.messages.iter().find(|(first, message)| *first != 0 && **message == *mine);
        if let Some((first, _)) = known {
            return *first;
        }
        let (first, message) = &mut self.messages[self.next];
        self.next = (self.next + 1) % 4;
        *first = now;
        message.clear();
        message.extend_from_slice(mine);
        now
    }
}

/// Returns the number of a turn of a barrier. Never zero at the first turn, unlike fresh memory.
pub(super) fn stamp(cursor: &GenerationCursor) -> u64 {
    cursor.completed.wrapping_mul(FAILURES).wrapping_add(cursor.failed).wrapping_add(1)
}

/// Members' messages of one exchange.
///
/// It borrows the shared memory. Drop it before the next collective call on the same node or named
/// barrier; until then such a call is an error.
#[derive(Debug)]
pub struct Exchange<'a> {
    board: &'a Board,
    cursor: GenerationCursor,
    borrowed: &'a AtomicBool,
}

impl<'a> Exchange<'a> {
    /// Returns the results of a turn whose generation is complete, for a reader that does not
    /// arrive at another barrier while `borrowed` is set.
    pub(super) fn new(
        board: &'a Board,
        cursor: GenerationCursor,
        borrowed: &'a AtomicBool,
    ) -> Self {
        borrowed.store(true, Ordering::Relaxed);
        Self { board, cursor, borrowed }
    }

    /// Returns the number of the generation of the node's barrier that ended the exchange.
    pub(super) fn generation(&self) -> u64 {
        self.cursor.completed
    }

    /// Returns the message of `member`; `None` if it took no part.
    #[must_use]
    pub fn of(&self, member: usize) -> Option<&[u8]> {
        let entry = self.board.entry(&self.cursor, member)?;
        let length = entry.length.load(Ordering::Relaxed) as usize;
        if entry.stamp.load(Ordering::Relaxed) != stamp(&self.cursor)
            || length > self.board.shape.room
        {
            return None;
        }
        // SAFETY: the entry has `length` bytes or more, written before the barrier that this member
        // has passed. Its owner writes them again only after a later barrier at which this member
        // has arrived, which is impossible while `self` lives.
        Some(unsafe { std::slice::from_raw_parts(entry.bytes, length) })
    }

    /// Returns a number that with the member identifies its message: the same number means the same
    /// bytes. `None` if the member took no part.
    pub(crate) fn number_of(&self, member: usize) -> Option<u64> {
        let entry = self.board.entry(&self.cursor, member)?;
        let took_part = entry.stamp.load(Ordering::Relaxed) == stamp(&self.cursor);
        took_part.then(|| entry.first.load(Ordering::Relaxed))
    }

    /// Returns the members that took part, in ascending order, with their messages.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        (0..self.board.shape.capacity).filter_map(|member| Some((member, self.of(member)?)))
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.borrowed.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let shape = BoardShape { room: 48, capacity: 3 };
        let file = tempfile::tempfile().unwrap();
        file.set_len(shape.bytes() as u64).unwrap();
        let mapping = Mapping::new(&file, shape.bytes()).unwrap();
        Board::new(&mapping, 0, shape).unwrap()
    }

    fn cursor(completed: u64, failed: u64) -> GenerationCursor {
        GenerationCursor { completed, failed }
    }

    fn write(board: &Board, cursor: GenerationCursor, member: usize, mine: &[u8]) {
        board.write(&cursor, member, mine, &mut Sent::default());
    }

    fn told(board: &Board, completed: u64, failed: u64) -> Vec<(usize, Vec<u8>)> {
        let borrowed = AtomicBool::new(false);
        let exchange = Exchange::new(board, cursor(completed, failed), &borrowed);
        exchange.iter().map(|(member, bytes)| (member, bytes.to_vec())).collect()
    }

    #[test]
    fn only_entries_of_the_same_generation_are_shown() {
        let board = board();
        write(&board, cursor(0, 0), 1, b"one");
        write(&board, cursor(1, 0), 2, b"two");
        write(&board, cursor(0, 0), 9, b"nobody");
        assert_eq!(told(&board, 0, 0), [(1, b"one".to_vec())]);
        assert_eq!(told(&board, 1, 0), [(2, b"two".to_vec())]);
        assert_eq!(told(&board, 2, 0), [], "the same board, two generations later");
        write(&board, cursor(2, 0), 0, b"");
        assert_eq!(told(&board, 2, 0), [(0, Vec::new())]);
    }

    #[test]
    fn messages_of_a_failed_attempt_are_not_shown() {
        let board = board();
        (0..3).for_each(|member| write(&board, cursor(4, 0), member, b"before"));
        // Member 1 died; the others try again.
        [0, 2].into_iter().for_each(|member| write(&board, cursor(4, 1), member, b"after"));
        assert_eq!(told(&board, 4, 1), [(0, b"after".to_vec()), (2, b"after".to_vec())]);
    }

    #[test]
    fn repeated_messages_keep_their_number_and_others_get_new_ones() {
        let (board, borrowed, mut sent) = (board(), AtomicBool::new(false), Sent::default());
        let mut number = |completed, message: &[u8]| {
            let cursor = cursor(completed, 0);
            board.write(&cursor, 1, message, &mut sent);
            Exchange::new(&board, cursor, &borrowed).number_of(1).unwrap()
        };
        let messages: [&[u8]; 5] = [b"", b"one", b"two", b"three", b"one"];
        let numbers: Vec<u64> = (0..).zip(messages).map(|(turn, it)| number(turn, it)).collect();
        assert_eq!(numbers[4], numbers[1]);
        assert!(numbers[..4].is_sorted_by(|a, b| a < b), "{numbers:?}");
        (5..9).for_each(|turn| assert!(number(turn, &[turn as u8]) > numbers[3]));
        assert_ne!(number(9, b"one"), numbers[1], "forgotten among later messages");
        assert_eq!(Exchange::new(&board, cursor(10, 0), &borrowed).number_of(1), None);
    }

    #[test]
    fn what_does_not_fit_is_seen_by_all() {
        let (board, borrowed) = (board(), AtomicBool::new(false));
        write(&board, cursor(0, 0), 0, &[1; 48]);
        assert!(!board.has_oversize(&cursor(0, 0)));
        write(&board, cursor(0, 0), 1, &[1; 49]);
        assert!(board.has_oversize(&cursor(0, 0)));
        assert!(!board.has_oversize(&cursor(1, 0)) && !board.has_oversize(&cursor(0, 1)));
        assert_eq!(Exchange::new(&board, cursor(0, 0), &borrowed).of(1), None);
    }

    #[test]
    fn results_are_borrowed_until_dropped() {
        let (board, borrowed) = (board(), AtomicBool::new(false));
        let exchange = Exchange::new(&board, cursor(0, 0), &borrowed);
        assert!(borrowed.load(Ordering::Relaxed));
        drop(exchange);
        assert!(!borrowed.load(Ordering::Relaxed));
    }
}
