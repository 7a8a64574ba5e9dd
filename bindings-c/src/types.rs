//! Types of the C interface: pointers from C, wrapped so that they are checked and written to only
//! here, and the enums and structures of the headers.
#![allow(unsafe_code)]

mod sized;

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};

use elastic::data::Element;
use quo::ObjectType;
use quo_mpi::{Comm, is_running};

use crate::codes::Code;
use crate::guard::Failure;
pub(crate) use sized::Growing;
pub use sized::In;

/// A context, as C sees it: opaque, and never dereferenced.
#[repr(C)]
pub struct QUO_t {
    private: [u8; 0],
}

/// A named barrier, as C sees it.
#[repr(C)]
pub struct QUO_named_barrier_t {
    private: [u8; 0],
}

/// A phase, as C sees it.
#[repr(C)]
pub struct QUO_phase_t {
    private: [u8; 0],
}

/// Cross-process memory, as C sees it.
#[repr(C)]
pub struct quo_xpm_t {
    private: [u8; 0],
}

/// An elastic world, as C sees it.
#[repr(C)]
pub struct QUO_world_t {
    private: [u8; 0],
}

/// Pointer to which a result is written. A C caller passes NULL or space for one `T`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct RawOut<T>(*mut T);

impl<T> RawOut<T> {
    /// Wraps a pointer, for callers in Rust.
    ///
    /// # Safety
    /// `pointer` is null, or valid for writes of one `T` until the call that gets it returns.
    pub unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Returns the checked pointer, or the error that the argument `name` is NULL.
    pub(crate) fn checked(self, name: &str) -> Result<OutPtr<T>, Failure> {
        if self.0.is_null() {
            return Err(Failure::invalid(format!("the argument {name} is NULL")));
        }
        Ok(OutPtr(self.0))
    }

    /// Returns the checked pointer, or `None` for NULL.
    pub(crate) fn optional(self) -> Option<OutPtr<T>> {
        (!self.0.is_null()).then_some(OutPtr(self.0))
    }
}

impl<T> RawOut<*mut T> {
    /// Returns the checked pointer to a pointer, which is set to NULL until there is a result.
    pub(crate) fn checked_null(self, name: &str) -> Result<OutPtr<*mut T>, Failure> {
        let place = self.checked(name)?;
        place.set(std::ptr::null_mut());
        Ok(place)
    }
}

/// Pointer to space for a result that is not NULL.
#[derive(Clone, Copy)]
pub(crate) struct OutPtr<T>(*mut T);

impl<T> OutPtr<T> {
    pub(crate) fn set(self, value: T) {
        // SAFETY: by the contract of the C interface a pointer that is not NULL is valid for a
        // write; Rust callers promise the same to `RawOut::new`.
        unsafe { self.0.write(value) }
    }
}

impl OutPtr<usize> {
    /// Returns the value that C has stored there. Only for an argument that is read and written.
    pub(crate) fn get(self) -> usize {
        // SAFETY: by the contract of the C interface the pointer is valid, and C has set the value.
        unsafe { self.0.read() }
    }
}

impl OutPtr<c_int> {
    /// Writes a count or an index.
    pub(crate) fn set_number(self, value: usize) -> Result<(), Failure> {
        self.set(int(value)?);
        Ok(())
    }
}

/// A pointer to an `MPI_Comm`, or NULL. Only the MPI layer knows the size of an `MPI_Comm`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct CommPtr(*mut c_void);

/// A pointer to an `MPI_Fint`, or NULL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct FintPtr(*mut c_void);

impl CommPtr {
    /// Wraps a pointer, for callers in Rust.
    ///
    /// # Safety
    /// `pointer` is null, or valid for writes of one `MPI_Comm` until the call that gets it
    /// returns.
    pub unsafe fn new(pointer: *mut c_void) -> Self {
        Self(pointer)
    }

    /// Returns the checked pointer, or the error that the argument `name` is NULL.
    pub(crate) fn checked(self, name: &str) -> Result<Self, Failure> {
        RawOut(self.0).checked(name).map(|OutPtr(pointer)| Self(pointer))
    }

    /// Writes a communicator. Only for a pointer that is not NULL.
    pub(crate) fn set(self, comm: Comm) {
        // SAFETY: by the contract of the C interface a pointer that is not NULL is valid for a
        // write; Rust callers promise the same to `new`.
        unsafe { comm.store(self.0) }
    }
}

impl FintPtr {
    /// Wraps a pointer, for callers in Rust.
    ///
    /// # Safety
    /// As [`CommPtr::new`], of one `MPI_Fint`.
    pub unsafe fn new(pointer: *mut c_void) -> Self {
        Self(pointer)
    }

    /// Returns the checked pointer, or the error that the argument `name` is NULL, or that MPI is
    /// not running: MPI then ends a program that asks for a Fortran handle.
    pub(crate) fn checked(self, name: &str) -> Result<Self, Failure> {
        is_running().map_err(quo::Error::from)?;
        RawOut(self.0).checked(name).map(|OutPtr(pointer)| Self(pointer))
    }

    /// Writes the Fortran handle of a live communicator. Only for a pointer that is not NULL.
    pub(crate) fn set(self, comm: Comm) {
        // SAFETY: as in `CommPtr::set`; a communicator that is passed to C is live.
        unsafe { comm.store_for_fortran(self.0) }
    }
}

/// A C string that C owns, or NULL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    /// Wraps a pointer, for callers in Rust.
    ///
    /// # Safety
    /// `pointer` is null, or a C string that lives until the call that gets it returns.
    pub unsafe fn new(pointer: *const c_char) -> Self {
        Self(pointer)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns the text, or the error that the argument `name` is NULL or not UTF-8.
    pub(crate) fn read(self, name: &str) -> Result<String, Failure> {
        if self.0.is_null() {
            return Err(Failure::invalid(format!("the argument {name} is NULL")));
        }
        // SAFETY: by the contract of the C interface a pointer that is not NULL is a C string.
        let text = unsafe { CStr::from_ptr(self.0) };
        let text = text.to_str().map_err(|_| {
            Failure::invalid(format!("the argument {name} is not text: {}", text.to_string_lossy()))
        })?;
        Ok(text.to_owned())
    }
}

/// Bytes owned by C, whose number is passed separately; NULL if there are none.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Bytes(*mut c_void);

impl Bytes {
    /// Wraps a pointer, for callers in Rust.
    ///
    /// # Safety
    /// `pointer` is null, or valid for reads of the number of bytes passed with it until the call
    /// that gets it returns, and for writes if the call writes.
    pub unsafe fn new(pointer: *mut c_void) -> Self {
        Self(pointer)
    }

    /// Returns a copy, or the error that the argument `name` is NULL.
    pub(crate) fn read(self, name: &str, length: usize) -> Result<Vec<u8>, Failure> {
        if length == 0 {
            return Ok(Vec::new());
        }
        RawOut(self.0.cast::<u8>()).checked(name)?;
        // SAFETY: by the contract of the C interface a pointer that is not NULL has `length` bytes.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), length) }.to_vec())
    }

    /// Overwrites the bytes. Only for the number that the caller passed.
    pub(crate) fn write(self, bytes: &[u8]) {
        if !self.0.is_null() {
            // SAFETY: as in `read`, and the call is one that writes; `bytes` belong to the library.
            unsafe { self.0.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        }
    }
}

/// Pointer to a pointer to a block of the C heap, or to NULL for none, which may be replaced.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct HeapPtr(*mut *mut c_void);

impl HeapPtr {
    /// Wraps a pointer, for callers in Rust.
    ///
    /// # Safety
    /// `pointer` is null, or valid for a read and a write until the call that gets it returns; the
    /// pointer in it is null or from `malloc`, with the number of elements passed with it.
    pub unsafe fn new(pointer: *mut *mut c_void) -> Self {
        Self(pointer)
    }

    /// Returns the checked pointer, or the error that the argument `name` is NULL.
    pub(crate) fn checked(self, name: &str) -> Result<Self, Failure> {
        RawOut(self.0).checked(name).map(|OutPtr(pointer)| Self(pointer))
    }

    /// Returns a copy of `count` elements. Only for a pointer that is not NULL.
    pub(crate) fn read_elements<T: Element>(self, count: usize) -> Result<Vec<T>, Failure> {
        // SAFETY: by the contract of the C interface it points to a pointer.
        let block = unsafe { self.0.read() }.cast::<T>();
        if block.is_null() && count > 0 {
            return Err(Failure::invalid(format!("{count} elements are said to be at NULL")));
        }
        let mut elements: Vec<T> = Vec::new();
        if elements.try_reserve_exact(count).is_err() {
            let text = format!("no memory is left for {count} elements");
            return Err(Failure::new(Code::OutOfResources, text));
        }
        // SAFETY: by the contract of the C interface `count` elements are there; copied byte by
        // byte, since their alignment is not guaranteed. Any bytes are elements.
        unsafe {
            let bytes = count * size_of::<T>();
            elements.as_mut_ptr().cast::<u8>().copy_from(block.cast::<u8>(), bytes);
            elements.set_len(count);
        }
        Ok(elements)
    }

    /// Stores a new block with these elements, and frees the previous one.
    pub(crate) fn replace_elements<T: Element>(self, elements: &[T]) -> Result<(), Failure> {
        let bytes = size_of_val(elements);
        let block = allocate(bytes.max(1))?;
        // SAFETY: the new block has room for them.
        unsafe { block.cast::<u8>().copy_from_nonoverlapping(elements.as_ptr().cast(), bytes) };
        // SAFETY: by the contract of the C interface the pointer may be read and written.
        let before = unsafe { self.0.replace(block) };
        free_for_c(before);
        Ok(())
    }
}

/// An array of numbers owned by C, or NULL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Longs(*const c_longlong);

impl Longs {
    /// Wraps a pointer, for callers in Rust.
    ///
    /// # Safety
    /// As [`Qids::new`].
    pub unsafe fn new(pointer: *const c_longlong) -> Self {
        Self(pointer)
    }

    /// Reads `count` numbers, none of them negative.
    pub(crate) fn read(self, name: &str, count: c_int) -> Result<Vec<u64>, Failure> {
        let length = usize::try_from(count).ok().filter(|&length| length > 0 && !self.0.is_null());
        let length = length.ok_or_else(|| {
            Failure::invalid(format!(
                "the argument {name} is NULL, or {count} are said to be there"
            ))
        })?;
        // SAFETY: by the contract of the C interface the array holds `count` numbers.
        let numbers = unsafe { std::slice::from_raw_parts(self.0, length) };
        let positive = |&number: &c_longlong| {
            u64::try_from(number)
                .map_err(|_| Failure::invalid(format!("the argument {name} has {number}")))
        };
        numbers.iter().map(positive).collect()
    }
}

/// An array of sizes owned by C, or NULL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Sizes(*const usize);

impl Sizes {
    /// Returns a copy of `count` sizes, or the error that the argument `name` is NULL.
    pub(crate) fn read(self, name: &str, count: usize) -> Result<Vec<usize>, Failure> {
        RawOut(self.0.cast_mut()).checked(name)?;
        // SAFETY: by the contract of the C interface the array holds `count` sizes.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) }.to_vec())
    }
}

/// An array of numbers owned by C, or NULL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Ints(*const c_int);

impl Ints {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns the first `count` numbers.
    pub(crate) fn read(self, count: usize) -> Vec<c_int> {
        // SAFETY: by the contract of the C interface the array holds `count` numbers.
        unsafe { std::slice::from_raw_parts(self.0, count) }.to_vec()
    }
}

/// An array of qids owned by C, or NULL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Qids(*const c_int);

impl Qids {
    /// Wraps a pointer, for callers in Rust.
    ///
    /// # Safety
    /// `pointer` is null, or valid for reads of the number of elements passed with it, until the
    /// call that gets it returns.
    pub unsafe fn new(pointer: *const c_int) -> Self {
        Self(pointer)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns the `count` qids as distinct node ranks below `members`, which must include `own`.
    pub(crate) fn read(
        self,
        count: c_int,
        members: usize,
        own: usize,
    ) -> Result<Vec<usize>, Failure> {
        if self.0.is_null() {
            return Err(Failure::invalid("the argument qids is NULL"));
        }
        let length = usize::try_from(count).ok().filter(|&count| count > 0 && count <= members);
        let Some(length) = length else {
            let text = format!("{count} qids were given, there are 1 to {members}");
            return Err(Failure::invalid(text));
        };
        // SAFETY: by the contract of the C interface the array holds `count` numbers.
        let qids = unsafe { std::slice::from_raw_parts(self.0, length) };
        let mut ranks = Vec::with_capacity(length);
        for &qid in qids {
            let rank = node_rank(qid, members)?;
            if ranks.contains(&rank) {
                return Err(Failure::invalid(format!("qid {qid} is given twice")));
            }
            ranks.push(rank);
        }
        if !ranks.contains(&own) {
            return Err(Failure::invalid(format!("the caller, qid {own}, is not among the qids")));
        }
        // The order of the list is irrelevant to callers, but ascending internally.
        ranks.sort_unstable();
        Ok(ranks)
    }
}

/// Converts a qid to a node rank below `members`.
pub(crate) fn node_rank(qid: c_int, members: usize) -> Result<usize, Failure> {
    usize::try_from(qid).ok().filter(|&rank| rank < members).ok_or_else(|| {
        Failure::invalid(format!("there is no qid {qid}: this node has {members} ranks"))
    })
}

/// Converts a count or an index for C.
pub(crate) fn int(value: usize) -> Result<c_int, Failure> {
    c_int::try_from(value)
        .map_err(|_| Failure::new(Code::Error, format!("{value} does not fit into an int")))
}

/// Returns the object type with a number of `QUO_obj_type_t`, `None` for an unknown number.
pub(crate) fn known_object_type(number: c_int) -> Option<ObjectType> {
    Some(match number {
        0 => ObjectType::Machine,
        1 => ObjectType::NumaNode,
        // QUO_OBJ_PACKAGE and QUO_OBJ_SOCKET mean the same.
        2 | 3 => ObjectType::Package,
        4 => ObjectType::Core,
        5 => ObjectType::Pu,
        6 => ObjectType::Die,
        7 => ObjectType::L3Cache,
        8 => ObjectType::L2Cache,
        9 => ObjectType::L1Cache,
        _ => return None,
    })
}

/// Like [`known_object_type`], with an error for an unknown number.
pub(crate) fn object_type(number: c_int) -> Result<ObjectType, Failure> {
    known_object_type(number).ok_or_else(|| unknown_object_type(number))
}

pub(crate) fn unknown_object_type(number: c_int) -> Failure {
    Failure::invalid(format!("{number} is not an object type"))
}

/// Checks an index of an object of a type that has `count`.
pub(crate) fn object_index(kind: ObjectType, index: c_int, count: usize) -> Result<usize, Failure> {
    usize::try_from(index).ok().filter(|&index| index < count).ok_or_else(|| {
        Failure::invalid(format!("there is no {kind} {index}: the machine has {count}"))
    })
}

/// Returns a copy of a text in memory that C frees.
pub(crate) fn text_for_c(text: &str) -> Result<*mut c_char, Failure> {
    let bytes = allocate(text.len() + 1)?.cast::<u8>();
    // SAFETY: the new block has room for the text and the zero after it.
    unsafe {
        bytes.copy_from_nonoverlapping(text.as_ptr(), text.len());
        bytes.add(text.len()).write(0);
    }
    Ok(bytes.cast())
}

/// Returns a copy of a list of node ranks in memory that C frees; NULL for an empty one.
pub(crate) fn numbers_for_c(ranks: &[usize]) -> Result<*mut c_int, Failure> {
    if ranks.is_empty() {
        return Ok(std::ptr::null_mut());
    }
    let block = allocate(std::mem::size_of_val(ranks))?.cast::<c_int>();
    for (index, &rank) in ranks.iter().enumerate() {
        let number = c_int::try_from(rank).unwrap_or(c_int::MAX);
        // SAFETY: an int is not longer than a usize, so the block has room for all of them; malloc
        // aligns for both.
        unsafe { block.add(index).write(number) };
    }
    Ok(block)
}

/// Returns a copy of bytes in memory that C frees.
pub(crate) fn bytes_for_c(bytes: &[u8]) -> Result<*mut c_void, Failure> {
    let block = allocate(bytes.len().max(1))?;
    // SAFETY: the new block has room for them.
    unsafe { block.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(block)
}

/// Returns a copy of a list of ids in memory that C frees; NULL for an empty one.
pub(crate) fn ids_for_c(ids: &[u64]) -> Result<*mut c_longlong, Failure> {
    if ids.is_empty() {
        return Ok(std::ptr::null_mut());
    }
    let block = allocate(size_of_val(ids))?.cast::<c_longlong>();
    for (index, id) in ids.iter().enumerate() {
        // SAFETY: the block has room for all of them, and malloc aligns for them.
        unsafe { block.add(index).write(id.cast_signed()) };
    }
    Ok(block)
}

fn allocate(bytes: usize) -> Result<*mut c_void, Failure> {
    // SAFETY: malloc may be called with any size.
    let block = unsafe { libc::malloc(bytes) };
    if block.is_null() {
        return Err(Failure::new(Code::OutOfResources, format!("no {bytes} bytes are left")));
    }
    Ok(block)
}

/// Frees memory that was passed to C.
pub(crate) fn free_for_c(block: *mut c_void) {
    // SAFETY: by the contract of `QUO_ptr_free` the block is from malloc and no longer used.
    unsafe { libc::free(block) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_go_to_c_as_blocks_that_c_can_free() {
        let block = numbers_for_c(&[3, 1, 2]).unwrap();
        // SAFETY: the block holds three numbers.
        assert_eq!(unsafe { std::slice::from_raw_parts(block, 3) }, [3, 1, 2]);
        free_for_c(block.cast());
        assert!(numbers_for_c(&[]).unwrap().is_null());
        let text = text_for_c("0-3,8").unwrap();
        // SAFETY: the block is a C string.
        assert_eq!(unsafe { CStr::from_ptr(text) }, c"0-3,8");
        free_for_c(text.cast());
    }

    #[test]
    fn qids_are_distinct_known_and_name_the_caller() {
        let read = |qids: &[c_int], count: c_int| {
            // SAFETY: `count` is never larger than the slice when it is positive.
            unsafe { Qids::new(qids.as_ptr()) }.read(count, 4, 1).map_err(|failure| failure.code)
        };
        assert_eq!(read(&[1, 3], 2).unwrap(), [1, 3]);
        let wrong: [(&[c_int], c_int); 6] =
            [(&[1, 1], 2), (&[0, 2], 2), (&[1, 4], 2), (&[1, -1], 2), (&[1], 0), (&[1], -7)];
        for (qids, count) in wrong {
            assert_eq!(read(qids, count).unwrap_err(), Code::InvalidArgument, "{qids:?}");
        }
        // SAFETY: null is allowed.
        let null = unsafe { Qids::new(std::ptr::null()) };
        assert!(null.read(1, 4, 1).is_err());
    }

    #[test]
    fn only_numbers_of_the_header_are_object_types() {
        let known: Vec<c_int> =
            (-5..1000).filter(|&number| known_object_type(number).is_some()).collect();
        assert_eq!(known, (0..10).collect::<Vec<c_int>>());
        for kind in ObjectType::ALL {
            assert!(known.iter().any(|&number| known_object_type(number) == Some(kind)));
        }
    }
}
