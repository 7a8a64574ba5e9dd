! Ownership of what objects stand for: copies, scopes, arrays, containers, and the end of MPI.
module owners
  use check
  use mpi
  use quo
  implicit none

  type :: solver
    type(quo_context) :: node
    integer :: steps = 0
  end type solver

contains

  subroutine open_and_leave(handle)
    type(c_ptr), intent(out) :: handle
    type(quo_context) :: local
    integer(c_int) :: ierr
    call local%create(MPI_COMM_WORLD, ierr)
    call done(ierr, 'create')
    handle = local%handle()
    call true(lives(handle), 'open')
  end subroutine open_and_leave

  subroutine copy_and_leave(original)
    type(quo_context), intent(in) :: original
    type(quo_context) :: copy
    copy = original
    call true(lives(copy%handle()), 'a copy is the same context')
  end subroutine copy_and_leave

  subroutine hand_out(result)
    type(quo_context), intent(out) :: result
    type(quo_context) :: local
    integer(c_int) :: ierr
    call local%create(MPI_COMM_WORLD, ierr)
    result = local
  end subroutine hand_out

  !> Returns true if a handle belongs to a context that is not freed.
  function lives(handle)
    type(c_ptr), intent(in) :: handle
    logical :: lives
    integer(c_int) :: n, ierr
    call quo_nqids(handle, n, ierr)
    lives = ierr == QUO_SUCCESS
    if (.not. lives) call code(ierr, QUO_ERR_INVLD_HANDLE, 'freed')
  end function lives
end module owners

program ownership
  use check
  use mpi
  use owners
  use quo
  implicit none
  integer :: mpierr
  integer(c_int) :: ierr, n
  type(c_ptr) :: handle, second
  type(quo_context) :: a, b
  type(quo_context), allocatable :: made, many(:)
  character(len=:), allocatable :: before

  call mpi_init(mpierr)

  call open_and_leave(handle)
  call true(.not. lives(handle), 'freed at the end of the procedure')

  ! A copy is not a second context, and the end of the copy is not the end of the context.
  call a%create(MPI_COMM_WORLD, ierr)
  call done(ierr, 'create')
  handle = a%handle()
  call copy_and_leave(a)
  call true(lives(handle), 'a copy went away')
  b = a
  a = a
  a = (a)
  call true(lives(handle), 'assigned to itself')
  block
    type(quo_context) :: through_an_expression, of_a_copy
    type(quo_context), allocatable :: bits
    type(c_ptr) :: other
    call of_a_copy%create(MPI_COMM_WORLD, ierr)
    other = of_a_copy%handle()
    through_an_expression = (of_a_copy)
    allocate (bits, source=of_a_copy)
    call of_a_copy%create(MPI_COMM_WORLD, ierr)
    call true(lives(other), 'an owner through an expression')
    of_a_copy = bits
    through_an_expression = a
    call true(lives(other), 'an owner by way of a copy bit by bit')
    call of_a_copy%free(ierr)
    call true(.not. lives(other), 'freed')
    through_an_expression = bits
    call equal(through_an_expression%ncores(), 0, 'a copy of what was freed')
  end block
  call a%free(ierr)
  call done(ierr, 'free')
  call true(.not. lives(handle), 'freed')
  call equal(b%ncores(ierr), 0, 'a question to a copy of what was freed')
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'a copy of what was freed')

  ! A variable's object is freed when another one is assigned to the variable.
  call a%create(MPI_COMM_WORLD, ierr)
  handle = a%handle()
  call b%create(MPI_COMM_WORLD, ierr)
  a = b
  call true(.not. lives(handle), 'nobody owns it any more')
  handle = b%handle()
  call a%create(MPI_COMM_WORLD, ierr)
  call true(lives(handle), 'the other owner still does')
  call b%free(ierr)
  call a%free(ierr)
  call done(ierr, 'free')

  ! From a constructor, and from a procedure.
  block
    type(quo_context) :: from_constructor, from_procedure
    from_constructor = quo_context(MPI_COMM_WORLD, ierr)
    call done(ierr, 'quo_context')
    handle = from_constructor%handle()
    call hand_out(from_procedure)
    second = from_procedure%handle()
    call true(lives(handle) .and. lives(second), 'open')
  end block
  call true(.not. lives(handle), 'freed at the end of the block, from a constructor')
  call true(.not. lives(second), 'freed at the end of the block, from a procedure')

  ! Made for a handle, which is freed elsewhere.
  call quo_create(handle, MPI_COMM_WORLD, ierr)
  block
    type(quo_context) :: guest
    guest = quo_context(handle)
    call true(guest%ncores() > 0, 'a guest can ask')
  end block
  call true(lives(handle), 'a guest frees nothing')
  call quo_free(handle, ierr)
  call done(ierr, 'quo_free')

  ! In containers, and allocated.
  block
    type(solver) :: first, other
    call first%node%create(MPI_COMM_WORLD, ierr)
    handle = first%node%handle()
    other = first
    call true(lives(handle), 'open')
    call other%node%free(ierr)
    call done(ierr, 'free')
  end block
  allocate (made)
  call made%create(MPI_COMM_WORLD, ierr)
  handle = made%handle()
  deallocate (made)
  call true(.not. lives(handle), 'freed when it was deallocated')
  allocate (many(2))
  do n = 1, 2
    call many(n)%create(MPI_COMM_WORLD, ierr)
  end do
  handle = many(1)%handle()
  second = many(2)%handle()
  ! A bitwise copy owns nothing.
  allocate (made, source=many(1))
  deallocate (made)
  call true(lives(handle), 'a copy bit by bit went away')
  deallocate (many)
  call true(.not. lives(handle) .and. .not. lives(second), 'an array is freed as a whole')

  ! A push has one owner.
  call a%create(MPI_COMM_WORLD, ierr)
  before = a%stringify_cbind()
  block
    type(quo_binding) :: push, other_push
    call push%push(a, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0, ierr)
    other_push = push
    push = push
    call push%pop(ierr)
    call done(ierr, 'pop')
    call other_push%pop(ierr)
    call code(ierr, QUO_ERR_INVLD_ARG, 'a copy has pushed nothing')
    call a%bind_push(QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0, ierr)
  end block
  call a%bind_pop(ierr)
  call done(ierr, 'the push by hand is left alone')
  call same(a%stringify_cbind(), before, 'as before')
  call a%free(ierr)

  ! Parts of a context, which is freed after them.
  call a%create(MPI_COMM_WORLD, ierr)
  block
    type(quo_phase) :: phase, same_phase
    type(quo_named_barrier) :: barrier, same_barrier
    type(quo_memory) :: memory, same_memory
    logical :: selected
    integer(c_int) :: threads
    call phase%create(a, ierr)
    call done(ierr, 'create')
    same_phase = phase
    call barrier%create(a, 'here', ierr)
    same_barrier = (barrier)
    call memory%allocate(a, 64_c_size_t, ierr)
    same_memory = (memory)
    same_phase = (same_phase)
    call phase%begin(selected, threads, ierr)
    ! A run that the program does not end is ended automatically.
  end block
  call a%free(ierr)
  call done(ierr, 'free after all its parts')

  call a%create(MPI_COMM_WORLD, ierr)
  call mpi_barrier(MPI_COMM_WORLD, mpierr)
  call mpi_finalize(mpierr)
  call a%free(ierr)
  call code(ierr, QUO_ERR_CALL_AFTER_FINALIZE, 'free after MPI_Finalize')
  ! Finalisation after MPI_Finalize does nothing, without a message.
  b = a
  a = quo_context(c_null_ptr)
  b = a
  call finish()
end program ownership
