//! Handles: numbers that look like pointers to C and are never dereferenced.
//!
//! A handle names a slot of a fixed table and the generation of its content. Slots are reused,
//! generations are not, so a freed handle never refers to another object, and a number that was
//! never a handle is recognised by its form. A lookup is a load and a compare-and-swap that also
//! counts the user; a call that frees the object sees whether there are other users.
//! State word of a slot: `generation:40 | users:23 | live:1`.
//! Handle: `generation:40 | slot:12 | kind:3 | 1`; odd, so it is not a valid pointer.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::codes::Code;
use crate::guard::Failure;

const LIVE: u64 = 1;
const USER: u64 = 1 << 1;
const USERS: u64 = ((1 << 23) - 1) << 1;
const GENERATION: u32 = 24;
const LAST_GENERATION: u64 = (1 << 40) - 1;
const SLOT_BITS: u32 = 12;
/// Maximum number of objects of a kind that a message names individually.
const MOST_NAMED: usize = 8;

const _: () = assert!(usize::BITS == 64, "handles carry 56 bits");

/// Kind of a table's objects, in its handles and in messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) number: u64,
    pub(crate) name: &'static str,
}

/// Object for which C has handles.
pub(crate) trait Handled: Send + Sync + 'static {
    const KIND: Kind;
}

/// Slot of a table; on a cache line by itself, so that users of different objects do not contend.
#[repr(align(64))]
struct Slot<T> {
    state: AtomicU64,
    value: AtomicPtr<T>,
}

/// Objects of one kind for which C has handles. A new table is all zeros, so that it takes no bytes
/// of the library's file.
pub(crate) struct Table<T: Handled, const SLOTS: usize> {
    slots: [Slot<T>; SLOTS],
    /// Slot at which the next search for a free one starts. Locked while objects are added, not
    /// while they are used.
    next: Mutex<usize>,
}

impl<T: Handled, const SLOTS: usize> Table<T, SLOTS> {
    pub(crate) const fn new() -> Self {
        assert!(SLOTS <= 1 << SLOT_BITS && T::KIND.number > 0 && T::KIND.number < 8);
        Self {
            slots: [const { Slot { state: AtomicU64::new(0), value: AtomicPtr::new(ptr::null_mut()) } };
                SLOTS],
            next: Mutex::new(0),
        }
    }

    /// Adds an object and returns its handle.
    pub(crate) fn insert(&self, value: T) -> Result<usize, Failure> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        for step in 0..SLOTS {
            let index = (*next + step) % SLOTS;
            let slot = &self.slots[index];
            let state = slot.state.load(Ordering::Relaxed);
            let generation = state >> GENERATION;
            if state & (LIVE | USERS) != 0 || generation == LAST_GENERATION {
                continue;
            }
            *next = index + 1;
            slot.value.store(Box::into_raw(Box::new(value)), Ordering::Relaxed);
            slot.state.store((generation + 1) << GENERATION | LIVE, Ordering::Release);
            return Ok(self.handle(index, generation + 1));
        }
        let name = T::KIND.name;
        Err(Failure::new(Code::OutOfResources, format!("there are {SLOTS} {name}s already")))
    }

    /// Returns the object of a handle, held until the result is dropped.
    pub(crate) fn get(&'static self, handle: usize) -> Result<Held<T>, Failure> {
        let (slot, generation) = self.locate(handle)?;
        let mut state = slot.state.load(Ordering::Relaxed);
        loop {
            if state >> GENERATION != generation || state & LIVE == 0 {
                return Err(self.unknown(handle));
            }
            if state & USERS == USERS {
                return Err(self.busy("by more threads than can be counted"));
            }
            match slot.state.compare_exchange_weak(
                state,
                state + USER,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(Held { slot, kept_for: None }),
                Err(now) => state = now,
            }
        }
    }

    /// Removes the object of a handle, if there is no other user.
    pub(crate) fn remove(&self, handle: usize) -> Result<Box<T>, Failure> {
        let (slot, generation) = self.locate(handle)?;
        let state = slot.state.load(Ordering::Relaxed);
        if state >> GENERATION != generation || state & LIVE == 0 {
            return Err(self.unknown(handle));
        }
        let idle = generation << GENERATION | LIVE;
        match slot.state.compare_exchange(
            idle,
            generation << GENERATION,
            Ordering::Acquire,
            Ordering::Relaxed,
        ) {
            Ok(_) => {
                let value = slot.value.swap(ptr::null_mut(), Ordering::Relaxed);
                // SAFETY: the pointer is from a Box in `insert`; the exchange above made this call
                // the only one that takes it out, and found no users.
                Ok(unsafe { Box::from_raw(value) })
            }
            Err(now) if now >> GENERATION != generation || now & LIVE == 0 => {
                Err(self.unknown(handle))
            }
            Err(now) => Err(self.busy(&users(address_of(slot), (now & USERS) / USER))),
        }
    }

    /// Returns all current objects, held.
    pub(crate) fn all(&'static self) -> Vec<Held<T>> {
        let handle = |(index, slot): (usize, &Slot<T>)| {
            let generation = slot.state.load(Ordering::Relaxed) >> GENERATION;
            self.get(self.handle(index, generation)).ok()
        };
        self.slots.iter().enumerate().filter_map(handle).collect()
    }

    fn handle(&self, index: usize, generation: u64) -> usize {
        let bits = generation << (SLOT_BITS + 4) | (index as u64) << 4 | T::KIND.number << 1 | 1;
        bits as usize
    }

    fn locate(&self, handle: usize) -> Result<(&Slot<T>, u64), Failure> {
        if handle == 0 {
            return Err(Failure::invalid(format!("the {} is NULL", T::KIND.name)));
        }
        let bits = handle as u64;
        let index = (bits >> 4) as usize & ((1 << SLOT_BITS) - 1);
        match self.slots.get(index) {
            Some(slot) if bits & 0xf == T::KIND.number << 1 | 1 => {
                Ok((slot, bits >> (SLOT_BITS + 4)))
            }
            _ => Err(self.unknown(handle)),
        }
    }

    fn unknown(&self, handle: usize) -> Failure {
        let name = T::KIND.name;
        Failure::new(
            Code::InvalidHandle,
            format!("{handle:#x} is not a {name} in use: it was freed, or never was one"),
        )
    }

    fn busy(&self, by: &str) -> Failure {
        Failure::new(Code::Busy, format!("the {} is in use {by}", T::KIND.name))
    }
}

/// An object that cannot be freed while this value exists.
pub(crate) struct Held<T: 'static> {
    slot: &'static Slot<T>,
    /// Entry in [`KEEPERS`].
    kept_for: Option<u64>,
}

/// An object that keeps another one from being freed.
struct Keeper {
    number: u64,
    /// Address of the slot of the kept object.
    kept: usize,
    kind: &'static str,
    name: String,
}

static KEEPERS: Mutex<Vec<Keeper>> = Mutex::new(Vec::new());

fn keepers() -> MutexGuard<'static, Vec<Keeper>> {
    KEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn address_of<T>(slot: &Slot<T>) -> usize {
    ptr::from_ref(slot).addr()
}

/// Describes the users of an object: dependent objects by kind, number and name, and other calls.
fn users(kept: usize, count: u64) -> String {
    let keepers = keepers();
    let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut calls = count;
    for keeper in keepers.iter().filter(|keeper| keeper.kept == kept) {
        calls = calls.saturating_sub(1);
        match kinds.iter_mut().find(|(kind, _)| *kind == keeper.kind) {
            Some((_, names)) => names.push(&keeper.name),
            None => kinds.push((keeper.kind, vec![&keeper.name])),
        }
    }
    let plural = |number: usize| if number == 1 { "" } else { "s" };
    let mut parts: Vec<String> = Vec::new();
    for (kind, names) in kinds {
        let count = names.len();
        let named: Vec<String> = names
            .into_iter()
            .filter(|name| !name.is_empty())
            .take(MOST_NAMED)
            .map(|name| format!("`{name}`"))
            .collect();
        let names =
            if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        parts.push(format!("{count} {kind}{}{names}", plural(count)));
    }
    let freed = if parts.is_empty() { "" } else { " made from it: free these first" };
    let mut text = format!("by {}{freed}", parts.join(" and "));
    if parts.is_empty() || calls > 0 {
        let calls = usize::try_from(calls.max(1)).unwrap_or(usize::MAX);
        let start = if parts.is_empty() { "by " } else { "; and by " };
        let other = if calls == 1 { "another thread" } else { "other threads" };
        let said = if parts.is_empty() { String::new() } else { text };
        text = format!("{said}{start}{calls} call{} of {other}", plural(calls));
    }
    text
}

impl<T> Held<T> {
    /// Records the object for which this one is held, to be named if the held object cannot be
    /// freed.
    pub(crate) fn keep_for(&mut self, kind: &'static str, name: &str) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let kept = address_of(self.slot);
        keepers().push(Keeper { number, kept, kind, name: name.to_owned() });
        self.kept_for = Some(number);
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the slot was live when this user was counted, and `remove` takes nothing out
        // while a user is counted; the release store of `insert` made the object visible.
        unsafe { &*self.slot.value.load(Ordering::Relaxed) }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if let Some(number) = self.kept_for {
            keepers().retain(|keeper| keeper.number != number);
        }
        self.slot.state.fetch_sub(USER, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    impl Handled for u32 {
        const KIND: Kind = Kind { number: 5, name: "number" };
    }

    impl Handled for u64 {
        const KIND: Kind = Kind { number: 6, name: "other" };
    }

    #[test]
    fn handle_means_its_object_until_removed_then_nothing() {
        static TABLE: Table<u32, 4> = Table::new();
        let first = TABLE.insert(1).unwrap();
        assert_eq!(*TABLE.get(first).unwrap(), 1);
        assert_eq!(*TABLE.remove(first).unwrap(), 1);
        for round in 0..100 {
            let other = TABLE.insert(round).unwrap();
            assert_ne!(other, first);
            assert_eq!(TABLE.get(first).err().unwrap().code, Code::InvalidHandle);
            assert_eq!(TABLE.remove(first).err().unwrap().code, Code::InvalidHandle);
            assert_eq!(*TABLE.remove(other).unwrap(), round);
        }
    }

    #[test]
    fn numbers_that_never_were_handles_are_refused() {
        static TABLE: Table<u32, 4> = Table::new();
        static OTHER: Table<u64, 4> = Table::new();
        assert_eq!(TABLE.get(0).err().unwrap().code, Code::InvalidArgument);
        let foreign = OTHER.insert(1).unwrap();
        let nonsense = [foreign, 1, 8, 0xdead_beef, usize::MAX, usize::MAX & !0xf | 0xb, 0xb];
        for handle in nonsense {
            assert_eq!(TABLE.get(handle).err().unwrap().code, Code::InvalidHandle, "{handle:#x}");
            assert_eq!(TABLE.remove(handle).err().unwrap().code, Code::InvalidHandle);
        }
    }

    #[test]
    fn a_held_object_stays() {
        static TABLE: Table<u32, 4> = Table::new();
        let handle = TABLE.insert(1).unwrap();
        let held = TABLE.get(handle).unwrap();
        assert_eq!(TABLE.remove(handle).err().unwrap().code, Code::Busy);
        assert_eq!(*held, 1);
        drop(held);
        assert!(TABLE.remove(handle).is_ok());
    }

    #[test]
    fn busy_object_names_its_users_and_their_number() {
        static TABLE: Table<u32, 4> = Table::new();
        let handle = TABLE.insert(1).unwrap();
        let said = || TABLE.remove(handle).err().unwrap().text().to_owned();
        let held = TABLE.get(handle).unwrap();
        assert_eq!(said(), "the number is in use by 1 call of another thread");
        let mut solve = TABLE.get(handle).unwrap();
        solve.keep_for("phase", "solve");
        let mut unnamed = TABLE.get(handle).unwrap();
        unnamed.keep_for("phase", "");
        let made = "the number is in use by 2 phases (`solve`) made from it: free these first";
        assert_eq!(said(), format!("{made}; and by 1 call of another thread"));
        drop(held);
        assert_eq!(said(), made);
        drop((solve, unnamed));
        assert_eq!(TABLE.all().len(), 1);
        assert!(TABLE.remove(handle).is_ok());
        assert!(TABLE.all().is_empty());
    }

    #[test]
    fn full_table_is_refused_and_works_again_with_room() {
        static TABLE: Table<u32, 4> = Table::new();
        let handles: Vec<usize> = (0..4).map(|n| TABLE.insert(n).unwrap()).collect();
        assert_eq!(TABLE.insert(4).err().unwrap().code, Code::OutOfResources);
        TABLE.remove(handles[2]).unwrap();
        assert!(TABLE.insert(4).is_ok());
    }

    #[test]
    fn objects_are_freed_once_however_many_threads_try() {
        static FREED: AtomicUsize = AtomicUsize::new(0);
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                FREED.fetch_add(1, Ordering::Relaxed);
            }
        }
        impl Handled for Counted {
            const KIND: Kind = Kind { number: 7, name: "counted" };
        }
        static TABLE: Table<Counted, 4> = Table::new();
        const ROUNDS: usize = 200;
        for _ in 0..ROUNDS {
            let handle = TABLE.insert(Counted).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let held = TABLE.get(handle);
                        drop(held);
                        // Busy while another thread holds it; one of them is the last.
                        while TABLE.remove(handle).is_err_and(|error| error.code == Code::Busy) {}
                    });
                }
            });
        }
        assert_eq!(FREED.load(Ordering::Relaxed), ROUNDS);
    }
}
