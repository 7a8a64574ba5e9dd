! As callbacks_mpif.f, through the module mpi_f08.
module held
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
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
    type(c_ptr), value :: from, into
    integer :: length
    type(MPI_Datatype) :: kind_of
    double precision, pointer :: given(:), sum(:)
    call c_f_pointer(from, given, [length])
    call c_f_pointer(into, sum, [length])
    sum = sum + given
    call hold(merge(40, 20, which == 1))
  end subroutine

  subroutine delete_attribute(comm, key, value, state, error)
    type(MPI_Comm) :: comm
    integer :: key, error
    integer(kind=MPI_ADDRESS_KIND) :: value, state
    call hold(merge(40, 20, which == 2))
    error = MPI_SUCCESS
  end subroutine
end module

program callbacks
  use held
  implicit none
  integer :: rank, key
  type(MPI_Op) :: reducer
  integer(kind=MPI_ADDRESS_KIND) :: nothing = 0
  double precision :: mine = 1, total
  character(len=8) :: argument
  call get_command_argument(1, argument)
  read (argument, *) which
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Op_create(reduce, .true., reducer)
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_attribute, key, nothing)
  call MPI_Comm_set_attr(MPI_COMM_SELF, key, nothing)
  call MPI_Pcontrol(3)
  call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, reducer, MPI_COMM_WORLD)
  call MPI_Comm_delete_attr(MPI_COMM_SELF, key)
  call MPI_Pcontrol(2)
  call MPI_Pcontrol(2)
  call MPI_Pcontrol(3)
  if (nint(total) /= 2) stop 1
  call MPI_Op_free(reducer)
  call MPI_Finalize()
  if (rank == 0) print '(a)', 'done'
end program
