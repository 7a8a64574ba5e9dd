! A threaded library in a program with one rank per core: at most one rank per package is selected and widens
! to its whole package, the others sleep until it is done.
!
!   make widen-f90 && mpirun ./widen-f90
program widen
  use, intrinsic :: iso_c_binding, only: c_int, c_ptr
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi
  use quo
  implicit none
  type(c_ptr) :: context
  integer :: rank, ranks, number, ierr
  integer(c_int) :: packages, cpus, rc
  integer :: threads
  integer, allocatable :: all(:)
  logical :: selected

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call quo_create(context, MPI_COMM_WORLD, rc)
  call check(rc, 'quo_create')
  call quo_nobjs_by_type(context, QUO_OBJ_PACKAGE, packages, rc)
  call check(rc, 'quo_nobjs_by_type')
  call quo_nobjs_in_type_by_type(context, QUO_OBJ_PACKAGE, 0_c_int, QUO_OBJ_PU, cpus, rc)
  call check(rc, 'quo_nobjs_in_type_by_type')
  call quo_auto_distrib(context, QUO_OBJ_PACKAGE, 1_c_int, selected, rc)
  call check(rc, 'quo_auto_distrib')
  threads = 0
  if (selected) then
    call quo_bind_push(context, QUO_BIND_PUSH_OBJ, QUO_OBJ_PACKAGE, -1_c_int, rc)
    call check(rc, 'quo_bind_push')
    threads = int(cpus) ! ... the threaded library runs here ...
    call quo_bind_pop(context, rc)
    call check(rc, 'quo_bind_pop')
  end if
  call quo_barrier(context, rc)
  call check(rc, 'quo_barrier')
  call quo_free(context, rc)
  call check(rc, 'quo_free')

  allocate (all(ranks))
  call MPI_Gather(threads, 1, MPI_INTEGER, all, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) then
    write (*, '(a, i0)') 'packages: ', packages
    do number = 1, ranks
      write (*, '(a, i0, a, i0)') 'rank ', number - 1, ': threads: ', all(number)
    end do
  end if
  call MPI_Finalize(ierr)

contains

  subroutine check(rc, what)
    integer(c_int), intent(in) :: rc
    character(len=*), intent(in) :: what
    integer :: ignored
    if (rc == QUO_SUCCESS) return
    write (error_unit, '(a, a, i0)') what, ': error ', rc
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine check

end program widen
