!> Resize points: the calls of ReSHAPE over the elastic world. quo-reshape.h has the whole text of each procedure;
!> the rules of `quo_errors` hold. A process that leaves sleeps in [[reshape_resize]] until it is
!> called in again or the job is over; processes that are no ranks at first sleep in
!> [[reshape_init]]. [[reshape_getseat]] says which.
module quo_reshape
  use, intrinsic :: iso_c_binding, only: &
    c_associated, c_char, c_double, c_f_pointer, c_funptr, c_int, c_loc, c_null_funptr, &
    c_null_ptr, c_ptr, c_size_t, c_sizeof
#ifndef QUO_NO_MPI_F08
  use mpi_f08, only: MPI_Comm
#endif
  use quo_c, only: c_ptr_free
  use quo_constants, only: QUO_SUCCESS
  use quo_elastic_c
  use quo_elastic_types, only: quo_world_options_t, QUO_ARRAY_BY_COLUMNS
  use quo_text, only: out_of_memory
  use quo_world_options, only: c_world_options_of, option_texts
  implicit none
  private

  !> Any number of processors; it grows by `increment`.
  integer(c_int), parameter, public :: RESHAPE_ARBITRARY = 0
  !> A power of two; it doubles.
  integer(c_int), parameter, public :: RESHAPE_POWER_OF_TWO = 1
  !> A grid of rows and columns; the smaller dimension grows.
  integer(c_int), parameter, public :: RESHAPE_RECTANGULAR = 2
  !> No action on data.
  integer(c_int), parameter, public :: REMAP_CONTINUE = 0
  !> The world has grown: redistribute to all.
  integer(c_int), parameter, public :: REMAP_EXPAND = 1
  !> The world is going to shrink: redistribute to the stayers.
  integer(c_int), parameter, public :: REMAP_SHRINK = 2
  !> A rank, as before.
  integer(c_int), parameter, public :: RESHAPE_STAYS = 0
  !> A new rank: it continues with [[reshape_getitercount]].
  integer(c_int), parameter, public :: RESHAPE_JOINS = 1
  !> No longer a rank: the job is over.
  integer(c_int), parameter, public :: RESHAPE_ENDED = 2

  !> First arrangement of a program's processors.
  type, public :: processortopology
    !> One of `RESHAPE_ARBITRARY` and so on.
    integer(c_int) :: kind = RESHAPE_ARBITRARY
    !> 1 or 2.
    integer(c_int) :: ndims = 1
    !> Rows and columns, if `ndims` is 2.
    integer(c_int) :: dims(2) = 1
    !> Number of processors, if `ndims` is 1.
    integer(c_int) :: total = 1
    !> By how many `RESHAPE_ARBITRARY` grows.
    integer(c_int) :: increment = 1
  end type processortopology

  !> Moves a vector in blocks, distributed round robin.
  interface reshape_redistribute1d
    module procedure redistribute1d_double
    module procedure redistribute1d_int
  end interface reshape_redistribute1d

  !> Moves a vector in one block for each rank.
  interface reshape_redistributeuniformblock
    module procedure uniform_double
    module procedure uniform_int
  end interface reshape_redistributeuniformblock

  !> Moves a matrix in square blocks over the grid of processors; parts are stored by columns.
  interface reshape_redistribute2d
    module procedure redistribute2d_double
    module procedure redistribute2d_int
  end interface reshape_redistribute2d

  !> The communicator of the current ranks, an integer or of mpi_f08: RESHAPE_COMM_WORLD.
  interface reshape_comm_world
    module procedure reshape_comm_world
#ifndef QUO_NO_MPI_F08
    module procedure reshape_comm_world_f08
#endif
  end interface reshape_comm_world

  public :: reshape_comm_world, reshape_contactscheduler, reshape_exit, reshape_getitercount, &
    reshape_getnewprocessordimensions, reshape_getoldprocessordimensions, reshape_getseat, &
    reshape_getschedulerdecision, reshape_init, reshape_redistribute1d, reshape_redistribute2d, &
    reshape_redistributeuniformblock, reshape_resize, reshape_setdimensions

contains

  !> Makes the world with as many ranks as the topology says. Collective over all launched
  !> processes; processes that are no ranks sleep in it.
  subroutine reshape_init(topology, ierr, options, decide, data)
    !> First arrangement of processors, the same everywhere.
    type(processortopology), intent(in) :: topology
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_REFUSED`, `QUO_ERR_STATE`, and as quo_world_create.
    integer(c_int), intent(out) :: ierr
    !> Options of the world; `initial_ranks` is ignored.
    type(quo_world_options_t), intent(in), optional :: options
    !> A `QUO_reshape_scheduler_t`; without it the world grows as long as that makes iterations faster.
    type(c_funptr), intent(in), optional :: decide
    !> Passed to it.
    type(c_ptr), intent(in), optional :: data
    type(c_reshape_topology) :: wanted
    type(c_world_options) :: given
    type(quo_world_options_t) :: usual
    type(c_funptr) :: scheduler
    type(c_ptr) :: its_data
    type(option_texts), target :: texts
    logical :: ready
    wanted%size = c_sizeof(wanted)
    wanted%kind = topology%kind
    wanted%ndims = topology%ndims
    wanted%dims = topology%dims
    wanted%total = topology%total
    wanted%increment = topology%increment
    if (present(options)) then
      call c_world_options_of(options, given, texts, ready)
    else
      call c_world_options_of(usual, given, texts, ready)
    end if
    scheduler = c_null_funptr
    if (present(decide)) scheduler = decide
    its_data = c_null_ptr
    if (present(data)) its_data = data
    ! Takes part nevertheless, so that the call fails on all processes.
    if (.not. ready) wanted%ndims = 0
    ierr = c_reshape_init_with(wanted, given, scheduler, its_data)
    if (.not. ready) ierr = out_of_memory()
  end subroutine reshape_init

  !> Ends the program's world. All processes call it, before MPI_Finalize.
  subroutine reshape_exit(ierr)
    !> `QUO_ERR_STATE` when the program has not begun; as quo_world_end.
    integer(c_int), intent(out) :: ierr
    ierr = c_reshape_exit()
  end subroutine reshape_exit

  !> A resize point: reports the time of each of the last iterations, and gets one decision on all
  !> ranks. Collective.
  subroutine reshape_contactscheduler(seconds, iteration, decision, ierr)
    !> The time.
    real(c_double), value :: seconds
    !> The iteration that is done.
    integer(c_int), value :: iteration
    !> One of `REMAP_...`.
    integer(c_int), intent(out) :: decision
    !> `QUO_ERR_INVLD_ARG` for what is no time or number.
    integer(c_int), intent(out) :: ierr
    decision = REMAP_CONTINUE
    ierr = c_reshape_contact(seconds, iteration, decision)
  end subroutine reshape_contactscheduler

  !> Does what was decided: joiners are there afterwards, or leavers asleep. Collective.
  subroutine reshape_resize(decision, ierr)
    !> Result of the contact. Not looked at: the library knows it.
    integer(c_int), value :: decision
    !> `QUO_ERR_ABORTED` when a process refused: the ranks are the old ones.
    integer(c_int), intent(out) :: ierr
    ierr = c_reshape_resize(decision)
  end subroutine reshape_resize

  !> State of this process. Local.
  subroutine reshape_getseat(seat, ierr)
    !> `RESHAPE_STAYS`, `RESHAPE_JOINS` or `RESHAPE_ENDED`.
    integer(c_int), intent(out) :: seat
    !> `QUO_ERR_STATE` when the program has not begun.
    integer(c_int), intent(out) :: ierr
    seat = RESHAPE_ENDED
    ierr = c_reshape_seat(seat)
  end subroutine reshape_getseat

  !> Next action on data: `REMAP_EXPAND` once after the world has grown, on all ranks. Local.
  subroutine reshape_getschedulerdecision(decision, ierr)
    !> One of `REMAP_...`.
    integer(c_int), intent(out) :: decision
    !> `QUO_ERR_STATE` when the program has not begun.
    integer(c_int), intent(out) :: ierr
    decision = REMAP_CONTINUE
    ierr = c_reshape_decision(decision)
  end subroutine reshape_getschedulerdecision

  !> The iteration that is next: 0 at first, for joiners the one that the others begin. Local.
  subroutine reshape_getitercount(iteration, ierr)
    !> The iteration.
    integer(c_int), intent(out) :: iteration
    !> `QUO_ERR_STATE` when the program has not begun.
    integer(c_int), intent(out) :: ierr
    iteration = 0
    ierr = c_reshape_iteration(iteration)
  end subroutine reshape_getitercount

  !> The arrangement before the last resize; a line has one column. Local.
  subroutine reshape_getoldprocessordimensions(rows, columns, ierr)
    !> Rows of processors.
    integer(c_int), intent(out) :: rows
    !> Columns of processors.
    integer(c_int), intent(out) :: columns
    !> `QUO_ERR_STATE` when the program has not begun.
    integer(c_int), intent(out) :: ierr
    rows = 0
    columns = 0
    ierr = c_reshape_old_dimensions(rows, columns)
  end subroutine reshape_getoldprocessordimensions

  !> The present arrangement. Local.
  subroutine reshape_getnewprocessordimensions(rows, columns, ierr)
    !> Rows of processors.
    integer(c_int), intent(out) :: rows
    !> Columns of processors.
    integer(c_int), intent(out) :: columns
    !> `QUO_ERR_STATE` when the program has not begun.
    integer(c_int), intent(out) :: ierr
    rows = 0
    columns = 0
    ierr = c_reshape_new_dimensions(rows, columns)
  end subroutine reshape_getnewprocessordimensions

  !> Arranges the current processors in another way. Local; on all ranks alike.
  subroutine reshape_setdimensions(rows, columns, ierr)
    !> Rows of processors.
    integer(c_int), value :: rows
    !> Columns of processors.
    integer(c_int), value :: columns
    !> `QUO_ERR_INVLD_ARG` for another number of processors.
    integer(c_int), intent(out) :: ierr
    ierr = c_reshape_rearrange(rows, columns)
  end subroutine reshape_setdimensions

  !> The communicator of the current ranks, until the next resize and not to be freed. Local.
  subroutine reshape_comm_world(comm, ierr)
    !> MPI_COMM_NULL for a process that is no rank.
    integer, intent(out) :: comm
    !> `QUO_ERR_STATE` when the program has not begun.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: number
    number = -1
    ierr = c_reshape_world(number)
    comm = int(number)
  end subroutine reshape_comm_world
#ifndef QUO_NO_MPI_F08

  subroutine reshape_comm_world_f08(comm, ierr)
    type(MPI_Comm), intent(out) :: comm
    integer(c_int), intent(out) :: ierr
    call reshape_comm_world(comm%MPI_VAL, ierr)
  end subroutine reshape_comm_world_f08
#endif

  ! One include per type: its name, and the names of its procedures.

#define ELEMENT real(c_double)
#define REDISTRIBUTE1D redistribute1d_double
#define UNIFORM uniform_double
#define REDISTRIBUTE2D redistribute2d_double
#define LEND lend_double
#define TAKE take_double
#include "quo_reshape.inc"

#define ELEMENT integer(c_int)
#define REDISTRIBUTE1D redistribute1d_int
#define UNIFORM uniform_int
#define REDISTRIBUTE2D redistribute2d_int
#define LEND lend_int
#define TAKE take_int
#include "quo_reshape.inc"
end module quo_reshape
