//! The coordinator: the thread, in the process that never leaves, that carries out every resize.
//!
//! It sleeps on its channel. The arbiter decides, and answers any caller at any time; actions go
//! through [`Agents`]. The coordinator makes no MPI call; processes are spawned by another thread
//! while the coordinator continues to receive messages.

mod arbiter;
mod journal;
mod loads;
mod loops;
mod requests;
mod resource_manager;
pub(crate) mod set_service;
mod shared;
mod starting;
mod supply;
mod world_status;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Error;
use crate::link::agents::Agents;
use crate::model::change::{Cause, CauseKind, RequestId, Step};
use crate::model::order::{Losses, Order, ResizePlan};
use crate::model::progress::Progress;
use crate::observe::measured::looks_for_loops;
use crate::spawn::starter::{Failure, SpawnCommand, SpawnHelper, Unit, end_launcher};
pub(crate) use arbiter::{Arbiter, Job};
pub(crate) use journal::Journal;
pub use requests::{Accepted, Requests};
pub use resource_manager::{Moment, Next, ResourceManager};
pub(crate) use shared::Shared;
use starting::{Late, Starting, Word};
pub use supply::Supply;
pub use world_status::{HostStatus, SLURM_JOB_VARIABLE, UnitStatus, WorldStatus};

/// Time that joiners may take to wake up.
const JOIN_LIMIT: Duration = Duration::from_secs(30);

/// Message to the coordinator.
enum Message {
    /// Look for work: a request or an iteration has arrived.
    Look,
    /// The running ranks have entered: joiners may join.
    Entered,
    /// All ranks have agreed on the outcome of the resize; the signal has to be lowered before any
    /// rank continues.
    Ended {
        outcome: Result<(), Cause>,
        /// Agents and places of the new set of processes, if it has changed.
        head: Option<Box<Head>>,
        answer: Sender<Result<(), Error>>,
    },
    /// Nodes for a request have been brought, or could not be.
    Brought(RequestId, Result<Vec<String>, Cause>),
    /// Message of the start with this number.
    Start(u64, Word),
    /// A rank cannot continue in the resize that is under way.
    Lost(Cause),
    /// The job is over.
    Over,
}

/// Agents and the places of processes.
#[derive(Debug)]
pub(crate) struct Head {
    pub agents: Agents,
    /// The names of the nodes.
    pub hosts: Vec<String>,
    /// The node of every process.
    pub places: Vec<usize>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Message")
    }
}

/// Handle in the process that runs the coordinator.
#[derive(Debug)]
pub(crate) struct Coordinator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    units: Units,
}

/// Ready units, which rank 0 takes when it enters the resize.
type Units = Arc<Mutex<Vec<Unit>>>;

fn take(units: &Units) -> Vec<Unit> {
    std::mem::take(&mut *units.lock().unwrap_or_else(PoisonError::into_inner))
}

/// State of the thread.
struct State {
    shared: Arc<Shared>,
    agents: Agents,
    managers: Vec<Box<dyn ResourceManager>>,
    busy: Option<(ResizePlan, u64)>,
    spawn_command: SpawnCommand,
    starting: Starting,
    /// Brings nodes for a request.
    supplier: Option<JoinHandle<()>>,
    units: Units,
    /// The next event that managers have not received.
    untold: u64,
    /// Time at which a manager asked to be called.
    wake: Option<Duration>,
    /// Time of the next load query, and the number of queries so far.
    next_load: (Duration, u64),
    /// Time at which ranks are asked for their loops; `None` if the memory profiler detects none.
    next_loops: Option<Duration>,
    /// Ends the job when a process of another node has ended: the guard of this process watches
    /// only its own node.
    has_guards: bool,
}

/// Time between two checks of the processes of other nodes.
const LOOK: Duration = Duration::from_millis(500);

impl Coordinator {
    pub(crate) fn start(
        agents: Agents,
        job: Job,
        spawn_command: SpawnCommand,
        spawn_helper: Option<SpawnHelper>,
        log: Option<&Path>,
        mut managers: Vec<Box<dyn ResourceManager>>,
        has_guards: bool,
    ) -> Result<Self, String> {
        let journal = Journal::open(log).map_err(|error| {
            let path = log.map_or(String::new(), |path| path.display().to_string());
            format!("the event log {path}: {error}")
        })?;
        let (sender, receiver) = channel();
        let shared = Arc::new(Shared::new(Arbiter::new(job, journal)?, sender));
        for number in 0..managers.len() {
            let manager = &mut managers[number];
            if let Err(reason) = manager.begins(Requests::new(Arc::clone(&shared))) {
                let reason = format!("{}: {reason}", manager.name());
                managers[..number].iter_mut().for_each(|manager| manager.ends());
                return Err(reason);
            }
            if let Some(supply) = manager.supply() {
                shared.arbiter().supplied_by(supply);
            }
        }
        let units = Units::default();
        let state = State {
            shared: Arc::clone(&shared),
            agents,
            managers,
            busy: None,
            spawn_command,
            starting: Starting::by(spawn_helper),
            supplier: None,
            units: Arc::clone(&units),
            untold: 0,
            wake: Some(Duration::ZERO),
            next_load: (Duration::ZERO, 0),
            next_loops: looks_for_loops().then_some(Duration::ZERO),
            has_guards,
        };
        let thread = std::thread::Builder::new()
            .name("elastic".to_owned())
            .spawn(move || state.run(&receiver))
            .map_err(|error| error.to_string())?;
        Ok(Self { shared, thread: Some(thread), units })
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Ends the coordinator. Returns true if MPI is free again, false if it has not returned from a
    /// spawn; and the processes that the job continued without.
    pub(crate) fn end(self) -> (bool, Losses) {
        let shared = self.shared();
        drop(self);
        let losses = shared.arbiter().losses();
        (!shared.is_stuck.load(Ordering::Acquire), losses)
    }

    /// Returns the handle for requests.
    pub(crate) fn requests(&self) -> Requests {
        Requests::new(Arc::clone(&self.shared))
    }

    /// Records that the program begins an iteration.
    #[inline]
    pub(crate) fn iteration(&self, number: u64) {
        self.shared.iteration.store(number, Ordering::Release);
        if number >= self.shared.awaited.load(Ordering::Acquire) {
            self.shared.awaited.store(u64::MAX, Ordering::Release);
            self.shared.look();
        }
    }

    /// Records what the program reports of itself, in this epoch and on `size` ranks.
    pub(crate) fn report(&self, progress: Progress, epoch: u64, size: u64) {
        self.shared.reports().record(progress, epoch, size);
        self.iteration(progress.iteration);
    }

    /// Takes the units that wait to join, in their order.
    pub(crate) fn take_units(&self) -> Vec<Unit> {
        take(&self.units)
    }

    /// Reports that the running ranks have entered.
    pub(crate) fn entered(&self) {
        let _ = self.shared.sender.send(Message::Entered);
    }

    /// Records that the data have moved, `bytes` of them from one rank to another.
    pub(crate) fn moved(&self, bytes: u64) {
        self.shared.arbiter().moved(bytes);
    }

    /// Reports the outcome of the resize, and waits until the signal is lowered.
    pub(crate) fn ended(
        &self,
        outcome: Result<(), Cause>,
        head: Option<Box<Head>>,
    ) -> Result<(), Error> {
        let (answer, answered) = channel();
        if self.shared.sender.send(Message::Ended { outcome, head, answer }).is_err() {
            return Ok(());
        }
        answered.recv().unwrap_or(Ok(()))
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.shared.sender.send(Message::Over);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            self.call_managers();
            if self.busy.is_none() && !self.starting.is_under_way() && self.supplier.is_none() {
                self.do_next();
            }
            self.look_for_late_ranks();
            self.look_at_loads();
            self.look_at_loops();
            if self.looks_at_nodes()
                && let Some(rank) = self.agents.missed()
            {
                crate::node::guard::say(rank);
                self.agents.lost(rank);
            }
            if let Some(late) = self.starting.give_up_late(&self.spawn_command) {
                self.try_again(late);
                continue;
            }
            self.tell_managers();
            // The managers may have made requests just now, which are the next messages.
            match self.next(messages) {
                Some(Message::Look) | None => {}
                Some(Message::Entered) => {
                    self.shared.arbiter().step(Step::Pending);
                    self.shared.arbiter().step(Step::Begun);
                    if let Some((resize, _)) = &self.busy {
                        let _ = self.agents.ring(resize.sleepers());
                    }
                }
                Some(Message::Brought(request, brought)) => {
                    self.supplier.take().map(JoinHandle::join);
                    self.shared.arbiter().brought(request, brought);
                }
                Some(Message::Start(number, word)) => {
                    if let Some((resize, started)) = self.hear(number, word) {
                        self.go_on(resize, started);
                    }
                }
                Some(Message::Lost(cause)) => {
                    // No commit will end the resize.
                    self.shared.arbiter().ended(Err(cause));
                    self.shared.has_changed();
                }
                Some(Message::Ended { outcome, head, answer }) => {
                    self.busy = None;
                    let places = head.map(|head| {
                        // This closes the links to the old agents.
                        self.agents = head.agents;
                        (head.hosts, head.places)
                    });
                    self.shared.arbiter().ended_at(outcome, places);
                    self.shared.has_changed();
                    let _ = answer.send(self.agents.lower());
                }
                Some(Message::Over) => break,
            }
        }
        self.await_start(messages);
        let open = match self.agents.missed_here() {
            Some(rank) => Cause::new(CauseKind::MemberLost, format!("rank {rank} has ended")),
            None => Cause::new(CauseKind::Cancelled, "the job has ended"),
        };
        self.shared.arbiter().close(&open);
        take(&self.units).into_iter().for_each(Unit::send_away);
        self.tell_managers();
        self.managers.iter_mut().for_each(|manager| manager.ends());
        // The supply thread gives up when its manager ends.
        self.supplier.take().map(JoinHandle::join);
        let (all, running) = {
            let arbiter = self.shared.arbiter();
            (arbiter.processes(), arbiter.running().to_vec())
        };
        let sleepers: Vec<_> = (0..all).filter(|rank| !running.contains(rank)).collect();
        self.strike_off();
        let losses = self.shared.arbiter().losses();
        let _ = self.agents.post(&Order::End(losses));
        let _ = self.agents.ring(sleepers);
    }

    fn looks_at_nodes(&self) -> bool {
        self.has_guards && self.agents.is_over_nodes()
    }

    /// Waits for the next message; `None` when a periodic check is due.
    fn next(&self, messages: &Receiver<Message>) -> Option<Message> {
        let (now, deadline) = {
            let arbiter = self.shared.arbiter();
            (arbiter.now(), arbiter.next_deadline())
        };
        let start = self.starting.left().map(|left| now + left);
        let look = self.looks_at_nodes().then(|| now + LOOK);
        let goes_by_load = self.shared.arbiter().goes_by_load();
        let look = look.into_iter().chain(goes_by_load.then_some(self.next_load.0));
        let look = look.chain(self.next_loops.filter(|_| self.busy.is_none()));
        match deadline.into_iter().chain(self.wake).chain(start).chain(look).min() {
            None => messages.recv().map_or(Some(Message::Over), Some),
            Some(at) => match messages.recv_timeout(at.saturating_sub(now)) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Message::Over),
            },
        }
    }

    /// Calls all managers; each decides for itself whether its moment has come.
    fn call_managers(&mut self) {
        let moment = Moment {
            iteration: self.shared.iteration.load(Ordering::Acquire),
            since_start: self.shared.arbiter().now(),
        };
        let next: Vec<_> =
            self.managers.iter_mut().map(|manager| manager.on_tick(moment)).collect();
        self.wake = next.iter().filter_map(|next| next.time).min();
        let awaited = next.iter().filter_map(|next| next.iteration).min().unwrap_or(u64::MAX);
        self.shared.awaited.store(awaited, Ordering::Release);
        // The iteration may have passed meanwhile without a message.
        if self.shared.iteration.load(Ordering::Acquire) >= awaited {
            self.shared.look();
        }
    }

    fn tell_managers(&mut self) {
        if self.managers.is_empty() {
            return;
        }
        let events: Vec<_> = {
            let arbiter = self.shared.arbiter();
            arbiter.journal.since(self.untold).cloned().collect()
        };
        for event in &events {
            self.untold = event.sequence + 1;
            self.managers.iter_mut().for_each(|manager| manager.on_event(event));
        }
    }

    /// Carries the next feasible request from its announcement to the agreed round. If that fails,
    /// the ranks are unaffected.
    fn do_next(&mut self) {
        if self.shared.arbiter().has_next() {
            self.strike_off();
        }
        loop {
            let wanted = self.shared.arbiter().next_to_supply();
            if let Some((request, nodes, supply)) = wanted {
                if self.supply(request, nodes, supply) {
                    return;
                }
                continue;
            }
            let Some(resize) = self.shared.arbiter().announce_next() else { return };
            let begun =
                if resize.units.is_empty() { self.bring(resize) } else { self.start(resize) };
            if begun {
                return;
            }
        }
    }

    /// Removes sleepers that have ended.
    fn strike_off(&mut self) {
        // A node that does not answer is reported when the resize needs it.
        let dead = self.agents.dead().unwrap_or_default();
        if dead.is_empty() {
            return;
        }
        let new = self.shared.arbiter().strike_off(&dead);
        if !new.is_empty() {
            let _ = self.agents.strike_off(&new);
            if let Some(slots) = &mut self.spawn_command.slots {
                slots.launched = self.shared.arbiter().launched();
            }
        }
    }

    /// Has a thread bring nodes for a request, which is announced when they are available.
    fn supply(&mut self, request: RequestId, nodes: u32, supply: Arc<dyn Supply>) -> bool {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("elastic-supply".to_owned());
        let thread = thread.spawn(move || {
            let brought = supply.bring(request, nodes);
            let _ = shared.sender.send(Message::Brought(request, brought));
        });
        match thread {
            Ok(thread) => self.supplier = Some(thread),
            Err(error) => self
                .shared
                .arbiter()
                .brought(request, Err(Cause::new(CauseKind::Other, error.to_string()))),
        }
        self.supplier.is_some()
    }

    /// Has processes spawned for a resize, which continues when they are ready.
    fn start(&mut self, resize: ResizePlan) -> bool {
        if resize.brought {
            // The launcher knows more hosts from now on.
            self.spawn_command.hosts = None;
        }
        let begun = if self.starting.is_in_the_way() {
            let detail = "MPI has not come back from an earlier start";
            Err(Cause::new(CauseKind::SpawnFailed, detail))
        } else {
            self.starting.begin(resize, &self.spawn_command, self.shared.sender.clone(), false)
        };
        self.shared.arbiter().step(Step::Launched);
        begun.map_err(|cause| self.has_failed(cause)).is_ok()
    }

    /// Retries an abandoned start once if that is allowed and time remains; else fails its resize.
    fn try_again(&mut self, late: Late) {
        let Late { resize, cause, may_be_tried_again } = late;
        if !may_be_tried_again || self.shared.arbiter().is_overdue() {
            return self.has_failed(cause);
        }
        let detail = format!("{}; the start is tried once more", cause.detail);
        self.shared.arbiter().note(Cause::new(cause.kind, detail));
        let begun =
            self.starting.begin(resize, &self.spawn_command, self.shared.sender.clone(), true);
        if let Err(cause) = begun {
            self.has_failed(cause);
        }
    }

    /// Ends a resize that no rank knows of yet.
    fn has_failed(&self, cause: Cause) {
        self.shared.arbiter().ended(Err(cause));
        self.shared.has_changed();
    }

    /// Handles a message of a start. Returns the waiting resize and the outcome once the start has
    /// ended.
    fn hear(
        &mut self,
        number: u64,
        word: Word,
    ) -> Option<(ResizePlan, Result<Vec<Unit>, Failure>)> {
        if let Word::Ended(Err(Failure { cause, loses_launcher: true })) = &word {
            let is_one_node = self.shared.arbiter().lose_launcher(&cause.detail);
            end_launcher(is_one_node);
        }
        self.starting.hear(number, word)
    }

    /// Continues a resize after its processes have been spawned, or fails it.
    fn go_on(&mut self, resize: ResizePlan, started: Result<Vec<Unit>, Failure>) {
        match started {
            Ok(units) => {
                *self.units.lock().unwrap_or_else(PoisonError::into_inner) = units;
                if !self.bring(resize) {
                    take(&self.units).into_iter().for_each(Unit::send_away);
                }
            }
            Err(failure) => self.has_failed(failure.cause),
        }
    }

    /// Waits for the current start at the end of the job, and dismisses its processes.
    fn await_start(&mut self, messages: &Receiver<Message>) {
        while let Some(left) = self.starting.left() {
            if let Ok(Message::Start(number, word)) = messages.recv_timeout(left)
                && let Some((_, Ok(units))) = self.hear(number, word)
            {
                units.into_iter().for_each(Unit::send_away);
            }
            self.starting.give_up_late(&self.spawn_command);
        }
        self.starting.leave();
        self.shared.is_stuck.store(self.starting.is_stuck(), Ordering::Release);
    }

    /// Returns true if all ranks are on their way to one round. Otherwise ends the resize.
    fn bring(&mut self, resize: ResizePlan) -> bool {
        match self.prepare(&resize) {
            Ok(round) => {
                self.shared.arbiter().agreed(round);
                self.busy = Some((resize, round));
                true
            }
            Err(cause) => {
                // Held ranks continue, and woken joiners sleep again.
                let _ = self.agents.lower();
                let (number, old) = (resize.number, resize.old.clone());
                let nothing = ResizePlan { number, new: old.clone(), old, ..ResizePlan::default() };
                let _ = self.agents.post(&Order::Resize(nothing));
                let _ = self.agents.ring(resize.sleepers());
                self.has_failed(cause);
                false
            }
        }
    }

    fn prepare(&mut self, resize: &ResizePlan) -> Result<u64, Cause> {
        let failed = |kind: CauseKind| move |error: Error| Cause::new(kind, error.to_string());
        // Only sleepers need waking: spawned joiners are ready, and rank 0 invites them.
        let joiners = resize.sleepers();
        self.agents.post(&Order::Resize(resize.clone())).map_err(failed(CauseKind::Unreachable))?;
        if !joiners.is_empty() {
            self.agents.ring(joiners.iter().copied()).map_err(failed(CauseKind::Unreachable))?;
            self.shared.arbiter().step(Step::Launched);
            self.agents
                .wait_until_ready(resize.number, joiners.iter().copied(), JOIN_LIMIT)
                .map_err(failed(CauseKind::JoinerLost))?;
        }
        if resize.joiners().next().is_some() {
            self.shared.arbiter().step(Step::Ready);
        }
        self.agents.agree(&resize.old).map_err(failed(CauseKind::MemberLost))
    }

    /// Records the ranks that have not arrived when the grace time is over.
    fn look_for_late_ranks(&mut self) {
        let Some((resize, round)) = &self.busy else { return };
        if !self.shared.arbiter().is_overdue() {
            return;
        }
        let late = self.agents.late(*round, &resize.old).unwrap_or_default();
        self.shared.arbiter().note_overdue(&late);
    }
}
