! A program written for QUO 1.4, without anything newer: the procedures by their old names and with
! their old order of arguments, mpif.h, and a return code that is checked in one place. It must
! compile without changes.
      program quo_1_4
      use quo
      implicit none
      include 'mpif.h'

      type(c_ptr) :: quo_ctx
      integer(c_int) :: version, subversion, ierr
      integer(c_int) :: nnodes, nnumas, nsocks, ncores, npus, nranks
      integer(c_int) :: qid, nobjs, sock, total, mine
      integer(c_int), allocatable, dimension(:) :: sock_qids
      logical :: bound, bound_now, in_sock, selected
      integer :: wrank, wsize, node_comm, node_size, chosen, mpierr, i

      call quo_version(version, subversion, ierr)
      call must(ierr, 'quo_version')

      call mpi_init(mpierr)
      call mpi_comm_rank(MPI_COMM_WORLD, wrank, mpierr)
      call mpi_comm_size(MPI_COMM_WORLD, wsize, mpierr)

      call quo_create(quo_ctx, MPI_COMM_WORLD, ierr)
      call must(ierr, 'quo_create')

      ! The machine.
      call quo_nnodes(quo_ctx, nnodes, ierr)
      call must(ierr, 'quo_nnodes')
      call quo_nnumanodes(quo_ctx, nnumas, ierr)
      call must(ierr, 'quo_nnumanodes')
      call quo_nsockets(quo_ctx, nsocks, ierr)
      call must(ierr, 'quo_nsockets')
      call quo_ncores(quo_ctx, ncores, ierr)
      call must(ierr, 'quo_ncores')
      call quo_npus(quo_ctx, npus, ierr)
      call must(ierr, 'quo_npus')
      call quo_nqids(quo_ctx, nranks, ierr)
      call must(ierr, 'quo_nqids')
      call quo_id(quo_ctx, qid, ierr)
      call must(ierr, 'quo_id')
      if (nnodes /= 1 .or. nranks /= wsize .or. qid /= wrank) stop 2
      if (npus < ncores .or. ncores < nsocks .or. nsocks < 1) stop 3

      call quo_nobjs_by_type(quo_ctx, QUO_OBJ_CORE, nobjs, ierr)
      call must(ierr, 'quo_nobjs_by_type')
      if (nobjs /= ncores) stop 4
      call quo_nobjs_in_type_by_type(quo_ctx, QUO_OBJ_MACHINE, 0, QUO_OBJ_SOCKET, nobjs, ierr)
      call must(ierr, 'quo_nobjs_in_type_by_type')
      if (nobjs /= nsocks) stop 5

      ! Locations of the ranks.
      total = 0
      do sock = 0, nsocks - 1
        call quo_cpuset_in_type(quo_ctx, QUO_OBJ_SOCKET, sock, in_sock, ierr)
        call must(ierr, 'quo_cpuset_in_type')
        call quo_qids_in_type(quo_ctx, QUO_OBJ_SOCKET, sock, sock_qids, ierr)
        call must(ierr, 'quo_qids_in_type')
        mine = 0
        do i = 1, size(sock_qids)
          if (sock_qids(i) == qid) mine = mine + 1
        end do
        if ((mine == 1) .neqv. in_sock) stop 6
        total = total + size(sock_qids)
        deallocate (sock_qids)
      end do
      if (total < nranks) stop 7

      ! A threaded part on a few ranks.
      call quo_auto_distrib(quo_ctx, QUO_OBJ_SOCKET, 1, selected, ierr)
      call must(ierr, 'quo_auto_distrib')
      mine = 0
      if (selected) mine = 1
      call mpi_allreduce(mine, chosen, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, mpierr)
      if (chosen < 1 .or. chosen > nsocks) stop 8
      call quo_bound(quo_ctx, bound, ierr)
      call must(ierr, 'quo_bound')
      if (selected) then
        call quo_bind_push(quo_ctx, QUO_BIND_PUSH_OBJ, QUO_OBJ_SOCKET, -1, ierr)
        call must(ierr, 'quo_bind_push')
        call quo_bind_pop(quo_ctx, ierr)
        call must(ierr, 'quo_bind_pop')
      end if
      call quo_barrier(quo_ctx, ierr)
      call must(ierr, 'quo_barrier')
      call quo_bind_push(quo_ctx, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0, ierr)
      call must(ierr, 'quo_bind_push')
      call quo_bound(quo_ctx, bound_now, ierr)
      call must(ierr, 'quo_bound')
      if (bound_now .neqv. (npus > 1)) stop 9
      call quo_bind_pop(quo_ctx, ierr)
      call must(ierr, 'quo_bind_pop')
      call quo_bound(quo_ctx, bound_now, ierr)
      if (bound_now .neqv. bound) stop 10
      call quo_bind_pop(quo_ctx, ierr)
      if (ierr /= QUO_ERR_POP) stop 11

      ! The ranks of the node.
      call quo_get_mpi_comm_by_type(quo_ctx, QUO_OBJ_MACHINE, node_comm, ierr)
      call must(ierr, 'quo_get_mpi_comm_by_type')
      call mpi_comm_size(node_comm, node_size, mpierr)
      if (node_size /= nranks) stop 12
      call mpi_comm_free(node_comm, mpierr)
      call quo_free(quo_ctx, ierr)
      call must(ierr, 'quo_free')

      call quo_create_with_flags(quo_ctx, MPI_COMM_WORLD, QUO_CREATE_NO_MT, ierr)
      call must(ierr, 'quo_create_with_flags')
      call quo_npus(quo_ctx, npus, ierr)
      if (npus /= ncores) stop 13
      call quo_free(quo_ctx, ierr)
      call must(ierr, 'quo_free')
      call quo_ptr_free(c_null_ptr)
      call mpi_finalize(mpierr)

      contains

      subroutine must(ierr, what)
        integer(c_int), intent(in) :: ierr
        character(len=*), intent(in) :: what
        if (ierr == QUO_SUCCESS) return
        print *, what, ' failed with ', ierr
        stop 1
      end subroutine must
      end program quo_1_4
