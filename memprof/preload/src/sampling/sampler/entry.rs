//! A mapping as the walk sees it, and whether each of its pages must be examined.

use super::attribute::{Backing, Mapping};

/// A mapping to walk, and its position in a segment.
#[derive(Copy, Clone)]
pub struct Entry {
    pub mapping: Mapping,
    pub segment: Option<u16>,
    pub offset: u64,
    pub shared: bool,
    pub writable: bool,
    /// True if its pages are those of the file, without examining each.
    pub is_plain: bool,
}

pub const NO_ENTRY: Entry = Entry {
    mapping: Mapping { start: 0, end: 0, backing: Backing::Anonymous, hugetlb: false },
    segment: None,
    offset: 0,
    shared: false,
    writable: false,
    is_plain: false,
};

impl Entry {
    /// Decides whether the pages must be examined. Pages of a file that are not writable are copies
    /// only if they were writable before, until the loader removed the right: such pages lie before
    /// pages that are still writable, or are the last of an object. Code that was changed in place
    /// is found by a thorough sample.
    pub fn look_at_next(&mut self, next: &Entry, has_copies: bool) {
        let continues = self.segment.is_some() && self.segment == next.segment;
        let guarded = self.mapping.end == next.mapping.start && next.writable;
        self.is_plain |= continues && !self.writable;
        self.is_plain &= !guarded && !has_copies;
    }
}

/// Mappings that are not writable and yet contain copied pages: they were writable once, and code
/// was changed in place.
pub struct Copies {
    starts: [usize; COPIES],
    count: usize,
}

const COPIES: usize = 64;

impl Copies {
    pub const fn new() -> Copies {
        Copies { starts: [0; COPIES], count: 0 }
    }

    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds the mapping that starts at `start`. Ignored if there is no room.
    pub fn add(&mut self, start: usize) {
        if !self.has(start) && self.count < COPIES {
            self.starts[self.count] = start;
            self.count += 1;
        }
    }

    pub fn has(&self, start: usize) -> bool {
        self.starts[..self.count].contains(&start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mappings of one object whose pages are plain, given the rights of each: `r`, `x`
    /// or `w`; `.` is a hole, `b` has no file.
    fn plain(object: &str) -> String {
        let page = 4096;
        let entries = object.char_indices().filter(|(_, rights)| *rights != '.');
        let mut all: Vec<Entry> = entries
            .map(|(place, rights)| {
                let (start, is_file) = (page * (1 + place), rights != 'b');
                let backing = if is_file { Backing::File } else { Backing::Anonymous };
                let mapping = Mapping { start, end: start + page, backing, hugetlb: false };
                let writable = matches!(rights, 'w' | 'b');
                let segment = is_file.then_some(3);
                Entry { mapping, segment, writable, is_plain: rights == 'x', ..NO_ENTRY }
            })
            .collect();
        for index in 1..all.len() {
            let next = all[index];
            all[index - 1].look_at_next(&next, false);
        }
        all.iter().map(|entry| if entry.is_plain { 'p' } else { '?' }).collect()
    }

    #[test]
    fn pages_are_asked_about_where_the_loader_has_written() {
        assert_eq!(plain("rxrrw"), "ppp??");
        assert_eq!(plain("rxrrb"), "ppp??");
        assert_eq!(plain("rxr.rw"), "ppp??");
        assert_eq!(plain("rxw"), "p??", "code beside data");
        assert_eq!(plain("rxr"), "pp?", "the last may be what was written once");
        assert_eq!(plain("r"), "?");
        assert_eq!(plain("x"), "p");
    }

    #[test]
    fn code_that_was_found_changed_is_asked_about() {
        let mut copies = Copies::new();
        assert!(!copies.has(4096));
        (1..100).for_each(|start| copies.add(start * 4096));
        assert!(copies.has(4096) && copies.has(COPIES * 4096) && !copies.has(99 * 4096));
        copies.clear();
        assert!(!copies.has(4096));
    }
}
