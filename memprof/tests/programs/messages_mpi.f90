! Messages and a reduction through the module mpi.
program messages
  use mpi
  implicit none
  integer :: rank, ranks, peer, round, error, status(MPI_STATUS_SIZE)
  double precision :: sent, got, total
  double precision, allocatable :: field(:)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  peer = mod(rank + 1, ranks)
  allocate (field(2500000))
  field = 1
  do round = 1, 1000
    sent = rank
    call MPI_Sendrecv(sent, 1, MPI_DOUBLE_PRECISION, peer, 1, got, 1, MPI_DOUBLE_PRECISION, &
                      MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, status, error)
  end do
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Allreduce(field(1), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  if (nint(total) /= ranks) stop 1
  deallocate (field)
  call MPI_Finalize(error)
  if (rank == 0) print '(a)', 'done'
end program
