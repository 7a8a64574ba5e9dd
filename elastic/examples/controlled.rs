//! Runs iterations until it is stopped, and changes its size meanwhile on request:
//! `mpirun -n 4 controlled NAME START FOLDER [PLAN]`.
//!
//! The folder controls the program: it ends when there is a file `stop`, and rank R pauses while
//! there is a file `hold-R`. Events are appended to `events` there, and the control socket is in
//! `sockets`. With `ELASTIC_USUAL_SOCKET` the socket is in the usual folder of jobs that name none.
//! With `ELASTIC_UNITS` it ends after this many units of work: in an iteration, of
//! `ELASTIC_ITERATION_MS`, each rank does one. With `ELASTIC_BYTES` it reports that all ranks
//! together use this much memory. With `ELASTIC_MOST` it spawns processes in addition to the
//! launched ones; in a Slurm job, nodes are added and released with them.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use elastic::change::CauseKind;
use elastic::manager::slurm::{self, Slurm};
use elastic::manager::{ControlSocket, NoticeFolder, ScriptedPlan};
use elastic::{Progress, Status, World, WorldOptions};
use quo::group::WaitLimits;
use quo_mpi::Mpi;
use quo_mpi::communicator::ThreadLevel;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, start, folder, plan @ ..] = &words[..] else {
        return Err("controlled NAME START FOLDER [PLAN]".into());
    };
    let folder = PathBuf::from(folder);
    let most = std::env::var("ELASTIC_MOST").ok();
    // A separate thread spawns processes.
    let level = if most.is_some() { ThreadLevel::Multiple } else { ThreadLevel::Single };
    let mut options = WorldOptions::new()
        .name(name)
        .initial_ranks(start.parse()?)
        .log(folder.join("events"))
        .manager(match std::env::var_os("ELASTIC_USUAL_SOCKET") {
            Some(_) => ControlSocket::new(),
            None => ControlSocket::in_folder(folder.join("sockets")),
        });
    if let [plan] = plan {
        options = options.manager(ScriptedPlan::new(std::fs::read_to_string(plan)?.parse()?));
    }
    let notices = std::env::var_os("ELASTIC_NOTICES").map(|_| folder.join("notices"));
    if let Some(notices) = &notices {
        options = options.manager(NoticeFolder::at(notices));
    }
    if let Ok(grace) = std::env::var("ELASTIC_TERM") {
        options = options.term_notice(Duration::from_secs(grace.parse()?));
    }
    if let Some(most) = most {
        options = options.max_ranks(most.parse()?).allow_oversubscribe(true);
        if let Some(slurm) = Slurm::of_this_job() {
            options = options.manager(impatient(slurm));
        }
    }
    let work = Work::read()?;
    let mpi = Mpi::initialize_for(level)?;
    let mut world = World::create(options)?;
    let mut context = None;
    let mut iteration: u64 = 0;
    // Used on rank 0.
    let mut done: u64 = 0;
    if world.status() == Status::New {
        context = Some(world.context()?);
        if notices.is_some() {
            write_number(&world, &folder)?;
            // All numbers are written before the context is reported.
            barrier(&world)?;
        }
    }
    if let (Some(0), Some(_)) = (world.communicator().map(|all| all.rank()), &context) {
        println!("ready");
    }
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::Joining || world.probe()? {
            let window = world.begin()?;
            window.broadcast(&mut iteration)?;
            window.commit(Ok(()))?;
            match world.status() {
                Status::Parked => continue,
                Status::Ended => break,
                _ => {}
            }
            let context = match &mut context {
                Some(context) => context,
                none => none.insert(world.context()?),
            };
            if notices.is_some() {
                write_number(&world, &folder)?;
            }
            context.barrier()?;
            if world.rank() == 0 {
                println!("epoch {} size {}", world.epoch(), world.size());
            }
        }
        let left = work.units.map(|units| units.saturating_sub(done));
        match left {
            None => world.report_iteration(iteration),
            Some(left) => world.report(&work.progress(iteration, left, world.size()))?,
        }
        if !goes_on(&world, &folder, left)? {
            break;
        }
        compute(world.rank(), &folder, work.iteration);
        iteration += 1;
        done += world.size() as u64;
    }
    if let Some(context) = context {
        context.free()?;
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

/// Shorter limits, so that a demonstration or test need not wait long.
fn impatient(slurm: Slurm) -> Slurm {
    let mut options = slurm::Options::default();
    options.wait = Duration::from_secs(5);
    options.command_limit = Duration::from_secs(3);
    options.linger = Duration::from_secs(1);
    options.watch = Duration::from_secs(1);
    slurm.with(options)
}

fn barrier(world: &World) -> Result<(), Box<dyn Error>> {
    let all = world.communicator().ok_or("no rank")?;
    Ok(all.barrier(&WaitLimits::for_at_most(Duration::from_secs(60)))?)
}

/// Writes this process's number, under another name first.
fn write_number(world: &World, folder: &Path) -> std::io::Result<()> {
    let (new, path) = (format!(".pid-{}", world.rank()), format!("pid-{}", world.rank()));
    std::fs::write(folder.join(&new), std::process::id().to_string())?;
    std::fs::rename(folder.join(new), folder.join(path))
}

/// Returns true if the job ends soon according to a notice.
fn is_noticed(world: &World) -> bool {
    let events = world.requests().map(|requests| requests.events(0)).unwrap_or_default();
    let causes = events.iter().filter_map(|event| event.cause.as_ref());
    causes.into_iter().any(|cause| cause.kind == CauseKind::Deadline)
}

/// Total work of the job.
#[derive(Clone, Copy)]
struct Work {
    units: Option<u64>,
    bytes: Option<u64>,
    iteration: Duration,
}

impl Work {
    fn read() -> Result<Work, Box<dyn Error>> {
        let number = |name| -> Result<Option<u64>, Box<dyn Error>> {
            Ok(std::env::var(name).ok().map(|text| text.parse()).transpose()?)
        };
        let iteration = Duration::from_millis(number("ELASTIC_ITERATION_MS")?.unwrap_or(2));
        let (units, bytes) = (number("ELASTIC_UNITS")?, number("ELASTIC_BYTES")?);
        Ok(Work { units, bytes, iteration })
    }

    fn progress(&self, iteration: u64, left: u64, ranks: usize) -> Progress {
        let seconds = self.iteration.as_secs_f64();
        let remaining_seconds = Some(seconds * left as f64 / ranks as f64);
        let bytes_per_rank = self.bytes.map(|bytes| bytes / ranks as u64);
        let mpi_ratio = Some(0.0);
        Progress {
            remaining_seconds,
            mpi_ratio,
            bytes_per_rank,
            ..Progress::new(iteration, seconds)
        }
    }
}

/// Broadcasts rank 0's decision whether to continue.
fn goes_on(world: &World, folder: &Path, left: Option<u64>) -> Result<bool, Box<dyn Error>> {
    let all = world.communicator().ok_or("no rank")?;
    let is_last = all.size() == 1 && std::env::var_os("ELASTIC_TERM").is_some();
    let is_over = left == Some(0) || folder.join("stop").exists();
    let stops = all.rank() == 0 && (is_over || (is_last && is_noticed(world)));
    let limits = WaitLimits::for_at_most(Duration::from_secs(60));
    Ok(all.broadcast(vec![u8::from(!stops)], 0, &limits)? == [1])
}

fn compute(rank: usize, folder: &Path, iteration: Duration) {
    let held = folder.join(format!("hold-{rank}"));
    // Sleeps in place of the computation of an iteration, which leaves the cores to other
    // processes.
    std::thread::sleep(iteration);
    while held.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}
