//! The keeper of a round: starts the members, strikes them, waits for their ends, collects the
//! evidence and looks for leftovers.

use std::fs;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use quo::node::Node;

use crate::fate::{PROGRAM, linger};
use crate::journal::{Column, Entry};
use crate::judge::{Ending, Evidence, judge, leaves_to_sweep};
use crate::member::{Member, set_machine};
use crate::plan::{Fate, Moment, Plan};
use crate::process;
use crate::world::World;

/// Time within which processes must end when nothing holds them any more.
const LAST_STEPS: Duration = Duration::from_secs(20);
/// Pause between two looks at the members.
const TICK_MILLISECONDS: u8 = 2;
/// Number of attempts to reuse a free PID.
const ATTEMPTS: usize = 200;

/// Runs a round in the calling process, which was forked for it. Reports the complaints, line by
/// line, and returns the exit status, zero without complaints.
pub fn keep(plan: &Plan, directory: &Path, bound: Duration, report: &File) -> i32 {
    let told = |complaints: Result<Vec<String>>| {
        let complaints = complaints
            .unwrap_or_else(|error| vec![format!("the round could not be made: {error:#}")]);
        for complaint in &complaints {
            let _ = writeln!(&mut &*report, "{complaint}");
        }
        i32::from(!complaints.is_empty())
    };
    if !plan.own_world {
        return told(keep_here(plan, directory, bound));
    }
    let kept = within_namespace(|| told(keep_here(plan, directory, bound)));
    let status = kept.and_then(|pid| waitpid(pid, None).context("waitpid"));
    match status {
        Ok(WaitStatus::Exited(_, status)) => status,
        Ok(other) => {
            told(Ok(vec![format!("the keeper ended otherwise than it should: {other:?}")]))
        }
        Err(error) => told(Err(error)),
    }
}

/// Forks a process that is the first of a PID namespace, with that namespace's `/proc`.
fn within_namespace(act: impl FnOnce() -> i32) -> Result<Pid> {
    let own = File::open("/proc/self/ns/pid").context("opening the PID namespace")?;
    unshare(CloneFlags::CLONE_NEWPID).context("making a PID namespace")?;
    let child = process::spawn(|| match show_namespace() {
        Ok(()) => act(),
        Err(_) => process::PANICKED,
    });
    setns(&own, CloneFlags::CLONE_NEWPID).context("going back to the PID namespace")?;
    child.context("fork")
}

fn show_namespace() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("making a mount namespace")?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).context("mount")?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).context("mounting /proc")
}

/// Returns true if namespaces can be created here.
pub fn can_make_namespaces() -> bool {
    let tried = within_namespace(|| {
        // The next PID can be set.
        i32::from(fs::write("/proc/sys/kernel/ns_last_pid", "100").is_err())
    });
    tried.is_ok_and(|pid| waitpid(pid, None) == Ok(WaitStatus::Exited(pid, 0)))
}

fn keep_here(plan: &Plan, directory: &Path, bound: Duration) -> Result<Vec<String>> {
    set_child_subreaper(true).context("becoming the parent of orphans")?;
    set_machine(plan.machine);
    let world = World::new(plan, directory)?;
    let mut keeper = Keeper { plan, world, wards: Vec::new(), squatter: None };
    for number in 0..plan.members {
        let pid = keeper.start(number)?;
        keeper.wards.push(Ward { pid, end: None, collected: false, stopped: None });
    }
    keeper.watch(Instant::now() + bound)?;
    let mut complaints = Vec::new();
    let evidence = keeper.evidence()?;
    complaints.extend(keeper.clear_processes()?);
    let Keeper { world, .. } = keeper;
    drop(world);
    if leaves_to_sweep(plan, &evidence) {
        Node::sweep_older_than(directory, Duration::ZERO).context("sweeping")?;
    }
    complaints.extend(left_in(directory)?);
    complaints.extend(judge(plan, &evidence));
    if !complaints.is_empty() {
        complaints.extend(evidence.journals.iter().enumerate().map(|(member, journal)| {
            let lines: Vec<String> = journal.iter().map(Entry::encode).collect();
            format!("journal of member {member}: {}", lines.join("; "))
        }));
    }
    Ok(complaints)
}

fn left_in(directory: &Path) -> Result<Option<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).context("listing the directory of segments")? {
        names.push(entry?.file_name());
    }
    // The description of the machine stays for later processes.
    names.retain(|name| !name.to_string_lossy().starts_with("quo-machine-"));
    Ok((!names.is_empty()).then(|| format!("left in the directory of segments: {names:?}")))
}

/// A member as the keeper sees it.
#[derive(Debug)]
struct Ward {
    pid: Pid,
    end: Option<Ending>,
    /// It has been reaped.
    collected: bool,
    /// Time at which it was first seen stopped.
    stopped: Option<Instant>,
}

struct Keeper<'a> {
    plan: &'a Plan,
    world: World,
    wards: Vec<Ward>,
    /// Process that has a dead member's PID.
    squatter: Option<Pid>,
}

impl Keeper<'_> {
    fn start(&mut self, number: usize) -> Result<Pid> {
        let (plan, world) = (self.plan, &mut self.world);
        let live = || {
            // Only the keeper holds the leash.
            world.holder = None;
            Member { world, plan, number }.run()
        };
        if plan.stray == Some(number) {
            within_namespace(live)
        } else {
            process::spawn(live).context("fork")
        }
    }

    /// Watches the members to their ends, or until the deadline.
    fn watch(&mut self, deadline: Instant) -> Result<()> {
        while self.wards.iter().any(|ward| ward.end.is_none()) && Instant::now() < deadline {
            let waits = PollFd::new(self.world.announced.as_fd(), PollFlags::POLLIN);
            match poll(&mut [waits], PollTimeout::from(TICK_MILLISECONDS)) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => {
                    let mut member = [0];
                    nix::unistd::read(&self.world.announced, &mut member).context("read")?;
                    self.strike(usize::from(member[0]))?;
                }
                Err(error) => return Err(error).context("poll"),
            }
            for number in 0..self.wards.len() {
                self.look_at(number)?;
            }
        }
        Ok(())
    }

    /// Strikes a member that has announced itself.
    fn strike(&mut self, number: usize) -> Result<()> {
        if self.wards[number].end.is_some() {
            return Ok(());
        }
        if let Some(Moment::Watched(after) | Moment::Inside(after)) =
            self.plan.strike_at(number).map(|strike| strike.moment)
        {
            // Sleeps: the strike may hit any moment.
            std::thread::sleep(after);
        }
        let signal = match self.plan.fate {
            Fate::Stop(_) | Fate::StopKill(_) => Signal::SIGSTOP,
            _ => Signal::SIGKILL,
        };
        kill(self.wards[number].pid, signal).context("kill")
    }

    fn look_at(&mut self, number: usize) -> Result<()> {
        let ward = &mut self.wards[number];
        if ward.end.is_some() {
            return Ok(());
        }
        let id = Id::Pid(ward.pid);
        let stops = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        match waitid(id, stops) {
            Ok(WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..)) => {
                ward.stopped = Some(Instant::now());
            }
            Ok(_) | Err(Errno::ECHILD) => {}
            Err(error) => return Err(error).context("waitid"),
        }
        if let (Some(since), Fate::Stop(hold) | Fate::StopKill(hold)) =
            (ward.stopped, self.plan.fate)
            && since.elapsed() >= hold
        {
            ward.stopped = None;
            let kills = matches!(self.plan.fate, Fate::StopKill(_));
            let signal = if kills { Signal::SIGKILL } else { Signal::SIGCONT };
            self.world.board.set(number, Column::Released, 1)?;
            kill(ward.pid, signal).context("kill")?;
        }
        // The zombie stays, unless the plan reaps it.
        let id = Id::Pid(self.wards[number].pid);
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let end = match waitid(id, flags).context("waitid")? {
            WaitStatus::Exited(_, status) => Ending::Exited(status),
            WaitStatus::Signaled(_, signal, _) => Ending::Killed(signal as i32),
            _ if self.has_become_another(number) => Ending::Replaced,
            _ => return Ok(()),
        };
        let replaced = end == Ending::Replaced;
        self.wards[number].end = Some(end);
        if self.plan.reap && !replaced {
            self.collect(number)?;
        }
        if self.plan.fate == Fate::Recycle && self.plan.strike_at(number).is_some() {
            self.squatter = occupy(self.wards[number].pid, &mut self.world)?;
        }
        self.world.board.set(number, Column::Gone, 1)
    }

    fn has_become_another(&self, number: usize) -> bool {
        let ward = &self.wards[number];
        self.plan.fate == Fate::Exec
            && self.plan.strike_at(number).is_some()
            && fs::read_to_string(format!("/proc/{}/comm", ward.pid))
                .is_ok_and(|name| name.trim_end() == PROGRAM.1)
    }

    fn collect(&mut self, number: usize) -> Result<()> {
        waitpid(self.wards[number].pid, None).context("waitpid")?;
        self.wards[number].collected = true;
        Ok(())
    }

    fn evidence(&self) -> Result<Evidence> {
        let journals: Vec<_> =
            self.world.journals.iter().map(|journal| journal.entries()).collect::<Result<_>>()?;
        let endings = self.wards.iter().zip(&journals).map(|(ward, journal)| {
            ward.end.clone().unwrap_or_else(|| {
                Ending::Hung(format!("{}; last: {:?}", state_of(ward.pid), journal.last()))
            })
        });
        Ok(Evidence { endings: endings.collect(), journals })
    }

    /// Releases everything held, and ends the processes that must be ended. Returns what is left
    /// nevertheless.
    fn clear_processes(&mut self) -> Result<Option<String>> {
        self.world.holder = None;
        for ward in self.wards.iter().filter(|ward| !ward.collected) {
            // A process that hangs, or has become another program, is ended here.
            let _ = kill(ward.pid, Signal::SIGKILL);
        }
        let deadline = Instant::now() + LAST_STEPS;
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::ECHILD) => return Ok(None),
                Err(error) => return Err(error).context("waitpid"),
                Ok(WaitStatus::StillAlive) if Instant::now() > deadline => {
                    return Ok(Some("processes are left".to_owned()));
                }
                // Sleeps: between two looks at processes that are ending.
                Ok(WaitStatus::StillAlive) => std::thread::sleep(crate::world::LOOK),
                Ok(_) => {}
            }
        }
    }
}

/// Forks a process with a former member's PID. Returns `None` if the PID cannot be had.
fn occupy(wanted: Pid, world: &mut World) -> Result<Option<Pid>> {
    for _ in 0..ATTEMPTS {
        let last = (wanted.as_raw() - 1).to_string();
        fs::write("/proc/sys/kernel/ns_last_pid", last).context("choosing a process number")?;
        let child = process::spawn(|| {
            world.holder = None;
            if nix::unistd::getpid() == wanted { linger(&world.leash) } else { 0 }
        });
        let child = child.context("fork")?;
        if child == wanted {
            return Ok(Some(child));
        }
        waitpid(child, None).context("waitpid")?;
    }
    Ok(None)
}

/// Returns what a process is doing, according to the kernel.
fn state_of(pid: Pid) -> String {
    let read = |file: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        text.trim().replace('\n', " ")
    };
    let status = read("status");
    let state = status.split("State:").nth(1).and_then(|rest| rest.split_whitespace().next());
    format!("state {}, in {}, system call {}", state.unwrap_or("?"), read("wchan"), read("syscall"))
}
