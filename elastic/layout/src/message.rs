//! Message from one rank to another: its bytes in the sender's memory, and their places in the
//! receiver's.

use std::ops::Range;
use std::sync::Arc;

use super::LayoutError;
use super::kernel::{self, LEVELS, Level, LoopNest};
use super::meet::{Family, Position, Repeat};
use super::memory::Strides;

/// Memory of one end: the offset of the first element that it owns, its strides, and its length, in
/// elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub begin: usize,
    pub strides: Strides,
    pub room: usize,
}

/// Memory that a message is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Source {
    /// The memory of the old distribution.
    #[default]
    Old,
    /// The memory of the new distribution, filled in an earlier step: ranks pass replicated arrays
    /// on after receiving them.
    New,
}

/// Data sent from one rank to another, or kept and moved to another place.
///
/// It is described by a few strides, whatever the size of the array. Both ends compute the same
/// order of the packed bytes, so that [`Message::unpack`] at one end puts the bytes in place that
/// [`Message::pack`] wrote at the other. If both memories are accessible, [`Message::copy`] does
/// both at once.
#[derive(Clone, Debug)]
pub struct Message {
    pub(super) peer: usize,
    pub(super) source: Source,
    pub(super) element: usize,
    pub(super) layers: Arc<[Family]>,
    pub(super) rows: Arc<[Family]>,
    pub(super) columns: Arc<[Family]>,
    pub(super) from: End,
    pub(super) to: End,
}

/// Bytes that are contiguous at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Offset in the source memory, in bytes.
    pub from: usize,
    /// Offset in the target memory, in bytes.
    pub to: usize,
    /// Number of bytes.
    pub length: usize,
}

impl Message {
    /// Returns the rank at the other end; this rank if the data stay.
    #[must_use]
    pub fn peer(&self) -> usize {
        self.peer
    }

    /// Returns the memory that the sender takes it from: the old or the new one.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Number of bytes moved.
    #[must_use]
    pub fn bytes(&self) -> usize {
        indices(&self.layers) * indices(&self.rows) * indices(&self.columns) * self.element
    }

    /// Length of the source memory in bytes.
    #[must_use]
    pub fn source_bytes(&self) -> usize {
        self.from.room * self.element
    }

    /// Length of the target memory in bytes.
    #[must_use]
    pub fn target_bytes(&self) -> usize {
        self.to.room * self.element
    }

    /// Range from the first to the last of its bytes in the source memory, which may include bytes
    /// of other messages.
    #[must_use]
    pub fn source_span(&self) -> Range<usize> {
        span(self.nests().map(|(from, _, nest)| (from, nest)), |level| level.from)
    }

    /// Range from the first to the last of its bytes in the target memory, which may include bytes
    /// of other messages.
    #[must_use]
    pub fn target_span(&self) -> Range<usize> {
        span(self.nests().map(|(_, to, nest)| (to, nest)), |level| level.to)
    }

    /// Iterates over its pieces in no particular order: the longest runs that are contiguous at
    /// both ends. Computed lazily; there may be as many pieces as elements.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.nests().flat_map(|(from, to, nest)| {
            let nest = nest.at_both();
            (0..nest.runs()).map(move |number| {
                let mut piece = Piece { from, to, length: nest.run };
                let mut rest = number;
                for level in nest.levels().iter().rev() {
                    piece.from += rest % level.count * level.from;
                    piece.to += rest % level.count * level.to;
                    rest /= level.count;
                }
                piece
            })
        })
    }

    /// Number of pieces.
    #[must_use]
    pub fn piece_count(&self) -> usize {
        self.nests().map(|(_, _, nest)| nest.at_both().runs()).sum()
    }

    /// Splits the message into parts of at most `bytes` bytes, or of one element: each is a
    /// separate message, and both ends split alike. If the parts fit in a cache, a buffer of that size is
    /// enough, and packed bytes can be unpacked before they have left the cache. See also
    /// [`in_turns`].
    pub fn split(&self, bytes: usize) -> impl Iterator<Item = Self> + '_ {
        let one: Box<dyn Iterator<Item = Self> + '_> = if indices(&self.layers) == 1 {
            Box::new(self.split_layer(bytes))
        } else {
            let layer = indices(&self.rows) * indices(&self.columns) * self.element;
            Box::new(cut(&self.layers, (bytes / layer.max(1)).max(1)).flat_map(move |layers| {
                let some = Self { layers: Arc::from([layers]), ..self.clone() };
                some.split_layer(bytes).collect::<Vec<_>>()
            }))
        };
        one
    }

    /// Splits rows and columns; the layers stay together.
    fn split_layer(&self, bytes: usize) -> impl Iterator<Item = Self> + '_ {
        let most = bytes / self.element;
        // Splits along the axis with the larger stride, and along the other one if that is not
        // enough.
        let by_rows = self.from.strides.row >= self.from.strides.column;
        let (outer, inner) =
            if by_rows { (&self.rows, &self.columns) } else { (&self.columns, &self.rows) };
        // If rows become columns in memory, parts are about as high as they are wide.
        let turned = by_rows != (self.to.strides.row >= self.to.strides.column);
        let widest = if turned { (most / kernel::SQUARE).max(1) } else { most };
        let width = indices(inner);
        let whole = (width <= widest).then(|| Arc::clone(inner));
        cut(outer, most / width.min(widest).max(1)).flat_map(move |outer| {
            let outer: Arc<[Family]> = Arc::from([outer]);
            let parts = if whole.is_some() { &[] } else { &inner[..] };
            let parts = cut(parts, widest).map(|family| Arc::from([family]));
            whole.clone().into_iter().chain(parts).map(move |inner| {
                let outer = Arc::clone(&outer);
                let (rows, columns) = if by_rows { (outer, inner) } else { (inner, outer) };
                Self { rows, columns, ..self.clone() }
            })
        })
    }

    /// Packs the data for sending.
    ///
    /// # Errors
    /// [`LayoutError::Memory`] if `memory` is not [`Message::source_bytes`] long or `packed` is not
    /// [`Message::bytes`] long; nothing is written then.
    pub fn pack(&self, memory: &[u8], packed: &mut [u8]) -> Result<(), LayoutError> {
        check("pack", "memory it comes from", self.source_bytes(), memory.len())?;
        check("pack", "packed message", self.bytes(), packed.len())?;
        let mut rest = packed;
        for (from, _, nest) in self.nests() {
            let (part, behind) = rest.split_at_mut(nest.bytes());
            kernel::gather(&nest.at_source(), &memory[from..], part);
            rest = behind;
        }
        Ok(())
    }

    /// Puts received data in place.
    ///
    /// # Errors
    /// [`LayoutError::Memory`] if `packed` is not [`Message::bytes`] long or `memory` is not
    /// [`Message::target_bytes`] long; nothing is written then.
    pub fn unpack(&self, packed: &[u8], memory: &mut [u8]) -> Result<(), LayoutError> {
        check("unpack", "packed message", self.bytes(), packed.len())?;
        check("unpack", "memory it goes to", self.target_bytes(), memory.len())?;
        let mut rest = packed;
        for (_, to, nest) in self.nests() {
            let (part, behind) = rest.split_at(nest.bytes());
            kernel::scatter(&nest.at_target(), part, &mut memory[to..]);
            rest = behind;
        }
        Ok(())
    }

    /// Moves data from one memory to the other without packing.
    ///
    /// # Errors
    /// [`LayoutError::Memory`] if `from` is not [`Message::source_bytes`] long or `to` is not
    /// [`Message::target_bytes`] long; nothing is written then.
    pub fn copy(&self, from: &[u8], to: &mut [u8]) -> Result<(), LayoutError> {
        check("copy", "memory it comes from", self.source_bytes(), from.len())?;
        check("copy", "memory it goes to", self.target_bytes(), to.len())?;
        for (start, target, nest) in self.nests() {
            kernel::copy(&nest.at_both(), &from[start..], &mut to[target..]);
        }
        Ok(())
    }

    /// Returns the loops, with their beginnings at both ends, in bytes.
    fn nests(&self) -> impl Iterator<Item = (usize, usize, LoopNest)> + '_ {
        let pairs = self.rows.iter().flat_map(|row| self.columns.iter().map(move |c| (row, c)));
        let all = pairs.flat_map(|(row, c)| self.layers.iter().map(move |l| (l, row, c)));
        all.map(|(layer, row, column)| {
            let (from, to) = (&self.from.strides, &self.to.strides);
            // Layers are never in turns: a family of them is one run.
            let along_layers = Level {
                count: layer.length,
                from: from.layer * self.element,
                to: to.layer * self.element,
            };
            let along_rows = |repeat: &Repeat| Level {
                count: repeat.count,
                from: from.row_bytes(repeat.old, self.element),
                to: to.row_bytes(repeat.new, self.element),
            };
            let along_columns = |repeat: &Repeat| Level {
                count: repeat.count,
                from: from.column_bytes(repeat.old, self.element),
                to: to.column_bytes(repeat.new, self.element),
            };
            let step = Position { blocks: 0, elements: 1 };
            let single = |count| Repeat { count, old: step, new: step };
            let levels: [Level; LEVELS] = [
                along_layers,
                along_rows(&row.outer),
                along_rows(&row.inner),
                along_rows(&single(row.length)),
                along_columns(&column.outer),
                along_columns(&column.inner),
                along_columns(&single(column.length)),
            ];
            let element = self.element;
            let begin = |end: &End, layer: Position| {
                (end.begin + layer.elements * end.strides.layer) * element
            };
            let start = begin(&self.from, layer.old)
                + from.row_bytes(row.old, element)
                + from.column_bytes(column.old, element);
            let target = begin(&self.to, layer.new)
                + to.row_bytes(row.new, element)
                + to.column_bytes(column.new, element);
            (start, target, LoopNest::new(levels, element))
        })
    }
}

/// Returns the range from the first to the last byte of loops, of which `stride` is one end.
fn span(
    nests: impl Iterator<Item = (usize, LoopNest)>,
    stride: impl Fn(&Level) -> usize,
) -> Range<usize> {
    let spans = nests.map(|(begin, nest)| {
        let steps = nest.levels().iter().map(|level| (level.count - 1) * stride(level));
        begin..begin + steps.sum::<usize>() + nest.run
    });
    spans
        .reduce(|one, other| one.start.min(other.start)..one.end.max(other.end))
        .unwrap_or_default()
}

fn indices(families: &[Family]) -> usize {
    families.iter().map(Family::indices).sum()
}

fn cut(families: &[Family], most: usize) -> impl Iterator<Item = Family> + '_ {
    families.iter().flat_map(move |family| {
        (0..family.part_count(most)).map(move |number| family.part(most, number))
    })
}

/// Returns parts of several messages, as [`Message::split`] makes them, with the index of the
/// message: the first part of each, then the second of each, and so on.
///
/// Messages to several ranks are interleaved in memory, possibly in short runs. Taken one after the
/// other each of them passes through all of the memory; taken in turns they pass once together,
/// because the parts of a turn are neighbours and in the cache. With parts of 16 KiB, runs of up to
/// 512 bytes are packed and unpacked up to twice as fast as message by message; with long runs
/// there is no gain.
pub fn in_turns<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    bytes: usize,
) -> impl Iterator<Item = (usize, Message)> {
    let mut parts: Vec<_> =
        messages.into_iter().map(|message| Some(message.split(bytes))).collect();
    let (mut next, mut left) = (0, parts.len());
    std::iter::from_fn(move || {
        while left > 0 {
            let index = next;
            next = (next + 1) % parts.len();
            if let Some(of_message) = &mut parts[index] {
                if let Some(part) = of_message.next() {
                    return Some((index, part));
                }
                parts[index] = None;
                left -= 1;
            }
        }
        None
    })
}

impl Strides {
    fn row_bytes(&self, at: Position, element: usize) -> usize {
        (at.blocks * self.row_block + at.elements * self.row) * element
    }

    fn column_bytes(&self, at: Position, element: usize) -> usize {
        (at.blocks * self.column_block + at.elements * self.column) * element
    }
}

pub(super) fn check(
    call: &'static str,
    what: &'static str,
    expected: usize,
    found: usize,
) -> Result<(), LayoutError> {
    if expected == found {
        Ok(())
    } else {
        Err(LayoutError::Memory { call, what, expected, found })
    }
}
