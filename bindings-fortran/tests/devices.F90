! Devices: which exist, which are near, and which ranks use which; as procedures and as methods.
program devices
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr
  integer(c_int) :: ierr, n, index, kind, again
  logical :: near
  type(c_ptr) :: q
  type(quo_context) :: node
  character(len=:), allocatable :: bus, list, variables

  call mpi_init(mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  node = quo_context(q)
  do kind = QUO_DEVICE_GPU, QUO_DEVICE_STORAGE
    call quo_ndevices(q, kind, n, ierr)
    call done(ierr, 'quo_ndevices')
    call node%ndevices(kind, again, ierr)
    call equal(again, n, 'ndevices')
    call quo_assign_device(q, kind, index, ierr)
    call done(ierr, 'quo_assign_device')
    call true(index < n .and. (index >= 0 .eqv. n > 0), 'a device of the node')
    call node%assign_device(kind, again, ierr)
    call equal(again, index, 'assign_device')
    call quo_device(q, kind, n, bus, list, ierr)
    call code(ierr, QUO_ERR_INVLD_ARG, 'quo_device')
    call quo_device_is_near(q, kind, n, near, ierr)
    call code(ierr, QUO_ERR_INVLD_ARG, 'quo_device_is_near')
    call quo_device_in_type(q, kind, n, QUO_OBJ_MACHINE, 0, near, ierr)
    call code(ierr, QUO_ERR_INVLD_ARG, 'quo_device_in_type')
    if (n > 0) then
      call node%device(kind, 0, bus, list, ierr)
      call done(ierr, 'device')
      call true(len(bus) >= 7 .and. len(list) > 0, 'a place and CPUs')
      call node%device_is_near(kind, 0, near, ierr)
      call done(ierr, 'device_is_near')
      call node%device_in_type(kind, 0, QUO_OBJ_MACHINE, 0, near, ierr)
      call done(ierr, 'device_in_type')
      call true(near, 'near the machine')
    end if
  end do
  call quo_visible_devices(q, -1, variables, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'quo_visible_devices')
  call node%visible_devices(-1, variables, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'visible_devices')
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_finalize(mpierr)
  call finish()
end program devices
