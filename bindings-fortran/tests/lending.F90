! CPUs of waiting ranks, lent to threaded ones: as procedures and as methods.
program lending
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr, rank, size
  integer(c_int) :: ierr, cpus, threads, pus, lenders
  logical :: wanted
  type(c_ptr) :: q
  type(quo_context) :: node
  character(len=:), allocatable :: before, after

  call mpi_init(mpierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, mpierr)
  call mpi_comm_size(MPI_COMM_WORLD, size, mpierr)
  call quo_create_with_options(q, MPI_COMM_WORLD, quo_create_options_t(flags=QUO_CREATE_LEND), ierr)
  call done(ierr, 'quo_create_with_options')
  call quo_npus(q, pus, ierr)
  call quo_stringify_cbind(q, before, ierr)

  if (rank > 0) then
    call quo_lend(q, ierr)
    call done(ierr, 'quo_lend')
    call quo_lend(q, ierr)
    call equal(ierr, QUO_SUCCESS_ALREADY_DONE, 'quo_lend twice')
  end if
  call quo_barrier(q, ierr)
  if (rank == 0) then
    call quo_lenders(q, lenders, ierr)
    call done(ierr, 'quo_lenders')
    call true(lenders == size - 1, 'lenders without the caller')
    call quo_borrow(q, cpus, threads, ierr)
    call done(ierr, 'quo_borrow')
    call true(cpus >= 0 .and. cpus < pus, 'borrowed CPUs')
    call true(threads > cpus, 'threads')
  end if
  call quo_barrier(q, ierr)
  if (rank > 0) then
    call quo_reclaim(q, ierr)
    call done(ierr, 'quo_reclaim')
  end if
  call quo_barrier(q, ierr)
  if (rank == 0) then
    call quo_borrow_wanted(q, wanted, ierr)
    call done(ierr, 'quo_borrow_wanted')
    call true(wanted .eqv. cpus > 0, 'wanted')
    call quo_give_back(q, ierr)
    call equal(ierr, merge(QUO_SUCCESS, QUO_SUCCESS_ALREADY_DONE, cpus > 0), 'quo_give_back')
  end if
  call quo_stringify_cbind(q, after, ierr)
  call true(before == after, 'the binding of before')

  node = quo_context(q)
  call node%borrow(cpus, threads, ierr)
  call done(ierr, 'borrow')
  call node%borrow_wanted(wanted, ierr)
  call done(ierr, 'borrow_wanted')
  call node%give_back(ierr)
  call node%lenders(lenders, ierr)
  call done(ierr, 'lenders')
  call true(lenders >= 0 .and. lenders < size, 'lenders of the method')
  call node%lend(ierr)
  call done(ierr, 'lend')
  call node%reclaim(ierr)
  call done(ierr, 'reclaim')
  call node%reclaim(ierr)
  call equal(ierr, QUO_SUCCESS_ALREADY_DONE, 'reclaim twice')
  call quo_barrier(q, ierr)
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_finalize(mpierr)
  call finish()
end program lending
