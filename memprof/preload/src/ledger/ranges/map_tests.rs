//! Tests of the map against a model that has an owner for every page.

use proptest::prelude::*;

use super::*;

const PAGES: usize = 400;

/// One operation on the map, in pages.
#[derive(Clone, Debug)]
enum Act {
    Insert { start: usize, length: usize, owner: u16, kind: u8, known: u32 },
    Remove { start: usize, length: usize },
    RemoveKnown { start: usize, length: usize, known: u32 },
    Move { old: usize, old_length: usize, new: usize, new_length: usize, other: usize },
    Stay { old: usize, length: usize },
}

fn kind(number: u8) -> Kind {
    match number % 5 {
        0 => Kind::Private,
        1 => Kind::Shared,
        2 => Kind::Stack,
        3 => Kind::Found,
        _ => Kind::Seen,
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let length = prop_oneof![4 => 1..3_usize, 1 => 1..60_usize];
    let place = 0..PAGES - 60;
    // A move keeps 48 pieces apart, which 40 pages cannot exceed.
    let act = prop_oneof![
        8 => (place.clone(), length.clone(), 0..5_u16, 0..5_u8).prop_map(
            |(start, length, owner, kind)| Act::Insert { start, length, owner, kind, known: 1 }
        ),
        4 => (place.clone(), length.clone()).prop_map(|(start, length)| Act::Remove { start, length }),
        1 => (place.clone(), length.clone(), 0..3_u32)
            .prop_map(|(start, length, known)| Act::RemoveKnown { start, length, known }),
        2 => (place.clone(), 1..40_usize, place.clone(), 1..60_usize, 0..9_usize).prop_map(
            |(old, old_length, new, new_length, other)| {
                Act::Move { old, old_length, new, new_length, other }
            }
        ),
        1 => (place, 1..40_usize).prop_map(|(old, length)| Act::Stay { old, length }),
    ];
    proptest::collection::vec(act, 1..300)
}

type Model = Vec<Option<(u16, Kind)>>;

fn check(map: &Map, model: &Model) {
    let mut found: Model = vec![None; PAGES + 200];
    let (mut at, mut before) = (0, 0);
    while let Some(piece) = map.next(at) {
        assert!(piece.start >= before && piece.start < piece.end, "in order and not empty");
        if piece.kind != Kind::Hole {
            found[piece.start..piece.end].fill(Some((piece.owner.0, piece.kind)));
        }
        before = piece.end;
        at = piece.end;
    }
    assert_eq!(&found, model);
    for owner in 0..5 {
        let pages = model
            .iter()
            .filter(|page| page.is_some_and(|(whose, kind)| whose == owner && kind.is_owned()));
        assert_eq!(map.owned(Component(owner)), pages.count() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn every_page_has_the_owner_that_a_plain_table_says(acts in acts()) {
        let mut map = Box::new(Map::new());
        let mut model: Model = vec![None; PAGES + 200];
        for act in acts {
            match act {
                Act::Insert { start, length, owner, kind: number, known } => {
                    let kind = kind(number);
                    let end = start + length;
                    map.insert(Piece { start, end, owner: Component(owner), kind, known });
                    model[start..end].fill(Some((owner, kind)));
                }
                Act::Remove { start, length } => {
                    map.remove(start, start + length);
                    model[start..start + length].fill(None);
                }
                Act::RemoveKnown { start, length, known } => {
                    map.remove_known(start, start + length, known);
                    if known >= 1 {
                        model[start..start + length].fill(None);
                    }
                }
                Act::Stay { old, length } => {
                    let moving = map.moves(old, old + length);
                    map.not_moved(&moving, 1);
                }
                Act::Move { old, old_length, new, new_length, other } => {
                    // The kernel refuses overlapping ranges.
                    let apart = new + new_length <= old || old + old_length <= new;
                    if old != new && !apart {
                        continue;
                    }
                    let moving = map.moves(old, old + old_length);
                    check(&map, &model);
                    // Another thread maps memory before the call has returned, where the kernel has
                    // already made room. A walk that began later finds the rest gone.
                    let other = if old != new { other.min(old_length) } else { 0 };
                    let whose = Some((4, Kind::Shared));
                    map.remove_known(old, old + old_length, MARK - 1);
                    check(&map, &model);
                    let old_pages: Model = model[old..old + old_length].to_vec();
                    let end = old + other;
                    let kind = Kind::Shared;
                    map.insert(Piece { start: old, end, owner: Component(4), kind, known: 1 });
                    map.moved(&moving, new, new + new_length, 1);
                    let known = old_pages.iter().any(Option::is_some);
                    if old != new {
                        model[old..old + old_length].fill(None);
                        model[old..end].fill(whose);
                        model[new..new + new_length].fill(None);
                        let kept = old_length.min(new_length);
                        model[new..new + kept].copy_from_slice(&old_pages[..kept]);
                    } else if new_length < old_length {
                        model[old + new_length..old + old_length].fill(None);
                    }
                    if known && new_length > old_length {
                        let last = *old_pages.iter().rev().find(|page| page.is_some()).unwrap();
                        model[new + old_length..new + new_length].fill(last);
                    }
                }
            }
            check(&map, &model);
        }
    }
}

#[test]
fn thousands_of_pieces_come_and_go() {
    let mut map = Box::new(Map::new());
    let piece = |index: usize| Piece {
        start: index * 2,
        end: index * 2 + 1,
        owner: Component(20),
        kind: Kind::Private,
        known: 0,
    };
    let count = 20_000;
    for index in 0..count {
        // This order splits chunks everywhere.
        map.insert(piece(index * 7919 % count));
    }
    assert_eq!(map.owned(Component(20)), count as u64);
    assert_eq!(map.lost, 0);
    for index in (0..count).step_by(2) {
        map.remove(index * 2, index * 2 + 1);
    }
    assert_eq!(map.owned(Component(20)), count as u64 / 2);
    assert_eq!(map.next(0), Some(piece(1)));
    map.remove(0, usize::MAX);
    assert_eq!(map.owned(Component(20)), 0);
    assert_eq!(map.next(0), None);
    assert_eq!(map.used, 0);
}

#[test]
fn what_does_not_fit_is_counted_and_harms_nothing() {
    let mut map = Box::new(Map::new());
    for index in 0..CHUNKS * PIECES {
        map.insert(Piece {
            start: index * 2,
            end: index * 2 + 1,
            owner: Component(16),
            kind: Kind::Private,
            known: 0,
        });
    }
    assert!(map.lost > 0);
    map.remove(0, usize::MAX);
    assert_eq!(map.owned(Component(16)), 0);
}

#[test]
fn memory_found_as_asked_for_is_owned_beside_pieces() {
    let (owner, mut map) = (Component(3), Box::new(Map::new()));
    let changes = |map: &mut Map| {
        let mut all = Vec::new();
        map.changes(|component, by| all.push((component, by)));
        all
    };
    map.insert(Piece { start: 0, end: 10, owner, kind: Kind::Private, known: 0 });
    let mut asked = [0; LIMIT];
    asked[3] = 5;
    map.own_asked(&asked);
    assert_eq!((map.owned(owner), map.total(), map.mapped(owner)), (15, 15, 15));
    assert_eq!(changes(&mut map), [(owner, 15)]);
    map.own_asked(&asked);
    assert_eq!(changes(&mut map), []);
    asked[3] = 2;
    map.own_asked(&asked);
    map.remove(0, 10);
    assert_eq!((map.owned(owner), map.mapped(owner)), (2, 15));
    assert_eq!(changes(&mut map), [(owner, -13)]);
}

#[test]
fn memory_that_is_given_changes_its_owner_alone() {
    let mut map = Box::new(Map::new());
    let piece =
        |start, end, owner, kind| Piece { start, end, owner: Component(owner), kind, known: 1 };
    map.insert(piece(0, 10, 1, Kind::Private));
    map.insert(piece(10, 20, 2, Kind::Private));
    map.insert(piece(20, 30, 1, Kind::Stack));
    map.give((5, 40), |owner| owner == Component(1), Component(3), Map::insert);
    let owned = [1, 2, 3].map(|owner| map.owned(Component(owner)));
    assert_eq!(owned, [5, 10, 5], "neither other owners' memory nor stacks");
    map.give((5, 40), |owner| owner == Component(3), Component(1), Map::renew);
    assert_eq!([1, 2, 3].map(|owner| map.owned(Component(owner))), [10, 10, 0]);
    let mapped = [1, 3].map(|owner| map.mapped(Component(owner)));
    assert_eq!(mapped, [10, 5], "what is given back is not mapped again");
}
