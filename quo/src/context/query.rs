//! Current state of the machine, this rank and the others. All calls are local.

use super::Context;
use super::peer_identity::has_ended;
use super::state::State;
use crate::affinity::BindError;
use crate::affinity::kernel::mask_of;
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::topology::{Object, ObjectType};

impl Context {
    /// Returns the number of objects of a type on this node's machine; 0 if it has none. Local.
    #[must_use]
    #[doc(alias = "QUO_nobjs_by_type")]
    #[doc(alias = "QUO_ncores")]
    #[doc(alias = "QUO_npus")]
    #[doc(alias = "QUO_nsockets")]
    #[doc(alias = "QUO_nnumanodes")]
    pub fn count(&self, kind: ObjectType) -> usize {
        self.state().machine().topology.count(kind)
    }

    /// Returns the number of objects of type `inner` inside the object `index` of type `outer`.
    /// Local.
    ///
    /// # Errors
    /// [`Error::Topology`] if there is no such object.
    #[doc(alias = "QUO_nobjs_in_type_by_type")]
    pub fn count_inside(
        &self,
        outer: ObjectType,
        index: usize,
        inner: ObjectType,
    ) -> Result<usize, Error> {
        Ok(self.state().machine().topology.count_inside(outer, index, inner)?)
    }

    /// Returns the object `index` of a type. Local.
    ///
    /// # Errors
    /// [`Error::Topology`] if there is no such object.
    pub fn object(&self, kind: ObjectType, index: usize) -> Result<Object, Error> {
        Ok(self.state().machine().topology.object(kind, index)?.clone())
    }

    /// Returns the CPUs that this rank may use now, whatever it is bound to: those of its control
    /// group. [`topology`](Self::topology) reflects them from the next phase or context on. Local.
    #[must_use]
    pub fn allowed(&self) -> CpuSet {
        let machine = self.state().machine();
        machine.allowed_now().unwrap_or_else(|_| machine.allowed.clone())
    }

    /// Returns the calling thread's mask, read now. Local.
    ///
    /// # Errors
    /// [`Error::Bind`] if the system does not report the mask.
    #[doc(alias = "QUO_stringify_cbind")]
    pub fn binding(&self) -> Result<CpuSet, Error> {
        self.check("binding")?;
        self.shared.own_mask()
    }

    /// Returns the mask of another rank's main thread, read now. Local.
    ///
    /// On a simulated machine, and for ranks in another PID namespace, returns the mask that the
    /// rank last published by a push or pop.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a node rank that does not exist, [`Error::DeadMember`] for one
    /// whose process has ended.
    pub fn binding_of(&self, node_rank: usize) -> Result<CpuSet, Error> {
        self.state().binding_of(node_rank)
    }

    /// Returns true if the caller's mask is narrower than the set of CPUs the process may use,
    /// which may be up to a millisecond old. Local.
    ///
    /// # Errors
    /// As [`binding`](Self::binding).
    #[doc(alias = "QUO_bound")]
    pub fn is_bound(&self) -> Result<bool, Error> {
        self.check("binding")?;
        let machine = self.state().machine();
        let allowed = machine.allowed_recently();
        let allowed = allowed.as_deref().unwrap_or(&machine.allowed);
        Ok(!allowed.is_subset(&self.shared.own_mask()?))
    }

    /// Returns true if the caller's mask shares a CPU with an object. Local.
    ///
    /// # Errors
    /// [`Error::Topology`] if there is no such object, and as [`binding`](Self::binding).
    #[doc(alias = "QUO_cpuset_in_type")]
    pub fn is_on(&self, kind: ObjectType, index: usize) -> Result<bool, Error> {
        let machine = self.state().machine();
        let object = machine.topology.object(kind, index)?;
        Ok(self.binding()?.intersects(&object.cpuset))
    }

    /// Returns true if the caller's whole mask lies inside an object. Local.
    ///
    /// # Errors
    /// As [`is_on`](Self::is_on).
    pub fn is_inside(&self, kind: ObjectType, index: usize) -> Result<bool, Error> {
        let machine = self.state().machine();
        let object = machine.topology.object(kind, index)?;
        let mask = self.binding()?.intersection(machine.topology.machine_cpuset());
        Ok(mask.is_subset(&object.cpuset))
    }

    /// Returns the node ranks whose masks share a CPU with an object, in ascending order. Local.
    ///
    /// # Errors
    /// [`Error::Topology`] if there is no such object, and as [`binding_of`](Self::binding_of).
    #[doc(alias = "QUO_qids_in_type")]
    pub fn ranks_on(&self, kind: ObjectType, index: usize) -> Result<Vec<usize>, Error> {
        self.check("ranks on an object")?;
        let state = self.state();
        let machine = state.machine();
        let object = machine.topology.object(kind, index)?;
        let mut ranks = Vec::with_capacity(state.node_size());
        for node_rank in 0..state.node_size() {
            match state.binding_of(node_rank) {
                Ok(mask) if mask.intersects(&object.cpuset) => ranks.push(node_rank),
                Ok(_) => {}
                // Expelled: the others continue without it.
                Err(Error::DeadMember { .. }) if !state.node.is_counted(node_rank) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ranks)
    }
}

impl State {
    /// Returns the mask of another rank's main thread, read now.
    pub(crate) fn binding_of(&self, node_rank: usize) -> Result<CpuSet, Error> {
        const CALL: &str = "binding of a rank";
        let peer = self.peers.get(node_rank).ok_or_else(|| Error::InvalidArgument {
            call: CALL,
            reason: format!(
                "there is no node rank {node_rank}, this node has {}",
                self.node_size()
            ),
        })?;
        let dead = || Error::DeadMember { call: CALL, ranks: vec![self.members[node_rank]] };
        // A rank that has detached holds no lock that would show it, and is alive.
        let lives = || {
            node_rank == self.node_rank()
                || self.node.is_alive(node_rank)
                || self.node.has_left(node_rank)
                    && !has_ended(&peer.process, &self.peers[self.node_rank()].process)
        };
        if self.machine().whole.is_simulated() || !peer.visible {
            return if lives() { Ok(self.published_mask(node_rank)) } else { Err(dead()) };
        }
        match mask_of(peer.process.id) {
            // Checked last: a zombie has a mask, and so has another program or process with the
            // same id.
            Ok(mask) if lives() => Ok(mask),
            Ok(_) => Err(dead()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(dead()),
            Err(source) => Err(Error::Bind(BindError::System {
                call: CALL,
                action: "reading the mask",
                source,
            })),
        }
    }
}
