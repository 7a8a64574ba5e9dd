!> Requests and events of quo-elastic.h as C has them. For the other modules of this library only; what `quo_c` says
!> holds here.
module quo_world_requests_c
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_funptr, c_int, c_long_long, c_null_ptr, c_ptr, c_size_t
  implicit none
  private

  !> `QUO_request_spec_t`
  type, bind(c), public :: c_request_spec
    integer(c_size_t) :: size
    integer(c_int) :: kind
    integer(c_int) :: ranks
    integer(c_int) :: nodes
    type(c_ptr) :: on = c_null_ptr
    type(c_ptr) :: from = c_null_ptr
    real(c_double) :: grace
    type(c_ptr) :: origin = c_null_ptr
  end type c_request_spec

  !> `QUO_progress_t`
  type, bind(c), public :: c_progress
    integer(c_size_t) :: size
    integer(c_long_long) :: iteration
    real(c_double) :: iteration_seconds
    real(c_double) :: mpi_ratio
    real(c_double) :: remaining_seconds
    integer(c_long_long) :: bytes_per_rank
  end type c_progress

  !> `QUO_event_t`
  type, bind(c), public :: c_event
    integer(c_size_t) :: size
    integer(c_long_long) :: number
    real(c_double) :: time
    integer(c_int) :: kind
    integer(c_int) :: cause
    integer(c_long_long) :: request
    integer(c_long_long) :: epoch
    integer(c_long_long) :: ranks
    integer(c_long_long) :: target
    integer(c_long_long) :: joining
    integer(c_long_long) :: leaving
    integer(c_long_long) :: round
    integer(c_long_long) :: bytes
    type(c_ptr) :: text = c_null_ptr
    type(c_ptr) :: json = c_null_ptr
  end type c_event

  interface
    function c_world_ask(w, spec, request, after) result(ierr) bind(c, name="QUO_world_ask")
      import :: c_int, c_long_long, c_ptr, c_request_spec
      implicit none
      type(c_ptr), value :: w
      type(c_request_spec), intent(in) :: spec
      integer(c_long_long), intent(inout) :: request
      integer(c_long_long), intent(inout) :: after
      integer(c_int) :: ierr
    end function c_world_ask

    function c_world_cancel(w, request) result(ierr) bind(c, name="QUO_world_cancel")
      import :: c_int, c_long_long, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_long_long), value :: request
      integer(c_int) :: ierr
    end function c_world_cancel

    function c_world_note(w, cause, text) result(ierr) bind(c, name="QUO_world_note")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), value :: cause
      character(kind=c_char), intent(in) :: text(*)
      integer(c_int) :: ierr
    end function c_world_note

    function c_world_request_step(w, request, step) result(ierr) bind(c, name="QUO_world_request_step")
      import :: c_int, c_long_long, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_long_long), value :: request
      integer(c_int), intent(inout) :: step
      integer(c_int) :: ierr
    end function c_world_request_step

    function c_world_next_event(w, event, found) result(ierr) bind(c, name="QUO_world_next_event")
      import :: c_event, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      type(c_event), intent(inout) :: event
      integer(c_int), intent(inout) :: found
      integer(c_int) :: ierr
    end function c_world_next_event

    function c_world_on_event(w, handler, data) result(ierr) bind(c, name="QUO_world_on_event")
      import :: c_funptr, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      type(c_funptr), value :: handler
      type(c_ptr), value :: data
      integer(c_int) :: ierr
    end function c_world_on_event

    function c_world_report_progress(w, progress) result(ierr) bind(c, name="QUO_world_report_progress")
      import :: c_int, c_progress, c_ptr
      implicit none
      type(c_ptr), value :: w
      type(c_progress), intent(in) :: progress
      integer(c_int) :: ierr
    end function c_world_report_progress

    function c_world_report(w, json) result(ierr) bind(c, name="QUO_world_report")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      type(c_ptr), intent(inout) :: json
      integer(c_int) :: ierr
    end function c_world_report
  end interface

  public :: c_world_ask, c_world_cancel, c_world_note, c_world_request_step, c_world_next_event, &
    c_world_on_event, c_world_report, c_world_report_progress
end module quo_world_requests_c
