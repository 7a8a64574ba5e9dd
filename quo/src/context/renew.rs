//! CPUs that are taken from the ranks of a node, or given to them, while a context exists.
//!
//! The ranks decide at the start of a phase, without waiting, whether to renew the machine. If they
//! do, each sends the CPUs it may use now to the others, and all make the same machine from them.
//! Ranks, groups and shared memory stay as they are.

use std::sync::{Arc, PoisonError};

use super::Context;
use super::allowed;
use super::confinement::{Basis, Bounds, Machine};
use super::exchange::{Header, Operation};
use super::peer_identity::usable_cpus;
use super::state::State;
use crate::cpuset::CpuSet;
use crate::error::Error;

impl Context {
    /// Renews the machine if the CPUs that ranks of the node may use have changed, as decided by
    /// the rank that calls first. Collective over the node in that case, otherwise local.
    ///
    /// # Errors
    /// The same on every rank of the node; the machine stays the same.
    pub(crate) fn renew_machine(&self) -> Result<(), Error> {
        const CALL: &str = "phase";
        self.check(CALL)?;
        let state = self.state();
        let machine = state.machine();
        let is_simulated = machine.whole.is_simulated();
        let has_changed = || !is_simulated && allowed::recent_version() != machine.basis.version;
        let look = || state.node.requests() != machine.basis.requests || has_changed();
        // A rank that has left the node gets the error at the end of the phase.
        if !state.node.decide(look).unwrap_or(false) {
            if machine.basis.apart && has_changed() {
                state.node.request();
            }
            return Ok(());
        }
        let basis = Basis {
            edition: machine.basis.edition + 1,
            version: if is_simulated { machine.basis.version } else { allowed::version() },
            requests: state.node.requests(),
            apart: machine.basis.apart,
        };
        // After the requests: a limit that is set now counts another one.
        let bounds = Bounds { limit: state.node.limit(), ..machine.bounds.clone() };
        let own = match &bounds.simulated {
            Some(all) => Ok(all.clone()),
            None => allowed::allowed(&machine.whole, basis.version),
        };
        let own = own.map(|own| bounds.within(&own));
        let parts = self.exchange_sets(&state, CALL, Header::new(Operation::Renew), own)?;
        let own = parts.get(state.node_rank()).cloned().flatten().unwrap_or_default();
        let parts: Vec<CpuSet> = parts.into_iter().flatten().collect();
        let no_smt = self.hides_smt();
        let renewed = Machine::divided(&machine.whole, no_smt, &parts, &own, basis, &bounds)?;
        self.replace_machine(&state, renewed);
        Ok(())
    }

    fn replace_machine(&self, state: &State, machine: Machine) {
        let machine = Arc::new(machine);
        let masks: Vec<CpuSet> =
            (0..state.node_size()).map(|node_rank| state.published_mask(node_rank)).collect();
        state.node.set_spin_allowed(state.node_size() <= usable_cpus(&machine.whole, &masks));
        {
            let mut bindings = self.shared.bindings();
            bindings.own = Arc::clone(&machine.own);
            bindings.confined = machine.bounds.confine();
            bindings.keep_confined();
        }
        *state.machine.write().unwrap_or_else(PoisonError::into_inner) = machine;
    }

    /// Requests that the ranks of the node renew the machine at the next phase. Local.
    pub(crate) fn request_renewal(&self) {
        self.state().node.request();
    }

    /// Describes a limit that was set from outside.
    pub(crate) fn limited(&self) -> Option<String> {
        let state = self.state();
        let limit = state.node.limit()?;
        Some(format!("CPUs are limited to {limit} from outside (quo-info set)"))
    }

    /// Describes CPUs that were taken or given since the machine was read.
    pub(crate) fn outdated(&self) -> Option<String> {
        let machine = self.state().machine();
        let now = machine.allowed_now().ok()?;
        (now != machine.allowed).then(|| {
            let known = &machine.allowed;
            format!("CPUs {now} are allowed now, plans are for {known} until the next phase")
        })
    }
}
