!> The numerical flux through a row of faces.
module flow_flux
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  private

  !> What is known of a cell: depth, velocities, temperature, height of the bed.
  integer, parameter, public :: cell_depth = 1, cell_u = 2, cell_v = 3, cell_temperature = 4, cell_bed = 5
  integer, parameter, public :: cell_values = 5

  !> Fluxes per metre of face. The bed makes the normal momentum that leaves the left cell differ
  !> from what enters the right one.
  integer, parameter, public :: flux_mass = 1, flux_left_normal = 2, flux_right_normal = 3
  integer, parameter, public :: flux_transverse = 4, flux_heat = 5
  integer, parameter, public :: flux_values = 5

  public :: flux_row

contains

  !> HLL fluxes of mass and normal momentum between hydrostatically reconstructed states, upwind
  !> fluxes of what the mass carries along. Every face is computed by the same operations in the
  !> same order as in the Rust solver, so that both end with the same bits.
  pure subroutine flux_row(faces, stride, left, right, normal, transverse, gravity, out)
    integer, intent(in) :: faces !! how many
    integer, intent(in) :: stride !! from one quantity of a cell to the next
    real(real64), intent(in) :: left(stride, *), right(stride, *) !! the cells on both sides
    integer, intent(in) :: normal, transverse !! which velocity is normal to the faces
    real(real64), intent(in) :: gravity
    real(real64), intent(out) :: out(faces, flux_values)
    real(real64) :: half, bed, hl, hr, ul, ur, cl, cr, sl, sr, inverse, ml, mr, pl, pr, m, p
    integer :: i

    half = 0.5_real64 * gravity
    do i = 1, faces
      bed = max(left(i, cell_bed), right(i, cell_bed))
      hl = max(left(i, cell_depth) + left(i, cell_bed) - bed, 0.0_real64)
      hr = max(right(i, cell_depth) + right(i, cell_bed) - bed, 0.0_real64)
      ul = left(i, normal)
      ur = right(i, normal)
      cl = sqrt(gravity * hl)
      cr = sqrt(gravity * hr)
      sl = min(min(ul - cl, ur - cr), 0.0_real64)
      sr = max(max(ul + cl, ur + cr), 0.0_real64)
      ! Both zero only where both sides are dry.
      inverse = 1.0_real64 / max(sr - sl, 1e-30_real64)
      ml = hl * ul
      mr = hr * ur
      pl = ml * ul + half * hl * hl
      pr = mr * ur + half * hr * hr
      m = (sr * ml - sl * mr + sl * sr * (hr - hl)) * inverse
      p = (sr * pl - sl * pr + sl * sr * (mr - ml)) * inverse
      out(i, flux_mass) = m
      out(i, flux_left_normal) = p + half * (left(i, cell_depth) * left(i, cell_depth) - hl * hl)
      out(i, flux_right_normal) = p + half * (right(i, cell_depth) * right(i, cell_depth) - hr * hr)
    end do
    ! Apart from the loop above, which compilers vectorise only without the choices of this one.
    do i = 1, faces
      m = out(i, flux_mass)
      out(i, flux_transverse) = m * merge(left(i, transverse), right(i, transverse), m >= 0)
      out(i, flux_heat) = m * merge(left(i, cell_temperature), right(i, cell_temperature), m >= 0)
    end do
  end subroutine flux_row

end module flow_flux
