! Locations of the ranks.
program ranks
  use check
  use mpi
  use quo
  implicit none
  integer :: mpierr, rank, total, i
  integer(c_int) :: ierr, n, qid, npus, expected
  integer(c_int), allocatable :: qids(:)
  logical :: answer
  type(c_ptr) :: q, bad
  character(len=:), allocatable :: text, mine, whole

  call mpi_init(mpierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, mpierr)
  call mpi_comm_size(MPI_COMM_WORLD, total, mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')

  call quo_nqids(q, n, ierr)
  call done(ierr, 'quo_nqids')
  call equal(n, int(total, c_int), 'the ranks of the node')
  call quo_id(q, qid, ierr)
  call done(ierr, 'quo_id')
  call equal(qid, int(rank, c_int), 'qids follow ranks')

  ! Bound to the first CPU, all ranks are there.
  call quo_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0, ierr)
  call done(ierr, 'quo_bind_push')
  call quo_barrier(q, ierr)
  call quo_cpuset_in_type(q, QUO_OBJ_PU, 0, answer, ierr)
  call done(ierr, 'quo_cpuset_in_type')
  call true(answer, 'on the first PU')
  call quo_qids_in_type(q, QUO_OBJ_PU, 0, qids, ierr)
  call done(ierr, 'quo_qids_in_type')
  call equal(size(qids, kind=c_int), n, 'all on the first PU')
  if (size(qids) == n) call true(all(qids == [(int(i, c_int), i=0, n - 1)]), 'all, ascending')
  call quo_cpuset_of_type(q, QUO_OBJ_PU, 0, whole, ierr)
  call quo_stringify_cbind(q, mine, ierr)
  call done(ierr, 'quo_stringify_cbind')
  call same(mine, whole, 'the binding as text')
  call quo_stringify_cbind_of(q, n - 1, text, ierr)
  call done(ierr, 'quo_stringify_cbind_of')
  call same(text, whole, 'the binding of another')
  call quo_bound(q, answer, ierr)
  call done(ierr, 'quo_bound')
  call quo_npus(q, npus, ierr)
  call true(answer .eqv. npus > 1, 'bound')
  if (npus > 1) then
    call quo_cpuset_in_type(q, QUO_OBJ_PU, npus - 1, answer, ierr)
    call true(.not. answer, 'not on the last PU')
    call quo_qids_in_type(q, QUO_OBJ_PU, npus - 1, qids, ierr)
    call done(ierr, 'quo_qids_in_type')
    call true(allocated(qids), 'a list of nobody')
    call equal(size(qids, kind=c_int), 0, 'nobody on the last PU')
  end if
  call quo_explain(q, .false., text, ierr)
  call done(ierr, 'quo_explain')
  call true(index(text, new_line('a')) > 0, 'lines for people')
  call quo_explain(q, .true., text, ierr)
  call done(ierr, 'quo_explain')
  call same(text(1:1), '{', 'an object of JSON')
  call quo_barrier(q, ierr)
  call quo_bind_pop(q, ierr)
  call done(ierr, 'quo_bind_pop')

  ! Bad input.
  call quo_cpuset_in_type(q, 55, 0, answer, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'an unknown type')
  call true(.not. answer, 'false after a failure')
  call quo_qids_in_type(q, QUO_OBJ_CORE, -3, qids, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a negative index')
  call says('-3')
  call equal(size(qids, kind=c_int), 0, 'no qids after a failure')
  ! As in programs that check no code.
  deallocate (qids)
  call quo_stringify_cbind_of(q, n, text, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a qid that is not there')
  call same(text, '', 'an empty text after a failure')
  do i = 1, 3
    call bad_handles(i, bad, expected)
    call quo_nqids(bad, n, ierr)
    call code(ierr, expected, 'quo_nqids')
    call equal(n, 0, 'a count after a failure')
    call quo_id(bad, qid, ierr)
    call code(ierr, expected, 'quo_id')
    call equal(qid, -1, 'a qid after a failure')
    call quo_cpuset_in_type(bad, QUO_OBJ_PU, 0, answer, ierr)
    call code(ierr, expected, 'quo_cpuset_in_type')
    call quo_qids_in_type(bad, QUO_OBJ_PU, 0, qids, ierr)
    call code(ierr, expected, 'quo_qids_in_type')
    call quo_bound(bad, answer, ierr)
    call code(ierr, expected, 'quo_bound')
    call quo_stringify_cbind(bad, text, ierr)
    call code(ierr, expected, 'quo_stringify_cbind')
    call quo_stringify_cbind_of(bad, 0, text, ierr)
    call code(ierr, expected, 'quo_stringify_cbind_of')
    call quo_explain(bad, .false., text, ierr)
    call code(ierr, expected, 'quo_explain')
  end do
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  call mpi_finalize(mpierr)
  call finish()
end program ranks
