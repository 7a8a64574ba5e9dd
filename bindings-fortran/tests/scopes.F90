! Scopes: parts of the hardware for two components.
program scopes
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr, rank, size, part
  integer(c_int) :: ierr, pus, inside, nqids, threads, gpus
  logical :: selected
  type(c_ptr) :: q, scope, phase
  type(quo_context) :: node, half
  character(len=:), allocatable :: before, list, after

  call mpi_init(mpierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, mpierr)
  call mpi_comm_size(MPI_COMM_WORLD, size, mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call quo_npus(q, pus, ierr)
  call quo_stringify_cbind(q, before, ierr)
  part = mod(rank, 2)

  if (pus >= 2) then
    call quo_split_by_weight(q, QUO_OBJ_PU, [1, 1], part, scope, ierr)
    call done(ierr, 'quo_split_by_weight')
    call quo_nqids(scope, nqids, ierr)
    call equal(nqids, (size + 1 - part) / 2, 'ranks of the part')
    call quo_npus(scope, inside, ierr)
    call true(inside < pus, 'fewer PUs')
    call quo_cpuset_of_type(scope, QUO_OBJ_MACHINE, 0, list, ierr)
    call done(ierr, 'quo_cpuset_of_type')
    call quo_phase_create(scope, quo_phase_spec_t(type=QUO_OBJ_MACHINE, sharing=QUO_SHARING_WAIT, &
      sharing_limit=60.0_c_double), phase, ierr)
    call done(ierr, 'quo_phase_create')
    call quo_phase_begin(phase, selected, threads, ierr)
    call done(ierr, 'quo_phase_begin')
    call true(threads <= inside, 'threads of the part')
    call quo_phase_end(phase, ierr)
    call done(ierr, 'quo_phase_end')
    call quo_phase_free(phase, ierr)
    call quo_free(scope, ierr)
    call done(ierr, 'quo_free')
    call quo_stringify_cbind(q, after, ierr)
    call same(after, before, 'the binding of before')

    call node%create(MPI_COMM_WORLD, ierr)
    call done(ierr, 'create')
    call half%split_by_weight(node, QUO_OBJ_PU, [1, 1], part, ierr)
    call done(ierr, 'split_by_weight')
    call equal(half%nqids(), (size + 1 - part) / 2, 'ranks of the half')
    call half%free(ierr)
    call done(ierr, 'free')
    call half%split_by_count(node, QUO_OBJ_PU, [1], 0, ierr)
    call done(ierr, 'split_by_count')
    call equal(half%npus(), 1, 'one PU')
    call half%free(ierr)
    call node%free(ierr)
    call done(ierr, 'free')
  end if

  call quo_split_by_count(q, QUO_OBJ_PU, [1, 0], 0, scope, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a part of nothing')
  call true(.not. c_associated(scope), 'no scope after a failure')
  call quo_split_by_weight(q, QUO_OBJ_PU, [integer(c_int) ::], 0, scope, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'no parts')
  call quo_split_by_weight(q, 77, [1], 0, scope, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown type')
  call says('77')

  call quo_ndevices(q, QUO_DEVICE_GPU, gpus, ierr)
  call done(ierr, 'quo_ndevices')
  call quo_split_by_device(q, QUO_OBJ_CORE, QUO_DEVICE_GPU, gpus, scope, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a GPU that is not there')
  call says('no gpu device')
  call true(.not. c_associated(scope), 'no scope without a GPU')
  node = quo_context(q)
  call half%split_by_device(node, QUO_OBJ_CORE, QUO_DEVICE_GPU, -1, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a GPU before the first')
  if (gpus > 0) then
    call quo_split_by_device(q, QUO_OBJ_CORE, QUO_DEVICE_GPU, 0, scope, ierr)
    call done(ierr, 'quo_split_by_device')
    call quo_npus(scope, inside, ierr)
    call quo_free(scope, ierr)
    call done(ierr, 'quo_free')
    call half%split_by_device(node, QUO_OBJ_CORE, QUO_DEVICE_GPU, 0, ierr)
    call done(ierr, 'split_by_device')
    call equal(half%npus(), inside, 'PUs near the GPU')
    call true(inside > 0 .and. inside <= pus, 'some PUs')
    call half%free(ierr)
  end if
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_finalize(mpierr)
  call finish()
end program scopes
