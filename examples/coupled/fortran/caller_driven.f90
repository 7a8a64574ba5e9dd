!> The driver itself selects workers, widens them, sets their threads, calls the solver, which is
!> unaware of it, and puts the other ranks to sleep meanwhile.
module caller_driven
  use, intrinsic :: iso_fortran_env, only: real64
  use diffusion_solver, only: diffusion_result, problem, runtime_failed
  use flow_block, only: block_of_rows, depth, heat
  use message_passing, only: ranks
  use quo, only: c_int, c_null_ptr, c_ptr, c_size_t, quo_barrier, quo_create, quo_free, quo_id, &
    quo_last_error, quo_nqids, QUO_OBJ_CORE, QUO_OBJ_MACHINE, QUO_OBJ_NUMANODE, QUO_OBJ_PACKAGE, &
    quo_phase_begin, quo_phase_create, quo_phase_end, quo_phase_free, quo_phase_qids, &
    quo_phase_spec_t, quo_stringify_cbind, QUO_SUCCESS, QUO_THREADS_OPENMP, quo_xpm_allocate, &
    quo_xpm_free, quo_xpm_view_by_qid_range, quo_xpm_view_local
  implicit none
  private

  !> The outcome of a step of L1, the same on every rank.
  type, public :: outcome
    integer :: code = 0 !! 0 or what failed
    integer :: iterations = 0
    real(real64) :: residual = 0 !! relative
  end type outcome

  !> The work of a rank while L1 ran, in all steps so far.
  type, public :: usage
    integer :: threads = 0 !! of L1; 0 on a rank that slept
    character(len=256) :: cpus = '' !! where it ran L1; empty on a rank that slept
  end type usage

  !> The driver's half of the coupling.
  type, public :: driver
    private
    type(problem) :: task
    type(ranks) :: all, workers
    type(c_ptr) :: context = c_null_ptr
    type(c_ptr) :: phase = c_null_ptr
    type(c_ptr) :: memory = c_null_ptr
    !> Rows in memory that the node shares: this rank's own, and on a worker the rows of all ranks
    !> that it works for, which are contiguous.
    real(real64), pointer :: own(:, :, :) => null(), served(:, :, :) => null()
    type(usage), public :: used
  contains
    procedure :: set_up
    procedure :: diffuse
    procedure :: finish
    procedure, private :: create
    procedure, private :: solve_widened
  end type driver

contains

  !> For blocks of `part`'s size; workers are spread over objects of type `over`, at most `max` for
  !> each. Collective; `message` is empty, or says on every rank what is wrong.
  subroutine set_up(self, task, all, node, part, over, max, message)
    class(driver), intent(out) :: self
    type(problem), intent(in) :: task
    type(ranks), intent(in) :: all, node
    type(block_of_rows), intent(in) :: part
    character(len=*), intent(in) :: over
    integer, intent(in) :: max
    character(len=:), allocatable, intent(out) :: message
    integer(c_int) :: ierr

    self%task = task
    self%all = all
    message = ''
    call self%create(node, part, over, max, ierr, message)
    if (all%worst(merge(1, 0, ierr /= QUO_SUCCESS)) == 0) then
      call all%among(associated(self%served), self%workers)
    else if (message == '') then
      message = 'setting up failed on another rank'
    end if
  end subroutine set_up

  subroutine create(self, node, part, over, max, ierr, message)
    class(driver), intent(inout) :: self
    type(ranks), intent(in) :: node
    type(block_of_rows), intent(in) :: part
    character(len=*), intent(in) :: over
    integer, intent(in) :: max
    integer(c_int), intent(out) :: ierr
    character(len=:), allocatable, intent(inout) :: message
    type(quo_phase_spec_t) :: wanted
    real(real64), pointer :: view(:)
    integer(c_int) :: id, size_of_node, first, count

    call quo_create(self%context, self%all%communicator, ierr)
    if (ierr == QUO_SUCCESS) call quo_id(self%context, id, ierr)
    if (ierr == QUO_SUCCESS) call quo_nqids(self%context, size_of_node, ierr)
    if (ierr == QUO_SUCCESS) then
      ! Blocks are in the order of node ranks only if quo sees the nodes that MPI does.
      if (id /= node%rank .or. size_of_node /= node%size) then
        ierr = runtime_failed
        message = 'the context has other nodes than MPI'
        return
      end if
    end if

    associate (nx => part%grid%nx)
      if (ierr == QUO_SUCCESS) call quo_xpm_allocate(self%context, &
        int(nx, c_size_t) * 2 * part%rows * storage_size(view) / 8, self%memory, ierr)
      if (ierr == QUO_SUCCESS) call quo_xpm_view_local(self%memory, view, ierr)
      if (ierr == QUO_SUCCESS) self%own(1:nx, 1:2, 1:part%rows) => view

      wanted%type = object_type(over)
      wanted%max_per_object = max
      wanted%threads = QUO_THREADS_OPENMP
      wanted%name = 'diffusion'
      if (ierr == QUO_SUCCESS) call quo_phase_create(self%context, wanted, self%phase, ierr)
      if (ierr == QUO_SUCCESS) call quo_phase_qids(self%phase, first, count, ierr)
      if (ierr == QUO_SUCCESS .and. count > 0) then
        call quo_xpm_view_by_qid_range(self%memory, first, first + count - 1, view, ierr)
        if (ierr == QUO_SUCCESS) self%served(1:nx, 1:2, 1:size(view) / (2 * nx)) => view
      end if
    end associate
    if (ierr /= QUO_SUCCESS) message = quo_last_error()
  end subroutine create

  integer(c_int) function object_type(over)
    character(len=*), intent(in) :: over

    select case (over)
    case ('machine')
      object_type = QUO_OBJ_MACHINE
    case ('numa')
      object_type = QUO_OBJ_NUMANODE
    case ('package')
      object_type = QUO_OBJ_PACKAGE
    case default
      object_type = QUO_OBJ_CORE
    end select
  end function object_type

  !> Advances the heat of `part` by `dt` seconds of diffusion. Collective over all ranks; the
  !> failure, which `message` may explain, is the same on every rank.
  subroutine diffuse(self, part, dt, done, message)
    class(driver), intent(inout) :: self
    type(block_of_rows), intent(inout), target :: part
    real(real64), intent(in) :: dt
    type(outcome), intent(out) :: done
    character(len=:), allocatable, intent(inout) :: message
    type(diffusion_result) :: result
    integer(c_int) :: ierr
    integer :: code

    self%own(:, 1, :) = part%conserved(1:part%grid%nx, depth, 1:part%rows)
    self%own(:, 2, :) = part%conserved(1:part%grid%nx, heat, 1:part%rows)
    code = 0
    message = ''
    ! Every rank has written its rows.
    call quo_barrier(self%context, ierr)
    if (ierr == QUO_SUCCESS) call self%solve_widened(dt, code, result, ierr)
    if (ierr /= QUO_SUCCESS) then
      code = runtime_failed
      message = quo_last_error()
    end if
    done%code = self%all%worst(code)
    done%iterations = self%all%worst(int(result%iterations))
    done%residual = self%all%largest(result%residual)
    if (done%code == 0) part%conserved(1:part%grid%nx, heat, 1:part%rows) = self%own(:, 2, :)
  end subroutine diffuse

  subroutine solve_widened(self, dt, code, result, ierr)
    class(driver), intent(inout) :: self
    real(real64), intent(in) :: dt
    integer, intent(inout) :: code
    type(diffusion_result), intent(inout) :: result
    integer(c_int), intent(out) :: ierr
    character(len=:), allocatable :: cpus
    integer(c_int) :: threads, told
    logical :: selected

    call quo_phase_begin(self%phase, selected, threads, ierr)
    if (ierr /= QUO_SUCCESS) return
    if (associated(self%served)) then
      ! All workers solve or none: the solver would wait for the one that could not be bound.
      if (self%workers%worst(merge(0, runtime_failed, selected)) /= 0) then
        code = runtime_failed
      else
        call self%task%solve(self%workers, dt, self%served, code, result)
        call quo_stringify_cbind(self%context, cpus, told)
        self%used = usage(int(result%threads), cpus)
      end if
    end if
    ! The other ranks sleep here until the workers are done.
    call quo_phase_end(self%phase, ierr)
  end subroutine solve_widened

  !> Gives back what was set up. Collective over all ranks.
  subroutine finish(self)
    class(driver), intent(inout) :: self
    integer(c_int) :: ierr

    call quo_phase_free(self%phase, ierr)
    call quo_xpm_free(self%memory, ierr)
    call quo_free(self%context, ierr)
    call self%workers%free()
  end subroutine finish

end module caller_driven
