!> L0: explicit shallow water with a passive tracer, one block of rows per rank.
!>
!> First-order finite volumes with the HLL flux; the bed enters by hydrostatic reconstruction
!> (Audusse et al. 2004), so water at rest over any bed stays at rest; the tracer and the transverse
!> momentum follow the mass flux upwind. The same method as the Rust solver's, to the bit.
module flow_block
  use, intrinsic :: ieee_arithmetic, only: ieee_positive_inf, ieee_value
  use, intrinsic :: iso_fortran_env, only: real64
  use flow_flux
  use flow_initial, only: initial
  use flow_mesh, only: first_row, mesh
  implicit none
  private

  !> Conserved quantities per cell: depth, two momenta, depth times temperature.
  integer, parameter, public :: depth = 1, momentum_x = 2, momentum_y = 3, heat = 4
  integer, parameter, public :: conserved_values = 4

  !> Edges of a block.
  integer, parameter, public :: edge_below = 1, edge_above = 2

  !> A block of rows of the mesh, with one ghost cell all around.
  type, public :: block_of_rows
    type(mesh) :: grid !! the whole mesh
    integer :: rows = 0 !! of cells, of this block
    real(real64) :: gravity = 0 !! metres per second squared
    !> Conserved quantities: column from 0, quantity, row from 0. A target, so that L1 can work on
    !> it in place.
    real(real64), allocatable :: conserved(:, :, :)
    !> What the fluxes need, derived from the conserved quantities before each step.
    real(real64), allocatable, private :: cells(:, :, :)
    real(real64), allocatable, private :: across(:, :), upward(:, :, :)
  contains
    procedure :: set_up
    procedure :: pack_edge
    procedure :: unpack_edge
    procedure :: wall
    procedure :: derive
    procedure :: advance
  end type block_of_rows

contains

  !> Makes block `index` (from 0) of `count` and fills it from `start`.
  subroutine set_up(self, grid, index, count, gravity, start)
    class(block_of_rows), intent(out) :: self
    type(mesh), intent(in) :: grid
    integer, intent(in) :: index, count
    real(real64), intent(in) :: gravity
    type(initial), intent(in) :: start
    real(real64) :: bed, water, temperature
    integer :: first, i, j, column, row

    first = first_row(grid%ny, index, count)
    self%grid = grid
    self%rows = first_row(grid%ny, index + 1, count) - first
    self%gravity = gravity
    associate (nx => grid%nx, rows => self%rows)
      allocate (self%conserved(0:nx + 1, conserved_values, 0:rows + 1), source=0.0_real64)
      allocate (self%cells(0:nx + 1, cell_values, 0:rows + 1), source=0.0_real64)
      allocate (self%across(nx + 1, flux_values), self%upward(nx, flux_values, 0:1))
      do j = 0, rows + 1
        ! Ghost rows beyond a wall mirror the bed; ghost rows of neighbours are computed alike.
        row = min(max(first + j - 1, 0), grid%ny - 1)
        do i = 0, nx + 1
          column = min(max(i - 1, 0), nx - 1)
          call start%cell(grid, column, row, bed, water, temperature)
          self%cells(i, cell_bed, j) = bed
          self%conserved(i, depth, j) = water
          self%conserved(i, heat, j) = water * temperature
        end do
      end do
    end associate
  end subroutine set_up

  !> Writes the outermost row of cells at `edge` to a message for the neighbour there.
  pure subroutine pack_edge(self, edge, message)
    class(block_of_rows), intent(in) :: self
    integer, intent(in) :: edge
    real(real64), intent(out) :: message(:, :)

    message = self%conserved(1:self%grid%nx, :, merge(1, self%rows, edge == edge_below))
  end subroutine pack_edge

  !> Fills the ghost row at `edge` from the neighbour's message.
  pure subroutine unpack_edge(self, edge, message)
    class(block_of_rows), intent(inout) :: self
    integer, intent(in) :: edge
    real(real64), intent(in) :: message(:, :)

    self%conserved(1:self%grid%nx, :, merge(0, self%rows + 1, edge == edge_below)) = message
  end subroutine unpack_edge

  !> Fills the ghost row at `edge` with the mirror image of the water: a wall.
  pure subroutine wall(self, edge)
    class(block_of_rows), intent(inout) :: self
    integer, intent(in) :: edge
    integer :: ghost, inside

    ghost = merge(0, self%rows + 1, edge == edge_below)
    inside = merge(1, self%rows, edge == edge_below)
    associate (nx => self%grid%nx)
      self%conserved(1:nx, :, ghost) = self%conserved(1:nx, :, inside)
      self%conserved(1:nx, momentum_y, ghost) = -self%conserved(1:nx, momentum_y, ghost)
    end associate
  end subroutine wall

  !> Derives velocities and temperatures, ghost cells included, and returns the largest wave speed
  !> over cell size of this block's cells, in 1/s (infinite if some cell is not a number).
  subroutine derive(self, fastest)
    class(block_of_rows), intent(inout) :: self
    real(real64), intent(out) :: fastest
    logical :: sound
    integer :: j

    fastest = 0
    sound = .true.
    do j = 0, self%rows + 1
      call derive_row(self%grid%nx, self%conserved(:, :, j), self%cells(:, :, j))
      if (j == 0 .or. j > self%rows) cycle
      call judge_row(self%grid, self%gravity, self%cells(:, :, j), fastest, sound)
    end do
    if (.not. sound) fastest = ieee_value(fastest, ieee_positive_inf)
  end subroutine derive

  pure subroutine derive_row(nx, conserved, cells)
    integer, intent(in) :: nx
    real(real64), intent(inout) :: conserved(0:nx + 1, conserved_values), cells(0:nx + 1, cell_values)
    real(real64) :: inverse
    integer :: i

    conserved(0, :) = conserved(1, :)
    conserved(nx + 1, :) = conserved(nx, :)
    conserved(0, momentum_x) = -conserved(0, momentum_x)
    conserved(nx + 1, momentum_x) = -conserved(nx + 1, momentum_x)
    do i = 0, nx + 1
      inverse = 1.0_real64 / max(conserved(i, depth), 1e-12_real64)
      cells(i, cell_depth) = conserved(i, depth)
      cells(i, cell_u) = conserved(i, momentum_x) * inverse
      cells(i, cell_v) = conserved(i, momentum_y) * inverse
      cells(i, cell_temperature) = conserved(i, heat) * inverse
    end do
  end subroutine derive_row

  pure subroutine judge_row(grid, gravity, cells, fastest, sound)
    type(mesh), intent(in) :: grid
    real(real64), intent(in) :: gravity, cells(0:grid%nx + 1, cell_values)
    real(real64), intent(inout) :: fastest
    logical, intent(inout) :: sound
    real(real64) :: rdx, rdy, wave, speed
    integer :: i

    rdx = 1.0_real64 / grid%dx
    rdy = 1.0_real64 / grid%dy
    do i = 1, grid%nx
      wave = sqrt(gravity * cells(i, cell_depth))
      speed = (abs(cells(i, cell_u)) + wave) * rdx + (abs(cells(i, cell_v)) + wave) * rdy
      fastest = merge(speed, fastest, speed > fastest)
      sound = sound .and. speed <= huge(speed)
    end do
  end subroutine judge_row

  !> Moves the water on by `dt` seconds; the ghost rows and derived values must be fresh.
  subroutine advance(self, dt)
    class(block_of_rows), intent(inout) :: self
    real(real64), intent(in) :: dt
    integer :: below, above, row

    above = 0
    call upward_faces(0, self%upward(:, :, above))
    do row = 1, self%rows
      ! A row is updated after the faces below and above it.
      below = above
      above = 1 - below
      call upward_faces(row, self%upward(:, :, above))
      call flux_row(self%grid%nx + 1, self%grid%nx + 2, self%cells(0, 1, row), self%cells(1, 1, row), &
        cell_u, cell_v, self%gravity, self%across)
      call update_row(self%grid%nx, dt / self%grid%dx, dt / self%grid%dy, self%across, &
        self%upward(:, :, below), self%upward(:, :, above), self%conserved(:, :, row))
    end do

  contains

    !> The faces between the rows `lower` and `lower + 1`.
    subroutine upward_faces(lower, out)
      integer, intent(in) :: lower
      real(real64), intent(out) :: out(self%grid%nx, flux_values)

      call flux_row(self%grid%nx, self%grid%nx + 2, self%cells(1, 1, lower), self%cells(1, 1, lower + 1), &
        cell_v, cell_u, self%gravity, out)
    end subroutine upward_faces

  end subroutine advance

  !> Adds the net inflow through the four faces of each cell of a row.
  pure subroutine update_row(nx, rx, ry, across, below, above, conserved)
    integer, intent(in) :: nx
    real(real64), intent(in) :: rx, ry
    real(real64), intent(in) :: across(nx + 1, flux_values), below(nx, flux_values), above(nx, flux_values)
    real(real64), intent(inout) :: conserved(0:nx + 1, conserved_values)

    call add(nx, rx, ry, across(1:nx, flux_mass), across(2:, flux_mass), &
      below(:, flux_mass), above(:, flux_mass), conserved(1:nx, depth))
    call add(nx, rx, ry, across(1:nx, flux_right_normal), across(2:, flux_left_normal), &
      below(:, flux_transverse), above(:, flux_transverse), conserved(1:nx, momentum_x))
    call add(nx, rx, ry, across(1:nx, flux_transverse), across(2:, flux_transverse), &
      below(:, flux_right_normal), above(:, flux_left_normal), conserved(1:nx, momentum_y))
    call add(nx, rx, ry, across(1:nx, flux_heat), across(2:, flux_heat), &
      below(:, flux_heat), above(:, flux_heat), conserved(1:nx, heat))
  end subroutine update_row

  pure subroutine add(n, rx, ry, enter_left, leave_right, enter_below, leave_above, cells)
    integer, intent(in) :: n
    real(real64), intent(in) :: rx, ry, enter_left(n), leave_right(n), enter_below(n), leave_above(n)
    real(real64), intent(inout) :: cells(n)
    integer :: i

    do i = 1, n
      cells(i) = cells(i) - (rx * (leave_right(i) - enter_left(i)) + ry * (leave_above(i) - enter_below(i)))
    end do
  end subroutine add

end module flow_block
