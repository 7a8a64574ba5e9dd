!> Constants and structures of the elastic world.
module quo_elastic_types
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_size_t
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
    !> The job ends when a rank has ended without `quo_world_end`, as `quo-elastic.h` says.
    logical :: abort_on_death = .false.
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
end module quo_elastic_types
