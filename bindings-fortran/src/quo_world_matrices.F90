!> Sparse matrices of the elastic world, whose rows follow its ranks, and their vectors.
module quo_world_matrices
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_f_pointer, c_int, c_loc, c_null_ptr, c_ptr, c_size_t, c_sizeof
  use quo_constants, only: QUO_ERR_INVLD_ARG, QUO_SUCCESS
  use quo_elastic_c
  use quo_elastic_types, only: quo_matrix_part_t
  use quo_text, only: out_of_memory, refuse, sentence, to_c
  implicit none
  private

  !> This rank's rows of a matrix: as addresses, or as arrays of numbers.
  interface quo_world_matrix
    module procedure quo_world_matrix
    module procedure quo_world_matrix_double
  end interface quo_world_matrix

  !> Adds a square sparse matrix in compressed rows (CSR), of which each rank gives its rows.
  interface quo_world_matrix_add
    module procedure quo_world_matrix_add
    module procedure quo_world_matrix_add_int
  end interface quo_world_matrix_add

  public :: quo_world_matrix_add, quo_world_vector_add, quo_world_matrix

contains

  !> Adds a square sparse matrix in compressed rows (CSR). Rank i has the rows after the first i * each, where each is
  !> the number of rows divided by that of ranks, rounded up. Local; made by all ranks in the same order.
  subroutine quo_world_matrix_add(w, name, rows, pointers, columns, values, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The matrix.
    character(len=*, kind=c_char), intent(in) :: name
    !> Number of rows of the whole matrix, and of its columns.
    integer(c_size_t), value :: rows
    !> Beginning of the elements of each row of this rank, and the end of the last one's, from 1; or from 0 if columns
    !> count from 0 too.
    integer(c_size_t), contiguous, intent(in) :: pointers(:)
    !> Column of each element, numbered as in the whole matrix; more columns than elements are ignored.
    integer(c_size_t), contiguous, intent(in) :: columns(:)
    !> Value of each element; more values are ignored.
    real(c_double), contiguous, target, intent(in) :: values(:)
    !> `QUO_ERR_INVLD_ARG`, also for fewer columns or values than elements, `QUO_ERR_OOR`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    type(c_ptr) :: place
    type(sentence) :: why
    integer(c_size_t) :: elements
    elements = -1
    if (size(pointers) > 0) elements = pointers(size(pointers)) - pointers(1)
    if (elements < 0 .or. min(size(columns, kind=c_size_t), size(values, kind=c_size_t)) < elements) then
      call why%say("quo_world_matrix_add: pointers are those of ")
      call why%number(max(elements, 0_c_size_t))
      call why%say(" elements; ")
      call why%number(size(columns, kind=c_size_t))
      call why%say(" columns and ")
      call why%number(size(values, kind=c_size_t))
      call why%say(" values were given")
      ierr = refuse(why)
      return
    end if
    place = c_null_ptr
    if (size(values, kind=c_size_t) > 0) place = c_loc(values)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_matrix_add(w, bytes, 8_c_size_t, rows, size(pointers, kind=c_size_t) - 1_c_size_t, &
        pointers, columns, place)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_matrix_add

  !> As [[quo_world_matrix_add]], for rows and columns of `integer(c_int)`.
  subroutine quo_world_matrix_add_int(w, name, rows, pointers, columns, values, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The matrix.
    character(len=*, kind=c_char), intent(in) :: name
    !> As there.
    integer(c_int), value :: rows
    !> As there.
    integer(c_size_t), contiguous, intent(in) :: pointers(:)
    !> As there.
    integer(c_int), intent(in) :: columns(:)
    !> As there.
    real(c_double), contiguous, target, intent(in) :: values(:)
    !> As there.
    integer(c_int), intent(out) :: ierr
    call quo_world_matrix_add(w, name, int(rows, c_size_t), pointers, int(columns, c_size_t), &
      values, ierr)
  end subroutine quo_world_matrix_add_int

  !> Adds a vector of zeros with an element for each row of a matrix. `quo_world_array` gives this rank's part: the
  !> elements of its rows, and after them its ghosts, which `quo_world_exchange_halo` fills. Local; made alike by all
  !> ranks.
  subroutine quo_world_vector_add(w, name, matrix, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The vector, of `real(c_double)`.
    character(len=*, kind=c_char), intent(in) :: name
    !> The matrix.
    character(len=*, kind=c_char), intent(in) :: matrix
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_NOT_FOUND`, `QUO_ERR_OOR`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:), matrix_bytes(:)
    call to_c(name, bytes)
    call to_c(matrix, matrix_bytes)
    if (allocated(bytes) .and. allocated(matrix_bytes)) then
      ierr = c_world_vector_add(w, bytes, 8_c_size_t, matrix_bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_vector_add

  !> This rank's rows of a matrix. Local.
  subroutine quo_world_matrix(w, name, part, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The matrix.
    character(len=*, kind=c_char), intent(in) :: name
    !> The rows, until the next commit.
    type(quo_matrix_part_t), target, intent(out) :: part
    !> `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    part%size = c_sizeof(part)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_matrix(w, bytes, c_loc(part))
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_matrix

  !> As [[quo_world_matrix]], as arrays of numbers.
  subroutine quo_world_matrix_double(w, name, pointers, columns, values, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The matrix.
    character(len=*, kind=c_char), intent(in) :: name
    !> Beginning of the elements of each row, and the end of the last one's, until the next commit.
    integer(c_size_t), pointer, intent(out) :: pointers(:)
    !> Column of each element, as index in this rank's part of a vector of the matrix.
    integer(c_int), pointer, intent(out) :: columns(:)
    !> Value of each element.
    real(c_double), pointer, intent(out) :: values(:)
    !> `QUO_ERR_NOT_FOUND`; `QUO_ERR_INVLD_ARG` if its values have another size.
    integer(c_int), intent(out) :: ierr
    type(quo_matrix_part_t) :: part
    integer(c_size_t) :: elements
    nullify (pointers, columns, values)
    call quo_world_matrix(w, name, part, ierr)
    if (ierr /= QUO_SUCCESS) return
    if (part%element /= c_sizeof(1.0_c_double)) then
      ierr = QUO_ERR_INVLD_ARG
      return
    end if
    call c_f_pointer(part%pointers, pointers, [part%rows + 1_c_size_t])
    elements = pointers(size(pointers)) - pointers(1)
    call c_f_pointer(part%columns, columns, [elements])
    call c_f_pointer(part%values, values, [elements])
  end subroutine quo_world_matrix_double
end module quo_world_matrices
