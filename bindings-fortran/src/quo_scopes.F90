!> Scopes: parts of the hardware for components that run at the same time.
module quo_scopes
  use, intrinsic :: iso_c_binding, only: c_int, c_null_ptr, c_ptr
  implicit none
  private

  public :: quo_split_by_count, quo_split_by_device, quo_split_by_weight

  interface
    function c_split_by_weight(q, type, nparts, weights, part, out_scope) result(ierr) &
      bind(c, name="QUO_split_by_weight")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: type
      integer(c_int), value :: nparts
      integer(c_int), intent(in) :: weights(*)
      integer(c_int), value :: part
      type(c_ptr), intent(inout) :: out_scope
      integer(c_int) :: ierr
    end function c_split_by_weight

    function c_split_by_count(q, type, nparts, counts, part, out_scope) result(ierr) &
      bind(c, name="QUO_split_by_count")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: type
      integer(c_int), value :: nparts
      integer(c_int), intent(in) :: counts(*)
      integer(c_int), value :: part
      type(c_ptr), intent(inout) :: out_scope
      integer(c_int) :: ierr
    end function c_split_by_count

    function c_split_by_device(q, type, kind, index, out_scope) result(ierr) &
      bind(c, name="QUO_split_by_device")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: type
      integer(c_int), value :: kind
      integer(c_int), value :: index
      type(c_ptr), intent(inout) :: out_scope
      integer(c_int) :: ierr
    end function c_split_by_device
  end interface

contains

  !> Splits the hardware of each node in proportion to weights, and makes a context of the ranks that
  !> name the same part, confined to it: a scope. Parts are disjoint, of whole objects, and together
  !> all that the ranks of the node may use. The rank is bound inside its part until the scope is
  !> freed. A scope is a context: all procedures take it, wait for its ranks and know its hardware
  !> only. Free scopes before the ranks of the context change. Collective over the context.
  subroutine quo_split_by_weight(q, obj_type, weights, part, scope, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Type of the objects that are not cut; the same on every rank.
    integer(c_int), value :: obj_type
    !> Weights of the parts, at least 1; the same on every rank.
    integer(c_int), contiguous, intent(in) :: weights(:)
    !> The caller's part, from 0.
    integer(c_int), value :: part
    !> The scope, to be freed with `quo_free`.
    type(c_ptr), intent(out) :: scope
    !> `QUO_ERR_INVLD_ARG` when an argument is out of range on some rank or some node has fewer
    !> objects than parts, `QUO_ERR_NOT_FOUND` when the machine has no object of the type,
    !> `QUO_ERR_DISAGREE` when the ranks gave different splits.
    integer(c_int), intent(out) :: ierr
    scope = c_null_ptr
    ierr = c_split_by_weight(q, obj_type, size(weights, kind=c_int), weights, part, scope)
  end subroutine quo_split_by_weight

  !> As [[quo_split_by_weight]], with a number of objects for each part; what is left over belongs to
  !> no part. Collective over the context.
  subroutine quo_split_by_count(q, obj_type, counts, part, scope, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Type of the objects; the same on every rank.
    integer(c_int), value :: obj_type
    !> Number of objects of each part, at least 1; the same on every rank.
    integer(c_int), contiguous, intent(in) :: counts(:)
    !> The caller's part, from 0.
    integer(c_int), value :: part
    !> The scope, to be freed with `quo_free`.
    type(c_ptr), intent(out) :: scope
    !> As for [[quo_split_by_weight]].
    integer(c_int), intent(out) :: ierr
    scope = c_null_ptr
    ierr = c_split_by_count(q, obj_type, size(counts, kind=c_int), counts, part, scope)
  end subroutine quo_split_by_count

  !> As [[quo_split_by_weight]], with a part for each device that some rank of the node names: the
  !> objects near it. What several of these devices are near is dealt out among them, what none is
  !> near belongs to no part. Collective over the context.
  subroutine quo_split_by_device(q, obj_type, kind, index, scope, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Type of the objects that are not cut; the same on every rank.
    integer(c_int), value :: obj_type
    !> One of `QUO_DEVICE_...`; the same on every rank.
    integer(c_int), value :: kind
    !> The caller's device, from 0 to `quo_ndevices` - 1; `quo_assign_device` finds one.
    integer(c_int), value :: index
    !> The scope, to be freed with `quo_free`.
    type(c_ptr), intent(out) :: scope
    !> As for [[quo_split_by_weight]], and `QUO_ERR_INVLD_ARG` when a device has no object near it
    !> that the ranks may use.
    integer(c_int), intent(out) :: ierr
    scope = c_null_ptr
    ierr = c_split_by_device(q, obj_type, kind, index, scope)
  end subroutine quo_split_by_device
end module quo_scopes
