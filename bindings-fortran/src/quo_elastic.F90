!> The elastic world: a job has more or fewer ranks while it runs. quo-elastic.h has the whole text of each
!> procedure; the rules of `quo_errors` hold. What is *collective* is made by all ranks of the world in the same
!> order. Offsets, rows and columns of arrays count from 0, as in C.
module quo_elastic
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_f_pointer, c_funptr, c_int, c_loc, c_long_long, c_null_ptr, c_ptr, &
    c_size_t, c_sizeof
#ifndef QUO_NO_MPI_F08
  use mpi_f08, only: MPI_Comm
#endif
  use quo_constants, only: QUO_SUCCESS
  use quo_elastic_c
  use quo_text, only: out_of_memory, take_text, to_c, truth
  implicit none
  private

  !> A rank since the beginning of the job.
  integer(c_int), parameter, public :: QUO_WORLD_NEW = 0
  !> Called in: quo_world_begin is next.
  integer(c_int), parameter, public :: QUO_WORLD_JOINING = 1
  !> A rank after a resize.
  integer(c_int), parameter, public :: QUO_WORLD_STAYING = 2
  !> A rank in a resize with which it leaves.
  integer(c_int), parameter, public :: QUO_WORLD_LEAVING = 3
  !> No rank: quo_world_wait is next.
  integer(c_int), parameter, public :: QUO_WORLD_PARKED = 4
  !> The job is over for this process.
  integer(c_int), parameter, public :: QUO_WORLD_ENDED = 5
  !> Accepted, and not ended.
  integer(c_int), parameter, public :: QUO_REQUEST_OPEN = 0
  !> Its resize is done.
  integer(c_int), parameter, public :: QUO_REQUEST_DONE = 1
  !> Refused or given up.
  integer(c_int), parameter, public :: QUO_REQUEST_FAILED = 2
  !> All who stay, leave or join.
  integer(c_int), parameter, public :: QUO_WINDOW_EVERYBODY = 0
  !> The world as it was.
  integer(c_int), parameter, public :: QUO_WINDOW_OLD = 1
  !> The world as it will be.
  integer(c_int), parameter, public :: QUO_WINDOW_NEW = 2
  !> An intercommunicator between the old ranks and those who join; the caller frees it.
  integer(c_int), parameter, public :: QUO_WINDOW_BETWEEN = 3
  !> A vector in one block for each rank.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK = 0
  !> A vector in blocks that are dealt out in turns.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK_CYCLIC = 1
  !> A matrix in one block of rows for each rank.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK_ROWS = 2
  !> A matrix in one block of columns for each rank.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK_COLUMNS = 3
  !> A matrix in one block for each place of a grid of ranks.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK_GRID = 4
  !> A matrix in blocks that are dealt out over a grid of ranks.
  integer(c_int), parameter, public :: QUO_ARRAY_CHECKERBOARD = 5
  !> A vector of which every rank has all.
  integer(c_int), parameter, public :: QUO_ARRAY_REPLICATED = 6
  !> Parts of a matrix row by row, as in C.
  integer(c_int), parameter, public :: QUO_ARRAY_BY_ROWS = 0
  !> Parts of a matrix column by column, as in Fortran.
  integer(c_int), parameter, public :: QUO_ARRAY_BY_COLUMNS = 1

  !> What a world begins with. `start` and `most` are the same on all processes; of the rest, what rank 0 says
  !> counts.
  type, public :: quo_world_options_t
    !> Ranks at first, the other processes are parked; 0: all that were launched.
    integer(c_int) :: start = 0
    !> Ranks that there can be; 0: as many as were launched. Others are started where the MPI can, which needs
    !> MPI_THREAD_MULTIPLE.
    integer(c_int) :: most = 0
    !> Processes that are started together and leave together, at most; 0: all of one growth.
    integer(c_int) :: unit = 0
    !> More processes may be started than the launcher has slots for.
    logical :: crowded = .false.
    !> The job listens for the command quo-elastic.
    logical :: control = .false.
    !> Arrays go in messages of MPI also between ranks of a node.
    logical :: messages = .false.
    !> Seconds that processes may take from their start to being ready; 0: a minute.
    real(c_double) :: start_limit = 0
    !> The name of the job; not allocated: the number of the process of rank 0.
    character(len=:, kind=c_char), allocatable :: name
    !> A file for events; not allocated: none.
    character(len=:, kind=c_char), allocatable :: log
    !> A plan; not allocated: none.
    character(len=:, kind=c_char), allocatable :: plan
  end type quo_world_options_t

  !> An array of the world, the same on every rank: a vector of no numbers in one block each, unless said.
  type, public :: quo_array_spec_t
    !> One of `QUO_ARRAY_BLOCK` and so on.
    integer(c_int) :: kind = QUO_ARRAY_BLOCK
    !> `QUO_ARRAY_BY_ROWS` or `QUO_ARRAY_BY_COLUMNS`.
    integer(c_int) :: storage = QUO_ARRAY_BY_COLUMNS
    !> Bytes of an element.
    integer(c_size_t) :: element = 8
    !> Rows of a matrix; a vector has one.
    integer(c_size_t) :: rows = 1
    !> Columns of a matrix; how many elements a vector has.
    integer(c_size_t) :: columns = 0
    !> Rows of a block.
    integer(c_size_t) :: block_rows = 1
    !> Columns of a block; elements of one.
    integer(c_size_t) :: block_columns = 1
    !> Rows of the grid of ranks; 0, with `grid_columns`: as nearly square as can be.
    integer(c_size_t) :: grid_rows = 0
    !> Columns of it.
    integer(c_size_t) :: grid_columns = 0
  end type quo_array_spec_t

  !> What the last committed move of arrays has moved, in bytes. `QUO_move_metrics_t` in C.
  type, bind(c), public :: quo_move_metrics_t
    !> Of the library: the size of this type.
    integer(c_size_t) :: size = 0
    !> How many arrays and callbacks.
    integer(c_size_t) :: arrays = 0
    !> Steps of all schedules.
    integer(c_size_t) :: steps = 0
    !> What this process had for others.
    integer(c_size_t) :: sent = 0
    !> What this process has copied from the memory of others.
    integer(c_size_t) :: shared = 0
    !> What stayed here.
    integer(c_size_t) :: kept = 0
    !> What all processes had for others.
    integer(c_size_t) :: all_sent = 0
    !> What of that went through memory.
    integer(c_size_t) :: all_shared = 0
    !> What stayed where it was, on all processes.
    integer(c_size_t) :: all_kept = 0
    !> From the beginning to when all had agreed that it is done.
    real(c_double) :: seconds = 0
  end type quo_move_metrics_t

  !> The communicator of the world, an integer or of mpi_f08.
  interface quo_world_comm
    module procedure quo_world_comm
#ifndef QUO_NO_MPI_F08
    module procedure quo_world_comm_f08
#endif
  end interface quo_world_comm

  !> A communicator of the window, an integer or of mpi_f08.
  interface quo_window_comm
    module procedure quo_window_comm
#ifndef QUO_NO_MPI_F08
    module procedure quo_window_comm_f08
#endif
  end interface quo_window_comm

  !> Gives everybody what rank 0 has: bytes, or a number.
  interface quo_window_tell
    module procedure quo_window_tell
    module procedure quo_window_tell_number
  end interface quo_window_tell

  !> This rank's part of an array: its address, or as an array of numbers in the order of storage.
  interface quo_world_array
    module procedure quo_world_array
    module procedure quo_world_array_double
    module procedure quo_world_array_int
  end interface quo_world_array

  public :: c_world_options_of
  public :: quo_world_create, quo_world_end, quo_world_status, quo_world_rank, quo_world_size, &
    quo_world_capacity, quo_world_was_started, quo_world_probe, quo_world_wait, quo_world_epoch, &
    quo_world_back_end, quo_world_comm, quo_world_report_iteration, quo_world_request, &
    quo_world_request_state, quo_world_begin, quo_window_comm, quo_window_counts, &
    quo_window_tell, quo_window_move, quo_world_commit, quo_world_abort, quo_world_array_add, &
    quo_world_array, quo_world_array_origin, quo_world_array_lay_out, quo_world_array_remove, &
    quo_world_carry, quo_carry_give, quo_world_last_move

contains

  !> Makes the world. Collective over all processes that were launched, or started for a growth, together; after
  !> MPI_Init.
  subroutine quo_world_create(w, options, ierr)
    !> The world, to be ended with [[quo_world_end]].
    type(c_ptr), intent(out) :: w
    !> What it begins with.
    type(quo_world_options_t), intent(in) :: options
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_DISAGREE`, and as quo_create.
    integer(c_int), intent(out) :: ierr
    type(c_world_options) :: given
    character(kind=c_char), allocatable, target :: name(:), log(:), plan(:)
    logical :: ready
    call c_world_options_of(options, given, name, log, plan, ready)
    ! Takes part all the same, and makes it fail everywhere.
    if (.not. ready) given%start = -1
    w = c_null_ptr
    ierr = c_world_create(w, given)
    if (.not. ready) ierr = out_of_memory()
  end subroutine quo_world_create

  !> Ends the world: who sleeps wakes up and is told. Collective over the ranks, and made by processes that are
  !> parked or have ended as well, before MPI_Finalize.
  subroutine quo_world_end(w, ierr)
    !> A world, or `c_null_ptr`. Not valid any more afterwards.
    type(c_ptr), value :: w
    !> `QUO_ERR_INVLD_HANDLE`, `QUO_ERR_BUSY`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_end(w)
  end subroutine quo_world_end

  !> What this process is to the world. Local.
  subroutine quo_world_status(w, status, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> One of `QUO_WORLD_...`.
    integer(c_int), intent(out) :: status
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    status = -1
    ierr = c_world_status(w, status)
  end subroutine quo_world_status

  !> This process's rank; 0 for one who is none. Local.
  subroutine quo_world_rank(w, rank, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The rank.
    integer(c_int), intent(out) :: rank
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    rank = -1
    ierr = c_world_rank(w, rank)
  end subroutine quo_world_rank

  !> How many ranks there are. Local.
  subroutine quo_world_size(w, number, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The number.
    integer(c_int), intent(out) :: number
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    number = 0
    ierr = c_world_size(w, number)
  end subroutine quo_world_size

  !> How many ranks there can be. Local.
  subroutine quo_world_capacity(w, most, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The number.
    integer(c_int), intent(out) :: most
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    most = 0
    ierr = c_world_capacity(w, most)
  end subroutine quo_world_capacity

  !> Whether this process was started for a growth, and so ends when it leaves. Local.
  subroutine quo_world_was_started(w, started, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Whether it was.
    logical, intent(out) :: started
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_world_was_started(w, answer)
    started = truth(answer)
  end subroutine quo_world_was_started

  !> Whether all ranks have come to a resize: [[quo_world_begin]] is next. Made by all ranks in the same places.
  subroutine quo_world_probe(w, enters, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Whether they have.
    logical, intent(out) :: enters
    !> `QUO_ERR_MISPLACED` for a process that is none of those.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_world_probe(w, answer)
    enters = truth(answer)
  end subroutine quo_world_probe

  !> Sleeps until this process is called in or the job is over. Local, for parked processes.
  subroutine quo_world_wait(w, joins, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Whether it is called in.
    logical, intent(out) :: joins
    !> `QUO_ERR_MISPLACED` for a process that is none of those.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_world_wait(w, answer)
    joins = truth(answer)
  end subroutine quo_world_wait

  !> How many resizes have been committed. Local.
  subroutine quo_world_epoch(w, epoch, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The number.
    integer(c_long_long), intent(out) :: epoch
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    epoch = 0
    ierr = c_world_epoch(w, epoch)
  end subroutine quo_world_epoch

  !> What the MPI can do for this world, and how that was found. Local.
  subroutine quo_world_back_end(w, text, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> A line.
    character(len=:, kind=c_char), allocatable, intent(out) :: text
    !> `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    found = c_null_ptr
    ierr = c_world_back_end(w, found)
    call take_text(found, text, ierr)
  end subroutine quo_world_back_end

  !> The communicator of the world until the next commit, not to be freed. Contexts over it go along. Local.
  subroutine quo_world_comm(w, comm, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The communicator; MPI_COMM_NULL for one who is no rank.
    integer, intent(out) :: comm
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: number
    number = 0
    ierr = c_world_comm(w, number)
    comm = int(number)
  end subroutine quo_world_comm

  !> Says which iteration the program begins, for plans that count them. Local.
  subroutine quo_world_report_iteration(w, number, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The iteration.
    integer(c_long_long), value :: number
    !> `QUO_ERR_INVLD_ARG`.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_report_iteration(w, number)
  end subroutine quo_world_report_iteration

  !> Asks for another number of ranks. Local, on rank 0.
  subroutine quo_world_request(w, number, request, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> How many.
    integer(c_int), value :: number
    !> The number of the request.
    integer(c_long_long), intent(out) :: request
    !> `QUO_ERR_REFUSED`, `QUO_ERR_INVLD_ARG`, `QUO_ERR_MISPLACED`.
    integer(c_int), intent(out) :: ierr
    request = 0
    ierr = c_world_request(w, number, request)
  end subroutine quo_world_request

  !> What has become of a request. Local, on rank 0.
  subroutine quo_world_request_state(w, request, state, cause, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Its number.
    integer(c_long_long), value :: request
    !> One of `QUO_REQUEST_...`.
    integer(c_int), intent(out) :: state
    !> Why it has failed.
    character(len=:, kind=c_char), allocatable, intent(out) :: cause
    !> `QUO_ERR_NOT_FOUND`, `QUO_ERR_MISPLACED`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    state = -1
    found = c_null_ptr
    ierr = c_world_request_state(w, request, state, found)
    call take_text(found, cause, ierr)
  end subroutine quo_world_request_state

  !> Opens the window in which data move. Collective over all who stay, leave or join.
  subroutine quo_world_begin(w, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> `QUO_ERR_MISPLACED` without a resize.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_begin(w)
  end subroutine quo_world_begin

  !> A communicator of the window. Local; `QUO_WINDOW_BETWEEN` collective over everybody.
  subroutine quo_window_comm(w, which, comm, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> One of `QUO_WINDOW_...`.
    integer(c_int), value :: which
    !> The communicator, until the commit.
    integer, intent(out) :: comm
    !> `QUO_ERR_MISPLACED` outside of a resize, `QUO_ERR_INVLD_ARG`.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: number
    number = 0
    ierr = c_window_comm(w, which, number)
    comm = int(number)
  end subroutine quo_window_comm

  !> How many ranks stay, leave and join. Local.
  subroutine quo_window_counts(w, stay, leave, join, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> How many stay.
    integer(c_int), intent(out) :: stay
    !> How many leave.
    integer(c_int), intent(out) :: leave
    !> How many join.
    integer(c_int), intent(out) :: join
    !> `QUO_ERR_MISPLACED` outside of a resize.
    integer(c_int), intent(out) :: ierr
    stay = 0
    leave = 0
    join = 0
    ierr = c_window_counts(w, stay, leave, join)
  end subroutine quo_window_counts

  !> Gives everybody the bytes that rank 0 has. Collective over everybody.
  subroutine quo_window_tell(w, data, length, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Where they are, and come.
    type(c_ptr), value :: data
    !> How many, the same for all.
    integer(c_size_t), value :: length
    !> `QUO_ERR_DISAGREE`, `QUO_ERR_MISPLACED`.
    integer(c_int), intent(out) :: ierr
    ierr = c_window_tell(w, data, length)
  end subroutine quo_window_tell

  !> As [[quo_window_tell]], for a number.
  subroutine quo_window_tell_number(w, number, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> What rank 0 gives, and the others get.
    integer(c_int), target, intent(inout) :: number
    !> As there.
    integer(c_int), intent(out) :: ierr
    ierr = c_window_tell(w, c_loc(number), c_sizeof(number))
  end subroutine quo_window_tell_number

  !> Moves all arrays now; the commit does it otherwise. Collective over everybody.
  subroutine quo_window_move(w, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> `QUO_ERR_DISAGREE`, `QUO_ERR`, `QUO_ERR_MISPLACED`.
    integer(c_int), intent(out) :: ierr
    ierr = c_window_move(w)
  end subroutine quo_window_move

  !> Ends the resize: the world is the new one if everybody commits. Collective over everybody.
  subroutine quo_world_commit(w, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> `QUO_ERR_GIVEN_UP` on all when somebody does not want it, `QUO_ERR_MISPLACED`.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_commit(w)
  end subroutine quo_world_commit

  !> Gives the resize up, on all. Collective over everybody, as [[quo_world_commit]].
  subroutine quo_world_abort(w, reason, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> What the others are told.
    character(len=*, kind=c_char), intent(in) :: reason
    !> `QUO_ERR_MISPLACED` outside of a resize.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    character(kind=c_char), parameter :: none(1) = [achar(0)]
    call to_c(reason, bytes)
    if (allocated(bytes)) then
      ierr = c_world_abort(w, bytes)
    else
      ierr = c_world_abort(w, none)
    end if
  end subroutine quo_world_abort

  !> Adds an array of zeros to the world, which is moved with every commit. Local; made alike by all ranks.
  subroutine quo_world_array_add(w, name, spec, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> How it is dealt out.
    type(quo_array_spec_t), intent(in) :: spec
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_OOR`, `QUO_ERR_MISPLACED`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_add(w, bytes, in_c(spec))
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_add

  !> This rank's part of an array. Local.
  subroutine quo_world_array(w, name, data, rows, columns, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> Where it is, until the next commit.
    type(c_ptr), intent(out) :: data
    !> Its rows.
    integer(c_size_t), intent(out) :: rows
    !> Its columns, or the elements of a vector.
    integer(c_size_t), intent(out) :: columns
    !> `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    data = c_null_ptr
    rows = 0
    columns = 0
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array(w, bytes, data, rows, columns)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array

  !> As [[quo_world_array]], for numbers.
  subroutine quo_world_array_double(w, name, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> The numbers, until the next commit.
    real(c_double), pointer, intent(out) :: data(:)
    !> As there.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: place
    integer(c_size_t) :: rows, columns
    nullify (data)
    call quo_world_array(w, name, place, rows, columns, ierr)
    if (ierr == QUO_SUCCESS) call c_f_pointer(place, data, [rows * columns])
  end subroutine quo_world_array_double

  !> As [[quo_world_array]], for numbers.
  subroutine quo_world_array_int(w, name, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> The numbers, until the next commit.
    integer(c_int), pointer, intent(out) :: data(:)
    !> As there.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: place
    integer(c_size_t) :: rows, columns
    nullify (data)
    call quo_world_array(w, name, place, rows, columns, ierr)
    if (ierr == QUO_SUCCESS) call c_f_pointer(place, data, [rows * columns])
  end subroutine quo_world_array_int

  !> Which element of the whole array a place in this rank's part is. Local.
  subroutine quo_world_array_origin(w, name, offset, row, column, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> The place, from 0.
    integer(c_size_t), value :: offset
    !> Its row, from 0.
    integer(c_size_t), intent(out) :: row
    !> Its column, from 0.
    integer(c_size_t), intent(out) :: column
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    row = 0
    column = 0
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_origin(w, bytes, offset, row, column)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_origin

  !> How an array is to be dealt out from the next resize on. Local; made alike by all ranks.
  subroutine quo_world_array_lay_out(w, name, spec, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> How it is dealt out.
    type(quo_array_spec_t), intent(in) :: spec
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_lay_out(w, bytes, in_c(spec))
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_lay_out

  !> Forgets an array or callbacks. Local; made alike by all.
  subroutine quo_world_array_remove(w, name, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_remove(w, bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_remove

  !> Has data of the program's own kind moved by procedures with the interfaces of quo-elastic.h. Local; made alike
  !> by all processes that can be ranks.
  subroutine quo_world_carry(w, name, give, take, settle, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> A `QUO_carry_give_t`, or `c_null_funptr`.
    type(c_funptr), value :: give
    !> A `QUO_carry_take_t`, or `c_null_funptr`.
    type(c_funptr), value :: take
    !> A `QUO_carry_settle_t`, or `c_null_funptr`.
    type(c_funptr), value :: settle
    !> Passed to them.
    type(c_ptr), value :: data
    !> `QUO_ERR_INVLD_ARG`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    type(c_carry) :: callbacks
    callbacks%size = c_sizeof(callbacks)
    callbacks%give = give
    callbacks%take = take
    callbacks%settle = settle
    callbacks%data = data
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_carry(w, bytes, callbacks)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_carry

  !> In the callback that gives: gives a new rank some bytes, which are copied.
  subroutine quo_carry_give(new_rank, data, length, ierr)
    !> The rank.
    integer(c_int), value :: new_rank
    !> The bytes.
    type(c_ptr), value :: data
    !> How many.
    integer(c_size_t), value :: length
    !> `QUO_ERR_MISPLACED` outside of it.
    integer(c_int), intent(out) :: ierr
    ierr = c_carry_give(new_rank, data, length)
  end subroutine quo_carry_give

  !> What the last committed move of arrays has moved. Local.
  subroutine quo_world_last_move(w, metrics, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The numbers; all zero before the first.
    type(quo_move_metrics_t), target, intent(out) :: metrics
    !> `QUO_ERR_NOT_FOUND` before the first.
    integer(c_int), intent(out) :: ierr
    metrics%size = c_sizeof(metrics)
    ierr = c_world_last_move(w, c_loc(metrics))
  end subroutine quo_world_last_move

  !> The options for C, with places for the texts, which have to live as long. For `quo_reshape`.
  subroutine c_world_options_of(options, given, name, log, plan, ready)
    type(quo_world_options_t), intent(in) :: options
    type(c_world_options), intent(out) :: given
    character(kind=c_char), allocatable, target, intent(out) :: name(:), log(:), plan(:)
    logical, intent(out) :: ready
    given%size = c_sizeof(given)
    given%start = options%start
    given%most = options%most
    given%unit = options%unit
    given%crowded = merge(1, 0, options%crowded)
    given%control = merge(1, 0, options%control)
    given%messages = merge(1, 0, options%messages)
    given%start_limit = options%start_limit
    ready = .true.
    if (allocated(options%name)) call put(options%name, name, given%name, ready)
    if (allocated(options%log)) call put(options%log, log, given%log, ready)
    if (allocated(options%plan)) call put(options%plan, plan, given%plan, ready)
  end subroutine c_world_options_of

  subroutine put(text, bytes, place, ready)
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
  end subroutine put

  pure function in_c(spec) result(given)
    type(quo_array_spec_t), intent(in) :: spec
    type(c_array_spec) :: given
    given%size = c_sizeof(given)
    given%kind = spec%kind
    given%storage = spec%storage
    given%element = spec%element
    given%rows = spec%rows
    given%columns = spec%columns
    given%block_rows = spec%block_rows
    given%block_columns = spec%block_columns
    given%grid_rows = spec%grid_rows
    given%grid_columns = spec%grid_columns
  end function in_c
#ifndef QUO_NO_MPI_F08

  subroutine quo_world_comm_f08(w, comm, ierr)
    type(c_ptr), value :: w
    type(MPI_Comm), intent(out) :: comm
    integer(c_int), intent(out) :: ierr
    call quo_world_comm(w, comm%MPI_VAL, ierr)
  end subroutine quo_world_comm_f08

  subroutine quo_window_comm_f08(w, which, comm, ierr)
    type(c_ptr), value :: w
    integer(c_int), value :: which
    type(MPI_Comm), intent(out) :: comm
    integer(c_int), intent(out) :: ierr
    call quo_window_comm(w, which, comm%MPI_VAL, ierr)
  end subroutine quo_window_comm_f08
#endif
end module quo_elastic
