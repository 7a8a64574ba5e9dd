//! CPUs that ranks lend while they wait, and that threaded ranks of the node borrow meanwhile.
//!
//! The protocol is in `node/lending/README.md`. A rank that takes its CPUs back does not wait:
//! until the borrower checks and gives back, both run on the same CPUs.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::state::{Loan, Shared, State};
use super::{Context, Wait};
use crate::affinity::Target;
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::node::{Loans, Node, borrowed_cpus};

/// Period in which this rank lends; takes the CPUs back on drop.
pub(crate) struct Lending<'a>(&'a Node);

impl Drop for Lending<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.stop_lending();
    }
}

/// What a loan does with the threads of the rank.
enum Bind {
    /// Binds the threads that follow the caller to its own CPUs and the borrowed ones.
    Push,
    Nothing,
}

/// CPUs that a rank has borrowed, see [`Context::borrow`]. They are given back on drop.
#[derive(Debug)]
#[must_use = "the CPUs are given back as soon as this is dropped"]
pub struct Borrowed<'a> {
    context: &'a Context,
    cpus: CpuSet,
    threads: usize,
    loans: Option<Arc<Loans>>,
}

impl Borrowed<'_> {
    /// Returns the CPUs that were borrowed; empty if no rank lends any.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Returns the number of threads that fills this rank's own CPUs and the borrowed ones, at most
    /// the CPU quota of its control group.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns true if an owner has taken its CPUs back, so that this rank should [give
    /// back](Self::give_back) as soon as possible. One load per owner. Local.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.loans.as_ref().is_some_and(|loans| loans.are_wanted())
    }

    /// Gives all borrowed CPUs back now, as [`Context::give_back`] does.
    ///
    /// # Errors
    /// As [`Context::give_back`].
    pub fn give_back(self) -> Result<(), Error> {
        let context = self.context;
        self.keep();
        context.give_back().map(drop)
    }

    /// Drops the guard without giving back; the loan lasts until [`Context::give_back`].
    pub fn keep(mut self) {
        self.loans = None;
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if self.loans.is_some() {
            // `give_back` of this type returns errors.
            let _ = self.context.give_back();
        }
    }
}

impl Context {
    /// Lends this rank's CPUs to other ranks of its node while `wait` runs. `wait` should use
    /// hardly any CPU: a blocking call of a library that sleeps, or a wait for another component.
    /// The CPUs lent are those to which no other rank is bound, unless that rank lends them too.
    /// Local.
    ///
    /// The rank has its CPUs back at once, without waiting for a borrower. A borrower may run on
    /// them until its next check, see [`Borrowed::is_wanted`]; the two share them for that time. An
    /// MPI that spins in its blocking calls keeps the CPU busy, and a borrower then gets half of
    /// it.
    ///
    /// Does nothing while another thread of this process lends in this context.
    ///
    /// # Errors
    /// [`Error::Retired`], [`Error::Forked`], [`Error::Node`] for a rank that has detached; `wait`
    /// has not run then.
    ///
    /// ```no_run
    /// # fn example(context: &quo::Context, scope: &quo::Context) -> Result<(), quo::Error> {
    /// // The whole node may use this rank's CPUs until the own component is complete.
    /// context.lend_while(|| scope.barrier())??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lend_while<R>(&self, wait: impl FnOnce() -> R) -> Result<R, Error> {
        const CALL: &str = "lend CPUs";
        self.check(CALL)?;
        // Keeps the node, not the state: `wait` may change the ranks.
        let node = {
            let state = self.state();
            let began = state.node.start_lending().map_err(state.name_ranks(CALL))?;
            began.then(|| Arc::clone(&state.node))
        };
        let _lent = node.as_deref().map(Lending);
        Ok(wait())
    }

    /// Lends this rank's CPUs until [`stop_lending`](Self::stop_lending), for callers that cannot
    /// pass a closure; see [`lend_while`](Self::lend_while). Returns false if the rank lends
    /// already. Local.
    ///
    /// # Errors
    /// As [`lend_while`](Self::lend_while).
    #[doc(alias = "QUO_lend")]
    pub fn start_lending(&self) -> Result<bool, Error> {
        const CALL: &str = "lend CPUs";
        self.check(CALL)?;
        let state = self.state();
        state.node.start_lending().map_err(state.name_ranks(CALL))
    }

    /// Takes this rank's CPUs back, without waiting for a borrower. Returns false if the rank lends
    /// nothing. Local.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[doc(alias = "QUO_reclaim")]
    pub fn stop_lending(&self) -> Result<bool, Error> {
        self.check("take CPUs back")?;
        Ok(self.state().node.stop_lending())
    }

    /// Lends during a wait of the library itself, if the context was created with lending enabled.
    #[inline]
    pub(crate) fn lend_if_asked<'a>(&self, state: &'a State) -> Option<Lending<'a>> {
        let settings = &self.shared.settings;
        if !settings.lending || settings.wait == Wait::Mpi {
            return None;
        }
        // A rank that is not a member of the node gets the error from the wait.
        let began = state.node.start_lending().unwrap_or(false);
        began.then(|| Lending(&state.node))
    }

    /// Borrows the CPUs that waiting ranks of the node lend, and binds the caller, with the threads
    /// that follow it, to its own CPUs and the borrowed ones, as a [push](Self::push) does. If
    /// there is nothing to borrow, nothing is bound. Local; never waits.
    ///
    /// Meant for the start of a threaded region: use [`threads`](Borrowed::threads) threads, check
    /// [`is_wanted`](Borrowed::is_wanted) between regions or chunks of work, and give back if it is
    /// true. The owners do not wait for that.
    ///
    /// A CPU is borrowed by one rank at a time, and only if every rank that is bound to it lends it
    /// to that rank: while some rank of the node is not bound at all, nothing can be borrowed. The
    /// loans of a rank end with its process, however it ends.
    ///
    /// # Errors
    /// [`Error::Busy`] if this rank has not given back yet; [`Error::Bind`]; [`Error::Retired`],
    /// [`Error::Forked`], [`Error::Node`] for a rank that has detached. Nothing is borrowed then.
    ///
    /// ```no_run
    /// # fn chunk(_number: usize, _threads: usize) {}
    /// # fn example(context: &quo::Context) -> Result<(), quo::Error> {
    /// let mut borrowed = context.borrow()?;
    /// for number in 0..100 {
    ///     if borrowed.is_wanted() {
    ///         borrowed.give_back()?;
    ///         borrowed = context.borrow()?; // what others lend still
    ///     }
    ///     chunk(number, borrowed.threads());
    /// }
    /// borrowed.give_back()
    /// # }
    /// ```
    #[doc(alias = "QUO_borrow")]
    pub fn borrow(&self) -> Result<Borrowed<'_>, Error> {
        self.borrow_and(Bind::Push)
    }

    /// Borrows CPUs without binding any thread, for callers that bind threads to the borrowed CPUs
    /// themselves; see [`borrow`](Self::borrow). They must have left these CPUs before
    /// [`give_back`](Self::give_back). Local.
    ///
    /// # Errors
    /// As [`borrow`](Self::borrow), but for [`Error::Bind`].
    #[doc(hidden)]
    pub fn borrow_unbound(&self) -> Result<Borrowed<'_>, Error> {
        self.borrow_and(Bind::Nothing)
    }

    fn borrow_and(&self, bind: Bind) -> Result<Borrowed<'_>, Error> {
        const CALL: &str = "borrow CPUs";
        self.check(CALL)?;
        let mut loan = self.shared.loan();
        if loan.is_some() {
            let reason = "this rank has borrowed CPUs and not given them back".to_owned();
            return Err(Error::Busy { call: CALL, reason });
        }
        let state = self.state();
        state.require_world(CALL)?;
        let own = self.shared.own_mask()?;
        let nothing = |own: &CpuSet| Borrowed {
            context: self,
            cpus: CpuSet::new(),
            threads: state.within_quota(
                own.intersection(state.machine().topology.machine_cpuset()).len().max(1),
            ),
            loans: None,
        };
        if state.node.lenders() == 0 {
            return Ok(nothing(&own));
        }
        let mut loans = state.node.borrow().map_err(state.name_ranks(CALL))?;
        let mut masks = state.masks_for_borrowing()?;
        masks[state.node_rank()] = Some(own.clone());
        let is_owner = |member| loans.are_from(member);
        let machine = state.machine();
        let allowed = machine.own.allowed();
        let cpus = borrowed_cpus(state.node_rank(), is_owner, &masks).intersection(allowed);
        loans.retain(|owner| masks[owner].as_ref().is_some_and(|mask| mask.intersects(&cpus)));
        if cpus.is_empty() {
            return Ok(nothing(&own));
        }
        let all = own.intersection(allowed).union(&cpus);
        let (bound, depth) = match bind {
            Bind::Push => {
                let bound = self.push(&Target::Cpus(all))?;
                (bound, Some(self.push_depth()))
            }
            Bind::Nothing => (all, None),
        };
        if loans.are_wanted() {
            // An owner that returned may have moved to other CPUs: only CPUs that are still lent
            // are known to be free for this rank, whose binding the next borrower reads.
            if depth.is_some() {
                self.pop()?;
            }
            return Ok(nothing(&own));
        }
        let loans = Arc::new(loans);
        *loan = Some(Loan { loans: Arc::clone(&loans), depth });
        let cpus = cpus.intersection(&bound);
        Ok(Borrowed {
            context: self,
            cpus,
            threads: state.within_quota(bound.len()),
            loans: Some(loans),
        })
    }

    /// Returns the number of other ranks of the node that lend now, whether or not a rank has
    /// borrowed from them. One load per rank. Local.
    #[must_use]
    #[doc(alias = "QUO_lenders")]
    pub fn lenders(&self) -> usize {
        self.state().node.lenders()
    }

    /// Returns true if this rank has borrowed CPUs and an owner has taken its own back. Local.
    #[must_use]
    #[doc(alias = "QUO_borrow_wanted")]
    pub fn is_wanted_back(&self) -> bool {
        self.shared.loan().as_ref().is_some_and(|loan| loan.loans.are_wanted())
    }

    /// Pops the binding of [`borrow`](Self::borrow) and gives the CPUs back. Returns false if this
    /// rank has borrowed nothing. Local.
    ///
    /// # Errors
    /// [`Error::Busy`] if bindings pushed since have not been popped: nothing is given back then.
    /// [`Error::Bind`] as [`pop`](Self::pop); the CPUs are given back anyway.
    #[doc(alias = "QUO_give_back")]
    pub fn give_back(&self) -> Result<bool, Error> {
        const CALL: &str = "give CPUs back";
        self.check(CALL)?;
        let mut loan = self.shared.loan();
        let Some(Loan { loans, depth }) = &*loan else { return Ok(false) };
        let now = self.push_depth();
        let popped = match *depth {
            Some(depth) if now > depth => {
                let reason = format!("{} bindings pushed since have not been popped", now - depth);
                return Err(Error::Busy { call: CALL, reason });
            }
            Some(depth) if now == depth => self.pop(),
            // Nothing was pushed, or an extra pop has removed the binding already.
            _ => Ok(()),
        };
        loans.give_back();
        *loan = None;
        popped.map(|()| true)
    }
}

impl Shared {
    fn loan(&self) -> MutexGuard<'_, Option<Loan>> {
        // Replaced as a whole.
        self.loan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the loan of a rank whose bindings have been popped.
    pub(super) fn end_loan(&self) {
        if let Some(loan) = self.loan().take() {
            loan.loans.give_back();
        }
    }
}

impl State {
    /// Returns a number of threads of this rank, capped at its CPU quotas.
    fn within_quota(&self, threads: usize) -> usize {
        let quotas = match self.peer(self.node_rank()) {
            Some(peer) if !self.machine().whole.is_simulated() => peer.quotas,
            _ => return threads,
        };
        quotas.iter().flatten().fold(threads, |threads, quota| threads.min(quota.cpus()))
    }

    /// Returns the current mask of each node rank. A rank that died while it lent has the mask it
    /// published last, because its borrower may be working there. Other ranks that have ended have
    /// none.
    fn masks_for_borrowing(&self) -> Result<Vec<Option<CpuSet>>, Error> {
        let mask = |node_rank| match self.binding_of(node_rank) {
            Ok(mask) => Ok(Some(mask)),
            Err(Error::DeadMember { .. }) => {
                Ok(self.node.lends(node_rank).then(|| self.published_mask(node_rank)))
            }
            Err(error) => Err(error),
        };
        (0..self.node_size()).map(mask).collect()
    }
}
