//! Movement of data from n ranks to m workers and back, through memory shared by the node.
//!
//! Every rank owns a part; the parts follow one another in node-rank order. Between phases a rank
//! reads and writes its own part. In a phase, a worker has the parts of the ranks it serves as one
//! slice. Nothing is sent: the only copies are those a program makes into and out of its own
//! arrays, and it needs none if it keeps its data here.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;
use std::time::Instant;

use crate::context::Context;
use crate::error::Error;
use crate::node::SharedMemory;

/// Values with the same representation in every process: numbers.
///
/// # Safety
/// Any bytes are a value of the type, and a value holds no address.
pub unsafe trait Plain: Copy + sealed::Sealed + 'static {}

mod sealed {
    /// Restricts [`Plain`](super::Plain) to the types listed here.
    pub trait Sealed {}
}

macro_rules! plain {
    ($($number:ty),*) => {$(
        impl sealed::Sealed for $number {}
        // SAFETY: a primitive number has no invalid bytes and no address.
        unsafe impl Plain for $number {}
    )*};
}

plain!(u8, i8, u16, i16, u32, i32, u64, i64, usize, isize, f32, f64);

/// Array spread over the ranks of a node, which a phase passes to its workers in larger pieces.
///
/// Created by [`Context::remap`], used by [`Phase::run_on`](super::Phase::run_on). That call takes
/// it by exclusive reference on every rank, so no rank can access its part while a worker has it.
///
/// ```no_run
/// # fn smooth(_values: &mut [f64], _threads: usize) {}
/// # fn example(context: &quo::Context, mut mine: Vec<f64>) -> Result<(), quo::Error> {
/// use quo::phase::PhaseSpec;
/// use quo::topology::ObjectType;
/// let phase = context.phase(PhaseSpec::over(ObjectType::Machine))?;
/// let mut field = context.remap::<f64>(mine.len())?;
/// field.load(&mine)?;
/// phase.run_on(&mut field, |worker, values| smooth(values, worker.threads()))?;
/// field.store(&mut mine)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Remap<T> {
    memory: SharedMemory,
    /// Number of the context's state whose ranks own the parts.
    ranks: u64,
    node_rank: usize,
    /// True if a phase ended without all ranks: a worker may still be writing.
    abandoned: bool,
    seconds: f64,
    elements: PhantomData<T>,
}

impl Context {
    /// Creates an array over the ranks of this node, with `elements` elements on this rank.
    /// Collective over the node; ranks may pass different numbers but must use the same `T`.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn remap<T: Plain>(&self, elements: usize) -> Result<Remap<T>, Error> {
        // A size beyond all memory is refused by the allocation on every rank.
        let bytes = elements.saturating_mul(size_of::<T>());
        let memory = self.allocate(bytes)?;
        Ok(Remap {
            memory,
            ranks: self.state().number,
            node_rank: self.node_rank(),
            abandoned: false,
            seconds: 0.0,
            elements: PhantomData,
        })
    }
}

impl<T: Plain> Remap<T> {
    /// Returns this rank's part for reading.
    ///
    /// # Errors
    /// [`Error::NotSupported`] after a phase on this array failed: a worker may still be writing.
    pub fn local(&self) -> Result<&[T], Error> {
        self.check("local")?;
        let (base, length) = self.piece(self.node_rank..self.node_rank + 1);
        // SAFETY: `piece` gives an aligned, mapped range of `T`s, valid for any bytes; other ranks
        // write to it only in a phase, for which every rank gives up its references.
        Ok(unsafe { std::slice::from_raw_parts(base, length) })
    }

    /// Returns this rank's part for writing.
    ///
    /// # Errors
    /// As [`local`](Self::local).
    pub fn local_mut(&mut self) -> Result<&mut [T], Error> {
        self.check("local")?;
        let part = self.node_rank..self.node_rank + 1;
        Ok(self.part_of(part))
    }

    fn check(&self, call: &'static str) -> Result<(), Error> {
        if self.abandoned {
            let reason = "a phase on this array failed, its contents are lost".to_owned();
            return Err(Error::NotSupported { call, reason });
        }
        Ok(())
    }

    /// Returns why a phase of these ranks of a context may not use the array.
    pub(super) fn trouble(&self, ranks: u64) -> Option<&'static str> {
        if self.ranks != ranks {
            Some("the array was made in another context, or before its ranks changed")
        } else if self.abandoned {
            Some("an earlier phase on the array failed, its contents are lost")
        } else {
            None
        }
    }

    /// Forbids every further access of this rank to the array.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Copies this rank's data in; counts as remap time of the next phase.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the lengths differ; as [`local`](Self::local).
    pub fn load(&mut self, values: &[T]) -> Result<(), Error> {
        let start = Instant::now();
        let part = self.local_mut()?;
        same_length("load", part.len(), values.len())?;
        part.copy_from_slice(values);
        self.seconds += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Copies this rank's data out; counts as remap time of the next phase.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the lengths differ; as [`local`](Self::local).
    pub fn store(&mut self, values: &mut [T]) -> Result<(), Error> {
        let start = Instant::now();
        let part = self.local()?;
        same_length("store", part.len(), values.len())?;
        values.copy_from_slice(part);
        self.seconds += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Returns the seconds spent in copies since the previous call.
    pub fn take_seconds(&mut self) -> f64 {
        std::mem::take(&mut self.seconds)
    }

    /// Returns the parts of consecutive node ranks as one slice.
    pub(super) fn part_of(&mut self, ranks: Range<usize>) -> &mut [T] {
        let (base, length) = self.piece(ranks);
        // SAFETY: `piece` gives an aligned, mapped range of `T`s, valid for any bytes. Outside of a
        // phase only this rank's part is requested; in a phase the workers' ranges do not overlap
        // and the other ranks hold no reference, since `run_on` borrows their arrays exclusively.
        unsafe { std::slice::from_raw_parts_mut(base, length) }
    }

    fn piece(&self, ranks: Range<usize>) -> (*mut T, usize) {
        let nothing = (std::ptr::NonNull::<T>::dangling().as_ptr(), 0);
        // Ranks that had left when the array was created have no part in it.
        let mut present = self.memory.members().filter(|member| ranks.contains(member));
        let Some(first) = present.next() else { return nothing };
        match self.memory.range(first..=present.last().unwrap_or(first)) {
            Some(view) if view.as_ptr().cast::<T>().is_aligned() => {
                (view.as_ptr().cast::<T>(), view.len() / size_of::<T>())
            }
            // Only reached by ranks that disagree on `T`; they find their parts empty.
            _ => nothing,
        }
    }
}

fn same_length(call: &'static str, part: usize, values: usize) -> Result<(), Error> {
    if part == values {
        return Ok(());
    }
    Err(Error::InvalidArgument {
        call,
        reason: format!("this rank's part has {part} elements, the slice given has {values}"),
    })
}
