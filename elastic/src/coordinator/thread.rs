//! The coordinator's thread: it carries one resize after another through its phases.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::starting::{Late, Outcome, Start, StartMessage, Starts};
use super::{Message, Moment, ResourceManager, Shared, Supply, Units, take};
use crate::error::Error;
use crate::link::agents::Agents;
use crate::model::change::{Cause, CauseKind, RequestId, Step};
use crate::model::order::{Order, ResizePlan};
use crate::spawn::starter::{Failure, SpawnCommand, Unit, end_launcher};

/// Time that joiners may take to wake up.
const JOIN_LIMIT: Duration = Duration::from_secs(30);

/// Time between two checks of the processes of other nodes.
const NODE_CHECKS: Duration = Duration::from_millis(500);

/// Phase of the next resize.
pub(super) enum Phase {
    /// The next request may be announced.
    Idle,
    /// A thread brings nodes for the next request.
    Supplying(JoinHandle<()>),
    /// A thread starts processes for the announced resize.
    Starting(Start),
    /// The ranks are on their way to the agreed round.
    Announced(Agreed),
    /// The ranks are in the window of the resize.
    Entered(Agreed),
}

/// A resize and the round at which all ranks enter it.
pub(super) struct Agreed {
    resize: Arc<ResizePlan>,
    round: u64,
}

impl Phase {
    /// Returns the resize that the ranks know of.
    pub(super) fn agreed(&self) -> Option<&Agreed> {
        match self {
            Self::Announced(agreed) | Self::Entered(agreed) => Some(agreed),
            Self::Idle | Self::Supplying(_) | Self::Starting(_) => None,
        }
    }

    fn starting(&mut self) -> Option<&mut Start> {
        match self {
            Self::Starting(start) => Some(start),
            _ => None,
        }
    }

    /// Moves the start out that `is_meant` picks, which makes the phase idle.
    fn take_start(&mut self, is_meant: impl FnOnce(&Start) -> bool) -> Option<Start> {
        if !self.starting().is_some_and(|start| is_meant(start)) {
            return None;
        }
        match std::mem::replace(self, Self::Idle) {
            Self::Starting(start) => Some(start),
            _ => None,
        }
    }
}

/// State of the coordinator's thread.
pub(super) struct CoordinatorThread {
    pub shared: Arc<Shared>,
    pub agents: Agents,
    pub managers: Vec<Box<dyn ResourceManager>>,
    pub phase: Phase,
    pub spawn_command: SpawnCommand,
    pub starts: Starts,
    pub units: Units,
    /// The next event that managers have not received.
    pub next_event: u64,
    /// Time at which a manager asked to be called.
    pub wake: Option<Duration>,
    /// Time of the next load query, and the number of queries so far.
    pub next_load: (Duration, u64),
    /// Time at which ranks are asked for their loops; `None` if the memory profiler detects none.
    pub next_loops: Option<Duration>,
    /// Ends the job when a process of another node has ended: the guard of this process watches
    /// only its own node.
    pub has_guards: bool,
}

impl CoordinatorThread {
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            self.call_managers();
            if matches!(self.phase, Phase::Idle) {
                self.begin_next();
            }
            self.note_late_ranks();
            self.sample_loads();
            self.sample_loops();
            if self.watches_nodes()
                && let Some(rank) = self.agents.missed()
            {
                crate::node::guard::say(rank);
                self.agents.lost(rank);
            }
            if let Some(late) = self.abandon_late_start() {
                self.retry_start(late);
                continue;
            }
            self.send_events();
            // The managers may have made requests just now, which are the next messages.
            match self.next_message(messages) {
                Some(Message::Over) => break,
                Some(message) => self.handle(message),
                None => {}
            }
        }
        self.close(messages);
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Wake | Message::Over => {}
            Message::Entered(resize) => self.ranks_entered(resize),
            Message::Brought(request, brought) => {
                if let Phase::Supplying(thread) = std::mem::replace(&mut self.phase, Phase::Idle) {
                    let _ = thread.join();
                }
                self.shared.arbiter().brought(request, brought);
            }
            Message::Start(number, message) => {
                if let Some((resize, started)) = self.end_start(number, message) {
                    self.announce_with_units(resize, started);
                }
            }
            Message::Lost(cause) => {
                // No commit will end the resize: the phase stays, so that no other one begins.
                self.fail(cause);
            }
            Message::Ended { resize, outcome, head, answer } => {
                let places = head.map(|head| {
                    // This closes the links to the old agents.
                    self.agents = head.agents;
                    (head.hosts, head.places)
                });
                if self.phase.agreed().is_some_and(|agreed| agreed.resize.number == resize) {
                    self.phase = Phase::Idle;
                    self.shared.arbiter().ended_at(outcome, places);
                    self.shared.has_changed();
                }
                let _ = answer.send(self.agents.lower());
            }
        }
    }

    /// Ends what is open at the end of the job.
    fn close(mut self, messages: &Receiver<Message>) {
        self.await_start(messages);
        let open = match self.agents.missed_here() {
            Some(rank) => Cause::new(CauseKind::MemberLost, format!("rank {rank} has ended")),
            None => Cause::new(CauseKind::Cancelled, "the job has ended"),
        };
        self.shared.arbiter().close(&open);
        take(&self.units).into_iter().for_each(Unit::send_away);
        self.send_events();
        self.managers.iter_mut().for_each(|manager| manager.ends());
        if let Phase::Supplying(thread) = std::mem::replace(&mut self.phase, Phase::Idle) {
            // The supply thread gives up when its manager ends.
            let _ = thread.join();
        }
        let (all, running) = {
            let arbiter = self.shared.arbiter();
            (arbiter.processes(), arbiter.running().to_vec())
        };
        let sleepers: Vec<_> = (0..all).filter(|rank| !running.contains(rank)).collect();
        self.remove_dead_sleepers();
        let losses = self.shared.arbiter().losses();
        let _ = self.agents.post(&Order::End(losses));
        let _ = self.agents.ring(sleepers);
    }

    fn watches_nodes(&self) -> bool {
        self.has_guards && self.agents.is_over_nodes()
    }

    /// Waits for the next message; `None` when a periodic check is due.
    fn next_message(&mut self, messages: &Receiver<Message>) -> Option<Message> {
        let (now, deadline, goes_by_load) = {
            let arbiter = self.shared.arbiter();
            (arbiter.now(), arbiter.next_deadline(), arbiter.goes_by_load())
        };
        let times = [
            deadline,
            self.wake,
            self.phase.starting().map(|start| now + start.left()),
            self.watches_nodes().then(|| now + NODE_CHECKS),
            goes_by_load.then_some(self.next_load.0),
            self.next_loops.filter(|_| self.phase.agreed().is_none()),
        ];
        match times.into_iter().flatten().min() {
            None => messages.recv().map_or(Some(Message::Over), Some),
            Some(at) => match messages.recv_timeout(at.saturating_sub(now)) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Message::Over),
            },
        }
    }

    /// Calls all managers; each checks whether it is due.
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
            self.shared.wake_coordinator();
        }
    }

    /// Gives the managers the events that they have not received.
    fn send_events(&mut self) {
        if self.managers.is_empty() {
            return;
        }
        let events: Vec<_> = {
            let arbiter = self.shared.arbiter();
            arbiter.journal.since(self.next_event).cloned().collect()
        };
        for event in &events {
            self.next_event = event.sequence + 1;
            self.managers.iter_mut().for_each(|manager| manager.on_event(event));
        }
    }

    /// Begins with the next feasible request: has nodes brought or processes started for it, or
    /// announces it to the ranks. If that fails, the ranks are unaffected.
    fn begin_next(&mut self) {
        if self.shared.arbiter().has_next() {
            self.remove_dead_sleepers();
        }
        while matches!(self.phase, Phase::Idle) {
            let wanted = self.shared.arbiter().next_to_supply();
            if let Some((request, nodes, supply)) = wanted {
                self.supply(request, nodes, supply);
                continue;
            }
            let Some(resize) = self.shared.arbiter().announce_next() else { return };
            if resize.units.is_empty() {
                self.announce(resize);
            } else {
                self.start(resize);
            }
        }
    }

    /// Removes sleepers that have ended.
    fn remove_dead_sleepers(&mut self) {
        // A node that does not answer is reported when the resize needs it.
        let dead = self.agents.dead().unwrap_or_default();
        if dead.is_empty() {
            return;
        }
        let new = self.shared.arbiter().remove_dead_sleepers(&dead);
        if !new.is_empty() {
            let _ = self.agents.remove_dead_sleepers(&new);
            if let Some(slots) = &mut self.spawn_command.slots {
                slots.launched = self.shared.arbiter().launched();
            }
        }
    }

    /// Has a thread bring nodes for a request, which is announced when they are available.
    fn supply(&mut self, request: RequestId, nodes: u32, supply: Arc<dyn Supply>) {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("elastic-supply".to_owned());
        let thread = thread.spawn(move || {
            let brought = supply.obtain_nodes(request, nodes);
            let _ = shared.sender.send(Message::Brought(request, brought));
        });
        match thread {
            Ok(thread) => self.phase = Phase::Supplying(thread),
            Err(error) => self
                .shared
                .arbiter()
                .brought(request, Err(Cause::new(CauseKind::Other, error.to_string()))),
        }
    }

    /// Has processes started for a resize, which is announced when they are ready.
    fn start(&mut self, resize: Arc<ResizePlan>) {
        if resize.brought {
            // The launcher knows more hosts from now on.
            self.spawn_command.hosts = None;
        }
        self.shared.arbiter().step(Step::Launched);
        if self.starts.block_others() {
            let detail = "MPI has not come back from an earlier start";
            return self.fail(Cause::new(CauseKind::SpawnFailed, detail));
        }
        self.begin_start(resize, false);
    }

    fn begin_start(&mut self, resize: Arc<ResizePlan>, is_second: bool) {
        let sender = self.shared.sender.clone();
        match self.starts.begin(resize, &self.spawn_command, sender, is_second) {
            Ok(start) => self.phase = Phase::Starting(start),
            Err(cause) => self.fail(cause),
        }
    }

    /// Abandons the start under way if it is overdue.
    fn abandon_late_start(&mut self) -> Option<Late> {
        let start = self.phase.take_start(Start::is_overdue)?;
        Some(self.starts.abandon(start, &self.spawn_command))
    }

    /// Retries an abandoned start once if that is allowed and time remains; else fails its resize.
    fn retry_start(&mut self, late: Late) {
        let Late { resize, cause, may_be_tried_again } = late;
        if !may_be_tried_again || self.shared.arbiter().is_overdue() {
            return self.fail(cause);
        }
        let detail = format!("{}; the start is tried once more", cause.detail);
        self.shared.arbiter().note(Cause::new(cause.kind, detail));
        self.begin_start(resize, true);
    }

    /// Ends the resize under way without a commit.
    fn fail(&self, cause: Cause) {
        self.shared.arbiter().ended(Err(cause));
        self.shared.has_changed();
    }

    /// Handles a message of a start. Returns the waiting resize and the outcome once the start has
    /// ended.
    fn end_start(
        &mut self,
        number: u64,
        message: StartMessage,
    ) -> Option<(Arc<ResizePlan>, Outcome)> {
        let ended = match message {
            StartMessage::Next(unit) => {
                if let Some(start) = self.phase.starting().filter(|start| start.number() == number)
                {
                    start.begin_unit(unit);
                }
                return None;
            }
            StartMessage::Ended(ended) => ended,
        };
        if let Err(Failure { cause, loses_launcher: true }) = &ended {
            let is_one_node = self.shared.arbiter().lose_launcher(&cause.detail);
            end_launcher(is_one_node);
        }
        match self.phase.take_start(|start| start.number() == number) {
            Some(start) => Some((start.join(), ended)),
            None => {
                self.starts.dismiss(number, ended);
                None
            }
        }
    }

    /// Announces a resize whose processes have been started, or fails it.
    fn announce_with_units(&mut self, resize: Arc<ResizePlan>, started: Outcome) {
        match started {
            Ok(units) => {
                *self.units.lock().unwrap_or_else(PoisonError::into_inner) = units;
                self.announce(resize);
                if self.phase.agreed().is_none() {
                    take(&self.units).into_iter().for_each(Unit::send_away);
                }
            }
            Err(failure) => self.fail(failure.cause),
        }
    }

    /// Waits for the current start at the end of the job, and dismisses its processes.
    fn await_start(&mut self, messages: &Receiver<Message>) {
        while let Some(left) = self.phase.starting().map(|start| start.left()) {
            if let Ok(Message::Start(number, message)) = messages.recv_timeout(left)
                && let Some((_, Ok(units))) = self.end_start(number, message)
            {
                units.into_iter().for_each(Unit::send_away);
            }
            self.abandon_late_start();
        }
        self.starts.leave();
        self.shared.is_stuck.store(self.starts.occupy_mpi(), Ordering::Release);
    }

    /// Has all ranks agree on a round for the resize. Otherwise ends the resize.
    fn announce(&mut self, resize: Arc<ResizePlan>) {
        match self.prepare(&resize) {
            Ok(round) => {
                self.shared.arbiter().agreed(round);
                self.phase = Phase::Announced(Agreed { resize, round });
            }
            Err(cause) => {
                // Held ranks continue, and woken joiners sleep again.
                let _ = self.agents.lower();
                let (number, old) = (resize.number, resize.old.clone());
                let nothing = ResizePlan { number, new: old.clone(), old, ..ResizePlan::default() };
                let _ = self.agents.post(&Order::Resize(nothing));
                let _ = self.agents.ring(resize.sleepers());
                self.fail(cause);
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

    /// Lets the joiners of the announced resize join: the running ranks have entered it.
    fn ranks_entered(&mut self, number: u64) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Announced(agreed) if agreed.resize.number == number => {
                self.shared.arbiter().step(Step::Pending);
                self.shared.arbiter().step(Step::Begun);
                let _ = self.agents.ring(agreed.resize.sleepers());
                self.phase = Phase::Entered(agreed);
            }
            // The ranks have entered a resize that had failed.
            phase => self.phase = phase,
        }
    }

    /// Records the ranks that have not arrived when the grace time is over.
    fn note_late_ranks(&mut self) {
        let Some(Agreed { resize, round }) = self.phase.agreed() else { return };
        if !self.shared.arbiter().is_overdue() {
            return;
        }
        let late = self.agents.late(*round, &resize.old).unwrap_or_default();
        self.shared.arbiter().note_overdue(&late);
    }
}
