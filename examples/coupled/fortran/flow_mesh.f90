!> The mesh, and how its rows are shared out.
module flow_mesh
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  private

  !> The mesh, in cells and metres.
  type, public :: mesh
    integer :: nx = 0 !! cells in x
    integer :: ny = 0 !! cells in y
    real(real64) :: dx = 0 !! metres
    real(real64) :: dy = 0 !! metres
  end type mesh

  public :: first_row

contains

  !> How many rows lie below block `index` (from 0) of `count`: contiguous, balanced, covering all.
  !> The block itself ends where the next one begins.
  pure integer function first_row(ny, index, count)
    integer, intent(in) :: ny, index, count

    first_row = int(int(ny, int64) * index / count)
  end function first_row

end module flow_mesh
