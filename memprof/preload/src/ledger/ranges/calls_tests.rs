//! Tests of walks concurrent with calls, in every order of their parts. The model has the mappings
//! of the kernel, those of the ledger, and those that a walk has read and not yet entered.

use proptest::prelude::*;

use super::super::map::Map;
use super::*;

const PAGES: usize = 48;
const THREADS: usize = 3;

/// One step of an activity; steps can be in any order.
#[derive(Clone, Debug)]
enum Act {
    /// An idle thread begins a call; another thread continues its call.
    Thread(usize, Call),
    /// A mapping is made or unmapped by a call that the tool does not see.
    Unseen { start: usize, length: usize, owner: Option<u16> },
    /// The walk reads on, and starts again after the end.
    Read,
    /// The walk enters its findings.
    Enter,
}

#[derive(Clone, Debug)]
enum Call {
    Map { start: usize, length: usize, owner: u16 },
    Unmap { start: usize, length: usize, fails: bool },
    Move { start: usize, length: usize, new: usize, new_length: usize, fails: bool },
}

#[test]
fn addresses_whose_pages_moved_alone_stay_the_owners() {
    let mut map = Box::new(Map::new());
    let piece =
        |start, end| Piece { start, end, owner: Component(20), kind: Kind::Private, known: 1 };
    map.insert(piece(10, 20));
    let moving = map.moves(10, 20);
    map.doubled(&moving, 40, 50, 1);
    assert_eq!(map.owned(Component(20)), 20);
    assert_eq!(map.next(0), Some(piece(10, 20)));
    assert_eq!(map.next(30), Some(piece(40, 50)));
}

#[test]
fn overlapping_munmaps_do_not_restore_the_old_owner() {
    for fails in [true, false] {
        let mut map = Box::new(Map::new());
        let piece =
            |start, end| Piece { start, end, owner: Component(20), kind: Kind::Shared, known: 1 };
        map.insert(piece(32, 44));
        let first = map.leaves(33, 40);
        // The range is gone, others are mapped there unseen, and the program unmaps some of those.
        let second = map.leaves(32, 34);
        if fails {
            map.stayed(&second, 1);
        } else {
            map.left(&second);
        }
        map.left(&first);
        let kept = if fails { vec![piece(32, 33), piece(40, 44)] } else { vec![piece(40, 44)] };
        let pieces = std::iter::successors(map.next(0), |piece| map.next(piece.end));
        assert_eq!(pieces.collect::<Vec<_>>(), kept);
        map.seen(33, 40, Some(Component(30)), 2);
        assert_eq!(map.next(33).map(|piece| (piece.start, piece.owner.0)), Some((33, 30)));
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let (place, length) = (0..PAGES - 8, 1..8_usize);
    let call = prop_oneof![
        3 => (place.clone(), length.clone(), 20..23_u16)
            .prop_map(|(start, length, owner)| Call::Map { start, length, owner }),
        3 => (place.clone(), length.clone(), proptest::bool::weighted(0.1))
            .prop_map(|(start, length, fails)| Call::Unmap { start, length, fails }),
        2 => (place.clone(), length.clone(), place.clone(), length.clone(), proptest::bool::weighted(0.1))
            .prop_map(|(start, length, new, new_length, fails)| {
                Call::Move { start, length, new, new_length, fails }
            }),
    ];
    let act = prop_oneof![
        9 => (0..THREADS, call).prop_map(|(thread, call)| Act::Thread(thread, call)),
        1 => (place, length, proptest::option::of(30..32_u16))
            .prop_map(|(start, length, owner)| Act::Unseen { start, length, owner }),
        5 => Just(Act::Read),
        5 => Just(Act::Enter),
    ];
    proptest::collection::vec(act, 1..400)
}

/// State of a page in the kernel.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Page {
    owner: Option<u16>,
    /// True if the last change was by an unseen call.
    unseen: bool,
    /// True if a call that has not returned affects the page.
    busy: bool,
}

enum Under {
    Mapping {
        start: usize,
        length: usize,
        owner: u16,
        done: bool,
    },
    Unmapping {
        leaving: Leaving,
        fails: bool,
        done: bool,
    },
    Moving {
        moving: Box<Moving>,
        length: usize,
        new: usize,
        new_length: usize,
        fails: bool,
        done: bool,
    },
}

struct World {
    map: Box<Map>,
    pages: [Page; PAGES],
    threads: [Option<Under>; THREADS],
    walks: u32,
    /// Position up to which the current walk has read.
    read: usize,
    lines: Vec<(usize, usize, Option<u16>)>,
}

impl World {
    fn is(&self, start: usize, length: usize, what: impl Fn(&Page) -> bool) -> bool {
        self.pages.get(start..start + length).is_some_and(|pages| pages.iter().all(what))
    }

    fn set(&mut self, start: usize, length: usize, what: impl Fn(&mut Page)) {
        self.pages[start..start + length].iter_mut().for_each(what);
    }

    fn known(&self) -> u32 {
        self.walks
    }

    fn insert(&mut self, start: usize, end: usize, owner: u16) {
        let known = self.known();
        self.map.insert(Piece { start, end, owner: Component(owner), kind: Kind::Shared, known });
    }

    fn thread(&mut self, thread: usize, call: &Call) {
        let known = self.known();
        let idle = |page: &Page| !page.busy && page.owner.is_some();
        self.threads[thread] = match self.threads[thread].take() {
            None => self.begin(call, idle),
            Some(Under::Mapping { start, length, owner, done: false }) => {
                let free = self.is(start, length, |page| page.owner.is_none());
                free.then(|| {
                    let page = Page { owner: Some(owner), unseen: false, busy: true };
                    self.set(start, length, |place| *place = page);
                    Under::Mapping { start, length, owner, done: true }
                })
            }
            Some(Under::Mapping { start, length, owner, .. }) => {
                self.insert(start, start + length, owner);
                self.set(start, length, |page| page.busy = false);
                None
            }
            Some(Under::Unmapping { leaving, fails, done: false }) => {
                if !fails {
                    let nothing = Page { owner: None, unseen: false, busy: false };
                    self.set(leaving.start, leaving.end - leaving.start, |page| *page = nothing);
                }
                Some(Under::Unmapping { leaving, fails, done: true })
            }
            Some(Under::Unmapping { leaving, fails, .. }) => {
                if fails {
                    self.map.stayed(&leaving, known);
                    let length = leaving.end - leaving.start;
                    self.set(leaving.start, length, |page| page.busy = false);
                } else {
                    self.map.left(&leaving);
                }
                None
            }
            Some(Under::Moving { moving, length, new, new_length, fails, done: false }) => {
                let old = moving.old.start;
                let fails = fails || !self.is(new, new_length, |page| page.owner.is_none());
                if !fails {
                    let nothing = Page { owner: None, unseen: false, busy: false };
                    let page = Page { busy: true, ..self.pages[old] };
                    self.set(old, length, |place| *place = nothing);
                    self.set(new, new_length, |place| *place = page);
                }
                Some(Under::Moving { moving, length, new, new_length, fails, done: true })
            }
            Some(Under::Moving { moving, length, new, new_length, fails, .. }) => {
                if fails {
                    self.map.not_moved(&moving, known);
                    self.set(moving.old.start, length, |page| page.busy = false);
                } else {
                    self.map.moved(&moving, new, new + new_length, known);
                    self.set(new, new_length, |page| page.busy = false);
                }
                None
            }
        };
    }

    /// Begins a call, if it is allowed: a program unmaps and moves only its own memory, and not in
    /// two threads at once.
    fn begin(&mut self, call: &Call, idle: impl Fn(&Page) -> bool + Copy) -> Option<Under> {
        match *call {
            Call::Map { start, length, owner } => {
                Some(Under::Mapping { start, length, owner, done: false })
            }
            Call::Unmap { start, length, fails } => self.is(start, length, idle).then(|| {
                self.set(start, length, |page| page.busy = true);
                let leaving = self.map.leaves(start, start + length);
                Under::Unmapping { leaving, fails, done: false }
            }),
            Call::Move { start, length, new, new_length, fails } => {
                let first = self.pages[start];
                let same = |page: &Page| idle(page) && *page == first;
                (!first.unseen && self.is(start, length, same)).then(|| {
                    self.set(start, length, |page| page.busy = true);
                    let moving = Box::new(self.map.moves(start, start + length));
                    Under::Moving { moving, length, new, new_length, fails, done: false }
                })
            }
        }
    }

    /// Reads the next line of the list of mappings.
    fn read(&mut self) {
        if self.map.walking.is_none() {
            self.map.walking = Some(self.walks);
            self.walks += 1;
            self.read = 0;
        }
        if self.read < PAGES {
            let start = self.read;
            let owner = self.pages[start].owner;
            let more = self.pages[start..].iter().take_while(|page| page.owner == owner).count();
            self.lines.push((start, start + more, owner));
            self.read = start + more;
        }
    }

    /// Enters the oldest line that was read. Only mappings made by unseen calls have a name that
    /// reveals the owner.
    fn enter(&mut self) {
        let Some(walk) = self.map.walking else { return };
        if !self.lines.is_empty() {
            match self.lines.remove(0) {
                (start, end, None) => self.map.remove_known(start, end, walk),
                (start, end, Some(owner)) => {
                    self.map.seen(start, end, Some(Component(owner)), walk);
                }
            }
        } else if self.read == PAGES {
            self.map.walking = None;
        }
    }

    fn piece(&self, page: usize) -> Option<Piece> {
        self.map.next(page).filter(|piece| piece.start <= page && piece.kind != Kind::Hole)
    }

    fn check(&self) {
        let mut owned = 0;
        for (index, page) in self.pages.iter().enumerate() {
            let piece = self.piece(index);
            owned += u64::from(piece.is_some());
            if page.busy || page.unseen {
                continue;
            }
            match (page.owner, piece) {
                (Some(owner), Some(piece)) => {
                    assert_eq!((piece.owner.0, piece.kind), (owner, Kind::Shared), "page {index}");
                }
                (Some(_), None) => panic!("page {index} is lost"),
                (None, Some(piece)) => {
                    // The page is gone, and the call that unmapped it has not returned yet.
                    let leaves = self.threads.iter().flatten().any(|under| match under {
                        Under::Unmapping { leaving, .. } => piece.known == leaving.mark,
                        Under::Moving { moving, .. } => piece.known == moving.old.mark,
                        Under::Mapping { .. } => false,
                    });
                    assert!(leaves, "page {index} is still there: {piece:?}");
                }
                (None, None) => {}
            }
        }
        assert_eq!(self.map.total(), owned);
    }

    /// Checks that a whole walk with no concurrent activity finds the true state.
    fn settle(&mut self) {
        for _ in 0..2 {
            for thread in 0..THREADS {
                while self.threads[thread].is_some() {
                    self.thread(thread, &Call::Map { start: 0, length: 1, owner: 20 });
                }
            }
            while self.map.walking.is_some() {
                self.read();
                self.enter();
            }
            self.read();
        }
        while self.map.walking.is_some() {
            self.read();
            self.enter();
        }
        for (index, page) in self.pages.iter().enumerate() {
            assert_eq!(self.piece(index).map(|piece| piece.owner.0), page.owner, "page {index}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn walks_beside_calls_leave_the_ledger_right(acts in acts()) {
        let nothing = Page { owner: None, unseen: false, busy: false };
        let mut world = World {
            map: Box::new(Map::new()),
            pages: [nothing; PAGES],
            threads: [const { None }; THREADS],
            walks: 1,
            read: 0,
            lines: Vec::new(),
        };
        for act in acts {
            match act {
                Act::Thread(thread, call) => world.thread(thread, &call),
                Act::Unseen { start, length, owner } => {
                    let fit = |page: &Page| {
                        !page.busy && page.owner.is_some() == owner.is_none()
                            && (page.owner.is_none() || page.unseen)
                    };
                    if world.is(start, length, fit) {
                        world.set(start, length, |page| {
                            *page = Page { owner, unseen: true, busy: false };
                        });
                    }
                }
                Act::Read => world.read(),
                Act::Enter => world.enter(),
            }
            world.check();
        }
        world.settle();
    }
}
