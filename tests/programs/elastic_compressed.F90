! A sparse matrix in compressed columns moves from each number of ranks to each other number and back:
! `mpirun -n 8 elastic_compressed`. Each rank checks its values and column pointers after each resize.
module matrix
  use, intrinsic :: iso_c_binding
  use quo
  use quo_elastic
  use quo_program
  implicit none

  integer, parameter :: COLUMNS = 29

  integer, allocatable :: sizes(:)
  ! Index of the next size, and 1 if it has been requested.
  integer(c_int), target :: now(2) = [1, 0]
  integer(c_size_t) :: starts(COLUMNS + 1)

contains

  integer(c_int) function init(w, argc, argv, data) bind(c)
    type(c_ptr), value :: w, argv
    integer(c_int), value :: argc
    type(c_ptr), intent(out) :: data
    real(c_double), pointer :: values(:)
    integer(c_int) :: status, most
    integer :: column, p, q
    data = c_loc(now)
    if (argc > 0 .and. c_associated(argv)) continue ! not needed here
    starts(1) = 0
    do column = 1, COLUMNS
      starts(column + 1) = starts(column) + mod(column * column, 5)
    end do
    call quo_world_capacity(w, most, init)
    if (init /= QUO_SUCCESS) return
    sizes = [(p, (q, p, q=1, p - 1), p=2, most)]
    call quo_world_status(w, status, init)
    if (init /= QUO_SUCCESS .or. status /= QUO_WORLD_NEW) return
    call quo_world_array_add_compressed(w, "values", 8_c_size_t, starts, init)
    if (init == QUO_SUCCESS) call quo_world_array(w, "values", values, init)
    if (init == QUO_SUCCESS) values = [(column * 0.5d0, column=1, size(values))]
  end function init

  integer(c_int) function follow(w, data) bind(c)
    type(c_ptr), value :: w, data
    real(c_double), pointer :: values(:)
    integer(c_size_t), pointer :: pointers(:)
    integer(c_size_t) :: first
    integer(c_long_long) :: request
    integer(c_int) :: rank, ranks
    integer :: at
    if (c_associated(data)) continue ! not needed here
    call quo_world_rank(w, rank, follow)
    call quo_world_size(w, ranks, follow)
    if (ranks /= sizes(now(1))) then
      if (now(2) == 0 .and. rank == 0) call quo_world_request(w, sizes(now(1)), request, follow)
      now(2) = 1
      return
    end if
    now = [now(1) + 1, 0]
    call quo_world_array_lines(w, "values", first, pointers, follow)
    if (follow == QUO_SUCCESS) call quo_world_array(w, "values", values, follow)
    if (follow /= QUO_SUCCESS) return
    if (any(pointers /= starts(first + 1:first + size(pointers)))) follow = 100
    if (size(values) /= pointers(size(pointers)) - pointers(1)) follow = 101
    do at = 1, size(values)
      if (abs(values(at) - (pointers(1) + at) * 0.5d0) > 0) follow = 102
    end do
  end function follow

  integer(c_int) function goes_on(data) bind(c)
    type(c_ptr), value :: data
    if (c_associated(data)) continue ! not needed here
    goes_on = merge(1, 0, now(1) <= size(sizes))
  end function goes_on

  integer(c_int) function tell(w, data) bind(c)
    type(c_ptr), value :: w, data
    if (c_associated(data)) continue ! not needed here
    call quo_window_broadcast(w, c_loc(now), c_sizeof(now), tell)
  end function tell

  integer(c_int) function report(w, data) bind(c)
    type(c_ptr), value :: w, data
    integer(c_int) :: rank
    if (c_associated(data)) continue ! not needed here
    call quo_world_rank(w, rank, report)
    if (rank == 0) print '(a)', 'ok'
  end function report
end module matrix

program main
  use matrix
  use mpi
  implicit none
  type(quo_program_t) :: elements
  type(quo_world_options_t) :: options
  integer(c_int) :: code
  integer :: ierr
  call quo_program_init(elements, c_funloc(init))
  call quo_program_elastic(elements, "follow", c_funloc(follow), c_funloc(goes_on), c_funloc(tell))
  call quo_program_rigid(elements, "report", c_funloc(report), c_null_funptr)
  call MPI_Init(ierr)
  options%initial_ranks = 1
  call quo_program_run(elements, options, code)
  if (code /= QUO_SUCCESS) then
    print '(a)', quo_last_error()
    error stop 1
  end if
  call MPI_Finalize(ierr)
end program main
