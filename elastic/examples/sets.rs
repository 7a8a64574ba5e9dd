//! Checks process sets on every rank: `mpirun -n 4 sets`. Three ranks begin; one joins, then two
//! leave. Prints the duration of a query on rank 0. With `mpirun -n 3 sets started` two processes
//! are spawned and join, one after another, and two ranks leave; two join again, and all spawned
//! ranks leave.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::{Duration, Instant};

use elastic::change::{ChangeKind, Step};
use elastic::sets::{AttributeChange, Operation, Outcome, SetName, SetOp, SetsErrorKind};
use elastic::{ProcessSets, Status, World, WorldOptions};
use quo::group::{Group as _, WaitLimits};
use quo_mpi::Mpi;
use quo_mpi::communicator::ThreadLevel;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let are_started = std::env::args().nth(1).is_some_and(|word| word == "started");
    let mut options = WorldOptions::new().name("test").initial_ranks(3).process_sets();
    let mut level = ThreadLevel::Single;
    let mut sizes = &[4, 2][..];
    if are_started {
        options = options
            .max_ranks(5)
            .processes_per_spawn(1)
            .allow_oversubscribe(true)
            .start_timeout(Duration::from_secs(20));
        (level, sizes) = (ThreadLevel::Multiple, &[4, 5, 3, 5, 4, 3]);
    }
    let mpi = Mpi::initialize_for(level)?;
    let mut world = World::create(options)?;
    let mut sets = world.process_sets()?;
    if world.status() == Status::New && world.rank() == 0 {
        println!("with {}", world.back_end());
    }
    if world.status() == Status::Parked {
        ensure(sets.member()?.is_none(), "a parked process is a member")?;
        ensure(matches!(sets.names(), Err(elastic::Error::Refused { .. })), "it is shown sets")?;
    } else if world.status() == Status::New {
        algebra(&world, &mut sets)?;
        values(&world, &mut sets)?;
        if world.rank() == 0 {
            queries(&mut sets)?;
        }
    }
    // A joiner continues with the present ranks.
    while let Some(&size) = sizes.get(world.epoch() as usize) {
        // The first parked process that is called in joins only after the others have once waited
        // for it in vain.
        let is_held = !are_started && world.epoch() == 0;
        if world.status() == Status::Parked && is_held {
            hold_back(&mut sets)?;
        }
        if world.status() == Status::Ended || world.status() == Status::Parked && !world.wait()? {
            break;
        }
        resize(&mut world, &mut sets, size, is_held)?;
        if world.communicator().is_some() {
            values(&world, &mut sets)?;
        }
    }
    if world.communicator().is_some() {
        println!("rank {} is content", world.rank());
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

fn ensure(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn name(text: &str) -> Result<SetName> {
    Ok(SetName::new(text)?)
}

fn barrier(world: &World) -> Result<()> {
    let current = world.communicator().ok_or("no rank")?;
    Ok(current.barrier(&WaitLimits::for_at_most(PATIENCE))?)
}

/// Returns the kind of a refusal.
fn refused<T>(outcome: std::result::Result<T, elastic::Error>) -> Option<SetsErrorKind> {
    match outcome {
        Err(elastic::Error::Sets { kind, .. }) => Some(kind),
        _ => None,
    }
}

fn algebra(world: &World, sets: &mut ProcessSets) -> Result<()> {
    let (all, own) = (name("mpi://app/test")?, SetName::caller());
    let info = sets.info(&all)?;
    ensure((info.size, info.version, info.epoch) == (3, 0, 0), "the application's set")?;
    ensure(info.included && info.active && !info.dynamic, "its attributes")?;
    ensure(sets.info(&SetName::world())? == info, "an alias that means something else")?;
    ensure(sets.info(&own)?.size == 1, "oneself is one")?;
    ensure(sets.names()?[..2] == [SetName::world(), own.clone()], "the first names")?;
    let as_it_is = AttributeChange::none();
    barrier(world)?;

    // All at the same time: the sets have one order, and every rank sees all of them in the end.
    let mine = all.below(&format!("rank-{}", world.rank()))?;
    let made = sets.operate(SetOp::Intersection, &all, &own, Some(&mine), &as_it_is)?;
    ensure(made == mine, "another name than wanted")?;
    barrier(world)?;
    for rank in 0..3 {
        ensure(sets.info(&all.below(&format!("rank-{rank}"))?)?.size == 1, "a rank's set")?;
    }
    let (first, second) = (all.below("rank-0")?, all.below("rank-1")?);
    if world.rank() == 0 {
        let pair = all.below("pair")?;
        let hint = AttributeChange::none().active(false).hint("mpi_ps_sched_opt", "2");
        sets.operate(SetOp::Union, &first, &second, Some(&pair), &hint)?;
        ensure(sets.members(&pair)?.len() == 2, "a union")?;
        let less = sets.operate(SetOp::Difference, &pair, &second, Some(&pair), &as_it_is)?;
        let info = sets.info(&less)?;
        ensure((info.size, info.version, info.active) == (1, 1, false), "a version of it")?;
        ensure(info.hints["mpi_ps_sched_opt"] == "2", "a hint")?;
        let parts = Operation::Split {
            caller: elastic::member::MemberId(99),
            set: all.clone(),
            sizes: vec![1, 2],
            below: all.below("parts")?,
        };
        ensure(matches!(sets.apply(parts)?, Outcome::Sets(parts) if parts.len() == 2), "a split")?;
    }
    barrier(world)?;
    let before = sets.names()?;
    let mut operate = |first: &SetName, second: &SetName, target: Option<&SetName>| {
        refused(sets.operate(SetOp::Intersection, first, second, target, &as_it_is))
    };
    let unknown = name("mpi://app/test/none")?;
    ensure(operate(&first, &second, None) == Some(SetsErrorKind::EmptyResult), "empty")?;
    ensure(operate(&first, &unknown, None) == Some(SetsErrorKind::Unknown), "unknown")?;
    ensure(operate(&all, &own, Some(&first)) == Some(SetsErrorKind::NameTaken), "a taken name")?;
    for foreign in ["mpi://app/other/set", "mpi://rte/test/set", "mpi://SELF"] {
        let refused = operate(&all, &own, Some(&name(foreign)?));
        ensure(refused == Some(SetsErrorKind::NotTheApplications), "a foreign name")?;
    }
    let define = Operation::Prune { set: all.clone() };
    ensure(refused(sets.apply(define)) == Some(SetsErrorKind::InUse), "the world is not pruned")?;
    ensure(sets.names()? == before, "what was refused has changed something")?;
    barrier(world)
}

fn values(world: &World, sets: &mut ProcessSets) -> Result<()> {
    let (all, epoch) = (SetName::world(), world.epoch());
    ensure(sets.lookup(&all, "never", Duration::from_millis(20))?.is_none(), "out of nowhere")?;
    // Each rank waits for the value of another, which may or may not be there yet.
    let (me, next) = (world.rank(), (world.rank() + 1) % world.size());
    if me > 0 {
        sets.publish(&all, &format!("{epoch}-from-{me}"), &[me as u8])?;
    }
    let value =
        sets.lookup(&all, &format!("{epoch}-from-{next}"), PATIENCE)?.ok_or("no value came")?;
    ensure(value.value == [next as u8] && value.version == 1, "another value")?;
    if me == 0 {
        sets.publish(&all, &format!("{epoch}-from-0"), &[0])?;
    }
    barrier(world)
}

fn queries(sets: &mut ProcessSets) -> Result<()> {
    let all = SetName::world();
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        ensure(sets.query(&all)?.kind == ChangeKind::Null, "a resize that nobody asked for")?;
        best = best.min(start.elapsed());
    }
    println!("a query takes {:.1} us", best.as_secs_f64() * 1e6);
    Ok(())
}

/// Waits until the others have waited for this process in vain: once it is about to join it can
/// read the values that they publish.
fn hold_back(sets: &mut ProcessSets) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while sets.member()?.is_none() {
        ensure(Instant::now() < deadline, "nobody calls")?;
        std::thread::yield_now();
    }
    sets.lookup(&SetName::world(), "waited", PATIENCE)?.ok_or("nobody has waited")?;
    Ok(())
}

/// Resizes by queries and acceptances, as a program that only uses sets does.
fn resize(world: &mut World, sets: &mut ProcessSets, size: usize, is_held: bool) -> Result<()> {
    let main = SetName::application("test")?;
    if world.status() == Status::Joining {
        let view = sets.query(&SetName::caller())?;
        ensure(view.kind == ChangeKind::Add && view.included, "a joiner is not told so")?;
        ensure(sets.info(&SetName::caller())?.dynamic, "a joiner is not dynamic")?;
        let set = world.confirm(sets, PATIENCE)?;
        ensure(set == main, "another set")?;
        world.begin()?.commit(Ok(()))?;
    } else {
        if world.rank() == 0 {
            world.request(size)?;
        }
        let grows = size > world.size();
        let op = if grows { SetOp::Union } else { SetOp::Difference };
        let leaves = !grows && world.rank() >= size;
        let mut delta = main.clone();
        if world.rank() == 0 {
            // The resize is announced within a moment.
            let view = loop {
                let view = sets.query(&main)?;
                if view.kind != ChangeKind::Null {
                    break view;
                }
                std::thread::yield_now();
            };
            ensure(!view.included && view.status == Some(Step::Announced), "what rank 0 sees")?;
            delta = view.delta.ok_or("a resize without a delta")?;
            sets.operate(op, &main, &delta, Some(&main), &AttributeChange::none())?;
        }
        barrier(world)?;
        let own = sets.query(&SetName::caller())?;
        ensure(own.included == leaves, "who leaves is told so, and nobody else")?;
        if is_held {
            let wait = Duration::from_millis(20);
            let accepted = world.accept_and_wait(sets, &delta, &main, wait, |_| Ok(()))?;
            ensure(accepted == elastic::Accepted::Pending, "the end of waiting in vain")?;
            if world.rank() == 0 {
                let view = sets.query(&main)?;
                ensure(view.status == Some(Step::Pending), "given up with the waiting")?;
                sets.publish(&SetName::world(), "waited", &[])?;
            }
        }
        let accepted = world.accept_and_wait(sets, &delta, &main, PATIENCE, |_| Ok(()))?;
        let right = if leaves {
            elastic::Accepted::Left
        } else {
            elastic::Accepted::Switched { set: main.clone() }
        };
        ensure(accepted == right, "the end of it")?;
        if leaves {
            return Ok(());
        }
    }
    barrier(world)?;
    let info = sets.info(&main)?;
    ensure((info.size, world.size()) == (size as u64, size), "the new size")?;
    ensure(sets.query(&main)?.kind == ChangeKind::Null, "it has ended")?;
    let epoch = world.epoch();
    ensure((info.version, info.epoch) == (epoch, epoch), "version and epoch")?;
    let group = world.communicator().ok_or("no rank")?.group()?;
    let mine = sets.member()?.ok_or("no member")?.0.to_ne_bytes();
    let all = group.allgather(&mine, &WaitLimits::for_at_most(PATIENCE))?;
    let members: Vec<u8> = sets.members(&main)?.iter().flat_map(|id| id.0.to_ne_bytes()).collect();
    ensure(all == members, "the set has not the ranks of the world, in their order")?;
    // Waits before rank 0 changes the set again.
    barrier(world)
}
