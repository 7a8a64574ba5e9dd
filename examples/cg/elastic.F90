! Heat in a square of uneven material, in implicit time steps: conjugate gradients on a sparse matrix in
! compressed rows, which are distributed over MPI ranks, which may change.
! usage: ./elastic EDGE ITERATIONS FILE
module solver
  use, intrinsic :: iso_c_binding
  use mpi
  use quo
  use quo_elastic
  implicit none

  ! Inner products are added up in this many groups of rows: the same bits on 1, 2, 3, 4, 6 and 12 ranks
  ! if it divides the rows.
  integer, parameter :: GROUPS = 12

  type, bind(c) :: progress
    integer(c_int) :: iterations = 0, time_steps = 0
    real(c_double) :: rho = 0, start = 0
  end type progress

  integer :: edge, n, iterations, comm, first, rows, ierr
  type(progress), target :: now
  type(c_ptr) :: world
  integer(c_size_t), pointer :: pointers(:)
  integer(c_int), pointer :: columns(:)
  real(c_double), pointer :: values(:), x(:), r(:), p(:)

contains

  ! Divides the rows among the ranks, in blocks of one size.
  subroutine divide()
    integer :: ranks, rank, each
    call quo_world_comm(world, comm, ierr); call check()
    call MPI_Comm_size(comm, ranks, ierr)
    call MPI_Comm_rank(comm, rank, ierr)
    each = (n + ranks - 1) / ranks
    first = min(rank * each, n)
    rows = min(each, n - first)
  end subroutine divide

  ! Assembles the rows of this rank.
  subroutine assemble()
    integer :: row, i, j, at
    allocate (pointers(rows + 1), columns(5 * rows), values(5 * rows))
    at = 1
    do row = 1, rows
      pointers(row) = at
      i = (first + row - 1) / edge
      j = mod(first + row - 1, edge)
      columns(at) = first + row
      values(at) = 1
      at = at + 1
      if (i > 0) call couple(-edge)
      if (j > 0) call couple(-1)
      if (j < edge - 1) call couple(1)
      if (i < edge - 1) call couple(edge)
    end do
    pointers(rows + 1) = at
  contains
    ! Adds the flow of heat to a neighbour.
    subroutine couple(distance)
      integer, intent(in) :: distance
      columns(at) = first + row + distance
      values(at) = -10d0 * (1 + mod(2 * (first + row) + distance, 7))
      values(pointers(row)) = values(pointers(row)) - values(at)
      at = at + 1
    end subroutine couple
  end subroutine assemble

  ! Ends the job if a call has failed.
  subroutine check()
    if (ierr /= QUO_SUCCESS) error stop quo_last_error()
  end subroutine check

  ! Finds the rows and vectors of this rank, which resizes move.
  subroutine find()
    call divide()
    call quo_world_matrix(world, 'A', pointers, columns, values, ierr); call check()
    call quo_world_array(world, 'x', x, ierr); call check()
    call quo_world_array(world, 'r', r, ierr); call check()
    call quo_world_array(world, 'p', p, ierr); call check()
  end subroutine find

  ! Adds the products of elements up over all ranks.
  real(c_double) function dot(a, b)
    real(c_double), intent(in) :: a(:), b(:)
    real(c_double) :: sums(GROUPS)
    integer :: row, group
    sums = 0
    do row = 1, rows
      group = int(int(first + row - 1, c_long_long) * GROUPS / n) + 1
      sums(group) = sums(group) + a(row) * b(row)
    end do
    call MPI_Allreduce(MPI_IN_PLACE, sums, GROUPS, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
    dot = sum(sums)
  end function dot

  ! Begins a time step at the temperatures x: the solution is sought from 0 on.
  subroutine begin()
    r(:rows) = x(:rows)
    p(:rows) = x(:rows)
    x = 0
    now%rho = dot(r, r)
    now%start = now%rho
  end subroutine begin

  ! Begins with one half of the square hot.
  subroutine start()
    integer :: i
    call divide()
    call assemble()
    call quo_world_matrix_add(world, 'A', n, pointers, columns, values, ierr); call check()
    deallocate (pointers, columns, values)
    call quo_world_vector_add(world, 'x', 'A', ierr); call check()
    call quo_world_vector_add(world, 'r', 'A', ierr); call check()
    call quo_world_vector_add(world, 'p', 'A', ierr); call check()
    call find()
    x(:rows) = [(merge(100d0, 1d0, mod(first + i - 1, edge) < edge / 2), i=1, rows)]
    call begin()
  end subroutine start

  ! Makes an iteration. Returns 1 if another one follows.
  integer(c_int) function iterate(w, data) bind(c)
    type(c_ptr), value :: w, data
    real(c_double), allocatable :: q(:)
    real(c_double) :: alpha, before
    integer :: row, at
    if (c_associated(w, data)) continue ! not needed here
    call find()
    call quo_world_exchange_halo(world, 'p', ierr); call check()
    allocate (q(rows))
    do row = 1, rows
      q(row) = 0
      do at = int(pointers(row)), int(pointers(row + 1)) - 1
        q(row) = q(row) + values(at) * p(columns(at))
      end do
    end do
    alpha = now%rho / dot(p, q)
    x(:rows) = x(:rows) + alpha * p(:rows)
    r(:rows) = r(:rows) - alpha * q
    before = now%rho
    now%rho = dot(r, r)
    p(:rows) = r(:rows) + now%rho / before * p(:rows)
    now%iterations = now%iterations + 1
    if (now%rho < 1d-20 * now%start) then
      now%time_steps = now%time_steps + 1
      if (first == 0) print '(a,i0,a,i0,a)', 'time step ', now%time_steps, ': ', now%iterations, ' iterations'
      call begin()
    end if
    iterate = merge(1, 0, now%iterations < iterations)
  end function iterate

  ! Writes the temperatures of all ranks into one file.
  subroutine write(name)
    character(len=*), intent(in) :: name
    integer :: file
    call MPI_File_open(comm, name, MPI_MODE_CREATE + MPI_MODE_WRONLY, MPI_INFO_NULL, file, ierr)
    call MPI_File_write_at(file, 8_MPI_OFFSET_KIND * first, x, rows, MPI_DOUBLE_PRECISION, &
      MPI_STATUS_IGNORE, ierr)
    call MPI_File_close(file, ierr)
  end subroutine write
end module solver

program heat
  use solver
  implicit none

  type(quo_world_options_t) :: options
  character(len=4096) :: words(3)
  integer :: i, status

  call MPI_Init(ierr)
  do i = 1, 3
    call get_command_argument(i, words(i))
  end do
  read (words(1), *) edge
  read (words(2), *) iterations
  n = edge**2
  call quo_world_create(world, options, ierr); call check()
  call quo_world_status(world, status, ierr); call check()
  if (status == QUO_WORLD_NEW) call start()
  call quo_world_run(world, c_funloc(iterate), c_null_ptr, c_loc(now), c_sizeof(now), ierr); call check()
  call quo_world_comm(world, comm, ierr); call check()
  if (comm /= MPI_COMM_NULL) call write(trim(words(3)))
  call quo_world_end(world, ierr); call check()
  call MPI_Finalize(ierr)
end program heat
