!> The version of the library, and what went wrong.
!>
!> Rules that hold for every procedure of this library unless its text says otherwise:
!>
!> - `ierr` is a return code; `QUO_SUCCESS` is 0. It is never optional: the library prints nothing
!>   and never stops the program, so an error would go unnoticed. After a failure [[quo_last_error]]
!>   returns what failed, on which object, and why.
!> - After a failure a number is -1 (indices) or 0 (counts), a logical is false, a handle is
!>   `c_null_ptr`, a list or text is allocated and empty, and a pointer is not associated.
!> - *Collective* procedures must be called by every rank that the text names, and fail on all of
!>   them or on none. *Local* ones are called by any rank at any time, by any thread.
module quo_errors
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_ptr
  use quo_c, only: c_last_error, c_ptr_free, c_strerror, c_version
  use quo_text, only: copied_text
  implicit none
  private

  public :: quo_last_error, quo_ptr_free, quo_strerror, quo_version

contains

  !> Returns the version of the library's binary interface: the number in `libquo.so.8`, and its
  !> revision. Local; may be called at any time, before MPI_Init too.
  subroutine quo_version(version, subversion, ierr)
    !> Binary interface number.
    integer(c_int), intent(out) :: version
    !> Revision of it.
    integer(c_int), intent(out) :: subversion
    !> Always `QUO_SUCCESS`.
    integer(c_int), intent(out) :: ierr
    ierr = c_version(version, subversion)
  end subroutine quo_version

  !> One sentence for a return code; another number gets a sentence that says so. Local; may be
  !> called at any time.
  function quo_strerror(code) result(text)
    !> The value that came back in `ierr`.
    integer(c_int), intent(in) :: code
    character(len=:, kind=c_char), allocatable :: text
    logical :: ok
    call copied_text(c_strerror(code), text, ok)
  end function quo_strerror

  !> The error of the last call that failed in this thread: the function, the object and the
  !> cause. Empty when no call has failed. Local to the thread; may be called at any time.
  function quo_last_error() result(text)
    character(len=:, kind=c_char), allocatable :: text
    logical :: ok
    call copied_text(c_last_error(), text, ok)
  end function quo_last_error

  !> Frees memory that a C function of the library returned. The procedures of this module return
  !> none: their lists and texts are allocatable. Local; may be called at any time.
  subroutine quo_ptr_free(cptr)
    !> Such memory, or `c_null_ptr`.
    type(c_ptr), value :: cptr
    integer(c_int) :: always_done
    always_done = c_ptr_free(cptr)
  end subroutine quo_ptr_free
end module quo_errors
