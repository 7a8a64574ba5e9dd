!> The structures of the interface, and the procedures that a phase calls.
module quo_types
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_null_ptr, c_ptr, c_size_t
  use quo_constants, only: QUO_CORES_ALL, QUO_CREATE_NO_FLAGS, QUO_OBJ_PACKAGE, &
    QUO_PINNING_ENVIRONMENT, QUO_SHARING_OVERLAP, QUO_THREADS_OPENMP
  implicit none
  private

  !> Options of a context; the same on every rank. `quo_create_options_t()` is what `quo_create`
  !> takes, `quo_create_options_t(flags=QUO_CREATE_NO_MT)` changes one of them.
  type, public :: quo_create_options_t
    !> A combination of the flags `QUO_CREATE_...`.
    integer(c_int) :: flags = QUO_CREATE_NO_FLAGS
  end type quo_create_options_t

  !> Specification of a phase; the same on every rank. Without changes: one worker per package,
  !> whose thread counts follow its binding; no name.
  type, public :: quo_phase_spec_t
    !> Type of object to spread workers over. On a machine that shows no packages,
    !> `QUO_OBJ_PACKAGE` stands for the machine as a whole.
    integer(c_int) :: type = QUO_OBJ_PACKAGE
    !> Most workers per object, at least 1.
    integer(c_int) :: max_per_object = 1
    !> One of `QUO_THREADS_...`.
    integer(c_int) :: threads = QUO_THREADS_OPENMP
    !> A name for traces (the variable QUO_TRACE); not allocated for none.
    character(len=:, kind=c_char), allocatable :: name
    !> One of `QUO_CORES_...`.
    integer(c_int) :: cores = QUO_CORES_ALL
    !> One of `QUO_SHARING_...`. Other than `QUO_SHARING_OVERLAP`, workers must not share CPUs, and
    !> `quo_phase_begin` is collective over the node.
    integer(c_int) :: sharing = QUO_SHARING_OVERLAP
    !> Seconds to wait for the CPUs, after which `quo_phase_end` gives `QUO_ERR_TIMEOUT` on every
    !> rank; 0 for the limit of `quo_create`.
    real(c_double) :: sharing_limit = 0
    !> One of `QUO_PINNING_...`: the CPUs that each OpenMP thread of a worker may use.
    integer(c_int) :: pinning = QUO_PINNING_ENVIRONMENT
  end type quo_phase_spec_t

  !> Assignment of a worker of a phase.
  type, public :: quo_worker_t
    !> Threads to run: the worker's share of the CPUs.
    integer(c_int) :: threads = 0
    !> First of the qids that this worker does the work of; they are contiguous.
    integer(c_int) :: first_qid = 0
    !> Number of qids, the worker's own among them.
    integer(c_int) :: nqids = 0
    !> The CPUs the worker is bound to, as a list such as `0-3,8`.
    character(len=:, kind=c_char), allocatable :: cpuset
  end type quo_worker_t

  !> Cost of the last run of a phase for this rank. All zero before the first run.
  type, public :: quo_phase_metrics_t
    !> True if this rank was selected.
    logical :: selected = .false.
    !> Threads this rank ran; 0 when it was not selected.
    integer(c_int) :: threads = 0
    !> Seconds at work, changes of binding and thread counts included.
    real(c_double) :: run_seconds = 0
    !> Seconds this rank slept.
    real(c_double) :: quiesced_seconds = 0
    !> Seconds spent on moving data between ranks; 0 unless the library moves it.
    real(c_double) :: remap_seconds = 0
  end type quo_phase_metrics_t

  !> A piece of cross-process memory as mapped in the calling process.
  type, bind(c), public :: quo_xpm_view_t
    !> First byte.
    type(c_ptr) :: base = c_null_ptr
    !> Its length in bytes.
    integer(c_size_t) :: extent = 0
  end type quo_xpm_view_t

  abstract interface
    !> Work of a phase, called on selected ranks. Must return.
    subroutine quo_phase_work(worker)
      import :: quo_worker_t
      implicit none
      type(quo_worker_t), intent(in) :: worker
    end subroutine quo_phase_work

    !> Work of a phase with the data given to `quo_phase_run`; `select type` finds its type.
    subroutine quo_phase_work_on(worker, data)
      import :: quo_worker_t
      implicit none
      type(quo_worker_t), intent(in) :: worker
      class(*), intent(inout) :: data
    end subroutine quo_phase_work_on
  end interface
  public :: quo_phase_work, quo_phase_work_on
end module quo_types
