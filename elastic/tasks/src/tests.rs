//! Runs of random trees over simulated ranks: random policies, message delays and resizes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::compute::{self, Control, Job, Outcome};
use super::cost::SendCost;
use super::ledger::{Action, Ledger, MessageOf, Setting};
use super::message::{Failure, Handover, Message, Origin};
use super::neighbours::Scope;
use super::policy::Policy;
use super::{Counts, Options, Task, TaskError, run_alone};

/// A tree as a task: its output lists the leaves in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Tree {
    Node(Vec<Tree>),
    Leaf(u64),
    Fails,
    Panics,
    Endless,
}

#[derive(Debug, thiserror::Error)]
#[error("no such leaf")]
struct NoSuchLeaf(#[source] std::fmt::Error);

/// A generator of pseudo-random numbers.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

impl Tree {
    pub(super) fn random(seed: u64, depth: u32) -> Self {
        fn grow(random: &mut Random, depth: u32, next: &mut u64) -> Tree {
            if depth == 0 || random.below(6) == 0 {
                *next += 1;
                return Tree::Leaf(*next);
            }
            Tree::Node((0..=random.below(4)).map(|_| grow(random, depth - 1, next)).collect())
        }
        grow(&mut Random::new(seed), depth, &mut 0)
    }

    /// A tree of equal branches.
    pub(super) fn regular(branches: usize, depth: u32) -> Self {
        match depth {
            0 => Self::Leaf(0),
            _ => Self::Node((0..branches).map(|_| Self::regular(branches, depth - 1)).collect()),
        }
    }

    /// Replaces the leaf that has this number.
    fn replace(&mut self, number: u64, with: &Self) {
        match self {
            Self::Leaf(other) if *other == number => *self = with.clone(),
            Self::Node(children) => {
                children.iter_mut().for_each(|child| child.replace(number, with));
            }
            _ => {}
        }
    }

    pub(super) fn answer(&self) -> Vec<u64> {
        match self {
            Self::Node(children) => children.iter().flat_map(Self::answer).collect(),
            Self::Leaf(number) => vec![*number],
            _ => Vec::new(),
        }
    }

    /// Number of sequential calls at a threshold.
    pub(super) fn tasks_computed(&self, threshold: u64) -> u64 {
        match self {
            Self::Node(children) if self.size() > threshold => {
                children.iter().map(|child| child.tasks_computed(threshold)).sum()
            }
            _ => 1,
        }
    }
}

impl Task for Tree {
    type Output = Vec<u64>;

    fn size(&self) -> u64 {
        match self {
            Self::Node(children) => children.iter().map(|child| child.size() + 1).sum(),
            Self::Endless => 9,
            _ => 0,
        }
    }

    fn work(&self) -> u64 {
        self.size() + 1
    }

    fn split(&self) -> Result<Vec<Self>, TaskError> {
        match self {
            Self::Node(children) => Ok(children.clone()),
            other => Ok(vec![other.clone()]),
        }
    }

    fn sequential(&self) -> Result<Vec<u64>, TaskError> {
        match self {
            Self::Node(children) => {
                let results: Result<Vec<_>, _> = children.iter().map(Self::sequential).collect();
                Ok(results?.concat())
            }
            Self::Leaf(number) => Ok(vec![*number]),
            Self::Panics => panic!("on purpose"),
            Self::Fails | Self::Endless => Err(NoSuchLeaf(std::fmt::Error).into()),
        }
    }

    fn merge(&self, results: Vec<Vec<u64>>) -> Result<Vec<u64>, TaskError> {
        Ok(results.concat())
    }
}

/// A rank of the simulation.
struct Rank {
    ledger: Ledger<Tree>,
    jobs: Vec<(u64, Job<Tree, Vec<u64>>)>,
    control: Control,
}

/// Ranks, and the messages between them: messages of one pair keep their order.
struct Simulation {
    ranks: Vec<Rank>,
    under_way: BTreeMap<(usize, usize), VecDeque<MessageOf<Tree>>>,
    threshold: u64,
    interrupts: bool,
    now: Duration,
}

/// The end of all ranks: rank 0's result, or what the ranks hand back.
enum End {
    Run(Result<Vec<u64>, Failure>),
    Resize(Vec<Handover<Tree, Vec<u64>>>),
}

const FREE: SendCost = SendCost { latency: 0.0, per_byte: 0.0 };

/// Setting of one of two ranks on one node, with one thread each.
fn of_two(rank: usize, cost: Option<SendCost>) -> Setting {
    let (nodes, threads, policy, threshold, workers) = (vec![0, 0], 1, Policy::Fork, 0, 2);
    Setting { rank, nodes, threads, policy, threshold, workers, cost }
}

impl Simulation {
    fn new(size: usize, threads: usize, policy: Policy, threshold: u64, interrupts: bool) -> Self {
        let workers = (size * threads) as u64;
        let (nodes, cost) = (vec![0; size], Some(FREE));
        let rank = 0;
        Self::of(Setting { rank, nodes, threads, policy, threshold, workers, cost }, interrupts)
    }

    /// Makes ranks with these settings, except for their numbers.
    fn of(setting: Setting, interrupts: bool) -> Self {
        let threshold = setting.threshold;
        let rank = |rank| Rank {
            ledger: Ledger::new(Setting { rank, ..setting.clone() }, |_| 0.0),
            jobs: Vec::new(),
            control: Control::default(),
        };
        let ranks = (0..setting.nodes.len()).map(rank).collect();
        Self { ranks, under_way: BTreeMap::new(), threshold, interrupts, now: Duration::ZERO }
    }

    fn act(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        for action in rank.ledger.actions(self.now) {
            match action {
                Action::Start(number, job) => rank.jobs.push((number, job)),
                Action::Send(to, message) => {
                    self.under_way.entry((at, to)).or_default().push_back(message);
                }
                Action::Interrupt => rank.control.interrupt = AtomicBool::new(true),
                Action::Probe => rank.ledger.stop_for_resize(self.interrupts),
            }
        }
    }

    /// Runs until all ranks have left. A resize is announced after `resize_after` steps.
    fn run(mut self, random: &mut Random, resize_after: Option<usize>) -> (End, Counts) {
        for step in 0..1_000_000 {
            self.now += Duration::from_micros(random.below(300) as u64);
            if resize_after == Some(step) && self.ranks[0].ledger.is_working() {
                for rank in 1..self.ranks.len() {
                    self.under_way
                        .entry((0, rank))
                        .or_default()
                        .push_back(MessageOf::<Tree>::Probe);
                }
                self.ranks[0].ledger.stop_for_resize(self.interrupts);
            }
            let at = random.below(self.ranks.len());
            match random.below(3) {
                0 if !self.ranks[at].jobs.is_empty() => {
                    let rank = &mut self.ranks[at];
                    let (number, job) = rank.jobs.swap_remove(random.below(rank.jobs.len()));
                    let outcome = compute::run(at, job, self.threshold, &rank.control);
                    rank.ledger.finish(number, outcome, self.now);
                    rank.ledger.measured(rank.control.take_leaves());
                }
                1 => {
                    let full = self.under_way.iter().filter(|(_, queue)| !queue.is_empty());
                    let full: Vec<(usize, usize)> = full.map(|(&pair, _)| pair).collect();
                    if !full.is_empty() {
                        let (from, to) = full[random.below(full.len())];
                        let message = self.under_way.get_mut(&(from, to)).unwrap().pop_front();
                        self.ranks[to].ledger.receive(from, message.unwrap(), self.now);
                    }
                }
                _ => self.act(at),
            }
            if self.ranks.iter().all(|rank| rank.ledger.end().is_some()) {
                return self.ended();
            }
        }
        panic!("the ranks wait for each other");
    }

    fn ended(self) -> (End, Counts) {
        assert!(self.under_way.values().all(VecDeque::is_empty), "{:?}", self.under_way);
        let ends: Vec<_> = self.ranks.iter().map(|rank| rank.ledger.end().unwrap()).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
        let mut all = Counts::default();
        let mut add = |counts: Counts| {
            all.given_out += counts.given_out;
            all.computed += counts.computed;
            all.leaves += counts.leaves;
            all.sent += counts.sent;
            all.sent_away += counts.sent_away;
        };
        match ends[0].clone() {
            Some(end) => {
                let mut output = None;
                for rank in self.ranks {
                    let (result, counts) = rank.ledger.into_result();
                    output = output.or(result);
                    add(counts);
                }
                (End::Run(end.map(|()| output.unwrap())), all)
            }
            None => {
                let mut handovers = Vec::new();
                for rank in self.ranks {
                    let (handover, counts) = rank.ledger.hand_over();
                    handovers.push(handover);
                    add(counts);
                }
                (End::Resize(handovers), all)
            }
        }
    }
}

const POLICIES: [Policy; 4] =
    [Policy::Fork, Policy::Lazy, Policy::Adaptive, Policy::AdaptiveInPlace];

/// Runs a tree over ranks that change `resizes` times; returns the result and the sum of the
/// counts.
fn run(seed: u64, tree: &Tree, resizes: usize) -> (Result<Vec<u64>, Failure>, u64) {
    let random = &mut Random::new(seed);
    let policy = POLICIES[random.below(4)];
    let (threshold, interrupts) = (random.below(12) as u64, random.below(2) == 0);
    let (mut handovers, mut leaves) = (None, 0);
    for turn in 0.. {
        let (size, threads) = (1 + random.below(7), 1 + random.below(3));
        let nodes = (0..size).map(|_| random.below(3)).collect();
        let (rank, workers) = (0, (size * threads) as u64);
        // Measured costs are tested, too, in simulated time.
        let cost = (random.below(2) == 0).then_some(FREE);
        let setting = Setting { rank, nodes, threads, policy, threshold, workers, cost };
        let mut simulation = Simulation::of(setting, interrupts);
        match handovers.take() {
            None => simulation.ranks[0].ledger.begin(tree.clone()),
            Some(handovers) => simulation.ranks[0].ledger.take_back(handovers),
        }
        let resize_after = (turn < resizes).then(|| random.below(400));
        let (end, counts) = simulation.run(random, resize_after);
        leaves += counts.leaves;
        match end {
            End::Run(result) => return (result, leaves),
            End::Resize(returned) => handovers = Some(returned),
        }
    }
    unreachable!("a run ends after its last resize")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_run_over_any_ranks_matches_sequential(seed in any::<u64>(), depth in 0_u32..7) {
        let tree = Tree::random(seed, depth);
        let (result, _) = run(seed, &tree, 0);
        prop_assert_eq!(result, Ok(tree.answer()));
    }

    #[test]
    fn resizes_lose_and_double_no_leaf(seed in any::<u64>(), resizes in 1_usize..6) {
        let tree = Tree::random(seed, 6);
        let (result, _) = run(seed, &tree, resizes);
        prop_assert_eq!(result, Ok(tree.answer()));
    }

    #[test]
    fn failing_task_ends_the_run_on_all_ranks(seed in any::<u64>(), resizes in 0_usize..3) {
        let mut tree = Tree::random(seed, 5);
        let leaves = tree.answer();
        tree.replace(leaves[seed as usize % leaves.len()], &Tree::Fails);
        let (result, _) = run(seed, &tree, resizes);
        let reason = match result {
            Err(Failure::Failed { reason, .. }) => reason,
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        prop_assert!(reason.starts_with("no such leaf: "), "{}", reason);
    }
}

/// Runs a regular tree; returns the tasks given out, the tasks computed, and the leaves of all ranks.
fn counts(
    policy: Policy,
    (branches, depth): (usize, u32),
    (size, threads): (usize, usize),
) -> [u64; 3] {
    let tree = Tree::regular(branches, depth);
    let mut simulation = Simulation::new(size, threads, policy, 0, false);
    simulation.ranks[0].ledger.begin(tree);
    let (end, counts) = simulation.run(&mut Random::new(7), None);
    assert!(matches!(end, End::Run(Ok(_))));
    [counts.given_out, counts.computed, counts.leaves]
}

#[test]
fn runs_give_out_the_published_numbers_of_tasks() {
    // Merge sort: nine levels of two; matrix product: five levels of four.
    for (size, threads) in [(1, 1), (3, 2)] {
        assert_eq!(counts(Policy::Fork, (2, 9), (size, threads)), [1023, 512, 512]);
        assert_eq!(counts(Policy::Fork, (4, 5), (size, threads)), [1365, 1024, 1024]);
        assert_eq!(counts(Policy::Lazy, (2, 9), (size, threads)), [512, 512, 512]);
    }
    // Eight workers: eight leaves and seven parents; in four parts, 16 leaves.
    assert_eq!(counts(Policy::Adaptive, (2, 9), (4, 2)), [15, 8, 512]);
    assert_eq!(counts(Policy::Adaptive, (4, 5), (8, 1)), [21, 16, 1024]);
    assert_eq!(counts(Policy::AdaptiveInPlace, (2, 9), (4, 2)), [8, 8, 512]);
    assert_eq!(counts(Policy::AdaptiveInPlace, (4, 5), (8, 1)), [16, 16, 1024]);
}

#[test]
fn leaves_are_computed_once_where_nothing_is_interrupted() {
    for seed in 0..50 {
        let tree = Tree::random(seed, 6);
        let mut simulation = Simulation::new(4, 2, POLICIES[seed as usize % 4], 3, false);
        simulation.ranks[0].ledger.begin(tree.clone());
        let mut random = Random::new(seed);
        let (end, first) = simulation.run(&mut random, Some(150));
        let (end, second) = match end {
            End::Resize(handovers) => {
                let mut next = Simulation::new(2, 1, Policy::Fork, 3, false);
                next.ranks[0].ledger.take_back(handovers);
                next.run(&mut random, None)
            }
            end => (end, Counts::default()),
        };
        let End::Run(result) = end else { panic!("a second resize") };
        assert_eq!(result, Ok(tree.answer()));
        assert_eq!(first.leaves + second.leaves, tree.tasks_computed(3));
    }
}

#[test]
fn costly_messages_keep_all_tasks_on_one_rank() {
    let cost = SendCost { latency: 1e6, per_byte: 1e9 };
    let mut ledger = Ledger::new(of_two(0, Some(cost)), |_| 0.0);
    let (now, scope) = (Duration::ZERO, Scope::Node);
    ledger.begin(Tree::regular(2, 8));
    let (mut sent, mut refused) = (0, 0);
    while ledger.is_working() {
        for action in ledger.actions(now) {
            match action {
                Action::Start(number, job) => {
                    let is_leaf = matches!(job, Job::Compute(_));
                    ledger.finish(number, compute::run(0, job, 0, &Control::default()), now);
                    if is_leaf {
                        let (thief, seen) = (1, vec![1]);
                        ledger.receive(1, MessageOf::<Tree>::Request { thief, seen, scope }, now);
                    }
                }
                Action::Send(1, MessageOf::<Tree>::Task { .. }) => sent += 1,
                Action::Send(1, MessageOf::<Tree>::None) => refused += 1,
                // The other rank has no task either.
                Action::Send(1, MessageOf::<Tree>::Request { .. }) => {
                    ledger.receive(1, MessageOf::<Tree>::None, now);
                }
                _ => {}
            }
        }
    }
    assert_eq!((sent, refused), (0, 256));
    assert_eq!(ledger.into_result().0, Some(vec![0; 256]));
}

#[test]
fn unusable_options_are_refused_by_name() {
    let cost = SendCost { latency: f64::NAN, per_byte: 0.0 };
    for (options, text) in [
        (
            Options::new().threads(0),
            "tasks: option threads: 0 threads compute nothing: give 1 or more",
        ),
        (
            Options::new().workers(0),
            "tasks: option workers: 0 workers compute nothing: give 1 or more",
        ),
        (
            Options::new().send_cost(cost),
            "tasks: option send_cost: a cost is finite and not negative",
        ),
    ] {
        assert_eq!(run_alone(Tree::Leaf(1), &options).unwrap_err().to_string(), text);
    }
}

#[test]
fn run_alone_has_the_result_and_counts_leaves() {
    let tree = Tree::random(5, 6);
    let done = run_alone(tree.clone(), &Options::new().threads(2).threshold(3)).unwrap();
    assert_eq!(done.output, Some(tree.answer()));
    assert_eq!(done.counts.leaves, tree.tasks_computed(3));
    let error = run_alone(Tree::Panics, &Options::new().threads(1)).unwrap_err();
    assert_eq!(error.to_string(), "tasks: a task failed on rank 0: the task panicked: on purpose");
}

#[test]
fn task_that_an_idle_thread_needs_is_not_given_away() {
    let mut ledger = Ledger::new(of_two(1, Some(FREE)), |_| 0.0);
    let (now, scope) = (Duration::ZERO, Scope::Node);
    // The task and the next request arrive before the rank acts.
    let place = super::policy::Place::ROOT;
    let task = Tree::regular(2, 3);
    ledger.receive(0, MessageOf::<Tree>::Task { task, place, origin: None }, now);
    ledger.receive(0, MessageOf::<Tree>::Request { thief: 0, seen: vec![0], scope }, now);
    let actions = ledger.actions(now);
    assert!(
        matches!(actions[..], [Action::Send(0, MessageOf::<Tree>::None), Action::Start(..)]),
        "{actions:?}"
    );
}

/// Gives rank 0 of two a root of many tasks, which the other rank requests one after the other;
/// each is under way for this time in addition to its computing. Returns the tasks sent, and the
/// refusals.
fn sent_with(under_way: Duration) -> (usize, usize) {
    let mut ledger = Ledger::new(of_two(0, None), |_| 0.0);
    let (mut now, scope) = (Duration::ZERO, Scope::Node);
    let held = Duration::from_millis(1);
    ledger.begin(Tree::Node((0..60).map(|_| Tree::regular(2, 3)).collect()));
    let split = ledger.actions(now);
    let [Action::Start(number, Job::Split(_))] = &split[..] else { panic!("{split:?}") };
    let number = *number;
    let Some(Action::Start(_, job)) = split.into_iter().next() else { unreachable!() };
    ledger.finish(number, compute::run(0, job, 0, &Control::default()), now);
    ledger.actions(now);
    let (mut sent, mut refused) = (0, 0);
    for _ in 0..20 {
        let request = MessageOf::<Tree>::Request { thief: 1, seen: vec![1], scope };
        ledger.receive(1, request, now);
        for action in ledger.actions(now) {
            match action {
                Action::Send(1, Message::Task { origin, .. }) => {
                    sent += 1;
                    now += under_way + held;
                    let (result, held) = (Ok(Vec::new()), Some(held));
                    ledger.receive(1, Message::Result { origin, result, held }, now);
                }
                Action::Send(1, Message::None) => refused += 1,
                _ => {}
            }
        }
        // Whole tasks, which all have a work of 15, take a millisecond.
        let outcome = Outcome::Computed { output: Vec::new(), leaves: 8, work: 15, seconds: 1e-3 };
        let job = ledger.running_jobs().next().unwrap();
        ledger.finish(job, outcome, now);
    }
    (sent, refused)
}

#[test]
fn tasks_go_while_their_measured_way_is_short() {
    assert_eq!(sent_with(Duration::from_micros(900)), (20, 0));
}

#[test]
fn tasks_stay_once_their_way_is_measured_as_long() {
    // The first task is sent before anything is known, and is enough to measure.
    assert_eq!(sent_with(Duration::from_micros(1100)), (1, 19));
}

#[test]
fn way_over_a_third_rank_is_not_measured() {
    let mut ledger = Ledger::new(of_two(0, None), |_| 0.0);
    let (now, scope) = (Duration::ZERO, Scope::Node);
    ledger.begin(Tree::Node(vec![Tree::Leaf(1); 3]));
    let Some(Action::Start(number, job)) = ledger.actions(now).into_iter().next() else {
        panic!("nothing to do")
    };
    ledger.finish(number, compute::run(0, job, 0, &Control::default()), now);
    ledger.actions(now);
    ledger.receive(1, MessageOf::<Tree>::Request { thief: 1, seen: vec![1], scope }, now);
    let actions = ledger.actions(now);
    let Some(&Action::Send(1, Message::Task { origin: Some(origin), .. })) = actions.first() else {
        panic!("{actions:?}")
    };
    let Origin { rank: 0, .. } = origin else { panic!("{origin:?}") };
    let before = ledger.cost_to(1);
    let (result, held) = (Ok(Vec::new()), Some(Duration::ZERO));
    let message = Message::Result { origin: Some(origin), result, held };
    // From another rank than the one that was given the task.
    ledger.receive(0, message, Duration::from_secs(5));
    assert_eq!(ledger.cost_to(1), before);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn nodes_with_work_and_idle_ranks_share_it(seed in any::<u64>(), nodes in 1_usize..4, each in 1_usize..4) {
        let setting = Setting {
            rank: 0,
            nodes: (0..nodes * each).map(|rank| rank % nodes).collect(),
            threads: 1,
            policy: Policy::Fork,
            threshold: 0,
            workers: 1,
            cost: Some(FREE),
        };
        let tree = Tree::regular(3, 5);
        let mut simulation = Simulation::of(setting, false);
        simulation.ranks[0].ledger.begin(tree.clone());
        let (end, counts) = simulation.run(&mut Random::new(seed), None);
        let End::Run(result) = end else { panic!("a resize") };
        prop_assert_eq!(result, Ok(tree.answer()));
        prop_assert_eq!(counts.leaves, 243);
        prop_assert!(counts.sent > 0 || nodes * each == 1);
        prop_assert_eq!(counts.sent_away > 0, nodes > 1, "{:?}", counts);
    }
}

/// Asks rank 0 of two for a task of 100,000 bytes after the first leaf of its sibling has taken a
/// millisecond, and with this time for packing. Returns true if the task is sent.
fn large_goes(pack: fn(&Tree) -> f64) -> bool {
    let mut ledger = Ledger::new(of_two(0, None), pack);
    let (now, scope) = (Duration::ZERO, Scope::Node);
    let large = Tree::Node(vec![Tree::Leaf(1); 50_000]);
    ledger.begin(Tree::Node(vec![large.clone(), large]));
    let Some(Action::Start(number, job)) = ledger.actions(now).into_iter().next() else {
        panic!("nothing to do")
    };
    ledger.finish(number, compute::run(0, job, 0, &Control::default()), now);
    ledger.actions(now);
    let mut asked = || {
        ledger.receive(1, MessageOf::<Tree>::Request { thief: 1, seen: vec![1], scope }, now);
        matches!(ledger.actions(now)[..], [Action::Send(1, Message::Task { .. })])
    };
    assert!(!asked(), "nothing is known of its computing");
    ledger.measured((1, 1e-6));
    ledger.receive(1, MessageOf::<Tree>::Request { thief: 1, seen: vec![1], scope }, now);
    matches!(ledger.actions(now)[..], [Action::Send(1, Message::Task { .. })])
}

#[test]
fn large_task_goes_if_packing_is_short_beside_computing() {
    // Its work is 50,001, so computing takes 50 ms.
    assert!(large_goes(|_| 6.2e-3));
    assert!(!large_goes(|_| 6.3e-3));
}
