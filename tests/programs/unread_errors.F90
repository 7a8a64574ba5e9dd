! A phase that is never ended, or a phase and a context that their owners free, without reading any code; the first
! argument selects one.
program unread_errors
  use mpi
  use quo
  implicit none
  character(len=16) :: what
  integer :: ierr, step
  logical :: works
  integer(c_int) :: threads

  call get_command_argument(1, what)
  call MPI_Init(ierr)
  select case (what)
  case ('never-ended')
    call never_ended()
  case ('owned')
    call owned()
  end select
  call MPI_Finalize(ierr)
  print '(a)', 'went on to the end'

contains

  subroutine never_ended()
    type(quo_context) :: node
    type(quo_phase), pointer :: solve
    integer(c_int) :: code
    allocate (solve)
    call node%create(MPI_COMM_WORLD, code)
    call solve%create(node, quo_phase_spec_t(name='solve'), code)
    do step = 1, 3
      call solve%begin(works, threads, code)
    end do
  end subroutine never_ended

  subroutine owned()
    type(quo_context) :: node
    type(quo_phase) :: solve, other
    integer(c_int) :: code
    call node%create(MPI_COMM_WORLD, code)
    call solve%create(node, quo_phase_spec_t(name='solve'), code)
    other = solve
    call solve%begin(works, threads, code)
  end subroutine owned
end program unread_errors
