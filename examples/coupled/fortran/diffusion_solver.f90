!> L1 as Fortran sees it: the solver in C with OpenMP, which does not use quo.
module diffusion_solver
  use, intrinsic :: iso_c_binding, only: c_double, c_int
  use, intrinsic :: iso_fortran_env, only: real64
  use flow_mesh, only: mesh
  use message_passing, only: ranks
  implicit none
  private

  !> A worker's rows.
  type, bind(c), public :: diffusion_block
    integer(c_int) :: nx !! cells in x
    integer(c_int) :: rows !! at least 1
    integer(c_int) :: stride !! from a value to the one above it
    real(c_double) :: dx !! metres
    real(c_double) :: dy !! metres
  end type diffusion_block

  !> What to solve for and how exactly.
  type, bind(c), public :: diffusion_options
    real(c_double) :: dt !! seconds
    real(c_double) :: kappa !! square metres per second
    real(c_double) :: tolerance !! of the residual, relative
    integer(c_int) :: max_iterations
  end type diffusion_options

  !> The solver's report on a step.
  type, bind(c), public :: diffusion_result
    integer(c_int) :: iterations = 0
    integer(c_int) :: threads = 0 !! of this worker
    real(c_double) :: residual = 0 !! relative
  end type diffusion_result

  !> Equation of a step, the same at every step but for the time.
  type, public :: problem
    type(mesh) :: grid
    real(real64) :: kappa = 0, tolerance = 0
    integer :: max_iterations = 0
  contains
    procedure :: solve
  end type problem

  !> Code of failures of the layers below the solver, in addition to the solver's own codes.
  integer, parameter, public :: runtime_failed = 5

  public :: failure_text

  interface
    integer(c_int) function diffusion_step(workers, part, options, depth, heat, done) &
      bind(c, name='diffusion_step_f2c')
      import :: c_double, c_int, diffusion_block, diffusion_options, diffusion_result
      implicit none
      integer(c_int), intent(in), value :: workers
      type(diffusion_block), intent(in) :: part
      type(diffusion_options), intent(in) :: options
      real(c_double), intent(in) :: depth
      real(c_double), intent(inout) :: heat
      type(diffusion_result), intent(out) :: done
    end function diffusion_step
  end interface


contains

  !> One implicit step of `dt` seconds. `rows` holds, for every row, its depths and then its heats,
  !> which are replaced. Collective over `workers`, which hold consecutive blocks of rows. The code
  !> is 0, or says on every worker what failed; then `rows` is unchanged.
  subroutine solve(self, workers, dt, rows, code, done)
    class(problem), intent(in) :: self
    type(ranks), intent(in) :: workers
    real(real64), intent(in) :: dt
    real(real64), intent(inout), contiguous :: rows(:, :, :)
    integer, intent(out) :: code
    type(diffusion_result), intent(out) :: done
    type(diffusion_block) :: part
    type(diffusion_options) :: options

    part = diffusion_block(size(rows, 1), size(rows, 3), 2 * size(rows, 1), self%grid%dx, self%grid%dy)
    options = diffusion_options(dt, self%kappa, self%tolerance, self%max_iterations)
    code = diffusion_step(workers%handle(), part, options, rows(1, 1, 1), rows(1, 2, 1), done)
  end subroutine solve

  !> A code in words.
  pure function failure_text(code) result(text)
    integer, intent(in) :: code
    character(len=:), allocatable :: text

    select case (code)
    case (1)
      text = 'no memory for the diffusion solver on at least one worker'
    case (2)
      text = 'the diffusion solver did not converge in max_iterations'
    case (3)
      text = 'the diffusion matrix is not positive definite (NaN or a dry cell)'
    case (4)
      text = 'the diffusion solver was given a bad block or time step'
    case default
      text = 'the runtime below the diffusion solver failed'
    end select
  end function failure_text

end module diffusion_solver
