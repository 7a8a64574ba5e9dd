use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

type Small = Graph<16, 64>;

/// Calls sites in this order, one every ten units of time, of which a call takes four. Returns the
/// events with their positions in the order.
fn run<const N: usize, const S: usize>(
    graph: &mut Graph<N, S>,
    order: &[usize],
    from: u64,
) -> Vec<(usize, Event)> {
    let mut events = Vec::new();
    for (place, name) in order.iter().enumerate() {
        let began = from + 10 * place as u64;
        let call = Call { address: name + 1, function: 0, began, ended: began + 4 };
        let step = graph.call(call);
        events.extend(step.event.map(|event| (place, event)));
    }
    events
}

/// Returns the site that was called under this name.
fn site<const N: usize, const S: usize>(graph: &Graph<N, S>, name: usize) -> Site {
    let found = graph.sites().iter().find(|site| site.address == name + 1);
    *found.expect("a site of this name")
}

fn number<const N: usize, const S: usize>(graph: &Graph<N, S>, name: usize) -> u16 {
    let found = graph.sites().iter().position(|site| site.address == name + 1);
    found.expect("a site of this name") as u16
}

#[test]
fn log_and_table_of_the_published_example_are_reproduced() {
    let order = [2, 0, 6, 3, 1, 6, 3, 1, 6, 3, 1, 9, 7, 9, 7, 3, 1, 6, 3, 1, 6, 3, 1, 9, 7, 9, 7];
    let mut graph = Small::new();
    let events = run(&mut graph, &order, 0);
    let named = |name| number(&graph, name);
    assert_eq!(
        events,
        [
            (5, Event::Detected(named(6))),
            (11, Event::Exit(named(6), named(9))),
            (13, Event::Detected(named(9))),
            (15, Event::BodyReentry(named(3))),
        ]
    );
    // Name, head, body, re-entries, revisits, tail, head of its loop, first and last call.
    let table = [
        (2, false, false, 0, 0, None, None, 0, 0),
        (0, false, false, 0, 0, None, None, 1, 1),
        (6, true, false, 0, 4, Some(1), None, 2, 20),
        (3, false, true, 1, 5, Some(7), Some(6), 3, 21),
        (1, false, true, 0, 5, None, Some(6), 4, 22),
        (9, true, false, 0, 3, Some(7), None, 11, 25),
        (7, false, true, 0, 3, None, Some(9), 12, 26),
    ];
    assert_eq!(graph.sites().len(), table.len());
    for (at, row) in table.into_iter().enumerate() {
        let (name, is_head, is_body, reentries, revisits, tail, head, created, last) = row;
        let found = graph.sites()[at];
        let place = |name: Option<usize>| name.map_or(NONE, named);
        assert_eq!(found.address, name + 1, "order of creation");
        assert_eq!((found.is_head, found.is_body), (is_head, is_body), "{name}");
        assert_eq!((found.reentries, found.revisits), (reentries, revisits), "{name}");
        assert_eq!((found.tail, found.head), (place(tail), place(head)), "{name}");
        assert_eq!((found.created, found.last), (10 * created, 10 * last), "{name}");
    }
    // The loop was left for the second one and resumed: the second one is inside.
    assert_eq!(site(&graph, 9).outer, named(6));
}

#[test]
fn nested_loops_have_heads_inside_each_other() {
    let mut graph = Small::new();
    let events = run(&mut graph, &[1, 2, 3, 2, 3, 4, 1, 2, 3, 2, 3, 4, 1], 0);
    let (outer, inner) = (number(&graph, 1), number(&graph, 2));
    let expected = [
        (3, Event::Detected(inner)),
        (5, Event::Exit(inner, number(&graph, 4))),
        (6, Event::Detected(outer)),
    ];
    assert_eq!(events, expected);
    assert!(site(&graph, 2).is_head && site(&graph, 2).is_body);
    assert_eq!((site(&graph, 2).head, site(&graph, 3).head), (outer, inner));
    assert_eq!((site(&graph, 1).head, site(&graph, 4).head), (NONE, outer));
}

#[test]
fn iterations_are_timed_from_head_call_to_head_call() {
    let mut graph = Small::new();
    run(&mut graph, &[1, 2, 3, 2, 3, 4, 1, 2, 3, 2, 3, 4, 1], 0);
    let outer = site(&graph, 1);
    assert_eq!((outer.turns, outer.measured), (2, Span { time: 120, mpi: 48 }));
    assert_eq!(outer.measured.ratio(), Some(48.0 / 72.0));
    // The second iteration of the inner loop has no end, and the time between two entries is not an
    // iteration.
    let inner = site(&graph, 2);
    assert_eq!((inner.turns, inner.measured), (2, Span { time: 40, mpi: 16 }));
    assert_eq!((site(&graph, 3).spent, site(&graph, 3).revisits), (16, 3));
}

#[test]
fn reset_keeps_loops_and_forgets_times() {
    let mut graph = Small::new();
    run(&mut graph, &[1, 2, 1, 2, 1, 2], 0);
    assert_eq!(site(&graph, 1).turns, 2);
    graph.reset(1000);
    assert_eq!((site(&graph, 1).turns, site(&graph, 1).measured), (0, Span::default()));
    assert_eq!(site(&graph, 1).recent(), Span::default());
    assert_eq!(run(&mut graph, &[1, 2, 1, 2], 2000), []);
    assert_eq!((site(&graph, 1).turns, site(&graph, 1).measured.time), (1, 20));
    assert_eq!(site(&graph, 1).revisits, 4);
}

#[test]
fn interruption_is_no_iteration_and_no_entry() {
    let mut graph = Small::new();
    run(&mut graph, &[1, 2, 3], 0);
    graph.interrupt();
    assert_eq!(run(&mut graph, &[2, 3], 100), []);
    let events = run(&mut graph, &[2, 3, 2], 200);
    assert_eq!(events, [(0, Event::Detected(number(&graph, 2)))]);
    // Sites before the interruption were forgotten, and those of loops after it stay.
    assert_eq!((site(&graph, 2).turns, site(&graph, 2).measured.time), (2, 120));
    assert_eq!(graph.sites().len(), 2);
    graph.interrupt();
    assert_eq!(run(&mut graph, &[3, 2], 300), []);
    assert_eq!(site(&graph, 3).reentries, 0);
}

#[test]
fn interruption_keeps_the_ways_between_sites_of_loops() {
    let mut graph = Small::new();
    let events = run(&mut graph, &[5, 1, 2, 1, 2, 3, 4, 3, 4, 2], 0);
    assert_eq!(events.last(), Some(&(9, Event::BodyReentry(number(&graph, 2)))));
    assert_eq!(graph.edge_count, 7);
    graph.interrupt();
    // The edge from the forgotten site is forgotten as well.
    assert_eq!(graph.edge_count, 6);
    // A known entry is not reported again.
    assert_eq!(run(&mut graph, &[3, 4, 2], 100), []);
}

#[test]
fn cleared_graph_finds_loops_as_a_new_one() {
    let mut graph = Small::new();
    graph.set_window(100);
    run(&mut graph, &[1, 2, 1, 2], 0);
    graph.clear();
    assert_eq!(graph.sites().len(), 0);
    // A site of the previous loop begins a new loop.
    assert_eq!(run(&mut graph, &[2; 40], 1000), [(1, Event::Detected(0))]);
    assert!((100..=200).contains(&site(&graph, 2).recent().time));
}

#[test]
fn recent_times_are_of_the_last_intervals() {
    let mut graph = Small::new();
    graph.set_window(100);
    run(&mut graph, &[1; 11], 0);
    assert_eq!(site(&graph, 1).recent(), Span { time: 100, mpi: 40 });
    run(&mut graph, &[1; 50], 110);
    let recent = site(&graph, 1).recent();
    assert!((100..=200).contains(&recent.time) && recent.mpi * 10 == recent.time * 4, "{recent:?}");
    assert_eq!(site(&graph, 1).measured.time, 600);
}

#[test]
fn sites_beyond_the_room_are_counted_and_left_out() {
    let mut graph = Graph::<2, 4>::new();
    assert_eq!(run(&mut graph, &[1, 2, 3, 4, 1], 0), [(4, Event::Detected(0))]);
    assert_eq!((graph.lost(), graph.sites().len()), (2, 2));
    assert_eq!(site(&graph, 1).tail, number(&graph, 2));
}

/// The rules as specified, with maps and lists.
#[derive(Default)]
struct Plain {
    path: Vec<usize>,
    head: Vec<Option<usize>>,
    is_head: Vec<bool>,
    tail: Vec<Option<usize>>,
    revisits: Vec<u64>,
    reentries: Vec<u64>,
    edges: HashSet<(usize, usize)>,
    previous: Option<usize>,
}

impl Plain {
    fn loop_of(&self, at: usize) -> Option<usize> {
        if self.is_head[at] { Some(at) } else { self.head[at] }
    }

    fn call(&mut self, name: usize) -> Option<Event> {
        let previous = self.previous;
        let mut event = None;
        let at = match self.path.iter().position(|known| *known == name) {
            None => {
                let at = self.path.len();
                self.path.push(name);
                self.head.push(None);
                self.is_head.push(false);
                self.tail.push(None);
                self.revisits.push(0);
                self.reentries.push(0);
                let left = previous.and_then(|previous| self.loop_of(previous));
                event = left.map(|left| Event::Exit(left as u16, at as u16));
                at
            }
            Some(at) => {
                let previous = previous.expect("there was one before");
                self.revisits[at] += 1;
                let is_fresh = !self.edges.contains(&(previous, at));
                if self.loop_of(at).is_none() {
                    self.is_head[at] = true;
                    self.tail[at] = Some(previous);
                    for later in at + 1..self.path.len() {
                        self.head[later].get_or_insert(at);
                    }
                    event = Some(Event::Detected(at as u16));
                } else if self.is_head[at] {
                    let is_expected =
                        self.tail[at] == Some(previous) || self.loop_of(previous) == Some(at);
                    event = (!is_expected && is_fresh).then_some(Event::HeadReentry(at as u16));
                } else if self.loop_of(previous) != self.head[at] {
                    self.reentries[at] += 1;
                    self.tail[at] = Some(previous);
                    event = is_fresh.then_some(Event::BodyReentry(at as u16));
                }
                at
            }
        };
        if let Some(previous) = previous {
            self.edges.insert((previous, at));
        }
        self.previous = Some(at);
        event
    }
}

proptest! {
    #[test]
    fn random_orders_give_what_the_written_rules_give(
        order in proptest::collection::vec(0_usize..12, 0..400),
    ) {
        let mut graph = Graph::<16, 256>::new();
        let mut plain = Plain::default();
        for (place, name) in order.iter().enumerate() {
            let began = 10 * place as u64;
            let call = Call { address: name + 1, function: 0, began, ended: began + 4 };
            prop_assert_eq!(graph.call(call).event, plain.call(*name), "at {}", place);
        }
        let place = |at: Option<usize>| at.map_or(NONE, |at| at as u16);
        for (at, site) in graph.sites().iter().enumerate() {
            prop_assert_eq!(site.address, plain.path[at] + 1);
            prop_assert_eq!((site.is_head, site.head), (plain.is_head[at], place(plain.head[at])));
            prop_assert_eq!(site.tail, place(plain.tail[at]));
            prop_assert_eq!(site.revisits, plain.revisits[at]);
            prop_assert_eq!(site.reentries, plain.reentries[at]);
            prop_assert!(site.measured.mpi <= site.measured.time, "{:?}", site);
        }
    }

    #[test]
    fn random_interruptions_keep_ways_up_finite(
        order in proptest::collection::vec(0_usize..16, 0..400),
    ) {
        let mut graph = Graph::<8, 16>::new();
        for (place, name) in order.iter().enumerate() {
            let began = 10 * place as u64;
            match name {
                14 => graph.interrupt(),
                15 => graph.reset(began),
                name => {
                    let step = graph.call(Call { address: name + 1, function: 0, began, ended: began + 4 });
                    prop_assert_eq!(step.site == NONE, graph.sites().iter().all(|site| site.address != name + 1));
                }
            }
            for (at, site) in graph.sites().iter().enumerate() {
                let around = parent(site);
                prop_assert!(around == NONE || usize::from(around) < at, "{:?}", site);
                prop_assert!(around == NONE || graph.sites()[usize::from(around)].is_head);
                prop_assert!(site.measured.mpi <= site.measured.time, "{:?}", site);
            }
        }
    }
}
