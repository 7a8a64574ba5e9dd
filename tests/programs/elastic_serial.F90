! A program of elements in one process without MPI, whose block requests the world's communicator: an error.
module asking
  use, intrinsic :: iso_c_binding
  use quo
  use quo_elastic
  use quo_program
  implicit none

contains

  integer(c_int) function init(w, argc, argv, data) bind(c)
    type(c_ptr), value :: w, argv
    integer(c_int), value :: argc
    type(c_ptr), intent(out) :: data
    data = c_null_ptr
    if (c_associated(w) .and. argc > 0 .and. c_associated(argv)) continue ! not needed here
    init = QUO_SUCCESS
  end function init

  integer(c_int) function ask(w, data) bind(c)
    type(c_ptr), value :: w, data
    integer(c_int) :: ierr
    integer :: comm
    if (c_associated(data)) continue ! not needed here
    call quo_world_comm(w, comm, ierr)
    print '(a,l1,2a)', 'before init ', ierr == QUO_ERR_CALL_BEFORE_INIT, ': ', quo_last_error()
    call quo_world_rank(w, comm, ask)
    print '(a,i0)', 'rank ', comm
  end function ask
end module asking

program main
  use asking
  implicit none
  type(quo_program_t) :: elements
  integer(c_int) :: code
  call quo_program_init(elements, c_funloc(init))
  call quo_program_rigid(elements, "ask", c_funloc(ask), c_null_funptr)
  call quo_program_serial(elements, code)
  if (code /= QUO_SUCCESS) error stop 'the program failed'
end program main
