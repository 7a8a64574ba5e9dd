use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn interval(first: u32, count: u32) -> Interval {
    Interval { first, count }
}

#[test]
fn lowest_nodes_are_taken_across_gaps() {
    let mut set = NodeSet::first(10);
    assert!(set.remove(interval(2, 3)));
    let taken = set.take_lowest(4).unwrap();
    assert_eq!(taken.to_string(), "0-1,5-6");
    assert_eq!(set.count(), 3);
    assert_eq!(set.take_lowest(4), None);
    assert_eq!(set.count(), 3);
}

#[test]
fn tail_of_list_keeps_order_of_arrival() {
    let mut list = NodeList::of(&[7, 8, 9, 2, 3, 5]);
    assert_eq!(list.to_string(), "7-9,2-3,5");
    assert_eq!(list.take_tail(2).iter().collect::<Vec<_>>(), [3, 5]);
    assert_eq!(list.take_tail(9).iter().collect::<Vec<_>>(), [7, 8, 9, 2]);
    assert!(list.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn node_set_agrees_with_set_of_numbers(
        steps in prop::collection::vec((0_u8..3, 0_u32..40, 1_u32..8), 0..60)
    ) {
        let mut set = NodeSet::first(20);
        let mut model: BTreeSet<u32> = (0..20).collect();
        for (kind, first, count) in steps {
            let part = interval(first, count);
            let numbers: BTreeSet<u32> = (first..part.end()).collect();
            match kind {
                0 => {
                    let allowed = numbers.is_disjoint(&model);
                    prop_assert_eq!(set.insert(part), allowed);
                    if allowed {
                        model.extend(&numbers);
                    }
                }
                1 => {
                    let allowed = numbers.is_subset(&model);
                    prop_assert_eq!(set.contains(part), allowed);
                    prop_assert_eq!(set.remove(part), allowed);
                    if allowed {
                        model.retain(|node| !numbers.contains(node));
                    }
                }
                _ => {
                    let expected: Vec<u32> = model.iter().copied().take(count as usize).collect();
                    let expected = (expected.len() == count as usize).then_some(expected);
                    let taken = set.take_lowest(count).map(|list| list.iter().collect::<Vec<_>>());
                    prop_assert_eq!(&taken, &expected);
                    model.retain(|node| !expected.iter().flatten().any(|other| other == node));
                }
            }
            let nodes = set.intervals().flat_map(|part| part.first..part.end());
            prop_assert!(nodes.eq(model.iter().copied()));
            prop_assert_eq!(set.count() as usize, model.len());
            let parts: Vec<_> = set.intervals().collect();
            prop_assert!(parts.windows(2).all(|pair| pair[0].end() < pair[1].first));
        }
    }
}
