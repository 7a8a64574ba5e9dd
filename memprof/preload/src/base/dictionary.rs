//! The components of this process, which own memory. The dictionary only grows: the name and index
//! of an entry stay, but its class may change when more is known (for example, when an MPI library
//! is loaded).

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

pub use memprof_trace::layout::Class;

use crate::base::component::{Component, LIMIT};
use crate::base::lock::SpinLock;
use crate::base::thread::Guard;

/// Longer names are cut.
pub const NAME_LIMIT: usize = 95;

/// Name of the component that objects beyond the limit share.
const OTHER: &str = "(other)";

/// The last indexes are reserved for one `(other)` component of each class.
const ORDINARY_LIMIT: usize = LIMIT - Class::ALL.len();

struct Entry {
    class: AtomicU8,
    name: UnsafeCell<([u8; NAME_LIMIT], u8)>,
}

struct Dictionary {
    entries: [Entry; LIMIT],
    /// Entries below this number are complete, and their names never change.
    count: AtomicU32,
    changes: AtomicU32,
    lock: SpinLock,
}

// SAFETY: a name is written under the lock before `count` is raised above it, and only read below
// `count`.
unsafe impl Sync for Dictionary {}

/// An entry, for reading.
#[derive(Copy, Clone)]
pub struct Entered<'a> {
    pub component: Component,
    pub class: Class,
    /// File name of the object; empty where the class is sufficient.
    pub name: &'a str,
}

impl fmt::Display for Entered<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.class.name())?;
        if self.name.is_empty() { Ok(()) } else { write!(formatter, ":{}", self.name) }
    }
}

impl Dictionary {
    const fn new() -> Dictionary {
        let mut entries = [const {
            Entry { class: AtomicU8::new(0), name: UnsafeCell::new(([0; NAME_LIMIT], 0)) }
        }; LIMIT];
        let fixed = [
            Class::Unattributed,
            Class::Tool,
            Class::Slack,
            Class::Kernel,
            Class::MpiShared,
            Class::MpiForUser,
            Class::Stack,
            Class::AppShared,
        ];
        let mut index = 0;
        while index < fixed.len() {
            entries[index].class = AtomicU8::new(fixed[index] as u8);
            index += 1;
        }
        let mut name = [0; NAME_LIMIT];
        [name[0], name[1], name[2], name[3]] = *b"main";
        entries[Component::MAIN_STACK.0 as usize].name = UnsafeCell::new((name, 4));
        Dictionary {
            entries,
            count: AtomicU32::new(Component::FIRST_FREE.0 as u32),
            changes: AtomicU32::new(0),
            lock: SpinLock::new(),
        }
    }

    fn count(&self) -> usize {
        (self.count.load(Ordering::Acquire) as usize).min(LIMIT)
    }

    fn name(&self, index: usize) -> &str {
        if index >= self.count() {
            return "";
        }
        core::str::from_utf8(self.name_bytes(index)).unwrap_or("?")
    }

    /// Returns the name of an entry below the count.
    fn name_bytes(&self, index: usize) -> &[u8] {
        // SAFETY: names below `count` are complete and never change.
        let (bytes, length) = unsafe { &*self.entries[index].name.get() };
        &bytes[..usize::from(*length)]
    }

    fn class(&self, component: Component) -> Class {
        self.entries.get(usize::from(component.0)).map_or(Class::Unattributed, |entry| {
            Class::from_number(entry.class.load(Ordering::Relaxed))
        })
    }

    fn find(&self, stack: bool, name: &str) -> Option<Component> {
        (usize::from(Component::FIRST_FREE.0)..self.count())
            .map(|index| Component(index as u16))
            .find(|&component| {
                (self.class(component) == Class::Stack) == stack
                    && self.name_bytes(usize::from(component.0)) == name.as_bytes()
            })
    }

    fn define(&self, class: Class, name: &str) -> Component {
        let name = cut(name);
        let _guard = Guard::enter();
        self.lock.lock();
        let component = self.define_locked(class, name);
        self.lock.unlock();
        component
    }

    fn define_locked(&self, class: Class, name: &str) -> Component {
        if let Some(component) = self.find(class == Class::Stack, name) {
            return component;
        }
        let mut name = name;
        if self.count() >= ORDINARY_LIMIT {
            name = OTHER;
            let other = (ORDINARY_LIMIT..self.count())
                .map(|index| Component(index as u16))
                .find(|&component| self.class(component) == class);
            if let Some(component) = other {
                return component;
            }
        }
        let index = self.count();
        if index >= LIMIT {
            return Component::UNATTRIBUTED;
        }
        // SAFETY: the lock is held, and no thread reads at or above `count`.
        let (bytes, length) = unsafe { &mut *self.entries[index].name.get() };
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        *length = name.len() as u8;
        self.entries[index].class.store(class as u8, Ordering::Relaxed);
        self.count.store(index as u32 + 1, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
        Component(index as u16)
    }

    fn reclassify(&self, component: Component, class: Class) {
        let index = usize::from(component.0);
        // Components that several objects share keep their class, and so do fixed ones.
        if index < usize::from(Component::FIRST_FREE.0) || index >= self.count().min(ORDINARY_LIMIT)
        {
            return;
        }
        if self.entries[index].class.swap(class as u8, Ordering::Relaxed) != class as u8 {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    fn each(&self, mut each: impl FnMut(Entered<'_>)) {
        for index in 0..self.count() {
            let fixed = index < usize::from(Component::FIRST_FREE.0);
            if fixed && index > usize::from(Component::APPLICATION_SHARED.0) {
                continue;
            }
            each(self.entered(Component(index as u16)));
        }
    }

    fn entered(&self, component: Component) -> Entered<'_> {
        let class = self.class(component);
        Entered { component, class, name: self.name(usize::from(component.0)) }
    }
}

/// Cuts a name to the limit, at a character boundary.
fn cut(name: &str) -> &str {
    let mut length = name.len().min(NAME_LIMIT);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    &name[..length]
}

static DICTIONARY: Dictionary = Dictionary::new();

/// Returns the lock that is held while an entry is added; `fork` takes it.
pub fn lock() -> &'static SpinLock {
    &DICTIONARY.lock
}

/// Returns the component for an object's file name, or for the stacks of the threads that it starts
/// (class [`Class::Stack`]). The same name yields the same component; when no room is left, the one
/// that further objects of the class share. Allocates nothing; not for hot paths.
pub fn define(class: Class, name: &str) -> Component {
    DICTIONARY.define(class, name)
}

/// Changes the class of a component when more is known about its object.
pub fn reclassify(component: Component, class: Class) {
    DICTIONARY.reclassify(component, class);
}

pub fn class(component: Component) -> Class {
    DICTIONARY.class(component)
}

/// Returns class and name; the `Display` of the result is the name in reports.
pub fn entered(component: Component) -> Entered<'static> {
    DICTIONARY.entered(component)
}

/// Returns the number of indexes in use; some below [`Component::FIRST_FREE`] have no entry.
pub fn count() -> usize {
    DICTIONARY.count()
}

/// Returns a number that increases with every new entry and changed class.
pub fn changes() -> u32 {
    DICTIONARY.changes.load(Ordering::Acquire)
}

/// Calls `each` with all entries in ascending order of index.
pub fn each(each: impl FnMut(Entered<'_>)) {
    DICTIONARY.each(each);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Box<Dictionary> {
        Box::new(Dictionary::new())
    }

    #[test]
    fn fixed_components_have_their_names() {
        let dictionary = fresh();
        let mut names = Vec::new();
        dictionary.each(|entered| names.push(entered.to_string()));
        assert_eq!(
            names,
            [
                "unattributed",
                "tool",
                "slack",
                "kernel",
                "mpi.shm",
                "mpi.for_user",
                "stack:main",
                "app.shm"
            ]
        );
    }

    #[test]
    fn one_name_is_one_component_and_its_stacks_another() {
        let dictionary = fresh();
        let library = dictionary.define(Class::AppLibrary, "libx.so");
        assert_eq!(library, Component::FIRST_FREE);
        assert_eq!(dictionary.define(Class::MpiDependency, "libx.so"), library);
        let stack = dictionary.define(Class::Stack, "libx.so");
        assert_ne!(stack, library);
        assert_eq!(dictionary.define(Class::Stack, "libx.so"), stack);
        assert_eq!(dictionary.entered(stack).to_string(), "stack:libx.so");
        let before = dictionary.changes.load(Ordering::Relaxed);
        dictionary.reclassify(library, Class::MpiDependency);
        dictionary.reclassify(library, Class::MpiDependency);
        assert_eq!(dictionary.changes.load(Ordering::Relaxed), before + 1);
        assert_eq!(dictionary.entered(library).to_string(), "mpi.dep:libx.so");
    }

    #[test]
    fn what_does_not_fit_shares_the_other_of_its_class() {
        let dictionary = fresh();
        for number in 0..LIMIT {
            dictionary.define(Class::AppLibrary, &format!("lib{number}.so"));
        }
        let library = dictionary.define(Class::AppLibrary, "late.so");
        let stack = dictionary.define(Class::Stack, "late.so");
        assert_eq!(dictionary.entered(library).to_string(), "app.lib:(other)");
        assert_eq!(dictionary.entered(stack).to_string(), "stack:(other)");
        for class in Class::ALL {
            let component = dictionary.define(class, "later.so");
            assert_eq!(dictionary.class(component), class);
            assert_eq!(dictionary.define(class, "later still.so"), component);
        }
        dictionary.reclassify(library, Class::MpiDependency);
        assert_eq!(dictionary.class(library), Class::AppLibrary);
        assert!(dictionary.count() <= LIMIT);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let dictionary = fresh();
        let name = "ü".repeat(60);
        let component = dictionary.define(Class::AppLibrary, &name);
        assert_eq!(dictionary.entered(component).name, "ü".repeat(47));
        assert_eq!(dictionary.define(Class::AppLibrary, &name), component);
    }
}
