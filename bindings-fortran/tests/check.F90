!> Shared by the test programs. A failed check is printed and counted; `finish` ends the program
!> with a failure if there was one.
module check
  use, intrinsic :: iso_fortran_env, only: error_unit
  use quo
  implicit none
  private
  public :: bad_handles, code, done, equal, finish, same, says, true

  integer :: failures = 0
  integer(c_intptr_t), parameter :: NOWHERE(3) = [0_c_intptr_t, 64_c_intptr_t, 123456789_c_intptr_t]

contains

  !> Records a failed check.
  subroutine failed(what, why)
    character(len=*), intent(in) :: what, why
    failures = failures + 1
    write (error_unit, '(4a)') 'FAILED: ', what, ': ', why
  end subroutine failed

  !> Checks that the call succeeded.
  subroutine done(ierr, what)
    integer(c_int), intent(in) :: ierr
    character(len=*), intent(in) :: what
    if (ierr /= QUO_SUCCESS) call failed(what, quo_strerror(ierr)//' / '//quo_last_error())
  end subroutine done

  !> Checks that the call returned this code.
  subroutine code(ierr, expected, what)
    integer(c_int), intent(in) :: ierr, expected
    character(len=*), intent(in) :: what
    if (ierr /= expected) then
      call failed(what, quo_strerror(ierr)//' and not: '//quo_strerror(expected))
    end if
  end subroutine code

  subroutine true(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (.not. condition) call failed(what, 'not so')
  end subroutine true

  subroutine equal(found, expected, what)
    integer(c_int), intent(in) :: found, expected
    character(len=*), intent(in) :: what
    character(len=60) :: text
    write (text, '(i0,a,i0)') found, ' and not ', expected
    if (found /= expected) call failed(what, trim(text))
  end subroutine equal

  subroutine same(found, expected, what)
    character(len=*), intent(in) :: found, expected, what
    if (found /= expected) call failed(what, found//' and not '//expected)
  end subroutine same

  !> Checks that the text of the last error names something.
  subroutine says(part)
    character(len=*), intent(in) :: part
    if (index(quo_last_error(), part) == 0) call failed('"'//part//'" is not in', quo_last_error())
  end subroutine says

  !> Handles that were never returned: the null pointer and two more.
  subroutine bad_handles(number, handle, expected)
    integer, intent(in) :: number
    type(c_ptr), intent(out) :: handle
    !> Expected answer of a function that takes no null handle.
    integer(c_int), intent(out) :: expected
    handle = transfer(NOWHERE(number), handle)
    expected = merge(QUO_ERR_INVLD_ARG, QUO_ERR_INVLD_HANDLE, number == 1)
  end subroutine bad_handles

  !> Ends the program if a check failed.
  subroutine finish()
    if (failures > 0) error stop 1
  end subroutine finish
end module check
