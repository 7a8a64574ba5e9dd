!> The functions of quo.h and quo-xpm.h as C has them, and its structures. For the other modules of
!> this library only: `quo` does not pass them on. Results are `intent(inout)`: C leaves them as they
!> were when it fails, and under `intent(out)` an optimiser drops what they were set to before.
module quo_c
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_funptr, c_int, c_null_ptr, c_ptr, c_size_t
  use quo_types, only: quo_xpm_view_t
  implicit none

  !> `QUO_create_options_t`
  type, bind(c) :: c_create_options
    integer(c_size_t) :: size
    integer(c_int) :: flags
  end type c_create_options

  !> `QUO_phase_spec_t`
  type, bind(c) :: c_phase_spec
    integer(c_size_t) :: size
    integer(c_int) :: type, max_per_object, threads
    type(c_ptr) :: name = c_null_ptr
    integer(c_int) :: cores = 0
    integer(c_int) :: sharing = 0
    real(c_double) :: sharing_limit = 0
    integer(c_int) :: pinning = 0
  end type c_phase_spec

  !> `QUO_worker_t`
  type, bind(c) :: c_worker
    integer(c_int) :: threads, first_qid, nqids
    type(c_ptr) :: cpuset
  end type c_worker

  !> `QUO_phase_metrics_t`
  type, bind(c) :: c_phase_metrics
    integer(c_size_t) :: size
    integer(c_int) :: selected = 0
    integer(c_int) :: threads = 0
    real(c_double) :: run_seconds = 0
    real(c_double) :: quiesced_seconds = 0
    real(c_double) :: remap_seconds = 0
  end type c_phase_metrics

  interface
    !> Length of a text of C's.
    pure integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function c_strlen

    ! Version and errors
    integer(c_int) function c_version(version, subversion) bind(c, name="QUO_version")
      import :: c_int
      integer(c_int), intent(inout) :: version, subversion
    end function c_version
    type(c_ptr) function c_strerror(code) bind(c, name="QUO_strerror")
      import :: c_int, c_ptr
      integer(c_int), value :: code
    end function c_strerror
    type(c_ptr) function c_last_error() bind(c, name="QUO_last_error")
      import :: c_ptr
    end function c_last_error
    integer(c_int) function c_set_last_error(code, text) bind(c, name="QUO_set_last_error")
      import :: c_char, c_int
      integer(c_int), value :: code
      character(kind=c_char), intent(in) :: text(*)
    end function c_set_last_error
    integer(c_int) function c_ptr_free(p) bind(c, name="QUO_ptr_free")
      import :: c_int, c_ptr
      type(c_ptr), value :: p
    end function c_ptr_free

    ! Contexts
    integer(c_int) function c_create(q, comm) bind(c, name="QUO_create_f2c")
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: q
      integer(c_int), value :: comm
    end function c_create
    integer(c_int) function c_create_with_flags(q, comm, flags) &
      bind(c, name="QUO_create_with_flags_f2c")
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: q
      integer(c_int), value :: comm, flags
    end function c_create_with_flags
    integer(c_int) function c_create_with_options(q, comm, options) &
      bind(c, name="QUO_create_with_options_f2c")
      import :: c_create_options, c_int, c_ptr
      type(c_ptr), intent(inout) :: q
      integer(c_int), value :: comm
      type(c_create_options), intent(in) :: options
    end function c_create_with_options
    integer(c_int) function c_free(q) bind(c, name="QUO_free")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
    end function c_free

    ! What the machine has
    integer(c_int) function c_nobjs_by_type(q, target_type, out_nobjs) &
      bind(c, name="QUO_nobjs_by_type")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: target_type
      integer(c_int), intent(inout) :: out_nobjs
    end function c_nobjs_by_type
    integer(c_int) function c_nobjs_in_type_by_type(q, in_type, in_type_index, type, out_result) &
      bind(c, name="QUO_nobjs_in_type_by_type")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: in_type, in_type_index, type
      integer(c_int), intent(inout) :: out_result
    end function c_nobjs_in_type_by_type
    integer(c_int) function c_cpuset_of_type(q, type, type_index, out_list) &
      bind(c, name="QUO_cpuset_of_type")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: type, type_index
      type(c_ptr), intent(inout) :: out_list
    end function c_cpuset_of_type
    integer(c_int) function c_ncore_kinds(q, out_nkinds) bind(c, name="QUO_ncore_kinds")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: out_nkinds
    end function c_ncore_kinds
    integer(c_int) function c_core_kind(q, index, out_speed, out_list) bind(c, name="QUO_core_kind")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: index
      integer(c_int), intent(inout) :: out_speed
      type(c_ptr), intent(inout) :: out_list
    end function c_core_kind
    integer(c_int) function c_nnumanodes(q, n) bind(c, name="QUO_nnumanodes")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
    end function c_nnumanodes
    integer(c_int) function c_nsockets(q, n) bind(c, name="QUO_nsockets")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
    end function c_nsockets
    integer(c_int) function c_ncores(q, n) bind(c, name="QUO_ncores")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
    end function c_ncores
    integer(c_int) function c_npus(q, n) bind(c, name="QUO_npus")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
    end function c_npus
    integer(c_int) function c_nnodes(q, n) bind(c, name="QUO_nnodes")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
    end function c_nnodes

    ! Places and bindings of ranks
    integer(c_int) function c_nqids(q, n) bind(c, name="QUO_nqids")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: n
    end function c_nqids
    integer(c_int) function c_id(q, qid) bind(c, name="QUO_id")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: qid
    end function c_id
    integer(c_int) function c_cpuset_in_type(q, type, in_type_index, out_result) &
      bind(c, name="QUO_cpuset_in_type")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: type, in_type_index
      integer(c_int), intent(inout) :: out_result
    end function c_cpuset_in_type
    integer(c_int) function c_qids_in_type(q, type, in_type_index, out_nqids, out_qids) &
      bind(c, name="QUO_qids_in_type")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: type, in_type_index
      integer(c_int), intent(inout) :: out_nqids
      type(c_ptr), intent(inout) :: out_qids
    end function c_qids_in_type
    integer(c_int) function c_bound(q, bound) bind(c, name="QUO_bound")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: bound
    end function c_bound
    integer(c_int) function c_stringify_cbind(q, cbind_str) bind(c, name="QUO_stringify_cbind")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      type(c_ptr), intent(inout) :: cbind_str
    end function c_stringify_cbind
    integer(c_int) function c_stringify_cbind_of(q, qid, cbind_str) &
      bind(c, name="QUO_stringify_cbind_of")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: qid
      type(c_ptr), intent(inout) :: cbind_str
    end function c_stringify_cbind_of
    integer(c_int) function c_explain(q, json, text) bind(c, name="QUO_explain")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: json
      type(c_ptr), intent(inout) :: text
    end function c_explain

    ! Changing the binding
    integer(c_int) function c_bind_push(q, policy, type, obj_index) bind(c, name="QUO_bind_push")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: policy, type, obj_index
    end function c_bind_push
    integer(c_int) function c_bind_push_cpuset(q, list) bind(c, name="QUO_bind_push_cpuset")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: q
      character(kind=c_char), intent(in) :: list(*)
    end function c_bind_push_cpuset
    integer(c_int) function c_bind_pop(q) bind(c, name="QUO_bind_pop")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
    end function c_bind_pop

    ! Working together
    integer(c_int) function c_barrier(q) bind(c, name="QUO_barrier")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
    end function c_barrier
    integer(c_int) function c_barrier_timed(q, seconds) bind(c, name="QUO_barrier_timed")
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: q
      real(c_double), value :: seconds
    end function c_barrier_timed
    integer(c_int) function c_auto_distrib(q, type, most, out_selected) &
      bind(c, name="QUO_auto_distrib")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: type, most
      integer(c_int), intent(inout) :: out_selected
    end function c_auto_distrib
    integer(c_int) function c_auto_distrib_with_policy(q, type, most, policy, out_selected) &
      bind(c, name="QUO_auto_distrib_with_policy")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: type, most, policy
      integer(c_int), intent(inout) :: out_selected
    end function c_auto_distrib_with_policy
    integer(c_int) function c_get_mpi_comm_by_type(q, target_type, out_comm) &
      bind(c, name="QUO_get_mpi_comm_by_type_f2c")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: target_type
      integer(c_int), intent(inout) :: out_comm
    end function c_get_mpi_comm_by_type

    ! Members that leave and rejoin
    integer(c_int) function c_detach(q) bind(c, name="QUO_detach")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
    end function c_detach
    integer(c_int) function c_attach(q) bind(c, name="QUO_attach")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
    end function c_attach
    integer(c_int) function c_dead_qids(q, out_nqids, out_qids) bind(c, name="QUO_dead_qids")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: out_nqids
      type(c_ptr), intent(inout) :: out_qids
    end function c_dead_qids
    integer(c_int) function c_expel(q, qid) bind(c, name="QUO_expel")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: qid
    end function c_expel
    integer(c_int) function c_adapt(q, comm) bind(c, name="QUO_adapt_f2c")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
      integer(c_int), value :: comm
    end function c_adapt
    integer(c_int) function c_retire(q) bind(c, name="QUO_retire")
      import :: c_int, c_ptr
      type(c_ptr), value :: q
    end function c_retire

    ! Named barriers
    integer(c_int) function c_named_barrier_create(q, name, qids, nqids, out_barrier) &
      bind(c, name="QUO_named_barrier_create")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: q, qids
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: nqids
      type(c_ptr), intent(inout) :: out_barrier
    end function c_named_barrier_create
    integer(c_int) function c_named_barrier_wait(barrier) bind(c, name="QUO_named_barrier_wait")
      import :: c_int, c_ptr
      type(c_ptr), value :: barrier
    end function c_named_barrier_wait
    integer(c_int) function c_named_barrier_wait_timed(barrier, seconds) &
      bind(c, name="QUO_named_barrier_wait_timed")
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: barrier
      real(c_double), value :: seconds
    end function c_named_barrier_wait_timed
    integer(c_int) function c_named_barrier_free(barrier) bind(c, name="QUO_named_barrier_free")
      import :: c_int, c_ptr
      type(c_ptr), value :: barrier
    end function c_named_barrier_free

    ! Phases
    integer(c_int) function c_phase_create(q, spec, out_phase) bind(c, name="QUO_phase_create")
      import :: c_int, c_phase_spec, c_ptr
      type(c_ptr), value :: q
      type(c_phase_spec), intent(in) :: spec
      type(c_ptr), intent(inout) :: out_phase
    end function c_phase_create
    integer(c_int) function c_phase_begin(phase, selected, threads) bind(c, name="QUO_phase_begin")
      import :: c_int, c_ptr
      type(c_ptr), value :: phase
      integer(c_int), intent(inout) :: selected, threads
    end function c_phase_begin
    integer(c_int) function c_phase_qids(phase, first, count) bind(c, name="QUO_phase_qids")
      import :: c_int, c_ptr
      type(c_ptr), value :: phase
      integer(c_int), intent(inout) :: first, count
    end function c_phase_qids
    integer(c_int) function c_phase_release(phase) bind(c, name="QUO_phase_release_f2c")
      import :: c_int, c_ptr
      type(c_ptr), value :: phase
    end function c_phase_release
    integer(c_int) function c_handle_in_use(handle) bind(c, name="QUO_handle_in_use_f2c")
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
    end function c_handle_in_use
    integer(c_int) function c_phase_pin_thread(phase, number, count) &
      bind(c, name="QUO_phase_pin_thread")
      import :: c_int, c_ptr
      type(c_ptr), value :: phase
      integer(c_int), value :: number, count
    end function c_phase_pin_thread
    integer(c_int) function c_phase_end(phase) bind(c, name="QUO_phase_end")
      import :: c_int, c_ptr
      type(c_ptr), value :: phase
    end function c_phase_end
    integer(c_int) function c_phase_fail(phase, reason) bind(c, name="QUO_phase_fail")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: phase
      character(kind=c_char), intent(in) :: reason(*)
    end function c_phase_fail
    integer(c_int) function c_phase_run(phase, work, data) bind(c, name="QUO_phase_run")
      import :: c_funptr, c_int, c_ptr
      type(c_ptr), value :: phase, data
      type(c_funptr), value :: work
    end function c_phase_run
    integer(c_int) function c_metrics_of(phase, metrics) bind(c, name="QUO_phase_metrics")
      import :: c_int, c_phase_metrics, c_ptr
      type(c_ptr), value :: phase
      type(c_phase_metrics), intent(inout) :: metrics
    end function c_metrics_of
    integer(c_int) function c_phase_free(phase) bind(c, name="QUO_phase_free")
      import :: c_int, c_ptr
      type(c_ptr), value :: phase
    end function c_phase_free

    ! Cross-process memory
    integer(c_int) function c_xpm_allocate(qc, local_size, new_xpm) bind(c, name="QUO_xpm_allocate")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: qc
      integer(c_size_t), value :: local_size
      type(c_ptr), intent(inout) :: new_xpm
    end function c_xpm_allocate
    integer(c_int) function c_xpm_allocate_by_qids(qc, qids, nqids, local_size, new_xpm) &
      bind(c, name="QUO_xpm_allocate_by_qids")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: qc
      integer(c_int), intent(in) :: qids(*)
      integer(c_int), value :: nqids
      integer(c_size_t), value :: local_size
      type(c_ptr), intent(inout) :: new_xpm
    end function c_xpm_allocate_by_qids
    integer(c_int) function c_xpm_free(xpm) bind(c, name="QUO_xpm_free")
      import :: c_int, c_ptr
      type(c_ptr), value :: xpm
    end function c_xpm_free
    integer(c_int) function c_xpm_view_local(xpm, view) bind(c, name="QUO_xpm_view_local")
      import :: c_int, c_ptr, quo_xpm_view_t
      type(c_ptr), value :: xpm
      type(quo_xpm_view_t), intent(inout) :: view
    end function c_xpm_view_local
    integer(c_int) function c_xpm_view_by_qid(xpm, qid, view) bind(c, name="QUO_xpm_view_by_qid")
      import :: c_int, c_ptr, quo_xpm_view_t
      type(c_ptr), value :: xpm
      integer(c_int), value :: qid
      type(quo_xpm_view_t), intent(inout) :: view
    end function c_xpm_view_by_qid
    integer(c_int) function c_xpm_view_by_qid_range(xpm, qid_start, qid_end, view) &
      bind(c, name="QUO_xpm_view_by_qid_range")
      import :: c_int, c_ptr, quo_xpm_view_t
      type(c_ptr), value :: xpm
      integer(c_int), value :: qid_start, qid_end
      type(quo_xpm_view_t), intent(inout) :: view
    end function c_xpm_view_by_qid_range
  end interface
end module quo_c
