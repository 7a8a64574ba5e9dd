! Barriers, the choice of workers, communicators by object, members that leave and rejoin.
program together
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr, rank, total, i, comm, size_of, chosen
  integer(c_int) :: ierr, nqids, qid, packages, expected
  integer(c_int), allocatable :: qids(:)
  logical :: selected, again
  type(c_ptr) :: q, bad

  call mpi_init(mpierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, mpierr)
  call mpi_comm_size(MPI_COMM_WORLD, total, mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call quo_nqids(q, nqids, ierr)
  call quo_id(q, qid, ierr)
  call quo_nsockets(q, packages, ierr)

  do i = 1, 20
    call quo_barrier(q, ierr)
    call done(ierr, 'quo_barrier')
  end do
  call quo_barrier_timed(q, 30.0_c_double, ierr)
  call done(ierr, 'quo_barrier_timed')
  call quo_barrier_timed(q, -1.0_c_double, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a negative time')
  call quo_barrier_timed(q, ieee_value(1.0_c_double, ieee_quiet_nan), ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'not a number')
  call mpi_barrier(MPI_COMM_WORLD, mpierr)
  if (nqids > 1) then
    ! The last rank is late: the others time out, and the next barrier works.
    if (qid < nqids - 1) call quo_barrier_timed(q, 0.05_c_double, ierr)
    call mpi_barrier(MPI_COMM_WORLD, mpierr)
    if (qid == nqids - 1) call quo_barrier(q, ierr)
    call code(ierr, QUO_ERR_TIMEOUT, 'a barrier that lasts too long')
    call quo_barrier(q, ierr)
    call done(ierr, 'the next barrier')
  end if

  call quo_auto_distrib(q, QUO_OBJ_PACKAGE, 1, selected, ierr)
  call done(ierr, 'quo_auto_distrib')
  chosen = sum_of(selected)
  call true(chosen == min(packages, nqids), 'one for each package')
  call quo_auto_distrib(q, QUO_OBJ_PACKAGE, 1, again, ierr)
  call true(selected .eqv. again, 'the same choice')
  call quo_auto_distrib_with_policy(q, QUO_OBJ_PACKAGE, 1, QUO_DISTRIB_SPREAD, again, ierr)
  call done(ierr, 'quo_auto_distrib_with_policy')
  call true(selected .eqv. again, 'the same rule')
  call quo_auto_distrib_with_policy(q, QUO_OBJ_MACHINE, int(total, c_int), QUO_DISTRIB_LIBQUO_COMPAT, &
    again, ierr)
  call done(ierr, 'the rule of libquo')
  call quo_auto_distrib(q, QUO_OBJ_PACKAGE, 0, selected, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'nobody per object')
  call true(.not. selected, 'not chosen after a failure')
  call quo_auto_distrib(q, 99, 1, selected, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown type')
  call quo_auto_distrib_with_policy(q, QUO_OBJ_PACKAGE, 1, 5, selected, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown rule')
  if (nqids > 1) then
    call quo_auto_distrib(q, QUO_OBJ_PACKAGE, 1 + mod(qid, 2), selected, ierr)
    call code(ierr, QUO_ERR_DISAGREE, 'different numbers')
  end if

  call quo_get_mpi_comm_by_type(q, QUO_OBJ_MACHINE, comm, ierr)
  call done(ierr, 'quo_get_mpi_comm_by_type')
  call mpi_comm_size(comm, size_of, mpierr)
  call equal(int(size_of, c_int), nqids, 'the ranks of the node')
  call mpi_comm_free(comm, mpierr)
  call quo_get_mpi_comm_by_type(q, 99, comm, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown type')

  ! Members that leave and rejoin.
  call quo_dead_qids(q, qids, ierr)
  call done(ierr, 'quo_dead_qids')
  call true(allocated(qids), 'a list of nobody')
  call equal(size(qids, kind=c_int), 0, 'nobody is dead')
  call quo_expel(q, qid, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'alive')
  call quo_expel(q, -1, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'nobody')
  call quo_attach(q, ierr)
  call code(ierr, QUO_SUCCESS_ALREADY_DONE, 'attached')
  call mpi_barrier(MPI_COMM_WORLD, mpierr)
  if (qid == nqids - 1) then
    call quo_detach(q, ierr)
    call done(ierr, 'quo_detach')
    call quo_detach(q, ierr)
    call code(ierr, QUO_SUCCESS_ALREADY_DONE, 'detached')
    call quo_barrier(q, ierr)
    call code(ierr, QUO_ERR_DETACHED, 'a barrier of the others')
  else
    call quo_barrier(q, ierr)
    call done(ierr, 'a barrier without the last')
  end if
  call mpi_barrier(MPI_COMM_WORLD, mpierr)
  if (qid == nqids - 1) call quo_attach(q, ierr)
  call done(ierr, 'quo_attach')
  call mpi_barrier(MPI_COMM_WORLD, mpierr)
  call quo_barrier(q, ierr)
  call done(ierr, 'all are back')

  do i = 1, 3
    call bad_handles(i, bad, expected)
    call quo_barrier(bad, ierr)
    call code(ierr, expected, 'quo_barrier')
    call quo_barrier_timed(bad, 1.0_c_double, ierr)
    call code(ierr, expected, 'quo_barrier_timed')
    call quo_auto_distrib(bad, QUO_OBJ_PACKAGE, 1, selected, ierr)
    call code(ierr, expected, 'quo_auto_distrib')
    call quo_auto_distrib_with_policy(bad, QUO_OBJ_PACKAGE, 1, QUO_DISTRIB_SPREAD, selected, ierr)
    call code(ierr, expected, 'quo_auto_distrib_with_policy')
    call quo_get_mpi_comm_by_type(bad, QUO_OBJ_MACHINE, comm, ierr)
    call code(ierr, expected, 'quo_get_mpi_comm_by_type')
    call quo_detach(bad, ierr)
    call code(ierr, expected, 'quo_detach')
    call quo_attach(bad, ierr)
    call code(ierr, expected, 'quo_attach')
    call quo_dead_qids(bad, qids, ierr)
    call code(ierr, expected, 'quo_dead_qids')
    call quo_expel(bad, 0, ierr)
    call code(ierr, expected, 'quo_expel')
  end do
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_finalize(mpierr)
  call finish()

contains

  function sum_of(mine) result(all_of_us)
    logical, intent(in) :: mine
    integer :: all_of_us, one
    one = merge(1, 0, mine)
    call mpi_allreduce(one, all_of_us, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, mpierr)
  end function sum_of
end program together
