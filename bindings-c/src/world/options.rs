//! Options of a world, and of Slurm.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;

use elastic::WorldOptions;
use elastic::manager::slurm::{self, Slurm};
use elastic::manager::{ControlSocket, NoticeFolder, ScriptedPlan};
use elastic::place::{Allowed, Bounds, PlaceError};

use crate::collective::limit;
use crate::guard::{Failure, Mark};
use crate::types::{Growing, In, Text};

pub type QUO_size_allowed_t = Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct QUO_slurm_options_t {
    /// Size known to the caller.
    pub size: usize,
    /// Seconds for which a growth waits for its nodes.
    pub wait: f64,
    /// Time limit of each command in seconds.
    pub command_limit: f64,
    /// Seconds before the end of a job at which its nodes are left.
    pub grace: f64,
    /// Seconds that leavers may take to end.
    pub linger: f64,
    /// Seconds between two checks of the world's own job.
    pub watch: f64,
    /// Minimum remaining seconds of the job for a growth on new nodes.
    pub least: f64,
    /// More options for `sbatch`, one per line, or NULL.
    pub submit: Text,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers and a pointer that is
// checked when it is read.
unsafe impl Growing for QUO_slurm_options_t {
    const NAME: &'static str = "QUO_slurm_options_t";
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct QUO_world_options_t {
    /// Size known to the caller.
    pub size: usize,
    /// Initial number of ranks; 0: all that were launched.
    pub initial_ranks: c_int,
    /// Maximum number of ranks; 0: the number launched.
    pub max_ranks: c_int,
    /// Number of processes that start and leave together; 0: all of one growth.
    pub processes_per_spawn: c_int,
    /// True if more processes may be started than the launcher has slots for.
    pub allow_oversubscribe: c_int,
    /// True if the job listens for `quo-elastic`.
    pub control: c_int,
    /// True if arrays are sent in messages even within a node.
    pub messages: c_int,
    /// Seconds within which started processes must be ready; 0: a minute.
    pub start_timeout: f64,
    /// Name of the job, or NULL.
    pub name: Text,
    /// File for events, or NULL.
    pub log: Text,
    /// A plan, or NULL.
    pub plan: Text,
    /// True if ranks use process sets.
    pub process_sets: c_int,
    /// True if rank 0 starts processes itself.
    pub no_spawn_helper: c_int,
    /// Minimum number of ranks; 0: one.
    pub min_size: c_int,
    /// Maximum number of ranks of the program; 0: the capacity of the world.
    pub max_size: c_int,
    /// Divisor of all sizes; 0: any.
    pub step: c_int,
    /// Allowed sizes, or NULL.
    pub allowed_sizes: Text,
    /// Function that allows sizes, or NULL.
    pub allows: QUO_size_allowed_t,
    /// Passed to that function.
    pub allows_data: *mut c_void,
    /// Hosts and their slots, or NULL.
    pub hosts: Text,
    /// Seconds in which a named host has to answer; 0: three; negative: no check.
    pub connect_timeout: f64,
    /// Remote shell to query named hosts, or NULL.
    pub remote_shell: Text,
    /// Program and arguments to start, one word per line, or NULL.
    pub spawn_command: Text,
    /// Keys and values for the launcher, one pair per line, or NULL.
    pub spawn_info: Text,
    /// Folder of the control socket, or NULL.
    pub control_folder: Text,
    /// Options of Slurm, or NULL.
    pub slurm: In<QUO_slurm_options_t>,
    /// True if the job ends when a rank has died.
    pub abort_on_death: c_int,
    /// Seconds between SIGTERM and the end of the job, if SIGTERM is a notice; 0 if it is not.
    pub term_notice: f64,
    /// Folder of notices, or NULL.
    pub notice_folder: Text,
    /// Order of hosts for joiners, or NULL.
    pub placement: Text,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers and pointers that are
// checked when they are read; by contract a function's address is valid, and NULL is none.
unsafe impl Growing for QUO_world_options_t {
    const NAME: &'static str = "QUO_world_options_t";
    const FIRST: usize = offset_of!(Self, process_sets);
}

/// Options of a world, as given by C.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) options: WorldOptions,
    /// True if arrays are sent in messages.
    pub(crate) messages: bool,
    /// Values that must be the same everywhere: initial_ranks and max_ranks.
    pub(crate) same: (c_int, c_int),
}

/// Function of the program that allows sizes.
struct Says {
    allows: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    data: *mut c_void,
}

// SAFETY: by the contract of the C interface the function may be called by any thread, with the data
// that was given with it.
unsafe impl Send for Says {}
// SAFETY: as above, by several at once.
unsafe impl Sync for Says {}

impl Says {
    fn yes(&self, size: u32) -> bool {
        let _outside = Mark::outside();
        // SAFETY: by the contract of the C interface the function takes these arguments, and may be
        // called until the world has ended.
        c_int::try_from(size).is_ok_and(|size| unsafe { (self.allows)(self.data, size) } != 0)
    }
}

fn count(name: &str, value: c_int) -> Result<Option<usize>, Failure> {
    match usize::try_from(value) {
        Ok(0) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(Failure::invalid(format!("{name} is {value}, which is no number of ranks"))),
    }
}

/// Returns the text, if there is one.
pub(crate) fn optional(text: Text, name: &str) -> Result<Option<String>, Failure> {
    if text.is_null() { Ok(None) } else { text.read(name).map(Some) }
}

/// Returns the nonempty lines of a text.
pub(crate) fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Parses a comma-separated list of hosts.
pub(crate) fn hosts(text: Text, name: &str) -> Result<Vec<String>, Failure> {
    let text = optional(text, name)?.unwrap_or_default();
    Ok(text.split(',').map(str::trim).filter(|host| !host.is_empty()).map(str::to_owned).collect())
}

/// Returns the sizes that the program can have, for a world with this capacity.
fn bounds(given: &QUO_world_options_t, capacity: usize) -> Result<Option<Bounds>, Failure> {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let (min, max) = (count("min_size", given.min_size)?, count("max_size", given.max_size)?);
    let step = count("step", given.step)?.map(number);
    let sizes = optional(given.allowed_sizes, "allowed_sizes")?;
    let listed = |text: &str| {
        let sizes = text.split(',').map(|size| size.trim().parse::<u32>());
        sizes.collect::<Result<Vec<u32>, _>>().map_err(|error| {
            Failure::invalid(format!(
                "allowed_sizes is {text:?}: neither numbers with commas between them nor power-of-two or square ({error})"
            ))
        })
    };
    let allowed = match (step, sizes.as_deref(), given.allows) {
        (None, None, None) if min.is_none() && max.is_none() => return Ok(None),
        (None, None, None) => Allowed::Any,
        (Some(step), None, None) => Allowed::MultipleOf(step),
        (None, Some("power-of-two"), None) => Allowed::PowerOfTwo,
        (None, Some("square"), None) => Allowed::Square,
        (None, Some(text), None) => Allowed::OneOf(listed(text)?),
        (None, None, Some(allows)) => {
            let says = Says { allows, data: given.allows_data };
            Allowed::If(Arc::new(move |size| says.yes(size)))
        }
        _ => {
            return Err(Failure::invalid(
                "only one of step, allowed_sizes and allows can be given",
            ));
        }
    };
    let max = max.map_or(number(capacity), number);
    let bounds = Bounds::new(min.map_or(1, number), max, allowed);
    bounds.map(Some).map_err(|error| Failure::invalid(error.to_string()))
}

fn slurm_options(given: &QUO_slurm_options_t) -> Result<slurm::Options, Failure> {
    let mut options = slurm::Options::default();
    for (time, seconds) in [
        (&mut options.wait, given.wait),
        (&mut options.command_limit, given.command_limit),
        (&mut options.grace, given.grace),
        (&mut options.linger, given.linger),
        (&mut options.watch, given.watch),
        (&mut options.least, given.least),
    ] {
        let seconds = limit(seconds)?;
        if seconds != Duration::ZERO {
            *time = seconds;
        }
    }
    options.submit = lines(&optional(given.submit, "submit")?.unwrap_or_default());
    Ok(options)
}

/// Reads the options of C, if `launched` processes were launched.
pub(crate) fn wanted(given: In<QUO_world_options_t>, launched: usize) -> Result<Wanted, Failure> {
    let mut options = WorldOptions::new();
    let Some(given) = given.read()? else { return Ok(Wanted::default()) };
    let most = count("max_ranks", given.max_ranks)?;
    if let Some(ranks) = count("initial_ranks", given.initial_ranks)? {
        options = options.initial_ranks(ranks);
    }
    if let Some(most) = most {
        options = options.max_ranks(most);
    }
    if let Some(unit) = count("processes_per_spawn", given.processes_per_spawn)? {
        options = options.processes_per_spawn(unit);
    }
    options = options
        .allow_oversubscribe(given.allow_oversubscribe != 0)
        .spawn_helper(given.no_spawn_helper == 0);
    options = options.abort_on_death(given.abort_on_death != 0);
    let grace = limit(given.term_notice)?;
    if grace != Duration::ZERO {
        options = options.term_notice(grace);
    }
    let start_timeout = limit(given.start_timeout)?;
    if start_timeout != Duration::ZERO {
        options = options.start_timeout(start_timeout);
    }
    if let Some(name) = optional(given.name, "name")? {
        options = options.name(name);
    }
    if let Some(log) = optional(given.log, "log")? {
        options = options.log(log);
    }
    if given.process_sets != 0 {
        options = options.process_sets();
    }
    if let Some(bounds) = bounds(&given, most.unwrap_or(0).max(launched))? {
        options = options.allowed_sizes(bounds);
    }
    options = of_hosts(options, &given)?;
    options = managers(options, &given)?;
    Ok(Wanted {
        options,
        messages: given.messages != 0,
        same: (given.initial_ranks, given.max_ranks),
    })
}

/// Adds the hosts, and the programs to start there, to the options.
fn of_hosts(
    mut options: WorldOptions,
    given: &QUO_world_options_t,
) -> Result<WorldOptions, Failure> {
    for host in hosts(given.hosts, "hosts")? {
        let parts = host.rsplit_once(':');
        let parts = parts.and_then(|(name, slots)| Some((name, slots.parse().ok()?)));
        let (name, slots) = parts.filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            Failure::invalid(format!("hosts has {host:?}, which is not NAME:SLOTS"))
        })?;
        options = options.host(name, slots);
    }
    if given.connect_timeout < 0.0 {
        options = options.connect_timeout(Duration::ZERO);
    } else if given.connect_timeout != 0.0 {
        options = options.connect_timeout(limit(given.connect_timeout)?);
    }
    if let Some(placement) = optional(given.placement, "placement")? {
        let placement =
            placement.parse().map_err(|error: PlaceError| Failure::invalid(error.to_string()))?;
        options = options.placement(placement);
    }
    if let Some(shell) = optional(given.remote_shell, "remote_shell")? {
        options = options.remote_shell(shell.split_whitespace());
    }
    if let Some(command) = optional(given.spawn_command, "spawn_command")? {
        let mut words = lines(&command);
        if words.is_empty() {
            return Err(Failure::invalid("spawn_command is empty"));
        }
        let program = words.remove(0);
        options = options.spawn_command(program, words);
    }
    for pair in lines(&optional(given.spawn_info, "spawn_info")?.unwrap_or_default()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Failure::invalid(format!("spawn_info has {pair:?}, which is not KEY=VALUE"))
        })?;
        options = options.spawn_info(key, value);
    }
    Ok(options)
}

/// Adds plan, control socket, folder of notices and Slurm to the options.
fn managers(
    mut options: WorldOptions,
    given: &QUO_world_options_t,
) -> Result<WorldOptions, Failure> {
    if let Some(plan) = optional(given.plan, "plan")? {
        let plan = plan.parse();
        let plan = plan.map_err(|error| Failure::invalid(format!("the plan: {error}")))?;
        options = options.manager(ScriptedPlan::new(plan));
    }
    match optional(given.control_folder, "control_folder")? {
        Some(folder) if given.control != 0 => {
            options = options.manager(ControlSocket::in_folder(folder));
        }
        Some(_) => return Err(Failure::invalid("control_folder is given, and control is 0")),
        None if given.control != 0 => options = options.manager(ControlSocket::new()),
        None => {}
    }
    if let Some(folder) = optional(given.notice_folder, "notice_folder")? {
        options = options.manager(NoticeFolder::at(folder));
    }
    if let Some(wanted) = given.slurm.read()? {
        let wanted = slurm_options(&wanted)?;
        if let Some(slurm) = Slurm::of_this_job() {
            options = options.manager(slurm.with(wanted));
        }
    }
    Ok(options)
}
