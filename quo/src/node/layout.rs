#![allow(unsafe_code)]
//! Addresses of everything in a segment.
//!
//! ```text
//! header | barrier | pthread barrier | decision | slots | expelled_at | masks, claims, limit |
//! exchange (2 boards) | channels | payload
//! ```
//! The header gives the size and the offset of each part. A process that attaches computes the
//! offsets again from the sizes and refuses a header that differs, so no offset is trusted.

use std::sync::atomic::{AtomicU32, AtomicU64};

use super::mapping::ShmSafe;
use super::name::SECRET_BYTES;
use super::protocol::barrier::{MOST_MEMBERS, State};
use super::protocol::lending;
use super::{NodeError, WaitKind};

/// Two cache lines: processors prefetch neighbouring lines in pairs.
pub(super) const LINE: usize = 128;
/// CPUs that a published mask can name, in 64-bit words: the maximum that Linux can be built for.
pub(super) const MASK_WORDS: usize = 8_192 / 64;
/// Maximum number of named barriers of a node.
pub(super) const CHANNELS: usize = 32;
/// Capacity of each member's message in an exchange over a named barrier, in bytes.
pub(super) const CHANNEL_ROOM: usize = 48;
/// Capacity that the library itself needs in an exchange.
const LEAST_ROOM: usize = 64;
const MOST_ROOM: usize = 1 << 20;
const MOST_PAYLOAD: usize = 1 << 30;

const MAGIC: [u8; 8] = *b"quo-node";
const VERSION: u32 = 7;
const BYTE_ORDER: u32 = 0x0102_0304;

/// First bytes of a segment. Written once, before any other process can know the name.
#[repr(C)]
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    magic: [u8; 8],
    version: u32,
    byte_order: u32,
    header_bytes: u32,
    line: u32,
    total: u64,
    capacity: u32,
    members: u32,
    room: u32,
    wait: u32,
    payload_bytes: u64,
    places: [u64; 9],
    secret: [u8; SECRET_BYTES],
}

pub(super) const HEADER_BYTES: usize = size_of::<Header>();

// SAFETY: plain integers without padding (checked below), read once from a private copy.
unsafe impl ShmSafe for Header {}
const _: () = assert!(HEADER_BYTES == 8 + 4 * 4 + 8 + 4 * 4 + 8 + 9 * 8 + SECRET_BYTES);

/// One member's slot.
#[repr(C, align(128))]
pub(super) struct Slot {
    pub(super) status: AtomicU32,
    pub(super) process: AtomicU32,
    pub(super) namespace: AtomicU64,
    /// Number of bindings the member has pushed and not popped.
    pub(super) pushes: AtomicU32,
    /// Number of the first generation of the node's barrier that waits for the member; [`JOINING`]
    /// until that is known.
    pub(super) joined: AtomicU64,
    pub(super) lending: lending::State<AtomicU64>,
}
// SAFETY: atomics and padding.
unsafe impl ShmSafe for Slot {}

/// Number of a generation that is never reached.
pub(super) const JOINING: u64 = u64::MAX;

/// A barrier: the word that all members spin on, and on another line the words that only sleepers
/// touch.
#[repr(C, align(128))]
pub(super) struct BarrierCell {
    pub(super) state: State<AtomicU64>,
    pub(super) rounds: Rounds,
}
// SAFETY: atomics and padding.
unsafe impl ShmSafe for BarrierCell {}

/// Counters that let the waiters share the liveness checks.
#[repr(C, align(128))]
pub(super) struct Rounds {
    /// Number of inspections that waiters have made.
    pub(super) inspections: AtomicU32,
    /// Number of deaths ever recorded or being recorded.
    pub(super) deaths: AtomicU32,
    /// Number of these deaths that need no more searching. Equal to `deaths` if no member is dead.
    pub(super) burials: AtomicU32,
}

/// A decision that the members make without waiting, see `decision`.
#[repr(C, align(128))]
pub(super) struct DecisionCell {
    /// Last decision and the turn at which it was made.
    pub(super) word: AtomicU64,
    /// Number of requests so far to answer yes at the next decision.
    pub(super) requests: AtomicU64,
}
// SAFETY: atomics and padding.
unsafe impl ShmSafe for DecisionCell {}

/// A member's mask, in two copies of which one is consistent at any time.
#[repr(C, align(128))]
pub(super) struct MaskCell {
    /// The copy `version % 2` is the published one.
    pub(super) version: AtomicU32,
    /// Words plus one; zero: no mask.
    pub(super) lengths: [AtomicU32; 2],
    pub(super) words: [[AtomicU64; MASK_WORDS]; 2],
}
// SAFETY: atomics and padding.
unsafe impl ShmSafe for MaskCell {}

/// A process-shared pthread barrier, for comparison.
#[repr(C, align(128))]
pub(super) struct PthreadCell(pub(super) std::cell::UnsafeCell<libc::pthread_barrier_t>);
// SAFETY: opaque to us; only its address is used, by the C library, which synchronises.
unsafe impl ShmSafe for PthreadCell {}
// SAFETY: as above.
unsafe impl Sync for PthreadCell {}

/// Fixed part of a named barrier.
#[repr(C, align(128))]
pub(super) struct ChannelCell {
    pub(super) barrier: BarrierCell,
    /// Fingerprint of the name and members; zero if free.
    pub(super) key: AtomicU64,
}
// SAFETY: atomics and padding.
unsafe impl ShmSafe for ChannelCell {}

/// Offsets and sizes of the parts, in bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) capacity: usize,
    pub(super) members: usize,
    pub(super) room: usize,
    pub(super) wait: WaitKind,
    pub(super) payload_bytes: usize,
    pub(super) barrier: usize,
    pub(super) pthread: usize,
    pub(super) decision: usize,
    pub(super) slots: usize,
    pub(super) expelled_at: usize,
    pub(super) masks: usize,
    pub(super) exchange: usize,
    pub(super) channels: usize,
    pub(super) payload: usize,
    pub(super) total: usize,
    /// Secret from which the names of further files are derived; the segment's own name is visible
    /// to anyone.
    pub(super) secret: [u8; SECRET_BYTES],
}

/// Shape of an exchange board, which has an entry per member.
#[derive(Copy, Clone, Debug)]
pub(super) struct BoardShape {
    pub(super) room: usize,
    pub(super) capacity: usize,
}

impl BoardShape {
    /// Returns the bytes from one entry to the next.
    pub(super) const fn stride(self) -> usize {
        (ENTRY_HEADER + self.room).next_multiple_of(LINE)
    }

    /// Returns the bytes of both boards.
    pub(super) const fn bytes(self) -> usize {
        2 * self.capacity * self.stride()
    }
}

/// Bytes of both stamps and the length, before the message in an exchange entry.
pub(super) const ENTRY_HEADER: usize = 2 * size_of::<u64>() + size_of::<u32>();

impl Layout {
    /// Computes the layout of a segment.
    pub(super) fn new(
        members: usize,
        capacity: usize,
        room: usize,
        payload_bytes: usize,
        wait: WaitKind,
    ) -> Result<Self, NodeError> {
        let invalid =
            |option, value, reason| Err(NodeError::InvalidOption { option, value, reason });
        if members == 0 {
            return invalid("members", members, "a node has at least one");
        }
        if capacity > MOST_MEMBERS {
            return invalid("capacity", capacity, "at most 4,095");
        }
        if capacity < members {
            return invalid("capacity", capacity, "at least the number of members");
        }
        if room > MOST_ROOM {
            return invalid("exchange_bytes", room, "at most 1 MiB");
        }
        if payload_bytes > MOST_PAYLOAD {
            return invalid("payload", payload_bytes, "at most 1 GiB");
        }
        let room = room.max(LEAST_ROOM);
        let mut end = HEADER_BYTES;
        // No overflow: the limits above keep the sum below 2^34, and pointers have 64 bits.
        let mut place = |bytes: usize| {
            let start = end.next_multiple_of(LINE);
            end = start + bytes;
            start
        };
        let barrier = place(size_of::<BarrierCell>());
        let pthread = place(size_of::<PthreadCell>());
        let decision = place(size_of::<DecisionCell>());
        let slots = place(capacity * size_of::<Slot>());
        let expelled_at = place(expelled_at_bytes(capacity));
        // The mask each member is bound to, then the CPUs each claims, then the limit for all
        // members.
        let masks = place((2 * capacity + 1) * size_of::<MaskCell>());
        let exchange = place(BoardShape { room, capacity }.bytes());
        let channels = place(CHANNELS * channel_stride(capacity));
        let payload = place(payload_bytes);
        Ok(Self {
            capacity,
            members,
            room,
            wait,
            payload_bytes,
            barrier,
            pthread,
            decision,
            slots,
            expelled_at,
            masks,
            exchange,
            channels,
            payload,
            total: end.next_multiple_of(LINE),
            secret: [0; SECRET_BYTES],
        })
    }

    /// Returns the offset of the claims.
    pub(super) const fn claims(&self) -> usize {
        self.masks + self.capacity * size_of::<MaskCell>()
    }

    /// Returns the offset of the limit.
    pub(super) const fn limit(&self) -> usize {
        self.masks + 2 * self.capacity * size_of::<MaskCell>()
    }

    /// Returns the header that describes this layout.
    pub(super) fn header(&self) -> Header {
        Header {
            magic: MAGIC,
            version: VERSION,
            byte_order: BYTE_ORDER,
            header_bytes: HEADER_BYTES as u32,
            line: LINE as u32,
            total: self.total as u64,
            capacity: self.capacity as u32,
            members: self.members as u32,
            room: self.room as u32,
            wait: match self.wait {
                WaitKind::Futex => 0,
                WaitKind::Pthread => 1,
            },
            payload_bytes: self.payload_bytes as u64,
            places: [
                self.barrier,
                self.pthread,
                self.decision,
                self.slots,
                self.expelled_at,
                self.masks,
                self.exchange,
                self.channels,
                self.payload,
            ]
            .map(|place| place as u64),
            secret: self.secret,
        }
    }

    /// Returns the layout that a header of a file of `size` bytes describes; `Err` names the fault.
    pub(super) fn read(bytes: &[u8; HEADER_BYTES], size: u64) -> Result<Self, String> {
        // SAFETY: `Header` is plain integers, of which any bytes are values; the read does not
        // need alignment.
        let header: Header = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        if header.magic != MAGIC {
            return Err("it does not begin as a segment does".to_owned());
        }
        if header.byte_order != BYTE_ORDER {
            return Err("it was written with another byte order".to_owned());
        }
        if header.version != VERSION {
            return Err(format!(
                "it has layout version {}, this library uses version {VERSION}",
                header.version
            ));
        }
        if header.total != size {
            return Err(format!("it has {size} bytes and should have {}", header.total));
        }
        let wait = match header.wait {
            0 => WaitKind::Futex,
            1 => WaitKind::Pthread,
            other => return Err(format!("it waits in an unknown way ({other})")),
        };
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let layout = Self::new(
            header.members as usize,
            header.capacity as usize,
            header.room as usize,
            number(header.payload_bytes),
            wait,
        )
        .map_err(|error| error.to_string())?;
        let layout = Self { secret: header.secret, ..layout };
        if layout.header() != header {
            return Err("its sizes and places contradict each other".to_owned());
        }
        Ok(layout)
    }

    /// Returns the header's bytes.
    pub(super) fn header_bytes(&self) -> [u8; HEADER_BYTES] {
        let header = self.header();
        // SAFETY: `Header` has no padding (asserted above), so all its bytes are initialised.
        unsafe { std::mem::transmute(header) }
    }

    /// Returns the offsets of the parts of one channel.
    pub(super) fn channel(&self, index: usize) -> ChannelPlaces {
        let start = self.channels + index * channel_stride(self.capacity);
        let members = start + size_of::<ChannelCell>();
        let expelled_at = members + member_words(self.capacity) * size_of::<AtomicU64>();
        let exchange = expelled_at + expelled_at_bytes(self.capacity);
        ChannelPlaces { cell: start, members, expelled_at, exchange }
    }
}

/// Parts of one channel, in bytes from the start of the segment.
pub(super) struct ChannelPlaces {
    pub(super) cell: usize,
    /// One bit per member of the node.
    pub(super) members: usize,
    pub(super) expelled_at: usize,
    pub(super) exchange: usize,
}

/// Returns the words of a set of members, rounded up to whole lines.
pub(super) const fn member_words(capacity: usize) -> usize {
    capacity.div_ceil(64).next_multiple_of(LINE / 8)
}

/// Returns the bytes of one number per member for one barrier: how many of its generations had
/// failed, plus one, when the member was expelled. Rounded up to whole lines.
const fn expelled_at_bytes(capacity: usize) -> usize {
    (capacity * size_of::<AtomicU32>()).next_multiple_of(LINE)
}

const fn channel_stride(capacity: usize) -> usize {
    size_of::<ChannelCell>()
        + member_words(capacity) * size_of::<AtomicU64>()
        + expelled_at_bytes(capacity)
        + BoardShape { room: CHANNEL_ROOM, capacity }.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new(4, 6, 100, 1_000, WaitKind::Futex).unwrap()
    }

    #[test]
    fn a_header_tells_the_layout_again() {
        let layout = layout();
        assert_eq!(Layout::read(&layout.header_bytes(), layout.total as u64), Ok(layout));
    }

    #[test]
    fn any_changed_byte_of_a_header_is_refused_or_harmless() {
        let layout = layout();
        for index in 0..HEADER_BYTES {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = layout.header_bytes();
                bytes[index] ^= flip;
                if let Ok(read) = Layout::read(&bytes, layout.total as u64) {
                    // A segment of the same shape with other members or another kind of waiting.
                    assert_eq!(read.total, layout.total, "byte {index}");
                    assert_eq!(read.payload, layout.payload, "byte {index}");
                    assert!(read.members <= read.capacity, "byte {index}");
                }
            }
        }
    }

    #[test]
    fn a_truncated_file_is_refused() {
        let layout = layout();
        let reason = Layout::read(&layout.header_bytes(), layout.total as u64 - 1).unwrap_err();
        assert!(reason.contains("bytes and should have"), "{reason}");
    }

    #[test]
    fn options_out_of_range_are_refused() {
        for (members, capacity, room, payload) in
            [(0, 1, 0, 0), (2, 1, 0, 0), (1, 4_096, 0, 0), (1, 1, 1 << 21, 0), (1, 1, 0, 1 << 31)]
        {
            assert!(Layout::new(members, capacity, room, payload, WaitKind::Futex).is_err());
        }
    }

    #[test]
    fn a_rank_costs_less_than_a_quarter_megabyte() {
        for members in [1, 2, 4, 16, 64, 256, 1_024] {
            let layout = Layout::new(members, members, 4_096, 32_768, WaitKind::Futex).unwrap();
            assert!(layout.total / members <= 256 << 10, "{members}: {}", layout.total);
        }
    }
}
