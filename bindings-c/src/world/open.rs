//! A world that C holds, with the window and the move of arrays that are open.
#![allow(unsafe_code)]

use std::ptr;

use elastic::data::{Move, Registry};
use elastic::{ProcessSets, Window, World};

use super::events::Seen;
use crate::codes::Code;
use crate::guard::Failure;

/// A world, the resize and the move begun with it, and the objects that belong to it.
pub(crate) struct Open {
    /// Goes before the window.
    moving: Option<Moving>,
    /// Borrows from `world`, and goes before it.
    window: Option<Window<'static>>,
    /// From a Box; reached through the window while there is one.
    world: *mut World,
    pub(super) seen: Seen,
    sets: Option<ProcessSets>,
}

/// Arrays on their way.
struct Moving {
    /// Borrows the arrays of the world: nothing else of the world or the window is used meanwhile.
    arrays: Move<'static>,
    /// This process's rank before the resize.
    rank: usize,
}

// SAFETY: by the contract of the C interface one thread at a time is in a call of a world, which the
// lock around it enforces; what C gave along (callbacks) may be used by each thread that calls.
unsafe impl Send for Open {}

impl Open {
    pub(super) fn new(world: World) -> Self {
        let world = Box::into_raw(Box::new(world));
        Self { moving: None, window: None, world, seen: Seen::default(), sets: None }
    }

    /// Refuses calls that cannot be made while arrays are on their way.
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
        Ok(match &self.window {
            Some(window) => window.world(),
            // SAFETY: the pointer is from a Box, and no window borrows from it.
            None => unsafe { &*self.world },
        })
    }

    /// The world, while no window is open.
    pub(super) fn world_mut(&mut self) -> Result<&mut World, Failure> {
        if self.window.is_some() {
            return Err(invalid_state("a resize has begun: commit it, or abort it"));
        }
        // SAFETY: as in `world`, and this borrows all of `self`.
        Ok(unsafe { &mut *self.world })
    }

    /// The arrays, and this process's rank, also while they are on their way.
    pub(super) fn arrays(&self) -> Result<(&Registry, usize), Failure> {
        if let Some(moving) = &self.moving {
            return Ok((moving.arrays.old(), moving.rank));
        }
        let world = self.world()?;
        Ok((world.data(), world.rank()))
    }

    pub(super) fn data_mut(&mut self) -> Result<&mut Registry, Failure> {
        self.at_rest()?;
        Ok(match &mut self.window {
            Some(window) => window.data_mut(),
            // SAFETY: as in `world_mut`.
            None => unsafe { (*self.world).data_mut() },
        })
    }

    pub(super) fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// The process sets of the job, and the world while no window is open.
    pub(super) fn sets(&mut self) -> Result<&mut ProcessSets, Failure> {
        if self.sets.is_none() {
            self.sets = Some(self.world()?.process_sets()?);
        }
        self.sets.as_mut().ok_or_else(|| invalid_state("there are no process sets"))
    }

    /// Does something with the world and its process sets, while no window is open.
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
        // SAFETY: the world stays where it is until this is dropped, which drops the window first; until
        // the window is gone the world is reached through it only.
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

    /// Begins to move the arrays.
    pub(super) fn begin_move(&mut self) -> Result<(), Failure> {
        let window = self.window_mut()?;
        let rank = window.world().rank();
        let arrays = window.begin_move()?;
        // SAFETY: the move borrows the arrays of the world, which stays where it is until this is dropped.
        // The move goes before the window does, and until then neither window nor world is used.
        let arrays = unsafe { std::mem::transmute::<Move<'_>, Move<'static>>(arrays) };
        self.moving = Some(Moving { arrays, rank });
        Ok(())
    }

    /// The move that has begun.
    pub(super) fn moving(&mut self) -> Result<&mut Move<'static>, Failure> {
        let moving = self.moving.as_mut();
        moving.map(|moving| &mut moving.arrays).ok_or_else(|| invalid_state("no move has begun"))
    }

    pub(super) fn take_move(&mut self) -> Result<Move<'static>, Failure> {
        let moving = self.moving.take();
        moving.map(|moving| moving.arrays).ok_or_else(|| invalid_state("no move has begun"))
    }

    /// The window, to be committed or given up. A move that has begun is ended, or given up.
    pub(super) fn take_window(&mut self, commits: bool) -> Result<Window<'static>, Failure> {
        if let Some(moving) = self.moving.take()
            && commits
        {
            // The commit says what went wrong, on all.
            let _ = moving.arrays.finish();
        }
        self.window.take().ok_or_else(|| invalid_state("no resize has begun"))
    }

    /// Ends the open move, with the others.
    pub(super) fn close(&mut self) {
        drop(self.moving.take());
        drop(self.window.take());
        drop(self.sets.take());
    }

    pub(super) fn into_world(mut self) -> World {
        self.close();
        let world = std::mem::replace(&mut self.world, ptr::null_mut());
        // SAFETY: from a Box, which nobody else takes back: `drop` finds a null pointer.
        *unsafe { Box::from_raw(world) }
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
