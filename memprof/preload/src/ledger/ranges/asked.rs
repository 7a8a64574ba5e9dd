//! Private memory that an object requested from the kernel by call number (`syscall`), bypassing
//! the functions of the C library. Such a call may serve another one that the tool sees, so it
//! determines an owner only where nothing else does.

use crate::base::component::Component;

/// Capacity for known ranges; memory of further ones stays without an owner.
const STRETCHES: usize = 512;

/// Addresses that one object requested.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub start: usize,
    pub end: usize,
    pub owner: Component,
}

/// Requested ranges (see the module), sorted and without overlaps.
pub struct Asked {
    all: [Stretch; STRETCHES],
    used: usize,
}

impl Asked {
    pub const fn new() -> Asked {
        let none = Stretch { start: 0, end: 0, owner: Component::UNATTRIBUTED };
        Asked { all: [none; STRETCHES], used: 0 }
    }

    /// Records that an object has got these addresses.
    pub fn enter(&mut self, new: Stretch) {
        self.forget(new.start, new.end);
        let at = self.all[..self.used].partition_point(|stretch| stretch.end <= new.start);
        let joins = |with: &Stretch| with.owner == new.owner;
        let before = at
            .checked_sub(1)
            .filter(|&before| joins(&self.all[before]) && self.all[before].end == new.start);
        let after =
            (at < self.used && joins(&self.all[at]) && self.all[at].start == new.end).then_some(at);
        match (before, after) {
            (Some(before), Some(after)) => {
                self.all[before].end = self.all[after].end;
                self.remove(after);
            }
            (Some(before), None) => self.all[before].end = new.end,
            (None, Some(after)) => self.all[after].start = new.start,
            (None, None) => self.insert(at, new),
        }
    }

    /// Forgets these addresses: from now on their memory was requested in another way, or is gone.
    pub fn forget(&mut self, start: usize, end: usize) {
        let mut at = self.all[..self.used].partition_point(|stretch| stretch.end <= start);
        while at < self.used && self.all[at].start < end {
            let stretch = self.all[at];
            match (stretch.start < start, end < stretch.end) {
                (true, true) => {
                    self.all[at].end = start;
                    self.insert(at + 1, Stretch { start: end, ..stretch });
                    return;
                }
                (true, false) => self.all[at].end = start,
                (false, true) => self.all[at].start = end,
                (false, false) => {
                    self.remove(at);
                    continue;
                }
            }
            at += 1;
        }
    }

    /// Returns the first range that ends above an address.
    pub fn next(&self, address: usize) -> Option<Stretch> {
        let all = &self.all[..self.used];
        all.get(all.partition_point(|stretch| stretch.end <= address)).copied()
    }

    fn insert(&mut self, at: usize, stretch: Stretch) {
        if self.used < STRETCHES {
            self.all.copy_within(at..self.used, at + 1);
            self.all[at] = stretch;
            self.used += 1;
        }
    }

    fn remove(&mut self, at: usize) {
        self.all.copy_within(at + 1..self.used, at);
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(start: usize, end: usize, owner: u16) -> Stretch {
        Stretch { start, end, owner: Component(owner) }
    }

    fn all(asked: &Asked) -> &[Stretch] {
        &asked.all[..asked.used]
    }

    #[test]
    fn neighbours_of_one_owner_are_one_stretch() {
        let mut asked = Asked::new();
        for start in [40, 20, 30] {
            asked.enter(stretch(start, start + 10, 30));
        }
        asked.enter(stretch(50, 60, 31));
        asked.enter(stretch(10, 20, 30));
        assert_eq!(all(&asked), [stretch(10, 50, 30), stretch(50, 60, 31)]);
        assert_eq!((asked.next(49), asked.next(60)), (Some(stretch(10, 50, 30)), None));
    }

    #[test]
    fn what_is_gone_or_asked_for_anew_is_cut_out() {
        let mut asked = Asked::new();
        asked.enter(stretch(10, 60, 30));
        asked.enter(stretch(20, 30, 31));
        asked.forget(40, 50);
        let rest =
            [stretch(10, 20, 30), stretch(20, 30, 31), stretch(30, 40, 30), stretch(50, 60, 30)];
        assert_eq!(all(&asked), rest);
        asked.forget(15, 55);
        assert_eq!(all(&asked), [stretch(10, 15, 30), stretch(55, 60, 30)]);
        asked.forget(0, 100);
        assert_eq!(all(&asked), []);
    }

    #[test]
    fn stretches_beyond_the_room_are_left_out() {
        let mut asked = Asked::new();
        for at in 0..STRETCHES + 3 {
            asked.enter(stretch(20 * at, 20 * at + 10, 30));
        }
        assert_eq!(all(&asked).len(), STRETCHES);
        asked.forget(2, 4);
        assert_eq!(asked.next(0), Some(stretch(0, 2, 30)));
    }
}
