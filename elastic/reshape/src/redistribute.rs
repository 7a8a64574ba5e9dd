//! Redistribution of a program's own arrays, at the program's request.

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
    /// Moves a vector of `length` elements in blocks of `block` that are distributed in turns.
    /// After a decision to shrink it moves to the staying ranks, otherwise from the earlier ranks
    /// to all ranks. `data` is this rank's part, before and after; empty before on joiners, and
    /// after on leavers. Collective over the present ranks.
    ///
    /// # Errors
    /// [`elastic::Error::Data`], the same on all ranks, also if one of them has a part of another
    /// length: all ranks then keep their data.
    #[doc(alias = "reshape_Redistribute1D")]
    pub fn redistribute_1d<T: Element>(
        &mut self,
        data: &mut Vec<T>,
        length: usize,
        block: usize,
    ) -> Result<Moved, ReshapeError> {
        self.redistribute(data, |_| Pattern::block_cyclic(length, block))
    }

    /// Moves a vector in one block for each rank, as [`redistribute_1d`](Self::redistribute_1d)
    /// does.
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

    /// Moves a matrix of (rows, columns) in square blocks, distributed over the grid of the
    /// configuration, as [`redistribute_1d`](Self::redistribute_1d) does.
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

    /// Takes part in a redistribution for which this rank has no array: no array is moved, and all
    /// ranks get the reason. Collective over the present ranks, the others of which redistribute.
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

    /// Returns the group and the participants of a move, and its old and new configuration.
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
