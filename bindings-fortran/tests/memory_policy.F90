! Memory on the NUMA nodes of bindings: policies, placed arrays, and the kernel's answers.
program memory_policy
  use, intrinsic :: iso_c_binding, only: c_double, c_long_long, c_size_t
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr
  integer(c_int) :: ierr, nodes, node
  integer(c_long_long) :: found, total
  integer(c_size_t) :: bytes
  real(c_double), allocatable, target :: field(:)
  type(c_ptr) :: q

  call mpi_init(mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call quo_nnumanodes(q, nodes, ierr)
  allocate (field(200000))
  field = 1
  bytes = 8 * size(field, kind=c_size_t)
  call quo_set_memory_policy(q, QUO_MEMORY_INTERLEAVE, ierr)
  ! Simulated machines have no memory, and containers may forbid it to all programs.
  if (ierr /= QUO_ERR_SYS .and. ierr /= QUO_ERR_NOT_SUPPORTED) then
    call done(ierr, 'quo_set_memory_policy')
    call quo_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_NUMANODE, 0_c_int, ierr)
    call done(ierr, 'quo_bind_push')
    call quo_memory_place(q, c_loc(field), bytes, QUO_OBJ_NUMANODE, 0_c_int, QUO_MEMORY_BIND, ierr)
    call done(ierr, 'quo_memory_place')
    call quo_bind_pop(q, ierr)
    total = 0
    do node = QUO_MEMORY_ABSENT, nodes - 1
      call quo_memory_on_node(q, c_loc(field), bytes, node, found, ierr)
      call done(ierr, 'quo_memory_on_node')
      total = total + found
    end do
    call true(total == bytes, 'all bytes are somewhere')
    call quo_memory_on_node(q, c_loc(field), bytes, nodes, found, ierr)
    call equal(ierr, QUO_ERR_INVLD_ARG, 'no such node')
    call quo_set_memory_policy(q, QUO_MEMORY_KEEP, ierr)
    call done(ierr, 'QUO_MEMORY_KEEP')
  end if
  call quo_set_memory_policy(q, 9_c_int, ierr)
  call equal(ierr, QUO_ERR_INVLD_ARG, 'no such policy')
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_finalize(mpierr)
  call finish()
end program memory_policy
