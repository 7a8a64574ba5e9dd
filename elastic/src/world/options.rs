//! What a world begins with.

use std::path::PathBuf;

use crate::coordinator::Job;
use crate::manager::ResourceManager;
use crate::place::{Allowed, Bounds};
use crate::sets::SetName;

/// What a world begins with. What rank 0 says counts, but for [`start`](Self::start), which is the same everywhere.
#[derive(Debug, Default)]
pub struct WorldOptions {
    pub(super) start: Option<usize>,
    pub(super) name: Option<String>,
    pub(super) log: Option<PathBuf>,
    pub(super) bounds: Option<Bounds>,
    pub(super) process_sets: bool,
    pub(super) managers: Vec<Box<dyn ResourceManager>>,
}

impl WorldOptions {
    /// All launched processes are ranks at first.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So many ranks at first, the others parked; at least one, at most all that were launched.
    #[must_use]
    pub fn start(self, ranks: usize) -> Self {
        Self { start: Some(ranks), ..self }
    }

    /// The name by which the job is known: that of its process sets, `mpi://app/NAME`, and of its control socket. The
    /// process number of rank 0 otherwise.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Appends every [event](crate::change::Event) to this file, a line of JSON each. Without it they are in memory.
    #[must_use]
    pub fn log(self, path: impl Into<PathBuf>) -> Self {
        Self { log: Some(path.into()), ..self }
    }

    /// The sizes that the program can have: requests for others are refused.
    #[must_use]
    pub fn sizes(self, bounds: Bounds) -> Self {
        Self { bounds: Some(bounds), ..self }
    }

    /// Somebody who decides when the world changes; there may be several.
    #[must_use]
    pub fn manager(mut self, manager: impl ResourceManager + 'static) -> Self {
        self.managers.push(Box::new(manager));
        self
    }

    /// Lets ranks use [process sets](crate::World::process_sets): rank 0 listens for those who ask then.
    #[must_use]
    pub fn process_sets(self) -> Self {
        Self { process_sets: true, ..self }
    }

    /// What the arbiter has to know, for processes on these nodes.
    pub(super) fn job(
        &self,
        hosts: Vec<String>,
        places: Vec<usize>,
        start: usize,
    ) -> Result<Job, String> {
        let name = self.name.clone().unwrap_or_else(|| std::process::id().to_string());
        // Also a part of the socket's path.
        if name.contains('/') || name.starts_with('.') {
            return Err(format!("{name:?} is no name of a job"));
        }
        SetName::application(&name).map_err(|error| error.to_string())?;
        let all = u32::try_from(places.len()).unwrap_or(u32::MAX);
        let any = || Bounds::new(1, all, Allowed::Any);
        let bounds = self.bounds.clone().map_or_else(any, Ok).map_err(|error| error.to_string())?;
        Ok(Job { name, hosts, places, start, bounds })
    }
}
