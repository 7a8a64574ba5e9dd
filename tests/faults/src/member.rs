//! A member: works through the script, records how each call ended, and checks its own state before
//! and after.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use quo::affinity::Target;
use quo::context::CreateOptions;
use quo::group::GroupError;
use quo::node::NodeError;
use quo::phase::PhaseSpec;
use quo::plan::Policy;
use quo::{Context, Error, ErrorKind, ObjectType};

use crate::dice::Dice;
use crate::journal::{Column, Entry, Outcome};
use crate::judge::{BACK, local_call};
use crate::plan::{LOCAL, Machine, Plan, Push, RETRY, Stage};
use crate::process;
use crate::traces::Traces;
use crate::world::World;

/// Longer than anything in a round takes.
const CREATE_LIMIT: Duration = Duration::from_secs(45);

/// Names of the barrier of a plan's part, and of the barrier under its shared memory.
const PART_NAMES: [&str; 2] = ["part", "shared memory"];

pub struct Member<'a> {
    pub world: &'a World,
    pub plan: &'a Plan,
    pub number: usize,
}

impl Member<'_> {
    /// Runs the whole script and returns the exit status.
    pub fn run(&self) -> i32 {
        self.hear_panics();
        match self.work() {
            Ok(()) => {
                self.note(&Entry::Finished);
                0
            }
            Err(error) => {
                self.complain(&format!("{error:#}"));
                1
            }
        }
    }

    fn note(&self, entry: &Entry) {
        self.world.journals[self.number].note(entry);
    }

    fn complain(&self, text: &str) {
        self.note(&Entry::Complaint(text.to_owned()));
    }

    /// Sends panics of any thread to the journal instead of the terminal.
    fn hear_panics(&self) {
        let journal = self.world.journals[self.number].again();
        std::panic::set_hook(Box::new(move |panic| {
            if let Ok(journal) = &journal {
                journal.note(&Entry::Complaint(panic.to_string()));
            }
        }));
    }

    fn work(&self) -> Result<()> {
        self.prepare()?;
        let before = Traces::take()?;
        let group = self.world.space.join(self.number).context("joining the group")?;
        let helper = self.before_stage(0, &mut None)?;
        self.note(&Entry::Begin(0, 0));
        let made = Context::create_with(group, self.options());
        let mut context = match made {
            Ok(context) => {
                self.note(&Entry::End(0, 0, Outcome::Good(0)));
                Some(context)
            }
            Err(error) => {
                self.note(&Entry::End(0, 0, outcome_of(&error)));
                None
            }
        };
        self.after_stage(0, &mut context, helper)?;
        if context.is_none() {
            self.try_again()?;
        }
        for stage in 1..self.plan.stages.len() {
            if context.is_none() {
                break;
            }
            let helper = self.before_stage(stage, &mut context)?;
            if self.plan.stages[stage] == Stage::Free {
                if let Some(context) = context.take() {
                    self.check_nobody_else_is_taken_for_dead(&context);
                    self.call(stage, 0, || context.free().map(|()| 0));
                }
            } else if let Some(context) = &context {
                self.perform(context, stage)?;
            }
            self.after_stage(stage, &mut context, helper)?;
        }
        before.require_again(&self.world.directory)?;
        Ok(())
    }

    /// Binds this process as the plan says and starts its idle threads.
    fn prepare(&self) -> Result<()> {
        let cpus = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
        let allowed: Vec<usize> =
            (0..CpuSet::count()).filter(|&cpu| cpus.is_set(cpu).unwrap_or(false)).collect();
        let only = |cpu: usize| -> Result<()> {
            let mut one = CpuSet::new();
            one.set(cpu)?;
            sched_setaffinity(Pid::from_raw(0), &one).context("sched_setaffinity")
        };
        if self.plan.bound {
            only(allowed[self.number % allowed.len()])?;
        }
        for thread in 0..self.plan.threads {
            let (ready, begun) = std::sync::mpsc::channel();
            let own = (thread == 0).then(|| allowed[0]);
            std::thread::spawn(move || {
                let bound = own.map_or(Ok(()), only);
                let _ = ready.send(bound);
                loop {
                    std::thread::park();
                }
            });
            begun.recv()??;
        }
        Ok(())
    }

    fn options(&self) -> CreateOptions {
        CreateOptions::new()
            .with_directory(&self.world.directory)
            .with_create_timeout(CREATE_LIMIT)
            .with_lending(true)
    }

    /// Creates a new context of the survivors after a failed creation.
    fn try_again(&self) -> Result<()> {
        let crew = self.plan.second_crew();
        let Some(rank) = crew.iter().position(|&member| member == self.number) else {
            return Ok(());
        };
        let group = self.world.second.join(rank).context("joining the second group")?;
        let mut made = None;
        self.call(RETRY, 0, || {
            made = Some(Context::create_with(group, self.options())?);
            Ok(0)
        });
        if let Some(context) = made {
            self.call(RETRY, 1, || context.barrier().map(|()| 0));
            context.free().context("freeing the second context")?;
        }
        Ok(())
    }

    /// Makes a call and records its beginning and its end.
    fn call(&self, stage: usize, call: usize, act: impl FnOnce() -> Result<u64, Error>) -> Outcome {
        self.note(&Entry::Begin(stage, call));
        let outcome = match act() {
            Ok(value) => Outcome::Good(value),
            Err(error) => outcome_of(&error),
        };
        self.note(&Entry::End(stage, call, outcome.clone()));
        outcome
    }

    /// Makes a call in which members meet, and expels at once the dead members that it names.
    /// Returns true if the call succeeded.
    fn meet(
        &self,
        context: &Context,
        stage: usize,
        call: usize,
        act: impl FnOnce() -> Result<u64, Error>,
    ) -> Result<bool> {
        let outcome = self.call(stage, call, act);
        if let Outcome::Dead(names) = &outcome {
            self.bury(context, names)?;
        }
        Ok(matches!(outcome, Outcome::Good(_)))
    }

    fn bury(&self, context: &Context, names: &[usize]) -> Result<()> {
        for &name in names {
            match context.binding_of(name) {
                Err(Error::DeadMember { .. }) => {}
                other => bail!("the binding of {name}, who is dead, is {other:?}"),
            }
            context.expel(name).with_context(|| format!("expelling {name}"))?;
        }
        match context.ranks_on(ObjectType::Machine, 0) {
            Ok(ranks) => {
                let risen: Vec<&usize> = ranks.iter().filter(|rank| names.contains(rank)).collect();
                ensure!(risen.is_empty(), "{risen:?}, who are dead, are on the machine");
            }
            // Another member has died in the meantime.
            Err(Error::DeadMember { ranks, .. }) if !ranks.iter().any(|r| names.contains(r)) => {}
            Err(error) => bail!("who is on the machine: {error}"),
        }
        Ok(())
    }

    fn check_nobody_else_is_taken_for_dead(&self, context: &Context) {
        let dead = context.dead_node_ranks();
        let may_be = |member| self.plan.fate.is_end() && self.plan.strike_at(member).is_some();
        if !dead.iter().all(|&member| may_be(member)) {
            self.complain(&format!("takes {dead:?} for dead"));
        }
    }

    fn perform(&self, context: &Context, stage: usize) -> Result<()> {
        let meet = |call, act: &mut dyn FnMut() -> Result<u64, Error>| {
            self.meet(context, stage, call, act)
        };
        match &self.plan.stages[stage] {
            Stage::Create | Stage::Free => {}
            Stage::Barrier => {
                meet(0, &mut || context.barrier().map(|()| 0))?;
            }
            Stage::Timed { limit } => {
                meet(0, &mut || context.barrier_timeout(*limit).map(|()| 0))?;
            }
            Stage::Part(part) => {
                let part = &self.plan.parts[*part];
                if part.contains(&self.number) {
                    meet(0, &mut || {
                        context.named_barrier(PART_NAMES[0], part)?.wait().map(|()| 0)
                    })?;
                }
            }
            Stage::AllocateAmong(part) => {
                let part = &self.plan.parts[*part];
                if part.contains(&self.number) {
                    meet(0, &mut || Ok(context.allocate_among(part, 64)?.all().len() as u64))?;
                }
            }
            Stage::Push(push) => {
                let target = match *push {
                    Push::Enclosing(kind) => Target::Enclosing(kind),
                    Push::Object(kind, index) => {
                        Target::Object(kind, index % context.count(kind).max(1))
                    }
                };
                self.call(stage, 0, || context.push(&target).map(|_| 0));
            }
            Stage::Pop => drop(self.call(stage, 0, || context.pop().map(|()| 0))),
            Stage::Distribute(kind, most) => {
                meet(0, &mut || {
                    let plan = context.distribute(*kind, *most, Policy::Spread)?;
                    Ok(plan.selected().iter().fold(0, |all, rank| all | 1 << rank))
                })?;
            }
            Stage::Phase(kind) => self.phase(context, stage, *kind)?,
            Stage::RunOn(elements) => self.run_on(context, stage, *elements)?,
            Stage::Allocate(bytes) => {
                meet(0, &mut || Ok(context.allocate(*bytes)?.all().len() as u64))?;
            }
            // No member is expelled from the group under the context.
            Stage::Group => {
                self.call(stage, 0, || Ok(context.group_over(ObjectType::Machine)?.size() as u64));
            }
            Stage::Lend(lenders) => {
                self.lend_or_borrow(context, stage, lenders);
                meet(0, &mut || context.barrier().map(|()| 0))?;
            }
            Stage::Away { who, barriers } => {
                let meets = |call| {
                    self.meet(context, stage, call, || context.barrier().map(|()| 0)).map(drop)
                };
                self.trip(context, stage, who, 1, *barriers, meets)?;
            }
            Stage::Churn { who, times, barriers } => {
                let limit = Duration::from_millis(5);
                let meets = |call| {
                    let act = || context.barrier_timeout(limit).map(|()| 0);
                    self.meet(context, stage, call, act).map(drop)
                };
                self.trip(context, stage, &[*who], *times, *barriers, meets)?;
            }
        }
        Ok(())
    }

    fn phase(&self, context: &Context, stage: usize, kind: ObjectType) -> Result<()> {
        let mut phase = None;
        let planned = self.meet(context, stage, 0, || {
            phase = Some(context.phase(PhaseSpec::over(kind).max_per_object(1))?);
            Ok(0)
        })?;
        if let (true, Some(phase)) = (planned, phase) {
            self.meet(context, stage, 1, || phase.run(|_| ()).map(|_| 0))?;
        }
        Ok(())
    }

    /// Runs a phase that adds one to every rank's numbers, whichever rank works on them.
    fn run_on(&self, context: &Context, stage: usize, elements: usize) -> Result<()> {
        let (mut phase, mut field) = (None, None);
        let planned = self.meet(context, stage, 0, || {
            phase = Some(context.phase(PhaseSpec::over(ObjectType::Machine))?);
            Ok(0)
        })?;
        let made = planned
            && self.meet(context, stage, 1, || {
                field = Some(context.remap::<u64>(elements)?);
                Ok(0)
            })?;
        let (true, Some(phase), Some(mut field)) = (made, phase, field) else { return Ok(()) };
        let mine = vec![self.number as u64; elements];
        field.load(&mine)?;
        let ran = self.meet(context, stage, 2, || {
            phase
                .run_on(&mut field, |_, numbers| numbers.iter_mut().for_each(|number| *number += 1))
                .map(|_| 0)
        })?;
        let raised = |numbers: &[u64]| numbers.iter().all(|&n| n == self.number as u64 + 1);
        if ran {
            ensure!(raised(field.local()?), "a phase has not worked on all numbers");
        }
        Ok(())
    }

    /// Lends at times, or borrows and checks that no other member has the same CPUs.
    fn lend_or_borrow(&self, context: &Context, stage: usize, lenders: &[usize]) {
        let key = [self.plan.seed, self.plan.round, stage as u64, self.number as u64, 78];
        let mut dice = Dice::new(&key);
        let mut pause = || spin(dice.moment(Duration::from_micros(100)));
        self.call(stage, LOCAL, || {
            for _ in 0..6 {
                if lenders.contains(&self.number) {
                    context.lend_while(&mut pause)?;
                } else {
                    let borrowed = context.borrow()?;
                    self.look_at(borrowed.cpus());
                    pause();
                    let _ = borrowed.is_wanted();
                    let _ = self.world.board.set(self.number, Column::Borrowed, 0);
                    borrowed.give_back()?;
                }
                pause();
            }
            Ok(0)
        });
    }

    /// Puts what this member has borrowed on the board, and compares it with the other living
    /// members.
    fn look_at(&self, cpus: &quo::CpuSet) {
        let own = cpus.as_words().first().copied().unwrap_or(0);
        if let Err(error) = self.world.board.set(self.number, Column::Borrowed, own) {
            return self.complain(&format!("{error:#}"));
        }
        let others = (0..self.plan.members).filter(|&other| other != self.number);
        for other in others.filter(|&other| self.plan.strike_at(other).is_none()) {
            let theirs = self.world.board.get(other, Column::Borrowed).unwrap_or(0);
            if own & theirs != 0 {
                self.complain(&format!("has borrowed {own:#x} beside {theirs:#x} of {other}"));
            }
        }
    }

    /// Some members leave and rejoin while the others meet; no member continues until all are back.
    fn trip(
        &self,
        context: &Context,
        stage: usize,
        who: &[usize],
        times: usize,
        barriers: usize,
        meets: impl Fn(usize) -> Result<()>,
    ) -> Result<()> {
        let (done, back) = (2 * stage as u64, 2 * stage as u64 + 1);
        let reached = |progress| self.world.board.set(self.number, Column::Progress, progress);
        if !who.contains(&self.number) {
            (0..barriers).try_for_each(meets)?;
            reached(done)?;
            return self.world.await_progress(who, back);
        }
        let mut dice = Dice::new(&[self.plan.seed, self.plan.round, stage as u64, 77]);
        let detach = |turn| {
            self.call(stage, local_call(turn, false), || context.detach().map(u64::from));
        };
        let attach = |turn| {
            self.call(stage, local_call(turn, true), || context.attach().map(u64::from));
        };
        for turn in 0..times - 1 {
            detach(turn);
            spin(dice.moment(Duration::from_micros(300)));
            attach(turn);
            spin(dice.moment(Duration::from_micros(300)));
        }
        detach(times - 1);
        let others: Vec<usize> =
            (0..self.plan.members).filter(|member| !who.contains(member)).collect();
        self.world.await_progress(&others, done)?;
        attach(times - 1);
        // Leaving the node left these barriers as well; from here on the others count on this
        // member again.
        self.call(stage, BACK, || {
            for part in self.plan.parts.iter().filter(|part| part.contains(&self.number)) {
                for name in PART_NAMES {
                    drop(context.named_barrier(name, part)?);
                }
            }
            Ok(0)
        });
        reached(back)?;
        self.world.await_progress(who, back)
    }
}

/// Passes time without sleeping.
pub fn spin(time: Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn outcome_of(error: &Error) -> Outcome {
    match error {
        Error::DeadMember { ranks, .. } | Error::Group(GroupError::Dead { ranks, .. }) => {
            Outcome::Dead(ranks.clone())
        }
        Error::Node(NodeError::DeadMember { members, .. }) => Outcome::Dead(members.clone()),
        error if error.kind() == ErrorKind::Timeout => Outcome::TimedOut,
        error => Outcome::Other(error.to_string()),
    }
}

/// Sets the variables that simulate a machine.
pub fn set_machine(machine: Machine) {
    let (topology, binding) = match machine {
        Machine::Live => (None, None),
        Machine::Simulated { topology, binding } => (Some(topology), Some(binding)),
    };
    process::set_variable("QUO_TOPOLOGY", topology);
    process::set_variable("QUO_BINDING", binding);
}
