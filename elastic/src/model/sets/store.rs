//! Values that processes publish at a set, and the processes that wait for them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::set::check_entry;
use super::{Registry, SetName, SetsError};
use crate::model::member::MemberId;

/// A published value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The published bytes.
    pub value: Vec<u8>,
    /// 1 for the first value under this key, one more for each replacement. Withdrawing a value and
    /// publishing again continues the count.
    pub version: u64,
    /// The process that published it.
    pub publisher: MemberId,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    version: u64,
    current: Option<Published>,
}

/// The values at all sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Store {
    slots: BTreeMap<SetName, BTreeMap<String, Slot>>,
}

impl Store {
    pub(super) fn forget_set(&mut self, set: &SetName) {
        self.slots.remove(set);
    }
}

impl Registry {
    /// Publishes a value under a key at a set, replacing an earlier one, and returns its version.
    /// Every live process may publish, not only members: the old ranks give the joiners of a delta
    /// the name of their set this way. `mpi://SELF` is private to the caller and refused.
    ///
    /// # Errors
    /// [`SetsError::Unknown`] or [`SetsError::Deleted`] for the set; [`SetsError::BadEntry`] for a
    /// key or value that is too long, or a key that is no name.
    #[doc(alias = "PMIx_Publish")]
    pub fn publish(
        &mut self,
        publisher: MemberId,
        set: &SetName,
        key: &str,
        value: &[u8],
    ) -> Result<u64, SetsError> {
        const CALL: &str = "publish";
        let set = self.store_name(CALL, set)?;
        check_entry(CALL, "key", &set, key, value.len())?;
        let slots = self.store.slots.entry(set).or_default();
        let slot = slots.entry(key.to_owned()).or_default();
        slot.version += 1;
        let (value, version) = (value.to_vec(), slot.version);
        slot.current = Some(Published { value, version, publisher });
        Ok(version)
    }

    /// Returns the value under a key at a set; `None` is not an error: it may be published later.
    ///
    /// # Errors
    /// [`SetsError::Unknown`] or [`SetsError::Deleted`] for the set.
    #[doc(alias = "PMIx_Lookup")]
    pub fn lookup(&self, set: &SetName, key: &str) -> Result<Option<&Published>, SetsError> {
        let set = self.store_name("lookup", set)?;
        let slot = self.store.slots.get(&set).and_then(|slots| slots.get(key));
        Ok(slot.and_then(|slot| slot.current.as_ref()))
    }

    /// Removes a value. Returns true if there was one.
    ///
    /// # Errors
    /// [`SetsError::Unknown`] or [`SetsError::Deleted`] for the set.
    #[doc(alias = "PMIx_Unpublish")]
    pub fn withdraw(&mut self, set: &SetName, key: &str) -> Result<bool, SetsError> {
        let set = self.store_name("withdraw", set)?;
        let slot = self.store.slots.get_mut(&set).and_then(|slots| slots.get_mut(key));
        Ok(slot.and_then(|slot| slot.current.take()).is_some())
    }

    fn store_name(&self, call: &'static str, name: &SetName) -> Result<SetName, SetsError> {
        let real = self.real_name(name);
        match self.sets.get(&real) {
            None => Err(SetsError::Unknown { call, name: real }),
            Some(set) if set.is_deleted() => Err(SetsError::Deleted { call, name: real }),
            Some(_) => Ok(real),
        }
    }
}

/// Processes that wait for a value, on one rank. Not part of the common state: the caller decides
/// how to sleep, and for how long; this type returns the waiters to wake.
///
/// ```
/// use elastic::member::MemberId;
/// use elastic::sets::{Members, Registry, SetName, Waiters};
///
/// let mut registry = Registry::new("app", Members::range(MemberId(0), MemberId(3))).unwrap();
/// let (world, mut waiters) = (registry.application(), Waiters::new());
/// // Nothing there yet: remember that waiter 7 wants version 1 or later.
/// assert!(registry.lookup(&world, "port").unwrap().is_none());
/// waiters.wait(&world, "port", 1, 7);
/// let version = registry.publish(MemberId(0), &world, "port", b"8000").unwrap();
/// assert_eq!(waiters.wake(&world, "port", version), [7]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    waiting: Vec<Waiting>,
}

#[derive(Clone, Debug)]
struct Waiting {
    set: SetName,
    key: String,
    version: u64,
    token: u64,
}

impl Waiters {
    /// Makes an empty list.
    pub fn new() -> Waiters {
        Waiters::default()
    }

    /// Adds `token` as a waiter for this version or a later one. The set's name must be the
    /// publisher's: `mpi://WORLD` and `mpi://app/{app}` are not compared as equal.
    pub fn wait(&mut self, set: &SetName, key: &str, version: u64, token: u64) {
        self.waiting.push(Waiting { set: set.clone(), key: key.to_owned(), version, token });
    }

    /// Removes and returns the waiters for a published value of this version, in the order of their
    /// waits.
    pub fn wake(&mut self, set: &SetName, key: &str, version: u64) -> Vec<u64> {
        self.take(|one| one.set == *set && one.key == key && one.version <= version)
    }

    /// Removes and returns the waiters at a deleted set, to be woken with an error.
    pub fn wake_all_at(&mut self, set: &SetName) -> Vec<u64> {
        self.take(|one| one.set == *set)
    }

    /// Ends the wait of `token` by a time-out. Returns true if it was still waiting, so that of a
    /// time-out and a value that arrive together exactly one takes effect.
    pub fn cancel(&mut self, token: u64) -> bool {
        !self.take(|one| one.token == token).is_empty()
    }

    fn take(&mut self, chosen: impl Fn(&Waiting) -> bool) -> Vec<u64> {
        let (woken, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(chosen);
        self.waiting = waiting;
        woken.iter().map(|one: &Waiting| one.token).collect()
    }
}
