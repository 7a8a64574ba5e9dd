//! Forked processes as the members of a node.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe};
use quo::node::{CreatedSegment, Node, NodeOptions, SegmentName};

/// Longer than any test takes: for barriers that must complete.
pub const LONG: Duration = Duration::from_secs(40);

/// Ends this process with the result of `act`, or as a failed test if it panics. Never returns into
/// the caller's copy of the program.
pub fn exit_with(act: impl FnOnce() -> i32) -> ! {
    let code = catch_unwind(AssertUnwindSafe(act)).unwrap_or(101);
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(code) }
}

/// Runs `act` in a forked child.
pub fn spawn(act: impl FnOnce()) -> Pid {
    // SAFETY: the processes of these tests have one thread each when they fork.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => exit_with(|| {
            act();
            0
        }),
        ForkResult::Parent { child } => child,
    }
}

/// Waits for a child that must succeed.
pub fn join(pid: Pid) {
    let status = waitpid(pid, None).unwrap();
    assert_eq!(status, WaitStatus::Exited(pid, 0));
}

/// Waits for a child that must have been killed.
pub fn reap(pid: Pid) {
    let status = waitpid(pid, None).unwrap();
    assert!(matches!(status, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "{status:?}");
}

/// Kills the calling process as the kernel would.
pub fn die() -> ! {
    kill(Pid::this(), Signal::SIGKILL).unwrap();
    unreachable!("the signal is not to be survived")
}

/// Returns numbers that all processes forked later share.
pub fn ledger(numbers: usize) -> &'static [AtomicU64] {
    let bytes = std::num::NonZeroUsize::new(numbers * 8).unwrap();
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a fresh mapping, zeroed, aligned, never unmapped, and used as atomics only.
    unsafe {
        let memory = mmap_anonymous(None, bytes, protection, MapFlags::MAP_SHARED).unwrap();
        std::slice::from_raw_parts(memory.cast().as_ptr(), numbers)
    }
}

/// Returns true if a process sleeps in the kernel.
pub fn is_asleep(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
}

/// Waits until `done`, which happens soon unless the test has failed.
pub fn until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < end, "waited for something that did not happen");
        // Sleeps: between two checks of a state without notification.
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A segment and its location.
pub struct Home {
    pub name: SegmentName,
    pub directory: PathBuf,
    pub segment: CreatedSegment,
}

impl Home {
    pub fn new(directory: &Path, members: usize) -> Self {
        Self::with(NodeOptions {
            directory: directory.to_owned(),
            capacity: members + 2,
            exchange_bytes: 256,
            ..NodeOptions::new(members)
        })
    }

    pub fn with(options: NodeOptions<'_>) -> Self {
        let name = SegmentName::random().unwrap();
        let segment = Node::create(&name, &options).unwrap();
        Self { name, directory: options.directory, segment }
    }

    pub fn attach(&self, member: usize) -> Node {
        Node::attach(&self.name, &self.directory, member).unwrap()
    }

    /// Forks a process per member, which attaches, waits until all are attached and the name is
    /// removed, and calls `act`; returns when the name is removed.
    pub fn crew(&self, members: usize, act: impl Fn(Node)) -> Vec<Pid> {
        let (attached, attach) = pipe().unwrap();
        let (gone, go) = pipe().unwrap();
        let pids = (0..members)
            .map(|member| {
                spawn(|| {
                    let node = self.attach(member);
                    nix::unistd::write(&attach, &[1]).unwrap();
                    await_bytes(&gone, 1, 1);
                    act(node);
                })
            })
            .collect();
        drop(attach);
        await_bytes(&attached, members, 64);
        self.segment.unlink().unwrap();
        nix::unistd::write(&go, &vec![1; members]).unwrap();
        pids
    }
}

fn await_bytes(from: &OwnedFd, count: usize, at_once: usize) {
    let mut got = 0;
    while got < count {
        let more = nix::unistd::read(from, &mut vec![0; at_once]).unwrap();
        assert_ne!(more, 0, "a member ended before it attached");
        got += more;
    }
}

/// Forks `members` members in a new segment and waits for all to succeed.
pub fn on_each(directory: &Path, members: usize, act: impl Fn(Node)) {
    let home = Home::new(directory, members);
    home.crew(members, act).into_iter().for_each(join);
}

/// A small generator of repeatable pseudo-random numbers.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// Keeps the CPU busy for up to this many turns.
    pub fn dawdle(&mut self, turns: u64) {
        for _ in 0..self.roll(turns) {
            std::hint::spin_loop();
        }
    }
}

/// Adds one and returns the old value.
pub fn count(number: &AtomicU64) -> u64 {
    number.fetch_add(1, Ordering::SeqCst)
}

pub fn read(number: &AtomicU64) -> u64 {
    number.load(Ordering::SeqCst)
}
