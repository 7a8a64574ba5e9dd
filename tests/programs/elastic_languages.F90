! The elastic world as one program in Rust, C and Fortran, which prints the same in each: options, requests, events,
! a move in the background, process sets, and resizes by them. Four processes, two of them parked at first.
! In C: bindings-c/tests/elastic/languages.c; in Rust: elastic/examples/languages.rs.
module languages_events
  use quo_elastic
  implicit none
  integer :: heard = 0
contains
  !> Counts events.
  subroutine on_any_event(event)
    type(quo_event_t), intent(in) :: event
    if (allocated(event%json)) heard = heard + 1
  end subroutine on_any_event

  !> Counts events whose numbers have no gaps.
  subroutine on_event(event, data)
    type(quo_event_t), intent(in) :: event
    class(*), intent(inout) :: data
    select type (data)
    type is (integer)
      if (event%number == data) data = data + 1
    end select
  end subroutine on_event
end module languages_events

program elastic_languages
  use, intrinsic :: iso_c_binding
  use mpi
  use quo
  use quo_elastic
  use languages_events
  implicit none

  interface
    function c_raise(number) result(code) bind(c, name="raise")
      import :: c_int
      implicit none
      integer(c_int), value :: number
      integer(c_int) :: code
    end function c_raise
  end interface

  integer(c_int), parameter :: SIGTERM = 15
  integer, parameter :: elements = 1000
  real(c_double), parameter :: patience = 60
  character(len=*), parameter :: main = 'mpi://app/parity'
  type(quo_world_options_t) :: options
  type(c_ptr) :: w
  integer :: provided, mpi_code
  integer, target :: seen
  integer(c_int) :: ierr, status, most, number
  integer(c_long_long) :: epoch
  logical :: enters
  character(len=:), allocatable :: set, names(:), made, hint, bytes, delta, told

  seen = 0
  call MPI_Init_thread(MPI_THREAD_SINGLE, provided, mpi_code)
  options%initial_ranks = 2
  options%name = 'parity'
  options%process_sets = .true.
  options%min_size = 2
  options%max_size = 4
  options%allowed_sizes = '2,4'
  options%hosts = 'n1:2,n2:2'
  options%connect_timeout = 1
  options%slurm = quo_slurm_options_t(wait=10)
  options%term_notice = 600
  options%notice_folder = '/'
  call quo_world_create(w, options, ierr)
  call right(ierr == QUO_ERR_INVLD_ARG, 'a folder that others can open')
  call right(index(quo_last_error(), 'notices: the folder /') > 0, quo_last_error())
  deallocate (options%notice_folder)
  options%placement = 'random'
  call quo_world_create(w, options, ierr)
  call right(index(quo_last_error(), 'stack, round-robin or least-loaded') > 0, quo_last_error())
  options%placement = 'least-loaded'
  call quo_world_create(w, options, ierr)
  call need(ierr)
  call quo_world_on_event(w, on_any_event, ierr)
  call need(ierr)
  call quo_world_status(w, status, ierr)
  call need(ierr)
  if (status == QUO_WORLD_NEW) then
    call quo_world_size(w, number, ierr)
    call quo_world_capacity(w, most, ierr)
    if (own_rank() == 0) print '(2(a,i0),a)', 'world: ', number, ' of ', most, ' ranks'
    call add_vector()
    call heard_events()
    if (own_rank() == 0) call sets()
    if (own_rank() == 0) call ask()
    call MPI_Barrier(comm(), mpi_code)
  end if
  do
    call quo_world_status(w, status, ierr)
    call need(ierr)
    call quo_world_epoch(w, epoch, ierr)
    call need(ierr)
    if (status == QUO_WORLD_PARKED) then
      call quo_world_wait(w, enters, ierr)
      call need(ierr)
      if (.not. enters) exit
      call quo_world_epoch(w, epoch, ierr)
      if (epoch == 2) then
        call quo_world_confirm(w, patience, set, ierr)
        call need(ierr)
        call right(set == main, 'another set')
      end if
      call change(epoch == 0, .false.)
    else if (epoch == 1) then
      call resize(QUO_REQUEST_SHRINK)
    else if (epoch == 2) then
      call resize(QUO_REQUEST_GROW)
    else
      call quo_world_probe(w, enters, ierr)
      call need(ierr)
      if (enters) then
        call change(.true., .true.)
      else if (epoch == 3) then
        exit
      end if
    end if
  end do
  if (status /= QUO_WORLD_PARKED) then
    if (own_rank() == 0) call events()
  end if
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

  subroutine right(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    print '(2a)', 'wrong: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, mpi_code)
  end subroutine right

  integer(c_int) function own_rank()
    call quo_world_rank(w, own_rank, ierr)
    call need(ierr)
  end function own_rank

  integer function comm()
    call quo_world_comm(w, comm, ierr)
    call need(ierr)
  end function comm

  integer function one(truth)
    logical, intent(in) :: truth
    one = merge(1, 0, truth)
  end function one

  ! The event procedure is replaced by another one, with data; no event is lost.
  subroutine heard_events()
    call quo_world_probe(w, enters, ierr)
    call need(ierr)
    call right(merge(heard > 0, heard == 0, own_rank() == 0), 'the first events')
    call quo_world_on_event(w, ierr)
    call need(ierr)
    call quo_world_on_event(w, on_event, seen, ierr)
    call need(ierr)
  end subroutine heard_events

  subroutine add_vector()
    real(c_double), pointer :: vector(:)
    integer(c_size_t) :: i, row, column
    call quo_world_array_add(w, 'vector', quo_array_spec_t(columns=int(elements, c_size_t)), ierr)
    call need(ierr)
    call quo_world_array(w, 'vector', vector, ierr)
    call need(ierr)
    do i = 1, size(vector, kind=c_size_t)
      call quo_world_array_origin(w, 'vector', i - 1, row, column, ierr)
      call need(ierr)
      vector(i) = real(column + 1, c_double)
    end do
  end subroutine add_vector

  real(c_double) function own_sum()
    real(c_double), pointer :: vector(:)
    call quo_world_array(w, 'vector', vector, ierr)
    call need(ierr)
    own_sum = sum(vector)
  end function own_sum

  ! What every rank prints after a resize.
  subroutine say_world()
    real(c_double) :: mine, all
    integer(c_int) :: ranks
    mine = own_sum()
    call MPI_Allreduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, comm(), mpi_code)
    call quo_world_epoch(w, epoch, ierr)
    call quo_world_size(w, ranks, ierr)
    call need(ierr)
    if (own_rank() == 0) print '(3(a,i0))', 'epoch ', epoch, ': ', ranks, ' ranks, sum ', nint(all)
  end subroutine say_world

  subroutine say_set(name)
    character(len=*), intent(in) :: name
    type(quo_pset_info_t) :: info
    integer(c_long_long), allocatable :: members(:)
    call quo_pset_info(w, name, info, ierr)
    call need(ierr)
    call quo_pset_members(w, name, members, ierr)
    call need(ierr)
    print '(a,6(a,i0),a,*(1x,i0))', name, ': version ', info%version, ', epoch ', info%epoch, ', active ', &
      one(info%active), ', dynamic ', one(info%dynamic), ', included ', one(info%included), ', members ', &
      info%members, ':', members
  end subroutine say_set

  ! On rank 0: the algebra of sets, hints, and values stored with them.
  subroutine sets()
    character(len=*), parameter :: others = 'mpi://app/parity/others', parts = 'mpi://app/parity/parts'
    integer(c_long_long) :: member, version, publisher
    integer :: i
    call quo_pset_member(w, member, ierr)
    call need(ierr)
    call quo_pset_names(w, names, ierr)
    call need(ierr)
    print '(a,i0,a,*(1x,a))', 'member ', member, ' sees', (trim(names(i)), i=1, size(names))
    call say_set(main)
    call quo_pset_operate(w, QUO_PSET_DIFFERENCE, main, 'mpi://SELF', made, ierr, target=others, &
      attributes=quo_pset_change_t(-1, 'mpi_ps_sched_opt=2'//achar(10)//'mpi_ps_sched_note=a b'))
    call need(ierr)
    print '(2a)', 'made ', made
    call say_set(others)
    call quo_pset_hint(w, others, 'mpi_ps_sched_note', hint, ierr)
    call need(ierr)
    print '(2a)', 'hint ', hint
    call quo_pset_update(w, others, quo_pset_change_t(1, 'mpi_ps_sched_note'), ierr)
    call need(ierr)
    call quo_pset_hint(w, others, 'mpi_ps_sched_note', hint, ierr)
    call right(ierr == QUO_ERR_NOT_FOUND, 'a hint that was taken')
    call quo_pset_operate(w, QUO_PSET_UNION, others, 'mpi://SELF', made, ierr, target=others)
    call need(ierr)
    call say_set(others)
    call quo_pset_operate(w, QUO_PSET_DIFFERENCE, others, main, made, ierr)
    call right(ierr == QUO_ERR_REFUSED, 'a set of nobody')
    call quo_pset_split(w, main, [1_c_long_long, 1_c_long_long], parts, names, ierr)
    call need(ierr)
    print '(a,*(1x,a))', 'parts', (trim(names(i)), i=1, size(names))
    call quo_pset_split(w, main, [1_c_long_long], parts, names, ierr)
    call right(ierr == QUO_ERR_INVLD_ARG .and. size(names) == 0, 'parts that are not all')
    call quo_pset_prune(w, main, ierr)
    call right(ierr == QUO_ERR_REFUSED, 'a set in use was pruned')
    call quo_pset_update(w, 'mpi://app/parity/none', quo_pset_change_t(), ierr)
    call right(ierr == QUO_ERR_NOT_FOUND, 'no such set')
    call quo_pset_publish(w, main, 'greeting', 'hello', ierr, version)
    call need(ierr)
    call quo_pset_lookup(w, main, 'greeting', 0.0_c_double, bytes, ierr, version, publisher)
    call need(ierr)
    print '(3a,i0,a,i0)', 'found ', bytes, ', version ', version, ' of ', publisher
    call quo_pset_withdraw(w, main, 'greeting', ierr)
    call need(ierr)
    call quo_pset_lookup(w, main, 'greeting', 0.01_c_double, bytes, ierr)
    call right(ierr == QUO_ERR_TIMEOUT, 'what was withdrawn is there')
  end subroutine sets

  ! On rank 0, while no rank probes.
  subroutine ask()
    type(quo_request_spec_t) :: spec
    integer(c_long_long) :: request, after
    integer(c_int) :: step, state
    character(len=:), allocatable :: cause
    spec%ranks = 3
    call quo_world_ask(w, spec, request, ierr)
    call right(ierr == QUO_ERR_REFUSED, 'a size that is not allowed')
    call quo_world_request_state(w, request, state, cause, ierr)
    call need(ierr)
    print '(a,i0,2a)', 'request ', request, ' failed: ', cause
    call quo_world_note(w, QUO_CAUSE_MANAGER, 'a word', ierr)
    call need(ierr)
    spec%kind = QUO_REQUEST_GROW
    spec%ranks = 2
    spec%grace = 600
    spec%origin = 'program'
    call quo_world_ask(w, spec, request, ierr, after)
    call need(ierr)
    print '(2(a,i0))', 'request ', request, ' comes after ', after
    do
      call quo_world_request_step(w, request, step, ierr)
      call need(ierr)
      if (step >= QUO_EVENT_ANNOUNCED) exit
    end do
    spec%kind = QUO_REQUEST_SHRINK
    call quo_world_ask(w, spec, request, ierr, after)
    call need(ierr)
    print '(2(a,i0))', 'request ', request, ' comes after ', after
    call quo_world_cancel(w, request, ierr)
    call need(ierr)
    call quo_world_request_state(w, request, state, cause, ierr)
    call need(ierr)
    print '(a,i0,2a)', 'request ', request, ' failed: ', cause
    call quo_world_cancel(w, request, ierr)
    call right(ierr == QUO_ERR_REFUSED, 'cancelled twice')
    call quo_world_cancel(w, 99_c_long_long, ierr)
    call right(ierr == QUO_ERR_NOT_FOUND, 'no such request')
  end subroutine ask

  ! The window of a resize; in the first one the arrays move in the background.
  subroutine change(is_first, is_old)
    logical, intent(in) :: is_first, is_old
    integer(c_int) :: stay, leave, join, turn, node
    real(c_double) :: before
    logical :: done
    turn = 0
    if (is_old) turn = 7
    call quo_world_begin(w, ierr)
    call need(ierr)
    call quo_window_counts(w, stay, leave, join, ierr)
    call need(ierr)
    call quo_window_broadcast(w, turn, ierr)
    call need(ierr)
    call right(turn == 7, 'what rank 0 told')
    call quo_world_node(w, node, ierr)
    call need(ierr)
    call right(node == 0, 'another node')
    if (is_first) then
      before = 0
      call quo_window_move_begin(w, ierr)
      call need(ierr)
      do
        if (is_old) before = before + own_sum()
        call quo_window_move_test(w, done, ierr)
        call need(ierr)
        if (done) exit
      end do
      call right(before > 0 .or. .not. is_old, 'the arrays as they were')
      call quo_window_move_end(w, ierr)
      call need(ierr)
    end if
    call quo_world_commit(w, ierr)
    call need(ierr)
    call quo_world_status(w, status, ierr)
    call need(ierr)
    if (status /= QUO_WORLD_STAYING) return
    if (own_rank() == 0) print '(3(a,i0),a)', 'window: ', stay, ' stay, ', leave, ' leave, ', join, ' join'
    call say_world()
  end subroutine change

  ! A resize by process sets, by the ranks: it is done at the end.
  subroutine resize(kind)
    integer(c_int), intent(in) :: kind
    type(quo_pset_view_t) :: view
    integer(c_int) :: acceptance, op
    integer(c_long_long) :: request
    delta = ''
    if (own_rank() == 0) then
      call quo_world_ask(w, quo_request_spec_t(kind=kind, ranks=2), request, ierr)
      call need(ierr)
      do
        call quo_pset_query(w, main, view, delta, ierr)
        call need(ierr)
        if (view%kind /= QUO_PSET_NO_CHANGE) exit
      end do
      print '(4(a,i0))', 'request ', view%request, ' is of kind ', view%kind, ' at step ', view%step, &
        ', included ', one(view%included)
      op = merge(QUO_PSET_UNION, QUO_PSET_DIFFERENCE, kind == QUO_REQUEST_GROW)
      call quo_pset_operate(w, op, main, delta, made, ierr, target=main)
      call need(ierr)
    end if
    call MPI_Barrier(comm(), mpi_code)
    call quo_world_accept(w, delta, main, patience, acceptance, told, ierr)
    call need(ierr)
    call right(acceptance == QUO_ACCEPT_ENTERS, 'nobody enters')
    if (own_rank() == 0) print '(2a)', 'entered with ', told
    call change(.false., .true.)
  end subroutine resize

  ! On rank 0, at the end: the steps of each request, and the notice.
  subroutine events()
    integer, parameter :: most_events = 200
    type(quo_event_t) :: event
    type(quo_progress_t) :: progress
    logical :: found, came(0:QUO_EVENT_ABORTED, 0:5)
    integer :: count, request, kind
    character(len=:), allocatable :: report
    came = .false.
    count = 0
    do
      call quo_world_next_event(w, event, found, ierr)
      call need(ierr)
      if (.not. found .or. count == most_events) exit
      if (event%kind == QUO_EVENT_NOTICE) print '(a,i0,2a)', 'notice ', event%cause, ': ', event%text
      came(event%kind, event%request) = .true.
      count = count + 1
    end do
    do request = 1, 5
      print '(a,i0,a,*(1x,i0))', 'request ', request, ':', &
        pack([(kind, kind=0, QUO_EVENT_ABORTED)], came(:, request))
    end do
    print '(a,i0)', 'all events were brought: ', one(seen == count)
    progress%iteration = 20
    progress%iteration_seconds = -0.5_c_double
    call quo_world_report_progress(w, progress, ierr)
    print '(a,i0)', 'refused: ', one(ierr == QUO_ERR_INVLD_ARG)
    progress%iteration_seconds = 1.5_c_double
    progress%mpi_ratio = 0.25_c_double
    call quo_world_report_progress(w, progress, ierr)
    call need(ierr)
    call quo_world_job_status(w, report, ierr)
    call need(ierr)
    print '(a,i0)', 'measured: ', one(index(report, '"report":{"iteration":20,"iteration_seconds":1.5,') > 0 &
      .and. index(report, '"redistribution_seconds":') > 0 .and. index(report, '"mpi_ratio":0.25,') > 0 &
      .and. index(report, '"remaining_seconds"') == 0)
    print '(a,i0)', 'limits: ', &
      one(index(report, '"limits":{"min":2,"max":4,"allowed":{"one_of":[2,4]}}') > 0)
    ! A notice.
    call right(c_raise(SIGTERM) == 0, 'a signal')
    print '(a,i0)', 'reported: ', one(index(report, '"job":"parity"') > 0 .and. index(report, '"size":4') > 0)
  end subroutine events
end program elastic_languages
