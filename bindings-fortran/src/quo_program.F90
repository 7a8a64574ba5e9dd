!> Programs as arrays of elements, run by a driver over the elastic world; quo-program.h has the whole text. Blocks are
!> `bind(c)` functions with the interfaces there, given by `c_funloc`.
module quo_program
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_funptr, c_int, c_loc, c_null_char, c_null_funptr, c_null_ptr, c_ptr, c_size_t, c_sizeof
  use quo_constants, only: QUO_ERR_INVLD_ARG
  use quo_elastic_c, only: c_world_options
  use quo_elastic_types, only: quo_world_options_t
  use quo_text, only: out_of_memory
  use quo_world_options, only: c_world_options_of, option_texts
  implicit none
  private

  !> Error numbers of a program, in addition to the codes of `quo`.
  integer(c_int), parameter, public :: QUO_PROGRAM_BAD_ELEMENT = -1, QUO_PROGRAM_BAD_BRANCH = -2

  integer, parameter :: MOST_ELEMENTS = 64, LONGEST_NAME = 63

  integer(c_int), parameter :: OF_INIT = 0, RIGID = 1, ELASTIC = 2, BRANCH = 3

  !> `QUO_element_t`.
  type, bind(c) :: c_element
    integer(c_int) :: kind = -1
    type(c_ptr) :: name = c_null_ptr
    type(c_funptr) :: init = c_null_funptr
    type(c_funptr) :: compute = c_null_funptr
    type(c_funptr) :: redistribute = c_null_funptr
    type(c_funptr) :: again = c_null_funptr
    type(c_funptr) :: branch = c_null_funptr
  end type c_element

  !> `QUO_program_t`.
  type, bind(c) :: c_program
    integer(c_size_t) :: size
    integer(c_size_t) :: element
    integer(c_size_t) :: count
    type(c_ptr) :: elements
  end type c_program

  !> A program, the same in all processes: elements in the order in which they are added, at most 64. Positions count
  !> from 0, which is INIT, as in C.
  type, public :: quo_program_t
    private
    !> Number of elements added, including any beyond the available room.
    integer :: count = 0
    type(c_element) :: elements(MOST_ELEMENTS)
    character(kind=c_char) :: names(LONGEST_NAME + 1, MOST_ELEMENTS)
  end type quo_program_t

  interface
    function c_program_run(program, options, argc, argv) result(ierr) bind(c, name="QUO_program_run")
      import :: c_int, c_program, c_ptr, c_world_options
      implicit none
      type(c_program), intent(in) :: program
      type(c_world_options), intent(in) :: options
      integer(c_int), value :: argc
      type(c_ptr), value :: argv
      integer(c_int) :: ierr
    end function c_program_run

    function c_program_serial(program, argc, argv) result(ierr) bind(c, name="QUO_program_serial")
      import :: c_int, c_program, c_ptr
      implicit none
      type(c_program), intent(in) :: program
      integer(c_int), value :: argc
      type(c_ptr), value :: argv
      integer(c_int) :: ierr
    end function c_program_serial
  end interface

  public :: quo_program_init, quo_program_rigid, quo_program_elastic, quo_program_branch, &
    quo_program_run, quo_program_serial

contains

  !> Adds the INIT, which makes the data of a process: the first element. Local.
  subroutine quo_program_init(program, init)
    !> A program.
    type(quo_program_t), intent(inout) :: program
    !> A `QUO_block_init_t`; argc is 0.
    type(c_funptr), value :: init
    type(c_element) :: element
    element%kind = OF_INIT
    element%init = init
    call add(program, "init", element)
  end subroutine quo_program_init

  !> Adds a phase in which the ranks do not change. Local.
  subroutine quo_program_rigid(program, name, compute, again)
    !> A program.
    type(quo_program_t), intent(inout) :: program
    !> Its name, of which the first 63 letters count.
    character(len=*, kind=c_char), intent(in) :: name
    !> A `QUO_block_t`: a round.
    type(c_funptr), value :: compute
    !> A `QUO_block_again_t`, or `c_null_funptr` for one round.
    type(c_funptr), value :: again
    type(c_element) :: element
    element%kind = RIGID
    element%compute = compute
    element%again = again
    call add(program, name, element)
  end subroutine quo_program_rigid

  !> Adds a phase before each round of which the ranks may change. Local.
  subroutine quo_program_elastic(program, name, compute, again, redistribute)
    !> A program.
    type(quo_program_t), intent(inout) :: program
    !> Its name, of which the first 63 letters count.
    character(len=*, kind=c_char), intent(in) :: name
    !> A `QUO_block_t`: a round.
    type(c_funptr), value :: compute
    !> A `QUO_block_again_t`.
    type(c_funptr), value :: again
    !> A `QUO_block_t`, or `c_null_funptr` where only the arrays of the world move.
    type(c_funptr), value :: redistribute
    type(c_element) :: element
    element%kind = ELASTIC
    element%compute = compute
    element%again = again
    element%redistribute = redistribute
    call add(program, name, element)
  end subroutine quo_program_elastic

  !> Adds a branch, which names the next position. Local.
  subroutine quo_program_branch(program, name, choose)
    !> A program.
    type(quo_program_t), intent(inout) :: program
    !> Its name, of which the first 63 letters count.
    character(len=*, kind=c_char), intent(in) :: name
    !> A `QUO_block_branch_t`.
    type(c_funptr), value :: choose
    type(c_element) :: element
    element%kind = BRANCH
    element%branch = choose
    call add(program, name, element)
  end subroutine quo_program_branch

  !> Runs a program in an elastic world that is made with these options and has ended afterwards. Collective over all
  !> processes that were launched together, after MPI_Init.
  subroutine quo_program_run(program, options, ierr)
    !> A program.
    type(quo_program_t), target, intent(in) :: program
    !> Options of the world.
    type(quo_world_options_t), intent(in) :: options
    !> `QUO_PROGRAM_BAD_ELEMENT`, `QUO_PROGRAM_BAD_BRANCH`, `QUO_ERR_WORK_FAILED`, and as quo_world_create;
    !> `QUO_ERR_INVLD_ARG` for more than 64 elements.
    integer(c_int), intent(out) :: ierr
    type(c_world_options) :: given
    type(option_texts), target :: texts
    type(c_element), target :: elements(MOST_ELEMENTS)
    logical :: ready
    call c_world_options_of(options, given, texts, ready)
    if (.not. ready) then
      ierr = out_of_memory()
    else if (program%count > MOST_ELEMENTS) then
      ierr = QUO_ERR_INVLD_ARG
    else
      ierr = c_program_run(in_c(program, elements), given, 0_c_int, c_null_ptr)
    end if
  end subroutine quo_program_run

  !> Runs a program in this process alone, without MPI: there is no communicator of the world, and
  !> asking for it is an error. Local.
  subroutine quo_program_serial(program, ierr)
    !> A program.
    type(quo_program_t), target, intent(in) :: program
    !> As [[quo_program_run]].
    integer(c_int), intent(out) :: ierr
    type(c_element), target :: elements(MOST_ELEMENTS)
    if (program%count > MOST_ELEMENTS) then
      ierr = QUO_ERR_INVLD_ARG
    else
      ierr = c_program_serial(in_c(program, elements), 0_c_int, c_null_ptr)
    end if
  end subroutine quo_program_serial

  subroutine add(program, name, element)
    type(quo_program_t), intent(inout) :: program
    character(len=*, kind=c_char), intent(in) :: name
    type(c_element), intent(in) :: element
    integer :: i, length
    program%count = program%count + 1
    if (program%count > MOST_ELEMENTS) return
    program%elements(program%count) = element
    length = min(len(name), LONGEST_NAME)
    do i = 1, length
      program%names(i, program%count) = name(i:i)
    end do
    program%names(length + 1, program%count) = c_null_char
  end subroutine add

  !> The program for C, with its elements in this array.
  function in_c(program, elements) result(given)
    type(quo_program_t), target, intent(in) :: program
    type(c_element), target, intent(inout) :: elements(MOST_ELEMENTS)
    type(c_program) :: given
    integer :: i
    do i = 1, program%count
      elements(i) = program%elements(i)
      elements(i)%name = c_loc(program%names(1, i))
    end do
    given%size = c_sizeof(given)
    given%element = c_sizeof(elements(1))
    given%count = int(program%count, c_size_t)
    given%elements = c_loc(elements)
  end function in_c
end module quo_program
