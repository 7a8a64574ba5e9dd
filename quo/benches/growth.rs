//! Cost of a context's calls among many processes of one node: `growth RANKS`, with the local group
//! on a simulated machine with as many cores. Prints one JSON object: microseconds per call as rank
//! 0 sees it (`wall`), and CPU time per call and rank (`cpu`). Without a number, 4 ranks.
#![allow(unsafe_code, clippy::print_stdout, clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use quo::context::CreateOptions;
use quo::group::local::LocalSpace;
use quo::phase::PhaseSpec;
use quo::{Context, ObjectType};
use rustix::time::{ClockId, clock_gettime};

/// Calls of each kind; as many as take about a second in total.
const CALLS: u32 = 20_000;
/// Contexts that are created.
const CREATES: usize = 5;

/// Measured operations.
const NAMES: [&str; 6] = ["create", "distribute", "barrier", "phase", "query", "lend"];

/// Sums over the ranks, in nanoseconds per call, in memory that all ranks share.
#[repr(C)]
struct Sums {
    wall: [AtomicU64; NAMES.len()],
    cpu: [AtomicU64; NAMES.len()],
    segment: AtomicU64,
}

impl Sums {
    fn new() -> &'static Self {
        let bytes = std::num::NonZeroUsize::new(size_of::<Self>()).unwrap();
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh zeroed mapping, never unmapped, of atomics only.
        unsafe {
            mmap_anonymous(None, bytes, protection, MapFlags::MAP_SHARED).unwrap().cast().as_ref()
        }
    }

    /// Calls `act` a number of times and adds what a call took to the sums of an operation.
    fn add(&self, rank: usize, operation: usize, calls: u32, mut act: impl FnMut()) {
        let (start, cpu) = (Instant::now(), cpu_time());
        (0..calls).for_each(|_| act());
        let cpu = (cpu_time() - cpu) / u64::from(calls);
        self.cpu[operation].fetch_add(cpu, Ordering::Relaxed);
        if rank == 0 {
            let wall = start.elapsed().as_nanos() / u128::from(calls);
            self.wall[operation].store(u64::try_from(wall).unwrap(), Ordering::Relaxed);
        }
    }
}

fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Bytes of the segments that this process has mapped.
fn segment_bytes() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bytes = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split_once(' ')?.0;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(number(end)? - number(start)?)
    };
    maps.lines().filter(|line| line.contains("/quo-")).filter_map(bytes).sum()
}

fn act(rank: usize, ranks: usize, spaces: &[LocalSpace], sums: &Sums) {
    let directory = std::path::Path::new("/dev/shm");
    let calls = (CALLS / u32::try_from(ranks).unwrap()).max(20);
    let mut contexts = Vec::new();
    let mut groups = spaces.iter().map(|space| space.join(rank).unwrap()).collect::<Vec<_>>();
    let before = segment_bytes();
    let options = CreateOptions::new().with_directory(directory);
    let mut create = || {
        let group = groups.pop().unwrap();
        contexts.push(Context::create_with(group, options.clone()).unwrap());
    };
    create();
    let segment = segment_bytes().saturating_sub(before);
    sums.add(rank, 0, u32::try_from(CREATES).unwrap(), create);
    let context = &contexts[0];
    sums.segment.fetch_max(segment, Ordering::Relaxed);
    context.barrier().unwrap();
    sums.add(rank, 1, calls, || {
        context.auto_distrib(ObjectType::Core, 1).unwrap();
    });
    sums.add(rank, 2, calls, || context.barrier().unwrap());
    let phase = context.phase(PhaseSpec::over(ObjectType::Core)).unwrap();
    phase.run(|_| ()).unwrap();
    sums.add(rank, 3, calls, || drop(phase.run(|_| ()).unwrap()));
    if rank == 0 {
        let all = ObjectType::Machine;
        sums.add(rank, 4, calls, || drop(context.ranks_on(all, 0).unwrap()));
        sums.add(rank, 5, calls, || context.lend_while(|| ()).unwrap());
    }
    context.barrier().unwrap();
}

fn main() {
    let ranks = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(4);
    // SAFETY: this program has one thread.
    unsafe { std::env::set_var("QUO_TOPOLOGY", format!("core:{ranks} pu:1")) };
    let directory = std::path::Path::new("/dev/shm");
    let sums = Sums::new();
    let spaces: Vec<LocalSpace> =
        (0..=CREATES).map(|_| LocalSpace::new(ranks, directory).unwrap()).collect();
    let child = |rank| {
        // SAFETY: this program has one thread.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                act(rank, ranks, &spaces, sums);
                // SAFETY: ends the child without the parent's cleaning up.
                unsafe { libc::_exit(0) }
            }
        }
    };
    let children: Vec<_> = (0..ranks).map(child).collect();
    for child in children {
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
    }
    let each = |values: &[AtomicU64], per: &dyn Fn(usize) -> usize| {
        let value = |at: usize| values[at].load(Ordering::Relaxed) as f64 / per(at) as f64 / 1e3;
        let pairs = NAMES.iter().enumerate();
        pairs
            .map(|(at, name)| format!("\"{name}\": {:.3}", value(at)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    // Queries and loans are made by rank 0 alone.
    let callers = |operation: usize| if operation >= 4 { 1 } else { ranks };
    println!(
        "{{\"ranks\": {ranks}, \"wall\": {{{}}}, \"cpu\": {{{}}}, \"segment_per_rank\": {}}}",
        each(&sums.wall, &|_| 1),
        each(&sums.cpu, &callers),
        sums.segment.load(Ordering::Relaxed) / ranks as u64
    );
}
