! Contents of the machine.
program machine
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr, i
  integer(c_int) :: ierr, n, m, inner, total, expected, obj
  type(c_ptr) :: q, bad
  character(len=:), allocatable :: list, whole
  character(len=200) :: counts

  call mpi_init(mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')

  ! Numbers from which the simulated machine was made: machine, NUMA nodes, packages, cores, PUs.
  call get_environment_variable('QUO_TEST_EXPECT', counts)
  if (counts /= '') then
    call expect(1, QUO_OBJ_NUMANODE)
    call expect(2, QUO_OBJ_PACKAGE)
    call expect(2, QUO_OBJ_SOCKET)
    call expect(3, QUO_OBJ_CORE)
    call expect(4, QUO_OBJ_PU)
  end if

  call quo_nnumanodes(q, n, ierr)
  call matches(QUO_OBJ_NUMANODE, 'quo_nnumanodes')
  call quo_nsockets(q, n, ierr)
  call matches(QUO_OBJ_SOCKET, 'quo_nsockets')
  call quo_ncores(q, n, ierr)
  call matches(QUO_OBJ_CORE, 'quo_ncores')
  call quo_npus(q, n, ierr)
  call matches(QUO_OBJ_PU, 'quo_npus')
  call quo_nnodes(q, n, ierr)
  call done(ierr, 'quo_nnodes')
  call equal(n, 1, 'one node')
  do obj = QUO_OBJ_MACHINE, QUO_OBJ_L1CACHE
    call quo_nobjs_by_type(q, obj, n, ierr)
    call done(ierr, 'quo_nobjs_by_type')
    call true(n >= 0, 'a count')
  end do
  call quo_nobjs_by_type(q, QUO_OBJ_MACHINE, n, ierr)
  call equal(n, 1, 'one machine')

  call quo_nsockets(q, m, ierr)
  total = 0
  do obj = 0, m - 1
    call quo_nobjs_in_type_by_type(q, QUO_OBJ_PACKAGE, obj, QUO_OBJ_PU, inner, ierr)
    call done(ierr, 'quo_nobjs_in_type_by_type')
    total = total + inner
  end do
  call quo_npus(q, n, ierr)
  call equal(total, n, 'every PU in one package')

  call quo_cpuset_of_type(q, QUO_OBJ_MACHINE, 0, whole, ierr)
  call done(ierr, 'quo_cpuset_of_type')
  call quo_cpuset_of_type(q, QUO_OBJ_PU, 0, list, ierr)
  call done(ierr, 'quo_cpuset_of_type')
  call true(len(list) > 0 .and. len(list) <= len(whole), 'a PU is part of the machine')
  call true(verify(whole, '0123456789,-') == 0, 'a list of CPUs')

  call quo_ncore_kinds(q, n, ierr)
  call done(ierr, 'quo_ncore_kinds')
  call true(n >= 1, 'a kind of cores')
  call quo_core_kind(q, n - 1, m, list, ierr)
  call done(ierr, 'quo_core_kind')
  call true(m >= 0 .and. len(list) <= len(whole), 'the fastest kind is part of the machine')
  call quo_core_kind(q, n, m, list, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a kind that is not there')

  ! Bad input.
  call quo_nobjs_by_type(q, 77, n, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown type')
  call equal(n, 0, 'a count after a failure')
  call says('77')
  call quo_nobjs_in_type_by_type(q, QUO_OBJ_PACKAGE, -1, QUO_OBJ_PU, n, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a negative index')
  call quo_cpuset_of_type(q, QUO_OBJ_CORE, 99999, list, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a core that is not there')
  call true(allocated(list), 'a text after a failure')
  call same(list, '', 'an empty text after a failure')
  do i = 1, 3
    call bad_handles(i, bad, expected)
    call quo_nobjs_by_type(bad, QUO_OBJ_CORE, n, ierr)
    call code(ierr, expected, 'quo_nobjs_by_type')
    call quo_nobjs_in_type_by_type(bad, QUO_OBJ_MACHINE, 0, QUO_OBJ_CORE, n, ierr)
    call code(ierr, expected, 'quo_nobjs_in_type_by_type')
    call quo_cpuset_of_type(bad, QUO_OBJ_MACHINE, 0, list, ierr)
    call code(ierr, expected, 'quo_cpuset_of_type')
    call quo_nnumanodes(bad, n, ierr)
    call code(ierr, expected, 'quo_nnumanodes')
    call quo_nsockets(bad, n, ierr)
    call code(ierr, expected, 'quo_nsockets')
    call quo_ncores(bad, n, ierr)
    call code(ierr, expected, 'quo_ncores')
    call quo_npus(bad, n, ierr)
    call code(ierr, expected, 'quo_npus')
    call quo_nnodes(bad, n, ierr)
    call code(ierr, expected, 'quo_nnodes')
    call equal(n, 0, 'a count after a failure')
  end do
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_finalize(mpierr)
  call finish()

contains

  subroutine expect(place, obj_type)
    integer, intent(in) :: place
    integer(c_int), intent(in) :: obj_type
    integer(c_int) :: numbers(4), found
    read (counts, *) numbers
    call quo_nobjs_by_type(q, obj_type, found, ierr)
    call equal(found, numbers(place), 'what the machine was made with')
  end subroutine expect

  subroutine matches(obj_type, what)
    integer(c_int), intent(in) :: obj_type
    character(len=*), intent(in) :: what
    integer(c_int) :: found
    call done(ierr, what)
    call quo_nobjs_by_type(q, obj_type, found, ierr)
    call equal(n, found, what)
  end subroutine matches
end program machine
