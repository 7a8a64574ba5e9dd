//! Communicators in the prototypes of a C interface.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::raw;

/// A communicator, an `MPI_Comm` by value, whatever its C type.
///
/// An int (MPICH and its derivatives) and a pointer (Open MPI) are passed in the same integer
/// register as this word, in the 64-bit calling conventions of Linux, so a function that C declares
/// with an `MPI_Comm` may be defined with this type. If the handle is an int, the other half of the
/// register is undefined; every use goes through the C file, which reads only the handle's own
/// bits.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Comm(pub(crate) u64);

/// A communicator's number in Fortran, an `MPI_Fint` by value. As with [`Comm`], bits beyond the
/// MPI's own type are ignored.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Fint(u64);

const _: () = assert!(usize::BITS == 64, "an MPI_Comm crosses in one register of 64 bits");

impl Comm {
    /// `MPI_COMM_NULL`.
    #[must_use]
    pub fn null() -> Self {
        Self(raw::quo_mpi_comm_null())
    }

    /// Returns true if this is `MPI_COMM_NULL`.
    #[must_use]
    pub fn is_null(self) -> bool {
        raw::quo_mpi_is_comm_null(self.0) != 0
    }

    /// Returns the communicator stored as an `MPI_Comm` at the lower end of a word.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Returns the word, with the handle at the lower end.
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// `MPI_Comm_f2c`.
    ///
    /// # Safety
    /// MPI is running, and it is the one this library was built for; `fortran` is a communicator of
    /// Fortran.
    #[must_use]
    pub unsafe fn from_fortran(fortran: Fint) -> Self {
        // SAFETY: by this function's contract.
        Self(unsafe { raw::quo_mpi_comm_from_fortran(fortran.0) })
    }

    /// Reads the handle of an `MPI_Comm`.
    ///
    /// # Safety
    /// `place` is valid for a read of an `MPI_Comm`.
    #[must_use]
    pub unsafe fn load(place: *const c_void) -> Self {
        // SAFETY: by this function's contract.
        Self(unsafe { raw::quo_mpi_load_comm(place) })
    }

    /// Writes the handle to an `MPI_Comm`.
    ///
    /// # Safety
    /// `place` is valid for a write of an `MPI_Comm`.
    pub unsafe fn store(self, place: *mut c_void) {
        // SAFETY: by this function's contract.
        unsafe { raw::quo_mpi_store_comm(self.0, place) }
    }

    /// Writes the result of `MPI_Comm_c2f` to an `MPI_Fint`.
    ///
    /// # Safety
    /// MPI is running; the communicator is null or has not been freed; `place` is valid for a write
    /// of an `MPI_Fint`.
    pub unsafe fn store_for_fortran(self, place: *mut c_void) {
        // SAFETY: by this function's contract.
        unsafe { raw::quo_mpi_store_fortran(self.0, place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a register as the caller of a C function may leave it: an int next to undefined
    /// bits.
    fn with_rubbish(word: u64) -> u64 {
        if raw::quo_mpi_handle_size() == 4 { word ^ 0xdead_beef_0000_0000 } else { word }
    }

    #[test]
    fn rubbish_beside_the_handle_means_nothing() {
        let null = Comm(with_rubbish(Comm::null().0));
        assert!(null.is_null());
        let world = Comm(with_rubbish(raw::quo_mpi_comm_world()));
        assert!(!world.is_null());
        let mut place = [u64::MAX; 2];
        // SAFETY: there is room for any handle.
        unsafe { world.store(place.as_mut_ptr().cast()) };
        // SAFETY: a handle was written to it.
        let loaded = unsafe { Comm::load(place.as_ptr().cast()) };
        assert_eq!(loaded.0, raw::quo_mpi_comm_world());
        let size = usize::try_from(raw::quo_mpi_handle_size()).unwrap();
        let bytes: Vec<u8> = place.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(bytes[size..].iter().all(|&byte| byte == u8::MAX), "{place:x?}");
    }
}
