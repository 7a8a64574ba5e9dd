//! Table of call sites, and of the objects that each has made and that are not freed. Accessed only
//! under the lock of the parent module.

#![allow(unsafe_code)]

use memprof_boundary::handles::Handle;

use crate::base::{kernel, memory};

/// Number of call sites that are kept apart.
pub const SITES: usize = 256;
/// Slots of the first table of objects.
const FIRST: usize = 1 << 10;
/// Maximum number of slots; at most three quarters of them are used.
const LARGEST: usize = 1 << 20;

/// A place of the program that makes objects of one kind, by one function.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Return address of the calls.
    pub address: usize,
    /// Index of the function.
    pub function: u16,
    pub kind: Handle,
    /// Number of objects ever made.
    pub made: u64,
    /// Number of these that are freed.
    pub freed: u64,
    /// Largest number alive at once.
    pub peak: u64,
    has_changed: bool,
}

const NEVER: Site = Site {
    address: 0,
    function: 0,
    kind: Handle::Communicator,
    made: 0,
    freed: 0,
    peak: 0,
    has_changed: false,
};

/// Objects of one site with the same handle.
#[derive(Copy, Clone)]
struct Object {
    /// Kind and handle; 0 for an empty slot.
    key: u64,
    site: u32,
    count: u32,
}

/// An object that was removed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    key: u64,
    site: u32,
}

/// Table of sites and objects. All zeros is an empty table.
pub struct Table {
    sites: [Site; SITES],
    count: usize,
    objects: &'static mut [Object],
    used: usize,
}

/// Returns the key of an object, which is never 0. Handles are addresses or small numbers.
fn key(kind: Handle, handle: u64) -> u64 {
    (kind as u64 + 1) << 56 | handle & ((1 << 56) - 1)
}

fn spread(key: u64, slots: usize) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24) as usize & (slots - 1)
}

impl Table {
    pub const fn new() -> Table {
        Table { sites: [NEVER; SITES], count: 0, objects: &mut [], used: 0 }
    }

    /// Adds an object. Returns false if there is no room; it then counts for nothing.
    pub fn made(&mut self, kind: Handle, handle: u64, function: usize, address: usize) -> bool {
        let key = key(kind, handle);
        if !kind.is_counted()
            && let Some(gone) = self.find(key)
        {
            // The object was freed where the tool did not see it.
            self.remove(gone);
        }
        let Some(site) = self.site(kind, function, address) else { return false };
        if !self.insert(key, site) {
            return false;
        }
        let site = &mut self.sites[site as usize];
        site.made += 1;
        site.peak = site.peak.max(site.made - site.freed);
        site.has_changed = true;
        true
    }

    /// Removes an object.
    pub fn take(&mut self, kind: Handle, handle: u64) -> Option<Taken> {
        let key = key(kind, handle);
        let place = self.find(key)?;
        let site = self.objects[place].site;
        self.remove(place);
        Some(Taken { key, site })
    }

    /// Adds an object again that was removed.
    pub fn put_back(&mut self, taken: Taken) {
        if self.insert(taken.key, taken.site) {
            let site = &mut self.sites[taken.site as usize];
            site.freed -= 1;
            site.has_changed = true;
        }
    }

    /// Returns the numbers of a site if they have changed since the last call.
    pub fn changed(&mut self, index: usize) -> Option<Site> {
        let site = &mut self.sites[index];
        core::mem::take(&mut site.has_changed).then_some(*site)
    }

    fn site(&mut self, kind: Handle, function: usize, address: usize) -> Option<u32> {
        let same = |site: &Site| {
            site.address == address && usize::from(site.function) == function && site.kind == kind
        };
        // The site of the last object is often the site of the next.
        let known = self.sites[..self.count].iter().rposition(same);
        let index = known.or_else(|| {
            let index = self.count;
            let free = self.sites.get_mut(index)?;
            *free = Site { address, function: function as u16, kind, ..NEVER };
            self.count += 1;
            Some(index)
        })?;
        Some(index as u32)
    }

    /// Returns the slot of an object: the one of the site that began last to have this handle.
    fn find(&self, key: u64) -> Option<usize> {
        let slots = self.objects.len();
        if slots == 0 {
            return None;
        }
        let mut place = spread(key, slots);
        let mut found = None;
        while self.objects[place].key != 0 {
            if self.objects[place].key == key {
                found = Some(place);
            }
            place = (place + 1) & (slots - 1);
        }
        found
    }

    fn insert(&mut self, key: u64, site: u32) -> bool {
        if self.used >= self.objects.len() / 4 * 3 && !self.grow() {
            return false;
        }
        let slots = self.objects.len();
        let mut place = spread(key, slots);
        loop {
            let object = &mut self.objects[place];
            if object.key == key && object.site == site {
                object.count = object.count.saturating_add(1);
                return true;
            }
            if object.key == 0 {
                *object = Object { key, site, count: 1 };
                self.used += 1;
                return true;
            }
            place = (place + 1) & (slots - 1);
        }
    }

    /// Removes one of the objects in a slot.
    fn remove(&mut self, mut place: usize) {
        let object = &mut self.objects[place];
        let site = &mut self.sites[object.site as usize];
        site.freed += 1;
        site.has_changed = true;
        object.count -= 1;
        if object.count > 0 {
            return;
        }
        self.used -= 1;
        let slots = self.objects.len();
        // Entries behind the gap move up where their hash allows it, so that no search ends too
        // early.
        let mut next = (place + 1) & (slots - 1);
        while self.objects[next].key != 0 {
            let wanted = spread(self.objects[next].key, slots);
            if next.wrapping_sub(wanted) & (slots - 1) >= next.wrapping_sub(place) & (slots - 1) {
                self.objects[place] = self.objects[next];
                place = next;
            }
            next = (next + 1) & (slots - 1);
        }
        self.objects[place].key = 0;
    }

    /// Moves the objects into a table of twice the size. Returns false where there is none.
    fn grow(&mut self) -> bool {
        let slots = (self.objects.len() * 2).max(FIRST);
        if slots > LARGEST {
            return false;
        }
        // SAFETY: zeros are empty slots.
        let Some(larger) = (unsafe { memory::slice::<Object>(slots) }) else { return false };
        let before = core::mem::replace(&mut self.objects, larger);
        for object in before.iter().filter(|object| object.key != 0) {
            let mut place = spread(object.key, slots);
            while self.objects[place].key != 0 {
                place = (place + 1) & (slots - 1);
            }
            self.objects[place] = *object;
        }
        // SAFETY: only this table had a reference to the earlier objects.
        unsafe { kernel::release(before.as_ptr() as usize, size_of_val(before)) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn numbers(table: &Table) -> Vec<(usize, u64, u64, u64)> {
        let sites = table.sites[..table.count].iter();
        sites.map(|site| (site.address, site.made, site.freed, site.peak)).collect()
    }

    #[test]
    fn objects_count_for_the_site_that_made_them() {
        let mut table = Box::new(Table::new());
        for handle in 0..5000 {
            assert!(table.made(Handle::Datatype, 0x5000 + 64 * handle, 7, 100));
        }
        for handle in 0..4000 {
            assert!(table.take(Handle::Datatype, 0x5000 + 64 * handle).is_some());
        }
        assert!(table.made(Handle::Communicator, 0x5000, 8, 200));
        assert_eq!(table.take(Handle::Datatype, 0x5000), None, "freed already");
        assert_eq!(table.take(Handle::Group, 0x5000), None, "of another kind");
        assert_eq!(numbers(&table), [(100, 5000, 4000, 5000), (200, 1, 0, 1)]);
        assert_eq!(table.changed(0).map(|site| site.made), Some(5000));
        assert_eq!(table.changed(0), None);
    }

    #[test]
    fn handle_that_several_calls_return_is_freed_as_often() {
        let mut table = Box::new(Table::new());
        assert!(table.made(Handle::Group, 9, 1, 100));
        for _ in 0..3 {
            assert!(table.made(Handle::Group, 9, 1, 200));
        }
        for _ in 0..3 {
            assert!(table.take(Handle::Group, 9).is_some());
        }
        assert_eq!(numbers(&table), [(100, 1, 0, 1), (200, 3, 3, 3)], "the last is freed first");
        assert!(table.take(Handle::Group, 9).is_some());
        assert_eq!(table.take(Handle::Group, 9), None);
    }

    #[test]
    fn release_that_failed_leaves_the_object_alive() {
        let mut table = Box::new(Table::new());
        assert!(table.made(Handle::Window, 9, 1, 100));
        let taken = table.take(Handle::Window, 9).unwrap();
        table.put_back(taken);
        assert_eq!(numbers(&table), [(100, 1, 0, 1)]);
        assert!(table.take(Handle::Window, 9).is_some());
    }

    #[test]
    fn handle_that_comes_again_replaces_one_freed_unseen() {
        let mut table = Box::new(Table::new());
        assert!(table.made(Handle::Request, 9, 1, 100));
        assert!(table.made(Handle::Request, 9, 1, 200));
        assert_eq!(numbers(&table), [(100, 1, 1, 1), (200, 1, 0, 1)]);
    }

    #[test]
    fn more_sites_than_there_can_be_are_refused() {
        let mut table = Box::new(Table::new());
        for site in 0..SITES {
            assert!(table.made(Handle::Info, site as u64 + 1, 1, site));
        }
        assert!(!table.made(Handle::Info, 9999, 1, SITES));
        assert_eq!(table.take(Handle::Info, 9999), None);
        assert!(table.made(Handle::Info, 9999, 1, 0), "known sites still have room");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn alive_objects_are_known_whatever_is_made_and_freed(
            steps in prop::collection::vec((0_u64..700, 0_usize..20), 1..4000)
        ) {
            let mut table = Box::new(Table::new());
            let mut alive = HashMap::new();
            for (handle, site) in steps {
                match alive.remove(&handle) {
                    None => {
                        prop_assert!(table.made(Handle::Op, handle * 8, 3, site));
                        alive.insert(handle, site);
                    }
                    Some(_) => prop_assert!(table.take(Handle::Op, handle * 8).is_some()),
                }
                prop_assert_eq!(table.used, alive.len());
            }
            for (address, made, freed, _) in numbers(&table) {
                let here = alive.values().filter(|site| **site == address).count();
                prop_assert_eq!(made - freed, here as u64);
            }
        }
    }
}
