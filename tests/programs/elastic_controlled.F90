! Iterates until it is told to stop, and takes requests from outside to change its size, in a Slurm job also onto
! nodes of another job: `controlled NAME START FOLDER MOST`. In C: bindings-c/tests/elastic/controlled.c.
program elastic_controlled
  use, intrinsic :: iso_c_binding
  use mpi
  use quo
  use quo_elastic
  implicit none

  type(quo_world_options_t) :: options
  type(c_ptr) :: w
  integer :: provided, mpi_code, own_rank, comm
  integer(c_int) :: ierr, status, turn
  logical :: enters, over, is_ready
  character(len=1024) :: word
  character(len=:), allocatable :: folder

  interface
    ! From the C library.
    function sched_yield() bind(c)
      import :: c_int
      integer(c_int) :: sched_yield
    end function sched_yield
  end interface

  turn = 0
  over = .false.
  is_ready = .false.
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, mpi_code)
  call get_command_argument(1, word)
  options%name = trim(word)
  call get_command_argument(2, word)
  read (word, *) options%initial_ranks
  call get_command_argument(3, word)
  folder = trim(word)
  call get_command_argument(4, word)
  read (word, *) options%max_ranks
  options%allow_oversubscribe = .true.
  options%log = folder//'/events'
  options%control = .true.
  options%control_folder = folder//'/sockets'
  options%slurm = quo_slurm_options_t(wait=5, command_limit=3, linger=1, watch=1)
  call quo_world_create(w, options, ierr)
  call need(ierr)
  do
    call quo_world_status(w, status, ierr)
    call need(ierr)
    if (status == QUO_WORLD_ENDED) exit
    enters = status == QUO_WORLD_JOINING
    if (status == QUO_WORLD_PARKED) then
      call quo_world_wait(w, enters, ierr)
      call need(ierr)
      if (.not. enters) exit
    else if (.not. enters) then
      call quo_world_probe(w, enters, ierr)
      call need(ierr)
    end if
    if (enters) then
      call quo_world_begin(w, ierr)
      call need(ierr)
      call quo_window_broadcast(w, turn, ierr)
      call need(ierr)
      call quo_world_commit(w, ierr)
      call need(ierr)
      cycle
    end if
    call quo_world_report_iteration(w, int(turn, c_long_long), ierr)
    call need(ierr)
    turn = turn + 1
    call quo_world_comm(w, comm, ierr)
    call need(ierr)
    call MPI_Comm_rank(comm, own_rank, mpi_code)
    if (own_rank == 0 .and. .not. is_ready) then
      is_ready = .true.
      print '(a)', 'ready'
      flush (6)
    end if
    ! Stands for the computation of an iteration, without using a core.
    status = sched_yield()
    if (own_rank == 0) inquire (file=folder//'/stop', exist=over)
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
end program elastic_controlled
