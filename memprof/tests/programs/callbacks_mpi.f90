! As callbacks_mpif.f, through the module mpi.
module held
  use mpi
  implicit none
  integer :: which
contains
  subroutine hold(mebibytes)
    integer, intent(in) :: mebibytes
    integer(kind=1), allocatable, volatile :: field(:)
    allocate (field(mebibytes * 1048576))
    field = 1
    deallocate (field)
  end subroutine

  subroutine reduce(from, into, length, kind_of)
    integer :: length, kind_of
    double precision :: from(length), into(length)
    into = into + from
    call hold(merge(40, 20, which == 1))
  end subroutine

  subroutine delete_attribute(comm, key, value, state, error)
    integer :: comm, key, error
    integer(kind=MPI_ADDRESS_KIND) :: value, state
    call hold(merge(40, 20, which == 2))
    error = MPI_SUCCESS
  end subroutine
end module

program callbacks
  use held
  implicit none
  integer :: rank, reducer, key, error
  integer(kind=MPI_ADDRESS_KIND) :: nothing = 0
  double precision :: mine = 1, total
  character(len=8) :: argument
  call get_command_argument(1, argument)
  read (argument, *) which
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Op_create(reduce, .true., reducer, error)
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_attribute, key, nothing, error)
  call MPI_Comm_set_attr(MPI_COMM_SELF, key, nothing, error)
  call MPI_Pcontrol(3)
  call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, reducer, MPI_COMM_WORLD, error)
  call MPI_Comm_delete_attr(MPI_COMM_SELF, key, error)
  call MPI_Pcontrol(2)
  call MPI_Pcontrol(2)
  call MPI_Pcontrol(3)
  if (nint(total) /= 2) stop 1
  call MPI_Op_free(reducer, error)
  call MPI_Finalize(error)
  if (rank == 0) print '(a)', 'done'
end program
