//! The arrays of a process.

use std::marker::PhantomData;

use quo_mpi::MpiGroup;

use super::block::{Block, ProcessToken};
use super::element::{elements, elements_mut};
use super::halo::HaloExchange;
use super::items::Items;
use super::matrix::Matrix;
use super::matrix_index::MatrixIndex;
use super::message::{Described, Moved};
use super::{Carry, DataError, Element, Pattern};
use crate::layout::{Distribution, Ranks, Span};

/// How data are moved between ranks of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Receivers copy from the senders' memory if they can map it.
    #[default]
    Shared,
    /// MPI messages, as between nodes.
    Messages,
}

/// Handle of an array in the registry. It remains valid over resizes.
#[derive(Debug)]
pub struct Array<T> {
    number: u64,
    elements: PhantomData<fn() -> T>,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<T> {}

/// One array, and this rank's part of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub described: Described,
    pub distribution: Distribution,
    pub block: Block,
    /// Number of ghosts of a vector of a matrix, at the end of the block.
    pub ghosts: usize,
    pub halo: HaloExchange,
}

/// Progress of the move in this window.
#[derive(Debug, Default)]
pub(super) enum State {
    #[default]
    Before,
    Failed(String),
    /// Data of this process if the resize is committed.
    Moved {
        arrays: Vec<Entry>,
        next: u64,
    },
}

/// The arrays of the world, as this process holds them.
///
/// Registering is local, but all ranks do the same in the same order: a move on which they do not
/// agree fails on all of them, and nothing is moved. Processes that are no ranks have no arrays and
/// get them when they join. What is registered in a window before the move is moved with the rest.
/// Between the move and the commit nothing is registered, removed or laid out anew: that is
/// [`DataError::Unfit`].
#[derive(Default)]
pub struct Registry {
    /// Rank and size; `None` in a process that is no rank.
    pub(super) seat: Option<(usize, usize)>,
    pub(super) entries: Vec<Entry>,
    pub(super) matrices: Vec<Matrix>,
    /// By ascending name.
    pub(super) items: Vec<Items>,
    pub(super) callbacks: Vec<(String, Box<dyn Carry>)>,
    pub(super) next: u64,
    pub(super) state: State,
    pub(super) token: Option<ProcessToken>,
    pub(super) transport: Transport,
    pub(super) last: Option<Moved>,
    /// Over the ranks, for exchanges of ghost cells; from the first exchange after a resize.
    pub(super) halo_group: Option<MpiGroup>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.names().collect::<Vec<_>>();
        out.debug_struct("Registry").field("seat", &self.seat).field("names", &names).finish()
    }
}

impl Registry {
    pub(crate) fn new(seat: Option<(usize, usize)>) -> Self {
        Self { seat, ..Self::default() }
    }

    /// Makes the registry of a program that runs in one process, without a world and without MPI.
    #[must_use]
    pub fn serial() -> Self {
        Self::new(Some((0, 1)))
    }

    /// Adds an array of zeros. Local; called in the same way by all ranks.
    ///
    /// # Errors
    /// [`DataError::NoRank`], [`DataError::Twice`], [`DataError::Layout`], [`DataError::Memory`],
    /// [`DataError::Unfit`] between a move and its commit.
    pub fn register<T: Element>(
        &mut self,
        name: &str,
        pattern: Pattern,
    ) -> Result<Array<T>, DataError> {
        let number = self.add(name, size_of::<T>(), pattern, None)?;
        Ok(Array { number, elements: PhantomData })
    }

    /// Adds an array with a copy of this rank's part.
    ///
    /// # Errors
    /// As [`register`](Self::register), and [`DataError::Length`] for a part of another length:
    /// nothing is added then.
    pub fn register_with<T: Element>(
        &mut self,
        name: &str,
        pattern: Pattern,
        part: &[T],
    ) -> Result<Array<T>, DataError> {
        const CALL: &str = "register_with";
        let number = self.add(name, size_of::<T>(), pattern, None)?;
        let array = Array { number, elements: PhantomData };
        let place = self.local_mut(array)?;
        if place.len() != part.len() {
            let (expected, found) = (place.len(), part.len());
            self.remove(name)?;
            self.next = number;
            let name = name.to_owned();
            return Err(DataError::Length { call: CALL, name, expected, found });
        }
        place.copy_from_slice(part);
        Ok(array)
    }

    /// Adds an array of zeros with elements of `element` bytes, accessed by [`bytes`](Self::bytes).
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_bytes(
        &mut self,
        name: &str,
        element: usize,
        pattern: Pattern,
    ) -> Result<(), DataError> {
        self.add(name, element, pattern, None).map(drop)
    }

    pub(super) fn add(
        &mut self,
        name: &str,
        element: usize,
        pattern: Pattern,
        lines: Option<MatrixIndex>,
    ) -> Result<u64, DataError> {
        let name = name.to_owned();
        let described =
            Described { number: 0, name, element, pattern, next: None, lines, matrix: None };
        self.add_described("register", described, 0)
    }

    /// Adds an array or a vector with ghosts, and returns its number.
    pub(super) fn add_described(
        &mut self,
        call: &'static str,
        described: Described,
        ghosts: usize,
    ) -> Result<u64, DataError> {
        let (rank, size) = self.seat.ok_or(DataError::NoRank { call })?;
        self.check_new(call, &described.name)?;
        let number = self.next;
        let mut entry = Entry::new(call, Described { number, ..described }, rank, size)?;
        entry.add_ghosts(call, ghosts)?;
        self.entries.push(entry);
        self.next += 1;
        Ok(number)
    }

    /// Registers a callback that moves data of the program's own kind. Local; called in the same
    /// way by all processes that can become ranks, even before they are.
    ///
    /// # Errors
    /// [`DataError::Twice`], [`DataError::Unfit`] between a move and its commit.
    pub fn carry(&mut self, name: &str, callback: Box<dyn Carry>) -> Result<(), DataError> {
        self.check_new("carry", name)?;
        self.callbacks.push((name.to_owned(), callback));
        self.callbacks.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(())
    }

    /// Removes an array, a matrix, items or a callback. Local; called in the same way by all ranks.
    ///
    /// # Errors
    /// [`DataError::Unknown`]; [`DataError::Unfit`] for a matrix that has vectors, and between a move
    /// and its commit.
    pub fn remove(&mut self, name: &str) -> Result<(), DataError> {
        self.check_unmoved("remove", name)?;
        if let Some(found) = self.callbacks.iter().position(|(other, _)| other == name) {
            self.callbacks.remove(found);
            return Ok(());
        }
        if let Some(found) = self.items.iter().position(|items| items.name == name) {
            self.items.remove(found);
            return Ok(());
        }
        if let Some(found) = self.matrices.iter().position(|other| other.described.name == name) {
            if self.entries.iter().any(|entry| entry.described.matrix.as_deref() == Some(name)) {
                let (call, reason) = ("remove", "it has vectors: remove them first");
                return Err(DataError::Unfit { call, name: name.to_owned(), reason });
            }
            self.matrices.remove(found);
            return Ok(());
        }
        let found = self.entries.iter().position(|entry| entry.described.name == name);
        let kind = "array, matrix, list or callback";
        let found = found.ok_or_else(|| self.unknown("remove", kind, name))?;
        self.entries.remove(found);
        Ok(())
    }

    /// Returns the names of arrays and matrices, in the order of registration, and of items and
    /// callbacks. Local.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds().map(|(_, name)| name)
    }

    /// Returns kinds and names, in the order of [`names`](Self::names).
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let arrays = self.entries.iter().map(|entry| {
            let kind = if entry.described.matrix.is_some() { "vector" } else { "array" };
            (kind, entry.described.name.as_str())
        });
        let matrices = self.matrices.iter();
        let matrices = matrices.map(|matrix| ("matrix", matrix.described.name.as_str()));
        let items = self.items.iter().map(|items| ("list", items.name.as_str()));
        let callbacks = self.callbacks.iter().map(|(name, _)| ("callback", name.as_str()));
        arrays.chain(matrices).chain(items).chain(callbacks)
    }

    /// Returns true if there are no data to move. Local.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.matrices.is_empty() && self.carried().next().is_none()
    }

    /// Returns an array by its name, which is how a joiner gets it. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`], [`DataError::Element`] if the size of its elements differs.
    pub fn array<T: Element>(&self, name: &str) -> Result<Array<T>, DataError> {
        let entry = self.named("array", name)?;
        if entry.described.element != size_of::<T>() {
            return Err(DataError::Element {
                call: "array",
                name: name.to_owned(),
                expected: size_of::<T>(),
                found: entry.described.element,
            });
        }
        Ok(Array { number: entry.described.number, elements: PhantomData })
    }

    /// Returns this rank's part of an array, in the layout of [`distribution`](Self::distribution).
    /// Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`] if it was removed, and on a process that has left.
    pub fn local<T: Element>(&self, array: Array<T>) -> Result<&[T], DataError> {
        let found = self.entries.iter().find(|entry| entry.described.number == array.number);
        found.map(|entry| elements(entry.block.bytes())).ok_or_else(|| self.gone(array.number))
    }

    /// Returns this rank's part of an array for writing. Local.
    ///
    /// # Errors
    /// As [`local`](Self::local).
    pub fn local_mut<T: Element>(&mut self, array: Array<T>) -> Result<&mut [T], DataError> {
        let mut entries = self.entries.iter();
        match entries.position(|entry| entry.described.number == array.number) {
            Some(found) => Ok(elements_mut(self.entries[found].block.bytes_mut())),
            None => Err(self.gone(array.number)),
        }
    }

    /// Returns the bytes of this rank's part of an array. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn bytes(&self, name: &str) -> Result<&[u8], DataError> {
        self.named("bytes", name).map(|entry| entry.block.bytes())
    }

    /// Returns the bytes of this rank's part of an array for writing. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn bytes_mut(&mut self, name: &str) -> Result<&mut [u8], DataError> {
        self.named_mut("bytes_mut", name).map(|entry| entry.block.bytes_mut())
    }

    /// Returns the number of bytes of an element. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn element_size(&self, name: &str) -> Result<usize, DataError> {
        self.named("element_size", name).map(|entry| entry.described.element)
    }

    /// Returns the layout of an array on the present ranks. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn distribution(&self, name: &str) -> Result<&Distribution, DataError> {
        self.named("distribution", name).map(|entry| &entry.distribution)
    }

    /// Returns this rank's block of an array along layers, rows and columns, and the ghost cells
    /// around it in memory. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`], [`DataError::NoRank`].
    pub fn spans(&self, name: &str) -> Result<[Span; 3], DataError> {
        const CALL: &str = "spans";
        let entry = self.named(CALL, name)?;
        let (rank, _) = self.seat.ok_or(DataError::NoRank { call: CALL })?;
        let [layers, rows, columns] = entry.distribution.spans(rank);
        Ok([layers, rows, Span { after: columns.after + entry.ghosts, ..columns }])
    }

    /// Returns the pattern of an array. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn pattern(&self, name: &str) -> Result<Pattern, DataError> {
        self.named("pattern", name).map(|entry| entry.described.pattern)
    }

    /// Sets the pattern of an array after the next move, for the same number of elements. Local;
    /// called in the same way by all ranks.
    ///
    /// # Errors
    /// [`DataError::Unknown`], [`DataError::Length`] for another number of elements,
    /// [`DataError::InvalidState`] for an array along the nonzeros or the rows of a matrix,
    /// [`DataError::Unfit`] between a move and its commit.
    pub fn lay_out(&mut self, name: &str, pattern: Pattern) -> Result<(), DataError> {
        const CALL: &str = "lay_out";
        self.check_unmoved(CALL, name)?;
        let entry = self.named_mut(CALL, name)?;
        if entry.described.lines.is_some() || entry.described.matrix.is_some() {
            let reason =
                "the array follows the lines of its matrix, and is laid out with the matrix only";
            return Err(DataError::InvalidState { reason });
        }
        let (old, new) = (entry.described.pattern.shape(), pattern.shape());
        if old != new {
            return Err(DataError::Length {
                call: CALL,
                name: name.to_owned(),
                expected: old.0.saturating_mul(old.1),
                found: new.0.saturating_mul(new.1),
            });
        }
        entry.described.next = Some(pattern);
        Ok(())
    }

    /// Sets how data are moved between ranks of a node. Local; a sender and a receiver that differ
    /// use messages.
    pub fn via(&mut self, transport: Transport) {
        self.transport = transport;
    }

    /// Returns the result of the last move that was committed here; `None` before. Local.
    #[must_use]
    pub fn last_move(&self) -> Option<&Moved> {
        self.last.as_ref()
    }

    /// Returns the names of items and callbacks, which joiners have already.
    pub(super) fn carried(&self) -> impl Iterator<Item = &str> {
        let items = self.items.iter().map(|items| items.name.as_str());
        items.chain(self.callbacks.iter().map(|(name, _)| name.as_str()))
    }

    /// Returns callbacks, items and matrices, which move pieces without a schedule, by name.
    pub(super) fn carriers(&mut self) -> impl Iterator<Item = (String, &mut dyn Carry)> {
        let callbacks = self.callbacks.iter_mut();
        let callbacks = callbacks.map(|(name, callback)| (name.clone(), &mut **callback as _));
        let items = self.items.iter_mut().map(|items| (items.name.clone(), items as _));
        let matrices = self.matrices.iter_mut();
        callbacks
            .chain(items)
            .chain(matrices.map(|matrix| (matrix.described.name.clone(), matrix as _)))
    }

    pub(super) fn named(&self, call: &'static str, name: &str) -> Result<&Entry, DataError> {
        let found = self.entries.iter().find(|entry| entry.described.name == name);
        found.ok_or_else(|| self.unknown(call, "array", name))
    }

    pub(super) fn named_mut(
        &mut self,
        call: &'static str,
        name: &str,
    ) -> Result<&mut Entry, DataError> {
        match self.entries.iter().position(|entry| entry.described.name == name) {
            Some(found) => Ok(&mut self.entries[found]),
            None => Err(self.unknown(call, "array", name)),
        }
    }

    /// Refuses a name that is taken, and any name between a move and its commit.
    pub(super) fn check_new(&self, call: &'static str, name: &str) -> Result<(), DataError> {
        self.check_unmoved(call, name)?;
        match self.kinds().find(|(_, other)| *other == name) {
            Some((kind, _)) => Err(DataError::Twice { call, kind, name: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// Refuses a change between a move and its commit, which would discard it.
    pub(super) fn check_unmoved(&self, call: &'static str, name: &str) -> Result<(), DataError> {
        if !matches!(self.state, State::Moved { .. }) {
            return Ok(());
        }
        let reason = "the data of this window have been moved: make the call before the move or after the commit";
        Err(DataError::Unfit { call, name: name.to_owned(), reason })
    }

    fn gone(&self, number: u64) -> DataError {
        self.unknown("local", "array", &format!("number {number}"))
    }

    pub(super) fn unknown(&self, call: &'static str, kind: &'static str, name: &str) -> DataError {
        let registered = self.kinds().map(|(kind, name)| format!("{kind} {name}")).collect();
        DataError::Unknown { call, kind, name: name.to_owned(), registered }
    }

    /// Returns true if the data of this window have been moved; an error if that has failed.
    pub(crate) fn is_moved(&self) -> Result<bool, String> {
        match &self.state {
            State::Before => Ok(false),
            State::Moved { .. } => Ok(true),
            State::Failed(reason) => Err(reason.clone()),
        }
    }

    /// Ends the window: the moved data take effect, or are dropped. `seat` is this process's new
    /// rank and size.
    pub(crate) fn end_transfer(&mut self, committed: bool, seat: Option<(usize, usize)>) {
        self.seat = seat;
        let state = std::mem::take(&mut self.state);
        let was_begun = !matches!(state, State::Before);
        if committed {
            match state {
                State::Moved { arrays, next } => (self.entries, self.next) = (arrays, next),
                _ if seat.is_none() => self.entries.clear(),
                _ => {}
            }
        } else {
            // The new patterns were set for this resize only.
            self.entries.iter_mut().for_each(|entry| entry.described.next = None);
        }
        if was_begun {
            self.carriers().for_each(|(_, callback)| callback.end_transfer(committed));
        }
        if seat.is_none() {
            self.matrices.clear();
        }
    }
}

impl Entry {
    /// Makes the zeroed part of one of the first `size` ranks.
    pub fn new(
        call: &'static str,
        described: Described,
        rank: usize,
        size: usize,
    ) -> Result<Self, DataError> {
        let name = &described.name;
        let layout = |source| DataError::Layout { call, name: name.clone(), source };
        let distribution = described.over(described.pattern, Ranks::first(size)).map_err(layout)?;
        if described.element == 0 {
            return Err(layout(crate::layout::LayoutError::EmptyElement));
        }
        let bytes = distribution.room(rank).checked_mul(described.element);
        let bytes = bytes.unwrap_or(usize::MAX);
        let block = Block::new(bytes).map_err(|error| DataError::Memory {
            call,
            name: name.clone(),
            bytes,
            reason: error.to_string(),
        })?;
        Ok(Self { described, distribution, block, ghosts: 0, halo: HaloExchange::default() })
    }

    /// Adds ghosts after the elements of this rank.
    pub fn add_ghosts(&mut self, call: &'static str, ghosts: usize) -> Result<(), DataError> {
        if ghosts == 0 {
            return Ok(());
        }
        let held = self.block.bytes().len();
        let bytes = held.saturating_add(ghosts.saturating_mul(self.described.element));
        let mut block = Block::new(bytes).map_err(|error| DataError::Memory {
            call,
            name: self.described.name.clone(),
            bytes,
            reason: error.to_string(),
        })?;
        block.bytes_mut()[..held].copy_from_slice(self.block.bytes());
        (self.block, self.ghosts) = (block, ghosts);
        Ok(())
    }

    /// Returns the bytes of the elements that this rank owns, and of ghost cells of its pattern.
    pub fn held(&self) -> &[u8] {
        let bytes = self.block.bytes();
        &bytes[..bytes.len() - self.ghosts * self.described.element]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_registered_is_found_by_name_and_by_handle() {
        let mut registry = Registry::new(Some((1, 2)));
        let array = registry.register_with("x", Pattern::block(5), &[7_u32, 8]).unwrap();
        assert_eq!(registry.local(array), Ok(&[7, 8][..]));
        registry.local_mut(array).unwrap()[0] = 9;
        let again = registry.array::<u32>("x").unwrap();
        assert_eq!(registry.local(again), Ok(&[9, 8][..]));
        assert_eq!(registry.bytes("x").map(<[u8]>::len), Ok(8));
        registry.remove("x").unwrap();
        assert!(matches!(registry.local(array), Err(DataError::Unknown { .. })));
    }

    #[test]
    fn unknown_array_error_names_registered_arrays_and_the_remedy() {
        let empty = Registry::new(Some((0, 1))).array::<f64>("heat").unwrap_err().to_string();
        assert!(empty.contains("`heat`; this process has none."), "{empty}");
        assert!(empty.ends_with("register before the first probe"), "{empty}");
        let mut registry = Registry::new(Some((0, 1)));
        registry.register::<f64>("rho", Pattern::block(5)).unwrap();
        registry.register::<f64>("u", Pattern::block(5)).unwrap();
        let other = registry.lay_out("heat", Pattern::block(5)).unwrap_err().to_string();
        assert!(other.contains("no array `heat`; this process has array rho, array u."), "{other}");
    }

    #[test]
    fn changes_between_move_and_commit_are_refused() {
        let mut registry = Registry::new(Some((0, 1)));
        registry.register::<f64>("x", Pattern::block(5)).unwrap();
        registry.register_items::<u64>("ants", |_, _| 0).unwrap();
        registry.state = State::Moved { arrays: Vec::new(), next: 1 };
        let matrix = registry.register_matrix::<f64>("A", 1, &[0, 0], &[], &[]);
        for refused in [
            registry.register::<f64>("y", Pattern::block(5)).map(drop),
            matrix,
            registry.register_items::<u64>("bees", |_, _| 0),
            registry.resize_items("ants", 1),
            registry.lay_out("x", Pattern::cyclic(5)),
            registry.swap("x", "x"),
            registry.remove("x"),
        ] {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("have been moved: make the call before the move"), "{said}");
        }
        registry.end_transfer(false, Some((0, 1)));
        registry.remove("x").unwrap();
    }

    #[test]
    fn mistakes_of_one_rank_are_told_there() {
        let mut registry = Registry::new(Some((1, 2)));
        let short = registry.register_with("x", Pattern::block(5), &[7_u32]);
        assert!(matches!(short, Err(DataError::Length { expected: 2, found: 1, .. })));
        assert!(registry.is_empty());
        registry.register::<f64>("x", Pattern::block(5)).unwrap();
        let twice = registry.register::<f64>("x", Pattern::block(5));
        assert!(matches!(twice, Err(DataError::Twice { .. })));
        let other = registry.array::<f32>("x");
        assert!(matches!(other, Err(DataError::Element { expected: 4, found: 8, .. })));
        let nothing = registry.register_bytes("y", 0, Pattern::block(5));
        assert!(matches!(nothing, Err(DataError::Layout { .. })));
        let longer = registry.lay_out("x", Pattern::cyclic(6));
        assert!(matches!(longer, Err(DataError::Length { .. })));
        let parked = Registry::new(None).register::<f64>("x", Pattern::block(5)).unwrap_err();
        assert_eq!(parked, DataError::NoRank { call: "register" });
    }
}
