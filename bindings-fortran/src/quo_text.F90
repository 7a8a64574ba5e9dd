!> Texts and lists on their way between C and Fortran. For the other modules of this library only.
!>
!> Nothing here calls the run-time library of the compiler (`trim`, `//`, an `allocate` that stops
!> the program): the module is linked into programs of C, too, and the same library serves all.
module quo_text
  use, intrinsic :: iso_c_binding, only: &
    c_associated, c_char, c_f_pointer, c_int, c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t
  use quo_c, only: c_ptr_free, c_set_last_error, c_strlen
  use quo_constants, only: QUO_ERR_INVLD_ARG, QUO_ERR_OOR, QUO_SUCCESS
  implicit none
  private

  public :: copied_text, out_of_memory, put_text, refuse, take_list, take_text, to_c, truth

  !> A sentence put together from texts and numbers, without an output statement.
  type, public :: sentence
    private
    integer :: length = 0
    character(kind=c_char) :: bytes(200) = c_null_char
  contains
    procedure :: say
    procedure :: number
  end type sentence

contains

  !> A text that belongs to C, as a copy; empty for NULL or without memory.
  subroutine copied_text(from, text, ok)
    type(c_ptr), intent(in) :: from
    character(len=:, kind=c_char), allocatable, intent(out) :: text
    logical, intent(out) :: ok
    character(kind=c_char), pointer :: bytes(:)
    integer(c_size_t) :: length, i
    integer :: status
    length = 0
    if (c_associated(from)) length = c_strlen(from)
    allocate (character(len=length, kind=c_char) :: text, stat=status)
    ok = status == 0
    if (.not. ok) then
      allocate (character(len=0, kind=c_char) :: text, stat=status)
      return
    end if
    if (length == 0) return
    call c_f_pointer(from, bytes, [length])
    do i = 1, length
      text(i:i) = bytes(i)
    end do
  end subroutine copied_text

  !> As [[copied_text]], for a text that the caller must free. Returns an empty text if `ierr`
  !> reports a failure.
  subroutine take_text(from, text, ierr)
    type(c_ptr), value :: from
    character(len=:, kind=c_char), allocatable, intent(out) :: text
    integer(c_int), intent(inout) :: ierr
    logical :: ok
    integer(c_int) :: freed
    call copied_text(from, text, ok)
    if (.not. ok) ierr = out_of_memory()
    freed = c_ptr_free(from)
  end subroutine take_text

  !> Returns a copy of a list that the caller must free; without elements if `ierr` reports a
  !> failure.
  subroutine take_list(from, length, list, ierr)
    type(c_ptr), value :: from
    integer(c_int), value :: length
    integer(c_int), allocatable, intent(out) :: list(:)
    integer(c_int), intent(inout) :: ierr
    integer(c_int), pointer :: numbers(:)
    integer(c_int) :: i, freed
    integer :: status
    if (ierr > QUO_SUCCESS .or. .not. c_associated(from)) length = 0
    allocate (list(length), stat=status)
    if (status /= 0) then
      ierr = out_of_memory()
      allocate (list(0), stat=status)
    else if (length > 0) then
      call c_f_pointer(from, numbers, [length])
      do i = 1, length
        list(i) = numbers(i)
      end do
    end if
    freed = c_ptr_free(from)
  end subroutine take_list

  !> A text for C: without the blanks at its end, with a zero behind. Not allocated when there is no
  !> memory.
  subroutine to_c(text, bytes)
    character(len=*, kind=c_char), intent(in) :: text
    character(kind=c_char), allocatable, target, intent(out) :: bytes(:)
    integer :: length, i, status
    length = len(text)
    do while (length > 0)
      ! As numbers: a comparison of texts becomes a call of the run-time library.
      if (iachar(text(length:length)) /= iachar(' ')) exit
      length = length - 1
    end do
    allocate (bytes(length + 1), stat=status)
    if (status /= 0) return
    do i = 1, length
      bytes(i) = text(i:i)
    end do
    bytes(length + 1) = c_null_char
  end subroutine to_c

  !> A text for C as [[to_c]] makes it, and where it is. Not ready without memory.
  subroutine put_text(text, bytes, place, ready)
    character(len=*, kind=c_char), intent(in) :: text
    character(kind=c_char), allocatable, target, intent(out) :: bytes(:)
    type(c_ptr), intent(out) :: place
    logical, intent(inout) :: ready
    place = c_null_ptr
    call to_c(text, bytes)
    if (allocated(bytes)) then
      place = c_loc(bytes)
    else
      ready = .false.
    end if
  end subroutine put_text

  !> A logical value for C's 1 and 0.
  pure function truth(number) result(answer)
    integer(c_int), intent(in) :: number
    logical :: answer
    answer = number /= 0
  end function truth

  !> The code for memory that cannot be had, with its text.
  function out_of_memory() result(ierr)
    integer(c_int) :: ierr
    ierr = c_set_last_error(QUO_ERR_OOR, "module quo: no memory for a result"//c_null_char)
  end function out_of_memory

  !> The code for an argument that this module refuses, with its text.
  function refuse(why) result(ierr)
    type(sentence), intent(in) :: why
    integer(c_int) :: ierr
    ierr = c_set_last_error(QUO_ERR_INVLD_ARG, why%bytes)
  end function refuse

  !> Appends a text; the part that does not fit is cut off.
  subroutine say(self, text)
    class(sentence), intent(inout) :: self
    character(len=*, kind=c_char), intent(in) :: text
    integer :: i
    do i = 1, len(text)
      if (self%length >= size(self%bytes) - 1) return
      self%length = self%length + 1
      self%bytes(self%length) = text(i:i)
    end do
  end subroutine say

  !> Appends a number that is not negative.
  subroutine number(self, value)
    class(sentence), intent(inout) :: self
    integer(c_size_t), intent(in) :: value
    character(kind=c_char) :: digits(20)
    integer(c_size_t) :: rest
    integer :: count
    rest = value
    count = 0
    do
      count = count + 1
      digits(count) = achar(iachar('0') + int(mod(rest, 10_c_size_t)))
      rest = rest / 10
      if (rest <= 0 .or. count == size(digits)) exit
    end do
    do count = count, 1, -1
      call self%say(digits(count))
    end do
  end subroutine number
end module quo_text
