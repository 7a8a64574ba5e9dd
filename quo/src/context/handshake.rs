//! Protocol in which ranks meet: for a new context, and for one whose ranks change.
//!
//! Three exchanges over the group, whatever its size: [`gather_records`] (where each rank is, and
//! whether all ask for the same), [`make_segment`] (whether every node leader has created its
//! segment), [`attach`] (whether all ranks have attached to it). If settings of the machine differ,
//! one more exchange collects the values for the error. After each exchange all ranks reach the
//! same verdict, so no rank waits for one that gave up. A rank's old state is not changed: the
//! caller replaces it by the new state.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use super::agreement::{agree, verdict};
use super::allowed;
use super::confinement::{self, Basis, Bounds, Machine};
use super::exchange::{HEADER_BYTES, MASK_BYTES, TEXT_BYTES};
use super::machine::{self, Snapshot};
use super::options::{Settings, Wait};
use super::peer_identity::{self, PeerProcess, Place};
use super::quota::{self, Quotas};
use super::record::{self, MachineSettings, Nodes, Record, Role};
use super::state::State;
use super::{Launcher, Peer, machine_file};
use crate::affinity::{Backend, BindingStack, CALLER, kernel};
use crate::cpuset::CpuSet;
use crate::environment;
use crate::error::Error;
use crate::group::{Group, GroupError, WaitLimits};
use crate::node::{CreatedSegment, Node, NodeOptions, SegmentName, WaitKind};
use crate::threading::bound_by_openmp;

/// Interval at which a waiting rank checks that the others of its node are alive.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Minimum pause after a check, in multiples of its time: among hundreds of ranks on few CPUs,
/// checks would otherwise take all the time of the rank that the others wait for.
const PAUSE: u32 = 100;

/// Maximum pause: a check that lost its CPU for seconds would otherwise be the last one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Number of other ranks whose process is examined in `/proc` at each check, in turn: a zombie and
/// a reused id show there only.
const EXAMINED: usize = 8;

/// Returns a number that is unique within this process.
pub(super) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// One rank's contribution to the handshake.
pub(super) struct Participant<'a> {
    pub role: Role,
    /// Settings, or the reason why this rank does not take part: then the handshake fails on every
    /// rank.
    pub settings: Result<Settings, Error>,
    /// Time limit for waiting for the other ranks.
    pub limit: Duration,
    /// Check called while this rank waits for the first exchange, and for all exchanges if no rank
    /// adapts.
    pub watch: &'a dyn Fn() -> Result<(), GroupError>,
    /// Called when all ranks agree to continue, before any data of this rank is published.
    pub prepare: &'a mut dyn FnMut() -> Result<(), Error>,
    /// Back end that the rank already binds with.
    pub backend: Option<Arc<dyn Backend>>,
    /// CPUs of the ranks known on this node before, including this one.
    pub claimed: CpuSet,
    /// CPUs to which the ranks of this node are confined, the same on each.
    pub scope: Option<CpuSet>,
}

/// Result of a handshake.
pub(super) struct Established {
    pub state: State,
    pub settings: Settings,
    pub identity: u64,
    pub backend: Arc<dyn Backend>,
}

/// Runs the handshake of a group's ranks. Collective over the group; every rank gets its parts or
/// every rank gets the same error.
pub(super) fn handshake(
    group: Arc<dyn Group>,
    participant: Participant<'_>,
) -> Result<Established, Error> {
    group.check()?;
    let Participant { role, settings, limit, watch, prepare, backend, claimed, scope } =
        participant;
    let deadline = Instant::now().checked_add(limit);
    let limits = WaitLimits { deadline, check_peers: watch };
    let (gathered, settings) = gather_records(&*group, role, settings, &limits)?;
    let peers = Watch::new(&gathered, group.rank());
    // Ranks that adapt watch those of their old context, some of which may leave now.
    let is_over = || if gathered.adapts { Ok(()) } else { watch() };
    let limits =
        WaitLimits { deadline, check_peers: &|| is_over().and_then(|()| peers.check_liveness()) };
    let made = make_segment(&*group, &gathered, role, settings, &limits)?;
    let own = Own { prepare, backend, claimed: &claimed };
    let (attached, settings) = attach(&*group, &gathered, made, own, &limits)?;
    let machine = agree_on_machine(&*group, &gathered, &attached, &settings, scope, &limits)?;

    let Gathered { records, members, node_rank, .. } = &gathered;
    let Attached { node, backend, .. } = attached;
    let initial: Vec<CpuSet> = (0..members.len())
        .map(|member| node.mask_of(member).ok().flatten().unwrap_or_default())
        .collect();
    let unbound = machine.allowed.is_subset(&initial[*node_rank]);
    let claimed = (0..members.len())
        .map(|member| node.claim_of(member).ok().flatten().unwrap_or_default())
        .fold(CpuSet::new(), |all, claim| all.union(&claim));
    node.set_spin_allowed(members.len() <= peer_identity::usable_cpus(&machine.whole, &initial));
    let own = records[group.rank()].process;
    let peers = members
        .iter()
        .zip(initial)
        .map(|(&rank, initial)| Peer {
            process: records[rank].process,
            visible: records[rank].process.namespace == own.namespace,
            launcher: records[rank].launcher,
            quotas: records[rank].quotas,
            bound_by_openmp: records[rank].bound_by_openmp,
            initial,
        })
        .collect();
    let waiters = match settings.wait {
        Wait::Mpi => {
            let part = group.split(u32::try_from(gathered.node_index).ok(), *node_rank);
            agree(&*group, gathered.call, part.map_err(Error::from), &limits)?
        }
        Wait::Futex | Wait::Pthread => None,
    };
    let state = State {
        number: next_number(),
        rank: group.rank(),
        size: group.size(),
        node: Arc::new(node),
        members: members.clone(),
        node_index: gathered.node_index,
        node_count: gathered.nodes.members.len(),
        waiters,
        peers,
        machine: RwLock::new(Arc::new(machine)),
        last_selection: Mutex::default(),
        claimed,
        unbound,
        adapted: gathered.adapts,
        retired: false,
        group,
    };
    Ok(Established { state, settings, identity: gathered.identity, backend })
}

/// Records of all ranks, and the conclusions that each rank draws from them.
struct Gathered {
    records: Vec<Record>,
    /// Call that errors name.
    call: &'static str,
    /// True if a rank adapts an existing context.
    adapts: bool,
    identity: u64,
    nodes: Nodes,
    node_index: usize,
    node_rank: usize,
    /// Ranks of this node, by node rank.
    members: Vec<usize>,
    /// Name of the segment of this node.
    name: SegmentName,
    confinements_differ: bool,
    /// The [`allowed::version`] before any rank read the machine.
    version: u64,
}

/// First exchange: where each rank is, and whether all ask for the same. Also returns this rank's
/// own settings. Collective.
fn gather_records(
    group: &dyn Group,
    role: Role,
    settings: Result<Settings, Error>,
    limits: &WaitLimits<'_>,
) -> Result<(Gathered, Result<Settings, Error>), Error> {
    // A rank that could not even prepare takes part, so that the others get its error.
    let Prepared { record, machine, version, settings } = Prepared::new(group, role, settings);
    let records = Record::decode_all(&group.allgather(&record.encode(), limits)?)?;
    record::check(&records)?;
    if record::machines_differ(&records) {
        // All ranks have the same records and reach this point together.
        let own = MachineSettings::new(&machine).encode();
        let settings = group.allgather(&own, limits)?;
        return Err(record::machine_disagreement(&records, &settings));
    }
    let nodes = Nodes::of(&records);
    let (node_index, node_rank) = nodes.locate(group.rank());
    let members = nodes.members[node_index].clone();
    let gathered = Gathered {
        call: record::call(&records),
        adapts: records.iter().any(|record| record.role.adapts()),
        identity: record::identity(&records),
        node_index,
        node_rank,
        name: SegmentName::from_secret(records[members[0]].token),
        confinements_differ: record::confinements_differ(&records, &nodes),
        members,
        version,
        nodes,
        records,
    };
    Ok((gathered, settings))
}

/// Settings of the context, and on the leader the segment of the node.
struct Made {
    settings: Settings,
    segment: Option<CreatedSegment>,
}

/// Second exchange: whether every node leader has created its segment. Collective.
fn make_segment(
    group: &dyn Group,
    gathered: &Gathered,
    role: Role,
    settings: Result<Settings, Error>,
    limits: &WaitLimits<'_>,
) -> Result<Made, Error> {
    let Gathered { records, name, members, .. } = gathered;
    let directory = settings.as_ref().ok().map(|settings| settings.directory.clone());
    let made = settings.and_then(|mut settings| {
        record::adopt(records, role, &mut settings);
        let leads = gathered.node_rank == 0;
        let of = (members.len(), gathered.version);
        let segment = leads.then(|| create_segment(name, &settings, of)).transpose()?;
        Ok(Made { settings, segment })
    });
    agree(group, gathered.call, made, limits).inspect_err(|_| {
        // The leader may have died after it created the segment; all members know its name.
        if let Some(directory) = &directory {
            Node::unlink(name, directory);
        }
    })
}

/// This rank's inputs to the third exchange.
struct Own<'a> {
    prepare: &'a mut dyn FnMut() -> Result<(), Error>,
    backend: Option<Arc<dyn Backend>>,
    claimed: &'a CpuSet,
}

/// Third exchange: whether all ranks have attached to the segment of their node. Also returns the
/// settings. Collective.
fn attach(
    group: &dyn Group,
    gathered: &Gathered,
    made: Made,
    own: Own<'_>,
    limits: &WaitLimits<'_>,
) -> Result<(Attached, Settings), Error> {
    let Made { settings, segment } = made;
    let Own { prepare, backend, claimed } = own;
    let attached = prepare().and_then(|()| Attached::new(gathered, &settings, backend, claimed));
    let verdict = verdict(group, gathered.call, attached.as_ref().err(), limits);
    let attached = match (verdict, attached) {
        (Ok(()), attached) => attached,
        (Err(error), Ok(attached)) => {
            // Others may have succeeded: to them this rank is dead and has not left in order.
            attached.node.abandon();
            Err(error)
        }
        (Err(error), Err(_)) => Err(error),
    };
    // All ranks have attached, or none will. Each makes sure that the name is removed: the leader
    // may be killed right here.
    match segment {
        Some(made) => drop(made),
        None => Node::unlink(&gathered.name, &settings.directory),
    }
    Ok((attached?, settings))
}

/// Makes the machine that the ranks of the node use together. Collective.
fn agree_on_machine(
    group: &dyn Group,
    gathered: &Gathered,
    attached: &Attached,
    settings: &Settings,
    scope: Option<CpuSet>,
    limits: &WaitLimits<'_>,
) -> Result<Machine, Error> {
    let Attached { node, snapshot, divided, mask, .. } = attached;
    let (call, no_smt) = (gathered.call, settings.no_smt);
    let basis = Basis {
        edition: 0,
        version: gathered.version,
        requests: node.requests(),
        apart: gathered.confinements_differ,
    };
    let whole = &snapshot.whole;
    let simulated = whole.is_simulated().then(|| whole.allowed().clone());
    let bounds = Bounds { scope, limit: None, simulated };
    if *divided {
        let own = (gathered.members.len(), mask, &bounds);
        confinement::divide(group, call, node, (snapshot, no_smt, basis), own, limits)
    } else if bounds.scope.is_some() {
        let (all, parts) = (whole.allowed(), std::slice::from_ref(whole.allowed()));
        let machine = Machine::divided(whole, no_smt, parts, all, basis, &bounds);
        agree(group, call, machine, limits)
    } else {
        Ok(Machine::common(snapshot, no_smt, basis))
    }
}

/// One rank's contribution to the first exchange.
struct Prepared {
    record: Record,
    /// Values of `QUO_TOPOLOGY` and `QUO_BINDING`.
    machine: [String; 2],
    /// The [`allowed::version`] before any rank reads the machine.
    version: u64,
    settings: Result<Settings, Error>,
}

impl Prepared {
    fn new(group: &dyn Group, role: Role, settings: Result<Settings, Error>) -> Self {
        let mut place = Place { boot: [0; 16], device: 0, inode: 0, hint: group.node_hint() };
        let settings = settings.and_then(|settings| {
            place =
                peer_identity::place(&settings.directory, group.node_hint()).map_err(|error| {
                    Error::InvalidArgument {
                        call: role.call(),
                        reason: format!("{}: {error}", settings.directory.display()),
                    }
                })?;
            Ok(settings)
        });
        let wait = settings.as_ref().map_or(Wait::Futex, |settings| settings.wait);
        let name = SegmentName::random();
        let machine = machine::settings();
        let record = Record {
            protocol: record::PROTOCOL,
            role,
            no_smt: settings.as_ref().is_ok_and(|settings| settings.no_smt),
            wait: record::wait_number(wait),
            literal: settings
                .as_ref()
                .is_ok_and(|settings| settings.policy == crate::plan::Policy::LibquoCompat),
            trace: settings.as_ref().is_ok_and(|settings| settings.trace.is_some()),
            refuses: settings.is_err(),
            machine: machine::settings_digest(&machine),
            place,
            process: peer_identity::this(),
            confinement: peer_identity::confinement(),
            launcher: Launcher::detect(),
            quotas: match &settings {
                Ok(settings) if settings.quota => quota::of_this_process(),
                _ => Quotas::default(),
            },
            bound_by_openmp: kernel::mask_of(CALLER).is_ok_and(|mask| bound_by_openmp(&mask)),
            token: name.as_ref().map(|name| *name.secret()).unwrap_or_default(),
        };
        let settings = settings.and_then(|settings| name.map(|_| settings).map_err(Error::from));
        Self { record, machine, version: allowed::version(), settings }
    }
}

/// State of a rank that is attached to its node's segment.
struct Attached {
    node: Node,
    snapshot: Snapshot,
    /// True if the ranks have published the CPUs that they may use, and the mask follows.
    divided: bool,
    mask: CpuSet,
    backend: Arc<dyn Backend>,
}

impl Attached {
    fn new(
        gathered: &Gathered,
        settings: &Settings,
        backend: Option<Arc<dyn Backend>>,
        claimed: &CpuSet,
    ) -> Result<Self, Error> {
        let Gathered { name, node_rank, version, .. } = gathered;
        let node = Node::attach(name, &settings.directory, *node_rank)?;
        let snapshot = Snapshot::from_bytes(node.payload(), *version)?;
        let backend = match backend {
            Some(backend) => backend,
            None => machine::backend(&snapshot.whole, *node_rank)?,
        };
        let mask = BindingStack::new(Arc::clone(&backend)).current()?;
        node.publish_claim(&claimed.union(&mask).intersection(snapshot.whole.machine_cpuset()))?;
        // All ranks have the same setting: the machine is simulated for all or for none.
        let divided = gathered.confinements_differ && !snapshot.whole.is_simulated();
        if divided {
            node.publish_mask(&allowed::allowed(&snapshot.whole, *version)?)?;
        } else {
            node.publish_mask(&mask)?;
        }
        Ok(Self { node, snapshot, divided, mask, backend })
    }
}

fn create_segment(
    name: &SegmentName,
    settings: &Settings,
    (members, version): (usize, u64),
) -> Result<CreatedSegment, Error> {
    /// Cleans up after jobs that were killed as a whole, once per process.
    static SWEPT: AtomicBool = AtomicBool::new(false);
    if !SWEPT.swap(true, Ordering::Relaxed) {
        // A failed sweep is no reason to create no segment.
        let _ = Node::sweep(&settings.directory);
    }
    let (snapshot, is_new) = Snapshot::discover(&settings.directory, version)?;
    let cpus = snapshot.whole.machine_cpuset().last().map_or(0, |cpu| cpu + 1);
    let exchange_bytes = HEADER_BYTES + MASK_BYTES + cpus.div_ceil(64) * size_of::<u64>();
    let options = NodeOptions {
        members,
        capacity: members,
        exchange_bytes: exchange_bytes.max(TEXT_BYTES).next_multiple_of(64),
        payload: &snapshot.bytes,
        wait: match settings.wait {
            Wait::Pthread => WaitKind::Pthread,
            Wait::Futex | Wait::Mpi => WaitKind::Futex,
        },
        directory: settings.directory.clone(),
    };
    let segment = Node::create(name, &options)?;
    if is_new {
        machine_file::write(&settings.directory, version, &snapshot.bytes);
    }
    Ok(segment)
}

/// Periodic check whether the other ranks of the node are alive.
struct Watch<'a> {
    call: &'static str,
    own: PeerProcess,
    others: Vec<(usize, &'a PeerProcess)>,
    next: Cell<Instant>,
    /// Index of the first rank that the next check examines in `/proc`.
    turn: Cell<usize>,
}

impl<'a> Watch<'a> {
    fn new(gathered: &'a Gathered, own: usize) -> Self {
        let Gathered { call, members, records, .. } = gathered;
        Self {
            call,
            own: records[own].process,
            others: members
                .iter()
                .filter(|&&rank| rank != own)
                .map(|&rank| (rank, &records[rank].process))
                .collect(),
            next: Cell::new(Instant::now() + LOOK),
            turn: Cell::new(0),
        }
    }

    fn check_liveness(&self) -> Result<(), GroupError> {
        let start = Instant::now();
        if start < self.next.get() {
            return Ok(());
        }
        let first = self.find_one_gone();
        let end = Instant::now();
        self.next.set(end + ((end - start) * PAUSE).clamp(LOOK, LONGEST_PAUSE));
        let Some(first) = first else { return Ok(()) };
        let ended = |process: &PeerProcess| peer_identity::has_ended(process, &self.own);
        let gone = self.others.iter().filter(|(rank, process)| *rank == first || ended(process));
        Err(GroupError::Dead { call: self.call, ranks: gone.map(|&(rank, _)| rank).collect() })
    }

    fn find_one_gone(&self) -> Option<usize> {
        let (turn, count) = (self.turn.get(), self.others.len());
        self.turn.set(if turn + EXAMINED < count { turn + EXAMINED } else { 0 });
        let is_gone = |(index, (_, process)): &(usize, &(usize, &PeerProcess))| {
            let examine = (turn..turn + EXAMINED).contains(index);
            (examine || peer_identity::is_missing(process, &self.own))
                && peer_identity::has_ended(process, &self.own)
        };
        self.others.iter().enumerate().find(is_gone).map(|(_, (rank, _))| *rank)
    }
}

/// Returns the default time to wait for the other ranks of a creation or adaptation.
pub(super) fn limit(settings: &Result<Settings, Error>) -> Duration {
    settings
        .as_ref()
        .map_or(environment::DEFAULT_CREATE_TIMEOUT, |settings| settings.create_timeout)
}
