!> Callee-driven: a heat library, in C++, that uses threads well for any caller and launch. Nothing
!> here uses quo.
module callee_driven
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_double, c_f_pointer, c_int, c_null_char, &
    c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: real64
  use coupling_ways, only: coupling, outcome, usage
  use diffusion_solvers, only: diffusion_block, problem
  use flow_block, only: block_of_rows, conserved_values, depth, heat
  use message_passing, only: ranks
  implicit none
  private

  !> The library and what it was set up for.
  type, extends(coupling), public :: library
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: set_up
    procedure :: diffuse
    procedure :: used
    procedure :: finish
  end type library

  type, bind(c) :: heat_problem
    type(diffusion_block) :: block
    real(c_double) :: kappa, tolerance
    integer(c_int) :: max_iterations, over, max_per_object
  end type heat_problem

  type, bind(c) :: heat_outcome
    integer(c_int) :: iterations, workers
    real(c_double) :: residual
  end type heat_outcome

  type, bind(c) :: heat_usage
    integer(c_int) :: worker, threads
    real(c_double) :: working, asleep
    character(kind=c_char) :: cpus(256)
  end type heat_usage

  interface
    integer(c_int) function heat_create(ranks, problem, library) bind(c, name='heat_create_f2c')
      import :: c_int, c_ptr, heat_problem
      implicit none
      integer(c_int), intent(in), value :: ranks
      type(heat_problem), intent(in) :: problem
      type(c_ptr), intent(out) :: library
    end function heat_create

    integer(c_int) function heat_step(library, dt, depth, heat, outcome) bind(c)
      import :: c_double, c_int, c_ptr, heat_outcome
      implicit none
      type(c_ptr), intent(in), value :: library
      real(c_double), intent(in), value :: dt
      real(c_double), intent(in) :: depth
      real(c_double), intent(inout) :: heat
      type(heat_outcome), intent(out) :: outcome
    end function heat_step

    subroutine heat_used(library, usage) bind(c)
      import :: c_ptr, heat_usage
      implicit none
      type(c_ptr), intent(in), value :: library
      type(heat_usage), intent(out) :: usage
    end subroutine heat_used

    integer(c_int) function heat_free(library) bind(c)
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), intent(in), value :: library
    end function heat_free

    type(c_ptr) function heat_last_error() bind(c)
      import :: c_ptr
      implicit none
    end function heat_last_error

    integer(c_size_t) function strlen(text) bind(c)
      import :: c_ptr, c_size_t
      implicit none
      type(c_ptr), intent(in), value :: text
    end function strlen
  end interface

contains

  !> Sets the library up for the rows of `part`; workers are spread over objects of type `over`, at
  !> most `max` for each. Collective; `message` is empty, or says on every rank what is wrong.
  subroutine set_up(self, task, all, part, over, max, message)
    class(library), intent(out) :: self
    type(problem), intent(in) :: task
    type(ranks), intent(in) :: all
    type(block_of_rows), intent(in) :: part
    character(len=*), intent(in) :: over
    integer, intent(in) :: max
    character(len=:), allocatable, intent(out) :: message
    type(diffusion_block) :: rows
    integer :: kind

    select case (over)
    case ('machine')
      kind = 0
    case ('numa')
      kind = 1
    case ('package')
      kind = 2
    case default
      kind = 3
    end select
    rows = diffusion_block(part%grid%nx, part%rows, size(part%conserved(:, :, 1)), part%grid%dx, part%grid%dy)
    message = ''
    if (heat_create(all%handle(), heat_problem(rows, task%kappa, task%tolerance, task%max_iterations, &
      kind, max), self%handle) /= 0) message = last_error()
  end subroutine set_up

  !> The library works on the block in place: its depths and heats are where the stride says.
  subroutine diffuse(self, part, dt, done, message)
    class(library), intent(inout) :: self
    type(block_of_rows), intent(inout), target :: part
    real(real64), intent(in) :: dt
    type(outcome), intent(out) :: done
    character(len=:), allocatable, intent(inout) :: message
    type(heat_outcome) :: came_to

    done%code = heat_step(self%handle, dt, part%conserved(1, depth, 1), part%conserved(1, heat, 1), came_to)
    message = ''
    if (done%code /= 0) then
      message = last_error()
      return
    end if
    done%iterations = came_to%iterations
    done%residual = came_to%residual
  end subroutine diffuse

  function used(self) result(what)
    class(library), intent(in) :: self
    type(usage) :: what
    type(heat_usage) :: did
    integer :: k

    call heat_used(self%handle, did)
    what%threads = did%threads
    do k = 1, size(did%cpus)
      if (did%cpus(k) == c_null_char) exit
      what%cpus(k:k) = did%cpus(k)
    end do
  end function used

  subroutine finish(self)
    class(library), intent(inout) :: self

    if (heat_free(self%handle) == 0) self%handle = c_null_ptr
  end subroutine finish

  function last_error() result(text)
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    type(c_ptr) :: said
    integer :: k

    said = heat_last_error()
    call c_f_pointer(said, characters, [strlen(said)])
    allocate (character(len=size(characters)) :: text)
    do k = 1, len(text)
      text(k:k) = characters(k)
    end do
  end function last_error

end module callee_driven
