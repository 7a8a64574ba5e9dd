! Arrays of two and three dimensions with ghost cells grow and shrink with a loop that the library owns:
! `mpirun -n 4 elastic_halo`. Each rank checks all of its cells after each exchange.
module plates
  use, intrinsic :: iso_c_binding
  use quo
  use quo_elastic
  implicit none

  integer(c_size_t), parameter :: ROWS = 9, COLUMNS = 6, LAYERS = 4
  integer, parameter :: SIZES(5) = [4, 1, 3, 2, 4]

  ! Steps done, and the index of the size that is requested, which joiners receive.
  integer(c_int), target :: now(2) = [0, 1]
  integer :: asked = 0, wrong = 0

contains

  ! The value of a cell, in a dimension of the given length periodic.
  real(c_double) function cell(row, column, layer)
    integer(c_size_t), intent(in) :: row, column, layer
    cell = real(row, c_double) + 0.01d0 * real(modulo(column - 1, COLUMNS), c_double) &
      + 1000d0 * real(modulo(layer - 1, LAYERS), c_double)
  end function cell

  subroutine need(ierr)
    integer(c_int), intent(in) :: ierr
    if (ierr == QUO_SUCCESS) return
    print '(a,i0)', "a call returned ", ierr
    wrong = wrong + 1
  end subroutine need

  ! Adds the plate, with an edge above and below and periodic along its columns, and the box.
  subroutine add_arrays(w)
    type(c_ptr), intent(in) :: w
    type(quo_array_spec_t) :: spec
    integer(c_int) :: ierr
    spec%kind = QUO_ARRAY_HALO
    spec%rows = ROWS
    spec%columns = COLUMNS
    spec%halo_rows = quo_halo_t(1, 1, 0)
    spec%halo_columns = quo_halo_t(1, 2, 1)
    call quo_world_array_add(w, "plate", spec, ierr)
    call need(ierr)
    call quo_world_array_add(w, "other", spec, ierr)
    call need(ierr)
    spec%layers = LAYERS
    spec%halo_layers = quo_halo_t(2, 0, 1)
    call quo_world_array_add(w, "box", spec, ierr)
    call need(ierr)
    call visit(w, .true.)
  end subroutine add_arrays

  ! Fills all cells, or counts wrong ones.
  subroutine visit(w, fills)
    type(c_ptr), intent(in) :: w
    logical, intent(in) :: fills
    real(c_double), pointer :: plate(:, :), box(:, :, :)
    type(quo_array_part_t) :: part
    integer(c_size_t) :: i, j, k
    integer(c_int) :: ierr
    call quo_world_array_part(w, "plate", part, ierr)
    call need(ierr)
    call quo_world_array(w, "plate", plate, ierr)
    call need(ierr)
    do j = lbound(plate, 2), ubound(plate, 2)
      do i = lbound(plate, 1), ubound(plate, 1)
        call visit_cell(plate(i, j), cell(part%first_row + i, part%first_column + j, 1_c_size_t))
      end do
    end do
    call quo_world_array_part(w, "box", part, ierr)
    call need(ierr)
    call quo_world_array(w, "box", box, ierr)
    call need(ierr)
    do k = lbound(box, 3), ubound(box, 3)
      do j = lbound(box, 2), ubound(box, 2)
        do i = lbound(box, 1), ubound(box, 1)
          call visit_cell(box(i, j, k), &
            cell(part%first_row + i, part%first_column + j, part%first_layer + k))
        end do
      end do
    end do
  contains
    subroutine visit_cell(found, right)
      real(c_double), intent(inout) :: found
      real(c_double), intent(in) :: right
      if (fills) found = right
      if (abs(found - right) > 0) wrong = wrong + 1
    end subroutine visit_cell
  end subroutine visit

  integer(c_int) function step(w, data) bind(c)
    type(c_ptr), value :: w, data
    integer(c_int) :: ierr, ranks, rank
    integer(c_int), pointer :: integers(:)
    integer(c_long_long) :: request
    step = 1
    if (c_associated(data)) continue ! not needed here
    call quo_world_size(w, ranks, ierr)
    call need(ierr)
    call quo_world_rank(w, rank, ierr)
    call need(ierr)
    call quo_world_exchange_halo(w, "plate", ierr)
    call need(ierr)
    call quo_world_exchange_halo_begin(w, "box", ierr)
    call need(ierr)
    call quo_world_exchange_halo_end(w, "box", ierr)
    call need(ierr)
    call visit(w, .false.)
    call quo_world_array(w, "plate", integers, ierr)
    if (ierr /= QUO_ERR_INVLD_ARG .or. associated(integers)) wrong = wrong + 1
    call quo_world_array_swap(w, "plate", "other", ierr)
    call need(ierr)
    call quo_world_array_swap(w, "plate", "other", ierr)
    call need(ierr)
    call quo_world_exchange_halo_end(w, "box", ierr)
    if (ierr /= QUO_ERR_STATE) wrong = wrong + 1
    now(1) = now(1) + 1
    if (ranks == SIZES(now(2))) then
      if (rank == 0) print '(a,i0,a)', "step with ", ranks, " ranks"
      now(2) = now(2) + 1
      if (now(2) > size(SIZES)) then
        step = 0
        return
      end if
    end if
    if (rank == 0 .and. asked /= now(2)) then
      asked = now(2)
      call quo_world_request(w, SIZES(asked), request, ierr)
      call need(ierr)
    end if
  end function step
end module plates

program elastic_halo
  use, intrinsic :: iso_c_binding
  use mpi
  use plates
  implicit none

  type(quo_world_options_t) :: options
  type(c_ptr) :: w
  integer(c_int) :: ierr, status
  integer :: all, rank

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  options%initial_ranks = 2
  call quo_world_create(w, options, ierr)
  call need(ierr)
  call quo_world_status(w, status, ierr)
  call need(ierr)
  if (status == QUO_WORLD_NEW) call add_arrays(w)
  call quo_world_run(w, c_funloc(step), c_null_ptr, c_loc(now), c_sizeof(now), ierr)
  call need(ierr)
  call quo_world_end(w, ierr)
  call need(ierr)
  call MPI_Reduce(wrong, all, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. all == 0) print '(a)', "ok"
  if (rank == 0 .and. all /= 0) print '(i0,a)', all, " wrong"
  call MPI_Finalize(ierr)
end program elastic_halo
