//! Exchanges of ghost cells, and swaps, of the arrays of a process.

use std::sync::Arc;

use quo::group::WaitLimits;
use quo_mpi::MpiGroup;

use super::halo::GhostMessage;
use super::registry::Entry;
use super::{DataError, Registry};

const BUSY: &str = "an exchange of its ghost cells has begun: end it first";

impl Registry {
    /// Fills the ghost cells of an array in a program that runs in one process: at the ends of
    /// periodic dimensions. Over a world it is
    /// [`World::exchange_halo`](crate::World::exchange_halo). Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`]; [`DataError::Unfit`] over a world of several ranks.
    pub fn exchange_halo(&mut self, name: &str) -> Result<(), DataError> {
        const CALL: &str = "exchange_halo";
        if self.seat.is_some_and(|(_, size)| size > 1) {
            let reason = "its ghost cells are exchanged by the world, among its ranks";
            return Err(DataError::Unfit { call: CALL, name: name.to_owned(), reason });
        }
        self.begin_exchange(CALL, name)?;
        self.end_exchange(CALL, name, &WaitLimits { deadline: None, check_peers: &|| Ok(()) })
    }

    /// Returns true if the ranks have to be connected for exchanges, which is collective.
    pub(crate) fn needs_connection(&self) -> bool {
        self.halo_group.is_none() && self.seat.is_some_and(|(_, size)| size > 1)
    }

    /// Connects the ranks for exchanges until the next resize, or disconnects them.
    pub(crate) fn connect(&mut self, group: Option<MpiGroup>) {
        self.halo_group = group;
    }

    /// Sends the cells that are ghost cells on other ranks. Local once the ranks are connected.
    pub(crate) fn begin_exchange(
        &mut self,
        call: &'static str,
        name: &str,
    ) -> Result<(), DataError> {
        let (rank, _) = self.seat.ok_or(DataError::NoRank { call })?;
        let found = self.entries.iter().position(|entry| entry.described.name == name);
        let found = found.ok_or_else(|| self.unknown(call, "array", name))?;
        let entry = &mut self.entries[found];
        if entry.halo.is_under_way() {
            return Err(DataError::Unfit { call, name: name.to_owned(), reason: BUSY });
        }
        let (distribution, element) = (&entry.distribution, entry.described.element);
        let messages = || match &entry.described.matrix {
            None => {
                let messages = distribution.halo_messages(rank, element);
                messages.into_iter().map(GhostMessage::Cells).collect()
            }
            Some(name) => {
                let of = self.matrices.iter().find(|matrix| matrix.described.name == *name);
                let plan = of.and_then(|matrix| matrix.plan.as_deref()).unwrap_or_default();
                let listed = |neighbour| GhostMessage::Listed(Arc::clone(neighbour), element);
                plan.iter().map(listed).collect()
            }
        };
        Ok(entry.halo.begin(messages, &entry.block, rank, self.halo_group.as_ref())?)
    }

    /// Waits for the cells of other ranks and writes them into the ghost cells.
    pub(crate) fn end_exchange(
        &mut self,
        call: &'static str,
        name: &str,
        limits: &WaitLimits<'_>,
    ) -> Result<(), DataError> {
        let entry = self.named_mut(call, name)?;
        if entry.halo.end(&mut entry.block, limits)? {
            return Ok(());
        }
        let reason = "no exchange of its ghost cells has begun";
        Err(DataError::Unfit { call, name: name.to_owned(), reason })
    }

    /// Returns the name of an array with an exchange under way.
    pub(super) fn exchanging(&self) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.halo.is_under_way())?;
        Some(&entry.described.name)
    }

    /// Swaps the elements of two arrays of the same pattern, as solvers do with the old and the new
    /// time step: no element is copied. Local; called in the same way by all ranks.
    ///
    /// # Errors
    /// [`DataError::Unknown`]; [`DataError::Unlike`] if their patterns or elements differ;
    /// [`DataError::Unfit`] while ghost cells of one of them are exchanged, and between a move and its
    /// commit.
    pub fn swap(&mut self, name: &str, other: &str) -> Result<(), DataError> {
        const CALL: &str = "swap";
        self.check_unmoved(CALL, name)?;
        let place = |name: &str| {
            let found = self.entries.iter().position(|entry| entry.described.name == name);
            found.ok_or_else(|| self.unknown(CALL, "array", name))
        };
        let (one, two) = (place(name)?, place(other)?);
        let (first, second) = (one.min(two), one.max(two));
        let (low, high) = self.entries.split_at_mut(second);
        let (Some(a), Some(b)) = (low.get_mut(first), high.first_mut()) else { return Ok(()) };
        let kind = |entry: &Entry| {
            let described = &entry.described;
            let lies_along = (described.lines.clone(), described.matrix.clone());
            (described.element, described.pattern, described.next, lies_along)
        };
        if kind(a) != kind(b) {
            return Err(DataError::Unlike { name: name.to_owned(), other: other.to_owned() });
        }
        if let Some(busy) = [&*a, &*b].into_iter().find(|entry| entry.halo.is_under_way()) {
            let (name, reason) = (busy.described.name.clone(), BUSY);
            return Err(DataError::Unfit { call: CALL, name, reason });
        }
        std::mem::swap(&mut a.block, &mut b.block);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;
    use crate::layout::Halo;

    fn ring() -> Registry {
        let mut registry = Registry::serial();
        let pattern = Pattern::halo([1, 1, 3], [Halo::NONE, Halo::NONE, Halo::periodic(1)]);
        registry.register_with("ring", pattern, &[0_u32, 1, 2, 3, 0]).unwrap();
        registry
    }

    fn cells(registry: &Registry, name: &str) -> Vec<u32> {
        registry.local(registry.array::<u32>(name).unwrap()).unwrap().to_vec()
    }

    #[test]
    fn one_process_fills_the_ghost_cells_of_a_ring() {
        let mut registry = ring();
        registry.exchange_halo("ring").unwrap();
        assert_eq!(cells(&registry, "ring"), [3, 1, 2, 3, 1]);
    }

    #[test]
    fn exchanges_out_of_order_are_refused_with_the_name() {
        let mut registry = ring();
        let limits = WaitLimits { deadline: None, check_peers: &|| Ok(()) };
        let early = registry.end_exchange("end", "ring", &limits).unwrap_err().to_string();
        assert_eq!(early, "end: `ring`: no exchange of its ghost cells has begun");
        registry.begin_exchange("begin", "ring").unwrap();
        assert!(matches!(registry.begin_exchange("begin", "ring"), Err(DataError::Unfit { .. })));
        assert_eq!(registry.exchanging(), Some("ring"));
        registry.end_exchange("end", "ring", &limits).unwrap();
        assert_eq!(registry.exchanging(), None);
        assert!(matches!(registry.exchange_halo("other"), Err(DataError::Unknown { .. })));
    }

    #[test]
    fn swapped_arrays_have_each_others_elements() {
        let mut registry = ring();
        let pattern = registry.pattern("ring").unwrap();
        registry.register::<u32>("next", pattern).unwrap();
        registry.register::<u32>("flat", Pattern::block(3)).unwrap();
        registry.swap("next", "ring").unwrap();
        registry.swap("ring", "ring").unwrap();
        assert_eq!(cells(&registry, "next"), [0, 1, 2, 3, 0]);
        assert_eq!(cells(&registry, "ring"), [0; 5]);
        let unlike = registry.swap("next", "flat").unwrap_err().to_string();
        assert!(unlike.starts_with("swap: `next` and `flat` have different patterns"), "{unlike}");
        assert!(matches!(registry.swap("next", "none"), Err(DataError::Unknown { .. })));
    }
}
