! Cross-process memory as array pointers.
program memory
  use check
  use mpi
  use quo
  implicit none
  integer(c_size_t), parameter :: N = 6
  integer :: mpierr, i
  integer(c_int) :: ierr, nqids, qid, next, expected
  type(c_ptr) :: q, xpm, other, bad
  type(quo_xpm_view_t) :: block
  integer(c_int8_t), pointer :: bytes(:)
  integer(c_int32_t), pointer :: ints(:)
  integer(c_int64_t), pointer :: longs(:)
  real(c_float), pointer :: floats(:)
  real(c_double), pointer :: doubles(:), whole(:), table(:, :)
  complex(c_float_complex), pointer :: small_complex(:)
  complex(c_double_complex), pointer :: large_complex(:)

  call mpi_init(mpierr)
  call quo_create(q, MPI_COMM_WORLD, ierr)
  call done(ierr, 'quo_create')
  call quo_nqids(q, nqids, ierr)
  call quo_id(q, qid, ierr)
  next = mod(qid + 1, nqids)

  call quo_xpm_allocate(q, N * c_sizeof(1.0_c_double), xpm, ierr)
  call done(ierr, 'quo_xpm_allocate')
  call quo_xpm_view_local(xpm, block, ierr)
  call done(ierr, 'a raw view')
  call true(block%extent == 8 * N .and. c_associated(block%base), 'where and how long')
  call quo_xpm_view_local(xpm, doubles, ierr)
  call done(ierr, 'quo_xpm_view_local')
  call equal(size(doubles, kind=c_int), int(N, c_int), 'elements')
  call true(all(nint(doubles) == 0), 'zeros at first')
  doubles = [(100 * real(qid, c_double) + i, i=1, int(N))]
  call quo_barrier(q, ierr)

  ! Another rank's block, and all blocks as one.
  call quo_xpm_view_by_qid(xpm, next, doubles, ierr)
  call done(ierr, 'quo_xpm_view_by_qid')
  call true(all(nint(doubles) == [(100 * next + i, i=1, int(N))]), 'what the next wrote')
  call quo_xpm_view_by_qid(xpm, next, block, ierr)
  call done(ierr, 'a raw view')
  call quo_xpm_view_by_qid_range(xpm, 0, nqids - 1, whole, ierr)
  call done(ierr, 'quo_xpm_view_by_qid_range')
  call equal(size(whole, kind=c_int), int(N, c_int) * nqids, 'all elements')
  table(1:N, 0:nqids - 1) => whole
  call true(all(nint(table(1, :)) == [(100 * i + 1, i=0, nqids - 1)]), 'a column per rank')
  call quo_xpm_view_by_qid_range(xpm, 0, nqids - 1, block, ierr)
  call true(block%extent == 8 * N * nqids, 'a raw view of all')

  ! The other types; 48 bytes are a whole number of each.
  call quo_xpm_view_local(xpm, bytes, ierr)
  call done(ierr, 'bytes')
  call quo_xpm_view_local(xpm, ints, ierr)
  call done(ierr, '32-bit integers')
  call quo_xpm_view_local(xpm, longs, ierr)
  call done(ierr, '64-bit integers')
  call quo_xpm_view_local(xpm, floats, ierr)
  call done(ierr, 'single precision')
  call quo_xpm_view_local(xpm, small_complex, ierr)
  call done(ierr, 'single precision complex')
  call quo_xpm_view_local(xpm, large_complex, ierr)
  call done(ierr, 'double precision complex')
  call true(all([size(bytes), size(ints), size(longs), size(floats), size(small_complex), &
    size(large_complex)] == [48, 12, 6, 12, 6, 3]), 'elements of each type')
  call true(nint(real(large_complex(1))) == 100 * qid + 1, 'the same memory')
  call quo_xpm_view_by_qid(xpm, next, bytes, ierr)
  call done(ierr, 'bytes of the next')
  call quo_xpm_view_by_qid(xpm, next, ints, ierr)
  call done(ierr, '32-bit integers of the next')
  call quo_xpm_view_by_qid(xpm, next, longs, ierr)
  call done(ierr, '64-bit integers of the next')
  call quo_xpm_view_by_qid(xpm, next, floats, ierr)
  call done(ierr, 'single precision of the next')
  call quo_xpm_view_by_qid(xpm, next, small_complex, ierr)
  call done(ierr, 'single precision complex of the next')
  call quo_xpm_view_by_qid(xpm, next, large_complex, ierr)
  call done(ierr, 'double precision complex of the next')
  call true(nint(real(large_complex(1))) == 100 * next + 1, 'its memory')
  call quo_xpm_view_by_qid_range(xpm, qid, qid, bytes, ierr)
  call done(ierr, 'a range of bytes')
  call quo_xpm_view_by_qid_range(xpm, qid, qid, ints, ierr)
  call done(ierr, 'a range of 32-bit integers')
  call quo_xpm_view_by_qid_range(xpm, qid, qid, longs, ierr)
  call done(ierr, 'a range of 64-bit integers')
  call quo_xpm_view_by_qid_range(xpm, qid, qid, floats, ierr)
  call done(ierr, 'a range of single precision')
  call quo_xpm_view_by_qid_range(xpm, qid, qid, small_complex, ierr)
  call done(ierr, 'a range of single precision complex')
  call quo_xpm_view_by_qid_range(xpm, qid, qid, large_complex, ierr)
  call done(ierr, 'a range of double precision complex')

  ! Blocks of different lengths, one of them empty, none a number of doubles.
  call quo_xpm_allocate(q, merge(0_c_size_t, 12_c_size_t, qid == 0), other, ierr)
  call done(ierr, 'blocks of different lengths')
  call quo_xpm_view_local(other, ints, ierr)
  call done(ierr, 'three integers, or none')
  call equal(size(ints, kind=c_int), merge(0, 3, qid == 0), 'elements')
  call quo_xpm_view_local(other, doubles, ierr)
  call code(ierr, merge(QUO_SUCCESS, QUO_ERR_INVLD_ARG, qid == 0), 'one and a half elements')
  if (qid > 0) then
    call true(.not. associated(doubles), 'no view after a failure')
    call says('12 bytes')
    call says('elements of 8 bytes')
  end if
  if (nqids > 2) then
    ! 24 bytes are three doubles, but begin in the middle of one.
    call quo_xpm_view_by_qid_range(other, 1, 2, doubles, ierr)
    call done(ierr, 'an aligned range')
    if (nqids > 3) then
      call quo_xpm_view_by_qid_range(other, 2, 3, doubles, ierr)
      call code(ierr, QUO_ERR_INVLD_ARG, 'a range that is not aligned')
      call says('multiple of 8')
    end if
  end if
  call quo_xpm_free(other, ierr)
  call done(ierr, 'quo_xpm_free')

  ! Among some ranks.
  call quo_xpm_allocate_by_qids(q, [qid], 16_c_size_t, other, ierr)
  call done(ierr, 'quo_xpm_allocate_by_qids')
  call quo_xpm_view_by_qid(other, qid, longs, ierr)
  call done(ierr, 'a block of my own')
  if (nqids > 1) then
    call quo_xpm_view_by_qid(other, next, longs, ierr)
    call code(ierr, QUO_ERR_INVLD_ARG, 'who does not share')
  end if
  call quo_xpm_free(other, ierr)
  call done(ierr, 'quo_xpm_free')
  call quo_xpm_free(other, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'freed twice')
  call quo_xpm_view_local(other, longs, ierr)
  call code(ierr, QUO_ERR_INVLD_HANDLE, 'a view of what was freed')
  call quo_xpm_free(c_null_ptr, ierr)
  call done(ierr, 'nothing to free')

  ! Bad input.
  call quo_xpm_view_by_qid(xpm, nqids, doubles, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a qid that is not there')
  call true(.not. associated(doubles), 'no view after a failure')
  call quo_xpm_view_by_qid_range(xpm, 1, 0, doubles, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a reversed range')
  call quo_xpm_view_by_qid_range(xpm, 1, 0, block, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'a reversed range')
  call true(.not. c_associated(block%base) .and. block%extent == 0, 'no view after a failure')
  call quo_xpm_allocate_by_qids(q, [qid, qid], 8_c_size_t, other, ierr)
  call code(ierr, QUO_ERR_INVLD_ARG, 'given twice')
  call quo_xpm_allocate(q, -1_c_size_t, other, ierr)
  call code(ierr, QUO_ERR_OOR, 'a negative size')
  call true(.not. c_associated(other), 'no handle')
  do i = 1, 3
    call bad_handles(i, bad, expected)
    call quo_xpm_allocate(bad, 8_c_size_t, other, ierr)
    call code(ierr, expected, 'quo_xpm_allocate')
    call quo_xpm_allocate_by_qids(bad, [qid], 8_c_size_t, other, ierr)
    call code(ierr, expected, 'quo_xpm_allocate_by_qids')
    call quo_xpm_view_local(bad, doubles, ierr)
    call code(ierr, expected, 'quo_xpm_view_local')
    call quo_xpm_view_by_qid(bad, 0, doubles, ierr)
    call code(ierr, expected, 'quo_xpm_view_by_qid')
    call quo_xpm_view_by_qid_range(bad, 0, 0, doubles, ierr)
    call code(ierr, expected, 'quo_xpm_view_by_qid_range')
    call quo_xpm_free(bad, ierr)
    if (i > 1) call code(ierr, expected, 'quo_xpm_free')
  end do

  ! The memory outlives the context.
  call quo_barrier(q, ierr)
  call quo_free(q, ierr)
  call done(ierr, 'quo_free')
  whole(1 + qid * N) = -1
  call quo_xpm_free(xpm, ierr)
  call done(ierr, 'quo_xpm_free')
  call mpi_finalize(mpierr)
  call finish()
end program memory
