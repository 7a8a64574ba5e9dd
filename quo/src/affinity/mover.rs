//! Changes masks of threads one by one and restores them if a change fails.

use std::io;

use super::{Backend, BindError, CALLER, EVERY_CPU, ThreadId};
use crate::cpuset::CpuSet;

/// Changes of one push or pop.
pub(super) struct Mover<'a> {
    backend: &'a dyn Backend,
    call: &'static str,
    /// CPUs that the system allows now, once they have been determined.
    allowed: Option<CpuSet>,
    /// Threads that were moved, with their masks before.
    moved: Vec<(ThreadId, CpuSet)>,
}

impl<'a> Mover<'a> {
    pub(super) fn new(backend: &'a dyn Backend, call: &'static str) -> Self {
        Self { backend, call, allowed: None, moved: Vec::new() }
    }

    /// Returns a function that adds the call and the refused action to a system error.
    pub(super) fn system(&self, action: &'static str) -> impl Fn(io::Error) -> BindError + use<> {
        let call = self.call;
        move |source| BindError::System { call, action, source }
    }

    /// Returns the mask of a thread; `None` if it has ended.
    pub(super) fn mask(&self, thread: ThreadId) -> Result<Option<CpuSet>, BindError> {
        ended_is_none(self.backend.mask(thread)).map_err(self.system("reading a mask"))
    }

    /// Returns the calling thread's mask.
    pub(super) fn read(&self) -> Result<CpuSet, BindError> {
        self.backend.mask(CALLER).map_err(self.system("reading the mask"))
    }

    /// Moves a thread from the mask `now` to `to`. If no CPU of `to` is allowed any more, moves it
    /// to all allowed CPUs if `any`, and fails otherwise. Returns the mask that was set; `None` for
    /// a thread that has ended.
    pub(super) fn set(
        &mut self,
        thread: ThreadId,
        now: CpuSet,
        to: &CpuSet,
        any: bool,
    ) -> Result<Option<CpuSet>, BindError> {
        let mut target = to.clone();
        let mut set = self.backend.set_mask(thread, to);
        if set.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
            let allowed = self.allowed()?;
            if !any && !allowed.intersects(to) {
                let (asked, allowed) = (to.clone(), allowed.clone());
                return Err(BindError::OutsideAllowed { asked, allowed });
            }
            target = remaining(to, allowed);
            set = self.backend.set_mask(thread, &target);
        }
        let set = ended_is_none(set).map_err(self.system("setting the mask of a thread"))?;
        Ok(set.map(|()| {
            self.moved.push((thread, now));
            target
        }))
    }

    /// Returns the CPUs that the system allows now, tried out on the calling thread: exact in every
    /// container, and only called if a mask differs from the expected one.
    pub(super) fn allowed(&mut self) -> Result<&CpuSet, BindError> {
        if self.allowed.is_none() {
            let own = self.read()?;
            let system = self.system("trying out a mask");
            let everything = CpuSet::from_range(0..EVERY_CPU);
            self.backend.set_mask(CALLER, &everything).map_err(&system)?;
            let allowed = self.read();
            self.backend.set_mask(CALLER, &own).map_err(&system)?;
            self.allowed = Some(allowed?);
        }
        Ok(self.allowed.get_or_insert_default())
    }

    /// Reads the caller's mask back: a kernel may accept the call and grant less. Accepts the
    /// allowed part of `asked`, and with `any` all allowed CPUs if that part is empty.
    pub(super) fn verify(&mut self, asked: &CpuSet, any: bool) -> Result<CpuSet, BindError> {
        let granted = self.read()?;
        if granted == *asked {
            return Ok(granted);
        }
        let possible = any || granted.intersects(asked);
        if possible && granted == remaining(asked, self.allowed()?) {
            return Ok(granted);
        }
        Err(BindError::NotGranted { call: self.call, asked: asked.clone(), granted })
    }

    /// Restores the masks of all threads that were moved.
    pub(super) fn undo(self) {
        for (thread, mask) in self.moved.into_iter().rev() {
            // Best effort: the thread may have ended, and the first error is the one to report.
            let _ = self.backend.set_mask(thread, &mask);
        }
    }
}

/// Returns the CPUs of a mask that are still allowed, or all allowed CPUs if there are none. Pure.
pub(super) fn remaining(mask: &CpuSet, allowed: &CpuSet) -> CpuSet {
    let left = mask.intersection(allowed);
    if left.is_empty() { allowed.clone() } else { left }
}

fn ended_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
