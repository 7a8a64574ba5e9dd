//! The same context over other ranks: adapting, joining, leaving the world.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memprof_hooks::Region;

use super::Context;
use super::handshake::{Established, LOOK, Participant, handshake, limit, next_number};
use super::record::Role;
use super::state::{Shared, State};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::group::{Group, GroupError};

/// Options of an adaptation.
///
/// ```
/// use quo::context::AdaptOptions;
/// let options = AdaptOptions::new().with_unwinding(true);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct AdaptOptions {
    unwind: bool,
    timeout: Option<Duration>,
}

impl AdaptOptions {
    /// Returns the default options: no binding may be pushed, and the time limit is that of the
    /// context's creation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Pops this rank's pushes, which are otherwise a reason to refuse. If the adaptation fails,
    /// they are pushed again.
    pub fn with_unwinding(mut self, unwind: bool) -> Self {
        self.unwind = unwind;
        self
    }

    /// Sets the time to wait for missing ranks.
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

impl Context {
    /// Switches to the ranks of another group: this handle has its ranks, nodes and barriers from
    /// now on, and phases are planned again for them. Collective over the new group: ranks that
    /// have the context, including [retired](Self::retire) ones, call this; the others
    /// [`join`](Self::join) or create theirs over the same group. Ranks that are not in the new
    /// group have to retire.
    ///
    /// The binding, the clock of metrics, thread controls and the trace are kept. The machine is
    /// read again if its allowed part has changed. Objects made over the old ranks keep their
    /// meaning: a [named barrier](Self::named_barrier) waits for those of its ranks that still hold
    /// it, and shared memory exists until the last holder drops it. A [plan of a
    /// phase](crate::phase::PhasePlan) is renewed in its next run, which is then collective over
    /// the node: joiners plan theirs at that point. Nothing else is left of the old ranks: neither
    /// their masks nor, once it has no holder, their segment. A rank that had
    /// [detached](Self::detach) is a member of the new node like all others.
    ///
    /// # Errors
    /// Every rank adapts, or every rank of the new group gets an error and keeps its old state:
    /// [`Error::Agreed`] with the cause of the first rank that could not adapt, such as
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) while a phase is open, bindings are pushed, or
    /// another thread waits for ranks in a call of this context; as
    /// [`create_with`](Self::create_with) for the rest. A rank that does not take part is an error
    /// after the time limit.
    ///
    /// ```no_run
    /// # fn example(context: &quo::Context, grown: impl quo::group::Group) -> Result<(), quo::Error> {
    /// context.adapt(grown)?;
    /// context.barrier()?; // of all ranks that there are now
    /// # Ok(())
    /// # }
    /// ```
    pub fn adapt(&self, group: impl Group) -> Result<(), Error> {
        self.adapt_with(group, &AdaptOptions::new())
    }

    /// Like [`adapt`](Self::adapt), with options, which each rank chooses for itself.
    ///
    /// # Errors
    /// As [`adapt`](Self::adapt).
    pub fn adapt_with(&self, group: impl Group, options: &AdaptOptions) -> Result<(), Error> {
        self.shared.adapt(Arc::new(group), options)
    }

    /// Leaves the world of this context but keeps the handle: barriers and plans of the other ranks
    /// no longer wait for this rank, and from their next [`adapt`](Self::adapt) on it is not among
    /// them. Calls that need other ranks are refused, queries and pushes still work; the group is
    /// released. Local. Retiring again does nothing; [`adapt`](Self::adapt) over a group with this
    /// rank brings the rank back.
    ///
    /// # Errors
    /// [`Error::Busy`] while a phase is open, bindings are pushed, or another thread waits for other
    /// ranks; nothing has changed then.
    #[doc(alias = "leave")]
    pub fn retire(&self) -> Result<(), Error> {
        self.shared.retire()
    }

    /// Returns true if this rank has [left the world](Self::retire) and not returned. Local.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.shared.state().retired
    }
}

/// Reservation of a [retirement](Context::retire) that is known to be possible: until the rank
/// retires, or this is dropped, no operation can start in the context that would prevent it.
#[derive(Debug)]
#[must_use]
pub struct Leaving {
    shared: Arc<Shared>,
}

impl Leaving {
    pub(super) fn begin(shared: Arc<Shared>) -> Result<Self, Error> {
        const CALL: &str = "retire";
        shared.check(CALL)?;
        let changing = Changing::begin(&shared);
        if !shared.state().retired || !changing.first {
            changing.allowed(CALL, false)?;
        }
        // The reservation continues in the returned value.
        std::mem::forget(changing);
        Ok(Self { shared })
    }

    /// Retires like [`Context::retire`]. Local.
    ///
    /// # Errors
    /// In a forked child.
    pub fn retire(self) -> Result<(), Error> {
        let retired = {
            let state = self.shared.state();
            if state.retired {
                return Ok(());
            }
            state.node.retire()?;
            state.retired(next_number())
        };
        drop(self.shared.replace(retired));
        Ok(())
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.shared.bindings().adapting = false;
    }
}

impl Shared {
    pub(super) fn retire(self: &Arc<Self>) -> Result<(), Error> {
        Leaving::begin(Arc::clone(self))?.retire()
    }

    pub(super) fn adapt(&self, group: Arc<dyn Group>, options: &AdaptOptions) -> Result<(), Error> {
        const CALL: &str = "adapt";
        self.check(CALL)?;
        let changing = Changing::begin(self);
        let allowed = changing.allowed(CALL, options.unwind);
        let old = Arc::clone(&self.state());
        let watch = Quiet::new(&old);
        let mut unwound = Unwound { shared: self, masks: Vec::new() };
        let settings = allowed.map(|()| self.settings.clone());
        let limit = options.timeout.unwrap_or_else(|| limit(&settings));
        let established = handshake(
            group,
            Participant {
                role: Role::Adapts(self.identity),
                settings,
                limit,
                watch: &|| watch.check_liveness(),
                prepare: &mut || unwound.unwind(),
                backend: Some(Arc::clone(&self.backend)),
                claimed: old.claimed.clone(),
                scope: None,
            },
        );
        drop(old);
        match established {
            Ok(Established { state, .. }) => {
                // The last holder of the old state leaves its node, in order.
                drop(self.replace(state));
                // The loan's binding is popped, and its owners are no longer ranks of this context.
                self.end_loan();
                Ok(())
            }
            Err(error) => {
                unwound.wind();
                Err(error)
            }
        }
    }
}

/// Marks a thread that changes the ranks of a context and excludes others.
struct Changing<'a> {
    shared: &'a Shared,
    first: bool,
}

impl<'a> Changing<'a> {
    fn begin(shared: &'a Shared) -> Self {
        let first = !std::mem::replace(&mut shared.bindings().adapting, true);
        Self { shared, first }
    }

    /// Checks that the ranks may be changed now.
    fn allowed(&self, call: &'static str, unwind: bool) -> Result<(), Error> {
        let refuse = |reason: &str| Err(Error::Busy { call, reason: reason.to_owned() });
        let open = |number: usize, one: &str, many: &str, remedy: &str| {
            let are = if number == 1 { one } else { many };
            refuse(&format!("{number} {are} on this rank: {remedy} first"))
        };
        if !self.first {
            return refuse("another thread of this rank adapts the context");
        }
        let (phases, depth) = {
            let bindings = self.shared.bindings();
            (bindings.open_phases, bindings.depth())
        };
        if self.shared.state().machine().bounds.scope.is_some() {
            let reason = "a scope keeps its ranks: free it, and split the context anew afterwards";
            return Err(Error::NotSupported { call, reason: reason.to_owned() });
        }
        if phases > 0 {
            return open(phases, "phase is open", "phases are open", "leave every phase");
        }
        if depth > 0 && !unwind {
            return open(depth, "binding is pushed", "bindings are pushed", "pop every binding");
        }
        if !self.shared.is_idle() {
            return refuse("another thread of this rank waits for others in the context");
        }
        Ok(())
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if self.first {
            self.shared.bindings().adapting = false;
        }
    }
}

/// Bindings that were popped for an adaptation, to be pushed again if it fails.
struct Unwound<'a> {
    shared: &'a Shared,
    masks: Vec<CpuSet>,
}

impl Unwound<'_> {
    fn unwind(&mut self) -> Result<(), Error> {
        let mut bindings = self.shared.bindings();
        while bindings.depth() > 0
            && let Some((pushed, mask)) = bindings.stack.pop_last()?
        {
            self.masks.push(pushed);
            if Region::are_recorded() {
                self.shared.regions().pop();
            }
            bindings.publish(&mask)?;
        }
        bindings.leave()
    }

    /// Best effort: the error to report is the one that led here.
    fn wind(&mut self) {
        let mut bindings = self.shared.bindings();
        bindings.keep_confined();
        while let Some(mask) = self.masks.pop() {
            if bindings.stack.push(mask.clone()).is_err() {
                return;
            }
            if Region::are_recorded() {
                self.shared.regions().push(Region::NONE);
            }
            let _ = bindings.publish(&mask);
        }
    }
}

/// Time for which ranks may sleep in the context before the others stop waiting for them. Sleeping
/// ranks that take part by another thread report it themselves.
const ASLEEP: Duration = Duration::from_secs(2);

/// Periodic check for ranks that sleep where they cannot take part in the adaptation.
struct Quiet<'a> {
    state: &'a State,
    next: Cell<Instant>,
    asleep_since: Cell<Option<Instant>>,
}

impl<'a> Quiet<'a> {
    fn new(state: &'a State) -> Self {
        Self { state, next: Cell::new(Instant::now() + LOOK), asleep_since: Cell::new(None) }
    }

    fn check_liveness(&self) -> Result<(), GroupError> {
        let now = Instant::now();
        if self.state.retired || now < self.next.get() {
            return Ok(());
        }
        self.next.set(now + LOOK);
        let waiting = self.state.node.waiting();
        let since = (waiting > 0).then(|| self.asleep_since.get().unwrap_or(now));
        self.asleep_since.set(since);
        match since {
            Some(since) if now.duration_since(since) >= ASLEEP => {
                Err(GroupError::Quiesced { call: "adapt", waiting })
            }
            _ => Ok(()),
        }
    }
}
