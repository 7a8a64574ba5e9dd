! Push and pop.
program bindings
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr, i
  integer(c_int) :: ierr, npus, expected
  type(c_ptr) :: q, bad
  character(len=:), allocatable :: before, now, list
  character(len=40) :: padded

  call mpi_init(mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call quo_npus(q, npus, ierr)
  call quo_stringify_cbind(q, before, ierr)

  call quo_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, npus - 1, ierr)
  call done(ierr, 'quo_bind_push')
  call quo_cpuset_of_type(q, QUO_OBJ_PU, npus - 1, list, ierr)
  call quo_stringify_cbind(q, now, ierr)
  call same(now, list, 'bound to the last PU')
  call quo_bind_push(q, QUO_BIND_PUSH_OBJ, QUO_OBJ_MACHINE, -1, ierr)
  call done(ierr, 'quo_bind_push, the object around')
  padded = list
  call quo_bind_push_cpuset(q, padded, ierr)
  call done(ierr, 'quo_bind_push_cpuset, with blanks at the end')
  call quo_stringify_cbind(q, now, ierr)
  call same(now, list, 'bound to the set')
  do i = 1, 3
    call quo_bind_pop(q, ierr)
    call done(ierr, 'quo_bind_pop')
  end do
  call quo_stringify_cbind(q, now, ierr)
  call same(now, before, 'as before')
  call quo_bind_pop(q, ierr)
  call code(ierr, QUO_ERR_POP, 'a pop too many')

  ! Bad input.
  call quo_bind_push(q, 12, QUO_OBJ_PU, 0, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown policy')
  call quo_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, npus, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a PU that is not there')
  call quo_bind_push_cpuset(q, '0-', ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'no list')
  call quo_bind_push_cpuset(q, '', ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an empty list')
  call quo_bind_push_cpuset(q, '   ', ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'blanks')
  do i = 1, 3
    call bad_handles(i, bad, expected)
    call quo_bind_push(bad, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0, ierr)
    call code(ierr, expected, 'quo_bind_push')
    call quo_bind_push_cpuset(bad, '0', ierr)
    call code(ierr, expected, 'quo_bind_push_cpuset')
    call quo_bind_pop(bad, ierr)
    call code(ierr, expected, 'quo_bind_pop')
  end do
  ! What is still pushed is restored.
  call quo_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0, ierr)
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call quo_stringify_cbind(q, now, ierr)
  call same(now, before, 'as before')
  call quo_free(q, ierr)
  call mpi_finalize(mpierr)
  call finish()
end program bindings
