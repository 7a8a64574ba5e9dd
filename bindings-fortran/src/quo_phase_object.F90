!> Phases as objects.
module quo_phase_object
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_ptr
  use quo_context_object, only: quo_context
  use quo_ownership, only: A_PHASE, free, held, kept, let_go, own, share
  use quo_phases, only: quo_phase_begin, quo_phase_create, quo_phase_end, quo_phase_fail, quo_phase_metrics, &
    quo_phase_pin_thread, quo_phase_qids, quo_phase_run
  use quo_types, only: quo_phase_metrics_t, quo_phase_spec_t, quo_phase_work, quo_phase_work_on
  implicit none
  private

  !> A phase: workers are selected when it is created, and it can be run any number of times.
  !>
  !> Freed when the last variable that owns it is finalised; a run that was begun and not ended is
  !> ended first, so that the other ranks do not sleep forever.
  type, public :: quo_phase
    private
    type(held) :: held
  contains
    generic :: create => create_default, create_with_spec
    procedure, private :: create_default => phase_create
    procedure, private :: create_with_spec => phase_create_with_spec
    procedure :: begin => phase_begin
    procedure :: end => phase_end
    procedure :: fail => phase_fail
    procedure :: qids => phase_qids
    procedure :: pin_thread => phase_pin_thread
    generic :: run => run_work, run_work_on
    procedure, private :: run_work => phase_run
    procedure, private :: run_work_on => phase_run_on
    procedure :: metrics => phase_metrics
    procedure :: free => phase_free
    procedure :: handle => phase_handle
    generic :: assignment(=) => assign
    procedure, private :: assign => phase_assign
    final :: phase_finalise
  end type quo_phase

contains

  !> Selects the workers: one per package. What the object stood for before is let go. Collective
  !> over the node.
  subroutine phase_create(self, context, ierr)
    class(quo_phase), target, intent(inout) :: self
    !> Stays in use until the phase is freed.
    class(quo_context), intent(in) :: context
    !> As for [[quo_phase_create]].
    integer(c_int), intent(out) :: ierr
    call self%create(context, quo_phase_spec_t(), ierr)
  end subroutine phase_create

  !> As above, with what is wanted.
  subroutine phase_create_with_spec(self, context, spec, ierr)
    class(quo_phase), target, intent(inout) :: self
    !> Stays in use until the phase is freed.
    class(quo_context), intent(in) :: context
    !> The same on every rank.
    type(quo_phase_spec_t), intent(in) :: spec
    !> As for [[quo_phase_create]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: phase
    call let_go(self%held, A_PHASE)
    call quo_phase_create(context%handle(), spec, phase, ierr)
    call own(self%held, phase)
  end subroutine phase_create_with_spec

  !> Starts a run. Local; always followed by `end` on the same thread.
  subroutine phase_begin(self, selected, threads, ierr)
    class(quo_phase), intent(in) :: self
    !> True if the caller works.
    logical, intent(out) :: selected
    !> Threads to run: fewer than planned where an OpenMP runtime gives fewer, see `quo_explain`; 0 when not selected.
    integer(c_int), intent(out) :: threads
    !> As for [[quo_phase_begin]].
    integer(c_int), intent(out) :: ierr
    call quo_phase_begin(self%handle(), selected, threads, ierr)
  end subroutine phase_begin

  !> Ends a run; ranks that do not work sleep here. Collective over the node.
  subroutine phase_end(self, ierr)
    class(quo_phase), intent(in) :: self
    !> As for [[quo_phase_end]].
    integer(c_int), intent(out) :: ierr
    call quo_phase_end(self%handle(), ierr)
  end subroutine phase_end

  !> Makes the run fail on all ranks of the node, at its end. Local.
  subroutine phase_fail(self, reason, ierr)
    class(quo_phase), intent(in) :: self
    !> Text for the other ranks.
    character(len=*, kind=c_char), intent(in) :: reason
    !> As for [[quo_phase_fail]].
    integer(c_int), intent(out) :: ierr
    call quo_phase_fail(self%handle(), reason, ierr)
  end subroutine phase_fail

  !> Returns the ranks that the caller does the work of: the qids first .. first + count - 1. Local.
  subroutine phase_qids(self, first, count, ierr)
    class(quo_phase), intent(in) :: self
    !> The first qid.
    integer(c_int), intent(out) :: first
    !> Their number; 0 when the caller is not selected.
    integer(c_int), intent(out) :: count
    !> As for [[quo_phase_qids]].
    integer(c_int), intent(out) :: ierr
    call quo_phase_qids(self%handle(), first, count, ierr)
  end subroutine phase_qids

  !> Binds the calling thread to one CPU until the run ends. Local; any thread of a rank that works.
  subroutine phase_pin_thread(self, number, count, ierr)
    class(quo_phase), intent(in) :: self
    !> The thread's number, from 0.
    integer(c_int), intent(in) :: number
    !> The number of threads on this rank.
    integer(c_int), intent(in) :: count
    !> As for [[quo_phase_pin_thread]].
    integer(c_int), intent(out) :: ierr
    call quo_phase_pin_thread(self%handle(), number, count, ierr)
  end subroutine phase_pin_thread

  !> Runs the phase once: begin, work on selected ranks, end. Collective over the node.
  subroutine phase_run(self, work, ierr)
    class(quo_phase), intent(in) :: self
    procedure(quo_phase_work) :: work
    !> As for [[quo_phase_run]].
    integer(c_int), intent(out) :: ierr
    call quo_phase_run(self%handle(), work, ierr)
  end subroutine phase_run

  !> As above, for work on an object of any type.
  subroutine phase_run_on(self, work, data, ierr)
    class(quo_phase), intent(in) :: self
    procedure(quo_phase_work_on) :: work
    !> Handed to the work.
    class(*), target, intent(inout) :: data
    !> As for [[quo_phase_run]].
    integer(c_int), intent(out) :: ierr
    call quo_phase_run(self%handle(), work, data, ierr)
  end subroutine phase_run_on

  !> Returns the costs of the last run for the caller. Local.
  subroutine phase_metrics(self, metrics, ierr)
    class(quo_phase), intent(in) :: self
    !> All zero before the first run.
    type(quo_phase_metrics_t), intent(out) :: metrics
    !> As for [[quo_phase_metrics]].
    integer(c_int), intent(out) :: ierr
    call quo_phase_metrics(self%handle(), metrics, ierr)
  end subroutine phase_metrics

  !> Frees it, even if other variables own it. Local.
  subroutine phase_free(self, ierr)
    class(quo_phase), target, intent(inout) :: self
    !> As for the procedure; an object that stands for nothing is allowed and does nothing.
    integer(c_int), intent(out) :: ierr
    call free(self%held, A_PHASE, ierr)
  end subroutine phase_free

  !> The handle for the procedures; `c_null_ptr` when the object stands for nothing.
  pure function phase_handle(self) result(handle)
    class(quo_phase), intent(in) :: self
    type(c_ptr) :: handle
    handle = kept(self%held)
  end function phase_handle

  impure elemental subroutine phase_assign(to, from)
    class(quo_phase), target, intent(inout) :: to
    type(quo_phase), target, intent(in) :: from
    call share(to%held, from%held, A_PHASE)
  end subroutine phase_assign

  impure elemental subroutine phase_finalise(self)
    type(quo_phase), target, intent(inout) :: self
    call let_go(self%held, A_PHASE)
  end subroutine phase_finalise
end module quo_phase_object
