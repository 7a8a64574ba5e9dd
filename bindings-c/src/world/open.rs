//! A world held by C, with its open window and move of arrays.
#![allow(unsafe_code)]

use std::ptr;

use elastic::data::{Move, Registry};
use elastic::{ProcessSets, Window, World};

use super::events::Seen;
use crate::codes::Code;
use crate::guard::Failure;

/// A world, the resize and the move that have begun, and the objects that belong to it.
pub(crate) struct Open {
    /// Dropped before the window.
    moving: Option<Moving>,
    /// Borrows from `world`, and is dropped before it.
    window: Option<Window<'static>>,
    /// From a Box; accessed through the window while there is one. Null in a program without a
    /// world.
    world: *mut World,
    /// Arrays of a program that runs in one process, without a world.
    serial: Option<Registry>,
    pub(super) seen: Seen,
    sets: Option<ProcessSets>,
}

/// Arrays being moved.
struct Moving {
    /// Borrows the arrays of the world: nothing else of the world or the window is used meanwhile.
    arrays: Move<'static>,
    /// This process's rank before the resize.
    rank: usize,
}

// SAFETY: by the contract of the C interface one thread at a time is in a call of a world, which
// the lock around it enforces; pointers passed by C (callbacks) may be used by each thread that
// calls.
unsafe impl Send for Open {}

impl Open {
    pub(super) fn new(world: World) -> Self {
        let world = Box::into_raw(Box::new(world));
        Self { moving: None, window: None, world, serial: None, seen: Seen::default(), sets: None }
    }

    /// Replaces the world in a program that runs in one process, without MPI.
    pub(super) fn serial() -> Self {
        let (world, serial) = (ptr::null_mut(), Some(Registry::serial()));
        Self { moving: None, window: None, world, serial, seen: Seen::default(), sets: None }
    }

    pub(super) fn is_serial(&self) -> bool {
        self.serial.is_some()
    }

    /// Refuses calls that need a world.
    fn has_world(&self) -> Result<(), Failure> {
        if self.world.is_null() {
            return Err(invalid_state("the program runs in one process, without a world"));
        }
        Ok(())
    }

    /// Refuses calls that cannot be made while arrays are being moved.
    fn at_rest(&self) -> Result<(), Failure> {
        if self.moving.is_some() {
            let text =
                "arrays are on their way: call QUO_window_move_end, or commit or abort the resize";
            return Err(invalid_state(text));
        }
        Ok(())
    }

    pub(crate) fn world(&self) -> Result<&World, Failure> {
        self.at_rest()?;
        self.has_world()?;
        Ok(match &self.window {
            Some(window) => window.world(),
            // SAFETY: the pointer is from a Box, and no window borrows from it.
            None => unsafe { &*self.world },
        })
    }

    /// Returns the world, while no window is open.
    pub(super) fn world_mut(&mut self) -> Result<&mut World, Failure> {
        if self.window.is_some() {
            return Err(invalid_state("a resize has begun: commit it, or abort it"));
        }
        self.has_world()?;
        // SAFETY: as in `world`, and this borrows all of `self`.
        Ok(unsafe { &mut *self.world })
    }

    /// Returns the arrays, and this process's rank, even while the arrays are being moved.
    pub(super) fn arrays(&self) -> Result<(&Registry, usize), Failure> {
        if let Some(moving) = &self.moving {
            return Ok((moving.arrays.old(), moving.rank));
        }
        if let Some(arrays) = &self.serial {
            return Ok((arrays, 0));
        }
        let world = self.world()?;
        Ok((world.data(), world.rank()))
    }

    pub(super) fn data_mut(&mut self) -> Result<&mut Registry, Failure> {
        self.at_rest()?;
        Ok(match (&mut self.window, &mut self.serial) {
            (Some(window), _) => window.data_mut(),
            (None, Some(arrays)) => arrays,
            // SAFETY: as in `world_mut`; without a world there are the arrays of a serial program.
            (None, None) => unsafe { (*self.world).data_mut() },
        })
    }

    pub(super) fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// Returns the process sets of the job.
    pub(super) fn sets(&mut self) -> Result<&mut ProcessSets, Failure> {
        if self.sets.is_none() {
            self.sets = Some(self.world()?.process_sets()?);
        }
        self.sets.as_mut().ok_or_else(|| invalid_state("there are no process sets"))
    }

    /// Calls `what` with the world and its process sets, while no window is open.
    pub(super) fn with_sets<T>(
        &mut self,
        what: impl FnOnce(&mut World, &mut ProcessSets) -> Result<T, elastic::Error>,
    ) -> Result<T, Failure> {
        self.sets()?;
        let Some(mut sets) = self.sets.take() else {
            return Err(invalid_state("there are no process sets"));
        };
        let done = self.world_mut().map(|world| what(world, &mut sets));
        self.sets = Some(sets);
        Ok(done??)
    }

    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        self.world_mut()?;
        // SAFETY: the world stays where it is until this is dropped, which drops the window first;
        // while the window exists the world is accessed only through it.
        let world: &'static mut World = unsafe { &mut *self.world };
        self.window = Some(world.begin()?);
        Ok(())
    }

    pub(super) fn has_window(&self) -> bool {
        self.window.is_some()
    }

    pub(super) fn window(&self) -> Result<&Window<'static>, Failure> {
        self.at_rest()?;
        self.window.as_ref().ok_or_else(|| invalid_state("no resize has begun"))
    }

    pub(super) fn window_mut(&mut self) -> Result<&mut Window<'static>, Failure> {
        self.at_rest()?;
        self.window.as_mut().ok_or_else(|| invalid_state("no resize has begun"))
    }

    /// Starts moving the arrays.
    pub(super) fn begin_move(&mut self) -> Result<(), Failure> {
        let window = self.window_mut()?;
        let rank = window.world().rank();
        let arrays = window.begin_move()?;
        // SAFETY: the move borrows the arrays of the world, which stays where it is until this is
        // dropped. The move is dropped before the window, and until then neither window nor world
        // is used.
        let arrays = unsafe { std::mem::transmute::<Move<'_>, Move<'static>>(arrays) };
        self.moving = Some(Moving { arrays, rank });
        Ok(())
    }

    /// Returns the move in progress.
    pub(super) fn moving(&mut self) -> Result<&mut Move<'static>, Failure> {
        let moving = self.moving.as_mut();
        moving.map(|moving| &mut moving.arrays).ok_or_else(|| invalid_state("no move has begun"))
    }

    pub(super) fn take_move(&mut self) -> Result<Move<'static>, Failure> {
        let moving = self.moving.take();
        moving.map(|moving| moving.arrays).ok_or_else(|| invalid_state("no move has begun"))
    }

    /// Takes the window, to be committed or aborted. A move in progress is finished, or abandoned.
    pub(super) fn take_window(&mut self, commits: bool) -> Result<Window<'static>, Failure> {
        if let Some(moving) = self.moving.take()
            && commits
        {
            // The commit reports any failure, on all ranks.
            let _ = moving.arrays.finish();
        }
        self.window.take().ok_or_else(|| invalid_state("no resize has begun"))
    }

    /// Drops the open move, the window and the process sets.
    pub(super) fn close(&mut self) {
        drop(self.moving.take());
        drop(self.window.take());
        drop(self.sets.take());
    }

    /// Returns the world, unless the program is serial.
    pub(super) fn into_world(mut self) -> Option<World> {
        self.close();
        let world = std::mem::replace(&mut self.world, ptr::null_mut());
        // SAFETY: from a Box, which is taken back only here: `drop` finds a null pointer.
        (!world.is_null()).then(|| *unsafe { Box::from_raw(world) })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.close();
        if !self.world.is_null() {
            // SAFETY: from a Box, and taken back once.
            drop(unsafe { Box::from_raw(self.world) });
        }
    }
}

pub(crate) fn invalid_state(text: &str) -> Failure {
    Failure::new(Code::InvalidState, text)
}
