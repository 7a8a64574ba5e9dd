!> Requests to resize the world, and its events.
module quo_world_requests
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_funloc, c_int, c_loc, &
    c_long_long, c_null_funptr, c_null_ptr, c_ptr, c_sizeof
  use quo_constants, only: QUO_SUCCESS
  use quo_elastic_types, only: quo_event_handler, quo_event_handler_on, quo_event_t, quo_progress_t, &
    quo_request_spec_t
  use quo_text, only: copied_text, out_of_memory, put_text, take_text, to_c, truth
  use quo_world_requests_c
  implicit none
  private

  !> Passes all events to a procedure of the program, or stops doing so.
  interface quo_world_on_event
    module procedure on_event
    module procedure on_event_with
    module procedure on_no_event
  end interface quo_world_on_event

  !> Procedure for events, and its data, on their way through C.
  type :: errand
    type(c_ptr) :: world = c_null_ptr
    procedure(quo_event_handler), pointer, nopass :: handler => null()
    procedure(quo_event_handler_on), pointer, nopass :: handler_on => null()
    class(*), pointer :: data => null()
  end type errand

  !> One for each world that can exist.
  type(errand), target, save :: errands(16)

  public :: forget_events, quo_world_ask, quo_world_cancel, quo_world_next_event, quo_world_note, &
    quo_world_on_event, quo_world_job_status, quo_world_report_progress, quo_world_request_step

contains

  !> Requests any resize. Local, on rank 0; answered at once.
  subroutine quo_world_ask(w, spec, request, ierr, after)
    !> A world.
    type(c_ptr), value :: w
    !> Specification of the request.
    type(quo_request_spec_t), intent(in) :: spec
    !> The number of the request, also of one that is refused.
    integer(c_long_long), intent(out) :: request
    !> `QUO_ERR_REFUSED`, `QUO_ERR_INVLD_ARG`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    !> The request that must end before this one starts; 0 for none.
    integer(c_long_long), intent(out), optional :: after
    type(c_request_spec) :: given
    character(kind=c_char), allocatable, target :: on(:), from(:), origin(:)
    integer(c_long_long) :: other
    logical :: ready
    given%size = c_sizeof(given)
    given%kind = spec%kind
    given%ranks = spec%ranks
    given%nodes = spec%nodes
    given%grace = spec%grace
    ready = .true.
    if (allocated(spec%on)) call put_text(spec%on, on, given%on, ready)
    if (allocated(spec%from)) call put_text(spec%from, from, given%from, ready)
    if (allocated(spec%origin)) call put_text(spec%origin, origin, given%origin, ready)
    request = 0
    other = 0
    if (ready) then
      ierr = c_world_ask(w, given, request, other)
    else
      ierr = out_of_memory()
    end if
    if (present(after)) after = other
  end subroutine quo_world_ask

  !> Takes back a request that waits for its turn. Local, on rank 0.
  subroutine quo_world_cancel(w, request, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Its number.
    integer(c_long_long), value :: request
    !> `QUO_ERR_REFUSED`, `QUO_ERR_NOT_FOUND`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_cancel(w, request)
  end subroutine quo_world_cancel

  !> Makes an event `QUO_EVENT_NOTICE`, which starts nothing. Local, on rank 0.
  subroutine quo_world_note(w, cause, text, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> One of `QUO_CAUSE_...` but `QUO_CAUSE_NONE`.
    integer(c_int), value :: cause
    !> Text of the notice.
    character(len=*, kind=c_char), intent(in) :: text
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(text, bytes)
    if (allocated(bytes)) then
      ierr = c_world_note(w, cause, bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_note

  !> Gives the latest step of a request. Local, on rank 0.
  subroutine quo_world_request_step(w, request, step, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> Its number.
    integer(c_long_long), value :: request
    !> One of `QUO_EVENT_...`, from `QUO_EVENT_REQUESTED` on.
    integer(c_int), intent(out) :: step
    !> `QUO_ERR_NOT_FOUND`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    step = -1
    ierr = c_world_request_step(w, request, step)
  end subroutine quo_world_request_step

  !> Gives the next event that has not been given by this procedure yet, from the beginning of the job on. Local, on
  !> rank 0.
  subroutine quo_world_next_event(w, event, found, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The event.
    type(quo_event_t), intent(out) :: event
    !> True if there is one.
    logical, intent(out) :: found
    !> `QUO_ERR_STATE`, `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    type(c_event) :: given
    integer(c_int) :: answer
    logical :: ok
    given%size = c_sizeof(given)
    answer = 0
    ierr = c_world_next_event(w, given, answer)
    found = truth(answer)
    if (.not. found) return
    call of_c(given, event, ok)
    if (.not. ok) ierr = out_of_memory()
  end subroutine quo_world_next_event

  !> Passes all events to a procedure, from the first kept event on. Local; on other ranks than 0
  !> the procedure is never called.
  !> It is called by the thread that is in quo_world_probe, quo_world_commit, quo_world_abort or quo_world_end, and
  !> may call procedures of this module that are not collective, but not quo_world_end.
  subroutine on_event(w, handler, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The procedure, in the place of an earlier one. Not an internal one of a procedure that returns before the end.
    procedure(quo_event_handler) :: handler
    !> `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    integer :: place
    call claim(w, place, ierr)
    if (place == 0) return
    errands(place)%handler => handler
    ierr = c_world_on_event(w, c_funloc(call_handler), c_loc(errands(place)))
    if (ierr /= QUO_SUCCESS) call forget_events(w)
  end subroutine on_event

  !> As the procedure without data, for one with an object of any type.
  subroutine on_event_with(w, handler, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The procedure.
    procedure(quo_event_handler_on) :: handler
    !> Handed to it, and there as long.
    class(*), target, intent(inout) :: data
    !> `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    integer :: place
    call claim(w, place, ierr)
    if (place == 0) return
    errands(place)%handler_on => handler
    errands(place)%data => data
    ierr = c_world_on_event(w, c_funloc(call_handler), c_loc(errands(place)))
    if (ierr /= QUO_SUCCESS) call forget_events(w)
  end subroutine on_event_with

  !> Stops passing events to a procedure. Local.
  subroutine on_no_event(w, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> As `quo_elastic` says.
    integer(c_int), intent(out) :: ierr
    ierr = c_world_on_event(w, c_null_funptr, c_null_ptr)
    call forget_events(w)
  end subroutine on_no_event

  !> Gives the current state of the job, as a JSON object, which quo-elastic.h describes. Local, on
  !> rank 0.
  subroutine quo_world_job_status(w, json, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The object.
    character(len=:, kind=c_char), allocatable, intent(out) :: json
    !> `QUO_ERR_STATE`, `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    found = c_null_ptr
    ierr = c_world_job_status(w, found)
    call take_text(found, json, ierr)
  end subroutine quo_world_job_status

  !> Reports the progress of the main loop to managers. Only rank 0's report counts. Local.
  subroutine quo_world_report_progress(w, progress, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The iteration and its measurements.
    type(quo_progress_t), intent(in) :: progress
    !> `QUO_ERR_INVLD_ARG` for a measurement that is negative, infinite or no number.
    integer(c_int), intent(out) :: ierr
    type(c_progress) :: given
    given%size = c_sizeof(given)
    given%iteration = progress%iteration
    given%iteration_seconds = progress%iteration_seconds
    given%mpi_ratio = progress%mpi_ratio
    given%remaining_seconds = progress%remaining_seconds
    given%bytes_per_rank = progress%bytes_per_rank
    ierr = c_world_report_progress(w, given)
  end subroutine quo_world_report_progress

  !> Frees what was kept for the events of a world. For `quo_world`.
  subroutine forget_events(w)
    type(c_ptr), value :: w
    integer :: i
    do i = 1, size(errands)
      if (c_associated(errands(i)%world, w)) call clear(errands(i))
    end do
  end subroutine forget_events

  !> A place for the events of a world; 0 and a code where there is none.
  subroutine claim(w, place, ierr)
    type(c_ptr), value :: w
    integer, intent(out) :: place
    integer(c_int), intent(out) :: ierr
    integer :: i
    place = 0
    ierr = QUO_SUCCESS
    do i = 1, size(errands)
      if (c_associated(errands(i)%world, w)) place = i
    end do
    do i = size(errands), 1, -1
      if (place == 0 .and. .not. c_associated(errands(i)%world)) place = i
    end do
    if (place == 0) then
      ierr = out_of_memory()
      return
    end if
    call clear(errands(place))
    errands(place)%world = w
  end subroutine claim

  subroutine clear(what)
    type(errand), intent(inout) :: what
    what%world = c_null_ptr
    nullify (what%handler, what%handler_on, what%data)
  end subroutine clear

  !> Procedure that C calls.
  recursive subroutine call_handler(data, c_given) bind(c, name="")
    type(c_ptr), value :: data
    type(c_event), intent(in) :: c_given
    type(errand), pointer :: what
    type(quo_event_t) :: event
    logical :: ok
    call c_f_pointer(data, what)
    call of_c(c_given, event, ok)
    if (associated(what%handler)) then
      call what%handler(event)
    else if (associated(what%handler_on)) then
      call what%handler_on(event, what%data)
    end if
  end subroutine call_handler

  !> An event, with copies of its texts.
  subroutine of_c(given, event, ok)
    type(c_event), intent(in) :: given
    type(quo_event_t), intent(out) :: event
    logical, intent(out) :: ok
    logical :: other
    event%number = given%number
    event%time = given%time
    event%kind = given%kind
    event%cause = given%cause
    event%request = given%request
    event%epoch = given%epoch
    event%ranks = given%ranks
    event%target = given%target
    event%joining = given%joining
    event%leaving = given%leaving
    event%round = given%round
    event%bytes = given%bytes
    call copied_text(given%text, event%text, ok)
    call copied_text(given%json, event%json, other)
    ok = ok .and. other
  end subroutine of_c
end module quo_world_requests
