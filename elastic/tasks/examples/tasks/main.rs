//! Recursion as tasks over ranks: `mpirun -n 2 tasks bench` compares times with a sequential run
//! and rayon alone; `tasks check` compares all policies with sequential results;
//! `tasks resizes SEED` computes while ranks join and leave; `tasks fail` has a task that fails;
//! `tasks nodes TURNS STEPS` compares one rank with all ranks of a world on regular work, and
//! prints what each rank did.
#![allow(clippy::print_stdout)]

mod problems;

use std::time::{Duration, Instant};

use elastic::change::{Request, RequestKind};
use elastic::manager::Requests;
use elastic::{Status, World, WorldOptions};
use elastic_tasks::{self as tasks, Options, Policy, Release, Task, TaskError};
use problems::{Fibonacci, Mandelbrot, Primes, Product, Queens, Sort, Walks};
use quo::group::WaitLimits;
use quo_mpi::Mpi;
use quo_mpi::communicator::Communicator;
use serde::{Deserialize, Serialize};

type Outcome = Result<(), TaskError>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let _mpi = Mpi::initialize()?;
    match words[..] {
        ["bench"] => bench(5),
        ["check"] => check(),
        ["resizes", seed, count] => resizes(seed.parse()?, count.parse()?),
        ["fail"] => fail(),
        ["nodes", turns, steps] => nodes(turns.parse()?, steps.parse()?),
        _ => Err("tasks bench | check | resizes SEED COUNT | fail | nodes TURNS STEPS".into()),
    }
}

fn limits() -> WaitLimits<'static> {
    WaitLimits::for_at_most(Duration::from_secs(600))
}

/// Median time of a number of turns in milliseconds.
fn median(turns: usize, mut turn: impl FnMut() -> Outcome) -> Result<f64, TaskError> {
    let mut times = Vec::new();
    for _ in 0..turns {
        let begin = Instant::now();
        turn()?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[turns / 2])
}

/// Measures one problem: sequential, with rayon alone, on one rank, and on all ranks with a thread
/// each; and the tasks that rank 0 sent in the last turn.
fn measure<T: Task + Clone>(
    name: &str,
    turns: usize,
    (ranks, alone): (&Communicator, &Communicator),
    root: impl Fn() -> T,
    options: &Options,
) -> Outcome
where
    T::Output: PartialEq,
{
    let is_first = ranks.rank() == 0;
    let (options, width) = (options.clone().threads(1), ranks.size());
    let mut row = format!("{name:12}");
    if is_first {
        let right = root().sequential()?;
        let is_right = |output: Option<T::Output>| match output {
            Some(output) if output == right => Ok(()),
            _ => Err(TaskError::from("a wrong result")),
        };
        let sequential = median(turns, || is_right(Some(root().sequential()?)))?;
        let threaded = options.clone().threads(width);
        let rayon = median(turns, || is_right(tasks::run_alone(root(), &threaded)?.output))?;
        let one = median(turns, || is_right(tasks::run(alone, Some(root()), &options)?.output))?;
        row += &format!("{sequential:12.1}{rayon:12.1}{one:12.1}");
        ranks.barrier(&limits())?;
        let mut sent = 0;
        let all = median(turns, || {
            let done = tasks::run(ranks, Some(root()), &options)?;
            sent = done.counts.sent;
            is_right(done.output)
        })?;
        println!("{row}{all:12.1}{:12.2}{sent:12}", one / all);
    } else {
        ranks.barrier(&limits())?;
        for _ in 0..turns {
            tasks::run(ranks, None::<T>, &options)?;
        }
    }
    Ok(())
}

fn bench(turns: usize) -> Outcome {
    let (ranks, alone) = (Communicator::world()?, Communicator::alone()?);
    if ranks.rank() == 0 {
        println!(
            "milliseconds, medians of {turns} turns; {} ranks with a thread each, rayon with as many threads",
            ranks.size()
        );
        println!(
            "{:12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
            "", "sequential", "rayon", "one rank", "all ranks", "speed-up", "sent"
        );
    }
    let on = (&ranks, &alone);
    let options = Options::new();
    // Irregular work is split for more workers than exist.
    let fine = options.clone().workers(32);
    measure("fibonacci", turns, on, || Fibonacci(38), &fine.clone().threshold(20))?;
    measure("merge sort", turns, on, || Sort::of(4 << 20), &options.clone().threshold(1 << 16))?;
    measure("product", turns, on, || Product::of(768), &options.clone().threshold(64 * 64))?;
    let queens = || Queens { n: 11, placed: Vec::new() };
    measure("queens", turns, on, queens, &fine.clone().threshold(8))?;
    let picture = || Mandelbrot { rows: (0, 800), side: 800 };
    measure("mandelbrot", turns, on, picture, &fine.clone().threshold(10))?;
    measure("primes", turns, on, || Primes(0, 1_000_000), &fine.threshold(10_000))?;
    ranks.free()?;
    Ok(alone.free()?)
}

/// Compares a problem with its sequential result, under all policies.
fn compare<T: Task>(ranks: &Communicator, root: impl Fn() -> T, threshold: u64) -> Outcome
where
    T::Output: PartialEq,
{
    for policy in [Policy::Fork, Policy::Lazy, Policy::Adaptive, Policy::AdaptiveInPlace] {
        let options = Options::new().policy(policy).threshold(threshold).threads(2);
        let done = tasks::run(ranks, (ranks.rank() == 0).then(&root), &options)?;
        if ranks.rank() == 0 && done.output != Some(root().sequential()?) {
            return Err(format!("{policy:?}: a wrong result").into());
        }
    }
    Ok(())
}

fn check() -> Outcome {
    let ranks = Communicator::world()?;
    compare(&ranks, || Fibonacci(22), 10)?;
    compare(&ranks, || Sort::of(50_000), 500)?;
    compare(&ranks, || Product::of(67), 100)?;
    compare(&ranks, || Queens { n: 7, placed: Vec::new() }, 4)?;
    compare(&ranks, || Mandelbrot { rows: (0, 60), side: 60 }, 3)?;
    compare(&ranks, || Primes(0, 20_000), 300)?;
    if ranks.rank() == 0 {
        println!("right on {} ranks", ranks.size());
    }
    Ok(ranks.free()?)
}

/// Numbers from the first up to, but not including, the second: each takes a moment.
#[derive(Serialize, Deserialize)]
struct Numbers(u64, u64);

impl Task for Numbers {
    type Output = Vec<u64>;

    fn size(&self) -> u64 {
        self.1 - self.0
    }

    fn split(&self) -> Result<Vec<Self>, TaskError> {
        let middle = self.0.midpoint(self.1);
        Ok(vec![Self(self.0, middle), Self(middle, self.1)])
    }

    fn sequential(&self) -> Result<Vec<u64>, TaskError> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(200) {
            std::hint::spin_loop();
        }
        Ok((self.0..self.1).collect())
    }

    fn merge(&self, results: Vec<Vec<u64>>) -> Result<Vec<u64>, TaskError> {
        Ok(results.concat())
    }
}

/// Requests random numbers of ranks, one after the other, from a thread of rank 0.
fn ask(requests: &Requests, seed: u64, count: usize, most: u64) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..count {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let size = 1 + (random >> 20) % most;
        let kind = RequestKind::Size(size as u32);
        if let Ok(accepted) = requests.ask(Request::new(kind, "example")) {
            let is_open = || requests.step_of(accepted.request).is_some_and(|step| !step.is_end());
            while is_open() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

fn resizes(seed: u64, count: usize) -> Outcome {
    const LEAVES: u64 = 1000;
    let mut world = World::create(WorldOptions::new().initial_ranks(1))?;
    let most = world.capacity() as u64;
    let asker = world
        .requests()
        .map(|requests| std::thread::spawn(move || ask(&requests, seed, count, most)));
    let release = if seed.is_multiple_of(2) { Release::Finish } else { Release::Interrupt };
    let options = Options::new().threads(1).workers(64).release(release);
    let options = options.probe_every(Duration::from_millis(1));
    let (mut runs, mut returned) = (0, 0);
    loop {
        let root = (world.rank() == 0).then_some(Numbers(0, LEAVES));
        let done = tasks::run_in_world(&mut world, root, &options)?;
        returned += done.counts.returned;
        if world.status() == Status::Ended {
            break;
        }
        let ranks = world.communicator().ok_or("no rank")?;
        if ranks.rank() == 0 {
            runs += 1;
            if !done.output.is_some_and(|numbers| numbers.iter().copied().eq(0..LEAVES)) {
                return Err(format!("run {runs}: numbers were lost or doubled").into());
            }
        }
        let is_last = asker.as_ref().is_some_and(|asker| asker.is_finished());
        if ranks.broadcast(vec![u8::from(is_last)], 0, &limits())? == [1] {
            break;
        }
    }
    if asker.is_some() {
        let epoch = world.epoch();
        println!("each number once in each run, with {epoch} resizes");
        eprintln_counts(runs, returned);
    }
    Ok(world.end()?)
}

#[allow(clippy::print_stderr)]
fn eprintln_counts(runs: u64, returned: u64) {
    eprintln!("{runs} runs; rank 0 handed back {returned} tasks");
}

/// A range with one number that fails.
#[derive(Serialize, Deserialize)]
struct Fails(u64, u64);

impl Task for Fails {
    type Output = ();

    fn size(&self) -> u64 {
        self.1 - self.0
    }

    fn split(&self) -> Result<Vec<Self>, TaskError> {
        let middle = self.0.midpoint(self.1);
        Ok(vec![Self(self.0, middle), Self(middle, self.1)])
    }

    fn sequential(&self) -> Result<(), TaskError> {
        if self.0 == 700 { Err("700 is not a number that I like".into()) } else { Ok(()) }
    }

    fn merge(&self, _: Vec<()>) -> Result<(), TaskError> {
        Ok(())
    }
}

/// Prints the error of a failing run, the same on all ranks, and that of a run without a root.
fn fail() -> Outcome {
    let ranks = Communicator::world()?;
    let root = (ranks.rank() == 0).then_some(Fails(0, 1000));
    let options = Options::new().policy(Policy::Fork).threads(1);
    for root in [root, None] {
        match tasks::run(&ranks, root, &options) {
            Err(error) => println!("{error}"),
            Ok(_) => return Err("a run without an error".into()),
        }
    }
    Ok(ranks.free()?)
}

/// Compares rank 0 alone with all ranks of a world, turn by turn, since other load on the machine
/// varies.
fn nodes(turns: usize, steps: u64) -> Outcome {
    const WALKS: u64 = 256;
    let mut world = World::create(WorldOptions::new())?;
    let alone = Communicator::alone()?;
    let is_first = world.rank() == 0;
    let options = Options::new().threads(1).workers(64).threshold(WALKS / 64);
    let root = || is_first.then_some(Walks { first: 0, end: WALKS, steps });
    let right = root().map(|root| root.sequential()).transpose()?;
    let (mut ones, mut all, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts = tasks::Counts::default();
    for _ in 0..turns {
        let begin = Instant::now();
        if is_first && tasks::run(&alone, root(), &options)?.output != right {
            return Err("one rank: a wrong result".into());
        }
        let one = begin.elapsed().as_secs_f64();
        world.communicator().ok_or("no rank")?.barrier(&limits())?;
        let begin = Instant::now();
        let done = tasks::run_in_world(&mut world, root(), &options)?;
        if done.output != right {
            return Err("all ranks: a wrong result".into());
        }
        let taken = begin.elapsed().as_secs_f64();
        ones.push(one);
        all.push(taken);
        ratios.push(one / taken);
        counts.leaves += done.counts.leaves;
        counts.sent += done.counts.sent;
        counts.sent_away += done.counts.sent_away;
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    let tasks::Counts { leaves, sent, sent_away, .. } = counts;
    println!(
        "rank {} on {}: {leaves} leaves, {sent} tasks sent, {sent_away} of them to other nodes",
        world.rank(),
        host.trim()
    );
    if is_first {
        let middle = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
        };
        let (one, taken, ratio) = (middle(&mut ones), middle(&mut all), middle(&mut ratios));
        println!(
            "one rank {:.1} ms, {} ranks {:.1} ms, speed-up {ratio:.2}",
            one * 1e3,
            world.size(),
            taken * 1e3
        );
    }
    alone.free()?;
    Ok(world.end()?)
}
