! Gaussian elimination as a program of elements: `mpirun -n 4 gauss` begins with one rank, has four
! from column 4 on and two from column 13 on; `gauss serial` is the same program in one process,
! without MPI.
module gauss
  use, intrinsic :: iso_c_binding
  use quo
  use quo_elastic
  use quo_program
  use mpi
  implicit none

  integer, parameter :: N = 24, STEPS(2) = [4, 13], SIZES(2) = [4, 2]

  ! Progress of this process, which joiners receive: the column, the index of the next size, and 1
  ! if it has been requested.
  integer(c_int), target :: now(3) = [1, 1, 0]

contains

  integer(c_int) function init(w, argc, argv, data) bind(c)
    type(c_ptr), value :: w, argv
    integer(c_int), value :: argc
    type(c_ptr), intent(out) :: data
    type(quo_array_spec_t) :: spec
    real(c_double), pointer :: matrix(:)
    integer(c_size_t) :: at, row, column
    integer(c_int) :: status
    data = c_loc(now)
    if (argc > 0 .and. c_associated(argv)) continue ! not needed here
    call quo_world_status(w, status, init)
    if (init /= QUO_SUCCESS .or. status /= QUO_WORLD_NEW) return
    spec%kind = QUO_ARRAY_BLOCK_ROWS
    spec%storage = QUO_ARRAY_BY_ROWS
    spec%rows = N
    spec%columns = N + 1
    call quo_world_array_add(w, "matrix", spec, init)
    if (init == QUO_SUCCESS) call quo_world_array(w, "matrix", matrix, init)
    if (init /= QUO_SUCCESS) return
    do at = 0, size(matrix, kind=c_size_t) - 1
      call quo_world_array_origin(w, "matrix", at, row, column, init)
      matrix(at + 1) = merge(N, 0, row == column) + 1d0 / (1 + row + 2 * column)
    end do
  end function init

  ! Requests the size of this column, and waits until there are that many ranks.
  logical function waits(w, rank, ranks, comm)
    type(c_ptr), intent(in) :: w
    integer, intent(in) :: rank, ranks, comm
    integer(c_long_long) :: request
    integer(c_int) :: ierr
    waits = .false.
    if (comm == MPI_COMM_NULL .or. now(2) > size(STEPS)) return
    if (STEPS(now(2)) > now(1)) return
    if (SIZES(now(2)) == ranks) then
      if (rank == 0) print '(a,i0,a,i0,a)', 'column ', now(1), ': ', ranks, ' ranks'
      now(2:3) = [now(2) + 1, 0]
      return
    end if
    if (now(3) == 0 .and. rank == 0) call quo_world_request(w, SIZES(now(2)), request, ierr)
    now(3) = 1
    waits = .true.
  end function waits

  integer(c_int) function eliminate(w, data) bind(c)
    type(c_ptr), value :: w, data
    real(c_double), pointer :: matrix(:)
    real(c_double) :: top(N + 1), factor
    integer(c_int) :: rank, ranks
    integer :: comm, each, first, row, column, ierr, start
    if (c_associated(data)) continue ! not needed here
    call quo_world_rank(w, rank, eliminate)
    call quo_world_size(w, ranks, eliminate)
    comm = MPI_COMM_NULL ! without MPI it has no number in Fortran
    if (command_argument_count() == 0) call quo_world_comm(w, comm, eliminate)
    call quo_world_array(w, "matrix", matrix, eliminate)
    if (eliminate /= QUO_SUCCESS) return
    if (waits(w, rank, ranks, comm)) return
    each = (N + ranks - 1) / ranks
    first = rank * each
    if ((now(1) - 1) / each == rank) then
      start = (now(1) - 1 - first) * (N + 1)
      top = matrix(start + 1:start + N + 1)
    end if
    if (comm /= MPI_COMM_NULL) call MPI_Bcast(top, N + 1, MPI_DOUBLE_PRECISION, (now(1) - 1) / each, comm, ierr)
    do row = max(first + 1, now(1) + 1), min(first + each, N)
      start = (row - 1 - first) * (N + 1)
      factor = matrix(start + now(1)) / top(now(1))
      do column = now(1), N + 1
        matrix(start + column) = matrix(start + column) - factor * top(column)
      end do
    end do
    now(1) = now(1) + 1
  end function eliminate

  integer(c_int) function has_columns(data) bind(c)
    type(c_ptr), value :: data
    if (c_associated(data)) continue ! not needed here
    has_columns = merge(1, 0, now(1) < N)
  end function has_columns

  integer(c_int) function tell_progress(w, data) bind(c)
    type(c_ptr), value :: w, data
    if (c_associated(data)) continue ! not needed here
    call quo_window_broadcast(w, c_loc(now), c_sizeof(now), tell_progress)
  end function tell_progress

  integer(c_int) function solve(w, data) bind(c)
    type(c_ptr), value :: w, data
    real(c_double), pointer :: matrix(:)
    real(c_double) :: whole(N * (N + 1)), solution(N), known
    integer(c_int) :: rank, ranks
    integer :: comm, each, ierr, row, column
    integer(c_int64_t) :: sum
    if (c_associated(data)) continue ! not needed here
    call quo_world_rank(w, rank, solve)
    call quo_world_size(w, ranks, solve)
    comm = MPI_COMM_NULL ! without MPI it has no number in Fortran
    if (command_argument_count() == 0) call quo_world_comm(w, comm, solve)
    call quo_world_array(w, "matrix", matrix, solve)
    if (solve /= QUO_SUCCESS) return
    each = (N + ranks - 1) / ranks
    whole = 0
    whole(rank * each * (N + 1) + 1:rank * each * (N + 1) + size(matrix)) = matrix
    ! Each element belongs to one rank, and is 0 elsewhere.
    if (comm /= MPI_COMM_NULL) then
      call MPI_Allreduce(MPI_IN_PLACE, whole, size(whole), MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
    end if
    sum = 0
    do row = N, 1, -1
      known = 0
      do column = row + 1, N
        known = known + whole((row - 1) * (N + 1) + column) * solution(column)
      end do
      solution(row) = (whole(row * (N + 1)) - known) / whole((row - 1) * (N + 1) + row)
    end do
    do row = 1, N
      sum = ieor(ishftc(sum, 7), transfer(solution(row), sum))
    end do
    if (rank == 0) print '(a,i0,a,z16.16)', 'gauss: ', N, ' rows, bits ', sum
  end function solve
end module gauss

program main
  use gauss
  implicit none
  type(quo_program_t) :: elements
  type(quo_world_options_t) :: options
  integer(c_int) :: code
  integer :: ierr
  call quo_program_init(elements, c_funloc(init))
  call quo_program_elastic(elements, "eliminate", c_funloc(eliminate), c_funloc(has_columns), c_funloc(tell_progress))
  call quo_program_rigid(elements, "solve", c_funloc(solve), c_null_funptr)
  if (command_argument_count() > 0) then
    call quo_program_serial(elements, code)
  else
    call MPI_Init(ierr)
    options%initial_ranks = 1
    call quo_program_run(elements, options, code)
    if (code == QUO_SUCCESS) call MPI_Finalize(ierr)
  end if
  if (code /= QUO_SUCCESS) then
    print '(a)', quo_last_error()
    error stop 1
  end if
end program main
