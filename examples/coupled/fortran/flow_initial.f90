!> The state a run starts from.
module flow_initial
  use, intrinsic :: iso_fortran_env, only: real64
  use flow_mesh, only: mesh
  implicit none
  private

  !> Something round on the mesh: positions and radius as fractions of its width and height.
  type, public :: round
    real(real64) :: x = 0.5_real64 !! of the middle
    real(real64) :: y = 0.5_real64 !! of the middle
    real(real64) :: radius = 1 !! greater than 0
    real(real64) :: height = 0 !! of the middle, in the unit of the quantity
  end type round

  !> The whole initial state.
  type, public :: initial
    character(len=8) :: shape = 'lake' !! `lake`, `hump` or `dam`
    real(real64) :: level = 0 !! of the water's surface at rest, in metres above the bed's zero
    type(round) :: rise !! what rises above the level, but in a lake
    type(round) :: hill !! what rises from the bed
    real(real64) :: background = 0 !! temperature
    type(round) :: warm !! what is warmer than the background
  contains
    procedure :: cell
  end type initial

contains

  !> Bed and depth in metres, and temperature, of cell (`i`, `j`), counted from 0.
  pure subroutine cell(self, grid, i, j, bed, depth, temperature)
    class(initial), intent(in) :: self
    type(mesh), intent(in) :: grid
    integer, intent(in) :: i, j
    real(real64), intent(out) :: bed, depth, temperature
    real(real64) :: above

    bed = smooth(self%hill, grid, i, j)
    select case (self%shape)
    case ('hump')
      above = smooth(self%rise, grid, i, j)
    case ('dam')
      above = merge(self%rise%height, 0.0_real64, distance(self%rise, grid, i, j) < 1)
    case default
      above = 0
    end select
    depth = self%level + above - bed
    temperature = self%background + smooth(self%warm, grid, i, j)
  end subroutine cell

  !> Distance of the middle of a cell over the radius.
  pure real(real64) function distance(what, grid, i, j)
    type(round), intent(in) :: what
    type(mesh), intent(in) :: grid
    integer, intent(in) :: i, j
    real(real64) :: x, y

    x = (real(i, real64) + 0.5_real64) / real(grid%nx, real64) - what%x
    y = (real(j, real64) + 0.5_real64) / real(grid%ny, real64) - what%y
    distance = sqrt(x * x + y * y) / what%radius
  end function distance

  !> A polynomial, not an exponential: the same bits from every mathematics library.
  pure real(real64) function smooth(what, grid, i, j)
    type(round), intent(in) :: what
    type(mesh), intent(in) :: grid
    integer, intent(in) :: i, j
    real(real64) :: away, inside

    away = distance(what, grid, i, j)
    inside = max(1.0_real64 - away * away, 0.0_real64)
    smooth = what%height * inside * inside
  end function smooth

end module flow_initial
