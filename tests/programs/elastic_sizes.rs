//! Works through a list of sizes: `mpirun -n 4 sizes 1 2 4 2 1`. For each size it prints how long
//! the change took; `3!` is aborted by its highest rank. At the end rank 0 prints the resources of
//! the process, and those after the first two round trips, or after the number of sizes in
//! `ELASTIC_HELD`.
//!
//! With `ELASTIC_MOST=8` processes are started beyond the launched ranks, up to eight, each growth
//! as one spawn; `ELASTIC_UNIT=1` starts each process separately. With Open MPI 4, put
//! `PMIX_MCA_gds=hash` before `mpirun` then.
//! With `ELASTIC_EXACT=1` no more than the launcher has slots for.
//! With `ELASTIC_HOST=NAME` processes are started on that host.
//! With `ELASTIC_STARTER=0` rank 0 starts them itself on every MPI.
//! With `ELASTIC_SAY=NAME` each started process prints the value of this variable.
//! With `ELASTIC_KEEP=1` every rank creates a communicator in each world, and keeps it to the end
//! of the rank.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use elastic::change::Event;
use elastic::{Status, World, WorldOptions};
use quo::Context;
use quo::group::{Group as _, WaitLimits};
use quo_mpi::Mpi;
use quo_mpi::communicator::ThreadLevel;

/// One word of the list.
struct Turn {
    size: usize,
    is_given_up: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let turns = std::env::args().skip(1).map(|word| {
        let number = word.trim_end_matches('!');
        number.parse().map(|size| Turn { size, is_given_up: number != word })
    });
    let mut turns = turns.collect::<Result<Vec<_>, _>>()?.into_iter();
    let start = turns.next().ok_or("which sizes?")?.size;
    let turns: Vec<Turn> = turns.collect();

    let mpi = Mpi::initialize_for(ThreadLevel::Multiple)?;
    let mut options = WorldOptions::new().initial_ranks(start);
    options = options.allow_oversubscribe(number("ELASTIC_EXACT")?.is_none());
    if let Some(most) = number("ELASTIC_MOST")? {
        options = options.max_ranks(most).start_timeout(Duration::from_secs(20));
    }
    if let Some(unit) = number("ELASTIC_UNIT")? {
        options = options.processes_per_spawn(unit);
    }
    if let Ok(host) = std::env::var("ELASTIC_HOST") {
        options = options.spawn_info("host", host);
    }
    options = options.spawn_helper(number("ELASTIC_STARTER")? != Some(0));
    let mut world = World::create(options)?;
    if world.status() == Status::New && world.rank() == 0 {
        println!("with {}", world.back_end());
    }
    if let (true, Ok(name)) = (world.was_started(), std::env::var("ELASTIC_SAY")) {
        println!("{name} is {:?}", std::env::var(&name).unwrap_or_default());
    }
    let mut context = None;
    let (mut turn, mut asked) = (0, None);
    let mut ended = Vec::new();
    let keeps = number("ELASTIC_KEEP")?.is_some();
    let mut kept = Vec::new();
    let mut since = Instant::now();
    let (mut held, held_at) = (None, number("ELASTIC_HELD")?.unwrap_or(4));
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::New && context.is_none() {
            context = Some(world.context()?);
        }
        if world.status() == Status::Ended {
            break;
        }
        if world.status() == Status::Joining || world.probe()? {
            ended.extend(change(&mut world, &turns, &mut turn, since)?);
            if matches!(world.status(), Status::Parked | Status::Ended) {
                let is_out = context.as_ref().is_none_or(Context::is_retired);
                if is_out {
                    continue;
                } else {
                    return Err("a context of who left is not retired".into());
                }
            }
            let context = match &mut context {
                Some(context) => context,
                none => none.insert(world.context()?),
            };
            check(&world, context)?;
            if let Some(current) = world.communicator().filter(|_| keeps) {
                kept.push(current.subset(&(0..current.size()).collect::<Vec<_>>(), 1)?);
            }
            turn += 1;
            asked = None;
            if turn == held_at {
                held = Some(holdings(&world)?);
            }
        }
        if world.rank() == 0 {
            ask(&world, &turns, &mut turn, &mut asked, &mut since);
        }
        // One step of the program.
        turn = step(&world, turn)?;
        if turn == turns.len() {
            break;
        }
    }
    if let (Some(before), Some(_)) = (held, world.communicator()) {
        let now = holdings(&world)?;
        println!("rank {} held {before} and holds {now}", world.rank());
    }
    if let Some(context) = context {
        context.free()?;
    }
    if !ended.is_empty() && world.rank() == 0 && world.communicator().is_some() {
        wait_for_ends(&ended)?;
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

fn number(variable: &str) -> Result<Option<usize>, Box<dyn Error>> {
    Ok(std::env::var(variable).ok().map(|text| text.parse()).transpose()?)
}

/// Requests the next size on rank 0, and skips a size that is refused.
fn ask(
    world: &World,
    turns: &[Turn],
    turn: &mut usize,
    asked: &mut Option<u64>,
    since: &mut Instant,
) {
    let Some(requests) = world.requests() else { return };
    let of_it = |event: &Event| event.is_end() && event.request.map(|id| id.0) == *asked;
    if let Some(end) = asked.and_then(|_| requests.events(0).into_iter().find(of_it)) {
        // No rank has noticed the failed request.
        println!("failed: {}", end.cause.map_or(String::new(), |cause| cause.to_string()));
        (*asked, *turn) = (None, *turn + 1);
    }
    while asked.is_none() && *turn < turns.len() {
        *since = Instant::now();
        match world.request(turns[*turn].size) {
            Ok(number) => *asked = Some(number),
            Err(error) => {
                println!("{error}");
                *turn += 1;
            }
        }
    }
}

/// Gives all ranks the turn of rank 0.
fn step(world: &World, turn: usize) -> Result<usize, Box<dyn Error>> {
    let current = world.communicator().ok_or("no rank")?;
    let limits = WaitLimits::for_at_most(Duration::from_secs(30));
    let told = current.broadcast((turn as u64).to_ne_bytes().to_vec(), 0, &limits)?;
    Ok(told.try_into().map_or(0, u64::from_ne_bytes) as usize)
}

/// Returns true if a process has not ended. A zombie has ended: some launchers reap processes only
/// at the end of the job (Hydra does).
fn is_alive(process: u64) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat"));
    // After the name, which may contain any text.
    state.is_ok_and(|text| !text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

/// Waits until started processes that left are gone, while the others are still running.
fn wait_for_ends(ended: &[u64]) -> Result<(), Box<dyn Error>> {
    let limit = Instant::now() + Duration::from_secs(30);
    for process in ended {
        while is_alive(*process) {
            if Instant::now() > limit {
                return Err(format!("process {process} has left and not ended").into());
            }
            // Sleeps: the end of a process is not announced.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    println!("{} processes have ended", ended.len());
    Ok(())
}

/// Changes the size; returns the processes that end with the change.
fn change(
    world: &mut World,
    turns: &[Turn],
    turn: &mut usize,
    since: Instant,
) -> Result<Vec<u64>, Box<dyn Error>> {
    let was_started = world.was_started();
    let window = world.begin()?;
    window.broadcast(turn)?;
    let ends = window.leaves() && was_started;
    let mine = if ends { u64::from(std::process::id()) } else { 0 };
    let limits = WaitLimits::for_at_most(Duration::from_secs(30));
    let all = window.all_ranks().as_group()?.allgather(&mine.to_ne_bytes(), &limits)?;
    let ended =
        all.chunks_exact(8).filter_map(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)));
    let ended: Vec<u64> = ended.filter(|&process| process != 0).collect();
    let counts = window.counts();
    let all_ranks = window.all_ranks();
    let refuses = turns[*turn].is_given_up && all_ranks.rank() + 1 == all_ranks.size();
    let vote = if refuses { Err("it does not fit".to_owned()) } else { Ok(()) };
    let committed = window.commit(vote);
    if world.rank() == 0 && world.communicator().is_some() {
        let us = since.elapsed().as_secs_f64() * 1e6;
        let (stay, leave, join) = counts;
        println!(
            "epoch {} size {}: {stay} stay, {leave} leave, {join} join, {us:.0} us",
            world.epoch(),
            world.size()
        );
    }
    match committed {
        Err(elastic::Error::Aborted { rank, reason, .. }) => {
            if world.rank() == 0 && world.communicator().is_some() {
                println!("given up because of rank {rank}: {reason}");
            }
            Ok(Vec::new())
        }
        result => result.map(|()| ended).map_err(Into::into),
    }
}

/// Checks that all ranks are there in order, also in the context that followed the change.
fn check(world: &World, context: &Context) -> Result<(), Box<dyn Error>> {
    if (context.rank(), context.size()) != (world.rank(), world.size()) {
        return Err("the context has other ranks than the world".into());
    }
    context.barrier()?;
    let group = world.communicator().ok_or("no rank")?.group()?;
    let mine = (group.rank() as u64).to_ne_bytes();
    let all = group.allgather(&mine, &WaitLimits::for_at_most(Duration::from_secs(30)))?;
    let right = (0..world.size() as u64).flat_map(u64::to_ne_bytes).collect::<Vec<_>>();
    if all == right { Ok(()) } else { Err("ranks are missing".into()) }
}

/// Returns open files, mappings, threads, resident KiB, and the number of the world's communicator.
fn holdings(world: &World) -> Result<String, Box<dyn Error>> {
    let count = |folder: &str| fs::read_dir(folder).map(Iterator::count);
    let (files, threads) = (count("/proc/self/fd")?, count("/proc/self/task")?);
    let mappings = fs::read_to_string("/proc/self/maps")?.lines().count();
    let status = fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let resident = resident.trim().trim_end_matches(" kB");
    let number = world.communicator().map_or(0, |communicator| communicator.number());
    Ok(format!(
        "{files} files {mappings} mappings {threads} threads {resident} KiB communicator {number}"
    ))
}
