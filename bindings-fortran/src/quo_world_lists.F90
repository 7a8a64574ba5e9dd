!> Lists of items of the elastic world, such as particles, of which each rank holds any number.
module quo_world_lists
  use, intrinsic :: iso_c_binding, only: c_char, c_funptr, c_int, c_null_ptr, c_ptr, c_size_t
  use quo_elastic_c
  use quo_text, only: out_of_memory, to_c
  implicit none
  private

  public :: quo_world_items_add, quo_world_items_add_with_owners
  public :: quo_world_items, quo_world_items_resize, quo_world_migrate

contains

  !> Adds a list of items, of which each rank holds any number, none at first. Each commit moves the items to their
  !> owners among the new ranks. Local; all processes that can be ranks make the same call, also parked ones.
  subroutine quo_world_items_add(w, name, element, owner, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The list.
    character(len=*, kind=c_char), intent(in) :: name
    !> Bytes of an item.
    integer(c_size_t), value :: element
    !> A `QUO_owner_t`, a `bind(c)` function of the data, the address of an item and the number of ranks: the rank
    !> that the item belongs to.
    type(c_funptr), value :: owner
    !> Passed to it.
    type(c_ptr), value :: data
    !> `QUO_ERR_INVLD_ARG`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_items_add(w, bytes, element, owner, data)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_items_add

  !> Adds a list of items as [[quo_world_items_add]], with a function that sets the owners of all items of this rank in
  !> one call. Local; all processes that can be ranks make the same call, also parked ones.
  subroutine quo_world_items_add_with_owners(w, name, element, owners, data, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The list.
    character(len=*, kind=c_char), intent(in) :: name
    !> Bytes of an item.
    integer(c_size_t), value :: element
    !> A `QUO_owners_t`, a `bind(c)` function of the data, the address of the items, their number, the number of ranks
    !> and the owners to set, which returns 0.
    type(c_funptr), value :: owners
    !> Passed to it.
    type(c_ptr), value :: data
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_items_add_with_owners(w, bytes, element, owners, data)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_items_add_with_owners

  !> The items of this rank. Local.
  subroutine quo_world_items(w, name, items, count, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The list.
    character(len=*, kind=c_char), intent(in) :: name
    !> The first one's address, for `c_f_pointer`, until the next migration, commit or change of their number.
    type(c_ptr), intent(out) :: items
    !> Number of items.
    integer(c_size_t), intent(out) :: count
    !> `QUO_ERR_NOT_FOUND`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    items = c_null_ptr
    count = 0
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_items(w, bytes, items, count)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_items

  !> Sets the number of items of this rank: the first ones stay, new ones are zero. Local.
  subroutine quo_world_items_resize(w, name, count, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The list.
    character(len=*, kind=c_char), intent(in) :: name
    !> Number of items.
    integer(c_size_t), value :: count
    !> `QUO_ERR_NOT_FOUND`, `QUO_ERR_OOR`, `QUO_ERR_STATE`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_items_resize(w, bytes, count)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_items_resize

  !> Moves each item of a list to its owner. Collective over the world.
  subroutine quo_world_migrate(w, name, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The list.
    character(len=*, kind=c_char), intent(in) :: name
    !> On all ranks `QUO_ERR_INVLD_ARG` for an owner that is no rank, `QUO_ERR_DISAGREE` for items of different sizes,
    !> `QUO_ERR_OOR`; `QUO_ERR_NOT_FOUND`, `QUO_ERR_STATE`, `QUO_ERR_DEAD_MEMBER`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_world_migrate(w, bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_migrate
end module quo_world_lists
