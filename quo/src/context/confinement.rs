//! The CPUs that each rank of a node may use.
//!
//! Usually the ranks of a node are in one control group, and the leader's discovery holds for all.
//! They need not be: with a container for each rank, or ranks of several jobs in one communicator,
//! each may have CPUs of its own. Plans are then made over the CPUs of all together, so that every
//! rank computes the same one, and each rank is bound inside its own part.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::agreement::agree;
use super::allowed;
use super::machine::Snapshot;
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::group::{Group, WaitLimits};
use crate::node::Node;
use crate::topology::{ObjectType, Topology};

/// The machine of a rank, in the sense of its context.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The whole one, with the CPUs that the ranks of the node may use together.
    pub whole: Arc<Topology>,
    /// The same without CPUs that the no-SMT option hides: the basis of plans.
    pub topology: Arc<Topology>,
    /// The CPUs that this rank may use, hidden ones included.
    pub allowed: CpuSet,
    /// Returns `topology` with nothing else allowed: this rank is bound inside it.
    pub own: Arc<Topology>,
    pub bounds: Bounds,
    pub basis: Basis,
    /// The cpusets of the objects of each type, made when first asked for.
    cpusets: [OnceLock<Vec<CpuSet>>; ObjectType::ALL.len()],
}

/// What bounds a rank's CPUs beside what the system allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// The CPUs of the scope, hidden ones included; others are not used, whatever is allowed.
    pub scope: Option<CpuSet>,
    /// The CPUs that were set from outside; without effect on a rank that would have none.
    pub limit: Option<CpuSet>,
    /// The CPUs allowed on a simulated machine, which nothing changes.
    pub simulated: Option<CpuSet>,
}

impl Bounds {
    /// The CPUs that are left of those allowed. Pure.
    pub fn within(&self, allowed: &CpuSet) -> CpuSet {
        let inside = match &self.scope {
            Some(scope) => allowed.intersection(scope),
            None => allowed.clone(),
        };
        match &self.limit {
            Some(limit) if limit.intersects(&inside) => inside.intersection(limit),
            _ => inside,
        }
    }

    /// Returns true if ranks are kept inside fewer CPUs than the system allows.
    pub fn confine(&self) -> bool {
        self.scope.is_some() || self.limit.is_some()
    }
}

/// The state of the system that a machine was made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// The number of machines that the state had before.
    pub edition: u64,
    /// The [`allowed::version`] that it is based on; this rank's own.
    pub version: u64,
    /// The requests for another one that it answers.
    pub requests: u64,
    /// Ranks of the node are in different control groups.
    pub apart: bool,
}

impl Machine {
    /// Makes the parts of a rank that may use the same CPUs as the leader of its node.
    pub(super) fn common(snapshot: &Snapshot, no_smt: bool, basis: Basis) -> Self {
        let whole = Arc::clone(&snapshot.whole);
        let topology = Arc::clone(if no_smt { &snapshot.without_smt } else { &snapshot.whole });
        let allowed = whole.allowed().clone();
        let own = Arc::clone(&topology);
        let simulated = whole.is_simulated().then(|| allowed.clone());
        let bounds = Bounds { simulated, ..Bounds::default() };
        Self { own, whole, topology, allowed, bounds, basis, cpusets: Default::default() }
    }

    /// For a rank whose node's ranks may use these parts of a machine, `own` among them, within bounds.
    /// Pure.
    ///
    /// # Errors
    /// The same for every rank: a part has nothing that the machine shows, or the scope nothing that
    /// is allowed.
    pub fn divided(
        machine: &Topology,
        no_smt: bool,
        parts: &[CpuSet],
        own: &CpuSet,
        basis: Basis,
        bounds: &Bounds,
    ) -> Result<Self, Error> {
        let inside = |part: &CpuSet| bounds.within(part);
        let all = parts.iter().fold(CpuSet::new(), |all, part| all.union(&inside(part)));
        let scope = bounds.scope.as_ref();
        if let Some(scope) = scope.filter(|_| all.is_empty()) {
            let reason = format!(
                "none of the scope's CPUs {scope} is allowed any more: free it and split anew"
            );
            return Err(Error::NotSupported { call: "scope", reason });
        }
        let whole = Arc::new(machine.with_allowed(&all)?);
        let mut topology = if no_smt { Arc::new(whole.without_smt()) } else { Arc::clone(&whole) };
        if let Some(scope) = scope {
            topology = Arc::new(topology.restricted_to(scope));
        }
        let usable = |part: &CpuSet| part.intersection(topology.allowed());
        if let Some(nothing) = parts.iter().map(usable).find(CpuSet::is_empty) {
            topology.with_allowed(&nothing)?;
        }
        let allowed = inside(own);
        let own = Arc::new(topology.with_allowed(&usable(own))?);
        let bounds = bounds.clone();
        Ok(Self { whole, topology, allowed, own, bounds, basis, cpusets: Default::default() })
    }

    /// The cpusets of the objects of a type, by logical index.
    pub fn cpusets(&self, kind: ObjectType) -> &[CpuSet] {
        let place = ObjectType::ALL.iter().position(|&known| known == kind).unwrap_or(0);
        self.cpusets[place].get_or_init(|| {
            let objects = self.topology.objects(kind);
            objects.iter().map(|object| object.cpuset.clone()).collect()
        })
    }

    /// A mask as plans take it: a rank that is pushed to CPUs outside its limit counts as one that has
    /// all it may use.
    pub fn usable_of(&self, mask: CpuSet) -> CpuSet {
        let own = self.own.allowed();
        if self.bounds.confine() && !mask.intersects(own) { own.clone() } else { mask }
    }

    /// The CPUs that this rank may use as of now.
    pub fn allowed_now(&self) -> Result<CpuSet, Error> {
        self.allowed_at(allowed::version).map(Cow::into_owned)
    }

    /// As [`allowed_now`](Self::allowed_now), at most a millisecond old.
    pub fn allowed_recently(&self) -> Result<Cow<'_, CpuSet>, Error> {
        self.allowed_at(allowed::recent_version)
    }

    fn allowed_at(&self, version: fn() -> u64) -> Result<Cow<'_, CpuSet>, Error> {
        if self.whole.is_simulated() {
            return Ok(Cow::Borrowed(&self.allowed));
        }
        let version = version();
        if version == self.basis.version {
            return Ok(Cow::Borrowed(&self.allowed));
        }
        let all = allowed::allowed(&self.whole, version)?;
        Ok(Cow::Owned(self.bounds.within(&all)))
    }

    /// The machine that this rank is bound inside as of now, if that is not `known`.
    pub fn own_now(&self, known: &Topology) -> Option<Topology> {
        let now = self.allowed_now().ok()?.intersection(self.topology.machine_cpuset());
        if now == *known.allowed() { None } else { self.topology.with_allowed(&now).ok() }
    }
}

/// The machine of a rank when control groups differ on some node. All ranks have published, in place of their masks,
/// the CPUs that they may use; when this returns they have published their masks. Collective over the group.
pub(super) fn divide(
    group: &dyn Group,
    call: &'static str,
    node: &Node,
    (snapshot, no_smt, basis): (&Snapshot, bool, Basis),
    (members, mask, bounds): (usize, &CpuSet, &Bounds),
    limits: &WaitLimits<'_>,
) -> Result<Machine, Error> {
    let part = |member| node.mask_of(member).ok().flatten().unwrap_or_default();
    let parts: Vec<CpuSet> = (0..members).map(part).collect();
    // The verdict also says that everyone has read the parts, so that masks may take their place.
    let own = &parts[node.member()];
    let machine = Machine::divided(&snapshot.whole, no_smt, &parts, own, basis, bounds);
    let machine = agree(group, call, machine, limits)?;
    agree(group, call, node.publish_mask(mask).map_err(Error::from), limits)?;
    Ok(machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn divided(no_smt: bool, third: &str, own: usize) -> Result<Machine, Error> {
        let machine = Topology::from_synthetic("pack:2 core:2 pu:2").unwrap();
        let machine = machine.with_allowed(&set("0-1")).unwrap();
        let parts = [set("0-1"), set("3-5"), set(third)];
        Machine::divided(
            &machine,
            no_smt,
            &parts,
            &parts[own],
            Basis::default(),
            &Bounds::default(),
        )
    }

    fn confined(no_smt: bool, scope: &str) -> Result<Machine, Error> {
        let machine = Topology::from_synthetic("pack:2 core:2 pu:2").unwrap();
        let all = machine.allowed().clone();
        let parts = std::slice::from_ref(&all);
        let bounds = Bounds { scope: Some(set(scope)), ..Bounds::default() };
        Machine::divided(&machine, no_smt, parts, &all, Basis::default(), &bounds)
    }

    #[test]
    fn scope_has_only_its_own_part_of_the_machine() {
        let machine = confined(false, "2-7").unwrap();
        assert_eq!(machine.topology.count(ObjectType::Core), 3);
        assert_eq!(machine.topology.machine_cpuset(), &set("2-7"));
        assert_eq!(machine.topology.objects(ObjectType::Package)[0].cpuset, set("2-3"));
        assert_eq!(machine.own.allowed(), &set("2-7"));
        assert_eq!(machine.allowed_now().unwrap(), set("2-7"));
        assert_eq!(confined(true, "2-7").unwrap().topology.allowed(), &set("2,4,6"));
    }

    #[test]
    fn limit_narrows_those_who_have_some_of_it() {
        let bounds = |scope: Option<&str>, limit: Option<&str>| Bounds {
            scope: scope.map(set),
            limit: limit.map(set),
            simulated: None,
        };
        let within = |scope, limit| bounds(scope, limit).within(&set("0-7")).to_string();
        assert_eq!(within(None, None), "0-7");
        assert_eq!(within(None, Some("2-9")), "2-7");
        assert_eq!(within(Some("0-3"), Some("2-9")), "2-3");
        assert_eq!(within(Some("0-1"), Some("2-9")), "0-1");
        assert!(!bounds(None, None).confine() && bounds(None, Some("1")).confine());
    }

    #[test]
    fn scope_without_allowed_cpus_says_so() {
        let error = confined(false, "9").unwrap_err().to_string();
        assert!(error.contains("CPUs 9 is allowed any more"), "{error}");
    }

    #[test]
    fn plans_use_the_union_and_ranks_stay_inside_their_part() {
        let machine = divided(false, "5", 1).unwrap();
        assert_eq!(machine.whole.allowed(), &set("0-1,3-5"));
        assert_eq!(machine.topology.allowed(), &set("0-1,3-5"));
        assert_eq!(machine.own.allowed(), &set("3-5"));
        assert_eq!(machine.allowed, set("3-5"));
        assert_eq!(machine.own.machine_cpuset(), &set("0-7"));
    }

    #[test]
    fn hidden_hardware_threads_are_the_same_for_all_ranks() {
        assert_eq!(divided(true, "4", 0).unwrap().topology.allowed(), &set("0,3-4"));
        assert_eq!(divided(true, "4", 1).unwrap().own.allowed(), &set("3-4"));
    }

    #[test]
    fn rank_with_only_hidden_threads_is_an_error_everywhere() {
        let errors = [0, 1, 2].map(|own| divided(true, "5", own).unwrap_err().to_string());
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    }
}
