//! Liveness, a barrier, an exchange, masks and shared memory for the processes of one node.
//!
//! One process creates a segment ([`Node::create`]) and sends its name to the others; all attach
//! ([`Node::attach`]), and the creator removes the name ([`CreatedSegment::unlink`]). From then on
//! no file can be left behind, however the processes end.
//!
//! ```
//! use quo::node::{Node, NodeOptions, SegmentName};
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let name = SegmentName::random()?;
//! let options = NodeOptions { directory: directory.into(), ..NodeOptions::new(1) };
//! let segment = Node::create(&name, &options)?;
//! let node = Node::attach(&name, directory, 0)?; // as every other member does
//! segment.unlink()?; // once all are attached
//! let told = node.exchange(b"hello")?;
//! assert_eq!(told.of(0), Some(&b"hello"[..]));
//! # drop(told);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Members that wait find the death of another member within a second and all get the same error,
//! which names the dead member. See [`Node::expel`] for continuing without that member. A member
//! that is stopped or slow is not dead.
//!
//! floors: error < fork < liveness < spin < protocol < wait < mapping < name < directory <
//!     file < layout < others < status < pthread < exchange < decision < masks < segment < roster <
//!     lending < limit < kept_file < sweep < barrier < rejoin < channel < memory

mod barrier;
mod channel;
mod decision;
mod directory;
mod error;
mod exchange;
mod file;
mod fork;
pub(crate) mod kept_file;
mod layout;
mod lending;
mod limit;
mod liveness;
mod mapping;
mod masks;
mod memory;
mod name;
mod others;
mod protocol;
mod pthread;
mod rejoin;
mod roster;
mod segment;
mod spin;
mod status;
mod sweep;
#[cfg(test)]
mod tests;
mod wait;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use barrier::Place;
use channel::ChannelHome;
use liveness::guard;
use protocol::barrier::GenerationCursor;
use roster::Members;
use segment::Segment;
use status::Status;
use wait::WaitOptions;

use crate::CpuSet;

pub use channel::Channel;
pub use error::NodeError;
pub use exchange::Exchange;
pub use fork::ForkId;
pub(crate) use fork::pid_namespace;
pub(crate) use lending::{Loans, borrowed_cpus};
pub(crate) use limit::LimitedSegment;
pub use memory::{MemoryView, SharedMemory};
pub use name::SegmentName;
pub(crate) use others::Push;
pub use segment::CreatedSegment;

/// Default directory of segments.
pub const DEFAULT_DIRECTORY: &str = "/dev/shm";

/// How the members of a node wait for each other.
#[non_exhaustive]
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// Polls for a moment, then sleeps on a futex. Supports timeouts, deaths and changes of
    /// membership.
    #[default]
    Futex,
    /// Waits at a process-shared pthread barrier, for comparison. The membership is fixed, there is
    /// no timeout, and a death leaves the others waiting forever. Named barriers still use the
    /// futex.
    Pthread,
}

/// Options of a new segment.
#[derive(Clone, Debug)]
pub struct NodeOptions<'a> {
    /// Number of members expected to attach; the first barrier waits for all of them.
    pub members: usize,
    /// Maximum number of members, at most 4,095.
    pub capacity: usize,
    /// Capacity of each member's message in an exchange, in bytes; at least 64 are allocated.
    pub exchange_bytes: usize,
    /// Bytes that every member can read from the start.
    pub payload: &'a [u8],
    /// How the members wait at the node's barrier.
    pub wait: WaitKind,
    /// Directory of the segment's file. It must be in memory and shared by all members, and only
    /// its owner and the administrator may be able to replace files in it.
    pub directory: PathBuf,
}

impl NodeOptions<'_> {
    /// Returns options for exactly this many members, in [`DEFAULT_DIRECTORY`].
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self {
            members,
            capacity: members,
            exchange_bytes: 1_024,
            payload: &[],
            wait: WaitKind::default(),
            directory: DEFAULT_DIRECTORY.into(),
        }
    }
}

/// Process of a member, as the member published it. Informational: liveness is never derived from
/// it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberProcess {
    /// Process id within its PID namespace.
    pub id: u32,
    /// Inode of that namespace; zero if it could not be determined.
    pub namespace: u64,
}

/// Membership of a process in a node.
///
/// Can be used from any thread. Concurrent collective calls of one process on the same barrier are
/// serialised, so make them from one thread at a time, in the same order on every member. Dropping
/// the `Node` leaves the node as [`leave`](Self::leave) does.
#[derive(Debug)]
pub struct Node {
    home: Arc<Home>,
}

/// State shared by all handles of the node in one process.
#[derive(Debug)]
struct Home {
    segment: Segment,
    member: usize,
    process: ForkId,
    left: AtomicBool,
    may_spin: AtomicBool,
    /// True while the results of an exchange are borrowed.
    borrowed: AtomicBool,
    /// True while a thread of this process lends the member's CPUs.
    lending: AtomicBool,
    place: Mutex<Place>,
    publishing: Mutex<()>,
    channels: Mutex<BTreeMap<usize, Arc<ChannelHome>>>,
}

impl Home {
    /// Checks that this process may act as the member.
    #[inline]
    fn check(&self) -> Result<(), NodeError> {
        if self.process != ForkId::current() {
            Err(NodeError::Forked { member: self.member })
        } else if self.left.load(Ordering::Relaxed) {
            Err(NodeError::Left)
        } else {
            Ok(())
        }
    }

    /// Checks that a collective call is allowed now.
    #[inline]
    fn check_collective(&self, borrowed: &AtomicBool) -> Result<(), NodeError> {
        self.check()?;
        if borrowed.load(Ordering::Relaxed) { Err(NodeError::ExchangeInUse) } else { Ok(()) }
    }

    fn everyone(&self) -> Members<'_> {
        Members::everyone(&self.segment)
    }

    fn options(&self, timeout: Option<Duration>, spin: bool) -> WaitOptions {
        WaitOptions {
            // A timeout too long for an `Instant` is no deadline.
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            spin: spin && self.may_spin.load(Ordering::Relaxed),
        }
    }

    fn supports(&self, operation: &'static str) -> Result<(), NodeError> {
        match self.segment.layout.wait {
            WaitKind::Futex => Ok(()),
            kind => Err(NodeError::NotSupported { operation, kind }),
        }
    }

    fn slot_exists(&self, member: usize) -> Result<(), NodeError> {
        let capacity = self.segment.layout.capacity;
        if member < capacity { Ok(()) } else { Err(NodeError::NoSuchMember { member, capacity }) }
    }

    #[inline]
    fn pass(&self, place: &mut Place, options: WaitOptions) -> Result<(), NodeError> {
        match self.segment.layout.wait {
            WaitKind::Futex => {
                barrier::pass(&self.segment.barrier[0], place, &self.everyone(), options)
            }
            WaitKind::Pthread => {
                pthread::wait(&self.segment.pthread[0])?;
                place.cursor.completed += 1;
                Ok(())
            }
        }
    }

    /// Locks this member's place at a barrier if a collective call is allowed now.
    #[inline]
    fn take_turn<'a>(
        &self,
        place: &'a Mutex<Place>,
        borrowed: &AtomicBool,
    ) -> Result<MutexGuard<'a, Place>, NodeError> {
        // Checked before the lock, because in a forked child the lock may be held by a thread that
        // the child does not have, and again after it, because another thread may have left the
        // node.
        self.check()?;
        let place = guard(place);
        self.check_collective(borrowed)?;
        Ok(place)
    }

    fn position(&self) -> GenerationCursor {
        guard(&self.place).cursor.clone()
    }

    #[inline]
    fn barrier(&self, options: WaitOptions) -> Result<(), NodeError> {
        let mut place = self.take_turn(&self.place, &self.borrowed)?;
        let _lent = memprof_hooks::Lent::begin();
        self.pass(&mut place, options)
    }
}

impl Node {
    fn join(segment: Segment, member: usize) -> Result<Self, NodeError> {
        let capacity = segment.layout.capacity;
        let slot = segment.slots.get(member).ok_or(NodeError::NoSuchMember { member, capacity })?;
        // Waiting at such a barrier might never end.
        if !segment.barrier[0].state.word().is_open() {
            return Err(NodeError::Damaged { reason: "its barrier is not open" });
        }
        let locked = segment
            .file
            .lock(member as u64)
            .map_err(|error| NodeError::system("fcntl", segment.name.to_string(), error))?;
        if !locked {
            return Err(NodeError::MemberTaken { member });
        }
        let status = slot.status();
        let refused = match status {
            Some(Status::Awaited) => None,
            Some(Status::Free | Status::Left | Status::Expelled) => match segment.layout.wait {
                WaitKind::Futex => None,
                kind => Some(NodeError::NotSupported { operation: "attaching later", kind }),
            },
            // The slot's process died and the other members have not noticed yet.
            _ => Some(NodeError::MemberTaken { member }),
        };
        if let Some(error) = refused {
            let _ = segment.file.unlock(member as u64);
            return Err(error);
        }
        slot.process.store(std::process::id(), Ordering::Relaxed);
        slot.namespace.store(pid_namespace(), Ordering::Relaxed);
        slot.pushes.store(0, Ordering::Relaxed);
        masks::publish(&segment.masks[member], None)?;
        masks::publish(&segment.claims[member], None)?;
        lending::begin(&segment, member);
        if status != Some(Status::Awaited) {
            slot.joined.store(layout::JOINING, Ordering::Release);
        }
        if !status.is_some_and(|status| slot.change(status, Status::Present)) {
            let _ = segment.file.unlock(member as u64);
            return Err(NodeError::MemberTaken { member });
        }
        let cell = &segment.barrier[0];
        let place = if status == Some(Status::Awaited) {
            Place::founding()
        } else {
            barrier::reconcile(cell, &Members::everyone(&segment), true);
            let place = Place::joining(cell);
            slot.joined.store(place.cursor.completed, Ordering::Release);
            place
        };
        let place = Mutex::new(place);
        let may_spin = segment.layout.members <= processors();
        Ok(Self {
            home: Arc::new(Home {
                segment,
                member,
                process: ForkId::current(),
                left: AtomicBool::new(false),
                may_spin: AtomicBool::new(may_spin),
                borrowed: AtomicBool::new(false),
                lending: AtomicBool::new(false),
                place,
                publishing: Mutex::new(()),
                channels: Mutex::new(BTreeMap::new()),
            }),
        })
    }

    /// Returns the payload that the segment was created with. Local.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.home.segment.payload
    }

    /// Returns this process's member number. Local.
    #[must_use]
    pub fn member(&self) -> usize {
        self.home.member
    }

    /// Returns the number of members that the next barrier waits for. Local.
    #[must_use]
    pub fn members(&self) -> usize {
        match self.home.segment.layout.wait {
            WaitKind::Futex => self.home.segment.barrier[0].state.word().expected() as usize,
            WaitKind::Pthread => self.home.segment.layout.members,
        }
    }

    /// Returns the maximum number of members. Local.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.home.segment.layout.capacity
    }

    /// Returns the capacity of each member's message in an exchange, in bytes. Local.
    #[must_use]
    pub fn exchange_room(&self) -> usize {
        self.home.segment.board.room()
    }

    /// Returns the size of the segment in bytes; all members share it. Local.
    #[must_use]
    pub fn segment_bytes(&self) -> usize {
        self.home.segment.layout.total
    }

    /// Returns how the members wait at the node's barrier. Local.
    #[must_use]
    pub fn wait_kind(&self) -> WaitKind {
        self.home.segment.layout.wait
    }

    /// Returns the directory of the segment. Local.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.home.segment.directory
    }

    /// Allows or forbids this member to poll for a moment before it sleeps at a barrier. Local.
    /// Polling is allowed initially if there are no more members than processors; forbid it when
    /// members share CPUs.
    pub fn set_spin_allowed(&self, allowed: bool) {
        self.home.may_spin.store(allowed, Ordering::Relaxed);
    }

    /// Waits until all members have arrived. Collective over the node.
    ///
    /// The n-th call ends in the same way on every member.
    ///
    /// # Errors
    /// [`NodeError::DeadMember`] when a member died, and again until it is
    /// [expelled](Self::expel); [`NodeError::TimedOut`] when another member gave up with
    /// [`barrier_timeout`](Self::barrier_timeout); at once and on this member only,
    /// [`NodeError::ExchangeInUse`], [`NodeError::Left`] and [`NodeError::Forked`].
    #[doc(alias = "QUO_barrier")]
    pub fn barrier(&self) -> Result<(), NodeError> {
        self.home.barrier(self.home.options(None, true))
    }

    /// Like [`barrier`](Self::barrier), for a member that expects a long wait: it sleeps at once
    /// and leaves the CPU to working processes. Collective over the node; pairs with the other
    /// kinds.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    pub fn barrier_resting(&self) -> Result<(), NodeError> {
        self.home.barrier(self.home.options(None, false))
    }

    /// Like [`barrier`](Self::barrier), with a timeout. Collective over the node; the other members
    /// may wait with another timeout or none.
    ///
    /// When any member gives up, the call fails on every member: at once for waiting members, and
    /// on arrival for the rest. The next call is a new attempt for all members.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier), and [`NodeError::NotSupported`] for a pthread barrier.
    pub fn barrier_timeout(&self, timeout: Duration) -> Result<(), NodeError> {
        self.home.supports("a barrier with a timeout")?;
        self.home.barrier(self.home.options(Some(timeout), true))
    }

    /// Sends a message to all members and receives the message of each member. Collective over the
    /// node; contains one barrier. Does not allocate.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier), and [`NodeError::TooLarge`] on all members when the bytes of
    /// any of them do not fit in [`exchange_room`](Self::exchange_room).
    pub fn exchange(&self, mine: &[u8]) -> Result<Exchange<'_>, NodeError> {
        let home = &*self.home;
        let mut place = home.take_turn(&home.place, &home.borrowed)?;
        let (board, cursor) = (&home.segment.board, place.cursor.clone());
        board.write(&cursor, home.member, mine, &mut place.sent);
        home.pass(&mut place, home.options(None, true))?;
        let oversize = board.has_oversize(&cursor);
        let exchange = Exchange::new(board, cursor, &home.borrowed);
        if oversize {
            let (bytes, room) = (mine.len(), board.room());
            return Err(NodeError::TooLarge { what: "the contribution of a member", bytes, room });
        }
        Ok(exchange)
    }

    /// Returns the process that attached last as this member, as the process published it; `None`
    /// if no process has attached as this member. Local.
    #[must_use]
    pub fn member_process(&self, member: usize) -> Option<MemberProcess> {
        let slot = self.home.segment.slots.get(member)?;
        let id = slot.process.load(Ordering::Relaxed);
        let namespace = slot.namespace.load(Ordering::Relaxed);
        (id != 0).then_some(MemberProcess { id, namespace })
    }

    /// Returns true if a member is attached and its process is alive. Stopped processes are alive.
    /// Local.
    #[must_use]
    pub fn is_alive(&self, member: usize) -> bool {
        let slot = self.home.segment.slots.get(member);
        slot.is_some_and(|slot| slot.status() == Some(Status::Present))
            && !self.home.segment.note_if_dead(member)
    }

    /// Returns the members that died and are not expelled, in ascending order. Asks the kernel
    /// about each member. Local.
    #[must_use]
    pub fn dead_members(&self) -> Vec<usize> {
        let everyone = self.home.everyone();
        everyone.counted().filter(|&member| self.home.segment.note_if_dead(member)).collect()
    }

    /// Returns the members that the next barrier waits for, in ascending order. Local.
    #[must_use]
    pub fn member_list(&self) -> Vec<usize> {
        self.home.everyone().counted().collect()
    }

    /// Returns true if barriers wait for a member. Local.
    #[must_use]
    pub fn is_counted(&self, member: usize) -> bool {
        self.home.everyone().counted().any(|counted| counted == member)
    }

    /// Returns true if an exchange waited for a member; false for one that has joined since. Local.
    pub(crate) fn was_awaited(&self, member: usize, exchange: &Exchange<'_>) -> bool {
        let joined = |slot: &layout::Slot| slot.joined.load(Ordering::Acquire);
        let slot = self.home.segment.slots.get(member);
        self.is_counted(member) && slot.is_some_and(|slot| joined(slot) <= exchange.generation())
    }

    /// Returns the number of members that wait in the node's barrier now. Local.
    pub(crate) fn waiting(&self) -> usize {
        match self.home.segment.layout.wait {
            WaitKind::Futex => self.home.segment.barrier[0].state.word().arrived() as usize,
            WaitKind::Pthread => 0,
        }
    }

    /// Returns true if a member has left in order and not rejoined. Local.
    pub(crate) fn has_left(&self, member: usize) -> bool {
        let slot = self.home.segment.slots.get(member);
        slot.is_some_and(|slot| slot.status() == Some(Status::Left))
    }

    /// Leaves the node: from now on the barriers of the other members wait for one member less.
    /// Local; waits until this process's other threads have left its barriers. Leaving again does
    /// nothing.
    ///
    /// # Errors
    /// [`NodeError::ExchangeInUse`]; [`NodeError::Forked`]; [`NodeError::NotSupported`] for a
    /// pthread barrier, which counts a fixed number of members.
    pub fn leave(&self) -> Result<(), NodeError> {
        self.home.supports("leaving")?;
        match self.home.leave() {
            Err(NodeError::Left) => Ok(()),
            result => result,
        }
    }

    /// Removes a dead member so that the node can continue without it. Local, but meant for every
    /// surviving member: each calls it for the members named by [`NodeError::DeadMember`] before
    /// its next barrier. All but the first such call do nothing.
    ///
    /// # Errors
    /// [`NodeError::NotDead`] for a member whose process lives, or that never attached or has left;
    /// [`NodeError::NoSuchMember`]; [`NodeError::Left`]; [`NodeError::Forked`];
    /// [`NodeError::NotSupported`] for a pthread barrier.
    pub fn expel(&self, member: usize) -> Result<(), NodeError> {
        let home = &*self.home;
        home.supports("expelling a member")?;
        home.check()?;
        home.slot_exists(member)?;
        let slot = &home.segment.slots[member];
        let is = |status| slot.status() == Some(status);
        if home.segment.note_if_dead(member) {
            let is_dead = || is(Status::Dead);
            barrier::discard_arrivals(
                &home.segment.barrier[0],
                &home.segment.expelled_at,
                member,
                is_dead,
            );
            home.for_each_channel(|channel| channel.discard_arrivals(member, is_dead))?;
            home.segment.mark_expelled(member);
            home.reconcile(true)
        } else if is(Status::Expelled) {
            // Expelled by a member that may not have reached the second step yet.
            home.reconcile(false)
        } else {
            Err(NodeError::NotDead { member })
        }
    }
}

impl Home {
    /// Makes all barriers count the current members.
    fn reconcile(&self, changed: bool) -> Result<(), NodeError> {
        barrier::reconcile(&self.segment.barrier[0], &self.everyone(), changed);
        self.for_each_channel(|channel| channel.reconcile(self, changed))
    }

    fn leave(&self) -> Result<(), NodeError> {
        // First, because in a forked child the locks below may be held by threads it does not have.
        self.check()?;
        // While these locks are held, no thread of this process is in any barrier.
        let _place = guard(&self.place);
        let mut channels = guard(&self.channels);
        let mine: Vec<_> = channels.values().cloned().collect();
        let _places: Vec<_> = mine.iter().map(|channel| guard(&channel.place)).collect();
        self.check_collective(&self.borrowed)?;
        if mine.iter().any(|channel| channel.borrowed.load(Ordering::Relaxed)) {
            return Err(NodeError::ExchangeInUse);
        }
        self.left.store(true, Ordering::Relaxed);
        lending::begin(&self.segment, self.member);
        self.segment.slots[self.member].change(Status::Present, Status::Left);
        if self.segment.layout.wait == WaitKind::Futex {
            barrier::reconcile(&self.segment.barrier[0], &self.everyone(), true);
        }
        // Rejoining the node does not rejoin its named barriers.
        for channel in std::mem::take(&mut *channels).into_values() {
            channel.left.store(true, Ordering::Relaxed);
        }
        self.for_each_channel(|channel| {
            channel.remove(self.member);
            channel.reconcile(self, true);
        })?;
        self.segment
            .file
            .unlock(self.member as u64)
            .map_err(|error| NodeError::system("fcntl", self.segment.name.to_string(), error))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Already left, or a forked child: nothing to do and no one to notify.
        let _ = self.home.leave();
    }
}

/// Returns the number of processors online, regardless of this process's mask. Computed once per
/// process: a first estimate of whether each member has a CPU to itself, for callers that do not
/// know the members' masks.
fn processors() -> usize {
    static ONLINE: OnceLock<usize> = OnceLock::new();
    *ONLINE.get_or_init(|| {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
        online.ok().and_then(|list| list.trim().parse().ok()).map_or(1, |cpus: CpuSet| cpus.len())
    })
}
