//! The collective creation of a context, and its release.
//!
//! Three exchanges over the group, whatever its size: who is where (and do all want the same), has
//! every node leader made its segment, has everyone attached to it. After each, all ranks reach the
//! same verdict, so no rank waits for one that gave up.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::confinement::{self, Machine};
use super::machine::{self, Snapshot};
use super::options::{Settings, Wait};
use super::process;
use super::record::{self, Nodes, Place, Process, Record};
use super::verdict::{CALL, agree, verdict};
use super::{Context, CreateOptions, Launcher, Peer};
use crate::affinity::BindingStack;
use crate::cpuset::CpuSet;
use crate::environment;
use crate::error::Error;
use crate::group::{Group, GroupError, Patience};
use crate::node::{CreatedSegment, ForkId, Node, NodeOptions, SegmentName, WaitKind};
use crate::phase::{Clock, ThreadControls};

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
/// How often a waiting rank looks whether the others of its node are still there.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes an exchange between ranks of a node carries besides a CPU set.
pub(super) const EXCHANGE_HEADER: usize = 64;
/// Bytes that say whether a CPU set follows or the reason why there is none.
pub(super) const MASK_HEADER: usize = 8;
/// Bytes of an exchange that carries the text of an error.
pub(super) const EXCHANGE_BYTES: usize = 256;

impl Context {
    /// Makes a context over all ranks of `group`, with default options. Collective over the group.
    ///
    /// # Errors
    /// As [`create_with`](Self::create_with).
    #[doc(alias = "QUO_create")]
    pub fn create(group: impl Group) -> Result<Self, Error> {
        Self::create_with(group, CreateOptions::new())
    }

    /// Makes a context over all ranks of `group`. Collective over the group; the options are the
    /// same on every rank.
    ///
    /// Every rank returns a context or every rank returns the same error. Nothing is left in the
    /// directory of the segments either way.
    ///
    /// # Errors
    /// [`Error::Disagreement`] for options or environments that differ, [`Error::Agreed`] with the
    /// first rank's cause for everything that failed on some rank (no space for the segment, an
    /// unusable `QUO_TOPOLOGY`, ...), [`Error::Group`] when MPI is not running or ranks do not come.
    #[doc(alias = "QUO_create_with_flags")]
    pub fn create_with(group: impl Group, options: CreateOptions) -> Result<Self, Error> {
        Self::create_boxed(Box::new(group), &options)
    }

    fn create_boxed(group: Box<dyn Group>, options: &CreateOptions) -> Result<Self, Error> {
        group.check()?;
        let prepared = Prepared::new(&*group, options);
        // A rank that could not even prepare takes part, so that the others hear of it.
        let limit = prepared
            .settings
            .as_ref()
            .map_or(environment::DEFAULT_CREATE_TIMEOUT, |settings| settings.create_timeout);
        let deadline = Instant::now().checked_add(limit);
        let first = Patience { deadline, watch: &|| Ok(()) };
        let records = group.allgather(&prepared.record.encode(), &first)?;
        let records = Record::decode_all(&records)?;
        record::check(&records)?;

        let nodes = Nodes::of(&records);
        let (node_index, node_rank) = nodes.locate(group.rank());
        let members = nodes.members[node_index].clone();
        let watch = Watch::new(&members, &records, group.rank());
        let patience = Patience { deadline, watch: &|| watch.look() };
        let name = SegmentName::from_secret(records[members[0]].token);

        let made = prepared.settings.and_then(|settings| {
            let leads = node_rank == 0;
            let segment =
                if leads { Some(make_segment(&name, &settings, members.len())?) } else { None };
            Ok((settings, segment))
        });
        let (settings, segment) = match agree(&*group, made, &patience) {
            Ok(made) => made,
            Err(error) => {
                // The leader may have died with the segment made: its name is known to all.
                if let Ok(settings) = options.resolve() {
                    Node::unlink(&name, &settings.directory);
                }
                return Err(error);
            }
        };

        let differ = record::confinements_differ(&records, &nodes);
        let joined = Joined::new(&name, &settings, node_rank, differ);
        let verdict = verdict(&*group, joined.as_ref().err(), &patience);
        let joined = match (verdict, joined) {
            (Ok(()), joined) => joined,
            (Err(error), Ok(joined)) => {
                // Others may have got through: to them this rank is dead, not gone in order.
                joined.node.abandon();
                Err(error)
            }
            (Err(error), Err(_)) => Err(error),
        };
        // Everyone has attached, or nobody will. All see to it that the name is gone: the leader may
        // be killed right here.
        match segment {
            Some(made) => drop(made),
            None => Node::unlink(&name, &settings.directory),
        }
        let Joined { node, snapshot, divided, mask, backend } = joined?;
        let machine = if divided {
            let snapshot = (&snapshot, settings.no_smt);
            confinement::divide(&*group, &node, snapshot, (members.len(), &mask), &patience)?
        } else {
            Machine::common(&snapshot, settings.no_smt)
        };

        let initial: Vec<CpuSet> = (0..members.len())
            .map(|member| node.mask_of(member).ok().flatten().unwrap_or_default())
            .collect();
        node.set_spin_allowed(members.len() <= process::usable_cpus(&machine.whole, &initial));
        let own = records[group.rank()].process;
        let peers = members
            .iter()
            .zip(initial)
            .map(|(&rank, initial)| Peer {
                process: records[rank].process,
                visible: records[rank].process.namespace == own.namespace,
                launcher: records[rank].launcher,
                initial,
            })
            .collect();
        let waiters = match settings.wait {
            Wait::Mpi => {
                let part = group.split(u32::try_from(node_index).ok(), node_rank);
                agree(&*group, part.map_err(Error::from), &patience)?
            }
            Wait::Futex | Wait::Pthread => None,
        };
        Ok(Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            node: Arc::new(node),
            members,
            node_index,
            node_count: nodes.members.len(),
            waiters,
            peers,
            settings,
            topology: machine.topology,
            whole: machine.whole,
            own: machine.own,
            allowed: machine.allowed,
            stack: Mutex::new(BindingStack::new(Arc::clone(&backend))),
            regions: Mutex::default(),
            cpusets: Default::default(),
            backend,
            process: ForkId::current(),
            clock: Clock::new(),
            controls: ThreadControls::new(),
            trace: Mutex::new(Vec::new()),
            group,
        })
    }

    /// Releases the context: pops what is still pushed, writes the trace if one was asked for, and
    /// leaves the node. Collective over the context when a trace was asked for, else local; call it
    /// before MPI is finalised.
    ///
    /// Dropping a context releases it as well, but writes no trace and cannot tell of errors.
    ///
    /// # Errors
    /// What went wrong first; the context is released all the same.
    #[doc(alias = "QUO_free")]
    pub fn free(self) -> Result<(), Error> {
        self.check("free")?;
        let traced = self.write_trace();
        let popped = self.unwind();
        drop(self);
        traced.and(popped)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.is_forked() {
            let _ = self.unwind();
        }
    }
}

/// What a rank brings to the first exchange.
struct Prepared {
    record: Record,
    settings: Result<Settings, Error>,
}

impl Prepared {
    fn new(group: &dyn Group, options: &CreateOptions) -> Self {
        let settings = options.resolve();
        let mut place = Place { boot: [0; 16], device: 0, inode: 0, hint: group.node_hint() };
        let settings = settings.and_then(|settings| {
            place = process::place(&settings.directory, group.node_hint()).map_err(|error| {
                Error::InvalidArgument {
                    call: CALL,
                    reason: format!("{}: {error}", settings.directory.display()),
                }
            })?;
            Ok(settings)
        });
        let wait = settings.as_ref().map_or(Wait::Futex, |settings| settings.wait);
        let name = SegmentName::random();
        let record = Record {
            protocol: record::PROTOCOL,
            no_smt: options.no_smt,
            wait: record::wait_number(wait),
            trace: settings.as_ref().is_ok_and(|settings| settings.trace.is_some()),
            machine: machine::settings_digest(),
            place,
            process: process::this(),
            confinement: process::confinement(),
            launcher: Launcher::detect(),
            token: name.as_ref().map(|name| *name.secret()).unwrap_or_default(),
        };
        let settings = settings.and_then(|settings| name.map(|_| settings).map_err(Error::from));
        Self { record, settings }
    }
}

/// What a rank has once it is attached to its node's segment.
struct Joined {
    node: Node,
    snapshot: Snapshot,
    /// What was published is what the rank may use, and the mask follows.
    divided: bool,
    mask: CpuSet,
    backend: Arc<dyn crate::affinity::Backend>,
}

impl Joined {
    fn new(
        name: &SegmentName,
        settings: &Settings,
        node_rank: usize,
        confinements_differ: bool,
    ) -> Result<Self, Error> {
        let node = Node::attach(name, &settings.directory, node_rank)?;
        let snapshot = Snapshot::from_bytes(node.payload())?;
        let backend = machine::backend(&snapshot.whole, node_rank)?;
        let mask = BindingStack::new(Arc::clone(&backend)).current()?;
        // All ranks have the same setting: the machine is simulated for all or for none.
        let divided = confinements_differ && !snapshot.whole.is_simulated();
        if divided {
            node.publish_mask(&confinement::own_part(&snapshot.whole)?)?;
        } else {
            node.publish_mask(&mask)?;
        }
        Ok(Self { node, snapshot, divided, mask, backend })
    }
}

fn make_segment(
    name: &SegmentName,
    settings: &Settings,
    members: usize,
) -> Result<CreatedSegment, Error> {
    /// Of jobs that were killed as a whole; whoever comes next cleans up, once.
    static SWEPT: AtomicBool = AtomicBool::new(false);
    if !SWEPT.swap(true, Ordering::Relaxed) {
        // That nothing can be swept is no reason to make no segment.
        let _ = Node::sweep(&settings.directory);
    }
    let snapshot = Snapshot::discover()?;
    let cpus = snapshot.whole.machine_cpuset().last().map_or(0, |cpu| cpu + 1);
    let exchange_bytes = EXCHANGE_HEADER + MASK_HEADER + cpus.div_ceil(64) * size_of::<u64>();
    let options = NodeOptions {
        members,
        capacity: members,
        exchange_bytes: exchange_bytes.max(EXCHANGE_BYTES).next_multiple_of(64),
        payload: &snapshot.bytes,
        wait: match settings.wait {
            Wait::Pthread => WaitKind::Pthread,
            Wait::Futex | Wait::Mpi => WaitKind::Futex,
        },
        directory: settings.directory.clone(),
    };
    Ok(Node::create(name, &options)?)
}

/// Looks from time to time whether the other ranks of the node are still alive.
struct Watch<'a> {
    own: Process,
    others: Vec<(usize, &'a Process)>,
    next: Cell<Instant>,
}

impl<'a> Watch<'a> {
    fn new(members: &[usize], records: &'a [Record], own: usize) -> Self {
        Self {
            own: records[own].process,
            others: members
                .iter()
                .filter(|&&rank| rank != own)
                .map(|&rank| (rank, &records[rank].process))
                .collect(),
            next: Cell::new(Instant::now() + LOOK),
        }
    }

    fn look(&self) -> Result<(), GroupError> {
        if Instant::now() < self.next.get() {
            return Ok(());
        }
        self.next.set(Instant::now() + LOOK);
        let gone: Vec<usize> = self
            .others
            .iter()
            .filter(|(_, process)| process::has_ended(process, &self.own))
            .map(|&(rank, _)| rank)
            .collect();
        if gone.is_empty() { Ok(()) } else { Err(GroupError::Dead { call: CALL, ranks: gone }) }
    }
}
