//! A rank's tasks as a state machine over plain data: it receives messages, outcomes and the time,
//! and returns actions.
//!
//! Available tasks are in a deque: the rank takes the newest, other ranks get the oldest, which is
//! the largest. A rank without work asks its parent in the tree of ranks. The parent passes the
//! request on to its own parent, and then to a rank that it gave a task to, until one has a task;
//! the last one answers that there is none, and the requester asks again later. It asks on its own
//! node first.
//!
//! A run ends in two steps. A stopped rank starts nothing more, and is *quiet* when nothing is
//! computed and everything it sent is answered or acknowledged. When all ranks are quiet no message
//! is under way, and all leave.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::compute::{Job, Outcome};
use super::cost::{Rate, SendCost, Speed, Trips};
use super::message::{Failure, Handover, Message, Origin, Returned};
use super::neighbours::{Neighbours, Scope};
use super::policy::{Decision, Place, Policy};
use super::{Counts, Task};

/// Time after which a rank asks again if there was no task: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(5));

/// Unchanging facts about a rank's run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub rank: usize,
    /// Node of each rank.
    pub nodes: Vec<usize>,
    pub threads: usize,
    pub policy: Policy,
    pub threshold: u64,
    pub workers: u64,
    /// `None`: the cost is measured.
    pub cost: Option<SendCost>,
}

type Output<T> = <T as Task>::Output;
pub(crate) type MessageOf<T> = Message<T, Output<T>>;

/// Action that the ledger requests.
#[derive(Debug, PartialEq)]
pub(crate) enum Action<T, O> {
    /// Run a job on a thread; its outcome is returned with this number.
    Start(u64, Job<T, O>),
    Send(usize, Message<T, O>),
    /// Interrupt the running jobs.
    Interrupt,
    /// Probe the world for a resize.
    Probe,
}

struct Ready<T> {
    task: T,
    place: Place,
    origin: Option<Origin>,
    /// True for the last child of a task, if it stays where it was split.
    stays: bool,
    /// Size of its message in bytes, once a rank has asked for it; the inner `None` if it cannot be
    /// serialised.
    bytes: Option<Option<usize>>,
}

impl<T> Ready<T> {
    fn new(task: T, place: Place, origin: Option<Origin>) -> Self {
        Self { task, place, origin, stays: false, bytes: None }
    }
}

/// A task of this rank that another rank has.
struct Away {
    rank: usize,
    since: Duration,
    bytes: usize,
}

struct Waiting<T: Task> {
    task: T,
    place: Place,
    origin: Option<Origin>,
    results: Vec<Option<Result<Output<T>, Failure>>>,
}

struct Running {
    place: Place,
    origin: Option<Origin>,
    last_in_place: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Working,
    /// With rank 0's result or, before a resize, without one.
    Stopping(Option<Result<(), Failure>>),
    Left(Option<Result<(), Failure>>),
}

pub(crate) struct Ledger<T: Task> {
    setting: Setting,
    size: usize,
    neighbours: Neighbours,
    next: u64,
    ready: VecDeque<Ready<T>>,
    waiting: BTreeMap<u64, Waiting<T>>,
    /// Waiting tasks with complete results.
    complete: Vec<u64>,
    running: BTreeMap<u64, Running>,
    /// Ranks that were given a task and have not asked since.
    lent: BTreeSet<usize>,
    /// This rank's tasks that were sent, and other ranks' tasks with their times of arrival.
    away: BTreeMap<Origin, Away>,
    taken: BTreeMap<Origin, Duration>,
    is_asking: bool,
    refusals: u32,
    ask_at: Duration,
    random: u64,
    unacknowledged: usize,
    has_failed: bool,
    output: Option<Result<Output<T>, Failure>>,
    phase: Phase,
    /// On rank 0: number of other ranks that are quiet.
    quiet: usize,
    is_quiet: bool,
    speed: Speed,
    /// Trips to ranks of the same node, and to ranks of other nodes.
    trips: [Trips; 2],
    /// Packs a task to measure it, and returns the seconds.
    pack: fn(&T) -> f64,
    packing: Rate,
    counts: Counts,
    actions: Vec<Action<T, Output<T>>>,
}

impl<T: Task> Ledger<T> {
    pub fn new(setting: Setting, pack: fn(&T) -> f64) -> Self {
        let random = (setting.rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let neighbours = Neighbours::new(setting.rank, setting.nodes.clone());
        Self {
            size: setting.nodes.len(),
            setting,
            neighbours,
            next: 0,
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            complete: Vec::new(),
            running: BTreeMap::new(),
            lent: BTreeSet::new(),
            away: BTreeMap::new(),
            taken: BTreeMap::new(),
            is_asking: false,
            refusals: 0,
            ask_at: Duration::ZERO,
            random,
            unacknowledged: 0,
            has_failed: false,
            output: None,
            phase: Phase::Working,
            quiet: 0,
            is_quiet: false,
            speed: Speed::default(),
            trips: [Trips::default(); 2],
            pack,
            packing: Rate::default(),
            counts: Counts::default(),
            actions: Vec::new(),
        }
    }

    /// Adds the root, on rank 0.
    pub fn begin(&mut self, root: T) {
        self.counts.given_out += 1;
        self.ready.push_back(Ready::new(root, Place::ROOT, None));
    }

    /// Adds what all ranks of the previous session have handed back, on rank 0.
    pub fn take_back(&mut self, handovers: Vec<Handover<T, Output<T>>>) {
        let mut numbers = BTreeMap::new();
        let mut tasks = Vec::new();
        for handover in handovers {
            self.output = self.output.take().or(handover.output);
            for task in handover.tasks {
                if task.results.is_some() {
                    numbers.insert((handover.rank, task.node), self.number());
                }
                tasks.push((handover.rank, task));
            }
        }
        // Oldest first.
        tasks.sort_by_key(|(_, task)| task.place.level);
        let rank = self.setting.rank;
        for (owner, returned) in tasks {
            let Returned { node, origin, place, task, results } = returned;
            let origin = origin.and_then(|Origin { rank: other, node, slot }| {
                numbers.get(&(other, node)).map(|&node| Origin { rank, node, slot })
            });
            let Some(results) = results else {
                self.ready.push_back(Ready::new(task, place, origin));
                continue;
            };
            let failed = |result: &Option<_>| matches!(result, Some(Err(_)));
            self.has_failed |= results.iter().any(failed);
            let node = numbers[&(owner, node)];
            if results.iter().all(Option::is_some) {
                self.complete.push(node);
            }
            self.waiting.insert(node, Waiting { task, place, origin, results });
        }
    }

    /// Hands all tasks back, after the rank has left before a resize.
    pub fn hand_over(mut self) -> (Handover<T, Output<T>>, Counts) {
        let ready = self.ready.drain(..).map(|Ready { task, place, origin, .. }| Returned {
            node: 0,
            origin,
            place,
            task,
            results: None,
        });
        let waiting = self.waiting.into_iter().map(|(node, waiting)| {
            let Waiting { task, place, origin, results } = waiting;
            Returned { node, origin, place, task, results: Some(results) }
        });
        let tasks: Vec<_> = ready.chain(waiting).collect();
        self.counts.returned += tasks.len() as u64;
        (Handover { rank: self.setting.rank, tasks, output: self.output }, self.counts)
    }

    /// Handles a message of another rank.
    pub fn receive(&mut self, from: usize, message: MessageOf<T>, now: Duration) {
        match message {
            Message::Request { thief, seen, scope } => self.answer(thief, seen, scope, now),
            Message::Task { task, place, origin } => {
                (self.is_asking, self.refusals) = (false, 0);
                self.taken.extend(origin.map(|origin| (origin, now)));
                self.ready.push_back(Ready::new(task, place, origin));
            }
            Message::None => {
                self.is_asking = false;
                self.refusals = self.refusals.saturating_add(1);
            }
            Message::Result { origin, result, held } => {
                self.send(from, Message::Acknowledged);
                self.came_back(origin, from, held, now);
                self.deliver(origin, result, now);
            }
            Message::Cancel => {
                self.send(from, Message::Acknowledged);
                self.cancel();
            }
            Message::Acknowledged => self.unacknowledged -= 1,
            Message::Probe => self.actions.push(Action::Probe),
            Message::Stop(end) => self.phase = Phase::Stopping(Some(end)),
            Message::Quiet => self.quiet += 1,
            Message::Leave => self.leave(),
        }
    }

    /// Adds the work and the seconds of sequential calls.
    pub fn measured(&mut self, (work, seconds): (u64, f64)) {
        self.speed.of_leaves.measured(work as f64, seconds);
    }

    /// Handles the outcome of a job.
    pub fn finish(&mut self, job: u64, outcome: Outcome<T, Output<T>>, now: Duration) {
        let Some(Running { place, origin, last_in_place }) = self.running.remove(&job) else {
            return;
        };
        match outcome {
            Outcome::Children(task, children) => {
                let (node, count) = (self.number(), children.len());
                let results = children.iter().map(|_| None).collect();
                self.waiting.insert(node, Waiting { task, place, origin, results });
                for (slot, task) in children.into_iter().enumerate() {
                    let stays = last_in_place && slot + 1 == count;
                    self.counts.given_out += u64::from(!stays);
                    let origin = Some(Origin { rank: self.setting.rank, node, slot });
                    let place = place.child(count);
                    self.ready.push_back(Ready { stays, ..Ready::new(task, place, origin) });
                }
            }
            Outcome::Computed { output, leaves, work, seconds } => {
                self.counts.computed += 1;
                self.counts.leaves += leaves;
                self.speed.of_tasks.measured(work as f64, seconds);
                self.deliver(origin, Ok(output), now);
            }
            Outcome::Merged(output) => self.deliver(origin, Ok(output), now),
            Outcome::Interrupted(task) => self.ready.push_back(Ready::new(task, place, origin)),
            Outcome::Failed(failure) => {
                self.deliver(origin, Err(failure), now);
            }
        }
    }

    /// Stops for a resize, as all ranks do.
    pub fn stop_for_resize(&mut self, interrupts: bool) {
        self.phase = Phase::Stopping(None);
        if interrupts {
            self.actions.push(Action::Interrupt);
        }
    }

    /// Delivers a failure in place of a result, for a task that could not be sent.
    pub fn fail(&mut self, origin: Option<Origin>, failure: Failure, now: Duration) {
        self.deliver(origin, Err(failure), now);
    }

    /// Returns true if the rank's threads have work.
    pub fn is_computing(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns true if this rank has not stopped: it may probe for resizes.
    pub fn is_working(&self) -> bool {
        self.phase == Phase::Working
    }

    /// Returns the end, once all ranks have left: rank 0's result, or `None` before a resize.
    pub fn end(&self) -> Option<Option<Result<(), Failure>>> {
        match &self.phase {
            Phase::Left(end) => Some(end.clone()),
            _ => None,
        }
    }

    /// Returns the result of the root, and the work of this rank.
    pub fn into_result(self) -> (Option<Output<T>>, Counts) {
        (self.output.and_then(Result::ok), self.counts)
    }

    /// Returns the actions to carry out.
    pub fn actions(&mut self, now: Duration) -> Vec<Action<T, Output<T>>> {
        match &self.phase {
            Phase::Working => self.work(now),
            Phase::Stopping(_) => self.report_quiet(),
            Phase::Left(_) => {}
        }
        std::mem::take(&mut self.actions)
    }

    fn work(&mut self, now: Duration) {
        if self.has_failed {
            while let Some(ready) = self.ready.pop_back() {
                self.deliver(ready.origin, Err(Failure::Skipped), now);
            }
        }
        self.merge(now);
        while self.running.len() < self.setting.threads
            && let Some(ready) = self.ready.pop_back()
        {
            self.start(ready);
        }
        if let (0, Some(output)) = (self.setting.rank, &self.output) {
            let end = output.as_ref().map(drop).map_err(Clone::clone);
            for rank in 1..self.size {
                self.send(rank, Message::Stop(end.clone()));
            }
            self.phase = Phase::Stopping(Some(end));
            self.report_quiet();
            return;
        }
        self.ask(now);
    }

    /// Merges complete tasks: failures are delivered at once, and may complete others.
    fn merge(&mut self, now: Duration) {
        while let Some(node) = self.complete.pop() {
            let Some(Waiting { task, place, origin, results }) = self.waiting.remove(&node) else {
                continue;
            };
            let results: Vec<_> = results.into_iter().flatten().collect();
            let failures = || results.iter().filter_map(|result| result.as_ref().err());
            let real = failures().find(|failure| **failure != Failure::Skipped);
            if let Some(failure) = real.or_else(|| failures().next()).cloned() {
                self.deliver(origin, Err(failure), now);
                continue;
            }
            let outputs = results.into_iter().flatten().collect();
            self.run(Job::Merge(task, outputs), Running { place, origin, last_in_place: false });
        }
    }

    fn start(&mut self, ready: Ready<T>) {
        let Setting { policy, threshold, workers, .. } = self.setting;
        let Ready { task, place, origin, .. } = ready;
        match policy.decide(place, task.size(), threshold, workers) {
            Decision::Compute => {
                self.run(Job::Compute(task), Running { place, origin, last_in_place: false });
            }
            Decision::GiveOut { last_in_place } => {
                self.run(Job::Split(task), Running { place, origin, last_in_place });
            }
        }
    }

    fn run(&mut self, job: Job<T, Output<T>>, running: Running) {
        let number = self.number();
        self.running.insert(number, running);
        self.actions.push(Action::Start(number, job));
    }

    /// Delivers a result to the task that waits for it.
    fn deliver(
        &mut self,
        origin: Option<Origin>,
        result: Result<Output<T>, Failure>,
        now: Duration,
    ) {
        if matches!(result, Err(Failure::Failed { .. })) && !self.has_failed {
            self.cancel();
            let own = self.setting.rank;
            for rank in (0..self.size).filter(|&rank| rank != own) {
                self.unacknowledged += 1;
                self.send(rank, Message::Cancel);
            }
        }
        // The root has no origin: its result is for rank 0.
        let owner = origin.map_or(0, |origin| origin.rank);
        if owner != self.setting.rank {
            self.unacknowledged += 1;
            let since = origin.and_then(|origin| self.taken.remove(&origin));
            let held = since.map(|since| now.saturating_sub(since));
            return self.send(owner, Message::Result { origin, result, held });
        }
        let Some(origin) = origin else {
            self.output = Some(result);
            return;
        };
        let Some(waiting) = self.waiting.get_mut(&origin.node) else { return };
        if let Some(place) = waiting.results.get_mut(origin.slot) {
            *place = Some(result);
        }
        if waiting.results.iter().all(Option::is_some) {
            self.complete.push(origin.node);
        }
    }

    fn cancel(&mut self) {
        self.has_failed = true;
        self.actions.push(Action::Interrupt);
    }

    /// Answers a request of a rank without work, or passes it on.
    fn answer(&mut self, thief: usize, mut seen: Vec<usize>, scope: Scope, now: Duration) {
        self.lent.remove(&thief);
        if self.phase != Phase::Working || self.has_failed {
            return self.send(thief, Message::None);
        }
        if let Some((Ready { task, place, origin, .. }, bytes)) = self.take_oldest(thief) {
            self.lent.insert(thief);
            self.counts.sent += 1;
            self.counts.sent_away += u64::from(!self.neighbours.is_mate(thief));
            if let Some(origin) = origin {
                self.taken.remove(&origin);
                if origin.rank == self.setting.rank {
                    self.away.insert(origin, Away { rank: thief, since: now, bytes });
                }
            }
            return self.send(thief, Message::Task { task, place, origin });
        }
        seen.push(self.setting.rank);
        match self.neighbours.next(thief, scope, &seen, &self.lent) {
            Some(next) => self.send(next, Message::Request { thief, seen, scope }),
            None => self.send(thief, Message::None),
        }
    }

    /// Records the round-trip cost of a stolen task, unless the thief passed it on.
    fn came_back(
        &mut self,
        origin: Option<Origin>,
        from: usize,
        held: Option<Duration>,
        now: Duration,
    ) {
        let away = origin.and_then(|origin| self.away.remove(&origin));
        if let (Some(Away { rank, since, bytes }), Some(held)) = (away, held)
            && rank == from
        {
            let under_way = now.saturating_sub(since).saturating_sub(held);
            self.trips_to(from).measured(bytes, under_way);
        }
    }

    fn trips_to(&mut self, other: usize) -> &mut Trips {
        let [near, far] = &mut self.trips;
        if self.neighbours.is_mate(other) { near } else { far }
    }

    /// Takes the oldest task that other ranks may have, if it is worth its message: younger ones
    /// are smaller. Returns `None` if the rank's own idle threads need all tasks: otherwise ranks
    /// would pass the same task back and forth forever.
    fn take_oldest(&mut self, thief: usize) -> Option<(Ready<T>, usize)> {
        let idle = self.setting.threads.saturating_sub(self.running.len());
        if self.ready.len() <= idle {
            return None;
        }
        let index = self.ready.iter().position(|ready| !ready.stays)?;
        let Ready { task, bytes, .. } = self.ready.get_mut(index)?;
        // A task that cannot be serialised stays here.
        let bytes =
            *bytes.get_or_insert_with(|| postcard::experimental::serialized_size(task).ok());
        let (bytes, work) = (bytes?, task.work());
        if bytes >= Trips::LARGE && self.setting.cost.is_none() && self.packing == Rate::default() {
            self.packing.measured(bytes as f64, (self.pack)(task));
        }
        let is_worth = self.cost_to(thief).is_worth(bytes, work, &self.speed);
        if is_worth { Some((self.ready.remove(index)?, bytes)) } else { None }
    }

    fn ask(&mut self, now: Duration) {
        let is_idle = self.running.len() < self.setting.threads && self.ready.is_empty();
        if !is_idle || self.is_asking || self.has_failed {
            return;
        }
        // After its own node had nothing, the rank asks the others at once.
        if self.refusals > 0 && self.neighbours.scope(self.refusals - 1) == Scope::All {
            let (first, most) = PAUSE;
            let pause = first.saturating_mul(1 << self.refusals.min(10)).min(most);
            if now < self.ask_at + pause {
                return;
            }
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let victim = self.neighbours.victim(self.refusals, &self.lent, self.random);
        let Some((victim, scope)) = victim else { return };
        self.ask_at = now;
        self.is_asking = true;
        let thief = self.setting.rank;
        self.send(victim, Message::Request { thief, seen: vec![thief], scope });
    }

    /// Reports once that this rank is quiet; rank 0 lets all ranks leave when all are quiet.
    fn report_quiet(&mut self) {
        self.is_quiet = self.is_quiet
            || (self.running.is_empty() && !self.is_asking && self.unacknowledged == 0 && {
                if self.setting.rank > 0 {
                    self.send(0, Message::Quiet);
                }
                true
            });
        if self.setting.rank == 0 && self.is_quiet && self.quiet + 1 == self.size {
            for rank in 1..self.size {
                self.send(rank, Message::Leave);
            }
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.phase = match &self.phase {
            Phase::Working => Phase::Left(None),
            Phase::Stopping(end) | Phase::Left(end) => Phase::Left(end.clone()),
        };
    }

    /// Numbers of the jobs that are running.
    #[cfg(test)]
    pub fn running_jobs(&self) -> impl Iterator<Item = u64> {
        self.running.keys().copied()
    }

    /// Returns the present costs of messages to a rank.
    pub fn cost_to(&mut self, other: usize) -> SendCost {
        let (given, packing) = (self.setting.cost, self.packing);
        given.unwrap_or_else(|| self.trips_to(other).cost(&packing))
    }

    fn send(&mut self, to: usize, message: MessageOf<T>) {
        self.actions.push(Action::Send(to, message));
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
