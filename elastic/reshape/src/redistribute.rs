//! A program's own arrays, moved when it says so.

use std::time::Duration;

use quo::group::Group as _;
use quo_mpi::MpiGroup;

use super::{Reshape, ReshapeError};
use elastic::Error;
use elastic::data::{
    DataError, Element, Grids, Moved, Participants, Pattern, redistribute, refuse,
};
use elastic::layout::{Grid, Storage};
use elastic_policy::points::Configuration;

const PATIENCE: Duration = Duration::from_secs(60);

impl Reshape {
    /// Moves a vector of `length` elements in blocks of `block` that are dealt out in turns. After a decision to
    /// shrink it goes to those who stay, else from those who were there to all. `data` is this rank's part, before and
    /// after; empty before on joiners, and after on leavers. Collective over the ranks there are.
    ///
    /// # Errors
    /// [`elastic::Error::Data`], the same on all ranks, also when one of them has a part of another length: all keep their data
    /// then.
    #[doc(alias = "reshape_Redistribute1D")]
    pub fn redistribute_1d<T: Element>(
        &mut self,
        data: &mut Vec<T>,
        length: usize,
        block: usize,
    ) -> Result<Moved, ReshapeError> {
        self.redistribute(data, |_| Pattern::block_cyclic(length, block))
    }

    /// As [`redistribute_1d`](Self::redistribute_1d), for a vector in one block for each rank.
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "reshape_RedistributeUniformBlock")]
    #[doc(alias = "reshape_Redistribute1D_block")]
    pub fn redistribute_uniform_block<T: Element>(
        &mut self,
        data: &mut Vec<T>,
        length: usize,
    ) -> Result<Moved, ReshapeError> {
        self.redistribute(data, |_| Pattern::block(length))
    }

    /// As [`redistribute_1d`](Self::redistribute_1d), for a matrix of (rows, columns) in square blocks, dealt out over the
    /// grid of the configuration.
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "reshape_Redistribute2D")]
    pub fn redistribute_2d<T: Element>(
        &mut self,
        data: &mut Vec<T>,
        shape: (usize, usize),
        block: usize,
        storage: Storage,
    ) -> Result<Moved, ReshapeError> {
        self.redistribute(data, |configuration: Configuration| {
            let (rows, columns) = configuration.dimensions();
            let grid = Grid::new(rows as usize, columns as usize);
            Pattern::checkerboard(shape, (block, block), Grids::Fixed(grid)).stored(storage)
        })
    }

    /// Takes part in a redistribution for which this rank has no array: nobody's is moved, and all get the reason.
    /// Collective over the ranks there are, of which the others redistribute.
    #[must_use]
    pub fn refuse_redistribution(&mut self, reason: &str) -> ReshapeError {
        match self.change() {
            Ok((group, change, _)) => refuse(group, change, reason).into(),
            Err(error) => error,
        }
    }

    fn redistribute<T: Element>(
        &mut self,
        data: &mut Vec<T>,
        pattern: impl Fn(Configuration) -> Pattern,
    ) -> Result<Moved, ReshapeError> {
        let (group, change, (from, to)) = self.change()?;
        let (part, moved) = redistribute(group, change, (pattern(from), pattern(to)), data)?;
        *data = part;
        self.points.redistributed(moved.seconds)?;
        self.gathered |= self.points.shrinks().is_some();
        Ok(moved)
    }

    /// Among whom an array moves, and from which configuration to which.
    fn change(
        &self,
    ) -> Result<(MpiGroup, Participants, (Configuration, Configuration)), ReshapeError> {
        const CALL: &str = "redistribute";
        let reason = "a process that is no rank has no data";
        let current =
            self.world.communicator().ok_or(Error::InvalidState { call: CALL, reason })?;
        let liveness = self.world.liveness();
        let group = liveness
            .within(PATIENCE, |limits| current.group_within(limits))
            .map_err(DataError::from)?;
        let (from, to, old, new) = match self.points.shrinks() {
            Some(to) => (self.points.current(), to, group.size(), self.world.staying()),
            None => {
                let (from, to) = (self.points.old(), self.points.current());
                (from, to, from.size() as usize, (0..group.size()).collect())
            }
        };
        let node = self.world.node();
        Ok((group, Participants { old, new, node, patience: PATIENCE, liveness }, (from, to)))
    }
}
