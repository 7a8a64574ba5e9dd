//! Threads of a bound worker: their number in every library, and their places.

use super::openmp::{On, Teams};
use super::pinning::places;
use super::plan::Threads;
use super::run::{Entered, Phase, PhasePlan};
use crate::context::Context;
use crate::error::Error;

impl Context {
    /// Sets the thread counts of a bound worker, and places its threads.
    pub(super) fn start_threads(&self, plan: &PhasePlan, entered: &mut Entered) {
        let Some(assignment) = &mut entered.part else { return };
        let topology = self.topology();
        let backend = Some(self.shared_backend()).filter(|_| !topology.is_simulated());
        let pinning = plan.spec.pinning;
        if plan.spec.threads == Threads::Follow {
            let threads = assignment.threads();
            let saved = self.thread_controls().set(threads);
            let places = || {
                let before = self.pushed().pop().map(|(before, _)| before);
                (places(&topology, assignment.cpus()), before.unwrap_or_default())
            };
            let backend = backend.as_deref();
            let on = On { backend, cpus: assignment.cpus(), pinning, places: &places };
            entered.teams = Teams::by_phase(&on, saved.openmp_runtimes(), threads);
            self.note_threads(plan.name(), &entered.teams.notes);
            entered.saved = Some(saved);
            assignment.limit_threads(entered.teams.threads);
        }
        plan.pins.open(backend, pinning, topology, assignment.cpus().clone());
    }
}

impl PhasePlan {
    /// Binds the calling thread, number `number` of the `count` threads that work at once, to one
    /// of the worker's CPUs until the run of the phase ends. The order is that of the phase's
    /// [`Pinning`](super::Pinning), otherwise close. For threads of inner teams and of other pools;
    /// each thread calls it in the region. With 2 outer and 3 inner threads, pass `outer * 3 +
    /// inner` of 6. If there are more threads than CPUs, they share them. Local; any thread of a
    /// working rank. Without effect on a simulated machine.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a number that is not below `count`, and on a rank that does
    /// not work in a run now; [`Error::Bind`].
    #[doc(alias = "QUO_phase_pin_thread")]
    pub fn pin_thread(&self, number: usize, count: usize) -> Result<(), Error> {
        self.pins.pin(self.name(), number, count)
    }
}

impl Phase<'_> {
    /// As [`PhasePlan::pin_thread`].
    ///
    /// # Errors
    /// As [`PhasePlan::pin_thread`].
    pub fn pin_thread(&self, number: usize, count: usize) -> Result<(), Error> {
        self.plan.pin_thread(number, count)
    }
}
