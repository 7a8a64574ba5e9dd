!> Worlds, their resizes, and requests.
module quo_world
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_funptr, c_int, c_loc, c_long_long, c_null_ptr, c_ptr, c_size_t, c_sizeof
#ifndef QUO_NO_MPI_F08
  use mpi_f08, only: MPI_Comm
#endif
  use quo_constants, only: QUO_ERR_BUSY
  use quo_elastic_c
  use quo_elastic_types, only: quo_world_options_t
  use quo_world_requests, only: forget_events
  use quo_world_options, only: c_world_options_of, option_texts
  use quo_text, only: out_of_memory, take_text, to_c, truth
  implicit none
  private

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

  !> Broadcasts from rank 0: bytes, or a number.
  interface quo_window_broadcast
    module procedure quo_window_broadcast
    module procedure quo_window_broadcast_number
  end interface quo_window_broadcast

  public :: quo_world_create, quo_world_end, quo_world_status, quo_world_rank, quo_world_size, &
    quo_world_capacity, quo_world_was_started, quo_world_probe, quo_world_wait, quo_world_epoch, &
    quo_world_back_end, quo_world_comm, quo_world_node, quo_window_move_begin, &
    quo_window_move_test, quo_window_move_end, quo_world_report_iteration, quo_world_request, &
    quo_world_request_state, quo_world_begin, quo_window_comm, quo_window_counts, &
    quo_window_broadcast, quo_window_move_data, quo_world_commit, quo_world_abort, quo_world_run

contains

  !> Makes the world. Collective over all processes that were launched, or started for a growth, together; after
  !> MPI_Init.
  subroutine quo_world_create(w, options, ierr)
    !> The world, to be ended with [[quo_world_end]].
    type(c_ptr), intent(out) :: w
    !> Options of the world.
    type(quo_world_options_t), intent(in) :: options
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_DISAGREE`, and as quo_create.
    integer(c_int), intent(out) :: ierr
    type(c_world_options) :: given
    type(option_texts), target :: texts
    logical :: ready
    call c_world_options_of(options, given, texts, ready)
    ! Takes part nevertheless, so that the call fails on all processes.
    if (.not. ready) given%initial_ranks = -1
    w = c_null_ptr
    ierr = c_world_create(w, given)
    if (.not. ready) ierr = out_of_memory()
  end subroutine quo_world_create

  !> Ends the world: parked processes wake up and see the end. Collective over the ranks; parked and
  !> ended processes call it as well, before MPI_Finalize.
  subroutine quo_world_end(w, ierr)
    !> A world, or `c_null_ptr`. No longer valid afterwards.
    type(c_ptr), value :: w
    !> `QUO_ERR_INVLD_HANDLE`, `QUO_ERR_BUSY`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_end(w)
    if (ierr /= QUO_ERR_BUSY) call forget_events(w)
  end subroutine quo_world_end

  !> Status of this process in the world. Local.
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

  !> Gives this process's rank. Local. A process that is parked, has ended, or joins and has not committed yet is
  !> no rank.
  subroutine quo_world_rank(w, rank, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The rank, or MPI_UNDEFINED for a process that is no rank.
    integer(c_int), intent(out) :: rank
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    rank = -1
    ierr = c_world_rank(w, rank)
  end subroutine quo_world_rank

  !> Number of ranks. Local.
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

  !> Maximum number of ranks. Local.
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

  !> Returns true if this process was started for a growth, and so ends when it leaves. Local.
  subroutine quo_world_was_started(w, started, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> True if it was.
    logical, intent(out) :: started
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_world_was_started(w, answer)
    started = truth(answer)
  end subroutine quo_world_was_started

  !> Probes for a resize that all ranks have reached: [[quo_world_begin]] is next. All ranks call it
  !> in the same places.
  subroutine quo_world_probe(w, enters, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> True if they have.
    logical, intent(out) :: enters
    !> `QUO_ERR_STATE` for a process that is none of those.
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
    !> True if it is called in.
    logical, intent(out) :: joins
    !> `QUO_ERR_STATE` for a process that is none of those.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_world_wait(w, answer)
    joins = truth(answer)
  end subroutine quo_world_wait

  !> Owns the main loop: calls a function until it returns 0, and takes part in every resize between two steps. Collective
  !> over all processes of the world, parked ones too.
  subroutine quo_world_run(w, step, data, state, length, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> A `QUO_step_t`, a `bind(c)` function: 1 for another step, 0 after the last one, negative for an error.
    type(c_funptr), value :: step
    !> Passed to it.
    type(c_ptr), value :: data
    !> What joiners receive from rank 0, or `c_null_ptr`.
    type(c_ptr), value :: state
    !> Number of its bytes, the same on all processes.
    integer(c_size_t), value :: length
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_WORK_FAILED`, `QUO_ERR_ABORTED`, `QUO_ERR_DEAD_MEMBER`.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_run(w, step, data, state, length)
  end subroutine quo_world_run

  !> Number of resizes that have been committed. Local.
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

  !> Gives the number of the node of this process, the same for all processes there. Local.
  subroutine quo_world_node(w, node, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The number, from 0.
    integer(c_int), intent(out) :: node
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    node = 0
    ierr = c_world_node(w, node)
  end subroutine quo_world_node

  !> Means of the MPI for this world, and how they were found. Local.
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
    !> The communicator; MPI_COMM_NULL on a process that is no rank, no communicator after a
    !> failure.
    integer, intent(out) :: comm
    !> As `quo_elastic` says, and `QUO_ERR_CALL_BEFORE_INIT` in a serial program without MPI.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: number
    number = -1
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

  !> Requests another number of ranks. Local, on rank 0.
  subroutine quo_world_request(w, number, request, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Number of ranks.
    integer(c_int), value :: number
    !> The number of the request.
    integer(c_long_long), intent(out) :: request
    !> `QUO_ERR_REFUSED`, `QUO_ERR_INVLD_ARG`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    request = 0
    ierr = c_world_request(w, number, request)
  end subroutine quo_world_request

  !> State of a request. Local, on rank 0.
  subroutine quo_world_request_state(w, request, state, cause, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Its number.
    integer(c_long_long), value :: request
    !> One of `QUO_REQUEST_...`.
    integer(c_int), intent(out) :: state
    !> Why it has failed.
    character(len=:, kind=c_char), allocatable, intent(out) :: cause
    !> `QUO_ERR_NOT_FOUND`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    state = -1
    found = c_null_ptr
    ierr = c_world_request_state(w, request, state, found)
    call take_text(found, cause, ierr)
  end subroutine quo_world_request_state

  !> Opens the window in which data move. Collective over all stayers, leavers and joiners.
  subroutine quo_world_begin(w, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> `QUO_ERR_STATE` without a resize.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_begin(w)
  end subroutine quo_world_begin

  !> Returns a communicator of the window. Local; `QUO_WINDOW_BETWEEN` is collective over all in the
  !> window.
  subroutine quo_window_comm(w, which, comm, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> One of `QUO_WINDOW_...`.
    integer(c_int), value :: which
    !> The communicator, until the commit.
    integer, intent(out) :: comm
    !> `QUO_ERR_STATE` outside of a resize, `QUO_ERR_INVLD_ARG`.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: number
    number = -1
    ierr = c_window_comm(w, which, number)
    comm = int(number)
  end subroutine quo_window_comm

  !> Number of ranks that stay, leave and join. Local.
  subroutine quo_window_counts(w, stay, leave, join, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Number that stay.
    integer(c_int), intent(out) :: stay
    !> Number that leave.
    integer(c_int), intent(out) :: leave
    !> Number that join.
    integer(c_int), intent(out) :: join
    !> `QUO_ERR_STATE` outside of a resize.
    integer(c_int), intent(out) :: ierr
    stay = 0
    leave = 0
    join = 0
    ierr = c_window_counts(w, stay, leave, join)
  end subroutine quo_window_counts

  !> Broadcasts the bytes of rank 0. Collective over all in the window.
  subroutine quo_window_broadcast(w, data, length, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The bytes, on rank 0 and afterwards on all.
    type(c_ptr), value :: data
    !> Their number, the same for all.
    integer(c_size_t), value :: length
    !> `QUO_ERR_DISAGREE`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    ierr = c_window_broadcast(w, data, length)
  end subroutine quo_window_broadcast

  !> As [[quo_window_broadcast]], for a number.
  subroutine quo_window_broadcast_number(w, number, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Value that rank 0 gives, and the others get.
    integer(c_int), target, intent(inout) :: number
    !> As there.
    integer(c_int), intent(out) :: ierr
    ierr = c_window_broadcast(w, c_loc(number), c_sizeof(number))
  end subroutine quo_window_broadcast_number

  !> Moves all arrays now; otherwise the commit does. Collective over all in the window.
  subroutine quo_window_move_data(w, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> `QUO_ERR_DISAGREE`, `QUO_ERR`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    ierr = c_window_move_data(w)
  end subroutine quo_window_move_data

  !> Begins to move all arrays; [[quo_window_move_test]] continues the move. quo-elastic.h says
  !> which calls are valid until its end. Collective over all in the window.
  subroutine quo_window_move_begin(w, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> `QUO_ERR_DISAGREE`, `QUO_ERR`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    ierr = c_window_move_begin(w)
  end subroutine quo_window_move_begin

  !> Moves what can be moved without waiting. Local.
  subroutine quo_window_move_test(w, done, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> True if this process has nothing left to do.
    logical, intent(out) :: done
    !> `QUO_ERR_STATE`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_window_move_test(w, answer)
    done = truth(answer)
  end subroutine quo_window_move_test

  !> Waits until all arrays have been moved on all processes; otherwise the commit does. Collective
  !> over all in the window.
  subroutine quo_window_move_end(w, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> `QUO_ERR`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    ierr = c_window_move_end(w)
  end subroutine quo_window_move_end

  !> Ends the resize: the world is the new one if all processes commit. Collective over all in the
  !> window.
  subroutine quo_world_commit(w, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> `QUO_ERR_ABORTED` on all when a process refuses, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_commit(w)
  end subroutine quo_world_commit

  !> Aborts the resize on all processes. Collective over all in the window, like
  !> [[quo_world_commit]].
  subroutine quo_world_abort(w, reason, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Reason, as text for the other processes.
    character(len=*, kind=c_char), intent(in) :: reason
    !> `QUO_ERR_STATE` outside of a resize.
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
end module quo_world
