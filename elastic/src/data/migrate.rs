//! Lists of items, such as particles, of which each rank holds any number.

use quo::group::WaitLimits;

use super::block::Block;
use super::element::{elements, elements_mut};
use super::items::{Items, Owners};
use super::message::TAG_OF_ITEMS;
use super::pieces::{PassError, Pieces, Refusal, pass};
use super::{DataError, Element, Registry};

impl Registry {
    /// Adds a list of items, of which each rank holds any number, none at first. `owner` returns the
    /// rank that an item belongs to, among so many ranks. A resize moves each item to its owner among
    /// the new ranks; [`World::migrate`](crate::World::migrate) does so among the present ones.
    /// Local; called in the same way by all processes that can become ranks, even before they are. If
    /// items have another size on one of them, migrations and moves fail on all.
    ///
    /// ```
    /// # use elastic::data::Registry;
    /// # fn example(data: &mut Registry) -> Result<(), elastic::data::DataError> {
    /// // Places from 0 to 1, in one slab for each rank.
    /// data.register_items::<f64>("places", |place, ranks| {
    ///     ((place * ranks as f64) as usize).min(ranks - 1)
    /// })?;
    /// data.resize_items("places", 2)?;
    /// data.items_mut::<f64>("places")?.copy_from_slice(&[0.3, 0.7]);
    /// data.migrate("places")?; // in a world: world.migrate("places")?
    /// assert_eq!(data.items::<f64>("places")?, [0.3, 0.7]);
    /// # Ok(())
    /// # }
    /// # example(&mut Registry::serial()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`DataError::Twice`]; [`DataError::Rows`] for items without bytes; [`DataError::Unfit`]
    /// between a move and its commit.
    #[doc(alias = "QUO_world_items_add")]
    pub fn register_items<T: Element>(
        &mut self,
        name: &str,
        mut owner: impl FnMut(&T, usize) -> usize + 'static,
    ) -> Result<(), DataError> {
        let of_bytes = move |items: &[u8], ranks: usize, owners: &mut [i32]| {
            for (item, place) in elements::<T>(items).iter().zip(owners) {
                *place = i32::try_from(owner(item, ranks)).unwrap_or(i32::MAX);
            }
            Ok(())
        };
        self.register_items_bytes(name, size_of::<T>(), Box::new(of_bytes))
    }

    /// Adds a list as [`register_items`](Self::register_items) does, with items of `element` bytes.
    /// `owners` gets all items of this rank at once and sets the owner of each. Its error fails the
    /// migration or the move on all ranks.
    ///
    /// # Errors
    /// As there.
    pub fn register_items_bytes(
        &mut self,
        name: &str,
        element: usize,
        owners: Owners,
    ) -> Result<(), DataError> {
        const CALL: &str = "register_items";
        self.check_new(CALL, name)?;
        if element == 0 {
            let reason = "its items have 0 bytes".to_owned();
            return Err(DataError::Rows { call: CALL, name: name.to_owned(), reason });
        }
        self.items.push(Items::new(name.to_owned(), element, owners));
        self.items.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// Returns the items of this rank. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`], [`DataError::Element`] if the size of its items differs.
    pub fn items<T: Element>(&self, name: &str) -> Result<&[T], DataError> {
        self.check_item::<T>("items", name)?;
        self.items_bytes(name).map(elements)
    }

    /// Returns the items of this rank for writing. Local.
    ///
    /// # Errors
    /// As [`items`](Self::items).
    pub fn items_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T], DataError> {
        self.check_item::<T>("items_mut", name)?;
        self.items_bytes_mut(name).map(elements_mut)
    }

    /// Returns the bytes of the items of this rank. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn items_bytes(&self, name: &str) -> Result<&[u8], DataError> {
        self.items_of("items", name).map(|at| self.items[at].bytes())
    }

    /// Returns the bytes of the items of this rank for writing. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn items_bytes_mut(&mut self, name: &str) -> Result<&mut [u8], DataError> {
        self.items_of("items", name).map(|at| self.items[at].bytes_mut())
    }

    /// Number of bytes of an item. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn item_size(&self, name: &str) -> Result<usize, DataError> {
        self.items_of("item_size", name).map(|at| self.items[at].element)
    }

    /// Sets the number of items of this rank: the first ones stay, new ones are zero. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`], [`DataError::Memory`], [`DataError::NoRank`], [`DataError::Unfit`]
    /// between a move and its commit.
    pub fn resize_items(&mut self, name: &str, count: usize) -> Result<(), DataError> {
        const CALL: &str = "resize_items";
        self.seat.ok_or(DataError::NoRank { call: CALL })?;
        self.check_unmoved(CALL, name)?;
        let at = self.items_of(CALL, name)?;
        self.items[at].resize(count).map_err(|(bytes, reason)| DataError::Memory {
            call: CALL,
            name: name.to_owned(),
            bytes,
            reason,
        })
    }

    /// Moves items to their owners in a program that runs in one process. Over a world it is
    /// [`World::migrate`](crate::World::migrate). Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`]; [`DataError::Rows`] for an owner that is not rank 0;
    /// [`DataError::Unfit`] over a world of several ranks.
    pub fn migrate(&mut self, name: &str) -> Result<(), DataError> {
        const CALL: &str = "migrate";
        if self.seat.is_some_and(|(_, size)| size > 1) {
            let reason = "its items are moved by the world, among its ranks";
            return Err(DataError::Unfit { call: CALL, name: name.to_owned(), reason });
        }
        self.migrate_within(CALL, name, &WaitLimits { deadline: None, check_peers: &|| Ok(()) })
    }

    /// Moves items to their owners. Collective over the ranks, which are connected.
    pub(crate) fn migrate_within(
        &mut self,
        call: &'static str,
        name: &str,
        limits: &WaitLimits<'_>,
    ) -> Result<(), DataError> {
        let (rank, size) = self.seat.ok_or(DataError::NoRank { call })?;
        let at = match self.items_of(call, name) {
            Ok(at) => at,
            Err(unknown) => {
                // The others wait for this rank, and learn the reason.
                if let Some(group) = &self.halo_group {
                    let refused = Err(Refusal::Unfit(unknown.to_string()));
                    let _ = pass(call, group, refused, (TAG_OF_ITEMS, 0), |_| Ok(()), limits);
                }
                return Err(unknown);
            }
        };
        let given = self.items[at].by_owner(size);
        let (pieces, room) = self.pass_items(call, at, (rank, given), limits)?;
        self.items[at].replace(room, &pieces);
        Ok(())
    }

    /// Passes pieces of items of a list to their owners. Returns the pieces for this rank, and memory
    /// of their size. Collective over the ranks, which are connected.
    pub(super) fn pass_items(
        &self,
        call: &'static str,
        at: usize,
        (rank, given): (usize, Result<Pieces, Refusal>),
        limits: &WaitLimits<'_>,
    ) -> Result<(Pieces, Block), DataError> {
        let Items { name, element, .. } = &self.items[at];
        let passed = match &self.halo_group {
            Some(group) => pass(call, group, given, (TAG_OF_ITEMS, *element), Items::room, limits),
            None => given
                .and_then(|given| {
                    let room = Items::room(given.iter().map(|(_, piece)| piece.len()).sum())?;
                    Ok((given, room))
                })
                .map_err(|refusal| PassError::Refused { rank, refusal }),
        };
        let differs = |found, first| {
            format!(
                "its items of `{name}` have {found} bytes, and on rank 0 {first}: register items of one size everywhere"
            )
        };
        passed.map_err(|error| error.of(call, name, differs))
    }

    fn items_of(&self, call: &'static str, name: &str) -> Result<usize, DataError> {
        let found = self.items.iter().position(|items| items.name == name);
        found.ok_or_else(|| self.unknown(call, "list", name))
    }

    fn check_item<T>(&self, call: &'static str, name: &str) -> Result<(), DataError> {
        let (expected, found) = (size_of::<T>(), self.item_size(name)?);
        if expected == found {
            return Ok(());
        }
        Err(DataError::Element { call, name: name.to_owned(), expected, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_name_and_refused_with_reasons() {
        let mut registry = Registry::serial();
        registry.register_items::<u64>("ants", |ant, _| *ant as usize).unwrap();
        let twice = registry.register_items::<u64>("ants", |_, _| 0);
        assert!(matches!(twice, Err(DataError::Twice { .. })));
        registry.resize_items("ants", 2).unwrap();
        registry.migrate("ants").unwrap();
        registry.items_mut::<u64>("ants").unwrap()[1] = 3;
        let lost = registry.migrate("ants").unwrap_err().to_string();
        assert!(lost.contains("`ants`: rank 0: the owner of item 1 is rank 3"), "{lost}");
        assert_eq!(registry.items::<u64>("ants").unwrap(), [0, 3]);
        assert!(matches!(registry.items::<u32>("ants"), Err(DataError::Element { .. })));
        registry.remove("ants").unwrap();
        assert!(matches!(registry.items_bytes("ants"), Err(DataError::Unknown { .. })));
        let mut two = Registry::new(Some((0, 2)));
        two.register_items::<u64>("ants", |_, _| 0).unwrap();
        assert!(matches!(two.migrate("ants"), Err(DataError::Unfit { .. })));
        let parked = Registry::new(None).resize_items("ants", 1);
        assert_eq!(parked, Err(DataError::NoRank { call: "resize_items" }));
    }
}
