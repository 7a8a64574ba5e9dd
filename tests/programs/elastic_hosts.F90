! Moves from host to host, step by step: `hosts MOST HOSTS STEP...`. HOSTS is the option of that name, a step a kind of
! request, a number of ranks, hosts to grow on and hosts to leave, '-' for none: 'grow 2 n2 -'. After each step rank 0
! prints the node of each rank. In C: bindings-c/tests/elastic/hosts.c.
program elastic_hosts
  use, intrinsic :: iso_c_binding
  use mpi
  use quo
  use quo_elastic
  implicit none

  type(quo_world_options_t) :: options
  type(c_ptr) :: w
  integer :: provided, mpi_code, own_rank, turn
  integer(c_int) :: ierr, status, state
  integer(c_long_long) :: asked
  integer :: comm
  logical :: enters, over
  character(len=128) :: word
  character(len=:), allocatable :: cause

  asked = 0
  turn = 3
  over = .false.
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, mpi_code)
  call get_command_argument(1, word)
  read (word, *) options%max_ranks
  call get_command_argument(2, word)
  options%hosts = trim(word)
  options%start_timeout = 30
  call quo_world_create(w, options, ierr)
  call need(ierr)
  do
    call quo_world_status(w, status, ierr)
    call need(ierr)
    if (status == QUO_WORLD_ENDED) exit
    enters = status == QUO_WORLD_JOINING
    if (.not. enters) call quo_world_probe(w, enters, ierr)
    call need(ierr)
    if (enters) then
      call quo_world_begin(w, ierr)
      call need(ierr)
      call quo_world_commit(w, ierr)
      call need(ierr)
      call quo_world_status(w, status, ierr)
      call need(ierr)
      if (status == QUO_WORLD_STAYING) call say()
      cycle
    end if
    call quo_world_comm(w, comm, ierr)
    call need(ierr)
    call MPI_Comm_rank(comm, own_rank, mpi_code)
    if (own_rank == 0 .and. asked /= 0) then
      call quo_world_request_state(w, asked, state, cause, ierr)
      call need(ierr)
      if (state == QUO_REQUEST_FAILED) print '(a)', 'failed'
      if (state /= QUO_REQUEST_OPEN) asked = 0
    end if
    if (own_rank == 0 .and. asked == 0) then
      over = turn > command_argument_count()
      if (.not. over) call ask()
    end if
    call MPI_Bcast(over, 1, MPI_LOGICAL, 0, comm, mpi_code)
    if (over) exit
  end do
  call quo_world_end(w, ierr)
  call need(ierr)
  call MPI_Finalize(mpi_code)

contains

  subroutine need(code)
    integer(c_int), intent(in) :: code
    if (code == QUO_SUCCESS) return
    print '(3a)', quo_strerror(code), ': ', quo_last_error()
    call MPI_Abort(MPI_COMM_WORLD, 1, mpi_code)
  end subroutine need

  subroutine ask()
    type(quo_request_spec_t) :: spec
    character(len=128) :: kind, on, from
    call get_command_argument(turn, word)
    turn = turn + 1
    read (word, *) kind, spec%ranks, on, from
    select case (kind)
    case ('grow')
      spec%kind = QUO_REQUEST_GROW
    case ('shrink')
      spec%kind = QUO_REQUEST_SHRINK
    case ('leave')
      spec%kind = QUO_REQUEST_LEAVE
    case ('move')
      spec%kind = QUO_REQUEST_MOVE
    end select
    if (on /= '-') spec%on = trim(on)
    if (from /= '-') spec%from = trim(from)
    spec%grace = 60
    call quo_world_ask(w, spec, asked, ierr)
    if (ierr == QUO_SUCCESS) return
    asked = 0
    print '(2a)', 'refused: ', quo_last_error()
    flush (6)
  end subroutine ask

  subroutine say()
    integer(c_int) :: node
    integer(c_long_long) :: epoch
    integer :: count
    integer :: nodes(64)
    call quo_world_comm(w, comm, ierr)
    call need(ierr)
    call quo_world_node(w, node, ierr)
    call need(ierr)
    call quo_world_epoch(w, epoch, ierr)
    call need(ierr)
    call MPI_Comm_rank(comm, own_rank, mpi_code)
    call MPI_Comm_size(comm, count, mpi_code)
    call MPI_Gather(node, 1, MPI_INTEGER, nodes, 1, MPI_INTEGER, 0, comm, mpi_code)
    if (own_rank /= 0) return
    print '(a,i0,a,*(1x,i0))', 'epoch ', epoch, ', nodes', nodes(:count)
    flush (6)
  end subroutine say
end program elastic_hosts
