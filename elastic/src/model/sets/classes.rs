//! The sets that a resize is bound to, and the sets that follow it automatically.

use super::set::{IDEAL_SIZE_HINT, ProcessSet};
use super::{Members, Registry, SetName, SetsError};

impl Registry {
    /// The malleable sets: active ones that are in no other active set. A growth is bound to one of
    /// them. Huber 2021, definition 2, `X_m`.
    pub fn malleable(&self) -> Vec<SetName> {
        self.maximal_active(|_| true)
    }

    /// The reference-counted sets of a delta: the malleable ones that share members with it. A
    /// shrink is bound to all of them, and done once each has accepted it. Definition 3, `X_c`.
    ///
    /// # Errors
    /// [`SetsError::NoOpenDelta`] if `delta` is no delta of a resize under way.
    pub fn reference_counted(&self, delta: &SetName) -> Result<Vec<SetName>, SetsError> {
        let not_open = || SetsError::NoOpenDelta { call: "reference_counted", name: delta.clone() };
        self.deltas.get(delta).filter(|delta| delta.open).ok_or_else(not_open)?;
        let set = self.sets.get(delta).ok_or_else(not_open)?;
        Ok(self.maximal_active(|members| !members.is_disjoint(&set.members)))
    }

    /// The recursively affected sets: inactive sets that follow an operation on a set with the
    /// members `first` and a delta with the members `delta`, because they share members with the
    /// delta or properly contain the set. Definition 4, `X_a`.
    pub fn affected(&self, first: &Members, delta: &Members) -> Vec<SetName> {
        self.domain_sets()
            .filter(|(_, set)| !set.attributes.active)
            .filter(|(_, set)| {
                !set.members.is_disjoint(delta) || first.is_proper_subset(&set.members)
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Returns the malleable set that a growth goes to: the set that is furthest below its ideal
    /// size (hint `mpi_ps_sched_opt`), and among equals the one created first. A set without the
    /// hint counts as ideal; a set above its ideal size is chosen last. `None` without active sets.
    pub fn growth_target(&self) -> Option<SetName> {
        let lacking = |set: &ProcessSet| {
            let ideal = set.attributes.hints.get(IDEAL_SIZE_HINT)?.parse::<u64>().ok()?;
            Some(i128::from(ideal) - i128::from(set.members.len()))
        };
        self.malleable()
            .into_iter()
            .filter_map(|name| self.sets.get(&name).map(|set| (set, name)))
            .min_by_key(|(set, _)| (-lacking(set).unwrap_or(0), set.serial))
            .map(|(_, name)| name)
    }

    fn maximal_active(&self, wanted: impl Fn(&Members) -> bool) -> Vec<SetName> {
        let active = || self.domain_sets().filter(|(_, set)| set.attributes.active);
        let contained = |set: &ProcessSet| {
            active().any(|(_, other)| set.members.is_proper_subset(&other.members))
        };
        active()
            .filter(|(_, set)| wanted(&set.members) && !contained(set))
            .map(|(name, _)| name.clone())
            .collect()
    }
}
