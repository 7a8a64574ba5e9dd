!> Arrays of the elastic world, which follow its ranks. Offsets, rows and columns count from 0, as in C.
module quo_world_arrays
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_f_pointer, c_funptr, c_int, c_loc, c_null_ptr, c_ptr, c_size_t, c_sizeof
  use quo_constants, only: QUO_SUCCESS
  use quo_elastic_c
  use quo_elastic_types, only: quo_array_part_t, quo_array_spec_t, quo_move_metrics_t
  use quo_text, only: out_of_memory, refuse, sentence, to_c
  implicit none
  private

  !> This rank's part of an array: its address, as an array of numbers in the order of storage, or, with two or three
  !> dimensions, as cells with ghost cells around them: those of the block count from 1, ghost cells before it are
  !> at 0 and below.
  interface quo_world_array
    module procedure quo_world_array
    module procedure quo_world_array_double
    module procedure quo_world_array_int
    module procedure quo_world_array_cells
    module procedure quo_world_array_cells_in_layers
  end interface quo_world_array

  public :: quo_world_array_add, quo_world_array, quo_world_array_origin, &
    quo_world_array_add_compressed, quo_world_array_lines, &
    quo_world_array_part, quo_world_exchange_halo, quo_world_exchange_halo_begin, &
    quo_world_exchange_halo_end, quo_world_array_swap, &
    quo_world_array_lay_out, quo_world_array_remove, quo_world_carry, quo_carry_give, &
    quo_world_last_move

contains

  !> Adds an array of zeros to the world, which is moved with every commit. Local; made alike by all ranks.
  subroutine quo_world_array_add(w, name, spec, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> Kind and sizes of the array.
    type(quo_array_spec_t), intent(in) :: spec
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_OOR`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_add(w, bytes, in_c(spec))
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_add

  !> This rank's part of an array. Local.
  subroutine quo_world_array(w, name, data, rows, columns, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> The part, until the next commit.
    type(c_ptr), intent(out) :: data
    !> Its rows.
    integer(c_size_t), intent(out) :: rows
    !> Its columns, or the elements of a vector.
    integer(c_size_t), intent(out) :: columns
    !> `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    data = c_null_ptr
    rows = 0
    columns = 0
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array(w, bytes, data, rows, columns)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array

  !> As [[quo_world_array]], for numbers.
  subroutine quo_world_array_double(w, name, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> The numbers, until the next commit.
    real(c_double), pointer, intent(out) :: data(:)
    !> As there.
    integer(c_int), intent(out) :: ierr
    type(quo_array_part_t) :: part
    nullify (data)
    call part_of_numbers(w, name, c_sizeof(1.0_c_double), part, ierr)
    if (ierr /= QUO_SUCCESS) return
    call c_f_pointer(part%data, data, [part%all_layers * part%all_rows * part%all_columns])
  end subroutine quo_world_array_double

  !> As [[quo_world_array]], for numbers.
  subroutine quo_world_array_int(w, name, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> The numbers, until the next commit.
    integer(c_int), pointer, intent(out) :: data(:)
    !> As there.
    integer(c_int), intent(out) :: ierr
    type(quo_array_part_t) :: part
    nullify (data)
    call part_of_numbers(w, name, c_sizeof(1_c_int), part, ierr)
    if (ierr /= QUO_SUCCESS) return
    call c_f_pointer(part%data, data, [part%all_layers * part%all_rows * part%all_columns])
  end subroutine quo_world_array_int

  !> As [[quo_world_array]], for the cells of a matrix that is stored by columns, with its ghost cells.
  subroutine quo_world_array_cells(w, name, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> Rows and columns, until the next commit or swap.
    real(c_double), pointer, intent(out) :: data(:, :)
    !> As there.
    integer(c_int), intent(out) :: ierr
    type(quo_array_part_t) :: part
    real(c_double), pointer :: flat(:)
    nullify (data)
    call part_of_numbers(w, name, c_sizeof(1.0_c_double), part, ierr)
    if (ierr /= QUO_SUCCESS) return
    call c_f_pointer(part%data, flat, [part%all_layers * part%all_rows * part%all_columns])
    data(1 - part%before_rows:part%all_rows - part%before_rows, &
      1 - part%before_columns:part%all_layers * part%all_columns - part%before_columns) => flat
  end subroutine quo_world_array_cells

  !> As [[quo_world_array]], for the cells of an array of layers that is stored by columns, with its ghost cells.
  subroutine quo_world_array_cells_in_layers(w, name, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> Rows, columns and layers, until the next commit or swap.
    real(c_double), pointer, intent(out) :: data(:, :, :)
    !> As there.
    integer(c_int), intent(out) :: ierr
    type(quo_array_part_t) :: part
    real(c_double), pointer :: flat(:)
    nullify (data)
    call part_of_numbers(w, name, c_sizeof(1.0_c_double), part, ierr)
    if (ierr /= QUO_SUCCESS) return
    call c_f_pointer(part%data, flat, [part%all_layers * part%all_rows * part%all_columns])
    data(1 - part%before_rows:part%all_rows - part%before_rows, &
      1 - part%before_columns:part%all_columns - part%before_columns, &
      1 - part%before_layers:part%all_layers - part%before_layers) => flat
  end subroutine quo_world_array_cells_in_layers

  !> The part of an array whose elements have a number of bytes.
  subroutine part_of_numbers(w, name, element, part, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> Bytes of an element of the caller's type.
    integer(c_size_t), intent(in) :: element
    !> The part, until the next commit or swap.
    type(quo_array_part_t), intent(out) :: part
    !> `QUO_ERR_NOT_FOUND`; `QUO_ERR_INVLD_ARG` if the elements have another size.
    integer(c_int), intent(out) :: ierr
    type(sentence) :: why
    call quo_world_array_part(w, name, part, ierr)
    if (ierr /= QUO_SUCCESS .or. part%element == element) return
    call why%say("quo_world_array: elements of ")
    call why%say(name)
    call why%say(" have ")
    call why%number(part%element)
    call why%say(" bytes, those of the pointer ")
    call why%number(element)
    ierr = refuse(why)
  end subroutine part_of_numbers

  !> This rank's part of an array with its place in the whole array and its ghost cells. Local.
  subroutine quo_world_array_part(w, name, part, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> The part, until the next commit or swap.
    type(quo_array_part_t), target, intent(out) :: part
    !> `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    part%size = c_sizeof(part)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_part(w, bytes, c_loc(part))
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_part

  !> Fills the ghost cells of an array with the cells of the ranks that own them. Collective over the world.
  subroutine quo_world_exchange_halo(w, name, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> `QUO_ERR_NOT_FOUND`, `QUO_ERR_STATE`, `QUO_ERR_DEAD_MEMBER`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_exchange_halo(w, bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_exchange_halo

  !> Begins an exchange as [[quo_world_exchange_halo]]: sends the cells as they are now. Collective over the world.
  subroutine quo_world_exchange_halo_begin(w, name, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> `QUO_ERR_NOT_FOUND`, `QUO_ERR_STATE`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_exchange_halo_begin(w, bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_exchange_halo_begin

  !> Ends an exchange that has begun: the ghost cells are filled. Collective over the world.
  subroutine quo_world_exchange_halo_end(w, name, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> `QUO_ERR_NOT_FOUND`, `QUO_ERR_STATE`, `QUO_ERR_DEAD_MEMBER`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_exchange_halo_end(w, bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_exchange_halo_end

  !> Swaps the elements of two arrays of the same distribution, without a copy. Local; made alike by all ranks.
  subroutine quo_world_array_swap(w, name, other, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> An array.
    character(len=*, kind=c_char), intent(in) :: name
    !> Another array.
    character(len=*, kind=c_char), intent(in) :: other
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_NOT_FOUND`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:), other_bytes(:)
    call to_c(name, bytes)
    call to_c(other, other_bytes)
    if (allocated(bytes) .and. allocated(other_bytes)) then
      ierr = c_world_array_swap(w, bytes, other_bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_swap

  !> Which element of the whole array a place in this rank's part is. Local.
  subroutine quo_world_array_origin(w, name, offset, row, column, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> The place, from 0.
    integer(c_size_t), value :: offset
    !> Its row, from 0.
    integer(c_size_t), intent(out) :: row
    !> Its column, from 0.
    integer(c_size_t), intent(out) :: column
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    row = 0
    column = 0
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_origin(w, bytes, offset, row, column)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_origin

  !> Sets the distribution of an array from the next resize on. Local; called alike by all ranks.
  subroutine quo_world_array_lay_out(w, name, spec, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> Kind and sizes of the array.
    type(quo_array_spec_t), intent(in) :: spec
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_lay_out(w, bytes, in_c(spec))
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_lay_out

  !> Adds an array of zeros with an element for each nonzero of a sparse matrix in compressed rows (CSR) or columns
  !> (CSC): its values, or the indices of their columns or rows. Local; made alike by all ranks.
  subroutine quo_world_array_add_compressed(w, name, element, pointers, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> Bytes of an element.
    integer(c_size_t), value :: element
    !> Where the nonzeros of each line of the whole matrix begin, from 0, and at the end how many there are.
    integer(c_size_t), contiguous, intent(in) :: pointers(:)
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_OOR`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_add_compressed(w, bytes, element, size(pointers, kind=c_size_t) - 1_c_size_t, pointers)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_add_compressed

  !> The lines of a sparse matrix of which this rank has the nonzeros. Local.
  subroutine quo_world_array_lines(w, name, first, pointers, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> The first line, from 0.
    integer(c_size_t), intent(out) :: first
    !> Where they begin in the whole matrix, from 0, and the end of the last one, until the next commit.
    integer(c_size_t), pointer, intent(out) :: pointers(:)
    !> `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    integer(c_size_t) :: lines
    type(c_ptr) :: place
    nullify (pointers)
    first = 0
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_lines(w, bytes, first, lines, place)
      if (ierr == QUO_SUCCESS) call c_f_pointer(place, pointers, [lines + 1_c_size_t])
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_lines

  !> Removes an array or callbacks. Local; called alike by all.
  subroutine quo_world_array_remove(w, name, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_array_remove(w, bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_array_remove

  !> Has data of the program's own kind moved by procedures with the interfaces of quo-elastic.h. Local; made alike
  !> by all processes that can be ranks.
  subroutine quo_world_carry(w, name, give, take, end_transfer, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The array.
    character(len=*, kind=c_char), intent(in) :: name
    !> A `QUO_carry_give_t`, or `c_null_funptr`.
    type(c_funptr), value :: give
    !> A `QUO_carry_take_t`, or `c_null_funptr`.
    type(c_funptr), value :: take
    !> A `QUO_carry_end_transfer_t`, or `c_null_funptr`.
    type(c_funptr), value :: end_transfer
    !> Passed to them.
    type(c_ptr), value :: data
    !> `QUO_ERR_INVLD_ARG`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    type(c_carry) :: callbacks
    callbacks%size = c_sizeof(callbacks)
    callbacks%give = give
    callbacks%take = take
    callbacks%end_transfer = end_transfer
    callbacks%data = data
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_carry(w, bytes, callbacks)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_carry

  !> In the callback that gives: gives a new rank some bytes, which are copied.
  subroutine quo_carry_give(new_rank, data, length, ierr)
    !> The rank.
    integer(c_int), value :: new_rank
    !> The bytes.
    type(c_ptr), value :: data
    !> Number of bytes.
    integer(c_size_t), value :: length
    !> `QUO_ERR_STATE` outside of it.
    integer(c_int), intent(out) :: ierr
    ierr = c_carry_give(new_rank, data, length)
  end subroutine quo_carry_give

  !> Result of the last committed move of arrays. Local.
  subroutine quo_world_last_move(w, metrics, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The numbers; all zero before the first.
    type(quo_move_metrics_t), target, intent(out) :: metrics
    !> `QUO_ERR_NOT_FOUND` before the first.
    integer(c_int), intent(out) :: ierr
    metrics%size = c_sizeof(metrics)
    ierr = c_world_last_move(w, c_loc(metrics))
  end subroutine quo_world_last_move

  pure function in_c(spec) result(given)
    type(quo_array_spec_t), intent(in) :: spec
    type(c_array_spec) :: given
    given%size = c_sizeof(given)
    given%kind = spec%kind
    given%storage = spec%storage
    given%element = spec%element
    given%rows = spec%rows
    given%columns = spec%columns
    given%block_rows = spec%block_rows
    given%block_columns = spec%block_columns
    given%grid_rows = spec%grid_rows
    given%grid_columns = spec%grid_columns
    given%layers = spec%layers
    given%grid_layers = spec%grid_layers
    given%halo_layers = [spec%halo_layers%before, spec%halo_layers%after, spec%halo_layers%periodic]
    given%halo_rows = [spec%halo_rows%before, spec%halo_rows%after, spec%halo_rows%periodic]
    given%halo_columns = &
      [spec%halo_columns%before, spec%halo_columns%after, spec%halo_columns%periodic]
  end function in_c
end module quo_world_arrays
