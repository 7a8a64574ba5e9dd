! Phases, with work as procedures.
module work_on_numbers
  use check
  use quo
  implicit none

  type :: field
    real(c_double), allocatable :: values(:)
    integer(c_int) :: threads = 0
    integer(c_int) :: runs = 0
  end type field

  type, extends(field) :: named_field
    character(len=8) :: name = 'field'
  end type named_field

  integer(c_int) :: calls = 0

contains

  subroutine count_calls(worker)
    type(quo_worker_t), intent(in) :: worker
    calls = calls + 1
    call true(worker%threads > 0, 'threads to run')
    call true(worker%nqids > 0 .and. worker%first_qid >= 0, 'ranks to serve')
    call true(len(worker%cpuset) > 0, 'CPUs to run on')
  end subroutine count_calls

  subroutine double_it(worker, data)
    type(quo_worker_t), intent(in) :: worker
    class(*), intent(inout) :: data
    select type (data)
    class is (field)
      data%values = 2 * data%values
      data%threads = worker%threads
      data%runs = data%runs + 1
    type is (integer(c_int))
      data = data + worker%threads
    class default
      call true(.false., 'the type of the data')
    end select
  end subroutine double_it
end module work_on_numbers

program phase_work
  use check
  use mpi
  use quo
  use work_on_numbers
  implicit none
  integer :: mpierr, i, workers, served
  integer(c_int) :: ierr, nqids, qid, packages, threads, first, count, expected, seen, runs
  logical :: selected, chosen
  type(c_ptr) :: q, phase, other, bad
  type(quo_phase_spec_t) :: spec
  type(quo_phase_metrics_t) :: metrics
  type(named_field) :: data
  character(len=:), allocatable :: before, inside

  call mpi_init(mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call quo_nqids(q, nqids, ierr)
  call quo_id(q, qid, ierr)
  call quo_nsockets(q, packages, ierr)
  call quo_stringify_cbind(q, before, ierr)

  call quo_phase_create(q, phase, ierr)
  call done(ierr, 'quo_phase_create')
  call quo_phase_metrics(phase, metrics, ierr)
  call done(ierr, 'quo_phase_metrics')
  call true(metrics%threads == 0 .and. .not. metrics%selected, 'nothing before the first run')
  call quo_phase_begin(phase, selected, threads, ierr)
  call done(ierr, 'quo_phase_begin')
  call true(selected .eqv. threads > 0, 'workers have threads')
  call quo_phase_begin(phase, chosen, threads, ierr)
  call code(ierr, QUO_ERR_BUSY, 'begun twice')
  call quo_phase_free(phase, ierr)
  call code(ierr, QUO_ERR_BUSY, 'freed while it runs')
  call quo_phase_qids(phase, first, count, ierr)
  call done(ierr, 'quo_phase_qids')
  call true(selected .eqv. count > 0, 'workers serve')
  if (selected) then
    call quo_stringify_cbind(q, inside, ierr)
    call true(len(inside) > 0, 'bound to a share')
  end if
  call quo_phase_pin_thread(phase, 0, 1, ierr)
  call code(ierr, merge(QUO_SUCCESS, QUO_ERR_INVLD_ARG, selected), 'quo_phase_pin_thread')
  call quo_phase_pin_thread(phase, 1, 1, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a thread too many')
  call quo_phase_end(phase, ierr)
  call done(ierr, 'quo_phase_end')
  call quo_phase_metrics(phase, metrics, ierr)
  call true(metrics%selected .eqv. selected, 'selected')
  call true(metrics%run_seconds >= 0 .and. metrics%quiesced_seconds >= 0, 'seconds')
  call true(metrics%remap_seconds >= 0, 'seconds')
  call quo_stringify_cbind(q, inside, ierr)
  call same(inside, before, 'the binding is back')
  workers = merge(1, 0, selected)
  call mpi_allreduce(MPI_IN_PLACE, workers, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, mpierr)
  call true(workers == min(packages, nqids), 'one per package')
  served = count
  call mpi_allreduce(MPI_IN_PLACE, served, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, mpierr)
  call true(served == nqids, 'every rank is served once')
  call quo_phase_end(phase, ierr)
  call code(ierr, QUO_ERR_NOT_BEGUN, 'no run has begun')

  ! Work without data.
  calls = 0
  do i = 1, 5
    call quo_phase_run(phase, count_calls, ierr)
    call done(ierr, 'quo_phase_run')
  end do
  call equal(calls, merge(5, 0, selected), 'calls of the work')
  ! An internal procedure sees the variables around it.
  seen = 0
  call quo_phase_run(phase, look_around, ierr)
  call done(ierr, 'quo_phase_run')
  call true(selected .eqv. seen > 0, 'variables of the host')

  ! Work on data, through a type and its extension.
  data%values = [1.0_c_double, 2.5_c_double]
  call quo_phase_run(phase, double_it, data, ierr)
  call done(ierr, 'quo_phase_run on data')
  runs = merge(1, 0, selected)
  call equal(data%runs, runs, 'runs of the work')
  call true(abs(sum(data%values) - merge(7.0, 3.5, selected)) < 1e-12, 'values')
  call quo_phase_run(phase, double_it, threads, ierr)
  call done(ierr, 'quo_phase_run on a number')

  ! The failure of one rank is the failure of all.
  call quo_phase_fail(phase, 'nothing has begun', ierr)
  call code(ierr, QUO_ERR_NOT_BEGUN, 'no run has begun')
  call quo_phase_run(phase, diverge, ierr)
  call code(ierr, QUO_ERR_WORK_FAILED, 'the work of a rank failed')
  inside = quo_last_error()
  call true(index(inside, 'it diverged') > 0, 'the reason reaches all ranks')
  call quo_phase_begin(phase, chosen, threads, ierr)
  if (qid == 0) call quo_phase_fail(phase, 'out of memory', ierr)
  call quo_phase_end(phase, ierr)
  call code(ierr, QUO_ERR_WORK_FAILED, 'a rank failed')
  call quo_phase_run(phase, count_calls, ierr)
  call done(ierr, 'the next run is a good one')

  ! Another specification.
  spec%type = QUO_OBJ_CORE
  spec%max_per_object = 2
  spec%threads = QUO_THREADS_OPENMP
  spec%pinning = QUO_PINNING_SPREAD
  spec%name = 'solve'
  call quo_phase_create(q, spec, other, ierr)
  call done(ierr, 'quo_phase_create with a specification')
  call quo_phase_run(other, count_calls, ierr)
  call done(ierr, 'quo_phase_run')
  call quo_explain(q, .false., inside, ierr)
  call done(ierr, 'quo_explain')
  call quo_free(q, ierr)
  call code(ierr, QUO_ERR_BUSY, 'phases are left')
  call quo_phase_free(other, ierr)
  call done(ierr, 'quo_phase_free')
  call quo_phase_run(other, count_calls, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'a freed phase')
  call quo_phase_free(other, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'freed twice')
  call quo_phase_free(c_null_ptr, ierr)
  call done(ierr, 'nothing to free')

  ! Bad input.
  call quo_phase_create(q, quo_phase_spec_t(max_per_object=0), other, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'nobody works')
  call true(.not. c_associated(other), 'no handle')
  call quo_phase_create(q, quo_phase_spec_t(type=88), other, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown type')
  call quo_phase_create(q, quo_phase_spec_t(threads=7), other, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown treatment of threads')
  if (nqids > 1) then
    call quo_phase_create(q, quo_phase_spec_t(max_per_object=1 + mod(qid, 2)), other, ierr)
    call code(ierr, QUO_ERR_DISAGREE, 'different wishes')
  end if
  do i = 1, 3
    call bad_handles(i, bad, expected)
    call quo_phase_create(bad, other, ierr)
    call code(ierr, expected, 'quo_phase_create')
    call quo_phase_begin(bad, chosen, threads, ierr)
    call code(ierr, expected, 'quo_phase_begin')
    call true(.not. chosen .and. threads == 0, 'nothing after a failure')
    call quo_phase_qids(bad, first, count, ierr)
    call code(ierr, expected, 'quo_phase_qids')
    call quo_phase_pin_thread(bad, 0, 1, ierr)
    call code(ierr, expected, 'quo_phase_pin_thread')
    call quo_phase_end(bad, ierr)
    call code(ierr, expected, 'quo_phase_end')
    call quo_phase_fail(bad, 'it', ierr)
    call code(ierr, expected, 'quo_phase_fail')
    call quo_phase_run(bad, count_calls, ierr)
    call code(ierr, expected, 'quo_phase_run')
    call quo_phase_run(bad, double_it, data, ierr)
    call code(ierr, expected, 'quo_phase_run on data')
    call quo_phase_metrics(bad, metrics, ierr)
    call code(ierr, expected, 'quo_phase_metrics')
    call quo_phase_free(bad, ierr)
    if (i > 1) call code(ierr, expected, 'quo_phase_free')
  end do
  call quo_phase_free(phase, ierr)
  call done(ierr, 'quo_phase_free')
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_finalize(mpierr)
  call finish()

contains

  subroutine diverge(worker)
    type(quo_worker_t), intent(in) :: worker
    integer(c_int) :: told
    call quo_phase_fail(phase, 'it diverged on '//worker%cpuset, told)
    call done(told, 'quo_phase_fail')
  end subroutine diverge

  subroutine look_around(worker)
    type(quo_worker_t), intent(in) :: worker
    seen = seen + worker%threads
  end subroutine look_around
end program phase_work
