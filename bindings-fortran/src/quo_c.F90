!> The functions of quo.h and quo-xpm.h as C has them, and its structures. For the other modules of
!> this library only: `quo` does not pass them on. Results are `intent(inout)`: C leaves them as they
!> were when it fails, and under `intent(out)` an optimiser drops what they were set to before.
module quo_c
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_funptr, c_int, c_null_ptr, c_ptr, c_size_t
  use quo_types, only: quo_xpm_view_t
  implicit none
  private

  !> `QUO_create_options_t`
  type, bind(c), public :: c_create_options
    integer(c_size_t) :: size
    integer(c_int) :: flags
  end type c_create_options

  !> `QUO_phase_spec_t`
  type, bind(c), public :: c_phase_spec
    integer(c_size_t) :: size
    integer(c_int) :: type
    integer(c_int) :: max_per_object
    integer(c_int) :: threads
    type(c_ptr) :: name = c_null_ptr
    integer(c_int) :: cores = 0
    integer(c_int) :: sharing = 0
    real(c_double) :: sharing_limit = 0
    integer(c_int) :: pinning = 0
  end type c_phase_spec

  !> `QUO_worker_t`
  type, bind(c), public :: c_worker
    integer(c_int) :: threads
    integer(c_int) :: first_qid
    integer(c_int) :: nqids
    type(c_ptr) :: cpuset
  end type c_worker

  !> `QUO_phase_metrics_t`
  type, bind(c), public :: c_phase_metrics
    integer(c_size_t) :: size
    integer(c_int) :: selected = 0
    integer(c_int) :: threads = 0
    real(c_double) :: run_seconds = 0
    real(c_double) :: quiesced_seconds = 0
    real(c_double) :: remap_seconds = 0
  end type c_phase_metrics

  interface
    !> Length of a text of C's.
    pure function c_strlen(text) result(length) bind(c, name="strlen")
      import :: c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function c_strlen

    ! Version and errors

    function c_version(version, subversion) result(ierr) bind(c, name="QUO_version")
      import :: c_int
      implicit none
      integer(c_int), intent(inout) :: version
      integer(c_int), intent(inout) :: subversion
      integer(c_int) :: ierr
    end function c_version

    function c_strerror(code) result(text) bind(c, name="QUO_strerror")
      import :: c_int, c_ptr
      implicit none
      integer(c_int), value :: code
      type(c_ptr) :: text
    end function c_strerror

    function c_last_error() result(text) bind(c, name="QUO_last_error")
      import :: c_ptr
      implicit none
      type(c_ptr) :: text
    end function c_last_error

    function c_set_last_error(code, text) result(ierr) bind(c, name="QUO_set_last_error")
      import :: c_char, c_int
      implicit none
      integer(c_int), value :: code
      character(kind=c_char), intent(in) :: text(*)
      integer(c_int) :: ierr
    end function c_set_last_error

    function c_ptr_free(p) result(ierr) bind(c, name="QUO_ptr_free")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: p
      integer(c_int) :: ierr
    end function c_ptr_free

    ! Contexts

    function c_create(q, comm) result(ierr) bind(c, name="QUO_create_f2c")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), intent(inout) :: q
      integer(c_int), value :: comm
      integer(c_int) :: ierr
    end function c_create

    function c_create_with_flags(q, comm, flags) result(ierr) &
      bind(c, name="QUO_create_with_flags_f2c")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), intent(inout) :: q
      integer(c_int), value :: comm
      integer(c_int), value :: flags
      integer(c_int) :: ierr
    end function c_create_with_flags

    function c_create_with_options(q, comm, options) result(ierr) &
      bind(c, name="QUO_create_with_options_f2c")
      import :: c_int, c_ptr, c_create_options
      implicit none
      type(c_ptr), intent(inout) :: q
      integer(c_int), value :: comm
      type(c_create_options), intent(in) :: options
      integer(c_int) :: ierr
    end function c_create_with_options

    function c_free(q) result(ierr) bind(c, name="QUO_free")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int) :: ierr
    end function c_free

    ! What the machine has

    function c_nobjs_by_type(q, target_type, out_nobjs) result(ierr) &
      bind(c, name="QUO_nobjs_by_type")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: target_type
      integer(c_int), intent(inout) :: out_nobjs
      integer(c_int) :: ierr
    end function c_nobjs_by_type

    function c_nobjs_in_type_by_type(q, in_type, in_type_index, type, out_result) result(ierr) &
      bind(c, name="QUO_nobjs_in_type_by_type")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: in_type
      integer(c_int), value :: in_type_index
      integer(c_int), value :: type
      integer(c_int), intent(inout) :: out_result
      integer(c_int) :: ierr
    end function c_nobjs_in_type_by_type

    function c_cpuset_of_type(q, type, type_index, out_list) result(ierr) &
      bind(c, name="QUO_cpuset_of_type")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: type
      integer(c_int), value :: type_index
      type(c_ptr), intent(inout) :: out_list
      integer(c_int) :: ierr
    end function c_cpuset_of_type

    function c_ncore_kinds(q, out_nkinds) result(ierr) bind(c, name="QUO_ncore_kinds")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: out_nkinds
      integer(c_int) :: ierr
    end function c_ncore_kinds

    function c_core_kind(q, index, out_speed, out_list) result(ierr) bind(c, name="QUO_core_kind")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: index
      integer(c_int), intent(inout) :: out_speed
      type(c_ptr), intent(inout) :: out_list
      integer(c_int) :: ierr
    end function c_core_kind

    function c_nnumanodes(q, n) result(ierr) bind(c, name="QUO_nnumanodes")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
      integer(c_int) :: ierr
    end function c_nnumanodes

    function c_nsockets(q, n) result(ierr) bind(c, name="QUO_nsockets")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
      integer(c_int) :: ierr
    end function c_nsockets

    function c_ncores(q, n) result(ierr) bind(c, name="QUO_ncores")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
      integer(c_int) :: ierr
    end function c_ncores

    function c_npus(q, n) result(ierr) bind(c, name="QUO_npus")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
      integer(c_int) :: ierr
    end function c_npus

    function c_nnodes(q, n) result(ierr) bind(c, name="QUO_nnodes")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
      integer(c_int) :: ierr
    end function c_nnodes

    ! Places and bindings of ranks

    function c_nqids(q, n) result(ierr) bind(c, name="QUO_nqids")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
      integer(c_int) :: ierr
    end function c_nqids

    function c_id(q, qid) result(ierr) bind(c, name="QUO_id")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: qid
      integer(c_int) :: ierr
    end function c_id

    function c_cpuset_in_type(q, type, in_type_index, out_result) result(ierr) &
      bind(c, name="QUO_cpuset_in_type")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: type
      integer(c_int), value :: in_type_index
      integer(c_int), intent(inout) :: out_result
      integer(c_int) :: ierr
    end function c_cpuset_in_type

    function c_qids_in_type(q, type, in_type_index, out_nqids, out_qids) result(ierr) &
      bind(c, name="QUO_qids_in_type")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: type
      integer(c_int), value :: in_type_index
      integer(c_int), intent(inout) :: out_nqids
      type(c_ptr), intent(inout) :: out_qids
      integer(c_int) :: ierr
    end function c_qids_in_type

    function c_bound(q, bound) result(ierr) bind(c, name="QUO_bound")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: bound
      integer(c_int) :: ierr
    end function c_bound

    function c_stringify_cbind(q, cbind_str) result(ierr) bind(c, name="QUO_stringify_cbind")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      type(c_ptr), intent(inout) :: cbind_str
      integer(c_int) :: ierr
    end function c_stringify_cbind

    function c_stringify_cbind_of(q, qid, cbind_str) result(ierr) &
      bind(c, name="QUO_stringify_cbind_of")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: qid
      type(c_ptr), intent(inout) :: cbind_str
      integer(c_int) :: ierr
    end function c_stringify_cbind_of

    function c_explain(q, json, text) result(ierr) bind(c, name="QUO_explain")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: json
      type(c_ptr), intent(inout) :: text
      integer(c_int) :: ierr
    end function c_explain

    ! Changing the binding

    function c_bind_push(q, policy, type, obj_index) result(ierr) bind(c, name="QUO_bind_push")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: policy
      integer(c_int), value :: type
      integer(c_int), value :: obj_index
      integer(c_int) :: ierr
    end function c_bind_push

    function c_bind_push_cpuset(q, list) result(ierr) bind(c, name="QUO_bind_push_cpuset")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      character(kind=c_char), intent(in) :: list(*)
      integer(c_int) :: ierr
    end function c_bind_push_cpuset

    function c_bind_pop(q) result(ierr) bind(c, name="QUO_bind_pop")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int) :: ierr
    end function c_bind_pop

    ! Working together

    function c_barrier(q) result(ierr) bind(c, name="QUO_barrier")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int) :: ierr
    end function c_barrier

    function c_barrier_timed(q, seconds) result(ierr) bind(c, name="QUO_barrier_timed")
      import :: c_double, c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      real(c_double), value :: seconds
      integer(c_int) :: ierr
    end function c_barrier_timed

    function c_auto_distrib(q, type, most, out_selected) result(ierr) &
      bind(c, name="QUO_auto_distrib")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: type
      integer(c_int), value :: most
      integer(c_int), intent(inout) :: out_selected
      integer(c_int) :: ierr
    end function c_auto_distrib

    function c_auto_distrib_with_policy(q, type, most, policy, out_selected) result(ierr) &
      bind(c, name="QUO_auto_distrib_with_policy")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: type
      integer(c_int), value :: most
      integer(c_int), value :: policy
      integer(c_int), intent(inout) :: out_selected
      integer(c_int) :: ierr
    end function c_auto_distrib_with_policy

    function c_get_mpi_comm_by_type(q, target_type, out_comm) result(ierr) &
      bind(c, name="QUO_get_mpi_comm_by_type_f2c")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: target_type
      integer(c_int), intent(inout) :: out_comm
      integer(c_int) :: ierr
    end function c_get_mpi_comm_by_type

    ! Members that leave and rejoin

    function c_detach(q) result(ierr) bind(c, name="QUO_detach")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int) :: ierr
    end function c_detach

    function c_attach(q) result(ierr) bind(c, name="QUO_attach")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int) :: ierr
    end function c_attach

    function c_dead_qids(q, out_nqids, out_qids) result(ierr) bind(c, name="QUO_dead_qids")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: out_nqids
      type(c_ptr), intent(inout) :: out_qids
      integer(c_int) :: ierr
    end function c_dead_qids

    function c_expel(q, qid) result(ierr) bind(c, name="QUO_expel")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: qid
      integer(c_int) :: ierr
    end function c_expel

    function c_adapt(q, comm) result(ierr) bind(c, name="QUO_adapt_f2c")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: comm
      integer(c_int) :: ierr
    end function c_adapt

    function c_retire(q) result(ierr) bind(c, name="QUO_retire")
      import :: c_ptr, c_int
      implicit none
      type(c_ptr), value :: q
      integer(c_int) :: ierr
    end function c_retire

    ! Named barriers

    function c_named_barrier_create(q, name, qids, nqids, out_barrier) result(ierr) &
      bind(c, name="QUO_named_barrier_create")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: qids
      integer(c_int), value :: nqids
      type(c_ptr), intent(inout) :: out_barrier
      integer(c_int) :: ierr
    end function c_named_barrier_create

    function c_named_barrier_wait(barrier) result(ierr) bind(c, name="QUO_named_barrier_wait")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: barrier
      integer(c_int) :: ierr
    end function c_named_barrier_wait

    function c_named_barrier_wait_timed(barrier, seconds) result(ierr) &
      bind(c, name="QUO_named_barrier_wait_timed")
      import :: c_double, c_int, c_ptr
      implicit none
      type(c_ptr), value :: barrier
      real(c_double), value :: seconds
      integer(c_int) :: ierr
    end function c_named_barrier_wait_timed

    function c_named_barrier_free(barrier) result(ierr) bind(c, name="QUO_named_barrier_free")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: barrier
      integer(c_int) :: ierr
    end function c_named_barrier_free

    ! Phases

    function c_phase_create(q, spec, out_phase) result(ierr) bind(c, name="QUO_phase_create")
      import :: c_int, c_ptr, c_phase_spec
      implicit none
      type(c_ptr), value :: q
      type(c_phase_spec), intent(in) :: spec
      type(c_ptr), intent(inout) :: out_phase
      integer(c_int) :: ierr
    end function c_phase_create

    function c_phase_begin(phase, selected, threads) result(ierr) bind(c, name="QUO_phase_begin")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: phase
      integer(c_int), intent(inout) :: selected
      integer(c_int), intent(inout) :: threads
      integer(c_int) :: ierr
    end function c_phase_begin

    function c_phase_qids(phase, first, count) result(ierr) bind(c, name="QUO_phase_qids")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: phase
      integer(c_int), intent(inout) :: first
      integer(c_int), intent(inout) :: count
      integer(c_int) :: ierr
    end function c_phase_qids

    function c_phase_release(phase) result(ierr) bind(c, name="QUO_phase_release_f2c")
      import :: c_int, c_ptr
      type(c_ptr), value :: phase
      integer(c_int) :: ierr
    end function c_phase_release

    function c_handle_in_use(handle) result(known) bind(c, name="QUO_handle_in_use_f2c")
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
      integer(c_int) :: known
    end function c_handle_in_use

    function c_phase_pin_thread(phase, number, count) result(ierr) bind(c, name="QUO_phase_pin_thread")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: phase
      integer(c_int), value :: number
      integer(c_int), value :: count
      integer(c_int) :: ierr
    end function c_phase_pin_thread

    function c_phase_end(phase) result(ierr) bind(c, name="QUO_phase_end")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: phase
      integer(c_int) :: ierr
    end function c_phase_end

    function c_phase_fail(phase, reason) result(ierr) bind(c, name="QUO_phase_fail")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: phase
      character(kind=c_char), intent(in) :: reason(*)
      integer(c_int) :: ierr
    end function c_phase_fail

    function c_phase_run(phase, work, data) result(ierr) bind(c, name="QUO_phase_run")
      import :: c_funptr, c_int, c_ptr
      implicit none
      type(c_ptr), value :: phase
      type(c_funptr), value :: work
      type(c_ptr), value :: data
      integer(c_int) :: ierr
    end function c_phase_run

    function c_metrics_of(phase, metrics) result(ierr) bind(c, name="QUO_phase_metrics")
      import :: c_int, c_ptr, c_phase_metrics
      implicit none
      type(c_ptr), value :: phase
      type(c_phase_metrics), intent(inout) :: metrics
      integer(c_int) :: ierr
    end function c_metrics_of

    function c_phase_free(phase) result(ierr) bind(c, name="QUO_phase_free")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: phase
      integer(c_int) :: ierr
    end function c_phase_free

    ! Cross-process memory

    function c_xpm_allocate(qc, local_size, new_xpm) result(ierr) bind(c, name="QUO_xpm_allocate")
      import :: c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: qc
      integer(c_size_t), value :: local_size
      type(c_ptr), intent(inout) :: new_xpm
      integer(c_int) :: ierr
    end function c_xpm_allocate

    function c_xpm_allocate_by_qids(qc, qids, nqids, local_size, new_xpm) result(ierr) &
      bind(c, name="QUO_xpm_allocate_by_qids")
      import :: c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: qc
      integer(c_int), intent(in) :: qids(*)
      integer(c_int), value :: nqids
      integer(c_size_t), value :: local_size
      type(c_ptr), intent(inout) :: new_xpm
      integer(c_int) :: ierr
    end function c_xpm_allocate_by_qids

    function c_xpm_free(xpm) result(ierr) bind(c, name="QUO_xpm_free")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: xpm
      integer(c_int) :: ierr
    end function c_xpm_free

    function c_xpm_view_local(xpm, view) result(ierr) bind(c, name="QUO_xpm_view_local")
      import :: c_int, c_ptr, quo_xpm_view_t
      implicit none
      type(c_ptr), value :: xpm
      type(quo_xpm_view_t), intent(inout) :: view
      integer(c_int) :: ierr
    end function c_xpm_view_local

    function c_xpm_view_by_qid(xpm, qid, view) result(ierr) bind(c, name="QUO_xpm_view_by_qid")
      import :: c_int, c_ptr, quo_xpm_view_t
      implicit none
      type(c_ptr), value :: xpm
      integer(c_int), value :: qid
      type(quo_xpm_view_t), intent(inout) :: view
      integer(c_int) :: ierr
    end function c_xpm_view_by_qid

    function c_xpm_view_by_qid_range(xpm, qid_start, qid_end, view) result(ierr) &
      bind(c, name="QUO_xpm_view_by_qid_range")
      import :: c_int, c_ptr, quo_xpm_view_t
      implicit none
      type(c_ptr), value :: xpm
      integer(c_int), value :: qid_start
      integer(c_int), value :: qid_end
      type(quo_xpm_view_t), intent(inout) :: view
      integer(c_int) :: ierr
    end function c_xpm_view_by_qid_range
  end interface

  public :: c_strlen, c_version, c_strerror, c_last_error, c_set_last_error, c_ptr_free, &
    c_create, c_create_with_flags, c_create_with_options, c_free, c_nobjs_by_type, &
    c_nobjs_in_type_by_type, c_cpuset_of_type, c_core_kind, c_ncore_kinds, &
    c_nnumanodes, c_nsockets, c_ncores, c_npus, &
    c_nnodes, c_nqids, c_id, c_cpuset_in_type, c_qids_in_type, c_bound, c_stringify_cbind, &
    c_stringify_cbind_of, c_explain, c_bind_push, c_bind_push_cpuset, c_bind_pop, c_barrier, &
    c_barrier_timed, c_auto_distrib, c_auto_distrib_with_policy, c_get_mpi_comm_by_type, &
    c_detach, c_attach, c_dead_qids, c_expel, c_adapt, c_retire, c_named_barrier_create, &
    c_named_barrier_wait, c_named_barrier_wait_timed, c_named_barrier_free, c_phase_create, c_phase_begin, &
    c_phase_qids, c_phase_pin_thread, c_phase_end, c_phase_release, c_handle_in_use, &
    c_phase_fail, c_phase_run, c_metrics_of, c_phase_free, c_xpm_allocate, &
    c_xpm_allocate_by_qids, c_xpm_free, c_xpm_view_local, c_xpm_view_by_qid, &
    c_xpm_view_by_qid_range
end module quo_c
