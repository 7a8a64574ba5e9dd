//! Sleep of a parked process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::World;
use super::lifecycle::Lifecycle;
use crate::error::Error;
use crate::model::order::{Order, Part, ResizePlan, Seat};
use crate::node::mailbox::{MailboxError, NodeMailbox};

const CALL: &str = "wait";

/// A process called in again within this time has not released its memory, so the next resize does
/// not wait for that.
const SETTLED: Duration = Duration::from_millis(250);

impl World {
    /// Sleeps, without using a core, until this process is called in or the job is over; returns
    /// true if it joins. Local, for parked processes.
    ///
    /// The arrays' parts on this process were released by the commit. Unused memory of its allocator
    /// is returned to the kernel once the process has slept for a quarter of a second: that of
    /// glibc, jemalloc, mimalloc, tcmalloc and oneTBB, which have a call for it.
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
                // The second ring: the ranks have entered.
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
                // The resize was withdrawn.
                Order::Resize(_) => {
                    mailbox.sit(Seat::Asleep);
                    ready = None;
                }
            }
            self.rings = mailbox.wait_for_ring(self.rings, None).map_err(Error::node(CALL))?;
        }
    }
}

/// Sleeps until a ring. Releases memory if none arrives for a while.
fn sleep(mailbox: &NodeMailbox, rings: u32) -> Result<u32, MailboxError> {
    match mailbox.wait_for_ring(rings, Some(Instant::now() + SETTLED)) {
        Err(MailboxError::Late) => {
            crate::node::free_memory::give_back();
            mailbox.wait_for_ring(rings, None)
        }
        rung => rung,
    }
}
