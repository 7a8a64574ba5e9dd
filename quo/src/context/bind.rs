//! Pushes and pops of this rank's binding.

use std::sync::{Arc, MutexGuard, PoisonError};

use memprof_hooks::{Origin, Region};

use super::Context;
use super::state::{Bindings, Shared};
use crate::affinity::{Aim, BindError, Target};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::node::NodeError;

impl Bindings {
    /// Publishes this rank's mask; does nothing on a rank that is detached.
    pub(super) fn publish(&self, mask: &CpuSet) -> Result<(), Error> {
        match self.node.publish_mask(mask) {
            Err(NodeError::Left) => Ok(()),
            result => {
                self.node.publish_pushes(self.depth());
                Ok(result?)
            }
        }
    }

    /// Returns the number of this rank's own pushes.
    pub(super) fn depth(&self) -> usize {
        self.stack.depth().saturating_sub(self.base)
    }

    /// Binds this rank inside its allowed CPUs, beneath all pushes: to the part of its mask that is
    /// allowed, or to all allowed CPUs if there is none. `unbound` decides by the mask whether the
    /// rank was not bound.
    pub(super) fn enter(&mut self, unbound: impl FnOnce(&CpuSet) -> bool) -> Result<(), Error> {
        let allowed = self.own.allowed();
        let cpus = self.stack.push_with(|now| {
            let inside = now.intersection(allowed);
            let cpus = if inside.is_empty() { allowed.clone() } else { inside };
            Ok::<_, BindError>(Aim { cpus, unbound: unbound(now), confines: true })
        })?;
        self.base = 1;
        self.publish(&cpus)
    }

    /// Restores the binding that this rank had before it [entered](Self::enter).
    pub(super) fn leave(&mut self) -> Result<(), Error> {
        if self.base == 0 {
            return Ok(());
        }
        self.base = 0;
        let mask = self.stack.pop()?;
        self.publish(&mask)
    }

    /// Keeps this rank inside its currently allowed CPUs once nothing is pushed. Refusals of the
    /// kernel are ignored: later pushes report them.
    pub(super) fn keep_confined(&mut self) {
        self.unsettled = self.depth() > 0;
        if !self.unsettled && self.leave().is_ok() && self.confined {
            let _ = self.enter(|_| false);
        }
    }

    fn require_steady(&self, call: &'static str) -> Result<(), Error> {
        if !self.adapting {
            return Ok(());
        }
        let reason = "another thread of this rank adapts the context".to_owned();
        Err(Error::Busy { call, reason })
    }
}

impl Shared {
    pub(super) fn regions(&self) -> MutexGuard<'_, Vec<Region>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    /// Binds the caller, and every thread that has the caller's mask, to `target`, and saves the
    /// previous mask. Threads with a different mask stay where they are, and so do threads that
    /// last pushed in another context. Returns the CPUs bound to; for an object, its currently
    /// allowed CPUs. Local; threads may push and pop at the same time, also in different contexts.
    ///
    /// # Errors
    /// [`Error::Bind`], also if no allowed CPU is left; the bindings are unchanged.
    ///
    /// ```no_run
    /// # fn example(context: &quo::Context) -> Result<(), quo::Error> {
    /// use quo::affinity::Target;
    /// use quo::topology::ObjectType;
    /// let cpus = context.push(&Target::Object(ObjectType::Package, 0))?;
    /// assert_eq!(context.binding()?, cpus);
    /// context.pop()
    /// # }
    /// ```
    #[doc(alias = "QUO_bind_push")]
    pub fn push(&self, target: &Target) -> Result<CpuSet, Error> {
        self.push_as(target, || {
            let name = match target {
                Target::Object(kind, _) | Target::Enclosing(kind) => format!("quo push {kind}"),
                Target::Cpus(_) => "quo push cpus".to_owned(),
            };
            Region::begin(&name, Origin::Quo)
        })
    }

    /// Pushes for a phase, which is a region of the memory profile itself.
    pub(crate) fn push_in_phase(&self, target: &Target) -> Result<CpuSet, Error> {
        self.push_as(target, || Region::NONE)
    }

    fn push_as(&self, target: &Target, region: impl FnOnce() -> Region) -> Result<CpuSet, Error> {
        self.check("push")?;
        let mut bindings = self.shared.bindings();
        bindings.require_steady("push")?;
        let first = bindings.stack.depth() == 0;
        let Bindings { stack, own, .. } = &mut *bindings;
        let cpus = stack.push_with(|now| {
            if !target.asked(own, now)?.is_subset(own.allowed()) {
                // The rank may have been given CPUs since.
                if let Some(newer) = self.state().machine().own_now(own) {
                    *own = Arc::new(newer);
                }
            }
            let cpus = target.resolve(own, now)?;
            // A rank that started bound is bound, even if it has all remaining allowed CPUs.
            let unbound = first && self.has_all_of_its_own_accord(now);
            Ok::<_, Error>(Aim { cpus, unbound, confines: false })
        })?;
        if let Err(error) = bindings.follow(&cpus) {
            bindings.stack.pop()?;
            return Err(error);
        }
        if Region::are_recorded() {
            self.shared.regions().push(region());
        }
        bindings.publish(&cpus)?;
        Ok(cpus)
    }

    /// Returns true if a rank with this mask, which has pushed nothing, was not bound by its launcher.
    pub(super) fn has_all_of_its_own_accord(&self, mask: &CpuSet) -> bool {
        let state = self.state();
        let machine = state.machine();
        state.unbound && machine.allowed_recently().is_ok_and(|all| all.is_subset(mask))
    }

    /// Counts a phase that this rank enters: the set of ranks is fixed until the phase ends.
    pub(crate) fn open_phase(&self) -> Result<(), Error> {
        let mut bindings = self.shared.bindings();
        bindings.require_steady("phase")?;
        if bindings.stack.restore_owed() {
            let mask = bindings.stack.current()?;
            bindings.publish(&mask)?;
        }
        bindings.open_phases += 1;
        Ok(())
    }

    pub(crate) fn close_phase(&self) {
        let mut bindings = self.shared.bindings();
        bindings.open_phases = bindings.open_phases.saturating_sub(1);
    }

    /// Takes back the caller's last push in this context, or the last push of any thread if the
    /// caller has none: every thread that the push moved gets its previous mask back. Local.
    ///
    /// Several contexts, and several threads, may pop in any order. A thread that a later push has
    /// moved, in whichever context, keeps that push's mask until it is popped too; when all are
    /// popped, every thread has the mask from before the first.
    ///
    /// A rank that was not bound before the push is not bound after the pop: it gets all CPUs that
    /// are allowed then.
    ///
    /// If CPUs of the previous mask are no longer allowed, the threads get the rest of that mask,
    /// or all allowed CPUs if nothing is left; [`explain`](Self::explain) reports it. They get the
    /// mask itself at the next push, pop or phase after its CPUs are allowed again.
    ///
    /// # Errors
    /// [`Error::Bind`]; a pop without a push is [`BindError::NothingPushed`] and changes nothing.
    ///
    /// [`BindError::NothingPushed`]: crate::affinity::BindError::NothingPushed
    #[doc(alias = "QUO_bind_pop")]
    pub fn pop(&self) -> Result<(), Error> {
        self.check("pop")?;
        // Published under the stack's lock: of two concurrent calls, the later one's mask stays.
        let mut bindings = self.shared.bindings();
        if bindings.depth() == 0 {
            return Err(BindError::NothingPushed.into());
        }
        let mask = bindings.stack.pop()?;
        if Region::are_recorded() {
            self.shared.regions().pop();
        }
        bindings.publish(&mask)?;
        bindings.follow(&mask)?;
        if bindings.unsettled {
            bindings.keep_confined();
        }
        Ok(())
    }

    /// Like [`push`](Self::push), returning a guard that pops when it goes out of scope. Local.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_guard(&self, target: &Target) -> Result<BindGuard<'_>, Error> {
        let cpus = self.push(target)?;
        Ok(BindGuard { context: self, cpus, popped: false })
    }

    /// Returns the number of pushes not yet popped. Local.
    #[must_use]
    pub fn push_depth(&self) -> usize {
        self.shared.bindings().depth()
    }

    /// Describes the last push or pop if it was granted fewer CPUs than requested.
    pub(crate) fn shortfall(&self) -> Option<String> {
        let bindings = self.shared.bindings();
        bindings.stack.shortfall().map(|short| {
            let (call, asked, granted) = (short.call, &short.asked, &short.granted);
            format!("the last {call} was for CPUs {asked}, of which only {granted} are allowed now")
        })
    }

    /// Restores the binding that this rank had before it was confined to a scope or a limit.
    pub(super) fn leave_scope(&self) -> Result<(), Error> {
        self.shared.bindings().leave()
    }

    /// Pops all remaining pushes.
    pub(super) fn unwind(&self) -> Result<(), Error> {
        while self.push_depth() > 0 {
            self.pop()?;
        }
        Ok(())
    }
}

/// Guard of a pushed binding, which is popped when the guard goes out of scope.
#[derive(Debug)]
#[must_use = "the binding is popped as soon as the guard is dropped"]
pub struct BindGuard<'a> {
    context: &'a Context,
    cpus: CpuSet,
    popped: bool,
}

impl BindGuard<'_> {
    /// Returns the CPUs bound to.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Pops now and returns errors, which the drop cannot.
    ///
    /// # Errors
    /// As [`Context::pop`].
    pub fn pop(mut self) -> Result<(), Error> {
        self.popped = true;
        self.context.pop()
    }
}

impl Drop for BindGuard<'_> {
    fn drop(&mut self) {
        if !self.popped {
            let _ = self.context.pop();
        }
    }
}
