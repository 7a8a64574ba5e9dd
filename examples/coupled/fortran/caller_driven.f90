!> Caller-driven: the driver itself selects workers, widens them, sets their threads, calls the
!> solver, which knows nothing of it, and has the other ranks sleep meanwhile.
module caller_driven
  use, intrinsic :: iso_fortran_env, only: real64
  use coupling_ways, only: agree, copy_heat_in, copy_rows_out, coupling, outcome, usage
  use diffusion_solvers, only: diffusion_result, problem, runtime_failed
  use flow_block, only: block_of_rows
  use message_passing, only: ranks
  use quo, only: c_int, c_null_ptr, c_ptr, c_size_t, quo_barrier, quo_create, quo_free, quo_id, &
    quo_last_error, quo_nqids, QUO_OBJ_CORE, QUO_OBJ_MACHINE, QUO_OBJ_NUMANODE, QUO_OBJ_PACKAGE, &
    quo_phase_begin, quo_phase_create, quo_phase_end, quo_phase_free, quo_phase_qids, &
    quo_phase_spec_t, quo_stringify_cbind, QUO_SUCCESS, QUO_THREADS_OPENMP, quo_xpm_allocate, &
    quo_xpm_free, quo_xpm_view_by_qid_range, quo_xpm_view_local
  implicit none
  private

  !> The driver's half of the coupling.
  type, extends(coupling), public :: driver
    private
    type(problem) :: task
    type(ranks) :: all, workers
    type(c_ptr) :: context = c_null_ptr
    type(c_ptr) :: phase = c_null_ptr
    type(c_ptr) :: memory = c_null_ptr
    !> Rows in memory that the node shares: this rank's own, and on a worker the rows of all ranks
    !> that it works for, which are contiguous.
    real(real64), pointer :: own(:, :, :) => null(), served(:, :, :) => null()
    type(usage) :: did
  contains
    procedure :: set_up
    procedure :: diffuse
    procedure :: used
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
      ! Of OpenMP; a solver with its own threads gets the number.
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

  subroutine diffuse(self, part, dt, done, message)
    class(driver), intent(inout) :: self
    type(block_of_rows), intent(inout), target :: part
    real(real64), intent(in) :: dt
    type(outcome), intent(out) :: done
    character(len=:), allocatable, intent(inout) :: message
    type(diffusion_result) :: result
    integer(c_int) :: ierr
    integer :: code

    call copy_rows_out(part, self%own)
    code = 0
    message = ''
    ! Every rank has written its rows.
    call quo_barrier(self%context, ierr)
    if (ierr == QUO_SUCCESS) call self%solve_widened(dt, code, result, ierr)
    if (ierr /= QUO_SUCCESS) then
      code = runtime_failed
      message = quo_last_error()
    end if
    call agree(self%all, code, result, done)
    if (done%code == 0) call copy_heat_in(part, self%own)
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
        call self%task%set_threads(int(threads))
        call self%task%solve(self%workers, dt, self%served, code, result)
        call quo_stringify_cbind(self%context, cpus, told)
        self%did = usage(int(result%threads), cpus)
      end if
    end if
    ! The other ranks sleep here until the workers are done.
    call quo_phase_end(self%phase, ierr)
  end subroutine solve_widened

  function used(self) result(what)
    class(driver), intent(in) :: self
    type(usage) :: what

    what = self%did
  end function used

  subroutine finish(self)
    class(driver), intent(inout) :: self
    integer(c_int) :: ierr

    call quo_phase_free(self%phase, ierr)
    call quo_xpm_free(self%memory, ierr)
    call quo_free(self%context, ierr)
    call self%workers%free()
  end subroutine finish

end module caller_driven
