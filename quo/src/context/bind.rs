//! Pushes and pops of this rank's binding.

use std::sync::{MutexGuard, PoisonError};

use super::Context;
use crate::affinity::{BindingStack, Target};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::regions::{self, Region};

impl Context {
    pub(super) fn stack(&self) -> MutexGuard<'_, BindingStack> {
        // A panic cannot leave the stack half-way: entries are added and removed last.
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds the caller, and every thread that has the caller's mask, to `target`, and remembers the
    /// mask from before. Threads with a mask of their own stay where they are. Returns the CPUs
    /// bound to. Local.
    ///
    /// # Errors
    /// [`Error::Bind`]; the bindings are what they were.
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
            Region::begin(&match target {
                Target::Object(kind, _) | Target::Enclosing(kind) => format!("quo push {kind}"),
                Target::Cpus(_) => "quo push cpus".to_owned(),
            })
        })
    }

    /// The push of a phase, which is a region of the memory profile itself.
    pub(crate) fn push_in_phase(&self, target: &Target) -> Result<CpuSet, Error> {
        self.push_as(target, || Region::NONE)
    }

    fn push_as(&self, target: &Target, region: impl FnOnce() -> Region) -> Result<CpuSet, Error> {
        self.check("push")?;
        let mut stack = self.stack();
        let before = stack.current()?;
        let cpus = target.resolve(&self.own, &before)?;
        stack.push(before, cpus.clone())?;
        if regions::recorded() {
            self.regions().push(region());
        }
        self.publish(&cpus)?;
        Ok(cpus)
    }

    fn regions(&self) -> MutexGuard<'_, Vec<Region>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back the last push of this context: the caller and every thread that follows it have
    /// the mask from before. Local.
    ///
    /// Contexts that push in turn pop in the opposite turn, as with any nested change: a pop brings
    /// back what its own push found.
    ///
    /// # Errors
    /// [`Error::Bind`]; a pop too many is [`BindError::NothingPushed`] and changes nothing.
    ///
    /// [`BindError::NothingPushed`]: crate::affinity::BindError::NothingPushed
    #[doc(alias = "QUO_bind_pop")]
    pub fn pop(&self) -> Result<(), Error> {
        self.check("pop")?;
        // Published under the stack's lock: of two calls at once, the later one's mask stays.
        let mut stack = self.stack();
        let mask = stack.pop()?;
        if regions::recorded() {
            self.regions().pop();
        }
        self.publish(&mask)
    }

    /// As [`push`](Self::push), with a guard that pops when it goes out of scope. Local.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_guard(&self, target: &Target) -> Result<BindGuard<'_>, Error> {
        let cpus = self.push(target)?;
        Ok(BindGuard { context: self, cpus, popped: false })
    }

    /// The number of pushes not yet popped. Local.
    #[must_use]
    pub fn push_depth(&self) -> usize {
        self.stack().depth()
    }

    /// Pops everything that is still pushed.
    pub(super) fn unwind(&self) -> Result<(), Error> {
        while self.push_depth() > 0 {
            self.pop()?;
        }
        Ok(())
    }
}

/// A pushed binding that is popped when the guard goes out of scope.
#[derive(Debug)]
#[must_use = "the binding is popped as soon as the guard is dropped"]
pub struct BindGuard<'a> {
    context: &'a Context,
    cpus: CpuSet,
    popped: bool,
}

impl BindGuard<'_> {
    /// The CPUs bound to.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Pops now, and tells of errors where the drop cannot.
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
