! Memory that a program takes and gives back within calls of MPI, through mpif.h: callbacks_mpif 1|2. One of the
! two has 40 MiB, the other 20: what MPI calls to reduce, and what it calls to delete an attribute.
      program callbacks
      implicit none
      include 'mpif.h'
      integer rank, reducer, key, which, error
      integer(kind=MPI_ADDRESS_KIND) nothing
      double precision mine, total
      character(len=8) argument
      external reduce, delete_attribute
      common /sizes/ which
      call get_command_argument(1, argument)
      read (argument, *) which
      call MPI_INIT(error)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
      nothing = 0
      call MPI_OP_CREATE(reduce, .true., reducer, error)
      call MPI_COMM_CREATE_KEYVAL(MPI_COMM_NULL_COPY_FN,
     &    delete_attribute, key, nothing, error)
      call MPI_COMM_SET_ATTR(MPI_COMM_SELF, key, nothing, error)
      call MPI_PCONTROL(3)
      mine = 1
      call MPI_ALLREDUCE(mine, total, 1, MPI_DOUBLE_PRECISION, reducer,
     &    MPI_COMM_WORLD, error)
      call MPI_COMM_DELETE_ATTR(MPI_COMM_SELF, key, error)
      call MPI_PCONTROL(2)
      call MPI_PCONTROL(2)
      call MPI_PCONTROL(3)
      if (nint(total) .ne. 2) stop 1
      call MPI_OP_FREE(reducer, error)
      call MPI_FINALIZE(error)
      if (rank .eq. 0) print '(a)', 'done'
      end program

      subroutine hold(mebibytes)
      implicit none
      integer mebibytes
      integer(kind=1), allocatable, volatile :: field(:)
      allocate (field(mebibytes * 1048576))
      field = 1
      deallocate (field)
      end subroutine

      subroutine reduce(from, into, length, kind_of)
      implicit none
      integer length, kind_of, which
      double precision from(length), into(length)
      common /sizes/ which
      into = into + from
      if (which .eq. 1) call hold(40)
      if (which .ne. 1) call hold(20)
      end subroutine

      subroutine delete_attribute(comm, key, value, state, error)
      implicit none
      include 'mpif.h'
      integer comm, key, error, which
      integer(kind=MPI_ADDRESS_KIND) value, state
      common /sizes/ which
      if (which .eq. 2) call hold(40)
      if (which .ne. 2) call hold(20)
      error = MPI_SUCCESS
      end subroutine
