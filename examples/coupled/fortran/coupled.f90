!> The coupled program in Fortran: driver and L0 in Fortran, L1 in C.
!>
!>     coupled-fortran DECK [--fields FILE]
!>
!> DECK is what `coupled-demo namelist` prints. Ends with the same bits as the Rust program.
program coupled
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit, real64
  use caller_driven, only: driver, outcome, usage
  use coupled_deck, only: deck, read_deck
  use coupled_fields, only: checksum, gather_fields, total, write_fields
  use diffusion_solver, only: failure_text, problem
  use flow_block, only: block_of_rows, depth, heat
  use flow_halo, only: fill_ghost_rows
  use message_passing, only: by_node, finish, ranks, start
  implicit none

  type(ranks) :: world, all, node
  type(deck) :: plan
  type(block_of_rows) :: part
  type(driver) :: way
  character(len=:), allocatable :: message, deck_file, fields_file
  real(real64), allocatable :: before(:, :, :), after(:, :, :)
  real(real64) :: seconds = 0 ! of the time-step loop
  real(real64) :: l1_seconds = 0, l1_cpu_seconds = 0 ! of this rank in L1, asleep or not
  integer :: iterations

  call start(world)
  call read_arguments(message)
  call leave_if(message, 2)
  call read_deck(deck_file, world, plan, message)
  call leave_if(message, 2)

  call by_node(world, all, node)
  call part%set_up(plan%grid, all%rank, all%size, plan%gravity, plan%start)
  call way%set_up(problem(plan%grid, plan%kappa, plan%tolerance, plan%max_iterations), all, node, part, &
    trim(plan%over), plan%max, message)
  call leave_if(message, 1)
  call gather_fields(part, all, before)
  call advance(message)
  call leave_if(message, 1)
  call gather_fields(part, all, after)
  call write_result(message)
  call leave_if(message, 1)
  call tell_usage()
  call way%finish()
  call finish()

contains

  !> Reads the command line, which is the same on every rank.
  subroutine read_arguments(message)
    character(len=:), allocatable, intent(out) :: message
    character(len=:), allocatable :: word
    integer :: k

    message = ''
    deck_file = ''
    fields_file = ''
    k = 0
    do while (k < command_argument_count())
      word = next(k)
      select case (word)
      case ('--fields')
        fields_file = next(k)
      case default
        if (deck_file /= '' .or. index(word, '-') == 1) message = 'unexpected argument '//word
        deck_file = word
      end select
    end do
    if (deck_file == '') message = 'no deck was given'
  end subroutine read_arguments

  function next(k) result(word)
    integer, intent(inout) :: k
    character(len=:), allocatable :: word
    integer :: length

    k = k + 1
    call get_command_argument(k, length=length)
    allocate (character(len=length) :: word)
    call get_command_argument(k, word)
  end function next

  !> The time-step loop.
  subroutine advance(message)
    character(len=:), allocatable, intent(out) :: message
    type(outcome) :: done
    character(len=80) :: place
    integer(int64) :: began, ended, l1_began, rate
    real(real64) :: fastest, dt, since, cpu_began, cpu_ended
    integer :: step

    message = ''
    iterations = 0
    since = 0
    call all%barrier()
    call system_clock(began, rate)
    do step = 1, plan%steps
      call fill_ghost_rows(part, all)
      call part%derive(fastest)
      fastest = all%largest(fastest)
      if (.not. (fastest > 0 .and. fastest <= huge(fastest))) then
        message = 'the flow has become unstable'
        return
      end if
      dt = plan%cfl / fastest
      call part%advance(dt)
      since = since + dt
      if (mod(step, plan%every) /= 0 .and. step /= plan%steps) cycle
      call system_clock(l1_began)
      call cpu_time(cpu_began)
      call way%diffuse(part, since, done, message)
      call cpu_time(cpu_ended)
      call system_clock(ended)
      l1_seconds = l1_seconds + real(ended - l1_began, real64) / real(rate, real64)
      l1_cpu_seconds = l1_cpu_seconds + (cpu_ended - cpu_began)
      if (done%code /= 0) then
        if (message == '') message = failure_text(done%code)
        write (place, '(a,i0,a)') 'after ', step, ' steps: '
        message = trim(place)//' '//message
        return
      end if
      iterations = iterations + done%iterations
      since = 0
    end do
    call all%barrier()
    call system_clock(ended)
    seconds = real(ended - began, real64) / real(rate, real64)
  end subroutine advance

  !> Writes the fields, if that was asked for, and says in a few lines how it went.
  subroutine write_result(message)
    character(len=:), allocatable, intent(out) :: message
    character(len=200) :: trouble
    type(usage) :: own
    integer :: status, workers, threads

    message = ''
    own = way%used
    workers = all%total(merge(1, 0, own%threads > 0))
    threads = all%worst(own%threads)
    if (all%rank /= 0) return
    if (fields_file /= '') then
      call write_fields(fields_file, after, status, trouble)
      if (status /= 0) then
        message = fields_file//' cannot be written: '//trim(trouble)
        return
      end if
    end if
    write (output_unit, '(3a,i0,a,i0,a,i0,a,i0,a)') 'fortran: ', decimal(seconds), ' s on ', all%size, &
      ' ranks, L1 on ', workers, ' x ', threads, ' threads, ', iterations, ' iterations'
    write (output_unit, '(a,es9.1,a,es9.1,a,a)') 'water kept to', drift(depth), ', heat to', drift(heat), &
      ', checksum ', checksum(after)
  end subroutine write_result

  !> Relative change of the total of a field.
  real(real64) function drift(field)
    integer, intent(in) :: field
    real(real64) :: old, new

    old = total(before(:, :, field))
    new = total(after(:, :, field))
    drift = merge(abs(new), (new - old) / old, .not. abs(old) > 0)
  end function drift

  !> Says in one line for each rank what it did while L1 ran, and how much CPU time that took: a
  !> rank that sleeps takes none.
  subroutine tell_usage()
    type(usage) :: own
    character(len=400) :: line, lines(all%size)
    integer :: rank

    own = way%used
    if (own%threads > 0) then
      write (line, '(a,i0,a,i0,a,a)') 'rank ', all%rank, ': L1 with ', own%threads, ' threads on CPUs ', &
        trim(own%cpus)
    else
      write (line, '(a,i0,a)') 'rank ', all%rank, ': asleep'
    end if
    line = trim(line)//' for '//decimal(l1_seconds)//' s, CPU time '//decimal(l1_cpu_seconds)//' s'
    call all%tell_first(line, lines)
    if (all%rank /= 0) return
    do rank = 1, size(lines)
      write (output_unit, '(a)') trim(lines(rank))
    end do
  end subroutine tell_usage

  !> With a digit before the point.
  pure function decimal(value) result(text)
    real(real64), intent(in) :: value
    character(len=:), allocatable :: text
    character(len=32) :: long

    write (long, '(f32.3)') value
    text = trim(adjustl(long))
  end function decimal

  !> Ends the program on all ranks if any of them has a message; the first such rank prints it.
  subroutine leave_if(message, status)
    character(len=*), intent(in) :: message
    integer, intent(in) :: status
    integer :: teller

    teller = world%worst(merge(world%size - world%rank, 0, message /= ''))
    if (teller == 0) return
    if (teller == world%size - world%rank) write (error_unit, '(2a)') 'coupled: ', message
    flush (error_unit)
    call world%barrier()
    call finish()
    stop status, quiet=.true.
  end subroutine leave_if

end program coupled
