//! Options of a world.

mod launch;

use std::path::PathBuf;
use std::time::Duration;

use crate::coordinator::Job;
use crate::link::address_families;
use crate::manager::control::is_job_name;
use crate::manager::{ResourceManager, TermNotice};
use crate::model::place::{Allowed, Bounds, Placement};
use crate::model::process_table::{Limits, NewNodes};
use crate::model::sets::SetName;
use crate::spawn::back_end::{BackEnd, Join};
use crate::spawn::host_probe::HostProbe;
use crate::spawn::slot_capacity;
use crate::spawn::starter::{
    HostKey, HungSpawn, LaunchHosts, Slots, SpawnCommand, SpawnHelper, own_command, wrapped,
};

/// Default time from the start of a process to its ready point.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Advice if the slots are not known.
const LIST: &str =
    "list the hosts with their slots: WorldOptions::host, or QUO_ELASTIC_HOSTS=n1:8,n2:8";

/// Options of a world. Rank 0's options count, except that [`initial_ranks`](Self::initial_ranks) and
/// [`max_ranks`](Self::max_ranks) must be the same on all processes.
///
/// `quo-elastic launch` sets the sizes and the name that a program leaves open, and passes
/// them in `QUO_ELASTIC_RANKS` and `QUO_ELASTIC_NAME`; with a name the job has a control socket.
/// With `--slurm` it also sets `QUO_ELASTIC_SLURM`, for [nodes of Slurm](crate::manager::slurm::Slurm).
///
/// ```
/// use elastic::WorldOptions;
/// // Two of the launched processes are ranks at first; beyond the launched ones, up to 16 are started, in units
/// // of 4 that leave together.
/// let options = WorldOptions::new().initial_ranks(2).max_ranks(16).processes_per_spawn(4);
/// ```
#[derive(Debug, Default)]
pub struct WorldOptions {
    pub(super) initial_ranks: Option<usize>,
    pub(super) name: Option<String>,
    pub(super) log: Option<PathBuf>,
    pub(super) bounds: Option<Bounds>,
    pub(super) process_sets: bool,
    pub(super) managers: Vec<Box<dyn ResourceManager>>,
    pub(super) abort_on_death: bool,
    pub(super) takes_term: bool,
    max_ranks: Option<usize>,
    processes_per_spawn: Option<usize>,
    allow_oversubscribe: bool,
    without_spawn_helper: bool,
    limit: Option<Duration>,
    spawn_command: Option<(String, Vec<String>)>,
    spawn_info: Vec<(String, String)>,
    slots: Vec<(String, u32)>,
    host_probe: HostProbe,
    placement: Option<Placement>,
}

impl WorldOptions {
    /// Default options: all launched processes are ranks, and no process is started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the initial number of ranks, from one to the number of launched processes; the other
    /// processes are parked. Defaults to all launched processes.
    #[must_use]
    pub fn initial_ranks(self, ranks: usize) -> Self {
        Self { initial_ranks: Some(ranks), ..self }
    }

    /// Sets the name of the job, which its process sets (`mpi://app/NAME`) and its control socket
    /// use. Defaults to the process number of rank 0.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Appends every [event](crate::model::change::Event) to this file, one line of JSON each.
    /// Without it events are kept in memory.
    #[must_use]
    pub fn log(self, path: impl Into<PathBuf>) -> Self {
        Self { log: Some(path.into()), ..self }
    }

    /// Sets the sizes at which the program can run: requests for others are refused.
    #[must_use]
    pub fn allowed_sizes(self, bounds: Bounds) -> Self {
        Self { bounds: Some(bounds), ..self }
    }

    /// Adds a manager that decides when the world changes; there may be several.
    #[must_use]
    pub fn manager(mut self, manager: impl ResourceManager + 'static) -> Self {
        self.managers.push(Box::new(manager));
        self
    }

    /// Treats the first SIGTERM of rank 0's process as a notice: the job ends in `grace`, or at the
    /// end of its Slurm job (`SLURM_JOB_END_TIME`) if that is sooner. The log gets an event of the
    /// kind [`Deadline`](crate::model::change::CauseKind::Deadline), and the world shrinks to its
    /// smallest size within that time. Off by default.
    ///
    /// Other processes of the world absorb their first SIGTERM: a resource manager sends it to all.
    /// A handler installed before the world is called each time. Without one, a second SIGTERM ends
    /// the process. The previous handling is restored when the world ends.
    #[must_use]
    pub fn term_notice(mut self, grace: Duration) -> Self {
        self.takes_term = true;
        self.manager(TermNotice::new(grace))
    }

    /// Lets ranks use [process sets](crate::World::process_sets): rank 0 listens for their
    /// connections, on its node only if all processes are there and none can be spawned.
    #[must_use]
    pub fn process_sets(self) -> Self {
        Self { process_sets: true, ..self }
    }

    /// Lets the world grow to this many ranks: more processes than the launched ones are spawned,
    /// if the MPI can ([`World::back_end`](crate::World::back_end)).
    #[must_use]
    pub fn max_ranks(self, ranks: usize) -> Self {
        Self { max_ranks: Some(ranks), ..self }
    }

    /// Sets the largest number of processes spawned together, which also leave together. Defaults
    /// to all processes of one growth.
    #[must_use]
    pub fn processes_per_spawn(self, processes: usize) -> Self {
        Self { processes_per_spawn: Some(processes), ..self }
    }

    /// Allows more processes than the launcher has slots for.
    #[must_use]
    pub fn allow_oversubscribe(self, allow: bool) -> Self {
        Self { allow_oversubscribe: allow, ..self }
    }

    /// Spawns processes through a helper process, which is no rank, if rank 0 would stall during a
    /// spawn (with MPICH). On by default. The helper runs this program and stays in
    /// [`World::create`](crate::World::create) until the world ends, which then returns with
    /// [`Status::Ended`](crate::Status::Ended).
    #[must_use]
    pub fn spawn_helper(self, helper: bool) -> Self {
        Self { without_spawn_helper: !helper, ..self }
    }

    /// Ends the job when a rank ends without [`World::end`](crate::World::end): killed, crashed, or
    /// by its own `exit`. MPI would wait for it forever in a collective call, and not every
    /// launcher ends a job when a spawned process dies.
    ///
    /// A thread of every process checks for this at least twice a second. The first to find a dead
    /// rank writes the rank to standard error; all processes of the world, including parked ones,
    /// end with `_exit(3)`, from that thread and without an MPI call. The end of a parked process
    /// does not end the job. Requires no particular thread level of MPI. Off by default, on under
    /// `quo-elastic launch --slurm`.
    #[must_use]
    pub fn abort_on_death(self, abort: bool) -> Self {
        Self { abort_on_death: abort, ..self }
    }

    /// Sets the time from the start of processes to their ready point, after which the growth is
    /// aborted. One minute by default.
    #[must_use]
    pub fn start_timeout(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Sets the program to spawn. Defaults to this process's own program and arguments.
    #[must_use]
    pub fn spawn_command(self, program: impl Into<String>, arguments: Vec<String>) -> Self {
        Self { spawn_command: Some((program.into(), arguments)), ..self }
    }

    /// Adds a key and a value for the launcher, such as `host`, to every spawn.
    #[must_use]
    pub fn spawn_info(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.spawn_info.push((key.into(), value.into()));
        self
    }

    /// Lists a host onto which the world may grow when a request names it, and the number of
    /// processes it takes: requests for more are refused, unless
    /// [`allow_oversubscribe`](Self::allow_oversubscribe) is set. For unlisted hosts the launcher
    /// decides. If the program lists none, the user can, with `QUO_ELASTIC_HOSTS=n1:8,n2:8` in the
    /// environment of rank 0.
    ///
    /// The name is the launcher's, as in its list of hosts. With Open MPI 4 and `mpirun` on a node
    /// that is not one of the job's hosts, list all hosts: otherwise a growing world has no slots.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>, slots: u32) -> Self {
        self.slots.push((name.into(), slots));
        self
    }

    /// Sets how joiners are distributed over hosts: parked processes that are called in, processes
    /// spawned on named hosts and, if hosts are [listed](Self::host), all spawned processes. By
    /// default parked processes fill one host after the other, processes on named hosts are dealt
    /// to each in turn, and the launcher places the others.
    ///
    /// No host gets more than its slots, unless [`allow_oversubscribe`](Self::allow_oversubscribe)
    /// is set. For [`Placement::LeastLoaded`] rank 0 asks a node for its load every few seconds and uses
    /// the mean of a minute.
    #[must_use]
    pub fn placement(self, placement: Placement) -> Self {
        Self { placement: Some(placement), ..self }
    }

    /// Sets the time that a named host may take to answer before a process is started there: its
    /// name must resolve, and the address must accept or refuse a connection to the port of remote
    /// shells. Three seconds by default; zero disables the check, for networks that drop such
    /// connections silently.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.host_probe.limit = limit;
        self
    }

    /// Sets a remote shell for checking a named host before a process is started there: a program
    /// and its options, to which the host and a command are appended, such as
    /// `ssh -o BatchMode=yes`. By default no shell is tried: it would have to work from rank 0's
    /// host, which may not be the launcher's.
    #[must_use]
    pub fn remote_shell(mut self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.host_probe.remote_shell = words.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the facts for the arbiter, for processes on these nodes.
    pub(super) fn job(
        &self,
        hosts: Vec<String>,
        places: Vec<usize>,
        initial_ranks: usize,
        limits: Limits,
    ) -> Result<Job, String> {
        let name = self.name.clone().unwrap_or_else(|| std::process::id().to_string());
        if !is_job_name(&name) {
            return Err(format!(
                "{name:?} is not a job name: it is empty, begins with a dot, or has a /, white space or a control \
                 character"
            ));
        }
        SetName::application(&name).map_err(|error| error.to_string())?;
        let all = u32::try_from(limits.most.max(limits.named)).unwrap_or(u32::MAX);
        let any = || Bounds::new(1, all, Allowed::Any);
        let bounds = self.bounds.clone().map_or_else(any, Ok).map_err(|error| error.to_string())?;
        bounds.check(u32::try_from(initial_ranks).unwrap_or(u32::MAX)).map_err(|error| {
            let from =
                self.initial_ranks.map_or("all that were launched", |_| "the option initial_ranks");
            format!("{initial_ranks} ranks at the start ({from}): {error}{}", bounds.range(all))
        })?;
        Ok(Job { name, hosts, places, initial_ranks, bounds, limits, placement: self.placement })
    }

    /// Returns the hosts and slots listed by the program, else by the user, else known from the
    /// launcher.
    ///
    /// # Errors
    /// Describes the error in the user's list.
    pub(super) fn hosts(&self) -> Result<Vec<(String, u32)>, String> {
        if !self.slots.is_empty() {
            return Ok(self.slots.clone());
        }
        let listed = slot_capacity::hosts()?;
        let launchers = || LaunchHosts::of_launcher(quo_mpi::running()).map(|hosts| hosts.slots());
        Ok(if listed.is_empty() { launchers().unwrap_or_default() } else { listed })
    }

    /// Limits of the world's growth on this MPI, onto these hosts.
    pub(super) fn limits(
        &self,
        back_end: &BackEnd,
        launched: usize,
        hosts: Vec<(String, u32)>,
    ) -> Limits {
        let unit = self.processes_per_spawn.unwrap_or(usize::MAX);
        let room = Some(launched);
        let as_launched =
            Limits { most: launched, room, room_named: room, unit, ..Limits::default() };
        let Some(wanted) = self.max_ranks.filter(|&most| most > launched) else {
            return as_launched;
        };
        if let Err(reason) = &back_end.spawned {
            return Limits { reason: format!(": {reason}"), ..as_launched };
        }
        let slots = if self.allow_oversubscribe { Vec::new() } else { hosts };
        let new_nodes = NewNodes::of(quo_mpi::running());
        let as_wanted =
            Limits { most: wanted, named: wanted, room: None, room_named: None, ..as_launched };
        let all = Limits { new_nodes, slots, ..as_wanted };
        let Some(room) = back_end.slots.filter(|_| !self.allow_oversubscribe) else { return all };
        let reason = match back_end.has_more_slots {
            _ if room >= wanted => String::new(),
            true => format!(
                ": {room} slots are known of, since mpirun's own node is none of the job's hosts; {LIST}"
            ),
            false => format!(": the launcher has {room} slots"),
        };
        let room = room.max(launched);
        let most = wanted.min(room);
        // With other MPIs, processes can exceed the slots or go to other hosts.
        let is_open_mpi = matches!(quo_mpi::running().family(), quo_mpi::Family::OpenMpi);
        let room = Some(room).filter(|_| is_open_mpi);
        let room_named = room.filter(|_| !back_end.has_more_slots);
        Limits { most, room, room_named, reason, ..all }
    }

    /// Returns the helper that spawns processes, if rank 0 does not spawn them itself.
    pub(super) fn make_spawn_helper(
        &self,
        back_end: &BackEnd,
        spawn_command: &SpawnCommand,
    ) -> Option<SpawnHelper> {
        // Only over a bridge. Not with Intel MPI, where a process that ends waits until its peers
        // call MPI, and a helper sleeps.
        let is_mpich = matches!(quo_mpi::running().family(), quo_mpi::Family::Mpich);
        if self.without_spawn_helper || !is_mpich || back_end.spawned != Ok(Join::Bridge) {
            return None;
        }
        // The helper runs this program even if another command is set, since that one is not
        // checked until it is needed.
        let (command, arguments) = own_command().ok()?;
        let (command, arguments) = wrapped(command, arguments);
        Some(SpawnHelper::new(command, arguments, spawn_command.info.clone()))
    }

    /// Returns the program to start, with its options.
    pub(super) fn make_spawn_command(
        &self,
        back_end: &BackEnd,
        launched: usize,
    ) -> Result<SpawnCommand, String> {
        if self.max_ranks.is_none() {
            return Ok(SpawnCommand::default());
        }
        let (command, arguments) = match &self.spawn_command {
            Some(command) => command.clone(),
            None => {
                let (command, arguments) = own_command()?;
                wrapped(command, arguments)
            }
        };
        let mut info = self.spawn_info.clone();
        if matches!(quo_mpi::running().family(), quo_mpi::Family::OpenMpi) {
            // quo does the binding, and a launcher that binds refuses shared cores.
            info.push(("bind_to".to_owned(), "none".to_owned()));
            if self.allow_oversubscribe {
                info.push(("map_by".to_owned(), "slot:oversubscribe".to_owned()));
            }
        }
        let host_key = HostKey::of(quo_mpi::running());
        let (limit, host_probe) = (self.limit.unwrap_or(START_LIMIT), self.host_probe.clone());
        let (hung_spawn, oversubscribe) =
            (HungSpawn::of(quo_mpi::running()), self.allow_oversubscribe);
        let is_open_mpi = matches!(quo_mpi::running().family(), quo_mpi::Family::OpenMpi);
        // Other launchers do not fail here, or reap processes only at the end of the job.
        let count = back_end.slots.filter(|_| is_open_mpi && !oversubscribe);
        let slots = count.map(|count| Slots { count, launched });
        let hosts = LaunchHosts::of_launcher(quo_mpi::running());
        let spawn_command = SpawnCommand {
            command,
            arguments,
            info,
            host_key,
            host_probe,
            limit,
            hung_spawn,
            ..SpawnCommand::default()
        };
        // Other launchers give spawned processes no variable to identify them by.
        let is_bound = is_open_mpi;
        let advice = address_families::advice(quo_mpi::running());
        Ok(SpawnCommand { oversubscribe, hosts, slots, is_bound, advice, ..spawn_command })
    }
}

#[cfg(test)]
mod tests {
    use quo_mpi::communicator::ThreadLevel;

    use super::*;
    use crate::spawn::slot_capacity::SlotCapacity;

    #[test]
    fn start_outside_of_the_sizes_is_refused_with_their_range() {
        let limits = || Limits { most: 6, ..Limits::default() };
        let job = |start: usize, allowed| {
            let bounds = Bounds::new(2, 5, allowed).unwrap();
            let options = WorldOptions::new().initial_ranks(start).allowed_sizes(bounds);
            options
                .job(vec!["n".to_owned()], vec![0; 6], start, limits())
                .map(|job| job.initial_ranks)
        };
        let refused = job(3, Allowed::MultipleOf(2)).unwrap_err();
        assert_eq!(
            refused,
            "3 ranks at the start (the option initial_ranks): bounds: 3 processes are not allowed; 2 and 4 are the nearest that \
             are, and there can be 2 to 4"
        );
        assert!(job(1, Allowed::Any).unwrap_err().ends_with(", and there can be 2 to 5"));
        assert!(job(6, Allowed::OneOf(vec![3, 9])).unwrap_err().ends_with("there can be 3 to 3"));
        assert_eq!(job(4, Allowed::MultipleOf(2)), Ok(4));
        let all = WorldOptions::new().allowed_sizes(Bounds::new(1, 2, Allowed::Any).unwrap());
        let refused = all.job(vec!["n".to_owned()], vec![0; 6], 6, limits()).unwrap_err();
        assert!(
            refused.starts_with("6 ranks at the start (all that were launched): "),
            "{refused}"
        );
    }

    #[test]
    fn slots_limit_a_world_unless_it_may_be_crowded() {
        let mpi = quo_mpi::running();
        let back_end = |room| BackEnd {
            spawned: Ok(Join::Port),
            ..BackEnd::choose(mpi, None, ThreadLevel::Multiple, room)
        };
        let limits = |oversubscribe, room| {
            let limits = WorldOptions::new()
                .max_ranks(8)
                .allow_oversubscribe(oversubscribe)
                .limits(&back_end(room), 2, Vec::new());
            (limits.most, limits.named, limits.room, limits.room_named)
        };
        // With launchers of other MPIs, slots do not limit growth onto named hosts.
        let of_slots =
            |room| Some(room).filter(|_| matches!(mpi.family(), quo_mpi::Family::OpenMpi));
        assert_eq!(limits(false, Some(SlotCapacity::Exactly(4))), (4, 8, of_slots(4), of_slots(4)));
        assert_eq!(limits(false, Some(SlotCapacity::AtLeast(4))), (4, 8, of_slots(4), None));
        assert_eq!(limits(false, Some(SlotCapacity::Exactly(1))).0, 2, "all that were launched");
        for (oversubscribe, room) in [(true, Some(SlotCapacity::Exactly(4))), (false, None)] {
            assert_eq!(limits(oversubscribe, room), (8, 8, None, None));
        }
        let launched = WorldOptions::new().limits(&back_end(None), 2, Vec::new());
        assert_eq!((launched.most, launched.named, launched.room), (2, 0, Some(2)));
    }
}
