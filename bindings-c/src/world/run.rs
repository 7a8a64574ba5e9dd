//! The main loop of a program, owned by the library.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use elastic::{Error, Status};

use super::{events, with};
use crate::codes::Code;
use crate::guard::{Failure, Mark, entry};
use crate::types::{Bytes, QUO_world_t};

pub type QUO_step_t = Option<unsafe extern "C" fn(*mut QUO_world_t, *mut c_void) -> c_int>;

/// What a process does next.
enum Turn {
    Step,
    Resize,
    End,
}

/// Finds out what is next: sleeps without a rank, and probes with one.
fn turn(w: *mut QUO_world_t, steps: u64) -> Result<Turn, Failure> {
    let (turn, brings) = with(w, |open| {
        if open.is_serial() {
            return Ok((Turn::Step, false));
        }
        let world = open.world_mut()?;
        let turn = match world.status() {
            Status::Ended => Turn::End,
            Status::Parked if !world.wait()? => Turn::End,
            Status::Parked | Status::Joining => Turn::Resize,
            Status::New | Status::Staying => {
                world.report_iteration(steps);
                if world.probe()? { Turn::Resize } else { Turn::Step }
            }
        };
        Ok((turn, open.seen.has_handler()))
    })?;
    if brings {
        events::deliver_events(w);
    }
    Ok(turn)
}

/// Takes part in a resize, with the state of rank 0.
fn resize(w: *mut QUO_world_t, state: Bytes, length: usize) -> Result<(), Failure> {
    let done = with(w, |open| {
        open.begin()?;
        let window = open.window()?;
        let is_first = window.all_ranks().rank() == 0;
        let mine = if is_first { state.read("state", length)? } else { Vec::new() };
        let told = window.broadcast_bytes(mine)?;
        let agrees = match told.len() {
            len if len == length => Ok(()),
            len => Err(format!("its state has {length} bytes, and that of rank 0 has {len}")),
        };
        let differs = agrees.is_err();
        match open.take_window(true)?.commit(agrees) {
            Ok(()) => {}
            // The ranks are the same as before.
            Err(Error::Aborted { .. }) if !differs => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if !is_first {
            state.write(&told);
        }
        Ok(())
    });
    events::deliver_events(w);
    done
}

/// The function of the program, and what it gets.
struct Steps {
    step: unsafe extern "C" fn(*mut QUO_world_t, *mut c_void) -> c_int,
    world: *mut QUO_world_t,
    data: *mut c_void,
    /// Number of steps begun on this process.
    done: u64,
}

impl Steps {
    /// Makes a step. Returns true if another one follows.
    fn make(&mut self) -> Result<bool, Failure> {
        let code = {
            let _outside = Mark::outside();
            // SAFETY: by the contract of the C interface the function takes these arguments.
            unsafe { (self.step)(self.world, self.data) }
        };
        if code < 0 {
            let text = format!("step {} of this process returned {code}", self.done);
            return Err(Failure::new(Code::WorkFailed, text));
        }
        self.done += 1;
        Ok(code != 0)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_run(
    w: *mut QUO_world_t,
    step: QUO_step_t,
    data: *mut c_void,
    state: Bytes,
    length: usize,
) -> c_int {
    entry("QUO_world_run", || {
        let step = step.ok_or_else(|| Failure::invalid("the argument step is NULL"))?;
        // A wrong pointer is found before another rank waits.
        state.read("state", length)?;
        let mut steps = Steps { step, world: w, data, done: 0 };
        loop {
            match turn(w, steps.done)? {
                Turn::End => return Ok(()),
                Turn::Resize => resize(w, state, length)?,
                Turn::Step => {
                    if !steps.make()? {
                        return Ok(());
                    }
                }
            }
        }
    })
}
