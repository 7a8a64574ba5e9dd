//! Structures of the headers that start with their own size, so that fields can be appended: programs that were
//! compiled against another version of the header have shorter or longer ones.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::RawOut;
use crate::guard::Failure;

/// A structure that starts with its own size as known to C.
///
/// # Safety
/// The type is `repr(C)` without padding after its last field, its first field is a `usize` for the
/// size, and any bytes that C may write to the other fields make a value of it, zeros among them. For a
/// field beyond [`FIRST`](Self::FIRST), zero is the default.
pub(crate) unsafe trait Growing: Copy {
    /// The name in the header.
    const NAME: &'static str;
    /// Size of the structure when it was first published.
    const FIRST: usize = size_of::<Self>();
}

fn check_size<T: Growing>(size: usize) -> Result<(), Failure> {
    /// Longer than any structure will be; keeps a wild size from causing an out-of-bounds read.
    const LONGEST: usize = 4096;
    if (T::FIRST..=LONGEST).contains(&size) && size.is_multiple_of(align_of::<T>()) {
        return Ok(());
    }
    let (name, today) = (T::NAME, size_of::<T>());
    Err(Failure::invalid(format!("the size of {name} is {size}, set it to sizeof, {today}")))
}

/// A pointer to such a structure that C has filled in, or NULL.
#[derive(Debug)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> In<T> {
    /// Wraps a pointer, for callers in Rust.
    ///
    /// # Safety
    /// `pointer` is null, or valid for reads of the number of bytes given by its first field, until
    /// the call that gets it returns.
    pub unsafe fn new(pointer: *const T) -> Self {
        Self(pointer)
    }
}

#[allow(private_bounds, reason = "only the structures of the headers are read")]
impl<T: Growing> In<T> {
    /// Returns the structure, `None` for NULL. Fields that the caller's version does not have are
    /// zero.
    pub(crate) fn read(self) -> Result<Option<T>, Failure> {
        if self.0.is_null() {
            return Ok(None);
        }
        let bytes = self.0.cast::<u8>();
        // SAFETY: by the contract of the C interface the structure starts with its size.
        let size = unsafe { self.0.cast::<usize>().read() };
        check_size::<T>(size)?;
        let known = size.min(size_of::<T>());
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: the structure has as many bytes as its size, and `value` has room for those
        // known.
        let (value, appended) = unsafe {
            value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes, known);
            // Any bytes make a `T`, and so do zeros.
            (value.assume_init(), std::slice::from_raw_parts(bytes.add(known), size - known))
        };
        if appended.iter().any(|&byte| byte != 0) {
            let text = format!("{} has a field set that this version does not know", T::NAME);
            return Err(Failure::invalid(text));
        }
        Ok(Some(value))
    }
}

/// Pointer to space for a structure of the size known to C.
#[derive(Clone, Copy)]
pub(crate) struct SizedPtr<T> {
    pointer: *mut T,
    size: usize,
}

impl<T: Growing> SizedPtr<T> {
    /// Writes the fields that C knows after the size, which stays; fields that only C knows become
    /// zero.
    pub(crate) fn set(self, value: &T) {
        let known = self.size.min(size_of::<T>());
        let (to, from) = (self.pointer.cast::<u8>(), (&raw const *value).cast::<u8>());
        let start = size_of::<usize>();
        // SAFETY: by the contract of the C interface the space has as many bytes as its size, which
        // is larger than the size field; `value` has those known, and does not overlap.
        unsafe {
            to.add(start).copy_from_nonoverlapping(from.add(start), known - start);
            to.add(known).write_bytes(0, self.size - known);
        }
    }
}

#[allow(private_bounds, reason = "only the structures of the headers are written")]
impl<T: Growing> RawOut<T> {
    /// Returns the checked pointer with the size given by C.
    pub(crate) fn checked_sized(self, name: &str) -> Result<SizedPtr<T>, Failure> {
        let pointer = self.checked(name)?.0;
        // SAFETY: by the contract of the C interface the structure starts with its size, which C has
        // set.
        let size = unsafe { pointer.cast::<usize>().read() };
        check_size::<T>(size)?;
        Ok(SizedPtr { pointer, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Code;

    /// Of the header of yesterday, today and tomorrow.
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Fields<const COUNT: usize> {
        size: usize,
        fields: [u64; COUNT],
    }

    // SAFETY: repr(C), starts with its size, and the other fields are numbers.
    unsafe impl Growing for Fields<2> {
        const NAME: &'static str = "fields";
        const FIRST: usize = size_of::<Fields<1>>();
    }

    fn read<const COUNT: usize>(size: usize, fields: [u64; COUNT]) -> Result<[u64; 2], Code> {
        let given = Fields { size, fields };
        // SAFETY: it has as many bytes as its size whenever it is read.
        let given = unsafe { In::new((&raw const given).cast::<Fields<2>>()) };
        given.read().map(|value| value.unwrap().fields).map_err(|failure| failure.code)
    }

    fn written<const COUNT: usize>() -> Fields<COUNT> {
        let mut place = Fields { size: size_of::<Fields<COUNT>>(), fields: [9; COUNT] };
        // SAFETY: it has as many bytes as its size.
        let out = unsafe { RawOut::new((&raw mut place).cast::<Fields<2>>()) };
        out.checked_sized("place").unwrap().set(&Fields { size: 0, fields: [1, 2] });
        place
    }

    #[test]
    fn fields_missing_in_a_shorter_structure_read_as_zero() {
        assert_eq!(read(16, [7]), Ok([7, 0]));
        assert_eq!(read(24, [7, 8]), Ok([7, 8]));
    }

    #[test]
    fn unknown_fields_of_a_longer_structure_have_to_be_zero() {
        assert_eq!(read(32, [7, 8, 0]), Ok([7, 8]));
        assert_eq!(read(32, [7, 8, 1]), Err(Code::InvalidArgument));
    }

    #[test]
    fn sizes_that_no_version_had_are_refused() {
        for size in [0, 8, 15, 17, 20, 4104, usize::MAX] {
            assert_eq!(read(size, [0; 600]), Err(Code::InvalidArgument), "{size}");
        }
    }

    #[test]
    fn results_fill_the_structure_that_the_caller_has() {
        assert_eq!(written::<1>(), Fields { size: 16, fields: [1] });
        assert_eq!(written::<2>(), Fields { size: 24, fields: [1, 2] });
        assert_eq!(written::<3>(), Fields { size: 32, fields: [1, 2, 0] });
    }
}
