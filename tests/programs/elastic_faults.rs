//! A world for fault injection: `mpirun -n 2 faults START MOST SECONDS FOLDER`. It iterates until
//! there is a file `stop` in FOLDER, and takes requests to change its size through the control
//! socket in `sockets` there; events go to `events`. A growth starts the program FOLDER/joiner with
//! the same arguments, and its processes have SECONDS seconds to be ready; they must be started
//! with `FAULTS_JOINER` in their environment.
//!
//! Each process prints its PID when it begins, so that a test knows which one to kill, and a
//! started process writes its PID to the file `started`. A process waits while there is a file
//!
//! | file | where |
//! |---|---|
//! | `hold-start` | a started process, before it reaches its ready point |
//! | `hold-R` | rank R, between two probes |
//! | `hold-move` | a leaver, while its data are being moved |
//! | `hold-joiner` | a joiner, in the window |
//!
//! and prints that it waits. While there is a file `push-R`, rank R has a binding pushed in the
//! world's context. With a file `slots` no more processes are started than the launcher has slots
//! for; with a file `alone` the ranks probe without communication. A process that cannot continue
//! prints why, once, and exits.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use elastic::data::Pattern;
use elastic::manager::ControlSocket;
use elastic::{Status, World, WorldOptions};
use quo::affinity::Target;
use quo::group::{GroupError, WaitLimits};
use quo::{Context, ObjectType};
use quo_mpi::Mpi;
use quo_mpi::communicator::ThreadLevel;

type Failed = Box<dyn Error>;

/// Elements of the array that the world moves.
const ELEMENTS: usize = 100_003;

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [start, most, seconds, folder] = &words[..] else {
        return Err("faults START MOST SECONDS FOLDER".into());
    };
    let (start, most, seconds) = (start.parse()?, most.parse()?, seconds.parse()?);
    let folder = PathBuf::from(folder);
    let mpi = Mpi::initialize_for(ThreadLevel::Multiple)?;
    // A starter does not wait: it is no joiner.
    if std::env::var_os("FAULTS_JOINER").is_some() {
        std::fs::write(folder.join("started"), std::process::id().to_string())?;
        hold("start", &folder);
    }
    let options = WorldOptions::new()
        .name("test")
        .initial_ranks(start)
        .max_ranks(most)
        .allow_oversubscribe(!folder.join("slots").exists())
        .processes_per_spawn(1)
        .start_timeout(Duration::from_secs(seconds))
        .spawn_command(folder.join("joiner").to_string_lossy(), words.clone())
        .log(folder.join("events"))
        .manager(ControlSocket::in_folder(folder.join("sockets")));
    let mut world = World::create(options)?;
    let ended = lives(&mut world, &folder);
    let ended = ended.and_then(|()| world.end().map_err(Failed::from));
    if let Err(error) = ended {
        println!("process {} ends with: {error}", std::process::id());
        // MPI does not end without the missing processes.
        std::process::exit(3);
    }
    drop(mpi);
    Ok(())
}

fn lives(world: &mut World, folder: &Path) -> Result<(), Failed> {
    if world.status() == Status::New {
        let array = world.data_mut().register::<u64>("numbers", Pattern::block(ELEMENTS))?;
        let first = world.rank() as u64;
        world.data_mut().local_mut(array)?.fill(first);
    }
    let mut context = if world.status() == Status::New { Some(world.context()?) } else { None };
    say(world, "is there", world.back_end());
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::Ended {
            break;
        }
        if world.status() == Status::Joining || world.probe()? {
            change(world, folder)?;
            if matches!(world.status(), Status::Parked | Status::Ended) {
                continue;
            }
            if context.is_none() {
                context = Some(world.context()?);
            }
        }
        if let Some(context) = &context {
            push_or_pop(world, context, folder)?;
        }
        if folder.join("alone").exists() {
            // Sleeps: stands for an iteration.
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        if !goes_on(world, context.as_ref(), folder)? {
            break;
        }
        hold(&world.rank().to_string(), folder);
    }
    if let Some(context) = context.filter(|context| !context.is_retired()) {
        context.free()?;
    }
    Ok(())
}

/// Keeps a binding pushed while there is a file.
fn push_or_pop(world: &World, context: &Context, folder: &Path) -> Result<(), Failed> {
    let is_wanted = folder.join(format!("push-{}", world.rank())).exists();
    match (is_wanted, context.push_depth()) {
        (true, 0) => {
            context.push(&Target::Object(ObjectType::Machine, 0))?;
            say(world, "pushes", "");
        }
        (false, 1..) => {
            context.pop()?;
            say(world, "pops", "");
        }
        _ => {}
    }
    Ok(())
}

fn change(world: &mut World, folder: &Path) -> Result<(), Failed> {
    let mut window = world.begin()?;
    let (leaves, joins) = (window.leaves(), window.joins());
    let moving = window.begin_move()?;
    if leaves {
        hold("move", folder);
    }
    if joins {
        hold("joiner", folder);
    }
    moving.finish()?;
    match window.commit(Ok(())) {
        Err(elastic::Error::Aborted { rank, reason, .. }) => {
            say(world, "stays", format_args!("because of rank {rank}: {reason}"));
        }
        ended => {
            ended?;
            say(world, "goes on", "");
        }
    }
    Ok(())
}

/// Prints one line, so that lines of several processes do not mix.
fn say(world: &World, what: &str, more: impl std::fmt::Display) {
    let place = match world.communicator() {
        Some(all) => format!("rank {} of {}", all.rank(), all.size()),
        None => "no rank".to_owned(),
    };
    println!("process {} {what}: {place}, epoch {}, {more}", std::process::id(), world.epoch());
}

/// Does one step of the program: rank 0 tells all ranks the requests that it sees, and no rank
/// waits for a rank that has ended.
fn goes_on(world: &World, context: Option<&Context>, folder: &Path) -> Result<bool, Failed> {
    let all = world.communicator().ok_or("no rank")?;
    let watch = || match context.map(Context::dead_node_ranks).unwrap_or_default() {
        dead if dead.is_empty() => Ok(()),
        ranks => Err(GroupError::Dead { call: "step", ranks }),
    };
    let limits =
        WaitLimits { check_peers: &watch, ..WaitLimits::for_at_most(Duration::from_secs(30)) };
    let stops = all.rank() == 0 && folder.join("stop").exists();
    let told = all.broadcast(vec![u8::from(!stops)], 0, &limits)?;
    // A barrier, so that no rank runs ahead of another by more than one iteration.
    all.barrier(&limits)?;
    Ok(told == [1])
}

fn hold(where_it_is: &str, folder: &Path) {
    let file = folder.join(format!("hold-{where_it_is}"));
    if file.exists() {
        println!("process {} waits: {where_it_is}", std::process::id());
    }
    while file.exists() {
        // Sleeps: another process removes the file, without notification.
        std::thread::sleep(Duration::from_millis(2));
    }
}
