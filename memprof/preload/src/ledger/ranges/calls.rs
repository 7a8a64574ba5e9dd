//! Kernel calls, which take time, and walks through the mappings that run concurrently with them.
//!
//! Memory that a call unmaps or moves is marked before the kernel acts, and settled when the call
//! returns, so that a mapping that another thread makes in its place meanwhile can be
//! distinguished. A walk enters the mappings it has found only where nothing is known. It does not
//! enter them where memory was unmapped since the walk began, because it may have read the list
//! before.

use super::map::{Kind, MARK, Map, Piece};
use crate::base::component::Component;

/// Number of pieces that a move keeps apart: one mapping of the kernel may contain several adjacent
/// ones.
const KEPT: usize = 48;

/// Memory that a call is about to unmap.
#[derive(Copy, Clone)]
pub struct Leaving {
    pub(super) start: usize,
    pub(super) end: usize,
    mark: u32,
}

/// Memory that a call is about to move, with its owners.
pub struct Moving {
    old: Leaving,
    kept: [Piece; KEPT],
    count: usize,
}

const fn hole(start: usize, end: usize, known: u32) -> Piece {
    Piece { start, end, owner: Component::UNATTRIBUTED, kind: Kind::Hole, known }
}

impl Map {
    /// Calls `work` with each part between two addresses that one piece covers, or that no piece
    /// covers.
    fn parts(
        &mut self,
        start: usize,
        end: usize,
        mut work: impl FnMut(&mut Map, usize, usize, Option<Piece>),
    ) {
        let mut at = start;
        while at < end {
            let piece = self.next(at).filter(|piece| piece.start < end);
            let (stop, here) = match piece {
                Some(piece) if piece.start <= at => (piece.end.min(end), Some(piece)),
                Some(piece) => (piece.start, None),
                None => (end, None),
            };
            work(self, at, stop, here);
            at = stop;
        }
    }

    /// Marks the range between two addresses: until the call returns it stays unchanged, and no
    /// walk treats it as gone. A part that another call has marked is gone already, since no
    /// program unmaps a mapping twice: the mapping that is there now was made in a way that the
    /// tool did not see.
    fn mark(&mut self, start: usize, end: usize, mut each: impl FnMut(Piece)) -> Leaving {
        self.marks = self.marks.wrapping_add(1);
        let mark = MARK | self.marks;
        self.parts(start, end, |map, start, end, here| {
            let known = here.filter(|piece| !piece.moves());
            let piece = known.unwrap_or(hole(start, end, mark));
            map.renew(Piece { start, end, known: mark, ..piece });
            each(Piece { start, end, ..piece });
        });
        Leaving { start, end, mark }
    }

    /// Marks the range between two addresses before the kernel is asked to unmap it.
    pub fn leaves(&mut self, start: usize, end: usize) -> Leaving {
        self.mark(start, end, |_| {})
    }

    /// Records that the kernel has unmapped the range.
    pub fn left(&mut self, leaving: &Leaving) {
        let Leaving { start, end, mark } = *leaving;
        self.parts(start, end, |map, start, end, here| {
            if here.is_some_and(|piece| piece.known == mark) {
                map.remove(start, end);
                if let Some(walk) = map.walking {
                    map.place(hole(start, end, walk));
                }
            }
        });
    }

    /// Records that the kernel has left the range as it was.
    pub fn stayed(&mut self, leaving: &Leaving, known: u32) {
        let Leaving { start, end, mark } = *leaving;
        self.parts(start, end, |map, start, end, here| {
            match here.filter(|piece| piece.known == mark) {
                Some(piece) if piece.kind == Kind::Hole => map.remove(start, end),
                Some(piece) => map.renew(Piece { start, end, known, ..piece }),
                None => {}
            }
        });
    }

    /// Marks the range between two addresses before the kernel is asked to move it, and keeps its
    /// owners.
    pub fn moves(&mut self, start: usize, end: usize) -> Moving {
        let mut kept = [hole(0, 0, 0); KEPT];
        let mut count = 0;
        let old = self.mark(start, end, |piece| match count {
            _ if piece.kind == Kind::Hole => {}
            // Further pieces are merged into the last: the room is on the stack of the program.
            KEPT => kept[KEPT - 1].end = piece.end,
            _ => {
                kept[count] = piece;
                count += 1;
            }
        });
        Moving { old, kept, count }
    }

    /// Records that nothing was moved.
    pub fn not_moved(&mut self, moving: &Moving, known: u32) {
        self.stayed(&moving.old, known);
    }

    /// Enters the kept owners at the new addresses. Memory added at the end belongs to the owner of
    /// the memory before it.
    pub fn moved(&mut self, moving: &Moving, new: usize, new_end: usize, known: u32) {
        let Leaving { start: old, end: old_end, .. } = moving.old;
        self.left(&moving.old);
        if new != old {
            self.remove(new, new_end);
        }
        self.insert_kept(moving, (old, old_end), (new, new_end), known);
    }

    /// Enters the kept owners at the new addresses, and keeps them at the old ones.
    pub fn doubled(&mut self, moving: &Moving, new: usize, new_end: usize, known: u32) {
        let Leaving { start: old, end: old_end, .. } = moving.old;
        self.stayed(&moving.old, known);
        self.remove(new, new_end);
        self.insert_kept(moving, (old, old_end), (new, new_end), known);
    }

    fn insert_kept(
        &mut self,
        moving: &Moving,
        (old, old_end): (usize, usize),
        (new, new_end): (usize, usize),
        known: u32,
    ) {
        for piece in &moving.kept[..moving.count] {
            let start = new + (piece.start - old);
            let end = (start + (piece.end - piece.start)).min(new_end);
            self.insert(Piece { start, end, known, ..*piece });
        }
        let added = new.saturating_add(old_end - old);
        if let Some(last) = moving.kept[..moving.count].last() {
            self.insert(Piece { start: added, end: new_end, known, ..*last });
        }
    }

    /// Enters a range that the walk with this number found mapped, and its `owner` if known.
    /// Mappings and releases that the tool saw take precedence.
    pub fn seen(&mut self, start: usize, end: usize, owner: Option<Component>, walk: u32) {
        self.parts(start, end, |map, start, end, here| {
            let better = here.is_some_and(|piece| match piece.kind {
                Kind::Seen => piece.moves() || Some(piece.owner) == owner,
                Kind::Hole => piece.known >= walk,
                _ => true,
            });
            match owner {
                _ if better => {}
                Some(owner) => {
                    map.insert(Piece { start, end, owner, kind: Kind::Seen, known: walk });
                }
                None if here.is_some() => map.remove(start, end),
                None => {}
            }
        });
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
