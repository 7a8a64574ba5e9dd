! Creating and freeing contexts, over integers of `use mpi`.
program contexts
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr, half, rank, ranks
  integer(c_int) :: ierr, n, m, expected
  integer :: i
  type(c_ptr) :: q, other, bad
  type(quo_create_options_t) :: options

  call mpi_init(mpierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, mpierr)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, mpierr)

  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call true(c_associated(q), 'a handle')
  call mpi_comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, mpierr)
  call quo_create(comm=half, q=other, ierr=ierr)
  call done(ierr, 'quo_create with keywords')
  call quo_nqids(q, n, ierr)
  call equal(n, int(ranks, c_int), 'all ranks')
  call quo_nqids(other, n, ierr)
  call equal(n, int((ranks + 1 - mod(rank, 2)) / 2, c_int), 'half of the ranks')
  call quo_free(other, ierr)
  call done(ierr, 'quo_free')
  call quo_nqids(other, n, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'a freed context')
  call quo_free(other, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'freed twice')
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_comm_free(half, mpierr)

  call quo_create(q, MPI_COMM_NULL, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a null communicator')
  call true(.not. c_associated(q), 'no handle')
  do i = 2, 3
    call bad_handles(i, bad, expected)
    call quo_free(bad, ierr)
    call code(ierr, expected, 'not a context')
  end do

  call quo_create_with_flags(q, MPI_COMM_WORLD, QUO_CREATE_NO_MT, ierr)
  call done(ierr, 'quo_create_with_flags')
  call quo_npus(q, n, ierr)
  call quo_ncores(q, m, ierr)
  call equal(n, m, 'one thread of each core')
  call quo_free(q, ierr)
  call quo_create_with_flags(q, MPI_COMM_WORLD, 128, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown flag')
  call says('128')
  if (ranks > 1) then
    call quo_create_with_flags(q, MPI_COMM_WORLD, int(mod(rank, 2), c_int), ierr)
    call code(ierr, QUO_ERR_DISAGREE, 'flags that differ')
  end if

  call quo_create_with_options(q, MPI_COMM_WORLD, quo_create_options_t(), ierr)
  call done(ierr, 'quo_create_with_options')
  call quo_barrier(q, ierr)
  call done(ierr, 'quo_barrier')
  call quo_barrier_timed(q, 20.0_c_double, ierr)
  call done(ierr, 'quo_barrier_timed')
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  options%flags = QUO_CREATE_NO_MT
  call quo_create_with_options(q, MPI_COMM_WORLD, options, ierr)
  call done(ierr, 'no multi-threading')
  call quo_npus(q, n, ierr)
  call equal(n, m, 'one thread of each core')
  call quo_free(q, ierr)
  options%flags = 128
  call quo_create_with_options(q, MPI_COMM_WORLD, options, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown flag among the options')
  call says('128')
  call true(.not. c_associated(q), 'no handle')
  call mpi_finalize(mpierr)
  call finish()
end program contexts
