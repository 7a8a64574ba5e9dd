!> Phases: select, push, set threads, run, pop, wake.
module quo_phases
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_funloc, c_int, c_loc, c_null_ptr, &
    c_ptr, c_sizeof
  use quo_c, only: c_metrics_of, c_phase_begin, c_phase_create, c_phase_end, c_phase_fail, c_phase_free, &
    c_phase_metrics, c_phase_pin_thread, c_phase_qids, c_phase_run, c_phase_spec, c_worker
  use quo_constants, only: QUO_SUCCESS
  use quo_text, only: copied_text, out_of_memory, to_c, truth
  use quo_types, only: quo_phase_metrics_t, quo_phase_spec_t, quo_phase_work, quo_phase_work_on, &
    quo_worker_t
  implicit none
  private

  public :: quo_phase_begin, quo_phase_create, quo_phase_end, quo_phase_fail, quo_phase_free, quo_phase_metrics, &
    quo_phase_pin_thread, quo_phase_qids, quo_phase_run

  !> Selects the workers of a phase.
  interface quo_phase_create
    module procedure create_default
    module procedure create_with_spec
  end interface quo_phase_create

  !> Runs a phase once.
  interface quo_phase_run
    module procedure run_work
    module procedure run_work_on
  end interface quo_phase_run

  !> Data that travel through C to the work and back.
  type :: errand
    procedure(quo_phase_work), pointer, nopass :: work => null()
    procedure(quo_phase_work_on), pointer, nopass :: work_on => null()
    class(*), pointer :: data => null()
  end type errand

contains

  !> Selects the workers of a phase: one per package. Collective over the node.
  subroutine create_default(q, phase, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> The phase, to be freed with [[quo_phase_free]]. It can be run any number of times.
    type(c_ptr), intent(out) :: phase
    !> As for the procedure with a specification.
    integer(c_int), intent(out) :: ierr
    call create_with_spec(q, quo_phase_spec_t(), phase, ierr)
  end subroutine create_default

  !> Selects the workers of a phase. Collective over the node.
  subroutine create_with_spec(q, spec, phase, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Specification of the phase; the same on every rank.
    type(quo_phase_spec_t), intent(in) :: spec
    !> The phase, to be freed with [[quo_phase_free]]. It can be run any number of times.
    type(c_ptr), intent(out) :: phase
    !> `QUO_ERR_INVLD_ARG` for a component out of range, `QUO_ERR_NOT_FOUND` when the machine has no
    !> object of the type, `QUO_ERR_DISAGREE` when the ranks gave different specifications.
    integer(c_int), intent(out) :: ierr
    type(c_phase_spec) :: wanted
    character(kind=c_char), allocatable, target :: name(:)
    logical :: ready
    wanted%size = c_sizeof(wanted)
    wanted%type = spec%type
    wanted%max_per_object = spec%max_per_object
    wanted%threads = spec%threads
    wanted%cores = spec%cores
    wanted%sharing = spec%sharing
    wanted%sharing_limit = spec%sharing_limit
    wanted%pinning = spec%pinning
    ready = .true.
    if (allocated(spec%name)) then
      call to_c(spec%name, name)
      ready = allocated(name)
      if (ready) wanted%name = c_loc(name)
      ! Takes part nevertheless, so that the call fails on all processes.
      if (.not. ready) wanted%max_per_object = 0
    end if
    phase = c_null_ptr
    ierr = c_phase_create(q, wanted, phase)
    if (.not. ready) ierr = out_of_memory()
  end subroutine create_with_spec

  !> Starts a run: a selected rank gets its wider binding; the others call [[quo_phase_end]], where
  !> they sleep. A selected rank that cannot be bound is reported as not selected, and
  !> [[quo_phase_end]] then fails on every rank. Local; always followed by [[quo_phase_end]] on the
  !> same thread.
  subroutine quo_phase_begin(phase, selected, threads, ierr)
    !> A phase.
    type(c_ptr), value :: phase
    !> True if the caller works.
    logical, intent(out) :: selected
    !> Threads to run: fewer than planned where an OpenMP runtime gives fewer, see `quo_explain`; 0 when not selected.
    integer(c_int), intent(out) :: threads
    !> `QUO_ERR_BUSY` when a run of this phase has begun and not ended.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    threads = 0
    ierr = c_phase_begin(phase, answer, threads)
    selected = truth(answer)
  end subroutine quo_phase_begin

  !> Returns the ranks that the caller does the work of in this phase: the qids first .. first + count - 1 of the
  !> node. Local.
  subroutine quo_phase_qids(phase, first, count, ierr)
    !> A phase.
    type(c_ptr), value :: phase
    !> The first qid.
    integer(c_int), intent(out) :: first
    !> Their number; 0 when the caller is not selected.
    integer(c_int), intent(out) :: count
    !> Return code.
    integer(c_int), intent(out) :: ierr
    first = -1
    count = 0
    ierr = c_phase_qids(phase, first, count)
  end subroutine quo_phase_qids

  !> Binds the calling thread, one of several that work at once, to one CPU of the worker until the
  !> run ends. For threads of inner teams, in their region, and of other pools. Local; by any thread
  !> of a rank that works in a run. Without effect on a simulated machine.
  subroutine quo_phase_pin_thread(phase, number, count, ierr)
    !> A phase.
    type(c_ptr), value :: phase
    !> The thread's number among them, from 0.
    integer(c_int), intent(in) :: number
    !> Their number on this rank; more threads than CPUs share them.
    integer(c_int), intent(in) :: count
    !> `QUO_ERR_INVLD_ARG` when the number is not below the count, or when the rank does not work in a run.
    integer(c_int), intent(out) :: ierr
    ierr = c_phase_pin_thread(phase, number, count)
  end subroutine quo_phase_pin_thread

  !> Ends a run: workers get their bindings and thread counts back and wake the others; the others
  !> sleep here until then. Collective over the node.
  subroutine quo_phase_end(phase, ierr)
    !> A phase.
    type(c_ptr), value :: phase
    !> `QUO_ERR_INVLD_ARG` when no run has begun on this thread; as `quo_bind_push` when a worker
    !> could not be bound, the same on every rank; otherwise as `quo_barrier`.
    integer(c_int), intent(out) :: ierr
    ierr = c_phase_end(phase)
  end subroutine quo_phase_end

  !> Makes the run of a phase fail on all ranks of the node: [[quo_phase_end]], or [[quo_phase_run]], then gives
  !> `QUO_ERR_WORK_FAILED` on each of them. Local; after [[quo_phase_begin]], or inside the work of
  !> [[quo_phase_run]], by any thread.
  subroutine quo_phase_fail(phase, reason, ierr)
    !> A phase.
    type(c_ptr), value :: phase
    !> Text for the other ranks, of which about 200 bytes reach them.
    character(len=*, kind=c_char), intent(in) :: reason
    !> `QUO_ERR_INVLD_ARG` when no run has begun.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    character(kind=c_char), parameter :: none(1) = [achar(0)]
    call to_c(reason, bytes)
    if (allocated(bytes)) then
      ierr = c_phase_fail(phase, bytes)
    else
      ierr = c_phase_fail(phase, none)
    end if
  end subroutine quo_phase_fail

  !> Runs the phase once: begin, work on selected ranks, end. Collective over the node. The work may
  !> call any procedure on the context except `quo_free` and procedures that are collective over
  !> ranks outside the workers.
  subroutine run_work(phase, work, ierr)
    !> A phase.
    type(c_ptr), value :: phase
    !> Called on selected ranks by the calling thread.
    procedure(quo_phase_work) :: work
    !> As for [[quo_phase_begin]] and [[quo_phase_end]].
    integer(c_int), intent(out) :: ierr
    type(errand), target :: what
    what%work => work
    ierr = c_phase_run(phase, c_funloc(call_work), c_loc(what))
  end subroutine run_work

  !> As the procedure without data, for work on an object of any type.
  subroutine run_work_on(phase, work, data, ierr)
    !> A phase.
    type(c_ptr), value :: phase
    !> Called on selected ranks by the calling thread.
    procedure(quo_phase_work_on) :: work
    !> Handed to the work.
    class(*), target, intent(inout) :: data
    !> As for [[quo_phase_begin]] and [[quo_phase_end]].
    integer(c_int), intent(out) :: ierr
    type(errand), target :: what
    what%work_on => work
    what%data => data
    ierr = c_phase_run(phase, c_funloc(call_work), c_loc(what))
  end subroutine run_work_on

  !> Procedure that C calls.
  recursive subroutine call_work(c_part, data) bind(c, name="")
    type(c_worker), intent(in) :: c_part
    type(c_ptr), value :: data
    type(errand), pointer :: what
    type(quo_worker_t) :: worker
    logical :: ok
    call c_f_pointer(data, what)
    worker%threads = c_part%threads
    worker%first_qid = c_part%first_qid
    worker%nqids = c_part%nqids
    call copied_text(c_part%cpuset, worker%cpuset, ok)
    if (associated(what%work)) then
      call what%work(worker)
    else
      call what%work_on(worker, what%data)
    end if
  end subroutine call_work

  !> Returns the costs of the last run for the caller. Local.
  subroutine quo_phase_metrics(phase, metrics, ierr)
    !> A phase.
    type(c_ptr), value :: phase
    !> All zero before the first run.
    type(quo_phase_metrics_t), intent(out) :: metrics
    !> Return code.
    integer(c_int), intent(out) :: ierr
    type(c_phase_metrics) :: told
    told%size = c_sizeof(told)
    ierr = c_metrics_of(phase, told)
    if (ierr /= QUO_SUCCESS) return
    metrics%selected = truth(told%selected)
    metrics%threads = told%threads
    metrics%run_seconds = told%run_seconds
    metrics%quiesced_seconds = told%quiesced_seconds
    metrics%remap_seconds = told%remap_seconds
  end subroutine quo_phase_metrics

  !> Frees a phase. Local.
  subroutine quo_phase_free(phase, ierr)
    !> A phase; `c_null_ptr` is allowed and does nothing.
    type(c_ptr), value :: phase
    !> `QUO_ERR_INVLD_HANDLE` when it was freed before or is none, `QUO_ERR_BUSY` when a run of it
    !> has begun and not ended.
    integer(c_int), intent(out) :: ierr
    ierr = c_phase_free(phase)
  end subroutine quo_phase_free
end module quo_phases
