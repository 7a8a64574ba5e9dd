//! Schedulers that never change a size: first come first served, EASY and conservative backfilling.
//!
//! Jobs of every class start on the size that their user requested. These are the baselines for all
//! others.

mod conservative;
mod easy;
mod profile;
mod shared;
#[cfg(test)]
mod tests;

pub use conservative::Conservative;
pub use easy::{Easy, Reservation, shadow};
pub use profile::Profile;

use crate::event::Event;
use crate::policy::{Draft, Policy};
use crate::state::Refusal;

/// First come, first served: no job starts before one that arrived earlier.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl Policy for Fcfs {
    fn name(&self) -> &str {
        "fcfs"
    }

    fn shares_nodes(&self) -> bool {
        true
    }

    fn decide(&mut self, _events: &[Event], draft: &mut Draft<'_>) -> Result<(), Refusal> {
        start_heads(draft)
    }
}

/// Starts jobs in order of arrival until one does not fit.
///
/// # Errors
///
/// None for states made only by [`State`](crate::state::State).
pub fn start_heads(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    loop {
        let state = draft.state();
        let Some(head) = state.queue().head().and_then(|job| state.job(job)) else { return Ok(()) };
        let (job, nodes) = (head.id, head.limits.start);
        if !state.fits(head) {
            return Ok(());
        }
        draft.start(job, nodes, "first in the queue, and enough nodes are free")?;
    }
}
