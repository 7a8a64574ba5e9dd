//! The stack of bindings and its per-thread rule.

use std::io;
use std::sync::Arc;

use super::{Backend, BindError, CALLER, EVERY_CPU, ThreadId};
use crate::cpuset::CpuSet;

/// Passes over the thread list before giving up on a process that keeps making threads with the
/// old mask. Each pass only finds threads born during the one before.
const MAX_PASSES: usize = 64;

/// The bindings pushed in one context by one process.
///
/// Not synchronised: its owner wraps it in a lock, so that pushes from several threads take turns.
#[derive(Debug)]
pub struct BindingStack {
    backend: Arc<dyn Backend>,
    entries: Vec<Entry>,
    shortfall: Option<Shortfall>,
    /// Room for a list of threads.
    threads: Vec<ThreadId>,
}

#[derive(Debug)]
struct Entry {
    /// The caller's mask before the push, and so that of its followers.
    before: CpuSet,
    /// The CPUs that the push was for.
    asked: CpuSet,
    /// The CPUs of the push that the system granted.
    pushed: CpuSet,
    /// The thread that pushed: it is moved back even when its mask was changed in between.
    owner: ThreadId,
    /// The caller was not bound: the pop leaves it so, also when the allowed CPUs change meanwhile.
    unbound: bool,
    /// Threads that had the pushed mask of their own accord; the pop must not take them along.
    bystanders: Vec<ThreadId>,
}

/// A push or pop that the system gave fewer CPUs than it was for, as some are no longer allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortfall {
    /// `push` or `pop`.
    pub call: &'static str,
    /// The CPUs that the call was for.
    pub asked: CpuSet,
    /// The CPUs that the threads have.
    pub granted: CpuSet,
}

impl BindingStack {
    /// An empty stack over `backend`; nothing is changed by making or dropping one.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, entries: Vec::new(), shortfall: None, threads: Vec::new() }
    }

    /// The number of pushes that have not been popped.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.entries.len()
    }

    /// The last push or pop, if it was granted fewer CPUs than it was for.
    #[must_use]
    pub fn shortfall(&self) -> Option<&Shortfall> {
        self.shortfall.as_ref()
    }

    /// The pushed sets, oldest first, each after the mask it replaced.
    pub fn entries(&self) -> impl Iterator<Item = (&CpuSet, &CpuSet)> {
        self.entries.iter().map(|entry| (&entry.before, &entry.pushed))
    }

    /// The calling thread's mask, read now.
    ///
    /// # Errors
    /// [`BindError::System`].
    pub fn current(&self) -> Result<CpuSet, BindError> {
        self.read("binding")
    }

    /// Moves the caller and its followers to `to`, which `before` (the caller's mask, just read)
    /// was resolved against. Returns the CPUs granted: those of `to` that are allowed now.
    ///
    /// # Errors
    /// [`BindError::OutsideAllowed`] when none of `to` is allowed any more,
    /// [`BindError::NotGranted`] and [`BindError::System`]; every thread is where it was.
    pub fn push(&mut self, before: CpuSet, to: CpuSet) -> Result<CpuSet, BindError> {
        self.push_over(before, to, false)
    }

    /// As [`push`](Self::push), for a caller whose mask has all CPUs that are allowed when `unbound`:
    /// the pop gives it all that are allowed then.
    pub(crate) fn push_over(
        &mut self,
        before: CpuSet,
        to: CpuSet,
        unbound: bool,
    ) -> Result<CpuSet, BindError> {
        let mut entry = Entry {
            before,
            unbound,
            pushed: to.clone(),
            asked: to,
            owner: self.backend.caller(),
            bystanders: Vec::new(),
        };
        let granted = self.shift("push", &mut entry, Direction::Forth)?;
        entry.pushed = granted.clone();
        self.entries.push(entry);
        Ok(granted)
    }

    /// Takes back the last push: every thread that follows the pushed mask gets the mask from
    /// before, or the part of it that is still allowed; all allowed CPUs where no part of it is.
    /// Returns that mask.
    ///
    /// # Errors
    /// [`BindError::NothingPushed`] changes nothing. [`BindError::NotGranted`] and
    /// [`BindError::System`] leave the entry on the stack.
    pub fn pop(&mut self) -> Result<CpuSet, BindError> {
        let Some(mut entry) = self.entries.pop() else {
            return Err(BindError::NothingPushed);
        };
        let result = self.shift("pop", &mut entry, Direction::Back);
        if result.is_err() {
            self.entries.push(entry);
        }
        result
    }

    fn shift(
        &mut self,
        call: &'static str,
        entry: &mut Entry,
        direction: Direction,
    ) -> Result<CpuSet, BindError> {
        let mut moved = Vec::new();
        let mut threads = std::mem::take(&mut self.threads);
        let result = self.move_followers(call, entry, direction, &mut threads, &mut moved);
        self.threads = threads;
        match &result {
            Ok(granted) => {
                let asked = match direction {
                    Direction::Forth => &entry.asked,
                    Direction::Back => &entry.before,
                };
                self.shortfall = (!asked.is_subset(granted)).then(|| Shortfall {
                    call,
                    asked: asked.clone(),
                    granted: granted.clone(),
                });
            }
            Err(_) => {
                for (thread, mask) in moved {
                    // Best effort: the thread may have ended, and the first error is the one to tell.
                    let _ = self.backend.set_mask(thread, &mask);
                }
            }
        }
        result
    }

    fn move_followers(
        &self,
        call: &'static str,
        entry: &mut Entry,
        direction: Direction,
        threads: &mut Vec<ThreadId>,
        moved: &mut Vec<(ThreadId, CpuSet)>,
    ) -> Result<CpuSet, BindError> {
        let system = |action| move |source| BindError::System { call, action, source };
        let (from, mut to) = match direction {
            Direction::Forth => (entry.before.clone(), entry.pushed.clone()),
            Direction::Back => (entry.pushed.clone(), entry.before.clone()),
        };
        let unbinds = entry.unbound && direction == Direction::Back;
        let everything = if unbinds { self.backend.everything() } else { None };
        let unbinds = everything.is_some();
        to = everything.unwrap_or(to);
        let count = || self.backend.thread_count().map_err(system("counting threads"));
        let mut known = count()?;
        if known <= 1 {
            self.set_mask(call, CALLER, &mut to, direction)?;
            moved.push((CALLER, from));
            return if unbinds { self.read(call) } else { self.verify(call, to, direction) };
        }
        let caller = self.backend.caller();
        let forth = direction == Direction::Forth;
        // The mask that the system made of the pushed one meanwhile.
        let mut narrowed = None;
        for pass in 0..MAX_PASSES {
            self.backend.threads(threads, known).map_err(system("listing threads"))?;
            let mut again = false;
            for &thread in &*threads {
                let mask = if forth && thread == caller && pass == 0 {
                    // Just read, by whoever resolved what to push.
                    from.clone()
                } else {
                    let mask = ended_is_none(self.backend.mask(thread));
                    let Some(mask) = mask.map_err(system("reading a mask"))? else { continue };
                    mask
                };
                let changed = !forth && mask != entry.pushed && narrowed.is_none();
                if changed && thread == entry.owner && mask.is_subset(&entry.asked) {
                    let left = remaining(&entry.asked, &self.allowed(call)?);
                    // Threads that were passed over are judged again, by that mask.
                    again = left != entry.pushed;
                    narrowed = Some(left);
                }
                let follows = narrowed.as_ref() == Some(&mask)
                    && mask != to
                    && !entry.bystanders.contains(&thread);
                if !follows && !self.follows(entry, direction, thread, caller, &mask, pass == 0) {
                    continue;
                }
                if self.set_mask(call, thread, &mut to, direction)? {
                    moved.push((thread, mask));
                }
            }
            // Threads born meanwhile, with the mask of a parent not yet moved, show in the count.
            known = count()?;
            if known == threads.len() && !again {
                break;
            }
        }
        let expects = caller == entry.owner || moved.iter().any(|(thread, _)| *thread == caller);
        match (expects, unbinds) {
            (true, true) => self.read(call),
            (true, false) => self.verify(call, to, direction),
            (false, true) => Ok(entry.before.clone()),
            (false, false) => Ok(to),
        }
    }

    /// Sets the mask of a thread; where none of its CPUs is allowed any more, the mask that takes
    /// the place of `to`. Returns false for a thread that has ended.
    fn set_mask(
        &self,
        call: &'static str,
        thread: ThreadId,
        to: &mut CpuSet,
        direction: Direction,
    ) -> Result<bool, BindError> {
        let mut set = self.backend.set_mask(thread, to);
        if set.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
            let allowed = self.allowed(call)?;
            if direction == Direction::Forth && !allowed.intersects(to) {
                return Err(BindError::OutsideAllowed { asked: to.clone(), allowed });
            }
            *to = remaining(to, &allowed);
            set = self.backend.set_mask(thread, to);
        }
        ended_is_none(set).map(|set| set.is_some()).map_err(|source| BindError::System {
            call,
            action: "setting the mask of a thread",
            source,
        })
    }

    /// The CPUs that the system allows now, tried out on the calling thread: exact in every
    /// container, and only asked for where a mask differs from the expected one.
    fn allowed(&self, call: &'static str) -> Result<CpuSet, BindError> {
        let own = self.read(call)?;
        let system = |source| BindError::System { call, action: "trying out a mask", source };
        self.backend.set_mask(CALLER, &CpuSet::from_range(0..EVERY_CPU)).map_err(system)?;
        let allowed = self.read(call);
        self.backend.set_mask(CALLER, &own).map_err(system)?;
        allowed
    }

    /// Returns true if a thread with this mask moves along; notes bystanders on the way forth.
    fn follows(
        &self,
        entry: &mut Entry,
        direction: Direction,
        thread: ThreadId,
        caller: ThreadId,
        mask: &CpuSet,
        first: bool,
    ) -> bool {
        match direction {
            Direction::Forth => {
                // A push of the mask that is there already finds all followers with it.
                let stays = entry.pushed != entry.before && *mask == entry.pushed;
                if first && thread != caller && stays {
                    entry.bystanders.push(thread);
                }
                *mask == entry.before
                    && *mask != entry.pushed
                    && (thread == caller || !self.has_own_mask(thread))
            }
            Direction::Back => {
                let owner = first && thread == entry.owner;
                (owner || *mask == entry.pushed)
                    && *mask != entry.before
                    && !entry.bystanders.contains(&thread)
            }
        }
    }

    /// Returns true if the thread was seen with a pushed mask that it had of its own accord.
    fn has_own_mask(&self, thread: ThreadId) -> bool {
        self.entries.iter().any(|entry| entry.bystanders.contains(&thread))
    }

    /// A kernel may say yes and grant less; only the mask read back tells. Accepts the allowed part
    /// of `asked`.
    fn verify(
        &self,
        call: &'static str,
        asked: CpuSet,
        direction: Direction,
    ) -> Result<CpuSet, BindError> {
        let granted = self.read(call)?;
        if granted == asked {
            return Ok(granted);
        }
        let possible = direction == Direction::Back || granted.intersects(&asked);
        if possible && granted == remaining(&asked, &self.allowed(call)?) {
            return Ok(granted);
        }
        Err(BindError::NotGranted { call, asked, granted })
    }

    fn read(&self, call: &'static str) -> Result<CpuSet, BindError> {
        self.backend.mask(CALLER).map_err(|source| BindError::System {
            call,
            action: "reading the mask",
            source,
        })
    }
}

/// The CPUs of a mask that are still allowed; all that are where none of the mask's is. Pure.
fn remaining(mask: &CpuSet, allowed: &CpuSet) -> CpuSet {
    let left = mask.intersection(allowed);
    if left.is_empty() { allowed.clone() } else { left }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forth,
    Back,
}

fn ended_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "stack_tests.rs"]
mod tests;
