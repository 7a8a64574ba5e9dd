//! The loop of a rank: connects its ledger, its threads, and the messages of other ranks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use quo::group::{Group, GroupError, allgather_bytes};

use super::compute::{self, Control, Job, Outcome};
use super::error::with_sources;
use super::ledger::{Action, Ledger, MessageOf, Setting};
use super::mail::{AT_ONCE, LOOK, Mail, unlimited};
use super::message::{Failure, Handover, Message};
use super::{Counts, Options, Release, Task, TasksError};

/// Time between two checks for messages, while threads compute and while the rank is idle.
const NAP: (Duration, Duration) = (Duration::from_micros(500), Duration::from_micros(50));

/// Beginning of a session.
pub(super) enum Begin<T: Task> {
    /// The root, on rank 0.
    Root(Option<T>),
    /// What all ranks of the previous session have handed back, on rank 0.
    Returned(Vec<Handover<T, T::Output>>),
    /// On the other ranks.
    Nothing,
}

/// End of a session.
pub(super) enum End<T: Task> {
    Done(Option<T::Output>, Counts),
    /// The ranks are about to change; on rank 0 with the remaining tasks.
    Resize(Begin<T>, Counts),
}

/// The ranks in which a session runs.
pub(super) trait RankSet {
    /// Returns true if all ranks have arrived at a resize. All ranks call it after the same message
    /// of rank 0.
    fn probe(&mut self) -> Result<bool, TasksError>;

    /// Time between two messages of rank 0 to probe; `None`: the ranks do not change.
    fn interval(&self) -> Option<Duration>;

    /// Number of this rank's node; `None` if it is not known.
    fn node(&self) -> Option<usize>;

    /// Fails if a rank has ended.
    fn check_liveness(&self) -> Result<(), GroupError>;
}

/// Ranks that do not change.
pub(super) struct FixedRanks;

impl RankSet for FixedRanks {
    fn probe(&mut self) -> Result<bool, TasksError> {
        Ok(false)
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn node(&self) -> Option<usize> {
        None
    }

    fn check_liveness(&self) -> Result<(), GroupError> {
        Ok(())
    }
}

/// Outcome of a job with its number.
type Finished<T> = (u64, Outcome<T, <T as Task>::Output>);

struct Session<'a, T: Task, A> {
    ledger: Ledger<T>,
    mail: Mail,
    around: &'a mut A,
    threads: rayon::ThreadPool,
    control: InterruptAtEnd,
    finished: (Sender<Finished<T>>, Receiver<Finished<T>>),
    options: &'a Options,
    rank: usize,
    begun: Instant,
    probed: Instant,
    looked: Instant,
}

/// Runs tasks over the ranks until their end or the next resize. Collective.
pub(super) fn run<T: Task, A: RankSet>(
    mut mail: Mail,
    begin: Begin<T>,
    options: &Options,
    around: &mut A,
) -> Result<End<T>, TasksError> {
    let rank = mail.group().rank();
    let threads = options.thread_count();
    let pool = match options.unusable() {
        Some((option, reason)) => Err(format!("option {option}: {reason}")),
        None => quo::phase::rayon_pool(threads).map_err(|error| with_sources(&error)),
    };
    let reason = match (&pool, &begin) {
        (Err(reason), _) => reason.clone(),
        (Ok(_), Begin::Root(None)) if rank == 0 => "rank 0 gave no root".to_owned(),
        _ => String::new(),
    };
    // Either all ranks begin, or none.
    let node = around.node().or(options.node).unwrap_or(0);
    let words = agree(&mail, around, &(threads as u64, node as u64, reason))?;
    if let Some((rank, (_, _, reason))) =
        words.iter().enumerate().find(|(_, (_, _, reason))| !reason.is_empty())
    {
        return Err(TasksError::Start { rank, reason: reason.clone() });
    }
    let threads = pool.map_err(|reason| TasksError::Start { rank, reason })?;
    let setting = Setting {
        rank,
        nodes: words.iter().map(|(_, node, _)| usize::try_from(*node).unwrap_or(0)).collect(),
        threads: threads.current_num_threads(),
        policy: options.policy,
        threshold: options.threshold,
        workers: options.workers.unwrap_or_else(|| words.iter().map(|(threads, ..)| threads).sum()),
        cost: options.cost,
    };
    let mut ledger = Ledger::new(setting, pack);
    match begin {
        Begin::Root(Some(root)) if rank == 0 => ledger.begin(root),
        Begin::Returned(handovers) => ledger.take_back(handovers),
        Begin::Root(_) | Begin::Nothing => {}
    }
    mail.open()?;
    let now = Instant::now();
    let session = Session {
        ledger,
        mail,
        around,
        threads,
        control: InterruptAtEnd::default(),
        finished: channel(),
        options,
        rank,
        begun: now,
        probed: now,
        looked: now,
    };
    session.run()
}

/// Packs a task as [`Session::send`] does, and returns the seconds.
fn pack<T: Task>(task: &T) -> f64 {
    let begin = Instant::now();
    // A task that cannot be packed is not sent.
    drop(postcard::to_stdvec(task));
    begin.elapsed().as_secs_f64()
}

/// Number of threads and node of a rank, and the reason why it cannot continue, or an empty text.
type Word = (u64, u64, String);

/// Exchanges the words of all ranks.
fn agree(mail: &Mail, around: &impl RankSet, mine: &Word) -> Result<Vec<Word>, TasksError> {
    let unreadable = |error: postcard::Error| GroupError::Unsuitable {
        call: "tasks",
        reason: format!("a word of a rank cannot be exchanged: {error}").into(),
    };
    let check = || around.check_liveness();
    let mine = postcard::to_stdvec(mine).map_err(unreadable)?;
    let words = allgather_bytes(mail.group(), &mine, &unlimited(&check))?;
    let words = words.iter().map(|word| postcard::from_bytes(word).map_err(unreadable));
    Ok(words.collect::<Result<_, _>>()?)
}

impl<T: Task, A: RankSet> Session<'_, T, A> {
    fn run(mut self) -> Result<End<T>, TasksError> {
        let end = loop {
            self.ledger.measured(self.control.0.take_leaves());
            let mut is_busy = self.receive()?;
            while let Ok((job, outcome)) = self.finished.1.try_recv() {
                self.ledger.finish(job, outcome, self.begun.elapsed());
                is_busy = true;
            }
            self.announce_probe()?;
            is_busy |= self.act()?;
            if let Some(end) = self.ledger.end() {
                break end;
            }
            if !is_busy {
                self.wait()?;
            }
        };
        let check = || self.around.check_liveness();
        self.mail.finish(&unlimited(&check))?;
        match end {
            Some(Ok(())) => {
                let (output, counts) = self.ledger.into_result();
                Ok(End::Done(output, counts))
            }
            Some(Err(failure)) => Err(failure.into()),
            None => {
                let (handover, counts) = self.ledger.hand_over();
                Ok(End::Resize(hand_over(&self.mail, self.around, &handover)?, counts))
            }
        }
    }

    /// Handles the messages that have arrived. Returns true if there were any.
    fn receive(&mut self) -> Result<bool, TasksError> {
        let mut has_any = false;
        let around = &*self.around;
        let check = || around.check_liveness();
        for _ in 0..AT_ONCE {
            let Some((from, bytes)) = self.mail.take(&unlimited(&check))? else { break };
            let message: MessageOf<T> = postcard::from_bytes(&bytes).map_err(|error| {
                let (call, rank) = ("tasks", from);
                let reason = format!("an unreadable message of rank {rank}: {error}").into();
                GroupError::Unsuitable { call, reason }
            })?;
            self.ledger.receive(from, message, self.begun.elapsed());
            has_any = true;
        }
        Ok(has_any)
    }

    /// Has all ranks probe for a resize when it is time. On rank 0.
    fn announce_probe(&mut self) -> Result<(), TasksError> {
        let is_due = self.rank == 0
            && self.ledger.is_working()
            && self.around.interval().is_some_and(|interval| self.probed.elapsed() >= interval);
        if is_due {
            self.probed = Instant::now();
            for rank in 1..self.mail.group().size() {
                self.send(rank, Message::Probe)?;
            }
            self.probe()?;
        }
        Ok(())
    }

    fn probe(&mut self) -> Result<(), TasksError> {
        if self.around.probe()? {
            self.ledger.stop_for_resize(self.options.release == Release::Interrupt);
        }
        Ok(())
    }

    fn act(&mut self) -> Result<bool, TasksError> {
        let mut has_acted = false;
        for action in self.ledger.actions(self.begun.elapsed()) {
            has_acted = true;
            match action {
                Action::Start(number, job) => self.start(number, job),
                Action::Send(to, message) => self.send(to, message)?,
                Action::Interrupt => self.control.0.interrupt.store(true, Ordering::Relaxed),
                Action::Probe => self.probe()?,
            }
        }
        self.mail.clear()?;
        Ok(has_acted)
    }

    fn start(&self, number: u64, job: Job<T, T::Output>) {
        let (control, finished) = (Arc::clone(&self.control.0), self.finished.0.clone());
        let (rank, threshold) = (self.rank, self.options.threshold);
        self.threads.spawn(move || {
            let outcome = compute::run(rank, job, threshold, &control);
            // The receiver is gone if the rank has given up.
            let _ = finished.send((number, outcome));
        });
    }

    fn send(&mut self, to: usize, message: MessageOf<T>) -> Result<(), TasksError> {
        let failure = |reason: String| Failure::Failed { rank: self.rank, reason };
        let failure = match postcard::to_stdvec(&message) {
            Ok(bytes) => return Ok(self.mail.send(to, bytes)?),
            Err(error) => failure(format!("cannot be serialised: {error}")),
        };
        // The failure replaces the result.
        match message {
            Message::Task { origin, .. } => {
                self.ledger.fail(origin, failure, self.begun.elapsed());
                self.send(to, Message::None)
            }
            Message::Result { origin, held, .. } => {
                self.send(to, Message::Result { origin, result: Err(failure), held })
            }
            _ => Err(failure.into()),
        }
    }

    fn wait(&mut self) -> Result<(), TasksError> {
        let nap = if self.ledger.is_computing() { NAP.0 } else { NAP.1 };
        if self.mail.is_sending() {
            std::thread::yield_now();
        } else if let Ok((job, outcome)) = self.finished.1.recv_timeout(nap) {
            self.ledger.finish(job, outcome, self.begun.elapsed());
        }
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.around.check_liveness()?;
        }
        Ok(())
    }
}

/// Gathers on rank 0 what all ranks hand back: the beginning of the next session. Collective.
fn hand_over<T: Task>(
    mail: &Mail,
    around: &impl RankSet,
    handover: &Handover<T, T::Output>,
) -> Result<Begin<T>, TasksError> {
    let bytes = postcard::to_stdvec(handover);
    let failed = |error: &postcard::Error| format!("its tasks cannot be serialised: {error}");
    let reason = bytes.as_ref().err().map(failed).unwrap_or_default();
    let words = agree(mail, around, &(0, 0, reason))?;
    let reasons = words.into_iter().map(|(.., reason)| reason).enumerate();
    if let Some((rank, reason)) = reasons.into_iter().find(|(_, reason)| !reason.is_empty()) {
        return Err(TasksError::Task { rank, reason });
    }
    let check = || around.check_liveness();
    let all = mail.group().gather(&bytes.unwrap_or_default(), &unlimited(&check))?;
    let Some(all) = all else { return Ok(Begin::Nothing) };
    let handovers = all.iter().enumerate().map(|(rank, bytes)| {
        let failed = |error| format!("its tasks cannot be read: {error}");
        postcard::from_bytes(bytes)
            .map_err(|error| TasksError::Task { rank, reason: failed(error) })
    });
    Ok(Begin::Returned(handovers.collect::<Result<_, _>>()?))
}

/// Interrupts the jobs of a session when it ends, even by an error.
#[derive(Default)]
struct InterruptAtEnd(Arc<Control>);

impl Drop for InterruptAtEnd {
    fn drop(&mut self) {
        self.0.interrupt.store(true, Ordering::Relaxed);
    }
}
