//! Moves a world from host to host: `mpirun -n 1 over_hosts 8 "grow 2 on host1" "grow 2 on host2"
//! "leave host1"`.
//!
//! The first word is the maximum number of ranks, the others are steps as in a plan; before them,
//! `host NAME SLOTS` sets how many processes a host takes, `listen FOLDER` opens a control socket
//! there for the job `over_hosts`, and `hold FILE` waits while this file exists on the first host.
//! Rank 0 requests one step after the other, and skips a step that is refused; `told` waits for a
//! request from outside. After each step every rank checks its context, its binding, and its part
//! of an array; rank 0 prints the hosts of the ranks.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use elastic::change::{Event, Request};
use elastic::data::Pattern;
use elastic::manager::ControlSocket;
use elastic::plan::Plan;
use elastic::{Status, World, WorldOptions};
use quo::Context;
use quo::affinity::Target;
use quo::explain::Reason;
use quo::group::{Group as _, WaitLimits};
use quo::topology::ObjectType;
use quo_mpi::Mpi;
use quo_mpi::communicator::ThreadLevel;

type Failed = Box<dyn Error>;

const ARRAY: &str = "field";
const ELEMENTS: usize = 100_003;
/// One word of the list.
enum Step {
    Ask(Request),
    /// A request from outside.
    Told,
    /// Waits while this file exists.
    Hold(PathBuf),
}

/// Bytes of a host's name.
const NAME: usize = 64;

fn main() -> Result<(), Failed> {
    let mut words = std::env::args().skip(1);
    let most = words.next().ok_or("how many ranks?")?.parse()?;
    let mut options = WorldOptions::new()
        .max_ranks(most)
        .allow_oversubscribe(false)
        .start_timeout(Duration::from_secs(30));
    let mut steps = Vec::new();
    for word in words {
        match word.split(' ').collect::<Vec<_>>()[..] {
            ["host", name, slots] => options = options.host(name, slots.parse()?),
            ["listen", folder] => {
                options = options.name("over_hosts").manager(ControlSocket::in_folder(folder));
            }
            ["told"] => steps.push(Step::Told),
            ["hold", file] => steps.push(Step::Hold(file.into())),
            _ => {
                let plan: Plan = format!("at 0: {word}").parse()?;
                steps.extend(plan.steps().iter().map(|step| Step::Ask(step.request.clone())));
            }
        }
    }
    let mpi = Mpi::initialize_for(ThreadLevel::Multiple)?;
    let mut world = World::create(options)?;
    let mut context = None;
    let (mut step, mut asked, mut since) = (0, None, Instant::now());
    if world.status() == Status::New {
        if world.rank() == 0 {
            println!("with {}", world.back_end());
        }
        context = Some(world.context()?);
        world.data_mut().register::<f64>(ARRAY, Pattern::block(ELEMENTS))?;
        fill(&mut world, 0)?;
    }
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::Ended {
            break;
        }
        if world.status() == Status::Joining || world.probe()? {
            let window = world.begin()?;
            window.broadcast(&mut step)?;
            let (stay, leave, join) = window.counts();
            window.commit(Ok(()))?;
            if matches!(world.status(), Status::Parked | Status::Ended) {
                continue;
            }
            let context = match &mut context {
                Some(context) => context,
                none => none.insert(world.context()?),
            };
            let there = check(&mut world, context, step)?;
            if world.rank() == 0 {
                let (epoch, size) = (world.epoch(), world.size());
                let ms = since.elapsed().as_millis();
                println!(
                    "epoch {epoch} size {size}: {stay} stay, {leave} leave, {join} join; {there}; {ms} ms"
                );
            }
            step += 1;
            asked = None;
        }
        if world.rank() == 0 {
            ask(&world, &steps, &mut step, &mut asked, &mut since);
        }
        // One step of the program.
        let told = (step as u64).to_ne_bytes().to_vec();
        let told = world.communicator().ok_or("no rank")?.broadcast(told, 0, &limits())?;
        step = told.try_into().map_or(0, u64::from_ne_bytes) as usize;
        if step == steps.len() {
            break;
        }
    }
    if let Some(context) = context {
        context.free()?;
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

fn limits() -> WaitLimits<'static> {
    WaitLimits::for_at_most(Duration::from_secs(60))
}

/// Requests the next step on rank 0, and skips a step that is refused.
fn ask(
    world: &World,
    steps: &[Step],
    step: &mut usize,
    asked: &mut Option<u64>,
    since: &mut Instant,
) {
    let Some(requests) = world.requests() else { return };
    let of_it = |event: &Event| event.is_end() && event.request.map(|id| id.0) == *asked;
    if let Some(end) = asked.and_then(|_| requests.events(0).into_iter().find(of_it)) {
        let ms = since.elapsed().as_millis();
        let cause = end.cause.map_or(String::new(), |cause| cause.to_string());
        println!("failed: {cause}; still {} ranks; {ms} ms", world.size());
        (*asked, *step) = (None, *step + 1);
    }
    while asked.is_none() && *step < steps.len() {
        *since = Instant::now();
        let request = match &steps[*step] {
            Step::Ask(request) => request.clone(),
            Step::Told => return,
            Step::Hold(file) if file.exists() => {
                println!("holds");
                while file.exists() {
                    // Sleeps: the file is removed from outside; the other ranks wait for this one.
                    std::thread::sleep(Duration::from_millis(2));
                }
                continue;
            }
            Step::Hold(_) => {
                *step += 1;
                continue;
            }
        };
        match requests.ask(request) {
            Ok(accepted) => *asked = Some(accepted.request.0),
            Err((_, cause)) => {
                println!("refused: {cause}; still {} ranks", world.size());
                *step += 1;
            }
        }
    }
}

/// Returns the ranks of each host, after the checks of all ranks.
fn check(world: &mut World, context: &Context, step: usize) -> Result<String, Failed> {
    let group = world.communicator().ok_or("no rank")?.group()?;
    let mut own = [0; NAME];
    let name = rustix::system::uname();
    let name = name.nodename().to_bytes();
    own[..name.len().min(NAME)].copy_from_slice(&name[..name.len().min(NAME)]);
    let gathered = group.allgather(&own, &limits())?;
    let mut hosts: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (rank, name) in gathered.chunks_exact(NAME).enumerate() {
        hosts.entry(name).or_default().push(rank);
    }
    let here = &hosts[&own[..]];
    let there: Option<Vec<usize>> =
        (0..context.node_size()).map(|rank| context.rank_of(rank)).collect();
    if context.size() != world.size() || context.node_count() != hosts.len() {
        return Err("the context has other ranks or nodes than there are".into());
    }
    if there.as_ref() != Some(here) {
        return Err(format!("the context has {there:?} on the node, where {here:?} are").into());
    }
    context.barrier()?;
    bind(context)?;
    array(world, step)?;
    context.barrier()?;
    let tell = |(name, ranks): (&&[u8], &Vec<usize>)| {
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
        format!("{} has {ranks:?}", String::from_utf8_lossy(&name[..end]))
    };
    Ok(hosts.iter().map(tell).collect::<Vec<_>>().join(", "))
}

/// Checks that every rank of the node is bound to the core that it has pushed.
fn bind(context: &Context) -> Result<(), Failed> {
    let topology = context.topology();
    let cores = topology.count(ObjectType::Pu);
    let core = |rank: usize| Target::Object(ObjectType::Pu, rank % cores);
    let cpus = context.push(&core(context.node_rank()))?;
    context.barrier()?;
    let told = context.explain()?;
    if told.node != (context.node_index(), context.node_count())
        || told.ranks.len() != context.node_size()
    {
        return Err(format!("explain has another node:\n{told}").into());
    }
    for binding in &told.ranks {
        let right = topology.object(ObjectType::Pu, binding.node_rank % cores)?;
        // On a single processor the launcher already binds a rank to it.
        let why = matches!(binding.reason, Reason::Pushed | Reason::Launched(_));
        if binding.cpus.as_ref() != Some(&right.cpuset) || !why {
            return Err(format!("explain tells of another binding:\n{told}").into());
        }
    }
    let mine = told.ranks.iter().find(|binding| binding.node_rank == context.node_rank());
    if mine.and_then(|mine| mine.cpus.as_ref()) != Some(&cpus) {
        return Err(format!("this rank is not where it went:\n{told}").into());
    }
    context.barrier()?;
    context.pop()?;
    Ok(())
}

/// Returns the correct value of an element at a step.
fn right(index: usize, step: usize) -> f64 {
    index as f64 * 0.5 + step as f64
}

fn fill(world: &mut World, step: usize) -> Result<(), Failed> {
    let rank = world.rank();
    let array = world.data().array::<f64>(ARRAY)?;
    let lies = world.data().distribution(ARRAY)?.clone();
    for (offset, value) in world.data_mut().local_mut(array)?.iter_mut().enumerate() {
        if let Some((index, _)) = lies.origin(rank, offset) {
            *value = right(index, step);
        }
    }
    Ok(())
}

/// Checks that the rank has all its data from before the step, and sets the data of the next one.
fn array(world: &mut World, step: usize) -> Result<(), Failed> {
    let array = world.data().array::<f64>(ARRAY)?;
    let lies = world.data().distribution(ARRAY)?;
    let mut count = 0_u64;
    let mut age = None;
    for (offset, value) in world.data().local(array)?.iter().enumerate() {
        let Some((index, _)) = lies.origin(world.rank(), offset) else { continue };
        count += 1;
        // The last completed step; later steps were refused or failed.
        let found = value - right(index, 0);
        if *age.get_or_insert(found) != found || found > step as f64 {
            return Err(format!("element {index} is {value} at step {step}").into());
        }
    }
    let group = world.communicator().ok_or("no rank")?.group()?;
    let all = group.allgather(&count.to_ne_bytes(), &limits())?;
    let all =
        all.chunks_exact(8).filter_map(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)));
    let all: u64 = all.sum();
    if all != ELEMENTS as u64 {
        return Err(format!("{all} elements are there of {ELEMENTS}").into());
    }
    fill(world, step + 1)
}
