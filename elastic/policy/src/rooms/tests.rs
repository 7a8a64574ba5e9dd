use proptest::prelude::*;

use super::*;

fn share(cores: u32, memory: u32) -> Share {
    Share { cores: NonZeroU32::new(cores).unwrap(), memory }
}

const NODE: Room = Room { cores: 4, memory: 100 };

#[test]
fn share_is_spread_as_evenly_as_may_be() {
    let need = Need::spread(share(5, 90), 2);
    let nodes = NodeList::of(&[7, 3]);
    let rooms: Vec<_> = need.on(&nodes).collect();
    let room = |cores| Room { cores, memory: 45 };
    assert_eq!(rooms, [(7, room(3)), (3, room(2))]);
    assert_eq!(need.cores(), 5);
    assert_eq!(Need::spread(share(1, 0), 3).cores(), 3, "a core on each node at least");
    assert_eq!(Need::whole(NODE, 3).cores(), 12);
    assert!(need.fits_on(NODE, 2) && !need.fits_on(NODE, 1));
    assert!(!Need::spread(share(5, 0), 1).fits_on(NODE, 9));
}

#[test]
fn fullest_node_with_room_is_taken_first() {
    let mut rooms = Rooms::new(3, NODE);
    let one = Need::spread(share(1, 60), 1);
    let place = |rooms: &Rooms, need: &Need| rooms.place(need).map(|nodes| nodes.to_string());
    assert_eq!(place(&rooms, &one).as_deref(), Some("0"));
    rooms.take(&one, &NodeList::of(&[1]));
    let small = Need::spread(share(2, 40), 1);
    assert_eq!(place(&rooms, &small).as_deref(), Some("1"));
    assert_eq!(place(&rooms, &one).as_deref(), Some("0"), "memory of node 1 is too little");
    assert_eq!(place(&rooms, &Need::whole(NODE, 2)).as_deref(), Some("0,2"));
    assert_eq!(place(&rooms, &Need::whole(NODE, 3)), None);
    assert_eq!((rooms.free_cores(), rooms.is_idle(0), rooms.is_idle(1)), (11, true, false));
    rooms.give(&one, &NodeList::of(&[1]));
    assert_eq!(rooms, Rooms::new(3, NODE));
}

#[test]
fn outlook_spares_no_room_that_the_job_needs() {
    let mut rooms = Rooms::new(2, NODE);
    let running = Need::spread(share(3, 0), 1);
    rooms.take(&running, &NodeList::of(&[0]));
    let head = Need::spread(share(8, 0), 2);
    let mut outlook = Outlook::new(&rooms, head);
    assert!(!outlook.fits());
    outlook.add(&running, &NodeList::of(&[0]));
    assert!(outlook.fits());
    let other = Need::spread(share(1, 0), 1);
    assert!(!outlook.spare(&other, &NodeList::of(&[0])) && outlook.fits());
    let mut outlook = Outlook::new(&Rooms::new(2, NODE), Need::spread(share(6, 0), 2));
    assert!(outlook.spare(&other, &NodeList::of(&[0])));
    assert!(!outlook.spare(&other, &NodeList::of(&[0])));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn rooms_agree_with_a_table_of_nodes(
        jobs in prop::collection::vec((1_u32..14, 0_u32..150, 1_u32..5, any::<bool>()), 1..40),
    ) {
        let mut rooms = Rooms::new(6, NODE);
        let mut held: Vec<(Need, NodeList)> = Vec::new();
        for (cores, memory, nodes, ends) in jobs {
            if ends && !held.is_empty() {
                let (need, nodes) = held.remove(cores as usize % held.len());
                rooms.give(&need, &nodes);
            }
            let need = Need::spread(share(cores, memory), nodes);
            // By number of nodes: each with room for the larger part has room for the smaller one.
            let with = |room: Room| rooms.free().iter().filter(|free| free.holds(room)).count();
            let fits = with(need.larger) >= need.larger_count as usize
                && with(need.smaller) >= need.count as usize;
            prop_assert_eq!(Outlook::new(&rooms, need).fits(), fits);
            let placed = rooms.place(&need);
            prop_assert_eq!(placed.is_some(), fits);
            if let Some(nodes) = placed {
                prop_assert!(need.on(&nodes).all(|(node, room)| rooms.free()[node as usize].holds(room)));
                prop_assert_eq!(need.on(&nodes).count(), need.count as usize);
                rooms.take(&need, &nodes);
                held.push((need, nodes));
            }
            let mut table = [NODE; 6];
            for (node, room) in held.iter().flat_map(|(need, nodes)| need.on(nodes)) {
                table[node as usize] = table[node as usize].less(room);
            }
            prop_assert_eq!(rooms.free(), &table[..]);
            let cores: u32 = table.iter().map(|room| room.cores).sum();
            prop_assert_eq!(rooms.free_cores(), u64::from(cores));
        }
    }
}
