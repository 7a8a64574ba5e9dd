//! Life of a phase: select, push, set threads, run, reset, pop, wake.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use memprof_hooks::{Lent, Origin, Region};

use super::exclusive::{Held, Sharing};
use super::openmp::Teams;
use super::pinning::Pins;
use super::plan::{Assignment, PhaseSpec, assignments, cap_threads, deal};
use super::remap::{Plain, Remap};
use crate::affinity::Target;
use crate::context::overlap::overlap;
use crate::context::{Context, Machine, Operation, Request, Selection, State};
use crate::cpuset::CpuSet;
use crate::error::{Error, ErrorKind};
use crate::metrics::PhaseMetrics;
use crate::node::Push;
use crate::plan::{Policy, Vacancy};
use crate::threading::Saved;

/// Planned phase: which ranks work, on which CPUs, for which ranks. Can be run any number of times.
#[derive(Debug)]
pub struct Phase<'a> {
    context: &'a Context,
    pub(super) plan: PhasePlan,
}

/// Plan of a phase without its context: for libraries that keep their context and their plans
/// separately ([`Context::phase_of`]), and for bindings to other languages, which pair
/// [`Context::enter_phase`] and [`Context::leave_phase`] themselves.
///
/// If the ranks of the context have [changed](Context::adapt), or the CPUs that ranks of the node
/// may use, the next run makes a new plan. CPUs are checked at most once a millisecond.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    pub(super) spec: PhaseSpec,
    /// Number of the context whose ranks are planned for.
    context: u64,
    parts: Arc<Mutex<Parts>>,
    /// Threads that pin themselves in a run.
    pub(super) pins: Pins,
    /// Time of the selection, until a run has reported it.
    select_nanoseconds: Arc<AtomicU64>,
}

/// Part of each rank, among the ranks at the time of planning.
#[derive(Clone, Debug)]
struct Parts {
    /// Ranks and machine of the context for which the plan was made.
    made_for: MadeFor,
    assignments: Arc<[Option<Assignment>]>,
    node_rank: usize,
}

/// Ranks and machine for which a plan is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MadeFor {
    /// Number of the context's state.
    ranks: u64,
    /// Edition of its machine.
    machine: u64,
}

impl MadeFor {
    fn new(state: &State, machine: &Machine) -> Self {
        Self { ranks: state.number, machine: machine.basis.edition }
    }
}

impl Parts {
    fn own(&self) -> Option<&Assignment> {
        self.assignments.get(self.node_rank)?.as_ref()
    }
}

impl PhasePlan {
    /// Returns this rank's part, `None` for a rank that sleeps through the phase.
    #[must_use]
    pub fn assignment(&self) -> Option<Assignment> {
        self.parts().own().cloned()
    }

    /// Returns the parts of all node ranks.
    #[must_use]
    pub fn assignments(&self) -> Arc<[Option<Assignment>]> {
        Arc::clone(&self.parts().assignments)
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        // Replaced as a whole.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of the phase.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }
}

/// Argument of a worker's closure.
pub type Worker = Assignment;

/// Result of a run of a phase on this rank.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome<R> {
    /// The closure's result, on workers.
    pub value: Option<R>,
    /// Times of the run.
    pub metrics: PhaseMetrics,
}

/// Phase in progress on this rank, between entering and leaving.
#[derive(Debug)]
#[must_use = "a phase that is entered has to be left, the other ranks are waiting"]
pub struct Entered {
    /// True if the context counts the phase as open.
    open: bool,
    /// This rank's part.
    pub(super) part: Option<Assignment>,
    pushed: bool,
    pub(super) saved: Option<Saved>,
    /// OpenMP threads of the phase.
    pub(super) teams: Teams,
    at: Instant,
    started_at: u64,
    failed: Option<Error>,
    remap_seconds: f64,
    /// CPUs that other processes have pushed too.
    overlap: CpuSet,
    /// Hardware of the phase's workers on this node, held by the first of them.
    held: Held,
    /// Region of the memory profile, until every rank has reached the end.
    region: Region,
}

impl Entered {
    /// Returns this rank's part in this run; `None` for a rank that sleeps through it.
    #[must_use]
    pub fn assignment(&self) -> Option<&Assignment> {
        self.part.as_ref()
    }

    /// Returns true if this rank is bound as its part of the phase requires, so that it may work.
    /// Returns false for a rank that sleeps, and for a worker that could not be bound;
    /// [`leave_phase`](Context::leave_phase) reports the latter on all ranks.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.pushed
    }
}

impl Context {
    /// Plans a phase: selects the workers. Collective over the node.
    ///
    /// # Errors
    /// As [`distribute`](Self::distribute).
    pub fn phase(&self, spec: PhaseSpec) -> Result<Phase<'_>, Error> {
        Ok(Phase { context: self, plan: self.plan_phase(spec)? })
    }

    /// Like [`phase`](Self::phase), returning a value that does not borrow the context.
    ///
    /// # Errors
    /// As [`distribute`](Self::distribute).
    pub fn plan_phase(&self, spec: PhaseSpec) -> Result<PhasePlan, Error> {
        let start = Instant::now();
        let parts = self.plan_parts(&spec)?;
        Ok(PhasePlan {
            spec,
            context: self.number(),
            parts: Arc::new(Mutex::new(parts)),
            pins: Pins::default(),
            select_nanoseconds: Arc::new(AtomicU64::new(nanoseconds_since(start))),
        })
    }

    fn plan_parts(&self, spec: &PhaseSpec) -> Result<Parts, Error> {
        let over = spec.over_on(&self.topology());
        let request =
            Request { kind: Some(over), max_per_object: spec.max_per_object, policy: spec.policy };
        let Selection { plan, masks, state, machine } = self.select(&request, spec.cores as u8)?;
        let mut plan = Arc::unwrap_or_clone(plan);
        let (objects, topology) = (machine.cpusets(over), &machine.topology);
        let left = state.left_by_others(&masks);
        let vacancy = Vacancy {
            objects,
            allowed: topology.allowed(),
            masks: &masks,
            left: &left,
            max_per_object: usize::try_from(spec.max_per_object).unwrap_or(1),
        };
        let unserved = match spec.policy {
            // An exact libquo selection is not changed; objects without a worker are still dealt
            // out.
            Policy::LibquoCompat => vacancy.objects(),
            _ => vacancy.reassign_vacant_objects(&mut plan),
        };
        let mut assignments = assignments(&plan, objects, topology, spec.cores);
        let unserved = unserved.into_iter().filter(|&object| plan.workers_on(object).is_empty());
        let unserved = unserved.map(|object| &objects[object]);
        deal(&mut assignments, unserved, topology, spec.cores);
        if !topology.is_simulated() {
            cap_threads(&mut assignments, &state.quotas());
        }
        let node_rank = state.node_rank();
        if spec.sharing != Sharing::Overlap {
            require_disjoint(&assignments)?;
        }
        if let (Some(part), Some(object)) = (&mut assignments[node_rank], plan.object_of[node_rank])
        {
            *part = part.clone().within(&machine.allowed, &objects[object]);
        }
        let made_for = MadeFor::new(&state, &machine);
        Ok(Parts { made_for, assignments: assignments.into(), node_rank })
    }

    /// Returns this rank's part of a plan; makes a new plan if the ranks or their CPUs have
    /// changed.
    fn part_of(&self, plan: &PhasePlan) -> Result<Option<Assignment>, Error> {
        if plan.context != self.number() {
            let reason = "the phase was planned in another context".to_owned();
            return Err(Error::InvalidArgument { call: "phase", reason });
        }
        self.renew_machine()?;
        let made_for = {
            let state = self.state();
            MadeFor::new(&state, &state.machine())
        };
        if plan.parts().made_for != made_for {
            let start = Instant::now();
            let parts = self.plan_parts(&plan.spec)?;
            *plan.parts() = parts;
            plan.select_nanoseconds.fetch_add(nanoseconds_since(start), Ordering::Relaxed);
        }
        Ok(plan.assignment())
    }

    /// Takes the hardware of a phase that must not overlap with others, on the first worker of the
    /// node, and informs all ranks. Returns the hardware held here, and this rank's part of it.
    /// Collective over the node.
    fn hold(
        &self,
        plan: &PhasePlan,
        part: Result<Option<Assignment>, Error>,
    ) -> Result<(Held, Option<Assignment>), Error> {
        const CALL: &str = "phase";
        if plan.spec.sharing == Sharing::Overlap || self.topology().is_simulated() {
            return Ok((Held::default(), part?));
        }
        let start = Instant::now();
        let (mut held, mut own) = (Held::default(), None);
        let cpus = part.and_then(|part| {
            own = part;
            let (assignments, node_rank) = {
                let parts = plan.parts();
                (Arc::clone(&parts.assignments), parts.node_rank)
            };
            if assignments.iter().position(Option::is_some) == Some(node_rank) {
                let workers: Vec<&CpuSet> =
                    assignments.iter().flatten().map(Assignment::cpus).collect();
                let limit = plan.spec.sharing_limit.unwrap_or_else(|| self.create_timeout());
                held = Held::take(&workers, plan.spec.sharing, limit)?;
            }
            Ok(held.cpus())
        });
        // A rank that holds nothing, or has failed, also takes part: the others wait here.
        let cpus = self.exchange_held(CALL, cpus)?;
        plan.select_nanoseconds.fetch_add(nanoseconds_since(start), Ordering::Relaxed);
        if let Some(own) = &mut own {
            own.narrow(&own.cpus().intersection(&cpus));
        }
        Ok((held, own))
    }

    /// Returns the phase of a plan that was made in this context before. Local.
    ///
    /// ```no_run
    /// # fn solve(_threads: usize) {}
    /// use quo::phase::PhasePlan;
    /// struct Library {
    ///     context: quo::Context,
    ///     plan: PhasePlan,
    /// }
    /// impl Library {
    ///     fn step(&self) -> Result<(), quo::Error> {
    ///         self.context.phase_of(&self.plan).run(|worker| solve(worker.threads()))?;
    ///         Ok(())
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn phase_of(&self, plan: &PhasePlan) -> Phase<'_> {
        Phase { context: self, plan: plan.clone() }
    }

    /// Starts a phase on this rank. A worker is bound to its CPUs and its threading libraries are
    /// set, unless the phase [keeps](super::Threads::Keep) their counts; other ranks do nothing. If
    /// a worker's OpenMP runtime gives fewer threads than planned, the worker has that number, and
    /// [`explain`](Self::explain) reports the reason. Must be followed by
    /// [`leave_phase`](Self::leave_phase), which returns any error. Local; collective over the node
    /// if the ranks have [changed](Self::adapt) since the plan was made, or the CPUs that ranks of
    /// the node may use, and for a phase that does not [overlap](Sharing::Overlap).
    #[doc(alias = "QUO_phase_begin")]
    pub fn enter_phase(&self, plan: &PhasePlan) -> Entered {
        let part = self.part_of(plan);
        let part = self.hold(plan, part);
        let at = Instant::now();
        let mut entered = Entered {
            open: false,
            part: None,
            pushed: false,
            saved: None,
            teams: Teams::default(),
            at,
            started_at: self.clock().now(),
            failed: None,
            remap_seconds: 0.0,
            overlap: CpuSet::new(),
            held: Held::default(),
            region: Region::begin(
                match plan.name() {
                    "" => "quo phase",
                    name => name,
                },
                Origin::Quo,
            ),
        };
        match self.open_phase() {
            Ok(()) => entered.open = true,
            Err(error) => entered.failed = Some(error),
        }
        match part {
            Ok((held, part)) => (entered.held, entered.part) = (held, part),
            Err(error) => entered.failed = Some(error),
        }
        let (Some(assignment), None) = (&mut entered.part, &entered.failed) else { return entered };
        match self.push_in_phase(&Target::Cpus(assignment.cpus().clone())) {
            Ok(cpus) => {
                entered.pushed = true;
                if cpus != *assignment.cpus() {
                    // CPUs were taken since the ranks decided: the worker uses the remaining ones.
                    assignment.narrow(&cpus);
                    self.request_renewal();
                }
                entered.overlap = self.overlap_of(assignment.cpus());
                self.start_threads(plan, &mut entered);
            }
            Err(error) => {
                self.request_renewal();
                entered.failed = Some(error);
            }
        }
        entered
    }

    /// Returns the CPUs of this rank's push that other processes have pushed in other contexts.
    fn overlap_of(&self, cpus: &CpuSet) -> CpuSet {
        let others = self.pushed_recently();
        if others.is_empty() {
            return CpuSet::new();
        }
        let state = self.state();
        let own = state.peer(state.node_rank()).map_or(0, |peer| peer.process.id);
        overlap(&Push { process: own, cpus: cpus.clone() }, &others)
    }

    /// Ends a phase: resets threads and binding on workers, then waits, asleep, until every rank of
    /// the node has arrived here. Collective over the node.
    ///
    /// # Errors
    /// The failure of this rank; [`Error::Agreed`] on all ranks if a worker failed in its part;
    /// [`Error::DeadMember`].
    #[doc(alias = "QUO_phase_end")]
    pub fn leave_phase(&self, plan: &PhasePlan, entered: Entered) -> Result<PhaseMetrics, Error> {
        self.end_phase(plan, entered, None)
    }

    /// Like [`leave_phase`](Self::leave_phase), on a rank whose work failed: the phase fails on all
    /// ranks of the node with [`ErrorKind::Work`] and `reason`, of which about 200 bytes are sent.
    /// Collective over the node, paired with `leave_phase` on the other ranks.
    ///
    /// # Errors
    /// [`Error::Agreed`] with the reason of the first rank that failed; [`Error::DeadMember`].
    #[doc(alias = "QUO_phase_fail")]
    pub fn leave_failed_phase(
        &self,
        plan: &PhasePlan,
        entered: Entered,
        reason: &str,
    ) -> Result<PhaseMetrics, Error> {
        self.end_phase(plan, entered, Some(reason))
    }

    fn end_phase(
        &self,
        plan: &PhasePlan,
        mut entered: Entered,
        broken: Option<&str>,
    ) -> Result<PhaseMetrics, Error> {
        const CALL: &str = "phase";
        let Entered {
            open,
            part,
            pushed,
            saved,
            teams,
            at,
            started_at,
            failed,
            remap_seconds,
            overlap,
            held,
            region: _region,
        } = &mut entered;
        let (pushed, at, started_at) = (*pushed, *at, *started_at);
        let (saved, failed, remap_seconds) = (saved.take(), failed.take(), *remap_seconds);
        let mut notes = Vec::new();
        // In a forked child the ids name threads of the parent.
        if self.check(CALL).is_ok() {
            notes = std::mem::take(&mut teams.notes);
            plan.pins.close();
            std::mem::take(teams).restore(self.backend());
        }
        drop(saved);
        let popped = if pushed { self.pop() } else { Ok(()) };
        let own = failed.map_or(popped, Err);
        let ran = at.elapsed().as_secs_f64();
        let waiting = Instant::now();
        let waited = self.wait_for_phase(CALL, broken, &own);
        // All workers have left their CPUs.
        drop(std::mem::take(held));
        if *open {
            self.close_phase();
        }
        let selected = part.as_ref();
        let select_nanoseconds = plan.select_nanoseconds.swap(0, Ordering::Relaxed);
        let before = select_nanoseconds + (remap_seconds * 1e9) as u64;
        let metrics = PhaseMetrics {
            name: plan.spec.name.clone(),
            rank: self.rank(),
            node_rank: self.node_rank(),
            selected: selected.is_some(),
            threads: selected.map_or(0, Assignment::threads),
            cpuset: selected.map(|part| part.cpus().clone()).unwrap_or_default(),
            overlap: std::mem::take(overlap),
            notes,
            started_at: started_at.saturating_sub(before),
            select_seconds: select_nanoseconds as f64 / 1e9,
            run_seconds: if selected.is_some() { ran } else { 0.0 },
            quiesced_seconds: waiting.elapsed().as_secs_f64(),
            remap_seconds,
        };
        self.record(&metrics);
        own.and(waited).map(|()| metrics)
    }

    fn wait_for_phase(
        &self,
        call: &'static str,
        broken: Option<&str>,
        own: &Result<(), Error>,
    ) -> Result<(), Error> {
        let state = self.state();
        let _lent = self.lend_if_asked(&state);
        let _marked = (self.wait() == crate::context::Wait::Futex).then(Lent::begin);
        // Waits in the selected way first; in the exchange all ranks are then present.
        if self.wait() != crate::context::Wait::Futex {
            self.barrier()?;
        }
        let trouble = match (broken, own) {
            (Some(text), _) => Some((ErrorKind::Work, text.to_owned())),
            (None, Err(error)) => Some((error.kind(), error.to_string())),
            (None, Ok(())) => None,
        };
        self.exchange_verdict(call, Operation::PhaseEnd, trouble)
    }
}

/// Refuses a plan in which workers share CPUs; the same on every rank.
fn require_disjoint(assignments: &[Option<Assignment>]) -> Result<(), Error> {
    let mut taken = CpuSet::new();
    for part in assignments.iter().flatten() {
        let both = taken.intersection(part.cpus());
        if !both.is_empty() {
            let reason = format!(
                "workers share the CPUs {both}, which one phase at a time is to have: ask for fewer \
                 workers per object"
            );
            return Err(Error::InvalidArgument { call: "phase", reason });
        }
        taken = taken.union(part.cpus());
    }
    Ok(())
}

fn nanoseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Phase<'_> {
    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &PhasePlan {
        &self.plan
    }

    /// Returns this rank's part, `None` for a rank that sleeps through the phase.
    #[must_use]
    pub fn assignment(&self) -> Option<Assignment> {
        self.plan.assignment()
    }

    /// Runs `work` on the workers while the other ranks of the node sleep. Returns on all ranks
    /// when all workers have finished. Collective over the node.
    ///
    /// Workers of several nodes may work together in `work`. However, a phase covers only its node:
    /// a worker whose binding fails does not run `work`, and workers on other nodes would wait for
    /// it there.
    ///
    /// The binding is popped, thread numbers are reset and the others are woken whatever `work`
    /// does: if it panics, the others get an error and the panic is resumed here.
    ///
    /// # Errors
    /// As [`Context::leave_phase`].
    ///
    /// ```no_run
    /// # fn solve(_threads: usize) -> f64 { 0.0 }
    /// # fn example(context: &quo::Context) -> Result<(), quo::Error> {
    /// use quo::phase::PhaseSpec;
    /// use quo::topology::ObjectType;
    /// let phase = context.phase(PhaseSpec::over(ObjectType::Package).name("solve"))?;
    /// for _step in 0..100 {
    ///     let outcome = phase.run(|worker| solve(worker.threads()))?;
    ///     if let Some(residual) = outcome.value {
    ///         // only on workers
    /// #       let _ = residual;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<R>(&self, work: impl FnOnce(&Worker) -> R) -> Result<Outcome<R>, Error> {
        let entered = self.context.enter_phase(&self.plan);
        self.finish(entered, work)
    }

    /// Like [`run`](Self::run), with data: each worker gets the parts of the ranks it serves as one
    /// slice, in node-shared memory, without a copy. Collective over the node.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_on<T: Plain, R>(
        &self,
        field: &mut Remap<T>,
        work: impl FnOnce(&Worker, &mut [T]) -> R,
    ) -> Result<Outcome<R>, Error> {
        let start = Instant::now();
        // No rank may read before all have written, nor work on an array of other ranks.
        let trouble = field
            .trouble(self.context.state().number)
            .map(|reason| (ErrorKind::InvalidArgument, reason.to_owned()));
        self.context.exchange_verdict("phase", Operation::PhaseBegin, trouble)?;
        let synchronised = start.elapsed().as_secs_f64();
        let mut entered = self.context.enter_phase(&self.plan);
        entered.remap_seconds = field.take_seconds() + synchronised;
        let result = self.finish(entered, |worker| work(worker, field.part_of(worker.ranks())));
        // If another rank failed, all have reached the end; otherwise some may still be at work.
        if result.as_ref().is_err_and(|error| !matches!(error, Error::Agreed { .. })) {
            field.abandon();
        }
        result
    }

    fn finish<R>(
        &self,
        entered: Entered,
        work: impl FnOnce(&Worker) -> R,
    ) -> Result<Outcome<R>, Error> {
        let assignment = entered.part.clone().filter(|_| entered.failed.is_none());
        let Some(worker) = assignment else {
            let metrics = self.context.end_phase(&self.plan, entered, None)?;
            return Ok(Outcome { value: None, metrics });
        };
        match catch_unwind(AssertUnwindSafe(|| work(&worker))) {
            Ok(value) => {
                let metrics = self.context.end_phase(&self.plan, entered, None)?;
                Ok(Outcome { value: Some(value), metrics })
            }
            Err(panic) => {
                let text = "the work of the phase panicked";
                let _ = self.context.end_phase(&self.plan, entered, Some(text));
                resume_unwind(panic)
            }
        }
    }
}
