//! Executes the fate of a member.

use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::time::ClockId;
use quo::affinity::Target;
use quo::{Context, Error, ObjectType};

use crate::dice::Dice;
use crate::journal::Column;
use crate::judge::WALKED_OUT;
use crate::member::{Member, spin};
use crate::plan::{Child, Fate, Moment, Strike};
use crate::process;
use crate::world::LOOK;

/// Program that a victim executes, and which ends long after the round.
pub const PROGRAM: (&std::ffi::CStr, &str) = (c"/bin/sleep", "sleep");

impl Member<'_> {
    fn strike_in(&self, stage: usize) -> Option<&Strike> {
        self.plan.strike_at(self.number).filter(|strike| strike.stage == stage)
    }

    fn is_stray(&self) -> bool {
        self.plan.stray == Some(self.number)
    }

    /// Delays as the plan says, and meets the member's fate if this is the moment. A helper that
    /// will strike inside the stage is joined after it.
    pub fn before_stage(
        &self,
        stage: usize,
        context: &mut Option<Context>,
    ) -> Result<Option<JoinHandle<()>>> {
        let plan = self.plan;
        let mut dice = Dice::new(&[plan.seed, plan.round, stage as u64, self.number as u64]);
        if dice.chance(40) {
            let time = dice.moment(Duration::from_millis(2));
            if dice.chance(50) {
                spin(time);
            } else {
                // Sleeps: members arrive at different times.
                std::thread::sleep(time);
            }
        }
        let Some(strike) = self.strike_in(stage) else { return Ok(None) };
        match strike.moment {
            Moment::Before => self.fall(context)?,
            Moment::After => {}
            Moment::Inside(after) | Moment::Watched(after) => {
                return self.fall_inside(after, strike.moment, context);
            }
        }
        Ok(None)
    }

    pub fn after_stage(
        &self,
        stage: usize,
        context: &mut Option<Context>,
        helper: Option<JoinHandle<()>>,
    ) -> Result<()> {
        if let Some(helper) = helper {
            helper.join().ok().context("the helper panicked")?;
        }
        match self.strike_in(stage) {
            Some(Strike { moment: Moment::After, .. }) => self.fall(context),
            _ => Ok(()),
        }
    }

    /// Meets the fate at this point; returns only if the fate is survivable.
    fn fall(&self, context: &mut Option<Context>) -> Result<()> {
        match self.plan.fate {
            Fate::Nothing => Ok(()),
            Fate::Kill | Fate::Recycle | Fate::Stop(_) | Fate::StopKill(_) => self.await_fate(),
            Fate::Orphan => {
                self.fork(Child::Lingers, context)?;
                self.await_fate()
            }
            Fate::Exit { handlers } => exit(handlers),
            Fate::Exec => execute(),
            Fate::Slow(time) => {
                // Sleeps: a slow member is not dead.
                std::thread::sleep(time);
                Ok(())
            }
            Fate::Fork(child) => self.fork(child, context),
        }
    }

    /// Announces the member and waits for the keeper's strike.
    fn await_fate(&self) -> Result<()> {
        self.announce()?;
        while self.world.board.get(self.number, Column::Released)? == 0 {
            // Sleeps: between two looks at a number in shared memory.
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn announce(&self) -> Result<()> {
        nix::unistd::write(&self.world.announce, &[self.number as u8]).context("announcing")?;
        Ok(())
    }

    fn fall_inside(
        &self,
        after: Duration,
        moment: Moment,
        context: &mut Option<Context>,
    ) -> Result<Option<JoinHandle<()>>> {
        // The first process of a PID namespace ignores its own signals.
        let watched = matches!(moment, Moment::Watched(_)) || self.is_stray();
        let fate = self.plan.fate;
        match fate {
            Fate::Nothing => Ok(None),
            Fate::Slow(_) => self.fall(context).map(|()| None),
            Fate::Orphan if watched => {
                self.fork(Child::Lingers, context)?;
                self.announce().map(|()| None)
            }
            Fate::Orphan => {
                self.fork(Child::Lingers, context)?;
                set_timer(after, Signal::SIGKILL).map(|()| None)
            }
            Fate::Kill | Fate::Recycle | Fate::Stop(_) | Fate::StopKill(_) if watched => {
                self.announce().map(|()| None)
            }
            Fate::Kill | Fate::Recycle => set_timer(after, Signal::SIGKILL).map(|()| None),
            Fate::Stop(_) | Fate::StopKill(_) => set_timer(after, Signal::SIGSTOP).map(|()| None),
            Fate::Exit { .. } | Fate::Exec | Fate::Fork(_) => {
                let leash = self.world.leash.try_clone().context("dup")?;
                Ok(Some(std::thread::spawn(move || {
                    // Sleeps: the strike may hit any moment.
                    std::thread::sleep(after);
                    match fate {
                        Fate::Exit { handlers } => exit(handlers),
                        Fate::Exec => drop(execute()),
                        _ => drop(process::spawn(|| {
                            let lingers = matches!(fate, Fate::Fork(Child::Lingers));
                            if lingers { linger(&leash) } else { 0 }
                        })),
                    }
                })))
            }
        }
    }

    fn fork(&self, child: Child, context: &mut Option<Context>) -> Result<()> {
        let pid = process::spawn(|| match child {
            Child::Ends => 0,
            Child::Lingers => linger(&self.world.leash),
            Child::Drops => {
                drop(context.take());
                0
            }
            Child::Acts => {
                let forked = |error: &Option<Error>| matches!(error, Some(Error::Forked { .. }));
                let Some(context) = context.as_ref() else { return 0 };
                let attempts = [
                    context.barrier().err(),
                    context.detach().err(),
                    context.push(&Target::Object(ObjectType::Machine, 0)).err(),
                    context.auto_distrib(ObjectType::Machine, 1).err(),
                ];
                i32::from(!attempts.iter().all(forked))
            }
        })
        .context("fork")?;
        if child != Child::Lingers {
            let status = waitpid(pid, None).context("waitpid")?;
            ensure!(
                status == WaitStatus::Exited(pid, 0),
                "a forked child was let act as the member, or failed: {status:?}"
            );
        }
        Ok(())
    }
}

fn exit(handlers: bool) -> ! {
    if handlers { std::process::exit(WALKED_OUT) } else { process::end(WALKED_OUT) }
}

fn execute() -> Result<()> {
    nix::unistd::execv(PROGRAM.0, &[PROGRAM.0, c"1000"]).context("exec")?;
    Ok(())
}

/// Lives until the keeper closes the leash.
pub fn linger(leash: &std::os::fd::OwnedFd) -> i32 {
    let _ = nix::unistd::read(leash, &mut [0]);
    0
}

fn set_timer(after: Duration, signal: Signal) -> Result<()> {
    let notify = SigevNotify::SigevSignal { signal, si_value: 0 };
    let mut timer =
        Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(notify)).context("timer_create")?;
    let after = after.max(Duration::from_nanos(1));
    timer
        .set(Expiration::OneShot(after.into()), TimerSetTimeFlags::empty())
        .context("timer_settime")?;
    // The timer outlives this call.
    std::mem::forget(timer);
    Ok(())
}
