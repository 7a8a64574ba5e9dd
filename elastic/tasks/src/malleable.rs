//! Tasks over the ranks of an elastic world, which come and go meanwhile.

use std::time::Duration;

use quo::group::GroupError;

use super::mail::{Mail, unlimited};
use super::session::{self, Around, Begin, End};
use super::{Counts, Done, Options, Task, TasksError};
use elastic::Error;
use elastic::LivenessCheck;
use elastic::{Status, World};

/// The world of a session.
struct Elastic<'a> {
    world: &'a mut World,
    watch: LivenessCheck,
    interval: Duration,
    node: usize,
    probes: &'a mut u64,
}

impl Around for Elastic<'_> {
    fn probe(&mut self) -> Result<bool, TasksError> {
        self.world.report_iteration(*self.probes);
        *self.probes += 1;
        Ok(self.world.probe()?)
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn node(&self) -> Option<usize> {
        Some(self.node)
    }

    fn look(&self) -> Result<(), GroupError> {
        self.watch.check()
    }
}

/// Runs a task over the ranks of a world while the world may grow and shrink. Collective over the processes of the
/// world: also those that are parked make the call, and sleep in it until they are called in.
///
/// Rank 0 has all ranks probe from time to time ([`Options::probe_every`]), which are the iterations of plans. At a
/// resize tasks are computed to their end or given back ([`Options::release`]), all that is left goes to rank 0, which
/// never leaves, and the new ranks take it from there. A process that is no rank at the end of the run stays asleep in
/// the call, until the world ends or a later run calls it in; tasks of one world are therefore of one type.
///
/// # Errors
/// As [`run`](super::run), and [`TasksError::World`].
pub fn run_in_world<T: Task>(
    world: &mut World,
    root: Option<T>,
    options: &Options,
) -> Result<Done<T::Output>, TasksError> {
    let mut begin = Begin::Root(root);
    let mut counts = Counts::default();
    let (mut is_due, mut probes) = (false, 0);
    loop {
        match world.status() {
            Status::Parked if !world.wait()? => return Ok(Done { output: None, counts }),
            Status::Ended => return Ok(Done { output: None, counts }),
            _ => {}
        }
        if is_due || world.status() == Status::Joining {
            is_due = false;
            let window = world.begin()?;
            window.broadcast(&mut probes)?;
            match window.commit(Ok(())) {
                // Given up: the ranks are those of before.
                Ok(()) | Err(Error::Aborted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            continue;
        }
        let watch = world.liveness();
        let look = || watch.check();
        let ranks = world
            .communicator()
            .ok_or(Error::InvalidState { call: "tasks", reason: "only ranks compute tasks" })?;
        let mail = Mail::over(ranks, &unlimited(&look))?;
        let (watch, node, interval) = (world.liveness(), world.node(), options.probe);
        let mut around = Elastic { world, watch, interval, node, probes: &mut probes };
        match session::run(mail, begin, options, &mut around)? {
            End::Done(output, more) => {
                counts.add(more);
                return Ok(Done { output, counts });
            }
            End::Resize(next, more) => {
                counts.add(more);
                (begin, is_due) = (next, true);
            }
        }
    }
}
