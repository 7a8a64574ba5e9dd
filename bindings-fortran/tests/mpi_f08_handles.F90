! Communicators of the module mpi_f08.
program mpi_f08_handles
  use check
  use mpi_f08
  use quo
  implicit none
  integer :: ranks
  integer(c_int) :: ierr, n, m
  type(c_ptr) :: q
  type(MPI_Comm) :: comm
  type(quo_context) :: context

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call quo_nqids(q, n, ierr)
  call equal(n, int(ranks, c_int), 'all ranks')
  call quo_get_mpi_comm_by_type(q, QUO_OBJ_MACHINE, comm, ierr)
  call done(ierr, 'quo_get_mpi_comm_by_type')
  call MPI_Comm_size(comm, ranks)
  call equal(n, int(ranks, c_int), 'the ranks of the node')
  call MPI_Comm_free(comm)
  call quo_get_mpi_comm_by_type(q, -4, comm, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown type')
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')

  call quo_create_with_flags(q, MPI_COMM_WORLD, QUO_CREATE_NO_MT, ierr)
  call done(ierr, 'quo_create_with_flags')
  call quo_npus(q, n, ierr)
  call quo_ncores(q, m, ierr)
  call equal(n, m, 'one thread of each core')
  call quo_free(q, ierr)
  call quo_create_with_options(q, MPI_COMM_WORLD, quo_create_options_t(flags=QUO_CREATE_NO_MT), ierr)
  call done(ierr, 'quo_create_with_options')
  call quo_npus(q, n, ierr)
  call equal(n, m, 'one thread of each core, by an option')
  call quo_free(q, ierr)
  call quo_create(q, MPI_COMM_NULL, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a null communicator')

  ! The integers inside are the same communicators.
  call quo_create(q, MPI_COMM_WORLD%MPI_VAL, ierr)
  call done(ierr, 'quo_create')
  call quo_free(q, ierr)

  call context%create(MPI_COMM_WORLD, ierr)
  call done(ierr, 'create')
  call context%get_mpi_comm_by_type(QUO_OBJ_MACHINE, comm, ierr)
  call done(ierr, 'get_mpi_comm_by_type')
  call MPI_Comm_free(comm)
  call context%free(ierr)
  call done(ierr, 'free')
  call context%create(MPI_COMM_WORLD, quo_create_options_t(flags=QUO_CREATE_NO_MT), ierr)
  call done(ierr, 'create with options')
  call equal(context%npus(), m, 'one thread of each core')
  context = quo_context(MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_context')
  call equal(context%id(), context%id(ierr), 'a qid')
  call context%free(ierr)
  call done(ierr, 'free')
  call MPI_Finalize()
  call finish()
end program mpi_f08_handles
