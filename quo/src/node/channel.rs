//! Named barriers among some of a node's members.
//!
//! The segment has a fixed table of them. A name and its members hash to a key, and the first
//! member to ask writes the key into a free entry of the table. The rest of the initialisation does
//! not depend on the member that does it, and may be done twice. A named barrier lasts as long as
//! the segment, so there is nothing that a death could leave half removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use memprof_hooks::Lent;

use super::barrier::{self, Place};
use super::layout::{CHANNELS, Slot};
use super::liveness::guard;
use super::name::Fingerprint;
use super::protocol::barrier::GenerationCursor;
use super::roster::Members;
use super::segment::ChannelParts;
use super::status::{Status, contains};
use super::{Exchange, Home, Node, NodeError};

/// Barrier for some of the node's members, independent of the node's barrier.
///
/// Several can be in use at once. Dropping the handle does not affect other members; leaving the
/// node leaves its named barriers.
#[derive(Clone, Debug)]
pub struct Channel {
    pub(super) home: Arc<Home>,
    channel: Arc<ChannelHome>,
}

/// Per-process state of a named barrier.
#[derive(Debug)]
pub(super) struct ChannelHome {
    parts: ChannelParts,
    key: u64,
    pub(super) place: Mutex<Place>,
    pub(super) borrowed: AtomicBool,
    /// True if this process has left the node since; rejoining does not rejoin this barrier.
    pub(super) left: AtomicBool,
}

impl Node {
    /// Returns a separate barrier for `members` of the node, identified by `name`. Collective over
    /// `members`, which all pass the same list; does not wait. Asking again with the same name and
    /// members returns the same barrier. The same name with other members is another barrier.
    ///
    /// The barrier sleeps on a futex, even on a node whose own barrier is a pthread one.
    ///
    /// # Errors
    /// [`NodeError::InvalidChannel`] for an empty list, a list that is not ascending or lacks this
    /// member, or members that do not exist, or if the node already has 32 named barriers.
    pub fn named_barrier(&self, name: &str, members: &[usize]) -> Result<Channel, NodeError> {
        let home = &self.home;
        home.check()?;
        let refuse = |reason| NodeError::InvalidChannel { name: name.to_owned(), reason };
        if !members.is_sorted_by(|a, b| a < b) {
            return Err(refuse("the members are not in ascending order"));
        }
        if !members.contains(&home.member) {
            return Err(refuse("this process is not among the members"));
        }
        if members.last().is_some_and(|&last| last >= home.segment.layout.capacity) {
            return Err(refuse("a member does not exist"));
        }
        let key = key(name, members);
        let index = home.claim(key)?.ok_or_else(|| refuse("the node has no room for another"))?;
        let mut channels = guard(&home.channels);
        if let Some(channel) = channels.get(&index) {
            return Ok(Channel { home: Arc::clone(home), channel: Arc::clone(channel) });
        }
        let parts = home.segment.channel(index)?;
        make(&parts, members, home);
        if !parts.cell[0].barrier.state.word().is_open() {
            return Err(NodeError::Damaged { reason: "a named barrier is not open" });
        }
        let place = Mutex::new(join(&parts, home));
        let [borrowed, left] = [const { AtomicBool::new(false) }; 2];
        let channel = Arc::new(ChannelHome { parts, key, place, borrowed, left });
        channels.insert(index, Arc::clone(&channel));
        Ok(Channel { home: Arc::clone(home), channel })
    }
}

/// Returns the key of a named barrier; never zero, which marks a free entry.
fn key(name: &str, members: &[usize]) -> u64 {
    let mut hash = Fingerprint::new(0xc4);
    for member in members {
        hash.bytes(&(*member as u64).to_le_bytes());
    }
    hash.bytes(name.as_bytes());
    hash.finish().max(1)
}

/// Initialises a named barrier. The first of its members does it, without harm if several do.
/// Members that have not attached yet are counted when they join.
fn make(parts: &ChannelParts, members: &[usize], home: &Home) {
    let barrier = &parts.cell[0].barrier;
    if barrier.state.word().is_open() {
        return;
    }
    let mut counted = 0;
    for (index, word) in parts.members.iter().enumerate() {
        let bits = members
            .iter()
            .filter(|&&member| member / 64 == index && home.is_counted(member))
            .fold(0, |bits, member| bits | 1 << (member % 64));
        let result = word.compare_exchange(0, bits, Ordering::AcqRel, Ordering::Acquire);
        counted += u64::from(result.map_or_else(|first| first, |_| bits).count_ones());
    }
    barrier.state.open(counted);
    parts.reconcile(home, true);
}

/// Counts this process in. It is counted already if it was present when the named barrier was made
/// and has not left since.
fn join(parts: &ChannelParts, home: &Home) -> Place {
    let bit = 1 << (home.member % 64);
    if parts.members[home.member / 64].fetch_or(bit, Ordering::AcqRel) & bit != 0 {
        return Place::founding();
    }
    parts.reconcile(home, true);
    Place::joining(&parts.cell[0].barrier)
}

impl ChannelParts {
    /// Fails the open generation if the dead member may have arrived at it, then removes the
    /// member.
    pub(super) fn discard_arrivals(&self, member: usize, is_dead: impl Fn() -> bool) {
        let is_ours = || is_dead() && contains(&self.members, member);
        if is_ours() {
            barrier::discard_arrivals(&self.cell[0].barrier, &self.expelled_at, member, is_ours);
            self.remove(member);
        }
    }

    /// Removes a member from the list.
    pub(super) fn remove(&self, member: usize) {
        self.members[member / 64].fetch_and(!(1 << (member % 64)), Ordering::AcqRel);
    }

    /// Makes the barrier count the members on the list; `changed` if the caller has changed it.
    pub(super) fn reconcile(&self, home: &Home, changed: bool) {
        let barrier = &self.cell[0].barrier;
        barrier::reconcile(barrier, &Members::some(&home.segment, self), changed);
    }
}

impl Home {
    /// Claims the table entry of a named barrier; `None` if the table is full.
    fn claim(&self, key: u64) -> Result<Option<usize>, NodeError> {
        for index in 0..CHANNELS {
            let parts = self.segment.channel(index)?;
            let place = &parts.cell[0].key;
            match place.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Some(index)),
                Err(current) if current == key => return Ok(Some(index)),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Returns true if a member is counted by the node's barrier.
    fn is_counted(&self, member: usize) -> bool {
        self.segment.slots.get(member).and_then(Slot::status).is_some_and(Status::is_counted)
    }

    /// Calls `act` for each named barrier of the node.
    pub(super) fn for_each_channel(&self, act: impl Fn(&ChannelParts)) -> Result<(), NodeError> {
        for index in 0..CHANNELS {
            let parts = self.segment.channel(index)?;
            if parts.cell[0].key.load(Ordering::Acquire) == 0 {
                break;
            }
            act(&parts);
        }
        Ok(())
    }
}

impl Channel {
    fn members_view(&self) -> Members<'_> {
        Members::some(&self.home.segment, &self.channel.parts)
    }

    fn pass(&self, place: &mut Place, timeout: Option<Duration>) -> Result<(), NodeError> {
        let cell = &self.channel.parts.cell[0].barrier;
        barrier::pass(cell, place, &self.members_view(), self.home.options(timeout, true))
    }

    fn take_turn(&self) -> Result<MutexGuard<'_, Place>, NodeError> {
        let place = self.home.take_turn(&self.channel.place, &self.channel.borrowed)?;
        if self.channel.left.load(Ordering::Relaxed) { Err(NodeError::Left) } else { Ok(place) }
    }

    fn cross(&self, timeout: Option<Duration>) -> Result<(), NodeError> {
        let mut place = self.take_turn()?;
        let _lent = Lent::begin();
        self.pass(&mut place, timeout)
    }

    pub(super) fn position(&self) -> GenerationCursor {
        guard(&self.channel.place).cursor.clone()
    }

    pub(super) fn key(&self) -> u64 {
        self.channel.key
    }

    /// Returns the members that this barrier waits for, in ascending order. Local.
    #[must_use]
    pub fn members(&self) -> Vec<usize> {
        self.members_view().counted().collect()
    }

    /// Waits until all members of this barrier have arrived. Collective over them.
    ///
    /// # Errors
    /// As [`Node::barrier`]; the death of a node member that is not a member of this barrier has no
    /// effect.
    pub fn barrier(&self) -> Result<(), NodeError> {
        self.cross(None)
    }

    /// Like [`barrier`](Self::barrier), with a timeout that ends the wait for all members.
    ///
    /// # Errors
    /// As [`Node::barrier_timeout`].
    pub fn barrier_timeout(&self, timeout: Duration) -> Result<(), NodeError> {
        self.cross(Some(timeout))
    }

    /// Sends the members of this barrier a message of at most 48 bytes, and receives the message of
    /// each member. Collective over them.
    ///
    /// # Errors
    /// As [`Node::exchange`].
    pub fn exchange(&self, mine: &[u8]) -> Result<Exchange<'_>, NodeError> {
        let (board, borrowed) = (&self.channel.parts.board, &self.channel.borrowed);
        let mut place = self.take_turn()?;
        let cursor = place.cursor.clone();
        board.write(&cursor, self.home.member, mine, &mut place.sent);
        self.pass(&mut place, None)?;
        let oversize = board.has_oversize(&cursor);
        let exchange = Exchange::new(board, cursor, borrowed);
        if oversize {
            let (bytes, room) = (mine.len(), board.room());
            return Err(NodeError::TooLarge { what: "the contribution of a member", bytes, room });
        }
        Ok(exchange)
    }
}
