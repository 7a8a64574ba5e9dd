//! Book of phases: which phases exist, and which are open, nested in each other. Independent of the
//! process.

/// Maximum number of phases; further ones share the last.
pub const LIMIT: usize = 64;

/// Maximum nesting depth; deeper phases are not recorded.
pub const DEPTH: usize = 16;

/// Longer names are cut.
pub const NAME: usize = 47;

/// Index of no phase: the parent of an outermost one.
pub const NONE: u16 = u16::MAX;

/// Origin of a phase. The numbers are those of trace files.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Automatic = 0,
    /// `MPI_Pcontrol`.
    Control = 1,
    /// Interface for programs.
    User = 2,
    Quo = 3,
}

/// A phase, with the sums over all its periods.
#[derive(Copy, Clone)]
pub struct Phase {
    name: [u8; NAME],
    length: u8,
    pub kind: Kind,
    /// Parent of the phase when it first began.
    pub parent: u16,
    pub entries: u64,
    /// Nanoseconds of the monotonic clock, over all periods that have ended.
    pub total: u64,
    /// Begin of the present period, if the phase is open.
    since: u64,
    /// Time of the first begin.
    pub first: u64,
    /// Time of the last end.
    pub last: u64,
    /// Number of times it is open at present.
    pub open: u32,
    /// Level that first had this name.
    level: i32,
}

impl Phase {
    const EMPTY: Phase = Phase {
        name: [0; NAME],
        length: 0,
        kind: Kind::Automatic,
        parent: 0,
        entries: 0,
        total: 0,
        since: 0,
        first: 0,
        last: 0,
        open: 0,
        level: 0,
    };

    /// Returns the time that the phase was open until `now`.
    pub fn total_at(&self, now: u64) -> u64 {
        let open = if self.open > 0 { now.saturating_sub(self.since) } else { 0 };
        self.total + open
    }

    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..usize::from(self.length)]).unwrap_or("?")
    }
}

/// An open phase.
#[derive(Copy, Clone)]
pub(super) struct Open {
    pub(super) index: u16,
    /// Number of this period, never reused.
    id: u32,
    since: u64,
    /// Level of `MPI_Pcontrol`, else 0.
    level: i32,
}

/// Consequence of a change; several are in order.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Begins(u16),
    Ends(u16),
}

/// State of all phases.
pub(super) struct Book {
    pub(super) phases: [Phase; LIMIT],
    pub(super) count: usize,
    pub(super) stack: [Open; DEPTH],
    pub(super) depth: usize,
    last_id: u32,
}

/// Name of the phase that further phases share.
const OTHER: &str = "(other phases)";

impl Book {
    pub(super) const fn new() -> Book {
        Book {
            phases: [Phase::EMPTY; LIMIT],
            count: 0,
            stack: [Open { index: 0, id: 0, since: 0, level: 0 }; DEPTH],
            depth: 0,
            last_id: 0,
        }
    }

    pub(super) fn find(&mut self, name: &str, kind: Kind) -> usize {
        let mut name = cut(name);
        let known = |book: &Book, name: &str| {
            (0..book.count).find(|&index| {
                book.phases[index].name() == name
                    && (book.phases[index].kind == kind || name == OTHER)
            })
        };
        if let Some(index) = known(self, name) {
            return index;
        }
        if self.count >= LIMIT - 1 {
            name = OTHER;
            if let Some(index) = known(self, name) {
                return index;
            }
        }
        let index = self.count;
        let parent = self.innermost();
        let phase = &mut self.phases[index];
        phase.name[..name.len()].copy_from_slice(name.as_bytes());
        phase.length = name.len() as u8;
        phase.kind = kind;
        phase.parent = parent;
        self.count += 1;
        index
    }

    pub(super) fn innermost(&self) -> u16 {
        self.depth.checked_sub(1).map_or(NONE, |top| self.stack[top].index)
    }

    /// Begins a phase. Returns its number; 0 if it is too deep.
    pub(super) fn begin(
        &mut self,
        name: &str,
        kind: Kind,
        now: u64,
        edge: &mut dyn FnMut(Edge),
    ) -> u32 {
        if self.depth == DEPTH {
            return 0;
        }
        let index = self.find(name, kind);
        let phase = &mut self.phases[index];
        if phase.entries == 0 {
            phase.first = now;
        }
        if phase.open == 0 {
            phase.since = now;
        }
        phase.entries += 1;
        phase.open += 1;
        let id = self.last_id.wrapping_add(1).max(1);
        self.last_id = id;
        self.stack[self.depth] = Open { index: index as u16, id, since: now, level: 0 };
        self.depth += 1;
        edge(Edge::Begins(index as u16));
        id
    }

    /// Ends an open phase and all phases inside it.
    pub(super) fn end(&mut self, id: u32, now: u64, edge: &mut dyn FnMut(Edge)) -> bool {
        let Some(at) = self.stack[..self.depth].iter().position(|open| open.id == id) else {
            return false;
        };
        while self.depth > at {
            self.depth -= 1;
            let open = self.stack[self.depth];
            let phase = &mut self.phases[usize::from(open.index)];
            // A phase that is open inside itself counts its time once.
            phase.open -= 1;
            if phase.open == 0 {
                phase.total += now.saturating_sub(open.since);
            }
            phase.last = now;
            edge(Edge::Ends(open.index));
        }
        true
    }

    /// Returns an open phase and the program's outermost phase that is open inside it.
    pub(super) fn crossed(&self, id: u32) -> Option<(u16, u16)> {
        let open = &self.stack[..self.depth];
        let at = open.iter().position(|open| open.id == id)?;
        let kind = |open: &&Open| self.phases[usize::from(open.index)].kind;
        let inner = open[at + 1..].iter().find(|open| kind(open) != Kind::Automatic)?;
        Some((open[at].index, inner.index))
    }

    /// Returns the open phase of this level of `MPI_Pcontrol`.
    pub(super) fn open_level(&self, level: i32) -> Option<u32> {
        self.stack[..self.depth].iter().rev().find(|open| open.level == level).map(|open| open.id)
    }

    /// Returns the open phase of this name, the innermost one if there are several.
    pub(super) fn open(&self, name: &str, kind: Kind) -> Option<u32> {
        self.stack[..self.depth]
            .iter()
            .rev()
            .find(|open| {
                let phase = &self.phases[usize::from(open.index)];
                phase.kind == kind && phase.name() == cut(name)
            })
            .map(|open| open.id)
    }

    /// Returns the open region of this name that `MPI_Pcontrol(1, name)` began.
    pub(super) fn open_named(&self, name: &str) -> Option<u32> {
        let mut open = self.stack[..self.depth].iter().rev();
        let found = open.find(|open| {
            let phase = &self.phases[usize::from(open.index)];
            phase.kind == Kind::Control && open.level == 0 && phase.name() == cut(name)
        });
        found.map(|open| open.id)
    }

    /// Ends the phase of this level if it is open. Begins it otherwise, under its name if it has
    /// one.
    pub(super) fn toggle(
        &mut self,
        level: i32,
        name: Option<&str>,
        number: &str,
        now: u64,
        edge: &mut dyn FnMut(Edge),
    ) {
        if let Some(id) = self.open_level(level) {
            self.end(id, now, edge);
            return;
        }
        let of_another = |name: &&str| {
            self.phases[..self.count].iter().any(|phase| {
                phase.kind == Kind::Control && phase.name() == *name && phase.level != level
            })
        };
        let name = name.filter(|name| !of_another(name)).unwrap_or(number);
        if self.begin(name, Kind::Control, now, edge) != 0 {
            let open = &mut self.stack[self.depth - 1];
            open.level = level;
            self.phases[usize::from(open.index)].level = level;
        }
    }

    /// Changes from the outermost automatic phase to another, which is nested if the program has
    /// phases open.
    pub(super) fn step(&mut self, name: &str, now: u64, edge: &mut dyn FnMut(Edge)) {
        if self.depth == 1 && self.phases[usize::from(self.stack[0].index)].kind == Kind::Automatic
        {
            let outermost = self.stack[0].id;
            self.end(outermost, now, edge);
        }
        self.begin(name, Kind::Automatic, now, edge);
    }

    /// Changes back to `main` from an automatic phase.
    pub(super) fn step_back(&mut self, name: &str, now: u64, edge: &mut dyn FnMut(Edge)) {
        if let Some(id) = self.open(name, Kind::Automatic) {
            self.end(id, now, edge);
        }
        if self.depth == 0 {
            self.begin("main", Kind::Automatic, now, edge);
        }
    }
}

fn cut(name: &str) -> &str {
    let mut length = name.len().min(NAME);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    &name[..length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn region_by_name_is_not_the_phase_of_a_level() {
        let (mut book, mut none) = (Book::new(), |_: Edge| {});
        book.toggle(3, Some("solve"), "pcontrol 3", 1, &mut none);
        assert_eq!(book.open_named("solve"), None);
        let id = book.begin("solve", Kind::Control, 2, &mut none);
        assert_eq!(book.open_named("solve"), Some(id));
        assert!(book.end(id, 3, &mut none));
        assert_eq!((book.open_named("solve"), book.depth), (None, 1));
    }

    fn name(book: &Book, edge: Edge) -> String {
        match edge {
            Edge::Begins(index) => format!("+{}", book.phases[usize::from(index)].name()),
            Edge::Ends(index) => format!("-{}", book.phases[usize::from(index)].name()),
        }
    }

    #[test]
    fn automatic_phases_follow_each_other() {
        let mut book = Book::new();
        let mut edges = Vec::new();
        let mut edge = |edge| edges.push(edge);
        book.begin("main", Kind::Automatic, 0, &mut edge);
        book.step("init", 10, &mut edge);
        book.step_back("init", 30, &mut edge);
        let id = book.begin("solve", Kind::User, 40, &mut edge);
        assert!(book.end(id, 50, &mut edge));
        assert!(!book.end(id, 51, &mut edge));
        book.step("finalize", 60, &mut edge);
        book.step_back("finalize", 70, &mut edge);
        let names: Vec<String> = edges.iter().map(|&edge| name(&book, edge)).collect();
        assert_eq!(
            names.join(" "),
            "+main -main +init -init +main +solve -solve -main +finalize -finalize +main"
        );
        let total = |wanted: &str| {
            book.phases.iter().find(|phase| phase.name() == wanted).map(|phase| phase.total)
        };
        assert_eq!(total("init"), Some(20));
        assert_eq!(total("main"), Some(10 + 30));
        assert_eq!(total("solve"), Some(10));
        assert_eq!(book.phases[2].parent, 0);
    }

    #[test]
    fn finalize_inside_a_forgotten_region_is_inside_it() {
        let mut book = Book::new();
        let mut none = |_| ();
        book.begin("main", Kind::Automatic, 0, &mut none);
        book.begin("all", Kind::User, 1, &mut none);
        book.step("finalize", 2, &mut none);
        assert_eq!(book.depth, 3);
        book.step_back("finalize", 3, &mut none);
        assert_eq!(book.depth, 2);
    }

    #[test]
    fn a_level_ends_what_it_began_and_what_is_inside() {
        let mut book = Book::new();
        let mut none = |_| ();
        book.begin("main", Kind::Automatic, 0, &mut none);
        book.toggle(3, None, "pcontrol 3", 1, &mut none);
        book.toggle(4, None, "pcontrol 4", 2, &mut none);
        assert_eq!(book.depth, 3);
        book.toggle(3, None, "pcontrol 3", 5, &mut none);
        assert_eq!(book.depth, 1);
        assert_eq!(book.phases[2].total, 3);
        assert_eq!(book.phases[1].total, 4);
    }

    #[test]
    fn what_is_left_over_in_an_argument_changes_names_only() {
        let mut book = Book::new();
        let mut none = |_| ();
        book.begin("main", Kind::Automatic, 0, &mut none);
        book.toggle(3, Some("solve"), "pcontrol 3", 1, &mut none);
        // There is no second argument: the name of the previous call is still there.
        book.toggle(4, Some("solve"), "pcontrol 4", 2, &mut none);
        assert_eq!(book.depth, 3);
        book.toggle(4, Some("anything"), "pcontrol 4", 3, &mut none);
        book.toggle(3, Some("solve"), "pcontrol 3", 4, &mut none);
        assert_eq!(book.depth, 1);
        assert_eq!(book.phases[1].name(), "solve");
        assert_eq!(book.phases[2].name(), "pcontrol 4");
        assert_eq!(book.count, 3);
    }

    #[test]
    fn more_phases_than_there_is_room_for_share_the_last() {
        let mut book = Book::new();
        let mut none = |_| ();
        for number in 0..100 {
            let id = book.begin(&format!("phase {number}"), Kind::User, number, &mut none);
            assert!(book.end(id, number + 1, &mut none));
        }
        assert_eq!(book.count, LIMIT);
        assert_eq!(book.phases[LIMIT - 1].name(), OTHER);
        assert_eq!(book.phases[LIMIT - 1].entries, 100 - (LIMIT as u64 - 1));
    }

    proptest! {
        #[test]
        fn every_beginning_has_one_end(operations in proptest::collection::vec((0u8..4, 0u32..40), 0..200)) {
            let mut book = Book::new();
            let mut open = 0i64;
            let mut edge = |edge| open += if matches!(edge, Edge::Begins(_)) { 1 } else { -1 };
            for (time, (what, number)) in operations.into_iter().enumerate() {
                let now = time as u64;
                match what {
                    0 => { book.begin(&format!("r{}", number % 7), Kind::User, now, &mut edge); }
                    1 => { book.end(number, now, &mut edge); }
                    2 => {
                        let level = 3 + number as i32 % 3;
                        book.toggle(level, None, &format!("p{level}"), now, &mut edge);
                    }
                    _ => book.step("init", now, &mut edge),
                }
                prop_assert!(book.depth <= DEPTH);
            }
            let depth = book.depth as i64;
            let times: u32 = book.phases.iter().map(|phase| phase.open).sum();
            prop_assert_eq!(i64::from(times), depth);
            prop_assert_eq!(open, depth);
        }
    }
}
