//! The sleep of a process that is parked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::World;
use super::lifecycle::Lifecycle;
use crate::error::Error;
use crate::model::order::{Order, Part, ResizePlan, Seat};
use crate::node::mailbox::{MailboxError, NodeMailbox};

const CALL: &str = "wait";

/// A process that is called in again within this time has not given its memory back: the next resize does not wait for
/// that.
const SETTLED: Duration = Duration::from_millis(250);

impl World {
    /// Sleeps, without a core, until this process is called in or the job is over: whether it joins. Local, for
    /// parked processes.
    ///
    /// The parts of the world's arrays went with the commit. Memory that the C library's allocator holds beyond the
    /// used part goes back to the kernel once the process has slept for a quarter of a second (glibc's `malloc_trim`).
    ///
    /// # Errors
    /// [`Error::InvalidState`] for a rank, [`Error::Dead`] when a process of the node has ended.
    pub fn wait(&mut self) -> Result<bool, Error> {
        let mailbox = match &self.lifecycle {
            Lifecycle::Ended { .. } => return Ok(false),
            Lifecycle::Rank { .. } => {
                let reason = "only a parked process waits: call probe";
                return Err(Error::InvalidState { call: CALL, reason });
            }
            _ => Arc::clone(self.mailbox(CALL)?),
        };
        let mut ready: Option<ResizePlan> = None;
        self.rings = sleep(&mailbox, self.rings).map_err(Error::node(CALL))?;
        loop {
            match self.read_order(CALL)? {
                Order::End(losses) => {
                    self.lifecycle = Lifecycle::Ended { mailbox: Some(mailbox), losses };
                    return Ok(false);
                }
                // Rung for again: the ranks have come.
                Order::Resize(resize) if ready.as_ref() == Some(&resize) => {
                    (self.epoch, self.ranks) = (resize.epoch, resize.old.clone());
                    self.lifecycle = Lifecycle::Called { mailbox, pending: Some(resize) };
                    return Ok(true);
                }
                Order::Resize(resize) if resize.part_of(self.process) == Part::Joins => {
                    mailbox.sit(resize.seat(self.process));
                    mailbox.say_ready(resize.number);
                    ready = Some(resize);
                }
                // Taken back.
                Order::Resize(_) => {
                    mailbox.sit(Seat::Asleep);
                    ready = None;
                }
            }
            self.rings = mailbox.wait_for_ring(self.rings, None).map_err(Error::node(CALL))?;
        }
    }
}

/// Until somebody rings. Memory is given back when nobody does for a while.
fn sleep(mailbox: &NodeMailbox, rings: u32) -> Result<u32, MailboxError> {
    match mailbox.wait_for_ring(rings, Some(Instant::now() + SETTLED)) {
        Err(MailboxError::Late) => {
            crate::node::malloc_trim::give_back();
            mailbox.wait_for_ring(rings, None)
        }
        rung => rung,
    }
}
