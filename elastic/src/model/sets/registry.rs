//! All process sets of a job: the live members, the sets, and the resizes under way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::set::ProcessSet;
use super::store::Store;
use super::{
    AttributeChange, Attributes, DeltaKind, Domain, Members, SetInfo, SetName, SetOp, SetsError,
};
use crate::model::member::MemberId;

/// End of a resize for its delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeltaEnd {
    /// The members of the delta have joined, or have left for good.
    Finalized,
    /// The resize is undone: processes that were to join are in no set, processes that were to
    /// leave are back.
    Aborted,
}

/// A resize as process sets see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Delta {
    pub(super) kind: DeltaKind,
    pub(super) open: bool,
    /// Members that operations with this delta removed from existing sets, to be put back if it is
    /// aborted.
    pub(super) taken: BTreeMap<SetName, Members>,
}

/// The process sets of one application. A plain value: copies on ranks that apply the same
/// operations in the same order are equal (see [`Replica`](super::Replica)).
///
/// A call either succeeds completely or returns an error and changes nothing.
///
/// Process sets: D. Huber, "Dynamic process sets", TU München 2021, sections 6.1 to 6.3.
///
/// ```
/// use elastic::member::MemberId;
/// use elastic::sets::{AttributeChange, DeltaKind, Members, Registry, SetName, SetOp};
///
/// let world: Members = (0..4).map(MemberId).collect();
/// let mut registry = Registry::new("weather", world).unwrap();
/// let main = registry.application();
/// let joiners = [MemberId::new(1, 0), MemberId::new(1, 1)].into_iter().collect();
/// let delta = registry.define_delta(DeltaKind::Add, joiners).unwrap();
/// let (caller, as_it_is) = (MemberId(0), AttributeChange::none());
/// registry.operate(caller, SetOp::Union, &main, &delta, Some(&main), &as_it_is).unwrap();
/// let info = registry.info("test", &SetName::world(), MemberId::new(1, 0)).unwrap();
/// assert_eq!((info.size, info.version, info.epoch), (6, 1, 1));
/// assert!(info.dynamic && info.included);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registry {
    pub(super) app: String,
    pub(super) sets: BTreeMap<SetName, ProcessSet>,
    pub(super) deltas: BTreeMap<SetName, Delta>,
    /// Members alive or about to join, by the epoch of their resize.
    pub(super) joined: BTreeMap<u64, Members>,
    /// Every id ever used.
    issued: Members,
    /// The epoch of the latest resize. It never decreases when sets are pruned, unlike the source's
    /// definition by the largest epoch of the listed sets.
    last_epoch: u64,
    next_serial: u64,
    pub(super) store: Store,
}

impl Registry {
    /// Makes the registry of an application started with these processes. It contains
    /// `mpi://app/{app}` from the start.
    ///
    /// # Errors
    /// [`SetsError::BadName`] if `app` gives no valid name; [`SetsError::NobodyInDelta`] if `world` is
    /// empty.
    pub fn new(app: &str, world: Members) -> Result<Registry, SetsError> {
        let root = SetName::application(app)?;
        if world.is_empty() {
            return Err(SetsError::NobodyInDelta);
        }
        let mut registry = Registry {
            app: app.to_owned(),
            sets: BTreeMap::new(),
            deltas: BTreeMap::new(),
            joined: BTreeMap::from([(0, world.clone())]),
            issued: world.clone(),
            last_epoch: 0,
            next_serial: 0,
            store: Store::default(),
        };
        registry.insert(root, world, 0, Attributes::default());
        Ok(registry)
    }

    /// Returns true if a name is that of a delta of this application, even of an ended one.
    pub(crate) fn is_delta(&self, name: &SetName) -> bool {
        name.domain(&self.app) == Domain::Delta
    }

    /// `mpi://app/{app}`, the set of all processes of the application.
    pub fn application(&self) -> SetName {
        SetName::application(&self.app).unwrap_or_else(|_| SetName::world())
    }

    /// Returns the epoch of the latest resize that was defined; 0 before the first.
    pub fn last_epoch(&self) -> u64 {
        self.last_epoch
    }

    /// Members alive or about to join.
    pub fn alive(&self) -> Members {
        self.joined.values().fold(Members::new(), |all, some| all.union(some))
    }

    /// Number of names that a process may see; see [`names`](Registry::names).
    #[doc(alias = "MPI_Session_get_num_psets")]
    pub fn count(&self, caller: MemberId) -> usize {
        self.names(caller).len()
    }

    /// Returns the names that a process may see: `mpi://WORLD`, `mpi://SELF`, then, in order of
    /// their creation, the sets it is in and the deleted ones that are not pruned yet.
    #[doc(alias = "MPI_Session_get_nth_pset")]
    pub fn names(&self, caller: MemberId) -> Vec<SetName> {
        let mut shown: Vec<(&u64, &SetName)> = self
            .sets
            .iter()
            .filter(|(_, set)| set.is_deleted() || set.members.contains(caller))
            .map(|(name, set)| (&set.serial, name))
            .collect();
        shown.sort_unstable();
        [SetName::world(), SetName::caller()]
            .into_iter()
            .chain(shown.into_iter().map(|(_, name)| name.clone()))
            .collect()
    }

    /// All sets, including those without the calling process, in order of their names.
    pub fn sets(&self) -> impl Iterator<Item = (&SetName, &ProcessSet)> {
        self.sets.iter()
    }

    /// Returns the set with this name, even a deleted one; `None` for the aliases `mpi://WORLD` and
    /// `mpi://SELF`.
    pub fn get(&self, name: &SetName) -> Option<&ProcessSet> {
        self.sets.get(name)
    }

    /// Returns the description of a set for `caller`; `call` goes into errors.
    ///
    /// # Errors
    /// [`SetsError::Unknown`] or [`SetsError::Deleted`] if there is no such set any more.
    pub fn info(
        &self,
        call: &'static str,
        name: &SetName,
        caller: MemberId,
    ) -> Result<SetInfo, SetsError> {
        let set = self.resolve(call, name, caller)?;
        Ok(SetInfo {
            size: set.members.len(),
            version: set.version,
            epoch: set.epoch,
            active: set.attributes.active,
            dynamic: caller.is_joiner(),
            included: set.members.contains(caller),
            hints: set.attributes.hints,
        })
    }

    /// Returns the set that a name means for `caller`, with aliases resolved; `call` goes into
    /// errors.
    ///
    /// # Errors
    /// [`SetsError::Unknown`] or [`SetsError::Deleted`] if there is no such set any more.
    pub fn resolve(
        &self,
        call: &'static str,
        name: &SetName,
        caller: MemberId,
    ) -> Result<ProcessSet, SetsError> {
        let found = match name.domain(&self.app) {
            Domain::World => self.sets.get(&self.application()).cloned(),
            Domain::Caller => self.alone(caller),
            _ => self.sets.get(name).cloned(),
        };
        match found {
            None => Err(SetsError::Unknown { call, name: name.clone() }),
            Some(set) if set.is_deleted() => Err(SetsError::Deleted { call, name: name.clone() }),
            Some(set) => Ok(set),
        }
    }

    fn alone(&self, caller: MemberId) -> Option<ProcessSet> {
        let (&epoch, _) = self.joined.iter().find(|(_, members)| members.contains(caller))?;
        Some(ProcessSet {
            members: Members::range(caller, caller),
            version: 0,
            epoch,
            attributes: Attributes::default(),
            serial: 0,
        })
    }

    /// Makes a set from two, and returns its name.
    ///
    /// The result takes the name `target` if that is below `mpi://app/{app}`; without a target a
    /// name is made up. If `target` is `first`, then `first` gets the new members, and a new
    /// version if they differ. Attributes are inherited from `first`, with changes from `attributes`.
    /// The epoch is the later one of both sets.
    ///
    /// With a delta as `second` the operation is also applied to the inactive sets that
    /// [`affected`] returns; a set that loses its last member is deleted. An intersection only
    /// makes a set and leaves all others unchanged: it queries which members leave, and does not
    /// remove them.
    ///
    /// [`affected`]: Registry::affected
    ///
    /// # Errors
    /// [`SetsError::Unknown`] or [`SetsError::Deleted`] for a set that is not there;
    /// [`SetsError::EmptyResult`]; [`SetsError::Gone`] if the result had processes that have left
    /// for good; [`SetsError::NotTheApplications`] or [`SetsError::NameTaken`] for `target`;
    /// [`SetsError::BadEntry`] for a hint; [`SetsError::BadName`] if a made-up name is too long.
    #[doc(alias = "MPI_Session_pset_create_op")]
    #[doc(alias = "PMIx_Pset_Op_request")]
    pub fn operate(
        &mut self,
        caller: MemberId,
        op: SetOp,
        first: &SetName,
        second: &SetName,
        target: Option<&SetName>,
        attributes: &AttributeChange,
    ) -> Result<SetName, SetsError> {
        const CALL: &str = "operate";
        let left = self.resolve(CALL, first, caller)?;
        let right = self.resolve(CALL, second, caller)?;
        let members = op.of(&left.members, &right.members);
        if members.is_empty() {
            let (first, second) = (first.clone(), second.clone());
            return Err(SetsError::EmptyResult { call: CALL, op, first, second });
        }
        if !members.difference(&left.members).is_subset(&self.alive()) {
            return Err(SetsError::Gone { call: CALL, name: second.clone() });
        }
        let (first, target) = (self.real_name(first), target.map(|name| self.real_name(name)));
        let name = match target {
            Some(target) => {
                self.check_target(CALL, &target)?;
                if target != first && self.sets.contains_key(&target) {
                    return Err(SetsError::NameTaken { call: CALL, name: target });
                }
                target
            }
            None => self.made_up_name()?,
        };
        attributes.check(CALL, &name)?;

        let mut changed = Vec::new();
        if self.deltas.contains_key(second) && op != SetOp::Intersection {
            for affected in self.affected(&left.members, &right.members) {
                if affected != name {
                    let before = self.sets[&affected].members.clone();
                    changed.push((affected, op.of(&before, &right.members)));
                }
            }
        }
        if name == first {
            changed.push((name.clone(), members));
        } else {
            let epoch = left.epoch.max(right.epoch);
            self.insert(name.clone(), members, epoch, left.attributes);
        }
        for (set, members) in changed {
            self.change_members(&set, members, right.epoch, Some(second));
        }
        if let Some(set) = self.sets.get_mut(&name) {
            attributes.apply(&mut set.attributes);
        }
        Ok(name)
    }

    /// Changes the application's attributes of a set and nothing else: the operation `NULL`.
    ///
    /// # Errors
    /// [`SetsError::NotTheApplications`], [`SetsError::Unknown`] or [`SetsError::Deleted`] for the
    /// set; [`SetsError::BadEntry`] for a hint.
    #[doc(alias = "MPI_PSETOP_NULL")]
    pub fn update(
        &mut self,
        target: &SetName,
        attributes: &AttributeChange,
    ) -> Result<(), SetsError> {
        const CALL: &str = "update";
        let target = self.real_name(target);
        self.check_target(CALL, &target)?;
        attributes.check(CALL, &target)?;
        let unknown = || SetsError::Unknown { call: CALL, name: target.clone() };
        let set = self.sets.get_mut(&target).ok_or_else(unknown)?;
        if set.is_deleted() {
            return Err(SetsError::Deleted { call: CALL, name: target });
        }
        attributes.apply(&mut set.attributes);
        Ok(())
    }

    /// Splits a set into sets of these sizes, in order of the ids: `{below}/0`, `{below}/1` and so
    /// on. The parts inherit the attributes and the epoch of the set, which remains. If the set is
    /// the application's own, `below` must be the set itself.
    ///
    /// # Errors
    /// [`SetsError::Unknown`] or [`SetsError::Deleted`] for the set; [`SetsError::BadParts`] if the
    /// sizes do not add up to its size, or one is 0; [`SetsError::BadName`],
    /// [`SetsError::NotTheApplications`] or [`SetsError::NameTaken`] for the name of a part.
    pub fn split(
        &mut self,
        caller: MemberId,
        set: &SetName,
        sizes: &[u64],
        below: &SetName,
    ) -> Result<Vec<SetName>, SetsError> {
        const CALL: &str = "split";
        let whole = self.resolve(CALL, set, caller)?;
        let (sum, size) =
            (sizes.iter().fold(0u64, |sum, part| sum.saturating_add(*part)), whole.members.len());
        if sum != size || sizes.contains(&0) {
            return Err(SetsError::BadParts { name: set.clone(), size, sum });
        }
        let below = self.real_name(below);
        let mut names = Vec::new();
        for part in 0..sizes.len() {
            let name = below.below(&part.to_string())?;
            self.check_target(CALL, &name)?;
            if self.sets.contains_key(&name) {
                return Err(SetsError::NameTaken { call: CALL, name });
            }
            names.push(name);
        }
        let mut rest = whole.members.iter();
        for (name, size) in names.iter().zip(sizes) {
            let members = rest.by_ref().take(usize::try_from(*size).unwrap_or(usize::MAX));
            let members = members.collect();
            self.insert(name.clone(), members, whole.epoch, whole.attributes.clone());
        }
        Ok(names)
    }

    /// Defines the joiners or leavers of the next epoch as a delta,
    /// `mpi://rte/{app}/delta/{epoch}`: the first step of every resize. No other set changes yet.
    ///
    /// The id of a joiner must never have been used; a leaver must be a member and not be leaving
    /// already.
    ///
    /// # Errors
    /// [`SetsError::NobodyInDelta`] without members; [`SetsError::IdReused`] for a joiner;
    /// [`SetsError::NotThere`] for a leaver.
    #[doc(alias = "PMIX_RES_CHANGE_DEFINE")]
    pub fn define_delta(
        &mut self,
        kind: DeltaKind,
        members: Members,
    ) -> Result<SetName, SetsError> {
        if members.is_empty() {
            return Err(SetsError::NobodyInDelta);
        }
        match kind {
            DeltaKind::Add => {
                if let Some(member) = first_of(&members.intersection(&self.issued)) {
                    return Err(SetsError::IdReused { member });
                }
            }
            DeltaKind::Sub => {
                let can_leave = self.alive().difference(&self.in_open_deltas());
                if let Some(member) = first_of(&members.difference(&can_leave)) {
                    return Err(SetsError::NotThere { member });
                }
            }
        }
        self.last_epoch += 1;
        let epoch = self.last_epoch;
        if kind == DeltaKind::Add {
            self.issued = self.issued.union(&members);
            self.joined.insert(epoch, members.clone());
        }
        let name = SetName::delta(&self.app, epoch);
        self.insert(name.clone(), members, epoch, Attributes::default());
        self.deltas.insert(name.clone(), Delta { kind, open: true, taken: BTreeMap::new() });
        Ok(name)
    }

    /// Ends a resize. Its delta remains listed until it is pruned.
    ///
    /// If it is finalised, the leavers are no longer alive. [`stale`](Registry::stale) returns the
    /// sets in which the application still keeps them.
    ///
    /// If it is aborted, its joiners are removed from every set, including active ones and the
    /// delta, because these processes never existed; its leavers are put back wherever operations
    /// with this delta removed them. Each change is a new version of the set; none returns to an
    /// old one.
    ///
    /// # Errors
    /// [`SetsError::NoOpenDelta`] if `delta` is no delta of a resize under way.
    #[doc(alias = "PMIX_RC_UPDATE_EVENT")]
    pub fn conclude_delta(&mut self, delta: &SetName, end: DeltaEnd) -> Result<(), SetsError> {
        const CALL: &str = "conclude";
        let not_open = || SetsError::NoOpenDelta { call: CALL, name: delta.clone() };
        let found = self.deltas.get_mut(delta).filter(|found| found.open).ok_or_else(not_open)?;
        let set = self.sets.get(delta).ok_or_else(not_open)?;
        let (members, epoch) = (set.members.clone(), set.epoch);
        found.open = false;
        let taken = std::mem::take(&mut found.taken);
        match (found.kind, end) {
            (DeltaKind::Add, DeltaEnd::Finalized) => {}
            (DeltaKind::Sub, DeltaEnd::Finalized) => self.bury(&members),
            (DeltaKind::Add, DeltaEnd::Aborted) => {
                self.bury(&members);
                let left: Vec<(SetName, Members)> = self
                    .sets
                    .iter()
                    .map(|(name, set)| (name.clone(), set.members.difference(&members)))
                    .collect();
                for (name, left) in left {
                    self.change_members(&name, left, epoch, None);
                }
            }
            (DeltaKind::Sub, DeltaEnd::Aborted) => {
                for (name, lost) in taken {
                    if let Some(set) = self.sets.get(&name) {
                        let whole = set.members.union(&lost);
                        self.change_members(&name, whole, epoch, None);
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes a deleted set, or the delta of an ended resize. The name may be used again; epochs
    /// continue to count.
    ///
    /// # Errors
    /// [`SetsError::Unknown`] for a set that is not there; [`SetsError::InUse`] for any other set.
    pub fn prune(&mut self, name: &SetName) -> Result<(), SetsError> {
        let unknown = || SetsError::Unknown { call: "prune", name: name.clone() };
        let set = self.sets.get(name).ok_or_else(unknown)?;
        let ended = self.deltas.get(name).is_some_and(|delta| !delta.open);
        if !ended && !set.is_deleted() {
            return Err(SetsError::InUse { name: name.clone() });
        }
        self.sets.remove(name);
        self.deltas.remove(name);
        self.store.forget_set(name);
        for delta in self.deltas.values_mut() {
            delta.taken.remove(name);
        }
        Ok(())
    }

    /// Returns the application's sets that contain processes that have left for good: active sets
    /// that the application has not shrunk yet.
    pub fn stale(&self) -> Vec<SetName> {
        let alive = self.alive();
        self.domain_sets()
            .filter(|(_, set)| !set.members.is_subset(&alive))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Returns the members of all open deltas.
    pub(super) fn in_open_deltas(&self) -> Members {
        let open = self.deltas.iter().filter(|(_, delta)| delta.open);
        open.filter_map(|(name, _)| self.sets.get(name))
            .fold(Members::new(), |all, set| all.union(&set.members))
    }

    /// Returns the application's own sets, without deltas.
    pub(super) fn domain_sets(&self) -> impl Iterator<Item = (&SetName, &ProcessSet)> {
        self.sets.iter().filter(|(name, set)| {
            let own = matches!(name.domain(&self.app), Domain::Application | Domain::Created);
            own && !set.is_deleted()
        })
    }

    /// Returns the name under which a set is kept: `mpi://WORLD` is kept under the application's
    /// name.
    pub(super) fn real_name(&self, name: &SetName) -> SetName {
        match name.domain(&self.app) {
            Domain::World => self.application(),
            _ => name.clone(),
        }
    }

    fn check_target(&self, call: &'static str, name: &SetName) -> Result<(), SetsError> {
        match name.domain(&self.app) {
            Domain::Application | Domain::Created => Ok(()),
            _ => Err(SetsError::NotTheApplications {
                call,
                name: name.clone(),
                application: self.application(),
            }),
        }
    }

    fn made_up_name(&self) -> Result<SetName, SetsError> {
        let mut number = self.next_serial;
        loop {
            let name = self.application().below(&format!("set-{number}"))?;
            if !self.sets.contains_key(&name) {
                return Ok(name);
            }
            number += 1;
        }
    }

    fn insert(&mut self, name: SetName, members: Members, epoch: u64, attributes: Attributes) {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.sets.insert(name, ProcessSet { members, version: 0, epoch, attributes, serial });
    }

    /// Changes the members of an existing set; an open `delta` records the members it removed.
    fn change_members(
        &mut self,
        name: &SetName,
        members: Members,
        epoch: u64,
        delta: Option<&SetName>,
    ) {
        let Some(set) = self.sets.get_mut(name) else { return };
        let lost = set.members.difference(&members);
        set.become_members(members, epoch);
        let delta = delta.and_then(|delta| self.deltas.get_mut(delta));
        if let Some(delta) = delta.filter(|delta| delta.open && !lost.is_empty()) {
            let taken = delta.taken.entry(name.clone()).or_default();
            *taken = taken.union(&lost);
        }
    }

    fn bury(&mut self, members: &Members) {
        self.joined.retain(|_, some| {
            *some = some.difference(members);
            !some.is_empty()
        });
    }
}

fn first_of(members: &Members) -> Option<MemberId> {
    members.iter().next()
}
