!> Every rank runs L1 on its own rows, with the CPUs the launcher gave it: what there is without quo.
module without_quo
  use, intrinsic :: iso_fortran_env, only: real64
  use coupling_ways
  use diffusion_solvers, only: diffusion_result, problem
  use flow_block, only: block_of_rows
  use message_passing, only: ranks
  implicit none
  private

  !> The state: the rows as the solvers take them.
  type, extends(coupling), public :: every_rank_for_itself
    private
    type(problem) :: task
    type(ranks) :: all
    integer :: threads = 1
    real(real64), allocatable :: rows(:, :, :)
  contains
    procedure :: set_up
    procedure :: diffuse
    procedure :: used
    procedure :: finish
  end type every_rank_for_itself

contains

  !> For blocks of `part`'s size, with `threads` threads on this rank.
  subroutine set_up(self, task, all, part, threads)
    class(every_rank_for_itself), intent(out) :: self
    type(problem), intent(in) :: task
    type(ranks), intent(in) :: all
    type(block_of_rows), intent(in) :: part
    integer, intent(in) :: threads

    self%task = task
    self%all = all
    self%threads = threads
    allocate (self%rows(part%grid%nx, 2, part%rows))
  end subroutine set_up

  subroutine diffuse(self, part, dt, done, message)
    class(every_rank_for_itself), intent(inout) :: self
    type(block_of_rows), intent(inout), target :: part
    real(real64), intent(in) :: dt
    type(outcome), intent(out) :: done
    character(len=:), allocatable, intent(inout) :: message
    type(diffusion_result) :: result
    integer :: code

    call copy_rows_out(part, self%rows)
    call self%task%set_threads(self%threads)
    call self%task%solve(self%all, dt, self%rows, code, result)
    call copy_heat_in(part, self%rows)
    call agree(self%all, code, result, done)
    message = ''
  end subroutine diffuse

  function used(self) result(what)
    class(every_rank_for_itself), intent(in) :: self
    type(usage) :: what

    what%threads = self%threads
  end function used

  subroutine finish(self)
    class(every_rank_for_itself), intent(inout) :: self

    deallocate (self%rows)
  end subroutine finish

end module without_quo
