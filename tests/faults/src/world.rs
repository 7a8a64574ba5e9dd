//! Memory shared by the processes of a round, created before they are forked.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use quo::group::local::LocalSpace;

use crate::journal::{Board, Column, Journal};
use crate::plan::Plan;

/// Pause between two looks at a state without notification.
pub const LOOK: Duration = Duration::from_micros(300);

#[derive(Debug)]
pub struct World {
    pub directory: PathBuf,
    /// Space in which the members meet to create the context.
    pub space: LocalSpace,
    /// Space in which the survivors meet if that failed.
    pub second: LocalSpace,
    pub journals: Vec<Journal>,
    pub board: Board,
    /// Members announce here that they wait for their fate.
    pub announce: OwnedFd,
    pub announced: OwnedFd,
    /// Leash: its readers end when the keeper closes its end.
    pub leash: OwnedFd,
    pub holder: Option<OwnedFd>,
}

impl World {
    pub fn new(plan: &Plan, directory: &Path) -> Result<Self> {
        let space = |members| LocalSpace::new(members, directory).context("a meeting place");
        let (announced, announce) = pipe2(OFlag::O_CLOEXEC).context("pipe")?;
        let (leash, holder) = pipe2(OFlag::O_CLOEXEC).context("pipe")?;
        Ok(Self {
            directory: directory.to_owned(),
            space: space(plan.members)?,
            second: space(plan.second_crew().len())?,
            journals: (0..plan.members).map(|_| Journal::new()).collect::<Result<_>>()?,
            board: Board::new(plan.members)?,
            announce,
            announced,
            leash,
            holder: Some(holder),
        })
    }

    /// Waits until each of these members has got this far or has ended.
    pub fn await_progress(&self, who: &[usize], progress: u64) -> Result<()> {
        for &member in who {
            while self.board.get(member, Column::Progress)? < progress
                && self.board.get(member, Column::Gone)? == 0
            {
                // Sleeps: between two looks at numbers in shared memory.
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}
