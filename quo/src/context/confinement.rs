//! The CPUs that each rank of a node may use.
//!
//! Usually the ranks of a node are in one control group, and the leader's discovery holds for all
//! ranks. With a container for each rank, or ranks of several jobs in one communicator, the allowed
//! CPUs may differ between ranks. Plans are then made over the union of the allowed CPUs, so that
//! every rank computes the same plan, and each rank is bound inside its own part.

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

/// Machine of a rank, as seen by its context.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Whole machine, with the CPUs that the ranks of the node may use together.
    pub whole: Arc<Topology>,
    /// `whole` without CPUs that the no-SMT option hides: the basis of plans.
    pub topology: Arc<Topology>,
    /// CPUs that this rank may use, including hidden ones.
    pub allowed: CpuSet,
    /// `topology` restricted to the CPUs that this rank may use; the rank is bound inside it.
    pub own: Arc<Topology>,
    pub bounds: Bounds,
    pub basis: Basis,
    /// Cpusets of the objects of each type, computed on first use.
    cpusets: [OnceLock<Vec<CpuSet>>; ObjectType::ALL.len()],
}

/// Bounds on a rank's CPUs in addition to what the system allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// CPUs of the scope, including hidden ones; others are not used, even if allowed.
    pub scope: Option<CpuSet>,
    /// Limit that was set from outside; ignored on a rank that it would leave without CPUs.
    pub limit: Option<CpuSet>,
    /// CPUs allowed on a simulated machine, which never change.
    pub simulated: Option<CpuSet>,
}

impl Bounds {
    /// Returns the allowed CPUs that are within the bounds. Pure.
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

    /// Returns true if ranks are confined to fewer CPUs than the system allows.
    pub fn confine(&self) -> bool {
        self.scope.is_some() || self.limit.is_some()
    }
}

/// State of the system from which a machine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// Number of machines that the state had before.
    pub edition: u64,
    /// The [`allowed::version`] on which the machine is based, on this rank.
    pub version: u64,
    /// Number of requests for a new machine that this one answers.
    pub requests: u64,
    /// True if ranks of the node are in different control groups.
    pub apart: bool,
}

impl Machine {
    /// Returns the machine of a rank that may use the same CPUs as the leader of its node.
    pub(super) fn common(snapshot: &Snapshot, no_smt: bool, basis: Basis) -> Self {
        let whole = Arc::clone(&snapshot.whole);
        let topology = Arc::clone(if no_smt { &snapshot.without_smt } else { &snapshot.whole });
        let allowed = whole.allowed().clone();
        let own = Arc::clone(&topology);
        let simulated = whole.is_simulated().then(|| allowed.clone());
        let bounds = Bounds { simulated, ..Bounds::default() };
        Self { own, whole, topology, allowed, bounds, basis, cpusets: Default::default() }
    }

    /// Returns the machine of a rank whose node's ranks may use `parts`, of which `own` is this
    /// rank's, within bounds. Pure.
    ///
    /// # Errors
    /// The same for every rank: a part contains no CPU of the machine, or the scope no
    /// allowed CPU.
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

    /// Returns the cpusets of the objects of a type, by logical index.
    pub fn cpusets(&self, kind: ObjectType) -> &[CpuSet] {
        let place = ObjectType::ALL.iter().position(|&known| known == kind).unwrap_or(0);
        self.cpusets[place].get_or_init(|| {
            let objects = self.topology.objects(kind);
            objects.iter().map(|object| object.cpuset.clone()).collect()
        })
    }

    /// Returns a mask as plans take it: a rank that is pushed to CPUs outside its limit counts as
    /// having all CPUs it may use.
    pub fn usable_of(&self, mask: CpuSet) -> CpuSet {
        let own = self.own.allowed();
        if self.bounds.confine() && !mask.intersects(own) { own.clone() } else { mask }
    }

    /// Returns the CPUs that this rank may use now.
    pub fn allowed_now(&self) -> Result<CpuSet, Error> {
        self.allowed_at(allowed::version).map(Cow::into_owned)
    }

    /// Like [`allowed_now`](Self::allowed_now), at most a millisecond old.
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

    /// Returns the machine inside which this rank is bound now, if it differs from `known`.
    pub fn own_now(&self, known: &Topology) -> Option<Topology> {
        let now = self.allowed_now().ok()?.intersection(self.topology.machine_cpuset());
        if now == *known.allowed() { None } else { self.topology.with_allowed(&now).ok() }
    }
}

/// Returns the machine of a rank if control groups differ on some node. Before the call, all ranks
/// have published, in place of their masks, the CPUs that they may use; on return they have
/// published their masks. Collective over the group.
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
    // The agreement also ensures that all ranks have read the parts before masks replace them.
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
