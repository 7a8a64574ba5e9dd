//! Map from addresses to owners: sorted chunks of sorted pieces, in memory of the tool. A change
//! moves at most two kilobytes, however many pieces there are.

#![allow(unsafe_code)]

use core::ptr::NonNull;

use super::asked::Asked;
use super::given::Stacks;
use crate::base::component::{Component, LIMIT};
use crate::base::memory;

/// Addresses from `start` to `end` (exclusive) and their owner.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub start: usize,
    pub end: usize,
    pub owner: Component,
    pub kind: Kind,
    /// Number of the first walk through the mappings that began after the piece was entered. If
    /// that walk or a later one finds nothing mapped there, the piece is gone.
    pub known: u32,
}

impl Piece {
    /// Returns true if a call is about to move or unmap the piece.
    pub fn moves(&self) -> bool {
        self.known >= MARK
    }

    /// Returns true if an adjacent piece can be merged with this one.
    fn joins(&self, other: &Piece) -> bool {
        let apart = (self.moves() || other.moves()) && self.known != other.known;
        self.owner == other.owner && self.kind == other.kind && !apart
    }
}

/// From this number on, [`Piece::known`] identifies a call that moves or unmaps the piece and has
/// not returned. No walk has such a number.
pub const MARK: u32 = 1 << 31;

/// Kind of a mapping.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Private = 0,
    Shared = 1,
    /// Stack of a thread, which no ledger counts as owned.
    Stack = 2,
    /// Memory that was mapped when the tool was loaded; its owner is a guess, and no ledger counts
    /// it.
    Found = 3,
    /// Memory that a walk found mapped, with a known owner. Owned, though the time of mapping is
    /// not known.
    Seen = 4,
    /// No known memory; a walk that began earlier must not enter its findings here.
    Hole = 5,
}

impl Kind {
    fn is_owned(self) -> bool {
        matches!(self, Kind::Private | Kind::Shared | Kind::Seen)
    }
}

const PIECES: usize = 60;
const CHUNKS: usize = 1024;
const SLAB: usize = 32;

struct Chunk {
    count: usize,
    pieces: [Piece; PIECES],
}

/// The map. All zeros is an empty map.
pub struct Map {
    /// Chunks in use in the order of their addresses, then free ones.
    chunks: [Option<NonNull<Chunk>>; CHUNKS],
    /// First address of each chunk in use.
    firsts: [usize; CHUNKS],
    used: usize,
    made: usize,
    owned: [u64; LIMIT],
    /// Owned bytes that [`Map::changes`] last reported, and the components for which they may have
    /// changed: one bit for each.
    told: [u64; LIMIT],
    changed: [u64; LIMIT / 64],
    /// Total bytes ever entered. Memory entered again after a move counts again.
    mapped: [u64; LIMIT],
    /// Bytes of [`Kind::Seen`].
    pub seen: u64,
    /// Number of the walk in progress.
    pub walking: Option<u32>,
    /// Number of calls marked so far.
    pub marks: u32,
    /// Number of pieces not entered because there was no memory for them.
    pub lost: u64,
    /// Memory of other owners that is in use as stacks.
    pub given: Stacks,
    /// Memory that was requested by a known object but has no known mapper.
    pub asked: Asked,
    /// Bytes of such memory that the last walk found to have no other owner: they are part of
    /// `owned`.
    asked_owned: [u64; LIMIT],
}

impl Map {
    pub const fn new() -> Map {
        Map {
            chunks: [None; CHUNKS],
            firsts: [0; CHUNKS],
            used: 0,
            made: 0,
            owned: [0; LIMIT],
            told: [0; LIMIT],
            changed: [0; LIMIT / 64],
            mapped: [0; LIMIT],
            seen: 0,
            walking: None,
            marks: 0,
            lost: 0,
            given: Stacks::new(),
            asked: Asked::new(),
            asked_owned: [0; LIMIT],
        }
    }

    /// Counts these bytes of each component as owned in addition to its pieces, in place of the
    /// previous ones.
    pub fn own_asked(&mut self, bytes: &[u64; LIMIT]) {
        for (index, (&now, before)) in bytes.iter().zip(&mut self.asked_owned).enumerate() {
            if now != *before {
                let owned = &mut self.owned[index];
                *owned = owned.wrapping_add(now).wrapping_sub(*before);
                self.mapped[index] += now.saturating_sub(*before);
                self.changed[index / 64] |= 1 << (index % 64);
                *before = now;
            }
        }
    }

    /// Returns the bytes of pieces that count as owned by a component.
    pub fn owned(&self, component: Component) -> u64 {
        self.owned[usize::from(component.0) % LIMIT]
    }

    /// Returns the bytes owned by all components.
    pub fn total(&self) -> u64 {
        self.owned.iter().sum()
    }

    /// Calls `each` with the components whose owned bytes have changed since the last call, and the
    /// difference.
    pub fn changes(&mut self, mut each: impl FnMut(Component, i64)) {
        for word in 0..self.changed.len() {
            let mut bits = core::mem::take(&mut self.changed[word]);
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let by = self.owned[index].wrapping_sub(self.told[index]) as i64;
                self.told[index] = self.owned[index];
                if by != 0 {
                    each(Component(index as u16), by);
                }
            }
        }
    }

    /// Returns the total bytes ever entered for a component.
    pub fn mapped(&self, component: Component) -> u64 {
        self.mapped[usize::from(component.0) % LIMIT]
    }

    /// Returns the first piece that ends above `address`.
    pub fn next(&self, address: usize) -> Option<Piece> {
        let (chunk, index) = self.find(address)?;
        Some(self.chunk(chunk).pieces[index])
    }

    /// Enters a piece and replaces whatever was there.
    pub fn insert(&mut self, piece: Piece) {
        if piece.start >= piece.end {
            return;
        }
        self.remove(piece.start, piece.end);
        self.place(piece);
    }

    /// Enters a piece that is there already and was known otherwise, so that it does not count as
    /// mapped again.
    pub fn renew(&mut self, piece: Piece) {
        let mapped = self.mapped(piece.owner);
        self.insert(piece);
        self.mapped[usize::from(piece.owner.0) % LIMIT] = mapped;
    }

    /// Makes `to` the owner of what components of which `from` returns true have mapped between two
    /// addresses, unless a call is about to move it. `enter` is [`Self::insert`], or [`Self::renew`] for
    /// memory that `to` had mapped before.
    pub fn give(
        &mut self,
        (start, end): (usize, usize),
        from: impl Fn(Component) -> bool,
        to: Component,
        enter: fn(&mut Self, Piece),
    ) {
        let mut at = start;
        while let Some(piece) = self.next(at).filter(|piece| piece.start < end) {
            if piece.kind.is_owned() && !piece.moves() && from(piece.owner) {
                let (start, end) = (piece.start.max(start), piece.end.min(end));
                enter(self, Piece { start, end, owner: to, ..piece });
            }
            at = piece.end;
        }
    }

    /// Forgets everything between two addresses.
    pub fn remove(&mut self, start: usize, end: usize) {
        self.carve(start, end, u32::MAX);
    }

    /// Forgets everything between two addresses that was known before the walk `known`.
    pub fn remove_known(&mut self, start: usize, end: usize, known: u32) {
        self.carve(start, end, known);
    }

    /// Removes the marks of calls, in the child of a fork, where other threads' calls never return.
    pub fn forget_marks(&mut self) {
        for chunk in 0..self.used {
            let chunk = self.chunk_mut(chunk);
            for piece in chunk.pieces[..chunk.count].iter_mut().filter(|piece| piece.moves()) {
                piece.known = 0;
            }
        }
    }

    fn carve(&mut self, start: usize, end: usize, known: u32) {
        let mut at = start;
        while at < end {
            let Some((chunk, index)) = self.find(at) else { return };
            let piece = self.chunk(chunk).pieces[index];
            if piece.start >= end {
                return;
            }
            at = piece.end;
            if piece.known > known {
                continue;
            }
            let (low, high) = (piece.start.max(start), piece.end.min(end));
            self.count(&Piece { start: low, end: high, ..piece }, false);
            match (piece.start < low, piece.end > high) {
                (false, false) => self.delete(chunk, index),
                (true, false) => self.chunk_mut(chunk).pieces[index].end = low,
                (false, true) => {
                    self.chunk_mut(chunk).pieces[index].start = high;
                    if index == 0 {
                        self.firsts[chunk] = high;
                    }
                }
                (true, true) => {
                    self.chunk_mut(chunk).pieces[index].end = low;
                    let right = Piece { start: high, ..piece };
                    // The right part is already counted as part of the whole.
                    self.count(&right, false);
                    let mapped = self.mapped(right.owner);
                    self.place(right);
                    self.mapped[usize::from(right.owner.0) % LIMIT] = mapped;
                }
            }
        }
    }

    /// Enters a piece that overlaps no other.
    pub fn place(&mut self, piece: Piece) {
        let (chunk, index) = match self.find(piece.start) {
            Some(place) => place,
            None if self.used == 0 => {
                if !self.open(0) {
                    self.lost += 1;
                    return;
                }
                (0, 0)
            }
            None => (self.used - 1, self.chunk(self.used - 1).count),
        };
        // The end of the previous chunk is equally valid, and keeps neighbours together.
        let (chunk, index) = if index == 0 && chunk > 0 {
            (chunk - 1, self.chunk(chunk - 1).count)
        } else {
            (chunk, index)
        };
        if index > 0 {
            let left = &mut self.chunk_mut(chunk).pieces[index - 1];
            if left.end == piece.start && left.joins(&piece) {
                left.end = piece.end;
                left.known = left.known.max(piece.known);
                self.count(&piece, true);
                return;
            }
        }
        if index < self.chunk(chunk).count {
            let right = &mut self.chunk_mut(chunk).pieces[index];
            if right.start == piece.end && right.joins(&piece) {
                right.start = piece.start;
                right.known = right.known.max(piece.known);
                if index == 0 {
                    self.firsts[chunk] = piece.start;
                }
                self.count(&piece, true);
                return;
            }
        }
        let (chunk, index) = if self.chunk(chunk).count == PIECES {
            if !self.split(chunk) {
                self.lost += 1;
                return;
            }
            let half = self.chunk(chunk).count;
            if index > half { (chunk + 1, index - half) } else { (chunk, index) }
        } else {
            (chunk, index)
        };
        let target = self.chunk_mut(chunk);
        target.pieces.copy_within(index..target.count, index + 1);
        target.pieces[index] = piece;
        target.count += 1;
        if index == 0 {
            self.firsts[chunk] = piece.start;
        }
        self.count(&piece, true);
    }

    fn count(&mut self, piece: &Piece, more: bool) {
        if !piece.kind.is_owned() {
            return;
        }
        let length = (piece.end - piece.start) as u64;
        let change = |sum: &mut u64| {
            *sum = if more { sum.wrapping_add(length) } else { sum.wrapping_sub(length) };
        };
        let index = usize::from(piece.owner.0) % LIMIT;
        change(&mut self.owned[index]);
        self.changed[index / 64] |= 1 << (index % 64);
        let mapped = &mut self.mapped[index];
        *mapped = mapped.wrapping_add(if more { length } else { 0 });
        if piece.kind == Kind::Seen {
            change(&mut self.seen);
        }
    }

    /// Returns the chunk and the index of the first piece that ends above `address`.
    fn find(&self, address: usize) -> Option<(usize, usize)> {
        let after = self.firsts[..self.used].partition_point(|&first| first <= address);
        let chunk = after.saturating_sub(1);
        if chunk < self.used {
            let here = self.chunk(chunk);
            let index = here.pieces[..here.count].partition_point(|piece| piece.end <= address);
            if index < here.count {
                return Some((chunk, index));
            }
        }
        (chunk + 1 < self.used).then_some((chunk + 1, 0))
    }

    fn delete(&mut self, chunk: usize, index: usize) {
        let here = self.chunk_mut(chunk);
        here.pieces.copy_within(index + 1..here.count, index);
        here.count -= 1;
        let count = here.count;
        if count == 0 {
            self.shut(chunk);
            return;
        }
        self.firsts[chunk] = self.chunk(chunk).pieces[0].start;
        if chunk + 1 < self.used && count + self.chunk(chunk + 1).count <= PIECES / 2 {
            let next = self.chunk(chunk + 1);
            let (more, pieces) = (next.count, next.pieces);
            let here = self.chunk_mut(chunk);
            here.pieces[count..count + more].copy_from_slice(&pieces[..more]);
            here.count += more;
            self.shut(chunk + 1);
        }
    }

    /// Moves the upper half of a chunk into a new one after it.
    fn split(&mut self, chunk: usize) -> bool {
        if !self.open(chunk + 1) {
            return false;
        }
        let half = PIECES / 2;
        let from = self.chunk_mut(chunk);
        from.count = half;
        let pieces = from.pieces;
        let to = self.chunk_mut(chunk + 1);
        to.pieces[..PIECES - half].copy_from_slice(&pieces[half..]);
        to.count = PIECES - half;
        self.firsts[chunk + 1] = pieces[half].start;
        true
    }

    /// Inserts an empty chunk at a position in the order.
    fn open(&mut self, place: usize) -> bool {
        if self.used == self.made && !self.make() {
            return false;
        }
        let fresh = self.chunks[self.used];
        self.chunks.copy_within(place..self.used, place + 1);
        self.firsts.copy_within(place..self.used, place + 1);
        self.chunks[place] = fresh;
        self.used += 1;
        self.chunk_mut(place).count = 0;
        true
    }

    fn shut(&mut self, place: usize) {
        let chunk = self.chunks[place];
        self.chunks.copy_within(place + 1..self.used, place);
        self.firsts.copy_within(place + 1..self.used, place);
        self.used -= 1;
        self.chunks[self.used] = chunk;
    }

    fn make(&mut self) -> bool {
        if self.made + SLAB > CHUNKS {
            return false;
        }
        let Some(memory) = memory::map(SLAB * size_of::<Chunk>()) else { return false };
        let first = memory.cast::<Chunk>();
        for index in 0..SLAB {
            // SAFETY: inside the memory just mapped.
            self.chunks[self.made + index] = Some(unsafe { first.add(index) });
        }
        self.made += SLAB;
        true
    }

    fn chunk(&self, place: usize) -> &Chunk {
        let chunk = self.chunks[place].expect("a chunk in use");
        // SAFETY: created by `make`, where all zeros is a valid chunk; only this map refers to it.
        unsafe { chunk.as_ref() }
    }

    fn chunk_mut(&mut self, place: usize) -> &mut Chunk {
        let mut chunk = self.chunks[place].expect("a chunk in use");
        // SAFETY: as above, and the map is borrowed mutably.
        unsafe { chunk.as_mut() }
    }
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
