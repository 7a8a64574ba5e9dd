! Memory of a Fortran program of quo in its phases: 24 MiB while a binding is pushed, and 40 MiB
! outside.
program quo_phases
  use, intrinsic :: iso_c_binding
  use mpi
  use quo
  implicit none
  real(c_double), allocatable :: field(:)
  integer :: mpierr, rank
  integer(c_int) :: ierr
  type(c_ptr) :: q

  call mpi_init(mpierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  if (ierr /= QUO_SUCCESS) error stop 'quo_create'
  call fill(5 * 2**20)
  call quo_bind_push(q, QUO_BIND_PUSH_OBJ, QUO_OBJ_MACHINE, -1, ierr)
  if (ierr /= QUO_SUCCESS) error stop 'quo_bind_push'
  call fill(3 * 2**20)
  call quo_bind_pop(q, ierr)
  if (ierr /= QUO_SUCCESS) error stop 'quo_bind_pop'
  call quo_free(q, ierr)
  call mpi_finalize(mpierr)
  if (rank == 0) print '(a)', 'done'

contains

  subroutine fill(words)
    integer, intent(in) :: words
    allocate (field(words))
    field = 1
    if (sum(field) < words) error stop 'fill'
    deallocate (field)
  end subroutine fill
end program quo_phases
