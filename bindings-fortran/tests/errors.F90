! Version and error texts, and calls before and after MPI.
program errors
  use check
  use mpi
  use quo
  implicit none
  integer(c_int) :: version, subversion, ierr, i
  integer :: mpierr
  type(c_ptr) :: q, freed
  character(len=:), allocatable :: text

  call quo_version(version, subversion, ierr)
  call done(ierr, 'quo_version')
  call equal(version, 8, 'the binary interface')
  call true(subversion >= 0, 'the revision')
  call same(quo_last_error(), '', 'no error yet')
  do i = QUO_SUCCESS, QUO_ERR_NOT_BEGUN
    call true(len(quo_strerror(i)) > 3, 'a text for each code')
    if (i > 0) call true(quo_strerror(i) /= quo_strerror(i - 1), 'a text of its own')
  end do
  do i = QUO_SUCCESS, QUO_ERR_NOT_BEGUN
    call true(quo_strerror(4711) /= quo_strerror(i), 'another text for a number that is no code')
  end do
  call quo_ptr_free(c_null_ptr)

  call quo_create(q, MPI_COMM_WORLD, ierr)
  call code(ierr, QUO_ERR_CALL_BEFORE_INIT, 'quo_create before MPI_Init')
  call true(.not. c_associated(q), 'no handle')
  call quo_create_with_flags(q, MPI_COMM_WORLD, QUO_CREATE_NO_MT, ierr)
  call code(ierr, QUO_ERR_CALL_BEFORE_INIT, 'quo_create_with_flags before MPI_Init')
  call quo_create_with_options(q, MPI_COMM_WORLD, quo_create_options_t(), ierr)
  call code(ierr, QUO_ERR_CALL_BEFORE_INIT, 'quo_create_with_options before MPI_Init')
  call says('QUO_create_with_options')
  text = quo_last_error()

  call mpi_init(mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call same(quo_last_error(), text, 'a success leaves the text')
  call quo_nobjs_in_type_by_type(q, QUO_OBJ_PACKAGE, 4321, QUO_OBJ_PU, i, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a package that is not there')
  call says('QUO_nobjs_in_type_by_type')
  call says('package')
  call says('4321')
  freed = q
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call quo_free(freed, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'freed twice')
  call quo_free(c_null_ptr, ierr)
  call done(ierr, 'nothing to free')
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call mpi_barrier(MPI_COMM_WORLD, mpierr)
  call mpi_finalize(mpierr)

  call quo_ncores(q, i, ierr)
  call code(ierr, QUO_ERR_CALL_AFTER_FINALIZE, 'quo_ncores after MPI_Finalize')
  call equal(i, 0, 'a count after a failure')
  call quo_free(q, ierr)
  call code(ierr, QUO_ERR_CALL_AFTER_FINALIZE, 'quo_free after MPI_Finalize')
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call code(ierr, QUO_ERR_CALL_AFTER_FINALIZE, 'quo_create after MPI_Finalize')
  call finish()
end program errors
