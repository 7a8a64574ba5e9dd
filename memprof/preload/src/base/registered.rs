//! Values of a higher layer that a lower one uses once the higher one has registered them.

#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};

/// A registered value, or none.
pub struct Registered<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Registered<T> {
    pub const fn none() -> Registered<T> {
        Registered(AtomicPtr::new(ptr::null_mut()))
    }

    /// Registers a value in place of the previous one.
    pub fn set(&self, value: &'static T) {
        self.0.store(ptr::from_ref(value).cast_mut(), Release);
    }

    /// Removes the value.
    pub fn clear(&self) {
        self.0.store(ptr::null_mut(), Release);
    }

    /// Returns the registered value.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or the address of a value that is never dropped.
        unsafe { self.0.load(Acquire).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_there_from_set_to_clear() {
        static VALUE: u32 = 7;
        let registered = Registered::none();
        assert_eq!(registered.get(), None);
        registered.set(&VALUE);
        assert_eq!(registered.get(), Some(&7));
        registered.clear();
        assert_eq!(registered.get(), None);
    }
}
