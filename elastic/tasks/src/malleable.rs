//! Tasks over the ranks of an elastic world, which join and leave meanwhile.

use std::time::Duration;

use quo::group::GroupError;

use super::mail::{Mail, unlimited};
use super::session::{self, Begin, End, RankSet};
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

impl RankSet for Elastic<'_> {
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

    fn check_liveness(&self) -> Result<(), GroupError> {
        self.watch.check()
    }
}

/// Runs a task over the ranks of a world while the world may grow and shrink. Collective over the
/// processes of the world: parked processes make the call, too, and sleep in it until they are
/// called in.
///
/// Rank 0 has all ranks probe from time to time ([`Options::probe_every`]); these probes are the
/// iterations of plans. At a resize running tasks are completed or given back
/// ([`Options::release`]), the remaining tasks go to rank 0, which never leaves, and the new ranks
/// continue from there. A process that is no rank at the end of the run stays asleep in the call
/// until the world ends or a later run calls it in; all tasks of one world are therefore of one
/// type.
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
                // The resize was aborted: the ranks are the same.
                Ok(()) | Err(Error::Aborted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            continue;
        }
        let watch = world.liveness();
        let check = || watch.check();
        let ranks = world
            .communicator()
            .ok_or(Error::InvalidState { call: "tasks", reason: "only ranks compute tasks" })?;
        let mail = Mail::over(ranks, &unlimited(&check))?;
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
