!> Memory on the NUMA nodes of bindings. All procedures are local.
module quo_memory_policy
  use, intrinsic :: iso_c_binding, only: c_int, c_long_long, c_ptr, c_size_t
  implicit none
  private

  public :: quo_memory_on_node, quo_memory_place, quo_set_memory_policy

  interface
    function c_set_memory_policy(q, policy) result(ierr) bind(c, name="QUO_set_memory_policy")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: policy
      integer(c_int) :: ierr
    end function c_set_memory_policy

    function c_memory_place(q, memory, bytes, type, obj_index, policy) result(ierr) &
      bind(c, name="QUO_memory_place")
      import :: c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: q
      type(c_ptr), value :: memory
      integer(c_size_t), value :: bytes
      integer(c_int), value :: type
      integer(c_int), value :: obj_index
      integer(c_int), value :: policy
      integer(c_int) :: ierr
    end function c_memory_place

    function c_memory_on_node(q, memory, bytes, numanode, out_bytes) result(ierr) &
      bind(c, name="QUO_memory_on_node")
      import :: c_int, c_long_long, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: q
      type(c_ptr), value :: memory
      integer(c_size_t), value :: bytes
      integer(c_int), value :: numanode
      integer(c_long_long), intent(inout) :: out_bytes
      integer(c_int) :: ierr
    end function c_memory_on_node
  end interface

contains

  !> Applies a memory policy to the caller's later pushes and phases: pages that the calling thread
  !> writes first come from the NUMA nodes of the pushed CPUs. Local; called by the thread that
  !> pushes.
  subroutine quo_set_memory_policy(q, policy, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_MEMORY_KEEP`, which ends it, `_FOLLOW`, `_BIND` or `_INTERLEAVE`.
    integer(c_int), value :: policy
    !> `QUO_ERR_NOT_SUPPORTED` on a simulated machine, `QUO_ERR_SYS` when the kernel refuses.
    integer(c_int), intent(out) :: ierr
    ierr = c_set_memory_policy(q, policy)
  end subroutine quo_set_memory_policy

  !> Places memory on the NUMA nodes of an object: existing pages move, others are allocated there
  !> when they are first written. Local.
  subroutine quo_memory_place(q, memory, bytes, type, obj_index, policy, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> The memory: `c_loc` of an array.
    type(c_ptr), value :: memory
    !> Its length in bytes.
    integer(c_size_t), value :: bytes
    !> Type of the object.
    integer(c_int), value :: type
    !> Index of the object, from 0.
    integer(c_int), value :: obj_index
    !> `QUO_MEMORY_FOLLOW`, `_BIND` or `_INTERLEAVE`.
    integer(c_int), value :: policy
    !> `QUO_ERR_INVLD_ARG`, `QUO_ERR_NOT_SUPPORTED` on a simulated machine, `QUO_ERR_SYS` when the
    !> kernel refuses, or some pages could not move.
    integer(c_int), intent(out) :: ierr
    ierr = c_memory_place(q, memory, bytes, type, obj_index, policy)
  end subroutine quo_memory_place

  !> Asks the kernel for the bytes of memory that are on a NUMA node. Local.
  subroutine quo_memory_on_node(q, memory, bytes, numanode, found, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> The memory: `c_loc` of an array.
    type(c_ptr), value :: memory
    !> Its length in bytes.
    integer(c_size_t), value :: bytes
    !> Index of the node, from 0, or `QUO_MEMORY_ABSENT` for bytes that have no page.
    integer(c_int), value :: numanode
    !> The bytes.
    integer(c_long_long), intent(out) :: found
    !> As [[quo_memory_place]].
    integer(c_int), intent(out) :: ierr
    found = 0
    ierr = c_memory_on_node(q, memory, bytes, numanode, found)
  end subroutine quo_memory_on_node
end module quo_memory_policy
