//! Table of the memory of GPUs that is not freed, with the sums of each call site, of each
//! component and of the process. Accessed only under the lock of the parent module.

#![allow(unsafe_code)]

use crate::base::component::Component;
use crate::base::{kernel, memory};

/// Number of sums that are kept apart.
pub const ROWS: usize = 96;
/// Number of sums from which on no call site gets a new one.
const CALLS: usize = 72;
/// Slots of the first table of blocks.
const FIRST: usize = 1 << 10;
/// Maximum number of slots; at most three quarters of them are used.
const LARGEST: usize = 1 << 20;

/// Kind of memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Memory of a device.
    Device = 0,
    /// Memory that the driver moves between the device and the host.
    Managed = 1,
    /// Pinned memory of the host.
    Pinned = 2,
}

/// A call that allocates.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the function.
    pub function: &'static str,
    /// Return address.
    pub address: usize,
}

/// Subject of a sum.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// All memory of a kind.
    Process,
    /// Memory of a component.
    Component(Component),
    /// Memory of a component from one call site.
    Call(Component, Call),
}

/// A sum over memory of one kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Kind of the memory.
    pub kind: Kind,
    /// Subject of the sum.
    pub of: Of,
    /// Number of blocks ever allocated.
    pub blocks: u64,
    /// Bytes ever allocated.
    pub allocated: u64,
    /// Bytes of these that are freed.
    pub freed: u64,
    /// Most bytes alive at once.
    pub peak: u64,
    has_changed: bool,
}

const NEVER: Row = Row {
    kind: Kind::Device,
    of: Of::Process,
    blocks: 0,
    allocated: 0,
    freed: 0,
    peak: 0,
    has_changed: false,
};

/// Indices of the sums that a block is part of: call site, component, process. A sum for which
/// there was no room is [`NO_ROW`].
type Sums = [u16; 3];

const NO_ROW: u16 = u16::MAX;

/// A block that is not freed.
#[derive(Copy, Clone)]
struct Block {
    /// 0 for an empty slot.
    pointer: u64,
    bytes: u64,
    sums: Sums,
}

/// A block that was removed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Address of the block.
    pub pointer: u64,
    /// Its size.
    pub bytes: u64,
    /// Component that allocated pinned memory; `None` for other kinds.
    pub pinned_for: Option<Component>,
    sums: Sums,
}

/// Table of sums and blocks.
pub struct Table {
    rows: [Row; ROWS],
    count: usize,
    blocks: &'static mut [Block],
    used: usize,
}

fn spread(pointer: u64, slots: usize) -> usize {
    (pointer.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24) as usize & (slots - 1)
}

impl Table {
    pub const fn new() -> Table {
        Table { rows: [NEVER; ROWS], count: 0, blocks: &mut [], used: 0 }
    }

    /// Adds a block. Returns false where a call site or the block found no room; a block without
    /// room counts for nothing, and one without a row of its call site for its component.
    pub fn allocated(
        &mut self,
        kind: Kind,
        pointer: u64,
        bytes: u64,
        component: Component,
        call: Call,
    ) -> bool {
        if pointer == 0 {
            return true;
        }
        // An earlier block at this address was freed where the tool did not see it.
        if let Some(gone) = self.find(pointer) {
            self.remove(gone);
        }
        // Sums of processes are first, so that each has a row.
        for kind in [Kind::Device, Kind::Managed, Kind::Pinned] {
            self.row(kind, Of::Process);
        }
        let process = self.row(kind, Of::Process);
        let of_component = self.row(kind, Of::Component(component));
        let sums = [self.row(kind, Of::Call(component, call)), of_component, process];
        if !self.insert(Block { pointer, bytes, sums }) {
            return false;
        }
        for row in sums {
            if let Some(row) = self.rows.get_mut(usize::from(row)) {
                row.blocks += 1;
                row.allocated += bytes;
                row.peak = row.peak.max(row.allocated - row.freed);
                row.has_changed = true;
            }
        }
        !sums.contains(&NO_ROW)
    }

    /// Removes a block.
    pub fn take(&mut self, pointer: u64) -> Option<Taken> {
        let place = self.find(pointer)?;
        let Block { pointer, bytes, sums } = self.blocks[place];
        self.remove(place);
        let pinned_for = self.rows.get(usize::from(sums[1])).and_then(|row| match row.of {
            Of::Component(component) if row.kind == Kind::Pinned => Some(component),
            _ => None,
        });
        Some(Taken { pointer, bytes, pinned_for, sums })
    }

    /// Adds a block again that was removed.
    pub fn put_back(&mut self, taken: Taken) {
        let Taken { pointer, bytes, sums, .. } = taken;
        if self.insert(Block { pointer, bytes, sums }) {
            for row in sums {
                if let Some(row) = self.rows.get_mut(usize::from(row)) {
                    row.freed -= bytes;
                    row.has_changed = true;
                }
            }
        }
    }

    /// Returns a sum if it has changed since the last call.
    pub fn changed(&mut self, index: usize) -> Option<Row> {
        let row = &mut self.rows[index];
        core::mem::take(&mut row.has_changed).then_some(*row)
    }

    /// Returns the index of a sum, which is new if there is room; otherwise [`NO_ROW`].
    fn row(&mut self, kind: Kind, of: Of) -> u16 {
        let same = |row: &Row| row.kind == kind && row.of == of;
        if let Some(known) = self.rows[..self.count].iter().rposition(same) {
            return known as u16;
        }
        let index = self.count;
        // Call sites leave room for the sums of components.
        let is_full = matches!(of, Of::Call(..)) && index >= CALLS;
        let Some(free) = self.rows.get_mut(index).filter(|_| !is_full) else { return NO_ROW };
        *free = Row { kind, of, ..NEVER };
        self.count += 1;
        index as u16
    }

    fn find(&self, pointer: u64) -> Option<usize> {
        let slots = self.blocks.len();
        if slots == 0 || pointer == 0 {
            return None;
        }
        let mut place = spread(pointer, slots);
        while self.blocks[place].pointer != 0 {
            if self.blocks[place].pointer == pointer {
                return Some(place);
            }
            place = (place + 1) & (slots - 1);
        }
        None
    }

    fn insert(&mut self, block: Block) -> bool {
        if self.used >= self.blocks.len() / 4 * 3 && !self.grow() {
            return false;
        }
        let slots = self.blocks.len();
        let mut place = spread(block.pointer, slots);
        while self.blocks[place].pointer != 0 {
            place = (place + 1) & (slots - 1);
        }
        self.blocks[place] = block;
        self.used += 1;
        true
    }

    /// Removes the block in a slot, and counts it as freed.
    fn remove(&mut self, mut place: usize) {
        let Block { bytes, sums, .. } = self.blocks[place];
        for row in sums {
            if let Some(row) = self.rows.get_mut(usize::from(row)) {
                row.freed += bytes;
                row.has_changed = true;
            }
        }
        self.used -= 1;
        let slots = self.blocks.len();
        // Entries behind the gap move up where their hash allows it, so that no search ends too
        // early.
        let mut next = (place + 1) & (slots - 1);
        while self.blocks[next].pointer != 0 {
            let wanted = spread(self.blocks[next].pointer, slots);
            if next.wrapping_sub(wanted) & (slots - 1) >= next.wrapping_sub(place) & (slots - 1) {
                self.blocks[place] = self.blocks[next];
                place = next;
            }
            next = (next + 1) & (slots - 1);
        }
        self.blocks[place].pointer = 0;
    }

    /// Moves the blocks into a table of twice the size. Returns false where there is none.
    fn grow(&mut self) -> bool {
        let slots = (self.blocks.len() * 2).max(FIRST);
        if slots > LARGEST {
            return false;
        }
        // SAFETY: zeros are empty slots.
        let Some(larger) = (unsafe { memory::slice::<Block>(slots) }) else { return false };
        let before = core::mem::replace(&mut self.blocks, larger);
        for block in before.iter().filter(|block| block.pointer != 0) {
            let mut place = spread(block.pointer, slots);
            while self.blocks[place].pointer != 0 {
                place = (place + 1) & (slots - 1);
            }
            self.blocks[place] = *block;
        }
        // SAFETY: only this table had a reference to the earlier blocks.
        unsafe { kernel::release(before.as_ptr() as usize, size_of_val(before)) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const CALL: Call = Call { function: "cudaMalloc", address: 100 };
    const OWNER: Component = Component(3);

    fn numbers(table: &Table, of: Of) -> [u64; 4] {
        let row = table.rows[..table.count].iter().find(|row| row.of == of).unwrap();
        [row.blocks, row.allocated, row.freed, row.peak]
    }

    #[test]
    fn memory_counts_for_its_call_its_component_and_the_process() {
        let mut table = Box::new(Table::new());
        let second = Call { address: 200, ..CALL };
        for (pointer, component, call) in
            [(10, OWNER, CALL), (20, OWNER, second), (30, Component(4), CALL)]
        {
            assert!(table.allocated(Kind::Device, pointer, pointer, component, call));
        }
        assert!(table.take(10).is_some());
        assert_eq!(table.take(10), None, "freed already");
        assert_eq!(numbers(&table, Of::Call(OWNER, CALL)), [1, 10, 10, 10]);
        assert_eq!(numbers(&table, Of::Component(OWNER)), [2, 30, 10, 30]);
        assert_eq!(numbers(&table, Of::Process), [3, 60, 10, 60]);
        assert_eq!(table.changed(0).map(|row| row.allocated), Some(60));
        assert_eq!(table.changed(0), None);
    }

    #[test]
    fn kinds_of_memory_have_sums_of_their_own() {
        let mut table = Box::new(Table::new());
        assert!(table.allocated(Kind::Device, 10, 1, OWNER, CALL));
        assert!(table.allocated(Kind::Pinned, 20, 2, OWNER, CALL));
        assert_eq!(table.take(10).and_then(|taken| taken.pinned_for), None);
        assert_eq!(table.take(20).and_then(|taken| taken.pinned_for), Some(OWNER));
        let kinds = table.rows[..table.count].iter().filter(|row| row.of == Of::Process);
        assert_eq!(kinds.map(|row| row.allocated).collect::<Vec<_>>(), [1, 0, 2]);
    }

    #[test]
    fn release_that_failed_leaves_memory_alive() {
        let mut table = Box::new(Table::new());
        assert!(table.allocated(Kind::Device, 10, 5, OWNER, CALL));
        let taken = table.take(10).unwrap();
        table.put_back(taken);
        assert_eq!(numbers(&table, Of::Process), [1, 5, 0, 5]);
        assert!(table.take(10).is_some());
    }

    #[test]
    fn pointer_that_comes_again_replaces_memory_freed_unseen() {
        let mut table = Box::new(Table::new());
        assert!(table.allocated(Kind::Device, 10, 5, OWNER, CALL));
        assert!(table.allocated(Kind::Device, 10, 7, OWNER, CALL));
        assert_eq!(numbers(&table, Of::Process), [2, 12, 5, 7]);
    }

    #[test]
    fn calls_beyond_the_rows_count_for_component_and_process() {
        let mut table = Box::new(Table::new());
        let call = |at: usize| Call { function: "cudaMalloc", address: at };
        let most = CALLS - 4;
        for at in 0..most {
            assert!(table.allocated(Kind::Device, at as u64 + 1, 1, OWNER, call(at)));
        }
        assert!(!table.allocated(Kind::Device, 5000, 100, OWNER, call(5000)));
        assert!(!table.allocated(Kind::Pinned, 6000, 100, Component(7), call(5000)));
        assert_eq!(table.take(6000).and_then(|taken| taken.pinned_for), Some(Component(7)));
        let all = most as u64 + 100;
        assert_eq!(numbers(&table, Of::Component(OWNER))[1..], [all, 0, all]);
        assert!(table.take(5000).is_some());
        assert_eq!(numbers(&table, Of::Process)[2], 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn alive_blocks_are_known_whatever_is_allocated_and_freed(
            steps in prop::collection::vec((1_u64..700, 0_usize..20), 1..4000)
        ) {
            let mut table = Box::new(Table::new());
            let mut alive = HashMap::new();
            for (pointer, site) in steps {
                match alive.remove(&pointer) {
                    None => {
                        let call = Call { function: "cudaMalloc", address: site };
                        prop_assert!(table.allocated(Kind::Device, pointer * 8, pointer, OWNER, call));
                        alive.insert(pointer, site);
                    }
                    Some(_) => prop_assert!(table.take(pointer * 8).is_some()),
                }
                prop_assert_eq!(table.used, alive.len());
            }
            let [_, allocated, freed, _] = numbers(&table, Of::Process);
            prop_assert_eq!(allocated - freed, alive.keys().sum::<u64>());
        }
    }
}
