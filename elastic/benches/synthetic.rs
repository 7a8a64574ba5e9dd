//! The synthetic benchmark of D. Huber's thesis (TU München 2021, section 8): fixed work, no data, and the world
//! changes every few iterations. `mpirun -n 8 synthetic mode=step start=2 limit=8 delta=2 every=10 blocking=0
//! iterations=60 elements=2000000`.
//!
//! Mode `inc` changes by `delta` until `limit` is reached; `step` moves away from `start` by
//! `delta`, then by twice `delta` and so on, and back each time. Prints the phases of each change
//! in milliseconds, as in the thesis's tables: as measured on rank 0, and from the event log.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, Instant};

use elastic::change::{ChangeKind, Event, Step};
use elastic::sets::{AttributeChange, SetName, SetOp};
use elastic::{Accepted, ProcessSets, Status, World, WorldOptions};
use quo::group::{Group as _, WaitLimits};
use quo_mpi::Mpi;
use serde::{Deserialize, Serialize};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(120);

struct Parameters {
    start: usize,
    sizes: Vec<usize>,
    every: u64,
    is_blocking: bool,
    iterations: u64,
    elements: u64,
}

impl Parameters {
    fn read() -> Result<Parameters> {
        let mut words = HashMap::new();
        for word in std::env::args().skip(1) {
            let (key, value) = word.split_once('=').ok_or("parameters are KEY=VALUE")?;
            words.insert(key.to_owned(), value.to_owned());
        }
        let number = |key: &str, usual: u64| -> Result<u64> {
            Ok(words.get(key).map_or(Ok(usual), |word| word.parse())?)
        };
        let (start, limit) = (number("start", 2)? as i64, number("limit", 4)? as i64);
        let delta = number("delta", 1)?.max(1) as i64 * (limit - start).signum();
        let mut sizes = Vec::new();
        let within = |size: i64| size >= 1 && (size - limit) * delta.signum() <= 0;
        let is_inc = words.get("mode").is_none_or(|mode| mode == "inc");
        for turn in 1.. {
            if delta == 0 || !within(start + turn * delta) {
                break;
            }
            sizes.push((start + turn * delta) as usize);
            if !is_inc {
                sizes.push(start as usize);
            }
        }
        Ok(Parameters {
            start: start as usize,
            sizes,
            every: number("every", 10)?.max(1),
            is_blocking: number("blocking", 0)? == 1,
            iterations: number("iterations", 50)?,
            elements: number("elements", 1_000_000)?,
        })
    }
}

/// Rank 0's measurements of a change.
struct Change {
    asked: Instant,
    queried: Duration,
    set_operation: Duration,
    is_growth: bool,
    delta: SetName,
    /// Durations of the acceptances, the last one with the switch.
    accepts: Vec<Duration>,
}

/// State that all ranks need in order to act in the same way.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct State {
    iteration: u64,
    hits: u64,
}

fn main() -> Result<()> {
    let parameters = Parameters::read()?;
    let mpi = Mpi::initialize()?;
    let options =
        WorldOptions::new().name("synthetic").initial_ranks(parameters.start).process_sets();
    let mut world = World::create(options)?;
    let mut sets = world.process_sets()?;
    let main_set = SetName::application("synthetic")?;
    let mut state = State::default();
    let mut sizes = parameters.sizes.iter();
    let mut change = None;
    if world.communicator().is_some_and(|all| all.rank() == 0) {
        println!(
            "change ranks  request->queried  set-op  accepts  first  pending(mean)  final | total  until-announced  until-ready  until-agreed  communicators"
        );
    }
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::Joining {
            world.confirm(&mut sets, PATIENCE)?;
            let window = world.begin()?;
            window.broadcast(&mut state)?;
            window.commit(Ok(()))?;
        }
        if state.iteration == parameters.iterations {
            break;
        }
        let hits = work(&world, parameters.elements)?;
        if state.iteration > 0 && hits != state.hits {
            return Err(
                format!("{hits} hits on {} ranks, {} before", world.size(), state.hits).into()
            );
        }
        (state.hits, state.iteration) = (hits, state.iteration + 1);
        let due = state.iteration % parameters.every == 0 && change.is_none();
        if world.rank() == 0
            && let (true, Some(&size)) = (due, sizes.clone().next())
        {
            let asked = Instant::now();
            world.request(size)?;
            sizes.next();
            change = Some(Change {
                asked,
                queried: Duration::ZERO,
                set_operation: Duration::ZERO,
                is_growth: size > world.size(),
                delta: main_set.clone(),
                accepts: Vec::new(),
            });
        }
        adapt(&mut world, &mut sets, &main_set, &parameters, state, &mut change)?;
    }
    if world.communicator().is_some() && world.rank() == 0 {
        println!("{} hits in each of {} iterations", state.hits, state.iteration);
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

/// Queries for a change once, and accepts once if there is one.
fn adapt(
    world: &mut World,
    sets: &mut ProcessSets,
    main_set: &SetName,
    parameters: &Parameters,
    state: State,
    change: &mut Option<Change>,
) -> Result<()> {
    if let Some(change) = change.as_mut().filter(|change| change.accepts.is_empty()) {
        let view = sets.query(main_set)?;
        if let (true, Some(delta)) = (view.kind != ChangeKind::Null, view.delta) {
            change.queried = change.asked.elapsed();
            let start = Instant::now();
            let op = if change.is_growth { SetOp::Union } else { SetOp::Difference };
            sets.operate(op, main_set, &delta, Some(main_set), &AttributeChange::none())?;
            change.set_operation = start.elapsed();
            change.delta = delta;
        }
    }
    let seen = change.as_ref().map_or_else(|| main_set.clone(), |change| change.delta.clone());
    let current = world.communicator().ok_or("no rank")?;
    let limits = WaitLimits::for_at_most(PATIENCE);
    if current.broadcast(vec![u8::from(seen != *main_set)], 0, &limits)? != [1] {
        return Ok(());
    }
    let start = Instant::now();
    let tell = |window: &elastic::Window<'_>| {
        let mut same = state;
        window.broadcast(&mut same).map_err(|error| error.to_string())?;
        Ok(())
    };
    let accepted = if parameters.is_blocking {
        world.accept_and_wait(sets, &seen, main_set, PATIENCE, tell)?
    } else {
        world.accept(sets, &seen, main_set, tell)?
    };
    if let Some(noted) = change {
        noted.accepts.push(start.elapsed());
    }
    if accepted != Accepted::Pending
        && let Some(done) = change.take()
    {
        report(world, &done)?;
    }
    if accepted == Accepted::Aborted { Err("a change was aborted".into()) } else { Ok(()) }
}

fn report(world: &World, change: &Change) -> Result<()> {
    let events = world.requests().ok_or("rank 0 only")?.events(0);
    let end = events.iter().rfind(|event| event.is_end()).ok_or("no end")?;
    let between = |from: Step, to: Step| between(end, from, to);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (last, before) = change.accepts.split_last().ok_or("nothing was accepted")?;
    let first = before.first().map_or(0.0, |time| ms(*time));
    let pending = before.iter().skip(1).map(|time| ms(*time));
    let mean = pending.clone().fold(0.0, |sum, time| sum + time) / pending.count().max(1) as f64;
    println!(
        "{} {:3}  {:.3}  {:.3}  {}  {first:.3}  {mean:.3}  {:.3} | {:.3}  {:.3}  {:.3}  {:.3}  {:.3}",
        if change.is_growth { "ADD" } else { "SUB" },
        world.size(),
        ms(change.queried),
        ms(change.set_operation),
        change.accepts.len(),
        ms(*last),
        between(Step::Requested, Step::Finalized),
        between(Step::Requested, Step::Announced),
        between(Step::Requested, Step::Ready),
        between(Step::Requested, Step::Agreed),
        between(Step::Agreed, Step::Finalized),
    );
    Ok(())
}

/// Milliseconds between two steps; 0 if one is missing, as for joiners in a shrink.
fn between(end: &Event, from: Step, to: Step) -> f64 {
    let times = (end.steps.get(&from), end.steps.get(&to));
    let (Some(from), Some(to)) = times else { return 0.0 };
    to.saturating_sub(*from) as f64 / 1e3
}

/// Counts the points of a thrown stone's path that lie in a box: blocks of equal size, the rest for
/// the last rank.
fn work(world: &World, elements: u64) -> Result<u64> {
    let group = world.communicator().ok_or("no rank")?.group()?;
    let limits = WaitLimits::for_at_most(PATIENCE);
    group.barrier()?;
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let block = elements / size;
    let end = if rank + 1 == size { elements } else { (rank + 1) * block };
    let hits = (rank * block..end).filter(|&element| {
        let t = element as f64 * (10.0 / elements as f64);
        let (x, y) = (3.5 * t + 0.1, 40.0 * t - 4.905 * t * t + 1.0);
        (5.0..20.0).contains(&x) && (10.0..75.0).contains(&y)
    });
    let all = group.allgather(&(hits.count() as u64).to_ne_bytes(), &limits)?;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    Ok(all.chunks_exact(8).map(number).sum())
}
