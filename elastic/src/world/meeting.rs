//! The set of processes after a resize: its communicator and mailboxes, and the guard that watches
//! its processes.

use std::sync::Arc;

use quo::group::WaitLimits;
use quo_mpi::communicator::Communicator;
use serde::{Deserialize, Serialize};

use super::contexts::exchange;
use super::site::{Site, number_nodes};
use super::{Window, World};
use crate::error::Error;
use crate::node::guard::Guard;
use crate::node::mailbox::NodeMailbox;

/// Report of a process on the new set of processes it has met.
#[derive(Serialize, Deserialize)]
struct JoinReport {
    reason: Option<String>,
    /// Index of its node before the resize, and after it.
    nodes: (Option<usize>, Option<usize>),
}

/// The new set of live processes, which the world uses after the commit.
#[derive(Debug)]
pub(super) struct After {
    /// `None` if it is unchanged since the window.
    pub base: Option<Communicator>,
    pub site: Site,
    pub rings: u32,
}

impl Window<'_> {
    /// Makes the mailboxes of the processes that remain, before anything has changed. Returns the
    /// first rank that failed, and why. Collective over all ranks of the window; no process sleeps
    /// then.
    pub(super) fn meet_anew(
        &mut self,
        limits: &WaitLimits<'_>,
    ) -> Result<Option<(usize, String)>, Error> {
        let all = self.wide.as_ref().unwrap_or(&self.world.base);
        let mut reason = None;
        if !self.resize.gone.contains(&self.world.process) {
            // The wide communicator was made without the lost processes.
            let gone = match &self.wide {
                Some(_) => {
                    let gone = self.resize.gone.iter().copied();
                    let gone = gone.filter(|process| !self.resize.lost.contains(process));
                    self.resize.without_lost(&gone.collect::<Vec<_>>())
                }
                None => self.resize.gone.clone(),
            };
            let rest: Vec<usize> =
                (0..all.size()).filter(|process| !gone.contains(process)).collect();
            let base = if rest.len() < all.size() {
                let rest = all.subset_within(&rest, self.resize.tag(4), limits);
                Some(rest.map_err(Error::group("commit"))?)
            } else {
                None
            };
            match Site::open(base.as_ref().unwrap_or(all), limits) {
                Ok(site) => {
                    let rings = site.mailbox.rings();
                    site.mailbox.sit(self.resize.seat_until_end(self.world.process));
                    reason = self.world.guard_also(&site.mailbox).err();
                    self.after = Some(After { base, site, rings });
                }
                Err(error) => reason = Some(error.to_string()),
            }
        }
        let number = |mailbox: &Arc<NodeMailbox>| mailbox.context().node_index();
        let before = self.world.lifecycle.mailbox().map(number);
        let nodes = (before, self.after.as_ref().map(|after| number(&after.site.mailbox)));
        let all: Vec<JoinReport> =
            exchange(self.all_ranks(), &JoinReport { reason, nodes }, limits)?;
        let nodes: Vec<_> = all.iter().map(|met| met.nodes).collect();
        self.node = number_nodes(&nodes).get(self.all_ranks().rank()).copied();
        Ok(all.into_iter().enumerate().find_map(|(rank, met)| Some((rank, met.reason?))))
    }

    pub(super) fn abort_meeting(&mut self) -> Result<(), Error> {
        let after = self.after.take();
        self.world.guard_own();
        match after {
            Some(After { base: Some(base), .. }) => base.free().map_err(Error::group("commit")),
            _ => Ok(()),
        }
    }
}

impl World {
    /// Guards the processes of the next world as well.
    pub(super) fn guard_also(&mut self, after: &Arc<NodeMailbox>) -> Result<(), String> {
        let Some(root) = &self.guards else { return Ok(()) };
        let all = self.lifecycle.mailbox().into_iter().chain([after]).cloned();
        match &self.guard {
            Some(guard) => guard.watch(all),
            None => {
                let guard = Guard::over(all, root);
                self.guard =
                    Some(guard.map_err(|error| format!("a thread that watches: {error}"))?);
            }
        }
        Ok(())
    }

    /// Guards the processes of the present world only; none if this process is in no world.
    pub(super) fn guard_own(&mut self) {
        match (&self.guard, self.lifecycle.mailbox()) {
            (Some(guard), Some(mailbox)) => guard.watch([Arc::clone(mailbox)]),
            _ => self.guard = None,
        }
    }
}
