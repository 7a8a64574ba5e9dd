! Messages and a reduction through the module mpi_f08.
program messages
  use mpi_f08
  implicit none
  integer :: rank, ranks, peer, round
  type(MPI_Status) :: status
  double precision :: sent, got, total
  double precision, allocatable :: field(:)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  peer = mod(rank + 1, ranks)
  allocate (field(2500000))
  field = 1
  do round = 1, 1000
    sent = rank
    call MPI_Sendrecv(sent, 1, MPI_DOUBLE_PRECISION, peer, 1, got, 1, MPI_DOUBLE_PRECISION, &
                      MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, status)
  end do
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Allreduce(field(1), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  if (nint(total) /= ranks) stop 1
  deallocate (field)
  call MPI_Finalize()
  if (rank == 0) print '(a)', 'done'
end program
