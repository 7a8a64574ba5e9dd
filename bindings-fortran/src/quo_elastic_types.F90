!> Constants and structures of the elastic world.
module quo_elastic_types
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_int, c_long_long, c_null_ptr, c_ptr, c_size_t
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
  !> Refused or aborted.
  integer(c_int), parameter, public :: QUO_REQUEST_FAILED = 2
  !> A number of ranks in all.
  integer(c_int), parameter, public :: QUO_REQUEST_SIZE = 0
  !> A number of ranks more.
  integer(c_int), parameter, public :: QUO_REQUEST_GROW = 1
  !> A number of ranks fewer.
  integer(c_int), parameter, public :: QUO_REQUEST_SHRINK = 2
  !> No ranks on hosts.
  integer(c_int), parameter, public :: QUO_REQUEST_LEAVE = 3
  !> The same number of ranks, on other hosts.
  integer(c_int), parameter, public :: QUO_REQUEST_MOVE = 4
  !> The world began.
  integer(c_int), parameter, public :: QUO_EVENT_STARTED = 0
  !> Notice of a resource manager or of the program.
  integer(c_int), parameter, public :: QUO_EVENT_NOTICE = 1
  !> The grace time of a resize is over, and it has not ended.
  integer(c_int), parameter, public :: QUO_EVENT_OVERDUE = 2
  !> The resize was requested.
  integer(c_int), parameter, public :: QUO_EVENT_REQUESTED = 3
  !> End: it will not happen.
  integer(c_int), parameter, public :: QUO_EVENT_REFUSED = 4
  !> It waits for its turn.
  integer(c_int), parameter, public :: QUO_EVENT_ACCEPTED = 5
  !> Processes that query learn of the resize.
  integer(c_int), parameter, public :: QUO_EVENT_ANNOUNCED = 6
  !> Joiners are being started.
  integer(c_int), parameter, public :: QUO_EVENT_LAUNCHED = 7
  !> All joiners are ready.
  integer(c_int), parameter, public :: QUO_EVENT_READY = 8
  !> The ranks have said in which set the joiners will be.
  integer(c_int), parameter, public :: QUO_EVENT_PENDING = 9
  !> All joiners have read that.
  integer(c_int), parameter, public :: QUO_EVENT_CONFIRMED = 10
  !> The probe at which all enter is known.
  integer(c_int), parameter, public :: QUO_EVENT_AGREED = 11
  !> The window is open.
  integer(c_int), parameter, public :: QUO_EVENT_BEGUN = 12
  !> Data are where the new world wants them.
  integer(c_int), parameter, public :: QUO_EVENT_MOVED = 13
  !> End: the world is the new one.
  integer(c_int), parameter, public :: QUO_EVENT_FINALIZED = 14
  !> End: the resize was aborted, and the world is unchanged.
  integer(c_int), parameter, public :: QUO_EVENT_ABORTED = 15
  !> There is no cause.
  integer(c_int), parameter, public :: QUO_CAUSE_NONE = 0
  !> No slots, nodes or cores.
  integer(c_int), parameter, public :: QUO_CAUSE_NO_CAPACITY = 1
  !> A size that the program cannot have, or a rank or node that may not leave.
  integer(c_int), parameter, public :: QUO_CAUSE_NOT_ALLOWED = 2
  !> The MPI in use cannot do it.
  integer(c_int), parameter, public :: QUO_CAUSE_UNSUPPORTED = 3
  !> A host does not answer.
  integer(c_int), parameter, public :: QUO_CAUSE_UNREACHABLE = 4
  !> Processes could not be started.
  integer(c_int), parameter, public :: QUO_CAUSE_SPAWN_FAILED = 5
  !> A joiner ended, or was not ready in time.
  integer(c_int), parameter, public :: QUO_CAUSE_JOINER_LOST = 6
  !> A rank ended.
  integer(c_int), parameter, public :: QUO_CAUSE_MEMBER_LOST = 7
  !> Data could not be moved.
  integer(c_int), parameter, public :: QUO_CAUSE_DATA_LOST = 8
  !> A rank rejected the resize at the commit.
  integer(c_int), parameter, public :: QUO_CAUSE_REJECTED = 9
  !> The grace time is over.
  integer(c_int), parameter, public :: QUO_CAUSE_DEADLINE = 10
  !> A later request made it pointless.
  integer(c_int), parameter, public :: QUO_CAUSE_SUPERSEDED = 11
  !> It was cancelled.
  integer(c_int), parameter, public :: QUO_CAUSE_CANCELLED = 12
  !> The resource manager refused.
  integer(c_int), parameter, public :: QUO_CAUSE_MANAGER = 13
  !> Any other cause, which the text gives.
  integer(c_int), parameter, public :: QUO_CAUSE_OTHER = 14
  !> Members of either of two process sets.
  integer(c_int), parameter, public :: QUO_PSET_UNION = 0
  !> Members of the first and not of the second.
  integer(c_int), parameter, public :: QUO_PSET_DIFFERENCE = 1
  !> Members of both.
  integer(c_int), parameter, public :: QUO_PSET_INTERSECTION = 2
  !> There is no change of a process set.
  integer(c_int), parameter, public :: QUO_PSET_NO_CHANGE = 0
  !> Processes join.
  integer(c_int), parameter, public :: QUO_PSET_ADD = 1
  !> Processes leave.
  integer(c_int), parameter, public :: QUO_PSET_SUB = 2
  !> Some join and some leave.
  integer(c_int), parameter, public :: QUO_PSET_REPLACE = 3
  !> Not all is ready: compute, and accept again.
  integer(c_int), parameter, public :: QUO_ACCEPT_PENDING = 0
  !> All ranks have reached the resize: quo_world_begin is next.
  integer(c_int), parameter, public :: QUO_ACCEPT_ENTERS = 1
  !> The resize was aborted; the world is unchanged.
  integer(c_int), parameter, public :: QUO_ACCEPT_ABORTED = 2
  !> All stayers, leavers and joiners.
  integer(c_int), parameter, public :: QUO_WINDOW_ALL_RANKS = 0
  !> The world as it was.
  integer(c_int), parameter, public :: QUO_WINDOW_OLD = 1
  !> The world as it will be.
  integer(c_int), parameter, public :: QUO_WINDOW_NEW = 2
  !> An intercommunicator between old ranks and joiners; the caller frees it.
  integer(c_int), parameter, public :: QUO_WINDOW_BETWEEN = 3
  !> A vector in one block for each rank.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK = 0
  !> A vector in blocks, distributed round robin.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK_CYCLIC = 1
  !> A matrix in one block of rows for each rank.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK_ROWS = 2
  !> A matrix in one block of columns for each rank.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK_COLUMNS = 3
  !> A matrix in one block for each place of a grid of ranks.
  integer(c_int), parameter, public :: QUO_ARRAY_BLOCK_GRID = 4
  !> A matrix in blocks, distributed cyclically over a grid of ranks.
  integer(c_int), parameter, public :: QUO_ARRAY_CHECKERBOARD = 5
  !> A vector of which every rank has all.
  integer(c_int), parameter, public :: QUO_ARRAY_REPLICATED = 6
  !> An array of one to three dimensions in one block for each place of a grid of ranks, with ghost cells.
  integer(c_int), parameter, public :: QUO_ARRAY_HALO = 7
  !> Parts of a matrix row by row, as in C.
  integer(c_int), parameter, public :: QUO_ARRAY_BY_ROWS = 0
  !> Parts of a matrix column by column, as in Fortran.
  integer(c_int), parameter, public :: QUO_ARRAY_BY_COLUMNS = 1

  abstract interface
    !> Decides which sizes the program can have: not 0 for a valid size, always the same for a size. Called
    !> on rank 0, by threads of the library too, until the end of the world; it calls no procedure of this module.
    function quo_size_allowed(data, number) result(answer) bind(c)
      import :: c_int, c_ptr
      implicit none
      !> Without meaning here.
      type(c_ptr), value :: data
      !> Number of ranks.
      integer(c_int), value :: number
      integer(c_int) :: answer
    end function quo_size_allowed
  end interface
  public :: quo_size_allowed

  !> Options of Slurm, in seconds; 0 gives the default in quo-elastic.h.
  type, public :: quo_slurm_options_t
    !> Time for a growth to get its nodes.
    real(c_double) :: wait = 0
    !> Time for each of Slurm's commands.
    real(c_double) :: command_limit = 0
    !> Time before the end of a job at which its nodes are left.
    real(c_double) :: grace = 0
    !> Time for leavers to end before their node goes back.
    real(c_double) :: linger = 0
    !> Time between two looks of a job that holds nodes for the world's own job.
    real(c_double) :: watch = 0
    !> With less time than this before the end of the job, growth on new nodes is refused.
    real(c_double) :: least = 0
    !> More options for sbatch, a line each; not allocated: none.
    character(len=:, kind=c_char), allocatable :: submit
  end type quo_slurm_options_t

  !> Options of a world. `initial_ranks` and `max_ranks` are the same on all processes; of the rest, what rank 0 says
  !> counts.
  type, public :: quo_world_options_t
    !> Initial number of ranks, the other processes are parked; 0: all launched processes.
    integer(c_int) :: initial_ranks = 0
    !> Maximum number of ranks; 0: as many as were launched. Others are started if the MPI can, which needs
    !> MPI_THREAD_MULTIPLE.
    integer(c_int) :: max_ranks = 0
    !> Most processes that are started together and leave together; 0: all of one growth.
    integer(c_int) :: processes_per_spawn = 0
    !> More processes may be started than the launcher has slots for.
    logical :: allow_oversubscribe = .false.
    !> The job listens for the command quo-elastic.
    logical :: control = .false.
    !> Arrays go in messages of MPI also between ranks of a node.
    logical :: messages = .false.
    !> Seconds that processes may take from their start to being ready; 0: a minute.
    real(c_double) :: start_timeout = 0
    !> The name of the job; not allocated: the number of the process of rank 0.
    character(len=:, kind=c_char), allocatable :: name
    !> A file for events; not allocated: none.
    character(len=:, kind=c_char), allocatable :: log
    !> A plan; not allocated: none.
    character(len=:, kind=c_char), allocatable :: plan
    !> Ranks may use process sets, and rank 0 listens for them.
    logical :: process_sets = .false.
    !> Rank 0 starts processes itself even if that blocks it.
    logical :: no_spawn_helper = .false.
    !> The fewest ranks that the program can have; 0: one.
    integer(c_int) :: min_size = 0
    !> The most ranks that the program can have; 0: as many as there can be.
    integer(c_int) :: max_size = 0
    !> The number of ranks is a multiple of this; 0: any. Only one of `step`, `allowed_sizes` and `allows` is given.
    integer(c_int) :: step = 0
    !> The numbers of ranks that the program can have, such as '1,2,4,6'; 'power-of-two' or 'square'.
    character(len=:, kind=c_char), allocatable :: allowed_sizes
    !> Decides which numbers of ranks the program can have.
    procedure(quo_size_allowed), pointer, nopass :: allows => null()
    !> Hosts that the world may grow onto when they are named, and how many processes each takes: 'n1:4,n2:4'.
    character(len=:, kind=c_char), allocatable :: hosts
    !> Seconds in which a named host has to answer; 0: three; negative: not checked.
    real(c_double) :: connect_timeout = 0
    !> A remote shell by which a named host is asked, such as 'ssh -o BatchMode=yes'.
    character(len=:, kind=c_char), allocatable :: remote_shell
    !> Program and arguments of what is started, a line each; not allocated: this program.
    character(len=:, kind=c_char), allocatable :: spawn_command
    !> Keys and values for the launcher: KEY=VALUE, a line each.
    character(len=:, kind=c_char), allocatable :: spawn_info
    !> The folder of the control socket; only with `control`.
    character(len=:, kind=c_char), allocatable :: control_folder
    !> How nodes are gained and returned with ranks in a job of Slurm; not allocated: without Slurm, unless the
    !> launch has set QUO_ELASTIC_SLURM=1.
    type(quo_slurm_options_t), allocatable :: slurm
    !> The job ends when a rank has ended without `quo_world_end`, as `quo-elastic.h` says.
    logical :: abort_on_death = .false.
    !> Seconds until the end of the job that SIGTERM gives notice of, as `quo-elastic.h` says; 0: it is no notice.
    real(c_double) :: term_notice = 0
    !> A folder of notices: files that ask for resizes, as `quo-elastic.h` says.
    character(len=:, kind=c_char), allocatable :: notice_folder
    !> In which order joiners go to hosts: 'stack', 'round-robin' or 'least-loaded', as `quo-elastic.h` says.
    character(len=:, kind=c_char), allocatable :: placement
  end type quo_world_options_t

  !> A request: a number of ranks that has yet to be said.
  type, public :: quo_request_spec_t
    !> One of `QUO_REQUEST_SIZE` and so on.
    integer(c_int) :: kind = QUO_REQUEST_SIZE
    !> Number of ranks, at least 1; without meaning for `QUO_REQUEST_LEAVE` and `QUO_REQUEST_MOVE`.
    integer(c_int) :: ranks = 0
    !> Number of nodes that the job does not have yet, to be brought by its resource manager.
    integer(c_int) :: nodes = 0
    !> Hosts to grow on, or to move to, with commas between them; not allocated: any.
    character(len=:, kind=c_char), allocatable :: on
    !> Hosts to leave; not allocated: the highest ranks leave.
    character(len=:, kind=c_char), allocatable :: from
    !> Seconds that ranks may take from the announcement on until the resize is done; 0: any time.
    real(c_double) :: grace = 0
    !> Origin of the request, as it stands in the log of events; not allocated: application.
    character(len=:, kind=c_char), allocatable :: origin
  end type quo_request_spec_t

  !> Measurements of an iteration, reported on rank 0.
  type, public :: quo_progress_t
    !> Number of the iteration, not negative.
    integer(c_long_long) :: iteration = 0
    !> Time of an iteration in seconds: of the last one, or the mean since the report before.
    real(c_double) :: iteration_seconds = 0
    !> Time in MPI divided by the time of computing since the report before; -1: it is not measured.
    real(c_double) :: mpi_ratio = -1
    !> Seconds until the program ends on its present ranks; -1: unknown.
    real(c_double) :: remaining_seconds = -1
    !> Bytes of memory of the rank that has most; -1: they are not measured.
    integer(c_long_long) :: bytes_per_rank = -1
  end type quo_progress_t

  !> An event of the world.
  type, public :: quo_event_t
    !> Counts all events from 0 without gaps; one that is missing was too old to be kept.
    integer(c_long_long) :: number = 0
    !> Seconds since the job began.
    real(c_double) :: time = 0
    !> One of `QUO_EVENT_...`.
    integer(c_int) :: kind = 0
    !> One of `QUO_CAUSE_...`.
    integer(c_int) :: cause = 0
    !> Of which request; 0: of none.
    integer(c_long_long) :: request = 0
    !> The epoch from this event on.
    integer(c_long_long) :: epoch = 0
    !> The number of ranks from this event on.
    integer(c_long_long) :: ranks = 0
    !> The number of ranks that the request leads to; -1 before that is decided.
    integer(c_long_long) :: target = -1
    !> For announced: number of joiners; otherwise -1.
    integer(c_long_long) :: joining = -1
    !> For announced: number of leavers; otherwise -1.
    integer(c_long_long) :: leaving = -1
    !> For agreed: the probe at which all enter; otherwise -1.
    integer(c_long_long) :: round = -1
    !> For moved: bytes sent from one rank to another; otherwise -1.
    integer(c_long_long) :: bytes = -1
    !> The cause in words; empty without one.
    character(len=:, kind=c_char), allocatable :: text
    !> The whole event as a line of JSON.
    character(len=:, kind=c_char), allocatable :: json
  end type quo_event_t

  abstract interface
    !> Is brought an event.
    subroutine quo_event_handler(event)
      import :: quo_event_t
      implicit none
      !> The event.
      type(quo_event_t), intent(in) :: event
    end subroutine quo_event_handler

    !> Is brought an event, and an object of the program's.
    subroutine quo_event_handler_on(event, data)
      import :: quo_event_t
      implicit none
      !> The event.
      type(quo_event_t), intent(in) :: event
      !> Object that was given with the procedure.
      class(*), intent(inout) :: data
    end subroutine quo_event_handler_on
  end interface
  public :: quo_event_handler, quo_event_handler_on

  !> Changes of the attributes that a process set has or inherits.
  type, public :: quo_pset_change_t
    !> 1: only the program changes the members; -1: resizes change them as well; 0: unchanged.
    integer(c_int) :: active = 0
    !> Hints for managers, a line each: KEY=VALUE to set one, KEY to remove it.
    character(len=:, kind=c_char), allocatable :: hints
  end type quo_pset_change_t

  !> A process set, as a process sees it.
  type, public :: quo_pset_info_t
    !> Only the program changes the members; otherwise resizes change them as well.
    logical :: active = .false.
    !> This process joined while the job was running.
    logical :: dynamic = .false.
    !> This process is in the set.
    logical :: included = .false.
    !> Number of members of the set.
    integer(c_long_long) :: members = 0
    !> Number of changes of its members.
    integer(c_long_long) :: version = 0
    !> The resize that last altered it, counted from 1; 0: none.
    integer(c_long_long) :: epoch = 0
  end type quo_pset_info_t

  !> A current resize, as shown to a process.
  type, public :: quo_pset_view_t
    !> `QUO_PSET_NO_CHANGE`, `QUO_PSET_ADD`, `QUO_PSET_SUB` or `QUO_PSET_REPLACE`.
    integer(c_int) :: kind = QUO_PSET_NO_CHANGE
    !> This process joins or leaves.
    logical :: included = .false.
    !> `QUO_EVENT_ANNOUNCED` or `QUO_EVENT_PENDING`; 0 without a change.
    integer(c_int) :: step = 0
    !> The request; 0 without a change.
    integer(c_long_long) :: request = 0
  end type quo_pset_view_t

  !> Ghost cells along one dimension; at its ends they are the edge of the array, unless it is periodic.
  !> `QUO_halo_t` in C.
  type, bind(c), public :: quo_halo_t
    !> Ghost cells before the block of a rank.
    integer(c_size_t) :: before = 0
    !> Ghost cells after it.
    integer(c_size_t) :: after = 0
    !> Nonzero: the last cell of the dimension is followed by the first one.
    integer(c_size_t) :: periodic = 0
  end type quo_halo_t

  !> A rank's part of an array: its block, and the ghost cells around it. `QUO_array_part_t` in C.
  type, bind(c), public :: quo_array_part_t
    !> Of the library: the size of this type.
    integer(c_size_t) :: size = 0
    !> The beginning of the memory, with the ghost cells.
    type(c_ptr) :: data = c_null_ptr
    !> Layers of the block, without ghost cells and edges.
    integer(c_size_t) :: layers = 0
    !> Rows of the block.
    integer(c_size_t) :: rows = 0
    !> Columns of the block.
    integer(c_size_t) :: columns = 0
    !> The block's first layer in the array, from 0.
    integer(c_size_t) :: first_layer = 0
    !> Its first row, from 0.
    integer(c_size_t) :: first_row = 0
    !> Its first column, from 0.
    integer(c_size_t) :: first_column = 0
    !> Layers in memory, with ghost cells.
    integer(c_size_t) :: all_layers = 0
    !> Rows in memory.
    integer(c_size_t) :: all_rows = 0
    !> Columns in memory.
    integer(c_size_t) :: all_columns = 0
    !> Layers of ghost cells before the block.
    integer(c_size_t) :: before_layers = 0
    !> Rows of ghost cells before the block.
    integer(c_size_t) :: before_rows = 0
    !> Columns of ghost cells before the block.
    integer(c_size_t) :: before_columns = 0
    !> Bytes of an element.
    integer(c_size_t) :: element = 0
  end type quo_array_part_t

  !> Rows of a sparse matrix on a rank. `QUO_matrix_part_t` in C.
  type, bind(c), public :: quo_matrix_part_t
    !> Of the library: the size of this type.
    integer(c_size_t) :: size = 0
    !> Number of rows of this rank.
    integer(c_size_t) :: rows = 0
    !> Number of the first one in the matrix, from 0.
    integer(c_size_t) :: first_row = 0
    !> Number of ghost columns: columns of these rows that other ranks own.
    integer(c_size_t) :: ghosts = 0
    !> Beginning of the elements of each row, and the end of the last one's: `rows + 1` of `c_size_t`.
    type(c_ptr) :: pointers = c_null_ptr
    !> Column of each element, as index in this rank's part of a vector of the matrix, of `c_int`.
    type(c_ptr) :: columns = c_null_ptr
    !> Value of each element.
    type(c_ptr) :: values = c_null_ptr
    !> Number in the matrix of each ghost column, of `c_size_t`.
    type(c_ptr) :: ghost_columns = c_null_ptr
    !> Bytes of a value.
    integer(c_size_t) :: element = 0
  end type quo_matrix_part_t

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
    !> Layers, of `QUO_ARRAY_HALO` with three dimensions; 0: one.
    integer(c_size_t) :: layers = 0
    !> Layers of the grid of ranks; 0: as the number of ranks allows.
    integer(c_size_t) :: grid_layers = 0
    !> Ghost cells along layers.
    type(quo_halo_t) :: halo_layers
    !> Ghost cells along rows, the first index of an array in Fortran.
    type(quo_halo_t) :: halo_rows
    !> Ghost cells along columns.
    type(quo_halo_t) :: halo_columns
  end type quo_array_spec_t

  !> Result of the last committed move of arrays, in bytes. `QUO_move_metrics_t` in C.
  type, bind(c), public :: quo_move_metrics_t
    !> Of the library: the size of this type.
    integer(c_size_t) :: size = 0
    !> Number of arrays and callbacks.
    integer(c_size_t) :: arrays = 0
    !> Steps of all schedules.
    integer(c_size_t) :: steps = 0
    !> Bytes of this process for others.
    integer(c_size_t) :: sent = 0
    !> Bytes that this process has copied from the memory of others.
    integer(c_size_t) :: shared = 0
    !> Bytes that stayed here.
    integer(c_size_t) :: kept = 0
    !> Bytes of all processes for others.
    integer(c_size_t) :: all_sent = 0
    !> Part of that which went through memory.
    integer(c_size_t) :: all_shared = 0
    !> Bytes that stayed in place, on all processes.
    integer(c_size_t) :: all_kept = 0
    !> From the beginning to when all had agreed that it is done.
    real(c_double) :: seconds = 0
  end type quo_move_metrics_t
end module quo_elastic_types
