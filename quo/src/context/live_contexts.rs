//! The contexts that live in this process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::state::Shared;

/// Contexts in the order of their creation. Released ones are dropped when one is added.
pub(super) static REGISTERED: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

pub(super) fn register(shared: &Arc<Shared>) {
    let mut known = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|context| context.strong_count() > 0);
    known.push(Arc::downgrade(shared));
    COUNT.store(known.len(), Ordering::Release);
}

/// Number of registered contexts, including released ones: lets phases skip the lock if there is
/// one.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns the contexts of this process except the one with this number.
pub(super) fn others(number: u64) -> Vec<Arc<Shared>> {
    if COUNT.load(Ordering::Acquire) <= 1 {
        return Vec::new();
    }
    let known = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let others = known.iter().filter_map(Weak::upgrade);
    others.filter(|shared| shared.number != number && !shared.is_forked()).collect()
}
