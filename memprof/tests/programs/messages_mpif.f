! Messages and a reduction through mpif.h.
      program messages
      implicit none
      include 'mpif.h'
      integer rank, ranks, peer, round, error
      integer status(MPI_STATUS_SIZE)
      double precision sent, got, total
      double precision, allocatable :: field(:)
      call MPI_INIT(error)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, error)
      peer = mod(rank + 1, ranks)
      allocate(field(2500000))
      field = 1.0d0
      do round = 1, 1000
        sent = rank
        call MPI_SENDRECV(sent, 1, MPI_DOUBLE_PRECISION, peer, 1,
     &      got, 1, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 1,
     &      MPI_COMM_WORLD, status, error)
      end do
      call MPI_BARRIER(MPI_COMM_WORLD, error)
      call MPI_ALLREDUCE(field(1), total, 1, MPI_DOUBLE_PRECISION,
     &    MPI_SUM, MPI_COMM_WORLD, error)
      if (nint(total) .ne. ranks) stop 1
      deallocate(field)
      call MPI_FINALIZE(error)
      if (rank .eq. 0) print '(a)', 'done'
      end program
