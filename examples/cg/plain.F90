! Heat in a square of uneven material, in implicit time steps: conjugate gradients on a sparse matrix in
! compressed rows, which are distributed over MPI ranks.
! usage: ./plain EDGE ITERATIONS FILE
module solver
  use, intrinsic :: iso_c_binding
  use mpi
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
  integer(c_size_t), allocatable :: pointers(:)
  integer(c_int), allocatable :: columns(:)
  real(c_double), allocatable :: values(:), x(:), r(:), p(:)
  ! Elements that other ranks get, and elements that come from them: by rank, and the elements sent.
  integer, allocatable :: send_counts(:), send_starts(:), counts(:), starts(:), sent(:)

contains

  ! Divides the rows among the ranks, in blocks of one size.
  subroutine divide()
    integer :: ranks, rank, each
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

  ! Finds out which elements of other ranks are needed here, and which ones of this rank elsewhere. Columns
  ! become indices: own elements first, those of other ranks after them.
  subroutine make_plan()
    integer, allocatable :: ghosts(:), place(:)
    integer :: i, ranks, rank, each, last
    call MPI_Comm_size(comm, ranks, ierr)
    each = (n + ranks - 1) / ranks
    last = int(pointers(rows + 1)) - 1
    allocate (place(n), source=0)
    place(columns(:last)) = 1
    place(first + 1:first + rows) = 0
    ghosts = pack([(i, i=1, n)], place > 0)
    place(first + 1:first + rows) = [(i, i=1, rows)]
    place(ghosts) = [(rows + i, i=1, size(ghosts))]
    columns(:last) = place(columns(:last))
    allocate (counts(ranks), starts(ranks), send_counts(ranks), send_starts(ranks), source=0)
    do i = 1, size(ghosts)
      rank = (ghosts(i) - 1) / each + 1
      counts(rank) = counts(rank) + 1
    end do
    call MPI_Alltoall(counts, 1, MPI_INTEGER, send_counts, 1, MPI_INTEGER, comm, ierr)
    do rank = 2, ranks
      starts(rank) = starts(rank - 1) + counts(rank - 1)
      send_starts(rank) = send_starts(rank - 1) + send_counts(rank - 1)
    end do
    allocate (sent(sum(send_counts)))
    call MPI_Alltoallv(ghosts, counts, starts, MPI_INTEGER, sent, send_counts, send_starts, MPI_INTEGER, &
      comm, ierr)
    sent = sent - first
    allocate (x(rows), r(rows), p(rows + size(ghosts)), source=0d0)
  end subroutine make_plan

  ! Gets the elements of other ranks.
  subroutine exchange()
    real(c_double) :: mine(size(sent)), theirs(sum(counts))
    mine = p(sent)
    call MPI_Alltoallv(mine, send_counts, send_starts, MPI_DOUBLE_PRECISION, theirs, counts, starts, &
      MPI_DOUBLE_PRECISION, comm, ierr)
    p(rows + 1:) = theirs
  end subroutine exchange

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
    call make_plan()
    x(:rows) = [(merge(100d0, 1d0, mod(first + i - 1, edge) < edge / 2), i=1, rows)]
    call begin()
  end subroutine start

  ! Makes an iteration.
  subroutine iterate()
    real(c_double), allocatable :: q(:)
    real(c_double) :: alpha, before
    integer :: row, at
    call exchange()
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
  end subroutine iterate

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

  character(len=4096) :: words(3)
  integer :: i

  call MPI_Init(ierr)
  do i = 1, 3
    call get_command_argument(i, words(i))
  end do
  read (words(1), *) edge
  read (words(2), *) iterations
  n = edge**2
  comm = MPI_COMM_WORLD
  call start()
  do while (now%iterations < iterations)
    call iterate()
  end do
  call write(trim(words(3)))
  call MPI_Finalize(ierr)
end program heat
