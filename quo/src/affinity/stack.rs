//! The stack of bindings and its per-thread rule.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ledger::{Ledger, Push};
use super::mover::{Mover, remaining};
use super::{Backend, BindError, CALLER, ThreadId};
use crate::cpuset::CpuSet;

/// Maximum number of passes over the thread list, for a process that keeps creating threads with
/// the old mask. Each pass only finds threads created during the one before.
const MAX_PASSES: usize = 64;

/// Bindings pushed in one context by one process.
///
/// The pushes are in the process's [`Ledger`], whose lock serialises calls of different threads,
/// also in different contexts.
#[derive(Debug)]
pub struct BindingStack {
    backend: Arc<dyn Backend>,
    /// Number of this stack in the ledger.
    number: u64,
    depth: usize,
    shortfall: Option<Shortfall>,
    /// Detects a forked child, in which another thread may have left the ledger locked forever.
    process: u32,
}

/// A push or pop that was granted fewer CPUs than requested, as some are no longer allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortfall {
    /// `push` or `pop`.
    pub call: &'static str,
    /// CPUs that were requested.
    pub asked: CpuSet,
    /// CPUs that the threads have.
    pub granted: CpuSet,
}

impl Shortfall {
    fn of(call: &'static str, asked: &CpuSet, granted: &CpuSet) -> Option<Self> {
        let falls_short = !asked.is_subset(granted);
        falls_short.then(|| Self { call, asked: asked.clone(), granted: granted.clone() })
    }
}

/// CPUs of a push, and its kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aim {
    pub cpus: CpuSet,
    /// True if the caller is not bound: the pop gives it all CPUs that are allowed then.
    pub unbound: bool,
    /// True if the push confines the rank to some CPUs, beneath the pushes of the program.
    pub confines: bool,
}

impl BindingStack {
    /// Returns an empty stack over `backend`; creating or dropping a stack changes no mask.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let number = lock(&*backend).add_stack();
        Self { backend, number, depth: 0, shortfall: None, process: std::process::id() }
    }

    /// Returns the number of pushes that have not been popped.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the last push or pop, if it was granted fewer CPUs than requested.
    #[must_use]
    pub fn shortfall(&self) -> Option<&Shortfall> {
        self.shortfall.as_ref()
    }

    /// Returns the pushed sets, oldest first, each with the mask it replaced before it.
    #[must_use]
    pub fn entries(&self) -> Vec<(CpuSet, CpuSet)> {
        let ledger = lock(&*self.backend);
        let entries = ledger.of(self.number);
        entries.map(|push| (push.before.clone(), push.granted.clone())).collect()
    }

    /// Returns the calling thread's mask, read now.
    ///
    /// # Errors
    /// [`BindError::System`].
    pub fn current(&self) -> Result<CpuSet, BindError> {
        Mover::new(&*self.backend, "binding").read()
    }

    /// Moves the caller and its followers to `to`. Returns the CPUs granted: those of `to` that are
    /// currently allowed.
    ///
    /// Followers are the threads that have the caller's mask, except threads that had it
    /// independently of a push or last pushed in another stack.
    ///
    /// # Errors
    /// [`BindError::OutsideAllowed`] if none of `to` is allowed any more, [`BindError::NotGranted`]
    /// and [`BindError::System`]; every thread is where it was.
    pub fn push(&mut self, to: CpuSet) -> Result<CpuSet, BindError> {
        self.push_with(|_| Ok(Aim { cpus: to, ..Aim::default() }))
    }

    /// Like [`push`](Self::push), to CPUs that `resolve` derives from the caller's mask. `resolve`
    /// must not use a stack of this process.
    pub(crate) fn push_with<E: From<BindError>>(
        &mut self,
        resolve: impl FnOnce(&CpuSet) -> Result<Aim, E>,
    ) -> Result<CpuSet, E> {
        let mut ledger = lock(&*self.backend);
        restore_owed(&*self.backend, &mut ledger);
        let mut mover = Mover::new(&*self.backend, "push");
        let now = mover.read()?;
        let Aim { cpus, unbound, confines } = resolve(&now)?;
        let owner = self.backend.caller();
        let mut push = Push {
            number: ledger.number(),
            stack: self.number,
            owner,
            before: now.clone(),
            granted: cpus.clone(),
            asked: cpus,
            // A mask set by another push does not show whether the thread was bound.
            unbound: unbound && !ledger.is_moved(owner),
            confines,
            followers: Vec::new(),
            bystanders: Vec::new(),
            others: Vec::new(),
        };
        match move_forth(&*self.backend, &mut mover, &mut ledger, &mut push, &now) {
            Ok(granted) => push.granted = granted.clone(),
            Err(error) => {
                mover.undo();
                return Err(error.into());
            }
        }
        if !ledger.owes_nothing() {
            push.before = ledger.take_wanted(push.owner, &push.before);
            for (thread, before) in &mut push.followers {
                *before = ledger.take_wanted(*thread, before);
            }
        }
        let granted = push.granted.clone();
        self.shortfall = Shortfall::of("push", &push.asked, &granted);
        ledger.add(push);
        self.depth += 1;
        Ok(granted)
    }

    /// Takes back the caller's last push, or the last one of any thread if the caller has none.
    /// Every thread that the push moved gets its previous mask, or the part of it that is still
    /// allowed; all allowed CPUs if no part of it is, until a later call can restore it. Threads
    /// that a later push has moved stay, and get the mask at the pop of that push. Returns the
    /// caller's mask, or the owner's if the caller was not moved.
    ///
    /// # Errors
    /// [`BindError::NothingPushed`] changes nothing. [`BindError::NotGranted`] and
    /// [`BindError::System`] leave the entry on the stack.
    pub fn pop(&mut self) -> Result<CpuSet, BindError> {
        let mut ledger = lock(&*self.backend);
        restore_owed(&*self.backend, &mut ledger);
        let place = ledger.to_pop(self.number, self.backend.caller());
        let place = place.ok_or(BindError::NothingPushed)?;
        let (mask, shortfall) = pop(&*self.backend, &mut ledger, place)?;
        (self.shortfall, self.depth) = (shortfall, self.depth.saturating_sub(1));
        Ok(mask)
    }

    /// Takes back the last push of any thread, like [`pop`](Self::pop). Returns the CPUs that it
    /// had pushed and the mask now; `None` if nothing is pushed.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub(crate) fn pop_last(&mut self) -> Result<Option<(CpuSet, CpuSet)>, BindError> {
        let mut ledger = lock(&*self.backend);
        let Some(place) = ledger.last(self.number) else { return Ok(None) };
        let pushed = ledger.at(place).granted.clone();
        let (mask, shortfall) = pop(&*self.backend, &mut ledger, place)?;
        (self.shortfall, self.depth) = (shortfall, self.depth.saturating_sub(1));
        Ok(Some((pushed, mask)))
    }

    /// Restores masks that an earlier pop could not restore, if they are allowed by now. Returns
    /// true if some thread was owed a mask.
    pub(crate) fn restore_owed(&mut self) -> bool {
        let mut ledger = lock(&*self.backend);
        let owed = restore_owed(&*self.backend, &mut ledger);
        if owed && ledger.owes_nothing() {
            self.shortfall = None;
        }
        owed
    }
}

impl Drop for BindingStack {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            lock(&*self.backend).drop_stack(self.number);
        }
    }
}

fn lock(backend: &dyn Backend) -> MutexGuard<'_, Ledger> {
    let ledger: &Mutex<Ledger> = backend.ledger();
    // A panic cannot leave the ledger half-way: pushes are added and removed last.
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

fn restore_owed(backend: &dyn Backend, ledger: &mut Ledger) -> bool {
    if ledger.owes_nothing() {
        return false;
    }
    ledger.restore_owed(|thread, given, wanted| {
        // A mask that was changed since belongs to the program.
        let now = backend.mask(thread).ok().filter(|now| now == given)?;
        match backend.set_mask(thread, wanted) {
            Ok(()) => backend.mask(thread).ok(),
            Err(_) => Some(now),
        }
    });
    true
}

/// Moves the caller, whose mask is `now`, and its followers to the CPUs of a push.
fn move_forth(
    backend: &dyn Backend,
    mover: &mut Mover<'_>,
    ledger: &mut Ledger,
    push: &mut Push,
    now: &CpuSet,
) -> Result<CpuSet, BindError> {
    let mut known = backend.thread_count().map_err(mover.system("counting threads"))?;
    if known <= 1 {
        move_to(mover, CALLER, now, push)?;
        return mover.verify(&push.granted, false);
    }
    let mut threads = std::mem::take(&mut ledger.threads);
    for pass in 0..MAX_PASSES {
        list(backend, mover, &mut threads, known)?;
        for &thread in &threads {
            let is_caller = thread == push.owner;
            let mask =
                if is_caller && pass == 0 { Some(now.clone()) } else { mover.mask(thread)? };
            let Some(mask) = mask else { continue };
            let follows = |thread| {
                !ledger.has_own_mask(thread) && !ledger.lives_elsewhere(thread, push.stack)
            };
            let moves = mask == *now && (is_caller || follows(thread));
            let there = mask == push.granted;
            if pass == 0 && !moves {
                if there { &mut push.bystanders } else { &mut push.others }.push(thread);
            }
            // A push of a mask that is already set finds all followers with it.
            if moves && (there || move_to(mover, thread, &mask, push)?) && !is_caller {
                push.follow(thread, mask);
            }
        }
        // Threads created meanwhile, with the mask of a parent not yet moved, show in the count.
        known = backend.thread_count().map_err(mover.system("counting threads"))?;
        if known == threads.len() {
            break;
        }
    }
    ledger.forget_ended(&threads);
    ledger.threads = threads;
    mover.verify(&push.granted, false)
}

/// Makes `threads`, the list of an earlier call, a list of the process's threads now, of which there
/// are `count`. A list of as many threads that are all still here is complete.
fn list(
    backend: &dyn Backend,
    mover: &Mover<'_>,
    threads: &mut Vec<ThreadId>,
    count: usize,
) -> Result<(), BindError> {
    if threads.len() == count && backend.are_all_here(threads) {
        return Ok(());
    }
    backend.threads(threads, count).map_err(mover.system("listing threads"))
}

/// Moves a thread to the CPUs of a push. Returns false for a thread that has ended.
fn move_to(
    mover: &mut Mover<'_>,
    thread: ThreadId,
    now: &CpuSet,
    push: &mut Push,
) -> Result<bool, BindError> {
    let set = mover.set(thread, now.clone(), &push.granted, false)?;
    let moved = set.is_some();
    push.granted = set.unwrap_or_else(|| push.granted.clone());
    Ok(moved)
}

/// Takes back the push at an index. Returns a mask as [`BindingStack::pop`] does.
fn pop(
    backend: &dyn Backend,
    ledger: &mut Ledger,
    place: usize,
) -> Result<(CpuSet, Option<Shortfall>), BindError> {
    let mut mover = Mover::new(backend, "pop");
    let mut threads = std::mem::take(&mut ledger.threads);
    let mut owed = Vec::new();
    let result = move_back(backend, &mut mover, ledger, place, (&mut threads, &mut owed));
    ledger.threads = threads;
    match result {
        Ok((mask, asked)) => {
            ledger.remove(place);
            for (thread, wanted, given) in owed {
                ledger.owe(thread, wanted, given);
            }
            let shortfall = asked.and_then(|asked| Shortfall::of("pop", &asked, &mask));
            Ok((mask, shortfall))
        }
        Err(error) => {
            mover.undo();
            Err(error)
        }
    }
}

/// Restores the masks of threads from before the push at an index. Returns the caller's mask, or
/// the owner's if the caller was not moved; and the mask that was to be restored, if any.
fn move_back(
    backend: &dyn Backend,
    mover: &mut Mover<'_>,
    ledger: &Ledger,
    place: usize,
    (threads, owed): (&mut Vec<ThreadId>, &mut Vec<(ThreadId, CpuSet, CpuSet)>),
) -> Result<(CpuSet, Option<CpuSet>), BindError> {
    let push = ledger.at(place);
    let caller = backend.caller();
    let everything = if push.unbound { backend.everything() } else { None };
    let before = |thread: ThreadId| push.before(thread).unwrap_or(&push.before);
    let to = |thread: ThreadId| everything.as_ref().unwrap_or_else(|| before(thread));
    let owner_stays = ledger.is_covered(place, push.owner);
    // The caller's new mask.
    let mut own = None;
    // Threads that are not in the list of an earlier call show in the count after the first pass.
    let mut is_listed = threads.len() > 1 && backend.are_all_here(threads);
    let mut known = match is_listed {
        true => threads.len(),
        false => backend.thread_count().map_err(mover.system("counting threads"))?,
    };
    if known <= 1 && push.owner == caller {
        if !owner_stays {
            own = mover.set(CALLER, push.granted.clone(), to(caller), true)?;
            owed.extend(debt(caller, to(caller), own.as_ref()));
        }
        known = 0;
    }
    // The mask to which the system has narrowed the pushed one meanwhile.
    let mut narrowed = None;
    for pass in 0..MAX_PASSES {
        if known == 0 {
            break;
        }
        if !std::mem::take(&mut is_listed) {
            list(backend, mover, threads, known)?;
        }
        let mut again = false;
        for &thread in &*threads {
            let stays = match push.before(thread) {
                Some(_) => ledger.is_covered(place, thread),
                None => {
                    push.bystanders.contains(&thread)
                        || ledger.lives_elsewhere(thread, push.stack)
                        || ledger.follows_another(place, thread)
                }
            };
            if stays {
                continue;
            }
            let Some(mask) = mover.mask(thread)? else { continue };
            let is_owner = thread == push.owner;
            let changed = is_owner && narrowed.is_none() && mask != push.granted;
            if changed && mask.is_subset(&push.asked) {
                let left = remaining(&push.asked, mover.allowed()?);
                // Threads that were skipped are examined again, against that mask.
                again = left != push.granted;
                narrowed = Some(left);
            }
            let follows = is_owner && pass == 0
                || mask == push.granted
                || narrowed.as_ref().is_some_and(|narrowed| *narrowed == mask);
            if !follows || mask == *before(thread) {
                continue;
            }
            let set = mover.set(thread, mask, to(thread), true)?;
            owed.extend(debt(thread, to(thread), set.as_ref()));
            if thread == caller {
                own = set;
            }
        }
        // Threads created meanwhile, with the mask of a parent not yet moved, show in the count.
        known = backend.thread_count().map_err(mover.system("counting threads"))?;
        if known == threads.len() && !again {
            break;
        }
    }
    if own.is_none() && push.owner == caller && !owner_stays {
        own = Some(to(caller).clone());
    }
    match own {
        Some(_) if everything.is_some() => Ok((mover.read()?, Some(push.before.clone()))),
        Some(own) => Ok((mover.verify(&own, true)?, Some(to(caller).clone()))),
        None if owner_stays => Ok((mover.read()?, None)),
        None => Ok((push.before.clone(), None)),
    }
}

/// Returns the debt to a thread that got another mask than `wanted`.
fn debt(
    thread: ThreadId,
    wanted: &CpuSet,
    set: Option<&CpuSet>,
) -> Option<(ThreadId, CpuSet, CpuSet)> {
    let given = set.filter(|set| *set != wanted)?;
    Some((thread, wanted.clone(), given.clone()))
}

#[cfg(test)]
#[path = "stack_tests.rs"]
mod tests;
