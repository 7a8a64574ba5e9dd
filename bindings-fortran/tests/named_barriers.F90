! Named barriers.
program named_barriers
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr, i, j
  integer(c_int) :: ierr, nqids, qid, expected
  integer(c_int), allocatable :: members(:)
  type(c_ptr) :: q, everyone, some, bad, barrier
  character(len=64) :: name

  call mpi_init(mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call quo_nqids(q, nqids, ierr)
  call quo_id(q, qid, ierr)

  name = 'everyone'
  call quo_named_barrier_create(q, name, everyone, ierr)
  call done(ierr, 'quo_named_barrier_create')
  ! Even qids and odd qids, in a list with gaps.
  allocate (members(nqids))
  members(:) = [(int(j, c_int), j=0, nqids - 1)]
  call quo_named_barrier_create(q, merge('even', 'odd ', mod(qid, 2) == 0), &
    members(1 + mod(qid, 2)::2), some, ierr)
  call done(ierr, 'quo_named_barrier_create among some')
  do i = 1, 20
    call quo_named_barrier_wait(some, ierr)
    call done(ierr, 'quo_named_barrier_wait')
    call quo_named_barrier_wait_timed(everyone, 30.0_c_double, ierr)
    call done(ierr, 'quo_named_barrier_wait_timed')
  end do
  if (nqids > 1) then
    if (qid > 0) call quo_named_barrier_wait_timed(everyone, 0.0_c_double, ierr)
    call mpi_barrier(MPI_COMM_WORLD, mpierr)
    if (qid == 0) call quo_named_barrier_wait(everyone, ierr)
    call code(ierr, QUO_ERR_TIMEOUT, 'a look whether all are there')
  end if
  call quo_named_barrier_wait_timed(some, -2.0_c_double, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a negative time')
  call quo_free(q, ierr)
  call code(ierr, QUO_ERR_BUSY, 'barriers are left')
  call quo_named_barrier_free(some, ierr)
  call done(ierr, 'quo_named_barrier_free')
  call quo_named_barrier_wait(some, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'a freed barrier')
  call quo_named_barrier_free(some, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'freed twice')
  call quo_named_barrier_free(c_null_ptr, ierr)
  call done(ierr, 'nothing to free')
  call quo_named_barrier_free(q, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'another kind of handle')
  call quo_named_barrier_free(everyone, ierr)
  call done(ierr, 'quo_named_barrier_free')

  ! Bad input.
  call quo_named_barrier_create(q, '', barrier, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'no name')
  call true(.not. c_associated(barrier), 'no handle')
  call quo_named_barrier_create(q, repeat('x', 64), barrier, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a long name')
  call quo_named_barrier_create(q, 'x', [qid, qid], barrier, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'given twice')
  call quo_named_barrier_create(q, 'x', [qid, nqids], barrier, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a qid that is not there')
  call quo_named_barrier_create(q, 'x', members(1:0), barrier, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'nobody')
  if (nqids > 1) then
    call quo_named_barrier_create(q, 'x', [mod(qid + 1, nqids)], barrier, ierr)
    call code(ierr, QUO_ERR_INVLD_ARG, 'without the caller')
  end if
  do i = 1, 3
    call bad_handles(i, bad, expected)
    call quo_named_barrier_create(bad, 'x', barrier, ierr)
    call code(ierr, expected, 'quo_named_barrier_create')
    call quo_named_barrier_wait(bad, ierr)
    call code(ierr, expected, 'quo_named_barrier_wait')
    call quo_named_barrier_wait_timed(bad, 1.0_c_double, ierr)
    call code(ierr, expected, 'quo_named_barrier_wait_timed')
    call quo_named_barrier_free(bad, ierr)
    if (i > 1) call code(ierr, expected, 'quo_named_barrier_free')
  end do
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_finalize(mpierr)
  call finish()
end program named_barriers
