! A world works through sizes, in Fortran: `elastic_sizes MOST START SIZE...`. After each change the contents of its
! arrays and the context that followed the change are checked on every rank.
program elastic_sizes
  use, intrinsic :: iso_c_binding
#ifdef USE_MPI_F08
  use mpi_f08
#else
  use mpi
#endif
  use quo
  use quo_elastic
  implicit none

#ifdef USE_MPI_F08
#define COMMUNICATOR type(MPI_Comm)
#else
#define COMMUNICATOR integer
#endif
  integer, parameter :: elements = 1003, rows = 37, columns = 26
  type(quo_world_options_t) :: options
  type(c_ptr) :: w, q
  COMMUNICATOR :: comm
  integer :: provided, mpi_code, failures, all_failures, words
  integer(c_int) :: ierr, status, rank, turn, state, wanted
  integer(c_long_long) :: asked
  logical :: enters, has_context
  character(len=:), allocatable :: cause

  failures = 0
  has_context = .false.
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, mpi_code)
  options%max_ranks = number(1)
  options%initial_ranks = number(2)
  options%allow_oversubscribe = .true.
  options%start_timeout = 20
  call quo_world_create(w, options, ierr)
  call need(ierr)
  call refused()
  words = command_argument_count()
  turn = 3
  asked = 0
  call quo_world_status(w, status, ierr)
  call need(ierr)
  if (status == QUO_WORLD_NEW) then
    call quo_world_rank(w, rank, ierr)
    call quo_world_back_end(w, cause, ierr)
    if (rank == 0) print '(2a)', 'with ', cause
    call add_arrays()
    call check()
  end if
  do
    call quo_world_status(w, status, ierr)
    call need(ierr)
    call quo_world_rank(w, rank, ierr)
    call need(ierr)
    call right((rank == MPI_UNDEFINED) .eqv. (status /= QUO_WORLD_NEW .and. status /= QUO_WORLD_STAYING), &
      'a process that is no rank has the rank MPI_UNDEFINED')
    if (status == QUO_WORLD_ENDED) exit
    if (status == QUO_WORLD_PARKED) then
      call quo_world_wait(w, enters, ierr)
      call need(ierr)
      if (.not. enters) exit
    else if (status == QUO_WORLD_JOINING) then
      enters = .true.
    else
      call quo_world_probe(w, enters, ierr)
      call need(ierr)
    end if
    if (enters) then
      call change()
      asked = 0
      cycle
    end if
    call quo_world_rank(w, rank, ierr)
    call quo_world_comm(w, comm, ierr)
    call need(ierr)
    if (rank == 0 .and. asked /= 0) then
      call quo_world_request_state(w, asked, state, cause, ierr)
      call need(ierr)
      if (state == QUO_REQUEST_FAILED) then
        print '(2a)', 'failed: ', cause
        turn = turn + 1
        asked = 0
      end if
    end if
    if (rank == 0 .and. asked == 0 .and. turn <= words) then
      wanted = number(int(turn))
      call quo_world_request(w, wanted, asked, ierr)
      call need(ierr)
    end if
    call MPI_Bcast(turn, 1, MPI_INTEGER, 0, comm, mpi_code)
    if (turn > words) exit
  end do
  call quo_world_status(w, status, ierr)
  if (status == QUO_WORLD_NEW .or. status == QUO_WORLD_STAYING) then
    call quo_world_comm(w, comm, ierr)
    call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, comm, mpi_code)
    if (rank == 0 .and. all_failures == 0) print '(a)', 'all is right'
  end if
  if (has_context) call quo_free(q, ierr)
  call need(ierr)
  call quo_world_end(w, ierr)
  call need(ierr)
  call MPI_Finalize(mpi_code)
  if (failures > 0) error stop 1

contains

  integer function number(position)
    integer, intent(in) :: position
    character(len=20) :: word
    call get_command_argument(position, word)
    read (word, *) number
  end function number

  subroutine need(code)
    integer(c_int), intent(in) :: code
    integer :: ignored
    if (code == QUO_SUCCESS) return
    print '(a)', quo_last_error()
    call MPI_Abort(MPI_COMM_WORLD, 99, ignored)
  end subroutine need

  subroutine right(yes, what)
    logical, intent(in) :: yes
    character(len=*), intent(in) :: what
    if (yes) return
    failures = failures + 1
    print '(2a)', 'FAILED: ', what
  end subroutine right

  !> Invalid arguments are refused with the right code, and the world still works.
  subroutine refused()
    type(quo_array_spec_t) :: spec
    call quo_world_was_started(w, enters, ierr)
    call need(ierr)
    ! A process that was started is in a resize already.
    if (enters) return
    call quo_world_begin(w, ierr)
    call right(ierr == QUO_ERR_STATE, 'begin without a resize')
    call quo_world_commit(w, ierr)
    call right(ierr == QUO_ERR_STATE, 'commit without a resize')
    call quo_world_array_remove(w, 'nothing', ierr)
    call right(ierr == QUO_ERR_NOT_FOUND, 'an array that is not there')
    call right(index(quo_last_error(), '`nothing`') > 0, 'its name')
    spec%kind = 70
    call quo_world_array_add(w, 'wrong', spec, ierr)
    call right(ierr == QUO_ERR_INVLD_ARG, 'an array of no kind')
    call quo_world_status(c_null_ptr, status, ierr)
    call right(ierr == QUO_ERR_INVLD_ARG, 'no world')
  end subroutine refused

  subroutine add_arrays()
    type(quo_array_spec_t) :: spec
    real(c_double), pointer :: vector(:)
    integer(c_int), pointer :: matrix(:)
    integer(c_size_t) :: i, row, column
    spec%columns = elements
    call quo_world_array_add(w, 'vector', spec, ierr)
    call need(ierr)
    call quo_world_array(w, 'vector', vector, ierr)
    call need(ierr)
    do i = 1, size(vector)
      call quo_world_array_origin(w, 'vector', i - 1, row, column, ierr)
      vector(i) = real(column, c_double) / 2
    end do
    spec = quo_array_spec_t(kind=QUO_ARRAY_CHECKERBOARD, element=4, rows=rows, columns=columns, &
      block_rows=4, block_columns=3)
    call quo_world_array_add(w, 'matrix', spec, ierr)
    call need(ierr)
    call quo_world_array(w, 'matrix', matrix, ierr)
    call need(ierr)
    do i = 1, size(matrix)
      call quo_world_array_origin(w, 'matrix', i - 1, row, column, ierr)
      matrix(i) = int(row * 1000 + column, c_int)
    end do
  end subroutine add_arrays

  subroutine check()
    real(c_double), pointer :: vector(:)
    integer(c_int), pointer :: matrix(:)
    integer(c_size_t) :: i, row, column
    integer(c_int) :: ranks, selected, count
    integer :: held, whole, chosen
    call quo_world_comm(w, comm, ierr)
    call need(ierr)
    call quo_world_size(w, count, ierr)
    call quo_world_array(w, 'vector', vector, ierr)
    call need(ierr)
    do i = 1, size(vector)
      call quo_world_array_origin(w, 'vector', i - 1, row, column, ierr)
      call right(abs(vector(i) - real(column, c_double) / 2) <= 0, 'an element of the vector')
    end do
    call quo_world_array(w, 'matrix', matrix, ierr)
    call need(ierr)
    do i = 1, size(matrix)
      call quo_world_array_origin(w, 'matrix', i - 1, row, column, ierr)
      call right(matrix(i) == row * 1000 + column, 'an element of the matrix')
    end do
    held = size(vector) + size(matrix)
    call MPI_Allreduce(held, whole, 1, MPI_INTEGER, MPI_SUM, comm, mpi_code)
    call right(whole == elements + rows * columns, 'all elements are there')
    if (.not. has_context) call quo_create(q, comm, ierr)
    call need(ierr)
    has_context = .true.
    call quo_barrier(q, ierr)
    call need(ierr)
    call quo_nqids(q, ranks, ierr)
    call right(ranks == count, 'the context has the ranks of the world')
    call quo_adapt(q, comm, ierr)
    call need(ierr)
    call selection(selected)
    call MPI_Allreduce(int(selected), chosen, 1, MPI_INTEGER, MPI_SUM, comm, mpi_code)
    call right(chosen == 1, 'one rank is selected for the machine')
  end subroutine check

  subroutine selection(selected)
    integer(c_int), intent(out) :: selected
    logical :: is_selected
    call quo_auto_distrib(q, QUO_OBJ_MACHINE, 1_c_int, is_selected, ierr)
    call need(ierr)
    selected = merge(1_c_int, 0_c_int, is_selected)
  end subroutine selection

  subroutine change()
    integer(c_int) :: stay, leave, join, count
    integer(c_long_long) :: epoch
    COMMUNICATOR :: everybody
    integer :: together
    call quo_world_begin(w, ierr)
    call need(ierr)
    call quo_window_broadcast(w, turn, ierr)
    call need(ierr)
    call quo_window_counts(w, stay, leave, join, ierr)
    call need(ierr)
    call quo_window_comm(w, QUO_WINDOW_ALL_RANKS, everybody, ierr)
    call need(ierr)
    call MPI_Comm_size(everybody, together, mpi_code)
    call right(together == stay + leave + join, 'everybody is in the window')
    call quo_world_commit(w, ierr)
    call need(ierr)
    turn = turn + 1
    call quo_world_status(w, status, ierr)
    if (status == QUO_WORLD_PARKED .or. status == QUO_WORLD_ENDED) return
    call quo_world_rank(w, rank, ierr)
    call quo_world_size(w, count, ierr)
    call quo_world_epoch(w, epoch, ierr)
    if (rank == 0) print '(5(a,i0),a)', 'epoch ', epoch, ' size ', count, ': ', stay, ' stay, ', leave, &
      ' leave, ', join, ' join'
    call check()
  end subroutine change
end program elastic_sizes
