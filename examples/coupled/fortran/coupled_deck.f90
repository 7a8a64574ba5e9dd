!> What a run computes: a deck as namelists, which `coupled-demo namelist` prints from a checked
!> deck. Read by one rank and sent to all.
module coupled_deck
  use, intrinsic :: iso_fortran_env, only: real64
  use flow_initial, only: initial, round
  use flow_mesh, only: mesh
  use message_passing, only: ranks
  implicit none
  private

  !> A deck.
  type, public :: deck
    type(mesh) :: grid
    type(initial) :: start
    integer :: steps = 0 !! of the flow
    real(real64) :: cfl = 0 !! length of a step as a part of the longest stable one
    real(real64) :: gravity = 0 !! metres per second squared
    integer :: every = 1 !! steps of the flow per step of the diffusion
    character(len=8) :: over = '' !! `machine`, `numa`, `package` or `core`
    integer :: max = 1 !! workers per object of that type
    character(len=8) :: variant = '' !! the side that uses quo: `caller` or `callee`
    real(real64) :: kappa = 0 !! square metres per second
    real(real64) :: tolerance = 0 !! of the residual
    integer :: max_iterations = 0
  end type deck

  public :: read_deck

  integer, parameter :: line_length = 200, most_lines = 100

contains

  !> Reads the deck in `file`. Collective; `message` is empty, or says on every rank what is wrong.
  subroutine read_deck(file, all, plan, message)
    character(len=*), intent(in) :: file
    type(ranks), intent(in) :: all
    type(deck), intent(out) :: plan
    character(len=:), allocatable, intent(out) :: message
    ! The line before the first says what was wrong with reading them.
    character(len=line_length) :: lines(0:most_lines)

    lines = ''
    if (all%rank == 0) call read_lines(file, lines(1:), lines(0))
    call all%told_by_first(lines)
    if (lines(0) == '') call parse(lines(1:), plan, lines(0))
    if (lines(0) == '' .and. plan%grid%ny < all%size) lines(0) = 'there are more ranks than rows'
    message = trim(lines(0))
    if (message /= '') message = 'deck '//file//': '//message
  end subroutine read_deck

  subroutine read_lines(file, lines, trouble)
    character(len=*), intent(in) :: file
    character(len=*), intent(out) :: lines(:)
    character(len=*), intent(inout) :: trouble
    integer :: unit, number, status

    open (newunit=unit, file=file, status='old', action='read', iostat=status, iomsg=trouble)
    if (status /= 0) return
    trouble = ''
    do number = 1, size(lines)
      read (unit, '(a)', iostat=status) lines(number)
      if (status /= 0) exit
    end do
    close (unit)
    if (number > size(lines)) trouble = 'it is too long'
  end subroutine read_lines

  subroutine parse(lines, plan, trouble)
    character(len=*), intent(in) :: lines(:)
    type(deck), intent(out) :: plan
    character(len=*), intent(inout) :: trouble
    integer :: nx, ny, steps, every, max, max_iterations, status
    real(real64) :: width, height, cfl, level, gravity, background, kappa, tolerance
    character(len=8) :: shape, over, variant
    type(round) :: rise, hill, warm
    namelist /mesh_part/ nx, ny, width, height
    namelist /time_part/ steps, cfl
    namelist /water_part/ shape, level, gravity, rise, hill
    namelist /heat_part/ background, warm
    namelist /coupling_part/ every, over, max, variant
    namelist /diffusion_part/ kappa, tolerance, max_iterations

    ! What the deck leaves out is no number that passes the checks below.
    nx = 0
    ny = 0
    width = 0
    height = 0
    steps = -1
    cfl = 0
    shape = ''
    level = 0
    gravity = 0
    background = 0
    every = 0
    over = ''
    max = 0
    variant = ''
    kappa = -1
    tolerance = 0
    max_iterations = 0
    read (lines, nml=mesh_part, iostat=status, iomsg=trouble)
    if (status == 0) read (lines, nml=time_part, iostat=status, iomsg=trouble)
    if (status == 0) read (lines, nml=water_part, iostat=status, iomsg=trouble)
    if (status == 0) read (lines, nml=heat_part, iostat=status, iomsg=trouble)
    if (status == 0) read (lines, nml=coupling_part, iostat=status, iomsg=trouble)
    if (status == 0) read (lines, nml=diffusion_part, iostat=status, iomsg=trouble)
    if (status /= 0) then
      if (trouble == '') trouble = 'it is no namelist'
      return
    end if
    trouble = ''
    if (min(nx, ny, every, max, max_iterations) < 1 .or. steps < 0) then
      trouble = 'nx, ny, every, max and max_iterations must be at least 1'
    else if (.not. all([width, height, cfl, level, gravity, tolerance] > 0) .or. .not. kappa >= 0) then
      trouble = 'width, height, cfl, level, gravity and tolerance must be positive, kappa not negative'
    end if
    if (trouble /= '') return
    plan = deck(grid=mesh(nx, ny, width / real(nx, real64), height / real(ny, real64)), &
      start=initial(shape, level, rise, hill, background, warm), steps=steps, cfl=cfl, &
      gravity=gravity, every=every, over=over, max=max, variant=variant, kappa=kappa, &
      tolerance=tolerance, max_iterations=max_iterations)
  end subroutine parse

end module coupled_deck
