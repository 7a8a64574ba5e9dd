//! Contexts of this process, for code that changes the ranks of a program.
//!
//! A library that makes a context does not know when ranks join or leave. The code that changes the
//! ranks finds the context here and takes it over to the new ranks.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Context;
use super::adapt::{AdaptOptions, Leaving};
use super::live_contexts::REGISTERED;
use super::state::Shared;
use crate::error::Error;
use crate::group::Group;

/// Contexts that wait for the library that would have made them, each with the tag of its ranks.
static OFFERED: Mutex<Vec<(u64, Context)>> = Mutex::new(Vec::new());

/// A context of this process that is owned by other code.
///
/// Does not keep the context alive: calls find it gone once its owner has released it.
#[derive(Clone, Debug)]
pub struct Registered {
    shared: Weak<Shared>,
    identity: u64,
}

impl Context {
    /// Returns the contexts of this process that were made over groups with this [tag](Group::tag),
    /// in the order of their creation, which is the same on all ranks that made them together.
    /// Local.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// # let space = quo::group::local::LocalSpace::new(1, directory)?;
    /// # let options = quo::context::CreateOptions::new().with_directory(directory);
    /// let context = quo::Context::create_with(space.join(0)?, options)?;
    /// let found = quo::Context::registered(0);
    /// assert!(found.iter().any(|other| other.identity() == context.identity()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn registered(tag: u64) -> Vec<Registered> {
        let known = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|shared| !shared.is_forked() && shared.state().group.tag() == tag)
            .map(|shared| Registered { shared: Arc::downgrade(&shared), identity: shared.identity })
            .collect()
    }

    /// Returns the identity of this context: the same on all its ranks for its lifetime, including
    /// ranks that join. Local.
    #[must_use]
    pub fn identity(&self) -> u64 {
        self.shared.identity
    }
}

impl Context {
    /// Leaves the context to a library of this process that is about to make one over its ranks,
    /// for code that adds ranks. The other ranks have the context already, so a creation by the
    /// library would wait in vain. Local.
    pub fn offer_to_library(self) {
        let tag = self.group().tag();
        OFFERED.lock().unwrap_or_else(PoisonError::into_inner).push((tag, self));
    }

    /// Returns the context that was [offered](Self::offer_to_library) first, over ranks with this
    /// tag. Local.
    ///
    /// ```
    /// assert!(quo::Context::take_offered(0).is_none());
    /// ```
    #[must_use]
    pub fn take_offered(tag: u64) -> Option<Context> {
        let mut waiting = OFFERED.lock().unwrap_or_else(PoisonError::into_inner);
        let place = waiting.iter().position(|(other, _)| *other == tag)?;
        Some(waiting.remove(place).1)
    }
}

impl Registered {
    /// Returns the identity of the context, see [`Context::identity`]. Local.
    #[must_use]
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Returns true if the context has been released by its owner. Local.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.shared.strong_count() == 0
    }

    /// Like [`Context::is_retired`]; also true for a context that is gone. Local.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.shared.upgrade().is_none_or(|shared| shared.state().retired)
    }

    /// Like [`Context::adapt_with`], for code that does not own the context.
    ///
    /// # Errors
    /// As [`Context::adapt`]; a context that is gone takes part and refuses.
    pub fn adapt(&self, group: impl Group, options: &AdaptOptions) -> Result<(), Error> {
        match self.shared.upgrade() {
            Some(shared) => shared.adapt(Arc::new(group), options),
            None => super::create::refuse(Arc::new(group), self.identity, options),
        }
    }

    /// First half of [`retire`](Self::retire): checks that the rank can retire, and keeps it so
    /// until then. Returns `None` for a context that is gone. For callers that must promise to
    /// retire before they do. Local.
    ///
    /// # Errors
    /// As [`Context::retire`].
    pub fn leave(&self) -> Result<Option<Leaving>, Error> {
        self.shared.upgrade().map(Leaving::begin).transpose()
    }

    /// Like [`Context::retire`]. A context that is gone has left already. Local.
    ///
    /// # Errors
    /// As [`Context::retire`].
    pub fn retire(&self) -> Result<(), Error> {
        self.shared.upgrade().map_or(Ok(()), |shared| shared.retire())
    }
}
