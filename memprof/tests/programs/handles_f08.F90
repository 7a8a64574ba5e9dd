! Makes MPI objects through the module mpi_f08, and frees some of them. Each rank prints the objects
! that each line of this file makes: `made KIND LINE MADE FREED`.
program handles
  use mpi_f08
  implicit none
  type(MPI_Datatype) :: left, pair, copy
  type(MPI_Comm) :: comm
  type(MPI_Group) :: all_ranks, part
  type(MPI_Info) :: info
  type(MPI_Request) :: request
  integer :: number, rank
  integer, asynchronous :: value
  integer(kind=MPI_ADDRESS_KIND) :: extent

  call MPI_Init()
  do number = 1, 3000
    call MPI_Type_vector(4, 1, 8 + number, MPI_DOUBLE_PRECISION, left)
    call MPI_Type_commit(left)
  end do
  call made('datatype', __LINE__ - 3, 3000, 0)
  extent = 64
  do number = 1, 30
    call MPI_Type_contiguous(2, MPI_INTEGER, pair)
    call MPI_Type_create_resized(pair, 0_MPI_ADDRESS_KIND, extent, copy)
    call MPI_Type_free(pair)
    if (mod(number, 3) == 0) call MPI_Type_free(copy)
  end do
  call made('datatype', __LINE__ - 5, 30, 30)
  call made('datatype', __LINE__ - 5, 30, 10)
  do number = 1, 5
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    if (number > 2) call MPI_Comm_free(comm)
    if (number > 3) call MPI_Info_create(info)
  end do
  call made('communicator', __LINE__ - 4, 5, 3)
  call made('info', __LINE__ - 3, 2, 0)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  ! Not the group of the world, which may be predefined.
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, comm)
  call made('communicator', __LINE__ - 1, 1, 0)
  if (rank >= 0) call MPI_Comm_group(comm, all_ranks)
  call made('group', __LINE__ - 1, 1, 1)
  call MPI_Group_incl(all_ranks, 1, [0], part)
  call made('group', __LINE__ - 1, 1, 0)
  call MPI_Group_free(all_ranks)
  call MPI_Send_init(value, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, request)
  call made('request', __LINE__ - 1, 1, 1)
  call MPI_Request_free(request)
  call MPI_Finalize()
contains
  subroutine made(kind, line, number, freed)
    character(len=*), intent(in) :: kind
    integer, intent(in) :: line, number, freed
    write (*, '(a, 1x, a, 3(1x, i0))') 'made', kind, line, number, freed
  end subroutine
end program
