//! Messages that bring the ghost cells of all ranks up to date.

use std::collections::BTreeMap;

use super::distribution::Distribution;
use super::halo::Segment;
use super::kernel::{self, LEVELS, Level, LoopNest};
use super::{LayoutError, message::check};

/// Ghost cells that a rank exchanges with another one, or with itself at the ends of a periodic
/// dimension. Both ends of a message compute the same order of its bytes.
#[derive(Clone, Debug)]
pub struct HaloMessage {
    peer: usize,
    /// Length of the memory in bytes.
    memory: usize,
    sent: Vec<Region>,
    received: Vec<Region>,
}

/// Cells in the memory of a rank: the offset of the first one in bytes, and the loops over them.
#[derive(Clone, Copy, Debug)]
struct Region {
    begin: usize,
    nest: LoopNest,
}

fn bytes(regions: &[Region]) -> usize {
    regions.iter().map(|region| region.nest.bytes()).sum()
}

impl HaloMessage {
    /// Returns the rank at the other end; this rank if it has both.
    #[must_use]
    pub fn peer(&self) -> usize {
        self.peer
    }

    /// Number of bytes that go to the other rank.
    #[must_use]
    pub fn sent_bytes(&self) -> usize {
        bytes(&self.sent)
    }

    /// Number of bytes received from the other rank.
    #[must_use]
    pub fn received_bytes(&self) -> usize {
        bytes(&self.received)
    }

    /// Packs the cells that the other rank gets.
    ///
    /// # Errors
    /// [`LayoutError::Memory`] if `memory` is not that of this rank's part, or `packed` is not
    /// [`HaloMessage::sent_bytes`] long; nothing is written then.
    pub fn pack(&self, memory: &[u8], packed: &mut [u8]) -> Result<(), LayoutError> {
        check("pack", "memory it comes from", self.memory, memory.len())?;
        check("pack", "packed message", self.sent_bytes(), packed.len())?;
        let mut rest = packed;
        for region in &self.sent {
            let (part, behind) = rest.split_at_mut(region.nest.bytes());
            kernel::gather(&region.nest.at_source(), &memory[region.begin..], part);
            rest = behind;
        }
        Ok(())
    }

    /// Writes received cells into the ghost cells of this rank.
    ///
    /// # Errors
    /// [`LayoutError::Memory`] if `packed` is not [`HaloMessage::received_bytes`] long or `memory`
    /// is not that of this rank's part; nothing is written then.
    pub fn unpack(&self, packed: &[u8], memory: &mut [u8]) -> Result<(), LayoutError> {
        check("unpack", "packed message", self.received_bytes(), packed.len())?;
        check("unpack", "memory it goes to", self.memory, memory.len())?;
        let mut rest = packed;
        for region in &self.received {
            let (part, behind) = rest.split_at(region.nest.bytes());
            kernel::scatter(&region.nest.at_target(), part, &mut memory[region.begin..]);
            rest = behind;
        }
        Ok(())
    }
}

impl Distribution {
    /// Returns the messages that a rank receives for its ghost cells and sends for the ghost cells of
    /// other ranks, by ascending peer, for elements of `element` bytes. Each ghost cell is sent by
    /// its owner, in corners too. No messages without ghost cells. Local and pure; the time depends on the number of ranks along each dimension.
    ///
    /// ```
    /// use elastic_layout::{Distribution, Halo, Ranks};
    ///
    /// let halo = [Halo::NONE, Halo::NONE, Halo::periodic(1)];
    /// let ring = Distribution::halo([1, 1, 6], halo, [1, 1, 3], Ranks::first(3))?;
    /// let messages = ring.halo_messages(1, 1);
    /// assert_eq!(messages.iter().map(|message| message.peer()).collect::<Vec<_>>(), [0, 2]);
    /// let (memory, mut packed) = ([0, 7, 8, 0], [0]);
    /// messages[0].pack(&memory, &mut packed)?; // and send it to messages[0].peer()
    /// assert_eq!(packed, [7]);
    /// # Ok::<(), elastic_layout::LayoutError>(())
    /// ```
    #[must_use]
    pub fn halo_messages(&self, rank: usize, element: usize) -> Vec<HaloMessage> {
        let mut messages = BTreeMap::new();
        let (Some(own), true) = (self.parts_of(rank), self.has_halo()) else { return Vec::new() };
        let memory = self.room(rank) * element;
        if memory == 0 {
            return Vec::new();
        }
        let mut add = |parts: [usize; 3], cells: [Segment; 3], to_peer: bool| {
            if cells.iter().all(|segment| segment.owned) {
                return;
            }
            let (row, column) = (parts[0] * self.rows.parts() + parts[1], parts[2]);
            let peer = self.ranks.at(self.grid.position(row, column));
            let message = messages.entry(peer).or_insert_with(|| HaloMessage {
                peer,
                memory,
                sent: Vec::new(),
                received: Vec::new(),
            });
            let starts = cells.map(|cells| if to_peer { cells.source } else { cells.start });
            let region = self.region(own, starts, cells.map(|cells| cells.length), element);
            if to_peer { message.sent.push(region) } else { message.received.push(region) }
        };
        let memories =
            [0, 1, 2].map(|along| self.halo[along].segments(self.axis(along), own[along]));
        each(&memories, |cells| add(cells.map(|cells| cells.owner), cells, false));
        // By dimension: the parts that hold cells of this one, and those cells.
        let wanted = [0, 1, 2].map(|along| {
            let axis = self.axis(along);
            let of = |part| {
                let mut cells = self.halo[along].segments(axis, part);
                cells.retain(|segment| segment.owner == own[along]);
                (part, cells)
            };
            let parts = (0..axis.parts()).map(of).filter(|(_, cells)| !cells.is_empty());
            parts.collect::<Vec<_>>()
        });
        for (layer, layers) in &wanted[0] {
            for (row, rows) in &wanted[1] {
                for (column, columns) in &wanted[2] {
                    let cells = [layers, rows, columns];
                    each(&cells, |cells| add([*layer, *row, *column], cells, true));
                }
            }
        }
        messages.into_values().collect()
    }

    fn region(
        &self,
        own: [usize; 3],
        starts: [usize; 3],
        lengths: [usize; 3],
        element: usize,
    ) -> Region {
        let strides = self.strides(own);
        let strides = [strides.layer, strides.row, strides.column].map(|one| one * element);
        let mut levels = [Level { count: 1, from: 0, to: 0 }; LEVELS];
        for along in 0..3 {
            let (from, to) = (strides[along], strides[along]);
            levels[along] = Level { count: lengths[along], from, to };
        }
        let begin = (0..3).map(|along| starts[along] * strides[along]).sum();
        Region { begin, nest: LoopNest::new(levels, element) }
    }
}

/// Calls `call` with each combination of a segment of each dimension.
fn each<S: AsRef<[Segment]>>(segments: &[S; 3], mut call: impl FnMut([Segment; 3])) {
    for layers in segments[0].as_ref() {
        for rows in segments[1].as_ref() {
            for columns in segments[2].as_ref() {
                call([*layers, *rows, *columns]);
            }
        }
    }
}
