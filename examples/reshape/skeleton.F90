! The skeleton program of ReSHAPE (Sudarsan 2009, figures 2.3 and 2.4) in Fortran, with a matrix
! that verifies itself: `mpirun -n 4 skeleton 1 4 2` changes to the next size at each resize point.
! Ranks beyond the launched ones are started if the MPI can.
module sizes
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: next = 2

contains

  !> The next size of the command line.
  function next_size(data, size, iteration, seconds) result(wanted) bind(c)
    type(c_ptr), value :: data
    integer(c_int), value :: size
    integer(c_int), value :: iteration
    real(c_double), value :: seconds
    integer(c_int) :: wanted
    wanted = size
    if (c_associated(data) .or. iteration < 0 .or. seconds < 0) return
    if (next > command_argument_count()) return
    wanted = number(next)
    next = next + 1
  end function next_size

  integer function number(position)
    integer, intent(in) :: position
    character(len=20) :: word
    call get_command_argument(position, word)
    read (word, *) number
  end function number
end module sizes

program skeleton
  use, intrinsic :: iso_c_binding
  use mpi
  use quo
  use quo_elastic
  use quo_reshape
  use sizes
  implicit none

  integer, parameter :: iterations = 60, every = 10
  integer(c_size_t), parameter :: rows = 96, columns = 72, block = 4
  type(processortopology) :: topology
  type(quo_world_options_t) :: options
  type(c_funptr) :: scheduler
  real(c_double), allocatable :: matrix(:)
  integer(c_int) :: ierr, seat, loop, decision
  integer :: provided, mpi_code, comm, rank, word
  integer(c_size_t) :: i
  double precision :: begun

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, mpi_code)
  topology%kind = RESHAPE_RECTANGULAR
  topology%ndims = 2
  topology%dims = [1, number(1)]
  scheduler = c_funloc(next_size)
  options%max_ranks = maxval([(number(word), word=1, command_argument_count())])
  options%allow_oversubscribe = .true.
  call reshape_init(topology, ierr, options, decide=scheduler)
  call need(ierr)
  call reshape_getseat(seat, ierr)
  call need(ierr)
  if (seat == RESHAPE_STAYS) then
    allocate (matrix(held()))
    do i = 1, size(matrix)
      matrix(i) = first(i - 1)
    end do
  end if
  call reshape_getitercount(loop, ierr) ! joiners enter here
  call need(ierr)
  do while (loop < iterations .and. seat /= RESHAPE_ENDED)
    call reshape_getschedulerdecision(decision, ierr)
    call need(ierr)
    if (decision == REMAP_EXPAND) call redistribute('grown to')
    begun = MPI_Wtime()
    call check()
    matrix = matrix + 1
    if (mod(loop, every) == every - 1) then
      call reshape_contactscheduler(MPI_Wtime() - begun, loop, decision, ierr)
      call need(ierr)
      if (decision == REMAP_SHRINK) call redistribute('about to leave')
      call reshape_resize(decision, ierr)
      call need(ierr)
      call reshape_getseat(seat, ierr)
      call need(ierr)
      if (seat == RESHAPE_JOINS) then
        call reshape_getitercount(loop, ierr)
        call need(ierr)
        cycle
      end if
    end if
    loop = loop + 1
  end do
  if (seat /= RESHAPE_ENDED) then
    call check()
    if (my_rank() == 0) print '(a,i0,a)', 'right after ', iterations, ' iterations'
  end if
  call reshape_exit(ierr)
  call need(ierr)
  call MPI_Finalize(mpi_code)

contains

  subroutine need(code)
    integer(c_int), intent(in) :: code
    integer :: ignored
    if (code == QUO_SUCCESS) return
    print '(a)', quo_last_error()
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine need

  integer function my_rank()
    call reshape_comm_world(comm, ierr)
    call need(ierr)
    call MPI_Comm_rank(comm, my_rank, mpi_code)
  end function my_rank

  !> Returns the number of rows or columns at a place of the grid.
  integer(c_size_t) function part(whole, place, places)
    integer(c_size_t), intent(in) :: whole
    integer, intent(in) :: place, places
    integer(c_size_t) :: k
    part = 0
    do k = 0, whole - 1
      if (mod(k / block, int(places, c_size_t)) == place) part = part + 1
    end do
  end function part

  integer(c_size_t) function held()
    integer(c_int) :: high, wide
    call reshape_getnewprocessordimensions(high, wide, ierr)
    call need(ierr)
    rank = my_rank()
    held = part(rows, rank / wide, high) * part(columns, mod(rank, wide), wide)
  end function held

  !> Returns the initial value of the element at a place of this rank's part; each iteration adds
  !> one. Parts are stored by columns.
  real(c_double) function first(offset)
    integer(c_size_t), intent(in) :: offset
    integer(c_int) :: high, wide
    integer(c_size_t) :: row, column, tall
    call reshape_getnewprocessordimensions(high, wide, ierr)
    rank = my_rank()
    tall = part(rows, rank / wide, high)
    row = mod(offset, tall)
    column = offset / tall
    row = (row / block * high + rank / wide) * block + mod(row, block)
    column = (column / block * wide + mod(rank, wide)) * block + mod(column, block)
    first = real(row * 1000 + column, c_double)
  end function first

  subroutine check()
    integer(c_size_t) :: k
    integer :: mine, whole, ignored
    mine = size(matrix)
    do k = 1, size(matrix)
      if (abs(matrix(k) - first(k - 1) - loop) > 0) then
        print '(3(a,i0))', 'iteration ', loop, ': element ', k, ' is wrong on rank ', my_rank()
        call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
      end if
    end do
    call reshape_comm_world(comm, ierr)
    call MPI_Allreduce(mine, whole, 1, MPI_INTEGER, MPI_SUM, comm, mpi_code)
    if (whole /= rows * columns) call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine check

  subroutine redistribute(why)
    character(len=*), intent(in) :: why
    integer(c_int) :: high, wide
    call reshape_redistribute2d(matrix, rows, columns, block, ierr)
    call need(ierr)
    call reshape_getnewprocessordimensions(high, wide, ierr)
    call need(ierr)
    if (my_rank() == 0) print '(a,i0,3a,i0,a,i0)', 'iteration ', loop, ': ', why, ' ', high, 'x', wide
  end subroutine redistribute
end program skeleton
