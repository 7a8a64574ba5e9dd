//! The elastic world as the same program in Rust, C and Fortran, with the same output: options,
//! requests, events, a move during other work, process sets, and resizes by them:
//! `mpirun -n 4 languages`. Two of the four processes are parked at first. In C:
//! `bindings-c/tests/elastic/languages.c`; in Fortran: `tests/programs/elastic_languages.F90`.
#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use elastic::change::{
    Cause, CauseKind, ChangeKind, Event, Happening, Request, RequestId, RequestKind, Step,
};
use elastic::data::Pattern;
use elastic::manager::slurm::Slurm;
use elastic::manager::{NoticeFolder, Requests, ResourceManager};
use elastic::member::MemberId;
use elastic::place::{Allowed, AllowedSizes, Bounds, Placement, SizeLimits};
use elastic::sets::{AttributeChange, Operation, Outcome, SetName, SetOp, SetsErrorKind};
use elastic::{Acceptance, ProcessSets, Progress, Status, World, WorldOptions};
use quo::group::{Group as _, WaitLimits};
use quo_mpi::Mpi;
use quo_mpi::communicator::ThreadLevel;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(60);
const ELEMENTS: usize = 1000;

/// Counts the events.
#[derive(Debug)]
struct Counts(Arc<AtomicU64>);

impl ResourceManager for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn begins(&mut self, _: Requests) -> std::result::Result<(), String> {
        Ok(())
    }

    fn on_event(&mut self, _: &Event) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Options of the world.
fn options(seen: &Arc<AtomicU64>) -> Result<WorldOptions> {
    let mut options = WorldOptions::new()
        .initial_ranks(2)
        .name("parity")
        .process_sets()
        .allowed_sizes(Bounds::new(2, 4, Allowed::OneOf(vec![2, 4]))?)
        .host("n1", 2)
        .host("n2", 2)
        .connect_timeout(Duration::from_secs(1))
        .term_notice(Duration::from_secs(600))
        .placement(Placement::LeastLoaded)
        .manager(Counts(Arc::clone(seen)));
    if let Some(slurm) = Slurm::of_this_job() {
        options = options.manager(slurm);
    }
    Ok(options)
}

fn main() -> Result<()> {
    let seen = Arc::new(AtomicU64::new(0));
    let mpi = Mpi::initialize_for(ThreadLevel::Single)?;
    let refused = World::create(options(&seen)?.manager(NoticeFolder::at("/")));
    let reason = refused.err().map_or(String::new(), |error| error.to_string());
    ensure(reason.contains("notices: the folder /"), &reason)?;
    let mut world = World::create(options(&seen)?)?;
    let mut sets = world.process_sets()?;
    if world.status() == Status::New {
        if world.rank() == 0 {
            println!("world: {} of {} ranks", world.size(), world.capacity());
        }
        add_vector(&mut world)?;
        if world.rank() == 0 {
            algebra(&mut sets)?;
            ask(&world)?;
        }
        barrier(&world)?;
    }
    loop {
        match (world.status(), world.epoch()) {
            (Status::Parked, _) => {
                if !world.wait()? {
                    break;
                }
                if world.epoch() == 2 {
                    let set = world.confirm(&mut sets, PATIENCE)?;
                    ensure(set == SetName::application("parity")?, "another set")?;
                }
                let is_first = world.epoch() == 0;
                change(&mut world, is_first, false)?;
            }
            (_, 1) => resize(&mut world, &mut sets, RequestKind::Shrink(2))?,
            (_, 2) => resize(&mut world, &mut sets, RequestKind::Grow(2))?,
            (_, epoch) => {
                if world.probe()? {
                    change(&mut world, true, true)?;
                } else if epoch == 3 {
                    break;
                }
            }
        }
    }
    if world.status() != Status::Parked && world.rank() == 0 {
        events(&world, &seen)?;
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

fn ensure(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn barrier(world: &World) -> Result<()> {
    let current = world.communicator().ok_or("no rank")?;
    Ok(current.barrier(&WaitLimits::for_at_most(PATIENCE))?)
}

fn add_vector(world: &mut World) -> Result<()> {
    let rank = world.rank();
    let array = world.data_mut().register::<f64>("vector", Pattern::block(ELEMENTS))?;
    let distribution = world.data().distribution("vector")?.clone();
    for (offset, element) in world.data_mut().local_mut(array)?.iter_mut().enumerate() {
        let (_, column) = distribution.origin(rank, offset).ok_or("no such element")?;
        *element = (column + 1) as f64;
    }
    Ok(())
}

fn own_sum(data: &elastic::data::Registry) -> Result<f64> {
    Ok(data.local(data.array::<f64>("vector")?)?.iter().sum())
}

fn say_world(world: &World) -> Result<()> {
    let group = world.communicator().ok_or("no rank")?.group()?;
    let mine = own_sum(world.data())?.to_ne_bytes();
    let all = group.allgather(&mine, &WaitLimits::for_at_most(PATIENCE))?;
    let (sums, _) = all.as_chunks::<8>();
    let sum: f64 = sums.iter().map(|sum| f64::from_ne_bytes(*sum)).sum();
    if world.rank() == 0 {
        println!("epoch {}: {} ranks, sum {sum:.0}", world.epoch(), world.size());
    }
    Ok(())
}

fn say_set(sets: &mut ProcessSets, set: &SetName) -> Result<()> {
    let (info, members) = (sets.info(set)?, sets.members(set)?);
    let [active, dynamic, included] = [info.active, info.dynamic, info.included].map(u8::from);
    let ids: String = members.iter().map(|member| format!(" {}", member.0)).collect();
    println!(
        "{set}: version {}, epoch {}, active {active}, dynamic {dynamic}, included {included}, members {}:{ids}",
        info.version, info.epoch, info.size
    );
    Ok(())
}

fn joined(names: &[SetName]) -> String {
    names.iter().map(SetName::as_str).collect::<Vec<_>>().join(" ")
}

/// Returns the kind of a refusal by the sets.
fn refused<T>(outcome: std::result::Result<T, elastic::Error>) -> Option<SetsErrorKind> {
    match outcome {
        Err(elastic::Error::Sets { kind, .. }) => Some(kind),
        _ => None,
    }
}

/// Checks the algebra of sets, hints, and values published at them. On rank 0.
fn algebra(sets: &mut ProcessSets) -> Result<()> {
    let (main, own) = (SetName::application("parity")?, SetName::caller());
    let (others, parts) = (main.below("others")?, main.below("parts")?);
    let member = sets.member()?.ok_or("no member")?;
    println!("member {} sees {}", member.0, joined(&sets.names()?));
    say_set(sets, &main)?;
    let hints = AttributeChange::none()
        .active(false)
        .hint("mpi_ps_sched_opt", "2")
        .hint("mpi_ps_sched_note", "a b");
    let made = sets.operate(SetOp::Difference, &main, &own, Some(&others), &hints)?;
    println!("made {made}");
    say_set(sets, &others)?;
    println!("hint {}", sets.info(&others)?.hints["mpi_ps_sched_note"]);
    let mut attributes = AttributeChange::none().active(true);
    attributes.hints.insert("mpi_ps_sched_note".to_owned(), None);
    sets.apply(Operation::Update { target: others.clone(), attributes: attributes.clone() })?;
    ensure(!sets.info(&others)?.hints.contains_key("mpi_ps_sched_note"), "a hint that was taken")?;
    let as_it_is = AttributeChange::none();
    sets.operate(SetOp::Union, &others, &own, Some(&others), &as_it_is)?;
    say_set(sets, &others)?;
    let nobody = sets.operate(SetOp::Difference, &others, &main, None, &as_it_is);
    ensure(refused(nobody) == Some(SetsErrorKind::EmptyResult), "a set of nobody")?;
    let mut split = |sizes: &[u64]| {
        let (sizes, caller) = (sizes.to_vec(), MemberId(0));
        sets.apply(Operation::Split { caller, set: main.clone(), sizes, below: parts.clone() })
    };
    let Outcome::Sets(names) = split(&[1, 1])? else { return Err("no parts".into()) };
    println!("parts {}", joined(&names));
    ensure(refused(split(&[1])) == Some(SetsErrorKind::BadParts), "parts that are not all")?;
    let pruned = sets.apply(Operation::Prune { set: main.clone() });
    ensure(refused(pruned) == Some(SetsErrorKind::InUse), "a set in use was pruned")?;
    let unknown = Operation::Update { target: main.below("none")?, attributes };
    ensure(refused(sets.apply(unknown)) == Some(SetsErrorKind::Unknown), "no such set")?;
    sets.publish(&main, "greeting", b"hello")?;
    let found = sets.lookup(&main, "greeting", Duration::ZERO)?.ok_or("nothing is there")?;
    let text = String::from_utf8_lossy(&found.value);
    println!("found {text}, version {} of {}", found.version, found.publisher.0);
    sets.apply(Operation::Withdraw { set: main.clone(), key: "greeting".to_owned() })?;
    let nothing = sets.lookup(&main, "greeting", Duration::from_millis(10))?;
    ensure(nothing.is_none(), "what was withdrawn is there")
}

/// Makes requests while no rank probes. On rank 0.
fn ask(world: &World) -> Result<()> {
    let requests = world.requests().ok_or("not rank 0")?;
    let Err((number, cause)) = requests.ask(Request::new(RequestKind::Size(3), "application"))
    else {
        return Err("a size that is not allowed".into());
    };
    println!("request {} failed: {cause}", number.0);
    requests.note(Cause::new(CauseKind::Manager, "a word"));
    let mut request = Request::new(RequestKind::Grow(2), "program");
    request.grace = Some(Duration::from_secs(600));
    let asked = |request: Request| -> Result<RequestId> {
        let accepted = requests.ask(request).map_err(|(_, cause)| cause.to_string())?;
        let after = accepted.after.map_or(0, |other| other.0);
        println!("request {} comes after {after}", accepted.request.0);
        Ok(accepted.request)
    };
    let number = asked(request.clone())?;
    while requests.step_of(number) < Some(Step::Announced) {
        std::thread::yield_now();
    }
    request.kind = RequestKind::Shrink(2);
    let number = asked(request)?;
    requests.cancel(number)?;
    let mut ended = requests.events(0).into_iter();
    let ended = ended.rfind(|event| event.request == Some(number) && event.is_end());
    let cause = ended.and_then(|event| event.cause).ok_or("no cause")?;
    println!("request {} failed: {cause}", number.0);
    ensure(requests.cancel(number).is_err(), "cancelled twice")?;
    ensure(requests.cancel(RequestId(99)).is_err(), "no such request")
}

/// Runs the window of a resize; in the first one the arrays move during other work.
fn change(world: &mut World, is_first: bool, is_old: bool) -> Result<()> {
    let mut turn = if is_old { 7 } else { 0 };
    let mut window = world.begin()?;
    let (stay, leave, join) = window.counts();
    window.broadcast(&mut turn)?;
    ensure(turn == 7, "what rank 0 told")?;
    ensure(window.node() == 0, "another node")?;
    if is_first {
        let (mut moving, mut before) = (window.begin_move()?, 0.0);
        loop {
            if is_old {
                before += own_sum(moving.old())?;
            }
            if moving.test()? {
                break;
            }
        }
        ensure(before > 0.0 || !is_old, "the arrays as they were")?;
        moving.finish()?;
    }
    window.commit(Ok(()))?;
    if world.status() != Status::Staying {
        return Ok(());
    }
    if world.rank() == 0 {
        println!("window: {stay} stay, {leave} leave, {join} join");
    }
    say_world(world)
}

/// Resizes by process sets, on the ranks; returns when it is done.
fn resize(world: &mut World, sets: &mut ProcessSets, wish: RequestKind) -> Result<()> {
    let main = SetName::application("parity")?;
    let mut delta = main.clone();
    if world.rank() == 0 {
        let requests = world.requests().ok_or("not rank 0")?;
        let asked = requests.ask(Request::new(wish, "application"));
        asked.map_err(|(_, cause)| cause.to_string())?;
        let view = loop {
            let view = sets.query(&main)?;
            if view.kind != ChangeKind::Null {
                break view;
            }
        };
        let kind = match view.kind {
            ChangeKind::Null => 0,
            ChangeKind::Add => 1,
            ChangeKind::Sub => 2,
            ChangeKind::Replace => 3,
        };
        let number = view.id.ok_or("no request")?.0;
        let step = kind_of(Happening::Step(view.status.ok_or("no step")?));
        let included = u8::from(view.included);
        println!("request {number} is of kind {kind} at step {step}, included {included}");
        delta = view.delta.ok_or("no delta")?;
        let op = if kind == 1 { SetOp::Union } else { SetOp::Difference };
        sets.operate(op, &main, &delta, Some(&main), &AttributeChange::none())?;
    }
    barrier(world)?;
    let acceptance = world.probe_accepting_for(sets, &delta, &main, PATIENCE)?;
    let Acceptance::Enters { set } = acceptance else { return Err("nobody enters".into()) };
    if world.rank() == 0 {
        println!("entered with {set}");
    }
    change(world, false, true)
}

/// Returns the number of a kind of event in C and Fortran.
fn kind_of(what: Happening) -> usize {
    match what {
        Happening::Started => 0,
        Happening::Notice => 1,
        Happening::Overdue => 2,
        Happening::Step(step) => 3 + Step::ALL.iter().position(|&other| other == step).unwrap_or(0),
    }
}

/// Checks the steps of each request, and the notice. On rank 0, at the end.
fn events(world: &World, seen: &AtomicU64) -> Result<()> {
    let requests = world.requests().ok_or("not rank 0")?;
    let events = requests.events(0);
    for event in &events {
        if let (Happening::Notice, Some(cause)) = (event.what, &event.cause) {
            ensure(cause.kind == CauseKind::Manager, "another cause")?;
            println!("notice 13: {cause}");
        }
    }
    for number in 1..=5 {
        let own = events.iter().filter(|event| event.request == Some(RequestId(number)));
        let kinds: BTreeSet<usize> = own.map(|event| kind_of(event.what)).collect();
        let kinds: String = kinds.iter().map(|kind| format!(" {kind}")).collect();
        println!("request {number}:{kinds}");
    }
    // Another thread delivers the events.
    let deadline = Instant::now() + PATIENCE;
    while seen.load(Ordering::Relaxed) < events.len() as u64 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let are_all = seen.load(Ordering::Relaxed) == events.len() as u64;
    println!("all events were brought: {}", u8::from(are_all));
    let mut progress = Progress::new(20, -0.5);
    println!("refused: {}", u8::from(world.report(&progress).is_err()));
    (progress.iteration_seconds, progress.mpi_ratio) = (1.5, Some(0.25));
    world.report(&progress)?;
    let status = requests.status();
    let report = status.report.ok_or("no report")?;
    let is_measured = (report.iteration, report.iteration_seconds, report.mpi_ratio)
        == (20, 1.5, Some(0.25))
        && report.redistribution_seconds.is_some()
        && report.remaining_seconds.is_none();
    println!("measured: {}", u8::from(is_measured));
    let limits = SizeLimits { min: 2, max: 4, allowed: AllowedSizes::OneOf(vec![2, 4]) };
    println!("limits: {}", u8::from(status.limits == Some(limits)));
    // SIGTERM is a notice.
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)?;
    println!("reported: {}", u8::from(status.job == "parity" && status.size == 4));
    Ok(())
}
