!> How L1 is called from L0: what every way offers.
module coupling_ways
  use, intrinsic :: iso_fortran_env, only: real64
  use diffusion_solvers, only: diffusion_result
  use flow_block, only: block_of_rows, depth, heat
  use message_passing, only: ranks
  implicit none
  private

  !> What a step of L1 came to, the same on every rank.
  type, public :: outcome
    integer :: code = 0 !! 0 or what failed
    integer :: iterations = 0
    real(real64) :: residual = 0 !! relative
  end type outcome

  !> What a rank did while L1 ran, in all steps so far.
  type, public :: usage
    integer :: threads = 0 !! of L1; 0 on a rank that slept
    character(len=256) :: cpus = '' !! where it ran L1; empty on a rank that slept
  end type usage

  !> A way to run L1.
  type, abstract, public :: coupling
  contains
    procedure(diffuse_interface), deferred :: diffuse
    procedure(used_interface), deferred :: used
    procedure(finish_interface), deferred :: finish
  end type coupling

  abstract interface
    !> Advances the heat of `part` by `dt` seconds of diffusion. Collective over all ranks; the
    !> failure, which `message` may explain, is the same on every rank.
    subroutine diffuse_interface(self, part, dt, done, message)
      import :: block_of_rows, coupling, outcome, real64
      implicit none
      class(coupling), intent(inout) :: self
      type(block_of_rows), intent(inout), target :: part
      real(real64), intent(in) :: dt
      type(outcome), intent(out) :: done
      character(len=:), allocatable, intent(inout) :: message
    end subroutine diffuse_interface

    !> What this rank did.
    function used_interface(self) result(what)
      import :: coupling, usage
      implicit none
      class(coupling), intent(in) :: self
      type(usage) :: what
    end function used_interface

    !> Gives back what was set up. Collective over all ranks.
    subroutine finish_interface(self)
      import :: coupling
      implicit none
      class(coupling), intent(inout) :: self
    end subroutine finish_interface
  end interface

  public :: agree, copy_rows_out, copy_heat_in

contains

  !> Broadcasts the outcome of a step from the ranks that made it. Collective.
  subroutine agree(all, code, result, done)
    type(ranks), intent(in) :: all
    integer, intent(in) :: code
    type(diffusion_result), intent(in) :: result
    type(outcome), intent(out) :: done

    done%code = all%worst(code)
    done%iterations = all%worst(int(result%iterations))
    done%residual = all%largest(result%residual)
  end subroutine agree

  !> Writes the rows of `part` to `rows`, each as its depths followed by its heats.
  pure subroutine copy_rows_out(part, rows)
    type(block_of_rows), intent(in) :: part
    real(real64), intent(inout) :: rows(:, :, :)

    rows(:, 1, :) = part%conserved(1:part%grid%nx, depth, 1:part%rows)
    rows(:, 2, :) = part%conserved(1:part%grid%nx, heat, 1:part%rows)
  end subroutine copy_rows_out

  !> Takes over the heats, and only those, of rows laid out so.
  pure subroutine copy_heat_in(part, rows)
    type(block_of_rows), intent(inout) :: part
    real(real64), intent(in) :: rows(:, :, :)

    part%conserved(1:part%grid%nx, heat, 1:part%rows) = rows(:, 2, :)
  end subroutine copy_heat_in

end module coupling_ways
