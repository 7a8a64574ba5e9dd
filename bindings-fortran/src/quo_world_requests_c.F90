!> Requests and events of quo-elastic.h as C has them. For the other modules of this library only; what `quo_c` says
!> holds here.
module quo_world_requests_c
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_funptr, c_int, c_long_long, c_null_ptr, c_ptr, c_size_t
  implicit none

  !> `QUO_request_spec_t`
  type, bind(c) :: c_request_spec
    integer(c_size_t) :: size
    integer(c_int) :: kind, ranks, nodes
    type(c_ptr) :: on = c_null_ptr
    type(c_ptr) :: from = c_null_ptr
    real(c_double) :: grace
    type(c_ptr) :: origin = c_null_ptr
  end type c_request_spec

  !> `QUO_progress_t`
  type, bind(c) :: c_progress
    integer(c_size_t) :: size
    integer(c_long_long) :: iteration
    real(c_double) :: iteration_seconds, mpi_ratio, remaining_seconds
    integer(c_long_long) :: bytes_per_rank
  end type c_progress

  !> `QUO_event_t`
  type, bind(c) :: c_event
    integer(c_size_t) :: size
    integer(c_long_long) :: number
    real(c_double) :: time
    integer(c_int) :: kind, cause
    integer(c_long_long) :: request, epoch, ranks, target, joining, leaving, round, bytes
    type(c_ptr) :: text = c_null_ptr
    type(c_ptr) :: json = c_null_ptr
  end type c_event

  interface
    integer(c_int) function c_world_ask(w, spec, request, after) bind(c, name="QUO_world_ask")
      import :: c_int, c_long_long, c_ptr, c_request_spec
      type(c_ptr), value :: w
      type(c_request_spec), intent(in) :: spec
      integer(c_long_long), intent(inout) :: request, after
    end function c_world_ask
    integer(c_int) function c_world_cancel(w, request) bind(c, name="QUO_world_cancel")
      import :: c_int, c_long_long, c_ptr
      type(c_ptr), value :: w
      integer(c_long_long), value :: request
    end function c_world_cancel
    integer(c_int) function c_world_note(w, cause, text) bind(c, name="QUO_world_note")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), value :: cause
      character(kind=c_char), intent(in) :: text(*)
    end function c_world_note
    integer(c_int) function c_world_request_step(w, request, step) &
      bind(c, name="QUO_world_request_step")
      import :: c_int, c_long_long, c_ptr
      type(c_ptr), value :: w
      integer(c_long_long), value :: request
      integer(c_int), intent(inout) :: step
    end function c_world_request_step
    integer(c_int) function c_world_next_event(w, event, found) bind(c, name="QUO_world_next_event")
      import :: c_event, c_int, c_ptr
      type(c_ptr), value :: w
      type(c_event), intent(inout) :: event
      integer(c_int), intent(inout) :: found
    end function c_world_next_event
    integer(c_int) function c_world_on_event(w, handler, data) bind(c, name="QUO_world_on_event")
      import :: c_funptr, c_int, c_ptr
      type(c_ptr), value :: w, data
      type(c_funptr), value :: handler
    end function c_world_on_event
    integer(c_int) function c_world_report_progress(w, progress) &
      bind(c, name="QUO_world_report_progress")
      import :: c_int, c_progress, c_ptr
      type(c_ptr), value :: w
      type(c_progress), intent(in) :: progress
    end function c_world_report_progress
    integer(c_int) function c_world_job_status(w, json) bind(c, name="QUO_world_job_status")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      type(c_ptr), intent(inout) :: json
    end function c_world_job_status
  end interface
end module quo_world_requests_c
