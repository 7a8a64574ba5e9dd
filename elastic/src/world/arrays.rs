//! Arrays that follow a resize, and checkpoints of them.

use std::path::Path;

use quo::group::{Group as _, WaitLimits};

use super::{Window, World};
use crate::data::{DataError, Move, Moved, Participants, Registry};
use crate::error::Error;
use crate::model::order::Part;
use crate::node::liveness::LivenessCheck;

impl World {
    /// Returns the arrays of the world. Local.
    #[must_use]
    pub fn data(&self) -> &Registry {
        &self.data
    }

    /// Returns the arrays of the world, to register arrays and to write to them.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut Registry {
        &mut self.data
    }

    /// Returns true if a resize is pending: [`begin`](Self::begin) is next. Local.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.lifecycle.pending().is_some()
    }

    /// Number of ranks after the pending resize; without one, of ranks now. Local.
    #[must_use]
    pub fn next_size(&self) -> usize {
        self.lifecycle.pending().map_or(self.size(), |resize| resize.new.len())
    }

    /// Returns the ranks that stay in the pending resize, in the order of their new ranks. Local.
    #[must_use]
    pub fn staying(&self) -> Vec<usize> {
        let new = self.lifecycle.pending().map_or(&self.ranks, |resize| &resize.new);
        let rank = |process: &usize| self.ranks.iter().position(|other| other == process);
        new.iter().filter_map(rank).collect()
    }

    /// Index of this process's node, the same for all processes there; 0 outside the world. Local.
    #[must_use]
    pub fn node(&self) -> usize {
        self.lifecycle.mailbox().map_or(0, |mailbox| mailbox.context().node_index())
    }

    /// Fills the ghost cells of an array with the cells of the ranks that own them, corners included,
    /// or the ghosts of a vector of a sparse matrix. Cells of the array's edge keep their values.
    /// Collective over the world.
    ///
    /// # Errors
    /// [`Error::InvalidState`] in a process that is no rank or is in a resize, [`Error::Data`] for an
    /// unknown array and an exchange that has begun already, and on all ranks for a matrix that ranks
    /// have registered with different numbers of rows. [`Error::Group`] if a rank has ended.
    pub fn exchange_halo(&mut self, name: &str) -> Result<(), Error> {
        self.exchange_halo_begin(name)?;
        self.exchange_halo_end(name)
    }

    /// Begins to fill the ghost cells of an array: sends the cells of this rank as they are now. The
    /// program may compute until [`exchange_halo_end`](Self::exchange_halo_end), but ghost cells have
    /// no values yet. Collective over the world, like its end, which is due before the next resize.
    ///
    /// # Errors
    /// As [`exchange_halo`](Self::exchange_halo).
    pub fn exchange_halo_begin(&mut self, name: &str) -> Result<(), Error> {
        const CALL: &str = "exchange_halo_begin";
        self.connect(CALL)?;
        if let Some(matrix) = self.data.unplanned(CALL, name)? {
            let liveness = self.liveness();
            unhurried(&liveness, |limits| self.data.make_plan(CALL, &matrix, limits))
                .map_err(failed(CALL))?;
        }
        self.data.begin_exchange(CALL, name).map_err(failed(CALL))
    }

    /// Ends an exchange that has begun: waits for the cells of other ranks, and writes them into the
    /// ghost cells. Collective over the world.
    ///
    /// # Errors
    /// [`Error::Data`] if none has begun, [`Error::Group`] if a rank has ended.
    pub fn exchange_halo_end(&mut self, name: &str) -> Result<(), Error> {
        const CALL: &str = "exchange_halo_end";
        let liveness = self.liveness();
        unhurried(&liveness, |limits| self.data.end_exchange(CALL, name, limits))
            .map_err(failed(CALL))
    }

    /// Moves each item of a list to the rank that owns it, as the list's owner function says. The
    /// items of a rank are then in the order of the ranks that they were on. Collective over the
    /// world.
    ///
    /// # Errors
    /// [`Error::InvalidState`] in a process that is no rank or is in a resize, [`Error::Data`] for an
    /// unknown list, and on all ranks for an owner that is no rank, for items of different sizes and
    /// without memory for what arrives: no item has moved then. [`Error::Group`] if a rank has ended.
    pub fn migrate(&mut self, name: &str) -> Result<(), Error> {
        const CALL: &str = "migrate";
        self.connect(CALL)?;
        let liveness = self.liveness();
        unhurried(&liveness, |limits| self.data.migrate_within(CALL, name, limits))
            .map_err(failed(CALL))
    }

    /// Writes all arrays, sparse matrices and lists of items to a folder, with the state of rank 0,
    /// such as the number of the step. Each rank writes its own part. The folder is made if it does
    /// not exist, readable by this user only, and has one checkpoint: the one before is removed once
    /// the new one is complete and on the storage device. If the call fails, or a process or the
    /// machine does, the one before remains, unless the error says that the new one is written. Ranks
    /// on several nodes need a folder that all share. Collective over the world.
    ///
    /// ```no_run
    /// use elastic::{Error, Status, World, WorldOptions};
    /// # fn initialise(_world: &mut World) {}
    /// # fn main() -> Result<(), Error> {
    /// let mut world = World::create(WorldOptions::new())?;
    /// let mut step = 0;
    /// if world.status() == Status::New && !world.restore("checkpoints", &mut step)? {
    ///     initialise(&mut world); // registers arrays
    /// }
    /// world.run(&mut step, |world, step| {
    ///     world.exchange_halo("field")?; // and the rest of a step
    ///     *step += 1;
    ///     if *step % 100 == 0 {
    ///         world.checkpoint("checkpoints", step)?;
    ///     }
    ///     Ok::<_, Error>(*step < 1000)
    /// })?;
    /// world.end()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same on all ranks: [`Error::Data`] with [`DataError::Files`] if a file cannot be written,
    /// [`DataError::Unstored`] for a callback, because only the program knows its data, and during an
    /// exchange of ghost cells, [`DataError::Disagree`] if ranks have registered different data.
    /// [`Error::InvalidState`] in a process that is no rank or is in a resize, [`Error::Group`] if a
    /// rank has ended.
    pub fn checkpoint<S: serde::Serialize>(
        &mut self,
        folder: impl AsRef<Path>,
        state: &S,
    ) -> Result<(), Error> {
        let state = match self.rank() {
            0 => serde_json::to_vec(state),
            _ => Ok(Vec::new()),
        };
        let state = state.map_err(|error| format!("cannot serialise the state: {error}"));
        self.checkpoint_bytes(folder.as_ref(), state)
    }

    /// Writes a checkpoint as [`checkpoint`](Self::checkpoint) does, with bytes of rank 0 as its
    /// state. A rank may give a reason against it instead. Collective over the world.
    ///
    /// # Errors
    /// As there, and [`DataError::Unstored`] with the first reason.
    pub fn checkpoint_bytes(
        &mut self,
        folder: &Path,
        state: Result<Vec<u8>, String>,
    ) -> Result<(), Error> {
        const CALL: &str = "checkpoint";
        self.connect(CALL)?;
        let liveness = self.liveness();
        unhurried(&liveness, |limits| self.data.write_checkpoint(folder, state, limits))
            .map_err(failed(CALL))
    }

    /// Reads the data of a checkpoint that any number of ranks has written, and sets the state.
    /// Returns false if the folder has no complete checkpoint, or there is no such folder: nothing
    /// has changed then, as after an error.
    ///
    /// Arrays, sparse matrices and vectors that are not registered are registered, as on a joiner;
    /// registered ones get the values of the checkpoint, in the pattern with which they are
    /// registered here. Lists of items are registered before, because they need the function of
    /// their owners; items go to their owners. Ghost cells are zero afterwards, and an address from
    /// before is not valid. Collective over the world.
    ///
    /// # Errors
    /// The same on all ranks: [`Error::Data`] with [`DataError::Files`] if a file cannot be read, is
    /// missing or was changed; [`DataError::Unstored`] if registered data are not in the
    /// checkpoint, or differ from it, if a list is not registered, for a state of another type, and
    /// for a callback; otherwise as [`checkpoint`](Self::checkpoint) and
    /// [`migrate`](Self::migrate).
    pub fn restore<S: for<'b> serde::Deserialize<'b>>(
        &mut self,
        folder: impl AsRef<Path>,
        state: &mut S,
    ) -> Result<bool, Error> {
        let mut found = None;
        let is_restored = self.restore_bytes(folder.as_ref(), |bytes| {
            let read = serde_json::from_slice(bytes);
            found = Some(read.map_err(|error| {
                format!("the state of the checkpoint is of another type: {error}: restore it with the program that wrote it")
            })?);
            Ok(())
        })?;
        if let Some(found) = found.filter(|_| is_restored) {
            *state = found;
        }
        Ok(is_restored)
    }

    /// Reads a checkpoint as [`restore`](Self::restore) does. `accept` gets the bytes of the state
    /// before anything changes, and may refuse them with a reason. Collective over the world.
    ///
    /// # Errors
    /// As there.
    pub fn restore_bytes(
        &mut self,
        folder: &Path,
        accept: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<bool, Error> {
        const CALL: &str = "restore";
        self.connect(CALL)?;
        let liveness = self.liveness();
        unhurried(&liveness, |limits| self.data.read_checkpoint(folder, accept, limits))
            .map_err(failed(CALL))
    }

    /// Connects the ranks for exchanges between them, the first time after a resize.
    fn connect(&mut self, call: &'static str) -> Result<(), Error> {
        if self.is_pending() {
            let reason = "a resize is pending: begin is next";
            return Err(Error::InvalidState { call, reason });
        }
        if self.data.needs_connection() {
            let reason = "this process is no rank: wait, or begin a resize";
            let no_rank = Error::InvalidState { call, reason };
            let current = self.communicator().ok_or(no_rank)?;
            let connect = |limits: &WaitLimits<'_>| current.group_within(limits);
            let group = unhurried(&self.liveness(), connect).map_err(Error::group(call))?;
            self.data.connect(Some(group));
        }
        Ok(())
    }

    /// Rank of this process and number of ranks; `None` if it is no rank.
    fn seat(&self) -> Option<(usize, usize)> {
        self.communicator().map(|current| (current.rank(), current.size()))
    }

    /// Sets rank and size of the arrays to the present ones.
    pub(super) fn end_transfer(&mut self, committed: bool) {
        let seat = self.seat();
        self.data.end_transfer(committed, seat);
    }
}

impl Window<'_> {
    /// Returns the arrays as they are before the resize. Local.
    #[must_use]
    pub fn data(&self) -> &Registry {
        &self.world.data
    }

    /// Returns the arrays, to set their layout after the resize.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut Registry {
        &mut self.world.data
    }

    /// Begins to move all arrays to their place on the new ranks. The returned move proceeds in
    /// [`Move::test`] while the program computes. Collective over all ranks of the window.
    ///
    /// # Errors
    /// [`Error::Data`] when ranks do not agree on their arrays, or memory is short: the same on all
    /// ranks.
    pub fn begin_move(&mut self) -> Result<Move<'_>, Error> {
        let liveness = self.liveness();
        let group = liveness
            .within(self.world.patience, |limits| self.all_ranks().group_within(limits))
            .map_err(DataError::from)?;
        let change = Participants {
            old: group.size() - self.joiners(),
            new: self.next_places(),
            node: self.node(),
            patience: self.world.patience,
            liveness,
        };
        let data = &mut self.world.data;
        Move::begin(data, group, change).map_err(Error::from)
    }

    /// Moves all arrays to their place on the new ranks; the commit does it otherwise. The moved
    /// arrays take effect with the commit. Collective over all ranks of the window.
    ///
    /// # Errors
    /// [`Error::Data`], the same on all ranks: the resize can only be aborted then.
    pub fn move_data(&mut self) -> Result<Moved, Error> {
        Ok(self.begin_move()?.finish()?)
    }

    /// Number of bytes sent from rank to rank in this window.
    pub(super) fn bytes(&self) -> u64 {
        let data = &self.world.data;
        let moved = data.last_move().filter(|_| data.is_moved() == Ok(true));
        moved.map_or(0, |moved| moved.all_sent)
    }

    /// Returns true if data of this process have yet to be moved; an error if the move has failed.
    pub(super) fn unmoved(&self) -> Result<bool, String> {
        let data = &self.world.data;
        Ok(!data.is_moved()? && self.part != Part::Joins && !data.is_empty())
    }
}

/// Makes a call that waits for other ranks, however long they compute.
fn unhurried<T>(liveness: &LivenessCheck, wait: impl FnOnce(&WaitLimits<'_>) -> T) -> T {
    wait(&WaitLimits { deadline: None, check_peers: &|| liveness.check() })
}

/// Names the call in errors of the communication library.
fn failed(call: &'static str) -> impl Fn(DataError) -> Error {
    move |error| match error {
        DataError::Group(source) => Error::Group { call, source },
        other => other.into(),
    }
}
