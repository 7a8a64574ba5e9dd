! The objects: every method, with good and bad input.
program objects
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr, comm, ranks, i
  integer(c_int) :: ierr, n, threads, first, count, calls
  logical :: selected, answer
  type(quo_context) :: node, nothing
  type(quo_phase) :: phase
  type(quo_named_barrier) :: barrier
  type(quo_memory) :: memory
  type(quo_binding) :: binding
  type(quo_phase_metrics_t) :: metrics
  type(quo_xpm_view_t) :: piece
  real(c_double), pointer :: values(:)
  integer(c_int8_t), pointer :: bytes(:)
  integer(c_int32_t), pointer :: ints(:)
  integer(c_int64_t), pointer :: longs(:)
  real(c_float), pointer :: floats(:)
  complex(c_float_complex), pointer :: small_complex(:)
  complex(c_double_complex), pointer :: large_complex(:)
  character(len=:), allocatable :: text, before

  call mpi_init(mpierr)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, mpierr)
  call node%create(MPI_COMM_WORLD, ierr)
  call done(ierr, 'create')
  call true(c_associated(node%handle()), 'a handle')

  ! Queries.
  call equal(node%nqids(), int(ranks, c_int), 'nqids')
  call equal(node%nnodes(), 1, 'nnodes')
  call equal(node%nobjs_by_type(QUO_OBJ_MACHINE), 1, 'nobjs_by_type')
  call equal(node%nobjs_by_type(QUO_OBJ_CORE), node%ncores(), 'ncores')
  call equal(node%nobjs_by_type(QUO_OBJ_PU), node%npus(), 'npus')
  call equal(node%nobjs_by_type(QUO_OBJ_PACKAGE), node%nsockets(), 'nsockets')
  call equal(node%nobjs_by_type(QUO_OBJ_NUMANODE), node%nnumanodes(ierr), 'nnumanodes')
  call done(ierr, 'nnumanodes')
  call equal(node%nobjs_in_type_by_type(QUO_OBJ_MACHINE, 0, QUO_OBJ_PU), node%npus(), 'all PUs')
  call true(node%id() >= 0 .and. node%id() < node%nqids(), 'id')
  call equal(size(node%qids_in_type(QUO_OBJ_MACHINE, 0), kind=c_int), node%nqids(), 'qids_in_type')
  call true(node%cpuset_in_type(QUO_OBJ_MACHINE, 0), 'cpuset_in_type')
  before = node%stringify_cbind()
  call same(node%stringify_cbind_of(node%id()), before, 'stringify_cbind_of')
  call true(len(node%cpuset_of_type(QUO_OBJ_MACHINE, 0)) >= len(before), 'cpuset_of_type')
  call true(index(node%explain(.true.), '{') == 1, 'explain')
  call equal(size(node%dead_qids(), kind=c_int), 0, 'dead_qids')
  n = node%nobjs_by_type(99, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown type')
  call equal(n, 0, 'a count after a failure')
  n = size(node%qids_in_type(QUO_OBJ_CORE, 9999, ierr), kind=c_int)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a core that is not there')
  call equal(n, 0, 'nobody after a failure')

  ! Pushes, popped explicitly and automatically.
  call node%bind_push(QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0, ierr)
  call done(ierr, 'bind_push')
  text = node%stringify_cbind()
  call node%bind_push_cpuset(text, ierr)
  call done(ierr, 'bind_push_cpuset')
  call node%bind_pop(ierr)
  call node%bind_pop(ierr)
  call done(ierr, 'bind_pop')
  call node%bind_pop(ierr)
  call code(ierr, QUO_ERR_POP, 'a pop too many')
  call true(node%bound() .eqv. node%bound(ierr), 'bound')
  block
    type(quo_binding) :: inner
    call inner%push(node, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0, ierr)
    call done(ierr, 'push')
    call same(node%stringify_cbind(), text, 'bound to the first PU')
  end block
  call same(node%stringify_cbind(), before, 'undone at the end of the block')
  call binding%push_cpuset(node, text, ierr)
  call done(ierr, 'push_cpuset')
  call same(node%stringify_cbind(), text, 'bound to the set')
  call binding%push_cpuset(node, 'x', ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'no list')
  call same(node%stringify_cbind(), before, 'the earlier push is undone')
  call binding%push(node, QUO_BIND_PUSH_OBJ, QUO_OBJ_MACHINE, -1, ierr)
  call binding%pop(ierr)
  call done(ierr, 'pop')
  call binding%pop(ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'nothing pushed')

  ! Collective calls.
  call node%barrier(ierr)
  call done(ierr, 'barrier')
  call node%barrier_timed(30.0_c_double, ierr)
  call done(ierr, 'barrier_timed')
  call node%auto_distrib(QUO_OBJ_PACKAGE, 1, selected, ierr)
  call done(ierr, 'auto_distrib')
  call node%auto_distrib_with_policy(QUO_OBJ_PACKAGE, 1, QUO_DISTRIB_SPREAD, answer, ierr)
  call done(ierr, 'auto_distrib_with_policy')
  call true(selected .eqv. answer, 'the same choice')
  call node%get_mpi_comm_by_type(QUO_OBJ_MACHINE, comm, ierr)
  call done(ierr, 'get_mpi_comm_by_type')
  call mpi_comm_free(comm, mpierr)
  call node%attach(ierr)
  call code(ierr, QUO_SUCCESS_ALREADY_DONE, 'attach')
  call node%expel(node%id(), ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'expel')
  call mpi_barrier(MPI_COMM_WORLD, mpierr)
  call node%detach(ierr)
  call done(ierr, 'detach')
  call node%attach(ierr)
  call done(ierr, 'attach')
  call mpi_barrier(MPI_COMM_WORLD, mpierr)

  ! Named barriers.
  call barrier%create(node, 'all', ierr)
  call done(ierr, 'create')
  call barrier%wait(ierr)
  call done(ierr, 'wait')
  call barrier%wait_timed(30.0_c_double, ierr)
  call done(ierr, 'wait_timed')
  call barrier%create(node, 'alone', [node%id()], ierr)
  call done(ierr, 'create among some')
  call barrier%wait(ierr)
  call done(ierr, 'wait')
  call true(c_associated(barrier%handle()), 'a handle')
  call barrier%free(ierr)
  call done(ierr, 'free')
  call barrier%wait(ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a barrier that was freed')

  ! Phases.
  call phase%create(node, ierr)
  call done(ierr, 'create')
  call phase%begin(selected, threads, ierr)
  call done(ierr, 'begin')
  call phase%pin_thread(0, 1, ierr)
  call true(selected .eqv. ierr == QUO_SUCCESS, 'pin_thread')
  call phase%qids(first, count, ierr)
  call done(ierr, 'qids')
  call true(selected .eqv. count > 0, 'workers serve')
  call phase%end(ierr)
  call done(ierr, 'end')
  calls = 0
  call phase%run(work, ierr)
  call done(ierr, 'run')
  call equal(calls, merge(1, 0, selected), 'calls')
  call phase%run(work_on, calls, ierr)
  call done(ierr, 'run on data')
  call equal(calls, merge(11, 0, selected), 'calls')
  call phase%fail('nothing has begun', ierr)
  call code(ierr, QUO_ERR_NOT_BEGUN, 'no run has begun')
  call phase%begin(selected, threads, ierr)
  call phase%fail('it diverged', ierr)
  call done(ierr, 'fail')
  call phase%end(ierr)
  call code(ierr, QUO_ERR_WORK_FAILED, 'a failed run')
  call phase%run(work, ierr)
  call done(ierr, 'a run after a failed one')
  call phase%metrics(metrics, ierr)
  call done(ierr, 'metrics')
  call true(metrics%selected .eqv. selected, 'metrics')
  call phase%create(node, quo_phase_spec_t(type=QUO_OBJ_MACHINE), ierr)
  call done(ierr, 'create again')
  call node%free(ierr)
  call code(ierr, QUO_ERR_BUSY, 'a phase is left')
  call phase%free(ierr)
  call done(ierr, 'free')
  call true(.not. c_associated(phase%handle()), 'no handle')

  ! Memory.
  call memory%allocate(node, 48_c_size_t, ierr)
  call done(ierr, 'allocate')
  call memory%view_local(values, ierr)
  call done(ierr, 'view_local')
  values = node%id()
  call node%barrier(ierr)
  call memory%view_by_qid(node%nqids() - 1, values, ierr)
  call done(ierr, 'view_by_qid')
  call true(all(nint(values) == node%nqids() - 1), 'what the last wrote')
  call memory%view_by_qid_range(0, node%nqids() - 1, values, ierr)
  call done(ierr, 'view_by_qid_range')
  call equal(size(values, kind=c_int), 6 * node%nqids(), 'all')
  call true(nint(sum(values)) == 6 * sum([(i, i=0, ranks - 1)]), 'what all wrote')
  call memory%view_local(piece, ierr)
  call true(piece%extent == 48, 'a raw view')
  call memory%view_local(bytes, ierr)
  call memory%view_local(ints, ierr)
  call memory%view_local(longs, ierr)
  call memory%view_local(floats, ierr)
  call memory%view_local(small_complex, ierr)
  call memory%view_local(large_complex, ierr)
  call true(all([size(bytes), size(ints), size(longs), size(floats), size(small_complex), &
    size(large_complex)] == [48, 12, 6, 12, 6, 3]), 'elements of each type')
  call memory%allocate(node, [node%id()], 10_c_size_t, ierr)
  call done(ierr, 'allocate among some')
  call memory%view_local(values, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'no whole number of elements')
  call memory%free(ierr)
  call done(ierr, 'free')

  ! Objects that hold nothing.
  call equal(nothing%ncores(ierr), 0, 'a count of nothing')
  call code(ierr, QUO_ERR_INVLD_ARG, 'a question to nothing')
  call equal(nothing%id(), -1, 'a qid of nothing')
  call true(.not. nothing%bound(), 'nothing is not bound')
  call same(nothing%stringify_cbind(), '', 'no text')
  call nothing%barrier(ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a barrier of nothing')
  call nothing%free(ierr)
  call done(ierr, 'nothing to free')
  call phase%create(nothing, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a phase of nothing')
  call nothing%create(MPI_COMM_NULL, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a null communicator')
  call nothing%create(MPI_COMM_WORLD, quo_create_options_t(flags=128), ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown flag')

  call node%free(ierr)
  call done(ierr, 'free')
  call true(.not. c_associated(node%handle()), 'no handle')
  call mpi_finalize(mpierr)
  call finish()

contains

  subroutine work(worker)
    type(quo_worker_t), intent(in) :: worker
    call true(worker%threads > 0, 'threads to run')
    calls = calls + 1
  end subroutine work

  subroutine work_on(worker, data)
    type(quo_worker_t), intent(in) :: worker
    class(*), intent(inout) :: data
    call true(worker%nqids > 0, 'ranks to serve')
    select type (data)
    type is (integer(c_int))
      data = data + 10
    end select
  end subroutine work_on
end program objects
